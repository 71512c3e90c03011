#!/usr/bin/env bash
# Builds and installs the transport for omniORB, libbarewire-omniorb.so, and says how programs get it.
#
#     scripts/install-corba.sh                        # below /usr/local
#     PREFIX=$HOME/barewire scripts/install-corba.sh
#     DESTDIR=/tmp/package PREFIX=/usr scripts/install-corba.sh
#
#   PREFIX      where it is to be found later (/usr/local)
#   LIBDIR      where the libraries go ($PREFIX/lib)
#   DESTDIR     what is put in front of both while files are copied
#   PROFILE     cargo's profile: release, or dev
#   CXX         the compiler (c++), CXXFLAGS what it is told besides (-O2)
#
# Needs omniORB 4.2 (on Debian 12 libomniorb4-dev), pkg-config and a compiler for C++17. libbarewire.so is installed along with it, by
# scripts/install-c.sh, unless it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

PREFIX=${PREFIX:-/usr/local}
LIBDIR=${LIBDIR:-$PREFIX/lib}
DESTDIR=${DESTDIR:-}
CXX=${CXX:-c++}
CXXFLAGS=${CXXFLAGS:--O2}

[[ $LIBDIR == /* ]] || { echo "install-corba: $LIBDIR: PREFIX and LIBDIR begin with /" >&2; exit 2; }
version=$(pkg-config --modversion omniORB4 2>/dev/null) || version=none
if [[ $version != 4.2.* ]]; then
    echo "install-corba: needs omniORB 4.2 and pkg-config (on Debian 12: libomniorb4-dev pkg-config); found: $version" >&2
    exit 2
fi

lib=$DESTDIR$LIBDIR
[[ -e $lib/libbarewire.so ]] || PREFIX=$PREFIX LIBDIR=$LIBDIR DESTDIR=$DESTDIR scripts/install-c.sh

# Linked dynamically against omniORB, whose licence (LGPL) asks for that. The path is for a prefix that the loader does
# not search by itself.
# shellcheck disable=SC2016,SC2046,SC2086 # one option a word; the loader knows ORIGIN
"$CXX" -std=c++17 $CXXFLAGS -g -fPIC -shared -fvisibility=hidden -Wall -Wextra -o "$lib/libbarewire-omniorb.so" \
    corba/src/*.cpp $(pkg-config --cflags omniORB4) -I crates/capi/include \
    -L "$lib" -lbarewire $(pkg-config --libs omniORB4) -pthread \
    -Wl,-soname,libbarewire-omniorb.so -Wl,-rpath,'$ORIGIN' -Wl,--no-undefined -Wl,-z,relro,-z,now,-z,nodelete
echo "install-corba: the transport is in $lib; programs get it with"
echo "    export LD_PRELOAD=$LIBDIR/libbarewire-omniorb.so"
