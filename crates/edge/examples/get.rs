//! Gets a page by HTTP through a bridge, as curl does by the kernel:
//! `cargo run -p barewire-edge --example get -- 198.51.100.7:80 /index.html`
//!
//! The page goes to the standard output, and how long it took to the standard error.

use barewire::Node;
use barewire_edge::EdgeNode;
use std::io::{Read, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(host), path) = (arguments.next(), arguments.next()) else {
        return Err("say from where: HOST:PORT [PATH]".into());
    };
    let path = path.unwrap_or("/".to_owned());
    let node = Node::new()?;
    let from = std::time::Instant::now();
    let mut stream = node.tcp_connect(&host)?;
    eprintln!(
        "connected to {} after {:?}",
        stream.remote(),
        from.elapsed()
    );
    let name = host.rsplit_once(':').map_or(&host[..], |(name, _)| name);
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {name}\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let seconds = from.elapsed().as_secs_f64();
    let rate = answer.len() as f64 * 8.0 / 1e6 / seconds;
    eprintln!("{} bytes in {seconds:.3} s, {rate:.0} Mbit/s", answer.len());
    let header = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let page = header.map_or(&answer[..], |at| &answer[at + 4..]);
    std::io::stdout().write_all(page)?;
    Ok(())
}
