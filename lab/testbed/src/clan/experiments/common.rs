//! What the bounds of the experiments' inputs have in common.

use std::ops::RangeInclusive;

use barewire_units::{ByteSize, Duration};

use crate::clan::parameters::Parameters;
use crate::error::SystemError;
use crate::experiment::Setting;
use crate::refuse::{AtMost, Inputs};

/// Values of a list.
pub(super) const LIST: AtMost = AtMost(1000);
/// Requests a second that can be offered: few enough to wait for some hundred of them, and
/// more than anything here can do.
pub(super) const OFFERED: RangeInclusive<f64> = 100.0..=1e7;
/// The longest transfer.
pub(super) const MIB: ByteSize = ByteSize::from_mib(1);
/// How long a server is measured.
pub(super) const SERVED: RangeInclusive<Duration> = Duration::from_us(1)..=Duration::from_ms(1000);

/// Inputs and parameters; the inputs are within their own bounds.
pub(super) fn read<T: Inputs>(setting: &Setting<'_>) -> Result<(T, Parameters), SystemError> {
    let inputs = setting.checked_inputs()?;
    Ok((inputs, Parameters::parse(setting.parameters)?))
}
