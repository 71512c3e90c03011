#!/usr/bin/env bash
# Builds the packages: seven for Debian and Ubuntu, and a tarball.
#
#   scripts/packages.sh [FOLDER]     by default target/packages, which is emptied first
#
#   barewire            the command with its manual pages and completions, and the preload library
#   libbarewire0        the library for C and C++ programs
#   libbarewire-dev     what they are compiled with
#   python3-barewire    the Python package; of a release, the wheel is built too (where Python has venv, and PyPI can be
#                       reached); of another profile, it is that of scripts/python.sh
#   barewire-fi         the provider for libfabric
#   barewire-vipl       the VI Provider Library, with its header
#   barewire-omniorb    the transport for omniORB (where omniORB 4.2 can be compiled with)
#
#   PACKAGES_PROFILE    cargo's profile: release, or dev for a try
#   SOURCE_DATE_EPOCH   time of all files; by default that of the last commit
#
# The same sources, tools and time are to give the same bytes, wherever the folder of the sources lies: paths in what is built
# begin with /barewire. scripts/packages-same.sh compares.
#
# Needs dpkg-deb, binutils and gzip, besides what building needs.
set -euo pipefail
. "$(dirname "$0")/toolchain.sh"
cd "$BAREWIRE_ROOT"

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$(realpath -m "${1:-$target/packages}")
profile=${PACKAGES_PROFILE:-release}
built=$target/$profile
[ "$profile" != dev ] || built=$target/debug
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

for program in dpkg-deb objdump strip gzip tar; do
    command -v "$program" >/dev/null || { echo "packages: $program is missing (on Debian: apt-get install binutils)" >&2; exit 1; }
done
architecture=$(dpkg --print-architecture)
multiarch=$(cc -print-multiarch)
[ -n "$multiarch" ] || { echo "packages: cc does not say where Debian's libraries go (-print-multiarch)" >&2; exit 1; }

# build: builds what the packages hold. Of a release, no path of this machine is in it.
build() {
    local status=0
    if [ "$profile" = release ]; then
        target=$target/packages-build
        built=$target/release
        export CARGO_TARGET_DIR=$target
        forget_paths "$target"
        scripts/python.sh build || status=$?
        [ "$status" = 0 ] || [ "$status" = 77 ] || return "$status"
    fi
    cargo build --locked --profile "$profile" -p barewire-cli -p barewire-sockets -p barewire-fi -p barewire-vipl
}

# needed_glibc FILE...: prints the newest version of glibc that the files ask for.
needed_glibc() {
    objdump -T "$@" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1
}

# control NAME SECTION DEPENDS SHORT: prints the control file; the rest of the description comes from standard input.
control() {
    local root=$work/$1
    cat <<END
Package: $1
Version: $version
Section: $2
Priority: optional
Architecture: $architecture
Installed-Size: $(du -k --apparent-size -s "$root" | cut -f 1)
Depends: $3
Maintainer: The Barewire contributors <barewire@localhost>
Description: $4
$(sed 's/^$/./; s/^/ /')
END
}

# finish NAME: makes the package of what lies in its folder.
finish() {
    local root=$work/$1 doc=$work/$1/usr/share/doc/$1
    install -d "$doc"
    cat packaging/copyright >"$doc/copyright"
    (cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >"$work/md5sums")
    install -m 644 -D "$work/md5sums" "$root/DEBIAN/md5sums"
    find "$root" -type d -exec chmod 755 {} +
    find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz --build "$root" "$out/${1}_${version}_$architecture.deb" >/dev/null
}

# strip_to FILE TARGET MODE: puts a program or library in its place, without what only debuggers need.
strip_to() {
    install -D -m "$3" "$1" "$2"
    strip --strip-unneeded "$2"
}

package_tools() {
    local root=$work/barewire share=$work/barewire/usr/share
    strip_to "$built/barewire" "$root/usr/bin/barewire" 755
    strip_to "$built/libbarewire_sockets.so" "$root/usr/lib/barewire/libbarewire_sockets.so" 644
    install -d "$share/man/man1"
    "$built/barewire" man --dir "$share/man/man1" >/dev/null
    gzip -9n "$share"/man/man1/*
    install -d "$share/bash-completion/completions" "$share/zsh/vendor-completions" "$share/fish/vendor_completions.d"
    "$built/barewire" completions bash >"$share/bash-completion/completions/barewire"
    "$built/barewire" completions zsh >"$share/zsh/vendor-completions/_barewire"
    "$built/barewire" completions fish >"$share/fish/vendor_completions.d/barewire.fish"
    install -D -m 644 docs/monitoring/grafana.json "$share/barewire/grafana.json"
    install -d "$root/DEBIAN"
    local glibc
    glibc=$(needed_glibc "$root/usr/bin/barewire" "$root/usr/lib/barewire/libbarewire_sockets.so")
    control barewire net "libc6 (>= $glibc), libgcc-s1" "user-level network through shared memory" \
        >"$root/DEBIAN/control" <<'END'
Programs on one host talk through shared memory, without the kernel on the way.
This package has the command, with which unmodified programs are run that way
(barewire run, barewire enable), measured and looked at, and the laboratory.
END
    finish barewire
}

package_c() {
    local stage=$work/c lib root
    DESTDIR=$stage PREFIX=/usr LIBDIR=/usr/lib/$multiarch PROFILE=$profile scripts/install-c.sh >/dev/null
    lib=usr/lib/$multiarch
    root=$work/libbarewire0
    install -d "$root/$lib" "$root/DEBIAN"
    mv "$stage/$lib"/libbarewire.so.* "$root/$lib/"
    strip --strip-unneeded "$root/$lib/libbarewire.so.$version"
    chmod 644 "$root/$lib/libbarewire.so.$version"
    echo "libbarewire 0 libbarewire0 (>= $version)" >"$root/DEBIAN/shlibs"
    echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
    control libbarewire0 libs "libc6 (>= $(needed_glibc "$root/$lib/libbarewire.so.$version")), libgcc-s1" \
        "user-level network through shared memory, library for C" >"$root/DEBIAN/control" <<'END'
Nodes, connections, streams, events and apertures of Barewire for programs in C
and C++.
END
    finish libbarewire0
    root=$work/libbarewire-dev
    install -d "$root/DEBIAN"
    mv "$stage/usr" "$root/usr"
    strip --strip-debug "$root/$lib/libbarewire.a"
    control libbarewire-dev libdevel "libbarewire0 (= $version)" \
        "user-level network through shared memory, for C and C++" >"$root/DEBIAN/control" <<'END'
Headers, the static library, and what pkg-config and CMake need.
END
    finish libbarewire-dev
}

# package_python: of the wheel, if there is one.
package_python() {
    local wheel root=$work/python3-barewire place=$work/python3-barewire/usr/lib/python3/dist-packages
    wheel=$(find "$target/python/wheels" -name '*.whl' 2>/dev/null | head -n 1 || true)
    if [ -z "$wheel" ]; then
        echo "packages: no Python package: there is no wheel in $target/python/wheels (scripts/python.sh)"
        return
    fi
    cp "$wheel" "$out/"
    install -d "$place" "$root/DEBIAN"
    python3 -m zipfile -e "$wheel" "$place"
    find "$place" -name '*.so' -exec strip --strip-unneeded {} + -exec chmod 644 {} +
    control python3-barewire python \
        "python3 (>= 3.11), libc6 (>= $(find "$place" -name '*.so' -print0 | xargs -0 objdump -T | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1)), libgcc-s1" \
        "user-level network through shared memory, for Python" >"$root/DEBIAN/control" <<'END'
Nodes, connections, streams, events and apertures of Barewire for Python programs,
and its laboratory.
END
    cat >"$root/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
# What Python has compiled lies beside the sources, and is in no list of files.
find /usr/lib/python3/dist-packages/barewire -depth -name __pycache__ -exec rm -rf {} + 2>/dev/null || true
END
    chmod 755 "$root/DEBIAN/prerm"
    finish python3-barewire
}

# package_fi: not in libfabric's own folder. There, each program for libfabric would find it without asking for it, and Open MPI
# would take it for jobs on several hosts, too, which it can not serve.
package_fi() {
    local root=$work/barewire-fi library
    DESTDIR=$root PREFIX=/usr LIBDIR=/usr/lib/barewire PROFILE=$profile scripts/install-fi.sh >/dev/null
    library=$root/usr/lib/barewire/libfabric/libbarewire-fi.so
    strip --strip-unneeded "$library"
    install -d "$root/DEBIAN"
    control barewire-fi libs "libc6 (>= $(needed_glibc "$library")), libgcc-s1, libfabric1 (>= 1.17), libfabric1 (<< 2)" \
        "MPI and libfabric through shared memory" >"$root/DEBIAN/control" <<'END'
A provider for libfabric. Programs for libfabric, and those for Open MPI, find it
with FI_PROVIDER_PATH=/usr/lib/barewire/libfabric.
END
    finish barewire-fi
}

package_vipl() {
    local root=$work/barewire-vipl library
    DESTDIR=$root PREFIX=/usr LIBDIR=/usr/lib/$multiarch PROFILE=$profile scripts/install-vipl.sh >/dev/null
    library=$root/usr/lib/$multiarch/libvipl.so
    strip --strip-unneeded "$library"
    install -d "$root/DEBIAN"
    echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
    control barewire-vipl libs "libc6 (>= $(needed_glibc "$library")), libgcc-s1" \
        "Virtual Interface Architecture through shared memory" >"$root/DEBIAN/control" <<'END'
The VI Provider Library 1.0: the library, and the header vipl.h.
END
    finish barewire-vipl
}

# package_omniorb: if there is an omniORB to compile with.
package_omniorb() {
    local root=$work/barewire-omniorb stage=$work/omniorb found library
    found=$(pkg-config --modversion omniORB4 2>/dev/null) || found=none
    if [[ $found != 4.2.* ]]; then
        echo "packages: no package for CORBA: it needs omniORB 4.2 (libomniorb4-dev) and pkg-config; found: $found"
        return
    fi
    # Its libbarewire.so is that of libbarewire0.
    DESTDIR=$stage PREFIX=/usr LIBDIR=/usr/lib/$multiarch PROFILE=$profile CXXFLAGS="-O2 ${CFLAGS:-}" \
        scripts/install-corba.sh >/dev/null
    library=$root/usr/lib/$multiarch/libbarewire-omniorb.so
    strip_to "$stage/usr/lib/$multiarch/libbarewire-omniorb.so" "$library" 644
    install -d "$root/DEBIAN"
    echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
    control barewire-omniorb libs \
        "libbarewire0 (>= $version), libc6 (>= $(needed_glibc "$library")), libgcc-s1, libomniorb4-2 (>= 4.2), libomnithread4 (>= 4.2), libstdc++6 (>= $(c++ -dumpversion))" \
        "CORBA through shared memory" >"$root/DEBIAN/control" <<'END'
A transport for omniORB 4.2, giop:barewire. Programs have it with
LD_PRELOAD=libbarewire-omniorb.so.
END
    finish barewire-omniorb
}

# tarball: all that is not Python, for other distributions: to be unpacked anywhere.
tarball() {
    local name=barewire-$version-$(uname -m)-linux
    local root=$work/$name
    install -d "$root"
    cp -a "$work/barewire/usr/." "$root/"
    cp -a "$work/libbarewire0/usr/lib/$multiarch/." "$work/libbarewire-dev/usr/lib/$multiarch/." "$root/lib/"
    cp -a "$work/libbarewire-dev/usr/include" "$root/"
    cp -a "$work/barewire-fi/usr/lib/barewire/." "$root/lib/barewire/"
    cp -a "$work/barewire-vipl/usr/lib/$multiarch/." "$root/lib/"
    cp -a "$work/barewire-vipl/usr/include/." "$root/include/"
    # It finds libbarewire.so beside it.
    [ ! -d "$work/barewire-omniorb" ] || cp -a "$work/barewire-omniorb/usr/lib/$multiarch/." "$root/lib/"
    # pkg-config finds it by where the file lies.
    sed -i "s|^prefix=.*|prefix=\${pcfiledir}/../..|; s|/usr/lib/$multiarch|\${prefix}/lib|" "$root/lib/pkgconfig/barewire.pc"
    rm -rf "$root/share/doc"
    cp README.md LICENSE-MIT LICENSE-APACHE "$root/"
    tar --directory "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --mode=go-w -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
}

build
rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
package_tools
package_c
package_python
package_fi
package_vipl
package_omniorb
tarball
(cd "$out" && find . -maxdepth 1 -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum -- >"$work/sums" && cp "$work/sums" SHA256SUMS)
ls -l "$out"
