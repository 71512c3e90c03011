//! What the library says at the exit of a process.

use std::fs;
use std::path::Path;

/// The sums over all processes of a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Processes that reported.
    pub processes: u64,
    /// Connections that moved to shared memory, counted at each end.
    pub upgraded: u64,
    /// Bytes that were sent through rings.
    pub ring_bytes_out: u64,
    /// Bytes that were received through rings.
    pub ring_bytes_in: u64,
    /// Connections that went back to the kernel's.
    pub stepped_back: u64,
    /// Peers that were refused.
    pub refused: u64,
}

impl Report {
    /// Adds one line, `name=N name=N ...`; names that we do not know may stand in it.
    ///
    /// # Errors
    /// Says what is not of this form, or missing.
    fn add(&mut self, line: &str) -> Result<(), String> {
        let mut missing = vec![
            ("upgraded", &mut self.upgraded),
            ("ring_bytes_out", &mut self.ring_bytes_out),
            ("ring_bytes_in", &mut self.ring_bytes_in),
            ("stepped_back", &mut self.stepped_back),
            ("refused", &mut self.refused),
        ];
        for word in line.split_whitespace() {
            let (name, value) = word.split_once('=').ok_or(format!("no `=` in {word:?}"))?;
            if let Some(at) = missing.iter().position(|(known, _)| *known == name) {
                let value: u64 = value
                    .parse()
                    .map_err(|_| format!("no number in {word:?}"))?;
                *missing.remove(at).1 += value;
            }
        }
        match missing.first() {
            Some((name, _)) => Err(format!("no {name} in {line:?}")),
            None => {
                self.processes += 1;
                Ok(())
            }
        }
    }

    /// The sum over the files in a folder.
    ///
    /// # Errors
    /// Says which file is not as it should be.
    pub(crate) fn of_folder(folder: &Path) -> Result<Self, String> {
        let mut sum = Self::default();
        for entry in fs::read_dir(folder).map_err(|e| e.to_string())? {
            let file = entry.map_err(|e| e.to_string())?.path();
            let text = fs::read_to_string(&file).map_err(|e| e.to_string())?;
            for line in text.lines() {
                sum.add(line)
                    .map_err(|e| format!("{}: {e}", file.display()))?;
            }
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_summed() {
        let mut sum = Report::default();
        let line = "upgraded=2 ring_bytes_out=10 ring_bytes_in=7 stepped_back=1 refused=0 new=5";
        sum.add(line).unwrap();
        sum.add(line).unwrap();
        let expected = Report {
            processes: 2,
            upgraded: 4,
            ring_bytes_out: 20,
            ring_bytes_in: 14,
            stepped_back: 2,
            refused: 0,
        };
        assert_eq!(sum, expected);
    }

    #[test]
    fn broken_lines_are_refused() {
        let mut sum = Report::default();
        assert!(
            sum.add("upgraded=1 refused=0")
                .unwrap_err()
                .contains("ring_bytes_out")
        );
        assert!(sum.add("upgraded=x").unwrap_err().contains("upgraded=x"));
        assert!(sum.add("upgraded").unwrap_err().contains('='));
    }
}
