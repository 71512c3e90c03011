//! Compares the declarations of `raw.rs` with the header of libfabric that is installed.
//!
//! It writes a C file of assertions, and lets the C compiler judge. `BAREWIRE_LIBFABRIC_INCLUDE`
//! names another folder with `rdma/fabric.h`, such as that of libfabric's next version.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::*;

/// The constants of this file, by libfabric's names.
fn constants() -> Vec<(&'static str, u64)> {
    macro_rules! list {
        ($($name:ident),* $(,)?) => { vec![$((stringify!($name), $name as u64)),*] };
    }
    list![
        FI_MSG,
        FI_RECV,
        FI_SEND,
        FI_NUMERICHOST,
        FI_SOURCE,
        FI_CONTEXT,
        FI_CONTEXT2,
        FI_ORDER_SAS,
        FI_MR_LOCAL,
        FI_MR_VIRT_ADDR,
        FI_MR_ALLOCATED,
        FI_MR_PROV_KEY,
        FI_EP_MSG,
        FI_THREAD_DOMAIN,
        FI_WAIT_FD,
        FI_WAIT_POLLFD,
        FI_CQ_FORMAT_MSG,
        FI_SOCKADDR_IN,
        FI_SOCKADDR_IN6,
        FI_GETWAIT,
        FI_ENABLE,
        FI_CONNREQ,
        FI_CONNECTED,
        FI_SHUTDOWN,
        FI_EAGAIN,
        FI_ECANCELED,
        FI_EAVAIL,
    ]
}

/// Structure, member and type in C of each function that is called.
const SIGNATURES: &[(&str, &str, &str)] = &[
    ("fi_ops", "close", "int (*)(struct fid *)"),
    (
        "fi_ops",
        "bind",
        "int (*)(struct fid *, struct fid *, uint64_t)",
    ),
    ("fi_ops", "control", "int (*)(struct fid *, int, void *)"),
    (
        "fi_ops_fabric",
        "domain",
        "int (*)(struct fid_fabric *, struct fi_info *, struct fid_domain **, void *)",
    ),
    (
        "fi_ops_fabric",
        "passive_ep",
        "int (*)(struct fid_fabric *, struct fi_info *, struct fid_pep **, void *)",
    ),
    (
        "fi_ops_fabric",
        "eq_open",
        "int (*)(struct fid_fabric *, struct fi_eq_attr *, struct fid_eq **, void *)",
    ),
    (
        "fi_ops_fabric",
        "trywait",
        "int (*)(struct fid_fabric *, struct fid **, int)",
    ),
    (
        "fi_ops_domain",
        "cq_open",
        "int (*)(struct fid_domain *, struct fi_cq_attr *, struct fid_cq **, void *)",
    ),
    (
        "fi_ops_domain",
        "endpoint",
        "int (*)(struct fid_domain *, struct fi_info *, struct fid_ep **, void *)",
    ),
    (
        "fi_ops_mr",
        "reg",
        "int (*)(struct fid *, const void *, size_t, uint64_t, uint64_t, uint64_t, uint64_t, struct fid_mr **, void *)",
    ),
    (
        "fi_ops_cm",
        "getname",
        "int (*)(struct fid *, void *, size_t *)",
    ),
    (
        "fi_ops_cm",
        "getpeer",
        "int (*)(struct fid_ep *, void *, size_t *)",
    ),
    (
        "fi_ops_cm",
        "connect",
        "int (*)(struct fid_ep *, const void *, const void *, size_t)",
    ),
    ("fi_ops_cm", "listen", "int (*)(struct fid_pep *)"),
    (
        "fi_ops_cm",
        "accept",
        "int (*)(struct fid_ep *, const void *, size_t)",
    ),
    (
        "fi_ops_cm",
        "reject",
        "int (*)(struct fid_pep *, struct fid *, const void *, size_t)",
    ),
    (
        "fi_ops_cm",
        "shutdown",
        "int (*)(struct fid_ep *, uint64_t)",
    ),
    (
        "fi_ops_msg",
        "recv",
        "ssize_t (*)(struct fid_ep *, void *, size_t, void *, uint64_t, void *)",
    ),
    (
        "fi_ops_msg",
        "send",
        "ssize_t (*)(struct fid_ep *, const void *, size_t, void *, uint64_t, void *)",
    ),
    (
        "fi_ops_msg",
        "inject",
        "ssize_t (*)(struct fid_ep *, const void *, size_t, uint64_t)",
    ),
    (
        "fi_ops_eq",
        "read",
        "ssize_t (*)(struct fid_eq *, uint32_t *, void *, size_t, uint64_t)",
    ),
    (
        "fi_ops_eq",
        "readerr",
        "ssize_t (*)(struct fid_eq *, struct fi_eq_err_entry *, uint64_t)",
    ),
    (
        "fi_ops_eq",
        "strerror",
        "const char *(*)(struct fid_eq *, int, const void *, char *, size_t)",
    ),
    (
        "fi_ops_cq",
        "read",
        "ssize_t (*)(struct fid_cq *, void *, size_t)",
    ),
    (
        "fi_ops_cq",
        "readerr",
        "ssize_t (*)(struct fid_cq *, struct fi_cq_err_entry *, uint64_t)",
    ),
    (
        "fi_ops_cq",
        "strerror",
        "const char *(*)(struct fid_cq *, int, const void *, char *, size_t)",
    ),
];

/// The assertions about one structure.
fn assertions(layout: &Layout, c: &mut String) {
    let name = layout.name;
    let (relation, bytes) = match layout.size {
        Size::Exact(bytes) => ("==", bytes),
        Size::Prefix(bytes) => (">=", bytes),
        Size::Padded(bytes) => ("<=", bytes),
    };
    writeln!(
        c,
        "_Static_assert(sizeof(struct {name}) {relation} {bytes}, \"size of {name}\");"
    )
    .unwrap();
    for (member, offset, bytes) in &layout.members {
        if member.starts_with('_') {
            continue;
        }
        let member = member.trim_start_matches("r#");
        writeln!(
            c,
            "_Static_assert(offsetof(struct {name}, {member}) == {offset}, \"place of {name}.{member}\");\n\
             _Static_assert(sizeof(((struct {name} *)0)->{member}) == {bytes}, \"size of {name}.{member}\");",
        )
        .unwrap();
    }
}

/// All of it as a C file.
fn program(layouts: &[Layout]) -> String {
    let mut c = String::from(
        "#include <stddef.h>\n#include <rdma/fabric.h>\n#include <rdma/fi_domain.h>\n\
         #include <rdma/fi_endpoint.h>\n#include <rdma/fi_cm.h>\n#include <rdma/fi_eq.h>\n",
    );
    for layout in layouts {
        assertions(layout, &mut c);
    }
    for (name, value) in constants() {
        writeln!(
            c,
            "_Static_assert((uint64_t)({name}) == {value}ULL, \"value of {name}\");"
        )
        .unwrap();
    }
    for (name, member, signature) in SIGNATURES {
        writeln!(
            c,
            "_Static_assert(__builtin_types_compatible_p(__typeof__(((struct {name} *)0)->{member}), \
             __typeof__({signature})), \"signature of {name}.{member}\");"
        )
        .unwrap();
    }
    c
}

/// What the compiler says of the assertions; empty if all hold.
fn judge(c: &str, include: &std::path::Path) -> String {
    let mut compiler = Command::new("cc")
        .args(["-std=gnu11", "-Werror", "-fsyntax-only", "-x", "c", "-I"])
        .arg(include)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a C compiler, which Rust needs to link");
    compiler
        .stdin
        .take()
        .unwrap()
        .write_all(c.as_bytes())
        .unwrap();
    let output = compiler.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), said.is_empty(), "{said}");
    said
}

/// The folder of the header, or a line in the list of skipped tests.
fn include(test: &str) -> Option<PathBuf> {
    let named = std::env::var_os("BAREWIRE_LIBFABRIC_INCLUDE").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| PathBuf::from("/usr/include"));
    if folder.join("rdma/fabric.h").exists() {
        return Some(folder);
    }
    crate::test_help::skip(test, "no header of libfabric: install libfabric-dev");
    None
}

#[test]
fn declarations_are_those_of_the_header() {
    let Some(include) = include("declarations_are_those_of_the_header") else {
        return;
    };
    let said = judge(&program(&layouts()), &include);
    assert!(said.is_empty(), "{said}");
}

/// Every function that has a type here is compared.
#[test]
fn every_function_is_compared() {
    let declared = include_str!("../raw.rs")
        .matches("unsafe extern \"C\" fn")
        .count();
    assert_eq!(declared, SIGNATURES.len());
}

#[test]
fn canary_a_wrong_place_is_found() {
    let Some(include) = include("canary_a_wrong_place_is_found") else {
        return;
    };
    let mut layouts = layouts();
    let attr = layouts.iter_mut().find(|l| l.name == "fi_cq_attr").unwrap();
    let wait_obj = attr.members.iter_mut().find(|m| m.0 == "wait_obj").unwrap();
    wait_obj.1 += 4;
    let said = judge(&program(&layouts), &include);
    assert!(said.contains("place of fi_cq_attr.wait_obj"), "{said}");
}
