//! The laboratory, below `barewire/lab.py`: the functions that `barewire lab` calls, with JSON for the results.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use barewire_tables::plan::{Plan, PlanSource, Wanted};
use barewire_tables::runs::{Found, Watch, run};
use barewire_tables::{
    Axes, Axis, Change, Expected, ExpectedError, Report, Results, pcapng, reproduce, sweep,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::calls::SLICE;

/// Changes as Python gives them: keys and values.
type Changes = Vec<(String, String)>;

fn wrong(problem: impl ToString) -> PyErr {
    PyValueError::new_err(problem.to_string())
}

fn changes(given: Changes) -> Vec<Change> {
    let change = |(key, value)| Change { key, value };
    given.into_iter().map(change).collect()
}

fn wanted(set: Changes, with: Vec<String>) -> Wanted {
    Wanted {
        with,
        set: changes(set).into_iter().map(|it| ("set", it)).collect(),
    }
}

fn about() -> BTreeMap<String, String> {
    BTreeMap::from([(
        "barewire".to_owned(),
        format!("{}, Python package", env!("CARGO_PKG_VERSION")),
    )])
}

/// Does work in a thread of its own, without the interpreter's lock. A signal ends the wait for it; the work goes on to its
/// end, and what it gives is dropped.
fn worked<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (told, done) = mpsc::channel();
    let work = move || told.send(work());
    thread::Builder::new()
        .name("barewire-lab".to_owned())
        .spawn(work)?;
    let mut done = done;
    loop {
        let (found, again) = py.detach(move || (done.recv_timeout(SLICE), done));
        done = again;
        match found {
            Ok(found) => return Ok(found),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(wrong("the run panicked")),
        }
    }
}

fn run_all(py: Python<'_>, plans: Vec<Plan>, packets: usize) -> PyResult<(Vec<Plan>, Vec<Found>)> {
    let work = move || {
        let watch = Watch::new(&plans);
        let found = run(&plans, packets, &watch);
        (plans, found)
    };
    let (plans, found) = worked(py, work)?;
    Ok((plans, found.map_err(wrong)?))
}

/// The built-in plans: names, systems and questions.
#[pyfunction]
pub fn lab_plans() -> Vec<(String, &'static str, &'static str)> {
    let plans = PlanSource::default().plans().into_iter();
    plans
        .map(|plan| (plan.name(), plan.system.name(), plan.experiment.question))
        .collect()
}

/// A plan, whole, as a file of TOML.
#[pyfunction]
pub fn lab_show(plan: &str, set: Changes, with: Vec<String>) -> PyResult<String> {
    let lab = PlanSource::default();
    let draft = lab.open(plan).map_err(wrong)?;
    let plan = lab.resolve(&draft, &wanted(set, with)).map_err(wrong)?;
    Ok(plan.to_toml())
}

/// Runs a plan. Its result as JSON and as text, and a capture of its links if `packets` is not 0.
#[pyfunction]
pub fn lab_run(
    py: Python<'_>,
    plan: &str,
    set: Changes,
    with: Vec<String>,
    packets: usize,
) -> PyResult<(String, String, Vec<u8>)> {
    let lab = PlanSource::default();
    let draft = lab.open(plan).map_err(wrong)?;
    let plan = lab.resolve(&draft, &wanted(set, with)).map_err(wrong)?;
    let (plans, found) = run_all(py, vec![plan], packets)?;
    let (Some(plan), Some(found)) = (plans.first(), found.first()) else {
        return Err(wrong("the plan gave nothing"));
    };
    let results = Results::of_plan(plan, found, about());
    let json = results.to_json().map_err(wrong)?;
    Ok((json, results.to_text(), pcapng(&found.links)))
}

/// Runs a plan at each point of these axes, as `barewire lab sweep --over` takes them. Its result as JSON and as text.
#[pyfunction]
pub fn lab_sweep(
    py: Python<'_>,
    plan: &str,
    over: Vec<String>,
    set: Changes,
    with: Vec<String>,
) -> PyResult<(String, String)> {
    let lab = PlanSource::default();
    let axes = axes(&over)?;
    let draft = lab.open(plan).map_err(wrong)?;
    let wanted = wanted(set, with);
    let base = lab.resolve(&draft, &wanted).map_err(wrong)?;
    let at_point = |index| {
        let mut wanted = wanted.clone();
        let point = axes.point(index).map(|(key, value)| Change {
            key: key.to_owned(),
            value: value.to_owned(),
        });
        wanted.set.extend(point.map(|change| ("over", change)));
        lab.resolve(&draft, &wanted).map_err(wrong)
    };
    let plans = (0..axes.len())
        .map(at_point)
        .collect::<PyResult<Vec<Plan>>>()?;
    let (_, found) = run_all(py, plans, 0)?;
    let results = Results::of_sweep(&base, axes, &found, about());
    Ok((results.to_json().map_err(wrong)?, results.to_text()))
}

fn axes(over: &[String]) -> PyResult<Axes> {
    let axes: Result<Vec<Axis>, _> = over.iter().map(|text| text.parse()).collect();
    Axes::cross(&axes.map_err(wrong)?).map_err(wrong)
}

/// Runs the published tables of a system at each point of these axes. The values as CSV and as text.
#[pyfunction]
pub fn lab_sweep_system(
    py: Python<'_>,
    system: &str,
    over: Vec<String>,
    set: Changes,
    seed: u64,
    only: Option<String>,
) -> PyResult<(String, String)> {
    let system = PlanSource::default()
        .system(system)
        .ok_or_else(|| wrong(format!("no system is called `{system}`")))?;
    let (axes, changes) = (axes(&over)?, changes(set));
    let mut swept = worked(py, move || sweep(system, axes, &changes, seed))?.map_err(wrong)?;
    if let Some(text) = only {
        swept.keep(&text);
    }
    Ok((swept.to_csv(), swept.to_text()))
}

/// The names of the systems of which something was published.
#[pyfunction]
pub fn lab_published() -> PyResult<Vec<&'static str>> {
    let mut names = Vec::new();
    for system in PlanSource::default().systems() {
        match Expected::of(system.name()) {
            Ok(_) => names.push(system.name()),
            Err(ExpectedError::NoFile(_)) => {}
            Err(error) => return Err(wrong(error)),
        }
    }
    Ok(names)
}

/// Runs systems and sets what they give beside what was published. The values as JSON, the report as text and as a page.
#[pyfunction]
pub fn lab_reproduce(
    py: Python<'_>,
    systems: Vec<String>,
    set: Changes,
    seed: u64,
) -> PyResult<(String, String, String)> {
    let changes = changes(set);
    let mut runs = Vec::new();
    for name in systems {
        let system = PlanSource::default().system(&name);
        let system = system.ok_or_else(|| wrong(format!("no system is called `{name}`")))?;
        let expected = Expected::of(&name).map_err(wrong)?;
        let changes = changes.clone();
        let run = worked(py, move || reproduce(system, expected, &changes, seed))?;
        runs.push(run.map_err(|error| wrong(format!("{name}: {error}")))?);
    }
    let about = about().remove("barewire").map(|it| ("barewire", it));
    let report = Report {
        seed,
        about: about.into_iter().collect(),
        runs,
    };
    let json = report.to_json().map_err(wrong)?;
    Ok((json, report.to_text(), report.to_html()))
}
