#!/usr/bin/env bash
# Runs every fuzz target for a while: `scripts/fuzz.sh [SECONDS [TARGET...]]`, 60 each by
# default, as many at a time as there are processors. Any toolchain will do; libFuzzer comes
# with its crate, and needs a C++ compiler. Without one the targets are only checked, and it
# exits with 77.
#
# What a target begins with lies in fuzz/corpus/TARGET. What it finds besides is kept in
# target/fuzz/corpus, and an input that fails in target/fuzz/artifacts: the target's program,
# given that file, fails again. `scripts/fuzz.sh keep` makes fuzz/corpus anew: the smallest set
# of small inputs, of both, that reaches what they all do.
set -euo pipefail
. "$(dirname "$0")/toolchain.sh"
cd "$BAREWIRE_ROOT"

# The largest input that is kept in fuzz/corpus.
KEPT_BYTES_MAX=256

place=${CARGO_TARGET_DIR:-$BAREWIRE_ROOT/target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
locked=()
[ "${CI:-}" != true ] || locked=(--locked)
export RUSTFLAGS="${RUSTFLAGS:-} --cfg fuzzing"
export CARGO_TARGET_DIR=$place

if ! command -v c++ >/dev/null; then
    # Nothing is linked, so any file will do in place of libFuzzer.
    CUSTOM_LIBFUZZER_PATH=$BAREWIRE_ROOT/fuzz/Cargo.toml \
        cargo check --manifest-path fuzz/Cargo.toml ${locked[@]+"${locked[@]}"}
    echo "fuzz: checked, and not run: no C++ compiler (c++) is installed" >&2
    exit 77
fi

# What cargo-fuzz sets too, less the address sanitizer, which only nightly has. With a target
# named, these do not reach build scripts.
RUSTFLAGS+=" -Cpasses=sancov-module -Cdebug-assertions -Coverflow-checks"
for flag in level=4 inline-8bit-counters pc-table trace-compares; do
    RUSTFLAGS+=" -Cllvm-args=-sanitizer-coverage-$flag"
done
cargo build --manifest-path fuzz/Cargo.toml --release --target "$host" ${locked[@]+"${locked[@]}"}
programs=$place/$host/release
targets=$(sed -n 's/^path = "fuzz_targets\/\(.*\)\.rs"/\1/p' fuzz/Cargo.toml)

if [ "${1:-}" = keep ]; then
    for target in $targets; do
        kept=$place/kept/$target
        rm -rf "$kept"
        mkdir -p "$kept" "fuzz/corpus/$target" "$place/corpus/$target"
        # A small set that reaches every branch that any of them does.
        "$programs/$target" -set_cover_merge=1 -use_counters=0 -max_len=$KEPT_BYTES_MAX \
            "$kept" "fuzz/corpus/$target" "$place/corpus/$target" >"$place/$target.log" 2>&1 ||
            { cat "$place/$target.log"; exit 1; }
        rm -rf "fuzz/corpus/$target"
        mv "$kept" "fuzz/corpus/$target"
    done
    du -sh fuzz/corpus
    exit
fi

seconds=${1:-60}
shift $(($# > 0))
[ $# -eq 0 ] || targets=$*

# fuzz_one TARGET: prints one line, and all that it said if it fails.
fuzz_one() {
    local target=$1 log=$place/$1.log status=0 own=fuzz/corpus/$1
    mkdir -p "$place/corpus/$target" "$place/artifacts"
    [ -d "$own" ] || own=
    "$programs/$target" -max_total_time="$seconds" -timeout=20 -verbosity=1 -print_final_stats=1 \
        -artifact_prefix="$place/artifacts/$target-" \
        "$place/corpus/$target" ${own:+"$own"} >"$log" 2>&1 || status=$?
    if [ "$status" != 0 ]; then
        tail -n 60 "$log"
        echo "fuzz: $target: FAILED"
        return 1
    fi
    echo "fuzz: $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $seconds s"
}
export -f fuzz_one
export place programs seconds

printf '%s\n' $targets | xargs -P "$(nproc)" -I{} bash -c 'fuzz_one "$@"' _ {}
