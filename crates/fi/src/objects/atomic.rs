//! The calls for atomic operations on a peer's memory.

use std::ffi::{c_int, c_void};

use super::kinds::{Desc, Descs, SENDING_FLAGS, endpoint};
use crate::arithmetic::{Form, Kind};
use crate::border::{Constant, guarded};
use crate::memory::{Context, Lent};
use crate::raw::{
    self, Function, fi_atomic_attr, fi_ioc, fi_msg_atomic, fi_ops_atomic, fid_domain, fid_ep,
};
use crate::regions::Place;
use crate::space::{Access, Atomic, Remote};

/// Calls for atomic operations.
pub(super) static ATOMIC: Constant<fi_ops_atomic> = Constant(fi_ops_atomic {
    size: size_of::<fi_ops_atomic>(),
    write: write as Function,
    writev: writev as Function,
    writemsg: writemsg as Function,
    inject: inject as Function,
    readwrite: readwrite as Function,
    readwritev: readwritev as Function,
    readwritemsg: readwritemsg as Function,
    compwrite: compwrite as Function,
    compwritev: compwritev as Function,
    compwritemsg: compwritemsg as Function,
    writevalid: writevalid as Function,
    readwritevalid: readwritevalid as Function,
    compwritevalid: compwritevalid as Function,
});

/// Elements in the memory of the program.
#[derive(Clone, Copy)]
struct Elements {
    start: *mut c_void,
    count: usize,
}

impl Elements {
    fn new(start: *const c_void, count: usize) -> Elements {
        let start = start.cast_mut();
        Elements { start, count }
    }

    /// Those of an array of one entry.
    ///
    /// # Safety
    /// It is null, or has as many entries as `count` says.
    unsafe fn of(places: *const fi_ioc, count: usize) -> Result<Elements, c_int> {
        if places.is_null() || count != 1 {
            return Err(raw::FI_EINVAL);
        }
        // SAFETY: there is one.
        let place = unsafe { &*places };
        Ok(Elements::new(place.addr, place.count))
    }
}

/// What a call asks for.
struct Call {
    peer: u64,
    place: Place,
    datatype: u32,
    op: u32,
    with: Elements,
    compare: Option<Elements>,
    result: Option<Elements>,
    context: *mut c_void,
    flags: Option<u64>,
    inject: bool,
}

impl Call {
    fn form(&self) -> Form {
        match (&self.compare, &self.result) {
            (Some(_), _) => Form::Compare,
            (None, Some(_)) => Form::Fetch,
            (None, None) => Form::Write,
        }
    }

    /// # Safety
    /// The memory is lent until the operation has ended.
    unsafe fn remote(self) -> Result<Remote, c_int> {
        let kind = Kind::new(self.datatype, self.op).ok_or(raw::FI_EOPNOTSUPP)?;
        let count_max = kind.count_max(self.form()).ok_or(raw::FI_EOPNOTSUPP)?;
        let count = self.with.count;
        let others = [self.compare, self.result];
        let differ = others.iter().flatten().any(|other| other.count != count);
        if count == 0 || count > count_max || differ {
            return Err(raw::FI_EINVAL);
        }
        let bytes = count * kind.element_bytes().unwrap_or(1);
        // SAFETY: the caller says so.
        let lent = |elements: Elements| unsafe { Lent::one(elements.start, bytes) };
        // What is only read, needs nothing to be read with.
        let with = match kind.op {
            raw::FI_ATOMIC_READ => None,
            _ => Some(self.with),
        };
        Ok(Remote {
            access: Access::Atomic(Atomic {
                kind,
                len_bytes: bytes,
                compare: self.compare.map(lent),
                result: self.result.map(lent),
            }),
            peer: self.peer,
            memory: with.map_or_else(Lent::nothing, lent),
            place: self.place,
            data: None,
            context: Context(self.context),
            flags: self.flags,
            inject: self.inject,
        })
    }
}

/// Begins an operation.
///
/// # Safety
/// `ep` is an object of this provider, and the memory is lent until the operation has ended.
unsafe fn begin(ep: *mut fid_ep, call: impl FnOnce() -> Result<Call, c_int>) -> isize {
    guarded(|| {
        // SAFETY: the caller says so.
        let (endpoint, remote) = unsafe { (endpoint(ep), call()?.remote()?) };
        endpoint.space.lock().access(endpoint.place, remote)?;
        Ok(0)
    })
}

/// A call that only changes memory, without flags of its own.
fn plain(
    with: Elements,
    peer: u64,
    (address, key): (u64, u64),
    (datatype, op): (u32, u32),
    context: *mut c_void,
) -> Call {
    Call {
        peer,
        place: Place { key, address },
        datatype,
        op,
        with,
        compare: None,
        result: None,
        context,
        flags: None,
        inject: false,
    }
}

/// The call that a description asks for.
///
/// # Safety
/// libfabric gives it, with its arrays.
unsafe fn described(msg: *const fi_msg_atomic, flags: u64) -> Result<Call, c_int> {
    if flags & !SENDING_FLAGS != 0 {
        return Err(raw::FI_EOPNOTSUPP);
    }
    // SAFETY: the caller says so.
    let msg = unsafe { &*msg };
    if msg.rma_iov_count != 1 || msg.rma_iov.is_null() {
        return Err(raw::FI_EINVAL);
    }
    // SAFETY: there is one, and the other array is as libfabric says.
    let (target, with) = unsafe { (&*msg.rma_iov, Elements::of(msg.msg_iov, msg.iov_count)?) };
    if target.count != with.count {
        return Err(raw::FI_EINVAL);
    }
    let place = (target.addr, target.key);
    Ok(Call {
        flags: Some(flags),
        ..plain(with, msg.addr, place, (msg.datatype, msg.op), msg.context)
    })
}

/// Changes memory of a peer.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn write(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _: Desc,
    to: u64,
    address: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let with = Elements::new(buf, count);
    let call = || Ok(plain(with, to, (address, key), (datatype, op), context));
    // SAFETY: the caller says so.
    unsafe { begin(ep, call) }
}

/// As [`write`], given as an array of one place.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn writev(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _: Descs,
    count: usize,
    to: u64,
    address: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            let with = Elements::of(iov, count)?;
            Ok(plain(with, to, (address, key), (datatype, op), context))
        })
    }
}

/// As [`write`], by a description.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64) -> isize {
    // SAFETY: the caller says so.
    unsafe { begin(ep, || described(msg, flags)) }
}

/// As [`write`], and the program has its memory back.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    to: u64,
    address: u64,
    key: u64,
    datatype: u32,
    op: u32,
) -> isize {
    let (with, none) = (Elements::new(buf, count), std::ptr::null_mut());
    let call = || {
        Ok(Call {
            inject: true,
            ..plain(with, to, (address, key), (datatype, op), none)
        })
    };
    // SAFETY: the caller says so.
    unsafe { begin(ep, call) }
}

/// Changes memory of a peer, and gives what was there before.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn readwrite(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _: Desc,
    result: *mut c_void,
    _: Desc,
    to: u64,
    address: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let (with, result) = (Elements::new(buf, count), Elements::new(result, count));
    let call = || {
        Ok(Call {
            result: Some(result),
            ..plain(with, to, (address, key), (datatype, op), context)
        })
    };
    // SAFETY: the caller says so.
    unsafe { begin(ep, call) }
}

/// As [`readwrite`], given as arrays of one place.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn readwritev(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _: Descs,
    count: usize,
    results: *mut fi_ioc,
    _: Descs,
    result_count: usize,
    to: u64,
    address: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            let with = match op == u32::from(raw::FI_ATOMIC_READ) {
                true => Elements::of(results, result_count)?,
                false => Elements::of(iov, count)?,
            };
            Ok(Call {
                result: Some(Elements::of(results, result_count)?),
                ..plain(with, to, (address, key), (datatype, op), context)
            })
        })
    }
}

/// As [`readwrite`], by a description.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn readwritemsg(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    results: *mut fi_ioc,
    _: Descs,
    result_count: usize,
    flags: u64,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            Ok(Call {
                result: Some(Elements::of(results, result_count)?),
                ..described(msg, flags)?
            })
        })
    }
}

/// Changes memory of a peer as a comparison says, and gives what was there before.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn compwrite(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _: Desc,
    compare: *const c_void,
    _: Desc,
    result: *mut c_void,
    _: Desc,
    to: u64,
    address: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let call = || {
        Ok(Call {
            compare: Some(Elements::new(compare, count)),
            result: Some(Elements::new(result, count)),
            ..plain(
                Elements::new(buf, count),
                to,
                (address, key),
                (datatype, op),
                context,
            )
        })
    };
    // SAFETY: the caller says so.
    unsafe { begin(ep, call) }
}

/// As [`compwrite`], given as arrays of one place.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn compwritev(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _: Descs,
    count: usize,
    compares: *const fi_ioc,
    _: Descs,
    compare_count: usize,
    results: *mut fi_ioc,
    _: Descs,
    result_count: usize,
    to: u64,
    address: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            let with = Elements::of(iov, count)?;
            Ok(Call {
                compare: Some(Elements::of(compares, compare_count)?),
                result: Some(Elements::of(results, result_count)?),
                ..plain(with, to, (address, key), (datatype, op), context)
            })
        })
    }
}

/// As [`compwrite`], by a description.
///
/// # Safety
/// It is called by libfabric's rules: the endpoint is one of this provider, memory is lent until the operation has ended.
unsafe extern "C" fn compwritemsg(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    compares: *const fi_ioc,
    _: Descs,
    compare_count: usize,
    results: *mut fi_ioc,
    _: Descs,
    result_count: usize,
    flags: u64,
) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        begin(ep, || {
            Ok(Call {
                compare: Some(Elements::of(compares, compare_count)?),
                result: Some(Elements::of(results, result_count)?),
                ..described(msg, flags)?
            })
        })
    }
}

/// How many elements a call of this form may have, if there is such an operation.
fn count_max(datatype: u32, op: u32, form: Form) -> Result<usize, c_int> {
    let count = Kind::new(datatype, op).and_then(|kind| kind.count_max(form));
    count.ok_or(raw::FI_EOPNOTSUPP)
}

/// # Safety
/// `count` leads to a place for a number.
unsafe fn valid(datatype: u32, op: u32, form: Form, count: *mut usize) -> c_int {
    guarded(|| {
        // SAFETY: the caller says so.
        unsafe { *count = count_max(datatype, op, form)? };
        Ok(0)
    })
}

/// Whether there is such a [`write`].
///
/// # Safety
/// It is called by libfabric's rules: `count` leads to a place for a number.
unsafe extern "C" fn writevalid(
    _: *mut fid_ep,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe { valid(datatype, op, Form::Write, count) }
}

/// Whether there is such a [`readwrite`].
///
/// # Safety
/// It is called by libfabric's rules: `count` leads to a place for a number.
unsafe extern "C" fn readwritevalid(
    _: *mut fid_ep,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe { valid(datatype, op, Form::Fetch, count) }
}

/// Whether there is such a [`compwrite`].
///
/// # Safety
/// It is called by libfabric's rules: `count` leads to a place for a number.
unsafe extern "C" fn compwritevalid(
    _: *mut fid_ep,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe { valid(datatype, op, Form::Compare, count) }
}

/// Whether a domain has such an operation, and on how many elements.
///
/// # Safety
/// It is called by libfabric's rules: `attr` leads to a place for the answer.
pub(super) unsafe extern "C" fn query(
    _: *mut fid_domain,
    datatype: u32,
    op: u32,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    guarded(|| {
        let form = match flags & (raw::FI_FETCH_ATOMIC | raw::FI_COMPARE_ATOMIC) {
            0 => Form::Write,
            raw::FI_FETCH_ATOMIC => Form::Fetch,
            raw::FI_COMPARE_ATOMIC => Form::Compare,
            _ => return Err(raw::FI_EINVAL),
        };
        let count = count_max(datatype, op, form)?;
        // SAFETY: the caller says so.
        let attr = unsafe { &mut *attr };
        (attr.count, attr.size) = (count, crate::arithmetic::ATOMIC_BYTES_MAX / count);
        Ok(0)
    })
}
