//! Tripwires that fire into an event queue, and which ones have.

use std::collections::BTreeSet;
use std::time::Duration;

use barewire_fabric::aperture::{Action, EventSource, Notice};

use crate::fabric::Apertures;
use crate::help::{eventually, good};

pub(crate) fn enqueue(cookie: u64) -> Action {
    Action::Enqueue { cookie }
}

/// Cookies that come within a short while.
pub(crate) fn fired<F: Apertures>(queue: &F::Queue) -> BTreeSet<u64> {
    let mut cookies = BTreeSet::new();
    let mut notices = Vec::new();
    while good(queue.wait_notices(&mut notices, 64, F::RESTRAINT)) > 0 {
        take(&mut notices, &mut cookies);
    }
    cookies
}

/// Keeps the cookies of notices.
pub(crate) fn take(notices: &mut Vec<Notice>, cookies: &mut BTreeSet<u64>) {
    for notice in notices.drain(..) {
        if let Notice::Tripwire { cookie } = notice {
            cookies.insert(cookie);
        }
    }
}

/// Waits for a cookie; returns all that came with it.
#[track_caller]
pub(crate) fn awaited<F: Apertures>(queue: &F::Queue, cookie: u64) -> BTreeSet<u64> {
    let mut cookies = BTreeSet::new();
    let mut notices = Vec::new();
    eventually::<F>("a tripwire", || {
        good(queue.wait_notices(&mut notices, 64, Duration::from_millis(100)));
        take(&mut notices, &mut cookies);
        cookies.contains(&cookie)
    });
    cookies
}
