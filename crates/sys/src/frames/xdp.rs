//! `AF_XDP` sockets: `linux/if_xdp.h`, and the kernel's `Documentation/networking/af_xdp.rst`.
//!
//! Frames are in memory of this process that the kernel uses, too, in places of [`PLACE_BYTES`] each. Four rings name
//! places. At every moment a place belongs to one side:
//!
//! | ring | producer | consumer | says |
//! |---|---|---|---|
//! | fill | this process | kernel | an empty place for a frame that comes |
//! | receive | kernel | this process | a frame that came |
//! | send | this process | kernel | a frame to be sent |
//! | completion | kernel | this process | a place whose frame was sent |
//!
//! The memory, in bytes from its start:
//!
//! | bytes | what |
//! |---|---|
//! | 0 .. `RECEIVE_PLACES` · 4096 | places for what comes: in the fill ring, with the kernel, or in the receive ring |
//! | .. (`RECEIVE_PLACES` + `SEND_PLACES`) · 4096 | places for what is sent: free here, in the send ring, with the kernel, or in the completion ring |
//!
//! Structures of the calls, in the machine's byte order:
//!
//! | structure | bytes | field |
//! |---|---|---|
//! | `xdp_umem_reg`, in its first form | 0..8, 8..16 | `addr` and `len` of the memory |
//! | | 16..20, 20..24 | `chunk_size`: bytes of a place; `headroom`: zero |
//! | `xdp_mmap_offsets` | 0..128 | for each of receive, send, fill, completion: `producer`, `consumer`, `desc`, `flags`, 8 bytes each |
//! | `sockaddr_xdp` | 0..2, 2..4 | `sxdp_family`, `sxdp_flags` |
//! | | 4..8, 8..12, 12..16 | `sxdp_ifindex`, `sxdp_queue_id`, `sxdp_shared_umem_fd`: zero |
//!
//! A program of our own says which frames come here (`program`). It is attached by a link, so it goes with the process.

mod bpf;
mod program;
mod ring;

use std::net::Ipv6Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use barewire_calls::option::{get_bytes, set, set_bytes};
use barewire_calls::{Errno as Number, call};

use super::area::Area;
use super::packet::{self, Want};
use super::problem::{FrameError, FrameSent};
use crate::error::{SysError, new_fd};
use crate::ethtool::{joins_received, receive_queues};
use crate::links::Link;
use bpf::Mode;
use ring::{Descriptor, Offsets, Ring};

/// Options of the level `SOL_XDP`.
const MMAP_OFFSETS: i32 = 1;
const RECEIVE_RING: i32 = 2;
const SEND_RING: i32 = 3;
const MEMORY: i32 = 4;
const FILL_RING: i32 = 5;
const COMPLETION_RING: i32 = 6;

/// Where each ring is mapped.
const RECEIVE_AT: i64 = 0;
const SEND_AT: i64 = 0x8000_0000;
const FILL_AT: i64 = 0x1_0000_0000;
const COMPLETION_AT: i64 = 0x1_8000_0000;

/// Flags of `bind`. Without the first, the kernel takes zero-copy where the driver has it, and copies elsewhere.
const COPY: u16 = 1 << 1;
const NEED_WAKEUP: u16 = 1 << 3;

/// Bytes of one place: a page.
const PLACE_BYTES: usize = 4096;
/// What the kernel keeps free before a frame (`XDP_PACKET_HEADROOM`).
const KERNEL_HEADROOM_BYTES: usize = 256;
/// The header of Ethernet, and a VLAN tag.
const ETHERNET_BYTES: usize = 14;
const TAG_BYTES: usize = 4;
/// The longest IP packet.
const MTU_MOST: usize = PLACE_BYTES - KERNEL_HEADROOM_BYTES - ETHERNET_BYTES - TAG_BYTES;

/// Powers of two: the send ring has room for all places of the second kind.
const RECEIVE_PLACES: u32 = 4096;
const SEND_PLACES: u32 = 2048;

/// The fill ring has room for all places of the first kind twice. The kernel shows what it has received first, and only then
/// which entries of the fill ring it has taken for that (`xsk_flush`): meanwhile all of these places may come back.
const FILL_ENTRIES: u32 = 2 * RECEIVE_PLACES;

/// So many frames wait for the next system call at most. The kernel sends as many with one (`xsk_generic_xmit`).
const SEND_LATER_MAX: u32 = 32;

/// How long a queue may take to become free: so many tries, with a pause after each.
const BIND_TRIES: u32 = 500;
const BIND_PAUSE: Duration = Duration::from_millis(4);

/// An interface's frames.
#[derive(Debug)]
pub(super) struct Xdp {
    // First of all: nothing comes here any more, and what is for these addresses goes to the kernel again.
    _link: OwnedFd,
    socket: OwnedFd,
    /// A packet socket that receives nothing, and keeps the interface listening to the group of neighbours.
    _group: Option<OwnedFd>,
    frame_bytes_max: usize,
    is_gone: AtomicBool,
    /// Of each ring this process is one end, so one thread at a time has them.
    rings: Mutex<Rings>,
}

#[derive(Debug)]
struct Rings {
    memory: Area,
    fill: Ring<u64>,
    receive: Ring<Descriptor>,
    send: Ring<Descriptor>,
    completion: Ring<u64>,
    /// Places for frames to be sent.
    free: Vec<u64>,
    /// Frames in the send ring of which the kernel was not told yet.
    later: u32,
}

fn failure(what: &'static str) -> impl Fn(Number) -> FrameError {
    move |errno| match errno {
        libc::EPERM | libc::EACCES => FrameError::NotAllowed {
            what,
            errno: errno.into(),
            capability: "CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF",
            setcap: "cap_net_raw,cap_net_admin,cap_bpf",
        },
        libc::ENOMEM | libc::ENOBUFS | libc::EMFILE | libc::ENFILE => {
            SysError::new(what, errno).into()
        }
        _ => FrameError::NoXdp {
            what,
            errno: errno.into(),
        },
    }
}

pub(super) fn open(link: &Link, name: &str, want: &Want) -> Result<Xdp, FrameError> {
    if link.hardware_address.is_none() {
        return Err(FrameError::NotEthernet(name.to_owned()));
    }
    if link.mtu_bytes as usize > MTU_MOST {
        return Err(FrameError::LongPackets {
            name: name.to_owned(),
            mtu_bytes: link.mtu_bytes,
            most: MTU_MOST as u32,
        });
    }
    if let Some(queues @ 2..) = receive_queues(name)? {
        return Err(FrameError::ManyQueues(name.to_owned(), queues));
    }
    let socket = socket()?;
    let map = bpf::map_of_sockets().map_err(failure("make a map of sockets (bpf)"))?;
    let program = bpf::load(&program::program(want, map.as_raw_fd()))
        .map_err(failure("load a program for frames (bpf)"))?;
    // Before the socket is bound: some drivers make the queues for it only then. The map is empty: all goes to the kernel.
    let (attached, mode) = attach(&program, link, name)?;
    let rings = rings(&socket)?;
    bind(&socket, link.index, mode).map_err(|errno| match errno {
        libc::EBUSY => FrameError::QueueTaken(name.to_owned()),
        _ => failure("bind an AF_XDP socket")(errno),
    })?;
    let group = want.v6.map(|own| group(link, own)).transpose()?;
    bpf::set_socket(&map, &socket).map_err(failure("give frames to a socket (bpf)"))?;
    Ok(Xdp {
        _link: attached,
        socket,
        _group: group,
        frame_bytes_max: link.mtu_bytes as usize + ETHERNET_BYTES,
        is_gone: AtomicBool::new(false),
        rings: Mutex::new(rings),
    })
}

fn socket() -> Result<OwnedFd, FrameError> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let made = unsafe { call(libc::SYS_socket, [libc::AF_XDP as usize, kind as usize, 0]) };
    new_fd(made.map(|fd| fd as i32)).map_err(failure("open an AF_XDP socket"))
}

/// Has the interface run the program: in the driver, or in the kernel if the driver has nothing for it.
fn attach(program: &OwnedFd, link: &Link, name: &str) -> Result<(OwnedFd, Mode), FrameError> {
    let failed = |errno| match errno {
        libc::EBUSY | libc::EEXIST => FrameError::OtherProgram(name.to_owned()),
        _ => failure("attach a program to the interface (BPF_LINK_CREATE)")(errno),
    };
    match bpf::link(program, link.index, Mode::Native) {
        Ok(attached) => Ok((attached, Mode::Native)),
        Err(libc::EOPNOTSUPP) => {
            // There the program runs after packets have been joined, and what is longer than a place is lost.
            if joins_received(name)? {
                return Err(FrameError::JoinsPackets(name.to_owned()));
            }
            let attached = bpf::link(program, link.index, Mode::Generic).map_err(failed)?;
            Ok((attached, Mode::Generic))
        }
        Err(errno) => Err(failed(errno)),
    }
}

/// Gives the socket its memory and its rings, with a place for each frame that may come.
fn rings(socket: &OwnedFd) -> Result<Rings, FrameError> {
    let (fd, level) = (socket.as_raw_fd(), libc::SOL_XDP);
    let places = RECEIVE_PLACES + SEND_PLACES;
    let memory = Area::private(places as usize * PLACE_BYTES)
        .map_err(failure("make memory for frames (mmap)"))?;
    let mut registration = [0; 24];
    registration[..8].copy_from_slice(&(memory.base().as_ptr() as u64).to_ne_bytes());
    registration[8..16].copy_from_slice(&(memory.len_bytes() as u64).to_ne_bytes());
    registration[16..20].copy_from_slice(&(PLACE_BYTES as u32).to_ne_bytes());
    set_bytes(fd, level, MEMORY, &registration).map_err(|errno| match errno {
        libc::ENOBUFS => SysError::LockedMemoryLimit {
            len_bytes: memory.len_bytes() as u64,
            limit_bytes: rustix::process::getrlimit(rustix::process::Resource::Memlock).current,
            errno: errno.into(),
        }
        .into(),
        _ => failure("give the kernel memory for frames (XDP_UMEM_REG)")(errno),
    })?;
    let sizes = [
        (FILL_RING, FILL_ENTRIES),
        (COMPLETION_RING, SEND_PLACES),
        (RECEIVE_RING, RECEIVE_PLACES),
        (SEND_RING, SEND_PLACES),
    ];
    for (ring, count) in sizes {
        set(fd, level, ring, count as i32).map_err(failure("make a ring of frames"))?;
    }
    let [receive, send, fill, completion] = offsets(fd)?;
    let failed = failure("map a ring of frames (mmap)");
    let mut rings = Rings {
        memory,
        fill: Ring::map(fd, FILL_AT, fill, FILL_ENTRIES).map_err(&failed)?,
        receive: Ring::map(fd, RECEIVE_AT, receive, RECEIVE_PLACES).map_err(&failed)?,
        send: Ring::map(fd, SEND_AT, send, SEND_PLACES).map_err(&failed)?,
        completion: Ring::map(fd, COMPLETION_AT, completion, SEND_PLACES).map_err(&failed)?,
        free: (RECEIVE_PLACES..places).map(place_at).collect(),
        later: 0,
    };
    let filled = (0..RECEIVE_PLACES).all(|place| rings.fill.put(place_at(place)));
    debug_assert!(filled, "it has room for all");
    rings.fill.publish();
    Ok(rings)
}

fn place_at(place: u32) -> u64 {
    u64::from(place) * PLACE_BYTES as u64
}

/// Where the parts of the rings are: receive, send, fill, completion.
fn offsets(fd: i32) -> Result<[Offsets; 4], FrameError> {
    let failed = failure("ask where rings are (XDP_MMAP_OFFSETS)");
    let mut bytes = [0; 128];
    let len = get_bytes(fd, libc::SOL_XDP, MMAP_OFFSETS, &mut bytes).map_err(&failed)?;
    if len != bytes.len() {
        // Before Linux 5.4 there are no flags.
        return Err(failed(libc::EPROTO));
    }
    let word = |at: usize| {
        let bytes: [u8; 8] = std::array::from_fn(|byte| bytes[8 * at + byte]);
        // One that is beyond all memory is refused when the ring is mapped.
        usize::try_from(u64::from_ne_bytes(bytes))
            .unwrap_or(usize::MAX)
            .min(1 << 20)
    };
    Ok(std::array::from_fn(|ring| Offsets {
        producer: word(4 * ring),
        consumer: word(4 * ring + 1),
        entries: word(4 * ring + 2),
        flags: word(4 * ring + 3),
    }))
}

fn bind(socket: &OwnedFd, index: u32, mode: Mode) -> Result<(), Number> {
    let flags = match mode {
        Mode::Native => NEED_WAKEUP,
        Mode::Generic => NEED_WAKEUP | COPY,
    };
    let mut address = [0; 16];
    address[..2].copy_from_slice(&(libc::AF_XDP as u16).to_ne_bytes());
    address[2..4].copy_from_slice(&flags.to_ne_bytes());
    address[4..8].copy_from_slice(&index.to_ne_bytes());
    let given = [
        socket.as_raw_fd() as usize,
        address.as_ptr() as usize,
        address.len(),
    ];
    // The kernel gives up the queue of a socket only some time after that was closed.
    for _ in 0..BIND_TRIES {
        // SAFETY: the address has that many bytes.
        match unsafe { call(libc::SYS_bind, given) } {
            Err(libc::EBUSY) => std::thread::sleep(BIND_PAUSE),
            other => return other.map(drop),
        }
    }
    Err(libc::EBUSY)
}

/// Has the interface listen to the questions about an address.
fn group(link: &Link, own: Ipv6Addr) -> Result<OwnedFd, FrameError> {
    let fd = packet::socket()?;
    packet::join(fd.as_raw_fd(), link.index, packet::solicited(own))
        .map_err(|errno| SysError::new("join a multicast group", errno))?;
    Ok(fd)
}

impl Xdp {
    fn rings(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn try_receive(&self, into: &mut [u8]) -> Result<Option<usize>, FrameError> {
        let mut rings = self.rings();
        let Some(frame) = rings.receive.take() else {
            self.wake(&mut rings)?;
            // Relaxed: it says all by itself.
            return if self.is_gone.load(Ordering::Relaxed) {
                Err(FrameError::Gone)
            } else {
                Ok(None)
            };
        };
        let len = (frame.len_bytes as usize).min(into.len());
        let place = frame.at & !(PLACE_BYTES as u64 - 1);
        let is_right = place < place_at(RECEIVE_PLACES)
            && rings.memory.copy_out(frame.at as usize, &mut into[..len]);
        rings.receive.release();
        // A place comes back for each that was taken, so there is room for it: see `FILL_ENTRIES`.
        if !is_right || !rings.fill.put(place) {
            let what = "take a frame (the kernel names memory that it was not given)";
            return Err(SysError::new(what, libc::EPROTO).into());
        }
        rings.fill.publish();
        Ok(Some(len))
    }

    pub(super) fn try_send(&self, frame: &[u8]) -> Result<FrameSent, FrameError> {
        if !(ETHERNET_BYTES..=self.frame_bytes_max).contains(&frame.len()) {
            return Ok(FrameSent::Refused);
        }
        let mut rings = self.rings();
        rings.reclaim();
        if rings.free.is_empty() {
            self.wake(&mut rings)?;
            rings.reclaim();
        }
        let Some(at) = rings.free.pop() else {
            return Ok(FrameSent::NoRoom);
        };
        let descriptor = Descriptor {
            at,
            len_bytes: frame.len() as u32,
            options: 0,
        };
        // There is room: the ring has as many entries as there are places.
        if !rings.memory.copy_in(at as usize, frame) || !rings.send.put(descriptor) {
            rings.free.push(at);
            return Ok(FrameSent::NoRoom);
        }
        rings.send.publish();
        rings.later += 1;
        if rings.later >= SEND_LATER_MAX {
            self.wake(&mut rings)?;
        }
        Ok(FrameSent::Sent)
    }

    /// Has the kernel go on where it sleeps: it sends what is to be sent, and takes places for what comes. `poll` does so,
    /// too.
    fn wake(&self, rings: &mut Rings) -> Result<(), FrameError> {
        rings.later = 0;
        let fd = self.socket.as_raw_fd() as usize;
        let flags = libc::MSG_DONTWAIT as usize;
        if rings.send.waiting() > 0 && rings.send.needs_wakeup() {
            // SAFETY: no bytes, and no address.
            let sent = unsafe { call(libc::SYS_sendto, [fd, 0, 0, flags, 0, 0]) };
            self.woken(sent, "send frames")?;
        }
        if rings.fill.needs_wakeup() {
            // SAFETY: no bytes, and no address.
            let woken = unsafe { call(libc::SYS_recvfrom, [fd, 0, 0, flags, 0, 0]) };
            self.woken(woken, "receive frames")?;
        }
        Ok(())
    }

    fn woken(&self, result: Result<usize, Number>, what: &'static str) -> Result<(), FrameError> {
        match result {
            // What was not sent stays in the ring, for the next time.
            Ok(_)
            | Err(
                libc::EAGAIN
                | libc::EBUSY
                | libc::EINTR
                | libc::ENOBUFS
                | libc::ENETDOWN
                | libc::EIO,
            ) => Ok(()),
            Err(libc::ENXIO | libc::ENODEV | libc::EBADFD) => {
                // Relaxed: it says all by itself.
                self.is_gone.store(true, Ordering::Relaxed);
                Err(FrameError::Gone)
            }
            Err(errno) => Err(SysError::new(what, errno).into()),
        }
    }
}

impl Rings {
    /// Takes back the places whose frames were sent.
    fn reclaim(&mut self) {
        while let Some(at) = self.completion.take() {
            let place = at & !(PLACE_BYTES as u64 - 1);
            let ours = place_at(RECEIVE_PLACES)..place_at(RECEIVE_PLACES + SEND_PLACES);
            if ours.contains(&place) && self.free.len() < SEND_PLACES as usize {
                self.free.push(place);
            }
        }
        self.completion.release();
    }
}

impl AsFd for Xdp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Xdp {
    fn drop(&mut self) {
        let mut rings = self.rings();
        // What was to be sent goes out. An error: the interface is gone.
        while rings.send.waiting() > 0 {
            let before = rings.send.waiting();
            if self.wake(&mut rings).is_err() || rings.send.waiting() == before {
                return;
            }
        }
    }
}
