//! Parameters of models: a struct whose fields are written once, and can be read from a table of
//! TOML and walked.
//!
//! ```
//! use barewire_models::parameters::{Parameters, Quantity};
//! use barewire_units::Duration;
//!
//! barewire_models::parameters! {
//!     /// What a driver costs.
//!     #[derive(Copy, PartialEq, Eq)]
//!     pub struct Costs {
//!         /// A call.
//!         pub call: Duration,
//!         /// A cell.
//!         pub cell: Duration,
//!     }
//! }
//!
//! let mut costs = Costs { call: Duration::from_us(3), cell: Duration::from_us(5) };
//! costs.times_mut(&mut |time| *time = *time * 2);
//! let mut seen = Vec::new();
//! costs.visit("driver", &mut |key, found| seen.push((key.to_owned(), found)));
//! assert_eq!(seen[1], ("driver.cell".to_owned(), Quantity::Time(Duration::from_us(10))));
//! ```

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Display};
use std::ops::Mul;

use barewire_units::{ByteSize, Duration, Rate};
use serde::Deserialize;

/// Clock cycles that an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Cycles(pub u64);

impl Display for Cycles {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} cycles", self.0)
    }
}

impl Mul<Cycles> for Duration {
    type Output = Self;

    fn mul(self, cycles: Cycles) -> Self {
        self * cycles.0
    }
}

/// A parameter's value, as a check of ranges sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A time.
    Time(Duration),
    /// A rate.
    Rate(Rate),
    /// A size.
    Size(ByteSize),
    /// Clock cycles.
    Cycles(Cycles),
    /// A count, or a name.
    Other,
}

/// What has parameters in it, or is one.
pub trait Parameters {
    /// Shows each parameter with its key; `key` is this one's own.
    fn visit(&self, key: &str, see: &mut dyn FnMut(&str, Quantity));

    /// Changes each time.
    fn times_mut(&mut self, change: &mut dyn FnMut(&mut Duration));

    /// What `wrong` says of the first parameter that it says anything of; `key` is as in
    /// [`Parameters::visit`].
    fn first_wrong(
        &self,
        key: &str,
        wrong: &dyn Fn(&str, Quantity) -> Option<String>,
    ) -> Option<String> {
        let mut first = None;
        self.visit(key, &mut |key, found| {
            if first.is_none() {
                first = wrong(key, found);
            }
        });
        first
    }
}

impl Parameters for Duration {
    fn visit(&self, key: &str, see: &mut dyn FnMut(&str, Quantity)) {
        see(key, Quantity::Time(*self));
    }

    fn times_mut(&mut self, change: &mut dyn FnMut(&mut Duration)) {
        change(self);
    }
}

/// Parameters that are one value, but no time.
macro_rules! no_times {
    ($($kind:ty: $found:ident => $quantity:expr),* $(,)?) => {$(
        impl Parameters for $kind {
            fn visit(&self, key: &str, see: &mut dyn FnMut(&str, Quantity)) {
                let $found = self;
                see(key, $quantity);
            }

            fn times_mut(&mut self, _change: &mut dyn FnMut(&mut Duration)) {}
        }
    )*};
}

no_times! {
    Rate: rate => Quantity::Rate(*rate),
    ByteSize: size => Quantity::Size(*size),
    Cycles: cycles => Quantity::Cycles(*cycles),
    u8: _count => Quantity::Other,
    u16: _count => Quantity::Other,
    u32: _count => Quantity::Other,
    u64: _count => Quantity::Other,
    usize: _count => Quantity::Other,
    bool: _choice => Quantity::Other,
}

impl<T: Parameters> Parameters for Vec<T> {
    fn visit(&self, key: &str, see: &mut dyn FnMut(&str, Quantity)) {
        self.iter().for_each(|value| value.visit(key, see));
    }

    fn times_mut(&mut self, change: &mut dyn FnMut(&mut Duration)) {
        self.iter_mut().for_each(|value| value.times_mut(change));
    }
}

/// Tables by names, which are those of an enum in lower case.
impl<K: Debug, T: Parameters> Parameters for BTreeMap<K, T> {
    fn visit(&self, key: &str, see: &mut dyn FnMut(&str, Quantity)) {
        for (name, table) in self {
            let name = format!("{name:?}").to_lowercase();
            table.visit(&key_in(key, &name), see);
        }
    }

    fn times_mut(&mut self, change: &mut dyn FnMut(&mut Duration)) {
        self.values_mut().for_each(|table| table.times_mut(change));
    }
}

/// Makes types that are no quantity, such as a choice of names, [`Parameters`].
#[macro_export]
macro_rules! choices {
    ($($kind:ty),* $(,)?) => {$(
        impl $crate::parameters::Parameters for $kind {
            fn visit(
                &self,
                key: &str,
                see: &mut dyn FnMut(&str, $crate::parameters::Quantity),
            ) {
                see(key, $crate::parameters::Quantity::Other);
            }

            fn times_mut(&mut self, _change: &mut dyn FnMut(&mut ::barewire_units::Duration)) {}
        }
    )*};
}

/// Declares a struct of [`Parameters`] that `serde` reads from a table without unknown keys.
#[macro_export]
macro_rules! parameters {
    ($(#[$about:meta])* $shown:vis struct $name:ident {
        $($(#[$about_field:meta])* $shown_field:vis $field:ident: $kind:ty),* $(,)?
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, ::serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        $shown struct $name {
            $($(#[$about_field])* $shown_field $field: $kind,)*
        }

        impl $crate::parameters::Parameters for $name {
            fn visit(
                &self,
                key: &str,
                see: &mut dyn FnMut(&str, $crate::parameters::Quantity),
            ) {
                $($crate::parameters::Parameters::visit(
                    &self.$field,
                    &$crate::parameters::key_in(key, stringify!($field)),
                    see,
                );)*
            }

            fn times_mut(&mut self, change: &mut dyn FnMut(&mut ::barewire_units::Duration)) {
                $($crate::parameters::Parameters::times_mut(&mut self.$field, change);)*
            }
        }
    };
}

/// The key of a field in the table `key`, which is empty for the whole file.
#[doc(hidden)]
#[must_use]
pub fn key_in(key: &str, field: &str) -> String {
    match key {
        "" => field.to_owned(),
        key => format!("{key}.{field}"),
    }
}
