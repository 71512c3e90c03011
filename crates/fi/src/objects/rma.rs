//! The calls that read and write a peer's memory.

use std::ffi::{c_int, c_void};

use libc::iovec;

use super::kinds::{Desc, Descs, SENDING_FLAGS, endpoint};
use crate::border::{Constant, guarded};
use crate::memory::{Context, Lent};
use crate::raw::{self, Function, fi_msg_rma, fi_ops_rma, fid_ep};
use crate::regions::Place;
use crate::space::{Access, Remote};

/// Calls for a peer's memory.
pub(super) static RMA: Constant<fi_ops_rma> = Constant(fi_ops_rma {
    size: size_of::<fi_ops_rma>(),
    read: read as Function,
    readv: readv as Function,
    readmsg: readmsg as Function,
    write: write as Function,
    writev: writev as Function,
    writemsg: writemsg as Function,
    inject: inject as Function,
    writedata: writedata as Function,
    injectdata: injectdata as Function,
});

/// Flags that this provider knows.
const FLAGS: u64 = SENDING_FLAGS | raw::FI_REMOTE_CQ_DATA;

/// Begins an operation.
///
/// # Safety
/// `ep` is an object of this provider.
unsafe fn begin(ep: *mut fid_ep, remote: impl FnOnce() -> Result<Remote, c_int>) -> isize {
    guarded(|| {
        // SAFETY: the caller says so.
        let endpoint = unsafe { endpoint(ep) };
        endpoint.space.lock().access(endpoint.place, remote()?)?;
        Ok(0)
    })
}

/// An operation without flags of its own.
fn plain(
    access: Access,
    peer: u64,
    memory: Lent,
    (address, key): (u64, u64),
    context: *mut c_void,
) -> Remote {
    Remote {
        access,
        peer,
        memory,
        place: Place { key, address },
        data: None,
        context: Context(context),
        flags: None,
        inject: false,
    }
}

/// The operation that a description asks for.
///
/// # Safety
/// libfabric gives it, with its arrays.
unsafe fn described(access: Access, msg: *const fi_msg_rma, flags: u64) -> Result<Remote, c_int> {
    if flags & !FLAGS != 0 {
        return Err(raw::FI_EOPNOTSUPP);
    }
    // SAFETY: the caller says so.
    let (msg, memory) = unsafe { (&*msg, Lent::of((*msg).msg_iov, (*msg).iov_count)) };
    if msg.rma_iov_count != 1 || msg.rma_iov.is_null() {
        return Err(raw::FI_EINVAL);
    }
    // SAFETY: there is one.
    let target = unsafe { &*msg.rma_iov };
    if target.len != memory.len_bytes() {
        return Err(raw::FI_EINVAL);
    }
    let has_data = flags & raw::FI_REMOTE_CQ_DATA != 0;
    Ok(Remote {
        flags: Some(flags),
        // As many bytes as this provider says that it carries.
        data: has_data.then_some(msg.data as u32),
        ..plain(
            access,
            msg.addr,
            memory,
            (target.addr, target.key),
            msg.context,
        )
    })
}

/// Reads.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn read(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _: Desc,
    from: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            let memory = Lent::one(buf, len);
            Ok(plain(Access::Read, from, memory, (address, key), context))
        })
    }
}

/// Reads into several places.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn readv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _: Descs,
    count: usize,
    from: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            let memory = Lent::of(iov, count);
            Ok(plain(Access::Read, from, memory, (address, key), context))
        })
    }
}

/// Reads, with flags.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    // SAFETY: the caller says so.
    unsafe { begin(ep, || described(Access::Read, msg, flags)) }
}

/// Writes.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn write(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _: Desc,
    to: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            let memory = Lent::one(buf, len);
            Ok(plain(Access::Write, to, memory, (address, key), context))
        })
    }
}

/// Writes from several places.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn writev(
    ep: *mut fid_ep,
    iov: *const iovec,
    _: Descs,
    count: usize,
    to: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            let memory = Lent::of(iov, count);
            Ok(plain(Access::Write, to, memory, (address, key), context))
        })
    }
}

/// Writes, with flags.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    // SAFETY: the caller says so.
    unsafe { begin(ep, || described(Access::Write, msg, flags)) }
}

/// Writes, and the program has its memory back.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    to: u64,
    address: u64,
    key: u64,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            let memory = Lent::one(buf, len);
            let none = std::ptr::null_mut();
            Ok(Remote {
                inject: true,
                ..plain(Access::Write, to, memory, (address, key), none)
            })
        })
    }
}

/// Writes, and tells the peer's program with data.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn writedata(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _: Desc,
    data: u64,
    to: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            let memory = Lent::one(buf, len);
            Ok(Remote {
                data: Some(data as u32),
                ..plain(Access::Write, to, memory, (address, key), context)
            })
        })
    }
}

/// Writes, tells the peer's program with data, and the program has its memory back.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn injectdata(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    data: u64,
    to: u64,
    address: u64,
    key: u64,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            let memory = Lent::one(buf, len);
            let none = std::ptr::null_mut();
            Ok(Remote {
                data: Some(data as u32),
                inject: true,
                ..plain(Access::Write, to, memory, (address, key), none)
            })
        })
    }
}
