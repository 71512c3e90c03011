//! Both ends of a hybrid stream over memory that the peer spoils at any moment, as the hostile test
//! of the fabric does it.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/fabric/tests/hybrid/hostile.rs"]
mod hostile;
#[path = "../../crates/fabric/tests/hybrid/memory.rs"]
mod memory;

fuzz_target!(|data: &[u8]| hostile::drive(data));
