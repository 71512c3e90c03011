//! Rival programs, if they are here: tests that UCX and libfabric bring, and programs of our own
//! that use iceoryx2, Aeron and Open MPI (`benches/rivals`, built by `make rivals`). They bring
//! their own two processes and their own clock; here they are started on the same two
//! processors, between the same two probes. Their data goes through memory, whatever they use
//! to find each other.

mod beside;
mod find;
mod list;
mod output;
mod processes;

use std::path::PathBuf;

use crate::args::{BenchArgs, TestChoice};
use crate::case::{Case, Habits, Test, Transport, Variant, Waiting, Work};
use crate::environment::Environment;
use crate::error::Result;
use crate::placement::Placement;
use crate::plan::Plan;
use crate::results::{Books, CaseBook, Row};
use crate::session::{Sample, Session};
use beside::Beside;
use find::{Found, find};
use list::{RIVALS, Rival, Run};

/// The first of the ports that UCX and libfabric use for their set-up.
const FIRST_PORT: u16 = 23_170;

/// Runs the rivals, one after the other.
pub struct Rivals<'a> {
    plan: &'a Plan,
    test: TestChoice,
    sizes: Vec<usize>,
    /// Where `make rivals` puts programs.
    folder: PathBuf,
    /// The processors of client and server.
    cpus: Option<(usize, usize)>,
    /// The processors that neither of them uses.
    spare: Vec<usize>,
    /// How many runs there were.
    runs: u16,
    /// Programs that were looked for, with what was found or why not.
    known: Vec<(&'static str, Option<Found>)>,
}

impl<'a> Rivals<'a> {
    /// What the arguments ask for. `allowed` are the processors that this process might use when it began.
    pub fn new(args: &BenchArgs, plan: &'a Plan, placement: Placement, allowed: &[usize]) -> Self {
        let options = &args.options;
        let sizes: Vec<usize> = if !options.size.is_empty() {
            options.size.clone()
        } else if options.quick {
            vec![8, 64, 4096]
        } else {
            vec![8, 64, 512, 4096, 65_536]
        };
        let cpus = match placement {
            Placement::Pinned(client, server) => Some((client, server)),
            Placement::Free | Placement::OneProcessor => None,
        };
        Rivals {
            plan,
            test: args.test,
            sizes,
            folder: find::folder(),
            cpus,
            spare: spare(allowed, cpus),
            runs: 0,
            known: Vec::new(),
        }
    }

    /// Runs each rival that fits the test; those that are missing are named.
    pub fn measure(
        &mut self,
        session: &mut Session,
        books: &mut Books<'a>,
        environment: &mut Environment,
    ) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        let test = self.test;
        for rival in RIVALS.iter().filter(|it| is_asked_for(it, test)) {
            let Some(found) = self.look_for(rival, environment) else {
                continue;
            };
            let sizes = self.sizes.clone();
            for size in sizes.into_iter().filter(|size| rival.sizes.contains(size)) {
                let (book, failure) = self.sample_all(rival, &found, size, session, books)?;
                if let Some(why) = failure.or_else(|| all_dropped(&book)) {
                    let about = format!("{} {size} B: {why}", describe(rival));
                    environment.not_measured.push(about);
                }
                rows.extend(rows_of(rival, size, &book));
            }
        }
        Ok(rows)
    }

    /// Looks for the program of a rival, once, and notes its version or how to get it.
    fn look_for(&mut self, rival: &Rival, environment: &mut Environment) -> Option<Found> {
        let name = rival.program.name();
        if let Some((_, found)) = self.known.iter().find(|(known, _)| *known == name) {
            return found.clone();
        }
        let found = match find(rival, &self.folder) {
            Ok(found) => {
                environment.rivals.push(found.version.clone());
                Some(found)
            }
            Err(why) => {
                environment.not_measured.push(why);
                None
            }
        };
        self.known.push((name, found.clone()));
        found
    }

    /// All samples of a rival at one size, with samples of our own in between; and the last of its failures.
    fn sample_all(
        &mut self,
        rival: &Rival,
        found: &Found,
        size: usize,
        session: &mut Session,
        books: &mut Books<'a>,
    ) -> Result<(CaseBook, Option<String>)> {
        let mut beside = Beside::open(self.plan, rival.test, size, session)?;
        let mut book = CaseBook::default();
        let mut failure = None;
        for _ in 0..self.plan.samples {
            match self.sample(rival, found, size, session)? {
                Ok(sample) => {
                    book.enter(&sample, |_| {});
                }
                Err(error) => failure = Some(error.to_string()),
            }
            beside.take(session)?;
        }
        beside.close(session, books)?;
        Ok((book, failure))
    }

    /// One run of a rival between two probes; the inner error is the rival's own.
    fn sample(
        &mut self,
        rival: &Rival,
        found: &Found,
        size: usize,
        session: &mut Session,
    ) -> Result<Result<Sample>> {
        self.runs = self.runs.wrapping_add(1);
        let run = Run {
            size,
            turns: (200_000 / (size as u64 / 256).max(1)).max(2000),
            port: FIRST_PORT + self.runs % 8192,
            name: format!("barewire-rival-{}-{}-", std::process::id(), self.runs),
            cpus: self.cpus,
            spare: self.spare.clone(),
        };
        let doing = format!("{} {size} B", describe(rival));
        let before = session.probe_alone(&doing)?;
        let ran = processes::run(rival, &found.path, &run);
        let after = session.probe_alone(&doing)?;
        Ok(ran.map(|per_operation_ns| Sample {
            per_operation_ns,
            probes_ns: Some((before, after)),
            stretches_ps: None,
            cpu_percent: (100.0, 100.0),
            disturbed: false,
        }))
    }
}

/// Says so where nothing is left of the samples.
fn all_dropped(book: &CaseBook) -> Option<String> {
    let dropped = book.dropped();
    (book.kept() == 0).then(|| format!("the probes disagreed around all {dropped} samples"))
}

/// A rival, for messages.
fn describe(rival: &Rival) -> String {
    let (program, variant) = (rival.program.name(), rival.variant);
    format!("{program} {variant}, {}", rival.test.name())
}

/// The processors beside those of the ends; as many as are left, where the system chooses.
fn spare(allowed: &[usize], ends: Option<(usize, usize)>) -> Vec<usize> {
    match ends {
        Some((client, server)) => {
            let others = allowed
                .iter()
                .filter(|&&cpu| cpu != client && cpu != server);
            others.copied().collect()
        }
        None => allowed.iter().skip(2).copied().collect(),
    }
}

fn is_asked_for(rival: &Rival, test: TestChoice) -> bool {
    match test {
        TestChoice::All => true,
        TestChoice::Rtt => rival.test == Test::Rtt,
        TestChoice::Stream => rival.test == Test::Stream,
        TestChoice::Transactions | TestChoice::Wake => false,
    }
}

fn rows_of(rival: &Rival, size: usize, book: &CaseBook) -> Vec<Row> {
    let case = Case {
        work: Work {
            test: rival.test,
            size,
            connections: 1,
            outstanding: 1,
            waiting: Waiting::Polling,
            duration_ns: 0,
            habits: Habits::default(),
        },
        channel: 0,
        transport: Transport::Limit,
        variant: Variant::Plain,
    };
    let mut rows = book.rows(&case);
    for row in &mut rows {
        rival.transport.clone_into(&mut row.transport);
        rival.variant.clone_into(&mut row.variant);
        // They spin, but nobody measured it.
        row.cpu_client_percent = None;
        row.cpu_server_percent = None;
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A folder for the files of a test, which goes with it.
    pub struct Folder(pub PathBuf);

    impl Folder {
        pub fn new(name: &str) -> Folder {
            let name = format!("barewire-rivals-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        /// A program. A shell writes it: a child that another test starts meanwhile would inherit a file that we had
        /// open for writing, and nobody could start it.
        pub fn script(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            let writer = "printf '#!/bin/sh\\n%s\\n' \"$1\" >\"$0\" && chmod 755 \"$0\"";
            let mut shell = Command::new("sh");
            let status = shell.arg("-c").arg(writer).arg(&path).arg(text).status();
            assert!(status.unwrap().success());
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn it_is_said_where_no_sample_is_left() {
        let sample = |before, after| Sample {
            per_operation_ns: 5.0,
            probes_ns: Some((before, after)),
            stretches_ps: None,
            cpu_percent: (100.0, 100.0),
            disturbed: false,
        };
        let mut book = CaseBook::default();
        book.enter(&sample(100.0, 400.0), |_| {});
        let why = all_dropped(&book).unwrap();
        assert!(why.contains("all 1 samples"), "{why}");
        book.enter(&sample(100.0, 100.0), |_| {});
        assert_eq!(all_dropped(&book), None);
    }

    #[test]
    fn spare_processors_are_those_of_nobody() {
        assert_eq!(spare(&[0, 1, 2, 3], Some((1, 3))), [0, 2]);
        assert!(spare(&[0, 1], Some((0, 1))).is_empty());
        assert_eq!(spare(&[0, 1, 2], None), [2]);
        assert!(spare(&[0], None).is_empty());
    }
}
