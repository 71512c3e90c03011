//! Bulk transfers in the background: a thread of the node copies, and reports the end as
//! an event.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{PoisonError, Weak};

use crate::error::{Error, Result};
use crate::handles::event::Event;
use crate::handles::remote::RemoteShared;
use crate::node::shared::Shared;
use crate::tables::state::{OWN_SOURCE, Pending};

enum Kind {
    Put(Vec<u8>),
    Get(usize),
}

/// One transfer.
pub(crate) struct Job {
    aperture: Arc<RemoteShared>,
    offset: usize,
    kind: Kind,
    cookie: u64,
}

impl Job {
    pub fn put(aperture: Arc<RemoteShared>, offset: usize, data: Vec<u8>, cookie: u64) -> Job {
        Job {
            aperture,
            offset,
            kind: Kind::Put(data),
            cookie,
        }
    }

    pub fn get(aperture: Arc<RemoteShared>, offset: usize, len_bytes: usize, cookie: u64) -> Job {
        Job {
            aperture,
            offset,
            kind: Kind::Get(len_bytes),
            cookie,
        }
    }

    fn run(self) -> Event {
        let cookie = self.cookie;
        let result = match self.kind {
            Kind::Put(data) => self.aperture.put_all(self.offset, &data).map(|()| data),
            Kind::Get(len_bytes) => {
                let mut data = vec![0; len_bytes];
                self.aperture.get_all(self.offset, &mut data).map(|()| data)
            }
        };
        Event::Completion {
            cookie,
            result: result.map_err(Error::from),
        }
    }
}

impl Shared {
    /// Hands a transfer to the copying thread, which is started with the first.
    pub fn bulk(&self, job: Job) -> Result<()> {
        let limit = self.live().config.bulk_max;
        // Relaxed: a count; the queue's lock orders the rest.
        if self.bulk_under_way.fetch_add(1, Ordering::Relaxed) >= limit {
            self.bulk_under_way.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::LimitReached {
                what: "bulk transfers under way on one node",
                limit: u64::from(limit),
            });
        }
        let mut queue = self
            .bulk_queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if queue.is_none() {
            *queue = Some(start(self.me.clone())?);
        }
        let sent = queue.as_ref().is_some_and(|q| q.send(job).is_ok());
        debug_assert!(sent, "the thread lives as long as the queue");
        Ok(())
    }
}

fn start(node: Weak<Shared>) -> Result<Sender<Job>> {
    let (sender, jobs) = channel();
    std::thread::Builder::new()
        .name("barewire-bulk".into())
        .spawn(move || copy_all(&node, &jobs))
        .map_err(|error| {
            Error::System(barewire_sys::SysError::Os {
                what: "starting the thread for bulk transfers",
                errno: barewire_sys::Errno(error.raw_os_error().unwrap_or(0)),
            })
        })?;
    Ok(sender)
}

/// Ends when the node drops its end of the queue.
fn copy_all(node: &Weak<Shared>, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        let event = job.run();
        let Some(node) = node.upgrade() else {
            return;
        };
        // Relaxed: a count.
        node.bulk_under_way.fetch_sub(1, Ordering::Relaxed);
        node.state().push(Pending::Plain(event));
        node.ring_own(OWN_SOURCE);
    }
}
