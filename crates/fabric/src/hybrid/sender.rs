//! The sending end of one direction. See [`super`] for the protocol.

use core::sync::atomic::{Ordering, compiler_fence};

use crate::copying::{Copying, LONG_BYTES, Way};

use super::head_line::{
    HEAD, KERNEL, SEEN, SINCE, head_word, position_in, short_begin, short_bytes_max,
};
use super::{
    ARMED, BOUND, Broken, Direction, EPOCH, IN_RING, KEPT_EPOCHS, ORDERED, PROCESSOR, Path,
    REACHED, READS_KERNEL, REFUSED, SharedMemory, TAIL, TAKE_BACK, TAKING, UP, WAKE_BYTES,
    WAKE_BYTES_AT, WANT_KERNEL, path,
};

/// Of short pieces, memory further ahead is fetched: with 3 lines ahead a write of 64 B took 157 ns, with 2 lines 179,
/// with 5 lines 210, without fetching 322 (AMD EPYC, two processes that share no cache).
const FETCHED_AHEAD_TO_BYTES: usize = 128;
const FETCHED_AHEAD_BYTES: u64 = 192;
/// Most that is fetched after one piece.
const FETCHED_BYTES_MAX: usize = 1024;

/// Differs, as a rule, from that of a number near by.
const fn fingerprint(number: u64) -> u8 {
    // The golden ratio, of which no small multiple is near a whole number.
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// What a sender says of bytes that it puts into an empty ring, by the clock of the callers.
#[derive(Clone, Copy, Debug)]
pub struct Dates {
    /// Now.
    pub since: u64,
    /// When this process, or whoever it heard of, last used the kernel; 0: not known to have.
    pub kernel_used: u64,
}

/// The sending end's own state. Whoever uses it has it alone; it may lie in memory that
/// the sender's own processes share, but never where the receiver can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Sender {
    direction: Direction,
    epoch: u64,
    head: u64,
    tail_seen: u64,
    position: u64,
    wake_bytes: u64,
    /// A wake-up byte was announced that the kernel connection did not take.
    owes_wake_byte: bool,
    /// Bytes that were put and not shown; no more than fit here are counted.
    unseen_bytes: u8,
    copying: Copying,
    /// The receiver wants to know when bytes came.
    is_dated: bool,
    /// What was taken from the direction back when bytes were last shown, as a [`fingerprint`].
    taken_then: u8,
    /// While a receiver that sleeps is being woken: the wake-up bytes that the kernel connection will have
    /// had then; else 0.
    waking: u64,
}

impl Sender {
    /// A sender whose stream has had `position` bytes, all over the kernel connection.
    #[must_use]
    pub const fn new(direction: Direction, position: u64) -> Self {
        Self {
            direction,
            epoch: 0,
            head: 0,
            tail_seen: 0,
            position,
            wake_bytes: 0,
            owes_wake_byte: false,
            waking: 0,
            copying: Copying::new(),
            unseen_bytes: 0,
            is_dated: false,
            taken_then: 0,
        }
    }

    /// Where the next byte of the stream goes.
    #[must_use]
    pub const fn path(&self) -> Path {
        path(self.epoch)
    }

    /// Bytes that the ring takes now.
    ///
    /// # Errors
    /// A receiver that says it took what was not there.
    pub fn room(&mut self, memory: &impl SharedMemory) -> Result<u64, Broken> {
        let tail = memory.load(self.direction.word(TAIL));
        if tail < self.tail_seen || tail > self.head {
            return Err(Broken::Tail {
                taken: tail,
                put: self.head,
            });
        }
        self.tail_seen = tail;
        Ok(self.direction.ring_bytes() - (self.head - tail))
    }

    /// Bytes that the ring takes for certain, without a look at what the receiver did since.
    #[must_use]
    pub const fn room_known(&self) -> u64 {
        self.direction.ring_bytes() - (self.head - self.tail_seen)
    }

    /// Bytes of the ring that the receiver had not taken when last looked at.
    #[must_use]
    pub const fn in_ring(&self) -> u64 {
        self.head - self.tail_seen
    }

    /// Bytes ever put into the ring.
    #[must_use]
    pub const fn head(&self) -> u64 {
        self.head
    }

    /// Copies `bytes` behind what is in the ring. They are not there for the receiver
    /// before [`Sender::publish`]. There must be room, and the path be the ring.
    #[inline]
    pub fn put(&mut self, memory: &impl SharedMemory, bytes: &[u8]) {
        debug_assert!(self.path() == Path::Ring && bytes.len() as u64 <= self.room_known());
        let (at, straight) = self.direction.place(self.head);
        let (first, rest) = bytes.split_at(bytes.len().min(straight));
        self.copy_in(memory, at, first);
        if !rest.is_empty() {
            self.copy_in(memory, self.direction.place(0).0, rest);
        }
        self.head += bytes.len() as u64;
        self.unseen_bytes =
            (bytes.len() + usize::from(self.unseen_bytes)).min(u8::MAX.into()) as u8;
        self.position += bytes.len() as u64;
    }

    #[inline]
    fn copy_in(&mut self, memory: &impl SharedMemory, offset: usize, bytes: &[u8]) {
        if bytes.len() < LONG_BYTES {
            memory.copy_in(offset, bytes);
        } else {
            self.copy_in_long(memory, offset, bytes);
        }
    }

    #[inline(never)]
    fn copy_in_long(&mut self, memory: &impl SharedMemory, offset: usize, bytes: &[u8]) {
        match self.copying.choose(bytes.len()) {
            Way::Ordinary => memory.copy_in(offset, bytes),
            Way::PastCaches => memory.copy_in_past_caches(offset, bytes),
            Way::Measured => {
                let took_cycles = memory.copy_in_measured(offset, bytes);
                self.copying.note(bytes.len(), took_cycles);
            }
        }
    }

    /// As [`Sender::put`]. A receiver that polls sees each `piece_bytes` as soon as they are put, so that both sides
    /// copy at the same time.
    #[inline]
    pub fn put_in_pieces(&mut self, memory: &impl SharedMemory, bytes: &[u8], piece_bytes: usize) {
        let mut rest = bytes;
        while rest.len() > piece_bytes {
            let (piece, behind) = rest.split_at(piece_bytes);
            self.put(memory, piece);
            self.show(memory);
            rest = behind;
        }
        self.put(memory, rest);
    }

    /// Shows a receiver that polls what was put, before [`Sender::publish`] does, which must follow. Not if it wants to
    /// know when bytes came: it sees them all at once.
    #[inline]
    pub fn show(&mut self, memory: &impl SharedMemory) {
        if memory.load(self.direction.word(ORDERED)) == 0 {
            self.show_in_ring(memory);
        }
    }

    /// Shows all that was put, in the head line, too, if it is an answer: see [`Sender::publish`].
    #[inline]
    fn show_all(&mut self, memory: &impl SharedMemory, last: &[u8]) {
        let taken = fingerprint(memory.load(self.direction.reversed().word(TAIL)));
        let is_answer = taken != self.taken_then;
        self.taken_then = taken;
        if is_answer && self.are_short(last) {
            self.show_short(memory, last);
        } else {
            self.show_in_ring(memory);
        }
    }

    /// Whether these are all that was put and not shown, and few.
    #[inline]
    const fn are_short(&self, bytes: &[u8]) -> bool {
        let most_bytes = short_bytes_max(self.is_dated);
        bytes.len() == self.unseen_bytes as usize && bytes.len() <= most_bytes
    }

    #[inline]
    fn show_in_ring(&mut self, memory: &impl SharedMemory) {
        self.unseen_bytes = 0;
        self.store_head(memory, self.head, 0);
    }

    #[inline]
    fn show_short(&mut self, memory: &impl SharedMemory, bytes: &[u8]) {
        let len_bytes = bytes.len() as u64;
        // From here on one store right after the other: see `date`.
        // Partner: the second load in Receiver::copy_short.
        self.store_head(memory, self.head - len_bytes, 0);
        let first = self.direction.word(short_begin(self.is_dated));
        memory.store_bytes(first, bytes);
        self.unseen_bytes = 0;
        self.store_head(memory, self.head, len_bytes);
    }

    #[inline]
    fn store_head(&self, memory: &impl SharedMemory, position: u64, short_bytes: u64) {
        let word = head_word(position, short_bytes, self.is_dated);
        memory.store(self.direction.word(HEAD), word);
    }

    /// Fetches memory that the next bytes will be put into, if they are as many as the last `len_bytes`: the receiver's
    /// cache has had it since the last lap, and a store would wait for each line. Not for a request or an answer, after
    /// which the other side comes first: it would cost them the time of the call.
    #[inline(never)]
    pub fn fetch_ahead(&self, memory: &impl SharedMemory, len_bytes: usize) {
        if !self.copying.is_fetching_wise(len_bytes) {
            return;
        }
        let ahead_bytes = if len_bytes <= FETCHED_AHEAD_TO_BYTES {
            FETCHED_AHEAD_BYTES
        } else {
            0
        };
        let (at, straight) = self.direction.place(self.head + ahead_bytes);
        memory.prefetch_for_writing(at, len_bytes.min(straight).min(FETCHED_BYTES_MAX));
    }

    /// Before [`Sender::put`]: whether the ring may be used. If not, leave it.
    #[must_use]
    #[inline]
    pub fn enter_ring(&self, memory: &impl SharedMemory) -> bool {
        let in_ring = self.direction.word(IN_RING);
        memory.store(in_ring, 1);
        // Partner: the heavy fence in Receiver::end_ring.
        memory.light_fence();
        let wanted = self.is_kernel_wanted(memory);
        if wanted {
            memory.store(in_ring, 0);
        }
        !wanted
    }

    /// Between [`Sender::put`] and [`Sender::publish`]: says when the bytes came, if the receiver wants to
    /// know and has read all before them. Returns whether that was so: then call [`Sender::mark`]
    /// before something is sent elsewhere by the kernel.
    #[inline]
    pub fn date(&mut self, memory: &impl SharedMemory, dates: impl FnOnce() -> Dates) -> bool {
        let back = self.direction.reversed();
        let taken = memory.load(back.word(TAIL));
        let is_ordered = memory.load(self.direction.word(ORDERED)) != 0;
        if is_ordered && !self.is_dated {
            self.begin_to_date(memory);
        }
        let dates = (is_ordered && self.has_receiver_read(memory)).then(dates);
        // The receiver may poll the cache line of all these words and of HEAD. So they are stored one right
        // after the other: each pause would let it take the cache line back in between.
        memory.store(self.direction.word(SEEN), taken);
        let Some(dates) = dates else { return false };
        memory.store(self.direction.word(SINCE), dates.since);
        memory.store(self.direction.word(KERNEL), dates.kernel_used);
        true
    }

    /// From now on short bytes leave the place of SINCE and KERNEL alone.
    #[cold]
    fn begin_to_date(&mut self, memory: &impl SharedMemory) {
        // A receiver may be loading short bytes from there.
        self.store_head(memory, self.direction.head(memory), 0);
        memory.store(self.direction.word(SINCE), 0);
        memory.store(self.direction.word(KERNEL), 0);
        // Last: a process that is killed before leaves this to whoever takes over. Its end pairs with this fence.
        compiler_fence(Ordering::SeqCst);
        self.is_dated = true;
    }

    /// Whether the receiver has read all that was shown to it.
    #[inline]
    fn has_receiver_read(&self, memory: &impl SharedMemory) -> bool {
        let shown = self.direction.head(memory);
        let is_read = |word| position_in(memory.load(word)) == shown;
        // First in the cache line that was read with the last answer, if there was one.
        is_read(self.direction.reversed().word(SEEN)) || is_read(self.direction.word(TAIL))
    }

    /// Before something is sent elsewhere by the kernel: whether a wake-up byte is to follow what lies
    /// unread in the ring, for a receiver that wants order. If so, send it as after
    /// [`Sender::publish`].
    #[must_use]
    pub fn mark(&mut self, memory: &impl SharedMemory) -> bool {
        let is_unread = self.path() == Path::Ring
            && memory.load(self.direction.word(ORDERED)) != 0
            && memory.load(self.direction.word(TAIL)) != self.head;
        if !is_unread || self.owes_wake_byte || !self.enter_ring(memory) {
            return false;
        }
        // Partner: the fence in Receiver::next. It does not read the kernel connection for data of an epoch
        // that it takes to be open: so it bears a wake-up byte.
        memory.fence();
        if memory.load(self.direction.word(READS_KERNEL)) != 0
            && memory.load(self.direction.word(REACHED)) != self.epoch
        {
            memory.store(self.direction.word(IN_RING), 0);
            return false;
        }
        self.waking = self.wake_bytes + 1;
        memory.swap_if(self.direction.word(ARMED), self.epoch + 1, 0);
        self.wake_bytes += 1;
        memory.store(self.direction.word(WAKE_BYTES), self.wake_bytes);
        // Last: as in publish.
        memory.store(self.direction.word(IN_RING), 0);
        true
    }

    /// Shows the receiver what was put. `last` is all that was put and not shown, if the caller has it in one piece, or else
    /// empty: if it is short, and an answer, the receiver finds it in the head line, too. Returns whether the
    /// receiver sleeps: then send a wake-up byte, one byte on
    /// the kernel connection, and call [`Sender::wake_byte_sent`], or [`Sender::wake_byte_failed`] if the
    /// kernel connection does not take it. `processor` is where the caller runs, in whatever numbers both
    /// ends use, or 0; it tells a receiver that it is in the caller's way.
    #[must_use]
    #[inline]
    pub fn publish(&mut self, memory: &impl SharedMemory, processor: u64, last: &[u8]) -> bool {
        let word = self.direction.word(PROCESSOR);
        // Looked at first: the line stays in the receiver's cache.
        if processor != 0 && memory.load(word) != processor {
            memory.store(word, processor);
        }
        self.show_all(memory, last);
        // Partner: the fence in Receiver::arm.
        memory.fence();
        let wake_byte = self.owes_wake_byte || self.take_armed(memory);
        if wake_byte {
            self.waking = self.wake_bytes;
        }
        // Last: whoever ends the ring must know of the wake-up byte, too.
        memory.store(self.direction.word(IN_RING), 0);
        wake_byte
    }

    /// Announces a wake-up byte if the receiver sleeps.
    fn take_armed(&mut self, memory: &impl SharedMemory) -> bool {
        let armed = self.direction.word(ARMED);
        if memory.load(armed) != self.epoch + 1 {
            return false;
        }
        self.waking = self.wake_bytes + 1;
        if !memory.swap_if(armed, self.epoch + 1, 0) {
            self.waking = 0;
            return false;
        }
        self.wake_bytes += 1;
        memory.store(self.direction.word(WAKE_BYTES), self.wake_bytes);
        true
    }

    /// The kernel connection did not take a wake-up byte that was announced. It cannot be taken back, since
    /// the receiver may be about to read it: it goes on the kernel connection before anything else does.
    pub const fn wake_byte_failed(&mut self) {
        self.owes_wake_byte = true;
        self.waking = 0;
    }

    /// Whether a wake-up byte that was announced has yet to be sent, before any byte on the kernel
    /// connection: [`Sender::may_use_kernel`] is `false` until [`Sender::wake_byte_sent`].
    #[must_use]
    pub const fn owes_wake_byte(&self) -> bool {
        self.owes_wake_byte
    }

    /// The wake-up byte that was announced, or is owed, is on the kernel connection.
    pub const fn wake_byte_sent(&mut self) {
        self.owes_wake_byte = false;
        self.waking = 0;
    }

    /// Wakes a receiver that sleeps, though nothing was put: send a wake-up byte if it says so, as
    /// after [`Sender::publish`]. Not if the receiver asks for the kernel connection.
    #[must_use]
    pub fn wake(&mut self, memory: &impl SharedMemory) -> bool {
        if !self.enter_ring(memory) {
            return false;
        }
        // Partner: the fence in Receiver::arm.
        memory.fence();
        let sleeps = self.take_armed(memory);
        // After WAKE_BYTES: a receiver that ends the ring hears of the wake-up byte.
        memory.store(self.direction.word(IN_RING), 0);
        sleeps
    }

    /// Goes from the kernel connection to the ring, if that can be now: no wake-up byte is owed, and the
    /// other side is up and does not ask for the kernel connection, is awake, has read all of the ring, and
    /// follows.
    ///
    /// # Errors
    /// A receiver in an epoch that has not begun.
    pub fn try_ring(&mut self, memory: &impl SharedMemory) -> Result<bool, Broken> {
        debug_assert!(self.path() == Path::Kernel);
        let other = 1 - self.direction.sender_side();
        let armed = self.direction.word(ARMED);
        if self.owes_wake_byte
            || memory.load(armed) != 0
            || memory.load(UP + other) == 0
            || memory.load(WANT_KERNEL + other) != 0
            || memory.load(WANT_KERNEL + 1 - other) != 0
        {
            return Ok(false);
        }
        let behind = self.epoch - self.reached(memory)?;
        if self.room(memory)? != self.direction.ring_bytes() || behind + 2 > KEPT_EPOCHS {
            return Ok(false);
        }
        self.close_epoch(memory);
        // Partner: the fence in Receiver::arm. If it armed without having seen the new epoch, no wake-up
        // byte may wake it, since it reads the kernel connection for data. So an empty epoch of the ring,
        // and on with the kernel connection, which wakes it.
        memory.fence();
        if memory.load(armed) != 0 {
            self.close_epoch(memory);
        }
        Ok(self.path() == Path::Ring)
    }

    /// Goes from the ring to the kernel connection. No byte may go there before [`Sender::may_use_kernel`].
    pub fn leave_ring(&mut self, memory: &impl SharedMemory) {
        debug_assert!(self.path() == Path::Ring);
        self.close_epoch(memory);
    }

    /// Whether the other side asks us to take back what it has not read of the ring.
    #[must_use]
    pub fn is_take_back_asked(&self, memory: &impl SharedMemory) -> bool {
        path(memory.load(TAKE_BACK + 1 - self.side())) == Path::Ring
    }

    /// Begins to take back, if that is asked and can be: returns how many bytes. Then send
    /// what [`Sender::copy_back`] gives over the kernel connection, without waiting, and nothing else, and
    /// call [`Sender::took_back`].
    ///
    /// # Errors
    /// A receiver that says it took what was not there.
    pub fn begin_to_take_back(
        &mut self,
        memory: &impl SharedMemory,
    ) -> Result<Option<u64>, Broken> {
        let word = TAKE_BACK + 1 - self.side();
        let asked = memory.load(word);
        if path(asked) == Path::Kernel {
            return Ok(None);
        }
        if asked != self.epoch || self.owes_wake_byte {
            memory.swap_if(word, asked, REFUSED);
            return Ok(None);
        }
        if !memory.swap_if(word, asked, TAKING) {
            return Ok(None);
        }
        // Partner: the fence in Receiver::next: whoever asked has no read in progress.
        memory.fence();
        self.room(memory)?;
        if memory.load(self.direction.word(READS_KERNEL)) != 0 {
            memory.store(word, REFUSED);
            return Ok(None);
        }
        Ok(Some(self.in_ring()))
    }

    /// Copies what is to be taken back, from byte `already` of it on.
    pub fn copy_back(&self, memory: &impl SharedMemory, already: u64, bytes: &mut [u8]) {
        let (at, straight) = self.direction.place(self.tail_seen + already);
        let (first, rest) = bytes.split_at_mut(straight.min(bytes.len()));
        memory.copy_out(at, first);
        if !rest.is_empty() {
            memory.copy_out(self.direction.place(0).0, rest);
        }
    }

    /// The kernel connection took so many bytes of those to be taken back. Returns whether that is all:
    /// then the path is the kernel connection, and may be used.
    pub fn took_back(&mut self, memory: &impl SharedMemory, sent: u64) -> bool {
        let word = TAKE_BACK + 1 - self.side();
        let whole = self.in_ring();
        if sent != whole {
            self.wake_bytes += sent;
            memory.store(self.direction.word(WAKE_BYTES), self.wake_bytes);
            memory.store(word, REFUSED);
            return false;
        }
        self.head = self.tail_seen;
        // Before EPOCH: the receiver looks at it again after that.
        self.show_in_ring(memory);
        self.position -= whole;
        self.close_epoch(memory);
        self.position += whole;
        memory.store(word, 0);
        true
    }

    fn close_epoch(&mut self, memory: &impl SharedMemory) {
        let bound = self.direction.at_epoch(BOUND, self.epoch);
        memory.store(bound, self.position);
        let wake_bytes = self.direction.at_epoch(WAKE_BYTES_AT, self.epoch);
        memory.store(wake_bytes, self.wake_bytes);
        self.epoch += 1;
        memory.store(self.direction.word(EPOCH), self.epoch);
    }

    /// Whether bytes of this epoch of the kernel connection can be told from those of the one before.
    /// If not, send the wake-up byte that is owed or, if there is none, ask again: the receiver is in
    /// the middle of a read that does not wait.
    ///
    /// # Errors
    /// A receiver in an epoch that has not begun.
    pub fn may_use_kernel(&self, memory: &impl SharedMemory) -> Result<bool, Broken> {
        debug_assert!(self.path() == Path::Kernel);
        // Partner: the fence in Receiver::next.
        memory.fence();
        let reads_kernel = memory.load(self.direction.word(READS_KERNEL)) != 0;
        Ok(!self.owes_wake_byte && (!reads_kernel || self.reached(memory)? == self.epoch))
    }

    fn reached(&self, memory: &impl SharedMemory) -> Result<u64, Broken> {
        let reached = memory.load(self.direction.word(REACHED));
        if reached > self.epoch || self.epoch - reached > KEPT_EPOCHS {
            return Err(Broken::Epoch {
                found: reached,
                own: self.epoch,
            });
        }
        Ok(reached)
    }

    /// Whether the receiver waits on the kernel connection, or is about to.
    #[must_use]
    pub fn receiver_sleeps(&self, memory: &impl SharedMemory) -> bool {
        memory.load(self.direction.word(ARMED)) != 0
    }

    /// The side that sends: 0 or 1.
    #[must_use]
    pub const fn side(&self) -> usize {
        self.direction.sender_side()
    }

    /// Bytes that the ring takes when it is empty.
    #[must_use]
    pub const fn ring_bytes(&self) -> u64 {
        self.direction.ring_bytes()
    }

    /// Whether the other side asks for the kernel connection.
    #[must_use]
    pub fn is_kernel_wanted(&self, memory: &impl SharedMemory) -> bool {
        memory.load(WANT_KERNEL + 1 - self.direction.sender_side()) != 0
    }

    /// `bytes` more of the stream went over the kernel connection.
    pub const fn sent_by_kernel(&mut self, bytes: u64) {
        self.position += bytes;
    }

    /// Who had this before ended in the middle of [`Sender::put`], [`Sender::publish`] or [`Sender::wake`],
    /// or of a call that sends on the kernel connection, of which `kernel_bytes` were ever sent, by its own
    /// count. Goes on behind what was sent: then, in the ring, send the wake-up byte that is owed
    /// ([`Sender::owes_wake_byte`]), or else [`Sender::wake`] a receiver that may not have been woken.
    /// `false`: it did something else.
    #[must_use]
    pub fn recover(&mut self, memory: &impl SharedMemory, kernel_bytes: u64) -> bool {
        if self.waking != 0 {
            return self.recover_waking(memory, kernel_bytes);
        }
        let in_ring = self.direction.put_since(memory, self.tail_seen);
        if in_ring > self.direction.ring_bytes() {
            return false;
        }
        let head = self.tail_seen + in_ring;
        let wake_bytes = self.wake_bytes - u64::from(self.owes_wake_byte);
        let Some(of_stream) = kernel_bytes.checked_sub(wake_bytes) else {
            return false;
        };
        self.head = head;
        self.unseen_bytes = 0;
        self.position = of_stream + head;
        memory.store(self.direction.word(IN_RING), 0);
        true
    }

    /// What was put was shown. The wake-up byte may be announced or not, and on the kernel connection or not.
    fn recover_waking(&mut self, memory: &impl SharedMemory, kernel_bytes: u64) -> bool {
        let of_stream = self.position - self.head;
        // Fewer than there were before are no count.
        let missing = self
            .waking
            .wrapping_sub(kernel_bytes.wrapping_sub(of_stream));
        if missing > 1 {
            return false;
        }
        if missing == 1 {
            // Perhaps it was taken already. The receiver was armed in this epoch, which has not
            // ended: so it bears a wake-up byte.
            memory.swap_if(self.direction.word(ARMED), self.epoch + 1, 0);
        }
        self.wake_bytes = self.waking;
        memory.store(self.direction.word(WAKE_BYTES), self.wake_bytes);
        self.owes_wake_byte = missing == 1;
        self.waking = 0;
        memory.store(self.direction.word(IN_RING), 0);
        true
    }

    /// Bytes of the stream so far.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Epochs closed so far: half as many changes each way.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }
}
