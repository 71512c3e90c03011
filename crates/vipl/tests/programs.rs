//! Programs in C that use the library as others do.

mod common;

use common::{compiled, run, run_name};

#[test]
fn two_processes_exchange_messages() {
    let said = run(&compiled("two"), &[&run_name("t")]);
    assert!(said.contains("have exchanged messages"), "{said}");
}
