//! The switch: store and forward over a shared backplane, with a finite buffer at each
//! output port. What does not fit is lost.

use barewire_units::{ByteSize, Duration, Rate};

use super::{Frame, Stage};

crate::parameters! {
    /// A switch.
    #[derive(Copy, PartialEq, Eq)]
    pub struct SwitchConfig {
        /// Ports.
        pub ports: usize,
        /// Rate of the backplane, all ports together.
        pub backplane: Rate,
        /// Buffer of each output port.
        pub buffer: ByteSize,
    }
}

/// What comes next in the switch, and how long it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// A frame crosses the backplane.
    Backplane(Duration),
    /// A frame leaves on the link of this port; how long that takes is the link's matter.
    Output(u8, Frame),
}

/// The switch.
#[derive(Clone, Debug)]
pub struct Switch {
    config: SwitchConfig,
    backplane: Stage<Frame>,
    outputs: Vec<Stage<Frame>>,
    held_bytes: Vec<u64>,
    highest_bytes: u64,
    lost: u64,
}

impl Switch {
    /// An empty switch.
    #[must_use]
    pub fn new(config: SwitchConfig) -> Self {
        Self {
            config,
            backplane: Stage::default(),
            outputs: vec![Stage::default(); config.ports],
            held_bytes: vec![0; config.ports],
            highest_bytes: 0,
            lost: 0,
        }
    }

    /// A whole frame has come in.
    pub fn handle_frame(&mut self, frame: Frame) {
        self.backplane.push(frame);
    }

    /// The frame on the backplane has reached its output.
    pub fn handle_backplane(&mut self) {
        let Some(frame) = self.backplane.finish() else {
            return;
        };
        let port = usize::from(frame.to);
        let held = self.held_bytes.get(port).copied();
        let after = held.map(|held| held + frame.stored_bytes());
        match after {
            Some(after) if after <= self.config.buffer.as_bytes() => {
                self.held_bytes[port] = after;
                self.highest_bytes = self.highest_bytes.max(after);
                self.outputs[port].push(frame);
            }
            _ => self.lost += 1,
        }
    }

    /// The frame on the link of `port` has left.
    pub fn handle_output(&mut self, port: u8) -> Option<Frame> {
        let port = usize::from(port);
        let frame = self.outputs.get_mut(port)?.finish()?;
        self.held_bytes[port] -= frame.stored_bytes();
        Some(frame)
    }

    /// What begins now.
    pub fn poll(&mut self) -> Option<Passing> {
        if let Some(frame) = self.backplane.next() {
            let size = ByteSize::from_bytes(frame.stored_bytes());
            let time = self.config.backplane.time_to_send(size);
            self.backplane.begin();
            return Some(Passing::Backplane(time));
        }
        for (port, output) in (0..).zip(&mut self.outputs) {
            if let Some(&frame) = output.next() {
                output.begin();
                return Some(Passing::Output(port, frame));
            }
        }
        None
    }

    /// Frames that did not fit.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// The most that an output has held.
    #[must_use]
    pub const fn highest_bytes(&self) -> u64 {
        self.highest_bytes
    }
}
