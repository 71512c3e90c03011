//! What the events of the last wait point to: bytes and texts.

use std::ffi::{CString, c_char};

use crate::failure::c_text;

/// Lives until the next wait with the same handle of the node.
#[derive(Default)]
pub(crate) struct Kept {
    data: Vec<Vec<u8>>,
    texts: Vec<CString>,
}

impl Kept {
    pub fn clear(&mut self) {
        self.data.clear();
        self.texts.clear();
    }

    /// Keeps bytes, which stay where they are when more come.
    pub fn data(&mut self, data: Vec<u8>) -> &[u8] {
        self.data.push(data);
        &self.data[self.data.len() - 1]
    }

    /// Keeps a text, in the same way.
    pub fn text(&mut self, text: &str) -> *const c_char {
        self.texts.push(c_text(text));
        self.texts[self.texts.len() - 1].as_ptr()
    }
}
