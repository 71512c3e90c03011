//! One process keeps a table of prices in its memory; others read it, and sleep until the
//! line that they look at changes. There is no message: the owner's stores wake them, and
//! the owner does not poll its node meanwhile.
//!
//! ```sh
//! cargo run --release --example shared_table
//! ```

use std::process::{Child, Command};
use std::time::Duration;

use barewire::{
    AccessError, Action, Aperture, ApertureConfig, Memory, Mode, Node, RemoteAperture, Rights,
};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const ROWS: usize = 100;
/// A line of the processor for each row, so that two rows do not share one.
const ROW_BYTES: usize = 64;
/// In a row: how often it was changed, then its price. Odd while it is being changed.
const VERSION: usize = 0;
const PRICE: usize = 8;
/// Counts the changes. Stored last, so that nobody is woken in the middle of one.
const CHANGED: usize = 16;
const READERS: usize = 4;
const CHANGES: u64 = 1000;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(10));

/// Child processes, ended when they are no longer needed.
#[derive(Default)]
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn main() -> Result {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["read", name, row] => read(name, row.parse()?),
        [] => own(),
        _ => Err("usage: shared_table".into()),
    }
}

fn own() -> Result {
    let name = format!("shared-table-{}", std::process::id());
    let node = Node::new()?;
    let _listener = node.listen(&name)?;
    // Readers may only read: the kernel refuses them a writable mapping.
    let table = node.export(ApertureConfig::new(ROWS * ROW_BYTES, Rights::Read))?;
    let mut children = Children::default();
    for reader in 0..READERS {
        let child = Command::new(std::env::current_exe()?)
            .args(["read", &name, &(reader * 7).to_string()])
            .spawn()?;
        children.0.push(child);
    }
    let mut connections = Vec::new();
    for _ in 0..READERS {
        let connection = node.next_request(PATIENCE)?.accept()?;
        connection.grant(&table, 0)?;
        connections.push(connection);
    }
    // From here on: stores only.
    for change in 1..=CHANGES {
        for row in 0..ROWS {
            write(&table, row, change * 100 + row as u64)?;
        }
        std::thread::sleep(Duration::from_micros(20));
    }
    // Each reader says when it has seen the last change of its row.
    for connection in &mut connections {
        let mut buffer = [0; 64];
        let len = connection
            .receiver()
            .recv_timeout(&mut buffer, PATIENCE)?
            .ok_or("a reader says nothing")?;
        println!("a reader {}", String::from_utf8_lossy(&buffer[..len]));
    }
    println!("{READERS} readers saw {CHANGES} changes of {ROWS} rows to the end");
    // The readers see the end of the table by themselves.
    drop((connections, table, node));
    for mut child in std::mem::take(&mut children.0) {
        if !child.wait()?.success() {
            return Err("a reader failed".into());
        }
    }
    Ok(())
}

/// Changes a row: readers who look meanwhile see an odd version, and look again.
fn write(table: &Aperture, row: usize, price: u64) -> Result {
    let at = row * ROW_BYTES;
    table.add(at + VERSION, 1)?;
    table.store(at + PRICE, price)?;
    table.add(at + VERSION, 1)?;
    // This is the store that readers wait for.
    table.add(at + CHANGED, 1)?;
    Ok(())
}

/// The version and the price of a row, that belong together.
fn look(table: &RemoteAperture, row: usize) -> std::result::Result<(u64, u64), AccessError> {
    let at = row * ROW_BYTES;
    loop {
        let before = table.load(at + VERSION)?;
        let price = table.load(at + PRICE)?;
        if before % 2 == 0 && table.load(at + VERSION)? == before {
            return Ok((before, price));
        }
        std::hint::spin_loop();
    }
}

fn read(name: &str, row: usize) -> Result {
    let node = Node::new()?;
    let mut connection = node.connect(name)?;
    let (_, table) = connection.import(PATIENCE)?;
    // Wakes us when the owner stores into the row's count of changes. Set before the first look:
    // what changes between a look and the wait ends the wait.
    let _changed =
        table.tripwire_on_owner(row * ROW_BYTES + CHANGED, 8, Mode::Sticky, Action::Wake)?;
    let mut waits = 0;
    let mut events = Vec::new();
    loop {
        let (version, price) = look(&table, row)?;
        if version == 2 * CHANGES {
            let good = price == CHANGES * 100 + row as u64;
            let said = format!("of row {row} waited {waits} times; good: {good}");
            connection.send(said.as_bytes())?;
            break;
        }
        waits += 1;
        node.wait(&mut events, 16, PATIENCE)?;
        events.clear();
    }
    // The same wait tells of the owner's end: the next look says so.
    loop {
        match look(&table, row) {
            Ok(_) => {
                node.wait(&mut events, 16, PATIENCE)?;
                events.clear();
            }
            Err(AccessError::PeerGone | AccessError::Revoked) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
