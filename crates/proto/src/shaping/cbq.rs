//! Class based queueing: classes share a link by their measured idle time.
//!
//! | question | rule |
//! |---|---|
//! | who may send? | a class that its [estimator] finds within its limit, or which an ancestor within its limit lends to |
//! | who may not borrow? | a *bounded* class, nor through one |
//! | who does not lend? | an *isolated* class: its rate is no part of what its ancestors lend, and what it sends within its rate is not charged to them |
//! | who goes first? | the lowest priority number, 1 to 8 |
//! | among equals? | deficit round robin, quantum = weight · allot · n / Σ weight over the n classes of that priority |
//! | who pays? | the class and each ancestor, up to the discipline or to an isolated class that needed no loan |
//!
//! The clock of the estimators runs ahead of `now` while packets handed to the
//! device still take time on a link of the configured bandwidth; so a card that
//! takes several packets at once does not make a class look faster than it is.
//! A class refused for want of idle time waits until its undertime, plus offtime.
//! The estimator forgets, so rates are kept to about a percent; with a `minburst`
//! of 8 a bounded class gets a tenth less than its rate.
//!
//! Traffic that no filter claims goes to the queue of the discipline itself,
//! which is of the lowest priority and limited by the link alone.
//!
//! Source: linux-tc (tc-cbq and tc-cbq-details manual pages), kek00.

pub mod estimator;

use alloc::vec::Vec;

use barewire_units::{ByteSize, Instant, Rate};

use super::round_robin::RoundRobin;
use super::sharing::{Node, Sharing, path};
use estimator::{Estimator, Parameters, time_of};

/// The lowest priority, that of a class without `prio`.
pub const PRIORITY_LOWEST: u8 = 8;
/// Default weight of the past in the estimator. Source: tc-cbq-details.
pub const EWMA_LOG2_DEFAULT: u8 = 5;
/// Average packet where none is given. OPEN in kek00: that of the published command.
pub const AVPKT_DEFAULT: ByteSize = ByteSize::from_bytes(1_000);
/// `maxburst` where none is given. OPEN in kek00: that of the published command.
pub const MAXBURST_DEFAULT: u32 = 20;
/// Granularity of the kernel's rate table. Times are exact here, so it changes nothing.
pub const CELL_DEFAULT: u32 = 8;
/// Weight where none is given: all the same.
pub const WEIGHT_DEFAULT: Rate = Rate::from_bps(1);

/// Parameters of the discipline: `tc qdisc add ... cbq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QdiscConfig {
    /// Rate of the link.
    pub bandwidth: Rate,
    /// Average packet.
    pub avpkt: ByteSize,
    /// Granularity of the kernel's rate table, in bytes.
    pub cell: u32,
    /// Shorter packets count as this long.
    pub mpu: ByteSize,
    /// Weight of the past in the estimator.
    pub ewma_log2: u8,
}

/// Parameters of a class: `tc class add ... cbq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// Rate of the link that the idle bounds are computed for.
    pub bandwidth: Rate,
    /// Rate of the class.
    pub rate: Rate,
    /// Bytes of a turn, before weighting.
    pub allot: ByteSize,
    /// Weight among the classes of the same priority; only ratios matter.
    pub weight: Rate,
    /// 1 (first) to 8 (last).
    pub priority: u8,
    /// Granularity of the kernel's rate table, in bytes.
    pub cell: u32,
    /// Average packets in a burst after a long silence.
    pub maxburst: u32,
    /// Average packets in a burst after each wait.
    pub minburst: u32,
    /// Lowest average idle time, as tc gives it.
    pub minidle_us: Option<u32>,
    /// Average packet.
    pub avpkt: ByteSize,
    /// Weight of the past in the estimator.
    pub ewma_log2: u8,
    /// Shorter packets count as this long.
    pub mpu: ByteSize,
    /// Does not borrow.
    pub bounded: bool,
    /// Does not lend.
    pub isolated: bool,
}

/// A class, with its estimator.
#[derive(Clone, Debug)]
pub(super) struct Class {
    config: ClassConfig,
    estimator: Estimator,
    quantum_bytes: i64,
}

impl Class {
    fn new(mut config: ClassConfig, link: Rate) -> Self {
        config.priority = config.priority.clamp(1, PRIORITY_LOWEST);
        let parameters = Parameters {
            rate: Some(config.rate),
            bandwidth: config.bandwidth,
            avpkt: config.avpkt,
            ewma_log2: config.ewma_log2.clamp(1, 31),
            maxburst: config.maxburst,
            minburst: config.minburst,
            minidle_us: config.minidle_us,
        };
        Self {
            config,
            estimator: Estimator::new(parameters, link),
            quantum_bytes: 1,
        }
    }
}

/// The rules of CBQ.
#[derive(Clone, Debug)]
pub(super) struct LinkSharing {
    link: Rate,
    /// When the link will have sent all that it was given.
    link_free_at: Instant,
    /// Whose limit the class picked last uses: its own, or an ancestor's.
    lender: usize,
    bands: [RoundRobin; PRIORITY_LOWEST as usize],
}

impl LinkSharing {
    /// The rules of a discipline, and the class that is the discipline itself.
    pub(super) fn new(config: QdiscConfig) -> (Self, Class) {
        let sharing = Self {
            link: config.bandwidth,
            link_free_at: Instant::ORIGIN,
            lender: 0,
            bands: Default::default(),
        };
        let own = ClassConfig {
            bandwidth: config.bandwidth,
            rate: config.bandwidth,
            allot: config.avpkt,
            weight: config.bandwidth,
            priority: PRIORITY_LOWEST,
            cell: config.cell,
            maxburst: MAXBURST_DEFAULT,
            minburst: 0,
            minidle_us: None,
            avpkt: config.avpkt,
            ewma_log2: config.ewma_log2,
            mpu: config.mpu,
            bounded: true,
            isolated: false,
        };
        let root = sharing.class(own);
        (sharing, root)
    }

    /// The time at which the next packet could begin on the link.
    fn clock(&self, now: Instant) -> Instant {
        self.link_free_at.max(now)
    }

    /// Whether `index` or someone who lends to it is within the limit: who.
    fn lender(nodes: &[Node<Class>], index: usize, clock: Instant) -> Option<usize> {
        lenders(nodes, index).find(|&at| nodes[at].class.estimator.is_under_limit(clock))
    }

    /// The classes of `queued` in `band` that may send; the others are refused.
    fn sort_out(
        nodes: &mut [Node<Class>],
        queued: &[usize],
        band: u8,
        clock: Instant,
    ) -> Vec<usize> {
        let mut ready = Vec::new();
        for &index in queued {
            if nodes[index].class.config.priority != band {
                continue;
            }
            if Self::lender(nodes, index, clock).is_some() {
                ready.push(index);
            } else {
                nodes[index].class.estimator.refuse(clock);
            }
        }
        ready
    }
}

/// The class and those that it may borrow from, nearest first.
fn lenders(nodes: &[Node<Class>], index: usize) -> impl Iterator<Item = usize> {
    let mut bounded = false;
    path(nodes, index).take_while(move |&at| {
        let reached = !bounded;
        bounded |= nodes[at].class.config.bounded;
        reached
    })
}

impl Sharing for LinkSharing {
    type Config = ClassConfig;
    type Class = Class;

    fn class(&self, config: ClassConfig) -> Class {
        Class::new(config, self.link)
    }

    fn pick(&mut self, nodes: &mut [Node<Class>], queued: &[usize], now: Instant) -> Option<usize> {
        let clock = self.clock(now);
        for (band, ring) in (1..).zip(&mut self.bands) {
            let ready = Self::sort_out(nodes, queued, band, clock);
            let Some(index) = ring.pick(&ready, |index| nodes[index].class.quantum_bytes) else {
                continue;
            };
            self.lender = Self::lender(nodes, index, clock)?;
            nodes[index].class.estimator.allow();
            return Some(index);
        }
        None
    }

    fn charge(&mut self, nodes: &mut [Node<Class>], sent: usize, len_bytes: u32, now: Instant) {
        let config = nodes[sent].class.config;
        let counted = u64::from(len_bytes).max(config.mpu.as_bytes());
        let end = self.clock(now).saturating_add(time_of(self.link, counted));
        self.link_free_at = end;
        self.bands[usize::from(config.priority) - 1].charge(sent, len_bytes);
        let mut lender_paid = false;
        let mut payer = Some(sent);
        while let Some(at) = payer {
            let Node { class, parent, .. } = &mut nodes[at];
            class.estimator.sent(end, counted);
            lender_paid |= at == self.lender;
            let paid_in_full = lender_paid && class.config.isolated;
            payer = parent.filter(|_| !paid_in_full);
        }
    }

    fn ready_at(&self, nodes: &[Node<Class>], index: usize) -> Option<Instant> {
        lenders(nodes, index)
            .filter_map(|at| nodes[at].class.estimator.undertime())
            .min()
    }

    fn rearrange(&mut self, nodes: &mut [Node<Class>]) {
        set_quanta(nodes);
        set_lendable(nodes);
    }
}

/// quantum = weight · allot · n / Σ weight. The discipline's own
/// queue is no class: its quantum is the average packet.
fn set_quanta(nodes: &mut [Node<Class>]) {
    let Some((root, nodes)) = nodes.split_first_mut() else {
        return;
    };
    root.class.quantum_bytes =
        i64::try_from(root.class.config.avpkt.as_bytes()).unwrap_or(i64::MAX);
    for band in 1..=PRIORITY_LOWEST {
        let in_band = |node: &&mut Node<Class>| node.class.config.priority == band;
        let (mut count, mut weights) = (0_u128, 0_u128);
        for node in nodes.iter_mut().filter(in_band) {
            count += 1;
            weights += u128::from(node.class.config.weight.as_bps());
        }
        for node in nodes.iter_mut().filter(in_band) {
            let config = &node.class.config;
            let weighted = u128::from(config.weight.as_bps())
                .saturating_mul(u128::from(config.allot.as_bytes()))
                .saturating_mul(count);
            node.class.quantum_bytes = i64::try_from(weighted / weights).unwrap_or(i64::MAX);
        }
    }
}

/// What a class lends: its rate less those of the isolated classes below it, of
/// which each is counted at the topmost.
fn set_lendable(nodes: &mut [Node<Class>]) {
    let mut kept_bps = Vec::from_iter(nodes.iter().map(|_| 0_u64));
    // A class stands behind its parent, so all below a class come before it here.
    for index in (0..nodes.len()).rev() {
        let node = &mut nodes[index];
        let config = &node.class.config;
        if node.inner {
            let left = config.rate.as_bps().saturating_sub(kept_bps[index]);
            node.class.estimator.set_rate(Rate::new(left));
        }
        let config = &node.class.config;
        let kept = match config.isolated {
            true => config.rate.as_bps(),
            false => kept_bps[index],
        };
        if let Some(parent) = node.parent {
            kept_bps[parent] = kept_bps[parent].saturating_add(kept);
        }
    }
}

#[cfg(test)]
mod tests;
