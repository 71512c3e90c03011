//! An output of a switch: a finite buffer, first come first served. What does not fit is lost.
//! The switches of KEK and of the workbench have one for each port.

use std::collections::VecDeque;

/// An output that frames of type `F` leave by.
#[derive(Clone, Debug)]
pub struct Output<F> {
    buffer_bytes: u64,
    held_bytes: u64,
    highest_bytes: u64,
    waiting: VecDeque<(F, u64)>,
    /// The frame on the link, and its bytes.
    leaving: Option<(F, u64)>,
    lost: u64,
}

impl<F: Clone> Output<F> {
    /// An empty output with a buffer of `buffer_bytes`, the frame that leaves included.
    #[must_use]
    pub const fn new(buffer_bytes: u64) -> Self {
        Self {
            buffer_bytes,
            held_bytes: 0,
            highest_bytes: 0,
            waiting: VecDeque::new(),
            leaving: None,
            lost: 0,
        }
    }

    /// Takes a frame that holds `bytes` of the buffer; `false` if it is lost.
    pub fn handle_frame(&mut self, frame: F, bytes: u64) -> bool {
        if self.held_bytes + bytes > self.buffer_bytes {
            self.lost += 1;
            return false;
        }
        self.held_bytes += bytes;
        self.highest_bytes = self.highest_bytes.max(self.held_bytes);
        self.waiting.push_back((frame, bytes));
        true
    }

    /// The frame that begins to leave now, if the link is free.
    pub fn poll(&mut self) -> Option<F> {
        if self.leaving.is_some() {
            return None;
        }
        self.leaving = self.waiting.pop_front();
        self.leaving.as_ref().map(|(frame, _)| frame.clone())
    }

    /// The frame has left.
    pub fn sent(&mut self) -> Option<F> {
        let (frame, bytes) = self.leaving.take()?;
        self.held_bytes -= bytes;
        Some(frame)
    }

    /// Frames that did not fit.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// The most that it has held.
    #[must_use]
    pub const fn highest_bytes(&self) -> u64 {
        self.highest_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_in_order_and_what_does_not_fit_is_lost() {
        let mut output = Output::new(100);
        assert!(output.handle_frame(1, 53));
        assert!(!output.handle_frame(2, 53));
        assert_eq!(output.poll(), Some(1));
        // It is in the buffer until it has left.
        assert!(!output.handle_frame(2, 53) && output.poll().is_none());
        assert_eq!(output.sent(), Some(1));
        assert!(output.handle_frame(3, 53));
        assert_eq!(output.poll(), Some(3));
        assert_eq!((output.lost(), output.highest_bytes()), (2, 53));
    }
}
