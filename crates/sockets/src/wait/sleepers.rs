//! Threads that are about to sleep on sockets: each socket is armed and counts its sleepers.

use core::ffi::c_int;
use core::mem::MaybeUninit;

use crate::epoll::sets::{self, Active};
use crate::epoll::tables::ACTIVE_MAX;
use crate::stream::{calls, empty_reads, recall};
use crate::table::directions;
use crate::table::socket_state::SocketState;
use crate::table::state::State;
use crate::wait::events::EPOLL_IN;
use crate::wait::ring_ready::{DEPTH_MAX, FEW};

/// Sockets that this thread sleeps on. On the program's stack: see [`Active`].
pub struct Sleepers<const N: usize> {
    /// With the generation in which it is counted.
    states: [MaybeUninit<(&'static SocketState, u32)>; N],
    count: usize,
}

/// Sockets that one thread can be counted for as a sleeper. For further sockets it is woken as well, unless
/// another thread reads them at the same time.
pub const SLEEPERS_MAX: usize = 1024;

impl<const N: usize> Sleepers<N> {
    /// No socket yet.
    pub const fn none() -> Self {
        Self {
            states: [const { MaybeUninit::uninit() }; N],
            count: 0,
        }
    }

    /// Announces that this thread is about to sleep on a socket. `false` if something has come. Ring bytes
    /// up to `told` do not count, if that is given.
    pub fn add(&mut self, fd: c_int, socket: &'static SocketState, told: Option<u64>) -> bool {
        empty_reads::note_intercepted_wait(socket);
        let held = socket.recv_lock.hold();
        if let Some(place) = self.states.get_mut(self.count) {
            place.write((socket, socket.generation()));
            self.count += 1;
            socket.sleepers.add(1);
        }
        let sleeps = held.is_none_or(|held| {
            socket.state() != State::Upgraded
                || directions::holds_back(socket)
                || match told {
                    None => calls::arm(socket, &held),
                    Some(head) => socket.receiver(&held).arm_past(&socket.memory(), head),
                }
        });
        // After arming: who asks us for something sends a wake-up byte to whoever is armed.
        recall::answer_recall_pinned(fd, socket);
        sleeps
    }
}

impl<const N: usize> Sleepers<N> {
    /// As [`Sleepers::add`], for all of a set.
    pub fn add_set(&mut self, set: c_int, depth: u32) -> bool {
        if depth > DEPTH_MAX || !sets::is_known(set) {
            return true;
        }
        let of_few = self.add_set_of::<FEW>(set, depth);
        of_few.unwrap_or_else(|| self.add_set_of::<ACTIVE_MAX>(set, depth) == Some(true))
    }

    /// `None` if there are more than `M` of them.
    #[inline(never)]
    fn add_set_of<const M: usize>(&mut self, set: c_int, depth: u32) -> Option<bool> {
        let mut active = Active::<M>::empty();
        sets::active(set, &mut active).then(|| self.add_active(&active, depth))
    }

    /// As [`Sleepers::add`], for the active registrations of a set.
    pub fn add_active<const M: usize>(&mut self, active: &Active<M>, depth: u32) -> bool {
        // Not those that the program is not to be told of: what they have must not keep it
        // awake.
        let heard = active
            .iter()
            .filter(|(_, it)| it.events & EPOLL_IN != 0 && !it.silent);
        for (_, registration) in heard {
            let edge = registration.events & libc::EPOLLET as u32 != 0;
            let told = edge.then_some(registration.reported_head);
            let up = |socket: &&'static SocketState| socket.state() == State::Upgraded;
            let socket = registration.socket().filter(up);
            if socket.is_some_and(|socket| !self.add(registration.fd, socket, told)) {
                return false;
            }
        }
        let mut inner = active.inner().iter();
        inner.all(|inner| self.add_set(inner.fd, depth + 1))
    }
}

impl<const N: usize> Drop for Sleepers<N> {
    fn drop(&mut self) {
        for socket in &self.states[..self.count] {
            // SAFETY: the first `count` were written.
            let (socket, generation) = unsafe { socket.assume_init() };
            // Closed meanwhile, it may be another socket's.
            if socket.generation() == generation {
                socket.sleepers.sub(1);
            }
        }
    }
}
