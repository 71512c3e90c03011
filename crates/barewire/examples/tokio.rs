//! A node in an async runtime: its descriptor in tokio's `AsyncFd`.
//!
//! ```sh
//! cargo run --release --example tokio
//! ```

use std::process::{Child, Command};
use std::time::Duration;

use barewire::{Connection, Error, Event, Node};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const REQUESTS: u64 = 1000;

/// A child process, ended when it is no longer needed.
struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() -> Result {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["client", name] => client(name),
        [] => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let served = runtime
                .block_on(async { tokio::time::timeout(Duration::from_secs(10), serve()).await });
            served?
        }
        _ => Err("usage: tokio".into()),
    }
}

/// The next events, in async code.
struct Events {
    node: AsyncFd<Node>,
}

impl Events {
    fn new(node: &Node) -> Result<Events> {
        #[allow(
            deprecated,
            reason = "its successor is unsafe: one promises that the descriptor stays what it \
                      is, and that of a node does"
        )]
        let node = AsyncFd::with_interest(node.clone(), Interest::READABLE)?;
        Ok(Events { node })
    }

    async fn next(&self, events: &mut Vec<Event>) -> Result {
        loop {
            // A poll that finds nothing is what makes the descriptor readable again.
            if self.node.get_ref().poll(events, 64)? > 0 {
                return Ok(());
            }
            self.node.readable().await?.clear_ready();
        }
    }
}

async fn serve() -> Result {
    let name = format!("tokio-{}", std::process::id());
    let node = Node::new()?;
    let _listener = node.listen(&name)?;
    let program = std::env::current_exe()?;
    let mut child = Client(Command::new(program).args(["client", &name]).spawn()?);

    // Something else that the runtime does meanwhile.
    let ticks = tokio::spawn(async {
        let mut ticks = tokio::time::interval(Duration::from_millis(1));
        for _ in 0..10 {
            ticks.tick().await;
        }
        10
    });

    let events = Events::new(&node)?;
    let mut connection: Option<Connection> = None;
    let (mut batch, mut buffer, mut answered) = (Vec::new(), [0; 64], 0);
    'serving: loop {
        events.next(&mut batch).await?;
        for event in batch.drain(..) {
            match (event, &mut connection) {
                (Event::Request(request), _) => connection = Some(request.accept()?),
                (Event::Ready(_), Some(connection)) => loop {
                    match connection.try_recv(&mut buffer) {
                        Ok(None) => break,
                        Ok(Some(len)) => {
                            // One request at a time, so there is room for the answer.
                            assert!(connection.try_send(&buffer[..len])?);
                            answered += 1;
                        }
                        Err(Error::Finished) => break 'serving,
                        Err(error) => return Err(error.into()),
                    }
                },
                _ => {}
            }
        }
    }
    println!(
        "answered {answered} requests between {} ticks",
        ticks.await?
    );
    if child.0.wait()?.success() && answered == REQUESTS {
        Ok(())
    } else {
        Err("requests were lost".into())
    }
}

fn client(name: &str) -> Result {
    let node = Node::new()?;
    let mut connection = node.connect(name)?;
    let mut buffer = [0; 64];
    for request in 0..REQUESTS {
        connection.send(&request.to_le_bytes())?;
        let len = connection.recv(&mut buffer)?;
        assert_eq!(buffer[..len], request.to_le_bytes());
    }
    Ok(())
}
