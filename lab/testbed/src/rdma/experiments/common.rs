//! What the bounds of the experiments' inputs have in common.

use std::ops::RangeInclusive;

use barewire_fabric::frame::ring_bytes_valid;
use barewire_units::{ByteSize, Duration};

use crate::error::SystemError;
use crate::experiment::Setting;
use crate::figures::bytes;
use crate::rdma::parameters::Parameters;
use crate::rdma::program::STAMP_BYTES;
use crate::rdma::runs::{Shape, Times};
use crate::refuse::{AtMost, Inputs, at_least, wrong};

/// Values of a list.
pub(super) const LIST: AtMost = AtMost(32);
/// A message has a stamp.
pub(super) const MESSAGE: RangeInclusive<ByteSize> =
    ByteSize::from_bytes(STAMP_BYTES as u64)..=ByteSize::from_mib(1);
pub(super) const JITTER: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_ms(100);
pub(super) const TIME: RangeInclusive<Duration> = Duration::from_us(1)..=Duration::from_ms(100);

/// Inputs and parameters; the inputs are within their own bounds.
pub(super) fn read<T: Inputs>(setting: &Setting<'_>) -> Result<(T, Parameters), SystemError> {
    let inputs = setting.checked_inputs()?;
    Ok((inputs, Parameters::parse(setting.parameters)?))
}

/// A ring and the messages over it.
pub(super) fn shape(ring: ByteSize, message: ByteSize) -> Result<Shape, SystemError> {
    if !ring_bytes_valid(bytes(ring)) || ring > ByteSize::from_mib(64) {
        return Err(wrong("ring", ring, "a power of two from 1 KiB to 64 MiB"));
    }
    Ok(Shape {
        ring_bytes: bytes(ring),
        message_bytes: bytes(message),
    })
}

/// Senders begin before anything is counted.
pub(super) fn times(
    jitter: Duration,
    warm_up: Duration,
    time: Duration,
) -> Result<Times, SystemError> {
    at_least("warm_up", warm_up, jitter)?;
    Ok(Times {
        jitter,
        warm_up,
        time,
    })
}
