//! Requests and their replies over connections that stay open, one at a time on each.

use barewire_des::dist::exponential_time;
use barewire_tcp::{State, Tcp};
use barewire_units::{Duration, Instant, Rng};

use super::super::program::{Hands, Program, Tables};
use super::ends::{self, Ends, Look, Looks, TcpSpec};
use crate::figures::{mean, p99, seconds, us};
use crate::workbench::bench::{Bench, Note};

/// What requests over TCP are made of.
#[derive(Clone, Debug)]
pub(in crate::network) struct TcpRequestSpec {
    pub tcp: TcpSpec,
    /// Of each connection.
    pub requests: u64,
    pub request_bytes: u64,
    pub reply_bytes: u64,
    /// From a reply to the next request, on average.
    pub pause: Duration,
}

impl TcpRequestSpec {
    pub(in crate::network) fn messages(&self) -> Vec<(f64, u64)> {
        let all = self.tcp.count() as f64 * self.requests as f64;
        let each = [self.request_bytes, self.reply_bytes];
        let each = each
            .iter()
            .flat_map(|&bytes| self.tcp.packets(bytes as f64));
        each.map(|(count, bytes)| (all * count, bytes)).collect()
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, Default)]
struct Course {
    /// Requests that were begun, and replies that were read.
    begun: u64,
    answered: u64,
    since: Instant,
    /// Bytes that the client has still to give and to read.
    to_give: u64,
    to_read: u64,
    /// Bytes that the server has read of a request, and has still to give.
    server_read: u64,
    server_to_give: u64,
    ended: bool,
    failed: bool,
}

const CHUNK: usize = 16 << 10;

pub(in crate::network::programs) struct TcpRequest {
    spec: TcpRequestSpec,
    ends: Ends,
    rng: Rng,
    courses: Vec<Course>,
    ended: usize,
    times_us: Vec<f64>,
    last: Instant,
    buffer: Vec<u8>,
}

/// Gives the end as many of `left` bytes as it takes.
fn give(tcp: &mut Tcp, left: &mut u64) {
    while *left > 0 {
        let most = (*left).min(CHUNK as u64) as usize;
        match tcp.send(&[0x5a; CHUNK][..most]) {
            Ok(0) | Err(_) => return,
            Ok(taken) => *left -= taken as u64,
        }
    }
}

/// Reads what has come, and gives how much.
fn read(tcp: &mut Tcp, buffer: &mut [u8]) -> u64 {
    let mut all = 0;
    while let Ok(count @ 1..) = tcp.receive(buffer) {
        all += count as u64;
    }
    all
}

impl TcpRequest {
    pub(in crate::network::programs) fn new(spec: TcpRequestSpec, rng: &Rng) -> Self {
        Self {
            ends: Ends::new(spec.tcp.clone(), rng),
            rng: rng.fork("pauses"),
            courses: vec![Course::default(); spec.tcp.count()],
            ended: 0,
            times_us: Vec::new(),
            last: Instant::ORIGIN,
            buffer: vec![0; CHUNK],
            spec,
        }
    }

    /// A connection begins, or a pause has ended.
    fn tick(&mut self, connection: usize, desk: &mut Hands<'_>) {
        if self.ends.tcp(2 * connection).is_none() {
            self.ends.open(connection, desk);
        } else {
            self.ask(connection, desk);
        }
    }

    /// Begins the next request.
    fn ask(&mut self, connection: usize, desk: &mut Hands<'_>) {
        let course = &mut self.courses[connection];
        course.begun += 1;
        course.since = desk.now();
        course.to_give = self.spec.request_bytes;
        course.to_read = self.spec.reply_bytes;
        if let Some(tcp) = self.ends.tcp(2 * connection) {
            give(tcp, &mut course.to_give);
        }
        self.ends.make_ready(2 * connection);
    }

    fn serve(&mut self, end: usize, desk: &mut Hands<'_>) {
        match end % 2 {
            0 => self.client(end, desk),
            _ => self.server(end),
        }
        self.ends.make_ready(end);
        self.judge(end / 2);
    }

    fn client(&mut self, end: usize, desk: &mut Hands<'_>) {
        let course = &mut self.courses[end / 2];
        let Some(tcp) = self
            .ends
            .tcp(end)
            .filter(|tcp| tcp.state() != State::Opening)
        else {
            return;
        };
        if course.begun == 0 {
            self.ask(end / 2, desk);
            return;
        }
        give(tcp, &mut course.to_give);
        let got = read(tcp, &mut self.buffer);
        if course.to_read == 0 || got == 0 {
            return;
        }
        course.to_read = course.to_read.saturating_sub(got);
        if course.to_read > 0 {
            return;
        }
        course.answered += 1;
        self.last = desk.now();
        self.times_us
            .push(us(desk.now().saturating_duration_since(course.since)));
        if course.begun == self.spec.requests {
            tcp.close();
        } else if self.spec.pause.is_zero() {
            self.ask(end / 2, desk);
        } else {
            let pause = exponential_time(&mut self.rng, self.spec.pause);
            let at = desk.now().saturating_add(pause);
            self.ends.tick(end / 2, at, desk);
        }
    }

    fn server(&mut self, end: usize) {
        let course = &mut self.courses[end / 2];
        let Some(tcp) = self.ends.tcp(end) else {
            return;
        };
        course.server_read += read(tcp, &mut self.buffer);
        while course.server_read >= self.spec.request_bytes {
            course.server_read -= self.spec.request_bytes;
            course.server_to_give += self.spec.reply_bytes;
        }
        give(tcp, &mut course.server_to_give);
        if tcp.has_ended() {
            tcp.close();
        }
    }

    /// Whether the connection has ended, and how.
    fn judge(&mut self, connection: usize) {
        let course = &mut self.courses[connection];
        if course.ended {
            return;
        }
        let ends = [2 * connection, 2 * connection + 1];
        let error = ends.map(|end| self.ends.tcp(end).is_some_and(|tcp| tcp.error().is_some()));
        course.failed = error != [false; 2] && course.answered < self.spec.requests;
        course.ended = course.failed || course.answered == self.spec.requests;
        self.ended += usize::from(course.ended);
    }
}

impl Looks for TcpRequest {
    fn ends(&mut self) -> &mut Ends {
        &mut self.ends
    }

    fn look(&mut self, look: Look, desk: &mut Hands<'_>) {
        match look {
            Look::Tick(connection) => self.tick(connection, desk),
            Look::End(end) => self.serve(end, desk),
        }
    }
}

impl Program for TcpRequest {
    fn begin(&mut self, desk: &mut Hands<'_>) {
        self.ends.begin(desk);
    }

    fn note(&mut self, host: u16, note: Note, desk: &mut Hands<'_>) {
        ends::note(self, host, note, desk);
    }

    fn lost(&mut self, message: u32, desk: &mut Hands<'_>) {
        let _lost = desk.take_packet(message);
    }

    fn is_done(&self) -> bool {
        self.ended == self.courses.len()
    }

    fn tell(&mut self, name: &str, _bench: &Bench, tables: &mut Tables) {
        let begun = (0..self.courses.len())
            .map(|it| self.spec.tcp.begun(it))
            .min();
        let time = self
            .last
            .saturating_duration_since(begun.unwrap_or_default());
        let answered: u64 = self.courses.iter().map(|course| course.answered).sum();
        let failed = self.courses.iter().filter(|course| course.failed).count();
        let counts = self.ends.counts();
        tables.tcp_requests.row([
            ("program", "", name.into()),
            ("connections", "", self.courses.len().into()),
            ("failed", "", failed.into()),
            ("answered", "", answered.into()),
            (
                "answered, a second",
                "1/s",
                (answered as f64 / seconds(time)).into(),
            ),
            ("mean", "us", mean(&self.times_us).into()),
            ("99th percentile", "us", p99(&mut self.times_us).into()),
            ("packets", "", counts.packets_first.into()),
            ("sent again", "", counts.packets_again.into()),
            ("timeouts", "", counts.timeouts.into()),
        ]);
    }
}
