#!/usr/bin/env bash
# Makes sure that this machine can build and test the project.
#
# Needs: cargo and rustc of at least the workspace's rust-version, rustfmt,
# clippy, and a C linker. Where one is missing, and we are root on a Debian or
# Ubuntu, it is installed from the distribution's packages; otherwise we say
# what to do. Never downloads a toolchain by itself. Quick when all is there.
#
# Wants: tshark, the outside judge of our captures, h5dump and h5py, those of our
# HDF5 files, and the programs that
# tests/programs runs on the network: servers, their clients, interpreters. They
# are installed in the same way, but a machine without them will do: the tests
# that need one are skipped, and counted as such. No server is started by its
# installation, neither now nor at the next boot.
set -euo pipefail
. "$(dirname "$0")/toolchain.sh"

# What is missing, one word each: linker, rust, rustfmt, clippy.
missing() {
    command -v cc >/dev/null || echo linker
    if [ -z "$CARGO_FOUND" ]; then
        echo rust rustfmt clippy
        return
    fi
    cargo fmt --version >/dev/null 2>&1 || echo rustfmt
    cargo clippy --version >/dev/null 2>&1 || echo clippy
}

give_up() {
    {
        echo "setup: missing: $*"
        [ -z "$CARGO_FOUND" ] || echo "setup: found: $CARGO_FOUND $(version_of "$CARGO_FOUND")"
        echo "setup: needed: Rust >= $RUST_VERSION_MIN with rustfmt and clippy, and a C linker (cc)"
        echo "setup: on Debian 13: apt-get install gcc cargo rustc rustfmt rust-clippy"
        echo "setup: elsewhere: https://rustup.rs, then: rustup component add rustfmt clippy"
    } >&2
    exit 1
}

# available PACKAGE: prints the version that apt would install; fails if none.
available() {
    apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: \(.*\)/\1/p' | grep -v '(none)'
}

# first_available PACKAGE...: prints the first that apt knows; fails if none.
first_available() {
    local package
    for package in "$@"; do
        if available "$package" >/dev/null; then
            echo "$package"
            return
        fi
    done
    return 1
}

# packages_for SUFFIX: prints the packages of one Rust, "" for the plain ones
# and "-1.85" for versioned ones, whose helpers are named in several ways.
packages_for() {
    local version=${1#-}
    first_available "cargo$1" && first_available "rustc$1" &&
        first_available "rustfmt$1" ${version:+"rust-$version-rustfmt" "rust-$version-all"} &&
        first_available "rust-clippy$1" "clippy$1" ${version:+"rust-$version-clippy" "rust-$version-all"}
}

# rust_packages: prints the packages of the Rust to install: the plain ones if
# they are new enough, else the newest versioned ones that are.
rust_packages() {
    local version packages
    if version=$(available rustc) && at_least "$version" "$RUST_VERSION_MIN" &&
        packages=$(packages_for ""); then
        echo "$packages"
        return
    fi
    for version in $(apt-cache pkgnames rustc- 2>/dev/null |
        sed -n 's/^rustc-\([0-9]\+\.[0-9]\+\)$/\1/p' | sort -rV); do
        if at_least "$version" "$RUST_VERSION_MIN" && packages=$(packages_for "-$version"); then
            echo "$packages"
            return
        fi
    done
    return 1
}

can_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null
}

# update_lists: has apt look what there is, once.
update_lists() {
    [ -z "${LISTS_UPDATED:-}" ] || return 0
    LISTS_UPDATED=yes
    apt-get update -qq || echo "setup: apt-get update failed; going on with the lists there are" >&2
}

# install_packages PACKAGE...: installs without a question: debconf takes its defaults.
# For wireshark-common, whether others than root may capture, that is no.
install_packages() {
    echo "setup: installing: $*"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null
}

# want_tshark: installs it where that is possible; where not, says so.
want_tshark() {
    if command -v tshark >/dev/null; then
        return
    fi
    if can_install && update_lists && install_packages tshark; then
        return
    fi
    {
        echo "setup: tshark is missing: the tests in which it judges our captures will be skipped"
        echo "setup: on Debian: apt-get install tshark"
    } >&2
}

# The package of Python's own tests bears the version of Python.
PYTHON_TESTS=$(/usr/bin/python3 -c 'import sys; print("libpython3.%d-testsuite" % sys.version_info[1])' \
    2>/dev/null || echo libpython3-testsuite)

# What the tests in tests/programs run, and those of HDF5 files; and the package that brings it. A name
# with a colon is asked for by the function behind it.
PROGRAMS="
redis-server        redis-server
redis-cli           redis-tools
memcached           memcached
nginx               nginx-light
wrk                 wrk
curl                curl
has:postgres        postgresql
haproxy             haproxy
iperf3              iperf3
sockperf            sockperf
rstream             rdmacm-utils
stress-ng           stress-ng
sshd                openssh-server
ssh                 openssh-client
sudo                sudo
setcap              libcap2-bin
node                nodejs
javac               default-jdk-headless
has:python_tests    $PYTHON_TESTS
h5dump              hdf5-tools
has:h5py            python3-h5py
has:liburing        liburing-dev
nft                 nftables
"

# The server is not in the path: Debian keeps several versions side by side.
has_postgres() { compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; }

# Debian packs Python's own tests apart from Python.
has_python_tests() { /usr/bin/python3 -c 'import test.test_socket' 2>/dev/null; }

has_h5py() { /usr/bin/python3 -c 'import h5py' 2>/dev/null; }

has_liburing() { [[ -e /usr/include/liburing.h ]]; }

# missing_programs: prints the packages of the programs that are not here.
missing_programs() {
    local program package
    while read -r program package; do
        case $program in
        "") continue ;;
        has:*) "has_${program#has:}" ;;
        *) PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null ;;
        esac || echo "$package"
    done <<<"$PROGRAMS"
}

# units_of PACKAGE...: prints the services that they bring.
units_of() {
    dpkg -L "$@" 2>/dev/null | sed -n 's,.*/lib/systemd/system/\([^/@]*\.service\)$,\1,p' | sort -u
}

# install_quietly PACKAGE...: installs packages of servers, none of which starts.
install_quietly() {
    local policy=/usr/sbin/policy-rc.d ours="" before unit status=0
    before=$(dpkg-query -W -f '${Package}\n' | sort)
    if [ ! -e "$policy" ]; then
        ours=yes
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    install_packages "$@" || status=$?
    if [ -n "$ours" ]; then
        rm -f "$policy"
        trap - EXIT
    fi
    # Only what came just now: a service that was here before is not ours.
    local came
    mapfile -t came < <(dpkg-query -W -f '${Package}\n' | sort | comm -13 <(echo "$before") -)
    if [ ${#came[@]} -gt 0 ]; then
        for unit in $(units_of "${came[@]}"); do
            systemctl disable "$unit" >/dev/null 2>&1 ||
                update-rc.d "${unit%.service}" disable >/dev/null 2>&1 || true
        done
    fi
    return "$status"
}

# want_programs: installs what is missing of them; where that fails, says so.
want_programs() {
    local package packages known=()
    packages=$(missing_programs)
    [ -n "$packages" ] || return 0
    if can_install && update_lists; then
        for package in $packages; do
            if available "$package" >/dev/null; then known+=("$package"); fi
        done
        # One that can not be installed should not stop the others.
        if [ ${#known[@]} -gt 0 ] && ! install_quietly "${known[@]}"; then
            for package in "${known[@]}"; do
                install_quietly "$package" || true
            done
        fi
        hash -r
        packages=$(missing_programs)
        [ -n "$packages" ] || return 0
    fi
    {
        echo "setup: programs are missing: the tests that run them will be skipped"
        # shellcheck disable=SC2086 # one package a word
        echo "setup: on Debian: apt-get install --no-install-recommends" $packages
    } >&2
}

needed=$(missing | tr '\n' ' ')
needed=${needed% }
if [ -z "$needed" ]; then
    want_tshark
    want_programs
    echo "setup: $(cargo --version), $(cargo fmt --version), $(cargo clippy --version): nothing to do"
    exit 0
fi

can_install || give_up "$needed"
echo "setup: missing: $needed; asking apt"
update_lists

wanted=()
for part in $needed; do
    case $part in
    linker) wanted+=(gcc libc6-dev) ;;
    rust | rustfmt | clippy)
        # A toolchain of rustup's gets its parts from rustup: packages would
        # bring another compiler.
        case $CARGO_FOUND in "" | /usr/*) ;; *) give_up "$needed" ;; esac
        packages=$(rust_packages) || give_up "$needed (apt has no Rust >= $RUST_VERSION_MIN with them)"
        # shellcheck disable=SC2206 # one package a word
        wanted+=($packages)
        ;;
    esac
done
mapfile -t wanted < <(printf '%s\n' "${wanted[@]}" | sort -u)
install_packages "${wanted[@]}" ca-certificates

hash -r
find_toolchain
needed=$(missing | tr '\n' ' ')
[ -z "$needed" ] || give_up "${needed% } (after installing ${wanted[*]})"
want_tshark
want_programs
echo "setup: $(cargo --version)"
