//! The kinds of handles, and what each stands for.

use std::ptr::addr_of_mut;
use std::sync::Arc;

use barewire::{
    Aperture, Connection, Listener, Node, Port, Receiver, RemoteAperture, Request, Reservation,
    Sender, SharedSender, Stream, StreamReader, StreamWriter, Tripwire,
};

use crate::handles::{Handle, Object, Table};
use crate::kept::Kept;

/// A node: a place on the network, with an event queue. All zero: none.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwNode {
    /// For the library only.
    pub id: u64,
}

/// A name that is listened to.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwListener {
    /// For the library only.
    pub id: u64,
}

/// An address at which nodes of other hosts reach a node.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwPort {
    /// For the library only.
    pub id: u64,
}

/// A request to connect, which wants an answer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwRequest {
    /// For the library only.
    pub id: u64,
}

/// A connection: messages both ways.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwConnection {
    /// For the library only.
    pub id: u64,
}

/// The sending half of a connection.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwSender {
    /// For the library only.
    pub id: u64,
}

/// The receiving half of a connection.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwReceiver {
    /// For the library only.
    pub id: u64,
}

/// A sender for many threads.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwSharedSender {
    /// For the library only.
    pub id: u64,
}

/// A byte stream both ways.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwStream {
    /// For the library only.
    pub id: u64,
}

/// The reading direction of a stream.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwStreamReader {
    /// For the library only.
    pub id: u64,
}

/// The writing direction of a stream.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwStreamWriter {
    /// For the library only.
    pub id: u64,
}

/// Memory of this process that peers may be granted.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwAperture {
    /// For the library only.
    pub id: u64,
}

/// A peer's memory, as far as it has granted it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwRemoteAperture {
    /// For the library only.
    pub id: u64,
}

/// A trap on a range of an aperture.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwTripwire {
    /// For the library only.
    pub id: u64,
}

/// A node, and what its last events point to.
pub(crate) struct NodeObject {
    pub node: Node,
    pub events: Vec<barewire::Event>,
    pub kept: Kept,
}

/// An aperture of ours: clones of the handle share it.
pub(crate) struct ApertureObject(pub Arc<Aperture>);

/// What sends messages, and the room that is reserved for one.
pub(crate) struct Sending<S> {
    /// Borrows `sender` until the same thread commits or abandons it. Meanwhile the handle is held
    /// ([`crate::handles::InUse::hold`]): nobody touches `sender`, which stays where it is.
    room: Option<Reservation<'static>>,
    pub sender: S,
}

impl<S> Sending<S> {
    pub fn new(sender: S) -> Sending<S> {
        Sending { room: None, sender }
    }

    /// Where the room is kept.
    ///
    /// # Safety
    /// `this` leads to one that nobody else uses.
    pub unsafe fn room<'a>(this: *mut Self) -> &'a mut Option<Reservation<'static>> {
        // SAFETY: the caller promises it. No reference to the whole is made, of which the room may borrow the rest.
        unsafe { &mut *addr_of_mut!((*this).room) }
    }
}

/// Says of a handle what it stands for.
macro_rules! handle {
    ($handle:ident, $object:ty, $kind:expr, $name:expr $(, $let_go:expr)?) => {
        impl Handle for $handle {
            type Object = $object;
            #[inline]
            fn number(self) -> u64 {
                self.id
            }
            fn from_number(id: u64) -> $handle {
                $handle { id }
            }
        }

        impl Object for $object {
            const KIND: u64 = $kind;
            const NAME: &'static str = $name;
            #[inline]
            fn table() -> &'static Table<$object> {
                static TABLE: Table<$object> = Table::new();
                &TABLE
            }
            $(
            /// # Safety
            /// As the trait says.
            unsafe fn let_go(this: *mut Self) {
                // SAFETY: the caller promises that nobody else uses it.
                unsafe { $let_go(this).take() };
            })?
        }
    };
}

handle!(BwNode, NodeObject, 1, "node");
handle!(BwListener, Listener, 2, "listener");
handle!(BwPort, Port, 3, "port");
handle!(BwRequest, Request, 4, "request");
handle!(
    BwConnection,
    Sending<Connection>,
    5,
    "connection",
    Sending::room
);
handle!(BwSender, Sending<Sender>, 6, "sender", Sending::room);
handle!(BwReceiver, Receiver, 7, "receiver");
handle!(BwSharedSender, SharedSender, 8, "shared sender");
handle!(BwStream, Stream, 9, "stream");
handle!(BwStreamReader, StreamReader, 10, "stream reader");
handle!(BwStreamWriter, StreamWriter, 11, "stream writer");
handle!(BwAperture, ApertureObject, 12, "aperture");
handle!(BwRemoteAperture, RemoteAperture, 13, "remote aperture");
handle!(BwTripwire, Tripwire, 14, "tripwire");
