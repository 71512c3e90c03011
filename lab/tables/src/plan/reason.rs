//! What a system says of inputs and parameters, in words for whoever wrote a plan.

use barewire_testbed::SystemError;

/// What is wrong, without the line of a default text that nobody sees.
pub(super) fn reason(error: &SystemError) -> String {
    match error {
        SystemError::Parameters(error) | SystemError::Inputs(error) => {
            in_words(&error.message().replace('\n', ", "))
        }
        SystemError::Contradiction(text) => text.clone(),
        SystemError::NoPackets(_) => error.to_string(),
        SystemError::Faults(_) => error.to_string(),
    }
}

/// Numbers as people call them, where the reader of TOML has the names of Rust's types.
fn in_words(message: &str) -> String {
    let types = [
        ("expected usize", "expected a whole number, 0 or more"),
        ("expected u64", "expected a whole number, 0 or more"),
        (
            "expected u32",
            "expected a whole number from 0 to 4294967295",
        ),
        ("expected u16", "expected a whole number from 0 to 65535"),
        ("expected u8", "expected a whole number from 0 to 255"),
        ("expected f64", "expected a number"),
    ];
    let found = types.iter().find(|(name, _)| message.ends_with(name));
    found.map_or_else(
        || message.to_owned(),
        |(name, words)| message.replace(name, words),
    )
}
