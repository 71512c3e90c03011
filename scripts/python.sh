#!/usr/bin/env bash
# The Python package.
#
#   scripts/python.sh build   builds a wheel: target/python/wheels
#   scripts/python.sh test    builds one, installs it into an environment of its own, checks the types, runs the tests
#
# Tools come from PyPI into target/python. Where Python 3.11 with venv, or PyPI, is missing, it says so and exits with 77.
# WHEEL_PROFILE=dev builds without optimization (the default of `test`); release is the default of `build`.
set -euo pipefail
. "$(dirname "$0")/toolchain.sh"
cd "$BAREWIRE_ROOT"

target=${CARGO_TARGET_DIR:-$BAREWIRE_ROOT/target}
place=$target/python
tools=$place/tools
wheels=$place/wheels

# not_here REASON: this can not be done on this machine.
not_here() {
    echo "python: $1" >&2
    exit 77
}

# A fresh environment at $1, with the packages named after it.
environment() {
    local where=$1
    shift
    "$python" -m venv --clear "$where" || not_here "no environment can be made: python3-venv is missing"
    "$where/bin/python" -m pip install --quiet --disable-pip-version-check "$@" ||
        not_here "these packages can not be had from PyPI: $*"
}

# Debian's own comes first: others may be shims that decide later which Python they are.
find_python() {
    local one
    for one in python3 /usr/bin/python3; do
        if command -v "$one" >/dev/null &&
            "$one" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            python=$one
            return
        fi
    done
    not_here "no Python 3.11 or newer with venv (on Debian: apt-get install python3-venv)"
}

build() {
    local profile=$1
    find_python
    [ -x "$tools/bin/maturin" ] || environment "$tools" 'maturin>=1.7,<2'
    rm -rf "$wheels"
    "$tools/bin/maturin" build --quiet --locked --profile "$profile" --manifest-path python/Cargo.toml \
        --target-dir "$target" --out "$wheels" --interpreter "$python"
    ls "$wheels"/*.whl
}

run_tests() {
    build "$1"
    environment "$place/clean" pytest mypy numpy pandas nbclient ipykernel
    "$place/clean/bin/python" -m pip install --quiet --disable-pip-version-check "$wheels"/*.whl
    # Not from the folder of the package: the one that is installed is to be tested.
    cd python/tests
    PATH=$place/clean/bin:$PATH
    mypy --config-file ../pyproject.toml --cache-dir "$place/mypy" -p barewire
    mypy --config-file ../pyproject.toml --cache-dir "$place/mypy" typed_use.py
    # That what is declared of the native module is what it has.
    python -m mypy.stubtest --concise --allowlist <(echo barewire._native.__all__) barewire._native
    local log=$place/pytest.log status=0
    pytest -c ../pyproject.toml --rootdir .. -q "${@:2}" 2>&1 | tee "$log" || status=$?
    # As cargo test tells it, for scripts/test.sh.
    echo "test result: $([ "$status" = 0 ] && echo ok || echo FAILED). $(counted passed "$log") passed;" \
        "$(($(counted failed "$log") + $(counted error "$log"))) failed; $(counted skipped "$log") ignored;"
    return "$status"
}

# counted WORD LOG: how many tests pytest says did this, in its last line.
counted() {
    tail -n 1 "$2" | grep -o "[0-9]* $1" | grep -o '[0-9]*' || echo 0
}

case ${1:-} in
build) build "${WHEEL_PROFILE:-release}" ;;
test) run_tests "${WHEEL_PROFILE:-dev}" "${@:2}" ;;
*)
    echo "usage: scripts/python.sh build|test [TESTS...]" >&2
    exit 2
    ;;
esac
