//! What follows from inputs and parameters: the cores' configurations, and what everything costs.

use barewire_models::host::{Costs, Memory, per_kib};
use barewire_proto::evb::{
    Barrel, BuilderConfig, BuilderId, Flow, ManagerConfig, Schedule, SourceConfig, SourceId,
    WhenFull,
};
use barewire_units::{ByteSize, Duration, Instant};

use super::inputs::{Assignment, Control, Inputs, Transport};
use crate::sizes::Sizes;
use crate::workbench::parameters::Parameters;

/// The run's number, in every fragment.
pub(super) const RUN: u32 = 1;
/// Before each piece.
pub(super) const HEADER_BYTES: u64 = 56;
/// Pieces of at most so many bytes are gathered, until a message has so many.
pub(super) const SMALL_BYTES: u64 = 4 << 10;
pub(super) const GATHERED_BYTES: u64 = 32 << 10;
/// What a message takes beside a whole piece, at most.
pub(super) const MESSAGE_ROOM_BYTES: u64 = 1 << 10;
/// The longest that the kernel takes through loopback at once.
const SEGMENT_BYTES: u64 = 64 << 10;
const REMEMBERED_EVENTS: usize = 1 << 10;

/// A run.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub inputs: Inputs,
    pub sizes: Sizes,
    costs: Costs,
    memory: Memory,
}

impl Shape {
    pub fn new(parameters: &Parameters, inputs: &Inputs, fragment: ByteSize) -> Self {
        Self {
            sizes: Sizes {
                distribution: inputs.distribution,
                mean_bytes: fragment.as_bytes(),
                largest_bytes: inputs.fragment_largest.as_bytes(),
                sigma: inputs.sigma,
            },
            costs: parameters.host.costs,
            memory: parameters.host.memory,
            inputs: inputs.clone(),
        }
    }

    pub fn source(&self, id: SourceId) -> SourceConfig {
        let inputs = &self.inputs;
        let flow = match inputs.control {
            Control::None => Flow::Free,
            Control::Credits => Flow::Credits,
            Control::Bucket => Flow::Shaped {
                rate: inputs.rate,
                burst: inputs.burst,
            },
            Control::Barrel => Flow::Barrel(Barrel {
                builders: inputs.builders,
                period: Barrel::period_for(inputs.sources, inputs.builders),
                epoch: Instant::ORIGIN,
                slot: inputs.slot,
                rate: inputs.rate,
            }),
            Control::Schedule => Flow::Scheduled { slot: inputs.slot },
        };
        SourceConfig {
            id,
            buffer_bytes: inputs.source_buffer.as_bytes(),
            full: WhenFull::Block,
            piece_bytes: inputs.piece.as_bytes(),
            overhead_bytes: HEADER_BYTES,
            flow,
        }
    }

    pub fn builder(&self, id: BuilderId) -> BuilderConfig {
        let inputs = &self.inputs;
        let pulled = inputs.assignment == Assignment::Pulled;
        BuilderConfig {
            id,
            run: RUN,
            sources: inputs.sources,
            timeout: inputs.timeout,
            credits: (inputs.control == Control::Credits).then_some(inputs.credits),
            pull: pulled.then_some(inputs.pulled_events),
            remembered_events: REMEMBERED_EVENTS,
        }
    }

    pub fn manager(&self) -> ManagerConfig {
        let inputs = &self.inputs;
        ManagerConfig {
            sources: inputs.sources,
            builders: inputs.builders,
            policy: inputs.assignment.policy(),
            window: Some(inputs.window),
            backlog: u32::MAX,
            schedule: (inputs.control == Control::Schedule).then_some(Schedule {
                slot: inputs.slot,
                lead: inputs.lead,
            }),
            liveness: Duration::MAX,
            goes_on: true,
        }
    }

    fn is_tcp(&self) -> bool {
        self.inputs.transport == Transport::Tcp
    }

    /// Bytes that the receiver has taken and that do not count as room yet.
    pub fn room_comes_by(&self) -> u64 {
        match self.inputs.transport {
            Transport::Ring => self.inputs.room.as_bytes() / 4,
            Transport::Tcp => 1,
        }
    }

    /// Wakes another process.
    pub fn wake(&self) -> Duration {
        self.costs.send_call + self.costs.send_return
    }

    /// A processor that idles wakes up.
    pub fn wake_up(&self) -> Duration {
        self.costs.wake_up
    }

    /// A process that slept returns from its wait and takes note.
    pub fn returns(&self) -> Duration {
        (self.costs.receive_call + self.costs.receive_return) * 2
    }

    /// A processor changes from one process to another.
    pub fn context_switch(&self) -> Duration {
        self.costs.context_switch
    }

    /// A message of so many bytes goes into its way: what is not the program's own.
    fn put(&self, bytes: u64) -> Duration {
        let copy = self.memory.copy(bytes, bytes);
        if !self.is_tcp() {
            return copy;
        }
        let segments = bytes.div_ceil(SEGMENT_BYTES).max(1);
        let kernel = self.costs.send(bytes) * segments;
        copy + copy + self.wake() + kernel
    }

    /// The same, out of it.
    fn get(&self, bytes: u64) -> Duration {
        // A line of memory that another processor has written.
        let copy = self.costs.poll + self.memory.copy(bytes, bytes);
        if !self.is_tcp() {
            return copy;
        }
        let segments = bytes.div_ceil(SEGMENT_BYTES).max(1);
        let call = self.costs.receive_call + self.costs.receive_return;
        copy + self.memory.copy(bytes, bytes) + call + self.costs.receive(bytes) * segments
    }

    /// A source makes a message of so many pieces.
    pub fn make(&self, pieces: u64, bytes: u64) -> Duration {
        let own = self.inputs.fragment_out * pieces;
        own + per_kib(self.inputs.make_kib, bytes) + self.put(bytes)
    }

    /// A builder takes one.
    pub fn take(&self, pieces: u64, bytes: u64) -> Duration {
        let own = self.inputs.fragment_in * pieces;
        own + per_kib(self.inputs.verify_kib, bytes) + self.get(bytes)
    }

    /// A control message about so many events is written.
    pub fn say(&self, events: usize) -> Duration {
        self.words(events) + self.put(control_bytes(events))
    }

    /// The same, read.
    pub fn hear(&self, events: usize) -> Duration {
        self.words(events) + self.get(control_bytes(events))
    }

    fn words(&self, events: usize) -> Duration {
        self.inputs.message + self.inputs.message_event * events as u64
    }
}

/// About 16 bytes for each event.
const fn control_bytes(events: usize) -> u64 {
    32 + 16 * events as u64
}
