//! Several processes count in the memory of another one, with atomic additions, and a
//! tripwire tells it when they are done. The owner runs no code for the additions.
//!
//! ```sh
//! cargo run --release --example remote_counter
//! ```

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use barewire::{Action, ApertureConfig, Event, Memory, Mode, Node, Rights};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const COUNTERS: usize = 4;
const EACH: u64 = 50_000;
/// Where things lie in the aperture: the sum, and one line per process to say «done».
const SUM: usize = 0;
const DONE: usize = 64;

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
        ["count", name, number] => count(name, number.parse()?),
        [] => own(),
        _ => Err("usage: remote_counter".into()),
    }
}

fn own() -> Result {
    let name = format!("remote-counter-{}", std::process::id());
    let node = Node::new()?;
    let _listener = node.listen(&name)?;
    let aperture = node.export(ApertureConfig::new(4096, Rights::ReadWrite))?;

    // Fires when a peer's transfer touches the «done» lines, and puts an event with this
    // cookie into our queue; at most one at a time, however many say so.
    let done_bytes = COUNTERS * 64;
    let cookie = 1;
    let _done = aperture.tripwire(DONE, done_bytes, Mode::Sticky, Action::Enqueue { cookie })?;
    // Counts transfers to the sum, without waking anybody.
    let additions = aperture.tripwire(SUM, 8, Mode::Sticky, Action::Count)?;

    let mut children = Children::default();
    for number in 0..COUNTERS {
        let child = Command::new(std::env::current_exe()?)
            .args(["count", &name, &number.to_string()])
            .spawn()?;
        children.0.push(child);
    }
    let started = Instant::now();
    let mut connections = Vec::new();
    let mut done = 0;
    while done < COUNTERS {
        match node.next_event(PATIENCE)? {
            Some(Event::Request(request)) => {
                let connection = request.accept()?;
                connection.grant(&aperture, 7)?;
                connections.push(connection);
            }
            Some(Event::Tripwire { cookie: 1, .. }) => {
                let is_done = |i: &usize| aperture.load(DONE + i * 64) == Ok(1);
                done = (0..COUNTERS).filter(is_done).count();
                println!("tripwire: {done} done");
            }
            Some(_) => {}
            None => return Err("the counters do not come to an end".into()),
        }
    }
    let sum = aperture.load(SUM)?;
    println!(
        "{COUNTERS} processes added {sum} in {:?}; the tripwire counted {}",
        started.elapsed(),
        additions.count()
    );
    for mut child in std::mem::take(&mut children.0) {
        if !child.wait()?.success() {
            return Err("a counter failed".into());
        }
    }
    if sum == COUNTERS as u64 * EACH && additions.count() == sum {
        Ok(())
    } else {
        Err("additions were lost".into())
    }
}

fn count(name: &str, number: usize) -> Result {
    let node = Node::new()?;
    let connection = node.connect(name)?;
    let (cookie, aperture) = connection.import(PATIENCE)?;
    assert_eq!((cookie, aperture.rights()), (7, Rights::ReadWrite));
    for _ in 0..EACH {
        aperture.add(SUM, 1)?;
    }
    // Whoever sees this word sees the additions before it.
    aperture.store(DONE + number * 64, 1)?;
    Ok(())
}
