//! `barewire metrics --listen`, for the tests of what it serves.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::common::barewire;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server that ends with the test.
pub struct Server {
    child: Child,
    pub address: String,
}

impl Server {
    pub fn start() -> Server {
        Server::start_with(&[])
    }

    /// With more options.
    pub fn start_with(more: &[&str]) -> Server {
        let mut command = barewire(&["metrics", "--listen", "127.0.0.1:0"]);
        command.args(more);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut said = String::new();
        let errors = child.stderr.take().expect("piped");
        BufReader::new(errors).read_line(&mut said).expect("a line");
        let (_, rest) = said.split_once("http://").expect("its address");
        let (address, _) = rest.split_once("/metrics").expect("its address");
        Server {
            child,
            address: address.to_owned(),
        }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream
    }

    /// All that comes back for these bytes.
    pub fn answer(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        // It may have answered and gone before it has read all.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// What it answers, with the head.
    pub fn get(&self) -> String {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        self.answer(request.as_bytes())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
