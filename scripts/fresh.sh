#!/usr/bin/env bash
# Tries the project on a machine that has nothing: makes a minimal Debian in a folder
# (debootstrap, with make, git and ca-certificates added), clones this repository into
# root's home there, runs what a newcomer runs, and removes it. Needs root.
#
#   FRESH_SUITE   trixie (Debian 13; the default) or bookworm (12)
#   FRESH_STEPS   quick: set-up, build, lints    demo: `make demo`
#                 packages: installs, uses and removes the packages in FRESH_PACKAGES
#                 all: `make demo` and `make test` (the default)
#   FRESH_PACKAGES  what scripts/packages.sh has made: by default target/packages
#   FRESH_MIRROR  where Debian's packages are; by default as in this machine's own list
#   FRESH_DIR     where the folder goes: by default /var/tmp. It takes 6 GB, with FRESH_STEPS=all 25 GB
#
# What is committed is what is tried. How to reach the package registries is taken
# over from this machine: apt's settings, resolver, certificates, proxies, and the
# configuration of cargo.
#
# Exits with 0 only if every step did, with 77 if such a machine can not be made here.
#
# All that is mounted is mounted in a namespace of its own, and all that runs runs in
# a process namespace that ends with this script: if it is killed only the folder
# stays, and the next run removes it.
set -euo pipefail

# The newcomer's home in the new machine.
home=/root

# can_not REASON: ends, since such a machine can not be made here.
can_not() {
    echo "fresh: not possible here: $*" >&2
    exit 77
}

# mirror_of LABEL: prints from where this machine gets the packages with that label.
mirror_of() {
    apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' \
        2>/dev/null | sed -n "s/^$1 //p" | head -n 1 || true
}

# own_settings: prints the variables that lead to registries, as name=value, with a 0
# byte behind each.
own_settings() {
    env -0 | grep -zE '^((https?|ftp|all|no)_proxy|(HTTPS?|ALL|NO)_PROXY|CARGO_(HTTP|NET|REGISTRY|REGISTRIES|SOURCE)_[A-Z0-9_]*|SSL_CERT_(FILE|DIR)|CURL_CA_BUNDLE|GIT_SSL_CAINFO)=' || true
}

# take_over ROOT FILE...: copies what exists of this machine's files to the same place.
take_over() {
    local root=$1 file
    shift
    for file in "$@"; do
        [ -e "$file" ] || continue
        mkdir -p "$root$(dirname "$file")"
        cp -rL "$file" "$root$(dirname "$file")/"
    done
}

# write_sources ROOT SUITE MIRROR: has apt use the same mirror, and that of security
# updates if this machine has one.
write_sources() {
    local root=$1 suite=$2 mirror=$3 security
    echo "deb $mirror $suite main" >"$root/etc/apt/sources.list"
    security=$(mirror_of Debian-Security)
    [ -z "$security" ] ||
        echo "deb $security $suite-security main" >>"$root/etc/apt/sources.list"
    # Only how to fetch: what this machine does after an installation is its own affair.
    apt-config dump 2>/dev/null | grep -E '^Acquire::(http|https|ftp|Check|Retries|Force|Max)[A-Za-z-]*(::|\s)' \
        >"$root/etc/apt/apt.conf.d/90fresh" || true
}

# connect ROOT: takes over how this machine reaches the registries.
connect() {
    local root=$1 cargo_home=${CARGO_HOME:-$HOME/.cargo} name variable
    take_over "$root" /etc/resolv.conf /etc/hosts /etc/apt/auth.conf /etc/apt/auth.conf.d \
        /usr/local/share/ca-certificates
    chroot "$root" update-ca-certificates >/dev/null 2>&1 || true
    # Certificates that a variable names, if they are not in one of the usual places.
    while IFS= read -r -d '' variable; do
        case $variable in
        SSL_CERT_FILE=* | CURL_CA_BUNDLE=* | GIT_SSL_CAINFO=* | CARGO_HTTP_CAINFO=*)
            [ -e "$root${variable#*=}" ] || take_over "$root" "${variable#*=}"
            ;;
        esac
    done < <(own_settings)
    mkdir -p "$root$home/.cargo"
    for name in config config.toml credentials credentials.toml; do
        [ ! -e "$cargo_home/$name" ] || cp -L "$cargo_home/$name" "$root$home/.cargo/"
    done
}

# enter ROOT: makes ROOT the root of this process and its children, with /proc, /sys
# and /dev. Not by chroot, in which for instance no user namespace can be made.
enter() {
    local root=$1
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    cd "$root"
    pivot_root . mnt
    umount -l /mnt
}

# step NAME COMMAND...: runs a command as a newcomer's shell would, and says how long
# it took and how busy the machine was.
step() {
    local name=$1 started=$SECONDS status=0
    shift
    echo
    echo "=== fresh: $name"
    (cd "$home/barewire" && exec env -i "${environment[@]}" "$@") || status=$?
    echo "=== fresh: $name: exit status $status, $((SECONDS - started)) s; load average $(cut -d ' ' -f 1-3 /proc/loadavg)"
    [ "$status" = 0 ] || failed+=("$name")
}

# first_figure: passes on the demo's output, and says when the first figure came.
first_figure() {
    local line seen=
    while IFS= read -r line; do
        printf '%s\n' "$line"
        if [ -z "$seen" ] && [[ $line == "figure: "* ]]; then
            seen=yes
            echo "=== fresh: from the clone to the first figure: $((SECONDS - cloned)) s; load average $(cut -d ' ' -f 1-3 /proc/loadavg)"
        fi
    done
}

# inside FOLDER SUITE STEPS MIRROR REPOSITORY: in namespaces of its own: makes the
# machine and runs the steps on it.
inside() {
    local folder=$1 suite=$2 steps=$3 mirror=$4 repository=$5
    local root=$folder/root failed=() environment cloned setting alive
    # Held until the last process of this namespace has gone.
    exec {alive}>"$folder/alive"
    flock "$alive"
    mount --make-rprivate /
    echo "fresh: making a minimal Debian ($suite)"
    debootstrap --variant=minbase --include=make,git,ca-certificates \
        "$suite" "$root" "$mirror" >"$folder/debootstrap.log" 2>&1 || {
        tail -n 5 "$folder/debootstrap.log" >&2
        can_not "debootstrap failed for $suite"
    }
    write_sources "$root" "$suite" "$mirror"
    connect "$root"
    echo "fresh: made after $SECONDS s"
    cloned=$SECONDS
    git clone --quiet --no-hardlinks "$repository" "$root$home/barewire"
    environment=(HOME="$home" USER=root LANG=C.UTF-8 TERM="${TERM:-dumb}"
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
    while IFS= read -r -d '' setting; do environment+=("$setting"); done < <(own_settings)
    [ "$steps" != packages ] || cp -r "$packages" "$root$home/packages"
    enter "$root"
    case $steps in
    packages)
        step "packages" scripts/packages-try.sh "$home/packages"
        ;;
    quick)
        step "setup.sh lint" scripts/setup.sh lint
        # What a user runs is built whole; `cargo clippy` looks at all the rest.
        step "build" scripts/cargo.sh build --locked --no-default-features -p barewire-sockets -p barewire-cli
        step "test.sh clippy tidy" scripts/test.sh clippy tidy
        ;;
    demo | all)
        step "make demo" make demo > >(first_figure) 2>&1
        [ "$steps" = demo ] || step "make test" make test
        ;;
    esac
    echo
    [ ${#failed[@]} -eq 0 ] || {
        printf 'fresh: FAILED on %s: %s\n' "$suite" "${failed[*]}"
        exit 1
    }
    echo "fresh: all well on $suite, $SECONDS s"
}

# remove FOLDER: removes what was made, when nothing runs in it any more; never what
# might be mounted there.
remove() {
    flock --timeout 30 "$1/alive" true || true
    rm -rf --one-file-system -- "$1"
}

if [ "${1:-}" = --inside ]; then
    shift
    inside "$@"
    exit
fi

suite=${FRESH_SUITE:-trixie} steps=${FRESH_STEPS:-all} place=${FRESH_DIR:-/var/tmp}
repository=$(cd "$(dirname "$0")/.." && pwd)
case $suite in trixie | bookworm) ;; *)
    echo "fresh: FRESH_SUITE is trixie or bookworm, not $suite" >&2
    exit 2
    ;;
esac
case $steps in quick | demo | all | packages) ;; *)
    echo "fresh: FRESH_STEPS is quick, demo, packages or all, not $steps" >&2
    exit 2
    ;;
esac
export packages=${FRESH_PACKAGES:-${CARGO_TARGET_DIR:-$repository/target}/packages}
if [ "$steps" = packages ] && [ ! -d "$packages" ]; then
    echo "fresh: no packages in $packages: build them with scripts/packages.sh" >&2
    exit 2
fi
[ "$(id -u)" = 0 ] || can_not "only root can make it"
for program in debootstrap unshare pivot_root setpriv git flock; do
    command -v "$program" >/dev/null || can_not "$program is not installed"
done
mirror=${FRESH_MIRROR:-$(mirror_of Debian)}
if [ -z "$mirror" ] && command -v apt-get >/dev/null; then
    # Which mirror is Debian's stands in lists that may not be here yet.
    apt-get update -qq -o DPkg::Lock::Timeout=600 || true
    mirror=$(mirror_of Debian)
fi
[ -n "$mirror" ] || can_not "apt knows no mirror of Debian here; name one in FRESH_MIRROR"
unshare --mount --pid --fork true 2>/dev/null || can_not "no mount or process namespace can be made"
[ -z "$(git -C "$repository" status --porcelain 2>/dev/null)" ] ||
    echo "fresh: there are changes that are not committed; they are not tried" >&2

# What a killed run has left: nobody holds its lock any more.
for old in "$place"/barewire-fresh.*; do
    if [ -O "$old/lock" ] && flock --nonblock "$old/lock" true; then
        echo "fresh: removing $old, which a run has left that was killed"
        remove "$old"
    fi
done
# What is built there takes most of it.
case $steps in packages) needed_mb=1500 ;; quick | demo) needed_mb=6000 ;; all) needed_mb=25000 ;; esac
free_mb=$(df --output=avail -BM "$place" | tail -n 1 | tr -dc 0-9)
if [ "$free_mb" -lt "$needed_mb" ]; then
    echo "fresh: $place has $free_mb MB free, and the new machine needs $needed_mb MB: free some, or name another place in FRESH_DIR" >&2
    exit 1
fi

folder=$(mktemp -d "$place/barewire-fresh.XXXXXX")
exec {lock}>"$folder/lock"
flock "$lock"
# If this script is killed `unshare` is killed, and with it all in its namespace.
setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child \
    "$repository/scripts/fresh.sh" --inside "$folder" "$suite" "$steps" "$mirror" "$repository" \
    {lock}>&- &
child=$!
trap 'kill -KILL "$child" 2>/dev/null || true; remove "$folder"' EXIT
trap 'exit 130' INT TERM HUP
status=0
wait "$child" || status=$?
exit "$status"
