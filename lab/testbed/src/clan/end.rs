//! An end of a connection over the card: the live network's queues.

use barewire_fabric::{MessageReceiver, MessageSender, RingReceiver, RingSender};
use barewire_models::clan::{Loads, Stores};

/// Sends over the card: the live network's queue.
pub type Sender = RingSender<Stores, Loads>;
/// Receives over the card.
pub type Receiver = RingReceiver<Loads, Stores>;
/// One end of a connection that carries messages.
pub struct End {
    /// Sends to the peer.
    pub tx: MessageSender<Stores, Loads>,
    /// Receives from it.
    pub rx: MessageReceiver<Loads, Stores>,
}

impl End {
    /// Messages of at most `message_bytes_max` over a connection.
    pub fn new((tx, rx): (Sender, Receiver), message_bytes_max: usize) -> Self {
        End {
            tx: MessageSender::new(tx),
            rx: MessageReceiver::new(rx, message_bytes_max),
        }
    }
}
