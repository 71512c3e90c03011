#!/usr/bin/env bash
# Runs cargo of a usable toolchain: `scripts/cargo.sh build`.
set -euo pipefail
. "$(dirname "$0")/toolchain.sh"
if [ -z "$CARGO_FOUND" ]; then
    echo "no Rust >= $RUST_VERSION_MIN found; run scripts/setup.sh" >&2
    exit 1
fi
exec "$CARGO_FOUND" "$@"
