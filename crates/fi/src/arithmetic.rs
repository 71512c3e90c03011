//! What atomic operations do with the elements of memory.

use crate::raw;

/// Bytes that one operation may change.
pub(crate) const ATOMIC_BYTES_MAX: usize = 1024;

/// Which operation on elements of which type, by libfabric's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) datatype: u8,
    pub(crate) op: u8,
}

/// What a call for an atomic operation brings and wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// It changes the memory.
    Write,
    /// It also wants what was there before.
    Fetch,
    /// It also brings elements to compare with.
    Compare,
}

macro_rules! of_integers {
    ($($name:ident $type:ty;)*) => {$(
        fn $name(op: u8, old: $type, with: $type, compare: $type) -> Option<$type> {
            Some(match op {
                raw::FI_MIN => old.min(with),
                raw::FI_MAX => old.max(with),
                raw::FI_SUM => old.wrapping_add(with),
                raw::FI_PROD => old.wrapping_mul(with),
                raw::FI_LOR => <$type>::from(old != 0 || with != 0),
                raw::FI_LAND => <$type>::from(old != 0 && with != 0),
                raw::FI_LXOR => <$type>::from((old != 0) != (with != 0)),
                raw::FI_BOR => old | with,
                raw::FI_BAND => old & with,
                raw::FI_BXOR => old ^ with,
                raw::FI_ATOMIC_READ => old,
                raw::FI_ATOMIC_WRITE => with,
                raw::FI_CSWAP if old == compare => with,
                raw::FI_CSWAP => old,
                raw::FI_MSWAP => with & compare | old & !compare,
                _ => return None,
            })
        }
    )*};
}

macro_rules! of_floats {
    ($($name:ident $type:ty;)*) => {$(
        fn $name(op: u8, old: $type, with: $type, compare: $type) -> Option<$type> {
            Some(match op {
                raw::FI_MIN => old.min(with),
                raw::FI_MAX => old.max(with),
                raw::FI_SUM => old + with,
                raw::FI_PROD => old * with,
                raw::FI_ATOMIC_READ => old,
                raw::FI_ATOMIC_WRITE => with,
                raw::FI_CSWAP if old.to_bits() == compare.to_bits() => with,
                raw::FI_CSWAP => old,
                _ => return None,
            })
        }
    )*};
}

of_integers! {
    of_i8 i8; of_u8 u8; of_i16 i16; of_u16 u16; of_i32 i32; of_u32 u32; of_i64 i64; of_u64 u64;
}
of_floats! { of_f32 f32; of_f64 f64; }

/// Changes each element of `memory` with those of `with` and `compare`. `None` if there is no such operation.
fn each<const N: usize>(
    memory: &mut [u8],
    with: &[u8],
    compare: &[u8],
    one: impl Fn([u8; N], [u8; N], [u8; N]) -> Option<[u8; N]>,
) -> Option<()> {
    let others = with.chunks_exact(N).zip(compare.chunks_exact(N));
    for (element, (with, compare)) in memory.chunks_exact_mut(N).zip(others) {
        let old = (&*element).try_into().ok()?;
        let new = one(old, with.try_into().ok()?, compare.try_into().ok()?)?;
        element.copy_from_slice(&new);
    }
    Some(())
}

impl Kind {
    /// By libfabric's numbers.
    pub(crate) fn new(datatype: u32, op: u32) -> Option<Kind> {
        let (datatype, op) = (u8::try_from(datatype).ok()?, u8::try_from(op).ok()?);
        Some(Kind { datatype, op })
    }

    /// The bytes of an element.
    pub(crate) fn element_bytes(self) -> Option<usize> {
        match self.datatype {
            raw::FI_INT8 | raw::FI_UINT8 => Some(1),
            raw::FI_INT16 | raw::FI_UINT16 => Some(2),
            raw::FI_INT32 | raw::FI_UINT32 | raw::FI_FLOAT => Some(4),
            raw::FI_INT64 | raw::FI_UINT64 | raw::FI_DOUBLE => Some(8),
            _ => None,
        }
    }

    /// How many elements one call of this form may have, if there is such an operation.
    pub(crate) fn count_max(self, form: Form) -> Option<usize> {
        let compares = matches!(self.op, raw::FI_CSWAP | raw::FI_MSWAP);
        if compares != (form == Form::Compare)
            || (self.op == raw::FI_ATOMIC_READ && form == Form::Write)
        {
            return None;
        }
        let bytes = self.element_bytes()?;
        let (mut memory, zeros) = ([0; 8], [0; 8]);
        self.combine(&mut memory[..bytes], &zeros[..bytes], &zeros[..bytes])?;
        Some(ATOMIC_BYTES_MAX / bytes)
    }

    /// Changes each element of `memory`. `None` if there is no such operation: nothing was changed.
    pub(crate) fn combine(self, memory: &mut [u8], with: &[u8], compare: &[u8]) -> Option<()> {
        macro_rules! by {
            ($type:ty, $one:ident) => {
                each(memory, with, compare, |old, with, compare| {
                    let (with, compare) = (
                        <$type>::from_ne_bytes(with),
                        <$type>::from_ne_bytes(compare),
                    );
                    let new = $one(self.op, <$type>::from_ne_bytes(old), with, compare);
                    new.map(<$type>::to_ne_bytes)
                })
            };
        }
        match self.datatype {
            raw::FI_INT8 => by!(i8, of_i8),
            raw::FI_UINT8 => by!(u8, of_u8),
            raw::FI_INT16 => by!(i16, of_i16),
            raw::FI_UINT16 => by!(u16, of_u16),
            raw::FI_INT32 => by!(i32, of_i32),
            raw::FI_UINT32 => by!(u32, of_u32),
            raw::FI_INT64 => by!(i64, of_i64),
            raw::FI_UINT64 => by!(u64, of_u64),
            raw::FI_FLOAT => by!(f32, of_f32),
            raw::FI_DOUBLE => by!(f64, of_f64),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_two(datatype: u8, op: u8, old: [i16; 2], with: [i16; 2], compare: [i16; 2]) -> [i16; 2] {
        let bytes = |all: [i16; 2]| all.map(i16::to_ne_bytes).concat();
        let mut memory = bytes(old);
        let kind = Kind { datatype, op };
        kind.combine(&mut memory, &bytes(with), &bytes(compare))
            .unwrap();
        let element = |at: usize| i16::from_ne_bytes([memory[at], memory[at + 1]]);
        [element(0), element(2)]
    }

    #[test]
    fn each_element_is_changed_by_its_own() {
        let signed = |op, old, with, compare| of_two(raw::FI_INT16, op, old, with, compare);
        let none = [0, 0];
        assert_eq!(
            signed(raw::FI_SUM, [1, i16::MAX], [2, 1], none),
            [3, i16::MIN]
        );
        assert_eq!(signed(raw::FI_MIN, [-1, 5], [1, 4], none), [-1, 4]);
        assert_eq!(
            of_two(raw::FI_UINT16, raw::FI_MIN, [-1, 5], [1, 4], none),
            [1, 4]
        );
        assert_eq!(signed(raw::FI_LXOR, [7, 0], [0, 0], none), [1, 0]);
        assert_eq!(signed(raw::FI_ATOMIC_READ, [7, 8], [1, 1], none), [7, 8]);
        assert_eq!(signed(raw::FI_ATOMIC_WRITE, [7, 8], [1, 2], none), [1, 2]);
        assert_eq!(signed(raw::FI_CSWAP, [7, 8], [1, 2], [7, 7]), [1, 8]);
        assert_eq!(
            signed(raw::FI_MSWAP, [0xf0, 1], [0x0f, 2], [0x1f, 0]),
            [0xef, 1]
        );
    }

    #[test]
    fn what_is_offered_can_be_done_and_nothing_else_is() {
        let mut offered = 0;
        for (datatype, op) in (0..40).flat_map(|datatype| (0..40).map(move |op| (datatype, op))) {
            let kind = Kind { datatype, op };
            let forms = [Form::Write, Form::Fetch, Form::Compare];
            for count in forms.into_iter().filter_map(|form| kind.count_max(form)) {
                assert_eq!(count * kind.element_bytes().unwrap(), ATOMIC_BYTES_MAX);
                let mut memory = [1; 1024];
                assert_eq!(kind.combine(&mut memory, &[2; 1024], &[3; 1024]), Some(()));
                offered += 1;
            }
        }
        // 8 types of integers: 11 writes, 12 fetches, 2 compares. 2 of floating point: 5, 6, 1.
        assert_eq!(offered, 8 * 25 + 2 * 12);
    }
}
