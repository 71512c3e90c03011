//! The text of a plan: it is read and checked, and never panics or takes long. What passes runs for
//! a short while.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../lab/tables/tests/any_plan/mod.rs"]
mod any_plan;

fuzz_target!(|data: &[u8]| {
    any_plan::run(data);
});
