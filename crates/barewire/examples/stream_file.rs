//! Sends a file through a byte stream, and checks that what arrived is what was sent.
//!
//! ```sh
//! cargo run --release --example stream_file -- receive NAME COPY
//! cargo run --release --example stream_file -- send NAME FILE
//! cargo run --release --example stream_file           # both, with a file of its own
//! ```

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Instant;

use barewire::{ConnectOptions, Node, NodeConfig};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Bulk data wants a larger ring than the 4 KiB that many small connections want.
const RING_BYTES: usize = 256 << 10;
const PIECE_BYTES: usize = 64 << 10;

/// A child process, ended when it is no longer needed.
struct Receiver(Child);

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Files that are removed when they are no longer needed.
struct Files([PathBuf; 2]);

impl Drop for Files {
    fn drop(&mut self) {
        for file in &self.0 {
            let _ = std::fs::remove_file(file);
        }
    }
}

fn main() -> Result {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", name, copy] => receive(name, copy.as_ref()),
        ["send", name, file] => send(name, file.as_ref()),
        [] => demonstrate(),
        _ => Err("usage: stream_file [receive NAME COPY | send NAME FILE]".into()),
    }
}

fn demonstrate() -> Result {
    let name = format!("stream-file-{}", std::process::id());
    let path = |what| std::env::temp_dir().join(format!("{name}.{what}"));
    let files = Files([path("original"), path("copy")]);
    let [original, copy] = &files.0;
    let bytes: Vec<u8> = (0..16_000_000_u32).map(|i| (i % 253) as u8).collect();
    std::fs::write(original, &bytes)?;

    let mut receiver = Receiver(
        Command::new(std::env::current_exe()?)
            .args(["receive", &name])
            .arg(copy)
            .spawn()?,
    );
    send(&name, original)?;
    let status = receiver.0.wait()?;
    if !status.success() || std::fs::read(copy)? != bytes {
        return Err("the copy is not the original".into());
    }
    println!("the copy is the original");
    Ok(())
}

/// FNV-1a, eight bytes at a time: to see accidents, not to stop anybody.
#[derive(Clone, Copy)]
struct Sum(u64);

impl Sum {
    fn new() -> Sum {
        Sum(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0 ^ u64::from_le_bytes(word)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

fn node() -> Result<Node> {
    let config = NodeConfig {
        ring_bytes: RING_BYTES,
        ..NodeConfig::default()
    };
    Ok(Node::with_config(config)?)
}

/// The length first, then the bytes, then the sum. The answer is one line.
fn send(name: &str, path: &Path) -> Result {
    let node = node()?;
    let mut stream = node
        .connect_with(name, &ConnectOptions::default())?
        .into_stream();
    let mut file = BufReader::new(File::open(path)?);
    let len = file.get_ref().metadata()?.len();
    let started = Instant::now();
    stream.write_all(&len.to_le_bytes())?;
    let mut sum = Sum::new();
    copy(&mut file, &mut stream, len, &mut sum)?;
    stream.write_all(&sum.0.to_le_bytes())?;
    // The receiver reads to the end of what we wrote; we still read its answer.
    stream.finish();
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "sent {len} bytes, {:.0} MB/s, to disk and all",
        len as f64 / 1e6 / seconds
    );
    println!("the receiver says: {}", answer.trim_end());
    Ok(())
}

fn receive(name: &str, path: &Path) -> Result {
    let node = node()?;
    let _listener = node.listen(name)?;
    let mut stream = node.next_request(None)?.accept()?.into_stream();
    let len = read_u64(&mut stream)?;
    let mut file = BufWriter::new(File::create(path)?);
    let mut sum = Sum::new();
    copy(&mut stream, &mut file, len, &mut sum)?;
    file.flush()?;
    let good = read_u64(&mut stream)? == sum.0;
    writeln!(stream, "{len} bytes, sum {:016x}, good: {good}", sum.0)?;
    // Dropping the stream ends it; what was written before still arrives.
    if good {
        Ok(())
    } else {
        Err("the sums differ".into())
    }
}

fn read_u64(from: &mut impl Read) -> io::Result<u64> {
    let mut word = [0; 8];
    from.read_exact(&mut word)?;
    Ok(u64::from_le_bytes(word))
}

/// Copies exactly `len` bytes, in whole pieces, so that both sides sum alike.
fn copy(from: &mut impl Read, to: &mut impl Write, len: u64, sum: &mut Sum) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut left = len;
    while left > 0 {
        let want = left.min(PIECE_BYTES as u64) as usize;
        from.read_exact(&mut piece[..want])?;
        sum.add(&piece[..want]);
        to.write_all(&piece[..want])?;
        left -= want as u64;
    }
    Ok(())
}
