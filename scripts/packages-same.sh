#!/usr/bin/env bash
# Builds the last commit twice, in two folders, and compares: the same commit is to give the same bytes wherever its folder
# lies.
#
#   scripts/packages-same.sh [all]    all packages, as scripts/packages.sh makes them; twice as long as one `make packages`
#   scripts/packages-same.sh quick    only the preload library, built without optimization: some 20 s
#   scripts/packages-same.sh others   the libraries for C, libfabric, VIA and omniORB, built without optimization: some minutes
#
#   PACKAGES_SAME_DIR    where the two builds go; by default target/packages-same, kept for a next run
#   SOURCE_DATE_EPOCH    as for scripts/packages.sh
#
# What is committed is what is built. Exits with 1 if something differs, and says which files of which package do.
set -euo pipefail
. "$(dirname "$0")/toolchain.sh"
cd "$BAREWIRE_ROOT"

which=${1:-all}
place=$(realpath -m "${PACKAGES_SAME_DIR:-${CARGO_TARGET_DIR:-target}/packages-same}")
# Not what is committed while the first is being built.
commit=$(git rev-parse HEAD)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# make_all SOURCES TARGET OUT: makes the packages of SOURCES below TARGET, into OUT.
make_all() {
    CARGO_TARGET_DIR=$2 "$1/scripts/packages.sh" "$3"
}

# make_quick SOURCES TARGET OUT: builds only the preload library of SOURCES below TARGET, and puts it into OUT.
make_quick() {
    (
        BAREWIRE_ROOT=$1
        forget_paths "$2"
        cd "$1"
        CARGO_TARGET_DIR=$2 CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
            cargo build --locked --quiet --release -p barewire-sockets
    )
    rm -rf "$3"
    install -D "$2/release/libbarewire_sockets.so" "$3/libbarewire_sockets.so"
    strip --strip-unneeded "$3/libbarewire_sockets.so"
}

# make_others SOURCES TARGET OUT: builds the libraries of SOURCES that are installed by scripts of their own, and puts them into
# OUT, one beside the other.
make_others() {
    (
        BAREWIRE_ROOT=$1
        forget_paths "$2"
        cd "$1"
        export CARGO_TARGET_DIR=$2 CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off
        # shellcheck disable=SC2153 # forget_paths has set it
        export DESTDIR=$3/all PREFIX=/usr LIBDIR=/usr/lib CXXFLAGS="-O0 $CFLAGS"
        for script in c "fi" vipl omniorb; do
            [ "$script" != omniorb ] || { pkg-config --exists omniORB4 && script=corba; } || continue
            "scripts/install-$script.sh" >/dev/null
        done
    )
    find "$3/all" -name '*.so*' -type f -exec mv -t "$3" {} +
    rm -r "$3/all"
    strip --strip-unneeded "$3"/*
}

# build SOURCES TARGET OUT: clones the commit into SOURCES, and builds what is to be compared.
build() {
    rm -rf "$1"
    git clone --quiet --no-hardlinks . "$1"
    git -C "$1" -c advice.detachedHead=false checkout --quiet "$commit"
    echo "packages-same: building in $1"
    "make_$which" "$@"
}

# open_up FILE FOLDER: unpacks what a package or an archive holds.
open_up() {
    mkdir -p "$2"
    case $1 in
    *.deb) dpkg-deb --raw-extract "$1" "$2" ;;
    *.tar.gz) tar -C "$2" -xzf "$1" ;;
    *.whl) python3 -m zipfile -e "$1" "$2" ;;
    esac
}

# compare NAME: whether both builds have the same file of that name.
compare() {
    if cmp -s "$place/one/out/$1" "$place/two/out/$1"; then
        echo "packages-same: same: $1"
        return
    fi
    echo "packages-same: DIFFERS: $1" >&2
    open_up "$place/one/out/$1" "$work/one/$1"
    open_up "$place/two/out/$1" "$work/two/$1"
    diff -rq "$work/one/$1" "$work/two/$1" >&2 || true
    return 1
}

case $which in all | quick | others) ;; *)
    echo "usage: scripts/packages-same.sh [all|quick|others]" >&2
    exit 2
    ;;
esac
# The folders are of different depth and length. One has what is built among the sources, the other has not.
build "$place/one/sources" "$place/one/sources/target" "$place/one/out"
build "$place/two/further/down/the/sources" "$place/two/built" "$place/two/out"
names=$(cd "$place" && { ls one/out; ls two/out; } | LC_ALL=C sort -u)
[ -n "$names" ] || { echo "packages-same: there is nothing to compare" >&2; exit 1; }
differ=0
for name in $names; do
    compare "$name" || differ=1
done
[ "$differ" = 0 ] || { echo "packages-same: FAILED: the two builds differ" >&2; exit 1; }
echo "packages-same: the two builds have the same bytes"
