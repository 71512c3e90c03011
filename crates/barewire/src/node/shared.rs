//! What all handles of a node share, and how they wait.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use barewire_fabric::doorbell;
use barewire_fabric::wait::{Act, Wait};
use barewire_shm::Window;
use barewire_shm::counters::{CounterPage, Identity, QueueCounter, page_bytes};
use barewire_sys::clock::monotonic_ns;
use barewire_sys::discover::COUNTER_PAGE_NAME;
use barewire_sys::memory::{Access, Memfd, arm_fork_guard, fork_generation};
use barewire_sys::process::{Credentials, own_credentials, random_bytes};
use barewire_sys::retire::Retirer;
use barewire_sys::wake::{Epoll, EpollEvent, EventFd, Interest, heavy_fence, register_expedited};

use crate::config::NodeConfig;
use crate::error::{Error, Result};
use crate::handles::connection::ConnectionShared;
use crate::handles::event::Event;
use crate::links::budget::Accounts;
use crate::node::bulk::Job;
use crate::node::capture::Tap;
use crate::node::settings::{Door, Live, fitted};
use crate::node::wait::{Deadline, Spinner};
use crate::tables::state::{State, TOKEN_EVENTFD};

/// While polling, sockets are looked at this often: peers ring for control messages, so
/// only deaths and first contacts wait for it.
const LOOK_INTERVAL_NS: u64 = 1_000_000;
/// Polls between two looks at the clock.
const POLLS_PER_CLOCK: u32 = 64;
/// How long a wake-up is left to the owner's event loop before others take it.
const OWNER_COMES: Duration = Duration::from_millis(1);

/// What a waiter is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Spinning begins: the peer need not ring.
    Spin,
    /// See whether what is waited for is there.
    Poll,
    /// Sleep is near: have the peer ring, then see.
    Arm,
}

/// Who sleeps in the kernel for this node: one thread; others wait for it.
#[derive(Default)]
struct Gate {
    led: bool,
    generation: u64,
}

pub(crate) struct Shared {
    /// What it was made with.
    pub config: NodeConfig,
    /// What holds now of what may change.
    pub live: Mutex<Live>,
    /// Held by who changes settings.
    pub changing: Mutex<()>,
    /// Where others ask for that.
    pub door: Option<Door>,
    pub node_id: [u64; 2],
    pub own: Credentials,
    pub epoll: Epoll,
    pub eventfd: EventFd,
    /// Closes what peers and strangers have sent.
    pub retirer: Retirer,
    /// The doorbell page of our own user's peers, and of ourselves.
    pub own_page: Window,
    pub counters: CounterPage,
    /// Kept open: `barewire ls` finds the page by it.
    _counters_memfd: Memfd,
    pub membarrier: bool,
    state: Mutex<State>,
    gate: Mutex<Gate>,
    gate_opened: Condvar,
    /// Something other than the own page has to be looked at.
    attention: Arc<AtomicBool>,
    /// Connections that polled directly and have to be armed before anything sleeps.
    disarmed: Mutex<Vec<Arc<ConnectionShared>>>,
    disarmed_count: AtomicUsize,
    /// The owner waits on our descriptor in a loop of its own.
    descriptor_used: AtomicBool,
    asleep_for_descriptor: AtomicBool,
    polls: AtomicU32,
    last_look_ns: AtomicU64,
    pub spinner: Spinner,
    fork_generation: u32,
    /// A tripwire with the action Wake fired.
    woken: AtomicBool,
    pub bulk_under_way: AtomicU32,
    pub bulk_queue: Mutex<Option<Sender<Job>>>,
    pub tap: Option<Arc<Tap>>,
    pub me: Weak<Shared>,
}

impl Shared {
    pub fn new(config: NodeConfig) -> Result<Arc<Shared>> {
        config.check()?;
        arm_fork_guard();
        let own = own_credentials();
        let mut id = [0; 16];
        random_bytes(&mut id)?;
        let [low, high] = [0, 8].map(|at| {
            let mut word = [0; 8];
            word.copy_from_slice(&id[at..at + 8]);
            u64::from_le_bytes(word)
        });
        let node_id = [low, high];
        let slots = config.connections_max;
        let counters_memfd = Memfd::create_sealed(COUNTER_PAGE_NAME, page_bytes(slots))?;
        let identity = Identity {
            pid: own.pid as u32,
            uid: own.uid,
            started_ns: monotonic_ns(),
            node_id,
        };
        let region = counters_memfd.map(Access::ReadWrite)?;
        let counters = CounterPage::create(&region, slots, identity).ok_or(Error::Closed)?;
        let placement = config.placement();
        placement.check()?;
        counters.set_placed(config.placed());
        let epoll = Epoll::new()?;
        let eventfd = EventFd::new()?;
        epoll.add(&eventfd, TOKEN_EVENTFD, Interest::READ_EDGE)?;
        let retirer = Retirer::new(eventfd.try_clone()?);
        let attention = Arc::new(AtomicBool::new(false));
        let (of_one, of_all) = fitted(&config);
        let accounts = Accounts::new(&of_one, &of_all, counters.clone());
        let mut state = State::new(Arc::clone(&attention), accounts, placement);
        let own_page = state.domain_page(own.uid)?.clone();
        let tap = match &config.capture {
            Some(path) => Some(Arc::new(Tap::create(path, own.pid as u32)?)),
            None => None,
        };
        let door = Door::open(node_id, &epoll);
        let membarrier = register_expedited();
        let spinner = Spinner::new(config.spin);
        Ok(Arc::new_cyclic(|me| Shared {
            spinner,
            live: Mutex::new(Live::new(config.clone())),
            changing: Mutex::new(()),
            door,
            config,
            node_id,
            own,
            epoll,
            eventfd,
            retirer,
            own_page,
            counters,
            _counters_memfd: counters_memfd,
            membarrier,
            state: Mutex::new(state),
            gate: Mutex::default(),
            gate_opened: Condvar::new(),
            attention,
            disarmed: Mutex::default(),
            disarmed_count: AtomicUsize::new(0),
            descriptor_used: AtomicBool::new(false),
            asleep_for_descriptor: AtomicBool::new(false),
            polls: AtomicU32::new(0),
            last_look_ns: AtomicU64::new(0),
            fork_generation: fork_generation(),
            woken: AtomicBool::new(false),
            bulk_under_way: AtomicU32::new(0),
            bulk_queue: Mutex::default(),
            tap,
            me: me.clone(),
        }))
    }

    /// The node's state. A panic of another thread while it held the lock does not make
    /// the state unusable: every change leaves it consistent before anything can panic.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses to work in a child that inherited us.
    pub fn check_fork(&self) -> Result<()> {
        if fork_generation() == self.fork_generation {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }

    /// Rings our own doorbell.
    pub fn ring_own(&self, source: u32) {
        if doorbell::ring(&self.own_page, source) % 2 == 1 {
            // Failing means that the counter is full: then it wakes all the same.
            let _ = self.eventfd.signal();
        }
    }

    /// Ends a wait without an event.
    pub fn note_woken(&self) {
        // Relaxed: read by the thread that collected the tripwire.
        self.woken.store(true, Ordering::Relaxed);
    }

    /// Looks at the sockets and handles what is there.
    pub fn look(&self, timeout: Option<Duration>) -> Result<usize> {
        let mut events: Vec<EpollEvent> = Vec::with_capacity(64);
        self.epoll.wait(&mut events, timeout)?;
        // Relaxed: a hint about when we last looked.
        self.last_look_ns.store(monotonic_ns(), Ordering::Relaxed);
        self.attend_door_again();
        for event in &events {
            self.attend_door(event.token);
        }
        let mut state = self.state();
        for event in &events {
            state.socket_event(self, event);
        }
        state.resume_listeners(self);
        state.close_doomed(self);
        state.news = false;
        if !state.settled() {
            // Release pairs with the Acquire in `quiet`.
            self.attention.store(true, Ordering::Release);
        }
        let stale = core::mem::take(&mut state.stale);
        drop(state);
        // Each gives itself back, for which it takes the lock.
        drop(stale);
        Ok(events.len())
    }

    /// Looks at the sockets without waiting. What it finds may be what the thread that
    /// sleeps in the kernel waits for, or the owner's event loop: these are woken.
    fn glance(&self) -> Result<()> {
        // That thread looks, and must not have what wakes it taken away.
        if self.gate().led {
            return Ok(());
        }
        if self.look(Some(Duration::ZERO))? > 0 {
            let mut state = self.state();
            state.renumber_sleep_if_asleep();
            self.pass_on(&state);
            drop(state);
            self.wake_leader();
        }
        Ok(())
    }

    /// What woke us may have been meant for the owner's event loop.
    pub fn pass_on(&self, state: &State) {
        // Relaxed: changed under the lock of the state only.
        if self.asleep_for_descriptor.load(Ordering::Relaxed) && state.has_work() {
            // Failing means that the counter is full: then it wakes all the same.
            let _ = self.eventfd.signal();
        }
    }

    pub fn wake_leader(&self) {
        if self.gate().led {
            // Failing means that the counter is full: then it wakes all the same.
            let _ = self.eventfd.signal();
        }
    }

    /// Looks at the sockets if that has not been done for a while.
    pub fn look_now_and_then(&self, now_ns: u64) -> Result<()> {
        // Relaxed: a hint about when we last looked.
        if now_ns.wrapping_sub(self.last_look_ns.load(Ordering::Relaxed)) > LOOK_INTERVAL_NS {
            self.glance()?;
        }
        Ok(())
    }

    /// Looks at the sockets now and then, to be called with every poll.
    #[inline]
    fn count_poll(&self) -> Result<()> {
        // Relaxed: a count that only spaces out looks at the clock.
        let polls = self.polls.load(Ordering::Relaxed).wrapping_add(1);
        self.polls.store(polls, Ordering::Relaxed);
        if polls % POLLS_PER_CLOCK == 0 {
            self.look_now_and_then(monotonic_ns())?;
        }
        Ok(())
    }

    /// Whether a poll would certainly find nothing (bar what only sockets know).
    #[inline]
    fn quiet(&self) -> bool {
        // Acquire pairs with the Release of whoever attracts attention. Relaxed: the
        // count is only ever changed by handles of this node, whose owner then polls.
        !doorbell::pending(&self.own_page)
            && !self.attention.load(Ordering::Acquire)
            && self.disarmed_count.load(Ordering::Relaxed) == 0
    }

    /// Remembers a connection whose receiver has told its peer not to ring.
    pub fn note_disarmed(&self, connection: &Arc<ConnectionShared>) {
        let mut disarmed = self.disarmed.lock().unwrap_or_else(PoisonError::into_inner);
        // An owner that never polls would else keep all that it ever had.
        if disarmed.len() == disarmed.capacity() {
            disarmed.retain(|c| !c.is_gone());
        }
        disarmed.push(Arc::clone(connection));
        // Relaxed: see `quiet`.
        self.disarmed_count.store(disarmed.len(), Ordering::Relaxed);
        drop(disarmed);
        // SeqCst fence, with that in `fall_asleep_for_descriptor`: either the owner, who may be
        // another thread, sees the count, or we see that it falls asleep.
        fence(Ordering::SeqCst);
        // Relaxed: the fence orders it.
        if self.asleep_for_descriptor.load(Ordering::Relaxed) {
            let _ = self.eventfd.signal();
        }
    }

    /// Has all connections ring again; each is then ready for a try.
    fn rearm(&self) {
        // Relaxed: see `quiet`.
        if self.disarmed_count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let connections = {
            let mut disarmed = self.disarmed.lock().unwrap_or_else(PoisonError::into_inner);
            // Relaxed: see `quiet`.
            self.disarmed_count.store(0, Ordering::Relaxed);
            core::mem::take(&mut *disarmed)
        };
        for connection in &connections {
            connection.rearm();
        }
        heavy_fence();
        let mut state = self.state();
        for connection in &connections {
            state.push_ready(connection.number);
        }
    }

    /// Hands out events that are there, at most `max`, and returns how many.
    pub fn poll(self: &Arc<Self>, out: &mut Vec<Event>, max: usize) -> Result<usize> {
        self.check_fork()?;
        self.wake_from_descriptor()?;
        self.count_poll()?;
        let found = self.collect(out, max);
        // Relaxed: set by the owner before it first waits.
        if found == 0 && self.descriptor_used.load(Ordering::Relaxed) {
            return self.fall_asleep_for_descriptor(out, max);
        }
        Ok(found)
    }

    /// Whether the last poll left bits behind for the next.
    fn is_noisy(&self) -> bool {
        // Acquire pairs with the Release in `collect`.
        self.attention.load(Ordering::Acquire) && !self.state().drained()
    }

    fn collect(self: &Arc<Self>, out: &mut Vec<Event>, max: usize) -> usize {
        if self.quiet() {
            return 0;
        }
        self.rearm();
        let before = out.len();
        let mut state = self.state();
        state.collect(self, out, max);
        let found = out.len() - before;
        if found > 0 {
            self.counters.add_alone(QueueCounter::Events, found as u64);
        }
        // Release pairs with the Acquire in `quiet`.
        self.attention.store(!state.settled(), Ordering::Release);
        let news = core::mem::take(&mut state.news);
        let stale = core::mem::take(&mut state.stale);
        drop(state);
        // Each gives itself back, for which it takes the lock.
        drop(stale);
        if news {
            self.wake_leader();
        }
        found
    }

    /// Our descriptor becomes readable with the next event, unless there is one already.
    fn fall_asleep_for_descriptor(
        self: &Arc<Self>,
        out: &mut Vec<Event>,
        max: usize,
    ) -> Result<usize> {
        self.glance()?;
        {
            let mut state = self.state();
            // Relaxed: changed under the lock of the state only.
            if self.asleep_for_descriptor.swap(true, Ordering::Relaxed) {
                state.renumber_sleep();
            } else {
                state.announce_sleep();
            }
        }
        // SeqCst fence, with that in `note_disarmed`.
        fence(Ordering::SeqCst);
        let found = self.collect(out, max);
        if found > 0 {
            self.stop_sleep_for_descriptor();
        }
        Ok(found)
    }

    /// Takes back the announcement that was made for the descriptor; whether there was one.
    fn stop_sleep_for_descriptor(&self) -> bool {
        // Relaxed: changed under the lock of the state only.
        if !self.asleep_for_descriptor.load(Ordering::Relaxed) {
            return false;
        }
        let mut state = self.state();
        let asleep = self.asleep_for_descriptor.swap(false, Ordering::Relaxed);
        if asleep {
            state.announce_awake();
        }
        drop(state);
        if asleep && self.gate().led {
            self.gate_opened.notify_all();
        }
        asleep
    }

    /// If the owner's event loop has been woken and has not come yet, waits a little for
    /// it: to sleep now would take away what it is woken by. Returns how long to sleep.
    fn wait_for_owner(&self, timeout: Option<Duration>) -> Option<Duration> {
        // Relaxed: changed under the lock of the state only.
        let asleep = self.asleep_for_descriptor.load(Ordering::Relaxed);
        if !asleep || !self.state().has_work() {
            return timeout;
        }
        let wait = timeout.map_or(OWNER_COMES, |t| t.min(OWNER_COMES));
        drop(self.gate_opened.wait_timeout(self.gate(), wait));
        Some(Duration::ZERO)
    }

    fn wake_from_descriptor(&self) -> Result<()> {
        if self.stop_sleep_for_descriptor() {
            self.glance()?;
        }
        Ok(())
    }

    /// The descriptor for the owner's own event loop.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        // Relaxed: read by the owner's next poll.
        self.descriptor_used.store(true, Ordering::Relaxed);
        self.epoll.as_fd()
    }

    /// Waits until `step` finds something: spins, then sleeps. `None` at the deadline.
    pub fn wait_until<T>(
        &self,
        deadline: Deadline,
        spin: bool,
        mut step: impl FnMut(Step) -> Option<T>,
    ) -> Result<Option<T>> {
        self.check_fork()?;
        if let Some(found) = step(Step::Poll) {
            return Ok(Some(found));
        }
        let mut now_ns = monotonic_ns();
        let budget_ns = if spin { self.spinner.budget_ns() } else { 0 };
        let mut changes = self.spinner.changes();
        let mut wait = Wait::begin(now_ns, budget_ns, deadline.at_ns());
        if budget_ns > 0 {
            if let Some(found) = step(Step::Spin) {
                self.note_spin_hit();
                return Ok(Some(found));
            }
        }
        let mut generation = 0;
        loop {
            let act = wait.nothing_found(now_ns);
            let found = match act {
                Act::Look => look_a_while(&mut step),
                Act::Arm => {
                    generation = self.gate().generation;
                    step(Step::Arm)
                }
                Act::Sleep => self.sleep_or_follow(generation, deadline.left(now_ns), &mut step)?,
                Act::GiveUp => return Ok(None),
            };
            now_ns = monotonic_ns();
            match act {
                Act::Look if found.is_some() => self.note_spin_hit(),
                Act::Look => {
                    self.look_now_and_then(now_ns)?;
                    if changes != self.spinner.changes() {
                        // How long to spin was changed meanwhile.
                        changes = self.spinner.changes();
                        wait = Wait::begin(now_ns, self.spinner.budget_ns(), deadline.at_ns());
                    }
                }
                Act::Sleep if found.is_some() => self.spinner.in_vain(wait.waited(now_ns)),
                Act::Sleep => self.counters.add(QueueCounter::SpuriousWakes, 1),
                Act::Arm | Act::GiveUp => {}
            }
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    fn note_spin_hit(&self) {
        self.spinner.rewarded();
        self.counters.add(QueueCounter::SpinHits, 1);
    }

    fn sleep_or_follow<T>(
        &self,
        generation: u64,
        timeout: Option<Duration>,
        step: &mut impl FnMut(Step) -> Option<T>,
    ) -> Result<Option<T>> {
        let found = if self.lead() {
            let slept = self.sleep(timeout, step);
            self.step_down();
            slept?
        } else {
            self.follow(generation, timeout, step)
        };
        Ok(found.or_else(|| step(Step::Poll)))
    }

    /// Becomes the one thread that sleeps in the kernel, unless there is one.
    fn lead(&self) -> bool {
        !core::mem::replace(&mut self.gate().led, true)
    }

    /// Waits until the thread that sleeps in the kernel has woken.
    fn follow<T>(
        &self,
        generation: u64,
        timeout: Option<Duration>,
        step: &mut impl FnMut(Step) -> Option<T>,
    ) -> Option<T> {
        // Whoever rang after our last look may have found nobody asleep yet.
        self.state().announce_sleep();
        let found = step(Step::Poll);
        if found.is_none() {
            let gate = self.gate();
            if gate.led && gate.generation == generation {
                let wait = timeout.unwrap_or(Duration::from_secs(3600));
                drop(self.gate_opened.wait_timeout(gate, wait));
            }
        }
        self.state().announce_awake();
        found
    }

    fn step_down(&self) {
        let mut gate = self.gate();
        gate.led = false;
        gate.generation += 1;
        drop(gate);
        self.gate_opened.notify_all();
    }

    fn sleep<T>(
        &self,
        timeout: Option<Duration>,
        step: &mut impl FnMut(Step) -> Option<T>,
    ) -> Result<Option<T>> {
        self.state().announce_sleep();
        // From here on whoever rings wakes us; what came before is seen now.
        let found = step(Step::Poll);
        let looked = if found.is_none() {
            self.counters.add(QueueCounter::Sleeps, 1);
            self.look(self.wait_for_owner(timeout))
        } else {
            Ok(0)
        };
        let mut state = self.state();
        state.announce_awake();
        self.pass_on(&state);
        drop(state);
        looked?;
        Ok(found)
    }

    /// Waits for events, and hands out at most `max`.
    pub fn wait(
        self: &Arc<Self>,
        out: &mut Vec<Event>,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<usize> {
        // Where there is always an event, nobody ever sleeps, and sockets wait.
        self.count_poll()?;
        let mut failed = None;
        let deadline = Deadline::after(timeout);
        let found = self.wait_until(deadline, true, |step| {
            if step == Step::Arm {
                self.rearm();
            }
            match self.poll_once(out, max) {
                // Relaxed: set by the thread that collected the tripwire.
                Ok(0) if self.woken.swap(false, Ordering::Relaxed) => Some(0),
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
    fn poll_once(self: &Arc<Self>, out: &mut Vec<Event>, max: usize) -> Result<usize> {
        self.wake_from_descriptor()?;
        Ok(self.collect(out, max))
    }
}

/// Looks a few times, which costs less than the clock.
#[inline]
fn look_a_while<T>(step: &mut impl FnMut(Step) -> Option<T>) -> Option<T> {
    for _ in 0..32 {
        core::hint::spin_loop();
        let found = step(Step::Poll);
        if found.is_some() {
            return found;
        }
    }
    None
}

impl Drop for Shared {
    fn drop(&mut self) {
        if fork_generation() == self.fork_generation {
            if let Some(tap) = &self.tap {
                tap.flush();
            }
            self.state
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner)
                .say_goodbye();
        }
    }
}
