//! What a check found, and whether it passed.

/// One breach of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Where: a path from the root, with the line where there is one.
    pub(crate) place: String,
    /// What is wrong, and what to do about it.
    pub(crate) message: String,
}

/// A list with a new text, for `--shrink`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rewrite {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// What a check looked at and what it found.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// How many things were looked at.
    pub(crate) checked: usize,
    pub(crate) findings: Vec<Finding>,
    /// Why there was nothing to look at, where that is legitimate.
    pub(crate) skipped: Option<&'static str>,
    /// What else there is to say.
    pub(crate) note: Option<String>,
    /// The check's list of what is left, with what is no longer there taken off.
    pub(crate) rewrite: Option<Rewrite>,
}

impl Outcome {
    pub(crate) fn skipped(why: &'static str) -> Self {
        Self {
            skipped: Some(why),
            ..Self::default()
        }
    }

    pub(crate) fn find(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.findings.push(Finding {
            place: place.into(),
            message: message.into(),
        });
    }

    /// The line that sums the check up, and whether it passed.
    pub(crate) fn verdict(&self, name: &str) -> (String, bool) {
        let (mut line, passed) = match (self.checked, self.skipped, self.findings.len()) {
            (0, Some(why), 0) => (format!("tidy: {name}: skipped: {why}"), true),
            (0, _, 0) => (format!("tidy: {name}: found nothing to check"), false),
            (n, _, 0) => (format!("tidy: {name}: {n} checked"), true),
            (n, _, bad) => (format!("tidy: {name}: {n} checked, {bad} wrong"), false),
        };
        if let Some(note) = &self.note {
            line = format!("{line}; {note}");
        }
        (line, passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_needs_a_reason_and_no_findings() {
        let mut outcome = Outcome::skipped("no such crates yet");
        assert_eq!(
            outcome.verdict("x"),
            ("tidy: x: skipped: no such crates yet".into(), true)
        );
        outcome.find("here", "wrong");
        assert!(!outcome.verdict("x").1);
    }

    #[test]
    fn the_summary_counts() {
        let mut outcome = Outcome {
            checked: 3,
            ..Outcome::default()
        };
        assert_eq!(outcome.verdict("x"), ("tidy: x: 3 checked".into(), true));
        outcome.find("here", "wrong");
        assert_eq!(
            outcome.verdict("x"),
            ("tidy: x: 3 checked, 1 wrong".into(), false)
        );
    }
}
