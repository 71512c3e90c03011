//! Kernel shaping: what a source sends to each builder goes through a class of its own in an HTB
//! queue of the interface that it leaves by.
//!
//! | file | what it does |
//! |---|---|
//! | `htb.rs` | queues and classes of an interface: set, read, removed |
//! | `owner.rs` | whose they are; removed when their owner has ended, in whatever way |
//! | `check.rs` | the rate that comes out, measured in the first seconds |
//!
//! A connection is put into its class by the priority of its socket, which HTB takes for a class
//! if it is one: no filter looks at packets, nothing else that leaves by the interface is in a
//! class or shaped, and nothing stays when the socket goes.
//!
//! | what is set | how |
//! |---|---|
//! | rate, ceiling | `flow.rate`, both: no class borrows |
//! | burst | `flow.burst`; at least what the rate sends in [`LATENESS`], or a late timer costs rate |
//! | quantum | a packet of the interface: classes of one rate take turns by the packet |
//! | what counts | the packet with its Ethernet header: 1448 of 1514 bytes are payload at MTU 1500 |

mod check;
mod error;
mod htb;
mod owner;

use std::net::{IpAddr, TcpStream};

use barewire_sys::tcp::set_priority;
use barewire_units::{Duration, Rate};

pub use error::ShapeError;
pub use htb::{Class, ClassId, Interface, Taken};
pub use owner::sweep;

use check::Watch;
use error::system;
use htb::HANDLE;
use owner::{Claim, Guard, Turn};

/// How late the kernel may come to send the next packet.
pub const LATENESS: Duration = Duration::from_us(200);

/// How the kernel shapes, of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shaping {
    /// Of each source to each builder.
    pub rate: Rate,
    /// What may go at once.
    pub burst_bytes: u64,
}

/// What shapes a source. Dropped, it removes what nobody needs any more.
#[derive(Debug)]
pub struct Shaper {
    shaping: Shaping,
    run: String,
    source: u16,
    builders: u16,
    interfaces: Vec<Used>,
    /// Removes everything when this process is killed.
    _guard: Guard,
}

#[derive(Debug)]
struct Used {
    interface: Interface,
    claim: Claim,
    watch: Watch,
}

impl Shaper {
    /// For a source of a run. What runs that were killed have left is removed. To be called
    /// before the process has threads or connections.
    ///
    /// # Errors
    ///
    /// No process can be made.
    pub fn new(
        shaping: Shaping,
        run: &str,
        source: u16,
        builders: u16,
    ) -> Result<Self, ShapeError> {
        let guard = Guard::start().map_err(system("make the process that removes queues"))?;
        // Without the right to remove what is left, nothing can be added either: told then.
        let _ = sweep();
        Ok(Self {
            shaping,
            run: run.to_owned(),
            source,
            builders,
            interfaces: Vec::new(),
            _guard: guard,
        })
    }

    /// Shapes a connection to a builder from now on.
    ///
    /// # Errors
    ///
    /// Not allowed, not able, or the interface is somebody else's.
    pub fn add(&mut self, builder: u16, stream: &TcpStream) -> Result<(), ShapeError> {
        let peer = stream
            .peer_addr()
            .map_err(system("ask for a peer's address"))?;
        let shaping = self.shaping;
        let pair = u32::from(self.source) * u32::from(self.builders) + u32::from(builder);
        // 0 is the queue itself; the configuration has made sure that all pairs have a number.
        let id = ClassId::ours(pair as u16 + 1);
        let at = self.interface_to(peer.ip())?;
        let used = &mut self.interfaces[at];
        let class = Class {
            rate: shaping.rate,
            burst_bytes: shaping.burst_bytes,
        };
        used.interface.set_class(id, class)?;
        set_priority(stream, id.number()).map_err(system("put a connection into its class"))?;
        used.watch.add(id);
        Ok(())
    }

    /// The interface by which one sends to `peer`, with our queue on it.
    fn interface_to(&mut self, peer: IpAddr) -> Result<usize, ShapeError> {
        let mut interface = Interface::to(peer)?;
        let known = |it: &Used| it.interface.index() == interface.index();
        if let Some(at) = self.interfaces.iter().position(known) {
            return Ok(at);
        }
        let turn = Turn::take()?;
        let claim = Claim::make(&interface, &self.run, self.source)?;
        interface.set_root(HANDLE, None)?;
        drop(turn);
        let watch = Watch::start(Interface::to(peer)?, self.source, self.shaping.rate);
        self.interfaces.push(Used {
            interface,
            claim,
            watch,
        });
        Ok(self.interfaces.len() - 1)
    }
}

impl Drop for Shaper {
    fn drop(&mut self) {
        for used in self.interfaces.drain(..) {
            // Tells what it has measured, while the class is still there.
            drop(used.watch);
            drop(used.claim);
        }
        if let Err(error) = sweep() {
            eprintln!("source {}: queues are left: {error}", self.source);
        }
    }
}
