//! A server with many clients in async code: a task for each connection, messages as a
//! `Stream` and a `Sink`, and a byte stream that tokio's own tools copy.
//!
//! ```sh
//! cargo run --release -p barewire --example async
//! ```
//!
//! In a program of yours: `barewire = { ..., features = ["tokio"] }`.

use std::process::{Child, Command};
use std::time::Duration;

use barewire::tokio::{AsyncConnection, AsyncNode};
use barewire::{Node, Request};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const CLIENTS: usize = 3;
const REQUESTS: u64 = 1000;
const FILE_BYTES: usize = 1_000_000;

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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["client", name] => client(name).await,
            [] => tokio::time::timeout(Duration::from_secs(20), serve()).await?,
            _ => Err("usage: async".into()),
        }
    })
}

async fn serve() -> Result {
    let name = format!("async-{}", std::process::id());
    let node = AsyncNode::new(Node::new()?)?;
    let _listener = node.listen(&name)?;
    let program = std::env::current_exe()?;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Client(
            Command::new(&program).args(["client", &name]).spawn()?,
        ));
    }

    // Two connections of each client: one for requests, one for a file.
    let mut tasks = Vec::new();
    for _ in 0..2 * CLIENTS {
        let request = node.next_request().await?;
        tasks.push(tokio::spawn(handle(node.clone(), request)));
    }
    let (mut answered, mut copied) = (0, 0);
    for task in tasks {
        match task.await?? {
            Done::Answered(count) => answered += count,
            Done::Copied(bytes) => copied += bytes,
        }
    }
    println!("answered {answered} requests of {CLIENTS} clients, copied {copied} bytes");
    for mut client in clients {
        if !client.0.wait()?.success() {
            return Err("a client failed".into());
        }
    }
    Ok(())
}

enum Done {
    Answered(u64),
    Copied(u64),
}

/// Serves one connection, to its end.
async fn handle(node: AsyncNode, request: Request) -> Result<Done> {
    // The client says with its request what the connection is for.
    let is_file = request.data() == b"file";
    let connection = node.accept(request)?;
    if is_file {
        let (mut read, mut write) = tokio::io::split(connection.into_stream());
        let bytes = tokio::io::copy(&mut read, &mut write).await?;
        write.shutdown().await?;
        return Ok(Done::Copied(bytes));
    }
    Ok(Done::Answered(answer(connection).await?))
}

async fn answer(connection: AsyncConnection) -> Result<u64> {
    let (mut answers, mut requests) = connection.split();
    let mut count = 0;
    while let Some(request) = requests.next().await {
        let number = u64::from_le_bytes(request?.as_slice().try_into()?);
        // Waits while the client's memory is full.
        answers.send((number * number).to_le_bytes()).await?;
        count += 1;
    }
    SinkExt::<[u8; 8]>::close(&mut answers).await?;
    Ok(count)
}

async fn client(name: &str) -> Result {
    let node = AsyncNode::new(Node::new()?)?;
    let connection = node.connect(name).await?;
    let (mut requests, mut answers) = connection.split();
    // Asks on without waiting for the answers.
    let asking = tokio::spawn(async move {
        for number in 0..REQUESTS {
            requests.send(number.to_le_bytes()).await?;
        }
        SinkExt::<[u8; 8]>::close(&mut requests).await
    });
    for number in 0..REQUESTS {
        let answer = answers.next().await.ok_or("the server finished")??;
        assert_eq!(answer, (number * number).to_le_bytes());
    }
    asking.await??;

    let options = barewire::ConnectOptions {
        data: b"file".to_vec(),
        ..Default::default()
    };
    let stream = node.connect_with(name, &options).await?.into_stream();
    let (mut read, mut write) = tokio::io::split(stream);
    let writing = tokio::spawn(async move {
        write.write_all(&vec![7; FILE_BYTES]).await?;
        write.shutdown().await
    });
    let mut back = Vec::new();
    read.read_to_end(&mut back).await?;
    writing.await??;
    assert_eq!(back.len(), FILE_BYTES);
    Ok(())
}
