//! Who connects to a listening endpoint and says nothing.
//!
//! The provider `tcp` accepts connections by itself, and has no limit on those that never ask
//! for anything: each keeps a socket, even when the endpoint is closed. Up to libfabric 1.17 at
//! least, such a socket also blocks: who sends the head of a request alone would stop us until
//! the rest comes. Both can be mended from outside, as the sockets are in the epoll set of the
//! queue of events, which `/proc` shows. Where that is not so (other providers, no `/proc`),
//! nothing happens here.

use std::os::fd::RawFd;
use std::time::Duration;

use rustix::net::sockopt;

use crate::connection::Events;
use crate::objects::borrow;

/// How long a call of the provider waits for the rest of a request, at most.
const REST: Duration = Duration::from_millis(10);

/// The sockets of the Internet in the set of a queue of events: which, and whether it listens.
fn sockets(events: &Events) -> Vec<(RawFd, bool)> {
    let path = format!("/proc/self/fdinfo/{}", events.queue_descriptor());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let watched = text.lines().filter_map(|line| {
        let number = line.strip_prefix("tfd:")?.split_whitespace().next()?;
        number.parse::<RawFd>().ok().filter(|&number| number >= 0)
    });
    let mut sockets = Vec::new();
    for number in watched {
        // SAFETY: the descriptor is open, since it is in the set; it belongs to the provider,
        // which closes it only in calls on the queue of events, of which there is none now.
        let descriptor = unsafe { borrow(number) };
        let domain = sockopt::socket_domain(descriptor);
        let is_internet = domain.is_ok_and(|domain| {
            [
                rustix::net::AddressFamily::INET,
                rustix::net::AddressFamily::INET6,
            ]
            .contains(&domain)
        });
        if is_internet {
            let listens = sockopt::socket_acceptconn(descriptor).unwrap_or(false);
            sockets.push((number, listens));
        }
    }
    sockets
}

/// Makes what a listening socket accepts give up waiting after a short time.
pub(crate) fn bound_waits(events: &Events) {
    for (number, listens) in sockets(events) {
        if listens {
            // SAFETY: as in `sockets`.
            let descriptor = unsafe { borrow(number) };
            // What can not be set is as it would be without.
            let _ = sockopt::set_socket_timeout(descriptor, sockopt::Timeout::Recv, Some(REST));
        }
    }
}

/// Closes the connections that have said nothing, if there are more than so many. Gives their
/// number.
pub(crate) fn evict(events: &mut Events, above: usize) -> usize {
    let sockets = sockets(events);
    let silent = sockets.iter().filter(|(_, listens)| !listens);
    let count = silent.clone().count();
    if count <= above {
        return 0;
    }
    for &(number, _) in silent {
        // SAFETY: as in `sockets`.
        let descriptor = unsafe { borrow(number) };
        // If it is closed already, all is well.
        let _ = rustix::net::shutdown(descriptor, rustix::net::Shutdown::Both);
    }
    count
}
