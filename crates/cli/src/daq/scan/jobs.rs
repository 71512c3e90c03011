//! Runs of a scan one after the other, or several at a time on processors of their own.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};

use barewire_daq::config::{Config, SinkKind, SourceKind, Transport};
use barewire_daq::launch::{self, Role, Watcher};
use barewire_daq::signals;
use barewire_sys::process::{allowed_cpus, pin_to_cpus};

use super::super::error::DaqError;
use super::super::report::Figures;
use super::super::start::{HowTo, own_program, own_source};
use super::files::io;
use super::points::Point;

/// Exit status of a scan that was ended before its time.
const ENDED_BEFORE: u8 = 4;
/// Of a run whose parts died although it balanced.
const LOST: u8 = 5;

/// Which runs go at a time.
pub struct Jobs {
    /// Processors of each; `None`: one run at a time, tied to nothing.
    slots: Vec<Option<Vec<usize>>>,
    words: String,
}

/// How a run ended that did not end well.
enum Problem {
    Interrupted,
    Failed(DaqError),
}

impl Jobs {
    pub fn one_at_a_time() -> Self {
        Self {
            slots: vec![None],
            words: "Runs go one after the other.".to_owned(),
        }
    }

    /// Looks whether there is room for `parallel` runs at a time; 0: as many as there is room for.
    pub fn plan(
        points: &[Point],
        parallel: Option<usize>,
        processors: Option<usize>,
    ) -> Result<Self, DaqError> {
        Self::plan_on(&allowed_cpus(), points, parallel, processors)
    }

    pub fn plan_on(
        cpus: &[usize],
        points: &[Point],
        parallel: Option<usize>,
        processors: Option<usize>,
    ) -> Result<Self, DaqError> {
        let processes = points.iter().map(|it| processes(&it.config)).max();
        let each = processors.or(processes).unwrap_or(1).max(1);
        let room = cpus.len() / each;
        let needs = format!(
            "a run has {} processes and needs {each} processors of its own to be done beside others; {} are there",
            processes.unwrap_or(0),
            cpus.len()
        );
        let alone = points.iter().find_map(|it| alone(&it.config));
        let count = match (parallel, alone) {
            (None | Some(1), _) => 1,
            (Some(0), Some(_)) => 1,
            (Some(0), None) => room.max(1),
            (Some(_), Some(why)) => {
                return Err(DaqError::Scan(format!("--parallel: {why}")));
            }
            (Some(count), None) if count > room => {
                let text = format!(
                    "--parallel {count}: {needs}: expected at most {}",
                    room.max(1)
                );
                return Err(DaqError::Scan(text));
            }
            (Some(count), None) => count,
        };
        if count == 1 {
            let words = match (alone, room) {
                (Some(why), _) => format!("Runs go one after the other: {why}."),
                (None, 0 | 1) => format!("Runs go one after the other: {needs}."),
                (None, room) => format!(
                    "Runs go one after the other; there is room for {room} at a time (--parallel): {needs}."
                ),
            };
            return Ok(Self {
                slots: vec![None],
                words,
            });
        }
        let slots = cpus.chunks_exact(each).take(count);
        Ok(Self {
            slots: slots.map(|it| Some(it.to_vec())).collect(),
            words: format!(
                "{count} runs at a time, each tied to {each} processors of its own; they share the memory's bandwidth."
            ),
        })
    }

    /// How many runs at a time.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// For people.
    pub fn in_words(&self) -> String {
        self.words.clone()
    }

    /// To how many processors each run is tied, if it is.
    pub fn processors_each(&self) -> Option<usize> {
        self.slots.first()?.as_ref().map(Vec::len)
    }

    /// Does the runs `wanted`, each a point and a number. `say` hears when one begins, `keep` gets what
    /// came of it. It ends with the first problem, after the runs that are under way; a signal ends those too.
    pub fn run(
        &self,
        points: &[Point],
        wanted: Vec<(usize, usize)>,
        asked_before: u32,
        say: impl Fn(usize, usize, &str) + Sync,
        mut keep: impl FnMut(usize, &Figures) -> Result<(), DaqError>,
    ) -> Result<(), DaqError> {
        let queue = Mutex::new(VecDeque::from(wanted));
        let (done, found) = channel();
        let mut ended = Ok(());
        std::thread::scope(|scope| {
            for (slot, cpus) in self.slots.iter().enumerate() {
                let (queue, done, say) = (&queue, done.clone(), &say);
                scope.spawn(move || {
                    let next = || {
                        queue
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .pop_front()
                    };
                    while let Some((at, run)) = next() {
                        say(at, run, "");
                        let came = one_run(&points[at], slot, cpus.as_deref(), asked_before);
                        // Before anybody takes the next one.
                        if came.is_err() {
                            clear(queue);
                        }
                        // The other end is there until all that send have gone.
                        let _ = done.send((at, run, came));
                    }
                });
            }
            drop(done);
            for (at, run, came) in found {
                let problem = match came {
                    Ok(figures) => keep(at, &figures).map_err(Problem::Failed).err(),
                    Err(problem) => Some(problem),
                };
                let Some(problem) = problem else { continue };
                clear(&queue);
                let error = match problem {
                    Problem::Failed(error) => error,
                    Problem::Interrupted => DaqError::Ended {
                        code: ENDED_BEFORE,
                        why: "the scan was asked to end".to_owned(),
                    },
                };
                say(at, run, ": not measured");
                if ended.is_ok() {
                    ended = Err(error);
                }
            }
        });
        ended
    }
}

/// Points and numbers of runs.
type Queue = Mutex<VecDeque<(usize, usize)>>;

fn clear(queue: &Queue) {
    queue.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Sources, builders and manager.
fn processes(config: &Config) -> usize {
    usize::from(config.manager.sources) + usize::from(config.manager.builders) + 1
}

/// Why runs of this configuration cannot be done at the same time.
fn alone(config: &Config) -> Option<&'static str> {
    let reasons = [
        (
            config.transport != Transport::Ring,
            "runs with transport = \"tcp\" or \"hosts\" share addresses",
        ),
        (
            matches!(config.sink, SinkKind::File { .. }),
            "runs that record share the file system",
        ),
        (
            matches!(config.sink, SinkKind::HandOver { .. }),
            "runs share the consumer",
        ),
        (
            matches!(config.source_kind, SourceKind::Own(_)),
            "runs share the detector of the sources",
        ),
        (
            config.monitor.prometheus.is_some(),
            "runs share the address of monitor.prometheus",
        ),
    ];
    reasons.iter().find(|it| it.0).map(|it| it.1)
}

/// Ends a run as soon as somebody asks for the end of the scan.
struct UntilAsked {
    passed_on: u32,
    is_over: bool,
}

impl Watcher for UntilAsked {
    fn said(&mut self, _: Role, _: &str, _: u32) {}

    fn turn(&mut self) -> u32 {
        let asked = signals::asked();
        let more = asked - core::mem::replace(&mut self.passed_on, asked);
        // What it would still measure is of no use: the first signal aborts it.
        let first = u32::from(more > 0 && !core::mem::replace(&mut self.is_over, true));
        more + first
    }
}

/// A file that goes with this.
struct Written(PathBuf);

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn one_run(
    point: &Point,
    slot: usize,
    cpus: Option<&[usize]>,
    asked_before: u32,
) -> Result<Figures, Problem> {
    let failed = |error| Problem::Failed(error);
    if signals::asked() > asked_before {
        return Err(Problem::Interrupted);
    }
    if let Some(cpus) = cpus {
        // The parts of a run are where the thread is that starts them.
        let pinned = pin_to_cpus(cpus);
        pinned.map_err(|error| failed(DaqError::Scan(error.to_string())))?;
    }
    let (text, config) = point.in_slot(slot).map_err(failed)?;
    let name = format!("barewire-daq-scan-{}-{slot}.toml", std::process::id());
    let file = Written(std::env::temp_dir().join(name));
    std::fs::write(&file.0, text).map_err(|it| failed(io(&file.0, it)))?;
    let mut watcher = UntilAsked {
        passed_on: asked_before,
        is_over: false,
    };
    let came = figures_of(&config, &file.0, &mut watcher);
    match watcher.is_over {
        true => Err(Problem::Interrupted),
        false => came.map_err(failed),
    }
}

fn figures_of(config: &Config, file: &Path, watcher: &mut UntilAsked) -> Result<Figures, DaqError> {
    let program = own_program()?;
    let how = HowTo {
        own_source: own_source(config),
        json: true,
        ..HowTo::quietly(&program, file, &config.start)
    };
    let outcome = launch::run_here(config, |role| how.command(role), watcher);
    let outcome = outcome.map_err(|error| DaqError::Io {
        what: "start a part".to_owned(),
        error,
    })?;
    let figures = serde_json::from_str::<Figures>(&outcome.ledger);
    match figures {
        Ok(figures) if figures.good && outcome.deaths.is_empty() => Ok(figures),
        _ => Err(DaqError::Ended {
            code: match outcome.code {
                0 => LOST,
                code => code,
            },
            why: format!(
                "a run did not end as it should: status {}{}",
                outcome.code,
                why(&outcome)
            ),
        }),
    }
}

/// What the run itself says of its end, and who died.
fn why(outcome: &launch::Outcome) -> String {
    let said: serde_json::Value = serde_json::from_str(&outcome.ledger).unwrap_or_default();
    let reason = said.get("reason").and_then(serde_json::Value::as_str);
    let parts = reason
        .into_iter()
        .chain(outcome.deaths.iter().map(String::as_str));
    parts.map(|it| format!(", {it}")).collect()
}
