#!/usr/bin/env bash
# Builds and installs the provider for libfabric, libbarewire-fi.so, and says how programs find it.
#
#     scripts/install-fi.sh                           # below /usr/local
#     PREFIX=$HOME/.local scripts/install-fi.sh
#     DESTDIR=/tmp/package PREFIX=/usr scripts/install-fi.sh
#
#   PREFIX      where it is to be found later (/usr/local)
#   LIBDIR      the folder of libraries there ($PREFIX/lib); it goes into the folder libfabric below
#   DESTDIR     what is put in front of it while files are copied
#   PROFILE     cargo's profile: release, or dev
#
# Needs Rust and a C linker. libfabric is not needed to build.
set -euo pipefail
cd "$(dirname "$0")/.."

PREFIX=${PREFIX:-/usr/local}
LIBDIR=${LIBDIR:-$PREFIX/lib}
DESTDIR=${DESTDIR:-}
PROFILE=${PROFILE:-release}

[[ $LIBDIR == /* ]] || { echo "install-fi: $LIBDIR: PREFIX and LIBDIR begin with /" >&2; exit 2; }

scripts/cargo.sh build --quiet --profile "$PROFILE" -p barewire-fi
folder=$PROFILE
[ "$PROFILE" != dev ] || folder=debug
install -d "$DESTDIR$LIBDIR/libfabric"
install -m 644 "${CARGO_TARGET_DIR:-target}/$folder/libbarewire_fi.so" "$DESTDIR$LIBDIR/libfabric/libbarewire-fi.so"
echo "install-fi: the provider is in $DESTDIR$LIBDIR/libfabric; programs find it with"
echo "    export FI_PROVIDER_PATH=$LIBDIR/libfabric"
