//! Connections of hosts with cards: the live network's queue and stream over the card's
//! windows. What an end has published, or given back, or ended, it follows by a store to a
//! bell of its peer, a word with a tripwire, which tells that the end there is ready.

use std::time::Duration;

use barewire_fabric::aperture::{Action, ByteStream, Mode, Notice, Received, Transport};
use barewire_fabric::frame::{STATE_DEAF, STATE_FINISHED, region_bytes};
use barewire_fabric::memory::Outgoing;
use barewire_fabric::queue::Next;
use barewire_fabric::ring::publish_state;
use barewire_fabric::{
    MessageReceiver, MessageSender, RingReceiver, RingSender, SendProgress, StreamReceiver,
    StreamSender, Violation,
};
use barewire_models::clan::Place;

use super::clock::{Clock, Patience};
use super::events::CardQueue;
use super::{BenchLoads, BenchStores, clocks};
use crate::error::SystemError;

/// Longest message.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// A bell: one word.
const BELL_BYTES: usize = 8;
/// The number of the only connection of a host.
const CONNECTION: u64 = 0;

/// Why a connection over the card refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Down {
    /// A message longer than a megabyte.
    #[error("the message is longer than {MESSAGE_BYTES_MAX} B")]
    TooLong,
    /// This end has finished, or the other end reads no more.
    #[error("the connection is closed")]
    Closed,
    /// No room in time.
    #[error("no room in time")]
    Timeout,
    /// The other end broke the protocol.
    #[error(transparent)]
    Violation(#[from] Violation),
}

/// What messages and bytes have in common.
struct Wire {
    clock: Clock,
    out: BenchStores,
    /// A word of the peer's with a tripwire.
    bell: BenchStores,
    /// The number of the tripwire on our own bell.
    ready: u32,
    finished: bool,
    patience: Patience,
}

impl Wire {
    fn finish(&mut self) {
        self.finished = true;
        publish_state(&self.out, STATE_FINISHED);
        self.tell();
    }

    fn tell(&self) {
        self.bell.publish_u64(0, 1);
    }

    /// Tries until something comes of it or the time is over; `None` then.
    fn until<T>(
        &self,
        timeout: Duration,
        mut attempt: impl FnMut() -> Result<Option<T>, Down>,
    ) -> Result<Option<T>, Down> {
        let mut go_on = (self.patience)(timeout);
        loop {
            if let Some(found) = attempt()? {
                return Ok(Some(found));
            }
            let under_way = self.clock.lock().ahead();
            if !under_way && !go_on() {
                return Ok(None);
            }
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        publish_state(&self.out, STATE_FINISHED | STATE_DEAF);
        self.tell();
        // The peer's memory is ours to store into until all of it has arrived.
        self.clock.lock().drain();
        self.clock.give_back(self.ready);
    }
}

type Halves = (
    RingSender<BenchStores, BenchLoads>,
    RingReceiver<BenchLoads, BenchStores>,
);

fn wires(
    parameters: &str,
    ring_bytes: usize,
    patience: Patience,
) -> Result<[(Wire, Halves, CardQueue); 2], SystemError> {
    let clocks = clocks(parameters)?;
    let len_bytes = region_bytes(ring_bytes);
    let regions = clocks
        .each_ref()
        .map(|clock| clock.memory().add_region(len_bytes));
    let bells = clocks
        .each_ref()
        .map(|clock| clock.memory().add_region(BELL_BYTES));
    let [near, far] = clocks.map(|clock| {
        let (out, inn) = clock.windows(regions, len_bytes);
        let notice = Notice::Ready {
            connection: CONNECTION,
        };
        let (bell, _) = clock.windows(bells, BELL_BYTES);
        let place = Place::Own(bells[clock.host as usize]);
        let action = (Action::Enqueue { cookie: 0 }, notice);
        let armed = clock.arm(place, (0, BELL_BYTES), Mode::Sticky, action);
        let ready = armed.map_err(|_| {
            SystemError::Contradiction("card.cam_entries: none for a connection".into())
        })?;
        let halves = (
            RingSender::new(out.clone(), inn.clone(), ring_bytes),
            RingReceiver::new(inn, out.clone(), ring_bytes),
        );
        let queue = CardQueue::new(clock.clone(), patience);
        let wire = Wire {
            clock,
            out,
            bell,
            ready,
            finished: false,
            patience,
        };
        Ok::<_, SystemError>((wire, halves, queue))
    });
    Ok([near?, far?])
}

/// One end of a connection that carries messages.
pub struct CardConnection {
    wire: Wire,
    sender: MessageSender<BenchStores, BenchLoads>,
    receiver: MessageReceiver<BenchLoads, BenchStores>,
}

/// The two ends of a connection, and their hosts' event queues.
///
/// # Errors
///
/// Parameters that cannot be used.
///
/// # Panics
///
/// If `ring_bytes` is no ring.
pub fn connection(
    parameters: &str,
    ring_bytes: usize,
    patience: Patience,
) -> Result<[(CardConnection, CardQueue); 2], SystemError> {
    let wires = wires(parameters, ring_bytes, patience)?;
    Ok(wires.map(|(wire, (tx, rx), queue)| {
        let end = CardConnection {
            wire,
            sender: MessageSender::new(tx),
            receiver: MessageReceiver::new(rx, MESSAGE_BYTES_MAX),
        };
        (end, queue)
    }))
}

impl CardConnection {
    fn check(&mut self, message: &[u8]) -> Result<(), Down> {
        if self.wire.finished || self.sender.ring().peer_deaf() {
            return Err(Down::Closed);
        }
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(Down::TooLong);
        }
        Ok(())
    }

    /// Tells the peer of credit, and ourselves of what is left.
    fn received(&mut self) {
        if self.receiver.take_told() {
            self.wire.tell();
        }
        if self.receiver.maybe_ready() {
            self.wire.clock.ring_own(self.wire.ready);
        }
    }
}

fn receive(
    receiver: &mut MessageReceiver<BenchLoads, BenchStores>,
    into: &mut Vec<u8>,
) -> Result<Received, Down> {
    let over = receiver.ring().peer_finished();
    let next = receiver.next_message()?;
    match &next {
        Next::Nothing if over => return Ok(Received::Finished),
        Next::Nothing => return Ok(Received::Nothing),
        Next::InPlace(located) => {
            into.resize(located.len_bytes, 0);
            receiver.copy_out(located, into);
        }
        Next::Assembled => {
            into.clear();
            into.extend_from_slice(receiver.assembled());
        }
    }
    receiver.done(&next);
    Ok(Received::Message)
}

impl Transport for CardConnection {
    type Error = Down;

    fn number(&self) -> u64 {
        CONNECTION
    }

    fn message_bytes_max(&self) -> usize {
        MESSAGE_BYTES_MAX
    }

    fn try_send(&mut self, message: &[u8]) -> Result<bool, Down> {
        self.check(message)?;
        if message.len() <= self.sender.ring().frame_bytes_max() {
            let sent = self.sender.send_frame(message)?;
            if sent {
                self.wire.tell();
            }
            return Ok(sent);
        }
        let fits = message.len() <= self.sender.ring().whole_message_bytes_max();
        if !fits {
            return Err(Down::TooLong);
        }
        let room = self.sender.ring().has_room_for_message(message.len())?;
        Ok(room
            && self
                .sender
                .send_part(message, &mut SendProgress::default())?)
    }

    fn send(&mut self, message: &[u8], timeout: Duration) -> Result<(), Down> {
        self.check(message)?;
        let mut progress = SendProgress::default();
        let (sender, wire) = (&mut self.sender, &self.wire);
        let sent = wire.until(timeout, || {
            if sender.ring().peer_deaf() {
                return Err(Down::Closed);
            }
            let before = progress.sent_bytes;
            let whole = sender.send_part(message, &mut progress)?;
            if whole || progress.sent_bytes > before {
                wire.tell();
            }
            Ok(whole.then_some(()))
        })?;
        if sent.is_none() && progress.sent_bytes > 0 {
            // Half a message: nothing can follow it.
            self.wire.finish();
        }
        sent.ok_or(Down::Timeout)
    }

    fn try_recv(&mut self, into: &mut Vec<u8>) -> Result<Received, Down> {
        let received = receive(&mut self.receiver, into)?;
        self.received();
        Ok(received)
    }

    fn recv(&mut self, into: &mut Vec<u8>, timeout: Duration) -> Result<Received, Down> {
        let receiver = &mut self.receiver;
        let found = self.wire.until(timeout, || {
            let received = receive(receiver, into)?;
            Ok((received != Received::Nothing).then_some(received))
        })?;
        self.received();
        Ok(found.unwrap_or(Received::Nothing))
    }

    fn finish(&mut self) {
        self.wire.finish();
    }
}

/// One end of a connection that carries bytes.
pub struct CardStream {
    wire: Wire,
    writer: StreamSender<BenchStores, BenchLoads>,
    reader: StreamReceiver<BenchLoads, BenchStores>,
}

/// The two ends of a byte stream, and their hosts' event queues.
///
/// # Errors
///
/// Parameters that cannot be used.
///
/// # Panics
///
/// If `ring_bytes` is no ring.
pub fn stream(
    parameters: &str,
    ring_bytes: usize,
    patience: Patience,
) -> Result<[(CardStream, CardQueue); 2], SystemError> {
    let wires = wires(parameters, ring_bytes, patience)?;
    Ok(wires.map(|(wire, (tx, rx), queue)| {
        let end = CardStream {
            wire,
            writer: StreamSender::new(tx),
            reader: StreamReceiver::new(rx),
        };
        (end, queue)
    }))
}

impl ByteStream for CardStream {
    type Error = Down;

    fn write(&mut self, bytes: &[u8], timeout: Duration) -> Result<usize, Down> {
        if self.wire.finished || self.writer.ring().peer_deaf() {
            return Err(Down::Closed);
        }
        let writer = &mut self.writer;
        let written = self.wire.until(timeout, || {
            let written = writer.write(bytes)?;
            Ok((written > 0 || bytes.is_empty()).then_some(written))
        })?;
        if written > Some(0) {
            self.wire.tell();
        }
        Ok(written.unwrap_or(0))
    }

    fn read(&mut self, into: &mut [u8], timeout: Duration) -> Result<Option<usize>, Down> {
        let reader = &mut self.reader;
        let read = self.wire.until(timeout, || {
            let over = reader.ring().peer_finished();
            let read = reader.read(into)?;
            Ok((read > 0 || into.is_empty() || over).then_some(read))
        })?;
        if self.reader.take_told() {
            self.wire.tell();
        }
        if self.reader.maybe_ready() {
            self.wire.clock.ring_own(self.wire.ready);
        }
        Ok(read)
    }

    fn finish(&mut self) {
        self.wire.finish();
    }
}
