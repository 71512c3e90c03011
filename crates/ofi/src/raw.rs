//! What is used of libfabric's C interface, declared by hand.
//!
//! Most of that interface are inline functions of the header, which call through tables of
//! functions in the objects. So a layout that differs from the header's would call the wrong
//! function. The test in `raw/header.rs` compiles the header and compares each size, offset,
//! signature and constant of this file with it.
//!
//! Structures end after the last member that is used where only libfabric makes them. Where we
//! make one and libfabric reads or fills it, it is as large as in libfabric 2.6, and what is
//! not used of it is zero. Members keep libfabric's names, so that they can be looked up.
//! Source: `rdma/fabric.h`, `fi_domain.h`, `fi_endpoint.h`, `fi_eq.h`, `fi_cm.h` of libfabric
//! 1.17 and 2.6.

#![allow(
    non_camel_case_types,
    reason = "libfabric's names, so that they can be looked up"
)]

#[cfg(test)]
mod header;

use std::ffi::{c_char, c_int, c_void};

/// The interface that is asked for. Later libraries offer it, too.
pub(crate) const VERSION: u32 = 1 << 16 | 11;

pub(crate) const FI_MSG: u64 = 1 << 1;
pub(crate) const FI_RECV: u64 = 1 << 10;
pub(crate) const FI_SEND: u64 = 1 << 11;
pub(crate) const FI_NUMERICHOST: u64 = 1 << 55;
pub(crate) const FI_SOURCE: u64 = 1 << 57;
pub(crate) const FI_CONTEXT: u64 = 1 << 59;
pub(crate) const FI_CONTEXT2: u64 = 1 << 52;

pub(crate) const FI_ORDER_SAS: u64 = 1 << 8;

pub(crate) const FI_MR_LOCAL: c_int = 1 << 2;
pub(crate) const FI_MR_VIRT_ADDR: c_int = 1 << 4;
pub(crate) const FI_MR_ALLOCATED: c_int = 1 << 5;
pub(crate) const FI_MR_PROV_KEY: c_int = 1 << 6;

pub(crate) const FI_EP_MSG: c_int = 1;
pub(crate) const FI_THREAD_DOMAIN: c_int = 3;
pub(crate) const FI_WAIT_FD: c_int = 3;
pub(crate) const FI_WAIT_POLLFD: c_int = 6;
pub(crate) const FI_CQ_FORMAT_MSG: c_int = 2;

pub(crate) const FI_SOCKADDR_IN: u32 = 2;
pub(crate) const FI_SOCKADDR_IN6: u32 = 3;

/// Commands of `fi_control`.
pub(crate) const FI_GETWAIT: c_int = 5;
pub(crate) const FI_ENABLE: c_int = 6;

/// Events of an event queue.
pub(crate) const FI_CONNREQ: u32 = 1;
pub(crate) const FI_CONNECTED: u32 = 2;
pub(crate) const FI_SHUTDOWN: u32 = 3;

pub(crate) const FI_EAGAIN: c_int = 11;
pub(crate) const FI_ECANCELED: c_int = 125;
pub(crate) const FI_EAVAIL: c_int = 259;

/// Declares structures as C lays them out, and lists their members for the comparison.
macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident $kind:ident { $($field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            pub(crate) struct $name {
                $(pub(crate) $field: $type,)*
            }
        )*

        /// The structures of this file, for the comparison with the header.
        #[cfg(test)]
        pub(crate) fn layouts() -> Vec<Layout> {
            vec![$(Layout {
                name: stringify!($name),
                size: Size::$kind(size_of::<$name>()),
                members: vec![$(
                    (stringify!($field), std::mem::offset_of!($name, $field), {
                        const fn size<T>(_: fn(&$name) -> &T) -> usize {
                            size_of::<T>()
                        }
                        size(|all| &all.$field)
                    }),
                )*],
            }),*]
        }
    };
}

/// One structure, for the comparison with the header.
#[cfg(test)]
pub(crate) struct Layout {
    /// Its name in C.
    pub(crate) name: &'static str,
    /// What must hold of its size.
    pub(crate) size: Size,
    /// Name, offset and size in bytes of each member. Those that begin with `_` are room.
    pub(crate) members: Vec<(&'static str, usize, usize)>,
}

/// What must hold of a structure's size in bytes.
#[cfg(test)]
#[derive(Clone, Copy)]
pub(crate) enum Size {
    /// It is exactly this in every version.
    Exact(usize),
    /// libfabric makes it: its own is at least as large.
    Prefix(usize),
    /// We make it: libfabric's is at most as large.
    Padded(usize),
}

type Unused = *const c_void;

structures! {
    /// What every object begins with.
    fid Exact {
        fclass: usize,
        context: *mut c_void,
        ops: *const fi_ops,
    }
    fi_ops Prefix {
        size: usize,
        close: unsafe extern "C" fn(*mut fid) -> c_int,
        bind: unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int,
        control: unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int,
    }
    fi_info Prefix {
        next: *mut fi_info,
        caps: u64,
        mode: u64,
        addr_format: u32,
        src_addrlen: usize,
        dest_addrlen: usize,
        src_addr: *mut c_void,
        dest_addr: *mut c_void,
        handle: *mut fid,
        tx_attr: *mut fi_tx_attr,
        rx_attr: *mut fi_rx_attr,
        ep_attr: *mut fi_ep_attr,
        domain_attr: *mut fi_domain_attr,
        fabric_attr: *mut fi_fabric_attr,
    }
    fi_tx_attr Prefix {
        caps: u64,
        mode: u64,
        op_flags: u64,
        msg_order: u64,
        comp_order: u64,
        inject_size: usize,
        size: usize,
    }
    fi_rx_attr Prefix {
        caps: u64,
        mode: u64,
        op_flags: u64,
        msg_order: u64,
        comp_order: u64,
        total_buffered_recv: usize,
        size: usize,
    }
    fi_ep_attr Prefix {
        r#type: c_int,
        protocol: u32,
        protocol_version: u32,
        max_msg_size: usize,
        msg_prefix_size: usize,
    }
    fi_domain_attr Prefix {
        domain: *mut fid_domain,
        name: *mut c_char,
        threading: c_int,
        control_progress: c_int,
        data_progress: c_int,
        resource_mgmt: c_int,
        av_type: c_int,
        mr_mode: c_int,
    }
    fi_fabric_attr Prefix {
        fabric: *mut fid_fabric,
        name: *mut c_char,
        prov_name: *mut c_char,
        prov_version: u32,
        api_version: u32,
    }
    fid_fabric Prefix {
        fid: fid,
        ops: *const fi_ops_fabric,
    }
    fi_ops_fabric Prefix {
        size: usize,
        domain: unsafe extern "C" fn(*mut fid_fabric, *mut fi_info, *mut *mut fid_domain, *mut c_void) -> c_int,
        passive_ep: unsafe extern "C" fn(*mut fid_fabric, *mut fi_info, *mut *mut fid_pep, *mut c_void) -> c_int,
        eq_open: unsafe extern "C" fn(*mut fid_fabric, *mut fi_eq_attr, *mut *mut fid_eq, *mut c_void) -> c_int,
        wait_open: Unused,
        trywait: unsafe extern "C" fn(*mut fid_fabric, *mut *mut fid, c_int) -> c_int,
    }
    fid_domain Prefix {
        fid: fid,
        ops: *const fi_ops_domain,
        mr: *const fi_ops_mr,
    }
    fi_ops_domain Prefix {
        size: usize,
        av_open: Unused,
        cq_open: unsafe extern "C" fn(*mut fid_domain, *mut fi_cq_attr, *mut *mut fid_cq, *mut c_void) -> c_int,
        endpoint: unsafe extern "C" fn(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int,
    }
    fi_ops_mr Prefix {
        size: usize,
        reg: unsafe extern "C" fn(
            *mut fid, *const c_void, usize, u64, u64, u64, u64, *mut *mut fid_mr, *mut c_void,
        ) -> c_int,
    }
    fid_mr Prefix {
        fid: fid,
        mem_desc: *mut c_void,
    }
    fid_pep Prefix {
        fid: fid,
        ops: Unused,
        cm: *const fi_ops_cm,
    }
    fid_ep Prefix {
        fid: fid,
        ops: Unused,
        cm: *const fi_ops_cm,
        msg: *const fi_ops_msg,
    }
    fi_ops_cm Prefix {
        size: usize,
        setname: Unused,
        getname: unsafe extern "C" fn(*mut fid, *mut c_void, *mut usize) -> c_int,
        getpeer: unsafe extern "C" fn(*mut fid_ep, *mut c_void, *mut usize) -> c_int,
        connect: unsafe extern "C" fn(*mut fid_ep, *const c_void, *const c_void, usize) -> c_int,
        listen: unsafe extern "C" fn(*mut fid_pep) -> c_int,
        accept: unsafe extern "C" fn(*mut fid_ep, *const c_void, usize) -> c_int,
        reject: unsafe extern "C" fn(*mut fid_pep, *mut fid, *const c_void, usize) -> c_int,
        shutdown: unsafe extern "C" fn(*mut fid_ep, u64) -> c_int,
    }
    fi_ops_msg Prefix {
        size: usize,
        recv: unsafe extern "C" fn(*mut fid_ep, *mut c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
        recvv: Unused,
        recvmsg: Unused,
        send: unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
        sendv: Unused,
        sendmsg: Unused,
        inject: unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, u64) -> isize,
    }
    fid_eq Prefix {
        fid: fid,
        ops: *const fi_ops_eq,
    }
    fi_ops_eq Prefix {
        size: usize,
        read: unsafe extern "C" fn(*mut fid_eq, *mut u32, *mut c_void, usize, u64) -> isize,
        readerr: unsafe extern "C" fn(*mut fid_eq, *mut fi_eq_err_entry, u64) -> isize,
        write: Unused,
        sread: Unused,
        strerror: unsafe extern "C" fn(*mut fid_eq, c_int, *const c_void, *mut c_char, usize) -> *const c_char,
    }
    fi_eq_attr Padded {
        size: usize,
        flags: u64,
        wait_obj: c_int,
        signaling_vector: c_int,
        wait_set: *mut c_void,
        _more: [u64; 4],
    }
    fi_eq_err_entry Padded {
        fid: *mut fid,
        context: *mut c_void,
        data: u64,
        err: c_int,
        prov_errno: c_int,
        err_data: *mut c_void,
        err_data_size: usize,
        _more: [u64; 4],
    }
    fi_eq_cm_entry Exact {
        fid: *mut fid,
        info: *mut fi_info,
    }
    fid_cq Prefix {
        fid: fid,
        ops: *const fi_ops_cq,
    }
    fi_ops_cq Prefix {
        size: usize,
        read: unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize) -> isize,
        readfrom: Unused,
        readerr: unsafe extern "C" fn(*mut fid_cq, *mut fi_cq_err_entry, u64) -> isize,
        sread: Unused,
        sreadfrom: Unused,
        signal: Unused,
        strerror: unsafe extern "C" fn(*mut fid_cq, c_int, *const c_void, *mut c_char, usize) -> *const c_char,
    }
    fi_cq_attr Padded {
        size: usize,
        flags: u64,
        format: c_int,
        wait_obj: c_int,
        signaling_vector: c_int,
        wait_cond: c_int,
        wait_set: *mut c_void,
        _more: [u64; 4],
    }
    fi_wait_pollfd Exact {
        change_index: u64,
        nfds: usize,
        fd: *mut libc::pollfd,
    }
    fi_cq_msg_entry Exact {
        op_context: *mut c_void,
        flags: u64,
        len: usize,
    }
    fi_cq_err_entry Padded {
        op_context: *mut c_void,
        flags: u64,
        len: usize,
        buf: *mut c_void,
        data: u64,
        tag: u64,
        olen: usize,
        err: c_int,
        prov_errno: c_int,
        err_data: *mut c_void,
        err_data_size: usize,
        _more: [u64; 5],
    }
    /// Room that some providers need for each operation.
    fi_context2 Exact {
        internal: [*mut c_void; 8],
    }
}
