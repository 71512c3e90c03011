//! Memory that is locked, near a NUMA node or on huge pages, as the kernel itself shows it.

use std::io::Write;

use barewire_shm::Region;
use barewire_sys::SysError;
use barewire_sys::memory::{Access, HugePages, Memfd, PeerAccess, Placement, huge_page_bytes};
use barewire_sys::process::{drop_privileges, fork_child, own_credentials};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Says that a test can not run here.
fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let log = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path);
        log.unwrap().write_all(line.as_bytes()).unwrap();
    }
}

fn locked() -> Placement {
    Placement {
        lock: true,
        ..Placement::default()
    }
}

fn near(node: u32) -> Placement {
    Placement {
        numa_node: Some(node),
        ..Placement::default()
    }
}

fn huge(huge_pages: HugePages) -> Placement {
    Placement {
        huge_pages,
        ..Placement::default()
    }
}

/// What /proc/self/smaps says of a mapping, in bytes.
fn in_smaps(region: &Region, field: &str) -> u64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let begins = format!("{:x}-", region.base().as_ptr() as usize);
    let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&begins));
    lines.next().expect("the mapping");
    let value = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = value
        .expect("the field")
        .trim()
        .strip_suffix(" kB")
        .unwrap();
    kib.trim().parse::<u64>().unwrap() * 1024
}

/// What /proc/self/numa_maps says of the policy of a mapping; `None` without NUMA.
fn numa_policy(region: &Region) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/numa_maps").ok()?;
    let begins = format!("{:x} ", region.base().as_ptr() as usize);
    let line = maps.lines().find_map(|line| line.strip_prefix(&begins));
    Some(
        line.expect("the mapping")
            .split(' ')
            .next()
            .unwrap()
            .to_owned(),
    )
}

#[test]
fn locked_memory_is_there_and_stays() {
    let memfd = Memfd::create_sealed("locked", 32 << 10).unwrap();
    // Also where this process only reads, as of its rings.
    for access in [Access::Read, Access::ReadWrite] {
        let region = match memfd.map_placed(access, &locked()) {
            Err(SysError::LockedMemoryLimit { limit_bytes, .. }) => {
                let reason = format!("RLIMIT_MEMLOCK is {limit_bytes:?} bytes");
                return skip("locked_memory_is_there_and_stays", &reason);
            }
            mapped => mapped.unwrap(),
        };
        assert_eq!(in_smaps(&region, "Locked"), 32 << 10);
        assert_eq!(in_smaps(&region, "Rss"), 32 << 10);
        assert_eq!(in_smaps(&memfd.map(Access::Read).unwrap(), "Locked"), 0);
    }
}

#[test]
fn who_may_not_lock_so_much_is_told_the_limit() {
    let child = fork_child(|| {
        if own_credentials().uid == 0 && drop_privileges(65_534, 65_534).is_err() {
            return 1;
        }
        let limit = Rlimit {
            current: Some(4096),
            maximum: Some(4096),
        };
        if setrlimit(Resource::Memlock, limit).is_err() {
            return 2;
        }
        let memfd = Memfd::create_sealed("too-much", 1 << 20).unwrap();
        let Err(error) = memfd.map_placed(Access::Read, &locked()) else {
            return 3;
        };
        let said = error.to_string();
        let named = ["RLIMIT_MEMLOCK", "4096 bytes", "1048576", "ulimit -l"];
        if named.iter().all(|words| said.contains(words)) {
            0
        } else {
            4
        }
    });
    assert_eq!(child.unwrap().wait().unwrap().code(), Some(0));
}

#[test]
fn memory_prefers_the_node_that_is_named() {
    let memfd = Memfd::create_sealed("near", 16 << 10).unwrap();
    let listed = std::fs::read_to_string("/sys/devices/system/node/has_memory");
    let first = listed
        .ok()
        .and_then(|list| list.split([',', '-', '\n']).next()?.parse().ok());
    let Some(node) = first else {
        let error = memfd.map_placed(Access::Read, &near(0)).unwrap_err();
        assert!(matches!(error, SysError::Unsupported { .. }), "{error}");
        return skip(
            "memory_prefers_the_node_that_is_named",
            "no NUMA in this kernel",
        );
    };
    let region = match memfd.map_placed(Access::Read, &near(node)) {
        Err(SysError::Unsupported { errno, .. }) => {
            let reason = format!("mbind is refused here: {errno}");
            return skip("memory_prefers_the_node_that_is_named", &reason);
        }
        mapped => mapped.unwrap(),
    };
    let policy = numa_policy(&region);
    assert!(
        policy.as_ref().is_none_or(|p| p.starts_with("prefer")),
        "{policy:?}"
    );
    // It is the memory's, whoever maps it.
    let policy = numa_policy(&memfd.map(Access::ReadWrite).unwrap());
    assert!(
        policy.as_ref().is_none_or(|p| p.starts_with("prefer")),
        "{policy:?}"
    );
}

#[test]
fn a_node_that_is_not_there_is_named_with_those_that_are() {
    let memfd = Memfd::create_sealed("far", 4096).unwrap();
    for node in [1023, 1024, u32::MAX] {
        let error = memfd.map_placed(Access::Read, &near(node)).unwrap_err();
        match &error {
            SysError::NoNumaNode { node: named, .. } => assert_eq!(*named, node),
            SysError::Unsupported { .. } if node == 1023 => {
                let name = "a_node_that_is_not_there_is_named_with_those_that_are";
                return skip(name, &error.to_string());
            }
            _ => panic!("{error:?}"),
        }
        assert!(error.to_string().contains(&node.to_string()), "{error}");
    }
}

/// A mapping on huge pages, or why there is none here.
fn on_huge_pages(memfd: &Memfd) -> Result<Region, String> {
    match memfd.map_placed(Access::Read, &huge(HugePages::Require)) {
        Err(error @ SysError::NoHugePages { .. }) => Err(error.to_string()),
        mapped => Ok(mapped.unwrap()),
    }
}

#[test]
fn required_huge_pages_are_there_and_peers_take_the_memory() {
    const NAME: &str = "required_huge_pages_are_there_and_peers_take_the_memory";
    let Some(huge_bytes) = huge_page_bytes() else {
        return skip(NAME, "no huge pages in this kernel");
    };
    let len_bytes = huge(HugePages::Require).rounded_bytes(huge_bytes + 1);
    assert_eq!(len_bytes, 2 * huge_bytes);
    let memfd = Memfd::create_sealed("huge", len_bytes).unwrap();
    let region = match on_huge_pages(&memfd) {
        Err(reason) => return skip(NAME, &reason),
        Ok(region) => region,
    };
    assert_eq!(region.base().as_ptr() as usize % huge_bytes, 0);
    assert_eq!(in_smaps(&region, "ShmemPmdMapped"), len_bytes as u64);
    // To a peer it is memory as any other.
    let fd = std::os::fd::AsFd::as_fd(&memfd);
    Memfd::check_peer(fd, len_bytes, PeerAccess::ReadWrite).unwrap();
    let peer = memfd.map(Access::ReadWrite).unwrap().whole();
    peer.atomic_store(len_bytes - 8, 77);
    assert_eq!(region.whole().atomic_load(len_bytes - 8), 77);
    assert_eq!(region.whole().atomic_load(0), 0);
    memfd.pwrite_zeros(len_bytes - 64, 64).unwrap();
    assert_eq!(region.whole().atomic_load(len_bytes - 8), 0);
}

#[test]
fn less_than_a_huge_page_can_be_tried_and_not_required() {
    let memfd = Memfd::create_sealed("small", 12 << 10).unwrap();
    let error = memfd
        .map_placed(Access::Read, &huge(HugePages::Require))
        .unwrap_err();
    assert!(matches!(error, SysError::NoHugePages { .. }), "{error:?}");
    assert!(error.to_string().contains("12288 bytes"), "{error}");
    let region = memfd
        .map_placed(Access::Read, &huge(HugePages::Try))
        .unwrap();
    memfd
        .map(Access::ReadWrite)
        .unwrap()
        .whole()
        .atomic_store(8, 5);
    assert_eq!(region.whole().atomic_load(8), 5);
}

#[test]
fn everything_at_once_can_be_had_and_cut_off() {
    let placement = Placement {
        lock: true,
        numa_node: None,
        huge_pages: HugePages::Try,
    };
    let len_bytes = placement.rounded_bytes(4096);
    let memfd = Memfd::create_sealed("all", len_bytes).unwrap();
    let ours = match memfd.map_detachable(Access::ReadWrite, &placement) {
        Err(SysError::LockedMemoryLimit { limit_bytes, .. }) => {
            let reason = format!("RLIMIT_MEMLOCK is {limit_bytes:?} bytes");
            return skip("everything_at_once_can_be_had_and_cut_off", &reason);
        }
        mapped => mapped.unwrap(),
    };
    let peer = memfd.map(Access::ReadWrite).unwrap().whole();
    peer.atomic_store(len_bytes - 8, 9);
    ours.detach().unwrap();
    peer.atomic_store(len_bytes - 8, 10);
    assert_eq!(ours.region().whole().atomic_load(len_bytes - 8), 9);
    assert_eq!(in_smaps(ours.region(), "Locked"), 0);
}

#[test]
fn a_trial_tells_before_anything_is_made() {
    Placement::default().check().unwrap();
    assert!(near(u32::MAX).check().is_err());
}
