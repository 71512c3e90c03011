//! What every call needs: objects that one thread at a time uses, and waits that signals and `close` can end.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use barewire::Error;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PySlice};

use crate::errors::{Outcome, Problem};

/// So long a wait lasts until signals and `close` are looked at.
pub const SLICE: Duration = Duration::from_millis(50);

/// How often a thread looks whether another one has ended its use.
const TURN: Duration = Duration::from_micros(50);

/// Something that one thread at a time uses, until it is closed.
pub struct Slot<T> {
    inner: Mutex<Option<T>>,
    state: State,
    advice: &'static str,
}

/// What is known of a [`Slot`] without its lock.
#[derive(Default)]
struct State {
    closing: AtomicBool,
    /// The memory of a direction is lent ([`Direction`]): until it is let go, nothing is sent or received there, and what is
    /// closed stays. All of it is written and read with the interpreter's lock.
    lent: [AtomicBool; 2],
}

/// A direction of a connection.
#[derive(Clone, Copy)]
pub enum Direction {
    /// Messages that are sent.
    Sending = 0,
    /// Messages that are received.
    Receiving = 1,
}

impl State {
    #[inline]
    fn is_closing(&self) -> bool {
        // Relaxed: see `Slot::close`.
        self.closing.load(Ordering::Relaxed)
    }

    #[inline]
    fn is_lent(&self, direction: Direction) -> bool {
        // Relaxed: the interpreter's lock orders it.
        self.lent[direction as usize].load(Ordering::Relaxed)
    }

    #[inline]
    fn is_any_lent(&self) -> bool {
        self.is_lent(Direction::Sending) || self.is_lent(Direction::Receiving)
    }

    /// That a direction is not lent.
    #[inline]
    fn check(&self, direction: Direction) -> Outcome {
        if !self.is_lent(direction) {
            return Ok(());
        }
        Err(Problem::Busy(match direction {
            Direction::Sending => {
                "room is reserved, or a view of it is still there: send it or give it up first"
            }
            Direction::Receiving => {
                "a message is read in place, or a view of it is still there: release it first"
            }
        }))
    }
}

/// The use of what is in a [`Slot`].
pub struct Used<'a, T>(MutexGuard<'a, Option<T>>, &'a State);

impl<T: Send> Slot<T> {
    /// With what another thread is told that comes while one is using it.
    pub fn new(value: T, advice: &'static str) -> Slot<T> {
        Slot {
            inner: Mutex::new(Some(value)),
            state: State::default(),
            advice,
        }
    }

    /// Begins to use it.
    #[inline]
    pub fn lock(&self) -> Outcome<Used<'_, T>> {
        let guard = match self.inner.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Problem::Busy(self.advice)),
        };
        // Closed with its memory lent, it is still there.
        if guard.is_none() || self.state.is_closing() {
            return Err(Error::Closed.into());
        }
        Ok(Used(guard, &self.state))
    }

    /// Begins to use a direction of it, if that is not lent.
    #[inline]
    pub fn lock_for(&self, direction: Direction) -> Outcome<Used<'_, T>> {
        let used = self.lock()?;
        self.state.check(direction)?;
        Ok(used)
    }

    /// Begins to send; waits for other threads to end their use.
    pub fn lock_in_turn(&self, py: Python<'_>) -> Outcome<Used<'_, T>> {
        loop {
            match self.lock() {
                Err(Problem::Busy(_)) => {}
                Err(other) => return Err(other),
                Ok(used) => {
                    self.state.check(Direction::Sending)?;
                    return Ok(used);
                }
            }
            py.detach(|| std::thread::sleep(TURN));
            py.check_signals()?;
        }
    }

    /// Takes it away, to be used in another way.
    pub fn take(&self) -> Outcome<T> {
        let mut used = self.lock()?;
        self.state.check(Direction::Sending)?;
        self.state.check(Direction::Receiving)?;
        used.0.take().ok_or(Problem::Network(Error::Closed))
    }

    /// Lends the memory of a direction. Whoever calls this is using it.
    pub fn lend(&self, direction: Direction) {
        // Relaxed: the interpreter's lock orders it.
        self.state.lent[direction as usize].store(true, Ordering::Relaxed);
    }

    /// Ends the loan of a direction; closes what was to be closed meanwhile.
    pub fn let_go(&self, direction: Direction) {
        // Relaxed: the interpreter's lock orders it.
        self.state.lent[direction as usize].store(false, Ordering::Relaxed);
        if self.state.is_closing() {
            Python::attach(|py| self.close(py));
        }
    }

    /// Whether it is closed or was taken away.
    pub fn is_closed(&self) -> bool {
        self.state.is_closing() || matches!(self.inner.try_lock(), Ok(guard) if guard.is_none())
    }

    /// Closes it. A thread that waits in it ends its wait, and closes it then. Where memory of it is lent, the end of the loan
    /// closes it.
    pub fn close(&self, py: Python<'_>) {
        // Relaxed: whoever waits looks again soon.
        self.state.closing.store(true, Ordering::Relaxed);
        if self.state.is_any_lent() {
            return;
        }
        let taken = match self.inner.try_lock() {
            Ok(mut guard) => guard.take(),
            Err(TryLockError::Poisoned(guard)) => guard.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        };
        // What this does may take the lock of the node.
        py.detach(move || drop(taken));
    }

    /// Says whether somebody has closed it, to a wait in it.
    #[inline]
    pub fn closing(&self) -> &AtomicBool {
        &self.state.closing
    }
}

impl<T> Used<'_, T> {
    /// Whether somebody has closed it meanwhile.
    #[inline]
    pub fn is_closing(&self) -> bool {
        self.1.is_closing()
    }
}

impl<T> Deref for Used<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        match &*self.0 {
            Some(value) => value,
            None => unreachable!("looked at when it was locked"),
        }
    }
}

impl<T> DerefMut for Used<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        match &mut *self.0 {
            Some(value) => value,
            None => unreachable!("looked at when it was locked"),
        }
    }
}

impl<T> Drop for Used<'_, T> {
    fn drop(&mut self) {
        if self.is_closing() && !self.1.is_any_lent() {
            *self.0 = None;
        }
    }
}

/// How long a caller wants to wait, from seconds; `None`: for ever.
pub fn timeout(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    match seconds {
        None | Some(f64::INFINITY) => Ok(None),
        Some(seconds) if seconds >= 0.0 => {
            // What is longer than any program runs is for ever.
            Ok(Duration::try_from_secs_f64(seconds).ok())
        }
        Some(seconds) => Err(PyValueError::new_err(format!(
            "a timeout is a number of seconds from 0 on, or None for ever; not {seconds}"
        ))),
    }
}

/// Waits in slices, without the interpreter's lock, until `step` has something: at most for `timeout`, and not longer
/// than until a signal's handler raises an exception or `closing` is set.
pub fn wait<T: Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    closing: &AtomicBool,
    mut step: impl FnMut(Duration) -> Result<Option<T>, Error> + Send,
) -> Outcome<Option<T>> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = deadline.map_or(SLICE, |at| at.saturating_duration_since(Instant::now()));
        if let Some(found) = py.detach(|| step(left.min(SLICE)))? {
            return Ok(Some(found));
        }
        py.check_signals()?;
        // Relaxed: see `Slot::close`.
        if closing.load(Ordering::Relaxed) {
            return Err(Error::Closed.into());
        }
        if deadline.is_some_and(|at| Instant::now() >= at) {
            return Ok(None);
        }
    }
}

/// That nothing but signals and the time ends a wait.
pub static NEVER: AtomicBool = AtomicBool::new(false);

/// Bytes that a caller gives: those of `bytes` where they lie, of any other buffer a copy, since somebody may change them
/// meanwhile.
pub enum Data<'py> {
    /// Cannot change.
    Bytes(Bound<'py, PyBytes>),
    /// A copy.
    Copied(Vec<u8>),
}

impl Data<'_> {
    /// The bytes.
    #[inline]
    pub fn get(&self) -> &[u8] {
        match self {
            Data::Bytes(bytes) => bytes.as_bytes(),
            Data::Copied(bytes) => bytes,
        }
    }

    /// The bytes, to keep.
    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Data::Bytes(bytes) => bytes.as_bytes().to_vec(),
            Data::Copied(bytes) => bytes,
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Data<'py> {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Data<'py>> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Data::Bytes(bytes.to_owned()));
        }
        let py = object.py();
        let copied = buffer_of(&object)?.to_vec(py)?;
        Ok(Data::Copied(copied))
    }
}

/// The bytes of an object, whatever its elements are.
fn buffer_of(object: &Bound<'_, PyAny>) -> PyResult<PyBuffer<u8>> {
    if let Ok(buffer) = PyBuffer::<u8>::get(object) {
        if buffer.dimensions() == 1 {
            return Ok(buffer);
        }
    }
    PyBuffer::get(&view_of(object)?)
}

/// A view of the bytes of an object.
fn view_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    PyMemoryView::from(object)?.call_method1("cast", ("B",))
}

/// A buffer that a caller wants filled.
pub struct Room<'py> {
    view: Bound<'py, PyAny>,
    /// Its length.
    pub len_bytes: usize,
}

impl Room<'_> {
    /// Fills its beginning.
    pub fn fill(&self, bytes: &[u8]) -> PyResult<()> {
        let py = self.view.py();
        if bytes.len() == self.len_bytes {
            return PyBuffer::get(&self.view)?.copy_from_slice(py, bytes);
        }
        let range = PySlice::new(py, 0, bytes.len() as isize, 1);
        PyBuffer::get(&self.view.get_item(range)?)?.copy_from_slice(py, bytes)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Room<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Room<'py>> {
        let view = view_of(&object)?;
        let buffer = PyBuffer::<u8>::get(&view)?;
        // Found out before a message is taken, which would be lost.
        if buffer.readonly() {
            return Err(PyBufferError::new_err("the buffer can not be written"));
        }
        let len_bytes = buffer.len_bytes();
        Ok(Room { view, len_bytes })
    }
}
