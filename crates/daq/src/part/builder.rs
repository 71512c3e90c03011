//! A builder: takes pieces, checks and verifies them, and says which events are built.
//!
//! What the manager says is read before what sources send, so that an assignment is known
//! before its fragments. A record is in the file before the manager hears that its event is
//! closed.

mod assembly;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use barewire_proto::evb::{Builder, BuilderAction, BuilderId, Command, Part, RunState, SourceId};
use barewire_sys::process::cpu_time_self;

use super::{Home, PartError, read_batch};
use crate::accounts::BuilderReport;
use crate::clock::system_time;
use crate::config::Config;
use crate::net::{Address, Net, Outbox, RETRY};
use crate::sink::{Sink, SinkError};
use crate::wire::{Control, Role, WireError};
use assembly::Assembly;

/// Messages of one source before the next has its turn.
const MESSAGES_AT_ONCE: usize = 8;

/// Messages of a source are left when they had so many bytes.
const BYTES_AT_ONCE: usize = 512 << 10;
/// Before the sink gets so many bytes, the manager is told that this may take long ...
const LONG_BYTES: u64 = 1 << 20;
/// ... on a slow disk and a busy machine a ms for so many.
const BYTES_OF_MS: u64 = 16 << 10;

/// So many closed events, and grants of a source, are told of at once, or all when nothing more
/// comes: each message may wake somebody.
const CLOSED_AT_ONCE: usize = 32;
const GRANTS_AT_ONCE: usize = 16;

/// What the file system takes longer for does not count for events that are open: meanwhile this
/// builder takes no fragments.
const PAUSE_MIN: Duration = Duration::from_millis(5);

/// How often a file system that takes no more is tried again.
const TRY_SINK: Duration = Duration::from_millis(100);
/// How often a consumer is looked at that is to take events.
const LOOK_AT_SINK: Duration = Duration::from_millis(1);
/// How long the name or address of one that has just died may still be taken.
const NAME_PATIENCE: Duration = Duration::from_secs(2);
/// How often histograms are sent: they are longer than a report.
const SPREADS: Duration = Duration::from_secs(1);
/// Longest list in a control message.
const LIST_MAX: usize = 4096;

/// A source that is connected.
struct Way {
    link: usize,
    source: Option<SourceId>,
}

/// What is to be said to a source, whether it is connected or is going to be.
#[derive(Default)]
struct ToSource {
    outbox: Outbox,
    grants: Vec<u64>,
}

/// A file system takes no more.
#[derive(Clone, Copy)]
struct Stuck {
    since: Instant,
    /// `None`: the builder has given up, and waits for the manager to end the run.
    next_try: Option<Instant>,
}

struct BuilderPart<'a> {
    config: &'a Config,
    id: u16,
    core: Builder,
    home: Home,
    ways: Vec<Way>,
    to_sources: BTreeMap<SourceId, ToSource>,
    assembly: Assembly,
    sink: Sink,
    /// Events stay with the builder as long as this lasts: the window of the run fills, and no more come.
    stuck: Option<Stuck>,
    /// What the sink was given since it worked, and what of it the manager knows.
    added_bytes: u64,
    told_bytes: u64,
    next_spread: Instant,
    closed: Vec<u64>,
    outcomes: Vec<u64>,
    ended: bool,
    said_last: bool,
    quit: bool,
}

/// Runs a builder until the manager says that all is over.
///
/// # Errors
///
/// The manager is lost or refuses, the disk does, or the machine does.
pub fn run(config: &Config, id: u16) -> Result<(), PartError> {
    if id >= config.manager.builders {
        return Err(PartError::NoSuchPart(config.manager.builders));
    }
    let mut net = Net::new(config)?;
    listen(&mut net, config, id)?;
    let mut home = Home::find(&mut net, config, Part::Builder(BuilderId(id)))?;
    let run = home.run;
    let sink = open_sink(config, run, id, &mut home, &mut net)?;
    let mut part = BuilderPart {
        config,
        id,
        core: Builder::new(config.builder(id, run)),
        home,
        ways: Vec::new(),
        to_sources: BTreeMap::new(),
        assembly: Assembly::new(config, run),
        sink,
        stuck: None,
        added_bytes: 0,
        told_bytes: 0,
        next_spread: Instant::now(),
        closed: Vec::new(),
        outcomes: Vec::new(),
        ended: false,
        said_last: false,
        quit: false,
    };
    part.announce_sink();
    part.home.outbox.push(&Control::Ready { run });
    part.work(&mut net)?;
    Ok(part.sink.finish()?)
}

/// The name of one that has just died may be taken for a moment.
fn listen(net: &mut Net, config: &Config, id: u16) -> Result<(), PartError> {
    let deadline = Instant::now() + NAME_PATIENCE;
    let address = Address::of_builder(config, id);
    loop {
        match net.listen(&address) {
            Ok(()) => return Ok(()),
            Err(error) if error.is_in_use() && Instant::now() < deadline => {
                std::thread::sleep(RETRY);
            }
            Err(error) => return Err(super::cannot_listen(&address, "tcp.builders", error)),
        }
    }
}

/// The sink of a run. A file system that takes no new file is tried for as long as one that takes no more
/// of a file; until then the run does not start.
fn open_sink(
    config: &Config,
    run: u32,
    id: u16,
    home: &mut Home,
    net: &mut Net,
) -> Result<Sink, PartError> {
    let since = Instant::now();
    let mut said = false;
    loop {
        let problem = match Sink::open(config, run, id, &home.clock) {
            Err(problem @ SinkError::Record(_)) => problem,
            done => {
                if said {
                    let reason = String::new();
                    home.outbox.push(&Control::Stuck { reason });
                }
                return Ok(done?);
            }
        };
        let reason = problem.to_string();
        let is_over = since.elapsed() >= system_time(config.sink_patience);
        match (is_over, said) {
            (true, _) => home.outbox.push(&Control::GaveUp { reason }),
            (false, false) => home.outbox.push(&Control::Stuck { reason }),
            (false, true) => home.outbox.push(&Control::Alive { busy_ms: 0 }),
        }
        said = true;
        home.flush(net)?;
        if is_over {
            net.flush();
            return Err(problem.into());
        }
        std::thread::sleep(super::BEAT);
    }
}

impl BuilderPart<'_> {
    fn work(&mut self, net: &mut Net) -> Result<(), PartError> {
        let mut turn = 0_u32;
        while !self.quit {
            let mut busy = self.receive_from_manager(net)?;
            while let Some(link) = net.accept() {
                self.ways.push(Way { link, source: None });
            }
            if self.quit {
                break;
            }
            busy |= self.receive_from_sources(net)?;
            self.core.handle_time(self.home.clock.now());
            if self.ended {
                // What comes now is of no event that will still be assigned.
                self.core.abandon(self.home.clock.now());
            }
            self.act(net)?;
            let has_reported = self.report();
            self.flush(net, !busy)?;
            if has_reported {
                // Over TCP it would wait until there is nothing else to do, and a busy part would be
                // taken for a dead one.
                net.flush();
            }
            turn = turn.wrapping_add(1);
            if !busy {
                let mut pause = self.home.pause(self.core.next_deadline());
                if self.sink.is_busy() {
                    pause = pause.min(LOOK_AT_SINK);
                }
                net.wait(pause)?;
            } else if turn % 64 == 0 {
                net.look()?;
            }
        }
        net.flush();
        Ok(())
    }

    fn receive_from_manager(&mut self, net: &mut Net) -> Result<bool, PartError> {
        let mut any = false;
        while !self.quit {
            let messages = self.home.hear(net)?;
            if messages.is_empty() {
                break;
            }
            any = true;
            let now = self.home.clock.now();
            for message in messages {
                self.obey(net, now, message)?;
            }
        }
        Ok(any)
    }

    fn obey(
        &mut self,
        net: &mut Net,
        now: barewire_units::Instant,
        message: Control,
    ) -> Result<(), PartError> {
        match message {
            Control::Assign {
                first, builders, ..
            } => {
                let own = (first..).zip(builders).filter(|(_, to)| *to == self.id);
                own.for_each(|(event, _)| self.core.handle_assign(now, event));
            }
            Control::Lost {
                part: Part::Source(source),
            } => {
                self.core.handle_lost(now, source);
                self.assembly.forget(source);
                self.to_sources.remove(&source);
            }
            Control::Joined {
                part: Part::Source(source),
                ..
            } => self.core.handle_joined(source),
            Control::Joined {
                part: Part::Builder(BuilderId(id)),
                ..
            } if id == self.id => {
                self.core.handle_entered(now);
                self.assembly.stored.clear();
            }
            Control::Enter { state, by, run } => self.enter(net, now, (state, by), run)?,
            Control::Quit {} => self.quit = true,
            _ => {}
        }
        Ok(())
    }

    fn enter(
        &mut self,
        net: &mut Net,
        now: barewire_units::Instant,
        entered: (RunState, Command),
        run: u32,
    ) -> Result<(), PartError> {
        match entered {
            (RunState::Configured, Command::Configure) => {
                self.core = Builder::new(self.config.builder(self.id, run));
                self.core.handle_entered(now);
                self.assembly.begin(run);
                if run != self.home.run {
                    core::mem::replace(&mut self.sink, Sink::Discard).finish()?;
                    self.sink = open_sink(self.config, run, self.id, &mut self.home, net)?;
                    self.announce_sink();
                }
                self.home.run = run;
                self.home.outbox.push(&Control::Ready { run });
                (self.ended, self.said_last) = (false, false);
            }
            (RunState::Configured | RunState::Failed, by) => {
                self.sink.end(by == Command::Drained);
                if self.stuck.take().is_some() {
                    self.sink.give_up();
                }
                if by != Command::Drained {
                    self.core.abandon(now);
                    self.assembly.stored.clear();
                }
                self.ended = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn announce_sink(&mut self) {
        if let Some(text) = self.sink.note() {
            self.home.outbox.push(&Control::Note { severity: 0, text });
        }
        if let Some(file) = self.sink.recording() {
            let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
            let file = file.display().to_string();
            self.home.outbox.push(&Control::Recording { file });
        }
    }

    fn receive_from_sources(&mut self, net: &mut Net) -> Result<bool, PartError> {
        let mut any = false;
        let mut at = 0;
        while at < self.ways.len() {
            match self.receive_from_source(net, at) {
                Ok(heard) => {
                    any |= heard;
                    at += 1;
                }
                Err(problem) => {
                    let way = self.ways.remove(at);
                    net.close(way.link);
                    // A fragment half there will never be whole.
                    way.source
                        .into_iter()
                        .for_each(|it| self.assembly.forget(it));
                    if let (Some(source), Some(problem)) = (way.source, problem) {
                        let text = format!("source {}: {problem}", source.0);
                        self.home.outbox.push(&Control::Note { severity: 2, text });
                    }
                }
            }
        }
        if any {
            // Assignments of fragments that have come meanwhile.
            self.receive_from_manager(net)?;
        }
        Ok(any)
    }

    /// Takes some messages of a source; an error if its link is over, with what it did wrong.
    fn receive_from_source(&mut self, net: &mut Net, at: usize) -> Result<bool, Option<WireError>> {
        let mut any = false;
        let (mut messages, mut bytes) = (0, 0);
        while messages < MESSAGES_AT_ONCE && bytes < BYTES_AT_ONCE {
            messages += 1;
            let way = &mut self.ways[at];
            let link = net.link(way.link).map_err(|_| None)?;
            let Some(source) = way.source else {
                match link.receive(read_batch).map_err(|_| None)? {
                    Some(Ok(messages)) => {
                        way.source = introduced(&messages);
                        any = true;
                    }
                    Some(Err(problem)) => return Err(Some(problem)),
                    None => return Ok(any),
                }
                continue;
            };
            let now = self.home.clock.now();
            let (assembly, core) = (&mut self.assembly, &mut self.core);
            let taken = link.receive(|message| {
                bytes += message.len();
                assembly.take(now, core, source, message)
            });
            match taken.map_err(|_| None)? {
                Some(taken) => taken.map_err(Some)?,
                None => return Ok(any),
            }
            any = true;
        }
        Ok(any)
    }

    fn act(&mut self, net: &mut Net) -> Result<(), PartError> {
        let now = self.home.clock.now();
        while let Some(action) = self.core.poll_action() {
            match action {
                BuilderAction::Built {
                    event,
                    bytes,
                    opened,
                } => {
                    let took = now.saturating_duration_since(opened);
                    self.assembly.spreads.building_ns.note(took.as_ns());
                    self.assembly.spreads.event_bytes.note(bytes);
                    self.keep(net, event, 0)?;
                }
                BuilderAction::Incomplete { event, missing, .. } => {
                    let count = u32::try_from(missing.len()).unwrap_or(u32::MAX);
                    self.keep(net, event, count)?;
                    let who: Vec<_> = missing.iter().map(|it| it.0.to_string()).collect();
                    let text = format!("event {event} without source {}", who.join(", "));
                    self.home.outbox.push(&Control::Note { severity: 1, text });
                }
                BuilderAction::Close { event, outcome } => {
                    self.closed.push(event);
                    self.outcomes
                        .push(u64::from(outcome.expected) << 32 | u64::from(outcome.present));
                }
                BuilderAction::Grant { source, event } => {
                    let to = self.to_sources.entry(source).or_default();
                    to.grants.push(event);
                }
                BuilderAction::Withdraw { source, event } => {
                    let to = self.to_sources.entry(source).or_default();
                    to.outbox.push(&Control::Withdraw { event });
                }
                BuilderAction::Request { events } => {
                    self.home.outbox.push(&Control::Request { events });
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, net: &mut Net, event: u64, missing: u32) -> Result<(), PartError> {
        if !self.assembly.keeps {
            return Ok(());
        }
        let stored = self.assembly.stored.remove(&event).unwrap_or_default();
        self.added_bytes += stored.iter().map(|it| it.data.len() as u64).sum::<u64>();
        if self.added_bytes > self.told_bytes + LONG_BYTES {
            // All that is not in the sink yet: the manager forgets what it was told before.
            let busy_ms = u32::try_from(self.added_bytes / BYTES_OF_MS).unwrap_or(u32::MAX);
            self.told_bytes = self.added_bytes;
            self.home.outbox.push(&Control::Alive { busy_ms });
            self.home.flush(net)?;
            net.flush();
        }
        self.sink.add(event, missing, &stored);
        Ok(())
    }

    /// Says what is to be said, `all` or what is worth a message.
    fn flush(&mut self, net: &mut Net, all: bool) -> Result<(), PartError> {
        let least = |at_once: usize| if all { 1 } else { at_once };
        self.write();
        (self.added_bytes, self.told_bytes) = (0, 0);
        let settled = self.sink.settled(&self.closed);
        let settled = if settled < least(CLOSED_AT_ONCE) {
            0
        } else {
            settled
        };
        let closed = self.closed[..settled].chunks(LIST_MAX);
        let closed = closed.zip(self.outcomes[..settled].chunks(LIST_MAX));
        for (events, outcomes) in closed {
            self.home.outbox.push(&Control::Close {
                events: events.to_vec(),
                outcomes: outcomes.to_vec(),
            });
        }
        self.closed.drain(..settled);
        self.outcomes.drain(..settled);
        for (source, to) in &mut self.to_sources {
            if to.grants.len() >= least(GRANTS_AT_ONCE) {
                for events in to.grants.chunks(LIST_MAX) {
                    let events = events.to_vec();
                    to.outbox.push(&Control::Grant { events });
                }
                to.grants.clear();
            }
            // The newest: one that has died may still be there.
            let way = self.ways.iter().rev().find(|it| it.source == Some(*source));
            if let Some(way) = way.filter(|_| !to.outbox.is_empty()) {
                // That the link has ended is told when it is read.
                let _ = net.link(way.link).and_then(|it| to.outbox.flush(it));
            }
        }
        self.home.flush(net)
    }

    /// Has the sink write what it was given. What a file system does not take is tried again until
    /// the configuration's patience is over; then the manager is to end the run.
    fn write(&mut self) {
        let now = Instant::now();
        let waits = |it: Stuck| it.next_try.is_none_or(|at| now < at);
        if self.stuck.is_some_and(waits) {
            return;
        }
        let worked = self.sink.work();
        let pause = now.elapsed();
        if pause >= PAUSE_MIN {
            let pause_ns = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
            self.core
                .handle_pause(barewire_units::Duration::from_ns(pause_ns));
        }
        match (worked, self.stuck.take()) {
            (Ok(()), None) => {}
            (Ok(()), Some(_)) => {
                let reason = String::new();
                self.home.outbox.push(&Control::Stuck { reason });
            }
            (Err(problem), before) => self.is_stuck(now, before, problem.to_string()),
        }
    }

    fn is_stuck(&mut self, now: Instant, before: Option<Stuck>, reason: String) {
        let since = before.map_or(now, |it| it.since);
        let goes_on = now - since < system_time(self.config.sink_patience);
        self.stuck = Some(Stuck {
            since,
            next_try: goes_on.then_some(now + TRY_SINK),
        });
        match (goes_on, before) {
            (false, _) => self.home.outbox.push(&Control::GaveUp { reason }),
            (true, None) => self.home.outbox.push(&Control::Stuck { reason }),
            (true, Some(_)) => {}
        }
    }

    fn report(&mut self) -> bool {
        // Until the end: what is still on the way arrives after the run has ended.
        let last = self.ended && !self.sink.is_busy();
        let at_once = last && !self.said_last;
        if !at_once && !self.home.beat_is_due() {
            return false;
        }
        self.said_last = last;
        let counts = self.sink.sums();
        let now = self.home.clock.now();
        let oldest = self.core.oldest_open();
        let report = BuilderReport {
            account: self.core.account().clone(),
            mismatched: self.assembly.mismatched,
            wrong_size: self.assembly.wrong_size,
            cut: self.assembly.cut,
            processor_ns: u64::try_from(cpu_time_self().as_nanos()).unwrap_or(u64::MAX),
            recorded: counts.taken,
            untaken: counts.dropped,
            to_be_taken: counts.waiting,
            oldest_event: oldest.map_or(0, |it| it.0),
            oldest_age_ns: oldest.map_or(0, |it| now.saturating_duration_since(it.1).as_ns()),
        };
        self.report_spreads(at_once);
        self.home.outbox.push(&Control::Alive { busy_ms: 0 });
        self.home.outbox.push(&Control::Account {
            run: self.home.run,
            last: u8::from(last),
            sums: report.to_numbers(),
        });
        true
    }

    /// Says how times and sizes are spread: now and then, and with the last report.
    fn report_spreads(&mut self, at_once: bool) {
        let now = Instant::now();
        if now < self.next_spread && !at_once {
            return;
        }
        self.next_spread = now + SPREADS;
        for (of, spread) in (0..).zip(self.assembly.spreads.all()) {
            self.home.outbox.push(&Control::Spread {
                run: self.home.run,
                of,
                counts: spread.to_numbers(),
            });
        }
    }
}

fn introduced(messages: &[Control]) -> Option<SourceId> {
    match messages.first() {
        Some(&Control::Hello {
            role: Role::Part(Part::Source(source)),
            ..
        }) => Some(source),
        _ => None,
    }
}
