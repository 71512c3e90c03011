//! Times round trips in Rust, as `c/round_trip.c` does in C: `scripts/bench-c.sh` runs both in turn.
//!
//! ```sh
//! round_trip serve NAME           # sends every message back, until the client has finished
//! round_trip call NAME BYTES      # prints the median of the time there and back, in nanoseconds
//! ```

use std::time::Instant;

use barewire::{Error, Node};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const BATCHES: usize = 400;
const TRIPS: u32 = 1000;

fn main() -> Result {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", name] => serve(name),
        ["call", name, bytes] => call(name, bytes.parse()?),
        _ => Err("usage: round_trip serve NAME | call NAME BYTES".into()),
    }
}

fn serve(name: &str) -> Result {
    let node = Node::new()?;
    let _listener = node.listen(name)?;
    let mut connection = node.next_request(None)?.accept()?;
    let mut buffer = [0; 4096];
    loop {
        match connection.recv(&mut buffer) {
            Ok(len) => connection.send(&buffer[..len])?,
            Err(Error::Finished) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn call(name: &str, bytes: usize) -> Result {
    let node = Node::new()?;
    let mut connection = node.connect(name)?;
    let (message, mut buffer) = (vec![7; bytes], [0; 4096]);
    let mut times = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let started = Instant::now();
        for _ in 0..TRIPS {
            connection.send(&message)?;
            if connection.recv(&mut buffer)? != bytes {
                return Err("another message came back".into());
            }
        }
        times.push(started.elapsed().as_secs_f64() * 1e9 / f64::from(TRIPS));
    }
    times.sort_unstable_by(f64::total_cmp);
    println!("{:.1}", times[BATCHES / 2]);
    Ok(())
}
