//! The sending end of one direction. See [`super`] for the protocol.

use super::{
    ARMED, BOUND, Broken, Direction, EPOCH, HEAD, IN_LINE, IN_RING, KEPT_EPOCHS, KERNEL, Lane,
    ORDERED, PROCESSOR, REACHED, REFUSED, SEEN, SINCE, SharedMemory, TAIL, TAKE_BACK, TAKING,
    TOKENS, TOKENS_AT, UP, WANT_LINE, lane,
};

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
    tokens: u64,
    /// A token was announced that the line did not take.
    owes_token: bool,
    /// While a receiver that sleeps is being woken: the tokens that the line will have had then; else 0.
    waking: u64,
}

impl Sender {
    /// A sender whose stream has had `position` bytes, all over the line.
    #[must_use]
    pub const fn new(direction: Direction, position: u64) -> Self {
        Self {
            direction,
            epoch: 0,
            head: 0,
            tail_seen: 0,
            position,
            tokens: 0,
            owes_token: false,
            waking: 0,
        }
    }

    /// Where the next byte of the stream goes.
    #[must_use]
    pub const fn lane(&self) -> Lane {
        lane(self.epoch)
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
    /// before [`Sender::publish`]. There must be room, and the lane be the ring.
    #[inline]
    pub fn put(&mut self, memory: &impl SharedMemory, bytes: &[u8]) {
        debug_assert!(self.lane() == Lane::Ring && bytes.len() as u64 <= self.room_known());
        let (at, straight) = self.direction.place(self.head);
        let (first, rest) = bytes.split_at(bytes.len().min(straight));
        memory.copy_in(at, first);
        if !rest.is_empty() {
            memory.copy_in(self.direction.place(0).0, rest);
        }
        self.head += bytes.len() as u64;
        self.position += bytes.len() as u64;
    }

    /// Before [`Sender::put`]: whether the ring may be used. If not, leave it.
    #[must_use]
    #[inline]
    pub fn enter_ring(&self, memory: &impl SharedMemory) -> bool {
        let in_ring = self.direction.word(IN_RING);
        memory.store(in_ring, 1);
        // Partner: the heavy fence in Receiver::end_ring.
        memory.light_fence();
        let wanted = self.line_wanted(memory);
        if wanted {
            memory.store(in_ring, 0);
        }
        !wanted
    }

    /// Between [`Sender::put`] and [`Sender::publish`]: says when the bytes came, if the receiver wants to
    /// know and has read all before them. Returns whether that was so: then call [`Sender::mark`]
    /// before something is sent elsewhere by the kernel.
    #[inline]
    pub fn date(&self, memory: &impl SharedMemory, dates: impl FnOnce() -> Dates) -> bool {
        let back = self.direction.reversed();
        let taken = memory.load(back.word(TAIL));
        let dates = self.is_to_be_dated(memory).then(dates);
        // The receiver may poll the line of all these words and of HEAD. So they are stored one right
        // after the other: each pause would let it take the line back in between.
        memory.store(self.direction.word(SEEN), taken);
        let Some(dates) = dates else { return false };
        memory.store(self.direction.word(SINCE), dates.since);
        memory.store(self.direction.word(KERNEL), dates.kernel_used);
        true
    }

    /// Whether the receiver wants to know when bytes came, and has read all that was shown to it.
    #[inline]
    fn is_to_be_dated(&self, memory: &impl SharedMemory) -> bool {
        if memory.load(self.direction.word(ORDERED)) == 0 {
            return false;
        }
        let shown = memory.load(self.direction.word(HEAD));
        let is_read = |word| memory.load(word) == shown;
        // First in the line that was read with the last answer, if there was one.
        is_read(self.direction.reversed().word(SEEN)) || is_read(self.direction.word(TAIL))
    }

    /// Before something is sent elsewhere by the kernel: whether a token is to follow what lies
    /// unread in the ring, for a receiver that wants order. If so, send it as after
    /// [`Sender::publish`].
    #[must_use]
    pub fn mark(&mut self, memory: &impl SharedMemory) -> bool {
        let is_unread = self.lane() == Lane::Ring
            && memory.load(self.direction.word(ORDERED)) != 0
            && memory.load(self.direction.word(TAIL)) != self.head;
        if !is_unread || self.owes_token || !self.enter_ring(memory) {
            return false;
        }
        // Partner: the fence in Receiver::next. It does not read the line for data of an epoch that it
        // takes to be open: so it bears a token.
        memory.fence();
        if memory.load(self.direction.word(IN_LINE)) != 0
            && memory.load(self.direction.word(REACHED)) != self.epoch
        {
            memory.store(self.direction.word(IN_RING), 0);
            return false;
        }
        self.waking = self.tokens + 1;
        memory.swap_if(self.direction.word(ARMED), self.epoch + 1, 0);
        self.tokens += 1;
        memory.store(self.direction.word(TOKENS), self.tokens);
        // Last: as in publish.
        memory.store(self.direction.word(IN_RING), 0);
        true
    }

    /// Shows the receiver what was put. Returns whether it sleeps: then send a token, one
    /// byte on the line, and call [`Sender::token_sent`], or [`Sender::token_failed`] if the line
    /// does not take it.
    /// `processor` is where the caller runs, in whatever numbers both ends use, or 0; it tells
    /// a receiver that it is in the caller's way.
    #[must_use]
    #[inline]
    pub fn publish(&mut self, memory: &impl SharedMemory, processor: u64) -> bool {
        if processor != 0 {
            memory.store(self.direction.word(PROCESSOR), processor);
        }
        memory.store(self.direction.word(HEAD), self.head);
        // Partner: the fence in Receiver::arm.
        memory.fence();
        let token = self.owes_token || self.take_armed(memory);
        if token {
            self.waking = self.tokens;
        }
        // Last: whoever ends the ring must know of the token, too.
        memory.store(self.direction.word(IN_RING), 0);
        token
    }

    /// Announces a token if the receiver sleeps.
    fn take_armed(&mut self, memory: &impl SharedMemory) -> bool {
        let armed = self.direction.word(ARMED);
        if memory.load(armed) != self.epoch + 1 {
            return false;
        }
        self.waking = self.tokens + 1;
        if !memory.swap_if(armed, self.epoch + 1, 0) {
            self.waking = 0;
            return false;
        }
        self.tokens += 1;
        memory.store(self.direction.word(TOKENS), self.tokens);
        true
    }

    /// The line did not take a token that was announced. It cannot be taken back, since the
    /// receiver may be about to read it: it goes on the line before anything else does.
    pub const fn token_failed(&mut self) {
        self.owes_token = true;
        self.waking = 0;
    }

    /// Whether a token that was announced has yet to be sent, before any byte on the line:
    /// [`Sender::may_use_line`] is `false` until [`Sender::token_sent`].
    #[must_use]
    pub const fn owes_token(&self) -> bool {
        self.owes_token
    }

    /// The token that was announced, or is owed, is on the line.
    pub const fn token_sent(&mut self) {
        self.owes_token = false;
        self.waking = 0;
    }

    /// Wakes a receiver that sleeps, though nothing was put: send a token if it says so, as
    /// after [`Sender::publish`]. Not if the receiver asks for the line.
    #[must_use]
    pub fn rouse(&mut self, memory: &impl SharedMemory) -> bool {
        if !self.enter_ring(memory) {
            return false;
        }
        // Partner: the fence in Receiver::arm.
        memory.fence();
        let sleeps = self.take_armed(memory);
        // After TOKENS: a receiver that ends the ring hears of the token.
        memory.store(self.direction.word(IN_RING), 0);
        sleeps
    }

    /// Goes from the line to the ring, if that can be now: no token is owed, and the other
    /// side is up and does not ask for the line, is awake, has read all of the ring, and follows.
    ///
    /// # Errors
    /// A receiver in an epoch that has not begun.
    pub fn try_ring(&mut self, memory: &impl SharedMemory) -> Result<bool, Broken> {
        debug_assert!(self.lane() == Lane::Line);
        let other = 1 - self.direction.sender_side();
        let armed = self.direction.word(ARMED);
        if self.owes_token
            || memory.load(armed) != 0
            || memory.load(UP + other) == 0
            || memory.load(WANT_LINE + other) != 0
            || memory.load(WANT_LINE + 1 - other) != 0
        {
            return Ok(false);
        }
        let behind = self.epoch - self.reached(memory)?;
        if self.room(memory)? != self.direction.ring_bytes() || behind + 2 > KEPT_EPOCHS {
            return Ok(false);
        }
        self.close_epoch(memory);
        // Partner: the fence in Receiver::arm. If it armed without having seen the new
        // epoch, no token may wake it, since it reads the line for data. So an empty epoch
        // of the ring, and on with the line, which wakes it.
        memory.fence();
        if memory.load(armed) != 0 {
            self.close_epoch(memory);
        }
        Ok(self.lane() == Lane::Ring)
    }

    /// Goes from the ring to the line. No byte may go there before [`Sender::may_use_line`].
    pub fn leave_ring(&mut self, memory: &impl SharedMemory) {
        debug_assert!(self.lane() == Lane::Ring);
        self.close_epoch(memory);
    }

    /// Whether the other side asks us to take back what it has not read of the ring.
    #[must_use]
    pub fn is_asked_back(&self, memory: &impl SharedMemory) -> bool {
        lane(memory.load(TAKE_BACK + 1 - self.side())) == Lane::Ring
    }

    /// Begins to take back, if that is asked and can be: returns how many bytes. Then send
    /// what [`Sender::copy_back`] gives over the line, without waiting, and nothing else, and
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
        if lane(asked) == Lane::Line {
            return Ok(None);
        }
        if asked != self.epoch || self.owes_token {
            memory.swap_if(word, asked, REFUSED);
            return Ok(None);
        }
        if !memory.swap_if(word, asked, TAKING) {
            return Ok(None);
        }
        // Partner: the fence in Receiver::next: whoever asked has no read in progress.
        memory.fence();
        self.room(memory)?;
        if memory.load(self.direction.word(IN_LINE)) != 0 {
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

    /// The line took so many bytes of those to be taken back. Returns whether that is all:
    /// then the lane is the line, and may be used.
    pub fn took_back(&mut self, memory: &impl SharedMemory, sent: u64) -> bool {
        let word = TAKE_BACK + 1 - self.side();
        let whole = self.in_ring();
        if sent != whole {
            self.tokens += sent;
            memory.store(self.direction.word(TOKENS), self.tokens);
            memory.store(word, REFUSED);
            return false;
        }
        self.head = self.tail_seen;
        // Before EPOCH: the receiver looks at it again after that.
        memory.store(self.direction.word(HEAD), self.head);
        self.position -= whole;
        self.close_epoch(memory);
        self.position += whole;
        memory.store(word, 0);
        true
    }

    fn close_epoch(&mut self, memory: &impl SharedMemory) {
        let bound = self.direction.at_epoch(BOUND, self.epoch);
        memory.store(bound, self.position);
        let tokens = self.direction.at_epoch(TOKENS_AT, self.epoch);
        memory.store(tokens, self.tokens);
        self.epoch += 1;
        memory.store(self.direction.word(EPOCH), self.epoch);
    }

    /// Whether bytes of this epoch of the line can be told from those of the one before.
    /// If not, send the token that is owed or, if there is none, ask again: the receiver is in
    /// the middle of a read that does not wait.
    ///
    /// # Errors
    /// A receiver in an epoch that has not begun.
    pub fn may_use_line(&self, memory: &impl SharedMemory) -> Result<bool, Broken> {
        debug_assert!(self.lane() == Lane::Line);
        // Partner: the fence in Receiver::next.
        memory.fence();
        let in_line = memory.load(self.direction.word(IN_LINE)) != 0;
        Ok(!self.owes_token && (!in_line || self.reached(memory)? == self.epoch))
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

    /// Whether the receiver waits on the line, or is about to.
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

    /// Whether the other side asks for the line.
    #[must_use]
    pub fn line_wanted(&self, memory: &impl SharedMemory) -> bool {
        memory.load(WANT_LINE + 1 - self.direction.sender_side()) != 0
    }

    /// `bytes` more of the stream went over the line.
    pub const fn sent_on_line(&mut self, bytes: u64) {
        self.position += bytes;
    }

    /// Who had this before ended in the middle of [`Sender::put`], [`Sender::publish`] or
    /// [`Sender::rouse`], or of a call that sends on the line, of which `line_bytes` were ever sent, by
    /// its own count. Goes on behind what was sent: then, in the ring, send the token that is owed
    /// ([`Sender::owes_token`]), or else [`Sender::rouse`] a receiver that may not have been woken.
    /// `false`: it did something else.
    #[must_use]
    pub fn mend(&mut self, memory: &impl SharedMemory, line_bytes: u64) -> bool {
        if self.waking != 0 {
            return self.mend_waking(memory, line_bytes);
        }
        let head = memory.load(self.direction.word(HEAD));
        if head.wrapping_sub(self.tail_seen) > self.direction.ring_bytes() {
            return false;
        }
        let tokens = self.tokens - u64::from(self.owes_token);
        self.head = head;
        self.position = line_bytes - tokens + head;
        memory.store(self.direction.word(IN_RING), 0);
        true
    }

    /// What was put was shown. The token may be announced or not, and on the line or not.
    fn mend_waking(&mut self, memory: &impl SharedMemory, line_bytes: u64) -> bool {
        let of_stream = self.position - self.head;
        let missing = self.waking.wrapping_sub(line_bytes - of_stream);
        if missing > 1 {
            return false;
        }
        if missing == 1 {
            // Perhaps it was taken already. The receiver was armed in this epoch, which has not
            // ended: so it bears a token.
            memory.swap_if(self.direction.word(ARMED), self.epoch + 1, 0);
        }
        self.tokens = self.waking;
        memory.store(self.direction.word(TOKENS), self.tokens);
        self.owes_token = missing == 1;
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
