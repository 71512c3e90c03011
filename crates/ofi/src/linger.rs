//! What is left to send when a carrier is dropped.
//!
//! The kernel goes on sending what a program has written to a TCP connection and then closed.
//! libfabric does not: an endpoint that is closed takes with it what its provider had not sent.
//! So a link whose other side has not read everything goes to a thread, which closes it
//! when the other side has. A link that does not get on for some time is closed, too.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::link::Link;

/// How long a link may get on with nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many links may linger at once. Those above are closed as they are.
const LINGERING_MAX: usize = 64;

/// How many links linger now.
static LINGERING: Mutex<usize> = Mutex::new(0);
static HAS_ENDED: Condvar = Condvar::new();

fn lingering() -> MutexGuard<'static, usize> {
    LINGERING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One of those that linger.
struct Place;

impl Place {
    fn take() -> Option<Place> {
        let mut count = lingering();
        (*count < LINGERING_MAX).then(|| {
            *count += 1;
            Place
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *lingering() -= 1;
        HAS_ENDED.notify_all();
    }
}

/// Waits until the other sides have read what dropped carriers had taken, at most so long.
/// `true` if they have.
///
/// A program that ends at once after it dropped a carrier calls this before: what only libfabric
/// holds ends with the process.
pub fn wait_until_sent(at_most: Duration) -> bool {
    let count = lingering();
    let result = HAS_ENDED.wait_timeout_while(count, at_most, |count| *count > 0);
    *result.unwrap_or_else(PoisonError::into_inner).0 == 0
}

/// Closes a link when the other side has read what was sent. Does not wait for that.
pub(crate) fn close(mut link: Link) {
    link.close();
    if link.go_on_closing() {
        return;
    }
    let Some(place) = Place::take() else {
        return;
    };
    // If there is no thread to be had, the link is closed as it is.
    let _ = std::thread::Builder::new()
        .name("barewire-ofi".into())
        .spawn(move || {
            wait(&mut link);
            drop(link);
            drop(place);
        });
}

/// Works on a link until nothing is left to do, or it does not get on.
fn wait(link: &mut Link) {
    let mut unread = link.unread_messages();
    let mut since = Instant::now();
    while !link.go_on_closing() {
        if link.unread_messages() != unread {
            unread = link.unread_messages();
            since = Instant::now();
        }
        let Some(left) = PATIENCE.checked_sub(since.elapsed()) else {
            return;
        };
        if link.may_sleep_closing() {
            let descriptor = link.descriptor();
            let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
            let timeout = Timespec::try_from(left.min(Duration::from_secs(1))).ok();
            // Interrupted or not, the link is looked at again.
            let _ = poll(&mut polled, timeout.as_ref());
        }
    }
}
