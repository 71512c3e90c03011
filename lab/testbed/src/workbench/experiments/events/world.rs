//! Processes that share processors, driven by the event kernel.
//!
//! | event | what happens |
//! |---|---|
//! | `Step` | a process has done a piece of its work: what it says is there, and it goes on |
//! | `Woken` | the processor of a process has woken up |
//! | `Look` | the time has come that a process sleeps until |

use std::collections::VecDeque;
use std::ops::Range;

use barewire_des::{Class, Event, Node, Simulator};
use barewire_units::{Duration, Instant};

use super::shape::Shape;
use super::work::Work;
use crate::error::SystemError;

/// A process that finds nothing to do at its time looks again after this.
const PATIENCE: Duration = Duration::from_us(1);

#[derive(Clone, Copy, Debug)]
enum What {
    Step,
    Woken,
    Look,
}

#[derive(Clone, Copy, Debug)]
struct Happens(What, u16);

impl Event for Happens {
    fn digest(&self) -> u64 {
        (self.0 as u64) << 16 | u64::from(self.1)
    }
}

type Sim = Simulator<Happens>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep,
    /// A processor is its own, and wakes up.
    Waking,
    /// Waits for a processor.
    Ready,
    Running,
}

#[derive(Clone, Copy, Debug)]
struct Process {
    state: State,
    /// Since when it has its processor.
    since: Instant,
    /// What it still has to do for those that it woke.
    debt: Duration,
    busy: Duration,
    look: Option<Instant>,
}

/// What a run gave.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub built: u64,
    pub built_bytes: u64,
    /// Of each process: the manager, builders, sources.
    pub busy_ps: Vec<u64>,
    /// Until the manager knew of the last event.
    pub took: Duration,
    building_ps: Vec<u64>,
    pub hash: u64,
}

impl Found {
    pub fn seconds(&self) -> f64 {
        self.took.as_ps() as f64 / 1e12
    }

    /// Processors that these processes kept busy.
    pub fn share(&self, of: Range<usize>) -> f64 {
        let busy: u64 = self.busy_ps.get(of).map_or(0, |it| it.iter().sum());
        busy as f64 / (self.took.as_ps() as f64).max(1.0)
    }

    /// The building time that so many of a thousand events do not exceed.
    pub fn building_ps(&self, permille: usize) -> Option<u64> {
        let rank = (self.building_ps.len() * permille).div_ceil(1000);
        self.building_ps.get(rank.checked_sub(1)?).copied()
    }
}

struct World<'a> {
    shape: &'a Shape,
    work: Work<'a>,
    processes: Vec<Process>,
    ready: VecDeque<u16>,
    /// Processors that nobody has.
    idle: u16,
}

/// Runs it.
pub(super) fn run(shape: &Shape, seed: u64) -> Result<Found, SystemError> {
    let mut sim = Simulator::new();
    let work = Work::new(shape, seed)?;
    let count = work.processes();
    let process = Process {
        state: State::Asleep,
        since: Instant::ORIGIN,
        debt: Duration::ZERO,
        busy: Duration::ZERO,
        look: None,
    };
    let mut world = World {
        shape,
        work,
        processes: vec![process; usize::from(count)],
        ready: VecDeque::new(),
        idle: shape.inputs.processors,
    };
    (0..count).for_each(|process| world.wake(process, &mut sim));
    sim.run(&mut world);
    let (sums, building) = world.work.finish()?;
    let mut building_ps = building;
    building_ps.sort_unstable();
    Ok(Found {
        built: sums.built,
        built_bytes: sums.bytes,
        busy_ps: world.processes.iter().map(|it| it.busy.as_ps()).collect(),
        took: sums.ended.saturating_duration_since(Instant::ORIGIN),
        building_ps,
        hash: sim.trace_hash(),
    })
}

fn node(process: u16) -> Node {
    Node(process)
}

impl World<'_> {
    fn at(process: u16) -> usize {
        usize::from(process)
    }

    /// A process that sleeps has something to do.
    fn wake(&mut self, process: u16, sim: &mut Sim) {
        let own = &mut self.processes[Self::at(process)];
        own.look = None;
        if self.idle == 0 {
            own.state = State::Ready;
            self.ready.push_back(process);
            return;
        }
        self.idle -= 1;
        own.state = State::Waking;
        let woken = Happens(What::Woken, process);
        sim.after(self.shape.wake_up(), Class::NORMAL, node(process), woken);
    }

    /// `by` has something for a process.
    fn rouse(&mut self, process: u16, by: u16, sim: &mut Sim) {
        if self.processes[Self::at(process)].state == State::Asleep {
            self.processes[Self::at(by)].debt += self.shape.wake();
            self.wake(process, sim);
        }
    }

    /// A process gets a processor.
    fn begin(&mut self, process: u16, sim: &mut Sim) {
        let own = &mut self.processes[Self::at(process)];
        own.state = State::Running;
        own.since = sim.now();
        let cost = self.shape.context_switch() + self.shape.returns();
        self.goes_on(process, cost, sim);
    }

    fn goes_on(&mut self, process: u16, cost: Duration, sim: &mut Sim) {
        self.processes[Self::at(process)].busy += cost;
        let step = Happens(What::Step, process);
        sim.after(cost, Class::NORMAL, node(process), step);
    }

    /// The processor of a process is free.
    fn next(&mut self, sim: &mut Sim) {
        match self.ready.pop_front() {
            Some(process) => self.begin(process, sim),
            None => self.idle += 1,
        }
    }

    fn step(&mut self, process: u16, sim: &mut Sim) {
        for to in self.work.deliver(process) {
            self.rouse(to, process, sim);
        }
        let own = &mut self.processes[Self::at(process)];
        let ran = sim.now().saturating_duration_since(own.since);
        if !self.ready.is_empty() && ran >= self.shape.inputs.slice {
            own.state = State::Ready;
            self.ready.push_back(process);
            self.next(sim);
            return;
        }
        let debt = core::mem::take(&mut own.debt);
        match self.work.unit(process, sim.now()) {
            Some(cost) => self.goes_on(process, debt + cost, sim),
            None if !debt.is_zero() => self.goes_on(process, debt, sim),
            None => self.sleep(process, sim),
        }
    }

    fn sleep(&mut self, process: u16, sim: &mut Sim) {
        let own = &mut self.processes[Self::at(process)];
        own.state = State::Asleep;
        own.look = self
            .work
            .deadline(process)
            .map(|at| at.max(sim.now() + PATIENCE));
        if let Some(at) = own.look {
            let look = Happens(What::Look, process);
            sim.at(at, Class::NORMAL, node(process), look);
        }
        self.next(sim);
    }
}

impl barewire_des::World for World<'_> {
    type Event = Happens;

    fn handle(&mut self, Happens(what, process): Happens, sim: &mut Sim) {
        match what {
            What::Step => self.step(process, sim),
            What::Woken => self.begin(process, sim),
            What::Look => {
                // One that was woken before has taken its time back.
                if self.processes[Self::at(process)].look == Some(sim.now()) {
                    self.wake(process, sim);
                }
            }
        }
    }
}
