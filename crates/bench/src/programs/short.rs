//! Short lives: connections that carry a request and an answer, and children that end at once.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Instant;

use barewire_sys::process::{ForkedChild, fork_child};

use super::messages::Done;
use super::sockets::{accept, connect, wrong_result};
use crate::error::{Error, Result, What};

const REQUEST_BYTES: usize = 64;

/// The client: the answers must be complete.
pub fn play(port: u16, count: u32, answer_bytes: usize) -> Result<Done> {
    let request = [b'q'; REQUEST_BYTES];
    let mut answer = vec![0; answer_bytes.max(REQUEST_BYTES)];
    let begin = Instant::now();
    for _ in 0..count {
        let mut stream = connect(port)?;
        stream.write_all(&request).what("sending a request")?;
        let answer = &mut answer[..answer_bytes];
        stream.read_exact(answer).what("receiving an answer")?;
        if stream.read(&mut [0]).what("waiting for the end")? != 0 {
            return Err(wrong_result("bytes after the answer"));
        }
        if answer.iter().any(|&byte| byte != b'a') {
            return Err(wrong_result("another answer came"));
        }
    }
    Ok(Done {
        operations: count.into(),
        bytes: u64::from(count) * answer_bytes as u64,
        elapsed_ns: begin.elapsed().as_nanos() as f64,
        ..Done::default()
    })
}

/// The server; `forks`: a child of its own answers each.
pub fn serve(listener: &TcpListener, count: u32, answer_bytes: usize, forks: bool) -> Result<Done> {
    let answer = vec![b'a'; answer_bytes];
    let mut last = None;
    for _ in 0..count {
        let stream = accept(listener)?;
        if !forks {
            answer_one(&stream, &answer)?;
            continue;
        }
        let serve = || i32::from(answer_one(&stream, &answer).is_err());
        let child = fork_child(serve).what("forking")?;
        drop(stream);
        if let Some(before) = last.replace(child) {
            has_ended_well(&before)?;
        }
    }
    last.iter().try_for_each(has_ended_well)?;
    Ok(Done {
        operations: count.into(),
        ..Done::default()
    })
}

fn answer_one(mut stream: &TcpStream, answer: &[u8]) -> Result<()> {
    let mut request = [0; REQUEST_BYTES];
    stream
        .read_exact(&mut request)
        .what("receiving a request")?;
    stream.write_all(answer).what("sending an answer")
}

fn has_ended_well(child: &ForkedChild) -> Result<()> {
    match child.wait().what("waiting for a child")?.success() {
        true => Ok(()),
        false => Err(Error::Transport("a forked child failed".into())),
    }
}

/// Makes children that end at once.
pub fn make_children(count: u32, starts: bool) -> Result<Done> {
    let begin = Instant::now();
    for _ in 0..count {
        if !starts {
            has_ended_well(&fork_child(|| 0).what("forking")?)?;
        } else if !Command::new("true")
            .status()
            .what("starting true")?
            .success()
        {
            return Err(wrong_result("true failed"));
        }
    }
    Ok(Done {
        operations: count.into(),
        elapsed_ns: begin.elapsed().as_nanos() as f64,
        ..Done::default()
    })
}
