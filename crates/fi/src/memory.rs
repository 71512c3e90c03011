//! Memory of the program, which it lends to an operation until that has ended.

use std::ffi::c_void;
use std::ops::Range;

/// The value by which a program knows its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Context(pub(crate) *mut c_void);

// SAFETY: it is never followed, only given back.
unsafe impl Send for Context {}

#[derive(Clone, Copy, Debug)]
struct Piece {
    start: *mut u8,
    len_bytes: usize,
}

impl Piece {
    /// What of it lies in `range`.
    #[inline]
    fn part(&self, range: &Range<usize>) -> Piece {
        let begin = range.start.min(self.len_bytes);
        let end = range.end.clamp(begin, self.len_bytes);
        Piece {
            start: self.start.wrapping_add(begin),
            len_bytes: end - begin,
        }
    }

    /// # Safety
    /// The program has lent it, and nobody writes it while the reference is used.
    #[inline]
    unsafe fn bytes<'a>(&self) -> &'a [u8] {
        match self.len_bytes {
            // Of no bytes, the address may be none.
            0 => &[],
            // SAFETY: the caller says so.
            _ => unsafe { std::slice::from_raw_parts(self.start, self.len_bytes) },
        }
    }

    /// # Safety
    /// As [`Piece::bytes`], and nobody reads it meanwhile.
    #[inline]
    unsafe fn bytes_mut<'a>(&self) -> &'a mut [u8] {
        match self.len_bytes {
            0 => &mut [],
            // SAFETY: the caller says so.
            _ => unsafe { std::slice::from_raw_parts_mut(self.start, self.len_bytes) },
        }
    }
}

/// One or several pieces of memory, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Lent {
    first: Piece,
    /// The others. Most have none.
    more: Vec<Piece>,
    len_bytes: usize,
}

// SAFETY: the program lent the memory to the provider as a whole, whichever thread works for it.
unsafe impl Send for Lent {}

impl Lent {
    /// No memory.
    pub(crate) fn nothing() -> Lent {
        // SAFETY: nothing is lent.
        unsafe { Lent::one(std::ptr::null_mut(), 0) }
    }

    /// One piece.
    ///
    /// # Safety
    /// Until the operation that it is for has ended, these bytes must be there, and nobody else may write them, nor
    /// read them if the operation is a receive. That is what libfabric asks of a program.
    pub(crate) unsafe fn one(start: *mut c_void, len_bytes: usize) -> Lent {
        Lent {
            first: Piece {
                start: start.cast(),
                len_bytes,
            },
            more: Vec::new(),
            len_bytes,
        }
    }

    /// The pieces of an array.
    ///
    /// # Safety
    /// As [`Lent::one`], for each of them; and the array has `count` entries.
    pub(crate) unsafe fn of(pieces: *const libc::iovec, count: usize) -> Lent {
        if pieces.is_null() || count == 0 {
            return Lent::nothing();
        }
        // SAFETY: the caller says that there are as many.
        let pieces = unsafe { std::slice::from_raw_parts(pieces, count) };
        let mut all = pieces.iter().map(|piece| Piece {
            start: piece.iov_base.cast(),
            len_bytes: piece.iov_len,
        });
        let first = all.next().expect("there is one at least");
        Lent {
            first,
            more: all.collect(),
            len_bytes: pieces.iter().map(|piece| piece.iov_len).sum(),
        }
    }

    pub(crate) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Where it begins, for a completion that names the buffer.
    pub(crate) fn start(&self) -> *mut c_void {
        self.first.start.cast()
    }

    /// Where it lies in this process, if it is one piece.
    pub(crate) fn address(&self) -> Option<u64> {
        let start = self.first.start.expose_provenance();
        self.more.is_empty().then_some(start as u64)
    }

    /// Takes the first bytes out, of memory that is one piece.
    pub(crate) fn take_front(&mut self, len_bytes: usize) -> Lent {
        let len_bytes = len_bytes.min(self.first.len_bytes);
        let front = Lent {
            first: Piece {
                start: self.first.start,
                len_bytes,
            },
            more: Vec::new(),
            len_bytes,
        };
        self.first.start = self.first.start.wrapping_add(len_bytes);
        self.first.len_bytes -= len_bytes;
        self.len_bytes -= len_bytes;
        front
    }

    /// The parts of the pieces that make up `range`.
    fn parts(&self, range: Range<usize>) -> impl Iterator<Item = Piece> + '_ {
        let mut before_bytes = 0;
        let all = std::iter::once(&self.first).chain(&self.more);
        all.filter_map(move |piece| {
            let begin = range.start.max(before_bytes);
            let end = range.end.min(before_bytes + piece.len_bytes);
            let skip = begin.saturating_sub(before_bytes);
            before_bytes += piece.len_bytes;
            (begin < end).then(|| Piece {
                start: piece.start.wrapping_add(skip),
                len_bytes: end - begin,
            })
        })
    }

    /// Shows the bytes of `range`, in order. What lies outside is left out.
    #[inline]
    pub(crate) fn read(&self, range: Range<usize>, mut each: impl FnMut(&[u8])) {
        if self.more.is_empty() {
            let part = self.first.part(&range);
            // SAFETY: a part of what was lent, which nobody writes meanwhile.
            return each(unsafe { part.bytes() });
        }
        for part in self.parts(range) {
            // SAFETY: a part of what was lent, which nobody writes meanwhile.
            each(unsafe { part.bytes() });
        }
    }

    /// Has the bytes of `range` written, in order, with their offset from its beginning. What lies outside is left out.
    #[inline]
    pub(crate) fn write(&mut self, range: Range<usize>, mut each: impl FnMut(usize, &mut [u8])) {
        if self.more.is_empty() {
            let part = self.first.part(&range);
            // SAFETY: a part of what was lent, which nobody else uses meanwhile.
            return each(0, unsafe { part.bytes_mut() });
        }
        let mut done_bytes = 0;
        for part in self.parts(range) {
            // SAFETY: a part of what was lent, which nobody else uses meanwhile.
            each(done_bytes, unsafe { part.bytes_mut() });
            done_bytes += part.len_bytes;
        }
    }

    /// Appends the bytes of `range`.
    pub(crate) fn append_to(&self, range: Range<usize>, into: &mut Vec<u8>) {
        self.read(range, |part| into.extend_from_slice(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_one_after_the_other() {
        let (mut a, mut b) = ([1_u8, 2, 3], [4_u8, 5]);
        let piece = |bytes: &mut [u8]| libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let pieces = [piece(&mut a), piece(&mut []), piece(&mut b)];
        // SAFETY: both live longer, and are used by nobody else meanwhile.
        let mut lent = unsafe { Lent::of(pieces.as_ptr(), pieces.len()) };
        assert_eq!((lent.len_bytes(), lent.address()), (5, None));
        let mut found = Vec::new();
        lent.append_to(2..9, &mut found);
        assert_eq!(found, [3, 4, 5]);
        lent.write(1..4, |at, bytes| {
            for (offset, byte) in bytes.iter_mut().enumerate() {
                *byte = 10 + (at + offset) as u8;
            }
        });
        drop(lent);
        assert_eq!((a, b), ([1, 10, 11], [12, 5]));
    }
}
