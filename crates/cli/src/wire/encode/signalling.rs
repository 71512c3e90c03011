//! Encoding MSNL messages.

use barewire_formats::msnl::{Body, Message, MessageRepr, Port, Reason};
use barewire_wire::capture::exported;
use clap::{Args, ValueEnum};

use super::common::{Common, Encoded, field};
use crate::wire::error::{Result, WireError};
use crate::wire::kind::Kind;
use crate::wire::store::Store;

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Say {
    /// A call to a service
    Connect,
    /// The call is taken
    Accept,
    /// The call is not taken
    Reject,
    /// The source has left the call
    Close,
    /// The source has no such call
    Closed,
    /// The source has the call open
    Confirm,
    /// Does the destination have the call open?
    Probe,
}

/// Options of `encode msnl`; it carries nothing.
#[derive(Clone, Debug, Args)]
pub struct MessageArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// What it says
    #[arg(long, value_enum, default_value = "connect")]
    say: Say,
    /// Station that sends it
    #[arg(long, value_parser = field::<16>, default_value = "1")]
    source: u32,
    /// Station that it is for
    #[arg(long, value_parser = field::<16>, default_value = "2")]
    destination: u32,
    /// The call, as the source numbers it
    #[arg(long, value_parser = field::<32>, default_value = "1")]
    source_reference: u32,
    /// The call, as the destination numbers it
    #[arg(long, value_parser = field::<32>, default_value = "0")]
    destination_reference: u32,
    /// Connect, accept: the circuit on which the source receives [default: 0x42]
    #[arg(long, value_parser = field::<16>)]
    vci: Option<u32>,
    /// Connect, accept: the channel that the source listens to [default: 0]
    #[arg(long, value_parser = field::<2>)]
    channel: Option<u32>,
    /// Connect: the service that is called [default: 1]
    #[arg(long, value_parser = field::<32>)]
    service: Option<u32>,
    /// Reject, close: why; 0 normal, 1 no service, 2 no resources, 3 restarted, 4 timed out
    /// [default: 0]
    #[arg(long, value_parser = field::<8>)]
    reason: Option<u32>,
}

impl MessageArgs {
    pub(super) fn encode(&self) -> Result<Encoded> {
        self.common.payload(0, "an MSNL message")?;
        self.check_options()?;
        let repr = MessageRepr {
            source: self.source as u16,
            destination: self.destination as u16,
            source_reference: self.source_reference,
            destination_reference: self.destination_reference,
            body: self.body(),
        };
        let mut message = Message::new_unchecked(vec![0; repr.buffer_len()]);
        repr.emit(&mut message);
        let store = Store::Exported(exported::MSNL);
        Ok(Encoded::one(Kind::Msnl, message.into_inner(), store))
    }

    /// Refuses an option that this message has no field for.
    fn check_options(&self) -> Result<()> {
        let has_port = matches!(self.say, Say::Connect | Say::Accept);
        let has_reason = matches!(self.say, Say::Reject | Say::Close);
        for (option, is_given, is_used) in [
            ("--vci", self.vci.is_some(), has_port),
            ("--channel", self.channel.is_some(), has_port),
            (
                "--service",
                self.service.is_some(),
                self.say == Say::Connect,
            ),
            ("--reason", self.reason.is_some(), has_reason),
        ] {
            if is_given && !is_used {
                let say = format!("{:?}", self.say).to_lowercase();
                let text = format!("{option}: a {say} message has no such field");
                return Err(WireError::Unfit(text));
            }
        }
        Ok(())
    }

    fn body(&self) -> Body {
        let reason = Reason::from(self.reason.unwrap_or(0) as u8);
        let receive_at = Port {
            vci: self.vci.unwrap_or(0x42) as u16,
            channel: self.channel.unwrap_or(0) as u8,
        };
        let service = self.service.unwrap_or(1).into();
        match self.say {
            Say::Connect => Body::Connect {
                receive_at,
                service,
            },
            Say::Accept => Body::Accept { receive_at },
            Say::Reject => Body::Reject(reason),
            Say::Close => Body::Close(reason),
            Say::Closed => Body::Closed,
            Say::Confirm => Body::Confirm,
            Say::Probe => Body::Probe,
        }
    }
}
