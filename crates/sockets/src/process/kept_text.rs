//! Texts of the environment that have to stay: a program may clear its environment, write over it or set it for others,
//! and a relay gives the program's heap back.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::AtomicBool;

use crate::process::words::AtStart;

/// Longest text, with the zero at its end: a path.
const TEXT_BYTES: usize = 4096;

/// A copy in the library's own data, made by its constructor.
pub struct KeptText {
    bytes: UnsafeCell<[u8; TEXT_BYTES]>,
    is_set: AtStart<AtomicBool>,
}

// SAFETY: the bytes are written by the constructor only, while nobody else runs in the library, and read after that.
unsafe impl Sync for KeptText {}

impl KeptText {
    /// Nothing.
    pub const fn none() -> Self {
        Self {
            bytes: UnsafeCell::new([0; TEXT_BYTES]),
            is_set: AtStart::new(AtomicBool::new(false)),
        }
    }

    /// Keeps a text; `None` if it is too long. Once, and for the constructor.
    pub fn keep(&'static self, text: &CStr) -> Option<&'static CStr> {
        let text = text.to_bytes_with_nul();
        if text.len() > TEXT_BYTES || self.is_set.get() {
            return None;
        }
        // SAFETY: nobody else has the bytes: none is handed out before `is_set`, and the constructor is one thread.
        unsafe {
            let bytes = self.bytes.get().cast::<u8>();
            bytes.copy_from_nonoverlapping(text.as_ptr(), text.len());
        }
        self.is_set.set(true);
        self.get()
    }

    /// The text, if there is one.
    pub fn get(&'static self) -> Option<&'static CStr> {
        // SAFETY: `keep` has written a string with its zero, which nobody changes; a static stays.
        self.is_set
            .get()
            .then(|| unsafe { CStr::from_ptr(self.bytes.get().cast()) })
    }
}
