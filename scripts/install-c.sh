#!/usr/bin/env bash
# Builds and installs what C and C++ programs need of Barewire: the libraries, the
# headers, barewire.pc for pkg-config, and a package for CMake.
#
#     scripts/install-c.sh                            # below /usr/local
#     PREFIX=$HOME/.local scripts/install-c.sh
#     DESTDIR=/tmp/package PREFIX=/usr scripts/install-c.sh
#
#   PREFIX      where it is to be found later (/usr/local)
#   LIBDIR      where the libraries go ($PREFIX/lib)
#   DESTDIR     what is put in front of both while files are copied
#   PROFILE     cargo's profile: release, or dev
#
# Needs Rust and a C compiler (CC, or cc).
set -euo pipefail
cd "$(dirname "$0")/.."

PREFIX=${PREFIX:-/usr/local}
LIBDIR=${LIBDIR:-$PREFIX/lib}
DESTDIR=${DESTDIR:-}
PROFILE=${PROFILE:-release}
CC=${CC:-cc}
# What the standard library of Rust needs of the system.
PRIVATE_LIBS="-lgcc_s -lpthread -ldl -lm -lc"

for path in "$PREFIX" "$LIBDIR"; do
    [[ $path == /* ]] || { echo "install-c: $path: PREFIX and LIBDIR begin with /" >&2; exit 2; }
done

scripts/cargo.sh build --quiet --profile "$PROFILE" -p barewire-capi
folder=$PROFILE
[ "$PROFILE" != dev ] || folder=debug
archive=${CARGO_TARGET_DIR:-target}/$folder/libbarewire_c.a
source=crates/capi
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)

# The name says which versions a program runs with: while the first number is 0, those
# of the same second one.
shared=libbarewire.so.$version
soname=libbarewire.so.0

lib=$DESTDIR$LIBDIR
install -d "$lib/pkgconfig" "$lib/cmake/barewire" "$DESTDIR$PREFIX/include"

# Linked here and not by rustc, which does not let symbols have versions.
# It stays loaded once it is: its threads may still run.
# shellcheck disable=SC2086 # one library a word
"$CC" -shared -o "$lib/$shared" -Wl,-soname,$soname -Wl,--version-script,$source/barewire.map \
    -Wl,--whole-archive "$archive" -Wl,--no-whole-archive -Wl,--gc-sections -Wl,--no-undefined \
    -Wl,-z,relro,-z,now,-z,nodelete -Wl,-Bsymbolic $PRIVATE_LIBS
ln -sf "$shared" "$lib/$soname"
ln -sf "$soname" "$lib/libbarewire.so"
install -m 644 "$archive" "$lib/libbarewire.a"
install -m 644 $source/include/barewire.h $source/include/barewire.hpp "$DESTDIR$PREFIX/include/"

fill() {
    sed -e "s|@PREFIX@|$PREFIX|; s|@LIBDIR@|$LIBDIR|; s|@VERSION@|$version|; s|@PRIVATE_LIBS@|$PRIVATE_LIBS|" "$1"
}
fill $source/barewire.pc.in >"$lib/pkgconfig/barewire.pc"
install -m 644 $source/barewire-config.cmake "$lib/cmake/barewire/"
fill $source/barewire-config-version.cmake.in >"$lib/cmake/barewire/barewire-config-version.cmake"
echo "install-c: Barewire $version for C and C++ is in $DESTDIR$PREFIX"
