//! Runs a plan: opens the channels of each phase, takes the samples of all its cases in
//! turn, round after round, and enters them into the books.

use std::time::{Duration, Instant};

use barewire_report::terminal::progress_bar;
use indicatif::{ProgressBar, ProgressStyle};

use crate::case::{Case, ChannelSpec, Transport, Variant};
use crate::error::Result;
use crate::plan::{Phase, Plan};
use crate::results::{Books, CaseBook};
use crate::session::Session;

/// Fewer samples than this in the best covered band, and more are taken.
const TOO_FEW: usize = 3;

/// What a run needs to know besides the plan.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// When it began.
    pub started: Instant,
    /// After so long no more samples are taken.
    pub longest: Duration,
}

/// Progress on a terminal; nothing elsewhere.
pub fn progress(total: u64, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = progress_bar(total);
    if let Ok(style) =
        ProgressStyle::with_template("{bar:32} {pos}/{len} samples, {eta} left  {msg}")
    {
        bar.set_style(style);
    }
    bar
}

/// Runs all phases; what could not be measured goes to `not_measured`.
pub fn run<'a>(
    plan: &'a Plan,
    session: &mut Session,
    limits: Limits,
    bar: &ProgressBar,
    not_measured: &mut Vec<String>,
) -> Result<Books<'a>> {
    let mut books: Books<'a> = Vec::new();
    let cost = |phase: &Phase| phase_cost(phase, plan);
    let mut cost_left: f64 = plan.phases.iter().map(cost).sum();
    for phase in &plan.phases {
        let left = limits.longest.saturating_sub(limits.started.elapsed());
        let share = cost(phase) / cost_left.max(1.0);
        let until = Instant::now() + left.mul_f64(share.clamp(0.0, 1.0));
        cost_left -= cost(phase);
        let mut run = PhaseRun {
            phase,
            plan,
            session: &mut *session,
            bar,
            until,
        };
        let usable = run.open(not_measured)?;
        let more = run.samples(&usable)?;
        run.close(&usable)?;
        // A heavy test measures the limit again beside each transport: one case for all.
        for (case, book) in more {
            merge(&mut books, case, book);
        }
    }
    for (case, book) in &books {
        if book.kept() == 0 {
            not_measured.push(format!(
                "{case}: the probes disagreed around all {} samples",
                book.dropped()
            ));
        }
    }
    Ok(books)
}

fn phase_cost(phase: &Phase, plan: &Plan) -> f64 {
    let each: u64 = phase
        .cases
        .iter()
        .map(|case| case.work.duration_ns + 2 * plan.probe_ns)
        .sum();
    each as f64
}

struct PhaseRun<'a, 'b> {
    phase: &'a Phase,
    plan: &'a Plan,
    session: &'b mut Session,
    bar: &'b ProgressBar,
    until: Instant,
}

impl<'a> PhaseRun<'a, '_> {
    /// Opens what can be opened; which channels those are.
    fn open(&mut self, not_measured: &mut Vec<String>) -> Result<Vec<bool>> {
        let mut usable = Vec::with_capacity(self.phase.channels.len());
        for (id, spec) in self.phase.channels.iter().enumerate() {
            let obstacle = self
                .too_many_descriptors(spec)
                .or_else(|| self.no_kernel_copy(spec));
            if let Some(why) = &obstacle {
                let about = format!("{}: {why}", name(spec));
                if !not_measured.contains(&about) {
                    not_measured.push(about);
                }
            } else {
                self.bar.set_message(format!("opening {}", name(spec)));
                let opened = self.session.open(id, spec);
                opened.map_err(|error| self.session.explain(error))?;
            }
            usable.push(obstacle.is_none());
        }
        Ok(usable)
    }

    fn too_many_descriptors(&self, spec: &ChannelSpec) -> Option<String> {
        let each = match spec.transport {
            Transport::Tcp | Transport::Unix => 1,
            Transport::Pipe => 2,
            Transport::Limit | Transport::Barewire | Transport::Hosts => return None,
        };
        let needed = u64::from(spec.connections()) * each + 300;
        let have = self.session.descriptors();
        (needed > have).then(|| {
            format!("needs {needed} descriptors, and a process may have {have} here (ulimit -Hn)")
        })
    }

    fn no_kernel_copy(&self, spec: &ChannelSpec) -> Option<String> {
        if spec.variant != Variant::KernelCopy {
            return None;
        }
        let allowed = self.session.allow_kernel_copy();
        allowed.err().map(|error| error.to_string())
    }

    /// Takes the samples of all cases in turn.
    fn samples(&mut self, usable: &[bool]) -> Result<Books<'a>> {
        let mut books: Books<'a> = self
            .phase
            .cases
            .iter()
            .filter(|case| usable[case.channel])
            .map(|case| (case, CaseBook::default()))
            .collect();
        let skipped = self.phase.cases.len() - books.len();
        let rounds = self.plan.samples as usize;
        self.bar.inc((skipped * rounds) as u64);
        for round in 0..rounds {
            // The first round is taken whatever it costs, so that every case has a figure.
            if round > 0 && Instant::now() >= self.until {
                self.bar.inc(((rounds - round) * books.len()) as u64);
                break;
            }
            let count = books.len();
            for turn in 0..count {
                // Another beginning each round: no case always follows the same one.
                let index = (turn + round * 7) % count;
                self.one(&mut books[index])?;
                self.bar.inc(1);
            }
        }
        self.more(&mut books, rounds)?;
        Ok(books)
    }

    /// More samples, in time, of the cases that lost too many.
    fn more(&mut self, books: &mut Books<'a>, rounds: usize) -> Result<()> {
        let enough = TOO_FEW.min(rounds);
        for _ in 0..rounds {
            let poor: Vec<usize> = (0..books.len())
                .filter(|&index| books[index].1.best_coverage() < enough)
                .collect();
            if poor.is_empty() {
                return Ok(());
            }
            for index in poor {
                if Instant::now() >= self.until {
                    return Ok(());
                }
                self.one(&mut books[index])?;
            }
        }
        Ok(())
    }

    fn one(&mut self, (case, book): &mut (&'a Case, CaseBook)) -> Result<()> {
        self.bar.set_message(case.to_string());
        take(self.session, case.channel, case, book)
    }

    fn close(&mut self, usable: &[bool]) -> Result<()> {
        for (id, _) in usable.iter().enumerate().filter(|(_, usable)| **usable) {
            let closed = self.session.close(id);
            closed.map_err(|error| self.session.explain(error))?;
        }
        Ok(())
    }
}

/// Adds a book to those of the same case, or as a new one.
pub fn merge<'a>(books: &mut Books<'a>, case: &'a Case, book: CaseBook) {
    match books.iter_mut().find(|(known, _)| known.same(case)) {
        Some((_, known)) => known.absorb(book),
        None => books.push((case, book)),
    }
}

/// Takes one sample of a case over an open channel and enters it into its book.
pub fn take(session: &mut Session, channel: usize, case: &Case, book: &mut CaseBook) -> Result<()> {
    let sample = session.sample(channel, &case.work, &case.to_string());
    let sample = sample.map_err(|error| session.explain(error))?;
    let context = session.context();
    book.enter(&sample, |times| match &sample.stretches_ps {
        Some(stretches) => times.add_picoseconds(stretches),
        None => times.add_cycles(context.scratch.recorded(), |cycles| {
            context.clock.picoseconds(cycles)
        }),
    });
    Ok(())
}

fn name(spec: &ChannelSpec) -> String {
    match spec.many {
        Some(many) => format!("{} with {many} connections", spec.transport.name()),
        None => spec.transport.name().to_owned(),
    }
}
