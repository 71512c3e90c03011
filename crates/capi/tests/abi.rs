//! That programs which were compiled with an earlier header run with this library: abidiff compares the functions and
//! types of `barewire.h`, and the versions of the symbols, with `barewire.abi`.
//!
//! The library itself has no types for a debugger. So what is compared is a library in C with the same header, the same
//! symbols and the same versions; `header.rs` and `install.rs` check that those are the true library's.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{folder, has, run, run_well, said, skipped, source};

const RENEW: &str = "BAREWIRE_UPDATE_ABI=1 cargo test -p barewire-capi --test abi";

/// A library whose functions are those that a header declares. They do nothing. One more takes a value of each
/// enumeration: other functions have plain numbers for them.
fn stand_in(name: &str, header: &str) -> PathBuf {
    let folder = folder().join("abi").join(name);
    fs::create_dir_all(&folder).expect("a folder");
    let functions = header.replace(");\n", ") { __builtin_trap(); }\n");
    let enumerations: Vec<&str> = header
        .lines()
        .filter_map(|line| line.strip_prefix("typedef enum ")?.strip_suffix(" {"))
        .collect();
    assert!(enumerations.len() > 5, "{enumerations:?}");
    let parameters: Vec<String> = enumerations
        .iter()
        .map(|name| format!("{name} of_{name}"))
        .collect();
    let last = format!("void bw_enumerations({}) {{}}\n", parameters.join(", "));
    fs::write(folder.join("library.c"), functions + &last).expect("written");
    let symbols = fs::read_to_string(source("barewire.map")).expect("the symbols");
    let symbols = symbols.replacen("global:", "global:\n    bw_enumerations;", 1);
    fs::write(folder.join("library.map"), symbols).expect("written");
    run_well(
        Command::new("cc")
            .current_dir(&folder)
            .args([
                "-std=c11",
                "-g",
                "-O0",
                "-w",
                "-fPIC",
                "-shared",
                "library.c",
            ])
            .args(["-o", "library.so", "-Wl,-soname,libbarewire.so.0"])
            .arg("-Wl,--version-script,library.map"),
    );
    folder.join("library.so")
}

fn header() -> String {
    fs::read_to_string(source("include/barewire.h")).expect("the header")
}

/// What abidiff finds between what is committed and a library; `None`: nothing.
fn difference(library: &Path) -> Option<String> {
    let output = run(Command::new("abidiff")
        .arg(source("barewire.abi"))
        .arg(library));
    let code = output.status.code().expect("it was not killed");
    assert_eq!(code & 3, 0, "abidiff itself failed: {}", said(&output));
    (code != 0).then(|| said(&output))
}

/// Whether the comparison can be made here. If not, the test counts as skipped.
fn can_compare(test: &str) -> bool {
    if !cfg!(target_arch = "x86_64") {
        skipped(test, "barewire.abi is that of x86-64");
        return false;
    }
    has("abidiff", test)
}

#[test]
fn old_programs_run_with_this_library() {
    if !can_compare("old_programs_run_with_this_library") {
        return;
    }
    let library = stand_in("true", &header());
    if std::env::var_os("BAREWIRE_UPDATE_ABI").is_some() {
        let described = library.with_extension("abi");
        run_well(
            Command::new("abidw")
                .args(["--no-show-locs", "--no-comp-dir-path", "--no-corpus-path"])
                .arg("--out-file")
                .arg(&described)
                .arg(&library),
        );
        fs::copy(described, source("barewire.abi")).expect("copied");
    }
    if let Some(found) = difference(&library) {
        panic!(
            "{found}\nIf programs that were compiled before still run, because something was only added: {RENEW}. \
             Otherwise the library must have another version."
        );
    }
}

/// What must be found: each of these changes breaks programs.
#[test]
fn what_would_break_programs_is_found() {
    if !can_compare("what_would_break_programs_is_found") {
        return;
    }
    let changes = [
        ("field", "uint64_t needed_bytes;", "uint32_t needed_bytes;"),
        ("number", "BW_E_TIMEOUT = -8", "BW_E_TIMEOUT = -80"),
        (
            "argument",
            "bw_connection_close(struct bw_connection connection)",
            "bw_connection_close(struct bw_connection connection, int how)",
        ),
        ("function", "bw_connection_close(", "bw_connection_shut("),
    ];
    for (name, from, to) in changes {
        let header = header();
        assert!(header.contains(from), "{from}");
        let library = stand_in(name, &header.replace(from, to));
        let found = difference(&library);
        assert!(found.is_some(), "{name}: {from} became {to}");
    }
}
