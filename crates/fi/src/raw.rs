//! What a provider and libfabric know of each other, declared by hand.
//!
//! Programs call a provider through tables of functions in the objects that it makes, by inline functions of the
//! header. So a layout that differs from the header's would call the wrong function. The test in `raw/header.rs`
//! compiles the header and compares each size, each offset and each constant of this file with it.
//!
//! Structures keep libfabric's names, so that they can be looked up. Those that libfabric makes end after the last
//! member that is used. A table of functions says how large it is, and libfabric asks no further.
//! Source: `rdma/*.h` of libfabric 1.17.

#![allow(
    non_camel_case_types,
    reason = "libfabric's names, so that they can be looked up"
)]

#[cfg(test)]
mod header;

use std::ffi::{c_char, c_int, c_void};

use libc::iovec;

/// Declares constants, and lists them for the comparison.
macro_rules! constants {
    ($($name:ident: $type:ty = $value:expr;)*) => {
        $(pub(crate) const $name: $type = $value;)*

        /// The constants of this file, by libfabric's names.
        #[cfg(test)]
        fn constants() -> Vec<(&'static str, u64)> {
            vec![$((stringify!($name), $name as u64)),*]
        }
    };
}

constants! {
    FI_MSG: u64 = 1 << 1;
    FI_RMA: u64 = 1 << 2;
    FI_TAGGED: u64 = 1 << 3;
    FI_ATOMIC: u64 = 1 << 4;
    FI_READ: u64 = 1 << 8;
    FI_WRITE: u64 = 1 << 9;
    FI_RECV: u64 = 1 << 10;
    FI_SEND: u64 = 1 << 11;
    FI_REMOTE_READ: u64 = 1 << 12;
    FI_REMOTE_WRITE: u64 = 1 << 13;
    FI_MULTI_RECV: u64 = 1 << 16;
    FI_REMOTE_CQ_DATA: u64 = 1 << 17;
    FI_MORE: u64 = 1 << 18;
    FI_PEEK: u64 = 1 << 19;
    FI_COMPLETION: u64 = 1 << 24;
    FI_INJECT: u64 = 1 << 25;
    FI_INJECT_COMPLETE: u64 = 1 << 26;
    FI_TRANSMIT_COMPLETE: u64 = 1 << 27;
    FI_DELIVERY_COMPLETE: u64 = 1 << 28;
    FI_MATCH_COMPLETE: u64 = 1 << 31;
    FI_LOCAL_COMM: u64 = 1 << 51;
    FI_REMOTE_COMM: u64 = 1 << 52;
    FI_FETCH_ATOMIC: u64 = 1 << 58;
    FI_COMPARE_ATOMIC: u64 = 1 << 59;
    FI_SOURCE: u64 = 1 << 57;
    FI_DISCARD: u64 = 1 << 58;
    FI_CLAIM: u64 = 1 << 59;
    FI_DIRECTED_RECV: u64 = 1 << 59;
    FI_SELECTIVE_COMPLETION: u64 = 1 << 59;
    FI_ORDER_SAS: u64 = 1 << 8;
    FI_ADDR_UNSPEC: u64 = u64::MAX;
    FI_ADDR_NOTAVAIL: u64 = u64::MAX;
    FI_FORMAT_UNSPEC: u32 = 0;
    FI_ADDR_STR: u32 = 9;
    FI_AV_TABLE: c_int = 2;
    FI_MR_BASIC: c_int = 1;
    FI_MR_VIRT_ADDR: c_int = 1 << 4;
    FI_MR_ALLOCATED: c_int = 1 << 5;
    FI_MR_PROV_KEY: c_int = 1 << 6;
    FI_THREAD_SAFE: c_int = 1;
    FI_THREAD_DOMAIN: c_int = 3;
    FI_PROGRESS_UNSPEC: c_int = 0;
    FI_PROGRESS_MANUAL: c_int = 2;
    FI_RM_ENABLED: c_int = 2;
    FI_EP_UNSPEC: c_int = 0;
    FI_EP_RDM: c_int = 3;
    FI_WAIT_NONE: c_int = 0;
    FI_WAIT_UNSPEC: c_int = 1;
    FI_WAIT_YIELD: c_int = 5;
    FI_CQ_FORMAT_UNSPEC: c_int = 0;
    FI_CQ_FORMAT_CONTEXT: c_int = 1;
    FI_CQ_FORMAT_MSG: c_int = 2;
    FI_CQ_FORMAT_DATA: c_int = 3;
    FI_CQ_FORMAT_TAGGED: c_int = 4;
    FI_ENABLE: c_int = 6;
    FI_OPT_ENDPOINT: c_int = 0;
    FI_OPT_MIN_MULTI_RECV: c_int = 0;
    FI_CLASS_FABRIC: usize = 1;
    FI_CLASS_DOMAIN: usize = 2;
    FI_CLASS_EP: usize = 3;
    FI_CLASS_AV: usize = 11;
    FI_CLASS_MR: usize = 12;
    FI_CLASS_EQ: usize = 13;
    FI_CLASS_CQ: usize = 14;
    FI_CLASS_CNTR: usize = 15;
    FI_MIN: u8 = 0;
    FI_MAX: u8 = 1;
    FI_SUM: u8 = 2;
    FI_PROD: u8 = 3;
    FI_LOR: u8 = 4;
    FI_LAND: u8 = 5;
    FI_BOR: u8 = 6;
    FI_BAND: u8 = 7;
    FI_LXOR: u8 = 8;
    FI_BXOR: u8 = 9;
    FI_ATOMIC_READ: u8 = 10;
    FI_ATOMIC_WRITE: u8 = 11;
    FI_CSWAP: u8 = 12;
    FI_MSWAP: u8 = 18;
    FI_INT8: u8 = 0;
    FI_UINT8: u8 = 1;
    FI_INT16: u8 = 2;
    FI_UINT16: u8 = 3;
    FI_INT32: u8 = 4;
    FI_UINT32: u8 = 5;
    FI_INT64: u8 = 6;
    FI_UINT64: u8 = 7;
    FI_FLOAT: u8 = 8;
    FI_DOUBLE: u8 = 9;
    FI_EAGAIN: c_int = 11;
    FI_ENOMEM: c_int = 12;
    FI_EACCES: c_int = 13;
    FI_EBUSY: c_int = 16;
    FI_EINVAL: c_int = 22;
    FI_ENOSYS: c_int = 38;
    FI_ENOMSG: c_int = 42;
    FI_ENODATA: c_int = 61;
    FI_EMSGSIZE: c_int = 90;
    FI_ENOPROTOOPT: c_int = 92;
    FI_EOPNOTSUPP: c_int = 95;
    FI_ECONNRESET: c_int = 104;
    FI_ETIMEDOUT: c_int = 110;
    FI_EHOSTUNREACH: c_int = 113;
    FI_ECANCELED: c_int = 125;
    FI_EOTHER: c_int = 256;
    FI_ETOOSMALL: c_int = 257;
    FI_EOPBADSTATE: c_int = 258;
    FI_EAVAIL: c_int = 259;
    FI_ENOCQ: c_int = 263;
    FI_ETRUNC: c_int = 265;
    FI_ENOKEY: c_int = 266;
    FI_ENOAV: c_int = 267;
}

/// The interface that this provider was written for.
pub(crate) const VERSION: u32 = 1 << 16 | 17;
/// What libfabric suggests for tags whose bits have no meaning to it.
pub(crate) const FI_TAG_GENERIC: u64 = 0xAAAA_AAAA_AAAA_AAAA;

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
        fn layouts() -> Vec<Layout> {
            vec![$(Layout {
                name: stringify!($name),
                size: Size::$kind(size_of::<$name>()),
                members: vec![$(
                    (stringify!($field), std::mem::offset_of!($name, $field)),
                )*],
            }),*]
        }
    };
}

/// One structure, for the comparison with the header.
#[cfg(test)]
struct Layout {
    name: &'static str,
    size: Size,
    /// Name and offset in bytes of each member.
    members: Vec<(&'static str, usize)>,
}

/// What must hold of a structure's size in bytes.
#[cfg(test)]
#[derive(Clone, Copy)]
enum Size {
    /// It is exactly this.
    Exact(usize),
    /// libfabric makes it: its own is at least as large.
    Prefix(usize),
}

/// A function that this provider has or does not have; its type is in the file that has it.
pub(crate) type Function = *const c_void;

structures! {
    fi_ops Exact {
        size: usize,
        close: Function,
        bind: Function,
        control: Function,
        ops_open: Function,
        tostr: Function,
        ops_set: Function,
    }
    fi_ops_fabric Exact {
        size: usize,
        domain: Function,
        passive_ep: Function,
        eq_open: Function,
        wait_open: Function,
        trywait: Function,
        domain2: Function,
    }
    fi_ops_domain Exact {
        size: usize,
        av_open: Function,
        cq_open: Function,
        endpoint: Function,
        scalable_ep: Function,
        cntr_open: Function,
        poll_open: Function,
        stx_ctx: Function,
        srx_ctx: Function,
        query_atomic: Function,
        query_collective: Function,
        endpoint2: Function,
    }
    fi_ops_mr Exact {
        size: usize,
        reg: Function,
        regv: Function,
        regattr: Function,
    }
    fi_ops_av Exact {
        size: usize,
        insert: Function,
        insertsvc: Function,
        insertsym: Function,
        remove: Function,
        lookup: Function,
        straddr: Function,
        av_set: Function,
    }
    fi_ops_ep Exact {
        size: usize,
        cancel: Function,
        getopt: Function,
        setopt: Function,
        tx_ctx: Function,
        rx_ctx: Function,
        rx_size_left: Function,
        tx_size_left: Function,
    }
    fi_ops_cm Exact {
        size: usize,
        setname: Function,
        getname: Function,
        getpeer: Function,
        connect: Function,
        listen: Function,
        accept: Function,
        reject: Function,
        shutdown: Function,
        join: Function,
    }
    fi_ops_msg Exact {
        size: usize,
        recv: Function,
        recvv: Function,
        recvmsg: Function,
        send: Function,
        sendv: Function,
        sendmsg: Function,
        inject: Function,
        senddata: Function,
        injectdata: Function,
    }
    fi_ops_tagged Exact {
        size: usize,
        recv: Function,
        recvv: Function,
        recvmsg: Function,
        send: Function,
        sendv: Function,
        sendmsg: Function,
        inject: Function,
        senddata: Function,
        injectdata: Function,
    }
    fi_ops_rma Exact {
        size: usize,
        read: Function,
        readv: Function,
        readmsg: Function,
        write: Function,
        writev: Function,
        writemsg: Function,
        inject: Function,
        writedata: Function,
        injectdata: Function,
    }
    fi_ops_atomic Exact {
        size: usize,
        write: Function,
        writev: Function,
        writemsg: Function,
        inject: Function,
        readwrite: Function,
        readwritev: Function,
        readwritemsg: Function,
        compwrite: Function,
        compwritev: Function,
        compwritemsg: Function,
        writevalid: Function,
        readwritevalid: Function,
        compwritevalid: Function,
    }
    fi_ops_cq Exact {
        size: usize,
        read: Function,
        readfrom: Function,
        readerr: Function,
        sread: Function,
        sreadfrom: Function,
        signal: Function,
        strerror: Function,
    }
    fi_ops_cntr Exact {
        size: usize,
        read: Function,
        readerr: Function,
        add: Function,
        set: Function,
        wait: Function,
        adderr: Function,
        seterr: Function,
    }
    fi_ops_eq Exact {
        size: usize,
        read: Function,
        readerr: Function,
        write: Function,
        sread: Function,
        strerror: Function,
    }
    fid Exact {
        fclass: usize,
        context: *mut c_void,
        ops: *const fi_ops,
    }
    fid_fabric Exact {
        fid: fid,
        ops: *const fi_ops_fabric,
        api_version: u32,
    }
    fid_domain Exact {
        fid: fid,
        ops: *const fi_ops_domain,
        mr: *const fi_ops_mr,
    }
    fid_av Exact {
        fid: fid,
        ops: *const fi_ops_av,
    }
    fid_mr Exact {
        fid: fid,
        mem_desc: *mut c_void,
        key: u64,
    }
    fid_cq Exact {
        fid: fid,
        ops: *const fi_ops_cq,
    }
    fid_cntr Exact {
        fid: fid,
        ops: *const fi_ops_cntr,
    }
    fid_eq Exact {
        fid: fid,
        ops: *const fi_ops_eq,
    }
    fid_ep Exact {
        fid: fid,
        ops: *const fi_ops_ep,
        cm: *const fi_ops_cm,
        msg: *const fi_ops_msg,
        rma: *const fi_ops_rma,
        tagged: *const fi_ops_tagged,
        atomic: *const fi_ops_atomic,
        collective: *const c_void,
    }
    fi_provider Exact {
        version: u32,
        fi_version: u32,
        context: [*mut c_void; 4],
        name: *const c_char,
        getinfo: Function,
        fabric: Function,
        cleanup: Function,
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
        iov_limit: usize,
        rma_iov_limit: usize,
    }
    fi_rx_attr Prefix {
        caps: u64,
        mode: u64,
        op_flags: u64,
        msg_order: u64,
        comp_order: u64,
        total_buffered_recv: usize,
        size: usize,
        iov_limit: usize,
    }
    fi_ep_attr Prefix {
        r#type: c_int,
        protocol: u32,
        protocol_version: u32,
        max_msg_size: usize,
        msg_prefix_size: usize,
        max_order_raw_size: usize,
        max_order_war_size: usize,
        max_order_waw_size: usize,
        mem_tag_format: u64,
        tx_ctx_cnt: usize,
        rx_ctx_cnt: usize,
        auth_key_size: usize,
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
        mr_key_size: usize,
        cq_data_size: usize,
        cq_cnt: usize,
        ep_cnt: usize,
        tx_ctx_cnt: usize,
        rx_ctx_cnt: usize,
        max_ep_tx_ctx: usize,
        max_ep_rx_ctx: usize,
        max_ep_stx_ctx: usize,
        max_ep_srx_ctx: usize,
        cntr_cnt: usize,
        mr_iov_limit: usize,
        caps: u64,
        mode: u64,
    }
    fi_fabric_attr Prefix {
        fabric: *mut fid_fabric,
        name: *mut c_char,
        prov_name: *mut c_char,
        prov_version: u32,
        api_version: u32,
    }
    fi_av_attr Prefix {
        r#type: c_int,
        rx_ctx_bits: c_int,
        count: usize,
        ep_per_node: usize,
        name: *const c_char,
        map_addr: *mut c_void,
        flags: u64,
    }
    fi_mr_attr Prefix {
        mr_iov: *const iovec,
        iov_count: usize,
        access: u64,
        offset: u64,
        requested_key: u64,
        context: *mut c_void,
    }
    fi_cq_attr Prefix {
        size: usize,
        flags: u64,
        format: c_int,
        wait_obj: c_int,
    }
    fi_cntr_attr Prefix {
        events: c_int,
        wait_obj: c_int,
    }
    fi_cq_tagged_entry Exact {
        op_context: *mut c_void,
        flags: u64,
        len: usize,
        buf: *mut c_void,
        data: u64,
        tag: u64,
    }
    fi_cq_err_entry Exact {
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
    }
    fi_msg Exact {
        msg_iov: *const iovec,
        desc: *mut *mut c_void,
        iov_count: usize,
        addr: u64,
        context: *mut c_void,
        data: u64,
    }
    fi_ioc Exact {
        addr: *mut c_void,
        count: usize,
    }
    fi_rma_ioc Exact {
        addr: u64,
        count: usize,
        key: u64,
    }
    fi_atomic_attr Exact {
        count: usize,
        size: usize,
    }
    fi_msg_atomic Exact {
        msg_iov: *const fi_ioc,
        desc: *mut *mut c_void,
        iov_count: usize,
        addr: u64,
        rma_iov: *const fi_rma_ioc,
        rma_iov_count: usize,
        datatype: u32,
        op: u32,
        context: *mut c_void,
        data: u64,
    }
    fi_rma_iov Exact {
        addr: u64,
        len: usize,
        key: u64,
    }
    fi_msg_rma Exact {
        msg_iov: *const iovec,
        desc: *mut *mut c_void,
        iov_count: usize,
        addr: u64,
        rma_iov: *const fi_rma_iov,
        rma_iov_count: usize,
        context: *mut c_void,
        data: u64,
    }
    fi_msg_tagged Exact {
        msg_iov: *const iovec,
        desc: *mut *mut c_void,
        iov_count: usize,
        addr: u64,
        tag: u64,
        ignore: u64,
        context: *mut c_void,
        data: u64,
    }
}
