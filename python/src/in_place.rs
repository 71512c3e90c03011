//! Messages that are built where the receiver will read them, and read where the sender has put them.
//!
//! Python gets views of such memory, and may keep a view for as long as it likes. Therefore the memory is lent: as long as
//! the loan lasts, that direction of the connection does nothing else, and is not closed. The loan ends when the message is
//! sent, taken or given up, and no view of it is left. A view that is left when the message is to be sent or taken is an
//! error; then the message is given up.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::Outcome;
use crate::view::{Bytes, view};

/// A direction of a connection, whose memory is lent.
pub trait Lender: Send + Sync + 'static {
    /// Sends the first `len_bytes` of the room of `room_bytes`; or takes the message away.
    fn complete(&self, py: Python<'_>, room_bytes: usize, len_bytes: usize) -> Outcome;

    /// The loan has ended.
    fn let_go(&self);
}

/// That memory is lent. Whoever may still see it holds this.
pub struct Loan(Box<dyn Lender>);

impl Drop for Loan {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

/// A loan, and what was made of it for Python.
struct Lent {
    loan: Arc<Loan>,
    view: Py<PyAny>,
}

/// Memory that is lent, until the message is sent, taken or given up.
struct InPlace {
    lent: Mutex<Option<Lent>>,
    len_bytes: usize,
}

impl InPlace {
    fn new(py: Python<'_>, lender: impl Lender, found: Found) -> PyResult<InPlace> {
        let loan = Arc::new(Loan(Box::new(lender)));
        let keeps = Arc::clone(&loan);
        let (len_bytes, view) = match found {
            Found::Shared(bytes) => (bytes.len_bytes, view(py, bytes, keeps)?),
            Found::Copied(mut copy) => {
                let bytes = Bytes::of(&mut copy);
                (bytes.len_bytes, view(py, bytes, (copy, keeps))?)
            }
        };
        let view = view.unbind();
        Ok(InPlace {
            lent: Mutex::new(Some(Lent { loan, view })),
            len_bytes,
        })
    }

    fn view(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        let lent = lent.as_ref().ok_or_else(over)?;
        Ok(lent.view.clone_ref(py))
    }

    /// Ends it: with a message of this length, or, with `None`, without one. `false` if it has ended before.
    fn end(&self, py: Python<'_>, len_bytes: Option<usize>) -> Outcome<bool> {
        // Not with the lock held: what follows may let other threads run.
        let taken = self
            .lent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(Lent { loan, view }) = taken else {
            return Ok(false);
        };
        // Fails where an array is made of it: then that array holds the loan, as slices do.
        let _ = view.call_method0(py, "release");
        drop(view);
        let Some(len_bytes) = len_bytes else {
            return Ok(true);
        };
        if Arc::strong_count(&loan) > 1 {
            return Err(PyBufferError::new_err(
                "an array or a slice of the view is still there: delete it before the end of the with statement",
            )
            .into());
        }
        loan.0.complete(py, self.len_bytes, len_bytes)?;
        Ok(true)
    }
}

/// The error of whoever comes too late.
fn over() -> PyErr {
    PyValueError::new_err("it was sent, received or given up already")
}

/// What was reserved or found.
pub enum Found {
    /// Memory that both sides see.
    Shared(Bytes),
    /// A copy: a short message, which lies where it can not stay.
    Copied(Vec<u8>),
}

/// Room for one message in the receiver's memory: `with connection.reserve(size) as view` gives it as a writable
/// `memoryview`, and sends it at the end of the block, all of it, or as much as `send(length)` says. If an exception leaves
/// the block, nothing is sent.
///
/// The bytes are at first those of older messages. Until the end nothing else can be sent on the connection: that raises
/// `Busy`. Whoever uses the view after the end gets `ValueError`. An array or a slice of it must be gone by the end: else the
/// end raises `BufferError`, and nothing is sent; the connection can send again once they are gone.
#[pyclass(frozen, module = "barewire")]
pub struct Reservation(InPlace);

impl Reservation {
    pub fn new(py: Python<'_>, lender: impl Lender, bytes: Bytes) -> PyResult<Reservation> {
        InPlace::new(py, lender, Found::Shared(bytes)).map(Reservation)
    }
}

#[pymethods]
impl Reservation {
    fn __len__(&self) -> usize {
        self.0.len_bytes
    }

    /// Sends the first `length` bytes, or all of it. The view can not be used any more.
    #[pyo3(signature = (length = None))]
    fn send(&self, py: Python<'_>, length: Option<usize>) -> Outcome {
        let length = length.unwrap_or(self.0.len_bytes);
        if length > self.0.len_bytes {
            let problem = format!("{length} bytes of {} can not be sent", self.0.len_bytes);
            return Err(PyValueError::new_err(problem).into());
        }
        match self.0.end(py, Some(length))? {
            true => Ok(()),
            false => Err(over().into()),
        }
    }

    /// Gives it up: nothing is sent. May be called twice.
    fn cancel(&self, py: Python<'_>) -> Outcome {
        self.0.end(py, None)?;
        Ok(())
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.0.view(py)
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> Outcome {
        let length = (!has_failed(exception)).then_some(self.0.len_bytes);
        self.0.end(py, length)?;
        Ok(())
    }
}

/// The next message, read in place: `with connection.peek() as view` gives it as a `memoryview` that can not be written, and
/// has received it at the end of the block. If an exception leaves the block, it stays the next message.
///
/// Until the end nothing else can be received on the connection: that raises `Busy`. Whoever uses the view after the end gets
/// `ValueError`. An array or a slice of it must be gone by the end: else the end raises `BufferError`, and the message stays
/// the next one. The sender can still change the bytes: copy what is to be checked first and used then.
#[pyclass(frozen, module = "barewire")]
pub struct Message(InPlace);

impl Message {
    pub fn new(py: Python<'_>, lender: impl Lender, found: Found) -> PyResult<Message> {
        InPlace::new(py, lender, found).map(Message)
    }
}

#[pymethods]
impl Message {
    fn __len__(&self) -> usize {
        self.0.len_bytes
    }

    /// Has received it: the memory is the sender's again. The view can not be used any more.
    fn release(&self, py: Python<'_>) -> Outcome {
        match self.0.end(py, Some(self.0.len_bytes))? {
            true => Ok(()),
            false => Err(over().into()),
        }
    }

    /// Leaves it as the next message. May be called twice.
    fn cancel(&self, py: Python<'_>) -> Outcome {
        self.0.end(py, None)?;
        Ok(())
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.0.view(py)
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> Outcome {
        let length = (!has_failed(exception)).then_some(self.0.len_bytes);
        self.0.end(py, length)?;
        Ok(())
    }
}

/// Whether an exception leaves the block, by what `__exit__` is given.
fn has_failed(exception: &Bound<'_, PyTuple>) -> bool {
    exception.get_item(0).is_ok_and(|kind| !kind.is_none())
}
