//! A server that sends every message back, and a client that measures how long that takes.
//!
//! ```sh
//! cargo run --release --example echo -- serve NAME    # one terminal
//! cargo run --release --example echo -- call NAME     # another
//! cargo run --release --example echo                  # both, the server as a child
//! ```

use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use barewire::{Connection, Error, Node};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A child process, ended when it is no longer needed.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() -> Result {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", name] => serve(name),
        ["call", name] => call(name),
        [] => {
            let name = format!("echo-{}", std::process::id());
            let program = std::env::current_exe()?;
            let _server = Server(Command::new(program).args(["serve", &name]).spawn()?);
            call(&name)
        }
        _ => Err("usage: echo [serve NAME | call NAME]".into()),
    }
}

/// Serves for ever. Each connection gets a thread: a connection may be used in another
/// thread than its node's. (One thread for all of them: the example `many_clients`.)
fn serve(name: &str) -> Result {
    let node = Node::new()?;
    let _listener = node.listen(name)?;
    loop {
        let connection = node.next_request(None)?.accept()?;
        thread::spawn(move || echo(connection));
    }
}

/// Sends back what comes until the client has finished.
fn echo(mut connection: Connection) {
    let mut message = Vec::new();
    loop {
        let answered = connection
            .receiver()
            .recv_into(&mut message)
            .and_then(|_| connection.send(&message));
        match answered {
            Ok(()) => {}
            Err(Error::Finished | Error::PeerGone) => return,
            Err(error) => {
                eprintln!("{}: {error}", connection.peer().pid);
                return;
            }
        }
    }
}

fn call(name: &str) -> Result {
    let node = Node::new()?;
    // Waits for the name to appear, up to five seconds.
    let mut connection = node.connect(name)?;
    println!("connected to process {}", connection.peer().pid);

    connection.send(b"hello")?;
    let mut buffer = [0; 4096];
    let len = connection.recv(&mut buffer)?;
    println!("it says {:?}", String::from_utf8_lossy(&buffer[..len]));

    for bytes in [8, 56, 1024] {
        let message = vec![7; bytes];
        let mut times = Vec::new();
        let started = Instant::now();
        while times.len() < 20_000 && started.elapsed() < Duration::from_millis(300) {
            let sent = Instant::now();
            connection.send(&message)?;
            let len = connection.recv(&mut buffer)?;
            times.push(sent.elapsed());
            assert_eq!(&buffer[..len], message);
        }
        times.sort_unstable();
        let median = times[times.len() / 2];
        println!(
            "{bytes:>5} bytes there and back: {median:?} (median of {})",
            times.len()
        );
    }
    Ok(())
}
