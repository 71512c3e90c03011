//! Reads recordings: what each says of its run, and its events, with what is damaged left out.
//!
//! ```text
//! cargo run --release --example read_recording -- run-000001-builder-00-000.evb
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use barewire_daq::config::Config;
use barewire_daq::record::{Reading, RecordError};

fn main() -> ExitCode {
    let files: Vec<_> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if files.is_empty() {
        eprintln!("read_recording: name the files, *.evb");
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

fn read(path: &Path) -> Result<(), RecordError> {
    let mut reading = Reading::open(path)?;
    println!(
        "{}: run {}, builder {}",
        path.display(),
        reading.run,
        reading.builder
    );
    let about = reading.about.clone();
    if let Some(about) = &about {
        println!("made at {:?} by version {}", about.made(), about.version);
        // The text with which the run was started, and so its seed and all else.
        if let Ok(config) = Config::parse(&about.config, "the configuration of the recording") {
            println!("{} sources, seed {}", config.manager.sources, config.seed);
        }
    }
    while let Some(event) = reading.next_event()? {
        let bytes: usize = event.fragments.iter().map(|it| it.data.len()).sum();
        let absent = event.missing + event.damaged;
        print!(
            "event {}: {bytes} bytes, {absent} fragments are not there",
            event.event
        );
        match (&about, event.fragments.first()) {
            (Some(about), Some(first)) => println!(", {:?}", about.triggered(first.at_ns)),
            _ => println!(),
        }
    }
    if !reading.damage().is_none() {
        println!("{}", reading.damage());
    }
    Ok(())
}
