#!/usr/bin/env bash
# Builds the programs that `barewire bench --rivals` runs of other projects: those in
# benches/rivals that use iceoryx2, Aeron and Open MPI. The libraries come from their package
# registries (crates.io, Maven Central) and from the distribution. What cannot be built is left
# out, and said.
set -euo pipefail
. "$(dirname "$0")/toolchain.sh"
cd "$BAREWIRE_ROOT"
target=${CARGO_TARGET_DIR:-$BAREWIRE_ROOT/target}
rivals=$target/rivals
aeron=1.51.0
mkdir -p "$rivals"

# left_out NAME WHY: says so.
left_out() {
    echo "rivals: $1 is left out: $2" >&2
}

# lacks NAME PACKAGES PROGRAM...: whether a program that building NAME takes is missing.
lacks() {
    local name=$1 packages=$2 program
    shift 2
    for program in "$@"; do
        if ! command -v "$program" >/dev/null; then
            left_out "$name" "no $program here (apt-get install $packages)"
            return 0
        fi
    done
    return 1
}

iceoryx2() {
    if "$CARGO_FOUND" build --quiet --release --locked --target-dir "$rivals" \
        --manifest-path benches/rivals/iceoryx2/Cargo.toml; then
        install -m 755 "$rivals/release/iceoryx2-rival" "$rivals/iceoryx2"
    else
        left_out iceoryx2 "it does not build here (it needs Rust of at least 1.89, and crates.io)"
    fi
}

# fetch_aeron JAR: has Maven fetch the library. What was fetched once is not fetched again.
fetch_aeron() {
    [ ! -e "$1" ] || return 0
    ! lacks aeron "maven" mvn || return 1
    mvn -q -B dependency:copy -Dartifact="io.aeron:aeron-all:$aeron" -DoutputDirectory="${1%/*}" ||
        { left_out aeron "its library could not be had (it needs Maven Central)" && return 1; }
}

aeron() {
    ! lacks aeron "default-jdk-headless maven" java javac || return 0
    local java=$rivals/java jar=$rivals/java/aeron-all-$aeron.jar
    mkdir -p "$java"
    fetch_aeron "$jar" || return 0
    if javac -cp "$jar" -d "$java" benches/rivals/aeron/Rival.java; then
        ln -sf "${jar##*/}" "$java/aeron-all.jar"
        install -m 755 benches/rivals/aeron/run.sh "$rivals/aeron"
    else
        left_out aeron "it does not build here (it needs Java of at least 17)"
    fi
}

openmpi() {
    ! lacks openmpi "openmpi-bin libopenmpi-dev" mpicc mpirun || return 0
    if mpicc -O3 -o "$rivals/openmpi-rival" benches/rivals/openmpi/rival.c; then
        install -m 755 benches/rivals/openmpi/run.sh "$rivals/openmpi"
    else
        left_out openmpi "it does not build here"
    fi
}

iceoryx2
aeron
openmpi
echo "rivals: for \`barewire bench --rivals\`, in $rivals:"
for name in iceoryx2 aeron openmpi; do
    [ ! -x "$rivals/$name" ] || echo "  $("$rivals/$name" --version || echo "$name does not start")"
done
