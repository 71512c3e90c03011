//! Results in folders and files. All is first written under a name of its own and then
//! renamed, so that a command that was stopped leaves what was there before, or the whole.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use barewire_tables::Results;

use super::error::{LabError, Result};

/// The file that makes a folder a result.
pub const RESULT: &str = "result.json";
/// The plan that gives the same result.
pub const PLAN: &str = "plan.toml";
/// What went over the links.
pub const LINKS: &str = "links.pcapng";

const NO_RESULT: &str = "no such result; `barewire lab run PLAN -o DIR` makes one";

/// Reads a result from its folder or its JSON.
pub fn read(path: &Path) -> Result<(PathBuf, Results)> {
    let file = match path.is_dir() {
        true => path.join(RESULT),
        false => path.to_owned(),
    };
    let at_file = |problem: String| LabError::Result {
        path: file.clone(),
        problem,
    };
    let text = fs::read_to_string(&file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => at_file(NO_RESULT.to_owned()),
        _ => at_file(error.to_string()),
    })?;
    let results = Results::from_json(&text).map_err(at_file)?;
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    Ok((folder, results))
}

/// A folder that a result may be written to.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// What the result that is there consists of; `None` if none is there.
    before: Option<Vec<String>>,
}

impl Folder {
    /// Looks whether a result may be written to `path`: nothing may be there, or nothing in
    /// it, or an older result.
    pub fn look(path: &Path) -> Result<Folder> {
        let in_the_way = |problem| LabError::InTheWay {
            path: path.to_owned(),
            problem,
        };
        if path.file_name().is_none() {
            return Err(in_the_way(
                "expected the name of a folder to put the result in",
            ));
        }
        // Found out now, and not after an hour of running.
        try_beside(path).map_err(|source| LabError::File {
            path: path.to_owned(),
            source,
        })?;
        let mut folder = Folder {
            path: path.to_owned(),
            before: None,
        };
        if fs::symlink_metadata(path).is_err() {
            return Ok(folder);
        }
        let mut entries = fs::read_dir(path)
            .map_err(|_| in_the_way("is there, and is no folder that can be read; name another"))?;
        if path.join(RESULT).is_file() {
            let (_, results) = read(path).map_err(|_| {
                in_the_way("has a result.json that is none of `barewire lab`; name another folder")
            })?;
            folder.before = Some(files_of(&results));
        } else if entries.next().is_some() {
            return Err(in_the_way(
                "is there, and holds no result; name a folder that is empty or not there",
            ));
        }
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is a result that this one takes the place of.
    pub fn replaces(&self) -> bool {
        self.before.is_some()
    }

    /// Writes the files. What is in the folder besides an older result stays there.
    pub fn write(&self, files: &[(String, Vec<u8>)]) -> Result<()> {
        let partial = beside(&self.path, "partial");
        let written = self.write_to(&partial, files);
        written.map_err(|source| {
            // Best effort: it is the first error that counts.
            let _ = fs::remove_dir_all(&partial);
            LabError::File {
                path: self.path.clone(),
                source,
            }
        })
    }

    fn write_to(&self, partial: &Path, files: &[(String, Vec<u8>)]) -> io::Result<()> {
        fs::create_dir_all(partial)?;
        for (name, bytes) in files {
            fs::write(partial.join(name), bytes)?;
        }
        if fs::symlink_metadata(&self.path).is_err() {
            return fs::rename(partial, &self.path);
        }
        let old = beside(&self.path, "old");
        fs::rename(&self.path, &old)?;
        fs::rename(partial, &self.path)?;
        for entry in fs::read_dir(&old)? {
            let name = entry?.file_name();
            let target = self.path.join(&name);
            if !self.is_of_before(&name.to_string_lossy()) && !target.exists() {
                fs::rename(old.join(&name), target)?;
            }
        }
        fs::remove_dir_all(old)
    }

    /// Whether a file is of the older result, or was drawn from it.
    fn is_of_before(&self, name: &str) -> bool {
        let is_plot =
            name.starts_with("plot") && (name.ends_with(".html") || name.ends_with(".svg"));
        let mut before = self.before.iter().flatten();
        is_plot || before.any(|known| known == name)
    }
}

fn files_of(results: &Results) -> Vec<String> {
    let tables = results.to_csvs().into_iter().map(|(name, _)| name);
    tables
        .chain([RESULT, PLAN, LINKS].map(str::to_owned))
        .collect()
}

/// A name beside `path` that nobody else uses, and that `ls` does not show.
fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{what}-{}", std::process::id()));
    path.with_file_name(name)
}

/// Makes a folder where one is to come to be, and takes it away again.
fn try_beside(path: &Path) -> io::Result<()> {
    let mut above = path.ancestors().skip(1);
    let is_there = |folder: &&Path| folder.as_os_str().is_empty() || folder.exists();
    let folder = above.find(is_there).unwrap_or(Path::new(""));
    let name = beside(path, "partial");
    let probe = folder.join(name.file_name().unwrap_or_default());
    fs::create_dir(&probe)?;
    fs::remove_dir(probe)
}

/// Looks whether [`write()`] can write a file there, and leaves what is there as it is.
pub fn try_file(path: &Path) -> io::Result<()> {
    let probe = beside(path, "partial");
    fs::File::create_new(&probe)?;
    fs::remove_file(probe)
}

/// Writes a file whole, or not at all.
pub fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    let partial = beside(path, "partial");
    let written = fs::write(&partial, text).and_then(|()| fs::rename(&partial, path));
    written.map_err(|source| {
        // Best effort: it is the first error that counts.
        let _ = fs::remove_file(&partial);
        LabError::File {
            path: path.to_owned(),
            source,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that goes away with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let name = format!("barewire-store-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).expect("a folder");
            Scratch(path)
        }

        /// Everything in it, with the folders' own files.
        fn files(&self) -> Vec<String> {
            let mut found = Vec::new();
            let mut folders = vec![self.0.clone()];
            while let Some(folder) = folders.pop() {
                for entry in fs::read_dir(folder).expect("a folder") {
                    let path = entry.expect("an entry").path();
                    match path.is_dir() {
                        true => folders.push(path),
                        false => {
                            let name = path.strip_prefix(&self.0).expect("below");
                            found.push(name.to_string_lossy().into_owned());
                        }
                    }
                }
            }
            found.sort();
            found
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// The least that counts as a result; `table` is the name of its table.
    fn result(table: &str) -> Vec<u8> {
        format!(
            r#"{{"format": 1, "plan": "p", "title": null, "question": "q", "system": "s",
            "experiment": "e", "seed": 1, "replications": 1, "over": null, "trace_hash": "0",
            "about": {{}}, "changes": [], "links": [], "resolved_plan": "",
            "tables": [{{"name": "{table}", "keys": 0, "columns": [], "rows": []}}]}}"#
        )
        .into_bytes()
    }

    fn files(table: &str) -> Vec<(String, Vec<u8>)> {
        vec![
            (RESULT.to_owned(), result(table)),
            (format!("{table}.csv"), b"1".to_vec()),
        ]
    }

    #[test]
    fn a_new_result_takes_the_place_of_an_older_one_and_of_nothing_else() {
        let scratch = Scratch::new("replace");
        let path = scratch.0.join("r");
        let folder = Folder::look(&path).expect("nothing is there");
        assert!(!folder.replaces());
        folder.write(&files("a")).expect("written");
        assert_eq!(scratch.files(), ["r/a.csv", "r/result.json"]);
        for own in ["notes.txt", "b.csv.bak"] {
            fs::write(path.join(own), "mine").expect("written");
        }
        for drawn in ["plot.html", "plot-a.svg", LINKS] {
            fs::write(path.join(drawn), "old").expect("written");
        }
        let folder = Folder::look(&path).expect("a result is there");
        assert!(folder.replaces());
        folder.write(&files("b")).expect("written");
        assert_eq!(
            scratch.files(),
            ["r/b.csv", "r/b.csv.bak", "r/notes.txt", "r/result.json"]
        );
        let (folder, results) = read(&path).expect("a result");
        assert_eq!((folder, results.tables[0].name.as_str()), (path, "b"));
    }

    #[test]
    fn what_is_no_result_is_left_alone() {
        let scratch = Scratch::new("alone");
        let at = |name: &str| scratch.0.join(name);
        fs::write(at("file"), "x").expect("written");
        for (name, content) in [("full/x", "x"), ("other/result.json", "{}")] {
            fs::create_dir_all(at(name).parent().expect("one")).expect("a folder");
            fs::write(at(name), content).expect("written");
        }
        fs::create_dir_all(at("empty")).expect("a folder");
        let error = Folder::look(&at("file/below")).expect_err("not in a file");
        assert!(matches!(error, LabError::File { .. }), "{error}");
        for name in ["file", "full", "other", "full/.."] {
            let error = Folder::look(&at(name)).expect_err("in the way");
            assert!(matches!(error, LabError::InTheWay { .. }), "{error}");
        }
        let folder = Folder::look(&at("empty")).expect("nothing in it");
        folder.write(&files("a")).expect("written");
        let folder = Folder::look(&at("new/below")).expect("nothing is there");
        folder.write(&files("a")).expect("written");
        assert!(at("new/below/result.json").is_file());
    }

    #[test]
    fn a_result_that_cannot_be_written_leaves_the_older_one() {
        let scratch = Scratch::new("half");
        let path = scratch.0.join("r");
        let folder = Folder::look(&path).expect("nothing is there");
        folder.write(&files("a")).expect("written");
        let folder = Folder::look(&path).expect("a result is there");
        let mut bad = files("b");
        bad.push(("no/such/folder".to_owned(), Vec::new()));
        assert!(folder.write(&bad).is_err());
        assert_eq!(scratch.files(), ["r/a.csv", "r/result.json"]);
        assert!(write(&scratch.0.join("no/such"), "x").is_err());
        write(&path.join("a.csv"), "2").expect("written");
        assert_eq!(fs::read_to_string(path.join("a.csv")).expect("read"), "2");
        assert_eq!(scratch.files(), ["r/a.csv", "r/result.json"]);
    }
}
