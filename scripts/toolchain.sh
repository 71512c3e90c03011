# Puts a usable Rust toolchain first on PATH, if this machine has one.
# To be sourced: `. scripts/toolchain.sh`, from anywhere, by bash.
#
# Usable is: cargo and rustc of at least the workspace's rust-version. Looked
# at, in this order: what PATH gives, rustup's folder, and the folders of
# versioned distribution packages, the newest first.
#
# Sets BAREWIRE_ROOT, RUST_VERSION_MIN, and CARGO_FOUND (empty if there is none).

BAREWIRE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
RUST_VERSION_MIN=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' "$BAREWIRE_ROOT/Cargo.toml" | head -n 1)

# version_of PROGRAM: prints its version ("1.85.0"); fails if it has none.
version_of() {
    "$1" --version 2>/dev/null | sed -n '1s/^[a-z]* \([0-9][0-9.]*\).*/\1/p' | grep .
}

# at_least HAVE WANT: compares versions.
at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

# usable_in DIR: whether the cargo and rustc in DIR are new enough.
usable_in() {
    local cargo rustc
    cargo=$(version_of "$1/cargo") && rustc=$(version_of "$1/rustc") &&
        at_least "$cargo" "$RUST_VERSION_MIN" && at_least "$rustc" "$RUST_VERSION_MIN"
}

# complete_in DIR: whether it also has rustfmt and clippy.
complete_in() {
    [ -x "$1/cargo-fmt" ] && [ -x "$1/cargo-clippy" ]
}

# find_toolchain: sets CARGO_FOUND and PATH; a complete toolchain comes first.
find_toolchain() {
    local dir on_path versioned usable=
    on_path=$(command -v cargo 2>/dev/null || true)
    # Their programs may also be only links: /usr/bin/cargo-1.85 to such a folder.
    versioned=$({
        ls -d /usr/lib/rust-*/bin
        readlink -f /usr/bin/cargo-1.* | xargs -r -n 1 dirname
    } 2>/dev/null | sort -rVu || true)
    for dir in ${on_path:+"$(dirname "$on_path")"} "${CARGO_HOME:-${HOME:-}/.cargo}/bin" $versioned; do
        if [ -x "$dir/cargo" ] && usable_in "$dir"; then
            usable=${usable:-$dir}
            if complete_in "$dir"; then
                usable=$dir
                break
            fi
        fi
    done
    CARGO_FOUND=${usable:+$usable/cargo}
    if [ -n "$usable" ] && [ "$on_path" != "$CARGO_FOUND" ]; then
        PATH=$usable:$PATH
        export PATH
    fi
}

# forget_paths TARGET: has what is built from now on, in the folder TARGET, name no folder of this machine: paths begin with
# /barewire and /cargo. What C compilers are told is for the sources in C and assembler of some crates.
forget_paths() {
    local cargo_home=${CARGO_HOME:-$HOME/.cargo}
    # Of those that fit, the last is taken.
    export RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$cargo_home=/cargo --remap-path-prefix=$BAREWIRE_ROOT=/barewire --remap-path-prefix=$1=/barewire/target"
    export CFLAGS="${CFLAGS:-} -ffile-prefix-map=$cargo_home=/cargo -ffile-prefix-map=$BAREWIRE_ROOT=/barewire -ffile-prefix-map=$1=/barewire/target"
}

find_toolchain
