#!/usr/bin/env bash
# The book in docs/.
#
#   scripts/book.sh check   every page is in docs/SUMMARY.md, once, and every entry is a page;
#                           no link of a page leaves the book; each link to a heading finds it;
#                           each file of the project that a page names is there
#   scripts/book.sh build   checks, then builds the book with mdBook into target/book
#
# `check` needs nothing but awk. `build` installs mdBook with cargo where it is missing, which takes
# some minutes once; where that fails it says so, and ends with 0: the pages can be read as they are.
set -euo pipefail
. "$(dirname "$0")/toolchain.sh"
cd "$BAREWIRE_ROOT"

# The last version that Rust 1.85 builds.
MDBOOK_VERSION=0.4.52
target=${CARGO_TARGET_DIR:-$BAREWIRE_ROOT/target}

# pages: the pages of the book, as paths below docs/.
pages() {
    find "$BAREWIRE_ROOT/docs" -name '*.md' ! -path "$BAREWIRE_ROOT/docs/SUMMARY.md" -printf '%P\n' | sort
}

# check_summary: docs/SUMMARY.md and the pages are the same list.
check_summary() {
    local listed
    listed=$(sed -n 's/.*](\([^)]*\.md\)).*/\1/p' docs/SUMMARY.md | sort)
    local twice
    twice=$(uniq -d <<<"$listed")
    [ -z "$twice" ] || echo "docs/SUMMARY.md lists a page twice: $twice"
    comm -23 <(uniq <<<"$listed") <(pages) | sed 's|^|docs/SUMMARY.md lists a page that is not there: |'
    comm -13 <(uniq <<<"$listed") <(pages) | sed 's|$|: is not listed in docs/SUMMARY.md|; s|^|docs/|'
}

# check_links: links between pages stay in the book, and each `#heading` is there. (`cargo xtask tidy`
# checks that the files exist.)
check_links() {
    (
        cd docs
        # shellcheck disable=SC2046 # no page has a space in its name
        awk '
            # The anchor of a heading, as mdBook and the web pages of the repository make it.
            function anchor(text) {
                sub(/^#+ +/, "", text)
                text = tolower(text)
                gsub(/\]\([^)]*\)/, "", text)
                gsub(/[^a-z0-9 _-]/, "", text)
                gsub(/ /, "-", text)
                return text
            }
            # The folder and the relative target as one path; it begins with .. if it leaves the book.
            function joined(page, target,    count, parts, i, depth, stack, path) {
                if (target == "") return page
                sub(/[^\/]*$/, "", page)
                count = split(page target, parts, "/")
                depth = 0
                for (i = 1; i <= count; i++) {
                    if (parts[i] == "" || parts[i] == ".") continue
                    if (parts[i] == "..") { if (depth == 0) return "../"; depth--; continue }
                    stack[++depth] = parts[i]
                }
                path = stack[1]
                for (i = 2; i <= depth; i++) path = path "/" stack[i]
                return path
            }
            FNR == 1 { fenced = 0; seen[FILENAME] = 1 }
            /^ *```/ { fenced = !fenced; next }
            fenced { next }
            /^#+ / {
                name = FILENAME "#" anchor($0)
                # A second heading of the same words has a number behind it.
                if (name in headings) name = name "-" ++again[name]
                headings[name] = 1
            }
            {
                line = $0
                gsub(/`[^`]*`/, "", line)
                while (match(line, /\]\([^)]*\)/)) {
                    target = substr(line, RSTART + 2, RLENGTH - 3)
                    line = substr(line, RSTART + RLENGTH)
                    if (target ~ /:\/\// || target ~ /^mailto:/) continue
                    links++
                    from[links] = FILENAME; at[links] = FNR; to[links] = target
                }
            }
            END {
                if (links == 0) print "no link was found: nothing was checked"
                for (i = 1; i <= links; i++) {
                    file = to[i]; sub(/#.*/, "", file)
                    part = to[i]; if (!sub(/^[^#]*#/, "", part)) part = ""
                    path = joined(from[i], file)
                    where = "docs/" from[i] ":" at[i]
                    if (path ~ /^\.\.\//) print where ": links to " to[i] ", which is outside of the book"
                    else if (part != "" && !((path "#" part) in headings))
                        print where ": links to " to[i] ", and there is no such heading"
                }
            }
        ' $(pages)
    )
}

# check_names: a file or folder of the project that a page names as `crates/...` is there.
check_names() {
    local page name
    find docs README.md ARCHITECTURE.md CONTRIBUTING.md -name '*.md' | sort | while read -r page; do
        grep -oE '`(benches|crates|docs|fuzz|lab|scripts|tests|xtask)/[A-Za-z0-9_./-]+`' "$page" | tr -d '`' | sort -u |
            while read -r name; do
                # A decision may be named by its number alone.
                compgen -G "${name%/}*" >/dev/null || echo "$page: names $name, which is not there"
            done || true
    done
}

check() {
    local faults
    faults=$(check_summary; check_links; check_names)
    if [ -n "$faults" ]; then
        echo "$faults" >&2
        return 1
    fi
    echo "book: $(pages | wc -l) pages, all in SUMMARY.md; all links lead to a page or heading of the book; all files that pages name are there"
}

# mdbook: prints the command, and installs it where it is missing.
find_mdbook() {
    if command -v mdbook; then return; fi
    local own=$target/tools/bin/mdbook
    if [ ! -x "$own" ]; then
        echo "book: installs mdBook $MDBOOK_VERSION in $target/tools: some minutes, once" >&2
        "$CARGO_FOUND" install mdbook --locked --version "$MDBOOK_VERSION" --root "$target/tools" >&2 || return
    fi
    echo "$own"
}

build() {
    check
    local mdbook
    if ! mdbook=$(find_mdbook); then
        echo "book: not built, since mdBook is missing and could not be installed; read docs/README.md instead" >&2
        return 0
    fi
    "$mdbook" build --dest-dir "$target/book" .
    echo "The book: $target/book/index.html"
}

case ${1:-} in
check | build) "$1" ;;
*)
    echo "usage: scripts/book.sh check|build" >&2
    exit 2
    ;;
esac
