//! Connections of the two small programs over 127.0.0.1.

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use crate::error::{Error, Result, What};

/// Connects.
pub fn connect(port: u16) -> Result<TcpStream> {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).what("connecting")
}

/// Accepts.
pub fn accept(listener: &TcpListener) -> Result<TcpStream> {
    listener
        .accept()
        .map(|(stream, _)| stream)
        .what("accepting")
}

/// A wrong result: the benchmark fails.
pub fn wrong_result(what: &str) -> Error {
    Error::Transport(format!("wrong: {what}"))
}
