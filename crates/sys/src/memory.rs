//! Shared memory: memfds, their seals, and mappings of them.

mod detach;
mod fork;
mod mapping;
mod parts;
mod placement;

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use barewire_calls::memory;
use barewire_shm::Region;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno as Raw;

use crate::error::{BadDescriptor, Result, SysError, new_fd, on};
use mapping::Mapping;

pub use detach::DetachableMapping;
pub use fork::{arm_fork_guard, fork_generation, forked};
pub use mapping::Access;
pub use parts::{write_parts, write_slices};
pub use placement::{HugePages, Placement, huge_page_bytes};

/// The largest shared memory a peer may offer, in bytes.
pub const LARGEST_LEN_BYTES: u64 = 1 << 40;

/// `f_type` of tmpfs in statfs: what an ordinary memfd lives on.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// `f_type` of hugetlbfs in statfs.
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

/// A set of seals, each of which forbids something for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealSet(i32);

impl SealSet {
    /// No seals.
    pub const NONE: SealSet = SealSet(0);
    /// The memory can no longer get smaller.
    pub const SHRINK: SealSet = SealSet(libc::F_SEAL_SHRINK);
    /// The memory can no longer get larger.
    pub const GROW: SealSet = SealSet(libc::F_SEAL_GROW);
    /// No new way to write: writable mappings that exist stay writable.
    pub const FUTURE_WRITE: SealSet = SealSet(libc::F_SEAL_FUTURE_WRITE);
    /// No more seals can be added.
    pub const SEAL: SealSet = SealSet(libc::F_SEAL_SEAL);

    /// Whether every seal of `other` is in this set.
    pub fn contains(self, other: SealSet) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for SealSet {
    type Output = SealSet;
    fn bitor(self, other: SealSet) -> SealSet {
        SealSet(self.0 | other.0)
    }
}

/// What a peer's memory is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAccess {
    /// It is only read here; the peer may have sealed it against writing.
    ReadOnly,
    /// It is read and written here.
    ReadWrite,
}

/// Shared memory that can be handed to other processes as a descriptor.
#[derive(Debug)]
pub struct Memfd {
    fd: OwnedFd,
    len_bytes: usize,
    access: PeerAccess,
}

impl Memfd {
    /// Makes shared memory of `len_bytes` zero bytes (a nonzero multiple of
    /// 8), without seals. `name` shows up in /proc as `/memfd:name`.
    ///
    /// # Errors
    /// Bad name or length, no descriptors left, no memory, or no memfd here.
    pub fn create(name: &str, len_bytes: usize) -> Result<Memfd> {
        const WHAT: &str = "make shared memory (memfd_create)";
        check_len(len_bytes as u64).map_err(|_| SysError::InvalidArgument {
            what: WHAT,
            reason: "the length must be a nonzero multiple of 8 bytes, at most 2^40",
        })?;
        let name = CString::new(name).ok().filter(|n| n.count_bytes() <= 200);
        let name = name.ok_or(SysError::InvalidArgument {
            what: WHAT,
            reason: "the name must be at most 200 bytes without NUL",
        })?;
        let fd = new_fd(memory::create(&name)).map_err(|errno| match errno {
            libc::ENOSYS => SysError::Unsupported {
                what: WHAT,
                needs: "Linux 3.17 or newer",
                errno: errno.into(),
            },
            _ => SysError::new(WHAT, errno),
        })?;
        memory::set_len(fd.as_raw_fd(), len_bytes).map_err(on("size shared memory (ftruncate)"))?;
        Ok(Memfd {
            fd,
            len_bytes,
            access: PeerAccess::ReadWrite,
        })
    }

    /// As [`Memfd::create`], with its size and its seals fixed for good.
    ///
    /// # Errors
    /// As [`Memfd::create`] and [`Memfd::seal`].
    pub fn create_sealed(name: &str, len_bytes: usize) -> Result<Memfd> {
        let memfd = Memfd::create(name, len_bytes)?;
        memfd.seal(SealSet(memory::FIXED))?;
        Ok(memfd)
    }

    /// Shared memory that only the returned [`Region`] can write: whoever gets
    /// the descriptor, this process included, can map it for reading only.
    ///
    /// # Errors
    /// As [`Memfd::create`]; `Unsupported` before Linux 5.1.
    pub fn create_owner_writable(name: &str, len_bytes: usize) -> Result<(Memfd, Region)> {
        let mut memfd = Memfd::create(name, len_bytes)?;
        let region = memfd.map(Access::ReadWrite)?;
        memfd.seal(SealSet(memory::FIXED) | SealSet::FUTURE_WRITE)?;
        memfd.access = PeerAccess::ReadOnly;
        Ok((memfd, region))
    }

    /// Accepts a descriptor that a peer sent, if it is shared memory whose
    /// size can no longer change and is `expected_len` bytes, so that nothing
    /// the peer does can make an access to a mapping of it fault.
    ///
    /// # Errors
    /// What is wrong with the descriptor; it is closed then.
    pub fn from_peer(
        fd: OwnedFd,
        expected_len: usize,
        access: PeerAccess,
    ) -> Result<Memfd, BadDescriptor> {
        Memfd::check_peer(fd.as_fd(), expected_len, access)?;
        Ok(Memfd {
            fd,
            len_bytes: expected_len,
            access,
        })
    }

    /// Whether [`Memfd::from_peer`] would accept a descriptor. Nothing is asked that a file
    /// could wait with: what is no memory is told by its lack of seals.
    ///
    /// # Errors
    /// What is wrong with the descriptor; it stays open.
    pub fn check_peer(
        fd: BorrowedFd<'_>,
        expected_len: usize,
        access: PeerAccess,
    ) -> Result<(), BadDescriptor> {
        check_len(expected_len as u64)?;
        let actual = verify_memfd(fd, access)?;
        if actual != expected_len as u64 {
            return Err(BadDescriptor::WrongSize {
                expected: expected_len as u64,
                actual,
            });
        }
        Ok(())
    }

    /// As [`Memfd::from_peer`] for reading, with whatever size it has.
    pub(crate) fn from_peer_of_any_len(fd: OwnedFd) -> Result<Memfd, BadDescriptor> {
        let actual = verify_memfd(fd.as_fd(), PeerAccess::ReadOnly)?;
        check_len(actual)?;
        let len_bytes =
            usize::try_from(actual).map_err(|_| BadDescriptor::ImpossibleSize(actual))?;
        Ok(Memfd {
            fd,
            len_bytes,
            access: PeerAccess::ReadOnly,
        })
    }

    /// The size in bytes.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Adds seals; they can never be taken off again.
    ///
    /// # Errors
    /// `InvalidArgument` if sealed with [`SealSet::SEAL`] before;
    /// `Unsupported` if this kernel does not know one of the seals.
    pub fn seal(&self, seals: SealSet) -> Result<()> {
        const WHAT: &str = "seal shared memory (F_ADD_SEALS)";
        memory::add_seals(self.fd.as_raw_fd(), seals.0).map_err(|errno| match errno {
            libc::EINVAL => SysError::Unsupported {
                what: WHAT,
                needs: "Linux 5.1 or newer (F_SEAL_FUTURE_WRITE)",
                errno: errno.into(),
            },
            libc::EPERM => SysError::InvalidArgument {
                what: WHAT,
                reason: "its seals are final (F_SEAL_SEAL), or the descriptor is read-only",
            },
            _ => SysError::new(WHAT, errno),
        })
    }

    /// The seals it has.
    ///
    /// # Errors
    /// Only if the kernel refuses to tell.
    pub fn seals(&self) -> Result<SealSet> {
        memory::seals(self.fd.as_raw_fd())
            .map(SealSet)
            .map_err(on("read the seals of shared memory (F_GET_SEALS)"))
    }

    /// Maps all of it, shared with every other process that maps it. The
    /// mapping goes when the last clone of the `Region` goes; the descriptor
    /// is not needed for it.
    ///
    /// # Errors
    /// No memory or address space; `BadDescriptor` where `access` is more than
    /// this descriptor gives.
    pub fn map(&self, access: Access) -> Result<Region> {
        self.map_placed(access, &Placement::default())
    }

    /// As [`Memfd::map`], for whoever made the memory: has it lie where `placement` says. Pages
    /// that peers touch first lie there too. What is locked is kept in memory as long as this
    /// mapping is.
    ///
    /// # Errors
    /// As [`Memfd::map`]; `LockedMemoryLimit`, `NoNumaNode`, `NoHugePages`; `Unsupported` without
    /// NUMA in the kernel, or where a sandbox keeps one from it.
    pub fn map_placed(&self, access: Access, placement: &Placement) -> Result<Region> {
        let mapping = self.map_raw(access, placement)?;
        Ok(mapping::region(mapping, self.len_bytes, access))
    }

    /// As [`Memfd::map_placed`], with a way to cut the mapping off from its peers. The private
    /// copy that it then becomes lies anywhere.
    ///
    /// # Errors
    /// As [`Memfd::map_placed`].
    pub fn map_detachable(
        &self,
        access: Access,
        placement: &Placement,
    ) -> Result<DetachableMapping> {
        let mapping = self.map_raw(access, placement)?;
        Ok(DetachableMapping::new(mapping, self.len_bytes, access))
    }

    fn map_raw(&self, access: Access, placement: &Placement) -> Result<std::sync::Arc<Mapping>> {
        if access == Access::ReadWrite && self.access == PeerAccess::ReadOnly {
            return Err(BadDescriptor::WrongAccess.into());
        }
        let fd = self.fd.as_fd();
        let mapping = match placement.align_bytes() {
            1 => Mapping::shared(fd, self.len_bytes, access)?,
            align_bytes => Mapping::shared_aligned(fd, self.len_bytes, access, align_bytes)?,
        };
        placement.apply(&mapping)?;
        Ok(std::sync::Arc::new(mapping))
    }

    /// Writes zeros to `len_bytes` bytes from `offset_bytes` on. The pages are
    /// then really there: what memory is lacking shows up here as an error
    /// and not later as a fault.
    ///
    /// # Errors
    /// No memory, beyond the end, or sealed against writing.
    pub fn pwrite_zeros(&self, offset_bytes: usize, len_bytes: usize) -> Result<()> {
        const WHAT: &str = "zero shared memory (pwrite)";
        const ZEROS: &[u8] = &[0; 16 * 1024];
        let end = offset_bytes.checked_add(len_bytes);
        let end = end.filter(|&end| end <= self.len_bytes);
        let end = end.ok_or(SysError::InvalidArgument {
            what: WHAT,
            reason: "the range reaches beyond the end",
        })?;
        let mut at = offset_bytes;
        while at < end {
            let piece = &ZEROS[..ZEROS.len().min(end - at)];
            match rustix::io::pwrite(&self.fd, piece, at as u64) {
                Ok(0) => return Err(SysError::new(WHAT, Raw::NOSPC)),
                Ok(written) => at += written,
                Err(Raw::INTR) => {}
                Err(errno) => return Err(SysError::new(WHAT, errno)),
            }
        }
        Ok(())
    }

    /// A second descriptor for the same memory.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn try_clone(&self) -> Result<Memfd> {
        let fd = rustix::io::fcntl_dupfd_cloexec(&self.fd, 3)
            .map_err(on("duplicate a shared memory descriptor"))?;
        Ok(Memfd { fd, ..*self })
    }

    /// The descriptor alone.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl AsFd for Memfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Placement {
    /// Whether memory can be had like this: tries it on a little.
    ///
    /// # Errors
    /// As [`Memfd::map_placed`].
    pub fn check(&self) -> Result<()> {
        if *self == Placement::default() {
            return Ok(());
        }
        let memfd = Memfd::create_sealed("barewire-trial", self.rounded_bytes(4096))?;
        memfd.map_placed(Access::Read, self).map(drop)
    }
}

fn check_len(len_bytes: u64) -> Result<(), BadDescriptor> {
    if len_bytes == 0 || len_bytes % 8 != 0 || len_bytes > LARGEST_LEN_BYTES {
        return Err(BadDescriptor::ImpossibleSize(len_bytes));
    }
    Ok(())
}

/// Checks what kind of thing the descriptor is, its seals and its access;
/// gives its size in bytes.
fn verify_memfd(fd: BorrowedFd<'_>, access: PeerAccess) -> Result<u64, BadDescriptor> {
    // Only memfds have seals at all (a file on tmpfs has but F_SEAL_SEAL).
    let seals = memory::seals(fd.as_raw_fd()).map_err(|_| BadDescriptor::NotMemfd)?;
    let stat = rustix::fs::fstat(fd).map_err(|e| BadDescriptor::Os(e.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(BadDescriptor::NotMemfd);
    }
    match rustix::fs::fstatfs(fd).map(|s| s.f_type as u64 & 0xffff_ffff) {
        Ok(TMPFS_MAGIC) => {}
        Ok(HUGETLBFS_MAGIC) => return Err(BadDescriptor::HugePages),
        Ok(_) => return Err(BadDescriptor::NotMemfd),
        Err(e) => return Err(BadDescriptor::Os(e.into())),
    }
    let seals = SealSet(seals);
    if !seals.contains(SealSet::SHRINK | SealSet::GROW) {
        return Err(BadDescriptor::SizeNotSealed);
    }
    verify_access(fd, seals, access)?;
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

fn verify_access(
    fd: BorrowedFd<'_>,
    seals: SealSet,
    access: PeerAccess,
) -> Result<(), BadDescriptor> {
    let flags = rustix::fs::fcntl_getfl(fd).map_err(|e| BadDescriptor::Os(e.into()))?;
    let mode = flags & OFlags::ACCMODE;
    match access {
        PeerAccess::ReadOnly if mode == OFlags::WRONLY => Err(BadDescriptor::WrongAccess),
        PeerAccess::ReadOnly => Ok(()),
        PeerAccess::ReadWrite if mode != OFlags::RDWR => Err(BadDescriptor::WrongAccess),
        PeerAccess::ReadWrite
            if seals.0 & (libc::F_SEAL_WRITE | libc::F_SEAL_FUTURE_WRITE) != 0 =>
        {
            Err(BadDescriptor::SealedAgainstWriting)
        }
        PeerAccess::ReadWrite => Ok(()),
    }
}
