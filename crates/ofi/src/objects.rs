//! libfabric's objects, each with an owner that closes it.
//!
//! libfabric wants objects closed before those that they were made of: endpoint, queue of
//! completions, domain, queue of events, fabric. Who holds several orders its fields so. All
//! objects of one link belong to nobody else, and are used through `&mut` of the link. So no two
//! threads use them at once, which is what `FI_THREAD_DOMAIN` asks for.

use std::ffi::{CString, c_char, c_int, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{self, NonNull};

use libc::pollfd;

use crate::error::OfiError;
use crate::library::{Info, Library};
use crate::raw::*;

/// The owner of an object.
pub(crate) struct Handle<T>(NonNull<T>);

// SAFETY: libfabric's objects may be used by any thread, by one at a time (see the head).
unsafe impl<T> Send for Handle<T> {}

impl<T> Handle<T> {
    /// Takes over the object that a call has stored, if it succeeded.
    ///
    /// # Safety
    /// `pointer` is an object of libfabric that begins with a `fid`, and that nobody else closes.
    unsafe fn made(
        library: &Library,
        what: &'static str,
        code: c_int,
        pointer: *mut T,
    ) -> Result<Handle<T>, OfiError> {
        match NonNull::new(pointer) {
            Some(pointer) if code == 0 => Ok(Handle(pointer)),
            _ => Err(library.failed(what, code)),
        }
    }

    /// For libfabric's functions. Valid as long as this object.
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// The part that all objects begin with.
    pub(crate) fn fid(&self) -> *mut fid {
        self.0.as_ptr().cast()
    }

    /// The table of what all objects can do.
    fn base(&self) -> &fi_ops {
        // SAFETY: a live object begins with a `fid`, whose table lives as long as the library.
        unsafe { &*(*self.fid()).ops }
    }

    /// Closes it, and says whether libfabric did so.
    pub(crate) fn close(self) -> bool {
        let (close, fid) = (self.base().close, self.fid());
        std::mem::forget(self);
        // SAFETY: it is live, and was given up just now.
        unsafe { close(fid) == 0 }
    }

    /// The descriptor that becomes readable when the queue has something.
    fn wait_descriptor(&self, library: &Library) -> Result<RawFd, OfiError> {
        let mut descriptor: c_int = -1;
        let place: *mut c_int = &mut descriptor;
        // SAFETY: the object is live; the queue was made with FI_WAIT_FD, so an int is stored.
        let code = unsafe { (self.base().control)(self.fid(), FI_GETWAIT, place.cast()) };
        match code {
            0 if descriptor >= 0 => Ok(descriptor),
            _ => Err(library.failed("asking libfabric for a descriptor to wait on", code)),
        }
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: it is live, and closed once.
        unsafe { (self.base().close)(self.fid()) };
    }
}

/// A description of connected endpoints with messages, of this provider.
pub(crate) fn hints(library: &'static Library, provider: &str) -> Result<Info, OfiError> {
    let hints = Info::empty(library)?;
    let Ok(name) = CString::new(provider) else {
        return Err(library.failed("naming a provider", -libc::EINVAL));
    };
    // SAFETY: libfabric has just made the description with all its attributes; nobody else has
    // it. The name is from malloc, since the library frees it.
    unsafe {
        let info = &mut *hints.as_ptr();
        info.caps = FI_MSG | FI_SEND | FI_RECV;
        info.mode = FI_CONTEXT | FI_CONTEXT2;
        (*info.ep_attr).r#type = FI_EP_MSG;
        (*info.tx_attr).msg_order = FI_ORDER_SAS;
        (*info.rx_attr).msg_order = FI_ORDER_SAS;
        (*info.domain_attr).threading = FI_THREAD_DOMAIN;
        (*info.domain_attr).mr_mode =
            FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
        (*info.fabric_attr).prov_name = libc::strdup(name.as_ptr());
    }
    Ok(hints)
}

/// Asks for what fits the hints: at our own address, or towards another.
pub(crate) fn find(hints: &Info, address: SocketAddr, is_own: bool) -> Result<Info, c_int> {
    let library = hints.library();
    let node = CString::new(address.ip().to_string()).map_err(|_| -libc::EINVAL)?;
    let service = CString::new(address.port().to_string()).map_err(|_| -libc::EINVAL)?;
    let flags = match is_own {
        true => FI_SOURCE | FI_NUMERICHOST,
        false => FI_NUMERICHOST,
    };
    let mut found = ptr::null_mut();
    // SAFETY: the strings end with zeros, the hints are live, and the result goes to a local.
    let code = unsafe {
        (library.getinfo)(
            VERSION,
            node.as_ptr(),
            service.as_ptr(),
            flags,
            hints.as_ptr(),
            &mut found,
        )
    };
    // SAFETY: after success it is a list that is ours to free.
    match unsafe { Info::from_raw(library, found) } {
        Some(info) if code == 0 => Ok(info),
        _ => Err(code),
    }
}

/// What is read of a description.
pub(crate) struct Described {
    /// The provider's name.
    pub(crate) provider: String,
    /// Our address in it, if it has one.
    pub(crate) own: Option<SocketAddr>,
    /// The longest message that is sent without a completion, in bytes.
    pub(crate) inject_bytes: usize,
    /// How many sends may be under way.
    pub(crate) sends_max: usize,
    /// How many receives may be posted.
    pub(crate) receives_max: usize,
    /// The longest message, in bytes.
    pub(crate) message_bytes_max: usize,
    /// Whether memory has to be registered before messages are sent from it.
    pub(crate) needs_registration: bool,
}

impl Info {
    /// Reads what is needed of it.
    pub(crate) fn describe(&self) -> Described {
        // SAFETY: what libfabric gives out has all attributes; addresses are as long as it says.
        unsafe {
            let info = &*self.as_ptr();
            Described {
                provider: text((*info.fabric_attr).prov_name),
                own: address(info.src_addr.cast(), info.src_addrlen),
                inject_bytes: (*info.tx_attr).inject_size,
                sends_max: (*info.tx_attr).size,
                receives_max: (*info.rx_attr).size,
                message_bytes_max: (*info.ep_attr).max_msg_size,
                needs_registration: (*info.domain_attr).mr_mode & FI_MR_LOCAL != 0,
            }
        }
    }

    /// Makes hints towards another host start from our address.
    pub(crate) fn start_from(&mut self, own: IpAddr) {
        let (bytes, length) = socket_address(SocketAddr::new(own, 0));
        // SAFETY: the description is ours alone, and had no address. The copy is from malloc,
        // since the library frees it, and is as long as is said.
        unsafe {
            let copy = libc::malloc(length);
            if copy.is_null() {
                return;
            }
            ptr::copy_nonoverlapping(bytes.as_ptr(), copy.cast(), length);
            let info = &mut *self.as_ptr();
            libc::free(info.src_addr);
            info.src_addr = copy;
            info.src_addrlen = length;
            info.addr_format = match own {
                IpAddr::V4(_) => FI_SOCKADDR_IN,
                IpAddr::V6(_) => FI_SOCKADDR_IN6,
            };
        }
    }
}

/// A C string, or nothing for null.
///
/// # Safety
/// It is null or ends with a zero.
unsafe fn text(string: *const c_char) -> String {
    match string.is_null() {
        true => String::new(),
        // SAFETY: as the caller says.
        false => unsafe { std::ffi::CStr::from_ptr(string) }
            .to_string_lossy()
            .into_owned(),
    }
}

/// Room for a socket address of the Internet.
const ADDRESS_BYTES: usize = size_of::<libc::sockaddr_in6>();

/// An address as the kernel writes it, and its length in bytes.
fn socket_address(address: SocketAddr) -> ([u8; ADDRESS_BYTES], usize) {
    let mut bytes = [0; ADDRESS_BYTES];
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address.ip() {
        IpAddr::V4(ip) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            bytes[4..8].copy_from_slice(&ip.octets());
            (bytes, size_of::<libc::sockaddr_in>())
        }
        IpAddr::V6(ip) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            bytes[8..24].copy_from_slice(&ip.octets());
            (bytes, ADDRESS_BYTES)
        }
    }
}

/// Reads an address that the kernel or libfabric has written.
fn parse_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let ip = match libc::c_int::from(family) {
        libc::AF_INET => {
            let octets: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            IpAddr::V4(Ipv4Addr::from(octets))
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            IpAddr::V6(Ipv6Addr::from(octets))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// # Safety
/// `at` is null, or `bytes` can be read there.
unsafe fn address(at: *const u8, bytes: usize) -> Option<SocketAddr> {
    if at.is_null() {
        return None;
    }
    // SAFETY: as the caller says.
    parse_address(unsafe { std::slice::from_raw_parts(at, bytes) })
}

/// An address that a function writes, such as `getname`.
fn written_address(get: impl FnOnce(*mut c_void, *mut usize) -> c_int) -> Option<SocketAddr> {
    let mut bytes = [0_u8; 128];
    let mut length = bytes.len();
    let code = get(bytes.as_mut_ptr().cast(), &mut length);
    match code {
        0 => parse_address(bytes.get(..length)?),
        _ => None,
    }
}

impl Handle<fid_fabric> {
    /// The fabric that a description names.
    pub(crate) fn open(info: &Info) -> Result<Handle<fid_fabric>, OfiError> {
        let (library, mut fabric) = (info.library(), ptr::null_mut());
        // SAFETY: the description is live and has the attributes; the result goes to a local.
        unsafe {
            let attributes = (*info.as_ptr()).fabric_attr;
            let code = (library.fabric)(attributes, &mut fabric, ptr::null_mut());
            Handle::made(library, "opening a fabric", code, fabric)
        }
    }

    fn ops(&self) -> &fi_ops_fabric {
        // SAFETY: the object is live, and its table lives as long as the library.
        unsafe { &*(*self.as_ptr()).ops }
    }

    /// A queue of events, and its descriptor.
    pub(crate) fn event_queue(
        &self,
        library: &Library,
    ) -> Result<(Handle<fid_eq>, RawFd), OfiError> {
        let mut attributes = fi_eq_attr {
            size: 0,
            flags: 0,
            wait_obj: FI_WAIT_FD,
            signaling_vector: 0,
            wait_set: ptr::null_mut(),
            _more: [0; 4],
        };
        let mut queue = ptr::null_mut();
        // SAFETY: the object is live, the attributes and the result are locals.
        let queue = unsafe {
            let made =
                (self.ops().eq_open)(self.as_ptr(), &mut attributes, &mut queue, ptr::null_mut());
            Handle::made(library, "making a queue of events", made, queue)?
        };
        let descriptor = queue.wait_descriptor(library)?;
        Ok((queue, descriptor))
    }

    /// An endpoint that listens at the description's address.
    pub(crate) fn listen(
        &self,
        info: &Info,
        queue: &Handle<fid_eq>,
    ) -> Result<Handle<fid_pep>, OfiError> {
        let (library, mut endpoint) = (info.library(), ptr::null_mut());
        // SAFETY: all objects are live, and the result goes to a local.
        unsafe {
            let code = (self.ops().passive_ep)(
                self.as_ptr(),
                info.as_ptr(),
                &mut endpoint,
                ptr::null_mut(),
            );
            let endpoint: Handle<fid_pep> =
                Handle::made(library, "making a listening endpoint", code, endpoint)?;
            let code = (endpoint.base().bind)(endpoint.fid(), queue.fid(), 0);
            if code != 0 {
                return Err(library.failed("binding a listening endpoint", code));
            }
            let code = ((*(*endpoint.as_ptr()).cm).listen)(endpoint.as_ptr());
            match code {
                0 => Ok(endpoint),
                _ => Err(library.failed("listening", code)),
            }
        }
    }

    /// The domain that a description names.
    pub(crate) fn domain(&self, info: &Info) -> Result<Handle<fid_domain>, OfiError> {
        let (library, mut domain) = (info.library(), ptr::null_mut());
        // SAFETY: both objects are live, and the result goes to a local.
        unsafe {
            let code =
                (self.ops().domain)(self.as_ptr(), info.as_ptr(), &mut domain, ptr::null_mut());
            Handle::made(library, "opening a domain", code, domain)
        }
    }

    /// Whether one may sleep on the descriptors of these queues.
    pub(crate) fn may_sleep(&self, queues: &mut [*mut fid]) -> bool {
        let count = c_int::try_from(queues.len()).unwrap_or(0);
        // SAFETY: the caller has the fids from live queues of this fabric.
        unsafe { (self.ops().trywait)(self.as_ptr(), queues.as_mut_ptr(), count) == 0 }
    }
}

impl Handle<fid_pep> {
    fn cm(&self) -> &fi_ops_cm {
        // SAFETY: the object is live, and its table lives as long as the library.
        unsafe { &*(*self.as_ptr()).cm }
    }

    /// Where it listens.
    pub(crate) fn own_address(&self) -> Option<SocketAddr> {
        // SAFETY: the object is live, and the place is as long as is said.
        written_address(|at, length| unsafe { (self.cm().getname)(self.fid(), at, length) })
    }

    /// Rejects a request that came with this description, which is used up.
    pub(crate) fn reject(&self, request: Info) {
        // SAFETY: the object is live; the handle is that of a request that nobody has accepted.
        unsafe {
            let handle = (*request.as_ptr()).handle;
            (self.cm().reject)(self.as_ptr(), handle, ptr::null(), 0);
        }
    }
}

impl Handle<fid_domain> {
    fn ops(&self) -> &fi_ops_domain {
        // SAFETY: the object is live, and its table lives as long as the library.
        unsafe { &*(*self.as_ptr()).ops }
    }

    /// A queue of completions with room for `entries`, and its descriptor. If it is to name a
    /// list of descriptors instead there is none: see [`Handle::wait_list`].
    pub(crate) fn completion_queue(
        &self,
        library: &Library,
        entries: usize,
        names_list: bool,
    ) -> Result<(Handle<fid_cq>, Option<RawFd>), OfiError> {
        let mut attributes = fi_cq_attr {
            size: entries,
            flags: 0,
            format: FI_CQ_FORMAT_MSG,
            wait_obj: match names_list {
                true => FI_WAIT_POLLFD,
                false => FI_WAIT_FD,
            },
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: ptr::null_mut(),
            _more: [0; 4],
        };
        let mut queue = ptr::null_mut();
        // SAFETY: the object is live, the attributes and the result are locals.
        let queue = unsafe {
            let made =
                (self.ops().cq_open)(self.as_ptr(), &mut attributes, &mut queue, ptr::null_mut());
            Handle::made(library, "making a queue of completions", made, queue)?
        };
        let descriptor = match names_list {
            true => None,
            false => Some(queue.wait_descriptor(library)?),
        };
        Ok((queue, descriptor))
    }

    /// An endpoint that is bound to these queues and enabled.
    pub(crate) fn endpoint(
        &self,
        info: &Info,
        events: &Handle<fid_eq>,
        completions: &Handle<fid_cq>,
    ) -> Result<Handle<fid_ep>, OfiError> {
        let (library, mut endpoint) = (info.library(), ptr::null_mut());
        // SAFETY: all objects are live, and the result goes to a local.
        let endpoint: Handle<fid_ep> = unsafe {
            let code =
                (self.ops().endpoint)(self.as_ptr(), info.as_ptr(), &mut endpoint, ptr::null_mut());
            Handle::made(library, "making an endpoint", code, endpoint)?
        };
        let base = endpoint.base();
        // SAFETY: as above; FI_ENABLE takes no argument.
        let code = unsafe {
            [
                (base.bind)(endpoint.fid(), events.fid(), 0),
                (base.bind)(endpoint.fid(), completions.fid(), FI_SEND | FI_RECV),
                (base.control)(endpoint.fid(), FI_ENABLE, ptr::null_mut()),
            ]
        };
        match code.into_iter().find(|&code| code != 0) {
            None => Ok(endpoint),
            Some(code) => Err(library.failed("enabling an endpoint", code)),
        }
    }

    /// Registers memory to send from and receive into.
    ///
    /// # Safety
    /// The memory stays until the registration is closed.
    pub(crate) unsafe fn register(
        &self,
        library: &Library,
        memory: *const u8,
        bytes: usize,
    ) -> Result<Handle<fid_mr>, OfiError> {
        let mut registration = ptr::null_mut();
        // SAFETY: the object is live, and the memory as the caller says.
        unsafe {
            let code = ((*(*self.as_ptr()).mr).reg)(
                self.fid(),
                memory.cast(),
                bytes,
                FI_SEND | FI_RECV,
                0,
                0,
                0,
                &mut registration,
                ptr::null_mut(),
            );
            Handle::made(library, "registering memory", code, registration)
        }
    }
}

impl Handle<fid_ep> {
    fn cm(&self) -> &fi_ops_cm {
        // SAFETY: the object is live, and its table lives as long as the library.
        unsafe { &*(*self.as_ptr()).cm }
    }

    /// Its own address.
    pub(crate) fn own_address(&self) -> Option<SocketAddr> {
        // SAFETY: the object is live, and the place is as long as is said.
        written_address(|at, length| unsafe { (self.cm().getname)(self.fid(), at, length) })
    }

    /// The other side's address.
    pub(crate) fn peer_address(&self) -> Option<SocketAddr> {
        // SAFETY: the object is live, and the place is as long as is said.
        written_address(|at, length| unsafe { (self.cm().getpeer)(self.as_ptr(), at, length) })
    }

    /// Begins to connect, with some data for the other side.
    pub(crate) fn connect(
        &self,
        library: &Library,
        to: SocketAddr,
        data: &[u8],
    ) -> Result<(), OfiError> {
        let (address, _) = socket_address(to);
        // SAFETY: the object is live; address and data are copied before the call returns.
        let code = unsafe {
            (self.cm().connect)(
                self.as_ptr(),
                address.as_ptr().cast(),
                data.as_ptr().cast(),
                data.len(),
            )
        };
        match code {
            0 => Ok(()),
            _ => Err(library.failed("connecting", code)),
        }
    }

    /// Accepts the request that it was made for, with some data for the other side.
    pub(crate) fn accept(&self, library: &Library, data: &[u8]) -> Result<(), OfiError> {
        // SAFETY: the object is live; data are copied before the call returns.
        let code = unsafe { (self.cm().accept)(self.as_ptr(), data.as_ptr().cast(), data.len()) };
        match code {
            0 => Ok(()),
            _ => Err(library.failed("accepting a connection", code)),
        }
    }

    /// Says to the provider that the connection is over.
    pub(crate) fn shutdown(&self) {
        // SAFETY: the object is live.
        unsafe { (self.cm().shutdown)(self.as_ptr(), 0) };
    }
}

/// What a queue of events gave.
pub(crate) enum Event {
    /// Somebody wants to connect, and gave these data.
    Request(Info, Vec<u8>),
    /// The connection is there; the other side gave these data.
    Connected(Vec<u8>),
    /// The connection is over.
    Shutdown,
    /// A failure, in libfabric's words.
    Failed(String),
}

/// Where an event is read to.
#[repr(C)]
struct EventBuffer {
    entry: fi_eq_cm_entry,
    data: [u8; 256],
}

impl Handle<fid_eq> {
    fn ops(&self) -> &fi_ops_eq {
        // SAFETY: the object is live, and its table lives as long as the library.
        unsafe { &*(*self.as_ptr()).ops }
    }

    /// The next event.
    pub(crate) fn read(&self, library: &'static Library) -> Option<Event> {
        loop {
            let mut buffer = EventBuffer {
                entry: fi_eq_cm_entry {
                    fid: ptr::null_mut(),
                    info: ptr::null_mut(),
                },
                data: [0; 256],
            };
            let (mut kind, place) = (0, &raw mut buffer);
            // SAFETY: the object is live, and the buffer as long as is said. The provider `tcp`
            // takes an old EAGAIN in errno for the result of a read that found the end, and
            // then keeps the connection for ever; so there is none.
            let count = unsafe {
                *libc::__errno_location() = 0;
                let bytes = size_of::<EventBuffer>();
                (self.ops().read)(self.as_ptr(), &mut kind, place.cast(), bytes, 0)
            };
            if count == -(FI_EAVAIL as isize) {
                return Some(Event::Failed(self.error(library)));
            }
            if count == -(FI_EAGAIN as isize) || count == 0 {
                return None;
            }
            let Ok(bytes) = usize::try_from(count) else {
                return Some(Event::Failed(library.text(count as c_int)));
            };
            let data = bytes.saturating_sub(size_of::<fi_eq_cm_entry>());
            let data = buffer.data[..data.min(buffer.data.len())].to_vec();
            return Some(match kind {
                FI_CONNREQ => {
                    // SAFETY: such an event brings a description that is ours to free.
                    match unsafe { Info::from_raw(library, buffer.entry.info) } {
                        Some(info) => Event::Request(info, data),
                        None => continue,
                    }
                }
                FI_CONNECTED => Event::Connected(data),
                FI_SHUTDOWN => Event::Shutdown,
                // What nobody asked for.
                _ => continue,
            });
        }
    }

    /// The failure that the queue has.
    fn error(&self, library: &Library) -> String {
        let mut entry = fi_eq_err_entry {
            fid: ptr::null_mut(),
            context: ptr::null_mut(),
            data: 0,
            err: 0,
            prov_errno: 0,
            err_data: ptr::null_mut(),
            err_data_size: 0,
            _more: [0; 4],
        };
        // SAFETY: the object is live, and the entry at least as long as the library's.
        unsafe { (self.ops().readerr)(self.as_ptr(), &mut entry, 0) };
        library.text(entry.err)
    }
}

/// A completion, as a queue gives it.
#[derive(Clone, Copy)]
pub(crate) struct Completion {
    /// Which operation, as the address of its context.
    pub(crate) context: usize,
    /// How many bytes were received.
    pub(crate) bytes: usize,
}

/// The reason of operations that failed since the connection is closed.
pub(crate) const CANCELLED: &str = "cancelled, as the connection is closed";

/// How many completions are read at once.
pub(crate) const BATCH: usize = 16;

/// What reading a queue of completions gave.
pub(crate) enum Completions {
    /// So many were read.
    Some(usize),
    /// There is none.
    None,
    /// This operation failed, for this reason.
    Failed(usize, String),
    /// The queue itself failed.
    Broken(String),
}

/// The descriptors that a queue of completions is waited for on.
#[derive(Default)]
pub(crate) struct WaitList {
    /// Differs once a descriptor is to be added or removed, which may be done later.
    pub(crate) change_index: u64,
    descriptors: Vec<pollfd>,
}

impl WaitList {
    /// The descriptors, and what to wait for on each, as for `poll`.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RawFd, u16)> + Clone {
        let used = self.descriptors.iter().filter(|entry| entry.fd >= 0);
        used.map(|entry| (entry.fd, entry.events as u16))
    }
}

impl Handle<fid_cq> {
    fn ops(&self) -> &fi_ops_cq {
        // SAFETY: the object is live, and its table lives as long as the library.
        unsafe { &*(*self.as_ptr()).ops }
    }

    /// Reads completions; drives the provider if there are none.
    pub(crate) fn read(&self, library: &Library, into: &mut [Completion; BATCH]) -> Completions {
        let mut entries = [const {
            fi_cq_msg_entry {
                op_context: ptr::null_mut(),
                flags: 0,
                len: 0,
            }
        }; BATCH];
        // SAFETY: the object is live, and there is room for so many entries of the format that
        // the queue was made with.
        let count = unsafe { (self.ops().read)(self.as_ptr(), entries.as_mut_ptr().cast(), BATCH) };
        if count == -(FI_EAGAIN as isize) || count == 0 {
            return Completions::None;
        }
        if count == -(FI_EAVAIL as isize) {
            return self.error(library);
        }
        let Ok(count) = usize::try_from(count) else {
            return Completions::Broken(library.text(count as c_int));
        };
        for (entry, into) in entries.iter().zip(into.iter_mut()).take(count) {
            *into = Completion {
                context: entry.op_context as usize,
                bytes: entry.len,
            };
        }
        Completions::Some(count.min(BATCH))
    }

    /// Reads which descriptors to wait on, of a queue that names a list of them.
    pub(crate) fn wait_list(&self, library: &Library, into: &mut WaitList) -> Result<(), OfiError> {
        loop {
            let room = into.descriptors.len();
            let mut list = fi_wait_pollfd {
                change_index: 0,
                nfds: room,
                fd: into.descriptors.as_mut_ptr(),
            };
            let place: *mut fi_wait_pollfd = &mut list;
            // SAFETY: the object is live, and there is room for as many entries as is said. A
            // queue that was made with FI_WAIT_FD would write no more than an int.
            let code = unsafe { (self.base().control)(self.fid(), FI_GETWAIT, place.cast()) };
            if list.nfds > room {
                let unused = pollfd {
                    fd: -1,
                    events: 0,
                    revents: 0,
                };
                into.descriptors.resize(list.nfds, unused);
                continue;
            }
            into.descriptors.truncate(list.nfds);
            into.change_index = list.change_index;
            return match code {
                0 => Ok(()),
                _ => Err(library.failed("asking libfabric what to wait on", code)),
            };
        }
    }

    /// The failed operation that the queue has.
    fn error(&self, library: &Library) -> Completions {
        let mut entry = fi_cq_err_entry {
            op_context: ptr::null_mut(),
            flags: 0,
            len: 0,
            buf: ptr::null_mut(),
            data: 0,
            tag: 0,
            olen: 0,
            err: 0,
            prov_errno: 0,
            err_data: ptr::null_mut(),
            err_data_size: 0,
            _more: [0; 5],
        };
        let mut room = [0 as c_char; 128];
        // SAFETY: the object is live, the entry at least as long as the library's, and the room
        // as long as is said.
        let (count, detail) = unsafe {
            let count = (self.ops().readerr)(self.as_ptr(), &mut entry, 0);
            let detail = match count > 0 && entry.prov_errno != 0 {
                true => text((self.ops().strerror)(
                    self.as_ptr(),
                    entry.prov_errno,
                    entry.err_data,
                    room.as_mut_ptr(),
                    room.len(),
                )),
                false => String::new(),
            };
            (count, detail)
        };
        if count == -(FI_EAGAIN as isize) || count == 0 {
            return Completions::None;
        }
        if count < 0 {
            return Completions::Broken(library.text(count as c_int));
        }
        // The provider's number may be that of some older failure.
        if entry.err == FI_ECANCELED {
            return Completions::Failed(entry.op_context as usize, CANCELLED.to_owned());
        }
        let mut reason = library.text(entry.err);
        if !detail.is_empty() && detail != reason {
            reason = format!("{reason} ({detail})");
        }
        Completions::Failed(entry.op_context as usize, reason)
    }
}

/// A descriptor of libfabric's, to add to a set of descriptors.
///
/// # Safety
/// It stays open as long as the result is used.
pub(crate) unsafe fn borrow(descriptor: RawFd) -> BorrowedFd<'static> {
    // SAFETY: as the caller says; it is not -1, see `wait_descriptor`.
    unsafe { BorrowedFd::borrow_raw(descriptor) }
}
