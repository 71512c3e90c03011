//! Devices between the lines of a network: what a switch, an interworking unit, or a device of
//! one's own is to the network around it.
//!
//! A device has ports, numbered from 0; at each of them a line ends. It is told when a frame has
//! come in, when a line that it sends on is free again, and when a time that it has set has come.
//! It has no clock and draws no chance but what [`Desk`] gives it, so a run with it is as exactly
//! repeatable as any other.
//!
//! ```
//! use barewire_testbed::network::{Desk, Device, Frame};
//!
//! /// A hub of two ports: what comes in at one goes out at the other, if the line is free.
//! struct Repeater;
//!
//! impl Device for Repeater {
//!     fn frame(&mut self, port: usize, frame: Frame, desk: &mut Desk<'_>) {
//!         let other = 1 - port;
//!         if desk.is_free(other) {
//!             desk.send(other, frame);
//!         } else {
//!             desk.lose(frame);
//!         }
//!     }
//! }
//! ```

use barewire_models::workbench::{Frame, Framing};
use barewire_units::{Duration, Instant, Rng};

/// Something between lines.
pub trait Device {
    /// The last bit of `frame` has come in at `port`, and the device has had
    /// [`Device::latency`] to look at it. With [`Device::cut_through`], its head has.
    ///
    /// A frame that is neither sent on, now or later, nor given to [`Desk::lose`] never
    /// arrives, and the program that waits for it goes on waiting.
    fn frame(&mut self, port: usize, frame: Frame, desk: &mut Desk<'_>);

    /// The line at `port` is free again: the frame that was sent on it has left.
    fn sent(&mut self, port: usize, desk: &mut Desk<'_>) {
        let _ = (port, desk);
    }

    /// A time that was set with [`Desk::wake`] has come.
    fn woken(&mut self, number: u32, desk: &mut Desk<'_>) {
        let _ = (number, desk);
    }

    /// Time from the last bit of a frame until [`Device::frame`] is called.
    fn latency(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether frames are looked at when their head has come, and not their last bit. The line that
    /// a frame goes on to must not be faster than the one that it came from.
    fn cut_through(&self) -> bool {
        false
    }

    /// What it has counted, for the table of devices: names and values, the same names in the
    /// same order whenever it is asked.
    fn figures(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// What a device may ask of the network while it is told something.
pub struct Desk<'a> {
    pub(super) now: Instant,
    /// Of each port: its framing, whether its line is free.
    pub(super) ports: &'a mut [PortState],
    /// For each host, the port towards it.
    pub(super) ways: &'a [Option<u16>],
    pub(super) wishes: &'a mut Vec<Wish>,
    pub(super) rng: &'a mut Rng,
}

/// What the network knows of a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortState {
    pub framing: Framing,
    pub free: bool,
}

/// What a device wants done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wish {
    Send(usize, Frame),
    Lose(Frame),
    Wake(Instant, u32),
}

impl Desk<'_> {
    /// The time in the model.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// How many ports the device has.
    #[must_use]
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// What frames look like on the line at `port`.
    ///
    /// # Panics
    ///
    /// There is no such port.
    #[must_use]
    pub fn framing(&self, port: usize) -> Framing {
        self.ports[port].framing
    }

    /// Bytes that `frame` takes on the line at `port`, with all that stands around it.
    ///
    /// # Panics
    ///
    /// There is no such port.
    #[must_use]
    pub fn bytes(&self, port: usize, frame: &Frame) -> u64 {
        self.ports[port].framing.frame_bytes(frame.body_bytes)
    }

    /// Whether nothing leaves by `port`.
    ///
    /// # Panics
    ///
    /// There is no such port.
    #[must_use]
    pub fn is_free(&self, port: usize) -> bool {
        self.ports[port].free
    }

    /// The port that leads to the host that `frame` is for. `None` if there is no way to it.
    #[must_use]
    pub fn way(&self, frame: &Frame) -> Option<usize> {
        let way = self.ways.get(usize::from(frame.piece.to))?;
        way.map(usize::from)
    }

    /// Lets `frame` leave by `port` now; [`Device::sent`] says when it has. A line that is not
    /// free loses it.
    ///
    /// # Panics
    ///
    /// There is no such port.
    pub fn send(&mut self, port: usize, frame: Frame) {
        let state = &mut self.ports[port];
        if !state.free {
            self.lose(frame);
            return;
        }
        state.free = false;
        self.wishes.push(Wish::Send(port, frame));
    }

    /// Throws `frame` away, and with it its message: nothing is sent again.
    pub fn lose(&mut self, frame: Frame) {
        self.wishes.push(Wish::Lose(frame));
    }

    /// Asks for [`Device::woken`] with `number`, in `time`.
    pub fn wake(&mut self, time: Duration, number: u32) {
        let at = self.now.saturating_add(time);
        self.wishes.push(Wish::Wake(at, number));
    }

    /// Random numbers of the device's own, from the seed of the run.
    pub fn rng(&mut self) -> &mut Rng {
        self.rng
    }
}
