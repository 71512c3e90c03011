//! The thread that watches descriptors for those who do not wait for them.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use barewire_sys::memory::arm_fork_guard;
use barewire_sys::process::fork_child;
use barewire_sys::socket::Socket;
use barewire_sys::wake::{EventFd, Interest};
use barewire_sys::watch::{Told, Watch, Watched, has_news, watch};

const LONG: Duration = Duration::from_secs(20);

/// Tests in this file run one after the other: a child that one of them forks
/// would keep the other ends of the sockets of the others open.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    arm_fork_guard();
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watched(what: Watched, interest: Interest) -> (Watch, Receiver<()>) {
    let (tell, told) = channel();
    let tell: Told = Arc::new(move || {
        let _ = tell.send(());
    });
    (watch(vec![(what, interest)], tell).unwrap(), told)
}

#[test]
fn a_hang_up_is_told_and_messages_are_not() {
    let _alone = alone();
    let (here, there) = Socket::pair().unwrap();
    let here = Arc::new(here);
    let (_watch, told) = watched(here.clone(), Interest::default());
    there.send(b"message", &[]).unwrap();
    assert!(!has_news(&[(here.as_fd(), Interest::default())]));
    assert!(told.try_recv().is_err(), "a message is no hang-up");
    drop(there);
    told.recv_timeout(LONG).unwrap();
    assert!(has_news(&[(here.as_fd(), Interest::default())]));
    assert!(told.try_recv().is_err(), "told once");
}

#[test]
fn what_has_happened_already_is_told() {
    let _alone = alone();
    let (here, there) = Socket::pair().unwrap();
    drop(there);
    let (_watch, told) = watched(Arc::new(here), Interest::default());
    told.recv_timeout(LONG).unwrap();
}

#[test]
fn nothing_is_told_of_a_watch_that_was_dropped() {
    let _alone = alone();
    let bell = Arc::new(EventFd::new().unwrap());
    let (watch, told) = watched(bell.clone(), Interest::READ);
    drop(watch);
    bell.signal().unwrap();
    let (_again, told_again) = watched(bell, Interest::READ);
    told_again.recv_timeout(LONG).unwrap();
    assert!(told.recv_timeout(LONG).is_err(), "its end is gone");
}

#[test]
fn a_panic_does_not_end_the_watching() {
    let _alone = alone();
    let bell = Arc::new(EventFd::new().unwrap());
    bell.signal().unwrap();
    let bad: Told = Arc::new(|| panic!("on purpose"));
    let bad = watch(vec![(bell.clone() as Watched, Interest::READ)], bad).unwrap();
    let other = Arc::new(EventFd::new().unwrap());
    other.signal().unwrap();
    let (_watch, told) = watched(other, Interest::READ);
    told.recv_timeout(LONG).unwrap();
    drop(bad);
}

#[test]
fn a_forked_child_watches_for_itself() {
    let _alone = alone();
    let bell = Arc::new(EventFd::new().unwrap());
    let (watch, told) = watched(bell.clone(), Interest::READ);
    let mut watch = Some(watch);
    let child = fork_child(|| {
        // It is the parent's: to drop it changes nothing there.
        drop(watch.take());
        let (here, there) = Socket::pair().unwrap();
        let (_watch, told) = watched(Arc::new(here), Interest::default());
        drop(there);
        i32::from(told.recv_timeout(LONG).is_err())
    });
    let status = child.unwrap().wait().unwrap();
    assert!(status.success(), "the forked child: {status}");
    bell.signal().unwrap();
    told.recv_timeout(LONG).unwrap();
}
