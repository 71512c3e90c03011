//! The monitor: one per ring. It makes the frames, and empties slots whose sender is gone.

use barewire_formats::cbn::{Frame, HEADER, SLOTS};

use super::slot::{self, SlotEvent, SlotState};

/// The monitor of a ring.
///
/// What it knows stands in the M bits of the frames, so it may stop and start again at any
/// time: a full slot that lost its sender meanwhile is emptied within two rotations from
/// then.
#[derive(Clone, Debug, Default)]
pub struct Monitor {
    stats: MonitorStats,
}

/// What a monitor has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonitorStats {
    /// Frames that passed.
    pub frames: u64,
    /// Frames that arrived with a wrong header or CRC.
    pub damaged_frames: u64,
    /// Slots with a cell that arrived the second time, and were emptied.
    pub lost_cells: u64,
    /// Void slots that arrived the second time, and were emptied.
    pub lost_voids: u64,
}

impl Monitor {
    /// A monitor that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What it has counted.
    #[must_use]
    pub const fn stats(&self) -> MonitorStats {
        self.stats
    }

    /// Makes a frame of four empty slots: what the monitor sends when the ring is formed.
    pub fn form_frame<T: AsRef<[u8]> + AsMut<[u8]>>(frame: &mut Frame<T>) {
        frame.set_header(HEADER);
        for slot in 0..SLOTS {
            frame.set_full(slot, false);
            slot::apply(frame, slot, SlotEvent::Release);
        }
        frame.fill_crc();
    }

    /// A frame passes the monitor.
    pub fn handle_frame<T: AsRef<[u8]> + AsMut<[u8]>>(&mut self, frame: &mut Frame<T>) {
        self.stats.frames += 1;
        if !slot::admit(frame) {
            self.stats.damaged_frames += 1;
        }
        for slot in 0..SLOTS {
            let before = SlotState::read(frame, slot);
            let after = slot::apply(frame, slot, SlotEvent::PassMonitor);
            if before != SlotState::Empty && after == SlotState::Empty {
                let lost_cell = before.is_cell();
                self.stats.lost_cells += u64::from(lost_cell);
                self.stats.lost_voids += u64::from(!lost_cell);
            }
        }
        frame.fill_crc();
    }
}
