//! Buffers that take several messages (`FI_MULTI_RECV`).
//!
//! Such a buffer stays posted. Each message gets the next part of it, until less than a minimum is left. The program has
//! its buffer back when the last part has ended: the long messages in it may end in any order. It learns that by the flag
//! `FI_MULTI_RECV` in the completion of a message, or, where that tells of an error or is not told, by a completion of
//! its own. A buffer that is canceled, or whose only sender has gone, is given back with an error, once.

use std::collections::HashMap;
use std::ffi::c_int;

/// What a receive is of a buffer that takes several messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// The number of the buffer.
    pub(super) buffer: u64,
    /// The buffer takes no more messages when less than this is left of it. At least 1.
    pub(super) bytes_min: usize,
    /// It is all that is left.
    pub(super) is_rest: bool,
}

#[derive(Debug, Default)]
struct Buffer {
    /// Parts that have a message and have not ended.
    parts: usize,
    /// It takes no more messages.
    is_used_up: bool,
    error: Option<c_int>,
}

/// A buffer that the program has back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Released {
    pub(super) error: Option<c_int>,
}

/// The buffers that the program has lent.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    next: u64,
    open: HashMap<u64, Buffer>,
}

impl Buffers {
    /// A new buffer, whole.
    pub(super) fn add(&mut self, bytes_min: usize) -> Share {
        let buffer = self.next;
        self.next += 1;
        self.open.insert(buffer, Buffer::default());
        Share {
            buffer,
            bytes_min: bytes_min.max(1),
            is_rest: true,
        }
    }

    /// A part gets a message.
    pub(super) fn begin(&mut self, share: Share) {
        if let Some(buffer) = self.open.get_mut(&share.buffer) {
            buffer.parts += 1;
            buffer.is_used_up |= share.is_rest;
        }
    }

    /// The message of a part has ended, well or not. Returns whether the program has the buffer back.
    pub(super) fn end(&mut self, share: Share) -> Option<Released> {
        let buffer = self.open.get_mut(&share.buffer)?;
        buffer.parts = buffer.parts.saturating_sub(1);
        self.release(share)
    }

    /// What is left of a buffer is not posted any more. Returns whether the program has it back.
    pub(super) fn withdraw(&mut self, share: Share, error: c_int) -> Option<Released> {
        let buffer = self.open.get_mut(&share.buffer)?;
        buffer.is_used_up = true;
        buffer.error = Some(error);
        self.release(share)
    }

    fn release(&mut self, share: Share) -> Option<Released> {
        let buffer = self.open.get(&share.buffer)?;
        if buffer.parts > 0 || !buffer.is_used_up {
            return None;
        }
        let buffer = self.open.remove(&share.buffer)?;
        Some(Released {
            error: buffer.error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: Option<Released> = Some(Released { error: None });

    #[test]
    fn a_buffer_comes_back_with_its_last_part() {
        let mut buffers = Buffers::default();
        let rest = buffers.add(0);
        let part = Share {
            is_rest: false,
            ..rest
        };
        assert_eq!(rest.bytes_min, 1);
        buffers.begin(part);
        assert_eq!(buffers.end(part), None);
        buffers.begin(part);
        buffers.begin(rest);
        // In another order than they began.
        assert_eq!(buffers.end(rest), None);
        assert_eq!(buffers.end(part), FINE);
        assert_eq!(buffers.end(part), None);
    }

    #[test]
    fn a_buffer_that_is_canceled_comes_back_once() {
        let mut buffers = Buffers::default();
        let (idle, busy) = (buffers.add(64), buffers.add(64));
        assert_eq!(
            buffers.withdraw(idle, 125),
            Some(Released { error: Some(125) })
        );
        let part = Share {
            is_rest: false,
            ..busy
        };
        buffers.begin(part);
        assert_eq!(buffers.withdraw(busy, 125), None);
        assert_eq!(buffers.end(part), Some(Released { error: Some(125) }));
        assert_eq!(buffers.withdraw(busy, 125), None);
        assert!(buffers.open.is_empty());
    }
}
