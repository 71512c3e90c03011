#!/usr/bin/env bash
# Counts the instructions of each call of the message path, with valgrind's callgrind. The counts do not depend on what
# else the machine does.
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

for size in 8 64 512; do
    count messages $size send 2
    count messages $size receive 2
    count messages $size receive_nothing 2
done
count one-way 8 send 8
count one-way 8 receive 8
count events 8 poll 1
