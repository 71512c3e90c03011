#!/usr/bin/env bash
# Builds and installs the VI Provider Library, libvipl.so, with its header vipl.h.
#
#     scripts/install-vipl.sh                         # below /usr/local
#     PREFIX=$HOME/.local scripts/install-vipl.sh
#     DESTDIR=/tmp/package PREFIX=/usr scripts/install-vipl.sh
#
#   PREFIX      where it is to be found later (/usr/local)
#   LIBDIR      the folder of libraries there ($PREFIX/lib)
#   DESTDIR     what is put in front of it while files are copied
#   PROFILE     cargo's profile: release, or dev
#
# Needs Rust and a C linker.
set -euo pipefail
cd "$(dirname "$0")/.."

PREFIX=${PREFIX:-/usr/local}
LIBDIR=${LIBDIR:-$PREFIX/lib}
DESTDIR=${DESTDIR:-}
PROFILE=${PROFILE:-release}

[[ $PREFIX == /* && $LIBDIR == /* ]] || { echo "install-vipl: $LIBDIR: PREFIX and LIBDIR begin with /" >&2; exit 2; }

scripts/cargo.sh build --quiet --profile "$PROFILE" -p barewire-vipl
folder=$PROFILE
[ "$PROFILE" != dev ] || folder=debug
install -d "$DESTDIR$LIBDIR" "$DESTDIR$PREFIX/include"
install -m 644 "${CARGO_TARGET_DIR:-target}/$folder/libvipl.so" "$DESTDIR$LIBDIR/libvipl.so"
install -m 644 crates/vipl/include/vipl.h "$DESTDIR$PREFIX/include/vipl.h"
echo "install-vipl: vipl.h is in $DESTDIR$PREFIX/include, libvipl.so in $DESTDIR$LIBDIR; compile with"
echo "    cc program.c -I$PREFIX/include -L$LIBDIR -Wl,-rpath,$LIBDIR -lvipl"
