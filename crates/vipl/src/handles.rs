//! Pointers by which programs name objects: numbers that are used once, and the table in which they are looked up. So a
//! handle that was closed, or is of another kind, is found out.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::nic::Nic;
use crate::raw::Code;

/// What a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Nic,
    Vi,
    Cq,
    Connection,
    Ptag,
}

/// Handles are multiples of it.
const STEP: usize = 64;

#[derive(Default)]
struct Table {
    last: usize,
    /// All but those of NICs belong to a NIC.
    objects: HashMap<usize, (Kind, Arc<Nic>)>,
}

static TABLE: RwLock<Option<Table>> = RwLock::new(None);

fn read() -> RwLockReadGuard<'static, Option<Table>> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Option<Table>> {
    TABLE.write().unwrap_or_else(PoisonError::into_inner)
}

/// A new handle.
pub(crate) fn open(kind: Kind, nic: &Arc<Nic>) -> usize {
    let mut table = write();
    let table = table.get_or_insert_default();
    table.last += STEP;
    table.objects.insert(table.last, (kind, Arc::clone(nic)));
    table.last
}

/// The NIC of a handle.
pub(crate) fn find(kind: Kind, handle: *mut c_void) -> Result<(Arc<Nic>, usize), Code> {
    let number = handle.expose_provenance();
    let table = read();
    let found = table.as_ref().and_then(|table| table.objects.get(&number));
    match found {
        Some((of, nic)) if *of == kind => Ok((Arc::clone(nic), number)),
        _ => Err(Code::InvalidParameter),
    }
}

/// Forgets a handle.
pub(crate) fn close(handle: usize) {
    let forgotten = write()
        .as_mut()
        .and_then(|table| table.objects.remove(&handle));
    // Outside the lock: it may be the last of its NIC.
    drop(forgotten);
}

/// Forgets a NIC and all of its handles.
pub(crate) fn close_nic(nic: &Arc<Nic>) {
    let mut forgotten = Vec::new();
    if let Some(table) = write().as_mut() {
        table.objects.retain(|_, (_, of)| {
            let stays = !Arc::ptr_eq(of, nic);
            if !stays {
                forgotten.push(Arc::clone(of));
            }
            stays
        });
    }
}

/// The handle of a NIC, or 0 if it was closed.
pub(crate) fn of_nic(nic: &Arc<Nic>) -> usize {
    let table = read();
    let objects = table.iter().flat_map(|table| &table.objects);
    let mut own = objects.filter(|(_, (kind, of))| *kind == Kind::Nic && Arc::ptr_eq(of, nic));
    own.next().map_or(0, |(&handle, _)| handle)
}

/// A number as the pointer that a program gets.
pub(crate) fn pointer(number: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(number)
}
