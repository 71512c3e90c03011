//! The descriptor that a link is waited for on: an epoll set with the descriptors of libfabric's
//! queues in it.
//!
//! A queue of completions names its descriptors in one of two ways.
//! - One, that of the provider's own epoll set (`FI_WAIT_FD`). The provider looks there whenever
//!   it is driven.
//! - A list (`FI_WAIT_POLLFD`). The provider then looks by `poll`, and has no set of its own. The
//!   list changes: a socket is added once connected, and room to write is asked for while there
//!   is none. So it is compared before each sleep.
//!
//! A list may have a descriptor that stays readable with nothing to do. The first one of the
//! provider `tcp` is such: it wakes a thread of its own in `poll`, and only that thread resets
//! it. So those of a list are watched by edge, and what they have told is taken out of the set
//! before each sleep.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use crate::error::OfiError;
use crate::objects::borrow;

/// How much of what was told is taken out at once. What is left ends a sleep early.
const TOLD_MAX: usize = 16;

/// An epoll descriptor, and which of the descriptors in it are from a list.
pub(crate) struct WaitSet {
    set: OwnedFd,
    change_index: u64,
    /// Descriptors, and what is waited for on each, as for `poll`.
    listed: Vec<(RawFd, u16)>,
}

impl WaitSet {
    /// A set with nothing in it.
    pub(crate) fn new() -> Result<WaitSet, OfiError> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|errno| OfiError::kernel("making an epoll descriptor", errno))?;
        Ok(WaitSet {
            set,
            change_index: 0,
            listed: Vec::new(),
        })
    }

    /// Adds a descriptor of a live queue, which stays in the set.
    pub(crate) fn watch(&self, descriptor: RawFd) -> Result<(), OfiError> {
        self.add(descriptor, EventFlags::IN).map_err(failed)
    }

    /// Takes out what descriptors of a list have told so far.
    pub(crate) fn forget_told(&self) {
        let mut told = [const { MaybeUninit::<epoll::Event>::uninit() }; TOLD_MAX];
        // After an error all is as it was, and the next sleep ends at once.
        let _ = epoll::wait(&self.set, &mut told, Some(&Timespec::default()));
    }

    /// Watches the descriptors of a live queue's list, and no longer those of the list before.
    /// `false` if one or the number of changes was another: what the number tells of may still
    /// be to come.
    pub(crate) fn follow(
        &mut self,
        change_index: u64,
        list: impl Iterator<Item = (RawFd, u16)> + Clone,
    ) -> Result<bool, OfiError> {
        if self.change_index == change_index && list.clone().eq(self.listed.iter().copied()) {
            return Ok(true);
        }
        for &(old, _) in &self.listed {
            if list.clone().all(|(new, _)| new != old) {
                self.remove(old);
            }
        }
        self.listed.clear();
        for (descriptor, events) in list {
            let flags = EventFlags::from_bits_retain(u32::from(events)) | EventFlags::ET;
            // One that was closed is not in the set, though its number may be another's now.
            match self.change(descriptor, flags) {
                Err(Errno::NOENT) => self.add(descriptor, flags),
                result => result,
            }
            .map_err(failed)?;
            self.listed.push((descriptor, events));
        }
        self.change_index = change_index;
        Ok(false)
    }

    fn add(&self, descriptor: RawFd, flags: EventFlags) -> Result<(), Errno> {
        // SAFETY: the descriptor is that of a live queue.
        let descriptor = unsafe { borrow(descriptor) };
        epoll::add(&self.set, descriptor, EventData::new_u64(0), flags)
    }

    fn change(&self, descriptor: RawFd, flags: EventFlags) -> Result<(), Errno> {
        // SAFETY: the descriptor is that of a live queue.
        let descriptor = unsafe { borrow(descriptor) };
        epoll::modify(&self.set, descriptor, EventData::new_u64(0), flags)
    }

    /// Removes a descriptor that a list once had.
    fn remove(&self, descriptor: RawFd) {
        // SAFETY: it may have been closed. Then the kernel does nothing: a file leaves the set
        // when it is closed, and another with this number is not in it.
        let descriptor = unsafe { borrow(descriptor) };
        let _ = epoll::delete(&self.set, descriptor);
    }
}

impl AsFd for WaitSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

fn failed(errno: Errno) -> OfiError {
    OfiError::kernel("watching a queue of libfabric", errno)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

    use super::*;

    const READ: PollFlags = PollFlags::IN;
    const WRITE: PollFlags = PollFlags::OUT;

    fn is_readable(set: &WaitSet) -> bool {
        let mut polled = [PollFd::new(set, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).unwrap() == 1
    }

    fn signal() -> OwnedFd {
        eventfd(0, EventfdFlags::CLOEXEC).unwrap()
    }

    fn ring(signal: &OwnedFd) {
        rustix::io::write(signal, &1_u64.to_ne_bytes()).unwrap();
    }

    fn follow(set: &mut WaitSet, change_index: u64, list: &[(&OwnedFd, PollFlags)]) -> bool {
        let list = list
            .iter()
            .map(|(fd, flags)| (fd.as_raw_fd(), flags.bits()));
        set.follow(change_index, list).unwrap()
    }

    #[test]
    fn a_descriptor_that_stays_readable_wakes_once() {
        let (mut set, signal) = (WaitSet::new().unwrap(), signal());
        ring(&signal);
        assert!(!follow(&mut set, 1, &[(&signal, READ)]));
        assert!(is_readable(&set));
        set.forget_told();
        assert!(!is_readable(&set), "it was told");
        ring(&signal);
        assert!(is_readable(&set), "something new");
    }

    #[test]
    fn a_list_is_followed() {
        let mut set = WaitSet::new().unwrap();
        let (one, other) = (signal(), signal());
        assert!(!follow(&mut set, 1, &[(&one, READ)]));
        assert!(follow(&mut set, 1, &[(&one, READ)]));
        ring(&one);
        assert!(is_readable(&set));
        assert!(!follow(&mut set, 2, &[(&other, READ)]));
        assert!(!is_readable(&set), "the old one is no longer watched");
        // What is waited for changes without a new number.
        assert!(!follow(&mut set, 2, &[(&other, WRITE)]));
        assert!(is_readable(&set), "there is room to write");
        // A new number alone is a change.
        assert!(!follow(&mut set, 3, &[(&other, WRITE)]));
        assert!(follow(&mut set, 3, &[(&other, WRITE)]));
    }

    /// As when the provider closes a socket, and the next one gets its number.
    #[test]
    fn a_number_that_is_used_again_is_watched() {
        let mut set = WaitSet::new().unwrap();
        let one = signal();
        follow(&mut set, 1, &[(&one, READ)]);
        // Closes the old file, and gives its number to another.
        let mut number = one;
        rustix::io::dup2(signal(), &mut number).unwrap();
        follow(&mut set, 2, &[(&number, READ)]);
        ring(&number);
        assert!(is_readable(&set));
    }

    #[test]
    fn a_descriptor_that_stays_in_the_set_is_told_until_read() {
        let (set, signal) = (WaitSet::new().unwrap(), signal());
        set.watch(signal.as_raw_fd()).unwrap();
        ring(&signal);
        set.forget_told();
        assert!(is_readable(&set));
    }
}
