//! A TCP connection under any packets, times and calls: it never panics, keeps to its buffers, and
//! sends packets that are right, and not too many.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/tcp/tests/any_bytes/mod.rs"]
mod any_bytes;

fuzz_target!(|data: &[u8]| any_bytes::run(data));
