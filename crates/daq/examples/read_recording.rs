//! Reads recordings and HDF5 files of events: what each says of its run, and its events. Of a recording what is damaged
//! is left out; in an HDF5 file it is an error.
//!
//! ```text
//! cargo run --release --example read_recording -- run-000001-builder-00-000.evb
//! cargo run --release --example read_recording -- run-000001-builder-00-000.h5
//! ```

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use barewire_daq::config::Config;
use barewire_daq::record::{About, Reading, Recorded};
use barewire_daq::sink::hdf5::{Hdf5Reading, is_hdf5};

fn main() -> ExitCode {
    let files: Vec<_> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if files.is_empty() {
        eprintln!("read_recording: name the files, *.evb or *.h5");
        return ExitCode::from(2);
    }
    for file in files {
        if let Err(error) = read(&file) {
            eprintln!("read_recording: {}: {error}", file.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn read(path: &Path) -> Result<(), Box<dyn Error>> {
    match is_hdf5(path)? {
        true => read_hdf5(path),
        false => read_recording(path),
    }
}

/// Events come in the order in which they were built or given up.
fn read_recording(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut reading = Reading::open(path)?;
    let about = reading.about.clone();
    print_head(path, (reading.run, reading.builder), about.as_ref());
    while let Some(event) = reading.next_event()? {
        print_event(&event, about.as_ref());
    }
    if !reading.damage().is_none() {
        println!("{}", reading.damage());
    }
    Ok(())
}

/// Events come in the order of their numbers, and each is found by its number.
fn read_hdf5(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut reading = Hdf5Reading::open(path)?;
    let about = reading.about.clone();
    print_head(path, (reading.run, reading.builder), about.as_ref());
    let mut last = None;
    while let Some(event) = reading.next_event()? {
        print_event(&event, about.as_ref());
        last = Some(event);
    }
    if let Some(last) = last {
        let again = reading.event(last.event)?;
        println!("the last one again, by its number: {}", again == Some(last));
    }
    Ok(())
}

fn print_head(path: &Path, (run, builder): (u32, u16), about: Option<&About>) {
    println!("{}: run {run}, builder {builder}", path.display());
    let Some(about) = about else {
        return;
    };
    println!("made at {:?} by version {}", about.made(), about.version);
    // The text with which the run was started, and so its seed and all else.
    if let Ok(config) = Config::parse(&about.config, "the configuration of the recording") {
        println!("{} sources, seed {}", config.manager.sources, config.seed);
    }
}

fn print_event(event: &Recorded, about: Option<&About>) {
    let bytes: usize = event.fragments.iter().map(|it| it.data.len()).sum();
    let absent = event.missing + event.damaged;
    print!(
        "event {}: {bytes} bytes, {absent} fragments are not there",
        event.event
    );
    match (about, event.fragments.first()) {
        (Some(about), Some(first)) => println!(", {:?}", about.triggered(first.at_ns)),
        _ => println!(),
    }
}
