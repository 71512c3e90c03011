//! What happens; the table is in the module above.

use barewire_des::Event;
use barewire_models::tcp::Segment;
use barewire_proto::evb::{BuilderId, Fragment, Outcome as Closing};
use barewire_units::Instant;

#[derive(Clone, Copy, Debug)]
pub enum BurstEvent {
    Trigger,
    Sent(u16),
    Look(u16),
    Assigned {
        event: u64,
        builder: BuilderId,
        start: Option<Instant>,
    },
    Granted(u16, u64),
    Withdrawn(u16, u64),
    Delivered(u16, Fragment),
    Segment(u32, Segment),
    Ack {
        connection: u32,
        ack: u64,
        edge: u64,
    },
    SenderTick(u32),
    ReceiverTick(u32),
    Timeout(u16),
    Closed(u16, u64, Closing),
    Requested(u16, u32),
}

impl Event for BurstEvent {
    fn digest(&self) -> u64 {
        let of = |kind: u64, who: u64, what: u64| kind | who << 4 | what << 24;
        match *self {
            Self::Trigger => 0,
            Self::Sent(source) => of(1, source.into(), 0),
            Self::Look(source) => of(2, source.into(), 0),
            Self::Assigned { event, builder, .. } => of(3, builder.0.into(), event),
            Self::Granted(source, event) => of(4, source.into(), event),
            Self::Withdrawn(source, event) => of(5, source.into(), event),
            Self::Delivered(builder, it) => {
                of(6, builder.into(), it.event << 16 | u64::from(it.source.0))
            }
            Self::Segment(connection, it) => of(7, connection.into(), it.seq),
            Self::Ack {
                connection, ack, ..
            } => of(8, connection.into(), ack),
            Self::SenderTick(connection) => of(9, connection.into(), 0),
            Self::ReceiverTick(connection) => of(10, connection.into(), 0),
            Self::Timeout(builder) => of(11, builder.into(), 0),
            Self::Closed(builder, event, _) => of(12, builder.into(), event),
            Self::Requested(builder, _) => of(13, builder.into(), 0),
        }
    }
}
