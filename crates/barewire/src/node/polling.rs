//! Polling a node for events, and waiting for them: spinning first, then sleeping.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use barewire_cpu::probes::nodes as probes;
use barewire_fabric::doorbell;
use barewire_fabric::wait::{Act, Wait};
use barewire_shm::counters::QueueCounter;
use barewire_sys::clock::monotonic_ns;
use barewire_sys::wake::heavy_fence;

use crate::error::Result;
use crate::links::driven::{DrivenSet, DrivesAll, Leads};
use crate::node::core::NodeCore;
use crate::node::wait::{Deadline, Step};
use crate::tables::events::Found;
use crate::tables::state::State;

/// Polls between two looks at the clock.
const POLLS_PER_CLOCK: u32 = 64;
/// How long a wake-up is left to the owner's event loop before others take it.
const OWNER_LOOP_GRACE: Duration = Duration::from_millis(1);

impl NodeCore {
    /// Looks at the sockets now and then, to be called with every poll.
    #[inline]
    fn count_poll(&self) -> Result<()> {
        // Relaxed: a count that only spaces out looks at the clock.
        let polls = self.waiting.polls.load(Ordering::Relaxed).wrapping_add(1);
        self.waiting.polls.store(polls, Ordering::Relaxed);
        if polls % POLLS_PER_CLOCK == 0 {
            self.poll_sockets_if_due(monotonic_ns())?;
        }
        Ok(())
    }

    /// Whether a poll would certainly find nothing, bar what only sockets know, and connections at which the node
    /// looks itself.
    #[inline]
    fn is_quiet(&self) -> bool {
        !doorbell::pending(&self.own_page) && !self.base.wants_attention()
    }

    /// Looks at the connections whose peers do not ring, and hands out at most `max` that are ready.
    #[inline]
    fn look_at_disarmed(&self, max: usize, put: &mut impl FnMut(Found)) -> usize {
        let looked = self
            .waiting
            .look_at_disarmed(max, |number| put(Found::Ready(number)));
        let Some(looked) = looked else {
            self.rearm();
            return 0;
        };
        self.count_events(looked.to_count);
        looked.found
    }

    #[inline]
    fn count_events(&self, events: u64) {
        if events > 0 {
            self.base.counters.add(QueueCounter::Events, events);
        }
    }

    /// Looks at these connections itself from now on. The caller has the lock of the state: nobody falls asleep
    /// meanwhile.
    fn watch(&self, state: &State, numbers: &[u32]) {
        if state.doorbells.has_sleepers() || !self.waiting.has_place_for(numbers.len()) {
            return;
        }
        for number in numbers {
            let entry = state.connections.get(*number as usize);
            if let Some(core) = entry.and_then(|entry| entry.core.as_ref()) {
                if core.begin_watch() {
                    self.note_disarmed(core);
                }
            }
        }
    }

    /// Has all connections ring again; each is then ready for a try.
    #[inline(never)]
    fn rearm(&self) {
        if !self.waiting.has_disarmed() {
            return;
        }
        let (connections, uncounted) = self.waiting.take_disarmed();
        for connection in &connections {
            connection.rearm();
        }
        self.count_events(uncounted);
        heavy_fence();
        let mut state = self.state();
        for connection in &connections {
            state.push_ready(connection.number);
        }
    }

    /// Hands out events that are there, at most `max`, and returns how many.
    pub fn poll(&self, max: usize, put: &mut impl FnMut(Found)) -> Result<usize> {
        self.base.check_fork()?;
        self.wake_from_descriptor()?;
        self.base.driven.drive();
        self.count_poll()?;
        let found = self.collect(max, put);
        // Relaxed: set by the owner before it first waits.
        if found == 0 && self.waiting.descriptor_used.load(Ordering::Relaxed) {
            return self.fall_asleep_for_descriptor(max, put);
        }
        if found == 0 && self.waiting.has_disarmed() {
            // The next look is not to take the line away from a peer that is about to write it.
            core::hint::spin_loop();
        }
        Ok(found)
    }

    /// As `poll`, without falling asleep for the descriptor.
    pub fn poll_awake(&self, max: usize, put: &mut impl FnMut(Found)) -> Result<usize> {
        self.base.check_fork()?;
        self.base.driven.drive();
        self.count_poll()?;
        self.poll_once(max, put)
    }

    /// Whether the last poll left bits behind for the next.
    fn is_noisy(&self) -> bool {
        self.base.wants_attention() && !self.state().doorbells.is_drained()
    }

    #[inline]
    fn collect(&self, max: usize, put: &mut impl FnMut(Found)) -> usize {
        let has_disarmed = self.waiting.has_disarmed();
        let disarmed_first = has_disarmed && self.waiting.disarmed_first();
        let mut found = 0;
        if disarmed_first {
            found = self.look_at_disarmed(max, put);
        }
        if found < max && !self.is_quiet() {
            found += self.collect_from_tables(max - found, put);
        }
        if has_disarmed && !disarmed_first && found < max {
            found += self.look_at_disarmed(max - found, put);
        }
        found
    }

    /// Out of line: hot connections come without it.
    #[inline(never)]
    fn collect_from_tables(&self, max: usize, put: &mut impl FnMut(Found)) -> usize {
        let mut state = self.state();
        let found = state.collect(max, put);
        if let Some(numbers) = state.events.hot.take() {
            self.watch(&state, &numbers);
        }
        self.count_events(found as u64);
        self.base.set_attention(!state.is_settled());
        let news = core::mem::take(&mut state.news);
        let mut unclaimed = Vec::new();
        if !state.events.unclaimed.is_empty() {
            core::mem::swap(&mut unclaimed, &mut state.events.unclaimed);
        }
        drop(state);
        // To give memory back takes its time.
        drop(unclaimed);
        if news {
            self.wake_leader();
        }
        found
    }

    /// Our descriptor becomes readable with the next event, unless there is one already.
    fn fall_asleep_for_descriptor(&self, max: usize, put: &mut impl FnMut(Found)) -> Result<usize> {
        self.poll_sockets_now()?;
        {
            let mut state = self.state();
            // Relaxed: changed under the lock of the state only.
            if self
                .waiting
                .asleep_for_descriptor
                .swap(true, Ordering::Relaxed)
            {
                state.doorbells.renumber_sleep();
            } else {
                state.doorbells.announce_sleep();
            }
        }
        // SeqCst fence, which pairs with that in `note_disarmed`.
        fence(Ordering::SeqCst);
        self.base.driven.leave_to_thread();
        // Has the carriers' descriptors tell.
        if !self.base.driven.may_sleep() {
            // One has something that its descriptor does not show.
            self.base.driven.watch();
        }
        self.rearm();
        let found = self.collect(max, put);
        if found > 0 {
            self.stop_sleep_for_descriptor();
        }
        Ok(found)
    }

    /// Takes back the announcement that was made for the descriptor; whether there was one.
    #[inline]
    fn stop_sleep_for_descriptor(&self) -> bool {
        // Relaxed: changed under the lock of the state only.
        self.waiting.asleep_for_descriptor.load(Ordering::Relaxed) && self.announce_awake()
    }

    #[cold]
    fn announce_awake(&self) -> bool {
        let mut state = self.state();
        // Relaxed: changed under the lock of the state only.
        let asleep = self
            .waiting
            .asleep_for_descriptor
            .swap(false, Ordering::Relaxed);
        if asleep {
            state.doorbells.announce_awake();
        }
        drop(state);
        if asleep {
            self.waiting.wake_those_at_gate(&self.waiting.gate());
        }
        asleep
    }

    /// If the owner's event loop has been woken and has not come yet, waits a little for
    /// it: to sleep now would take away what it is woken by. Returns how long to sleep.
    fn wait_for_owner(&self, timeout: Option<Duration>) -> Option<Duration> {
        // Relaxed: changed under the lock of the state only.
        let asleep = self.waiting.asleep_for_descriptor.load(Ordering::Relaxed);
        if !asleep || !self.state().has_work() {
            return timeout;
        }
        let wait = timeout.map_or(OWNER_LOOP_GRACE, |t| t.min(OWNER_LOOP_GRACE));
        self.waiting.wait_at_gate(self.waiting.gate(), wait);
        Some(Duration::ZERO)
    }

    fn wake_from_descriptor(&self) -> Result<()> {
        if self.stop_sleep_for_descriptor() {
            self.poll_sockets_now()?;
        }
        Ok(())
    }

    /// The descriptor for the owner's own event loop.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        // Relaxed: read by the owner's next poll.
        if !self.waiting.descriptor_used.swap(true, Ordering::Relaxed) {
            // The owner may have polled already, and did not fall asleep for the descriptor then. So it is readable once,
            // and the owner polls again.
            self.base.wake();
        }
        self.base.epoll.as_fd()
    }

    /// Waits until `step` finds something: spins, then sleeps. `None` at the deadline.
    pub fn wait_until<T>(
        &self,
        deadline: Deadline,
        spin: bool,
        mut step: impl FnMut(Step) -> Option<T>,
    ) -> Result<Option<T>> {
        self.wait_driving(deadline, spin, |what, driven| {
            driven.drive_if(what.is_look());
            step(what)
        })
    }

    /// As [`NodeCore::wait_until`], for a `step` that drives all links before each look by itself.
    pub fn wait_driving<T>(
        &self,
        deadline: Deadline,
        spin: bool,
        mut step: impl FnMut(Step, &DrivenSet) -> Option<T>,
    ) -> Result<Option<T>> {
        self.base.check_fork()?;
        let (driven, _drives_all) = (&self.base.driven, DrivesAll::begin());
        let mut step = |what: Step| step(what, driven);
        if let Some(found) = step(Step::Poll) {
            return Ok(Some(found));
        }
        // Before the budget: if the rule is changed in between, the wait begins anew with the other one.
        let mut changes = self.waiting.spinner.changes();
        let budget_ns = match spin && !deadline.is_immediate() {
            true => self.waiting.spinner.begin(),
            false => 0,
        };
        if budget_ns > 0 {
            // Before the clock is read, which takes as long as several looks.
            if let Some(found) = step(Step::Spin).or_else(|| poll_a_while(&mut step)) {
                self.note_spin_hit();
                return Ok(Some(found));
            }
        }
        let mut now_ns = monotonic_ns();
        let mut wait = Wait::begin(now_ns, budget_ns, deadline.at_ns());
        let mut generation = 0;
        loop {
            let act = wait.nothing_found(now_ns);
            let found = match act {
                Act::Look => poll_a_while(&mut step),
                Act::Arm => {
                    generation = self.waiting.gate().generation;
                    step(Step::Arm)
                }
                Act::Sleep => self.sleep_or_follow(generation, deadline.left(now_ns), &mut step)?,
                Act::GiveUp => return Ok(None),
            };
            if act == Act::Look && found.is_some() {
                // Before the clock is read, which takes longer than the rest.
                self.note_spin_hit();
                return Ok(found);
            }
            now_ns = monotonic_ns();
            match act {
                Act::Look => {
                    self.poll_sockets_if_due(now_ns)?;
                    if changes != self.waiting.spinner.changes() {
                        // How long to spin was changed meanwhile.
                        changes = self.waiting.spinner.changes();
                        wait =
                            Wait::begin(now_ns, self.waiting.spinner.budget_ns(), deadline.at_ns());
                    }
                }
                Act::Sleep if found.is_some() => {
                    self.waiting.spinner.wasted(budget_ns, wait.waited(now_ns));
                }
                Act::Sleep => self.base.counters.add(QueueCounter::SpuriousWakes, 1),
                Act::Arm | Act::GiveUp => {}
            }
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    fn note_spin_hit(&self) {
        self.waiting.spinner.rewarded();
        self.base.counters.add(QueueCounter::SpinHits, 1);
    }

    fn sleep_or_follow<T>(
        &self,
        generation: u64,
        timeout: Option<Duration>,
        step: &mut impl FnMut(Step) -> Option<T>,
    ) -> Result<Option<T>> {
        let found = if self.waiting.lead() {
            let slept = self.sleep(timeout, step);
            self.waiting.step_down();
            slept?
        } else {
            self.follow(generation, timeout, step)
        };
        Ok(found.or_else(|| step(Step::Poll)))
    }

    /// Waits until the thread that sleeps in the kernel has woken.
    fn follow<T>(
        &self,
        generation: u64,
        timeout: Option<Duration>,
        step: &mut impl FnMut(Step) -> Option<T>,
    ) -> Option<T> {
        // Whoever rang after our last look may have found nobody asleep yet.
        self.announce_sleep();
        let found = step(Step::Sleep);
        if found.is_none() {
            let gate = self.waiting.gate();
            if gate.led && gate.generation == generation {
                let wait = timeout.unwrap_or(Duration::from_secs(3600));
                self.waiting.wait_at_gate(gate, wait);
            }
        }
        self.state().doorbells.announce_awake();
        found
    }

    fn announce_sleep(&self) {
        let mut state = self.state();
        state.events.hot.forget();
        state.doorbells.announce_sleep();
    }

    fn sleep<T>(
        &self,
        timeout: Option<Duration>,
        step: &mut impl FnMut(Step) -> Option<T>,
    ) -> Result<Option<T>> {
        self.announce_sleep();
        let leads = Leads::begin();
        // From here on whoever rings wakes us; what came before is seen now.
        let found = step(Step::Sleep);
        let looked = if found.is_none() {
            self.base.counters.add(QueueCounter::Sleeps, 1);
            let timeout = self.wait_for_owner(timeout);
            probes::sleeps();
            let sleeper = self.base.driven.begin_sleep();
            let looked = match sleeper.may_sleep && !leads.has_found() {
                true => self.poll_sockets(timeout),
                // A transport has something that its descriptor does not show, or something is there for another thread.
                false => self.poll_sockets(Some(Duration::ZERO)),
            };
            probes::woken();
            looked
        } else {
            Ok(0)
        };
        drop(leads);
        let mut state = self.state();
        state.doorbells.announce_awake();
        self.wake_owner_loop(&state);
        drop(state);
        looked?;
        Ok(found)
    }

    /// Waits for events, and hands out at most `max`.
    pub fn wait(
        &self,
        max: usize,
        put: &mut impl FnMut(Found),
        timeout: Option<Duration>,
    ) -> Result<usize> {
        // Where there is always an event, nobody ever sleeps, and sockets wait.
        self.count_poll()?;
        let mut failed = None;
        let deadline = Deadline::after(timeout);
        let found = self.wait_until(deadline, true, |step| {
            if matches!(step, Step::Arm | Step::Sleep) {
                self.rearm();
            }
            match self.poll_once(max, put) {
                Ok(0) if self.base.take_woken() => Some(0),
                // Much noise and no event: the caller gets a turn, and sleep must wait.
                Ok(0) if self.is_noisy() => Some(0),
                Ok(0) => None,
                Ok(found) => Some(found),
                Err(error) => {
                    failed = Some(error);
                    Some(0)
                }
            }
        })?;
        failed.map_or(Ok(found.unwrap_or(0)), Err)
    }

    /// As `poll`, without falling asleep for the descriptor.
    fn poll_once(&self, max: usize, put: &mut impl FnMut(Found)) -> Result<usize> {
        self.wake_from_descriptor()?;
        Ok(self.collect(max, put))
    }
}

/// Looks a few times, which costs less than the clock.
#[inline]
fn poll_a_while<T>(step: &mut impl FnMut(Step) -> Option<T>) -> Option<T> {
    for _ in 0..32 {
        core::hint::spin_loop();
        let found = step(Step::Poll);
        if found.is_some() {
            return found;
        }
    }
    None
}
