//! Many connections of one node, all served from its event queue.

use std::time::Duration;

use barewire::{ConnectOptions, Connection, Cork, Event, Node};

use super::errors::{closed_or_odd, failed};
use crate::case::REQUEST_BYTES;
use crate::case::{ChannelSpec, Waiting, Work};
use crate::channel::control::Served;
use crate::channel::ends::{ClientEnd, Context, ManyClient, ManyServer, Measured, ServerEnd};
use crate::channel::loops::{self, LAST};
use crate::error::{Error, Result};
use crate::measure::spin::BoundedSpin;

/// Connections that are being made at a time.
const CONNECTING: u32 = 256;
/// Most events taken at a time.
const EVENTS: usize = 256;
/// Most messages taken from a connection, or sent over it, at a time.
const MESSAGES: usize = 16;
/// How long opening may stand still.
const OPENING: Option<Duration> = Some(Duration::from_secs(20));

const REPLY: [u8; REQUEST_BYTES] = [0; REQUEST_BYTES];

/// Connects so many times.
pub fn connect(node: &Node, name: &str, count: u32) -> Result<Vec<Connection>> {
    let options = ConnectOptions::default();
    let mut connections = Vec::with_capacity(count as usize);
    let mut events = Vec::with_capacity(EVENTS);
    let mut begun = 0;
    while connections.len() < count as usize {
        while begun < count && begun - (connections.len() as u32) < CONNECTING {
            node.start_connect(name, &options).map_err(failed)?;
            begun += 1;
        }
        wait(node, &mut events)?;
        for event in events.drain(..) {
            match event {
                Event::Connected(connection) => connections.push(*connection),
                Event::ConnectFailed { error, .. } => return Err(failed(error)),
                Event::Ready(_) => {}
                other => return Err(closed_or_odd(other)),
            }
        }
    }
    Ok(connections)
}

/// Accepts so many connections.
pub fn accept(node: &Node, count: u32) -> Result<Vec<Connection>> {
    let mut connections = Vec::with_capacity(count as usize);
    let mut events = Vec::with_capacity(EVENTS);
    while connections.len() < count as usize {
        wait(node, &mut events)?;
        for event in events.drain(..) {
            match event {
                Event::Request(request) => connections.push(request.accept().map_err(failed)?),
                Event::Ready(_) => {}
                other => return Err(closed_or_odd(other)),
            }
        }
    }
    Ok(connections)
}

fn wait(node: &Node, events: &mut Vec<Event>) -> Result<()> {
    match node.wait(events, EVENTS, OPENING).map_err(failed)? {
        0 => Err(Error::Stuck("opening connections over barewire", 20)),
        _ => Ok(()),
    }
}

/// The connections, by their numbers.
pub struct Many {
    node: Node,
    connections: Vec<Option<Connection>>,
    /// The number on the node of the connection that the loops call 0, 1 and so on.
    numbers: Vec<u32>,
    /// And the other way round.
    calls: Vec<u32>,
    events: Vec<Event>,
    sleeps: bool,
    spin: BoundedSpin,
    /// From the events of a turn to the next turn: what is sent to other hosts meanwhile goes together.
    cork: Option<Cork>,
}

impl Many {
    /// Over these connections of the node.
    pub fn new(node: Node, connections: Vec<Connection>, spec: &ChannelSpec) -> Many {
        let numbers: Vec<u32> = connections.iter().map(|c| c.id().index() as u32).collect();
        let places = numbers.iter().max().map_or(0, |&most| most as usize + 1);
        let mut table: Vec<Option<Connection>> = Vec::new();
        table.resize_with(places, || None);
        let mut calls = vec![0; places];
        for (call, connection) in connections.into_iter().enumerate() {
            let at = connection.id().index();
            calls[at] = call as u32;
            table[at] = Some(connection);
        }
        Many {
            node,
            connections: table,
            numbers,
            calls,
            events: Vec::with_capacity(EVENTS),
            sleeps: spec.waiting == Waiting::Blocking,
            spin: BoundedSpin::new("transactions over barewire"),
            cork: None,
        }
    }

    #[inline]
    fn wait(&mut self) -> Result<()> {
        self.cork = None;
        if self.sleeps {
            let waited = self.node.wait(&mut self.events, EVENTS, None);
            waited.map_err(failed)?;
        } else {
            while self.node.poll(&mut self.events, EVENTS).map_err(failed)? == 0 {
                self.spin.turn()?;
            }
            self.spin.reset();
        }
        self.cork = Some(Cork::new());
        Ok(())
    }

    /// Takes everything that a connection has: how many messages, and whether one of them
    /// is the last of the sample.
    #[inline]
    fn take(&mut self, at: usize) -> Result<(usize, bool)> {
        let Some(Some(connection)) = self.connections.get_mut(at) else {
            return Ok((0, false));
        };
        let (mut count, mut last) = (0, false);
        loop {
            let taken = connection.receiver().recv_batch(MESSAGES, |message| {
                last |= message.last() == Some(&LAST);
            });
            let taken = taken.map_err(failed)?;
            count += taken;
            if taken < MESSAGES {
                return Ok((count, last));
            }
        }
    }

    /// Sends the same message so many times.
    #[inline]
    fn put(&mut self, at: usize, message: &[u8], count: usize) -> Result<()> {
        let Some(Some(connection)) = self.connections.get_mut(at) else {
            return Err(Error::Transport("no such connection".into()));
        };
        let messages = [message; MESSAGES];
        let mut left = count;
        while left > 0 {
            let batch = &messages[..left.min(MESSAGES)];
            match connection.sender().send_batch(batch).map_err(failed)? {
                0 => self.spin.turn()?,
                sent => {
                    left -= sent;
                    self.spin.reset();
                }
            }
        }
        Ok(())
    }
}

impl ManyClient for Many {
    fn set_waiting(&mut self, _: Waiting) -> Result<()> {
        Ok(())
    }

    fn send(&mut self, connection: u32, request: &[u8], count: u32) -> Result<()> {
        let at = self.numbers[connection as usize] as usize;
        self.put(at, request, count as usize)
    }

    fn replies(&mut self, ready: &mut Vec<(u32, u32)>) -> Result<()> {
        self.wait()?;
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            match event {
                Event::Ready(id) => {
                    let (count, _) = self.take(id.index())?;
                    if count > 0 {
                        ready.push((self.calls[id.index()], count as u32));
                    }
                }
                other => return Err(closed_or_odd(other)),
            }
        }
        self.events = events;
        Ok(())
    }
}

impl ManyServer for Many {
    fn set_waiting(&mut self, _: Waiting) -> Result<()> {
        Ok(())
    }

    fn turn(&mut self) -> Result<bool> {
        self.wait()?;
        let mut finished = false;
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            match event {
                Event::Ready(id) => {
                    let (count, last) = self.take(id.index())?;
                    self.put(id.index(), &REPLY, count)?;
                    finished |= last;
                }
                other => return Err(closed_or_odd(other)),
            }
        }
        self.events = events;
        Ok(finished)
    }
}

impl ClientEnd for Many {
    fn measure(&mut self, work: &Work, context: &mut Context) -> Result<Measured> {
        loops::transactions_client(self, work, context)
    }
}

impl ServerEnd for Many {
    fn serve(&mut self, work: &Work, _: &mut Context) -> Result<Served> {
        loops::transactions_server(self, work)
    }
}
