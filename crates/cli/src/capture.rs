//! `barewire capture`: what an unmodified program sends and receives through the library, as a
//! capture file of TCP packets.
//!
//! The parts: `attached` takes entries out of the program's memory, `tcp` makes packets of them.

mod attached;
mod error;
mod tcp;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use barewire_sys::interrupt::Interrupt;
use barewire_wire::capture::Output;
use clap::Args;

use attached::{Attached, Taken};
use error::{CaptureError, Result};
use tcp::Packets;

/// Of `barewire capture --help`, its end.
pub const AFTER: &str = "\
The packets are synthesised from the bytes that the program's calls transfer, through shared
memory or the kernel. Addresses, order and bytes are real; packet boundaries, windows and
acknowledgements are not. A connection begins with a SYN where the capture first sees it. The
file has no connections that could not be accelerated at all: capture those with tcpdump.

The program never waits for the capture. A capture that is too slow loses packets and reports it.

Examples:
  barewire capture --pid 4711 -w redis.pcapng             until Ctrl-C, or the program's end
  barewire capture --pid 4711 -w - | wireshark -k -i -    watch it live
  tshark -r redis.pcapng -q -z follow,tcp,ascii,0         the first connection's bytes";

/// Capture what a program under `barewire run` sends and receives
#[derive(Clone, Debug, Args)]
pub struct CaptureArgs {
    /// Process id
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: i32,
    /// The file to write, in pcapng format; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    write: PathBuf,
    /// Stop after N seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Do not print a summary
    #[arg(long, short)]
    quiet: bool,
}

/// Pause when there is nothing.
const PAUSE: Duration = Duration::from_millis(1);

/// Where the packets go.
struct To(BufWriter<Box<dyn Write>>);

impl Output for To {
    type Error = io::Error;

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }
}

/// Captures until it is told to stop, the program ends, or nobody reads the packets any more.
pub fn run(args: &CaptureArgs) -> Result<()> {
    let is_stdout = args.write == Path::new("-");
    if is_stdout && io::stdout().is_terminal() {
        return Err(CaptureError::Terminal);
    }
    match capture(args) {
        Err(CaptureError::Write(_, error))
            if is_stdout && error.kind() == io::ErrorKind::BrokenPipe =>
        {
            Ok(())
        }
        other => other,
    }
}

fn capture(args: &CaptureArgs) -> Result<()> {
    let interrupt = Interrupt::catch()?;
    let mut attached = Attached::to(args.pid)?;
    let failed = |error| CaptureError::Write(args.write.display().to_string(), error);
    // First: the file may be that of another capture, which goes on.
    attached.begin()?;
    let mut packets = open(&args.write).map_err(failed)?;
    if !args.quiet {
        eprintln!("barewire: capturing process {}; Ctrl-C ends it", args.pid);
    }
    let until = args
        .seconds
        .map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let is_over = || until.is_some_and(|until| Instant::now() >= until);
    loop {
        let pause = match attached.take()? {
            Taken::Gone => {
                packets.end_all().map_err(failed)?;
                break;
            }
            Taken::Nothing if attached.has_ended() => break,
            Taken::Nothing => PAUSE,
            Taken::Entries(entries) => {
                for entry in attached::entries(&entries) {
                    packets.add(&entry).map_err(failed)?;
                }
                packets.output().0.flush().map_err(failed)?;
                Duration::ZERO
            }
        };
        // What is there when it ends is taken.
        if interrupt.wait(pause) || is_over() {
            attached.end();
        }
    }
    packets.output().0.flush().map_err(failed)?;
    if !args.quiet {
        eprintln!("barewire: {}", packets.summary());
    }
    match attached.lost() {
        [0, _] => {}
        [pieces, bytes] => eprintln!(
            "barewire: {pieces} pieces with {bytes} bytes are missing: the program was faster"
        ),
    }
    Ok(())
}

fn open(path: &Path) -> io::Result<Packets<To>> {
    let out: Box<dyn Write> = match path.to_str() {
        Some("-") => Box::new(io::stdout()),
        _ => Box::new(File::create(path)?),
    };
    let mut packets = Packets::new(To(BufWriter::new(out)))?;
    packets.output().0.flush()?;
    Ok(packets)
}
