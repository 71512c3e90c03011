//! First in, first out, up to a limit in packets or in bytes (`pfifo`, `bfifo`).

use alloc::collections::VecDeque;

use barewire_units::Instant;

use super::qdisc::{DropReason, Dropped, Limit, Packet, Qdisc, Stats};

/// A queue without shaping.
#[derive(Clone, Debug)]
pub struct Fifo {
    limit: Limit,
    queue: VecDeque<Packet>,
    stats: Stats,
}

impl Fifo {
    /// An empty queue.
    #[must_use]
    pub fn new(limit: Limit) -> Self {
        Self {
            limit,
            queue: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// The packet that `dequeue` would return.
    #[must_use]
    pub fn head(&self) -> Option<&Packet> {
        self.queue.front()
    }

    /// Takes the packet at the head.
    pub fn pop(&mut self) -> Option<Packet> {
        let packet = self.queue.pop_front()?;
        self.stats.note_sent(packet.len_bytes);
        Some(packet)
    }

    /// Puts `packet` at the tail.
    ///
    /// # Errors
    ///
    /// The packet again, where the queue is full.
    pub fn push(&mut self, packet: Packet) -> Result<(), Dropped> {
        let queued = self.stats.queued;
        let (queued, full) = match self.limit {
            Limit::Packets(packets) => (queued.packets, queued.packets >= u64::from(packets)),
            Limit::Bytes(limit) => {
                let after = queued.bytes.saturating_add(u64::from(packet.len_bytes));
                let limit = limit.as_bytes();
                // Packets without bytes must not pile up either.
                (queued.bytes, after > limit || queued.packets >= limit)
            }
        };
        if full {
            let limit = self.limit;
            return self.drop(packet, DropReason::QueueFull { queued, limit });
        }
        self.stats.note_enqueue(packet.len_bytes, &Ok::<(), ()>(()));
        self.queue.push_back(packet);
        Ok(())
    }

    /// Counts `packet` as dropped for `reason`.
    ///
    /// # Errors
    ///
    /// Always: the packet and the reason.
    pub fn drop(&mut self, packet: Packet, reason: DropReason) -> Result<(), Dropped> {
        self.stats.note_enqueue(packet.len_bytes, &Err(()));
        Err(Dropped { packet, reason })
    }
}

impl Qdisc for Fifo {
    fn enqueue(&mut self, _now: Instant, packet: Packet) -> Result<(), Dropped> {
        self.push(packet)
    }

    fn dequeue(&mut self, _now: Instant) -> Option<Packet> {
        self.pop()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.head().map(|_| Instant::ORIGIN)
    }

    fn wake(&mut self) {}

    fn stats(&self) -> Stats {
        self.stats
    }
}
