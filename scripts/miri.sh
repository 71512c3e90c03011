#!/usr/bin/env bash
# Interprets the unit tests of crates without system calls of their own, which finds undefined
# behaviour: `scripts/miri.sh`. Needs miri: `rustup component add miri rust-src --toolchain
# nightly`. Exits with 77 without it.
set -euo pipefail
. "$(dirname "$0")/toolchain.sh"
cd "$BAREWIRE_ROOT"
if ! rustup run nightly cargo miri --version >/dev/null 2>&1; then
    echo "miri: skipped: rustup has no nightly toolchain with miri" >&2
    exit 77
fi
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$BAREWIRE_ROOT/target}/miri
# Property tests ask for entropy and look for files of earlier failures; a few cases will do.
export MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-disable-isolation" PROPTEST_CASES=${PROPTEST_CASES:-4}
rustup run nightly cargo miri test -p barewire-fabric -p barewire-shm -p barewire-proto --lib
