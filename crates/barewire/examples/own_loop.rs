//! A node in a loop of your own, beside another descriptor (here a timer): with `poll` or
//! with `epoll`. `select` works alike, with the same descriptor; it is left out because
//! its binding is `unsafe`.
//!
//! ```sh
//! cargo run --release --example own_loop -- poll
//! cargo run --release --example own_loop -- epoll
//! cargo run --release --example own_loop              # one after the other
//! ```

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};

use barewire::{Connection, Error, Event, Node};
use rustix::event::{PollFd, PollFlags, epoll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const REQUESTS: u64 = 1000;
/// Nobody waits longer than this here.
const PATIENCE: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

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
        ["poll"] => serve("poll", &mut with_poll),
        ["epoll"] => with_epoll(),
        [] => {
            serve("poll", &mut with_poll)?;
            with_epoll()
        }
        _ => Err("usage: own_loop [poll | epoll]".into()),
    }
}

/// Which descriptors have something: the node's, the timer's.
struct Awake {
    node: bool,
    timer: bool,
}

fn with_poll(node: &Node, timer: &OwnedFd) -> Result<Awake> {
    let mut fds = [
        PollFd::new(node, PollFlags::IN),
        PollFd::new(timer, PollFlags::IN),
    ];
    rustix::event::poll(&mut fds, Some(&PATIENCE))?;
    let [node, timer] = fds.map(|fd| fd.revents().contains(PollFlags::IN));
    Ok(Awake { node, timer })
}

fn with_epoll() -> Result {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut added = false;
    serve("epoll", &mut |node, timer| {
        if !added {
            let sources = [(node.as_fd(), 1), (timer.as_fd(), 2)];
            for (fd, number) in sources {
                let data = epoll::EventData::new_u64(number);
                epoll::add(&epoll, fd, data, epoll::EventFlags::IN)?;
            }
            added = true;
        }
        let mut events = Vec::with_capacity(8);
        let room = rustix::buffer::spare_capacity(&mut events);
        epoll::wait(&epoll, room, Some(&PATIENCE))?;
        let has = |number| events.iter().any(|e: &epoll::Event| e.data.u64() == number);
        Ok(Awake {
            node: has(1),
            timer: has(2),
        })
    })
}

/// A timer that ticks every millisecond.
fn ticking() -> Result<OwnedFd> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let millisecond = Timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    let every = Itimerspec {
        it_interval: millisecond,
        it_value: millisecond,
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &every)?;
    Ok(timer)
}

fn serve(by: &str, wait: &mut dyn FnMut(&Node, &OwnedFd) -> Result<Awake>) -> Result {
    let name = format!("own-loop-{}-{by}", std::process::id());
    let node = Node::new()?;
    let _listener = node.listen(&name)?;
    let timer = ticking()?;
    let program = std::env::current_exe()?;
    let mut child = Client(Command::new(program).args(["client", &name]).spawn()?);

    let mut connection: Option<Connection> = None;
    let mut events = Vec::new();
    let (mut answered, mut ticks, mut finished) = (0, 0, false);
    while !finished {
        // Poll until there is nothing: only then does the descriptor tell of the next.
        while node.poll(&mut events, 64)? > 0 {
            for event in events.drain(..) {
                match (event, &mut connection) {
                    (Event::Request(request), _) => connection = Some(request.accept()?),
                    (Event::Ready(_), Some(connection)) => {
                        finished = answer(connection, &mut answered)?;
                    }
                    _ => {}
                }
            }
        }
        if finished {
            break;
        }
        let awake = wait(&node, &timer)?;
        if awake.timer {
            let mut expirations = [0; 8];
            rustix::io::read(&timer, &mut expirations)?;
            ticks += u64::from_ne_bytes(expirations);
        } else if !awake.node {
            return Err("nothing for ten seconds".into());
        }
    }
    println!("{by}: answered {answered} requests, and saw the timer tick {ticks} times");
    if child.0.wait()?.success() && answered == REQUESTS {
        Ok(())
    } else {
        Err("requests were lost".into())
    }
}

/// Answers everything that is there; `true` at the end.
fn answer(connection: &mut Connection, answered: &mut u64) -> Result<bool> {
    let mut buffer = [0; 64];
    loop {
        match connection.try_recv(&mut buffer) {
            Ok(None) => return Ok(false),
            Ok(Some(len)) => {
                // One request at a time, so there is room for the answer.
                assert!(connection.try_send(&buffer[..len])?);
                *answered += 1;
            }
            Err(Error::Finished) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
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
