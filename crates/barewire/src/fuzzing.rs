//! Private items that fuzz targets need.

use crate::messages::control::Message;

/// Takes a control message apart, if it is one, and checks that putting it together again
/// changes nothing.
pub fn control(bytes: &[u8]) {
    if let Some(message) = Message::parse(bytes) {
        let again = message.encode();
        assert_eq!(Message::parse(&again), Some(message));
    }
}
