//! An output of the switch: a finite buffer, first come first served. What does not fit is
//! lost.

use std::collections::VecDeque;

use super::Frame;

/// An output.
#[derive(Clone, Debug)]
pub struct Port {
    buffer_bytes: u64,
    held_bytes: u64,
    highest_bytes: u64,
    waiting: VecDeque<(Frame, u64)>,
    /// Bytes of the frame on the link.
    leaving: Option<u64>,
    lost: u64,
}

impl Port {
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

    /// Takes a frame that has `bytes` on the link; `false` if it is lost.
    pub fn handle_frame(&mut self, frame: Frame, bytes: u64) -> bool {
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
    pub fn poll(&mut self) -> Option<Frame> {
        if self.leaving.is_some() {
            return None;
        }
        let (frame, bytes) = self.waiting.pop_front()?;
        self.leaving = Some(bytes);
        Some(frame)
    }

    /// The frame has left.
    pub fn sent(&mut self) {
        self.held_bytes -= self.leaving.take().unwrap_or(0);
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
