//! The switch: store and forward over a shared backplane, with a finite buffer at each
//! output port. What does not fit is lost.

use barewire_units::{ByteSize, Duration, Rate};

use super::{Frame, Stage};
use crate::output::Output;

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
    outputs: Vec<Output<Frame>>,
    /// Frames for ports that there are not.
    astray: u64,
}

impl Switch {
    /// An empty switch.
    #[must_use]
    pub fn new(config: SwitchConfig) -> Self {
        let buffer_bytes = config.buffer.as_bytes();
        Self {
            config,
            backplane: Stage::default(),
            outputs: vec![Output::new(buffer_bytes); config.ports],
            astray: 0,
        }
    }

    /// A whole frame has come in.
    pub fn handle_frame(&mut self, frame: Frame) {
        self.backplane.push(frame);
    }

    /// The frame on the backplane has reached its output; the frame, if it is lost there.
    pub fn handle_backplane(&mut self) -> Option<Frame> {
        let frame = self.backplane.finish()?;
        let Some(output) = self.outputs.get_mut(usize::from(frame.to)) else {
            self.astray += 1;
            return Some(frame);
        };
        let fits = output.handle_frame(frame, frame.stored_bytes());
        (!fits).then_some(frame)
    }

    /// The frame on the link of `port` has left.
    pub fn handle_output(&mut self, port: u8) -> Option<Frame> {
        self.outputs.get_mut(usize::from(port))?.sent()
    }

    /// What begins now.
    pub fn poll(&mut self) -> Option<Passing> {
        if let Some(frame) = self.backplane.next() {
            let size = ByteSize::from_bytes(frame.stored_bytes());
            let time = self.config.backplane.time_to_send(size);
            self.backplane.begin();
            return Some(Passing::Backplane(time));
        }
        let mut outputs = (0..).zip(&mut self.outputs);
        outputs.find_map(|(port, output)| Some(Passing::Output(port, output.poll()?)))
    }

    /// Frames that did not fit.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.astray + self.outputs.iter().map(Output::lost).sum::<u64>()
    }

    /// The most that an output has held.
    #[must_use]
    pub fn highest_bytes(&self) -> u64 {
        let highest = self.outputs.iter().map(Output::highest_bytes);
        highest.max().unwrap_or(0)
    }
}
