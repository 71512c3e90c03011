//! The manager: lets parts in, triggers events, tells everybody what the core decides, and
//! puts the accounts together at the end.

mod ended;
mod given_up;
mod seats;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use barewire_proto::evb::{
    BuilderId, Command, Manager, ManagerAction, Outcome, Part, RunState, SourceId,
};
use barewire_sys::process::cpu_time_self;

use super::{BEAT, PartError};
use crate::clock::{Clock, system_time, until};
use crate::config::{Config, Trigger};
use crate::disk;
use crate::generate::Triggers;
use crate::monitor::{self, Exporter, Log, Picture, Rates, Severity};
use crate::net::{Address, Net};
use crate::signals;
use crate::wire::Control;
use given_up::GivenUp;
use seats::{Heard, Seats};

pub use ended::{Ended, Options, Verdict};

/// Triggers given before the manager looks at its links again.
const TRIGGERS_AT_ONCE: u64 = 512;
/// With triggers as fast as they go: the least part of the window that is triggered at once.
/// Each message may wake somebody.
const WINDOW_PARTS: u64 = 8;
/// Longest list in a control message.
const LIST_MAX: usize = 4096;
/// Nobody is waited for longer because it is busy.
const BUSY_MAX: barewire_units::Duration = barewire_units::Duration::from_ms(60_000);
/// How long the last reports may take.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Nothing is closed for so long although there is something: a warning.
const STALL: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
enum Phase {
    /// Parts are to come.
    Gathering,
    /// The run is configured, and parts are to be ready.
    Readying(Instant),
    /// The core's state says what happens.
    Running,
    /// The last reports are to come.
    Ending(Instant),
    /// An operator is to say what next.
    Over,
}

/// Assignments that go in one message.
#[derive(Default)]
struct Assigned {
    first: u64,
    builders: Vec<u16>,
    starts: Vec<u64>,
}

struct ManagerPart<'a> {
    config: &'a Config,
    options: Options,
    core: Manager,
    clock: Clock,
    seats: Seats,
    phase: Phase,
    run: u32,
    /// When the run was configured, and then when it was started.
    configured: barewire_units::Instant,
    ended_at: Option<barewire_units::Instant>,
    triggers: Triggers,
    /// Before which event each source that lives has fragments, and whether that is all.
    has: BTreeMap<SourceId, (u64, bool)>,
    /// The highest of the first.
    had: u64,
    assigned: Assigned,
    given_up: GivenUp,
    reason: Option<String>,
    ended: Option<Ended>,
    log: Log,
    rates: Rates,
    next_line: Instant,
    next_beat: Instant,
    drained_by: Option<Instant>,
    last_closed: (u64, Instant),
    warned: bool,
    nobody_since: Option<Instant>,
    /// Builders whose file systems take no more.
    stuck: BTreeSet<BuilderId>,
    /// Signals that were answered.
    answered: u32,
    quit: bool,
}

/// Runs the manager until the run has ended; with [`Options::hold`] until an operator ends it.
///
/// # Errors
///
/// Not all parts have come, or the machine refuses something.
pub fn run(config: &Config, options: Options) -> Result<Ended, PartError> {
    let mut net = Net::new(config)?;
    let address = Address::of_manager(config);
    let listens = net.listen(&address);
    listens.map_err(|error| super::cannot_listen(&address, "tcp.manager", error))?;
    let log = Log::new(config.monitor.log.as_deref(), options.quiet).map_err(|error| {
        let path = config.monitor.log.as_deref().unwrap_or(Path::new(""));
        PartError::Record(format!("monitor.log: {}", disk::explain(path, &error, 0)))
    })?;
    let exporter = config.monitor.prometheus.as_ref().map(|address| {
        let started = address.listen().and_then(Exporter::start);
        let fault = |error| crate::config::fault("monitor.prometheus", address, &error);
        started.map_err(|error| PartError::Listen(fault(error)))
    });
    let exporter = exporter.transpose()?;
    let clock = Clock::begin();
    let now = clock.now();
    let mut part = ManagerPart {
        config,
        options,
        core: Manager::new(config.manager, now),
        clock,
        seats: Seats::new(config),
        phase: Phase::Gathering,
        run: config.run,
        configured: now,
        ended_at: None,
        triggers: Triggers::new(config.trigger, config.seed, now),
        has: BTreeMap::new(),
        had: 0,
        assigned: Assigned::default(),
        given_up: GivenUp::default(),
        reason: None,
        ended: None,
        log,
        rates: Rates::default(),
        next_line: Instant::now() + system_time(config.monitor.period),
        next_beat: Instant::now(),
        drained_by: None,
        last_closed: (0, Instant::now()),
        warned: false,
        nobody_since: None,
        stuck: BTreeSet::new(),
        answered: signals::asked(),
        quit: false,
    };
    part.work(&mut net, exporter.as_ref())
}

impl ManagerPart<'_> {
    fn work(&mut self, net: &mut Net, exporter: Option<&Exporter>) -> Result<Ended, PartError> {
        let begun = Instant::now();
        let patience = system_time(self.config.patience);
        let mut turn = 0_u32;
        while !self.quit {
            let mut busy = self.hear(net);
            if self.answered < signals::asked() {
                self.answered += 1;
                self.asked_to_end();
            }
            match self.phase {
                Phase::Gathering if self.answered > 0 => {
                    self.seats.refuse_all(net);
                    return Err(PartError::Interrupted);
                }
                Phase::Gathering if self.seats.all_there() => self.configure(),
                Phase::Gathering if begun.elapsed() > patience => {
                    let who = self.seats.missing().join(", ");
                    self.seats.refuse_all(net);
                    return Err(PartError::Missing { who, patience });
                }
                Phase::Readying(since) => self.start_if_ready(since),
                Phase::Running => busy |= self.drive(),
                Phase::Ending(deadline) => self.end_if_complete(deadline),
                Phase::Gathering | Phase::Over => {}
            }
            if !matches!(self.phase, Phase::Gathering) {
                self.core.handle_time(self.clock.now());
            }
            self.follow();
            self.beat(exporter);
            self.seats.flush(net);
            turn = turn.wrapping_add(1);
            if !busy {
                net.wait(self.pause())?;
            } else if turn % 64 == 0 {
                net.look()?;
            }
        }
        self.seats.send_to_all(&Control::Quit {});
        let deadline = Instant::now() + BEAT;
        while !self.seats.flush(net) && Instant::now() < deadline {
            net.wait(Duration::from_millis(1))?;
        }
        net.flush();
        self.ended.take().ok_or_else(|| PartError::Missing {
            who: "a run".to_owned(),
            patience,
        })
    }

    /// By a signal: at first what there is is finished, then it is dropped with account.
    fn asked_to_end(&mut self) {
        let now = self.clock.now();
        match (self.phase, self.core.state()) {
            (Phase::Readying(_), _) => {
                self.reason = Some("asked to end before it started".to_owned());
                self.phase = Phase::Ending(Instant::now());
            }
            (Phase::Running, _) if self.answered > 1 => {
                self.give_up(now, "asked to end a second time".to_owned());
            }
            (Phase::Running, _) => {
                self.log.say(Severity::Info, "asked to end: drains");
                // Refused if it drains already, or has just ended.
                let _ = self.core.command(now, Command::Drain);
            }
            (Phase::Over, _) => self.quit = true,
            (Phase::Gathering | Phase::Ending(_), _) => {}
        }
        // With an operator, who may not be there to say so.
        self.options.hold = false;
    }

    fn pause(&self) -> Duration {
        let beat = self.next_beat.saturating_duration_since(Instant::now());
        let now = self.clock.now();
        let timed = matches!(self.config.trigger, Trigger::Clock(_) | Trigger::Poisson(_))
            && self.core.state() == RunState::Running;
        let trigger = timed.then(|| until(now, self.triggers.next()));
        let core = self.core.next_deadline().map(|at| until(now, at));
        [trigger, core]
            .into_iter()
            .flatten()
            .fold(beat, Duration::min)
    }

    fn hear(&mut self, net: &mut Net) -> bool {
        let mut any = false;
        while let Some(heard) = self.seats.hear(net) {
            any = true;
            self.take(heard);
        }
        any
    }

    fn take(&mut self, heard: Heard) {
        let now = self.clock.now();
        let running = !matches!(self.phase, Phase::Gathering);
        match heard {
            Heard::Came { part, again, pid } => {
                if running && again {
                    // A new connection ends the old one.
                    self.core.handle_lost(now, part);
                    self.follow();
                }
                let word = if again { "joins again" } else { "is there" };
                let text = format!("{} {word}: process {pid}", super::name_of(part));
                self.log.say(Severity::Info, &text);
                self.seats.welcome(
                    part,
                    &Control::Welcome {
                        now_ps: now.since_origin().as_ps(),
                        run: self.run,
                        state: self.core.state(),
                    },
                );
                if running {
                    for other in self.seats.parts() {
                        if other != part && !self.core.counts_on(other) {
                            self.seats.tell(part, &Control::Lost { part: other });
                        }
                    }
                    self.seats.set_live(part, true);
                    self.core.handle_alive(now, part);
                }
            }
            Heard::Gone { part, pid, reason } => {
                let text = format!("{} (process {pid}) is lost: {reason}", super::name_of(part));
                self.log.say(Severity::Error, &text);
                self.forget(part);
                if running {
                    self.core.handle_lost(now, part);
                }
            }
            Heard::Said { part, message } => self.obey(now, part, message),
            Heard::Ordered {
                guest,
                message: Control::Show { log_from },
            } => self.show(guest, log_from),
            Heard::Ordered { guest, message } => self.order(now, guest, &message),
            Heard::Nothing => {}
        }
    }

    fn obey(&mut self, now: barewire_units::Instant, part: Part, message: Control) {
        match (message, part) {
            (Control::Alive { busy_ms }, _) if !matches!(self.phase, Phase::Gathering) => {
                self.seats.set_live(part, true);
                let time = barewire_units::Duration::from_ms(u64::from(busy_ms));
                self.core.handle_busy(now, part, time.min(BUSY_MAX));
            }
            (Control::Ready { run }, _) => self.seats.set_ready(part, run),
            (Control::Close { events, outcomes }, Part::Builder(builder)) => {
                for (event, outcome) in events.into_iter().zip(outcomes) {
                    let outcome = Outcome {
                        expected: (outcome >> 32) as u32,
                        present: outcome as u32,
                    };
                    self.core.handle_close(now, builder, event, outcome);
                }
            }
            (Control::Have { end, last }, Part::Source(source)) => {
                self.has.insert(source, (end, last != 0));
                self.had = self.had.max(end);
            }
            (Control::Request { events }, Part::Builder(builder)) => {
                self.core.handle_request(now, builder, events);
            }
            (Control::Account { run, last, sums }, _) if run == self.run => {
                self.seats.set_report(part, &sums, last != 0);
            }
            (Control::Spread { run, of, counts }, Part::Builder(_)) if run == self.run => {
                self.seats.set_spread(part, of, &counts);
            }
            (Control::Stuck { reason }, Part::Builder(builder)) => {
                self.note_stuck(builder, &reason)
            }
            (Control::GaveUp { reason }, Part::Builder(_)) => {
                self.give_up(now, format!("{}: {reason}", super::name_of(part)));
            }
            (Control::Recording { file }, Part::Builder(_)) => self.given_up.note_recording(file),
            (Control::Note { severity, text }, _) => {
                let text = format!("{}: {text}", super::name_of(part));
                self.log.say(Severity::from_code(severity), &text);
            }
            _ => {}
        }
    }

    /// A builder cannot record, or can again.
    fn note_stuck(&mut self, builder: BuilderId, reason: &str) {
        let name = super::name_of(Part::Builder(builder));
        if reason.is_empty() {
            self.stuck.remove(&builder);
            self.log
                .say(Severity::Info, &format!("{name} records again"));
            return;
        }
        self.stuck.insert(builder);
        let patience = system_time(self.config.sink_patience);
        let text = format!("{name} cannot record: {reason}; the run waits, {patience:?} at most");
        self.log.say(Severity::Error, &text);
    }

    /// What a lost part had is not waited for.
    fn forget(&mut self, part: Part) {
        match part {
            Part::Source(source) => drop(self.has.remove(&source)),
            Part::Builder(builder) => drop(self.stuck.remove(&builder)),
        }
    }

    /// Whether all sources that live have said that they have no more, and all was triggered.
    fn all_was_had(&self, triggered: u64) -> bool {
        let lives = |it: &SourceId| self.core.counts_on(Part::Source(*it));
        let sources = (0..self.config.manager.sources).map(SourceId);
        let mut living = sources.filter(lives).peekable();
        triggered >= self.had
            && living.peek().is_some()
            && living.all(|it| self.has.get(&it).is_some_and(|&(_, last)| last))
    }

    fn order(&mut self, now: barewire_units::Instant, guest: usize, message: &Control) {
        let answer = match message {
            Control::Status {} => {
                let picture = self.picture();
                let mut since_the_beginning = Rates::default();
                let now_s = monitor::unix_s();
                Ok(monitor::lines(
                    &picture,
                    self.config,
                    &mut since_the_beginning,
                    now_s,
                ))
            }
            Control::Quit {} if matches!(self.phase, Phase::Over) => {
                self.quit = true;
                Ok("bye".to_owned())
            }
            Control::Order {
                command: Command::Configure,
            } if matches!(self.phase, Phase::Over) => {
                self.run = self.run.wrapping_add(1);
                self.given_up.clear();
                self.configure();
                Ok(format!("run {} is configured", self.run))
            }
            &Control::Order { command } if command != Command::Configure => {
                self.handle_order(now, command)
            }
            _ => Err(format!("not while the run is {:?}", self.core.state())),
        };
        let answer = match answer {
            Ok(text) => Control::Answer { text },
            Err(reason) => Control::Refused { reason },
        };
        self.seats.answer(guest, &answer);
    }

    /// Says everything to one who looks.
    fn show(&mut self, guest: usize, log_from: u64) {
        // Who asks and does not listen gets no more than one answer.
        if self.seats.owes(guest) {
            return;
        }
        let picture = self.picture();
        let (log_from, log) = self.log.since(log_from);
        for message in picture.shown(log_from, log) {
            self.seats.answer(guest, &message);
        }
    }

    fn handle_order(
        &mut self,
        now: barewire_units::Instant,
        command: Command,
    ) -> Result<String, String> {
        if command == Command::Start && !self.seats.all_ready(self.run) {
            return Err("not all parts are ready".to_owned());
        }
        let done = self.core.command(now, command);
        done.map_err(|refused| refused.to_string())?;
        match command {
            Command::Start => self.begin(now),
            Command::Resume => self.triggers.skip_to(now),
            Command::Abort => self.reason = Some("aborted by the operator".to_owned()),
            _ => {}
        }
        Ok(format!("{:?}", self.core.state()))
    }

    /// Sets the run back.
    fn configure(&mut self) {
        let now = self.clock.now();
        if matches!(self.phase, Phase::Gathering) {
            // Parts count as alive from now on.
            self.core = Manager::new(self.config.manager, now);
            self.seats.parts().into_iter().for_each(|part| {
                self.seats.set_live(part, true);
            });
        }
        self.seats.begin_run();
        self.has.clear();
        self.stuck.clear();
        self.had = 0;
        self.configured = now;
        self.ended_at = None;
        self.reason = None;
        self.rates = Rates::default();
        // From any state in which a run is over.
        let _ = self.core.command(now, Command::Configure);
        self.phase = Phase::Readying(Instant::now());
    }

    fn start_if_ready(&mut self, since: Instant) {
        if self.options.hold {
            return;
        }
        let ready = self.seats.all_ready(self.run);
        let may_become =
            !self.stuck.is_empty() || since.elapsed() < system_time(self.config.patience);
        if !ready && may_become {
            return;
        }
        let now = self.clock.now();
        if ready && self.core.command(now, Command::Start).is_ok() {
            self.begin(now);
        } else {
            self.reason = Some("not all parts became ready".to_owned());
            self.phase = Phase::Ending(Instant::now());
        }
    }

    /// The run has started.
    fn begin(&mut self, now: barewire_units::Instant) {
        self.configured = now;
        self.triggers = Triggers::new(self.config.trigger, self.config.seed, now);
        self.last_closed = (0, Instant::now());
        self.phase = Phase::Running;
    }

    /// Triggers, and ends the run when it is time.
    fn drive(&mut self) -> bool {
        let now = self.clock.now();
        if self.core.state() != RunState::Running {
            self.watch_drain(now);
            return false;
        }
        let account = self.core.account();
        let left = self
            .config
            .events
            .map(|it| it.saturating_sub(account.triggered));
        let time_is_up = self
            .config
            .duration
            .is_some_and(|it| now.saturating_duration_since(self.configured) >= it);
        let by_sources = self.config.trigger == Trigger::Sources;
        let all_had = by_sources && self.all_was_had(account.triggered);
        if left == Some(0) || time_is_up || all_had {
            let _ = self.core.command(now, Command::Drain);
            return true;
        }
        let most = left.unwrap_or(u64::MAX).min(TRIGGERS_AT_ONCE);
        let (first, mut count) = (account.triggered, 0);
        if by_sources || self.config.trigger == Trigger::Max {
            let window = u64::from(self.config.manager.window.unwrap_or(u32::MAX));
            let mut room = window.saturating_sub(account.in_flight + account.waiting);
            if by_sources {
                room = room.min(self.had.saturating_sub(account.triggered));
            }
            // While most of the window is in flight, what has ended is collected.
            let worth_it = room >= (window / WINDOW_PARTS).min(left.unwrap_or(u64::MAX));
            let most = if worth_it || by_sources {
                most.min(room)
            } else {
                0
            };
            while count < most && self.core.trigger(now).is_ok() {
                count += 1;
            }
        } else {
            let mut due = 0;
            while due < most && self.triggers.due(now) {
                due += 1;
                count += u64::from(self.core.trigger(now).is_ok());
            }
        }
        if count > 0 {
            self.seats.send_to_sources(&Control::Trigger {
                first,
                count: count as u32,
                at_ns: now.since_origin().as_ns(),
            });
        }
        self.watch(now);
        count > 0
    }

    /// A run that does not move is told of; one that cannot is ended.
    fn watch(&mut self, now: barewire_units::Instant) {
        let account = self.core.account();
        let closed = account.built + account.incomplete + account.abandoned;
        let idle = account.waiting + account.in_flight == 0;
        if closed != self.last_closed.0 || idle {
            self.last_closed = (closed, Instant::now());
            self.warned = false;
        } else if !self.warned && self.last_closed.1.elapsed() > STALL {
            self.warned = true;
            let text = format!(
                "no event was closed for {STALL:?}: {} wait, {} are in flight",
                account.waiting, account.in_flight
            );
            self.log.say(Severity::Warning, &text);
        }
        if self.seats.can_work() {
            self.nobody_since = None;
            return;
        }
        let since = *self.nobody_since.get_or_insert_with(Instant::now);
        if since.elapsed() > system_time(self.config.patience) {
            let text = "no source or no builder was there for too long".to_owned();
            self.give_up(now, text);
        }
    }

    fn watch_drain(&mut self, now: barewire_units::Instant) {
        if self.core.state() != RunState::Draining || !self.stuck.is_empty() {
            self.drained_by = None;
            return;
        }
        let patience = system_time(self.config.patience) + system_time(self.config.builder.timeout);
        let by = *self
            .drained_by
            .get_or_insert_with(|| Instant::now() + patience);
        if Instant::now() > by {
            self.give_up(now, format!("not drained after {patience:?}"));
        }
    }

    fn give_up(&mut self, now: barewire_units::Instant, reason: String) {
        if matches!(self.phase, Phase::Readying(_)) {
            self.log.say(Severity::Error, &reason);
            self.reason = Some(reason);
            self.phase = Phase::Ending(Instant::now());
            return;
        }
        if !matches!(self.phase, Phase::Running) {
            return;
        }
        self.log.say(Severity::Error, &reason);
        self.reason = Some(reason);
        let _ = self.core.command(now, Command::Abort);
    }

    /// Tells everybody what the core has decided.
    fn follow(&mut self) {
        self.given_up.add(self.core.take_given_up());
        while let Some(action) = self.core.poll_action() {
            if let ManagerAction::Assign {
                event,
                builder,
                start,
            } = action
            {
                self.assign(event, builder, start);
                continue;
            }
            self.send_assigned();
            match action {
                ManagerAction::Lost(part) => {
                    if self.seats.is_live(part) && self.seats.is_linked(part) {
                        let text = format!("{} is lost: silent", super::name_of(part));
                        self.log.say(Severity::Error, &text);
                    }
                    self.seats.set_live(part, false);
                    self.forget(part);
                    self.seats.send_to_all(&Control::Lost { part });
                    if !self.config.manager.goes_on {
                        self.reason = Some(format!("{} was lost", super::name_of(part)));
                    }
                }
                ManagerAction::Joined(part, event) => {
                    self.seats.send_to_all(&Control::Joined { part, event });
                }
                ManagerAction::Enter { state, by } => self.enter(state, by),
                ManagerAction::Assign { .. } => {}
            }
        }
        self.send_assigned();
    }

    fn enter(&mut self, state: RunState, by: Command) {
        let run = self.run;
        self.seats.send_to_all(&Control::Enter { state, by, run });
        let text = format!("run {run}: {state:?}, by {by:?}");
        self.log.say(Severity::Info, &text);
        let over = matches!(by, Command::Drained | Command::Abort | Command::Fail);
        if over {
            self.ended_at = Some(self.clock.now());
            self.phase = Phase::Ending(Instant::now() + LAST_WORDS);
        }
    }

    fn assign(&mut self, event: u64, builder: BuilderId, start: Option<barewire_units::Instant>) {
        let next = self.assigned.first + self.assigned.builders.len() as u64;
        if next != event || self.assigned.builders.len() >= LIST_MAX {
            self.send_assigned();
        }
        if self.assigned.builders.is_empty() {
            self.assigned.first = event;
        }
        self.assigned.builders.push(builder.0);
        let start = start.map(|it| it.since_origin().as_ps());
        self.assigned.starts.extend(start);
    }

    fn send_assigned(&mut self) {
        if self.assigned.builders.is_empty() {
            return;
        }
        let Assigned {
            first,
            builders,
            starts,
        } = core::mem::take(&mut self.assigned);
        self.seats.send_to_live(&Control::Assign {
            first,
            builders,
            starts,
        });
    }

    fn picture(&self) -> Picture {
        let now = self.ended_at.unwrap_or_else(|| self.clock.now());
        let (sources, builders) = self.seats.reports();
        Picture {
            run: self.run,
            state: self.core.state(),
            events: self.core.account(),
            sources,
            builders,
            spreads: self.seats.spreads(),
            age_ns: now.saturating_duration_since(self.configured).as_ns(),
            processor_ns: u64::try_from(cpu_time_self().as_nanos()).unwrap_or(u64::MAX),
        }
    }

    fn end_if_complete(&mut self, deadline: Instant) {
        let late = Instant::now() >= deadline;
        if !late && !self.seats.all_last() {
            return;
        }
        let picture = self.picture();
        let (ledger, balance) = monitor::ledger(&picture);
        // What is on the way may still arrive.
        if balance.is_err() && !late {
            return;
        }
        let recovered = self.given_up.recovered();
        let ledger = ledger + &recovered.lines();
        let verdict = match (balance, self.reason.take()) {
            (Err(problem), _) => Verdict::Unbalanced(problem),
            (Ok(()), Some(reason)) => Verdict::Failed(reason),
            (Ok(()), None) => match monitor::lost(&picture, self.config) {
                None => Verdict::Balanced,
                Some(what) => Verdict::Lost(what),
            },
        };
        if self.options.hold {
            self.log.say(Severity::Info, &ledger);
        }
        self.ended = Some(Ended {
            verdict,
            ledger,
            picture,
            recovered,
        });
        self.phase = Phase::Over;
        self.quit = !self.options.hold;
    }

    fn beat(&mut self, exporter: Option<&Exporter>) {
        let now = Instant::now();
        if now < self.next_beat {
            return;
        }
        self.next_beat = now + BEAT;
        let line_is_due = now >= self.next_line && matches!(self.phase, Phase::Running);
        if !line_is_due && exporter.is_none() {
            return;
        }
        let picture = self.picture();
        if line_is_due {
            self.next_line = now + system_time(self.config.monitor.period);
            let now_s = monitor::unix_s();
            let lines = monitor::lines(&picture, self.config, &mut self.rates, now_s);
            if !self.options.quiet {
                eprintln!("{lines}");
            }
        }
        if let Some(exporter) = exporter {
            exporter.set(monitor::exposition(&picture));
        }
    }
}
