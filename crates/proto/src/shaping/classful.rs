//! What CBQ and HTB have in common: a tree of classes, each leaf with a queue,
//! filters that choose the leaf, and the loop that asks the classes in turn.
//!
//! | packet | goes to |
//! |---|---|
//! | a filter of the discipline names a leaf class | that class |
//! | it names an inner class | the filters of that class decide, and so on |
//! | none matches, or the walk does not end at a leaf | the default class |
//! | no default class | the queue of the discipline itself |
//!
//! What differs, who may send next and what that costs whom, is a [`Sharing`].

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use barewire_units::Instant;

use super::cbq::{self, LinkSharing};
use super::fifo::Fifo;
use super::handle::Handle;
use super::htb::{self, TokenSharing};
use super::problem::Problem;
use super::qdisc::{Dropped, Limit, Packet, Qdisc, Stats};
use super::sharing::{DEPTH_MAX, Node, Sharing};
use super::tbf::Tbf;
use super::timer::Timer;
use super::u32::Filters;

/// What a class has besides its place in the tree.
#[derive(Clone, Debug)]
struct Place {
    handle: Handle,
    filters: Filters,
    queue: Discipline,
    has_default_queue: bool,
}

impl Place {
    fn new(handle: Handle) -> Self {
        Self {
            handle,
            filters: Filters::default(),
            queue: Discipline::Fifo(Fifo::new(Limit::DEFAULT)),
            has_default_queue: true,
        }
    }
}

/// A discipline with classes.
#[derive(Clone, Debug)]
pub(super) struct Classful<S: Sharing> {
    sharing: S,
    nodes: Vec<Node<S::Class>>,
    /// The same classes, by the same indices.
    places: Vec<Place>,
    default_minor: u16,
    timer: Timer,
    now: Instant,
    stats: Stats,
    /// Kept for its memory only.
    queued: Vec<usize>,
}

impl<S: Sharing> Classful<S> {
    /// The discipline `handle` without classes; `root` is the state of its own.
    fn with_root(
        sharing: S,
        handle: Handle,
        root: S::Class,
        default_minor: u16,
        timer: Timer,
    ) -> Self {
        let mut classful = Self {
            sharing,
            nodes: Vec::from([Node::new(None, 0, root)]),
            places: Vec::from([Place::new(handle.qdisc())]),
            default_minor,
            timer,
            now: Instant::ORIGIN,
            stats: Stats::default(),
            queued: Vec::new(),
        };
        classful.sharing.rearrange(&mut classful.nodes);
        classful
    }

    /// Adds the class `id` below `parent`.
    pub(super) fn add_class(
        &mut self,
        parent: Handle,
        id: Handle,
        config: S::Config,
    ) -> Result<(), Problem> {
        let above = self.index(parent).ok_or(Problem::NoSuchClass(parent))?;
        if id.major != self.places[0].handle.major || id.minor == 0 {
            return Err(Problem::NotOfThisQdisc(id));
        }
        if self.index(id).is_some() {
            return Err(Problem::Taken(id));
        }
        if !self.places[above].has_default_queue {
            return Err(Problem::HasQueue(parent));
        }
        let depth = self.nodes[above].depth + 1;
        if depth > DEPTH_MAX {
            return Err(Problem::TooDeep(id));
        }
        self.nodes[above].inner = true;
        let class = self.sharing.class(config);
        self.nodes.push(Node::new(Some(above), depth, class));
        self.places.push(Place::new(id));
        self.sharing.rearrange(&mut self.nodes);
        Ok(())
    }

    fn index(&self, handle: Handle) -> Option<usize> {
        self.places.iter().position(|place| place.handle == handle)
    }

    /// The index of the class that `packet` belongs to.
    fn classify(&self, packet: &Packet) -> usize {
        let mut at = 0;
        for _ in 0..=DEPTH_MAX {
            let found = self.places[at].filters.classify(packet);
            let Some(next) = found.and_then(|id| self.index(id)) else {
                break;
            };
            if !self.nodes[next].inner {
                return next;
            }
            at = next;
        }
        let default = Handle::new(self.places[0].handle.major, self.default_minor);
        self.index(default)
            .filter(|&index| !self.nodes[index].inner)
            .unwrap_or(0)
    }

    fn dequeue_from(&mut self, queued: &mut Vec<usize>) -> Option<Packet> {
        let now = self.now;
        while let Some(index) = self.sharing.pick(&mut self.nodes, queued, now) {
            if let Some(packet) = self.places[index].queue.as_qdisc_mut().dequeue(now) {
                let len_bytes = packet.len_bytes;
                self.sharing.charge(&mut self.nodes, index, len_bytes, now);
                return Some(packet);
            }
            queued.retain(|&other| other != index);
        }
        None
    }

    /// When the class could send: neither its own rules nor its queue forbid it.
    fn class_deadline(&self, index: usize) -> Option<Instant> {
        let queue = self.places[index].queue.as_qdisc().next_deadline()?;
        let ready = self.sharing.ready_at(&self.nodes, index)?;
        let ready = match ready > self.now {
            true => self.timer.round_up(ready)?,
            false => ready,
        };
        Some(ready.max(queue))
    }
}

/// Class based queueing.
pub(super) type Cbq = Classful<LinkSharing>;

impl Cbq {
    /// A discipline without classes.
    pub(super) fn new(handle: Handle, config: cbq::QdiscConfig, timer: Timer) -> Self {
        let (sharing, root) = LinkSharing::new(config);
        Self::with_root(sharing, handle, root, 0, timer)
    }
}

/// Hierarchical token buckets.
pub(super) type Htb = Classful<TokenSharing>;

impl Htb {
    /// A discipline without classes.
    pub(super) fn new(handle: Handle, config: htb::QdiscConfig, timer: Timer) -> Self {
        let (sharing, root) = TokenSharing::new(config);
        Self::with_root(sharing, handle, root, config.default_minor, timer)
    }
}

impl<S: Sharing> Qdisc for Classful<S> {
    fn enqueue(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        self.now = self.now.max(now);
        let len_bytes = packet.len_bytes;
        let index = self.classify(&packet);
        let queue = self.places[index].queue.as_qdisc_mut();
        let outcome = queue.enqueue(self.now, packet);
        self.stats.note_enqueue(len_bytes, &outcome);
        outcome
    }

    fn dequeue(&mut self, now: Instant) -> Option<Packet> {
        self.now = self.now.max(now);
        if self.stats.queued.packets == 0 {
            return None;
        }
        let mut queued = mem::take(&mut self.queued);
        queued.clear();
        queued.extend((0..self.nodes.len()).filter(|&index| {
            let stats = self.places[index].queue.as_qdisc().stats();
            stats.queued.packets > 0
        }));
        let packet = self.dequeue_from(&mut queued);
        self.queued = queued;
        match &packet {
            Some(packet) => self.stats.note_sent(packet.len_bytes),
            None => self.stats.overlimits += 1,
        }
        packet
    }

    fn next_deadline(&self) -> Option<Instant> {
        (0..self.nodes.len())
            .filter_map(|index| self.class_deadline(index))
            .min()
    }

    fn wake(&mut self) {
        for place in &mut self.places {
            place.queue.as_qdisc_mut().wake();
        }
    }

    fn stats(&self) -> Stats {
        self.stats
    }
}

/// What a tree asks of a discipline with classes, whichever it is.
pub(super) trait Classes {
    /// The handle of the discipline.
    fn handle(&self) -> Handle;

    /// Puts `queue` in the place of the default queue of the leaf `class`.
    fn attach(&mut self, class: Handle, queue: Discipline) -> Result<(), Problem>;

    /// The filters of the discipline or of a class.
    fn filters_mut(&mut self, parent: Handle) -> Result<&mut Filters, Problem>;

    /// Counters of the queue of a class; `None` if it does not exist.
    fn class_stats(&self, id: Handle) -> Option<Stats>;

    /// The disciplines in the classes.
    fn queues(&self) -> Box<dyn Iterator<Item = &Discipline> + '_>;

    /// The disciplines in the classes.
    fn queues_mut(&mut self) -> Box<dyn Iterator<Item = &mut Discipline> + '_>;
}

impl<S: Sharing> Classes for Classful<S> {
    fn handle(&self) -> Handle {
        self.places[0].handle
    }

    fn attach(&mut self, class: Handle, queue: Discipline) -> Result<(), Problem> {
        let index = self.index(class).ok_or(Problem::NoSuchClass(class))?;
        if self.nodes[index].inner || index == 0 {
            return Err(Problem::NotALeaf(class));
        }
        let place = &mut self.places[index];
        if !place.has_default_queue {
            return Err(Problem::HasQueue(class));
        }
        place.queue = queue;
        place.has_default_queue = false;
        Ok(())
    }

    fn filters_mut(&mut self, parent: Handle) -> Result<&mut Filters, Problem> {
        let index = self.index(parent).ok_or(Problem::NoSuchClass(parent))?;
        Ok(&mut self.places[index].filters)
    }

    fn class_stats(&self, id: Handle) -> Option<Stats> {
        let index = self.index(id)?;
        Some(self.places[index].queue.as_qdisc().stats())
    }

    fn queues(&self) -> Box<dyn Iterator<Item = &Discipline> + '_> {
        Box::new(self.places.iter().map(|place| &place.queue))
    }

    fn queues_mut(&mut self) -> Box<dyn Iterator<Item = &mut Discipline> + '_> {
        Box::new(self.places.iter_mut().map(|place| &mut place.queue))
    }
}

/// Any discipline.
#[derive(Clone, Debug)]
pub(super) enum Discipline {
    /// A plain queue.
    Fifo(Fifo),
    /// A token bucket.
    Tbf(Tbf),
    /// Classes that share by idle time.
    Cbq(Cbq),
    /// Classes that share by token buckets.
    Htb(Htb),
}

impl Discipline {
    /// The discipline, whichever it is.
    pub(super) fn as_qdisc(&self) -> &dyn Qdisc {
        match self {
            Self::Fifo(fifo) => fifo,
            Self::Tbf(tbf) => tbf,
            Self::Cbq(cbq) => cbq,
            Self::Htb(htb) => htb,
        }
    }

    /// The discipline, whichever it is.
    pub(super) fn as_qdisc_mut(&mut self) -> &mut dyn Qdisc {
        match self {
            Self::Fifo(fifo) => fifo,
            Self::Tbf(tbf) => tbf,
            Self::Cbq(cbq) => cbq,
            Self::Htb(htb) => htb,
        }
    }
    /// Its classes, if it can have any.
    pub(super) fn classes(&self) -> Option<&dyn Classes> {
        match self {
            Self::Fifo(_) | Self::Tbf(_) => None,
            Self::Cbq(cbq) => Some(cbq),
            Self::Htb(htb) => Some(htb),
        }
    }

    /// Its classes, if it can have any.
    pub(super) fn classes_mut(&mut self) -> Option<&mut dyn Classes> {
        match self {
            Self::Fifo(_) | Self::Tbf(_) => None,
            Self::Cbq(cbq) => Some(cbq),
            Self::Htb(htb) => Some(htb),
        }
    }

    /// The discipline with classes of this major number, this one or one below it.
    pub(super) fn find(&self, major: u16) -> Option<&Self> {
        let classes = self.classes()?;
        if classes.handle().major == major {
            return Some(self);
        }
        classes.queues().find_map(|queue| queue.find(major))
    }

    /// The discipline with classes of this major number, this one or one below it.
    pub(super) fn find_mut(&mut self, major: u16) -> Option<&mut Self> {
        if self.classes()?.handle().major == major {
            return Some(self);
        }
        let mut queues = self.classes_mut()?.queues_mut();
        queues.find_map(|queue| queue.find_mut(major))
    }
}
