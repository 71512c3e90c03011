//! The laboratory's event kernel, for models that are written in Python.

use std::collections::HashMap;

use barewire_des::{Class, Event, EventId, Node, Simulator, World};
use barewire_units::{Duration, Instant};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;

/// What is to happen: the number of an input, and one for the trace hash.
#[derive(Clone, Copy)]
struct Pending {
    number: u64,
    entity: u16,
    digest: u64,
}

impl Event for Pending {
    fn digest(&self) -> u64 {
        self.digest
    }
}

/// Takes one event out of the simulator.
struct One(Option<Pending>);

impl World for One {
    type Event = Pending;

    fn handle(&mut self, event: Pending, sim: &mut Simulator<Pending>) {
        self.0 = Some(event);
        sim.stop();
    }
}

/// The clock and what is still to happen. Times are whole picoseconds.
#[pyclass(module = "barewire._native")]
pub struct Kernel {
    sim: Simulator<Pending>,
    /// The inputs that are still to come.
    inputs: HashMap<u64, (EventId, Py<PyAny>)>,
    /// Numbers given so far.
    given: u64,
}

#[pymethods]
impl Kernel {
    #[new]
    fn new() -> Kernel {
        Kernel {
            sim: Simulator::new(),
            inputs: HashMap::new(),
            given: 0,
        }
    }

    /// Lets an entity have an input in `delay_ps`. A number to cancel it by.
    fn after(&mut self, delay_ps: u64, entity: u16, input: Py<PyAny>, digest: u64) -> u64 {
        let number = self.given;
        self.given += 1;
        let event = Pending {
            number,
            entity,
            digest,
        };
        let time = self.sim.now().saturating_add(Duration::from_ps(delay_ps));
        let id = self.sim.timer(time, Class::NORMAL, Node(entity), event);
        self.inputs.insert(number, (id, input));
        number
    }

    /// Takes back what `after` gave this number; whether it was still to come.
    fn cancel(&mut self, number: u64) -> PyResult<bool> {
        if number >= self.given {
            return Err(PyKeyError::new_err(number));
        }
        let taken = self.inputs.remove(&number);
        Ok(taken.is_some_and(|(id, _)| self.sim.cancel(id)))
    }

    /// Goes on to the next event, if one comes until `until_ps`: the entity and its input. Else the clock goes to then.
    fn next(&mut self, until_ps: Option<u64>) -> Option<(u16, Py<PyAny>)> {
        let mut one = One(None);
        match until_ps {
            Some(end) => self.sim.run_until(Instant::from_ps(end), &mut one),
            None => self.sim.run(&mut one),
        }
        let event = one.0?;
        let (_, input) = self.inputs.remove(&event.number)?;
        Some((event.entity, input))
    }

    /// The time.
    #[getter]
    fn now_ps(&self) -> u64 {
        self.sim.now().since_origin().as_ps()
    }

    /// How many events have happened.
    #[getter]
    fn fired(&self) -> u64 {
        self.sim.fired()
    }

    /// How many are still to come.
    #[getter]
    fn pending(&self) -> usize {
        self.sim.pending()
    }

    /// A number over all that has happened, in which order, and when.
    #[getter]
    fn trace_hash(&self) -> u64 {
        self.sim.trace_hash()
    }
}
