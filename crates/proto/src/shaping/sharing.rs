//! What the rules of a discipline with classes see of it: a tree of classes, without names and
//! queues.

use barewire_units::Instant;

/// Levels of classes below a discipline, and filters passed on the way down.
pub(super) const DEPTH_MAX: usize = 8;

/// The rules by which classes share a link.
pub(super) trait Sharing {
    /// Parameters of a class.
    type Config;
    /// Parameters and state of a class.
    type Class;

    /// A new class.
    fn class(&self, config: Self::Config) -> Self::Class;

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
    pub(super) parent: Option<usize>,
    /// Classes between this one and the discipline.
    pub(super) depth: usize,
    pub(super) inner: bool,
    pub(super) class: C,
}

impl<C> Node<C> {
    pub(super) const fn new(parent: Option<usize>, depth: usize, class: C) -> Self {
        Self {
            parent,
            depth,
            inner: false,
            class,
        }
    }
}

/// The indices from `from` up to the discipline, both included.
pub(super) fn path<C>(nodes: &[Node<C>], from: usize) -> impl Iterator<Item = usize> {
    core::iter::successors(Some(from), |&index| nodes[index].parent)
}
