//! Which program made a result.

use std::collections::BTreeMap;

/// What a result was made with.
pub fn versions() -> BTreeMap<String, String> {
    let compiler = format!(
        "{}, {} build",
        barewire_bench::environment::RUST_VERSION,
        barewire_bench::environment::BUILD_PROFILE
    );
    BTreeMap::from([
        ("barewire".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("compiler".to_owned(), compiler),
    ])
}
