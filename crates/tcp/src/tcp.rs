//! A TCP connection: packets and the time go in, packets and the next deadline come out.
//!
//! smoltcp holds the handshake and the states (`machine`). Bytes never pass through it: `send` keeps and
//! repeats what is sent, `receive` puts what comes in order. smoltcp sees a connection over which
//! neither end sends anything: of the packets after the handshake it gets those that end a direction,
//! without their bytes, with the sequence number and the acknowledgement of such a connection. Its own acknowledgements are thrown away: `receive`
//! makes them. All that has to do with time is in this crate, and
//! nothing in smoltcp waits. Why: `docs/decisions/0040`.

mod icmp_errors;
mod incoming;
mod outgoing;
mod rebase;

use crate::config::Config;
use crate::error::Error;
use crate::machine::Machine;
use crate::packet::{Checked, Out, Outgoing, Segment, hide_sack_permitted, parse_tcp, permit_sack};
use crate::receive::{Receiver, Room};
use crate::send::{Counts, Sender};
use crate::stamps::{self, STAMP_BYTES, Stamps};
use crate::{Endpoint, packet};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use barewire_units::{Duration, Instant};
use smoltcp::wire::TcpControl;

/// How many packets that answer others may wait.
const ANSWERS_MAX: usize = 4;

/// How long the first packet waits for its answer before it is sent again; it doubles.
const SYN_WAIT: Duration = Duration::from_s(1);

/// The smallest segment that the other end may ask for, as Linux has it.
const MSS_MIN: u32 = 48;

/// What RFC 9293 takes for granted of an end that does not say how long its segments may be.
const MSS_UNSAID: u32 = 536;

/// The same over IPv6.
const MSS_UNSAID_V6: u32 = 1220;

/// How many questions without an answer end a connection with keep-alive.
const QUESTIONS_MAX: u32 = 5;

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It waits for the other end to answer.
    Opening,
    /// Bytes may go both ways, as far as neither end has ended its stream.
    Open,
    /// Both ends have ended their streams, and this one remembers the connection for a while.
    TimeWait,
    /// Nothing is sent or received any more.
    Closed,
}

#[derive(Debug)]
enum Phase {
    /// The SYN, or the SYN with an acknowledgement, is sent until it is answered.
    Opening {
        packet: Vec<u8>,
        send_at: Instant,
        wait: Duration,
        first_sent: Option<Instant>,
        was_resent: bool,
        is_accepting: bool,
    },
    Open,
    TimeWait {
        until: Instant,
    },
    Closed,
}

/// What the other end has said in its SYN.
#[derive(Debug, Clone, Copy, Default)]
struct Peer {
    first: u32,
    mss: Option<u16>,
    window_scale: Option<u8>,
    has_sack: bool,
    /// What its clock said, if it has timestamps.
    stamp: Option<u32>,
}

/// What this end has said in its own.
#[derive(Debug, Clone, Copy, Default)]
struct Own {
    first: u32,
    window_scale: Option<u8>,
}

/// A TCP connection.
///
/// After each call, take packets with [`Endpoint::poll_packet`] until there is none.
#[derive(Debug)]
pub struct Tcp {
    config: Config,
    machine: Machine,
    phase: Phase,
    peer: Peer,
    own: Own,
    sender: Option<Sender>,
    receiver: Receiver,
    /// What the clock of timestamps says at the origin.
    clock_first: u32,
    /// Once the connection is open, if both ends have timestamps.
    stamps: Option<Stamps>,
    /// What has come and was not read.
    room: Room,
    answers: VecDeque<Vec<u8>>,
    error: Option<Error>,
    /// A host on the way has said that the other end cannot be reached, and it was not heard since.
    is_unreachable: bool,
    /// The longest packet of the path, in bytes.
    path_mtu: usize,
    /// The program wants to send nothing more.
    wants_end: bool,
    /// The program wants to read nothing more.
    wants_no_bytes: bool,
    /// A reset is to be sent.
    resets: bool,
    last_heard: Instant,
    questions: u32,
    refused_packets: u64,
}

impl Tcp {
    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// What [`Config::check`] finds.
    pub fn connect(config: &Config, now: Instant) -> Result<Self, Error> {
        let mut tcp = Self::new(config, now)?;
        if !tcp.machine.connect(config.local, config.remote, now) {
            return Err(Error::BadAddress("no packet can be sent to that address"));
        }
        tcp.begin(false, now)?;
        Ok(tcp)
    }

    /// Answers the packet `syn`, with which the other end opens a connection. The other end's
    /// address is that of the packet.
    ///
    /// # Errors
    ///
    /// [`Error::NotASyn`], or what [`Config::check`] finds.
    pub fn accept(
        config: &Config,
        syn: &[u8],
        checked: Checked,
        now: Instant,
    ) -> Result<Self, Error> {
        let segment = parse_tcp(syn, checked).ok_or(Error::NotASyn)?;
        let is_syn = segment.control == TcpControl::Syn && segment.ack.is_none();
        if !is_syn || segment.to != config.local {
            return Err(Error::NotASyn);
        }
        let config = Config {
            remote: segment.from,
            ..*config
        };
        let mut tcp = Self::new(&config, now)?;
        tcp.peer = Peer::of(&segment);
        if !tcp.machine.listen(config.local) {
            return Err(Error::BadAddress("nothing can listen at that port"));
        }
        let mut syn = syn.to_vec();
        hide_sack_permitted(&mut syn, &segment);
        tcp.machine.handle_packet(&syn, now);
        tcp.begin(true, now)?;
        Ok(tcp)
    }

    fn new(config: &Config, now: Instant) -> Result<Self, Error> {
        config.check()?;
        Ok(Self {
            config: *config,
            machine: Machine::new(config, now),
            phase: Phase::Closed,
            peer: Peer::default(),
            own: Own::default(),
            sender: None,
            receiver: Receiver::new(0, 0, 1, false, 0),
            clock_first: stamps::first_of(config.seed),
            stamps: None,
            room: Room::new(0),
            answers: VecDeque::new(),
            error: None,
            is_unreachable: false,
            path_mtu: config.mtu,
            wants_end: false,
            wants_no_bytes: false,
            resets: false,
            last_heard: now,
            questions: 0,
            refused_packets: 0,
        })
    }

    /// Takes the SYN from smoltcp.
    fn begin(&mut self, is_accepting: bool, now: Instant) -> Result<(), Error> {
        let packet = self.machine.next_reply().ok_or(Error::NotASyn)?;
        let segment = parse_tcp(&packet, Checked::Yes).ok_or(Error::NotASyn)?;
        // smoltcp was not told that the other end permits it.
        let packet = if self.peer.has_sack {
            permit_sack(&packet).ok_or(Error::NotASyn)?
        } else {
            packet
        };
        self.own = Own {
            first: segment.seq,
            window_scale: segment.window_scale,
        };
        self.phase = Phase::Opening {
            packet,
            send_at: now,
            wait: SYN_WAIT,
            first_sent: None,
            was_resent: false,
            is_accepting,
        };
        Ok(())
    }

    /// Settings and addresses.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Where the connection stands.
    #[must_use]
    pub const fn state(&self) -> State {
        match self.phase {
            Phase::Opening { .. } => State::Opening,
            Phase::Open => State::Open,
            Phase::TimeWait { .. } => State::TimeWait,
            Phase::Closed => State::Closed,
        }
    }

    /// Why the connection has ended, if not because both ends wanted it.
    #[must_use]
    pub const fn error(&self) -> Option<Error> {
        self.error
    }

    /// Takes bytes to be sent, and gives how many it has taken: 0 where there is no room now.
    ///
    /// # Errors
    ///
    /// [`Error::NotConnected`], [`Error::SendClosed`], or why the connection has ended.
    pub fn send(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        self.check_open()?;
        if self.wants_end {
            return Err(Error::SendClosed);
        }
        let sender = self.sender.as_mut().ok_or(Error::NotConnected)?;
        Ok(sender.push(bytes))
    }

    /// Reads bytes, and gives how many: 0 where there are none now. [`Self::has_ended`] tells
    /// whether there will ever be more.
    ///
    /// # Errors
    ///
    /// [`Error::ReceiveClosed`], or why the connection has ended, once all bytes are read.
    pub fn receive(&mut self, into: &mut [u8]) -> Result<usize, Error> {
        if self.wants_no_bytes {
            return Err(Error::ReceiveClosed);
        }
        let count = self.room.read(into);
        self.receiver.read_bytes += count as u64;
        if count == 0 && !into.is_empty() && !self.receiver.has_ended {
            self.check_open()?;
        }
        Ok(count)
    }

    /// Shows the bytes that can be read and lie side by side, and takes as many as `read` says.
    pub fn receive_with<R>(&mut self, read: impl FnOnce(&mut [u8]) -> (usize, R)) -> Option<R> {
        if self.wants_no_bytes {
            return None;
        }
        let before = self.room.len();
        let result = self.room.read_with(read);
        self.receiver.read_bytes += (before - self.room.len()) as u64;
        Some(result)
    }

    /// How many bytes can be read now.
    #[must_use]
    pub fn readable_bytes(&self) -> usize {
        if self.wants_no_bytes {
            0
        } else {
            self.room.len()
        }
    }

    /// How many bytes [`Self::send`] takes now.
    #[must_use]
    pub fn writable_bytes(&self) -> usize {
        if self.wants_end || self.error.is_some() {
            return 0;
        }
        self.sender.as_ref().map_or(0, Sender::room)
    }

    /// How many bytes were taken and are not acknowledged.
    #[must_use]
    pub fn unacknowledged_bytes(&self) -> usize {
        self.sender.as_ref().map_or(0, Sender::unacknowledged_bytes)
    }

    /// Whether the other end has ended its stream, and all of it was read.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.receiver.has_ended && self.room.len() == 0
    }

    /// Whether the other end has acknowledged all bytes and the end of the stream.
    #[must_use]
    pub fn is_end_acknowledged(&self) -> bool {
        self.sender
            .as_ref()
            .is_some_and(Sender::is_end_acknowledged)
    }

    /// Ends the stream to the other end, behind what was taken. The other direction stays open.
    pub fn shutdown(&mut self) {
        if self.wants_end {
            return;
        }
        self.wants_end = true;
        match self.phase {
            Phase::Opening {
                is_accepting: false,
                ..
            } => self.finish(None),
            Phase::Open => self.end_stream(),
            _ => {}
        }
    }

    /// Ends both directions. Bytes that were taken are still sent; the other end is reset if there
    /// are bytes that nobody has read, or if more come.
    pub fn close(&mut self) {
        if self.room.len() > 0 {
            self.abort();
        } else {
            self.wants_no_bytes = true;
            self.shutdown();
        }
    }

    /// Ends the connection at once, with a reset. What was not acknowledged may be lost.
    pub fn abort(&mut self) {
        match self.phase {
            Phase::Open => {
                self.resets = true;
                self.error = Some(Error::Aborted);
            }
            Phase::Opening { .. } => self.finish(Some(Error::Aborted)),
            Phase::TimeWait { .. } | Phase::Closed => self.finish(None),
        }
    }

    /// How the sending side fares.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.sender
            .as_ref()
            .map_or_else(Counts::default, Sender::counts)
    }

    /// The smoothed round-trip time, once there was a sample.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        self.sender.as_ref().and_then(Sender::round_trip)
    }

    /// How many bytes may be in flight, as far as the network is concerned.
    #[must_use]
    pub fn congestion_window(&self) -> u64 {
        self.sender.as_ref().map_or(0, Sender::congestion_window)
    }

    /// The longest IP packet that is sent, in bytes: [`Config::mtu`], or less where the path is
    /// known to take no more.
    #[must_use]
    pub const fn path_mtu(&self) -> usize {
        self.path_mtu
    }

    /// How many packets were broken, or did not belong to this connection.
    #[must_use]
    pub const fn refused_packets(&self) -> u64 {
        self.refused_packets
    }

    fn check_open(&self) -> Result<(), Error> {
        match (self.error, &self.phase) {
            (Some(error), _) => Err(error),
            (None, Phase::Opening { .. }) => Err(Error::NotConnected),
            _ => Ok(()),
        }
    }

    /// Tells both sides that nothing more is sent.
    fn end_stream(&mut self) {
        if let Some(sender) = &mut self.sender {
            sender.end();
            self.machine.close();
        }
    }

    /// Why the other end does not answer.
    const fn silence(&self) -> Error {
        if self.is_unreachable {
            Error::Unreachable
        } else {
            Error::TimedOut
        }
    }

    fn finish(&mut self, error: Option<Error>) {
        self.phase = Phase::Closed;
        self.error = self.error.or(error);
    }

    /// How many bytes of each packet with bytes are options.
    fn option_bytes(&self) -> u32 {
        self.stamps.map_or(0, |_| STAMP_BYTES)
    }

    /// The room for bytes of the other end, in bytes.
    fn capacity(&self) -> u64 {
        self.config.receive_buffer_bytes as u64
    }

    fn received(&self) -> u64 {
        self.receiver.until(self.room.len())
    }

    /// The sequence number of an offset in this end's stream.
    fn sequence(&self, offset: u64) -> u32 {
        self.own.first.wrapping_add(1).wrapping_add(offset as u32)
    }
}

impl Peer {
    fn of(segment: &Segment) -> Self {
        Self {
            first: segment.seq,
            mss: segment.mss,
            window_scale: segment.window_scale,
            has_sack: segment.sack_permitted,
            stamp: segment.timestamp.map(|(value, _)| value),
        }
    }
}

impl Endpoint for Tcp {
    fn handle_packet(&mut self, packet: &mut [u8], checked: Checked, now: Instant) {
        self.take_packet(packet, checked, now);
    }

    fn poll_packet(&mut self, packet: &mut [u8], now: Instant) -> Option<Outgoing> {
        let mut out = Out {
            packet,
            may_leave_out: false,
        };
        self.give_packet(&mut out, now)
    }

    fn poll_head(&mut self, packet: &mut [u8], now: Instant) -> Option<Outgoing> {
        let mut out = Out {
            packet,
            may_leave_out: true,
        };
        self.give_packet(&mut out, now)
    }

    fn left_out(&self, sent: &Outgoing) -> [&[u8]; 2] {
        let payload = sent.left_out.zip(self.sender.as_ref());
        payload.map_or([&[]; 2], |(place, sender)| {
            sender.bytes(place.start, place.end).into()
        })
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.deadline()
    }
}

/// Copies a packet that is ready; `None` where it does not fit.
fn copy(ready: &[u8], out: &mut [u8]) -> Option<Outgoing> {
    out.get_mut(..ready.len())?.copy_from_slice(ready);
    Some(packet::Outgoing {
        bytes: ready.len(),
        checksum: None,
        segment_bytes: None,
        left_out: None,
    })
}
