//! Events that the manager has given up while a builder had them, and that stand in a recording all the
//! same: a builder writes an event before it says so, and may die, or be ended, in between.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::record;

/// What was given up, and where it may stand.
#[derive(Debug, Default)]
pub(super) struct GivenUp {
    events: BTreeSet<u64>,
    recordings: BTreeSet<PathBuf>,
}

/// Of the events that were abandoned or aborted: how many stand in recordings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// With all fragments.
    pub built: u64,
    /// Without some.
    pub incomplete: u64,
    /// Recordings that cannot be read here, each with the reason: they may hold more.
    pub unread: Vec<String>,
}

impl GivenUp {
    pub fn add(&mut self, events: Vec<u64>) {
        self.events.extend(events);
    }

    /// A builder records in this file.
    pub fn note_recording(&mut self, file: String) {
        self.recordings.insert(PathBuf::from(file));
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Looks for them: reads the heads of all records if there are any such events.
    pub fn recovered(&self) -> Recovered {
        let mut found = Recovered::default();
        if self.events.is_empty() {
            return found;
        }
        for path in &self.recordings {
            match record::outline(path) {
                Ok(events) => {
                    let given_up = events.iter().filter(|it| self.events.contains(&it.0));
                    let built = given_up.clone().filter(|it| it.1).count() as u64;
                    found.built += built;
                    found.incomplete += given_up.count() as u64 - built;
                }
                Err(error) => found.unread.push(format!("{}: {error}", path.display())),
            }
        }
        found
    }
}

impl Recovered {
    /// Lines of the ledger; none if there is nothing to say.
    pub(super) fn lines(&self) -> String {
        let mut text = String::new();
        if self.built + self.incomplete > 0 {
            let _ = writeln!(
                text,
                "  recorded   of the events abandoned or aborted, recordings hold {} as built and {} as incomplete",
                self.built, self.incomplete
            );
        }
        for file in &self.unread {
            let _ = writeln!(
                text,
                "  recorded   of the events abandoned or aborted, more may be in {file}"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{About, Recorder};

    #[test]
    fn what_was_given_up_and_stands_in_a_recording_is_found() {
        let folder = std::env::temp_dir();
        let folder = folder.join(format!("barewire-daq-given-up-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let recorder = Recorder::create(&folder, 1, 0, &About::default());
        let mut recorder = recorder.expect("a new file");
        for (event, missing) in [(0, 0), (1, 0), (2, 1), (3, 0)] {
            recorder.add(event, missing, &[]);
        }
        recorder.write().expect("room");
        let mut given_up = GivenUp::default();
        given_up.note_recording(recorder.path().display().to_string());
        given_up.note_recording("/none.evb".to_owned());
        // Its writer was killed: it has no index.
        drop(recorder);
        assert_eq!(given_up.recovered(), Recovered::default());
        given_up.add(vec![1, 2, 7]);
        let found = given_up.recovered();
        assert_eq!((found.built, found.incomplete), (1, 1));
        assert_eq!(found.unread.len(), 1, "{found:?}");
        assert!(found.lines().contains(" 1 as built and 1 as incomplete\n"));
        assert!(found.lines().contains("/none.evb: No such file"));
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }
}
