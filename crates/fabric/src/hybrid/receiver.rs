//! The receiving end of one direction. See [`super`] for the protocol.

use super::head_line::{
    DATED, HEAD, distance, position_in, short_begin, short_bytes_in, short_bytes_max,
};
use super::{
    ARMED, BOUND, Broken, Direction, EPOCH, IN_RING, KEPT_EPOCHS, Path, REACHED, READS_KERNEL,
    REFUSED, SharedMemory, TAIL, TAKE_BACK, TAKING, WAKE_BYTES, WAKE_BYTES_AT, WANT_KERNEL, path,
};

/// What a receiver has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// So many bytes can be taken from the ring.
    Ring(u64),
    /// Read at most so many bytes of the stream from the kernel connection, without waiting, and then
    /// call [`Receiver::read_kernel`], also if there were none.
    Kernel(u64),
    /// Read at most so many wake-up bytes from the kernel connection, without waiting, throw them away, and
    /// then call [`Receiver::took_wake_bytes`].
    WakeBytes(u64),
    /// There is nothing, unless the kernel connection has ended.
    Empty,
}

/// What came of [`Receiver::ask_to_take_back`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing yet.
    None,
    /// The sender is at it: it says more soon, and the request can not be withdrawn.
    Taking,
    /// What was in the ring comes over the kernel connection, and [`Receiver::next`] says so.
    Taken,
    /// It stays in the ring.
    Refused,
}

/// An epoch of those that a receiver has ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Where its bytes are.
    pub path: Path,
    /// Bytes of the stream that are left of it; [`u64::MAX`] for an epoch of the kernel connection that is
    /// open: as many as the kernel connection has.
    pub bytes: u64,
    /// Wake-up bytes on the kernel connection behind the kernel connection's bytes so far, and before those
    /// of the next epoch.
    pub wake_bytes: u64,
}

impl Ahead {
    /// Nothing.
    pub const NONE: Self = Self {
        path: Path::Kernel,
        bytes: 0,
        wake_bytes: 0,
    };
}

/// Epochs that a receiver can have ahead, with its own.
pub const AHEAD_MAX: usize = KEPT_EPOCHS as usize + 1;

/// The receiving end's own state. Whoever uses it has it alone; it may lie in memory that
/// the receiver's own processes share, but never where the sender can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Receiver {
    direction: Direction,
    epoch: u64,
    tail: u64,
    /// Bytes of the stream that came over the kernel connection.
    from_kernel: u64,
    wake_bytes_taken: u64,
    /// What was stored in ARMED; 0 if awake.
    armed: u64,
}

impl Receiver {
    /// A receiver that has read `position` bytes of the stream, all from the kernel connection.
    #[must_use]
    pub const fn new(direction: Direction, position: u64) -> Self {
        Self {
            direction,
            epoch: 0,
            tail: 0,
            from_kernel: position,
            wake_bytes_taken: 0,
            armed: 0,
        }
    }

    /// The direction that it receives in.
    #[must_use]
    #[inline]
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// Where the next byte of the stream comes from, as far as is known.
    #[must_use]
    pub const fn path(&self) -> Path {
        path(self.epoch)
    }

    /// Whether [`Receiver::next`] would get on by itself: two loads, for whoever waits
    /// and looks again and again. Not if only the kernel connection can bring what comes next (bytes of an
    /// epoch of the kernel connection, or a wake-up byte at the end of one of the ring): the kernel knows
    /// of that, and whoever waits there is woken by it.
    #[must_use]
    pub fn is_ready(&self, memory: &impl SharedMemory) -> bool {
        let is_closed = memory.load(self.direction.word(EPOCH)) != self.epoch;
        match self.path() {
            Path::Kernel => is_closed && self.left_of_epoch(memory) == 0,
            Path::Ring if !is_closed => self.direction.head(memory) != position_in(self.tail),
            Path::Ring => {
                let at_end = memory.load(self.direction.at_epoch(WAKE_BYTES_AT, self.epoch));
                self.left_of_epoch(memory) > 0 || at_end <= self.wake_bytes_taken
            }
        }
    }

    /// For whoever has armed: whether it may read the kernel connection, waiting. An epoch that is open stays
    /// so, or an empty one of the ring follows, because the sender sees who is armed; behind one
    /// that was closed before lies what comes later, wake-up bytes too.
    #[must_use]
    pub fn is_on_open_kernel_epoch(&self, memory: &impl SharedMemory) -> bool {
        self.path() == Path::Kernel && memory.load(self.direction.word(EPOCH)) == self.epoch
    }

    /// Bytes in the ring, where they are all that [`Receiver::next`] would tell of, no wake-up byte lies on
    /// the line, and this end is awake: three loads from two cache lines, of which only one changes with each
    /// message. `None`: there is more to say.
    #[must_use]
    #[inline]
    pub fn simple_bytes(&self, memory: &impl SharedMemory) -> Option<u64> {
        // HEAD first, as in next_of_ring.
        let head = self.direction.head(memory);
        let used_bytes = distance(self.tail, head);
        let is_open = memory.load(self.direction.word(EPOCH)) == self.epoch;
        let has_wake_bytes = memory.load(self.direction.word(WAKE_BYTES)) != self.wake_bytes_taken;
        let is_simple = self.path() == Path::Ring && self.armed == 0 && is_open && !has_wake_bytes;
        (is_simple && used_bytes <= self.direction.ring_bytes()).then_some(used_bytes)
    }

    /// What to do next.
    ///
    /// # Errors
    /// A sender that breaks the protocol.
    pub fn next(&mut self, memory: &impl SharedMemory) -> Result<Next, Broken> {
        // Each round but the last goes to a new epoch, of which there are at most
        // KEPT_EPOCHS to come; a sender that goes on meanwhile gets its turn next time.
        for _ in 0..=KEPT_EPOCHS {
            let next = match self.path() {
                Path::Ring => self.next_of_ring(memory)?,
                Path::Kernel => self.next_of_kernel(memory)?,
            };
            if let Some(next) = next {
                return Ok(next);
            }
            self.epoch += 1;
            memory.store(self.direction.word(REACHED), self.epoch);
        }
        Ok(Next::Empty)
    }

    /// `None` at the end of the epoch.
    fn next_of_ring(&mut self, memory: &impl SharedMemory) -> Result<Option<Next>, Broken> {
        // HEAD first: if EPOCH is unchanged after it, all bytes up to it are of this epoch.
        let head = self.direction.head(memory);
        let used_bytes = distance(self.tail, head);
        if used_bytes > self.direction.ring_bytes() {
            return Err(Broken::Head { used_bytes });
        }
        if !self.is_closed(memory)? {
            if used_bytes > 0 {
                return Ok(Some(Next::Ring(used_bytes)));
            }
            let announced = memory.load(self.direction.word(WAKE_BYTES));
            return self
                .wake_bytes_until(announced)
                .map(|wake_bytes| wake_bytes.or(Some(Next::Empty)));
        }
        let left_bytes = self.left_of_epoch(memory);
        if left_bytes > self.direction.ring_bytes() {
            return Err(Broken::Bound { left_bytes });
        }
        if left_bytes > 0 {
            // HEAD as it is after EPOCH: the whole epoch is there.
            let head = self.direction.head(memory);
            let used_bytes = distance(self.tail, head);
            if used_bytes < left_bytes || used_bytes > self.direction.ring_bytes() {
                return Err(Broken::Head { used_bytes });
            }
            return Ok(Some(Next::Ring(left_bytes)));
        }
        let at_end = memory.load(self.direction.at_epoch(WAKE_BYTES_AT, self.epoch));
        self.wake_bytes_until(at_end)
    }

    fn next_of_kernel(&mut self, memory: &impl SharedMemory) -> Result<Option<Next>, Broken> {
        memory.store(self.direction.word(READS_KERNEL), 1);
        // Partner: the fence in Sender::may_use_line.
        memory.fence();
        let closed = self.is_closed(memory);
        let left_bytes = match closed {
            Ok(false) => return Ok(Some(Next::Kernel(u64::MAX))),
            Ok(true) => self.left_of_epoch(memory),
            Err(broken) => {
                memory.store(self.direction.word(READS_KERNEL), 0);
                return Err(broken);
            }
        };
        if left_bytes > 0 {
            return Ok(Some(Next::Kernel(left_bytes)));
        }
        memory.store(self.direction.word(READS_KERNEL), 0);
        Ok(None)
    }

    fn is_closed(&self, memory: &impl SharedMemory) -> Result<bool, Broken> {
        let found = memory.load(self.direction.word(EPOCH));
        if found < self.epoch || found - self.epoch > KEPT_EPOCHS {
            let own = self.epoch;
            return Err(Broken::Epoch { found, own });
        }
        Ok(found > self.epoch)
    }

    /// Bytes of the own epoch, which is closed, that have not been read. An epoch of the
    /// line may have been read beyond its end, over an empty epoch of the ring.
    fn left_of_epoch(&self, memory: &impl SharedMemory) -> u64 {
        let bound = memory.load(self.direction.at_epoch(BOUND, self.epoch));
        bound.saturating_sub(self.position())
    }

    fn wake_bytes_until(&self, announced: u64) -> Result<Option<Next>, Broken> {
        match announced.checked_sub(self.wake_bytes_taken) {
            None => Err(Broken::WakeBytes),
            Some(0) => Ok(None),
            Some(wake_bytes) => Ok(Some(Next::WakeBytes(wake_bytes))),
        }
    }

    /// Asks for the kernel connection, and returns whether the sender puts nothing into the ring any more
    /// that [`Receiver::next`] does not tell of. `false`: it is in the middle of that; ask again.
    #[must_use]
    pub fn end_ring(&mut self, memory: &impl SharedMemory) -> bool {
        let own_side = 1 - self.direction.sender_side();
        memory.store(WANT_KERNEL + own_side, 1);
        // Partner: the light fence in Sender::enter_ring.
        memory.heavy_fence() && memory.load(self.direction.word(IN_RING)) == 0
    }

    /// Whether there are bytes in the ring that were not read, or wake-up bytes for it on the kernel
    /// connection, also behind an epoch of the kernel connection that was not read to its end.
    #[must_use]
    pub fn ring_has_bytes(&self, memory: &impl SharedMemory) -> bool {
        self.direction.head(memory) != position_in(self.tail)
            || memory.load(self.direction.word(WAKE_BYTES)) != self.wake_bytes_taken
    }

    /// Asks the sender to take back what is left in the ring, and for the kernel connection. `false` if it
    /// has gone on to the kernel connection already: then nothing is asked. Whoever asks does not read
    /// before the answer, and [`Receiver::next`] was called before, and what it asks for done.
    #[must_use]
    pub fn ask_to_take_back(&mut self, memory: &impl SharedMemory) -> bool {
        let own_side = 1 - self.direction.sender_side();
        let epoch = memory.load(self.direction.word(EPOCH));
        let follows = epoch.wrapping_sub(self.epoch) <= 1;
        let asks = path(epoch) == Path::Ring && follows;
        if asks {
            // In this order: a sender that leaves the ring for WANT_KERNEL sees the request.
            memory.store(TAKE_BACK + own_side, epoch);
        }
        memory.store(WANT_KERNEL + own_side, 1);
        // Partner: the fence in Receiver::arm, of the other side, which looks at the request
        // after it; and the one in Sender::begin_to_take_back.
        memory.fence();
        asks
    }

    /// What the sender says to [`Receiver::ask_to_take_back`].
    #[must_use]
    pub fn answer(&self, memory: &impl SharedMemory) -> Answer {
        let own_side = 1 - self.direction.sender_side();
        match memory.load(TAKE_BACK + own_side) {
            0 => Answer::Taken,
            TAKING => Answer::Taking,
            REFUSED => Answer::Refused,
            _ => Answer::None,
        }
    }

    /// Asks no more. `false` if the sender has begun: then wait for its answer.
    #[must_use]
    pub fn withdraw(&self, memory: &impl SharedMemory) -> bool {
        let own_side = 1 - self.direction.sender_side();
        let word = memory.load(TAKE_BACK + own_side);
        word != TAKING && memory.swap_if(TAKE_BACK + own_side, word, 0)
    }

    /// Bytes in the ring that were not read, in whatever epochs, and wake-up bytes that are on the kernel
    /// connection or about to be: what [`Receiver::next`] would tell of, one after the other. Whoever adds
    /// what the kernel connection has, less the wake-up bytes, looks at the kernel connection before.
    #[must_use]
    pub fn unread(&self, memory: &impl SharedMemory) -> (u64, u64) {
        // WAKE_BYTES first: of whoever announces one, the bytes are there already.
        let wake_bytes = memory.load(self.direction.word(WAKE_BYTES));
        let bytes = self.direction.put_since(memory, self.tail);
        let bytes = bytes.min(self.direction.ring_bytes());
        (bytes, wake_bytes.saturating_sub(self.wake_bytes_taken))
    }

    /// The epochs from the own to the sender's, for whoever looks at what comes without taking
    /// it; returns how many there are. What the kernel connection has is of these epochs if
    /// [`Receiver::epochs_ahead`] says the same afterwards: the sender counts EPOCH up before it sends.
    /// Ends before what no sound sender writes; [`Receiver::next`] says what is wrong.
    pub fn ahead(&self, memory: &impl SharedMemory, into: &mut [Ahead; AHEAD_MAX]) -> usize {
        // As in next_of_ring: HEAD first, for an epoch that is open.
        let head = self.direction.head(memory);
        let last = memory.load(self.direction.word(EPOCH));
        let mut start = self.position();
        let mut in_ring = 0;
        let mut wake_bytes_before = self.wake_bytes_taken;
        let mut count = 0;
        for (epoch, place) in (self.epoch..=last).zip(into) {
            let is_open = epoch == last;
            let bound = memory.load(self.direction.at_epoch(BOUND, epoch));
            let bytes = match path(epoch) {
                _ if !is_open => bound.saturating_sub(start),
                Path::Kernel => u64::MAX,
                Path::Ring => distance(self.tail, head).saturating_sub(in_ring),
            };
            if path(epoch) == Path::Ring {
                in_ring += bytes.min(self.direction.ring_bytes() + 1);
                if in_ring > self.direction.ring_bytes() {
                    break;
                }
            }
            let announced = match is_open {
                true => memory.load(self.direction.word(WAKE_BYTES)),
                false => memory.load(self.direction.at_epoch(WAKE_BYTES_AT, epoch)),
            };
            let wake_bytes = announced.saturating_sub(wake_bytes_before);
            *place = Ahead {
                path: path(epoch),
                bytes,
                wake_bytes,
            };
            count += 1;
            start = start.max(bound);
            wake_bytes_before += wake_bytes;
        }
        count
    }

    /// How many epochs there are from the own to the sender's.
    #[must_use]
    pub fn epochs_ahead(&self, memory: &impl SharedMemory) -> usize {
        let last = memory.load(self.direction.word(EPOCH));
        (last.wrapping_sub(self.epoch) as usize).saturating_add(1)
    }

    /// Copies bytes from the ring, which has as many, and `already` more before them. They
    /// stay there until [`Receiver::took`].
    #[inline]
    pub fn copy(&self, memory: &impl SharedMemory, already: u64, bytes: &mut [u8]) {
        if already == 0 && self.copy_short(memory, bytes) {
            return;
        }
        let (at, straight) = self.direction.place(self.tail + already);
        let straight = straight.min(bytes.len());
        let (first, rest) = bytes.split_at_mut(straight);
        memory.copy_out(at, first);
        if !rest.is_empty() {
            memory.copy_out(self.direction.place(0).0, rest);
        }
    }

    /// The same from the head line, if all that was not taken lies there. `false`: `bytes` may be anything.
    #[inline]
    fn copy_short(&self, memory: &impl SharedMemory, bytes: &mut [u8]) -> bool {
        let word = memory.load(self.direction.word(HEAD));
        let short = short_bytes_in(word);
        let is_dated = word & DATED != 0;
        let is_all = distance(self.tail, position_in(word)) == short;
        let most_bytes = short_bytes_max(is_dated) as u64;
        if !is_all || short > most_bytes || bytes.len() > short as usize {
            return false;
        }
        memory.load_bytes(self.direction.word(short_begin(is_dated)), bytes);
        // Partner: the first store in Sender::show_short. Whoever has loaded short bytes of later bytes sees it.
        memory.load(self.direction.word(HEAD)) == word
    }

    /// The first `bytes` of the ring are done with.
    #[inline]
    pub fn took(&mut self, memory: &impl SharedMemory, bytes: u64) {
        self.tail += bytes;
        memory.store(self.direction.word(TAIL), self.tail);
    }

    /// After [`Next::Kernel`]: so many bytes were read.
    pub fn read_kernel(&mut self, memory: &impl SharedMemory, bytes: u64) {
        self.from_kernel += bytes;
        memory.store(self.direction.word(READS_KERNEL), 0);
    }

    /// Who had this before ended in the middle of what [`Receiver::next`] asked for, of [`Receiver::arm`]
    /// or of [`Receiver::disarm`]. Of the kernel connection `kernel_bytes` were ever read, by its own
    /// count. Goes on behind what was read. `false`: less than is known to have been.
    #[must_use]
    pub fn recover(&mut self, memory: &impl SharedMemory, kernel_bytes: u64) -> bool {
        let Some(uncounted) = kernel_bytes.checked_sub(self.from_kernel + self.wake_bytes_taken)
        else {
            return false;
        };
        match self.path() {
            Path::Kernel => self.from_kernel += uncounted,
            Path::Ring => self.wake_bytes_taken += uncounted,
        }
        memory.store(self.direction.word(READS_KERNEL), 0);
        memory.store(self.direction.word(TAIL), self.tail);
        memory.store(self.direction.word(REACHED), self.epoch);
        // If the sender has taken it since, there is a wake-up byte.
        self.armed = memory.load(self.direction.word(ARMED));
        true
    }

    /// Wake-up bytes that the kernel connection has before anything else, or is about to have, although
    /// [`Receiver::next`] tells of bytes in the ring first. They may be read as after
    /// [`Next::WakeBytes`], so that the kernel connection is not readable because of them.
    #[must_use]
    pub fn wake_bytes_ahead(&self, memory: &impl SharedMemory) -> u64 {
        // WAKE_BYTES first: if EPOCH is unchanged after it, all of them are of this epoch.
        let announced = memory.load(self.direction.word(WAKE_BYTES));
        let is_open = memory.load(self.direction.word(EPOCH)) == self.epoch;
        match self.path() {
            Path::Ring if is_open => announced.saturating_sub(self.wake_bytes_taken),
            _ => 0,
        }
    }

    /// Wake-up bytes taken so far.
    #[must_use]
    pub const fn wake_bytes_taken(&self) -> u64 {
        self.wake_bytes_taken
    }

    /// After [`Next::WakeBytes`], or [`Receiver::wake_bytes_ahead`]: so many were read.
    pub const fn took_wake_bytes(&mut self, wake_bytes: u64) {
        self.wake_bytes_taken += wake_bytes;
    }

    /// Tells the sender that we are about to wait on the kernel connection. Returns `false` if
    /// something has come meanwhile: then do not wait. Good for one wait. Armed it stays in any
    /// case, since others may sleep on the kernel connection, until [`Receiver::disarm`].
    #[must_use]
    pub fn arm(&mut self, memory: &impl SharedMemory) -> bool {
        self.armed = self.epoch + 1;
        memory.store(self.direction.word(ARMED), self.armed);
        // Partner: the fences in Sender::publish and Sender::try_ring.
        memory.fence();
        !self.is_ready(memory)
    }

    /// As [`Receiver::arm`], for a wait that knows of the bytes that were ever in the ring up to
    /// `head`, or has read them, and is to end when there are more. So it may be behind the
    /// sender: then it arms in the sender's epoch of the ring, whose wake-up bytes lie behind an end
    /// that it knows.
    #[must_use]
    pub fn arm_past(&mut self, memory: &impl SharedMemory, head: u64) -> bool {
        let seen = memory.load(self.direction.word(EPOCH));
        let epoch = match path(seen) {
            Path::Ring => seen.max(self.epoch),
            Path::Kernel => self.epoch,
        };
        self.armed = epoch.wrapping_add(1);
        memory.store(self.direction.word(ARMED), self.armed);
        // Partner: as in arm.
        memory.fence();
        let now = self.direction.head(memory);
        // Bytes that were read, though nobody was told of them, are nothing new.
        let has_more = now != head && now != position_in(self.tail);
        !has_more && memory.load(self.direction.word(EPOCH)) == seen
    }

    /// Awake again. A wake-up byte may be on its way all the same.
    pub fn disarm(&mut self, memory: &impl SharedMemory) {
        if self.armed != 0 {
            memory.swap_if(self.direction.word(ARMED), self.armed, 0);
            self.armed = 0;
        }
    }

    /// Whether [`Receiver::arm`] was called and [`Receiver::disarm`] was not since. The sender
    /// may have sent the wake-up byte meanwhile, see [`Receiver::is_armed_now`].
    #[must_use]
    pub const fn is_armed(&self) -> bool {
        self.armed != 0
    }

    /// Whether the sender has yet to send the wake-up byte that [`Receiver::arm`] asked for. If not,
    /// and somebody else still sleeps on the kernel connection, arm again.
    #[must_use]
    pub fn is_armed_now(&self, memory: &impl SharedMemory) -> bool {
        self.armed != 0 && memory.load(self.direction.word(ARMED)) == self.armed
    }

    /// Bytes of the stream read so far.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.from_kernel + self.tail
    }
}
