//! `barewire stream`: how fast a stream of bytes goes to a host and back, as netperf measures it.
//!
//! | file | what it has |
//! |---|---|
//! | `common.rs` | limits and errors |
//! | `transport.rs` | a connection of the kernel's TCP or of barewire, as the test needs it |
//! | `order.rs` | what the two ends say to each other |
//! | `flow.rs` | the data: written for a time, read to the end |
//! | `serve.rs` | the end that listens |
//!
//! One connection is a test in one direction: the end that begins orders it, data flow for the
//! time asked, and who received says what arrived. Both directions are two connections at a
//! time. The other end is trusted with nothing: what it asks is checked against limits, and
//! an end that says or does nothing for some seconds is given up.

mod common;
mod flow;
mod order;
mod serve;
mod transport;

use barewire_units::ByteSize;
use clap::{Args, ValueEnum};
use serde::Serialize;

pub use common::StreamError;
use common::{Over, Result, doing};
use flow::{consume, produce};
use order::Order;

pub const AFTER: &str = "\
Examples:
  barewire stream --listen                            at the one host, until it is stopped
  barewire stream db7                                 at the other: ten seconds to it
  barewire stream db7 --direction both --time '30 s'
  barewire stream db7 --buffer '528288 B' --message '64 KiB' --no-nagle
  barewire stream --listen --over barewire            programs of one host, through shared memory
  barewire stream stream --over barewire --json

The port is 7299 unless HOST:PORT names one. Whoever can reach the port can have this host receive and send; it
listens to 127.0.0.1 unless --listen names an address, and to this user alone with --over barewire.";

/// How fast a stream goes to a host and back, over the kernel's TCP or barewire
#[derive(Clone, Debug, Args)]
pub struct StreamArgs {
    /// The other end, where `barewire stream --listen` runs: HOST, HOST:PORT, or with --over
    /// barewire its name
    #[arg(value_name = "HOST", required_unless_present = "listen")]
    host: Option<String>,
    /// Be the other end until stopped, at this address (default port 7299 of 127.0.0.1), or with
    /// --over barewire under this name
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "", conflicts_with = "host")]
    listen: Option<String>,
    /// What carries the bytes
    #[arg(long, value_enum, default_value_t)]
    over: Over,
    /// Direction, as seen from here
    #[arg(long, value_enum, default_value_t)]
    direction: Directions,
    /// How long to measure
    #[arg(long, value_name = "TIME", default_value = "10 s")]
    time: barewire_units::Duration,
    /// Bytes in each write
    #[arg(long, value_name = "SIZE", default_value = "64 KiB")]
    message: ByteSize,
    /// Send and receive buffer of the sockets at both ends, or barewire's rings (a power of two)
    /// [default: the kernel's; 256 KiB]
    #[arg(long, value_name = "SIZE")]
    buffer: Option<ByteSize>,
    /// Set TCP_NODELAY at both ends: send the rest of a message without waiting for
    /// acknowledgements
    #[arg(long)]
    no_nagle: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Directions {
    /// To the other end
    #[default]
    Send,
    /// From it
    Receive,
    /// Both at once, each over its own connection
    Both,
}

/// One direction's result.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    direction: &'static str,
    bytes: u64,
    seconds: f64,
    rate_mbit_s: f64,
    /// What the sockets have after the kernel's own limits: `None` where there are none.
    send_buffer_bytes: Option<u64>,
    receive_buffer_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    format: u32,
    over: &'static str,
    to: &'a str,
    message_bytes: u64,
    buffer_bytes: Option<u64>,
    nagle: bool,
    directions: &'a [Measured],
}

/// Does it.
pub fn run(args: &StreamArgs) -> Result<()> {
    if let Some(at) = &args.listen {
        return serve::serve(args.over, Some(at.as_str()).filter(|at| !at.is_empty()));
    }
    let host = args.host.as_deref().unwrap_or_default();
    let orders = orders(args)?;
    let measured = std::thread::scope(|scope| {
        let threads: Vec<_> = orders
            .iter()
            .map(|order| scope.spawn(move || measure(args.over, host, order)))
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        let ended =
            ended.map(|it| it.unwrap_or_else(|_| Err(StreamError::Peer("broke off".into()))));
        ended.collect::<Result<Vec<_>>>()
    })?;
    show(args, host, &measured)
}

/// The tests to order, one for each direction.
fn orders(args: &StreamArgs) -> Result<Vec<Order>> {
    let order = |sends| Order {
        sends,
        time_ms: args.time.as_ps() / 1_000_000_000,
        message_bytes: args.message.as_bytes(),
        buffer_bytes: args.buffer.map_or(0, ByteSize::as_bytes),
        nagle: !args.no_nagle,
    };
    let directions: &[bool] = match args.direction {
        Directions::Send => &[true],
        Directions::Receive => &[false],
        Directions::Both => &[true, false],
    };
    let orders: Vec<Order> = directions.iter().map(|&sends| order(sends)).collect();
    for order in &orders {
        order.check().map_err(StreamError::Usage)?;
        if args.over == Over::Barewire {
            transport::check_ring(order.buffer_bytes).map_err(StreamError::Usage)?;
        }
    }
    Ok(orders)
}

/// Orders a test, takes part in it and gives what was received.
fn measure(over: Over, host: &str, order: &Order) -> Result<Measured> {
    let mut transport = transport::connect(over, host, order.settings())?;
    order::send(&mut *transport, order)?;
    let peers_buffers = order::await_start(&mut *transport)?;
    let own_buffers = transport.buffers();
    let tally = if order.sends {
        let sent = produce(&mut *transport, order)?;
        let tally = order::await_tally(&mut *transport)?;
        if tally.bytes != sent {
            return Err(StreamError::Peer(format!(
                "has {} of {sent} bytes",
                tally.bytes
            )));
        }
        tally
    } else {
        consume(&mut *transport, order)?
    };
    let seconds = tally.nanoseconds as f64 * 1e-9;
    let (from, to) = if order.sends {
        (own_buffers, peers_buffers)
    } else {
        (peers_buffers, own_buffers)
    };
    Ok(Measured {
        direction: if order.sends { "send" } else { "receive" },
        bytes: tally.bytes,
        seconds,
        rate_mbit_s: tally.bytes as f64 * 8e-6 / seconds.max(1e-9),
        send_buffer_bytes: from.send_bytes,
        receive_buffer_bytes: to.receive_bytes,
    })
}

fn show(args: &StreamArgs, host: &str, measured: &[Measured]) -> Result<()> {
    let report = Report {
        format: 1,
        over: args.over.name(),
        to: host,
        message_bytes: args.message.as_bytes(),
        buffer_bytes: args.buffer.map(ByteSize::as_bytes),
        nagle: !args.no_nagle,
        directions: measured,
    };
    if args.json {
        let text = serde_json::to_string_pretty(&report).map_err(doing("writing JSON"))?;
        println!("{text}");
        return Ok(());
    }
    let nagle = match (args.over, args.no_nagle) {
        (Over::Barewire, _) => "",
        (_, true) => ", Nagle off",
        (_, false) => ", Nagle on",
    };
    println!(
        "{} to {host}: messages of {}{nagle}",
        report.over, args.message
    );
    println!("direction       bytes    time, s  rate, Mbit/s  send buffer, B  receive buffer, B");
    for it in measured {
        let bytes = |bytes: Option<u64>| bytes.map_or("-".to_owned(), |it| it.to_string());
        println!(
            "{:9} {:>11} {:>10.3} {:>13.1} {:>15} {:>18}",
            it.direction,
            it.bytes,
            it.seconds,
            it.rate_mbit_s,
            bytes(it.send_buffer_bytes),
            bytes(it.receive_buffer_bytes)
        );
    }
    Ok(())
}
