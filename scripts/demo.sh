#!/usr/bin/env bash
# What barewire does on this machine, two minutes after it is built: first programs that know nothing of
# it, without and with the library that is preloaded, then the network itself beside
# its rivals; a table of each on the terminal, and one page.
#
# Programs that are not installed are named as not measured. One that fails is a fault of
# ours: the page says so, and so does the exit status.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
out=$target/demo
mkdir -p "$out"
# Without the laboratory and the event builder, which take most of the time to build.
scripts/cargo.sh build --release --no-default-features -p barewire-cli -p barewire-sockets
barewire=$target/release/barewire

echo "Programs as they are, without barewire and with it:"
echo
status=0
"$barewire" bench programs --quick --duration-ms 500 --only ping-pong,blocking,redis,nginx \
    --json "$out/programs.json" || status=$?
page=(--html "$out/index.html")
# It is empty if nothing could be begun.
[ ! -s "$out/programs.json" ] || page+=(--programs "$out/programs.json")

echo
echo "The network itself, beside the kernel's transports and the bare machine:"
echo
"$barewire" bench all --quick "${page[@]}" --json "$out/results.json"
echo
echo "The page: $(realpath "$out/index.html")"
exit "$status"
