//! An address vector: numbers for the names of endpoints.
//!
//! An address is the text of a name with its zero, and always as long (`FI_ADDR_STR`).

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use super::kinds::space;
use crate::border::{Constant, absent, guarded, only_closed_by};
use crate::engine::state::{NAME_BYTES, Name};
use crate::raw::{self, Function, fi_ops, fi_ops_av, fid, fid_av, fid_domain};
use crate::space::{Space, Table, place};

/// The bytes of an address.
pub(crate) const ADDRESS_BYTES: usize = NAME_BYTES + 1;

#[repr(C)]
pub(super) struct AddressVector {
    fid: fid_av,
    space: Arc<Space>,
    pub(super) table: usize,
}

static OPS: Constant<fi_ops> = only_closed_by(close as Function);

static VECTOR: Constant<fi_ops_av> = Constant(fi_ops_av {
    size: size_of::<fi_ops_av>(),
    insert: insert as Function,
    insertsvc: absent as Function,
    insertsym: absent as Function,
    remove: remove as Function,
    lookup: lookup as Function,
    straddr: straddr as Function,
    av_set: absent as Function,
});

/// Makes the object.
///
/// # Safety
/// `domain` is one of this provider, `attr` one of libfabric's, `vector` leads to a place for a pointer.
pub(super) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut raw::fi_av_attr,
    vector: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: libfabric gives it, or nothing.
        if let Some(attr) = unsafe { attr.as_ref() } {
            // Neither shared by name, nor told of by events.
            if attr.flags != 0 || !attr.name.is_null() {
                return Err(raw::FI_ENOSYS);
            }
        }
        // SAFETY: a domain of this provider.
        let space = unsafe { space(domain) };
        let table = place(&mut space.lock().tables, Table::default());
        let made = Box::new(AddressVector {
            fid: fid_av {
                fid: fid {
                    fclass: raw::FI_CLASS_AV,
                    context,
                    ops: &OPS.0,
                },
                ops: &VECTOR.0,
            },
            space,
            table,
        });
        // SAFETY: the caller gives a place for it.
        unsafe { *vector = Box::into_raw(made).cast() };
        Ok(0)
    })
}

/// Closes the object.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    guarded(|| {
        // SAFETY: `open` made it so, and libfabric closes an object once.
        let vector = unsafe { Box::from_raw(fid.cast::<AddressVector>()) };
        vector.space.lock().tables[vector.table] = None;
        Ok(0)
    })
}

/// The object that a program names.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe fn vector<'a>(av: *mut fid_av) -> &'a AddressVector {
    // SAFETY: the caller got it from `open`, and has not closed it.
    unsafe { &*av.cast::<AddressVector>() }
}

/// Adds addresses, and returns how many. Their numbers go to `numbers`; that of one that is no address is
/// `FI_ADDR_NOTAVAIL`.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn insert(
    av: *mut fid_av,
    addresses: *const c_void,
    count: usize,
    numbers: *mut u64,
    flags: u64,
    _context: *mut c_void,
) -> c_int {
    guarded(|| {
        if flags & !raw::FI_MORE != 0 {
            return Err(raw::FI_ENOSYS);
        }
        // SAFETY: an object of `open`.
        let vector = unsafe { vector(av) };
        let mut inner = vector.space.lock();
        let table = inner.tables[vector.table].as_mut().ok_or(raw::FI_EINVAL)?;
        let mut inserted = 0;
        for at in 0..count {
            // SAFETY: libfabric says that so many addresses are there, one after the other.
            let address = unsafe {
                addresses
                    .cast::<[u8; ADDRESS_BYTES]>()
                    .add(at)
                    .read_unaligned()
            };
            let number = match name(&address) {
                Some(name) => table.insert(name),
                None => raw::FI_ADDR_NOTAVAIL,
            };
            inserted += c_int::from(number != raw::FI_ADDR_NOTAVAIL);
            if !numbers.is_null() {
                // SAFETY: there is room for as many numbers as addresses.
                unsafe { *numbers.add(at) = number };
            }
        }
        Ok(inserted)
    })
}

/// The name in an address.
fn name(address: &[u8; ADDRESS_BYTES]) -> Option<Name> {
    let (name, end) = address.split_at(NAME_BYTES);
    let good = end == [0] && name.starts_with(b"fi-") && !name.contains(&0);
    good.then(|| name.try_into().expect("as long as a name"))
}

/// Takes addresses out.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn remove(
    av: *mut fid_av,
    numbers: *mut u64,
    count: usize,
    _flags: u64,
) -> c_int {
    guarded(|| {
        // SAFETY: an object of `open`.
        let vector = unsafe { vector(av) };
        let mut inner = vector.space.lock();
        for at in 0..count {
            // SAFETY: libfabric says that so many numbers are there.
            inner.remove_address(vector.table, unsafe { *numbers.add(at) })?;
        }
        Ok(0)
    })
}

/// Gives the address of a number.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn lookup(
    av: *mut fid_av,
    number: u64,
    address: *mut c_void,
    len: *mut usize,
) -> c_int {
    guarded(|| {
        // SAFETY: an object of `open`.
        let vector = unsafe { vector(av) };
        let inner = vector.space.lock();
        let table = inner.tables[vector.table].as_ref().ok_or(raw::FI_EINVAL)?;
        let name = table.name(number).ok_or(raw::FI_EINVAL)?;
        let mut full = [0; ADDRESS_BYTES];
        full[..NAME_BYTES].copy_from_slice(&name);
        // SAFETY: `len` says how much room is at `address`.
        unsafe { give(&full, address.cast(), len) };
        Ok(0)
    })
}

/// Gives an address as a text.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn straddr(
    _av: *mut fid_av,
    address: *const c_void,
    text: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    // SAFETY: an address of this provider.
    let mut full = unsafe { address.cast::<[u8; ADDRESS_BYTES]>().read_unaligned() };
    full[NAME_BYTES] = 0;
    // SAFETY: `len` says how much room is at `text`.
    unsafe { give(&full, text.cast(), len) };
    text
}

/// Copies as much as there is room for, and says how long it is. Returns whether that is all.
///
/// # Safety
/// `len` leads to the bytes that may be written at `into`.
pub(super) unsafe fn give(bytes: &[u8], into: *mut u8, len: *mut usize) -> bool {
    // SAFETY: the caller says so.
    let room = unsafe { *len };
    if !into.is_null() {
        let some = &bytes[..bytes.len().min(room)];
        // SAFETY: as many bytes may be written, and this crate's own do not lie there.
        unsafe { std::ptr::copy_nonoverlapping(some.as_ptr(), into, some.len()) };
    }
    // SAFETY: the caller says so.
    unsafe { *len = bytes.len() };
    room >= bytes.len()
}
