#!/usr/bin/env bash
# Makes sure that this machine has what a purpose needs: `scripts/setup.sh demo`.
#
#   build   cargo and rustc of at least the workspace's rust-version, and a C linker
#   lint    also rustfmt and clippy
#   demo    what `build` needs; wants redis and nginx, and wrk, which drives nginx
#   test    what `lint` needs; wants every program that a test runs
#
# What is missing is installed, if we are root on a Debian or Ubuntu, from the
# distribution's packages, without those that are only recommended; else we say
# what to do. Never downloads a toolchain by itself, never removes a package.
# Quick when all is there.
#
# A program that is only wanted and can not be had does not stop anything: the
# demo says what it did not measure, and a test that needs it is skipped and
# counted as such. No server is started by its installation, neither now nor at
# the next boot.
set -euo pipefail
. "$(dirname "$0")/toolchain.sh"


purpose=${1:-test}
case $purpose in
build | lint | demo | test) ;;
*)
    echo "usage: scripts/setup.sh [build|lint|demo|test]" >&2
    exit 2
    ;;
esac

# wants_lints: whether this purpose needs rustfmt and clippy.
wants_lints() {
    [ "$purpose" = lint ] || [ "$purpose" = test ]
}

# What is missing, one word each: linker, rust, rustfmt, clippy.
missing() {
    command -v cc >/dev/null || echo linker
    [ -n "$CARGO_FOUND" ] || echo rust
    wants_lints || return 0
    { [ -n "$CARGO_FOUND" ] && cargo fmt --version >/dev/null 2>&1; } || echo rustfmt
    { [ -n "$CARGO_FOUND" ] && cargo clippy --version >/dev/null 2>&1; } || echo clippy
}

give_up() {
    {
        echo "setup: missing: $*"
        [ -z "$CARGO_FOUND" ] || echo "setup: found: $CARGO_FOUND $(version_of "$CARGO_FOUND")"
        echo "setup: needed: Rust >= $RUST_VERSION_MIN, a C linker (cc), and for lints rustfmt and clippy"
        echo "setup: on Debian 13: apt-get install gcc cargo rustc rustfmt rust-clippy"
        echo "setup: on Debian 12: apt-get install gcc cargo-web rustc-web rustfmt-web rust-web-clippy"
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

# packages_for SUFFIX: prints the packages of one Rust: "" for the plain ones,
# "-1.85" for versioned ones, "-web" for those that Debian 12 builds browsers
# with. The helpers are named in several ways.
packages_for() {
    local version=${1#-}
    first_available "cargo$1" && first_available "rustc$1" || return 1
    wants_lints || return 0
    first_available "rustfmt$1" ${version:+"rust-$version-rustfmt" "rust-$version-all"} || return 1
    first_available "rust-clippy$1" "clippy$1" ${version:+"rust-$version-clippy" "rust-$version-all"}
}

# rust_packages: prints the packages of the Rust to install: the plain ones if
# they are new enough, else the newest versioned ones that are.
rust_packages() {
    local suffix version packages versioned
    versioned=$(apt-cache pkgnames rustc- 2>/dev/null |
        sed -n 's/^rustc\(-[0-9]\+\.[0-9]\+\)$/\1/p' | sort -rV)
    for suffix in "" $versioned -web; do
        version=$(available "rustc$suffix") || continue
        if at_least "$version" "$RUST_VERSION_MIN" && packages=$(packages_for "$suffix"); then
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
    local options=(-y -qq --no-install-recommends --no-remove -o DPkg::Lock::Timeout=600)
    local count
    count=$(apt-get -s "${options[@]}" install "$@" 2>/dev/null | grep -c '^Inst ' || true)
    echo "setup: installing $count packages, for: $*"
    DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install "$@" </dev/null >/dev/null
}

# What the demo runs, and the package that brings it.
DEMO_PROGRAMS="
redis-server        redis-server
redis-benchmark     redis-tools
nginx               nginx
wrk                 wrk
"

# What the tests run besides: the judges of our captures (tshark) and of our HDF5
# files (h5dump, h5py); in tests/programs servers, their clients, interpreters and
# libraries with tests of their own; what makes the machine of `make fresh`; the
# compiler of libFuzzer and of programs in C++; what examines those in C; and the
# shells that read their completions. A name with a colon is asked for by the function
# behind it. What brings much with it is not among them (gRPC, MariaDB, RabbitMQ,
# ZooKeeper, etcd, nfs-ganesha): the tests run it where it is installed, and are
# skipped and counted where it is not.
TEST_PROGRAMS="
tshark              tshark
redis-cli           redis-tools
memcached           memcached
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
python3             python3
has:venv            python3-venv
has:python_tests    PYTHON_TESTS
h5dump              hdf5-tools
has:h5py            python3-h5py
has:liburing        liburing-dev
has:tornado         python3-tornado
twist3              python3-twisted
nft                 nftables
debootstrap         debootstrap
c++                 g++
cmake               cmake
pkg-config          pkg-config
valgrind            valgrind
abidiff             abigail-tools
zsh                 zsh
fish                fish
rpcgen              rpcsvc-proto
has:tirpc           libtirpc-dev
has:zeromq          libzmq3-dev
thrift              thrift-compiler
has:thrift          python3-thrift
has:omniorb         libomniorb4-dev
omniidl             omniidl
omniNames           omniorb-nameserver
nameclt             omniorb
"

# The package of Python's own tests bears the version of Python: of the one that
# is here, or of the one that apt would install.
python_tests_package() {
    local version
    version=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null ||
        available python3 | sed -n 's/^\([0-9]*\.[0-9]*\).*/\1/p')
    echo "libpython${version:-3}-testsuite"
}

# The server is not in the path: Debian keeps several versions side by side.
has_postgres() { compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; }

# Debian packs Python's own tests apart from Python.
has_python_tests() { /usr/bin/python3 -c 'import test.test_socket' 2>/dev/null; }

has_venv() { /usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null; }

has_h5py() { /usr/bin/python3 -c 'import h5py' 2>/dev/null; }

has_tornado() { /usr/bin/python3 -c 'import tornado.test' 2>/dev/null; }

has_liburing() { [[ -e /usr/include/liburing.h ]]; }

has_tirpc() { [[ -e /usr/include/tirpc/rpc/rpc.h ]]; }

has_zeromq() { [[ -e /usr/include/zmq.h ]]; }

has_omniorb() { [[ -e /usr/include/omniORB4/CORBA.h ]]; }

has_thrift() { /usr/bin/python3 -c 'import thrift.Thrift' 2>/dev/null; }

# missing_programs: prints the packages of the programs that are not here.
missing_programs() {
    local program package programs=""
    case $purpose in
    demo) programs=$DEMO_PROGRAMS ;;
    test) programs=$DEMO_PROGRAMS$TEST_PROGRAMS ;;
    esac
    while read -r program package; do
        [ "$package" != PYTHON_TESTS ] || package=$(python_tests_package)
        case $program in
        "") continue ;;
        has:*) "has_${program#has:}" ;;
        *) PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null ;;
        esac || echo "$package"
    done <<<"$programs"
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
    if can_install; then
        update_lists
        # Now apt may know more of what a name stands for.
        packages=$(missing_programs)
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
        echo "setup: programs are missing: what needs them will be left out"
        # shellcheck disable=SC2086 # one package a word
        echo "setup: on Debian: apt-get install --no-install-recommends" $packages
    } >&2
}

needed=$(missing | tr '\n' ' ')
needed=${needed% }
if [ -n "$needed" ]; then
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
fi
want_programs
echo "setup: ready for $purpose: $(cargo --version)"
