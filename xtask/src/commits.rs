//! The form of commits: `part: do something` in at most 72 characters, an empty line, and
//! a body that says why. Commits before [`BASE`] are as they are; merges are exempt.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The last commit that is not looked at.
const BASE: &str = "4609b84";
const SUBJECT_CHARS_MAX: usize = 72;

/// Words that end as an imperative does not, and are one.
const IMPERATIVES: &[&str] = &["bring", "embed", "ping", "ring", "shed", "spring", "string"];

/// Checks the commits since [`BASE`]. Where there is no such history it says so, and
/// counts as skipped.
pub(crate) fn main() -> ExitCode {
    let range = format!("{BASE}..HEAD");
    let log = Command::new("git")
        .args(["log", "--no-merges", "-z", "--format=%h%n%B", &range])
        .output();
    let log = match log {
        Ok(log) if log.status.success() => log.stdout,
        _ => return skip(&format!("there is no history back to {BASE} here")),
    };
    let log = String::from_utf8_lossy(&log);
    let (mut checked, mut wrong) = (0, 0);
    for commit in log.split_terminator('\0') {
        let (hash, message) = commit.split_once('\n').unwrap_or((commit, ""));
        checked += 1;
        for fault in faults(message) {
            eprintln!("{hash}: {fault}");
            wrong += 1;
        }
    }
    if wrong > 0 {
        eprintln!("commits: {checked} checked, {wrong} faults");
        return ExitCode::FAILURE;
    }
    println!("commits: {checked} checked");
    ExitCode::SUCCESS
}

/// Tells that nothing was checked, where `scripts/test.sh` counts it.
fn skip(why: &str) -> ExitCode {
    let line = format!("SKIPPED: step commits: {why}");
    println!("{line}");
    if let Some(log) = std::env::var_os("BAREWIRE_SKIP_LOG").map(PathBuf::from) {
        let opened = OpenOptions::new().append(true).create(true).open(&log);
        if let Err(error) = opened.and_then(|mut log| writeln!(log, "{line}")) {
            eprintln!("{}: {error}", log.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// What is wrong with a message.
fn faults(message: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut lines = message.lines();
    let subject = lines.next().unwrap_or_default();
    let length = subject.chars().count();
    if length > SUBJECT_CHARS_MAX {
        faults.push(format!(
            "the subject has {length} characters, of {SUBJECT_CHARS_MAX}: {subject}"
        ));
    }
    if !subject.starts_with("Revert \"") {
        faults.extend(faults_of_subject(subject));
    }
    if lines.next().is_some_and(|line| !line.trim().is_empty()) {
        faults.push(format!("no empty line below the subject: {subject}"));
    }
    if !lines.any(|line| !line.trim().is_empty()) {
        faults.push(format!("no body that says why: {subject}"));
    }
    faults
}

fn faults_of_subject(subject: &str) -> Option<String> {
    let is_part = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_/., ".contains(c))
    };
    let Some((_, rest)) = subject.split_once(": ").filter(|(part, _)| is_part(part)) else {
        return Some(format!(
            "the subject is not `part: do something`: {subject}"
        ));
    };
    let verb: String = rest.chars().take_while(|c| c.is_alphabetic()).collect();
    if !is_imperative(&verb) {
        return Some(format!("«{verb}» is no imperative: {subject}"));
    }
    rest.ends_with('.')
        .then(|| format!("the subject ends with a full stop: {subject}"))
}

/// Whether `word` may be a verb in the imperative: not «adds», «added», «adding», «the».
fn is_imperative(word: &str) -> bool {
    if IMPERATIVES.contains(&word) {
        return true;
    }
    let is_third_person = word.ends_with('s')
        && !["ss", "us", "is", "as"]
            .iter()
            .any(|end| word.ends_with(end));
    let is_past = word.ends_with("ed") && !word.ends_with("eed");
    let is_article = matches!(word, "a" | "an" | "the");
    word.starts_with(|c: char| c.is_lowercase())
        && !(is_third_person || is_past || is_article || word.ends_with("ing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_messages_pass() {
        for message in [
            "shm: close the ring\n\nA peer could write past it.\n",
            "cli, daq: process all\n\nWhy.\n\nMore.\n",
            "Revert \"shm: close the ring\"\n\nThis reverts commit 1.\n",
            "tests/hostile: feed bytes\n\nWhy.",
        ] {
            assert_eq!(faults(message), Vec::<String>::new(), "{message}");
        }
    }

    #[test]
    fn canary_bad_messages() {
        let long = format!("shm: {}\n\nWhy.\n", "x".repeat(SUBJECT_CHARS_MAX - 4));
        for message in [
            long.as_str(),
            "close the ring\n\nWhy.\n",
            "Shm: close the ring\n\nWhy.\n",
            "shm: closes the ring\n\nWhy.\n",
            "shm: closed the ring\n\nWhy.\n",
            "shm: closing the ring\n\nWhy.\n",
            "shm: the ring closes\n\nWhy.\n",
            "shm: Close the ring\n\nWhy.\n",
            "shm: close the ring.\n\nWhy.\n",
            "shm: close the ring\nWhy.\n\nMore.\n",
            "shm: close the ring\n",
            "shm: close the ring\n\n\n",
            "shm:\n\nWhy.\n",
        ] {
            assert_eq!(faults(message).len(), 1, "{message}");
        }
        assert_eq!(faults("").len(), 2);
    }
}
