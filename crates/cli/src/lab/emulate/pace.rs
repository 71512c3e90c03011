//! The loop: frames in, the model up to the time of the clock, packets out.
//!
//! The model is never ahead of the clock, since a packet may come at any moment. So a packet leaves
//! after the model's time for it, by what the loop takes to come to it: its *lateness*. While
//! packets are inside, the loop sleeps until shortly before the model's next event, and polls from
//! then on. Otherwise it sleeps until a frame comes. A frame that comes while it sleeps is taken late, by what the
//! kernel needs to wake it up. So after each packet it polls a while for the next one, which may be the answer.

use std::time::Duration;

use barewire_sys::clock::monotonic_ns;
use barewire_sys::frames::FrameSent;
use barewire_sys::interrupt::Interrupt;
use barewire_sys::wake::{Epoll, EpollEvent, Interest};
use barewire_testbed::emulation::{Departure, Emulated};
use barewire_units::{Duration as ModelDuration, Instant};

use super::ethernet::{Content, HEADER_BYTES, open, wrap};
use super::lateness::{Report, Times};
use super::live::Live;
use super::programs::{Last, Programs};
use super::taps::Tap;
use crate::lab::error::{LabError, Result};

/// So long before an event that can let a packet out, the loop sleeps no more: waking up takes about as long.
const POLLED: Duration = Duration::from_micros(60);
/// After polling for so long, the loop sleeps for a moment: a program of real-time priority that never does is
/// stopped by the kernel for 50 ms in each second. While no packet is inside, it does so sooner: then it need not while
/// the next one is.
const POLLS_LONGEST: Duration = Duration::from_micros(1100);
const POLLS_IDLE: Duration = Duration::from_micros(250);
const BREAK: Duration = Duration::from_micros(60);
/// The longest sleep while the model goes on without packets, as with a token: so that what it has to catch up
/// with when a packet comes is little.
const IDLE: Duration = Duration::from_micros(500);
/// The longest sleep: programs and signals are looked at so often.
const LOOK: Duration = Duration::from_millis(20);
/// The model goes on by so much at a time,
const SLICE: ModelDuration = ModelDuration::from_ms(1);
/// and after so long by the clock, frames, programs and signals are looked at, also if it is behind the clock.
const SLICES_LONGEST: Duration = Duration::from_millis(5);
/// Frames that are taken from one device before the model goes on.
const FRAMES_AT_ONCE: usize = 16;
/// Room for the longest frame.
const FRAME_BYTES_MAX: usize = 65_536 + HEADER_BYTES;

/// Why the loop ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// The time was up, the last program was done, or the user wanted it to end.
    Well,
    /// The last program has failed; this is how.
    Failed(String),
}

/// The loop and what it counts.
pub struct Pace<'a> {
    taps: &'a [Tap],
    network: &'a mut dyn Emulated,
    wakes: Epoll,
    began_ns: u64,
    /// How far the model is, and whether that is less far than the clock was.
    reached: Instant,
    is_behind: bool,
    /// When it last slept.
    slept_ns: u64,
    /// How long it polls after a packet, and when the last one was.
    poll: Duration,
    packet_ns: u64,
    lateness: Times,
    overslept: Times,
    not_carried: u64,
    refused: u64,
    given_bytes: u64,
    buffer: Vec<u8>,
    frame: Vec<u8>,
}

impl<'a> Pace<'a> {
    pub fn new(taps: &'a [Tap], network: &'a mut dyn Emulated, poll: Duration) -> Result<Self> {
        let wakes = Epoll::new().map_err(LabError::Emulation)?;
        for (token, tap) in (0..).zip(taps) {
            let interest = Interest::READ;
            wakes
                .add(tap, token, interest)
                .map_err(LabError::Emulation)?;
        }
        Ok(Self {
            taps,
            network,
            wakes,
            began_ns: monotonic_ns(),
            reached: Instant::ORIGIN,
            is_behind: false,
            slept_ns: monotonic_ns(),
            poll,
            packet_ns: 0,
            lateness: Times::new(),
            overslept: Times::new(),
            not_carried: 0,
            refused: 0,
            given_bytes: 0,
            buffer: vec![0; FRAME_BYTES_MAX],
            frame: Vec::with_capacity(FRAME_BYTES_MAX),
        })
    }

    /// The model's time, by the clock.
    fn now(&self) -> Instant {
        Instant::ORIGIN + ModelDuration::from_ns(monotonic_ns() - self.began_ns)
    }

    /// Runs until it ends.
    pub fn run(
        &mut self,
        duration: Option<Duration>,
        interrupt: &Interrupt,
        programs: &mut Programs,
        live: Option<&Live>,
    ) -> Result<Ended> {
        let mut events = Vec::new();
        let mut look_at_ns = 0;
        loop {
            let ran = Duration::from_nanos(monotonic_ns() - self.began_ns);
            if duration.is_some_and(|duration| ran >= duration) {
                return Ok(Ended::Well);
            }
            if monotonic_ns() >= look_at_ns {
                look_at_ns = monotonic_ns() + LOOK.as_nanos() as u64;
                if interrupt.wait(Duration::ZERO) || live.is_some_and(Live::is_over) {
                    return Ok(Ended::Well);
                }
                match programs.look() {
                    Last::None | Last::Runs => {}
                    Last::Done => return Ok(Ended::Well),
                    Last::Failed(how) => return Ok(Ended::Failed(how)),
                }
                if let Some(live) = live {
                    live.show(
                        self.network.view(),
                        self.network.account(),
                        self.lateness.summary_ns(),
                    );
                }
            }
            self.step()?;
            let left = duration.map_or(LOOK, |duration| duration.saturating_sub(ran).min(LOOK));
            self.sleep(left, &mut events)?;
        }
    }

    /// Frames in, the model to now or nearer to it, packets out.
    fn step(&mut self) -> Result<()> {
        for at in 0..self.taps.len() {
            self.take(at)?;
        }
        let now = self.now();
        let until_ns = monotonic_ns() + SLICES_LONGEST.as_nanos() as u64;
        loop {
            self.reached = now.min(self.reached + SLICE);
            self.network.run_to(self.reached);
            self.is_behind = self.reached < now;
            if !self.is_behind || monotonic_ns() >= until_ns {
                break;
            }
        }
        while let Some(departure) = self.network.poll() {
            self.give(&departure)?;
        }
        Ok(())
    }

    fn take(&mut self, at: usize) -> Result<()> {
        let tap = &self.taps[at];
        for _ in 0..FRAMES_AT_ONCE {
            let received = tap.device().try_receive(&mut self.buffer);
            let Some(bytes) = received.map_err(LabError::Tap)? else {
                break;
            };
            let is_there = |station| {
                let mut taps = self.taps.iter();
                station != tap.station() && taps.any(|other| other.station() == station)
            };
            match open(&self.buffer[..bytes]) {
                Content::Packet { to, packet } if is_there(to) => {
                    // The model goes no further here than it is, so that a model that is far behind does not take long.
                    // All that it is behind counts as lateness of the packet.
                    let at = if self.is_behind {
                        self.reached
                    } else {
                        self.now()
                    };
                    self.packet_ns = monotonic_ns();
                    self.network.send(at, tap.station(), to, packet);
                }
                Content::Question { about, answer } if is_there(about) => {
                    // An answer that finds no room is asked for again.
                    tap.device().try_send(&answer).map_err(LabError::Tap)?;
                }
                Content::Packet { .. } | Content::Question { .. } | Content::Other => {
                    self.not_carried += 1;
                }
            }
        }
        Ok(())
    }

    fn give(&mut self, departure: &Departure) -> Result<()> {
        // Before the kernel has it: what it then does with it is its own time.
        let late = self.now().saturating_duration_since(departure.at);
        self.lateness.add(late.as_ps() / 1000);
        let mut taps = self.taps.iter();
        let tap = taps.find(|tap| tap.station() == departure.station);
        let sent = match tap {
            Some(tap) => {
                let kernel = tap.device().hardware_address();
                wrap(kernel, &departure.packet, &mut self.frame);
                tap.device().try_send(&self.frame).map_err(LabError::Tap)?
            }
            // Packets are for stations with a device only.
            None => FrameSent::Refused,
        };
        self.packet_ns = monotonic_ns();
        self.refused += u64::from(sent != FrameSent::Sent);
        self.given_bytes += departure.packet.len() as u64;
        Ok(())
    }

    /// Sleeps until the model's next event, a frame, or for `longest`.
    fn sleep(&mut self, longest: Duration, events: &mut Vec<EpollEvent>) -> Result<()> {
        if self.is_behind {
            return Ok(());
        }
        let now = self.now();
        let until = |next: Instant| {
            let ns = next.saturating_duration_since(now).as_ps() / 1000;
            Duration::from_nanos(ns).saturating_sub(POLLED)
        };
        let from_ns = monotonic_ns();
        let is_expecting = Duration::from_nanos(from_ns - self.packet_ns) < self.poll;
        let is_idle = self.network.account().inside == 0;
        let polls = if is_idle { POLLS_IDLE } else { POLLS_LONGEST };
        let time = match self.network.next_at() {
            _ if is_expecting => Duration::ZERO,
            None => longest,
            Some(next) if !is_idle => longest.min(until(next)),
            Some(_) => longest.min(IDLE),
        };
        let time = match time.is_zero() {
            true if Duration::from_nanos(from_ns - self.slept_ns) < polls => return Ok(()),
            true => BREAK,
            false => time,
        };
        let wakes = self.wakes.wait(events, Some(time));
        if wakes.map_err(LabError::Emulation)? == 0 {
            let slept = Duration::from_nanos(monotonic_ns() - from_ns);
            let overslept = slept.saturating_sub(time);
            self.overslept.add(overslept.as_nanos() as u64);
        }
        self.slept_ns = monotonic_ns();
        Ok(())
    }

    /// What is to be told.
    pub fn report(self, bound: Duration) -> Report {
        Report {
            ran: Duration::from_nanos(monotonic_ns() - self.began_ns),
            account: self.network.account(),
            not_carried: self.not_carried,
            refused: self.refused,
            packets: self.lateness.count(),
            lateness_ns: self.lateness.summary_ns(),
            overslept_ns: self.overslept.summary_ns(),
            bound,
            packet_bytes: self.given_bytes,
            counts: self.network.view().counts,
        }
    }
}
