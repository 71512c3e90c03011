//! Plans, run: each replication with a seed of its own, on all processors, and the tables of
//! the replications made one.

use std::sync::atomic::{AtomicBool, Ordering};

use barewire_des::stats::{Interval, Tally};
use barewire_testbed::{
    Cell, LinkCapture, Outcome, Progress, Setting, SystemError, Table, replicate,
};
use barewire_units::Rng;

use crate::plan::Plan;
use crate::result_table::{Entry, ResultColumn, ResultTable};

/// How far runs are, for whoever waits.
#[derive(Debug)]
pub struct Watch {
    tasks: Vec<Task>,
}

#[derive(Debug, Default)]
struct Task {
    progress: Progress,
    is_over: AtomicBool,
}

impl Watch {
    /// Of runs of `plans`.
    #[must_use]
    pub fn new(plans: &[Plan]) -> Watch {
        let tasks = plans.iter().map(|plan| plan.replications).sum();
        Watch {
            tasks: (0..tasks).map(|_| Task::default()).collect(),
        }
    }

    /// What share of all is done, from 0 to 1, taking every run for as long as any other.
    #[must_use]
    pub fn share(&self) -> f64 {
        let share = |task: &Task| match (self.is_over(task), task.progress.look()) {
            (true, _) => 1.0,
            (false, (_, 0)) => 0.0,
            (false, (done, total)) => done.min(total) as f64 / total as f64,
        };
        self.tasks.iter().map(share).sum::<f64>() / self.tasks.len().max(1) as f64
    }

    /// Runs that are over, and all.
    #[must_use]
    pub fn runs(&self) -> (usize, usize) {
        let over = self.tasks.iter().filter(|task| self.is_over(task)).count();
        (over, self.tasks.len())
    }

    fn is_over(&self, task: &Task) -> bool {
        // Relaxed, as below: for a display, with nothing behind it.
        task.is_over.load(Ordering::Relaxed)
    }
}

/// What came out of a plan.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its tables, over all replications.
    pub tables: Vec<ResultTable>,
    /// What went over the links in the first replication, if it was asked for.
    pub links: Vec<LinkCapture>,
    /// Over all events of all replications.
    pub trace_hash: u64,
}

/// Why a plan gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The experiment stopped.
    #[error("{plan}, replication {replication} (seed {seed}): {source}")]
    Stopped {
        /// The plan.
        plan: String,
        /// Which of its runs, from 1.
        replication: usize,
        /// The seed of that run.
        seed: u64,
        /// Why.
        source: Box<SystemError>,
    },
    /// Replications whose tables cannot be made one.
    #[error(
        "{plan}: replications 1 and {replication} do not agree: {what}. Run it with one \
         replication and seeds of your own"
    )]
    Disagree {
        /// The plan.
        plan: String,
        /// The replication that differs, from 1.
        replication: usize,
        /// In what.
        what: String,
    },
}

/// The seed of a plan's replication, from 0. The first is the plan's own.
#[must_use]
pub fn seed_of(seed: u64, replication: usize) -> u64 {
    match replication {
        0 => seed,
        index => Rng::from_seed(seed)
            .fork_nth("replication", index as u64)
            .seed(),
    }
}

/// Runs all replications of all plans, on all processors. Records `packets_per_link` packets
/// of each link in the first replication of each plan. What comes out does not depend on the
/// processors.
///
/// # Errors
///
/// The first run that gave nothing.
pub fn run(plans: &[Plan], packets_per_link: usize, watch: &Watch) -> Result<Vec<Found>, RunError> {
    let all = |(index, plan): (usize, &Plan)| {
        (0..plan.replications).map(move |replication| (index, replication))
    };
    let tasks: Vec<(usize, usize)> = plans.iter().enumerate().flat_map(all).collect();
    let idle = Task::default();
    let outcomes = replicate(tasks.len(), |index| {
        let (plan, replication) = tasks[index];
        let plan = &plans[plan];
        let task = watch.tasks.get(index).unwrap_or(&idle);
        let seed = seed_of(plan.seed, replication);
        let setting = Setting {
            parameters: &plan.parameters,
            inputs: &plan.inputs,
            seed,
            packets_per_link: if replication == 0 {
                packets_per_link
            } else {
                0
            },
            progress: &task.progress,
        };
        let outcome = (plan.experiment.run)(&setting).map_err(|source| RunError::Stopped {
            plan: plan.name.clone(),
            replication: replication + 1,
            seed,
            source: Box::new(source),
        });
        task.is_over.store(true, Ordering::Relaxed);
        outcome
    });
    let mut outcomes = outcomes.into_iter();
    plans
        .iter()
        .map(|plan| {
            let of_plan = outcomes.by_ref().take(plan.replications);
            let of_plan = of_plan.collect::<Result<Vec<Outcome>, RunError>>()?;
            combine(plan, of_plan)
        })
        .collect()
}

fn combine(plan: &Plan, mut outcomes: Vec<Outcome>) -> Result<Found, RunError> {
    let hashes: Vec<u64> = outcomes.iter().map(|outcome| outcome.trace_hash).collect();
    for (index, other) in outcomes.iter().enumerate().skip(1) {
        if let Some(what) = difference(&outcomes[0].tables, &other.tables) {
            return Err(RunError::Disagree {
                plan: plan.name.clone(),
                replication: index + 1,
                what,
            });
        }
    }
    let table_count = outcomes.first().map_or(0, |first| first.tables.len());
    let tables = (0..table_count).map(|at| {
        let same: Vec<&Table> = outcomes.iter().map(|outcome| &outcome.tables[at]).collect();
        combine_table(&same)
    });
    Ok(Found {
        tables: tables.collect(),
        links: outcomes
            .first_mut()
            .map(|first| std::mem::take(&mut first.links))
            .unwrap_or_default(),
        trace_hash: hash_of(&hashes),
    })
}

/// One hash over those of several runs in their order; of one run its own.
pub(crate) fn hash_of(hashes: &[u64]) -> u64 {
    let more = |hash: u64, next: &u64| Rng::from_seed(hash).fork_nth("run", *next).seed();
    match hashes.split_first() {
        Some((first, rest)) => rest.iter().fold(*first, more),
        None => 0,
    }
}

/// What keeps the tables of two runs from being made one.
fn difference(a: &[Table], b: &[Table]) -> Option<String> {
    if a.len() != b.len() {
        return Some(format!("{} tables and {}", a.len(), b.len()));
    }
    for (a, b) in a.iter().zip(b) {
        if (&a.name, &a.columns) != (&b.name, &b.columns) {
            return Some(format!("tables `{}` and `{}`", a.name, b.name));
        }
        if a.rows.len() != b.rows.len() {
            let (rows_a, rows_b) = (a.rows.len(), b.rows.len());
            return Some(format!("{rows_a} and {rows_b} rows of `{}`", a.name));
        }
        let cells = a.rows.iter().flatten().zip(b.rows.iter().flatten());
        for (cell_a, cell_b) in cells {
            let differs = match (cell_a, cell_b) {
                (Cell::Text(a), Cell::Text(b)) => a != b,
                (Cell::Text(_), _) | (_, Cell::Text(_)) => true,
                _ => false,
            };
            if differs {
                return Some(format!(
                    "`{}` and `{}` in `{}`",
                    in_words(cell_a),
                    in_words(cell_b),
                    a.name
                ));
            }
        }
    }
    None
}

fn in_words(cell: &Cell) -> String {
    match cell {
        Cell::Number(number) => number.to_string(),
        Cell::Text(text) => text.clone(),
        Cell::Missing => "no value".to_owned(),
    }
}

fn combine_table(same: &[&Table]) -> ResultTable {
    let first = same[0];
    let entry = |row: usize, column: usize| {
        let cell = |table: &&Table| table.rows[row].get(column).cloned();
        combine_cells(
            same.iter()
                .map(|table| cell(table).unwrap_or(Cell::Missing)),
        )
    };
    let row = |at: usize| {
        (0..first.columns.len())
            .map(|column| entry(at, column))
            .collect()
    };
    ResultTable {
        name: first.name.clone(),
        keys: 1,
        columns: first.columns.iter().map(ResultColumn::from).collect(),
        rows: (0..first.rows.len()).map(row).collect(),
    }
}

/// The mean of the numbers, with its interval. Runs that have no such value do not count.
fn combine_cells(cells: impl Iterator<Item = Cell>) -> Entry {
    let mut tally = Tally::default();
    for cell in cells {
        match cell {
            Cell::Text(text) => return Entry::Text(text),
            Cell::Number(number) if number.is_finite() => tally.add(number),
            _ => {}
        }
    }
    match tally.count() {
        0 => Entry::Missing,
        _ => Entry::Number {
            value: tally.mean(),
            half_width: Interval::of(&tally).map(|interval| interval.half_width),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn found(changes: &[&str]) -> Found {
        let plans = [sample::plan(changes)];
        let watch = Watch::new(&plans);
        let found = run(&plans, 0, &watch).unwrap().remove(0);
        assert_eq!(
            (watch.share(), watch.runs().0),
            (1.0, plans[0].replications)
        );
        found
    }

    #[test]
    fn one_replication_is_the_experiment_itself() {
        let plan = sample::plan(&["seed=5"]);
        let setting = Setting {
            parameters: &plan.parameters,
            inputs: &plan.inputs,
            seed: 5,
            packets_per_link: 0,
            progress: &Progress::default(),
        };
        let outcome = (plan.experiment.run)(&setting).unwrap();
        let found = found(&["seed=5"]);
        assert_eq!(found.trace_hash, outcome.trace_hash);
        let table = &found.tables[0];
        assert_eq!((table.keys, table.rows.len()), (1, 3));
        for (row, cells) in table.rows.iter().zip(&outcome.tables[0].rows) {
            for (entry, cell) in row.iter().zip(cells) {
                let expected = match cell {
                    Cell::Number(value) => Entry::Number {
                        value: *value,
                        half_width: None,
                    },
                    Cell::Text(text) => Entry::Text(text.clone()),
                    Cell::Missing => Entry::Missing,
                };
                assert_eq!(*entry, expected);
            }
        }
    }

    #[test]
    fn replications_become_means_with_student_s_intervals() {
        let seeds: Vec<u64> = (0..4).map(|index| seed_of(5, index)).collect();
        assert_eq!(seeds[0], 5);
        let singles: Vec<f64> = seeds
            .iter()
            .map(|seed| {
                // Beyond what a plan can write, so put in by hand.
                let plans = [Plan {
                    seed: *seed,
                    ..sample::plan(&[])
                }];
                let found = run(&plans, 0, &Watch::new(&plans)).unwrap().remove(0);
                found.tables[0].rows[2][1].number().unwrap()
            })
            .collect();
        let mean = singles.iter().sum::<f64>() / 4.0;
        let squares: f64 = singles.iter().map(|value| (value - mean).powi(2)).sum();
        let expected = 3.182 * (squares / 3.0).sqrt() / 2.0;
        let found = found(&["seed=5", "replications=4"]);
        let Entry::Number {
            value,
            half_width: Some(half_width),
        } = found.tables[0].rows[2][1]
        else {
            panic!("{:?}", found.tables[0].rows[2]);
        };
        assert!((value - mean).abs() < 1e-9 && (half_width - expected).abs() < 1e-9);
        assert!(half_width > 0.0);
        // What does not vary has an interval of no width, names and gaps stay.
        let row = &found.tables[0].rows[2];
        assert_eq!(
            row[0],
            Entry::Number {
                value: 100.0,
                half_width: Some(0.0)
            }
        );
        assert_eq!(
            (&row[4], &row[5]),
            (&Entry::Text("long".into()), &Entry::Missing)
        );
    }

    #[test]
    fn the_same_comes_out_every_time_whoever_is_faster() {
        let changes = ["replications=9", "seed=3"];
        let (first, second) = (found(&changes), found(&changes));
        assert_eq!(
            (first.trace_hash, first.tables),
            (second.trace_hash, second.tables)
        );
        assert_ne!(
            first.trace_hash,
            found(&["replications=8", "seed=3"]).trace_hash
        );
    }

    #[test]
    fn many_plans_at_once_give_what_each_gives_alone() {
        let plans = [sample::plan(&["replications=3"]), sample::plan(&["seed=2"])];
        let both = run(&plans, 0, &Watch::new(&plans)).unwrap();
        assert_eq!(both[0].trace_hash, found(&["replications=3"]).trace_hash);
        assert_eq!(both[1].tables, found(&["seed=2"]).tables);
    }

    #[test]
    fn replications_that_have_no_table_in_common_are_refused() {
        let lab = sample::PLANS;
        let draft = lab.open("sample-names").unwrap();
        let mut plan = lab.resolve(&draft, &Default::default()).unwrap();
        plan.replications = 2;
        let plans = [plan];
        let error = run(&plans, 0, &Watch::new(&plans)).unwrap_err().to_string();
        let second = seed_of(1, 1);
        assert_eq!(
            error,
            format!(
                "sample-names: replications 1 and 2 do not agree: `1` and `{second}` in `which`. \
                 Run it with one replication and seeds of your own"
            )
        );
    }

    #[test]
    fn an_experiment_that_stops_is_named_with_its_seed() {
        // Past the check, which nothing but a fault of ours can be.
        let mut plan = sample::plan(&["replications=2"]);
        plan.inputs = plan.inputs.replace("blocks = 50", "blocks = 0");
        let plans = [plan];
        let error = run(&plans, 0, &Watch::new(&plans)).unwrap_err().to_string();
        assert!(
            error.starts_with("sample-wait, replication 1 (seed 1): "),
            "{error}"
        );
    }

    #[test]
    fn links_are_recorded_in_the_first_replication_only() {
        let plans = [sample::plan(&["replications=3"])];
        let found = run(&plans, 40, &Watch::new(&plans)).unwrap().remove(0);
        assert_eq!(found.links.len(), 1);
        assert_eq!(
            (found.links[0].packets.len(), found.links[0].not_recorded),
            (40, 110)
        );
    }
}
