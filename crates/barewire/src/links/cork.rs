//! What a thread sends to other hosts goes together while it says so.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::links::driven::{Driven, is_same};

thread_local! {
    /// The links over which this thread has something to send, while it has a cork.
    static HELD: RefCell<Option<Vec<Arc<dyn Driven>>>> = const { RefCell::new(None) };
}

/// While it is there, what this thread sends to other hosts is gathered. It goes when the cork is dropped: all that goes to
/// one host in one piece, whatever the number of connections. A server that answers many connections in one turn of its
/// event loop spares a system call, and often a packet, for each but the first.
///
/// Nobody waits for ever: what was gathered also goes when a thread of the program polls or waits for what comes from that
/// host, and from time to time by itself. On one host a cork changes nothing. Of two in one thread the outer one counts.
///
/// ```
/// use barewire::{Cork, Node};
///
/// let node = Node::new()?;
/// let mut events = Vec::new();
/// node.poll(&mut events, 64)?;
/// let cork = Cork::new();
/// for event in events.drain(..) {
///     // Receive what has come, and answer it.
///     drop(event);
/// }
/// drop(cork);
/// # Ok::<(), barewire::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "what is sent is gathered as long as it is there"]
pub struct Cork {
    is_outer: bool,
    _of_this_thread: PhantomData<*const ()>,
}

impl Cork {
    /// Begins to gather.
    pub fn new() -> Cork {
        let begin = |held: &mut Option<Vec<_>>| {
            let is_outer = held.is_none();
            held.get_or_insert_default();
            is_outer
        };
        Cork {
            is_outer: HELD.with_borrow_mut(begin),
            _of_this_thread: PhantomData,
        }
    }

    /// Whether this thread gathers what goes over a link, which is noted then.
    pub(crate) fn holds(link: &Arc<dyn Driven>) -> bool {
        let hold = |held: &mut Option<Vec<Arc<dyn Driven>>>| {
            let Some(held) = held else { return false };
            if !held.iter().rev().any(|other| is_same(other, link)) {
                held.push(Arc::clone(link));
            }
            true
        };
        // While the thread ends there is no cork any more.
        HELD.try_with(|held| hold(&mut held.borrow_mut()))
            .unwrap_or(false)
    }
}

impl Default for Cork {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Cork {
    fn drop(&mut self) {
        if self.is_outer {
            let held = HELD.try_with(RefCell::take).ok().flatten();
            held.into_iter().flatten().for_each(|link| link.push());
        }
    }
}
