//! The native module of the Python package `barewire`, `barewire._native`. What users import is in `barewire/`.
//!
//! Every call that waits gives the interpreter's lock back, and looks at signals many times a second. Of objects that one
//! thread at a time may use, another thread gets an exception.
//!
//! ```layers
//! errors: errors as exceptions
//! calls: objects that are closed, waits, bytes from and to Python
//! view: memory in place
//! ids: numbers that events name things by
//! peer: who is at the other end
//! config: settings
//! in_place: messages in place
//! messages: sending and receiving
//! stream: byte streams
//! aperture: apertures and tripwires
//! connection: connections and their halves
//! listening: names, ports, requests
//! event: the events of a node
//! node: nodes
//! counters: what nodes count
//! lab: the laboratory
//! kernel: its event kernel
//! recording: files of events
//! ```
#![deny(unsafe_code)]

mod aperture;
mod calls;
mod config;
mod connection;
mod counters;
mod errors;
mod event;
mod ids;
mod in_place;
mod kernel;
mod lab;
mod listening;
mod messages;
mod node;
mod peer;
mod recording;
mod stream;
#[allow(unsafe_code)]
mod view;

/// The network, below the package `barewire`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::aperture::{Aperture, RemoteAperture, Tripwire};
    #[pymodule_export]
    use crate::config::{Budget, Hosts};
    #[pymodule_export]
    use crate::connection::{Connection, LongMessage, Receiver, Sender};
    #[pymodule_export]
    use crate::counters::{NodeCounters, counters};
    #[pymodule_export]
    use crate::event::{
        Closed, Completion, ConnectFailed, Connected, Granted, OutOfBand, Ready, TripwireFired,
    };
    #[pymodule_export]
    use crate::in_place::{Message, Reservation};
    #[pymodule_export]
    use crate::kernel::Kernel;
    #[pymodule_export]
    use crate::lab::{
        lab_plans, lab_published, lab_reproduce, lab_run, lab_show, lab_sweep, lab_sweep_system,
    };
    #[pymodule_export]
    use crate::listening::{Listener, Port, Request};
    #[pymodule_export]
    use crate::node::{Connecting, Node};
    #[pymodule_export]
    use crate::peer::{Credentials, Peer};
    #[pymodule_export]
    use crate::recording::RecordingFile;
    #[pymodule_export]
    use crate::stream::RawStream;
}
