//! What follows from parameters, inputs and point: links, frames, and the configurations of the
//! parts.

use barewire_models::kek::HEADER_BYTES;
use barewire_models::tcp::{ReceiverConfig, SenderConfig};
use barewire_proto::evb::{
    Barrel, BuilderConfig, BuilderId, Flow, ManagerConfig, Schedule, SourceConfig, SourceId,
};
use barewire_units::{ByteSize, Duration, Instant, Rate};

use super::inputs::{Assignment, Control, Inputs, Point, Transport, Triggers};
use crate::kek::ethernet::RUN;
use crate::kek::parameters::Parameters;
use crate::sizes::Sizes;

/// IPv4 and UDP.
const DATAGRAM_BYTES: u64 = 28;
/// Ethernet header and check sequence, which are stored with a frame.
pub const ETHERNET_BYTES: u64 = 18;
/// Preamble and gap, which are not.
pub const GAP_BYTES: u64 = 20;
/// A shortest frame on the wire: a message of the event builder.
const MESSAGE_BYTES: u64 = 84;
/// An acknowledgement on the wire.
pub const ACK_BYTES: u64 = HEADER_BYTES + ETHERNET_BYTES + GAP_BYTES;
/// Closed events of which a builder knows who had sent.
const REMEMBERED_EVENTS: usize = 4_096;
/// Time that is added to a slot, so that its last frame ends within it although times are
/// rounded.
const SLOT_SLACK: Duration = Duration::from_ns(1);

/// Everything about a run but its seed.
#[derive(Clone, Debug)]
pub struct Shape {
    pub sources: u16,
    pub builders: u16,
    pub control: Control,
    pub tcp: Option<(SenderConfig, ReceiverConfig)>,
    pub sizes: Sizes,
    pub events: u64,
    pub triggers: Triggers,
    /// Mean time between triggers.
    pub interval: Duration,
    pub source_link: Rate,
    pub builder_link: Rate,
    pub port_buffer_bytes: u64,
    pub clock_error: Duration,
    pub tick: Duration,
    /// Payload of a whole frame, and bytes of the wire beside it.
    pub payload_bytes: u64,
    pub overhead_bytes: u64,
    /// Of the event builder, in a datagram.
    pub header_bytes: u64,
    /// Through a link, the switch and another link, without the time to send.
    pub way: Duration,
    /// In the host that gets a message.
    handling: Duration,
    slot: Duration,
    inputs: Inputs,
}

impl Shape {
    pub fn new(parameters: &Parameters, inputs: &Inputs, point: &Point) -> Self {
        let mtu = inputs.mtu.as_bytes();
        let header_bytes = parameters.building.header.as_bytes();
        let headers = match point.transport {
            Transport::Datagrams => DATAGRAM_BYTES + header_bytes,
            Transport::Tcp => HEADER_BYTES,
        };
        let segment_bytes = mtu - headers;
        let tcp = (point.transport == Transport::Tcp).then(|| {
            let sender = SenderConfig {
                segment_bytes,
                nagle: inputs.nagle,
                ..parameters.sender(mtu, parameters.tcp.buffer)
            };
            (sender, parameters.receiver(parameters.tcp.buffer))
        });
        let mut shape = Self {
            sources: point.sources,
            builders: point.builders,
            control: point.control,
            tcp,
            sizes: Sizes {
                distribution: point.distribution,
                mean_bytes: inputs.fragment.as_bytes(),
                largest_bytes: inputs.fragment_largest.as_bytes(),
                sigma: inputs.sigma,
            },
            events: inputs.events,
            triggers: inputs.triggers,
            interval: Duration::ZERO,
            source_link: inputs.source_link,
            builder_link: inputs.builder_link,
            port_buffer_bytes: inputs.port_buffer.as_bytes(),
            clock_error: inputs.clock_error,
            tick: parameters.tick(),
            payload_bytes: segment_bytes,
            overhead_bytes: headers + ETHERNET_BYTES + GAP_BYTES,
            header_bytes,
            way: parameters.link.delay * 2,
            handling: parameters.building.control,
            slot: Duration::ZERO,
            inputs: inputs.clone(),
        };
        let mean = ByteSize::from_bytes(shape.wire_bytes(shape.sizes.mean_bytes));
        let at_source = shape.source_link.time_to_send(mean);
        let at_builder = shape.builder_link.time_to_send(mean);
        let sources = u64::from(shape.sources);
        let all = at_builder.as_ps() * sources / u64::from(shape.builders);
        let slowest = at_source.as_ps().max(all) as f64;
        shape.interval = Duration::from_ps((slowest / inputs.load).max(1.0) as u64);
        let slot = at_source.max(at_builder).as_ps() as f64 * inputs.slot_fragments;
        shape.slot = Duration::from_ps(slot as u64) + SLOT_SLACK;
        shape
    }

    /// What a fragment takes of the wire.
    pub fn wire_bytes(&self, bytes: u64) -> u64 {
        bytes + bytes.div_ceil(self.payload_bytes).max(1) * self.overhead_bytes
    }

    /// What a frame with so much payload takes of the wire.
    pub const fn frame_bytes(&self, payload_bytes: u64) -> u64 {
        payload_bytes + self.overhead_bytes
    }

    /// A message on the link of who sends it, at `rate`.
    pub fn message_time(&self, rate: Rate) -> Duration {
        rate.time_to_send(ByteSize::from_bytes(MESSAGE_BYTES))
    }

    /// From the link of who sends a message to the program that gets it, over a link of `rate`.
    pub fn message_way(&self, rate: Rate) -> Duration {
        self.way + self.message_time(rate) + self.handling
    }

    /// The bottleneck: the links of all sources together or those of all builders.
    pub fn bottleneck_bps(&self) -> f64 {
        let of = |link: Rate, count| link.as_bps() as f64 * f64::from(count);
        of(self.source_link, self.sources).min(of(self.builder_link, self.builders))
    }

    /// A fair share of the slower side for each pair. `None` if less than 1 bit/s is left.
    fn pair_rate(&self) -> Option<Rate> {
        let from = self.source_link.as_bps() as f64 / f64::from(self.builders);
        let to = self.builder_link.as_bps() as f64 / f64::from(self.sources);
        Rate::new((from.min(to) * self.inputs.shaping_share) as u64)
    }

    fn flow(&self) -> Option<Flow> {
        Some(match self.control {
            Control::None | Control::Window => Flow::Free,
            Control::Shaping => Flow::Shaped {
                rate: self.pair_rate()?,
                burst: self.inputs.shaping_burst,
            },
            Control::Barrel => Flow::Barrel(Barrel {
                builders: self.builders,
                period: Barrel::period_for(self.sources, self.builders),
                epoch: Instant::ORIGIN,
                slot: self.slot,
                rate: self.source_link.min(self.builder_link),
            }),
            Control::Credits => Flow::Credits,
            Control::Schedule => Flow::Scheduled { slot: self.slot },
        })
    }

    /// The configuration of a source; `None` if the buckets would have no rate.
    pub fn source(&self, id: SourceId) -> Option<SourceConfig> {
        Some(SourceConfig {
            id,
            buffer_bytes: self.inputs.source_buffer.as_bytes(),
            full: self.inputs.full(),
            piece_bytes: self.payload_bytes,
            overhead_bytes: self.overhead_bytes,
            flow: self.flow()?,
        })
    }

    pub fn builder(&self, id: BuilderId) -> BuilderConfig {
        let inputs = &self.inputs;
        let pulled = inputs.assignment == Assignment::Pulled;
        BuilderConfig {
            id,
            run: RUN,
            sources: self.sources,
            timeout: inputs.timeout,
            credits: (self.control == Control::Credits).then_some(inputs.credits),
            pull: pulled.then_some(inputs.pulled_events),
            remembered_events: REMEMBERED_EVENTS,
        }
    }

    pub fn manager(&self) -> ManagerConfig {
        let lead = self.message_time(self.source_link) + self.message_way(self.source_link);
        ManagerConfig {
            sources: self.sources,
            builders: self.builders,
            policy: self.inputs.assignment.policy(),
            window: (self.control == Control::Window).then_some(self.inputs.window),
            backlog: u32::MAX,
            schedule: (self.control == Control::Schedule).then_some(Schedule {
                slot: self.slot,
                lead,
            }),
            liveness: Duration::MAX,
            goes_on: true,
        }
    }
}
