//! What this provider offers, and whether that is what a program asks for.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::border::guarded;
use crate::engine::sending::{BACKLOG_MAX, INJECT_BYTES_MAX};
use crate::raw::{
    self, fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_info, fi_rx_attr, fi_tx_attr,
};

/// The name of the provider, of its fabric and of its domain.
pub(crate) const NAME: &CStr = c"barewire";

/// Pieces of memory that a message may be in.
const IOV_MAX: usize = 8;
/// The longest message, in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 40;
/// Bytes of data beside a message.
const DATA_BYTES: usize = 4;

const PRIMARY: u64 = raw::FI_MSG | raw::FI_TAGGED | REMOTE;
/// What needs memory regions.
const REMOTE: u64 = raw::FI_RMA | raw::FI_ATOMIC;
const DIRECTIONS: u64 = raw::FI_SEND | raw::FI_RECV;
/// Those of a peer's memory.
const ACCESSES: u64 = raw::FI_READ | raw::FI_WRITE | raw::FI_REMOTE_READ | raw::FI_REMOTE_WRITE;
/// What a program has to know of memory regions: their addresses are those of the process that has them, their memory is
/// there when they are registered, and their keys are this provider's.
const REGIONS: c_int = raw::FI_MR_VIRT_ADDR | raw::FI_MR_ALLOCATED | raw::FI_MR_PROV_KEY;
const SECONDARY: u64 = raw::FI_MULTI_RECV | raw::FI_SOURCE | raw::FI_DIRECTED_RECV | WHERE;
const WHERE: u64 = raw::FI_LOCAL_COMM | raw::FI_REMOTE_COMM;
const CAPS: u64 = PRIMARY | DIRECTIONS | ACCESSES | SECONDARY;

const SEND_FLAGS: u64 = raw::FI_COMPLETION
    | raw::FI_INJECT
    | raw::FI_INJECT_COMPLETE
    | raw::FI_TRANSMIT_COMPLETE
    | raw::FI_DELIVERY_COMPLETE
    | raw::FI_MATCH_COMPLETE;

/// Whether each of `asked` is among `offered`.
fn among(asked: u64, offered: u64) -> bool {
    asked & !offered == 0
}

/// Whether a name is not given, or this provider's.
///
/// # Safety
/// It is null or a text.
unsafe fn is_own(name: *const c_char) -> bool {
    // SAFETY: the caller says so.
    name.is_null() || unsafe { CStr::from_ptr(name) } == NAME
}

fn fits_sends(asked: &fi_tx_attr) -> bool {
    among(asked.caps, CAPS)
        && among(asked.op_flags, SEND_FLAGS)
        && among(asked.msg_order, raw::FI_ORDER_SAS)
        && asked.comp_order == 0
        && asked.inject_size <= INJECT_BYTES_MAX
        && asked.size <= BACKLOG_MAX
        && asked.iov_limit <= IOV_MAX
        && asked.rma_iov_limit <= 1
}

fn fits_receives(asked: &fi_rx_attr) -> bool {
    among(asked.caps, CAPS)
        && among(asked.op_flags, raw::FI_COMPLETION | raw::FI_MULTI_RECV)
        && among(asked.msg_order, raw::FI_ORDER_SAS)
        && asked.comp_order == 0
        && asked.iov_limit <= IOV_MAX
}

fn fits_endpoint(asked: &fi_ep_attr) -> bool {
    matches!(asked.r#type, raw::FI_EP_UNSPEC | raw::FI_EP_RDM)
        && asked.protocol == 0
        && asked.max_msg_size <= MESSAGE_BYTES_MAX
        && asked.msg_prefix_size == 0
        && asked.tx_ctx_cnt <= 1
        && asked.rx_ctx_cnt <= 1
        && asked.auth_key_size == 0
}

/// Whether a program does what memory regions ask of it.
fn knows_regions(asked: &fi_domain_attr) -> bool {
    asked.mr_mode == raw::FI_MR_BASIC || asked.mr_mode & REGIONS == REGIONS
}

/// # Safety
/// The name in it is null or a text.
unsafe fn fits_domain(asked: &fi_domain_attr, caps: u64) -> bool {
    let manual = |progress| matches!(progress, raw::FI_PROGRESS_UNSPEC | raw::FI_PROGRESS_MANUAL);
    manual(asked.control_progress)
        && manual(asked.data_progress)
        && asked.cq_data_size <= DATA_BYTES
        && among(asked.caps, WHERE)
        && (caps & REMOTE == 0 || knows_regions(asked))
        && asked.mr_key_size <= size_of::<u64>()
        // SAFETY: the caller says so.
        && unsafe { is_own(asked.name) }
}

/// Whether this provider has what is asked for.
///
/// # Safety
/// libfabric made it.
unsafe fn fits(asked: &fi_info) -> bool {
    // SAFETY: the parts are there, or null.
    unsafe {
        among(asked.caps, CAPS)
            && (asked.caps == 0 || asked.caps & PRIMARY != 0)
            && matches!(asked.addr_format, raw::FI_FORMAT_UNSPEC | raw::FI_ADDR_STR)
            && asked.tx_attr.as_ref().is_none_or(fits_sends)
            && asked.rx_attr.as_ref().is_none_or(fits_receives)
            && asked.ep_attr.as_ref().is_none_or(fits_endpoint)
            && asked
                .domain_attr
                .as_ref()
                .is_none_or(|domain| fits_domain(domain, asked.caps))
            && asked
                .fabric_attr
                .as_ref()
                .is_none_or(|fabric| is_own(fabric.name))
    }
}

/// libfabric's own function that makes an empty description, as long as its version has it.
fn empty_info() -> Result<*mut fi_info, c_int> {
    type Duplicate = unsafe extern "C" fn(*const fi_info) -> *mut fi_info;
    // SAFETY: libfabric has called this provider, so it is there: nothing is loaded. The function is never unloaded
    // before this provider is.
    let made = unsafe {
        let library = libc::dlopen(
            c"libfabric.so.1".as_ptr(),
            libc::RTLD_LAZY | libc::RTLD_NOLOAD,
        );
        let library = match library.is_null() {
            true => libc::RTLD_DEFAULT,
            false => library,
        };
        let function = libc::dlsym(library, c"fi_dupinfo".as_ptr());
        if function.is_null() {
            return Err(raw::FI_ENOSYS);
        }
        std::mem::transmute::<*mut c_void, Duplicate>(function)(std::ptr::null())
    };
    match made.is_null() {
        true => Err(raw::FI_ENOMEM),
        false => Ok(made),
    }
}

/// What is offered to whom asks for it, or for anything.
///
/// # Safety
/// `info` is an empty one of libfabric's, with all its parts, and `asked` one that this provider fits.
unsafe fn fill(info: &mut fi_info, asked: Option<&fi_info>) {
    let (mut caps, mut completion, mut receive_flags) = (CAPS, 0, 0);
    if let Some(asked) = asked {
        // SAFETY: a part of it, or null.
        let domain = unsafe { asked.domain_attr.as_ref() };
        if asked.caps != 0 {
            caps = asked.caps | WHERE;
        } else if !domain.is_none_or(knows_regions) {
            caps &= !(REMOTE | ACCESSES);
        }
        if caps & (DIRECTIONS | ACCESSES) == 0 {
            caps |= DIRECTIONS;
            if caps & REMOTE != 0 {
                caps |= ACCESSES;
            }
        }
        // SAFETY: parts of it, or null.
        unsafe {
            completion = asked.tx_attr.as_ref().map_or(0, |attr| attr.op_flags);
            receive_flags = asked.rx_attr.as_ref().map_or(0, |attr| attr.op_flags);
        }
    }
    info.caps = caps;
    info.addr_format = raw::FI_ADDR_STR;
    // SAFETY: the parts are there.
    unsafe {
        let sends = &mut *info.tx_attr;
        let incoming = raw::FI_RECV | raw::FI_REMOTE_READ | raw::FI_REMOTE_WRITE;
        let of_receives = incoming | raw::FI_MULTI_RECV | raw::FI_SOURCE | raw::FI_DIRECTED_RECV;
        sends.caps = caps & !of_receives & !WHERE;
        sends.op_flags = completion;
        sends.msg_order = raw::FI_ORDER_SAS;
        sends.inject_size = INJECT_BYTES_MAX;
        sends.size = BACKLOG_MAX;
        sends.iov_limit = IOV_MAX;
        sends.rma_iov_limit = 1;
        let receives = &mut *info.rx_attr;
        receives.caps = caps & !raw::FI_SEND & !raw::FI_READ & !raw::FI_WRITE & !WHERE;
        receives.op_flags = receive_flags;
        receives.msg_order = raw::FI_ORDER_SAS;
        receives.size = BACKLOG_MAX;
        receives.iov_limit = IOV_MAX;
        fill_endpoint(&mut *info.ep_attr);
        let domain = asked.and_then(|asked| asked.domain_attr.as_ref());
        fill_domain(&mut *info.domain_attr, domain);
        if caps & REMOTE != 0 {
            let basic = domain.is_some_and(|domain| domain.mr_mode == raw::FI_MR_BASIC);
            (*info.domain_attr).mr_mode = if basic { raw::FI_MR_BASIC } else { REGIONS };
        }
        let fabric: &mut fi_fabric_attr = &mut *info.fabric_attr;
        fabric.name = libc::strdup(NAME.as_ptr());
        fabric.prov_version = 1;
    }
}

fn fill_endpoint(endpoint: &mut fi_ep_attr) {
    endpoint.r#type = raw::FI_EP_RDM;
    endpoint.protocol_version = 1;
    endpoint.max_msg_size = MESSAGE_BYTES_MAX;
    endpoint.mem_tag_format = raw::FI_TAG_GENERIC;
    endpoint.tx_ctx_cnt = 1;
    endpoint.rx_ctx_cnt = 1;
}

fn fill_domain(domain: &mut fi_domain_attr, asked: Option<&fi_domain_attr>) {
    // SAFETY: a text; libfabric frees the copy.
    domain.name = unsafe { libc::strdup(NAME.as_ptr()) };
    // Whose calls do not overlap, needs no lock.
    domain.threading = match asked.map(|asked| asked.threading) {
        Some(raw::FI_THREAD_DOMAIN) => raw::FI_THREAD_DOMAIN,
        _ => raw::FI_THREAD_SAFE,
    };
    domain.control_progress = raw::FI_PROGRESS_MANUAL;
    domain.data_progress = raw::FI_PROGRESS_MANUAL;
    domain.resource_mgmt = raw::FI_RM_ENABLED;
    domain.av_type = raw::FI_AV_TABLE;
    domain.mr_key_size = size_of::<u64>();
    domain.mr_iov_limit = 1;
    domain.cq_data_size = DATA_BYTES;
    domain.cq_cnt = 256;
    domain.cntr_cnt = 256;
    domain.ep_cnt = 256;
    domain.tx_ctx_cnt = 256;
    domain.rx_ctx_cnt = 256;
    domain.max_ep_tx_ctx = 1;
    domain.max_ep_rx_ctx = 1;
    domain.caps = WHERE;
}

/// Describes what this provider offers, if that is what is asked for.
///
/// # Safety
/// libfabric calls it: `hints` is null or a description, `info` leads to a place for a pointer.
pub(crate) unsafe extern "C" fn getinfo(
    _version: u32,
    _node: *const c_char,
    _service: *const c_char,
    _flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    guarded(|| {
        // SAFETY: libfabric made it, or it is null.
        let asked = unsafe { hints.as_ref() };
        // SAFETY: libfabric made it.
        if asked.is_some_and(|asked| !unsafe { fits(asked) }) {
            return Err(raw::FI_ENODATA);
        }
        let made = empty_info()?;
        // SAFETY: it was just made, with all its parts; the caller gives a place for it.
        unsafe {
            fill(&mut *made, asked);
            *info = made;
        }
        Ok(0)
    })
}
