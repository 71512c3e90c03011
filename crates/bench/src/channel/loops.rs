//! The measuring loops, written once for every transport and compiled for each.
//!
//! The last byte of every message says whether it is the last of its sample, so both
//! ends stop together without any other word between them.

use barewire_units::Rng;

use crate::case::{REQUEST_BYTES, Test, Work};
use crate::channel::control::Served;
use crate::channel::ends::{
    Channel, ClientEnd, Context, ManyClient, ManyServer, Measured, ServerEnd,
};
use crate::error::Result;
use crate::measure::clock::Clock;

/// The mark of a sample's last message, in its last byte.
pub const LAST: u8 = 0xFF;

/// A stretch of a rate measurement is at least so long.
const STRETCH_NS: u64 = 1_000_000;

/// Writes a word of each line of a message, if it has to be new. The last byte is not touched.
#[inline(always)]
fn refresh(message: &mut [u8], work: &Work, number: u64) {
    if !work.habits.is_fresh {
        return;
    }
    for line in message.chunks_mut(64).filter(|line| line.len() > 1) {
        line[0] = number as u8;
    }
    std::hint::black_box(message);
}

/// Time that an end spends on something else.
struct Thinking {
    cycles: u64,
    random: Option<Rng>,
}

impl Thinking {
    fn new(ns: u64, work: &Work, clock: &Clock) -> Thinking {
        Thinking {
            cycles: clock.of_nanoseconds(ns),
            random: work.habits.is_random.then(|| Rng::from_seed(ns)),
        }
    }

    #[inline(always)]
    fn think(&mut self) {
        if self.cycles == 0 {
            return;
        }
        let cycles = match &mut self.random {
            Some(random) => random.below(2 * self.cycles + 1),
            None => self.cycles,
        };
        let begin = Clock::cycles();
        while Clock::cycles().wrapping_sub(begin) < cycles {}
    }
}

/// Round trips: sends, then looks at the clock while the message is under way, so that
/// timing each one costs nothing; what is recorded is the time from one look to the next.
pub fn rtt_client<C: Channel>(
    channel: &mut C,
    work: &Work,
    context: &mut Context,
) -> Result<Measured> {
    channel.set_waiting(work.waiting)?;
    let mut message = vec![0_u8; work.size];
    let mut reply = vec![0_u8; work.size];
    let last = work.size - 1;
    let mut thinking = Thinking::new(work.habits.client_think_ns, work, &context.clock);
    let histogram = context.scratch.start();
    let warm_up = context.clock.of_nanoseconds(work.duration_ns / 10);
    let begin = Clock::cycles();
    loop {
        channel.send(&message)?;
        channel.flush()?;
        channel.recv_exact(&mut reply)?;
        if Clock::cycles().wrapping_sub(begin) >= warm_up {
            break;
        }
    }
    let duration = context.clock.of_nanoseconds(work.duration_ns);
    let mut operations = 0_u64;
    channel.send(&message)?;
    channel.flush()?;
    let begin = Clock::cycles();
    let mut before = begin;
    loop {
        channel.recv_exact(&mut reply)?;
        thinking.think();
        refresh(&mut message, work, operations);
        channel.send(&message)?;
        channel.flush()?;
        let now = Clock::cycles();
        histogram.saturating_record(now.wrapping_sub(before));
        before = now;
        operations += 1;
        if now.wrapping_sub(begin) >= duration {
            break;
        }
    }
    channel.recv_exact(&mut reply)?;
    message[last] = LAST;
    channel.send(&message)?;
    channel.flush()?;
    channel.recv_exact(&mut reply)?;
    Ok(Measured::Client {
        operations,
        elapsed_ns: context.clock.nanoseconds(before.wrapping_sub(begin)),
    })
}

/// The echo.
pub fn rtt_server<C: Channel>(channel: &mut C, work: &Work, context: &Context) -> Result<Served> {
    channel.set_waiting(work.waiting)?;
    let mut thinking = Thinking::new(work.habits.server_think_ns, work, &context.clock);
    let mut message = vec![0_u8; work.size];
    let last = work.size - 1;
    loop {
        channel.recv_exact(&mut message)?;
        thinking.think();
        channel.send(&message)?;
        channel.flush()?;
        if message[last] == LAST {
            return Ok(Served::default());
        }
    }
}

/// One way: as many messages as fit through in the time; the receiver measures.
pub fn stream_client<C: Channel>(
    channel: &mut C,
    work: &Work,
    context: &mut Context,
) -> Result<Measured> {
    channel.set_waiting(work.waiting)?;
    let mut message = vec![0_u8; work.size];
    let per_look = (C::BYTES_PER_LOOK / work.size).max(1);
    let duration = context
        .clock
        .of_nanoseconds(work.duration_ns + work.duration_ns / 10);
    let begin = Clock::cycles();
    loop {
        for number in 0..per_look {
            refresh(&mut message, work, number as u64);
            channel.send(&message)?;
        }
        if Clock::cycles().wrapping_sub(begin) >= duration {
            break;
        }
    }
    message[work.size - 1] = LAST;
    channel.send(&message)?;
    channel.flush()?;
    // One byte back says that everything has arrived.
    channel.recv_exact(&mut [0_u8; 8])?;
    Ok(Measured::Server)
}

/// Receives the stream, and measures from the end of the warm-up to the last message.
pub fn stream_server<C: Channel>(
    channel: &mut C,
    work: &Work,
    context: &mut Context,
) -> Result<Served> {
    channel.set_waiting(work.waiting)?;
    let mut buffer = vec![0_u8; work.size.max(64 * 1024)];
    let clock = context.clock;
    let warm_up = clock.of_nanoseconds(work.duration_ns / 10);
    let stretch = clock.of_nanoseconds(STRETCH_NS);
    let mut stretches_ps = Vec::with_capacity(1024);
    let (mut total, mut since_look) = (0_usize, 0_usize);
    let (mut counted, mut stretch_bytes) = (0_usize, 0_usize);
    let mut first = 0_u64;
    let (mut begin, mut stretch_begin) = (None, 0_u64);
    let mut end;
    loop {
        let got = channel.recv_some(&mut buffer, work.size)?;
        total += got;
        since_look += got;
        let finished = total % work.size == 0 && buffer[got - 1] == LAST;
        if since_look < C::BYTES_PER_LOOK && !finished {
            continue;
        }
        end = Clock::cycles();
        if begin.is_some() {
            counted += since_look;
            stretch_bytes += since_look;
            if end.wrapping_sub(stretch_begin) >= stretch && stretches_ps.len() < 1024 {
                let picoseconds = clock.picoseconds(end.wrapping_sub(stretch_begin)) as f64;
                let per_message = picoseconds * work.size as f64 / stretch_bytes as f64;
                stretches_ps.push(per_message as u64);
                stretch_bytes = 0;
                stretch_begin = end;
            }
        } else if first == 0 {
            first = end;
        } else if end.wrapping_sub(first) >= warm_up {
            begin = Some(end);
            stretch_begin = end;
        }
        since_look = 0;
        if finished {
            break;
        }
    }
    channel.send(&[LAST; 8])?;
    channel.flush()?;
    let elapsed = begin.map_or(0, |begin| end.wrapping_sub(begin));
    Ok(Served {
        operations: (counted / work.size) as u64,
        elapsed_ns: clock.nanoseconds(elapsed),
        stretches_ps,
        ..Served::default()
    })
}

/// Transactions on many connections, several outstanding on each.
pub fn transactions_client<M: ManyClient>(
    many: &mut M,
    work: &Work,
    context: &mut Context,
) -> Result<Measured> {
    many.set_waiting(work.waiting)?;
    let request = [0_u8; REQUEST_BYTES];
    let histogram = context.scratch.start();
    let clock = context.clock;
    let in_flight = u64::from(work.connections) * u64::from(work.outstanding);
    let mut ready = Vec::with_capacity(work.connections.min(4096) as usize);
    for connection in 0..work.connections {
        many.send(connection, &request, work.outstanding)?;
    }
    let (mut sent, mut answered) = (in_flight, 0_u64);
    let duration = clock.of_nanoseconds(work.duration_ns);
    let warm_up = clock.of_nanoseconds(work.duration_ns / 10);
    let longest_warm_up = duration * 4;
    let stretch = clock.of_nanoseconds(STRETCH_NS);
    let start = Clock::cycles();
    let mut window: Option<(u64, u64)> = None;
    let (mut stretch_begin, mut stretch_operations) = (0, 0);
    let (operations, elapsed) = loop {
        ready.clear();
        many.replies(&mut ready)?;
        let mut got = 0;
        for &(connection, count) in &ready {
            got += u64::from(count);
            many.send(connection, &request, count)?;
        }
        answered += got;
        sent += got;
        let now = Clock::cycles();
        let Some((begin, answered_before)) = window else {
            let waited = now.wrapping_sub(start);
            if (waited >= warm_up && answered >= in_flight) || waited >= longest_warm_up {
                window = Some((now, answered));
                stretch_begin = now;
            }
            continue;
        };
        stretch_operations += got;
        if stretch_operations > 0 && now.wrapping_sub(stretch_begin) >= stretch {
            let picoseconds = clock.picoseconds(now.wrapping_sub(stretch_begin));
            let each = picoseconds / stretch_operations;
            histogram.saturating_record(clock.of_nanoseconds(each) / 1000);
            stretch_begin = now;
            stretch_operations = 0;
        }
        let elapsed = now.wrapping_sub(begin);
        if elapsed >= duration {
            break (answered - answered_before, elapsed);
        }
    };
    end_transactions(many, sent - answered)?;
    Ok(Measured::Client {
        operations,
        elapsed_ns: clock.nanoseconds(elapsed),
    })
}

/// Takes the replies that are under way, and has the server end its sample.
fn end_transactions<M: ManyClient>(many: &mut M, mut under_way: u64) -> Result<()> {
    let mut ready = Vec::new();
    while under_way > 0 {
        many.replies(&mut ready)?;
        let counts = ready.drain(..).map(|(_, count)| u64::from(count));
        under_way -= counts.sum::<u64>();
    }
    let mut request = [0_u8; REQUEST_BYTES];
    request[REQUEST_BYTES - 1] = LAST;
    many.send(0, &request, 1)?;
    while ready.is_empty() {
        many.replies(&mut ready)?;
    }
    Ok(())
}

/// Answers requests until the last one.
pub fn transactions_server<M: ManyServer>(many: &mut M, work: &Work) -> Result<Served> {
    many.set_waiting(work.waiting)?;
    while !many.turn()? {}
    Ok(Served::default())
}

/// Both ends of a channel are alike; this gives each its loops.
pub struct End<C>(pub C);

impl<C: Channel> ClientEnd for End<C> {
    fn measure(&mut self, work: &Work, context: &mut Context) -> Result<Measured> {
        match work.test {
            Test::Stream => stream_client(&mut self.0, work, context),
            _ => rtt_client(&mut self.0, work, context),
        }
    }
}

impl<C: Channel> ServerEnd for End<C> {
    fn serve(&mut self, work: &Work, context: &mut Context) -> Result<Served> {
        match work.test {
            Test::Stream => stream_server(&mut self.0, work, context),
            _ => rtt_server(&mut self.0, work, context),
        }
    }
}
