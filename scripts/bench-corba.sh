#!/usr/bin/env bash
# How long a call of omniORB takes over TCP, over omniORB's Unix sockets, and over Barewire, in turn. Prints for each the
# median of the runs' medians with the range, and how many times as fast as TCP it is.
#
#     scripts/bench-corba.sh PREFIX [RUNS]
#
#   PREFIX      where scripts/install-corba.sh has installed the transport
#   RUNS        runs of each (9)
#
# Needs what scripts/install-corba.sh needs, and omniidl.
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=${1:?where the transport is installed}
runs=${2:-9}
folder=$(mktemp -d)
servers=()
trap 'kill "${servers[@]}" 2>/dev/null || true; rm -rf "$folder"' EXIT
export OMNIORB_CONFIG=/dev/null

omniidl -bcxx -C"$folder" corba/tests/echo.idl
for program in server client; do
    # shellcheck disable=SC2046 # one option a word
    c++ -std=c++17 -O2 -pthread "corba/tests/$program.cpp" "$folder/echoSK.cc" -I "$folder" -o "$folder/$program" \
        $(pkg-config --cflags --libs omniDynamic4)
done

# preloaded TRANSPORT: what a program of this transport is started with.
preloaded() { [ "$1" != barewire ] || echo "LD_PRELOAD=$prefix/lib/libbarewire-omniorb.so"; }

# serve TRANSPORT ENDPOINT POLICY: starts a server; its reference goes to the file $folder/TRANSPORT.
serve() {
    # shellcheck disable=SC2046 # none or one word
    env $(preloaded "$1") "$folder/server" -ORBendPoint "$2" -ORBthreadPerConnectionPolicy "$3" >"$folder/$1" &
    servers+=($!)
    for _ in $(seq 100); do
        ! grep -q IOR "$folder/$1" || return 0
        sleep 0.1
    done
    echo "bench-corba: the server for $1 does not start" >&2
    exit 1
}

# measure WHAT CALLS POLICY TITLE
measure() {
    local transport
    serve tcp giop:tcp:127.0.0.1: "$3"
    serve unix "giop:unix:$folder/socket" "$3"
    serve barewire "giop:barewire:bench-$$" "$3"
    for _ in $(seq "$runs"); do
        for transport in tcp unix barewire; do
            # shellcheck disable=SC2046 # none or one word
            env $(preloaded $transport) "$folder/client" "$1" "$(cat "$folder/$transport")" "$2" | head -n 1 >>"$folder/$transport-times"
        done
    done
    kill "${servers[@]}"
    wait "${servers[@]}" 2>/dev/null || true
    servers=()
    for transport in tcp unix barewire; do
        sort -n "$folder/$transport-times" >"$folder/sorted"
        rm "$folder/$transport-times"
        awk -v title="$4" -v transport="$transport" -v keep="$folder/tcp-median" '
            { t[NR] = $1 / 1000 }
            END {
                median = t[int((NR + 1) / 2)]
                if (transport == "tcp") print median >keep; else getline tcp <keep
                printf "%s, %s: %.2f us (%.2f to %.2f)", title, transport, median, t[1], t[NR]
                if (transport != "tcp") printf ", %.2f times as fast", tcp / median
                print ""
            }' "$folder/sorted"
    done
}

measure measure 5000 1 "8 bytes, a thread for each connection"
measure measure 5000 0 "8 bytes, pool of threads"
measure measure_paused 300 1 "8 bytes after a pause of 1 ms"
measure measure_large 30 1 "1 MiB there and back"
