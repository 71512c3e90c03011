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

use super::cbq::Cbq;
use super::htb::Htb;
use super::u32::Filters;
use super::{Dropped, Fifo, Handle, Limit, Packet, Problem, Qdisc, Stats, Tbf, Timer};

/// Levels of classes below a discipline, and filters passed on the way down.
pub(super) const DEPTH_MAX: usize = 8;

/// The rules by which classes share a link.
pub(super) trait Sharing {
    /// Parameters and state of one class.
    type Class;

    /// Which of the classes `queued` (rising indices) may send at `now`.
    fn pick(
        &mut self,
        nodes: &mut [Node<Self::Class>],
        queued: &[usize],
        now: Instant,
    ) -> Option<usize>;

    /// Notes that the class just picked sent a packet.
    fn charge(
        &mut self,
        nodes: &mut [Node<Self::Class>],
        sent: usize,
        len_bytes: u32,
        now: Instant,
    );

    /// When the rules let the class send; `None` is never.
    fn ready_at(&self, nodes: &[Node<Self::Class>], index: usize) -> Option<Instant>;

    /// Brings the state of all classes up to date after one was added.
    fn rearrange(&mut self, nodes: &mut [Node<Self::Class>]);
}

/// A class, or at index 0 the discipline itself.
#[derive(Clone, Debug)]
pub(super) struct Node<C> {
    handle: Handle,
    pub(super) parent: Option<usize>,
    /// Classes between this one and the discipline.
    pub(super) depth: usize,
    pub(super) inner: bool,
    pub(super) class: C,
    filters: Filters,
    queue: Discipline,
    has_default_queue: bool,
}

impl<C> Node<C> {
    fn new(handle: Handle, parent: Option<usize>, depth: usize, class: C) -> Self {
        Self {
            handle,
            parent,
            depth,
            inner: false,
            class,
            filters: Filters::default(),
            queue: Discipline::Fifo(Fifo::new(Limit::DEFAULT)),
            has_default_queue: true,
        }
    }
}

/// The indices from `from` up to the discipline, both included.
pub(super) fn path<C>(nodes: &[Node<C>], from: usize) -> impl Iterator<Item = usize> {
    core::iter::successors(Some(from), |&index| nodes[index].parent)
}

/// A discipline with classes.
#[derive(Clone, Debug)]
pub(super) struct Classful<S: Sharing> {
    pub(super) sharing: S,
    nodes: Vec<Node<S::Class>>,
    default_minor: u16,
    timer: Timer,
    now: Instant,
    stats: Stats,
    /// Kept for its memory only.
    queued: Vec<usize>,
}

impl<S: Sharing> Classful<S> {
    /// The discipline `handle` without classes; `root` is the state of its own.
    pub(super) fn with_root(
        sharing: S,
        handle: Handle,
        root: S::Class,
        default_minor: u16,
        timer: Timer,
    ) -> Self {
        let mut classful = Self {
            sharing,
            nodes: Vec::from([Node::new(handle.qdisc(), None, 0, root)]),
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
    pub(super) fn insert(
        &mut self,
        parent: Handle,
        id: Handle,
        class: S::Class,
    ) -> Result<(), Problem> {
        let above = self.index(parent).ok_or(Problem::NoSuchClass(parent))?;
        if id.major != self.nodes[0].handle.major || id.minor == 0 {
            return Err(Problem::NotOfThisQdisc(id));
        }
        if self.index(id).is_some() {
            return Err(Problem::Taken(id));
        }
        if !self.nodes[above].has_default_queue {
            return Err(Problem::HasQueue(parent));
        }
        let depth = self.nodes[above].depth + 1;
        if depth > DEPTH_MAX {
            return Err(Problem::TooDeep(id));
        }
        self.nodes[above].inner = true;
        self.nodes.push(Node::new(id, Some(above), depth, class));
        self.sharing.rearrange(&mut self.nodes);
        Ok(())
    }

    fn index(&self, handle: Handle) -> Option<usize> {
        self.nodes.iter().position(|node| node.handle == handle)
    }

    /// The index of the class that `packet` belongs to.
    fn classify(&self, packet: &Packet) -> usize {
        let mut at = 0;
        for _ in 0..=DEPTH_MAX {
            let found = self.nodes[at].filters.classify(packet);
            let Some(next) = found.and_then(|id| self.index(id)) else {
                break;
            };
            if !self.nodes[next].inner {
                return next;
            }
            at = next;
        }
        let default = Handle::new(self.nodes[0].handle.major, self.default_minor);
        self.index(default)
            .filter(|&index| !self.nodes[index].inner)
            .unwrap_or(0)
    }

    fn dequeue_from(&mut self, queued: &mut Vec<usize>) -> Option<Packet> {
        let now = self.now;
        while let Some(index) = self.sharing.pick(&mut self.nodes, queued, now) {
            if let Some(packet) = self.nodes[index].queue.as_qdisc_mut().dequeue(now) {
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
        let queue = self.nodes[index].queue.as_qdisc().next_deadline()?;
        let ready = self.sharing.ready_at(&self.nodes, index)?;
        let ready = match ready > self.now {
            true => self.timer.round_up(ready)?,
            false => ready,
        };
        Some(ready.max(queue))
    }
}

impl<S: Sharing> Qdisc for Classful<S> {
    fn enqueue(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        self.now = self.now.max(now);
        let len_bytes = packet.len_bytes;
        let index = self.classify(&packet);
        let queue = self.nodes[index].queue.as_qdisc_mut();
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
            let stats = self.nodes[index].queue.as_qdisc().stats();
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
        for node in &mut self.nodes {
            node.queue.as_qdisc_mut().wake();
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
        self.nodes[0].handle
    }

    fn attach(&mut self, class: Handle, queue: Discipline) -> Result<(), Problem> {
        let index = self.index(class).ok_or(Problem::NoSuchClass(class))?;
        let node = &mut self.nodes[index];
        if node.inner || index == 0 {
            return Err(Problem::NotALeaf(class));
        }
        if !node.has_default_queue {
            return Err(Problem::HasQueue(class));
        }
        node.queue = queue;
        node.has_default_queue = false;
        Ok(())
    }

    fn filters_mut(&mut self, parent: Handle) -> Result<&mut Filters, Problem> {
        let index = self.index(parent).ok_or(Problem::NoSuchClass(parent))?;
        Ok(&mut self.nodes[index].filters)
    }

    fn class_stats(&self, id: Handle) -> Option<Stats> {
        let index = self.index(id)?;
        Some(self.nodes[index].queue.as_qdisc().stats())
    }

    fn queues(&self) -> Box<dyn Iterator<Item = &Discipline> + '_> {
        Box::new(self.nodes.iter().map(|node| &node.queue))
    }

    fn queues_mut(&mut self) -> Box<dyn Iterator<Item = &mut Discipline> + '_> {
        Box::new(self.nodes.iter_mut().map(|node| &mut node.queue))
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
