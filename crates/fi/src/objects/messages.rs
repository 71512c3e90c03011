//! The calls that send and receive messages, with tags and without.

use std::ffi::{c_int, c_void};

use libc::iovec;

use super::kinds::{Desc, Descs, SENDING_FLAGS, endpoint};
use crate::border::{Constant, guarded};
use crate::memory::{Context, Lent};
use crate::raw::{self, Function, fi_msg, fi_msg_tagged, fi_ops_msg, fi_ops_tagged, fid_ep};
use crate::records::Label;
use crate::space::{Send, Wanted};

/// Calls without tags.
pub(super) static PLAIN: Constant<fi_ops_msg> = Constant(fi_ops_msg {
    size: size_of::<fi_ops_msg>(),
    recv: recv as Function,
    recvv: recvv as Function,
    recvmsg: recvmsg as Function,
    send: send as Function,
    sendv: sendv as Function,
    sendmsg: sendmsg as Function,
    inject: inject as Function,
    senddata: senddata as Function,
    injectdata: injectdata as Function,
});

/// Calls with tags.
pub(super) static TAGGED: Constant<fi_ops_tagged> = Constant(fi_ops_tagged {
    size: size_of::<fi_ops_tagged>(),
    recv: trecv as Function,
    recvv: trecvv as Function,
    recvmsg: trecvmsg as Function,
    send: tsend as Function,
    sendv: tsendv as Function,
    sendmsg: tsendmsg as Function,
    inject: tinject as Function,
    senddata: tsenddata as Function,
    injectdata: tinjectdata as Function,
});

/// Flags of a send that this provider knows.
const SEND_FLAGS: u64 = SENDING_FLAGS | raw::FI_MATCH_COMPLETE | raw::FI_REMOTE_CQ_DATA;
/// Flags of a receive that this provider knows.
const RECV_FLAGS: u64 =
    raw::FI_COMPLETION | raw::FI_MORE | raw::FI_PEEK | raw::FI_CLAIM | raw::FI_DISCARD;

/// Those of a receive without tag.
const PLAIN_RECV_FLAGS: u64 = RECV_FLAGS | raw::FI_MULTI_RECV;

/// Begins a send.
///
/// # Safety
/// `ep` is an object of this provider.
unsafe fn begin(ep: *mut fid_ep, send: impl FnOnce() -> Send) -> isize {
    guarded(|| {
        // SAFETY: the caller says so.
        let endpoint = unsafe { endpoint(ep) };
        endpoint.space.lock().send(endpoint.place, send())?;
        Ok(0)
    })
}

/// Begins a receive.
///
/// # Safety
/// `ep` is an object of this provider.
unsafe fn post(ep: *mut fid_ep, wanted: impl FnOnce() -> Wanted) -> isize {
    guarded(|| {
        // SAFETY: the caller says so.
        let endpoint = unsafe { endpoint(ep) };
        endpoint.space.lock().receive(endpoint.place, wanted())?;
        Ok(0)
    })
}

fn label(tag: Option<u64>, data: Option<u64>) -> Label {
    Label {
        tag,
        // As many bytes as this provider says that it carries.
        data: data.map(|data| data as u32),
    }
}

/// A send without flags of its own.
fn plain_send(to: u64, memory: Lent, label: Label, context: *mut c_void) -> Send {
    Send {
        to,
        memory,
        label,
        context: Context(context),
        flags: None,
        inject: false,
    }
}

/// A send that the program hears nothing more of.
fn injected(to: u64, memory: Lent, label: Label) -> Send {
    Send {
        inject: true,
        ..plain_send(to, memory, label, std::ptr::null_mut())
    }
}

/// A receive without a tag.
fn plain_receive(from: u64, memory: Lent, context: *mut c_void) -> Wanted {
    Wanted {
        tagged: false,
        from,
        tag: 0,
        ignore: u64::MAX,
        memory,
        context: Context(context),
        flags: None,
    }
}

/// A receive with a tag.
fn tagged_receive(from: u64, memory: Lent, tag: u64, ignore: u64, context: *mut c_void) -> Wanted {
    Wanted {
        tagged: true,
        tag,
        ignore,
        ..plain_receive(from, memory, context)
    }
}

/// Refuses flags that this provider does not know.
fn check(flags: u64, known: u64) -> Result<(), c_int> {
    match flags & !known {
        0 => Ok(()),
        _ => Err(raw::FI_EOPNOTSUPP),
    }
}

/// Posts a receive.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn recv(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _: Desc,
    from: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller says so.
    unsafe { post(ep, || plain_receive(from, Lent::one(buf, len), context)) }
}

/// Posts a receive in several places.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn recvv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _: Descs,
    count: usize,
    from: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller says so.
    unsafe { post(ep, || plain_receive(from, Lent::of(iov, count), context)) }
}

/// Posts a receive, peeks or receives what was claimed.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    if let Err(error) = check(flags, PLAIN_RECV_FLAGS) {
        return -(error as isize);
    }
    // SAFETY: the caller says so.
    unsafe {
        let msg = &*msg;
        post(ep, || Wanted {
            flags: Some(flags),
            ..plain_receive(msg.addr, Lent::of(msg.msg_iov, msg.iov_count), msg.context)
        })
    }
}

/// Sends.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn send(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _: Desc,
    to: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            plain_send(to, Lent::one(buf, len), label(None, None), context)
        })
    }
}

/// Sends from several places.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn sendv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _: Descs,
    count: usize,
    to: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            plain_send(to, Lent::of(iov, count), label(None, None), context)
        })
    }
}

/// Sends, with flags.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    if let Err(error) = check(flags, SEND_FLAGS) {
        return -(error as isize);
    }
    // SAFETY: the caller says so.
    unsafe {
        let msg = &*msg;
        let data = (flags & raw::FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        begin(ep, || Send {
            flags: Some(flags),
            ..plain_send(
                msg.addr,
                Lent::of(msg.msg_iov, msg.iov_count),
                label(None, data),
                msg.context,
            )
        })
    }
}

/// Sends, and the program has its memory back.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn inject(ep: *mut fid_ep, buf: *mut c_void, len: usize, to: u64) -> isize {
    // SAFETY: the caller says so.
    unsafe { begin(ep, || injected(to, Lent::one(buf, len), label(None, None))) }
}

/// Sends with data beside the message.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn senddata(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _: Desc,
    data: u64,
    to: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            plain_send(to, Lent::one(buf, len), label(None, Some(data)), context)
        })
    }
}

/// Sends with data beside the message, and the program has its memory back.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn injectdata(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    data: u64,
    to: u64,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            injected(to, Lent::one(buf, len), label(None, Some(data)))
        })
    }
}

/// Posts a receive, with a tag.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn trecv(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _: Desc,
    from: u64,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        post(ep, || {
            tagged_receive(from, Lent::one(buf, len), tag, ignore, context)
        })
    }
}

/// Posts a receive in several places, with a tag.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn trecvv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _: Descs,
    count: usize,
    from: u64,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        post(ep, || {
            tagged_receive(from, Lent::of(iov, count), tag, ignore, context)
        })
    }
}

/// Posts a receive, peeks or receives what was claimed, with a tag.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn trecvmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
    if let Err(error) = check(flags, RECV_FLAGS) {
        return -(error as isize);
    }
    // SAFETY: the caller says so.
    unsafe {
        let msg = &*msg;
        let memory = Lent::of(msg.msg_iov, msg.iov_count);
        post(ep, || Wanted {
            flags: Some(flags),
            ..tagged_receive(msg.addr, memory, msg.tag, msg.ignore, msg.context)
        })
    }
}

/// Sends, with a tag.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn tsend(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _: Desc,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            plain_send(to, Lent::one(buf, len), label(Some(tag), None), context)
        })
    }
}

/// Sends from several places, with a tag.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn tsendv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _: Descs,
    count: usize,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            plain_send(to, Lent::of(iov, count), label(Some(tag), None), context)
        })
    }
}

/// Sends, with flags, with a tag.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn tsendmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
    if let Err(error) = check(flags, SEND_FLAGS) {
        return -(error as isize);
    }
    // SAFETY: the caller says so.
    unsafe {
        let msg = &*msg;
        let data = (flags & raw::FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        let memory = Lent::of(msg.msg_iov, msg.iov_count);
        begin(ep, || Send {
            flags: Some(flags),
            ..plain_send(msg.addr, memory, label(Some(msg.tag), data), msg.context)
        })
    }
}

/// Sends, and the program has its memory back, with a tag.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn tinject(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    to: u64,
    tag: u64,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            injected(to, Lent::one(buf, len), label(Some(tag), None))
        })
    }
}

/// Sends with data beside the message, with a tag.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn tsenddata(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _: Desc,
    data: u64,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            plain_send(
                to,
                Lent::one(buf, len),
                label(Some(tag), Some(data)),
                context,
            )
        })
    }
}

/// Sends with data beside the message, and the program has its memory back, with a tag.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn tinjectdata(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    data: u64,
    to: u64,
    tag: u64,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            injected(to, Lent::one(buf, len), label(Some(tag), Some(data)))
        })
    }
}
