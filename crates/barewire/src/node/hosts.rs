//! What a node has of its thread for links to other hosts ([`super::hosts_thread`]): how to tell it something.

use std::net::TcpListener;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_sys::wake::EventFd;

use crate::remote::greeting::Greeting;
use crate::remote::trust::Trust;

/// What others want of the thread.
pub(super) enum Wish {
    Open { token: u64, listener: TcpListener },
    Close { token: u64 },
}

/// The thread, while it runs.
pub(super) struct Running {
    pub bell: Arc<EventFd>,
    pub wishes: Sender<Wish>,
    /// Token of the port that was opened last.
    pub last_token: u64,
    /// What we say to other hosts, and how we make sure of them.
    pub own: Greeting,
    pub trust: Trust,
}

/// What a node has of its thread.
#[derive(Default)]
pub(crate) struct Hosts {
    running: Mutex<Option<Running>>,
}

impl Hosts {
    pub(super) fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the thread end if its node is gone.
    pub fn ring(&self) {
        if let Some(running) = &*self.running() {
            let _ = running.bell.signal();
        }
    }
}
