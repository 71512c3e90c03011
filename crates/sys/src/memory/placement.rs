//! Where memory lies: kept from being swapped out, near a NUMA node, on huge pages.
//!
//! Huge pages are *transparent* ones (`madvise` on a memfd), not those of hugetlbfs: a memfd on
//! hugetlbfs may lack a page when it is touched, so peers refuse it ([`Memfd::check_peer`]
//! says why); it needs pages that an administrator has set aside; and it can not be written
//! with `write`. Transparent ones change neither size, seals nor the kind of file.
//!
//! A NUMA node is *preferred*, not binding. The policy belongs to the memory, not to the mapping,
//! so it holds also for pages that a peer touches first; and a binding one would have the kernel
//! end that peer when the node is full.
//!
//! [`Memfd::check_peer`]: super::Memfd::check_peer

use std::fs;
use std::sync::OnceLock;

use barewire_calls::memory::advise;
use barewire_calls::{call, process};
use rustix::io::Errno as Raw;

use super::mapping::Mapping;
use crate::error::{Errno, Result, SysError, on};

/// Whether memory lies on huge pages (2 MiB on x86-64).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// As the system does it for all shared memory: mostly not.
    #[default]
    Never,
    /// As many as the kernel gives; ordinary pages elsewhere.
    Try,
    /// All of it, or an error.
    Require,
}

/// Where memory lies. The default leaves it to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Whether it is taken at once and kept from being swapped out (mlock).
    pub lock: bool,
    /// The NUMA node that its pages are taken from while that has some.
    pub numa_node: Option<u32>,
    /// Whether it lies on huge pages; then it is taken at once.
    pub huge_pages: HugePages,
}

/// What `madvise` calls collapsing a range into huge pages; Linux 6.1.
const MADV_COLLAPSE: libc::c_int = 25;
/// What `mbind` calls a node to be preferred.
const MPOL_PREFERRED: usize = 1;
/// NUMA nodes that can be named: the most that a kernel is built for.
const NODES_MAX: u32 = 1024;
/// The largest huge page that is asked for, in bytes. Where it is larger (64 KiB pages on Arm:
/// 512 MiB), rings would take far too much.
const HUGE_PAGE_BYTES_MAX: usize = 64 << 20;

/// Bytes of a huge page here; `None` if the kernel has none, or only far larger ones.
#[must_use]
pub fn huge_page_bytes() -> Option<usize> {
    static BYTES: OnceLock<Option<usize>> = OnceLock::new();
    let read = || {
        let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").ok()?;
        let bytes: usize = text.trim().parse().ok()?;
        (bytes.is_power_of_two() && bytes <= HUGE_PAGE_BYTES_MAX).then_some(bytes)
    };
    *BYTES.get_or_init(read)
}

impl Placement {
    /// As it is, but for huge pages: for memory that is much smaller than one.
    #[must_use]
    pub fn on_small_pages(self) -> Placement {
        Placement {
            huge_pages: HugePages::Never,
            ..self
        }
    }

    /// The size to make memory of that is to hold `len_bytes`: whole huge pages, if it is to lie
    /// on them.
    #[must_use]
    pub fn rounded_bytes(&self, len_bytes: usize) -> usize {
        match huge_page_bytes().filter(|_| self.huge_pages != HugePages::Never) {
            Some(huge) => len_bytes.next_multiple_of(huge),
            None => len_bytes,
        }
    }

    /// What the beginning of a mapping has to be a multiple of, in bytes; 1 if nothing.
    pub(super) fn align_bytes(&self) -> usize {
        let huge = huge_page_bytes().filter(|_| self.huge_pages != HugePages::Never);
        huge.unwrap_or(1)
    }

    /// Has the pages of a fresh mapping be where they are wanted.
    pub(super) fn apply(&self, mapping: &Mapping) -> Result<()> {
        if let Some(node) = self.numa_node {
            prefer_node(mapping, node)?;
        }
        match self.huge_pages {
            HugePages::Never => {}
            HugePages::Try => {
                // Where there are none, ordinary pages do.
                let _ = take_huge_pages(mapping);
            }
            HugePages::Require => take_huge_pages(mapping)?,
        }
        if self.lock {
            lock(mapping)?;
        }
        Ok(())
    }
}

fn prefer_node(mapping: &Mapping, node: u32) -> Result<()> {
    const WHAT: &str = "take memory from a NUMA node (mbind)";
    let mut nodes = [0_u64; (NODES_MAX / 64) as usize];
    let word = nodes.get_mut((node / 64) as usize);
    *word.ok_or_else(|| no_such_node(node))? |= 1 << (node % 64);
    // The kernel takes one from the number of bits.
    let (at, bits) = (mapping.base().as_ptr() as usize, NODES_MAX as usize + 1);
    let given = [
        at,
        mapping.len_bytes(),
        MPOL_PREFERRED,
        nodes.as_ptr() as usize,
        bits,
        0,
    ];
    // SAFETY: the range is mapped and owned by `mapping`; the call changes where its pages are
    // taken from, and nothing in them. The kernel reads NODES_MAX bits from `nodes`.
    let Err(errno) = (unsafe { call(libc::SYS_mbind, given) }) else {
        return Ok(());
    };
    let errno = Errno(errno);
    Err(match errno.0 {
        libc::EINVAL => no_such_node(node),
        libc::ENOSYS => SysError::Unsupported {
            what: WHAT,
            needs: "a kernel with NUMA (CONFIG_NUMA)",
            errno,
        },
        libc::EPERM => SysError::Unsupported {
            what: WHAT,
            needs: "the right to call mbind",
            errno,
        },
        _ => SysError::new(WHAT, errno),
    })
}

fn no_such_node(node: u32) -> SysError {
    let listed = fs::read_to_string("/sys/devices/system/node/has_memory");
    SysError::NoNumaNode {
        node,
        present: listed.map_or_else(|_| "none".to_owned(), |list| list.trim().to_owned()),
    }
}

/// Has every huge page of the mapping be one, now.
fn take_huge_pages(mapping: &Mapping) -> Result<()> {
    let failed = |len_bytes: usize, errno| SysError::NoHugePages {
        len_bytes: len_bytes as u64,
        errno,
    };
    let len_bytes = mapping.len_bytes();
    let Some(huge) = huge_page_bytes() else {
        return Err(failed(len_bytes, Errno(libc::ENOSYS)));
    };
    let base = mapping.base();
    let whole = len_bytes / huge * huge;
    advise_huge(mapping);
    if whole == 0 {
        return Err(failed(len_bytes, Errno(libc::EINVAL)));
    }
    for at in (0..whole).step_by(huge) {
        // The kernel collapses no range in which no page is.
        // SAFETY: `at` lies inside the mapping, which is readable and owned by `mapping`.
        let _ = unsafe { std::ptr::read_volatile(base.as_ptr().add(at)) };
    }
    // SAFETY: the range is mapped and owned by `mapping`; pages are replaced by others with the
    // same contents, which accesses do not see.
    let done = unsafe { advise(base.as_ptr().cast(), whole, MADV_COLLAPSE) };
    match done.err() {
        None if whole == len_bytes => Ok(()),
        errno => Err(failed(len_bytes, Errno(errno.unwrap_or(libc::EINVAL)))),
    }
}

/// Asks for huge pages where pages are not there yet. That no page is one shows up later.
fn advise_huge(mapping: &Mapping) {
    let (base, len_bytes) = (mapping.base().as_ptr(), mapping.len_bytes());
    // SAFETY: the range is mapped and owned by `mapping`; the advice changes nothing in it.
    let _ = unsafe { advise(base.cast(), len_bytes, libc::MADV_HUGEPAGE) };
}

/// Takes all pages of a mapping and keeps them in memory, until it is unmapped.
fn lock(mapping: &Mapping) -> Result<()> {
    const WHAT: &str = "keep memory from being swapped out (mlock)";
    let (base, len_bytes) = (mapping.base().as_ptr(), mapping.len_bytes());
    // SAFETY: the range is mapped and owned by `mapping`; the call changes nothing in it.
    let locked = unsafe { rustix::mm::mlock(base.cast(), len_bytes) };
    locked.map_err(|errno| match errno {
        Raw::NOMEM | Raw::PERM | Raw::AGAIN => SysError::LockedMemoryLimit {
            len_bytes: len_bytes as u64,
            limit_bytes: process::limit(libc::RLIMIT_MEMLOCK)
                .ok()
                .map(|limit| limit.rlim_cur)
                .filter(|limit| *limit != libc::RLIM_INFINITY),
            errno: errno.into(),
        },
        errno => on(WHAT)(errno),
    })
}
