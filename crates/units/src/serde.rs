//! Quantities in files: as text with their unit, `"22.7 us"`, `"1 Gbit/s"`.

use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::{ByteSize, Duration, ParseError, Rate};

/// Reads text as a quantity; the error says what the text should have been.
struct Text<T> {
    kind: &'static str,
    quantity: PhantomData<T>,
}

impl<T: FromStr<Err = ParseError>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with its unit, as text", self.kind)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

macro_rules! as_text {
    ($quantity:ty, $kind:literal) => {
        impl<'de> Deserialize<'de> for $quantity {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Text {
                    kind: $kind,
                    quantity: PhantomData,
                })
            }
        }

        impl Serialize for $quantity {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

as_text!(Duration, "a time");
as_text!(ByteSize, "a size");
as_text!(Rate, "a rate");
