#!/usr/bin/env bash
# Checks that the crates can be published: packages each as cargo would upload it, and builds the command, the preload
# library and the laboratory from those packages alone.
#
# Each must have a README.md, both licences and a description.
set -euo pipefail
. "$(dirname "$0")/toolchain.sh"
cd "$BAREWIRE_ROOT"

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
place=$target/crates-check
rm -rf "$place/package" "$place/all"
mkdir -p "$place/all"

others=()
for manifest in $(git ls-files '*/Cargo.toml'); do
    # Those outside of the workspace are none of its packages.
    case $manifest in fuzz/* | benches/rivals/* | examples/*) continue ;; esac
    ! grep -q '^publish = false' "$manifest" ||
        others+=(--exclude "$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest" | head -n 1)")
done
cargo package --quiet --locked --workspace --no-verify --allow-dirty "${others[@]}" --target-dir "$place"

failed=0
patches=()
for crate in "$place"/package/*.crate; do
    tar -C "$place/all" -xzf "$crate"
    folder=$(basename "$crate" .crate)
    for file in README.md LICENSE-MIT LICENSE-APACHE; do
        [ -f "$place/all/$folder/$file" ] || { echo "crates: $folder has no $file" >&2; failed=1; }
    done
    grep -q '^description = ' "$place/all/$folder/Cargo.toml" || { echo "crates: $folder has no description" >&2; failed=1; }
    # barewire-sys-0.1.0
    patches+=("${folder%-*} = { path = \"$folder\" }")
done
[ "$failed" = 0 ] || exit 1

{
    echo '[workspace]'
    echo 'resolver = "3"'
    echo 'members = ["barewire-*"]'
    echo '[patch.crates-io]'
    printf '%s\n' "${patches[@]}"
} >"$place/all/Cargo.toml"
cp Cargo.lock "$place/all/Cargo.lock"
# The profile of the tests, so that what they have built of other crates can be used again.
(cd "$place/all" && cargo check --quiet -p barewire-cli -p barewire-sockets --target-dir "$place/check")
echo "crates: ${#patches[@]} can be published, and the command builds from them"
