#!/usr/bin/env bash
# Tries `barewire enable` and `disable` on a real service: boots systemd, with the Redis server of the distribution, and has
# systemd start that with the library and without. Needs root, systemd, redis-server and the package barewire.
#
#   scripts/systemd-try.sh
#
# What is booted sees the files of this machine, in namespaces of its own. What it writes goes to memory and is lost. Exits
# with 77, and says why, where systemd can not be booted so.
set -euo pipefail

# The cgroup in which it runs, the folder of its root, and the process that waits for it.
group="" root="" boot=""

can_not() {
    echo "systemd-try: not possible here: $*" >&2
    exit 77
}

fail() {
    echo "systemd-try: FAILED: $*" >&2
    [ ! -s "$root/log" ] || tail -n 20 "$root/log" >&2
    exit 1
}

# boot_inside FOLDER: in namespaces of its own: makes a root of this machine's files, and becomes systemd.
boot_inside() {
    local new=$1/root name
    mount --make-rprivate /
    mount -t tmpfs -o mode=755 tmpfs "$1"
    mkdir "$1/root" "$1/upper" "$1/work"
    mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$new"
    mount -t proc proc "$new/proc"
    mount -t sysfs -o ro sysfs "$new/sys"
    mount -t cgroup2 cgroup2 "$new/sys/fs/cgroup"
    mount -t tmpfs -o mode=755 tmpfs "$new/dev"
    for name in null zero full random urandom tty; do
        : >"$new/dev/$name"
        mount --bind "/dev/$name" "$new/dev/$name"
    done
    mkdir "$new/dev/pts" "$new/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$new/dev/pts"
    mount -t tmpfs -o mode=1777 tmpfs "$new/dev/shm"
    ln -s pts/ptmx "$new/dev/ptmx"
    ln -s /proc/self/fd "$new/dev/fd"
    mount -t tmpfs -o mode=755 tmpfs "$new/run"
    mount -t tmpfs -o mode=1777 tmpfs "$new/tmp"
    cd "$new"
    pivot_root . mnt
    umount -l /mnt
    exec env -i container=barewire PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        /lib/systemd/systemd --log-target=console --log-level=notice --show-status=0
}

# inside COMMAND...: runs a command in what was booted.
inside() {
    nsenter --target "$init" --mount --uts --ipc --net --pid --cgroup -- \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "$@"
}

cleanup() {
    # All in its process namespace ends with it.
    [ -z "$boot" ] || { kill -KILL "$boot" 2>/dev/null && wait "$boot" 2>/dev/null; } || true
    if [ -n "$group" ]; then
        for _ in $(seq 50); do
            find "$group" -depth -type d -exec rmdir {} + 2>/dev/null && break
            sleep 0.1
        done
    fi
    [ -z "$root" ] || rm -rf "$root"
}

# boot_systemd: boots it; `init` is its process.
boot_systemd() {
    local unified
    unified=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
    [ -n "$unified" ] || can_not "there is no hierarchy of cgroups of version 2"
    root=$(mktemp -d)
    mkdir "$root/place"
    mkdir "$unified/barewire-try.$$" 2>/dev/null || can_not "no cgroup can be made in $unified"
    group=$unified/barewire-try.$$
    unshare --mount --pid --uts --ipc --cgroup --net --fork true 2>/dev/null || can_not "no namespaces can be made"
    (
        echo "$BASHPID" >"$group/cgroup.procs" || exit 77
        exec unshare --mount --pid --uts --ipc --cgroup --net --fork --kill-child "$0" --boot "$root/place"
    ) >"$root/log" 2>&1 &
    boot=$!
    init=""
    for _ in $(seq 600); do
        kill -0 "$boot" 2>/dev/null || can_not "systemd does not boot: $(tail -n 1 "$root/log")"
        init=$(cat "/proc/$boot/task/$boot/children" 2>/dev/null || true)
        init=${init%% *}
        # Before that it is not systemd yet.
        [ -z "$init" ] || ! inside test -S /run/systemd/private 2>/dev/null || break
        sleep 0.1
    done
    # Some units fail in a container; which state it is in does not matter, but that it is one.
    case $(inside timeout 120 systemctl is-system-running --wait 2>&1 || true) in
    running | degraded) ;;
    *) can_not "systemd does not come up: $(tail -n 1 "$root/log")" ;;
    esac
}

# preloaded: how many mappings of the library the server has.
preloaded() {
    local server
    server=$(inside systemctl show --property MainPID --value redis-server)
    inside grep -c barewire_sockets "/proc/$server/maps" || true
}

is_active() {
    [ "$(inside systemctl is-active redis-server)" = active ]
}

# benchmark: what a client prints, and the library says of its connections.
benchmark() {
    inside barewire run --why redis-benchmark -n 20000 -c 4 -t get -q 2>&1
}

try_service() {
    local why dropins=/etc/systemd/system/redis-server.service.d
    inside systemctl start redis-server || fail "redis-server does not start"
    [ "$(preloaded)" = 0 ] || fail "the server has the library before it is enabled"
    inside barewire enable redis-server --now || fail "barewire enable"
    is_active || fail "the server does not run once it is enabled"
    [ "$(preloaded)" -gt 0 ] || fail "the server was started without the library"
    echo "systemd-try: enabled: systemd has started redis-server with the library"
    # The sandbox of Debian's unit leaves connections with the kernel: docs/operate.md says how to allow them.
    # shellcheck disable=SC2016 # the other shell's
    inside sh -c 'printf "[Service]\nPrivateUsers=no\nRestrictAddressFamilies=AF_NETLINK\n" >"$1/60-allow.conf"' - "$dropins"
    inside systemctl daemon-reload
    inside systemctl restart redis-server
    why=$(benchmark) || fail "redis-benchmark: $why"
    [[ $why == *"accelerated"* ]] || fail "no connection was upgraded: $why"
    echo "systemd-try: connections to it are upgraded"
    inside barewire disable redis-server --now || fail "barewire disable"
    is_active || fail "the server does not run once it is disabled"
    [ "$(preloaded)" = 0 ] || fail "the server has the library after it was disabled"
    [ "$(inside ls "$dropins")" = 60-allow.conf ] || fail "files are left: $(inside ls "$dropins")"
    echo "systemd-try: disabled: nothing is left, and the server runs without the library"
}

if [ "${1:-}" = --boot ]; then
    boot_inside "$2"
fi
[ "$(id -u)" = 0 ] || can_not "only root can boot it"
for program in unshare nsenter pivot_root systemctl redis-benchmark barewire; do
    command -v "$program" >/dev/null || can_not "$program is not installed"
done
trap cleanup EXIT
boot_systemd
try_service
