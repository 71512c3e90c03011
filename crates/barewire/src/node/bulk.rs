//! Bulk transfers in the background: a thread of the node copies, and reports when it has finished.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use barewire_fabric::aperture::AccessError;

use crate::error::{Error, Result};

/// One transfer.
pub(crate) struct Job {
    cookie: u64,
    run: Box<dyn FnOnce() -> Result<Vec<u8>, AccessError> + Send>,
}

impl Job {
    /// `run` copies, and gives the buffer back.
    pub fn new(
        cookie: u64,
        run: impl FnOnce() -> Result<Vec<u8>, AccessError> + Send + 'static,
    ) -> Job {
        Job {
            cookie,
            run: Box::new(run),
        }
    }
}

/// The copying thread of a node, and the transfers that it has been given.
#[derive(Default)]
pub(crate) struct Bulk {
    under_way: AtomicU32,
    queue: Mutex<Option<Sender<Job>>>,
}

impl Bulk {
    /// Hands a transfer to the copying thread, which is started with the first. `ended` gets its
    /// cookie and result; `false` if nobody wants more of them.
    pub fn add(
        &self,
        job: Job,
        limit: u32,
        ended: impl Fn(u64, Result<Vec<u8>>) -> bool + Send + 'static,
    ) -> Result<()> {
        // Relaxed: a count; the queue's lock orders the rest.
        if self.under_way.fetch_add(1, Ordering::Relaxed) >= limit {
            self.one_ended();
            return Err(Error::LimitReached {
                what: "bulk transfers under way on one node",
                limit: u64::from(limit),
            });
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.is_none() {
            *queue = Some(start(ended)?);
        }
        let sent = queue.as_ref().is_some_and(|q| q.send(job).is_ok());
        debug_assert!(sent, "the thread lives as long as the queue");
        Ok(())
    }

    /// A transfer is not under way any more.
    pub fn one_ended(&self) {
        // Relaxed: a count.
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

fn start(ended: impl Fn(u64, Result<Vec<u8>>) -> bool + Send + 'static) -> Result<Sender<Job>> {
    let (sender, jobs) = channel();
    std::thread::Builder::new()
        .name("barewire-bulk".into())
        .spawn(move || copy_all(&jobs, ended))
        .map_err(|error| {
            Error::System(barewire_sys::SysError::Os {
                what: "starting the thread for bulk transfers",
                errno: barewire_sys::Errno(error.raw_os_error().unwrap_or(0)),
            })
        })?;
    Ok(sender)
}

/// Ends when the node drops its end of the queue.
fn copy_all(jobs: &Receiver<Job>, ended: impl Fn(u64, Result<Vec<u8>>) -> bool) {
    while let Ok(Job { cookie, run }) = jobs.recv() {
        let result = run().map_err(Error::from);
        if !ended(cookie, result) {
            return;
        }
    }
}
