//! A server that answers `GET /metrics`, and nothing else.
//!
//! Nobody can stall or fill it. A fixed number of threads serve one connection each at a time; others wait in the
//! kernel's queue, which is bounded, too. A request has to come whole within a second, and fit into 8 KiB. An answer
//! has to be taken within two. What is collected is kept for a second, so that many requests cost no more than one.
//!
//! On a loopback address, a request that names another host is refused: a page in a browser could have given its own
//! name this address, and read what comes back (DNS rebinding).

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// As many connections are served at the same time.
const THREADS: usize = 16;
const REQUEST_BYTES_MAX: usize = 8 << 10;
const REQUEST_PATIENCE: Duration = Duration::from_secs(1);
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// How long what was collected is used again.
const KEPT: Duration = Duration::from_secs(1);
/// After the system had no descriptor for a connection.
const PAUSE: Duration = Duration::from_millis(100);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// What is served, and when it was collected.
struct Served<C> {
    collect: C,
    last: Mutex<Option<(Instant, Arc<String>)>>,
    /// Only requests for a loopback address are answered.
    is_local: bool,
}

impl<C: Fn() -> String> Served<C> {
    fn text(&self) -> Arc<String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((at, text)) if at.elapsed() < KEPT => Arc::clone(text),
            _ => {
                let text = Arc::new((self.collect)());
                *last = Some((Instant::now(), Arc::clone(&text)));
                text
            }
        }
    }
}

/// Serves what `collect` gives, and does not come back.
///
/// # Errors
/// A thread could not be started.
pub fn serve<C>(listener: &TcpListener, is_local: bool, collect: C) -> io::Result<()>
where
    C: Fn() -> String + Sync,
{
    let served = Served {
        collect,
        last: Mutex::new(None),
        is_local,
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let thread = std::thread::Builder::new().name("metrics".to_owned());
            thread.spawn_scoped(scope, || answer_all(listener, &served))?;
        }
        Ok(())
    })
}

fn answer_all<C: Fn() -> String>(listener: &TcpListener, served: &Served<C>) {
    loop {
        match listener.accept() {
            // Who goes away or takes too long gets nothing.
            Ok((stream, _)) => drop(answer(stream, served)),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// What is answered.
struct Answer {
    status: &'static str,
    kind: &'static str,
    body: Arc<String>,
}

impl Answer {
    fn refusal(status: &'static str, body: &str) -> Answer {
        Answer {
            status,
            kind: PLAIN,
            body: Arc::new(body.to_owned()),
        }
    }
}

fn answer<C: Fn() -> String>(mut stream: TcpStream, served: &Served<C>) -> io::Result<()> {
    let answer = match read_head(&mut stream)? {
        Some(head) => to(&head, served),
        None => Answer::refusal(
            "431 Request Header Fields Too Large",
            "the request has more than 8 KiB\n",
        ),
    };
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nAllow: GET\r\nConnection: close\r\n\r\n",
        answer.status,
        answer.kind,
        answer.body.len()
    );
    let until = Instant::now() + ANSWER_PATIENCE;
    write_until(&mut stream, head.as_bytes(), until)?;
    write_until(&mut stream, answer.body.as_bytes(), until)?;
    stream.shutdown(Shutdown::Write)
}

/// The time that is left; an error if there is none.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

/// The request up to the empty line behind its fields; `None` if it is too long.
fn read_head(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let until = Instant::now() + REQUEST_PATIENCE;
    let mut head = Vec::with_capacity(1024);
    let mut piece = [0; 1024];
    loop {
        if let Some(end) = head.windows(4).position(|it| it == b"\r\n\r\n") {
            head.truncate(end);
            return Ok(Some(String::from_utf8_lossy(&head).into_owned()));
        }
        if head.len() > REQUEST_BYTES_MAX {
            return Ok(None);
        }
        stream.set_read_timeout(Some(left(until)?))?;
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&piece[..count]),
        }
    }
}

fn write_until(stream: &mut TcpStream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        let count = stream.write(bytes)?;
        bytes = &bytes[count..];
    }
    Ok(())
}

fn to<C: Fn() -> String>(head: &str, served: &Served<C>) -> Answer {
    let mut lines = head.split("\r\n");
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = words[..] else {
        return Answer::refusal("400 Bad Request", "this is not HTTP\n");
    };
    if !version.starts_with("HTTP/1.") {
        return Answer::refusal("505 HTTP Version Not Supported", "use HTTP/1.1\n");
    }
    let fields = lines.filter_map(|line| line.split_once(':'));
    let mut hosts = fields.filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    let host = hosts.next().map_or("", |(_, value)| value.trim());
    if served.is_local && !is_local_name(host) {
        return Answer::refusal(
            "403 Forbidden",
            "this address is that of this host alone: ask by its number, or as localhost\n",
        );
    }
    if method != "GET" {
        return Answer::refusal("405 Method Not Allowed", "only GET is answered\n");
    }
    match target.split('?').next() {
        Some("/metrics") => Answer {
            status: "200 OK",
            kind: OPEN_METRICS,
            body: served.text(),
        },
        _ => Answer::refusal("404 Not Found", "ask for /metrics\n"),
    }
}

/// Whether the field `Host` has an address, or a name that nobody else can have. Programs older than HTTP/1.1 send
/// none.
fn is_local_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.is_empty() || name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(head: &str, is_local: bool) -> &'static str {
        let served = Served {
            collect: String::new,
            last: Mutex::new(None),
            is_local,
        };
        to(head, &served)
            .status
            .split(' ')
            .next()
            .unwrap_or_default()
    }

    #[test]
    fn only_requests_for_the_metrics_are_answered() {
        for (head, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9400", "200"),
            ("GET /metrics?x=1 HTTP/1.0", "200"),
            ("GET /metrics HTTP/1.1\r\nhost:[::1]:9400", "200"),
            ("GET /metrics HTTP/1.1\r\nHost: localhost", "200"),
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1", "404"),
            ("GET /metricsx HTTP/1.1", "404"),
            ("POST /metrics HTTP/1.1", "405"),
            ("GET /metrics HTTP/2.0", "505"),
            ("GET /metrics", "400"),
            ("", "400"),
            ("GET /metrics HTTP/1.1\r\nHost: evil.example", "403"),
        ] {
            assert_eq!(status(head, true), expected, "{head:?}");
        }
        let named = "GET /metrics HTTP/1.1\r\nHost: builder-3.example:9400";
        assert_eq!(status(named, false), "200");
    }

    #[test]
    fn what_was_collected_is_kept_for_a_while() {
        let count = std::cell::Cell::new(0);
        let served = Served {
            collect: || {
                count.set(count.get() + 1);
                count.get().to_string()
            },
            last: Mutex::new(None),
            is_local: true,
        };
        assert_eq!((&**served.text(), &**served.text()), ("1", "1"));
        let long_ago = Instant::now()
            .checked_sub(2 * KEPT)
            .expect("the machine runs");
        *served.last.lock().expect("no panic") = Some((long_ago, Arc::new(String::new())));
        assert_eq!(&**served.text(), "2");
    }
}
