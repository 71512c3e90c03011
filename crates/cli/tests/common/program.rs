//! A program under `run`, for the tests of what is seen of sockets from outside.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::common::barewire;
use crate::wait;

const PATIENCE: Duration = Duration::from_secs(60);

/// Python: a program connects to itself, and exchanges so much that the connection is upgraded.
pub const EXCHANGE: &str = "
import socket, sys
listener = socket.create_server(('127.0.0.1', 0))
one = socket.create_connection(listener.getsockname())
other = listener.accept()[0]
for _ in range(2000):
    one.sendall(b'x' * 100)
    other.recv(100)
    other.sendall(b'y' * 10)
    one.recv(10)
";

/// A program with a connection to itself, which is upgraded. It ends with the test.
pub struct Program(Child);

impl Program {
    /// Comes back when it has exchanged what it does.
    pub fn start() -> Program {
        Program::start_then("sys.stdin.read()\n")
    }

    /// The same; then it does this, until its standard input ends.
    pub fn start_then(then: &str) -> Program {
        let code = format!("{EXCHANGE}print('ready', flush=True)\n{then}");
        let mut command = barewire(&["run", "--profile", "latency", "python3", "-c", &code]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("barewire starts");
        let mut said = String::new();
        let output = child.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut said).expect("a line");
        assert_eq!(said, "ready\n");
        Program(child)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let status = wait::ended(&mut self.0, PATIENCE);
        assert!(status.success() || std::thread::panicking(), "{status}");
    }
}
