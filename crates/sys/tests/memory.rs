//! Shared memory for real: seals, what peers may send, who may write.

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use barewire_sys::memory::{
    Access, Memfd, PeerAccess, Placement, SealSet, arm_fork_guard, fork_generation, forked,
};
use barewire_sys::process::fork_child;
use barewire_sys::wake::{Epoll, EventFd};
use barewire_sys::{BadDescriptor, SysError};

const LEN: usize = 8192;

fn dup(fd: impl AsFd) -> OwnedFd {
    fd.as_fd().try_clone_to_owned().unwrap()
}

fn reopened_read_only(fd: impl AsFd) -> OwnedFd {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    File::open(path).unwrap().into()
}

#[test]
fn sealed_memory_is_accepted_and_shared() {
    let memfd = Memfd::create_sealed("share", LEN).unwrap();
    assert_eq!(memfd.len_bytes(), LEN);
    let size = SealSet::SHRINK | SealSet::GROW | SealSet::SEAL;
    assert!(memfd.seals().unwrap().contains(size));
    let theirs = Memfd::from_peer(dup(&memfd), LEN, PeerAccess::ReadWrite).unwrap();
    let (a, b) = (
        memfd.map(Access::ReadWrite).unwrap(),
        theirs.map(Access::Read).unwrap(),
    );
    assert!(a.writable() && !b.writable());
    a.whole().atomic_store(LEN - 8, 7);
    assert_eq!(b.whole().atomic_load(LEN - 8), 7);
    assert_eq!(b.whole().atomic_load(0), 0);

    memfd.pwrite_zeros(0, LEN).unwrap();
    assert_eq!(b.whole().atomic_load(LEN - 8), 0);
    let beyond = memfd.pwrite_zeros(8, LEN);
    assert!(
        matches!(beyond, Err(SysError::InvalidArgument { .. })),
        "{beyond:?}"
    );
    let again = memfd.try_clone().unwrap();
    drop((memfd, theirs));
    a.whole().atomic_store(0, 9);
    assert_eq!(again.map(Access::Read).unwrap().whole().atomic_load(0), 9);
    assert!(Memfd::from_peer(again.into_fd(), LEN, PeerAccess::ReadOnly).is_ok());
}

#[test]
fn sealed_size_and_seals_are_final() {
    let memfd = Memfd::create("final", LEN).unwrap();
    memfd.seal(SealSet::SHRINK | SealSet::GROW).unwrap();
    let file = File::from(dup(&memfd));
    assert!(file.set_len(LEN as u64 / 2).is_err());
    assert!(file.set_len(LEN as u64 * 2).is_err());
    memfd.seal(SealSet::SEAL).unwrap();
    let more = memfd.seal(SealSet::FUTURE_WRITE);
    assert!(
        matches!(more, Err(SysError::InvalidArgument { .. })),
        "{more:?}"
    );
}

#[test]
fn impossible_names_and_lengths_are_refused() {
    for (name, len) in [
        ("a\0b", LEN),
        (&*"x".repeat(300), LEN),
        ("a", 0),
        ("a", 12),
        ("a", 1 << 41),
    ] {
        let made = Memfd::create(name, len);
        assert!(
            matches!(made, Err(SysError::InvalidArgument { .. })),
            "{name} {len} {made:?}"
        );
    }
}

fn refusal(fd: OwnedFd, len: usize, access: PeerAccess) -> BadDescriptor {
    Memfd::from_peer(fd, len, access).expect_err("must be refused")
}

#[test]
fn memory_that_could_change_or_is_not_as_agreed_is_refused() {
    use BadDescriptor as B;
    use PeerAccess::{ReadOnly, ReadWrite};
    let open = Memfd::create("open", LEN).unwrap();
    assert_eq!(refusal(dup(&open), LEN, ReadOnly), B::SizeNotSealed);
    open.seal(SealSet::SHRINK).unwrap();
    assert_eq!(refusal(dup(&open), LEN, ReadOnly), B::SizeNotSealed);
    open.seal(SealSet::GROW).unwrap();
    assert!(Memfd::from_peer(dup(&open), LEN, ReadOnly).is_ok());

    let sealed = Memfd::create_sealed("sealed", LEN).unwrap();
    let wrong = B::WrongSize {
        expected: 4096,
        actual: LEN as u64,
    };
    assert_eq!(refusal(dup(&sealed), 4096, ReadOnly), wrong);
    assert_eq!(refusal(dup(&sealed), 0, ReadOnly), B::ImpossibleSize(0));
    assert_eq!(refusal(dup(&sealed), 12, ReadOnly), B::ImpossibleSize(12));
    assert_eq!(
        refusal(dup(&sealed), 1 << 41, ReadOnly),
        B::ImpossibleSize(1 << 41)
    );
    assert_eq!(
        refusal(reopened_read_only(&sealed), LEN, ReadWrite),
        B::WrongAccess
    );
    assert!(Memfd::from_peer(reopened_read_only(&sealed), LEN, ReadOnly).is_ok());
}

#[test]
fn other_kinds_of_descriptors_are_refused() {
    let (pipe, _writer) = rustix::pipe::pipe().unwrap();
    let kinds: Vec<OwnedFd> = vec![
        File::open("/proc/self/exe").unwrap().into(),
        File::open("/").unwrap().into(),
        File::open("/dev/zero").unwrap().into(),
        dup(EventFd::new().unwrap()),
        dup(Epoll::new().unwrap()),
        pipe,
    ];
    for fd in kinds {
        assert_eq!(
            refusal(fd, LEN, PeerAccess::ReadOnly),
            BadDescriptor::NotMemfd
        );
    }
    // A file on tmpfs has a size that anyone can change.
    let path = format!("/dev/shm/barewire-sys-test-{}", std::process::id());
    if let Ok(file) = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
    {
        file.set_len(LEN as u64).unwrap();
        std::fs::remove_file(&path).unwrap();
        let why = refusal(file.into(), LEN, PeerAccess::ReadWrite);
        assert!(
            matches!(why, BadDescriptor::SizeNotSealed | BadDescriptor::NotMemfd),
            "{why:?}"
        );
    }
}

#[test]
fn memory_on_huge_pages_is_refused() {
    use rustix::fs::{MemfdFlags, SealFlags};
    let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
    let Ok(fd) = rustix::fs::memfd_create("huge", flags) else {
        return;
    };
    // A size of zero needs no huge pages to be there.
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW).unwrap();
    assert_eq!(
        refusal(fd, LEN, PeerAccess::ReadOnly),
        BadDescriptor::HugePages
    );
}

/// Tries to map for writing by the bare system call.
fn raw_writable_map(fd: impl AsFd) -> rustix::io::Result<*mut c_void> {
    use rustix::mm::{MapFlags, ProtFlags};
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses a free range.
    unsafe { rustix::mm::mmap(std::ptr::null_mut(), LEN, prot, MapFlags::SHARED, fd, 0) }
}

#[test]
fn only_the_owner_can_write_to_owner_writable_memory() {
    let (memfd, region) = Memfd::create_owner_writable("mine", LEN).unwrap();
    assert_eq!(raw_writable_map(&memfd), Err(rustix::io::Errno::PERM));
    let refused = memfd.map(Access::ReadWrite);
    assert!(matches!(
        refused,
        Err(SysError::BadDescriptor(BadDescriptor::WrongAccess))
    ));
    assert!(memfd.pwrite_zeros(0, 8).is_err());
    assert_eq!(
        refusal(dup(&memfd), LEN, PeerAccess::ReadWrite),
        BadDescriptor::SealedAgainstWriting
    );

    let theirs = Memfd::from_peer(dup(&memfd), LEN, PeerAccess::ReadOnly).unwrap();
    let view = theirs.map(Access::Read).unwrap();
    region.whole().atomic_store(16, 5);
    assert_eq!(view.whole().atomic_load(16), 5);
    let flags = rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE;
    // SAFETY: changes nothing, as it must fail; the range is mapped.
    let upgraded = unsafe { rustix::mm::mprotect(view.base().as_ptr().cast(), LEN, flags) };
    assert_eq!(upgraded, Err(rustix::io::Errno::ACCESS));
}

#[test]
fn an_attacker_cannot_open_owner_writable_memory_anew_for_writing() {
    use std::os::fd::AsRawFd;
    let (memfd, _region) = Memfd::create_owner_writable("mine", LEN).unwrap();
    let path = format!("/proc/self/fd/{}", memfd.as_fd().as_raw_fd());
    let again = File::options().read(true).write(true).open(path).unwrap();
    assert_eq!(raw_writable_map(&again), Err(rustix::io::Errno::PERM));
}

#[test]
fn a_detached_region_keeps_what_the_peer_had_written() {
    let memfd = Memfd::create_sealed("detach", LEN).unwrap();
    let peer = memfd.map(Access::ReadWrite).unwrap();
    let ours = memfd
        .map_detachable(Access::ReadWrite, &Placement::default())
        .unwrap();
    let clone = ours.region.clone();
    peer.whole().atomic_store(64, 1);
    ours.detach().unwrap();
    peer.whole().atomic_store(64, 2);
    ours.detach().unwrap();
    drop(ours);
    assert_eq!(clone.whole().atomic_load(64), 1);
    clone.whole().atomic_store(72, 3);
    assert_eq!(peer.whole().atomic_load(72), 0);
}

#[test]
fn forked_children_know_that_they_are() {
    assert!(!forked());
    assert_eq!(fork_generation(), 0);
    arm_fork_guard();
    arm_fork_guard();
    assert!(!forked());
    assert_eq!(fork_generation(), 1);
    let child = fork_child(|| {
        let before = forked();
        arm_fork_guard();
        let mine = fork_generation();
        let grandchild = fork_child(|| i32::from(forked() && fork_generation() != mine));
        let told = grandchild
            .and_then(|g| g.wait())
            .ok()
            .and_then(|s| s.code());
        i32::from(before && forked() && mine > 1 && mine == fork_generation() && told == Some(1))
    });
    assert_eq!(child.unwrap().wait().unwrap().code(), Some(1));
    assert!(!forked());
    assert_eq!(fork_generation(), 1);
}
