//! Finding and opening the counter pages of processes, for real.

mod common;

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};

use barewire_sys::discover::{COUNTER_PAGE_NAME, find_counter_pages, open_counter_page};
use barewire_sys::memory::Memfd;
use barewire_sys::process::{drop_privileges, fork_child, getpid, own_credentials};
use barewire_sys::{BadDescriptor, SysError};
use common::fork_sleeper;

#[test]
fn counter_pages_are_found_and_read() {
    let (memfd, region) = Memfd::create_owner_writable(COUNTER_PAGE_NAME, 4096).unwrap();
    let same = memfd.try_clone().unwrap();
    // It is told under the lower number. That is the second one if another test's thread closed a descriptor meanwhile.
    let fd = memfd.as_fd().as_raw_fd().min(same.as_fd().as_raw_fd());
    region.whole().atomic_store(8, 77);
    let own: Vec<_> = find_counter_pages()
        .into_iter()
        .filter(|f| f.fd_number == fd)
        .collect();
    let found = own.iter().find(|f| f.pid == getpid()).expect("found");
    assert_eq!(found.uid, own_credentials().uid);
    let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
    assert_eq!(found.comm, comm.trim_end());
    let page = open_counter_page(found.pid, found.fd_number).unwrap();
    assert!(!page.writable());
    assert_eq!(page.len_bytes(), 4096);
    assert_eq!(page.whole().atomic_load(8), 77);

    let child = fork_sleeper();
    let in_child = find_counter_pages()
        .into_iter()
        .filter(|f| f.pid == child.pid);
    assert!(in_child.clone().any(|f| f.fd_number == fd));
    let page = open_counter_page(child.pid, fd).unwrap();
    assert_eq!(page.whole().atomic_load(8), 77);
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = open_counter_page(child.pid, fd);
    assert!(
        matches!(gone, Err(SysError::NoSuchProcess { .. })),
        "{gone:?}"
    );
}

#[test]
fn a_page_under_two_descriptors_is_told_once() {
    let child = fork_child(|| {
        let Ok((memfd, _region)) = Memfd::create_owner_writable(COUNTER_PAGE_NAME, 8192) else {
            return 1;
        };
        let Ok(_same) = memfd.try_clone() else {
            return 2;
        };
        let fd = memfd.as_fd().as_raw_fd();
        let found = find_counter_pages()
            .into_iter()
            .filter(|f| f.pid == getpid());
        let ours = found.filter(|f| {
            let page = open_counter_page(f.pid, f.fd_number);
            page.is_ok_and(|page| page.len_bytes() == 8192)
        });
        let numbers: Vec<i32> = ours.map(|f| f.fd_number).collect();
        i32::from(numbers != [fd])
    });
    assert_eq!(child.unwrap().wait().unwrap().code(), Some(0));
}

#[test]
fn what_is_no_counter_page_is_refused() {
    let file = File::open("/dev/zero").unwrap();
    let other = Memfd::create_sealed("something-else", 4096).unwrap();
    let unsealed = Memfd::create(COUNTER_PAGE_NAME, 4096).unwrap();
    let open = |fd: &dyn AsFdDyn| open_counter_page(getpid(), fd.number());
    let bad = |why| Err(SysError::BadDescriptor(why));
    assert_eq!(open(&file).map(|_| ()), bad(BadDescriptor::NotMemfd));
    assert_eq!(open(&other).map(|_| ()), bad(BadDescriptor::NotMemfd));
    assert_eq!(
        open(&unsealed).map(|_| ()),
        bad(BadDescriptor::SizeNotSealed)
    );
    for (pid, fd) in [(i32::MAX, 3), (-1, 3), (getpid(), 999_999)] {
        let gone = open_counter_page(pid, fd);
        assert!(
            matches!(gone, Err(SysError::NoSuchProcess { .. })),
            "{gone:?}"
        );
    }
}

trait AsFdDyn {
    fn number(&self) -> i32;
}

impl<T: AsFd> AsFdDyn for T {
    fn number(&self) -> i32 {
        self.as_fd().as_raw_fd()
    }
}

#[test]
fn pages_of_other_users_are_not_told() {
    if own_credentials().uid != 0 {
        eprintln!("skipped: needs root");
        return;
    }
    let (memfd, _region) = Memfd::create_owner_writable(COUNTER_PAGE_NAME, 4096).unwrap();
    let (pid, fd) = (getpid(), memfd.as_fd().as_raw_fd());
    let child = fork_child(|| {
        if drop_privileges(65_534, 65_533).is_err() {
            return 1;
        }
        if find_counter_pages().iter().any(|found| found.pid == pid) {
            return 2;
        }
        match open_counter_page(pid, fd) {
            Err(SysError::PermissionDenied { .. }) => 0,
            _ => 3,
        }
    });
    assert_eq!(child.unwrap().wait().unwrap().code(), Some(0));
}
