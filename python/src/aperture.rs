//! Apertures of both sides and their tripwires.

use std::sync::{Arc, Mutex, PoisonError};

use barewire::{Action, Aperture as InnerAperture, Memory, Mode, RemoteAperture as InnerRemote};
use barewire::{Error, Rights, Tripwire as InnerTripwire};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::calls::{Data, Room, Slot};
use crate::errors::{Outcome, Problem};
use crate::ids::aperture_number;
use crate::view::{Bytes, view};

/// A handle that many threads use, until it is closed.
struct Held<T>(Mutex<Option<Arc<T>>>);

impl<T> Held<T> {
    fn new(value: T) -> Held<T> {
        Held(Mutex::new(Some(Arc::new(value))))
    }

    fn get(&self) -> Outcome<Arc<T>> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.clone().ok_or(Problem::Network(Error::Closed))
    }

    fn take(&self) -> Option<Arc<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// `len_bytes` bytes at `offset`, as bytes of their own.
fn get<'py>(
    py: Python<'py>,
    memory: &(impl Memory + Sync),
    offset: usize,
    len_bytes: usize,
) -> Outcome<Bound<'py, PyBytes>> {
    let mut got = Ok(());
    let bytes = PyBytes::new_with(py, len_bytes, |into| {
        got = py.detach(|| memory.get(offset, into));
        Ok(())
    })?;
    got?;
    Ok(bytes)
}

/// Bytes at `offset` into a buffer.
fn get_into(
    py: Python<'_>,
    memory: &(impl Memory + Sync),
    offset: usize,
    room: &Room<'_>,
) -> Outcome {
    let mut bytes = vec![0; room.len_bytes];
    py.detach(|| memory.get(offset, &mut bytes))?;
    Ok(room.fill(&bytes)?)
}

/// How often a tripwire fires, and what it does then.
fn trap(once: bool, action: &str, cookie: u64) -> PyResult<(Mode, Action)> {
    let mode = match once {
        true => Mode::OneShot,
        false => Mode::Sticky,
    };
    let action = match action {
        "event" => Action::Enqueue { cookie },
        "count" => Action::Count,
        "wake" => Action::Wake,
        other => {
            return Err(PyValueError::new_err(format!(
                "action is \"event\", \"count\" or \"wake\"; not \"{other}\""
            )));
        }
    };
    Ok((mode, action))
}

/// Memory of this process that peers may be granted. Closing it revokes it.
///
/// `view()` gives its bytes in place. What is stored through a view wakes nobody: tell peers that wait for it by `put` or
/// `store`, or by a message.
#[pyclass(frozen, module = "barewire")]
pub struct Aperture(Held<InnerAperture>);

impl Aperture {
    pub fn new(aperture: InnerAperture) -> Aperture {
        Aperture(Held::new(aperture))
    }

    /// Does something with it.
    pub fn with<T>(&self, then: impl FnOnce(&InnerAperture) -> Outcome<T>) -> Outcome<T> {
        then(&*self.0.get()?)
    }
}

#[pymethods]
impl Aperture {
    /// What events name it by.
    #[getter]
    fn id(&self) -> Outcome<String> {
        Ok(aperture_number(self.0.get()?.id()))
    }

    fn __len__(&self) -> Outcome<usize> {
        Ok(self.0.get()?.len_bytes())
    }

    /// Its bytes in place, as a `memoryview` that keeps the memory as long as it lives. Peers may change them at any moment.
    fn view<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let aperture = self.0.get()?;
        let bytes = Bytes {
            base: aperture.base(),
            len_bytes: aperture.len_bytes(),
            readonly: false,
        };
        Ok(view(py, bytes, aperture)?)
    }

    /// Stores bytes at an offset.
    fn put(&self, py: Python<'_>, offset: usize, data: Data<'_>) -> Outcome {
        let (aperture, bytes) = (self.0.get()?, data.get());
        Ok(py.detach(|| aperture.put(offset, bytes))?)
    }

    /// A copy of `len_bytes` bytes at an offset.
    fn get<'py>(
        &self,
        py: Python<'py>,
        offset: usize,
        len_bytes: usize,
    ) -> Outcome<Bound<'py, PyBytes>> {
        get(py, &*self.0.get()?, offset, len_bytes)
    }

    /// Fills a buffer with the bytes at an offset.
    fn get_into(&self, py: Python<'_>, offset: usize, buffer: Room<'_>) -> Outcome {
        get_into(py, &*self.0.get()?, offset, &buffer)
    }

    /// The 8-byte word at an offset, a multiple of 8, as an unsigned number.
    fn load(&self, offset: usize) -> Outcome<u64> {
        Ok(self.0.get()?.load(offset)?)
    }

    /// Stores a word.
    fn store(&self, offset: usize, value: u64) -> Outcome {
        Ok(self.0.get()?.store(offset, value)?)
    }

    /// Adds to a word, atomically; what it was.
    fn add(&self, offset: usize, value: u64) -> Outcome<u64> {
        Ok(self.0.get()?.add(offset, value)?)
    }

    /// Stores `new` in a word if it is `current`, atomically; what it was.
    fn compare_exchange(&self, offset: usize, current: u64, new: u64) -> Outcome<u64> {
        let result = self.0.get()?.compare_exchange(offset, current, new)?;
        Ok(result.unwrap_or_else(|was| was))
    }

    /// Sets a tripwire on a range: it fires when a peer stores into it. `action`: `"event"` puts an event `TripwireFired`
    /// with the cookie into the queue, `"count"` counts, `"wake"` only ends a wait. `once`: then it is disarmed.
    #[pyo3(signature = (offset, len_bytes, *, action = "event", cookie = 0, once = false))]
    fn tripwire(
        &self,
        offset: usize,
        len_bytes: usize,
        action: &str,
        cookie: u64,
        once: bool,
    ) -> Outcome<Tripwire> {
        let (mode, action) = trap(once, action, cookie)?;
        let set = self.0.get()?.tripwire(offset, len_bytes, mode, action)?;
        Ok(Tripwire::new(set))
    }

    /// Cuts all peers off: nothing that they store from now on is seen here. The contents stay.
    fn revoke(&self, py: Python<'_>) -> Outcome {
        let aperture = self.0.get()?;
        Ok(py.detach(|| aperture.revoke())?)
    }

    /// Revokes it and lets it go. Views of it stay valid.
    fn close(&self, py: Python<'_>) -> Outcome {
        let Some(aperture) = self.0.take() else {
            return Ok(());
        };
        Ok(py.detach(|| aperture.revoke())?)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> Outcome {
        self.close(py)
    }
}

/// A peer's memory, as far as it has granted it. Closing it gives it back.
///
/// Once the peer is gone or has revoked it, every access raises `PeerGone` or `Revoked`; a view keeps what was there. Of a
/// node on another host, each access but `put` takes a round trip, and there is no view.
#[pyclass(frozen, module = "barewire")]
pub struct RemoteAperture(Held<InnerRemote>);

impl RemoteAperture {
    pub fn new(aperture: InnerRemote) -> RemoteAperture {
        RemoteAperture(Held::new(aperture))
    }
}

#[pymethods]
impl RemoteAperture {
    /// What events name it by.
    #[getter]
    fn id(&self) -> Outcome<String> {
        Ok(aperture_number(self.0.get()?.id()))
    }

    /// What we may do with it: `"read"` or `"read-write"`.
    #[getter]
    fn rights(&self) -> Outcome<&'static str> {
        Ok(match self.0.get()?.rights() {
            Rights::Read => "read",
            Rights::ReadWrite => "read-write",
        })
    }

    fn __len__(&self) -> Outcome<usize> {
        Ok(self.0.get()?.len_bytes())
    }

    /// Its bytes in place, as a `memoryview` that keeps the memory as long as it lives; read-only if the rights are. The owner
    /// may change them at any moment. What is stored through it fires no tripwire, and neither a revocation nor the owner's
    /// death is seen through it: `put` and `load` tell.
    fn view<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let aperture = self.0.get()?;
        // Also says so if the owner is gone or has revoked it.
        aperture.get(0, &mut [])?;
        let Some(base) = aperture.base() else {
            let problem = "the aperture is on another host: use put, get and get_into";
            return Err(PyBufferError::new_err(problem).into());
        };
        let bytes = Bytes {
            base,
            len_bytes: aperture.len_bytes(),
            readonly: aperture.rights() == Rights::Read,
        };
        Ok(view(py, bytes, aperture)?)
    }

    /// Stores bytes at an offset.
    fn put(&self, py: Python<'_>, offset: usize, data: Data<'_>) -> Outcome {
        let (aperture, bytes) = (self.0.get()?, data.get());
        Ok(py.detach(|| aperture.put(offset, bytes))?)
    }

    /// A copy of `len_bytes` bytes at an offset.
    fn get<'py>(
        &self,
        py: Python<'py>,
        offset: usize,
        len_bytes: usize,
    ) -> Outcome<Bound<'py, PyBytes>> {
        get(py, &*self.0.get()?, offset, len_bytes)
    }

    /// Fills a buffer with the bytes at an offset.
    fn get_into(&self, py: Python<'_>, offset: usize, buffer: Room<'_>) -> Outcome {
        get_into(py, &*self.0.get()?, offset, &buffer)
    }

    /// The 8-byte word at an offset, a multiple of 8, as an unsigned number.
    fn load(&self, py: Python<'_>, offset: usize) -> Outcome<u64> {
        let aperture = self.0.get()?;
        Ok(py.detach(|| aperture.load(offset))?)
    }

    /// Stores a word.
    fn store(&self, py: Python<'_>, offset: usize, value: u64) -> Outcome {
        let aperture = self.0.get()?;
        Ok(py.detach(|| aperture.store(offset, value))?)
    }

    /// Adds to a word, atomically; what it was.
    fn add(&self, py: Python<'_>, offset: usize, value: u64) -> Outcome<u64> {
        let aperture = self.0.get()?;
        Ok(py.detach(|| aperture.add(offset, value))?)
    }

    /// Stores `new` in a word if it is `current`, atomically; what it was.
    fn compare_exchange(
        &self,
        py: Python<'_>,
        offset: usize,
        current: u64,
        new: u64,
    ) -> Outcome<u64> {
        let aperture = self.0.get()?;
        let result = py.detach(|| aperture.compare_exchange(offset, current, new))?;
        Ok(result.unwrap_or_else(|was| was))
    }

    /// Sets a tripwire on what the owner stores, or, with `own`, on our own puts; else as `Aperture.tripwire`. To wait for a
    /// change: set it, read the bytes, and only then wait.
    #[pyo3(signature = (offset, len_bytes, *, action = "event", cookie = 0, once = false, own = false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn tripwire(
        &self,
        py: Python<'_>,
        offset: usize,
        len_bytes: usize,
        action: &str,
        cookie: u64,
        once: bool,
        own: bool,
    ) -> Outcome<Tripwire> {
        let (mode, action) = trap(once, action, cookie)?;
        let aperture = self.0.get()?;
        let set = py.detach(|| match own {
            true => aperture.tripwire(offset, len_bytes, mode, action),
            false => aperture.tripwire_on_owner(offset, len_bytes, mode, action),
        })?;
        Ok(Tripwire::new(set))
    }

    /// Copies bytes into it in the background; an event `Completion` with the cookie tells of the end.
    fn bulk_put(&self, offset: usize, data: Data<'_>, cookie: u64) -> Outcome {
        let aperture = self.0.get()?;
        Ok(aperture.bulk_put(offset, data.into_vec(), cookie)?)
    }

    /// Copies bytes out of it in the background; an event `Completion` with the cookie has them.
    fn bulk_get(&self, offset: usize, len_bytes: usize, cookie: u64) -> Outcome {
        Ok(self.0.get()?.bulk_get(offset, len_bytes, cookie)?)
    }

    /// Gives it back to its owner, when no view of it is left.
    fn close(&self, py: Python<'_>) {
        let aperture = self.0.take();
        py.detach(move || drop(aperture));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }
}

/// A trap on a range of an aperture. Closing it disarms it.
#[pyclass(frozen, module = "barewire")]
pub struct Tripwire(Slot<InnerTripwire>);

impl Tripwire {
    fn new(tripwire: InnerTripwire) -> Tripwire {
        Tripwire(Slot::new(tripwire, "another thread is using this tripwire"))
    }
}

#[pymethods]
impl Tripwire {
    /// Whether it is still set: neither disarmed nor a one-shot that has fired.
    #[getter]
    fn is_armed(&self) -> Outcome<bool> {
        Ok(self.0.lock()?.is_armed())
    }

    /// How many transfers it has counted, with the action `"count"`.
    #[getter]
    fn count(&self) -> Outcome<u64> {
        Ok(self.0.lock()?.count())
    }

    /// Takes it away.
    fn close(&self, py: Python<'_>) {
        self.0.close(py);
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.0.close(py);
    }
}
