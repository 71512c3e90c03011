//! Frames as they stand on the ring, for capture files.
//!
//! Header, full bits, cells and CRC-12 are true. The model has neither monitor nor
//! responses, so those bits are zero. A cell whose body is not of 32 bytes does not fit into a
//! frame of the published format: its slot is full and has the first word and what fits.

use barewire_formats::cbn::{Cell, FRAME_BYTES, Frame, FrameRepr};
use barewire_models::cbn::{Slot, Slots};
use barewire_wire::capture::exported::{CBN, TagsRepr};

/// A frame behind the tags that name its dissector.
pub(super) fn frame(slots: &Slots) -> Vec<u8> {
    let tags = TagsRepr::new(CBN);
    let tag_bytes = tags.buffer_len();
    let mut bytes = vec![0; tag_bytes + FRAME_BYTES];
    let (head, buffer) = bytes.split_at_mut(tag_bytes);
    if tags.emit(head).is_err() {
        return Vec::new();
    }
    let mut frame = Frame::new_unchecked(buffer);
    let mut repr = FrameRepr::default();
    for (number, slot) in slots.0.iter().enumerate() {
        let Slot::Full { cell, .. } = slot else {
            continue;
        };
        repr.flags[number].full = true;
        let mut view = Cell::new_unchecked(frame.slot_mut(number));
        view.set_word(cell.msdl.to_word());
        let fits = cell.body.len().min(view.body().len());
        view.body_mut()[..fits].copy_from_slice(&cell.body[..fits]);
    }
    repr.emit(&mut frame);
    bytes
}

#[cfg(test)]
mod tests {
    use barewire_formats::cbn::Msdl;
    use barewire_models::cbn::Cell as ModelCell;
    use barewire_wire::capture::exported;

    use super::*;

    #[test]
    fn a_frame_can_be_read() {
        let mut slots = Slots::default();
        let msdl = Msdl::from_word(0x1234_05a9);
        let body = (0..32).collect();
        let cell = ModelCell { msdl, body };
        slots.0[2] = Slot::full(cell);
        let bytes = frame(&slots);
        let (tags, at) = exported::TagsRepr::parse(&bytes).expect("tags");
        assert_eq!(tags.dissector, CBN);
        let frame = Frame::new_checked(&bytes[at..]).expect("a frame");
        let repr = FrameRepr::parse(&frame).expect("a frame without fault");
        let full = repr.flags.map(|flags| flags.full);
        assert_eq!(full, [false, false, true, false]);
        assert_eq!(frame.cell(2).msdl(), msdl);
        assert_eq!(frame.cell(2).body()[31], 31);
    }
}
