//! What is installed: its symbols and their versions, and that programs find it, through pkg-config and CMake.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{folder, has, installed, run_well, source};

/// The symbols that the shared library offers, as `name@@version`.
fn exported() -> Vec<String> {
    let library = installed().join("lib/libbarewire.so");
    let said = run_well(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(library),
    );
    let names = said.lines().filter_map(|line| line.split(' ').nth(2));
    names.map(str::to_owned).collect()
}

/// The functions of the header, by the lines that declare them.
fn declared() -> Vec<String> {
    let header = fs::read_to_string(installed().join("include/barewire.h")).expect("the header");
    let mut names: Vec<String> = header
        .lines()
        .filter(|line| !line.trim_start().starts_with("//") && !line.trim_start().starts_with('*'))
        .filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("bw_"))
        .map(str::to_owned)
        .collect();
    names.sort();
    names
}

#[test]
fn the_library_exports_the_functions_of_the_header_and_nothing_else() {
    let mut expected: Vec<String> = declared()
        .iter()
        .map(|name| format!("{name}@@BAREWIRE_0.1"))
        .collect();
    assert!(expected.len() > 100, "{expected:?}");
    // The version itself is a symbol.
    expected.push("BAREWIRE_0.1".to_owned());
    let mut found: Vec<String> = exported();
    // Some linkers name its version, too.
    found
        .iter_mut()
        .filter(|name| name.starts_with("BAREWIRE_0.1@"))
        .for_each(|name| name.truncate(12));
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn the_library_has_its_name_and_links_lead_to_it() {
    let lib = installed().join("lib");
    let said = run_well(
        Command::new("readelf")
            .arg("-d")
            .arg(lib.join("libbarewire.so")),
    );
    assert!(said.contains("[libbarewire.so.0]"), "{said}");
    let version = concat!("libbarewire.so.", env!("CARGO_PKG_VERSION"));
    let leads_to = |link: &str| fs::read_link(lib.join(link)).expect("a link");
    assert_eq!(leads_to("libbarewire.so.0"), Path::new(version));
    assert_eq!(leads_to("libbarewire.so"), Path::new("libbarewire.so.0"));
    for file in [
        "lib/libbarewire.a",
        "include/barewire.hpp",
        "lib/cmake/barewire/barewire-config.cmake",
    ] {
        assert!(installed().join(file).exists(), "{file}");
    }
}

/// The code of a block of the book's page, as a newcomer copies it.
fn book(kind: &str, nth: usize) -> String {
    let page = fs::read_to_string(source("../../docs/c.md")).expect("the page");
    let block = page
        .split(&format!("```{kind}\n"))
        .nth(nth + 1)
        .expect("a block");
    block.split("\n```").next().expect("its end").to_owned() + "\n"
}

/// A fresh folder with the first program of the book.
fn first_program(name: &str) -> std::path::PathBuf {
    let folder = folder().join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("hello.c"), book("c", 0)).expect("written");
    folder
}

/// A command of the shell, in that folder, with the page's prefix replaced by ours.
fn shell(folder: &Path, command: &str) -> String {
    let prefix = installed().display().to_string();
    let command = command.replace("$HOME/barewire", &prefix);
    run_well(
        Command::new("sh")
            .current_dir(folder)
            .args(["-e", "-c", &command]),
    )
}

#[test]
fn the_first_program_of_the_book_works_with_pkg_config() {
    if !has(
        "pkg-config",
        "the_first_program_of_the_book_works_with_pkg_config",
    ) {
        return;
    }
    let folder = first_program("pkg-config");
    let said = shell(&folder, &book("sh", 1));
    assert_eq!(said, "it says \"hello\"\n");
    let linked = format!(
        "export PKG_CONFIG_PATH=$HOME/barewire/lib/pkgconfig\n{}./hello",
        book("sh", 2)
    );
    assert_eq!(shell(&folder, &linked), "it says \"hello\"\n");
    // The client in C++, with the server of the examples.
    fs::write(folder.join("client.cpp"), book("cpp", 0)).expect("written");
    let flags = "export PKG_CONFIG_PATH=$HOME/barewire/lib/pkgconfig\n\
                 c++ -std=c++17 -Wall -Wextra -Werror client.cpp -o client $(pkg-config --cflags --libs barewire)\n";
    shell(&folder, flags);
    let name = format!("capi-book-{}", std::process::id());
    let node = barewire::Node::new().expect("a node");
    let _listener = node.listen(&name).expect("the name");
    let serving = std::thread::spawn(move || {
        let mut connection = node
            .next_request(None)
            .and_then(|request| request.accept())
            .expect("a client");
        let message = connection
            .receiver()
            .recv_message()
            .expect("a message")
            .into_vec();
        connection.send(&message).expect("sent");
        // Until it has read it.
        let _ = connection.recv(&mut [0; 8]);
    });
    let said = shell(
        &folder,
        &format!("LD_LIBRARY_PATH=$HOME/barewire/lib ./client {name}"),
    );
    assert_eq!(said, "hello\n");
    serving.join().expect("served");
}

#[test]
fn the_first_program_of_the_book_works_with_cmake() {
    if !has("cmake", "the_first_program_of_the_book_works_with_cmake") {
        return;
    }
    let folder = first_program("cmake");
    let lists = book("cmake", 0);
    fs::write(folder.join("CMakeLists.txt"), &lists).expect("written");
    assert!(shell(&folder, &book("sh", 3)).ends_with("it says \"hello\"\n"));
    // The same with the static library, which needs nothing at run time.
    let folder = first_program("cmake-static");
    let lists = lists.replace(
        "PRIVATE barewire::barewire)",
        "PRIVATE barewire::barewire-static)",
    );
    let lists = lists.replace(
        "PRIVATE barewire::barewire ",
        "PRIVATE barewire::barewire-static ",
    );
    fs::write(folder.join("CMakeLists.txt"), lists).expect("written");
    assert!(shell(&folder, &book("sh", 3)).ends_with("it says \"hello\"\n"));
}
