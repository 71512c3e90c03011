#!/usr/bin/env bash
# Runs every fuzz target for a while: `scripts/fuzz.sh [SECONDS]`, 60 each by
# default. Needs cargo-fuzz and a nightly toolchain of rustup's.
set -euo pipefail
. "$(dirname "$0")/toolchain.sh"
cd "$BAREWIRE_ROOT"
seconds=${1:-60}
if [ ! -d fuzz ]; then
    echo "there are no fuzz targets yet"
    exit 0
fi
if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
    echo "fuzzing needs: rustup toolchain install nightly; cargo install cargo-fuzz" >&2
    exit 1
fi
for target in $(cargo +nightly fuzz list); do
    echo "=== $target, $seconds s"
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds"
done
