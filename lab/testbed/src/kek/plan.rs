//! What is connected to what, and who sends to whom how fast.

use std::fmt::Write as _;

use barewire_models::kek::HEADER_BYTES;
use barewire_units::{ByteSize, Rate};

use super::host::{Host, Tuning, Width};
use super::parameters::Parameters;

/// Frames of Ethernet, and jumbo frames. Published, III.D.
pub const NORMAL: u64 = 1_500;
pub const JUMBO: u64 = 9_000;
/// One source, three destinations.
pub const ONE_TO_THREE: [(u8, u8); 3] = [(0, 1), (0, 2), (0, 3)];

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub hosts: Vec<(Host, Width)>,
    /// From host to host, by number.
    pub streams: Vec<(u8, u8)>,
    pub mtu: u64,
    pub tuning: Tuning,
    pub buffer: ByteSize,
    /// The rate of each stream's token bucket, if there is one.
    pub shaped: Option<Rate>,
    /// A rate for each stream in their order, in place of the one above for all of them.
    pub reserved: Vec<Rate>,
    /// `tc` commands for the output queue of every source, in place of buckets.
    pub script: Option<String>,
    /// The depth of the buckets, if it is not to follow the rate.
    pub bucket: Option<ByteSize>,
    /// Whether a switch is between the hosts, or one link.
    pub switched: bool,
    /// Frames to record of each PC's link, in each direction.
    pub packets_per_link: usize,
}

impl Plan {
    /// Two equal PCs, one link, one stream.
    pub fn pair(parameters: &Parameters, host: Host, width: Width, mtu: u64) -> Self {
        Self {
            hosts: vec![(host, width); 2],
            streams: vec![(0, 1)],
            mtu,
            tuning: Tuning::best(mtu),
            buffer: parameters.tcp.buffer,
            shaped: None,
            reserved: Vec::new(),
            script: None,
            bucket: None,
            switched: false,
            packets_per_link: 0,
        }
    }

    /// Four PC500 at the switch, with jumbo frames.
    pub fn builder(parameters: &Parameters, streams: &[(u8, u8)], shaped: Option<Rate>) -> Self {
        Self {
            hosts: vec![(Host::Pc500, Width::Bits32); 4],
            streams: streams.to_vec(),
            shaped,
            switched: true,
            ..Self::pair(parameters, Host::Pc500, Width::Bits32, JUMBO)
        }
    }

    /// The same with so many packets of each link recorded.
    pub fn recorded(&self, packets_per_link: usize) -> Self {
        Self {
            packets_per_link,
            ..self.clone()
        }
    }

    /// The commands for the output queue of `host`: those that were given; or Fig 4, a class and
    /// a token bucket for each destination.
    pub fn commands(&self, parameters: &Parameters, host: u8) -> Option<String> {
        if self.script.is_some() {
            let is_source = self.streams.iter().any(|&(from, _)| from == host);
            return self.script.clone().filter(|_| is_source);
        }
        let rate_of = |stream: usize| self.reserved.get(stream).copied().or(self.shaped);
        let shaping = &parameters.shaping;
        let link_bps = shaping.bandwidth.as_bps();
        let (limit, allot) = (shaping.limit.as_bytes(), self.mtu + 14);
        let mut text = format!(
            "tc qdisc add dev eth0 root handle 1: cbq bandwidth {link_bps}bit avpkt 1000 cell 8\n"
        );
        let mut any = false;
        for (stream, &(from, to)) in self.streams.iter().enumerate() {
            let Some(rate) = rate_of(stream).filter(|_| from == host) else {
                continue;
            };
            any = true;
            let deep = rate.bytes_in(shaping.bucket).as_bytes() + allot;
            let bucket = self.bucket.map_or(deep, ByteSize::as_bytes);
            let class = to + 1;
            let rate_bps = rate.as_bps();
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "tc class add dev eth0 parent 1:0 classid 1:{class} cbq bandwidth {link_bps}bit \
                 rate {link_bps}bit allot {allot} weight 100Mbit prio 8 maxburst 20 avpkt 1000\n\
                 tc qdisc add dev eth0 parent 1:{class} handle {class}0: tbf rate {rate_bps}bit \
                 buffer {bucket} limit {limit}\n\
                 tc filter add dev eth0 parent 1:0 protocol ip prio 100 u32 match ip dst \
                 10.0.0.{to} flowid 1:{class}\n"
            );
        }
        any.then_some(text)
    }
}

/// What a program has of a bucket's `rate`, Mbit/s: the bucket counts Ethernet, IP and TCP
/// headers, the program does not.
pub fn payload_mbps(rate: Rate, mtu: u64) -> f64 {
    let payload = (mtu - HEADER_BYTES) as f64;
    rate.as_bps() as f64 * 1e-6 * payload / (mtu + 14) as f64
}
