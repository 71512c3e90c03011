//! Saved results: the number of their format, and what of them is needed to run the plan again.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The number of the format of saved results.
pub(crate) const FORMAT: u32 = 1;

#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// What a saved result says of its plan.
#[derive(Deserialize)]
pub(crate) struct SavedPlan {
    /// The plan's name.
    pub plan: String,
    /// The plan, whole.
    pub resolved_plan: String,
}

/// Reads a saved result, if it is of our format.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let no_result = |error| format!("no result of `barewire lab`: {error}");
    let Format { format } = serde_json::from_str(text).map_err(no_result)?;
    if format != FORMAT {
        return Err(format!(
            "a result of format {format}; this program reads {FORMAT}"
        ));
    }
    serde_json::from_str(text).map_err(no_result)
}
