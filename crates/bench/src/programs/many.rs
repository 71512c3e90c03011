//! Many connections that have been used and then rest: their memory and processor time.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use barewire_sys::process::cpu_time_self;

use super::memory::Memory;
use super::messages::Done;
use super::sockets::{accept, connect, wrong_result};
use crate::error::{Result, What};

const MESSAGE_BYTES: usize = 64;

/// Both ends' connections, and what they cost.
struct Many {
    streams: Vec<TcpStream>,
    before: Memory,
}

impl Many {
    fn make(count: u32, mut one: impl FnMut() -> Result<TcpStream>) -> Result<Many> {
        let before = Memory::own();
        let streams = (0..count).map(|_| one()).collect::<Result<_>>()?;
        Ok(Many { streams, before })
    }

    fn done(self, rest: Rest) -> Done {
        Done {
            operations: self.streams.len() as u64,
            cpu_ns: rest.cpu_ns,
            wall_ns: rest.wall_ns,
            memory: Some((self.before, rest.memory)),
            ..Done::default()
        }
    }
}

/// The time in which nothing happens.
struct Rest {
    memory: Memory,
    cpu_ns: f64,
    wall_ns: f64,
}

/// Rests, in whatever way `resting` does.
fn rest(resting: impl FnOnce() -> Result<()>) -> Result<Rest> {
    let memory = Memory::own();
    let (cpu, wall) = (cpu_time_self(), Instant::now());
    resting()?;
    Ok(Rest {
        memory,
        // Not 0, which stands for "not measured".
        cpu_ns: cpu_time_self().saturating_sub(cpu).as_nanos().max(1) as f64,
        wall_ns: wall.elapsed().as_nanos() as f64,
    })
}

fn ping(mut stream: &TcpStream, number: u32) -> Result<()> {
    let message = [number as u8; MESSAGE_BYTES];
    stream.write_all(&message).what("sending")?;
    let mut reply = [0; MESSAGE_BYTES];
    stream.read_exact(&mut reply).what("receiving")?;
    match reply == message {
        true => Ok(()),
        false => Err(wrong_result("another message came back")),
    }
}

fn pong(mut stream: &TcpStream) -> Result<()> {
    let mut message = [0; MESSAGE_BYTES];
    stream.read_exact(&mut message).what("receiving")?;
    stream.write_all(&message).what("sending")
}

/// The client: makes them, rests, and uses each once more.
pub fn play(port: u16, count: u32, rounds: u32, ms: u64) -> Result<Done> {
    let many = Many::make(count, || {
        let stream = connect(port)?;
        (0..rounds).try_for_each(|number| ping(&stream, number))?;
        Ok(stream)
    })?;
    // The server is on its way to its rest, too.
    std::thread::sleep(Duration::from_millis(50));
    let rest = rest(|| {
        std::thread::sleep(Duration::from_millis(ms));
        Ok(())
    })?;
    many.streams
        .iter()
        .try_for_each(|stream| ping(stream, rounds))?;
    Ok(many.done(rest))
}

/// The server: it rests in a read of the first connection.
pub fn serve(listener: &TcpListener, count: u32, rounds: u32) -> Result<Done> {
    let many = Many::make(count, || {
        let stream = accept(listener)?;
        (0..rounds).try_for_each(|_| pong(&stream))?;
        Ok(stream)
    })?;
    let Some((first, others)) = many.streams.split_first() else {
        return Err(wrong_result("no connections"));
    };
    let rest = rest(|| pong(first))?;
    others.iter().try_for_each(pong)?;
    Ok(many.done(rest))
}
