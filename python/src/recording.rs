//! Files of the event builder, below `barewire/recording.py`: recordings and HDF5.

use std::fs::File;
use std::path::PathBuf;

use barewire_daq::record::{About, Reading, Recorded, Stored};
use barewire_daq::sink::hdf5::{Hdf5Reading, is_hdf5};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The one or the other.
enum Input {
    Recording(Box<Reading<File>>),
    Hdf5(Box<Hdf5Reading<File>>),
}

impl Input {
    fn next_event(&mut self) -> PyResult<Option<Recorded>> {
        match self {
            Input::Recording(reading) => reading.next_event().map_err(wrong),
            Input::Hdf5(reading) => reading.next_event().map_err(wrong),
        }
    }
}

/// A file of events that is read from its beginning to its end.
#[pyclass(module = "barewire._native")]
pub struct RecordingFile {
    input: Input,
    #[pyo3(get)]
    run: u32,
    #[pyo3(get)]
    builder: u16,
    about: Option<About>,
}

/// A fragment: source, time of the trigger in ns, data.
type Fragment = (u16, u64, Py<PyBytes>);
/// An event: its number, fragments that were missing, fragments that are damaged, the others.
type Event = (u64, u32, u32, Vec<Fragment>);
/// For each fragment event, source, time, offset and length of its data, as native numbers of 8, 2, 8, 8 and 8 bytes; then
/// all data.
type Columns = [Py<PyBytes>; 6];

fn wrong(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

#[pymethods]
impl RecordingFile {
    #[new]
    fn new(path: PathBuf) -> PyResult<RecordingFile> {
        let wrong =
            |error: &dyn ToString| wrong(format!("{}: {}", path.display(), error.to_string()));
        // A file that cannot be read at all is an OSError here.
        let is_hdf5 = is_hdf5(&path)?;
        Ok(match is_hdf5 {
            true => {
                let reading = Hdf5Reading::open(&path).map_err(|it| wrong(&it))?;
                RecordingFile {
                    run: reading.run,
                    builder: reading.builder,
                    about: reading.about.clone(),
                    input: Input::Hdf5(Box::new(reading)),
                }
            }
            false => {
                let reading = Reading::open(&path).map_err(|it| wrong(&it))?;
                RecordingFile {
                    run: reading.run,
                    builder: reading.builder,
                    about: reading.about.clone(),
                    input: Input::Recording(Box::new(reading)),
                }
            }
        })
    }

    /// Seed, version, configuration, and when the file was made and the clock of the run was 0, in ns since 1970; `None` in
    /// files of older versions.
    #[getter]
    fn about(&self) -> Option<(u64, String, String, u64, u64)> {
        let about = self.about.clone()?;
        let times = (about.made_unix_ns, about.clock_unix_ns);
        Some((about.seed, about.version, about.config, times.0, times.1))
    }

    /// What was damaged so far, in words, if anything was.
    #[getter]
    fn damage(&self) -> Option<String> {
        match &self.input {
            Input::Recording(reading) if !reading.damage().is_none() => {
                Some(reading.damage().to_string())
            }
            _ => None,
        }
    }

    /// The next event; `None` at the end.
    fn next_event(&mut self, py: Python<'_>) -> PyResult<Option<Event>> {
        let read = py.detach(|| self.input.next_event());
        let Some(event) = read? else {
            return Ok(None);
        };
        let fragments = event.fragments.iter().map(|it| {
            let data = PyBytes::new(py, &it.data).unbind();
            (it.source, it.at_ns, data)
        });
        let fragments = fragments.collect();
        Ok(Some((event.event, event.missing, event.damaged, fragments)))
    }

    /// All fragments that are left, of `source` if that is given, as columns.
    #[pyo3(signature = (source = None))]
    fn columns(&mut self, py: Python<'_>, source: Option<u16>) -> PyResult<Columns> {
        let mut columns: [Vec<u8>; 6] = Default::default();
        let read = py.detach(|| -> PyResult<()> {
            while let Some(event) = self.input.next_event()? {
                let of_source = |it: &&Stored| source.is_none_or(|source| it.source == source);
                for fragment in event.fragments.iter().filter(of_source) {
                    let offset = columns[5].len() as u64;
                    columns[0].extend(event.event.to_ne_bytes());
                    columns[1].extend(fragment.source.to_ne_bytes());
                    columns[2].extend(fragment.at_ns.to_ne_bytes());
                    columns[3].extend(offset.to_ne_bytes());
                    columns[4].extend((fragment.data.len() as u64).to_ne_bytes());
                    columns[5].extend(&fragment.data);
                }
            }
            Ok(())
        });
        read?;
        Ok(columns.map(|bytes| PyBytes::new(py, &bytes).unbind()))
    }
}
