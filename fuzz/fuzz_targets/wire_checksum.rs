//! The Internet checksum over fragments, copied and not, against the sum of the whole.
#![no_main]

use barewire_wire::checksum::{Sum, copy_and_sum, sum, updated};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&cut, bytes)) = data.split_first() else {
        return;
    };
    let whole = sum(bytes);
    let mut parts = Sum::default();
    let mut copy = vec![0; bytes.len()];
    for (to, from) in copy
        .chunks_mut(usize::from(cut) + 1)
        .zip(bytes.chunks(usize::from(cut) + 1))
    {
        parts.update_with_copy(to, from);
    }
    assert_eq!((parts, &copy[..]), (whole, bytes));
    copy.fill(0);
    assert_eq!((copy_and_sum(&mut copy, bytes), &copy[..]), (whole, bytes));
    // The first word becomes another one; a sum of zero cannot be gone on from.
    if let [a, b, c, d, rest @ ..] = bytes {
        let (old, new) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
        let [mut before, mut after] =
            [[0x45, 0, *a, *b], [0x45, 0, *c, *d]].map(|begin| sum(&begin));
        before.update(rest);
        after.update(rest);
        assert_eq!(updated(before.checksum(), old, new), after.checksum());
    }
});
