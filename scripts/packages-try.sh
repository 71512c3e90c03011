#!/usr/bin/env bash
# Tries the packages on the machine that this runs on, and removes them: meant for a new minimal Debian
# (FRESH_STEPS=packages scripts/fresh.sh makes one). Needs root.
#
#   scripts/packages-try.sh FOLDER      the folder that scripts/packages.sh has filled
#
# Installs them, uses each as its page of the book says, removes them, and compares the files of the machine before and
# after: nothing may be left.
set -euo pipefail
packages=$(realpath "$1")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
server=
cleanup() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
export DEBIAN_FRONTEND=noninteractive

say() { echo "packages-try: $*"; }
fail() {
    say "FAILED: $*" >&2
    exit 1
}

# files: all files of the machine but those that change by themselves, and the lists of apt and dpkg.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /run -o -path "$work" \
        -o -path /var/cache -o -path /var/log -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /root \) -prune \
        -o -print | LC_ALL=C sort
}

# there: names of the packages that are installed, of those that are tried.
there() {
    { dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' 'barewire*' 'libbarewire*' 'python3-barewire*' 2>/dev/null || true; } |
        sed -n 's/^ii *//p'
}

# What the examples need comes first: it is not what is tried.
needed="gcc g++ libc6-dev pkg-config cmake make python3 redis-server systemd dbus"
mapfile -t debs < <(find "$packages" -name '*.deb' | LC_ALL=C sort)
apt-get update -qq
# left_out NAME: whether the package can not be installed on this Debian: 13 has other versions of libfabric and omniORB, which it
# is not for. On 12 it must be.
left_out() {
    local deb
    deb=$(find "$packages" -name "$1_*.deb")
    [ -n "$deb" ] || return 1
    apt-get -s install "$packages"/libbarewire0_*.deb "$deb" >/dev/null 2>&1 && return 1
    ! grep -q '^VERSION_CODENAME=bookworm' /etc/os-release || fail "$1 can not be installed"
    echo "SKIPPED: step packages, $1: this Debian has not what it depends on: $(dpkg-deb --field "$deb" Depends)"
}

for name in barewire-fi barewire-omniorb; do
    ! left_out "$name" || mapfile -t debs < <(printf '%s\n' "${debs[@]}" | grep -v "/${name}_")
done
has() { printf '%s\n' "${debs[@]}" | grep -q "/$1_"; }
! has barewire-fi || needed="$needed libfabric-bin openmpi-bin libopenmpi-dev"
! has barewire-omniorb || needed="$needed libomniorb4-dev omniidl"
# shellcheck disable=SC2086 # one package a word
apt-get install -qq -y --no-install-recommends $needed >"$work/apt.log" 2>&1 ||
    { tail -n 5 "$work/apt.log" >&2; fail "what the examples need can not be installed"; }
files >"$work/before"

for deb in "$packages"/barewire_*.deb "$packages"/libbarewire*.deb; do
    ! dpkg-deb --field "$deb" Depends | grep -qi 'fabric\|omniorb' || fail "$deb needs more than it should"
done
apt-get install -qq -y "${debs[@]}" >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; fail "the packages can not be installed"; }
# shellcheck disable=SC2046 # on one line
say "installed:" $(there)

try_command() {
    barewire --version
    [ -s /usr/share/man/man1/barewire-run.1.gz ] || fail "no manual page of barewire run"
    bash -c '. /usr/share/bash-completion/completions/barewire && complete -p barewire' >/dev/null || fail "completions of bash"
    barewire run redis-server --port 7379 --save '' --daemonize no >"$work/redis.log" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        redis-cli -p 7379 ping >/dev/null 2>&1 && break
        sleep 0.1
    done
    barewire run --why="$work/why" redis-benchmark -p 7379 -n 20000 -c 4 -t get -q
    grep -q ' upgraded\|accelerated' "$work/why" || { cat "$work/why" >&2; fail "no connection was upgraded"; }
    kill "$server"
    wait "$server" || true
    server=
    # No systemd runs here: on the files. `try_systemd` has one.
    barewire enable redis-server
    grep -q LD_PRELOAD=/usr/lib/barewire/libbarewire_sockets.so \
        /etc/systemd/system/redis-server.service.d/50-barewire.conf || fail "barewire enable"
    barewire disable redis-server
    barewire lab run cbn-ping >/dev/null || fail "barewire lab"
}

try_c() {
    local example
    for example in echo many_clients; do
        # shellcheck disable=SC2046 # words of flags
        cc -std=c11 -o "$work/$example" "crates/capi/examples/c/$example.c" $(pkg-config --cflags --libs barewire)
        # shellcheck disable=SC2046
        c++ -std=c++17 -o "$work/$example-cpp" "crates/capi/examples/cpp/$example.cpp" $(pkg-config --cflags --libs barewire)
    done
    "$work/echo" || fail "the C example"
    "$work/echo-cpp" || fail "the C++ example"
}

try_python() {
    python3 - <<'END' || fail "the Python example"
import threading
import barewire

server = barewire.Node()
listener = server.listen("packages-try")

def serve():
    connection = server.next_request().accept()
    connection.send(connection.recv())

thread = threading.Thread(target=serve)
thread.start()
with barewire.Node().connect("packages-try") as connection:
    connection.send(b"hello")
    assert connection.recv() == b"hello"
thread.join()
print("packages-try: Python, barewire", barewire.__file__)
END
}

# try_systemd: `barewire enable` on a real service, where systemd can be booted.
try_systemd() {
    local status=0 said=$work/systemd.txt
    scripts/systemd-try.sh >"$said" 2>&1 || status=$?
    cat "$said"
    case $status in
    0) ;;
    77) echo "SKIPPED: step systemd: $(tail -n 1 "$said")" ;;
    *) fail "barewire enable on a real service" ;;
    esac
}

# try_fi: MPI on the provider, and without it where it was not asked for.
try_fi() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    FI_PROVIDER_PATH=/usr/lib/barewire/libfabric fi_info -p barewire >"$work/fi.txt" 2>&1 ||
        { cat "$work/fi.txt" >&2; fail "libfabric does not find the provider"; }
    ! fi_info -p barewire >"$work/fi.txt" 2>&1 || fail "libfabric finds the provider without being told where"
    mpicc -O2 -o "$work/basic" crates/fi/tests/programs/basic.c
    FI_PROVIDER_PATH=/usr/lib/barewire/libfabric timeout 120 mpirun --oversubscribe -n 2 --mca pml cm --mca mtl ofi \
        --mca mtl_ofi_provider_include barewire --mca btl self "$work/basic" >"$work/fi.txt" 2>&1 ||
        { cat "$work/fi.txt" >&2; fail "MPI on the provider"; }
    grep -qx ok "$work/fi.txt" || { cat "$work/fi.txt" >&2; fail "the program for MPI"; }
    say "MPI: $(mpirun --version | head -n 1)"
}

try_vipl() {
    cc -Wall -o "$work/two" crates/vipl/tests/programs/two.c -lvipl
    timeout 60 "$work/two" packages-try || fail "the program for VIA"
}

try_omniorb() {
    local program reference=$work/reference
    omniidl -bcxx -C"$work" corba/tests/echo.idl
    for program in server client; do
        # shellcheck disable=SC2046 # one option a word
        c++ -std=c++17 -pthread "corba/tests/$program.cpp" "$work/echoSK.cc" -I "$work" -o "$work/$program" \
            $(pkg-config --cflags --libs omniDynamic4)
    done
    # No endpoint but this one: TCP can not carry the calls.
    LD_PRELOAD=libbarewire-omniorb.so "$work/server" -ORBendPoint giop:barewire:packages-try >"$reference" &
    server=$!
    for _ in $(seq 100); do
        ! grep -q IOR "$reference" || break
        sleep 0.1
    done
    LD_PRELOAD=libbarewire-omniorb.so timeout 60 "$work/client" call "$(head -n 1 "$reference")" 1000 || fail "the calls of CORBA"
    LD_PRELOAD=libbarewire-omniorb.so timeout 60 "$work/client" stop "$(head -n 1 "$reference")" || fail "the server's end"
    wait "$server" || fail "the server for CORBA"
    server=
}

# try_others: packages that not every build of them has.
try_others() {
    local name
    for name in python fi omniorb; do
        case $name in python) package=python3-barewire ;; *) package=barewire-$name ;; esac
        if there | grep -qx "$package"; then
            "try_$name"
        else
            say "$package is not among the packages"
        fi
    done
}

try_command
try_systemd
try_c
try_vipl
try_others

# It fails if one of them is not there.
names=$(there)
# shellcheck disable=SC2086 # one package a word
apt-get purge -qq -y $names >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; fail "the packages can not be removed"; }
files >"$work/after"
diff "$work/before" "$work/after" >"$work/left" || { cat "$work/left" >&2; fail "these files are left, or gone"; }
say "removed: nothing is left"

tarball=$(find "$packages" -name '*.tar.gz' | head -n 1)
tar -C "$work" -xzf "$tarball"
"$work"/barewire-*/bin/barewire run true || fail "the command of the tarball"
PKG_CONFIG_PATH=$(echo "$work"/barewire-*/lib/pkgconfig) pkg-config --exists barewire || fail "the tarball's barewire.pc"
! has barewire-fi || FI_PROVIDER_PATH=$(echo "$work"/barewire-*/lib/barewire/libfabric) fi_info -p barewire >/dev/null || fail "the tarball's provider"
cc -o "$work/two" crates/vipl/tests/programs/two.c -I"$(echo "$work"/barewire-*/include)" -L"$(echo "$work"/barewire-*/lib)" -lvipl
LD_LIBRARY_PATH=$(echo "$work"/barewire-*/lib) timeout 60 "$work/two" packages-try || fail "the tarball's libvipl.so"
say "all well"
