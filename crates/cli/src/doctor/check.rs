//! What a check of the doctor found.

use serde::{Deserialize, Serialize};

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// As it should be.
    Good,
    /// It works, but not as well, or not for all.
    Warning,
    /// Nothing is accelerated like this.
    Bad,
}

/// Something that was looked at.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    /// How it is.
    pub grade: Grade,
    /// What was found.
    pub found: String,
    /// What to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
}

impl Check {
    /// All is well.
    pub fn good(name: &str, found: impl Into<String>) -> Check {
        Check {
            name: name.to_owned(),
            grade: Grade::Good,
            found: found.into(),
            change: None,
        }
    }

    /// It works, but not as well, or not for all.
    pub fn warning(name: &str, found: impl Into<String>, change: impl Into<String>) -> Check {
        Check {
            grade: Grade::Warning,
            change: Some(change.into()),
            ..Check::good(name, found)
        }
    }

    /// Nothing is accelerated like this.
    pub fn bad(name: &str, found: impl Into<String>, change: impl Into<String>) -> Check {
        Check {
            grade: Grade::Bad,
            ..Check::warning(name, found, change)
        }
    }
}
