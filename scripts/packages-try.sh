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

# What the examples need comes first: it is not what is tried.
apt-get update -qq
apt-get install -qq -y --no-install-recommends gcc g++ libc6-dev pkg-config cmake make python3 redis-server systemd dbus >"$work/apt.log" 2>&1 ||
    { tail -n 5 "$work/apt.log" >&2; fail "what the examples need can not be installed"; }
files >"$work/before"

apt-get install -qq -y "$packages"/*.deb >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; fail "the packages can not be installed"; }
say "installed: $(dpkg-query -W -f '${Package} ' 'barewire' 'libbarewire*' 'python3-barewire*' 2>/dev/null)"

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

try_command
try_systemd
try_c
if dpkg-query -W python3-barewire >/dev/null 2>&1; then
    try_python
else
    say "python3-barewire is not among the packages"
fi

# It fails if one of them is not there.
names=$({ dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' 'barewire' 'libbarewire*' 'python3-barewire*' 2>/dev/null || true; } |
    sed -n 's/^ii *//p')
# shellcheck disable=SC2086 # one package a word
apt-get purge -qq -y $names >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; fail "the packages can not be removed"; }
files >"$work/after"
diff "$work/before" "$work/after" >"$work/left" || { cat "$work/left" >&2; fail "these files are left, or gone"; }
say "removed: nothing is left"

tarball=$(find "$packages" -name '*.tar.gz' | head -n 1)
tar -C "$work" -xzf "$tarball"
"$work"/barewire-*/bin/barewire run true || fail "the command of the tarball"
PKG_CONFIG_PATH=$(echo "$work"/barewire-*/lib/pkgconfig) pkg-config --exists barewire || fail "the tarball's barewire.pc"
say "all well"
