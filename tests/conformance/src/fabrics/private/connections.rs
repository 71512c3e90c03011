//! Connections of the private fabric: the real queue and stream over its windows.

use std::thread;
use std::time::{Duration, Instant};

use barewire_fabric::aperture::{ByteStream, Received, Transport};
use barewire_fabric::frame::{STATE_DEAF, STATE_FINISHED, region_bytes};
use barewire_fabric::queue::Next;
use barewire_fabric::ring::publish_state;
use barewire_fabric::{
    MessageReceiver, MessageSender, RingReceiver, RingSender, SendProgress, StreamReceiver,
    StreamSender, Violation,
};
use barewire_shm::{Region, Window};

use super::{Private, Queue, flaw};
use crate::fabric::Connections;

/// Why a private connection refuses.
#[derive(Debug)]
pub enum Refused {
    /// A message longer than a megabyte.
    TooLong,
    /// This end has finished, or the other end is gone.
    Closed,
    /// No room in time.
    Timeout,
    /// The other end broke the protocol.
    Violation(Violation),
}

impl From<Violation> for Refused {
    fn from(violation: Violation) -> Refused {
        Refused::Violation(violation)
    }
}

const MESSAGE_MAX: usize = 1 << 20;

/// One end of a private connection: the real message queue over private windows.
pub struct Line<const FLAW: u8> {
    sender: MessageSender<Window, Window>,
    receiver: MessageReceiver<Window, Window>,
    /// For the state word.
    out: Window,
    far: Queue<FLAW>,
    own: Queue<FLAW>,
    finished: bool,
    /// A message that a flaw keeps back.
    kept: Option<Vec<u8>>,
    sent: u64,
}

impl<const FLAW: u8> Line<FLAW> {
    fn tell(&self) {
        if FLAW != flaw::SILENT {
            self.far.change(|events| {
                events.ready.insert(0);
            });
        }
    }

    /// What a flaw makes of a message; `None` keeps it back.
    fn spoilt(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        self.sent += 1;
        let before = self.kept.take();
        let last_words = FLAW == flaw::LOSES_THE_LAST;
        match before {
            None if last_words => {
                self.kept = Some(message.to_vec());
                None
            }
            None if matches!(FLAW, flaw::SWAPS | flaw::MERGES) && self.sent % 40 == 0 => {
                self.kept = Some(message.to_vec());
                None
            }
            None => Some(message.to_vec()),
            Some(before) if last_words => {
                self.kept = Some(message.to_vec());
                Some(before)
            }
            Some(before) if FLAW == flaw::MERGES => Some([before, message.to_vec()].concat()),
            Some(before) => {
                self.kept = Some(before);
                Some(message.to_vec())
            }
        }
    }

    fn check(&mut self, message: &[u8]) -> Result<(), Refused> {
        if self.finished || self.sender.ring().peer_deaf() {
            return Err(Refused::Closed);
        }
        if message.len() > MESSAGE_MAX {
            return Err(Refused::TooLong);
        }
        Ok(())
    }
}

impl<const FLAW: u8> Transport for Line<FLAW> {
    type Error = Refused;

    fn number(&self) -> u64 {
        0
    }
    fn message_bytes_max(&self) -> usize {
        MESSAGE_MAX
    }
    fn try_send(&mut self, message: &[u8]) -> Result<bool, Refused> {
        self.check(message)?;
        if message.len() > self.sender.ring().frame_bytes_max() {
            let room = self.sender.ring().has_room_for_message(message.len())?;
            return Ok(room && self.send(message, Duration::ZERO).is_ok());
        }
        let sent = self.sender.send_frame(message)?;
        if sent {
            self.tell();
        }
        Ok(sent)
    }
    fn send(&mut self, message: &[u8], timeout: Duration) -> Result<(), Refused> {
        self.check(message)?;
        let Some(message) = self.spoilt(message) else {
            return Ok(());
        };
        let started = Instant::now();
        let mut progress = SendProgress::default();
        while !self.sender.send_part(&message, &mut progress)? {
            self.tell();
            if started.elapsed() > timeout || self.sender.ring().peer_deaf() {
                return Err(Refused::Timeout);
            }
            thread::yield_now();
        }
        self.tell();
        Ok(())
    }
    fn try_recv(&mut self, into: &mut Vec<u8>) -> Result<Received, Refused> {
        let over = self.receiver.ring().peer_finished();
        let next = self.receiver.next_message()?;
        match &next {
            Next::Nothing if over => return Ok(Received::Finished),
            Next::Nothing => return Ok(Received::Nothing),
            Next::InPlace(at) => {
                into.resize(at.len_bytes, 0);
                self.receiver.copy_out(at, into);
            }
            Next::Assembled => {
                into.clear();
                into.extend_from_slice(self.receiver.assembled());
            }
        }
        self.receiver.done(&next);
        if self.receiver.maybe_ready() {
            // Told again of the rest.
            self.own.change(|events| {
                events.ready.insert(0);
            });
        }
        Ok(Received::Message)
    }
    fn recv(&mut self, into: &mut Vec<u8>, timeout: Duration) -> Result<Received, Refused> {
        let started = Instant::now();
        loop {
            let received = self.try_recv(into)?;
            if received != Received::Nothing || started.elapsed() > timeout {
                return Ok(received);
            }
            thread::yield_now();
        }
    }
    fn finish(&mut self) {
        self.finished = true;
        publish_state(&self.out, STATE_FINISHED);
        self.tell();
    }
}

impl<const FLAW: u8> Drop for Line<FLAW> {
    fn drop(&mut self) {
        publish_state(&self.out, STATE_FINISHED | STATE_DEAF);
        self.tell();
    }
}

/// One end of a private byte stream.
pub struct PrivateStream<const FLAW: u8> {
    writer: StreamSender<Window, Window>,
    reader: StreamReceiver<Window, Window>,
    out: Window,
    written: usize,
}

impl<const FLAW: u8> ByteStream for PrivateStream<FLAW> {
    type Error = Violation;

    fn write(&mut self, bytes: &[u8], timeout: Duration) -> Result<usize, Violation> {
        let started = Instant::now();
        loop {
            let written = self.writer.write(bytes)?;
            if written > 0 || bytes.is_empty() || started.elapsed() > timeout {
                self.written += written;
                return Ok(written);
            }
            thread::yield_now();
        }
    }
    fn read(&mut self, into: &mut [u8], timeout: Duration) -> Result<Option<usize>, Violation> {
        let started = Instant::now();
        loop {
            let over = self.reader.ring().peer_finished();
            let mut read = self.reader.read(into)?;
            if FLAW == flaw::LOSES_BYTES && read > 100 {
                into.copy_within(51..read, 50);
                read -= 1;
            }
            if read > 0 || into.is_empty() || over {
                return Ok(Some(read));
            }
            if started.elapsed() > timeout {
                return Ok(None);
            }
            thread::yield_now();
        }
    }
    fn finish(&mut self) {
        publish_state(&self.out, STATE_FINISHED);
    }
}

impl<const FLAW: u8> Connections for Private<FLAW> {
    type End = Line<FLAW>;
    type Stream = PrivateStream<FLAW>;
    type Queue = Queue<FLAW>;

    fn connection(ring_bytes: usize) -> [(Line<FLAW>, Queue<FLAW>); 2] {
        let region = || Region::private(region_bytes(ring_bytes)).whole();
        let (to_b, to_a) = (region(), region());
        let queues: [Queue<FLAW>; 2] = Default::default();
        let line = |out: &Window, inn: &Window, own: &Queue<FLAW>, far: &Queue<FLAW>| Line {
            sender: MessageSender::new(RingSender::new(out.clone(), inn.clone(), ring_bytes)),
            receiver: MessageReceiver::new(
                RingReceiver::new(inn.clone(), out.clone(), ring_bytes),
                MESSAGE_MAX,
            ),
            out: out.clone(),
            far: far.clone(),
            own: own.clone(),
            finished: false,
            kept: None,
            sent: 0,
        };
        let a = line(&to_b, &to_a, &queues[0], &queues[1]);
        let b = line(&to_a, &to_b, &queues[1], &queues[0]);
        let [qa, qb] = queues;
        [(a, qa), (b, qb)]
    }

    fn stream(ring_bytes: usize) -> [(PrivateStream<FLAW>, Queue<FLAW>); 2] {
        let region = || Region::private(region_bytes(ring_bytes)).whole();
        let (to_b, to_a) = (region(), region());
        [(&to_b, &to_a), (&to_a, &to_b)].map(|(out, inn)| {
            let writer = RingSender::new(out.clone(), inn.clone(), ring_bytes);
            let reader = RingReceiver::new(inn.clone(), out.clone(), ring_bytes);
            let stream = PrivateStream {
                writer: StreamSender::new(writer),
                reader: StreamReceiver::new(reader),
                out: out.clone(),
                written: 0,
            };
            (stream, Queue::default())
        })
    }
}
