//! `poll` and `select`, with byte rings among what is waited for. See `wait`.

use core::ffi::c_int;

use barewire_cpu::probes::sockets as probes;

use libc::{pollfd, sigset_t, timespec};

use crate::epoll::deferred_ctl;
use crate::process::spin::{self, Spin};
use crate::stream::ready::{Readiness, check_readiness};
use crate::stream::{empty_reads, lost_bytes, order, pending_error};
use crate::system::real;
use crate::table::flags::CHECK_KERNEL;
use crate::table::socket_state::SocketState;
use crate::table::state::State;
use crate::table::{
    descriptors,
    directions::{self, is_ready, peer_is_near},
};
use crate::wait::deadline::Deadline;
use crate::wait::events::{POLL_ENDS, POLL_IN};
use crate::wait::ring_ready::{self, FEW, has_come, set_is_ready};
use crate::wait::sleepers::{SLEEPERS_MAX, Sleepers};

/// The socket of a descriptor, if it is upgraded.
pub fn up(fd: c_int) -> Option<&'static SocketState> {
    descriptors::find(fd).filter(|socket| socket.state() == State::Upgraded)
}

// ------------------------------------------------------------------------------------- poll

fn wants_in(poll: &pollfd) -> Option<&'static SocketState> {
    if poll.fd < 0 || poll.events & POLL_IN == 0 {
        return None;
    }
    up(poll.fd)
}

/// Whether one of them is an upgraded socket, or a set that may have one.
pub fn has_ours(fds: &[pollfd]) -> bool {
    // All of them: a set hears that it is waited for.
    let sets = fds.iter().filter(|poll| wants_set(poll)).count();
    sets > 0 || fds.iter().any(|poll| wants_in(poll).is_some())
}

fn wants_set(poll: &pollfd) -> bool {
    poll.events & POLL_IN != 0 && deferred_ctl::note_other_watcher(poll.fd)
}

/// As `ppoll`.
pub fn poll(fds: &mut [pollfd], deadline: Deadline, mask: *const sigset_t) -> c_int {
    let ready = poll_rings(fds, deadline, mask);
    spin::got_on(ready.max(0).unsigned_abs().into(), 0);
    ready
}

fn poll_rings(fds: &mut [pollfd], deadline: Deadline, mask: *const sigset_t) -> c_int {
    let mut spin = Spin::begin();
    let mut looks = 0;
    if fds.len() > 1 {
        fds.iter()
            .filter_map(wants_in)
            .for_each(directions::want_order);
    }
    loop {
        let looked = &*fds;
        let news = || {
            let mut sets = looked.iter().filter(|poll| wants_set(poll));
            looked.iter().filter_map(wants_in).any(is_ready)
                || sets.any(|set| set_is_ready(set.fd, 0))
        };
        let is_over = deadline.is_over();
        let near = || looked.iter().find_map(wants_in).is_some_and(peer_is_near);
        let mut look =
            || spin.until_or(news, || deadline.is_over() || kernel_has_any(looked), near);
        if is_over || news() || look() {
            let ready = poll_now(fds, ring_ready::until_ns(&mut looks), mask);
            if ready != 0 || is_over {
                return ready;
            }
        }
        let is_small = fds.len() <= FEW && !fds.iter().any(wants_set);
        let slept = if is_small {
            sleep_in_poll::<FEW>(fds, deadline, mask)
        } else {
            sleep_in_poll::<SLEEPERS_MAX>(fds, deadline, mask)
        };
        let Some(slept) = slept else {
            continue;
        };
        if slept <= 0 {
            return slept;
        }
        spin.woke();
        // Of what it has slept for, the kernel tells. Of others the next wait does.
        let ready = collect_events(fds, 0);
        if ready != 0 {
            return ready;
        }
    }
}

/// Asks the kernel and polls the rings, for what came until then. If there is nothing, a signal that only
/// `mask` lets through ends it.
fn poll_now(fds: &mut [pollfd], until_ns: u64, mask: *const sigset_t) -> c_int {
    let count = fds.len() as libc::nfds_t;
    // SAFETY: the slice has its length.
    let result = unsafe { real::poll(fds.as_mut_ptr(), count, 0) };
    if result < 0 {
        return result;
    }
    let ready = collect_events(fds, until_ns);
    if ready > 0 || mask.is_null() {
        return ready;
    }
    let at_once = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: as above; time and mask live.
    let result = unsafe { real::ppoll(fds.as_mut_ptr(), count, &raw const at_once, mask) };
    if result < 0 {
        return result;
    }
    collect_events(fds, until_ns)
}

/// Adds what came into the rings until then to the kernel's events, and removes mere wake-up bytes.
fn collect_events(fds: &mut [pollfd], until_ns: u64) -> c_int {
    if fds.iter().any(|poll| poll.revents != 0) {
        order::has_used_kernel();
    }
    let mut ready = 0;
    for poll in fds {
        if let Some(socket) = wants_in(poll) {
            empty_reads::note_intercepted_wait(socket);
            let said = poll.revents & POLL_IN != 0;
            let is_ready = (said || has_come(socket, until_ns))
                && check_readiness(poll.fd, socket, said) == Readiness::Ready;
            if is_ready {
                poll.revents |= poll.events & POLL_IN;
            } else if poll.revents & POLL_ENDS == 0 {
                poll.revents &= !POLL_IN;
            }
        }
        note_end(poll);
        if wants_set(poll) && set_is_ready(poll.fd, 0) {
            poll.revents |= poll.events & POLL_IN;
        }
        ready += c_int::from(poll.revents != 0);
    }
    ready
}

/// The program is told of an end. Its next read finds it on the kernel connection.
pub fn note_end(poll: &mut pollfd) {
    if poll.revents & POLL_ENDS == 0 || poll.fd < 0 {
        return;
    }
    if let Some(socket) = descriptors::find(poll.fd) {
        socket.set(CHECK_KERNEL, true);
        if pending_error::has_error(socket) {
            poll.revents |= libc::POLLERR;
        }
        poll.revents |= lost_bytes::events_of(socket, poll.revents);
    }
}

/// Whether the kernel reports anything as ready. Does not change the program's answers.
fn kernel_has_any(fds: &[pollfd]) -> bool {
    const FEW: usize = 64;
    if fds.len() > FEW {
        return false;
    }
    let mut copy = [pollfd {
        fd: -1,
        events: 0,
        revents: 0,
    }; FEW];
    copy[..fds.len()].copy_from_slice(fds);
    // SAFETY: the copies are ours.
    unsafe { real::poll(copy.as_mut_ptr(), fds.len() as libc::nfds_t, 0) > 0 }
}

/// `None` if something has come before it slept.
#[inline(never)]
fn sleep_in_poll<const N: usize>(
    fds: &mut [pollfd],
    deadline: Deadline,
    mask: *const sigset_t,
) -> Option<c_int> {
    let mut sleepers = Sleepers::<N>::none();
    let mut sets = fds.iter().filter(|poll| wants_set(poll));
    if !sets.all(|set| sleepers.add_set(set.fd, 0)) {
        return None;
    }
    if !fds
        .iter()
        .filter_map(|poll| Some((poll.fd, wants_in(poll)?)))
        .all(|(fd, socket)| sleepers.add(fd, socket, None))
    {
        return None;
    }
    let left = deadline.left();
    let left = left.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    let fd = match fds {
        [only] => only.fd,
        _ => -1,
    };
    probes::sleeps(fd);
    // SAFETY: the slice has its length; time and mask live.
    let count = unsafe { real::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, left, mask) };
    probes::woken(fd);
    Some(count)
}
