//! Both ends of a carrier over memory that the peer spoils at any moment, as the hostile test
//! of the fabric does it.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/fabric/tests/carrier/hostile.rs"]
mod hostile;
#[path = "../../crates/fabric/tests/carrier/memory.rs"]
mod memory;

fuzz_target!(|data: &[u8]| hostile::drive(data));
