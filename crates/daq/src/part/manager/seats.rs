//! Who is there: a seat for each part, and guests who have not said who they are or give
//! commands.

use std::collections::VecDeque;

use barewire_proto::evb::{BuilderId, Part, SourceId};

use super::super::read_batch;
use crate::accounts::{BuilderReport, SourceReport};
use crate::config::{Config, SourceKind};
use crate::credential::Credential;
use crate::monitor::Seen;
use crate::net::{Net, Outbox};
use crate::spread::{Spread, Spreads};
use crate::wire::{Control, Role};

struct Seat {
    part: Part,
    link: Option<usize>,
    outbox: Outbox,
    live: bool,
    lives: u32,
    pid: u32,
    shown: Credential,
    ready: Option<u32>,
    /// Its last report, and whether nothing will change any more.
    report: Vec<u64>,
    last: bool,
    /// The last reports of those before it that died; empty if none had come.
    past: Vec<Vec<u64>>,
    /// How values of a builder are spread, and of those before it that died.
    spreads: Spreads,
    past_spreads: Spreads,
}

struct Guest {
    number: usize,
    link: usize,
    outbox: Outbox,
    /// Is to be closed when all is said.
    leaves: bool,
}

/// What was heard.
pub(super) enum Heard {
    /// A part has come.
    Came { part: Part, again: bool, pid: u32 },
    /// The link of a part has ended.
    Gone {
        part: Part,
        pid: u32,
        reason: String,
    },
    /// A part said this.
    Said { part: Part, message: Control },
    /// An operator did.
    Ordered { guest: usize, message: Control },
    /// Something that needs no answer.
    Nothing,
}

/// All seats, builders first.
pub(super) struct Seats {
    digest: u32,
    /// Of this run; 0: it was started by hand.
    secret: u64,
    /// Sources come by themselves, also where the others are started with the run.
    sources_come: bool,
    seats: Vec<Seat>,
    guests: Vec<Guest>,
    next_guest: usize,
    heard: VecDeque<Heard>,
}

impl Seats {
    pub fn new(config: &Config) -> Self {
        let seat = |part| Seat {
            part,
            link: None,
            outbox: Outbox::default(),
            live: false,
            lives: 0,
            pid: 0,
            shown: Credential::default(),
            ready: None,
            report: Vec::new(),
            last: false,
            past: Vec::new(),
            spreads: Spreads::default(),
            past_spreads: Spreads::default(),
        };
        Self {
            digest: config.digest,
            secret: Credential::own().secret,
            sources_come: matches!(config.source_kind, SourceKind::Own(None)),
            seats: parts_of(config).into_iter().map(seat).collect(),
            guests: Vec::new(),
            next_guest: 0,
            heard: VecDeque::new(),
        }
    }

    pub fn parts(&self) -> Vec<Part> {
        self.seats.iter().map(|it| it.part).collect()
    }

    fn seat(&mut self, part: Part) -> Option<&mut Seat> {
        self.seats.iter_mut().find(|it| it.part == part)
    }

    pub fn all_there(&self) -> bool {
        self.seats.iter().all(|it| it.link.is_some())
    }

    /// Who is not there.
    pub fn missing(&self) -> Vec<String> {
        let missing = self.seats.iter().filter(|it| it.link.is_none());
        missing.map(|it| crate::part::name_of(it.part)).collect()
    }

    /// Whether there is a source and a builder.
    pub fn can_work(&self) -> bool {
        let live = |builder: bool| {
            let mut of_kind = self
                .seats
                .iter()
                .filter(|it| matches!(it.part, Part::Builder(_)) == builder);
            of_kind.any(|it| it.live)
        };
        live(true) && live(false)
    }

    pub fn is_live(&self, part: Part) -> bool {
        self.seats.iter().any(|it| it.part == part && it.live)
    }

    pub fn is_linked(&self, part: Part) -> bool {
        self.seats
            .iter()
            .any(|it| it.part == part && it.link.is_some())
    }

    pub fn set_live(&mut self, part: Part, live: bool) {
        self.seat(part).into_iter().for_each(|it| it.live = live);
    }

    pub fn set_ready(&mut self, part: Part, run: u32) {
        self.seat(part)
            .into_iter()
            .for_each(|it| it.ready = Some(run));
    }

    /// Whether all that are there are ready for the run.
    pub fn all_ready(&self, run: u32) -> bool {
        let mut there = self.seats.iter().filter(|it| it.live);
        there.all(|it| it.ready == Some(run))
    }

    pub fn set_report(&mut self, part: Part, sums: &[u64], last: bool) {
        if let Some(seat) = self.seat(part) {
            seat.report = sums.to_vec();
            seat.last = last;
        }
    }

    pub fn set_spread(&mut self, part: Part, of: u8, counts: &[u64]) {
        let spread = self.seat(part).and_then(|it| it.spreads.at(of));
        if let Some(spread) = spread {
            *spread = Spread::from_numbers(counts);
        }
    }

    /// How values of each builder are spread, those that died included.
    pub fn spreads(&self) -> Vec<Spreads> {
        let builders = self.seats.iter();
        let builders = builders.filter(|it| matches!(it.part, Part::Builder(_)));
        builders
            .map(|it| {
                let mut all = it.past_spreads.clone();
                all.add(&it.spreads);
                all
            })
            .collect()
    }

    /// Whether all that are there have said the last.
    pub fn all_last(&self) -> bool {
        self.seats.iter().all(|it| it.last || it.link.is_none())
    }

    /// Forgets the reports of the run before.
    pub fn begin_run(&mut self) {
        for seat in &mut self.seats {
            seat.report.clear();
            seat.past.clear();
            seat.spreads.clear();
            seat.past_spreads.clear();
            seat.last = false;
            seat.lives = seat.lives.min(1);
        }
    }

    pub fn reports(&self) -> (Vec<Seen<SourceReport>>, Vec<Seen<BuilderReport>>) {
        let (mut sources, mut builders) = (Vec::new(), Vec::new());
        for seat in &self.seats {
            match seat.part {
                Part::Source(_) => sources.push(seen(seat, SourceReport::from_numbers)),
                Part::Builder(_) => builders.push(seen(seat, BuilderReport::from_numbers)),
            }
        }
        (sources, builders)
    }

    /// To one part.
    pub fn tell(&mut self, part: Part, message: &Control) {
        if let Some(seat) = self.seat(part).filter(|it| it.link.is_some()) {
            seat.outbox.push(message);
        }
    }

    /// The first word to a part.
    pub fn welcome(&mut self, part: Part, message: &Control) {
        self.tell(part, message);
    }

    /// To all that have a link.
    pub fn send_to_all(&mut self, message: &Control) {
        for seat in self.seats.iter_mut().filter(|it| it.link.is_some()) {
            seat.outbox.push(message);
        }
    }

    /// To all that take part.
    pub fn send_to_live(&mut self, message: &Control) {
        for seat in self.seats.iter_mut().filter(|it| it.live) {
            seat.outbox.push(message);
        }
    }

    /// To all sources that take part.
    pub fn send_to_sources(&mut self, message: &Control) {
        let sources = self
            .seats
            .iter_mut()
            .filter(|it| it.live && matches!(it.part, Part::Source(_)));
        sources.for_each(|it| it.outbox.push(message));
    }

    /// To an operator.
    pub fn answer(&mut self, guest: usize, message: &Control) {
        let mut guests = self.guests.iter_mut();
        if let Some(guest) = guests.find(|it| it.number == guest) {
            guest.outbox.push(message);
        }
    }

    /// Whether an operator has not taken yet what was said.
    pub fn owes(&self, guest: usize) -> bool {
        let mut guests = self.guests.iter();
        guests.any(|it| it.number == guest && !it.outbox.is_empty())
    }

    /// Turns away whoever has come.
    pub fn refuse_all(&mut self, net: &mut Net) {
        self.send_to_all(&Control::Quit {});
        self.flush(net);
        net.flush();
    }

    /// Sends what is to be said; whether nothing waits.
    pub fn flush(&mut self, net: &mut Net) -> bool {
        let mut done = true;
        for seat in &mut self.seats {
            let Some(link) = seat.link else {
                seat.outbox.clear();
                continue;
            };
            // That the link has ended is told when it is read.
            let _ = net.link(link).and_then(|it| seat.outbox.flush(it));
            done &= seat.outbox.is_empty();
        }
        for guest in &mut self.guests {
            let sent = net.link(guest.link).and_then(|it| guest.outbox.flush(it));
            guest.leaves |= sent.is_err();
        }
        let leaves = |it: &Guest| it.leaves && it.outbox.is_empty();
        for guest in self.guests.iter().filter(|it| leaves(it)) {
            net.close(guest.link);
        }
        self.guests.retain(|it| !leaves(it));
        done
    }

    /// What was heard, if anything was.
    pub fn hear(&mut self, net: &mut Net) -> Option<Heard> {
        if let Some(heard) = self.heard.pop_front() {
            return Some(heard);
        }
        while let Some(link) = net.accept() {
            self.next_guest += 1;
            self.guests.push(Guest {
                number: self.next_guest,
                link,
                outbox: Outbox::default(),
                leaves: false,
            });
        }
        self.receive_from_seats(net);
        self.receive_from_guests(net);
        self.heard.pop_front()
    }

    fn receive_from_seats(&mut self, net: &mut Net) {
        for seat in &mut self.seats {
            let Some(number) = seat.link else {
                continue;
            };
            let part = seat.part;
            let said = net.link(number).and_then(|link| link.receive(read_batch));
            let reason = match said {
                Ok(None) => continue,
                Ok(Some(Ok(messages))) => {
                    let said = messages
                        .into_iter()
                        .map(|message| Heard::Said { part, message });
                    self.heard.extend(said);
                    continue;
                }
                Ok(Some(Err(problem))) => problem.to_string(),
                Err(problem) => problem.to_string(),
            };
            net.close(number);
            seat.link = None;
            seat.outbox.clear();
            let pid = seat.pid;
            self.heard.push_back(Heard::Gone { part, pid, reason });
        }
    }

    fn receive_from_guests(&mut self, net: &mut Net) {
        let mut at = 0;
        while at < self.guests.len() {
            let guest = &mut self.guests[at];
            let said = net.link(guest.link).and_then(|it| it.receive(read_batch));
            match said {
                Ok(None) => at += 1,
                Ok(Some(Ok(messages))) => {
                    let seated = self.seat_guest(net, at, &messages);
                    at += usize::from(!seated);
                }
                Ok(Some(Err(_))) | Err(_) => {
                    let guest = self.guests.swap_remove(at);
                    net.close(guest.link);
                    self.heard.push_back(Heard::Nothing);
                }
            }
        }
    }

    /// Listens to a guest; whether it is a part, and has its seat now.
    fn seat_guest(&mut self, net: &mut Net, at: usize, messages: &[Control]) -> bool {
        for message in messages {
            let &Control::Hello {
                role,
                digest,
                pid,
                secret,
                start,
            } = message
            else {
                let guest = self.guests[at].number;
                let message = message.clone();
                self.heard.push_back(Heard::Ordered { guest, message });
                continue;
            };
            let Role::Part(part) = role else {
                continue;
            };
            let (own, shown) = (self.digest, Credential { secret, start });
            let is_stray = self.is_stray(part, shown);
            let Some(seat) = self.seats.iter_mut().find(|it| it.part == part) else {
                self.refuse(at, "no such part in the manager's configuration".to_owned());
                continue;
            };
            if digest != own {
                let reason = format!(
                    "another configuration: its CRC-32C is {digest:08x}, the manager's {own:08x}"
                );
                self.refuse(at, reason);
                continue;
            }
            if is_stray {
                let reason =
                    "it belongs to another run: `barewire daq run` starts the parts of this one";
                self.refuse(at, reason.to_owned());
                continue;
            }
            if seat.link.is_some() && !shown.is_later_than(seat.shown) {
                let reason = format!("its seat is taken by process {}", seat.pid);
                self.refuse(at, reason);
                continue;
            }
            seat.shown = shown;
            let guest = self.guests.swap_remove(at);
            seat.link.take().into_iter().for_each(|it| net.close(it));
            seat.link = Some(guest.link);
            seat.outbox = guest.outbox;
            let report = core::mem::take(&mut seat.report);
            // Who was ready for this run and ended before its first report had a life too.
            if !report.is_empty() || seat.ready.is_some() {
                seat.past.push(report);
            }
            seat.past_spreads.add(&seat.spreads);
            seat.spreads.clear();
            let again = seat.lives > 0;
            (seat.lives, seat.pid) = (seat.lives + 1, pid);
            (seat.ready, seat.last) = (None, false);
            self.heard.push_back(Heard::Came { part, again, pid });
            return true;
        }
        false
    }

    /// Whether a part that shows this is none of this run.
    fn is_stray(&self, part: Part, shown: Credential) -> bool {
        let comes = self.sources_come && matches!(part, Part::Source(_)) && shown.secret == 0;
        self.secret != shown.secret && !comes
    }

    fn refuse(&mut self, at: usize, reason: String) {
        let guest = &mut self.guests[at];
        guest.outbox.push(&Control::Refused { reason });
        guest.leaves = true;
    }
}

fn seen<R>(seat: &Seat, read: fn(&[u64]) -> R) -> Seen<R> {
    Seen {
        live: seat.live && seat.link.is_some(),
        lives: seat.lives,
        report: read(&seat.report),
        past: seat.past.iter().map(|it| read(it)).collect(),
    }
}

/// All parts of a configuration.
pub fn parts_of(config: &Config) -> Vec<Part> {
    let builders = (0..config.manager.builders).map(|it| Part::Builder(BuilderId(it)));
    let sources = (0..config.manager.sources).map(|it| Part::Source(SourceId(it)));
    // Builders are told first: an assignment is there before its fragments.
    builders.chain(sources).collect()
}
