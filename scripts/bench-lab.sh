#!/usr/bin/env bash
# Measures the event kernel beside SimPy and nexosim, in one run. Both come from their
# package registries, into the build folder; what cannot be had is left out, and said.
set -euo pipefail
. "$(dirname "$0")/toolchain.sh"
cd "$BAREWIRE_ROOT"
target=${CARGO_TARGET_DIR:-$BAREWIRE_ROOT/target}
rivals=()

if "$CARGO_FOUND" build --quiet --release --manifest-path benches/rivals/nexosim/Cargo.toml \
    --target-dir "$target/rivals"; then
    rivals+=(--rival "nexosim=$target/rivals/release/nexosim-rival")
else
    echo "bench-lab: nexosim does not build here (it wants a newer Rust than we do): left out" >&2
fi

python=$target/rivals/python
if { [ -x "$python/bin/python" ] || python3 -m venv "$python"; } &&
    "$python/bin/python" -m pip install --quiet --disable-pip-version-check simpy==4.1.1; then
    rivals+=(--rival "SimPy=$python/bin/python benches/rivals/simpy_rival.py")
else
    echo "bench-lab: no SimPy (it needs python3 with venv, and the Python package registry): left out" >&2
fi

exec scripts/cargo.sh run --quiet --release -p barewire-benches -- lab "${rivals[@]}" "$@"
