//! The two ends of a TCP connection, segment by segment: without bytes, headers or a network.
//! Event builder and Cambridge Backbone both run them.

mod receiver;
mod sender;

pub use receiver::{Receiver, ReceiverConfig};
pub use sender::{Segment, Sender, SenderConfig, SenderStats};
