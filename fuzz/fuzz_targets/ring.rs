//! Both ends of a ring over memory that the peer spoils, as the hostile tests of the fabric
//! do it.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../../crates/fabric/tests/common/drive.rs"]
mod drive;
#[path = "../../crates/fabric/tests/common/memory.rs"]
mod memory;

fuzz_target!(|data: &[u8]| drive::drive(data));
