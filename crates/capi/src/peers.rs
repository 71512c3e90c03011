//! Who is at the other end, as plain structures.

use std::ffi::c_char;

use barewire::{Credentials, How, RemotePeer};

/// A process, as the kernel says.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwCredentials {
    /// Its process id; 0 if it cannot be seen from here.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

impl From<Credentials> for BwCredentials {
    fn from(from: Credentials) -> BwCredentials {
        BwCredentials {
            pid: from.pid,
            uid: from.uid,
            gid: from.gid,
        }
    }
}

/// How a peer on another host has proved who it is.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum BwProof {
    /// Not at all.
    Nothing = 0,
    /// By the secret that both hosts have.
    Secret = 1,
    /// By the key of a certificate that this host trusts.
    Certificate = 2,
}

/// A node on another host. Texts that do not fit are cut off.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwRemotePeer {
    /// Its address and port, as the transport has it.
    pub address: [c_char; 128],
    /// With BW_PROOF_CERTIFICATE the name under which this host trusts it.
    pub identity: [c_char; 256],
    /// Transport and provider that carry the link, such as "tcp".
    pub transport: [c_char; 64],
    /// A value of bw_proof.
    pub proof: i32,
    /// 1 if what the link carries is encrypted.
    pub is_encrypted: i32,
    /// Its process, as it says.
    pub pid: u32,
    /// How long it takes to hear from the other node, smoothed; -1 before the first sign of life.
    pub round_trip_ns: i64,
}

impl From<RemotePeer> for BwRemotePeer {
    fn from(from: RemotePeer) -> BwRemotePeer {
        let proof = match from.identity.how {
            How::Nobody => BwProof::Nothing,
            How::Secret => BwProof::Secret,
            How::Certificate => BwProof::Certificate,
        };
        let nanoseconds =
            |time: std::time::Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        BwRemotePeer {
            address: fixed(&from.address),
            identity: fixed(&from.identity.name),
            transport: fixed(&from.transport),
            proof: proof as i32,
            is_encrypted: i32::from(from.is_encrypted),
            pid: from.pid,
            round_trip_ns: from.round_trip.map_or(-1, nanoseconds),
        }
    }
}

/// A text in an array of this length, with a zero byte at its end.
fn fixed<const N: usize>(text: &str) -> [c_char; N] {
    let mut end = text.len().min(N - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut array = [0; N];
    for (to, &from) in array.iter_mut().zip(&text.as_bytes()[..end]) {
        *to = from as c_char;
    }
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_is_cut_between_characters() {
        let bytes = fixed::<4>("ab\u{e9}").map(|c| c as u8);
        assert_eq!(&bytes, b"ab\0\0");
        assert_eq!(&fixed::<4>("ab").map(|c| c as u8), b"ab\0\0");
    }
}
