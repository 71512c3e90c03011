//! Barewire itself: each way of using it as a channel.
//!
//! Every channel has a node of its own at each end, which spins for ever or sleeps at once,
//! as the test wants it.

mod errors;
mod many;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use barewire::{
    Action, Aperture, ApertureConfig, Connection, Event, HostsConfig, Listener, Memory, Mode, Node,
    NodeConfig, Port, RemoteAperture, Rights, Security, Spin, Stream, Tripwire,
};

use crate::case::{ChannelSpec, Transport, Variant, Waiting};
use crate::channel::control::{Control, Reply};
use crate::channel::ends::{Channel, ClientEnd, ServerEnd};
use crate::channel::loops::End;
use crate::error::{Error, Result, What};
use crate::measure::spin::{BoundedSpin, shared_processor};
use errors::{closed_or_odd, cut_short, failed};

/// How long the other end may take to connect, or to grant an aperture.
const OPENING: Option<Duration> = Some(Duration::from_secs(20));

/// Opens the client's end.
pub fn open_client(spec: &ChannelSpec, control: &Control) -> Result<Box<dyn ClientEnd>> {
    let node = node(spec)?;
    let name = control.expect_address()?;
    if spec.many.is_some() {
        let connections = many::connect(&node, &name, spec.connections())?;
        return Ok(Box::new(many::Many::new(node, connections, spec)));
    }
    let connection = node.connect(&name).map_err(failed)?;
    Ok(match spec.variant {
        Variant::InPlace => Box::new(End(Messages::<true>(connection))),
        Variant::Batch => Box::new(End(Batches::new(connection))),
        Variant::Stream | Variant::Stream8k => Box::new(End(Bytes(connection.into_stream()))),
        Variant::EventQueue => Box::new(End(Announced::new(node, connection))),
        Variant::Tripwire => Box::new(End(Trapped::new(node, connection)?)),
        _ => Box::new(End(Messages::<false>(connection))),
    })
}

/// Opens the server's end.
pub fn open_server(spec: &ChannelSpec, control: &Control) -> Result<Box<dyn ServerEnd>> {
    let node = node(spec)?;
    let listener = listen(&node, spec, control)?;
    if spec.many.is_some() {
        let connections = many::accept(&node, spec.connections())?;
        drop(listener);
        return Ok(Box::new(many::Many::new(node, connections, spec)));
    }
    let request = node.next_request(OPENING).map_err(failed)?;
    let connection = request.accept().map_err(failed)?;
    drop(listener);
    Ok(match spec.variant {
        Variant::InPlace => Box::new(End(Messages::<true>(connection))),
        Variant::Batch => Box::new(End(Batches::new(connection))),
        Variant::Stream | Variant::Stream8k => Box::new(End(Bytes(connection.into_stream()))),
        Variant::EventQueue => Box::new(End(Announced::new(node, connection))),
        Variant::Tripwire => Box::new(End(Trapped::new(node, connection)?)),
        _ => Box::new(End(Messages::<false>(connection))),
    })
}

fn node(spec: &ChannelSpec) -> Result<Node> {
    let spin = match spec.waiting {
        Waiting::Blocking => Spin::Never,
        // On one processor nobody spins.
        Waiting::Polling if shared_processor() => Spin::Never,
        Waiting::Polling => Spin::Forever,
    };
    let config = NodeConfig {
        spin,
        ring_bytes: spec.ring_bytes,
        hosts: hosts(spec),
        ..NodeConfig::default()
    };
    Node::with_config(config).map_err(failed)
}

/// Between hosts nothing is proved, on private networks alone; two ends on this machine do not meet in shared memory.
fn hosts(spec: &ChannelSpec) -> HostsConfig {
    match spec.transport {
        Transport::Hosts => HostsConfig {
            security: Security::Insecure,
            shortcut: false,
            ..HostsConfig::default()
        },
        _ => HostsConfig::default(),
    }
}

/// Where a node listens: at a name, and for other hosts at a port.
type Listening = (Listener, Option<Port>);

fn listen(node: &Node, spec: &ChannelSpec, control: &Control) -> Result<Listening> {
    let name = format!(
        "bench-{}-{:x}",
        std::process::id(),
        crate::measure::clock::Clock::cycles()
    );
    let listener = node.listen(&name).map_err(failed)?;
    if spec.transport != Transport::Hosts {
        control.send(&Reply::Address(name))?;
        return Ok((listener, None));
    }
    let address = SocketAddr::new(control.server_address(), 0).to_string();
    let port = node.listen_on(&address).map_err(failed)?;
    control.send(&Reply::Address(format!("{}/{name}", port.address())))?;
    Ok((listener, Some(port)))
}

/// Messages, received from the connection itself; `IN_PLACE`: the receiver reads only the last byte, where it lies.
struct Messages<const IN_PLACE: bool>(Connection);

impl<const IN_PLACE: bool> Messages<IN_PLACE> {
    /// Receives a message of at most this length, in one of the two ways.
    #[inline(always)]
    fn receive(&mut self, buffer: &mut [u8]) -> barewire::Result<usize> {
        if !IN_PLACE {
            return self.0.recv(buffer);
        }
        let message = self.0.receiver().recv_message()?;
        let len = message.len_bytes();
        if let (Some(last), true) = (len.checked_sub(1), len <= buffer.len()) {
            message.read_at(last, &mut buffer[last..len]);
        }
        message.release();
        Ok(len)
    }
}

impl<const IN_PLACE: bool> Channel for Messages<IN_PLACE> {
    const BYTES_PER_LOOK: usize = 16 * 1024;

    fn set_waiting(&mut self, _: Waiting) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.0.send(message).map_err(failed)
    }

    #[inline(always)]
    fn recv_exact(&mut self, message: &mut [u8]) -> Result<()> {
        match self.receive(message) {
            Ok(len) if len == message.len() => Ok(()),
            Ok(len) => Err(cut_short(len, message.len())),
            Err(error) => Err(failed(error)),
        }
    }

    #[inline(always)]
    fn recv_some(&mut self, buffer: &mut [u8], _size: usize) -> Result<usize> {
        self.receive(buffer).map_err(failed)
    }
}

/// Most messages and bytes in a batch.
const BATCH_MESSAGES: usize = 256;
const BATCH_BYTES: usize = 4096;

/// Messages of one size, sent and received many at a time.
struct Batches {
    connection: Connection,
    held: Vec<u8>,
    size: usize,
    spin: BoundedSpin,
}

impl Batches {
    fn new(connection: Connection) -> Batches {
        Batches {
            connection,
            held: Vec::with_capacity(BATCH_BYTES),
            size: 1,
            spin: BoundedSpin::new("a batch of messages over barewire"),
        }
    }
}

impl Channel for Batches {
    const BYTES_PER_LOOK: usize = 16 * 1024;

    fn set_waiting(&mut self, _: Waiting) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Result<()> {
        if message.len() != self.size {
            self.flush()?;
            self.size = message.len();
        }
        self.held.extend_from_slice(message);
        let full = self.held.len() / self.size >= BATCH_MESSAGES;
        if full || self.held.len() + self.size > BATCH_BYTES {
            return self.flush();
        }
        Ok(())
    }

    #[inline]
    fn flush(&mut self) -> Result<()> {
        let mut messages: [&[u8]; BATCH_MESSAGES] = [&[]; BATCH_MESSAGES];
        let mut count = 0;
        for (place, message) in messages.iter_mut().zip(self.held.chunks_exact(self.size)) {
            *place = message;
            count += 1;
        }
        let mut left = &messages[..count];
        while !left.is_empty() {
            match self.connection.sender().send_batch(left) {
                Ok(0) => self.spin.turn()?,
                Ok(sent) => {
                    left = &left[sent..];
                    self.spin.reset();
                }
                Err(error) => return Err(failed(error)),
            }
        }
        self.held.clear();
        Ok(())
    }

    #[inline(always)]
    fn recv_exact(&mut self, message: &mut [u8]) -> Result<()> {
        match self.connection.recv(message) {
            Ok(len) if len == message.len() => Ok(()),
            Ok(len) => Err(cut_short(len, message.len())),
            Err(error) => Err(failed(error)),
        }
    }

    #[inline(always)]
    fn recv_some(&mut self, buffer: &mut [u8], size: usize) -> Result<usize> {
        let most = (Self::BYTES_PER_LOOK / size).max(1);
        let mut got = 0;
        // What is handed to the closure lies in our own memory; that is where a message
        // that arrives one by one would end, too.
        let count = self.connection.receiver().recv_batch(most, |message| {
            got += message.len();
            buffer[got - 1] = message[message.len() - 1];
        });
        match count {
            Ok(0) => self.connection.recv(buffer).map_err(failed),
            Ok(_) => Ok(got),
            Err(error) => Err(failed(error)),
        }
    }
}

/// The byte stream.
struct Bytes(Stream);

impl Channel for Bytes {
    const BYTES_PER_LOOK: usize = 16 * 1024;

    fn set_waiting(&mut self, _: Waiting) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.0.write_all(message).what("writing to barewire")
    }

    #[inline(always)]
    fn recv_exact(&mut self, message: &mut [u8]) -> Result<()> {
        self.0.read_exact(message).what("reading from barewire")
    }

    #[inline(always)]
    fn recv_some(&mut self, buffer: &mut [u8], _size: usize) -> Result<usize> {
        match self.0.read(buffer) {
            Ok(0) => Err(Error::Peer("it closed the stream".into())),
            Ok(got) => Ok(got),
            Err(error) => Err(error).what("reading from barewire"),
        }
    }
}

/// Messages that are announced in the event queue.
struct Announced {
    node: Node,
    connection: Connection,
    events: Vec<Event>,
    /// Something was received, and not yet seen that nothing is left.
    unfinished: bool,
    spin: BoundedSpin,
}

impl Announced {
    fn new(node: Node, connection: Connection) -> Announced {
        Announced {
            node,
            connection,
            events: Vec::with_capacity(16),
            unfinished: false,
            spin: BoundedSpin::new("an event of barewire"),
        }
    }

    /// Waits until the event queue says that the connection is ready.
    #[inline(always)]
    fn wait(&mut self) -> Result<()> {
        loop {
            while self.node.poll(&mut self.events, 16).map_err(failed)? == 0 {
                self.spin.turn()?;
            }
            self.spin.reset();
            let mut ready = false;
            for event in self.events.drain(..) {
                match event {
                    Event::Ready(_) => ready = true,
                    other => return Err(closed_or_odd(other)),
                }
            }
            if ready {
                return Ok(());
            }
        }
    }
}

impl Channel for Announced {
    const BYTES_PER_LOOK: usize = 16 * 1024;

    fn set_waiting(&mut self, _: Waiting) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.connection.send(message).map_err(failed)
    }

    /// While what was sent is under way: takes note that nothing is left to receive, or
    /// the queue would say once more that there may be.
    #[inline(always)]
    fn flush(&mut self) -> Result<()> {
        if self.unfinished
            && self
                .connection
                .receiver()
                .try_recv_message()
                .map_err(failed)?
                .is_none()
        {
            self.unfinished = false;
        }
        Ok(())
    }

    #[inline(always)]
    fn recv_exact(&mut self, message: &mut [u8]) -> Result<()> {
        loop {
            self.wait()?;
            match self.connection.try_recv(message) {
                Ok(Some(len)) if len == message.len() => break,
                Ok(Some(len)) => return Err(cut_short(len, message.len())),
                Ok(None) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        self.unfinished = true;
        Ok(())
    }
}

/// Bytes of an aperture.
const APERTURE_BYTES: usize = 4096;
/// Where the line lies on which tripwires are set: the last one.
const LAST_LINE: usize = APERTURE_BYTES - 64;

/// Messages put into the other's aperture, where a tripwire announces them.
struct Trapped {
    node: Node,
    own: Aperture,
    far: RemoteAperture,
    events: Vec<Event>,
    spin: BoundedSpin,
    _tripwire: Tripwire,
    _connection: Connection,
}

impl Trapped {
    fn new(node: Node, connection: Connection) -> Result<Trapped> {
        let config = ApertureConfig::new(APERTURE_BYTES, Rights::ReadWrite);
        let own = node.export(config).map_err(failed)?;
        let action = Action::Enqueue { cookie: 0 };
        let tripwire = own
            .tripwire(LAST_LINE, 64, Mode::Sticky, action)
            .map_err(failed)?;
        connection.grant(&own, 0).map_err(failed)?;
        let (_, far) = connection.import(OPENING).map_err(failed)?;
        Ok(Trapped {
            node,
            own,
            far,
            events: Vec::with_capacity(16),
            spin: BoundedSpin::new("a tripwire of barewire"),
            _tripwire: tripwire,
            _connection: connection,
        })
    }
}

impl Channel for Trapped {
    const BYTES_PER_LOOK: usize = 16 * 1024;

    fn set_waiting(&mut self, _: Waiting) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Result<()> {
        // The message ends where the aperture ends: its last byte lies on the last line.
        let at = APERTURE_BYTES.saturating_sub(message.len());
        let put = self.far.put(at, message);
        put.map_err(|error| failed(error.into()))
    }

    #[inline(always)]
    fn recv_exact(&mut self, message: &mut [u8]) -> Result<()> {
        let mut fired = false;
        while !fired {
            while self.node.poll(&mut self.events, 16).map_err(failed)? == 0 {
                self.spin.turn()?;
            }
            self.spin.reset();
            for event in self.events.drain(..) {
                match event {
                    Event::Tripwire { .. } => fired = true,
                    // The connection is there for the grants alone.
                    Event::Ready(_) => {}
                    other => return Err(closed_or_odd(other)),
                }
            }
        }
        let at = APERTURE_BYTES.saturating_sub(message.len());
        let got = self.own.get(at, message);
        got.map_err(|error| failed(error.into()))
    }
}
