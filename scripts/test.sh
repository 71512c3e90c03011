#!/usr/bin/env bash
# Every check of the project, in order: `scripts/test.sh`, or only the steps
# named: `scripts/test.sh tidy tests`. Goes on after a failure, so one run shows
# all of them; exits 0 only if every step passed.
#
# Ends with what was skipped and why, then one line:
#     N passed, N failed, N skipped
# summed over the result lines of `cargo test`, and of pytest in that form. A step that fails without a
# failing test counts as one failure. A test that finds out at run time that it
# can not run here appends "SKIPPED: name: reason" to the file that
# BAREWIRE_SKIP_LOG names; it counts as skipped and not as passed. So does a step,
# with "SKIPPED: step name: reason".
set -uo pipefail
. "$(dirname "$0")/toolchain.sh"
cd "$BAREWIRE_ROOT" || exit 1
if [ -z "$CARGO_FOUND" ]; then
    echo "no Rust >= $RUST_VERSION_MIN found; run scripts/setup.sh" >&2
    exit 1
fi

# Model checking: what cargo is told, and the cfg that turns loom on.
MODEL_ARGS=(test --release -p barewire-fabric --test loom)
MODEL_RUSTFLAGS="--cfg barewire_loom"

target=${CARGO_TARGET_DIR:-$BAREWIRE_ROOT/target}
logs=$target/test-logs
mkdir -p "$logs" || exit 1
export BAREWIRE_SKIP_LOG=$logs/skipped.txt
: >"$BAREWIRE_SKIP_LOG"
rm -f "$logs"/*.log

locked=()
if [ "${CI:-}" = true ]; then
    export CARGO_TERM_COLOR=never CARGO_TERM_PROGRESS_WHEN=never
    # Nothing may ask, and the versions are those that were committed.
    exec </dev/null
    [ ! -f Cargo.lock ] || locked=(--locked)
fi

passed=0 failed=0 ignored=0
failed_steps=()
only=("$@")
known_steps=()

# add_results LOG: adds the result lines of cargo test in LOG to the sums, and
# sets `results` to how many tests they speak of, `failures` to how many failed.
add_results() {
    local sums
    sums=$(sed -n 's/^test result: [a-zA-Z]*\. \([0-9]*\) passed; \([0-9]*\) failed; \([0-9]*\) ignored;.*/\1 \2 \3/p' "$1" |
        awk '{ p += $1; f += $2; i += $3 } END { print p + 0, f + 0, i + 0 }')
    local p f i
    read -r p f i <<<"$sums"
    passed=$((passed + p)) failed=$((failed + f)) ignored=$((ignored + i))
    results=$((p + f)) failures=$f
}

# what_failed NAME LOG: prints which tests of a step failed and what they said, or how the step ended if none did.
# Who reads only the end of a long output still learns why.
what_failed() {
    local told
    # A test of cargo's tells what it said under "---- NAME stdout ----". A program of tests that was killed has an
    # error of cargo's alone, and pytest's summary has its own lines.
    told=$(awk '/^---- .* stdout ----$/ { lines = 15 } lines > 0 { print "  " $0; lines--; next }
        /^error: test failed/ || /signal: / || /: still running after / || /^FAILED / { print "  " $0 }' "$2" | cut -c1-500 | head -n 120)
    [ -n "$told" ] || told=$(tail -n 15 "$2" | cut -c1-500 | sed 's/^/  /')
    printf 'failed in %s:\n%s\n' "$1" "$told"
}

# step NAME KIND COMMAND...: runs one step. KIND is `tests` if its output has
# result lines, of which there must be some unless it was skipped, else `check`.
step() {
    local name=$1 kind=$2 log=$logs/$1.log status started=$SECONDS results=0 failures=0
    shift 2
    known_steps+=("$name")
    if [ ${#only[@]} -gt 0 ] && [[ " ${only[*]} " != *" $name "* ]]; then
        return
    fi
    echo
    echo "=== $name: $*"
    "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    if [ "$kind" = tests ]; then
        add_results "$log"
        if [ "$status" = 0 ] && [ "$results" = 0 ] && ! grep -q "^SKIPPED: step $name:" "$log"; then
            echo "$name: no test ran" >&2
            status=1
        fi
    fi
    if [ "$status" != 0 ]; then
        failed_steps+=("$name")
        [ "$failures" -gt 0 ] || failed=$((failed + 1))
        echo "=== $name: FAILED after $((SECONDS - started)) s"
    else
        echo "=== $name: ok, $((SECONDS - started)) s"
    fi
}

model_check() {
    # Its own folder, so that the cfg does not throw away the other builds; no
    # link-time optimization, which costs more here than it saves.
    CARGO_TARGET_DIR=$target/model CARGO_PROFILE_RELEASE_LTO=off \
        RUSTFLAGS="${RUSTFLAGS:-} $MODEL_RUSTFLAGS" \
        cargo "${MODEL_ARGS[@]}" ${locked[@]+"${locked[@]}"}
}

# run_clippy: what is an error stands in Cargo.toml, and is the same for every clippy.
# Warnings differ from one to the next; with the one that LINT_RUST names (CI does)
# they fail too.
run_clippy() {
    local deny=()
    if [ -n "${LINT_RUST:-}" ]; then
        if [[ $(cargo --version) == "cargo $LINT_RUST."* ]]; then
            deny=(-- -D warnings)
        else
            echo "warnings do not fail: this is $(cargo clippy --version), and they are looked at with Rust $LINT_RUST"
        fi
    fi
    cargo clippy ${locked[@]+"${locked[@]}"} --workspace --all-targets ${deny[@]+"${deny[@]}"}
}

build_docs() {
    # As with clippy: a link that leads nowhere is a warning, and which are seen differs.
    local deny=""
    if [[ -n ${LINT_RUST:-} && $(cargo --version) == "cargo $LINT_RUST."* ]]; then deny="-D warnings"; fi
    RUSTDOCFLAGS="${RUSTDOCFLAGS:-} $deny" \
        cargo doc --workspace --features barewire/tokio --no-deps ${locked[@]+"${locked[@]}"} || return
    # The command has the name of the crate: its pages once stood in their place.
    local page="${CARGO_TARGET_DIR:-target}/doc/barewire/struct.Node.html"
    [[ -f $page ]] || { echo "the pages of crate barewire are missing: $page"; return 1; }
}

# own_device: that a device in a crate outside the workspace builds against the crates, and runs. Its own folder
# for what is built, so that the two workspaces do not build the same crates in turn.
own_device() {
    local manifest=examples/own-device/Cargo.toml place=$target/example
    cargo fmt --manifest-path "$manifest" --check || return
    cargo test --manifest-path "$manifest" --target-dir "$place" ${locked[@]+"${locked[@]}"} || return
    cargo run --quiet --manifest-path "$manifest" --target-dir "$place" ${locked[@]+"${locked[@]}"} \
        -- examples/own-device/policer.toml
}

# skipped_step NAME REASON: tells that a step can not run here; it counts as skipped.
skipped_step() {
    echo "SKIPPED: step $1: $2" | tee -a "$BAREWIRE_SKIP_LOG"
}

# fuzz_briefly: that the fuzz targets build, and that they take some seconds of inputs each.
fuzz_briefly() {
    local status=0
    scripts/fuzz.sh "${FUZZ_SECONDS:-3}" 2>&1 || status=$?
    if [ "$status" = 77 ]; then
        skipped_step fuzz "the targets were only checked: no C++ compiler (c++)"
        status=0
    fi
    return "$status"
}

# oldest_rust: that the oldest Rust that will do does.
oldest_rust() {
    if [[ $(cargo --version) == "cargo $RUST_VERSION_MIN."* ]]; then
        echo "every step runs with it: $(cargo --version)"
    elif rustup run "$RUST_VERSION_MIN" cargo --version 2>/dev/null; then
        CARGO_TARGET_DIR=$target/oldest rustup run "$RUST_VERSION_MIN" \
            cargo check ${locked[@]+"${locked[@]}"} --workspace --all-targets
    elif [ "${CI:-}" = true ]; then
        echo "step fresh has Debian's Rust $RUST_VERSION_MIN"
    else
        skipped_step oldest "no toolchain $RUST_VERSION_MIN of rustup's; make fresh has Debian's"
    fi
}

# other_processor: that the code for the processor that this one is not compiles.
other_processor() {
    local other=aarch64-unknown-linux-gnu
    [ "$(uname -m)" != aarch64 ] || other=x86_64-unknown-linux-gnu
    if ! compgen -G "$(rustc --print sysroot)/lib/rustlib/$other/lib/libcore-*" >/dev/null; then
        skipped_step processor "the standard library of $other is not installed (rustup target add $other)"
        return
    fi
    cargo check ${locked[@]+"${locked[@]}"} --workspace --target "$other"
}

# python_package: that the Python package can be built and installed, and its tests and types.
python_package() {
    local status=0
    scripts/python.sh test 2>&1 || status=$?
    if [ "$status" = 77 ]; then
        skipped_step python "no Python 3.11 or newer with venv, or no PyPI"
        status=0
    fi
    return "$status"
}

# fresh_machine: whether what a newcomer needs is installed and builds on a Debian that
# has nothing, with the oldest Rust that will do.
fresh_machine() {
    local status=0
    FRESH_STEPS=quick scripts/fresh.sh 2>&1 || status=$?
    if [ "$status" = 77 ]; then
        skipped_step fresh "such a machine can not be made here: needs root, debootstrap and a mirror of Debian"
        status=0
    fi
    return "$status"
}

# packages: that the packages can be installed, used as the book says, and removed, on a Debian that has nothing: Debian 13,
# and the one that they were built on, since that for omniORB is for this one alone. They are built without optimization, which
# changes nothing of what is tried here.
try_packages() {
    local status=0 suite own packages=$target/packages-dev said=$logs/packages-try.txt
    PACKAGES_PROFILE=dev scripts/packages.sh "$packages" || return
    own=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    : >"$said"
    for suite in trixie bookworm; do
        [ "$suite" = trixie ] || [ "$suite" = "$own" ] || continue
        [ "$status" = 0 ] || break
        FRESH_SUITE=$suite FRESH_STEPS=packages FRESH_PACKAGES=$packages scripts/fresh.sh 2>&1 | tee -a "$said" || status=$?
    done
    # What it could not try on that machine, which does not see the list.
    grep '^SKIPPED: ' "$said" >>"$BAREWIRE_SKIP_LOG" || true
    if [ "$status" = 77 ]; then
        skipped_step packages "they were only built: to try them needs root, debootstrap and a mirror of Debian"
        status=0
    fi
    return "$status"
}

step format check cargo fmt --all --check
step clippy check run_clippy
step tidy check cargo xtask tidy
step book check scripts/book.sh check
step commits check cargo xtask commits
step oldest check oldest_rust
step processor check other_processor
step preload check cargo build ${locked[@]+"${locked[@]}"} --release -p barewire-sockets
export BAREWIRE_PRELOAD_LIB=$target/release/libbarewire_sockets.so
step tests tests cargo test ${locked[@]+"${locked[@]}"} --workspace --exclude barewire-programs --no-fail-fast
# One at a time: they are whole programs, with time limits of their own.
step programs tests cargo test ${locked[@]+"${locked[@]}"} -p barewire-programs --no-fail-fast -- --test-threads=1
step models tests model_check
step example tests own_device
step python tests python_package
step fuzz check fuzz_briefly
step docs check build_docs
# Some minutes each; others ask for them by name.
for name in crates same packages fresh; do
    [ "${CI:-}" = true ] || [[ " ${only[*]:-} " == *" $name "* ]] || continue
    case $name in
    crates) step crates check scripts/crates.sh ;;
    same) step same check scripts/packages-same.sh quick ;;
    packages) step packages check try_packages ;;
    fresh) step fresh check fresh_machine ;;
    esac
done

for name in ${only[@]+"${only[@]}"}; do
    if [[ " ${known_steps[*]} " != *" $name "* ]]; then
        echo "no step is called $name; there are: ${known_steps[*]} crates same packages fresh" >&2
        failed_steps+=("$name") failed=$((failed + 1))
    fi
done

self_skipped=$(sed -n 's/^SKIPPED: \([^:]*\).*/\1/p' "$BAREWIRE_SKIP_LOG" | sort -u)
# A test that skipped itself ended well, so cargo counted it as passed; a step is no test.
passed=$((passed - $(grep -vc '^step \|^$' <<<"$self_skipped")))
[ "$passed" -ge 0 ] || passed=0
skipped=$((ignored + $(grep -c . <<<"$self_skipped")))

echo
echo "=== summary, $SECONDS s"
if [ "$skipped" -gt 0 ]; then
    echo "skipped:"
    sort -u "$BAREWIRE_SKIP_LOG" | sed -n 's/^SKIPPED: /  /p'
    sed -n 's/^test \(.*\) \.\.\. ignored, \(.*\)$/  \1: \2/p; s/^test \(.*\) \.\.\. ignored$/  \1: no reason given/p' \
        "$logs"/*.log 2>/dev/null | sort -u
fi
if [ ${#failed_steps[@]} -gt 0 ]; then
    echo "failed steps: ${failed_steps[*]}"
    for name in "${failed_steps[@]}"; do
        [ ! -f "$logs/$name.log" ] || what_failed "$name" "$logs/$name.log"
    done
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ ${#failed_steps[@]} -eq 0 ] && [ "$failed" -eq 0 ]
