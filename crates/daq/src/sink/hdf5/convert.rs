//! HDF5 files made of files of events, and verified.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::format::SIGNATURE;
use super::read::Hdf5Reading;
use super::source::Hdf5Error;
use super::write::Hdf5Writer;
use crate::generate::Generator;
use crate::record::{Checked, Damage, Ending, IndexState, Reading, RecordError, Stretch};

/// What was converted.
#[derive(Debug, Default)]
pub struct Converted {
    /// Events that are in the HDF5 file.
    pub events: u64,
    /// What of the file of events is left out because it is damaged.
    pub damage: Damage,
    /// How its records ended.
    pub ending: Option<Ending>,
}

/// Makes an HDF5 file of a file of events: of all that is good. Fragments that are damaged count as
/// missing. What the file of events says of its run stands in the HDF5 file too.
///
/// # Errors
///
/// The one cannot be read, or the other not be written.
pub fn convert(from: &Path, to: &Path) -> Result<Converted, RecordError> {
    let mut reading = Reading::open(from)?;
    let about = reading.about.as_ref();
    let mut writer = Hdf5Writer::create(to, reading.run, reading.builder, about)?;
    let mut events = 0;
    while let Some(event) = reading.next_event()? {
        let missing = event.missing.saturating_add(event.damaged);
        writer.add(event.event, missing, &event.fragments);
        writer.write()?;
        events += 1;
    }
    writer.finish()?;
    Ok(Converted {
        events,
        damage: reading.damage().clone(),
        ending: reading.ending(),
    })
}

/// Whether a file begins as HDF5 files do, or has the name of one: one that is damaged, or whose writer was stopped, is to be
/// told as that.
///
/// # Errors
///
/// It cannot be read.
pub fn is_hdf5(path: &Path) -> io::Result<bool> {
    let mut first = Vec::new();
    let count = SIGNATURE.len() as u64;
    File::open(path)?.take(count).read_to_end(&mut first)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(first == SIGNATURE || name.ends_with(".h5") || name.ends_with(".h5.part"))
}

/// Reads a whole HDF5 file that this library has written, as [`crate::record::check`] does with a file of
/// events; with a generator, verifies what is in the fragments. An event of which something is damaged counts as lost.
///
/// # Errors
///
/// It cannot be read, is none of ours, or is damaged where nothing is found without.
pub fn check(path: &Path, generator: Option<&Generator>) -> Result<Checked, Hdf5Error> {
    let mut reading = Hdf5Reading::open(path)?;
    let mut checked = Checked {
        run: reading.run,
        builder: reading.builder,
        about: reading.about.clone(),
        index: IndexState::Right,
        ..Checked::default()
    };
    loop {
        match reading.next_event() {
            Ok(Some(event)) => checked.add(&event, generator),
            Ok(None) => break,
            Err(Hdf5Error::Spoilt {
                event, at, bytes, ..
            }) => checked.damage.add(Stretch {
                at,
                bytes,
                event,
                source: None,
            }),
            Err(error) => return Err(error),
        }
    }
    checked.lost = Some(reading.events() - checked.events.len() as u64);
    Ok(checked)
}
