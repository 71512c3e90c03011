#!/usr/bin/env bash
# Round trips in C beside those in Rust, in turn, on two processors: prints for each
# length the median of all runs, the range, and how much longer C takes.
#
#     scripts/bench-c.sh              # 8 and 64 bytes, 9 runs each
#     BENCH_C_RUNS=15 scripts/bench-c.sh
#     BENCH_C_BUILD=only scripts/bench-c.sh   # builds and does not measure; `no` measures what was built
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${BENCH_C_RUNS:-9}
target=${CARGO_TARGET_DIR:-target}
target=$(realpath "$target")
installed=$target/bench-c
rust=$target/release/examples/round_trip
c=$installed/round_trip

if [ "${BENCH_C_BUILD:-}" != no ]; then
    scripts/cargo.sh build --quiet --release -p barewire-capi --example round_trip
    PREFIX=$installed scripts/install-c.sh
    "${CC:-cc}" -O2 -Wall -Wextra -Werror -std=c11 crates/capi/examples/c/round_trip.c \
        -o "$c" -I"$installed/include" -L"$installed/lib" -Wl,-rpath,"$installed/lib" -lbarewire
fi
[ "${BENCH_C_BUILD:-}" != only ] || exit 0

# run PROGRAM BYTES: one server and one client; prints nanoseconds.
run() {
    local name=bench-c-$$-$RANDOM
    taskset -c 0 "$1" serve "$name" &
    taskset -c 1 "$1" call "$name" "$2"
    wait $!
}

for bytes in 8 64; do
    rust_ns=() c_ns=()
    for ((i = 0; i < runs; i++)); do
        rust_ns+=("$(run "$rust" $bytes)")
        c_ns+=("$(run "$c" $bytes)")
    done
    paste <(printf '%s\n' "${rust_ns[@]}" | sort -n) <(printf '%s\n' "${c_ns[@]}" | sort -n) |
        awk -v bytes=$bytes -v middle=$((runs / 2 + 1)) '
            NR == 1 { r0 = $1; c0 = $2 }
            NR == middle { r = $1; c = $2 }
            END { printf "%d bytes: Rust %.1f ns (%.1f to %.1f), C %.1f ns (%.1f to %.1f): C takes %+.1f %%\n",
                  bytes, r, r0, $1, c, c0, $2, (c / r - 1) * 100 }'
done
