#!/usr/bin/env bash
# Counts the instructions of each call of the message path, with valgrind's callgrind. The counts do not depend on what
# else the machine does.
#
#     scripts/instructions.sh         # in Rust
#     scripts/instructions.sh c       # in C, beside the same calls in Rust
set -euo pipefail
. "$(dirname "$0")/toolchain.sh"
cd "$BAREWIRE_ROOT"
command -v valgrind >/dev/null || { echo "instructions: no valgrind here (apt-get install valgrind)" >&2; exit 1; }
"$CARGO_FOUND" build --quiet --release --locked -p barewire-benches --bin instructions
program=${CARGO_TARGET_DIR:-$BAREWIRE_ROOT/target}/release/instructions
out=$(mktemp)
trap 'rm -f "$out"' EXIT
turns=1000

# count WHAT SIZE FUNCTION CALLS: instructions of FUNCTION, which is called so often in a turn.
count() {
    valgrind --tool=callgrind --callgrind-out-file="$out" --toggle-collect="instructions::$3" \
        "$program" "$1" "$2" "$turns" 2>&1 |
        awk -v calls="$4" -v turns="$turns" -v what="$1, $2 B, $3" \
            '/Collected/ { printf "%-36s %5.0f\n", what, $NF / calls / turns; found = 1 } END { exit !found }' ||
        { echo "instructions: callgrind counted nothing of $1 $2 $3" >&2; exit 1; }
}

# count_c WHAT SIZE FUNCTION: the same of a function of libbarewire, which is called twice in a turn.
count_c() {
    valgrind --tool=callgrind --callgrind-out-file="$out" --toggle-collect="$3" "$program_c" "$1" "$2" "$turns" 2>&1 |
        awk -v turns="$turns" -v what="$1, $2 B, $3" \
            '/Collected/ { printf "%-36s %5.0f\n", what, $NF / 2 / turns; found = 1 } END { exit !found }' ||
        { echo "instructions: callgrind counted nothing of $1 $2 $3" >&2; exit 1; }
}

if [ "${1:-}" = c ]; then
    installed=${CARGO_TARGET_DIR:-$BAREWIRE_ROOT/target}/instructions-c
    program_c=$installed/instructions
    PREFIX=$installed scripts/install-c.sh >&2
    "${CC:-cc}" -O2 -std=c11 crates/capi/tests/instructions.c -o "$program_c" -I"$installed/include" \
        -L"$installed/lib" -Wl,-rpath,"$installed/lib" -lbarewire
    for size in 8 64 512; do
        count waiting $size send_waiting 2
        count_c waiting $size bw_connection_send
        count waiting $size receive_waiting 2
        count_c waiting $size bw_connection_recv
        count messages $size send 2
        count_c messages $size bw_connection_send
        count messages $size receive 2
        count_c messages $size bw_connection_recv
    done
    exit
fi

for size in 8 64 512; do
    count messages $size send 2
    count messages $size receive 2
    count messages $size receive_nothing 2
done
count one-way 8 send 8
count one-way 8 receive 8
count events 8 poll 1
