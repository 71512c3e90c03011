//! A source: takes the fragments of triggered events from its generator or detector and sends
//! them.
//!
//! Small pieces for one builder are gathered and go in one message; a large one goes alone,
//! written where the builder reads it. What finds no room waits, one piece for each builder
//! at most; the core is told that the way is full.

mod faulty;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use barewire_proto::evb::{
    BuilderId, Command, Offered, Part, Piece, RunState, Source, SourceId, Unoffered, WhenFull,
};
use barewire_sys::process::cpu_time_self;

use super::feed::{Feed, Has};
use super::{Home, PartError, hello, read_batch};
use crate::accounts::SourceReport;
use crate::config::{Config, SourceKind, Trigger};
use crate::detector::Detector;
use crate::net::{Address, Link, Net, NetError, Outbox, RETRY};
use crate::replay::Replay;
use crate::shape::Shaper;
use crate::wire::{Control, PIECE_HEADER_BYTES, PieceHeader, Role};
use faulty::Faulty;

/// Pieces of at most so many bytes are gathered.
const SMALL_BYTES: u64 = 4 << 10;
/// A message of gathered pieces goes when it has so many bytes.
const GATHERED_BYTES: usize = 32 << 10;
/// Made, checked and copied at a time: what stays in the nearest cache.
const CHUNK_BYTES: usize = 8 << 10;
/// Pieces sent before the source looks at its links again.
const PIECES_AT_ONCE: usize = 512;
/// Bytes sent before that.
const BYTES_AT_ONCE: u64 = 512 << 10;
/// Fragments taken from the detector before that.
const OFFERS_AT_ONCE: usize = 1024;

/// How often a detector is asked that cannot be waited for.
const ASK: Duration = Duration::from_millis(1);
/// Longest list in a control message.
const LACKS_AT_ONCE: usize = 4096;
/// Times of triggers that are remembered; of older events it is told as 0.
const TIMES_MAX: usize = 1 << 16;

/// Events with one time.
#[derive(Clone, Copy, Debug)]
struct Triggered {
    first: u64,
    end: u64,
    at_ns: u64,
}

/// The way to a builder.
#[derive(Default)]
struct Lane {
    link: Option<usize>,
    lost: bool,
    next_try: Option<Instant>,
    gathered: Vec<u8>,
    /// Control messages that wait for room.
    outbox: Outbox,
    /// A piece that found no room.
    stuck: Option<PieceHeader>,
    /// The core was told that there is no room.
    full: bool,
}

impl Lane {
    /// Whether all that counts as sent is on its way.
    fn is_empty(&self) -> bool {
        self.gathered.is_empty() && self.stuck.is_none()
    }
}

struct SourcePart<'a> {
    config: &'a Config,
    id: u16,
    core: Source,
    home: Home,
    /// If the kernel shapes.
    shaper: Option<Shaper>,
    lanes: Vec<Lane>,
    feed: Feed,
    /// The detector's descriptor is waited for.
    watched: bool,
    /// What the manager knows of the detector.
    said_has: (u64, bool),
    /// Not offered yet.
    to_offer: VecDeque<Triggered>,
    /// Offered, and perhaps not sent.
    times: VecDeque<Triggered>,
    chunk: Vec<u8>,
    /// Everybody waits to hear that it is ready.
    to_be_ready: bool,
    ended: bool,
    said_last: bool,
    /// See [`SourceReport::held_up_ns`]; of this run.
    held_up: Duration,
    /// If fragments are to be faulty.
    faulty: Option<Faulty>,
    quit: bool,
}

/// Runs a source until the manager says that all is over.
///
/// # Errors
///
/// The manager is lost or refuses, or the machine does.
pub fn run(config: &Config, id: u16) -> Result<(), PartError> {
    let feed = match &config.source_kind {
        SourceKind::Generator => Feed::generator(config),
        SourceKind::Replay(files) => Feed::detector(Box::new(Replay::open(files, id)?)),
        SourceKind::Own(_) => return Err(PartError::Kind("the sources are programs of their own")),
    };
    run_feed(config, id, feed)
}

/// Makes this process source `id` of a run with `source.kind = "own"`, until the manager says
/// that all is over: see [`crate::detector`].
///
/// # Errors
///
/// As [`run`], or the configuration has other sources.
pub fn run_detector(
    config: &Config,
    id: u16,
    detector: Box<dyn Detector>,
) -> Result<(), PartError> {
    match config.source_kind {
        SourceKind::Own(_) => run_feed(config, id, Feed::detector(detector)),
        _ => Err(PartError::Kind("expected \"own\"")),
    }
}

fn run_feed(config: &Config, id: u16, feed: Feed) -> Result<(), PartError> {
    if id >= config.manager.sources {
        return Err(PartError::NoSuchPart(config.manager.sources));
    }
    // Before there are connections: it makes a process.
    let shaper = |it| Shaper::new(it, &config.name, id, config.manager.builders);
    let shaper = config.shaping.map(shaper).transpose()?;
    let mut net = Net::new(config)?;
    let home = Home::find(&mut net, config, Part::Source(SourceId(id)))?;
    let mut part = SourcePart {
        config,
        id,
        core: Source::new(config.source(id))?,
        home,
        shaper,
        lanes: Vec::new(),
        feed,
        watched: false,
        said_has: (0, false),
        to_offer: VecDeque::new(),
        times: VecDeque::new(),
        chunk: vec![0; CHUNK_BYTES],
        to_be_ready: true,
        ended: false,
        said_last: false,
        held_up: Duration::ZERO,
        faulty: Faulty::new(config),
        quit: false,
    };
    part.lanes
        .resize_with(usize::from(config.manager.builders), Lane::default);
    (0..config.manager.builders).for_each(|it| part.core.handle_full(BuilderId(it)));
    part.feed.join(part.home.found, part.home.run);
    part.work(&mut net)
}

impl SourcePart<'_> {
    fn work(&mut self, net: &mut Net) -> Result<(), PartError> {
        let mut turn = 0_u32;
        while !self.quit {
            let mut busy = self.receive_from_manager(net)?;
            self.reach_builders(net)?;
            busy |= self.receive_from_builders(net);
            busy |= self.ask(net)?;
            busy |= self.offer();
            self.tell_lacks(net);
            busy |= self.transmit(net);
            let has_reported = self.report();
            self.home.flush(net)?;
            if has_reported {
                // Over TCP it would wait until there is nothing else to do, and a busy part would be
                // taken for a dead one.
                net.flush();
            }
            turn = turn.wrapping_add(1);
            if !busy {
                let mut pause = self.home.pause(self.core.next_deadline());
                if let Some(due) = self.faulty.as_ref().and_then(|it| it.pause(Instant::now())) {
                    pause = pause.min(due);
                }
                if self.lanes.iter().any(|it| it.next_try.is_some()) {
                    pause = pause.min(RETRY);
                }
                if self.wants() && !self.watched {
                    pause = pause.min(ASK);
                }
                self.wait(net, pause)?;
            } else if turn % 64 == 0 {
                net.look()?;
            }
        }
        net.flush();
        Ok(())
    }

    /// Waits; what it could not send meanwhile was held up.
    fn wait(&mut self, net: &mut Net, pause: Duration) -> Result<(), PartError> {
        let since = (self.core.account().queued > 0).then(Instant::now);
        net.wait(pause)?;
        self.held_up += since.map_or(Duration::ZERO, |it| it.elapsed());
        Ok(())
    }

    /// What a detector may give: all of the buffer but what waits to be sent.
    fn room_bytes(&self) -> u64 {
        let config = self.core.config();
        config.buffer_bytes.saturating_sub(self.core.queued_bytes())
    }

    fn drops(&self) -> bool {
        self.core.config().full == WhenFull::Drop
    }

    fn wants(&self) -> bool {
        self.feed.wants(self.room_bytes(), self.drops())
    }

    /// Asks the detector, and tells what it has.
    fn ask(&mut self, net: &mut Net) -> Result<bool, PartError> {
        let news = self.feed.poll(self.room_bytes(), self.drops());
        for text in news.troubles {
            self.home.outbox.push(&Control::Note { severity: 1, text });
        }
        // One that is not asked would wake us for nothing.
        let wants = self.wants();
        if let Some(descriptor) = self.feed.descriptor().filter(|_| wants != self.watched) {
            net.watch(descriptor, wants)?;
            self.watched = wants;
        }
        let Some((end, last)) = self.feed.has().filter(|it| *it != self.said_has) else {
            return Ok(news.any);
        };
        self.said_has = (end, last);
        if self.config.trigger == Trigger::Sources {
            let last = u8::from(last);
            self.home.outbox.push(&Control::Have { end, last });
        }
        Ok(news.any)
    }

    fn receive_from_manager(&mut self, net: &mut Net) -> Result<bool, PartError> {
        let messages = self.home.hear(net)?;
        let any = !messages.is_empty();
        for message in messages {
            self.obey(net, message);
        }
        Ok(any)
    }

    fn obey(&mut self, net: &mut Net, message: Control) {
        match message {
            Control::Trigger {
                first,
                count,
                at_ns,
            } => {
                self.feed.triggered(first, count, at_ns);
                self.to_offer.push_back(Triggered {
                    first,
                    end: first.saturating_add(u64::from(count)),
                    at_ns,
                });
                // Before their assignments: the core looks for those that came too early.
                self.offer();
            }
            Control::Assign {
                first,
                builders,
                starts,
            } => {
                for (at, (event, builder)) in (first..).zip(builders).enumerate() {
                    let start = starts.get(at).copied();
                    let start = start.map(barewire_units::Instant::from_ps);
                    self.core.handle_assign(event, BuilderId(builder), start);
                }
            }
            Control::Lost {
                part: Part::Builder(builder),
            } => self.lose(net, builder),
            Control::Joined {
                part: Part::Builder(builder),
                ..
            } => {
                if let Some(lane) = self.lanes.get_mut(usize::from(builder.0)) {
                    lane.lost = false;
                }
            }
            Control::Joined {
                part: Part::Source(SourceId(id)),
                event,
            } if id == self.id => {
                self.core.handle_entered(event);
                self.feed.entered(event);
                self.forget();
            }
            Control::Enter { state, by, run } => self.enter(state, by, run),
            Control::Quit {} => self.quit = true,
            _ => {}
        }
    }

    /// Lets go of fragments that the core has dropped.
    fn forget(&mut self) {
        let (core, lanes) = (&self.core, &self.lanes);
        self.feed.keep(|event| needs(core, lanes, event));
    }

    fn needs(&self, event: u64) -> bool {
        needs(&self.core, &self.lanes, event)
    }

    fn enter(&mut self, state: RunState, by: Command, run: u32) {
        self.feed.enter(state, by, run);
        match (state, by) {
            (RunState::Configured, Command::Configure) => {
                self.home.run = run;
                if let Ok(core) = Source::new(self.config.source(self.id)) {
                    self.core = core;
                }
                self.to_offer.clear();
                self.times.clear();
                for (at, lane) in (0..).zip(&mut self.lanes) {
                    lane.gathered.clear();
                    lane.outbox.clear();
                    lane.stuck = None;
                    lane.full = false;
                    if lane.link.is_none() {
                        self.core.handle_full(BuilderId(at));
                    }
                }
                self.to_be_ready = true;
                (self.ended, self.said_last) = (false, false);
                self.held_up = Duration::ZERO;
                self.faulty.iter_mut().for_each(Faulty::begin);
                self.said_has = (0, false);
            }
            // Nothing that is left is wanted any more, but for what counts as sent and found no room yet.
            (RunState::Configured | RunState::Failed, _) => {
                self.core.abort();
                self.forget();
                self.ended = true;
            }
            _ => {}
        }
    }

    fn lose(&mut self, net: &mut Net, builder: BuilderId) {
        self.core.handle_lost(builder);
        self.core.handle_full(builder);
        let Some(lane) = self.lanes.get_mut(usize::from(builder.0)) else {
            return;
        };
        lane.link
            .take()
            .into_iter()
            .for_each(|link| net.close(link));
        *lane = Lane {
            lost: true,
            ..Lane::default()
        };
        self.forget();
    }

    /// Connects to builders that are there, and says so when all are reached.
    fn reach_builders(&mut self, net: &mut Net) -> Result<(), PartError> {
        for (at, lane) in (0_u16..).zip(&mut self.lanes) {
            let waits = lane.next_try.is_some_and(|it| Instant::now() < it);
            if lane.link.is_some() || lane.lost || waits {
                continue;
            }
            let address = Address::of_builder(self.config, at);
            let Ok(link) = net.connect(&address) else {
                lane.next_try = Some(Instant::now() + RETRY);
                continue;
            };
            let stream = net.link(link)?.stream();
            if let (Some(shaper), Some(stream)) = (&mut self.shaper, stream) {
                shaper.add(at, stream)?;
            }
            let mut outbox = Outbox::default();
            outbox.push(&hello(
                self.config,
                Role::Part(Part::Source(SourceId(self.id))),
            ));
            // The first message on a link has room.
            let sent = net.link(link).and_then(|it| outbox.flush(it));
            if sent.is_err() {
                net.close(link);
                continue;
            }
            lane.link = Some(link);
            lane.next_try = None;
            self.core.handle_room(BuilderId(at));
        }
        let reached = |lane: &Lane| lane.link.is_some() || lane.lost;
        if self.to_be_ready && self.lanes.iter().all(reached) {
            self.to_be_ready = false;
            let run = self.home.run;
            self.home.outbox.push(&Control::Ready { run });
        }
        Ok(())
    }

    fn receive_from_builders(&mut self, net: &mut Net) -> bool {
        let mut any = false;
        for at in 0..self.lanes.len() {
            let Some(number) = self.lanes[at].link else {
                continue;
            };
            let heard = net.link(number).and_then(|link| link.receive(read_batch));
            match heard {
                Ok(None) => {}
                Ok(Some(Ok(messages))) => {
                    any = true;
                    for message in messages {
                        match message {
                            Control::Grant { events } => {
                                events.iter().for_each(|&it| self.core.handle_grant(it));
                            }
                            Control::Withdraw { event } => {
                                self.core.handle_withdrawn(event);
                                if !self.needs(event) {
                                    self.feed.sent(event);
                                }
                            }
                            _ => {}
                        }
                    }
                }
                // What was under way is lost; the builder's gaps tell.
                Ok(Some(Err(_))) | Err(_) => {
                    net.close(number);
                    let lane = &mut self.lanes[at];
                    lane.link = None;
                    lane.gathered.clear();
                    lane.outbox.clear();
                    lane.stuck = None;
                    lane.full = false;
                    lane.next_try = Some(Instant::now() + RETRY);
                    self.core.handle_full(builder_id(at));
                    self.forget();
                }
            }
        }
        any
    }

    /// Takes fragments from the detector.
    fn offer(&mut self) -> bool {
        let mut left = OFFERS_AT_ONCE;
        let before = left;
        while let Some(&next) = self.to_offer.front() {
            let mut event = next.first;
            let mut stopped = false;
            while event < next.end && left > 0 {
                let offered = match self.feed.look(self.id, event) {
                    Has::Bytes(bytes) => Some(self.core.offer(event, bytes)),
                    Has::Nothing => {
                        self.core.lack(event);
                        None
                    }
                    Has::NotYet => {
                        stopped = true;
                        break;
                    }
                };
                if matches!(offered, Some(Err(Unoffered::Full { .. }))) {
                    stopped = true;
                    break;
                }
                if let Some(offered) = offered {
                    self.feed.take(event, offered == Ok(Offered::Queued));
                }
                event += 1;
                left -= 1;
            }
            if event > next.first {
                self.times.push_back(Triggered { end: event, ..next });
            }
            match (event == next.end, self.to_offer.front_mut()) {
                (true, _) => {
                    self.to_offer.pop_front();
                }
                (false, Some(front)) => front.first = event,
                (false, None) => {}
            }
            if stopped || left == 0 {
                break;
            }
        }
        left < before
    }

    /// Tells builders of which events they get no fragment. Who is not told waits until its
    /// timeout, and what it has granted for that keeps other fragments from coming in time.
    fn tell_lacks(&mut self, net: &mut Net) {
        let mut lacks: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        while let Some((builder, event)) = self.core.poll_lack() {
            lacks.entry(builder.0.into()).or_default().push(event);
        }
        let run = self.home.run;
        for (at, events) in lacks {
            let Some(lane) = self.lanes.get_mut(at).filter(|it| it.link.is_some()) else {
                continue;
            };
            for events in events.chunks(LACKS_AT_ONCE) {
                let events = events.to_vec();
                lane.outbox.push(&Control::Lack { run, events });
            }
        }
        for lane in &mut self.lanes {
            if let Some(link) = lane.link.filter(|_| !lane.outbox.is_empty()) {
                // That the link has ended is told when it is read.
                let _ = net.link(link).and_then(|it| lane.outbox.flush(it));
            }
        }
    }

    fn time_of(&mut self, event: u64) -> u64 {
        let at = self.times.partition_point(|it| it.end <= event);
        let at_ns = self.times.get(at).map_or(0, |it| it.at_ns);
        while self.times.len() > TIMES_MAX {
            self.times.pop_front();
        }
        at_ns
    }

    fn transmit(&mut self, net: &mut Net) -> bool {
        let mut any = self.resume(net);
        let now = self.home.clock.now();
        let (mut pieces, mut bytes) = (0, 0);
        while pieces < PIECES_AT_ONCE && bytes < BYTES_AT_ONCE {
            let Some(piece) = self.core.transmit(now) else {
                break;
            };
            any = true;
            pieces += 1;
            bytes += piece.bytes;
            let header = self.header(&piece);
            let header = match &mut self.faulty {
                Some(faulty) => faulty.pass(Instant::now(), piece.builder, header),
                None => Some(header),
            };
            if let Some(header) = header {
                self.send_piece(net, piece.builder, header);
            }
        }
        any |= self.send_faulty(net);
        for at in 0..self.lanes.len() {
            if !self.lanes[at].full && !self.send_gathered(net, at) {
                self.block(at);
            }
        }
        any
    }

    fn send_piece(&mut self, net: &mut Net, builder: BuilderId, header: PieceHeader) {
        match u64::from(header.bytes) <= SMALL_BYTES {
            true => self.gather(net, builder, header),
            false => self.send_large(net, builder, header),
        }
    }

    /// Sends what is to come later or twice, as far as there is room; at the end of a run all of it.
    fn send_faulty(&mut self, net: &mut Net) -> bool {
        let mut any = false;
        for _ in 0..PIECES_AT_ONCE {
            let Some(faulty) = &mut self.faulty else {
                return false;
            };
            let lanes = &self.lanes;
            let has_room = |to: BuilderId| lanes.get(usize::from(to.0)).is_none_or(|it| !it.full);
            let Some((to, header)) = faulty.due(Instant::now(), self.ended, has_room) else {
                return any;
            };
            any = true;
            self.send_piece(net, to, header);
        }
        any
    }

    fn header(&mut self, piece: &Piece) -> PieceHeader {
        let narrow = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        PieceHeader {
            run: self.home.run,
            event: piece.event,
            at_ns: self
                .feed
                .at_ns(piece.event)
                .unwrap_or_else(|| self.time_of(piece.event)),
            sequence: piece.sequence,
            source: self.id,
            fragment_bytes: narrow(piece.fragment_bytes),
            offset: narrow(piece.offset),
            bytes: narrow(piece.bytes),
            // What the check code of the bytes is mixed with.
            crc: 0,
        }
    }

    fn gather(&mut self, net: &mut Net, builder: BuilderId, mut header: PieceHeader) {
        let at = usize::from(builder.0);
        let Some(lane) = self.lanes.get_mut(at) else {
            return;
        };
        let start = lane.gathered.len();
        let body = start + PIECE_HEADER_BYTES;
        lane.gathered.resize(body + header.bytes as usize, 0);
        let bytes = &mut lane.gathered[body..];
        let offset = u64::from(header.offset);
        self.feed.fill(self.id, header.event, offset, bytes);
        if header.ends() {
            self.feed.sent(header.event);
        }
        header.crc ^= crate::wire::crc32c(bytes);
        lane.gathered[start..body].copy_from_slice(&header.to_bytes());
        if lane.gathered.len() >= GATHERED_BYTES && !self.send_gathered(net, at) {
            self.block(at);
        }
    }

    /// There is no room on the way to a builder, until [`SourcePart::resume`] has found some.
    fn block(&mut self, at: usize) {
        self.lanes[at].full = true;
        self.core.handle_full(builder_id(at));
    }

    /// Whether nothing gathered is left.
    fn send_gathered(&mut self, net: &mut Net, at: usize) -> bool {
        let lane = &mut self.lanes[at];
        let Some(link) = lane.link else {
            lane.gathered.clear();
            return true;
        };
        if lane.gathered.is_empty() {
            return true;
        }
        let sent = net.link(link).and_then(|link| link.send(&lane.gathered));
        // An error means that the link has ended: it is told when it is read.
        let gone = !matches!(sent, Ok(false));
        if gone {
            lane.gathered.clear();
        }
        gone
    }

    fn send_large(&mut self, net: &mut Net, builder: BuilderId, header: PieceHeader) {
        let at = usize::from(builder.0);
        let Some(link) = self.lanes.get(at).and_then(|lane| lane.link) else {
            return;
        };
        let room = self.send_gathered(net, at)
            && net
                .link(link)
                .and_then(|link| write_piece(link, &self.feed, &mut self.chunk, header))
                .unwrap_or(true);
        if !room {
            self.lanes[at].stuck = Some(header);
            self.block(at);
        } else if header.ends() {
            self.feed.sent(header.event);
        }
    }

    /// Sends what found no room before.
    fn resume(&mut self, net: &mut Net) -> bool {
        let mut any = false;
        for at in 0..self.lanes.len() {
            let Some(link) = self.lanes[at].link else {
                continue;
            };
            if !self.lanes[at].full || !self.send_gathered(net, at) {
                continue;
            }
            let stuck = self.lanes[at].stuck;
            let sent = stuck.is_none_or(|header| {
                net.link(link)
                    .and_then(|link| write_piece(link, &self.feed, &mut self.chunk, header))
                    .unwrap_or(true)
            });
            if sent {
                if let Some(header) = stuck.filter(PieceHeader::ends) {
                    self.feed.sent(header.event);
                }
                self.lanes[at].stuck = None;
                self.lanes[at].full = false;
                self.core.handle_room(builder_id(at));
                any = true;
            }
        }
        any
    }

    /// Says that it lives, and what its account is, if it is time for that.
    fn report(&mut self) -> bool {
        let all_is_sent = self.faulty.as_ref().is_none_or(Faulty::is_empty);
        let last = self.ended && all_is_sent && self.lanes.iter().all(Lane::is_empty);
        let at_once = last && !self.said_last;
        if !at_once && !self.home.beat_is_due() {
            return false;
        }
        self.said_last = last;
        let left = self.to_offer.iter().map(|it| it.end - it.first);
        let report = SourceReport {
            account: *self.core.account(),
            intake: self.feed.account(),
            not_offered: left.sum(),
            queued_bytes: self.core.queued_bytes(),
            processor_ns: u64::try_from(cpu_time_self().as_nanos()).unwrap_or(u64::MAX),
            held_up_ns: u64::try_from(self.held_up.as_nanos()).unwrap_or(u64::MAX),
            faults: self
                .faulty
                .as_ref()
                .map_or_else(Default::default, |it| it.counts),
        };
        self.home.outbox.push(&Control::Alive { busy_ms: 0 });
        self.home.outbox.push(&Control::Account {
            run: self.home.run,
            last: u8::from(last),
            sums: report.to_numbers(),
        });
        true
    }
}

/// Whether bytes of the fragment of `event` are still to be sent.
fn needs(core: &Source, lanes: &[Lane], event: u64) -> bool {
    let stuck = |lane: &Lane| lane.stuck.is_some_and(|it| it.event == event);
    core.holds(event) || lanes.iter().any(stuck)
}

fn builder_id(at: usize) -> BuilderId {
    BuilderId(u16::try_from(at).unwrap_or(u16::MAX))
}

/// Makes a piece in the receiver's memory; whether there was room.
fn write_piece(
    link: &mut Link,
    feed: &Feed,
    chunk: &mut [u8],
    mut header: PieceHeader,
) -> Result<bool, NetError> {
    let bytes = header.bytes as usize;
    let Some(mut room) = link.reserve(PIECE_HEADER_BYTES + bytes)? else {
        return Ok(false);
    };
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    let mut done = 0;
    while done < bytes {
        let count = chunk.len().min(bytes - done);
        let part = &mut chunk[..count];
        let offset = u64::from(header.offset) + done as u64;
        feed.fill(header.source, header.event, offset, part);
        digest.update(part);
        room.write(PIECE_HEADER_BYTES + done, part);
        done += count;
    }
    header.crc ^= digest.finalize() as u32;
    room.write(0, &header.to_bytes());
    room.commit();
    Ok(true)
}
