//! The end that listens: takes orders and carries them out, a thread for each connection, until
//! it is stopped.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use barewire::Request;

use super::common::{NAME, Over, PORT, Result, StreamError, doing};
use super::flow::{consume, produce};
use super::order;
use super::transport::{self, Ours, Tcp, Transport};

/// Tests at a time; whoever comes beyond is turned away.
const TESTS_MAX: usize = 64;
/// After an error of the listener itself, such as no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// A place among the tests that run; free again when dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(tests: &Arc<AtomicUsize>) -> Option<Self> {
        let place = Self(Arc::clone(tests));
        // Relaxed: nothing but the number is told by it; pairs with the subtraction in `drop`.
        (tests.fetch_add(1, Ordering::Relaxed) < TESTS_MAX).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Relaxed: as above; pairs with the addition in `take`.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Listens until the process is stopped.
pub fn serve(over: Over, at: Option<&str>) -> Result<()> {
    match over {
        Over::Tcp => serve_tcp(at),
        Over::Barewire => serve_ours(at.unwrap_or(NAME)),
    }
}

fn serve_tcp(at: Option<&str>) -> Result<()> {
    let addresses = match at {
        None => vec![([127, 0, 0, 1], PORT).into()],
        Some(at) => transport::addresses(at)?,
    };
    let what = format!("listening to {}", addresses[0]);
    let listener = TcpListener::bind(&addresses[..]).map_err(doing(what))?;
    let address = listener.local_addr().map_err(doing("listening"))?;
    println!("listening to {address}");
    let tests = Arc::default();
    for stream in listener.incoming() {
        let begun = stream.and_then(|stream| begin(stream, &tests));
        if let Err(error) = begun {
            eprintln!("barewire: a connection: {error}");
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// Starts a thread for a connection; one that there is no place for is closed.
fn begin(stream: TcpStream, tests: &Arc<AtomicUsize>) -> std::io::Result<()> {
    let Some(place) = Place::take(tests) else {
        return Ok(());
    };
    let mut transport = Tcp::new(stream)?;
    let work = move || told(test(&mut transport), place);
    std::thread::Builder::new().spawn(work).map(drop)
}

fn serve_ours(name: &str) -> Result<()> {
    let node = transport::node(0)?;
    let listening = node.listen(name);
    let _listener = listening.map_err(doing(format!("listening under `{name}`")))?;
    println!("listening under the name {name}");
    let tests = Arc::default();
    loop {
        let request = node.next_request(None).map_err(doing("listening"))?;
        if let Err(error) = begin_ours(request, &tests) {
            eprintln!("barewire: a connection: {error}");
        }
    }
}

fn begin_ours(request: Request, tests: &Arc<AtomicUsize>) -> Result<()> {
    let Some(place) = Place::take(tests) else {
        request.reject("as many tests run as may");
        return Ok(());
    };
    let asked = request.data().try_into().map_or(0, u64::from_le_bytes);
    let connection = request.accept_with_ring(transport::ring_of(asked));
    let connection = connection.map_err(doing("accepting"))?;
    let mut transport = Ours::new(connection.into_stream(), None);
    let work = move || told(test(&mut transport), place);
    let spawned = std::thread::Builder::new().spawn(work);
    spawned.map(drop).map_err(doing("beginning a test"))
}

/// Tells what became of a test; its place is free after that.
fn told(ended: Result<()>, _place: Place) {
    if let Err(error) = ended {
        eprintln!("barewire: a test: {error}");
    }
}

/// Takes an order and carries it out.
fn test(transport: &mut dyn Transport) -> Result<()> {
    let order = order::await_order(transport)?;
    transport
        .set_up(order.settings())
        .map_err(doing("setting the socket up"))?;
    order::start(transport)?;
    if order.sends {
        let tally = consume(transport, &order)?;
        order::tell(transport, tally)?;
        return transport.finish().map_err(doing("ending the stream"));
    }
    produce(transport, &order)?;
    // Until the other end has read all and closes: gone before, it could lose the rest.
    match transport.read(&mut [0]) {
        Ok(0) | Err(_) => Ok(()),
        Ok(_) => Err(StreamError::Peer("sends, and was to receive".into())),
    }
}
