//! Handles: what an event that may be cancelled or repeats is known by.

/// The handle of an event that has none.
pub(super) const NO_HANDLE: u32 = u32::MAX;

/// Names a pending event, to cancel it. Of no effect once the event has fired for
/// the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventId {
    pub(super) handle: u32,
    generation: u32,
}

#[derive(Clone, Copy, Debug)]
struct Handle {
    generation: u32,
    alive: bool,
    /// Time between repetitions; 0 for an event that fires once.
    period_ps: u64,
}

/// All handles.
#[derive(Default)]
pub(super) struct Handles {
    handles: Vec<Handle>,
    free: Vec<u32>,
    /// Cancelled, and their places not yet gone.
    dead: usize,
}

impl Handles {
    /// Places whose events have been cancelled.
    pub fn dead(&self) -> usize {
        self.dead
    }

    /// A handle for an event that repeats if `period_ps` is not 0.
    pub fn open(&mut self, period_ps: u64) -> EventId {
        let handle = self.free.pop().unwrap_or_else(|| self.grow());
        let opened = &mut self.handles[handle as usize];
        opened.alive = true;
        opened.period_ps = period_ps;
        let generation = opened.generation;
        EventId { handle, generation }
    }

    fn grow(&mut self) -> u32 {
        let handle = u32::try_from(self.handles.len()).unwrap_or(NO_HANDLE);
        assert!(
            handle != NO_HANDLE,
            "at most 2^32 - 1 named events pend at once"
        );
        self.handles.push(Handle {
            generation: 0,
            alive: false,
            period_ps: 0,
        });
        handle
    }

    /// Marks an event dead; whether it was alive.
    pub fn cancel(&mut self, id: EventId) -> bool {
        let Some(handle) = self.handles.get_mut(id.handle as usize) else {
            return false;
        };
        if handle.generation != id.generation || !handle.alive {
            return false;
        }
        handle.alive = false;
        self.dead += 1;
        true
    }

    /// Whether the place with this handle is that of a cancelled event.
    pub fn is_dead(&self, handle: u32) -> bool {
        self.dead > 0 && handle != NO_HANDLE && !self.handles[handle as usize].alive
    }

    /// Time between repetitions; 0 for an event that fires once.
    pub fn period_ps(&self, handle: u32) -> u64 {
        self.handles[handle as usize].period_ps
    }

    /// The handle's place is gone, since its event fired for the last time: names given out for
    /// it are void.
    pub fn release(&mut self, handle: u32) {
        let freed = &mut self.handles[handle as usize];
        freed.alive = false;
        freed.generation = freed.generation.wrapping_add(1);
        self.free.push(handle);
    }

    /// The same for the place of a cancelled event.
    pub fn bury(&mut self, handle: u32) {
        self.release(handle);
        self.dead -= 1;
    }
}
