//! What this machine can do at best: the raw kernels of `barewire_shm::bare`, and the
//! kernel's own ways to wake a process, with no protocol around them.
//!
//! - `ping-pong`: one cache line, stored by each side in turn.
//! - `exchange`: a message copied into shared memory, a flag, the message copied out;
//!   64 places in turn.
//! - `exchange-nt`: the same, copied in past the caches, by non-temporal stores;
//! - `kernel-copy`: the receiver has the kernel copy from the sender's memory;
//! - `ring-10k`, `ring-64k`, `ring-64k-nt`, `ring-1m`, `ring-4m`: a ring of fixed slots with a sequence word in each; larger
//!   messages go in pieces of a slot.
//! - `eventfd`, `futex`: both sides sleep and wake each other.

use barewire_shm::bare::{Buffer, Line, RingConsumer, RingProducer, TwoCopyRing};
use barewire_shm::region::Region;

use crate::case::{ChannelSpec, REQUEST_BYTES, Variant, Waiting, Work};
use crate::channel::control::{Control, Served};
use crate::channel::ends::{
    Channel, ClientEnd, Context, ManyClient, ManyServer, Measured, ServerEnd, Side,
};
use crate::channel::loops::{self, End, LAST};
use crate::channel::shared_memory::{share, take_share};
use crate::error::{Error, Result};
use crate::measure::spin::BoundedSpin;
use crate::transport::kernel_copy::KernelCopy;
use crate::transport::wakers::{EventPair, FutexPair};

/// The largest piece in which a ring carries a message, and the bytes of the ring.
fn ring_shape(variant: Variant) -> (usize, usize) {
    match variant {
        Variant::Ring10k => (4096, 10 * 1024),
        Variant::Ring1m => (64 * 1024 - 8, 1024 * 1024),
        Variant::Ring4m => (64 * 1024 - 8, 4 << 20),
        _ => (4096, 64 * 1024),
    }
}

fn too_small() -> Error {
    Error::Transport("the shared memory is too small".into())
}

/// One line, stored by each side in turn: the shortest round trip there is.
#[derive(Debug)]
pub struct PingPong {
    line: Line,
    sequence: u64,
    spin: BoundedSpin,
}

impl PingPong {
    /// Over the first line of the region.
    pub fn new(region: &Region) -> Result<PingPong> {
        Ok(PingPong {
            line: Line::new(region, 0).ok_or_else(too_small)?,
            sequence: 0,
            spin: BoundedSpin::new("the bare ping-pong"),
        })
    }

    /// Stores the next value, with a mark.
    #[inline(always)]
    pub fn store(&mut self, mark: bool) {
        self.sequence += 1;
        self.line.store(self.sequence << 1 | u64::from(mark));
    }

    /// Waits for the other side's next value; its mark.
    #[inline(always)]
    pub fn wait(&mut self) -> Result<bool> {
        let next = self.sequence + 1;
        loop {
            let value = self.line.load();
            if value >> 1 == next {
                self.sequence = next;
                self.spin.reset();
                return Ok(value & 1 == 1);
            }
            self.spin.turn()?;
        }
    }
}

impl Channel for PingPong {
    const BYTES_PER_LOOK: usize = 0;

    fn set_waiting(&mut self, _: Waiting) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.store(message[message.len() - 1] == LAST);
        Ok(())
    }

    #[inline(always)]
    fn recv_exact(&mut self, message: &mut [u8]) -> Result<()> {
        let last = message.len() - 1;
        message[last] = if self.wait()? { LAST } else { 0 };
        Ok(())
    }
}

/// A message copied in and copied out, [`EXCHANGE_PLACES`] places for it per direction,
/// used in turn as any queue has to. Up to 56 bytes lie in the line of the flag.
#[derive(Debug)]
pub struct Exchange {
    out: Places,
    into: Places,
    sent: u64,
    received: u64,
    is_past_caches: bool,
    spin: BoundedSpin,
}

/// Places of an exchange; fewer for messages so long that they would fill a cache.
const EXCHANGE_PLACES: usize = 64;
/// Most bytes of all places of one direction.
const EXCHANGE_BYTES_MAX: usize = 8 << 20;

/// The places of one direction.
#[derive(Debug)]
struct Places(Vec<(Line, Buffer)>);

impl Places {
    fn new(region: &Region, begin: usize, size: usize) -> Option<Places> {
        let stride = Exchange::stride(size);
        let places = (0..Exchange::places(size)).map(|number| {
            let offset = begin + number * stride;
            let line = Line::new(region, offset)?;
            Some((line, Buffer::new(region, offset + 8, size)?))
        });
        places.collect::<Option<Vec<_>>>().map(Places)
    }

    #[inline(always)]
    fn at(&self, number: u64) -> &(Line, Buffer) {
        &self.0[number as usize % self.0.len()]
    }
}

impl Exchange {
    fn stride(size: usize) -> usize {
        (8 + size).next_multiple_of(64)
    }

    fn places(size: usize) -> usize {
        EXCHANGE_PLACES
            .min(EXCHANGE_BYTES_MAX / Exchange::stride(size))
            .max(1)
    }

    fn half(size: usize) -> usize {
        (Exchange::stride(size) * Exchange::places(size)).next_multiple_of(4096)
    }

    fn new(region: &Region, variant: Variant, size: usize, side: Side) -> Result<Exchange> {
        let there = Places::new(region, 0, size).ok_or_else(too_small)?;
        let back = Places::new(region, Exchange::half(size), size).ok_or_else(too_small)?;
        let (out, into) = match side {
            Side::Client => (there, back),
            Side::Server => (back, there),
        };
        Ok(Exchange {
            out,
            into,
            sent: 0,
            received: 0,
            is_past_caches: variant == Variant::ExchangeNt,
            spin: BoundedSpin::new("the bare exchange"),
        })
    }
}

impl Channel for Exchange {
    const BYTES_PER_LOOK: usize = 0;

    fn set_waiting(&mut self, _: Waiting) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.sent += 1;
        let (line, buffer) = self.out.at(self.sent);
        if self.is_past_caches {
            buffer.copy_in_past_caches(message);
        } else {
            buffer.copy_in(message);
        }
        line.store(self.sent);
        Ok(())
    }

    #[inline(always)]
    fn recv_exact(&mut self, message: &mut [u8]) -> Result<()> {
        self.received += 1;
        let (line, buffer) = self.into.at(self.received);
        while line.load() != self.received {
            self.spin.turn()?;
        }
        self.spin.reset();
        buffer.copy_out(message);
        Ok(())
    }
}

/// A ring per direction.
#[derive(Debug)]
pub struct Rings {
    out: RingProducer,
    into: RingConsumer,
    piece: usize,
    spin: BoundedSpin,
}

impl Rings {
    fn new(region: &Region, variant: Variant, size: usize, side: Side) -> Result<Rings> {
        let (piece, ring_bytes) = ring_shape(variant);
        let piece = size.min(piece);
        let ring = |offset| {
            let ring = TwoCopyRing::new(region, offset, ring_bytes, piece)?;
            Some(match variant {
                Variant::Ring64kNt => ring.past_caches(),
                _ => ring,
            })
        };
        let there = ring(0).ok_or_else(too_small)?;
        let back = ring(Rings::half(ring_bytes)).ok_or_else(too_small)?;
        let (out, into) = match side {
            Side::Client => (there, back),
            Side::Server => (back, there),
        };
        Ok(Rings {
            out: out.producer(),
            into: into.consumer(),
            piece,
            spin: BoundedSpin::new("the bare ring"),
        })
    }

    fn half(ring_bytes: usize) -> usize {
        (64 + ring_bytes).next_multiple_of(4096)
    }

    #[inline(always)]
    fn push(&mut self, piece: &[u8]) -> Result<()> {
        while !self.out.try_push(piece) {
            self.spin.turn()?;
        }
        self.spin.reset();
        Ok(())
    }

    #[inline(always)]
    fn pop(&mut self, piece: &mut [u8]) -> Result<()> {
        while !self.into.try_pop(piece) {
            self.spin.turn()?;
        }
        self.spin.reset();
        Ok(())
    }
}

impl Channel for Rings {
    const BYTES_PER_LOOK: usize = 16 * 1024;

    fn set_waiting(&mut self, _: Waiting) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Result<()> {
        if message.len() <= self.piece {
            return self.push(message);
        }
        for piece in message.chunks(self.piece) {
            self.push(piece)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn recv_exact(&mut self, message: &mut [u8]) -> Result<()> {
        if message.len() <= self.piece {
            return self.pop(message);
        }
        let piece = self.piece;
        for part in message.chunks_mut(piece) {
            self.pop(part)?;
        }
        Ok(())
    }
}

impl ManyClient for Rings {
    fn set_waiting(&mut self, _: Waiting) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn send(&mut self, _connection: u32, request: &[u8], count: u32) -> Result<()> {
        for _ in 0..count {
            self.push(request)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn replies(&mut self, ready: &mut Vec<(u32, u32)>) -> Result<()> {
        let mut reply = [0; REQUEST_BYTES];
        self.pop(&mut reply)?;
        let mut count = 1;
        while count < 16 && self.into.try_pop(&mut reply) {
            count += 1;
        }
        ready.push((0, count));
        Ok(())
    }
}

impl ManyServer for Rings {
    fn set_waiting(&mut self, _: Waiting) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn turn(&mut self) -> Result<bool> {
        let mut request = [0; REQUEST_BYTES];
        self.pop(&mut request)?;
        self.push(&request)?;
        Ok(request[REQUEST_BYTES - 1] == LAST)
    }
}

/// The same for transactions.
struct ManyEnd<M>(M);

impl<M: ManyClient> ClientEnd for ManyEnd<M> {
    fn measure(&mut self, work: &Work, context: &mut Context) -> Result<Measured> {
        // One ring stands for all connections, so the window may not exceed it.
        let window = (work.connections * work.outstanding).min(256);
        let work = Work {
            connections: 1,
            outstanding: window,
            ..*work
        };
        loops::transactions_client(&mut self.0, &work, context)
    }
}

impl<M: ManyServer> ServerEnd for ManyEnd<M> {
    fn serve(&mut self, work: &Work, _: &mut Context) -> Result<Served> {
        loops::transactions_server(&mut self.0, work)
    }
}

fn region_bytes(spec: &ChannelSpec) -> usize {
    match spec.variant {
        Variant::Exchange | Variant::ExchangeNt => 2 * Exchange::half(spec.size),
        Variant::Ring10k
        | Variant::Ring64k
        | Variant::Ring64kNt
        | Variant::Ring1m
        | Variant::Ring4m => 2 * Rings::half(ring_shape(spec.variant).1),
        _ => 4096,
    }
}

/// One side of what needs shared memory.
enum Bare {
    Exchange(Exchange),
    KernelCopy(KernelCopy),
    Rings(Rings),
    Futex(FutexPair),
    PingPong(PingPong),
}

impl Bare {
    fn open(region: &Region, spec: &ChannelSpec, side: Side) -> Result<Bare> {
        Ok(match spec.variant {
            Variant::Exchange | Variant::ExchangeNt => {
                Bare::Exchange(Exchange::new(region, spec.variant, spec.size, side)?)
            }
            Variant::Ring10k
            | Variant::Ring64k
            | Variant::Ring64kNt
            | Variant::Ring1m
            | Variant::Ring4m => Bare::Rings(Rings::new(region, spec.variant, spec.size, side)?),
            Variant::KernelCopy => Bare::KernelCopy(KernelCopy::new(region, side)?),
            Variant::Futex => Bare::Futex(FutexPair::new(region, side)?),
            _ => Bare::PingPong(PingPong::new(region)?),
        })
    }
}

/// Makes the shared memory and opens the client's end.
pub fn open_client(spec: &ChannelSpec, control: &Control) -> Result<Box<dyn ClientEnd>> {
    if spec.variant == Variant::Eventfd {
        return Ok(Box::new(End(EventPair::open_client(control)?)));
    }
    let region = share("barewire-bench-limit", region_bytes(spec), control)?;
    Ok(match Bare::open(&region, spec, Side::Client)? {
        Bare::Exchange(exchange) => Box::new(End(exchange)),
        Bare::KernelCopy(copy) => Box::new(End(copy)),
        Bare::Rings(rings) if spec.many.is_some() => Box::new(ManyEnd(rings)),
        Bare::Rings(rings) => Box::new(End(rings)),
        Bare::Futex(pair) => Box::new(End(pair)),
        Bare::PingPong(line) => Box::new(End(line)),
    })
}

/// Maps the shared memory and opens the server's end.
pub fn open_server(spec: &ChannelSpec, control: &Control) -> Result<Box<dyn ServerEnd>> {
    if spec.variant == Variant::Eventfd {
        return Ok(Box::new(End(EventPair::open_server(control)?)));
    }
    let region = take_share(region_bytes(spec), control)?;
    Ok(match Bare::open(&region, spec, Side::Server)? {
        Bare::Exchange(exchange) => Box::new(End(exchange)),
        Bare::KernelCopy(copy) => Box::new(End(copy)),
        Bare::Rings(rings) if spec.many.is_some() => Box::new(ManyEnd(rings)),
        Bare::Rings(rings) => Box::new(End(rings)),
        Bare::Futex(pair) => Box::new(End(pair)),
        Bare::PingPong(line) => Box::new(End(line)),
    })
}
