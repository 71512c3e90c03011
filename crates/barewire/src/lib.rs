//! A user-level network: programs on one Linux host talk through shared memory, without
//! the kernel on the data path.
//!
//! Each side owns the memory that it reads from, and its peers store into that memory: *stores
//! go remote, loads stay local*. A message is a few stores by the sender and a few loads by
//! the receiver. The kernel is only needed to make memory, to find names, and to wake a
//! process that sleeps.
//!
//! This page is a guided tour. All code in it is compiled and run.
//!
//! 1. [When to use it, and when not](#when-to-use-it-and-when-not)
//! 2. [First program](#first-program)
//! 3. [Messages](#messages)
//! 4. [Byte streams](#byte-streams)
//! 5. [The event queue: many connections](#the-event-queue-many-connections)
//! 6. [Waiting in your own loop](#waiting-in-your-own-loop)
//! 7. [Async code](#async-code)
//! 8. [Apertures and tripwires](#apertures-and-tripwires)
//! 9. [A table with readers who wait](#a-table-with-readers-who-wait)
//! 10. [A remote counter](#a-remote-counter)
//! 11. [Bulk transfers](#bulk-transfers)
//! 12. [Out of band](#out-of-band)
//! 13. [Errors, and whose fault they are](#errors-and-whose-fault-they-are)
//! 14. [Threads](#threads)
//! 15. [Life and death](#life-and-death)
//! 16. [Limits and memory](#limits-and-memory)
//! 17. [Inspecting and changing a live node](#inspecting-and-changing-a-live-node)
//! 18. [Other hosts](#other-hosts)
//! 19. [Security](#security)
//!
//! # When to use it, and when not
//!
//! Use it between processes of one host that exchange many messages, or that wait for each
//! other: a broker and its workers, a cache and its clients, a trading gateway, stages of a
//! pipeline. It replaces Unix sockets and TCP over loopback.
//!
//! Do not use it
//!
//! - between hosts for the sake of speed alone: a message there takes longer than over bare TCP;
//! - within one process: a channel is simpler (barewire works there too, and this page does so);
//! - if messages are rare: a Unix socket is as good;
//! - if data must outlive the processes: when the last of them ends, the memory is gone, and no
//!   file is left behind.
//!
//! # First program
//!
//! A [`Node`] is a place on the network: an event queue, the names it listens to, and its
//! links to other nodes. A process has one, or one per thread. Here are two threads; two
//! processes are the same program cut in two (`examples/echo.rs`).
//!
//! ```
//! use barewire::{Error, Node};
//! use std::thread;
//!
//! # fn main() -> barewire::Result<()> {
//! let name = format!("tour-echo-{}", std::process::id());
//!
//! let server = {
//!     let node = Node::new()?;
//!     let listener = node.listen(&name)?;
//!     thread::spawn(move || -> barewire::Result<()> {
//!         let mut connection = node.next_request(None)?.accept()?;
//!         drop(listener); // gives the name up; connections stay
//!         let mut buffer = [0; 256];
//!         loop {
//!             match connection.recv(&mut buffer) {
//!                 Ok(len) => connection.send(&buffer[..len])?,
//!                 Err(Error::Finished) => return Ok(()),
//!                 Err(error) => return Err(error),
//!             }
//!         }
//!     })
//! };
//!
//! let node = Node::new()?;
//! let mut connection = node.connect(&name)?;
//! connection.send(b"hello")?;
//! let mut buffer = [0; 256];
//! let len = connection.recv(&mut buffer)?;
//! assert_eq!(&buffer[..len], b"hello");
//! drop(connection); // closes it: the server receives Error::Finished
//! # server.join().unwrap()?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Node::connect`] waits up to five seconds, also for the name to appear, so the two sides
//! may be started in any order. A name belongs to a user: yours can not be taken by somebody
//! else ([Security](#security)).
//!
//! # Messages
//!
//! A message arrives whole, once, and in the order sent. It may have any length up to the
//! *receiver's* limit, [`NodeConfig::message_bytes_max`] (16 MiB unless you say otherwise).
//! One that is longer than a quarter of the receiver's ring, or than 16 KiB, travels in pieces
//! and is put together again, in the buffer of `recv` where that is possible.
//!
//! | you want | call |
//! |---|---|
//! | to wait | [`Connection::send`], [`Connection::recv`] |
//! | not to wait | [`Connection::try_send`], [`Connection::try_recv`] |
//! | to wait for a while | [`Connection::send_timeout`], [`Connection::recv_timeout`] |
//! | any length, without knowing it | [`Connection::recv_into`] |
//! | many small ones at once | [`Sender::send_batch`], [`Receiver::recv_batch`] |
//! | no copy of your own | [`Sender::send_with`], [`Sender::reserve`], [`Receiver::recv_message`] |
//!
//! All receiving calls are named alike: a bare name waits, `try_…` does not wait, and
//! `…_timeout` waits for a limited time. The latter two return `None` if there was no message.
//! [`Receiver`] has a table of all nine.
//!
//! When the receiver's memory is full, `try_send` returns `false` and `send` waits: the
//! receiver returns *credit* as it takes messages. No message is ever dropped.
//!
//! ```
//! # use barewire::{Connection, Node};
//! # use std::{thread, time::Duration};
//! # fn pair(name: &str) -> barewire::Result<[(Node, Connection); 2]> {
//! #     let name = format!("tour-{name}-{}", std::process::id());
//! #     let (server, client) = (Node::new()?, Node::new()?);
//! #     let _listener = server.listen(&name)?;
//! #     let opening = thread::spawn(move || client.connect(&name).map(|c| (client, c)));
//! #     let accepted = server.next_request(None)?.accept()?;
//! #     Ok([(server, accepted), opening.join().unwrap()?])
//! # }
//! use std::io::Write;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let [(_a, mut alice), (_b, mut bob)] = pair("messages")?;
//! // Several messages, one doorbell.
//! let sent = alice.sender().send_batch(&["one", "two", "three"])?;
//! assert_eq!(sent, 3); // fewer if there is no room for all
//!
//! let mut got = Vec::new();
//! bob.receiver().recv_batch(16, |message| got.push(message.to_vec()))?;
//! assert_eq!(got, [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()]);
//!
//! // Built where the receiver reads it: no copy on the way out.
//! alice.sender().send_with(100, |room| write!(room, "in {}", "place"))?;
//! // Read in place: it stays the next message until it is released.
//! let message = bob.receiver().recv_message()?;
//! let mut bytes = [0; 5];
//! message.read_at(3, &mut bytes);
//! assert_eq!(&bytes, b"place");
//! assert_eq!(message, b"in place");
//! message.release();
//!
//! // The same by hand, at any offset, and sent only if all went well.
//! assert!(alice.sender().reserve_bytes_max() >= 100); // a quarter of the ring, nearly
//! if let Some(mut room) = alice.sender().reserve(100)? {
//!     room.write_at(8, b"backwards");
//!     room.write_at(0, b"written ");
//!     room.commit_written();
//! }
//! assert_eq!(bob.receiver().recv_message()?.into_vec(), b"written backwards");
//!
//! // Any length, into a vector.
//! let long = vec![7; 100_000];
//! let sender = thread::spawn(move || alice.send(&long).map(|()| alice));
//! let mut message = Vec::new();
//! let came = bob.receiver().recv_into_timeout(&mut message, Duration::from_secs(5))?;
//! assert_eq!(came, Some(100_000));
//! assert_eq!(message.len(), 100_000);
//! # drop(sender.join().unwrap()?);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Message`] that is read in place can be copied from, but not borrowed: a hostile
//! sender may change it at any time. It is [`std::io::Read`], as the [`Reservation`] that it
//! was built in is [`std::io::Write`]: parsers and serializers work on both.
//!
//! # Byte streams
//!
//! [`Connection::into_stream`] turns a connection into a [`Stream`], which is
//! [`std::io::Read`] and [`std::io::Write`]. Do it on both sides before anything is sent. A
//! write is visible at once; there is nothing to flush. Reading gives 0 bytes at the end.
//!
//! ```
//! # use barewire::{Connection, Node};
//! # use std::thread;
//! # fn pair(name: &str) -> barewire::Result<[(Node, Connection); 2]> {
//! #     let name = format!("tour-{name}-{}", std::process::id());
//! #     let (server, client) = (Node::new()?, Node::new()?);
//! #     let _listener = server.listen(&name)?;
//! #     let opening = thread::spawn(move || client.connect(&name).map(|c| (client, c)));
//! #     let accepted = server.next_request(None)?.accept()?;
//! #     Ok([(server, accepted), opening.join().unwrap()?])
//! # }
//! use std::io::{Read, Write};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let [(_a, alice), (_b, bob)] = pair("streams")?;
//! let mut stream = bob.into_stream();
//! let server = thread::spawn(move || -> std::io::Result<usize> {
//!     let mut request = String::new();
//!     stream.read_to_string(&mut request)?; // to the end of what alice writes
//!     stream.write_all(request.to_uppercase().as_bytes())?;
//!     Ok(request.len())
//! });
//!
//! let mut stream = alice.into_stream();
//! stream.write_all(b"quite a lot of text")?;
//! stream.finish(); // nothing more from here; reading goes on
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer)?;
//! assert_eq!(answer, "QUITE A LOT OF TEXT");
//! # assert_eq!(server.join().unwrap()?, 19);
//! # Ok(())
//! # }
//! ```
//!
//! A bulk stream wants a larger ring than the default of 4 KiB: 64 KiB and more, with
//! [`NodeConfig::ring_bytes`], [`ConnectOptions::ring_bytes`] or
//! [`Request::accept_with_ring`]. Each side chooses the ring that *it* receives from. Round trips
//! of 64 KiB are twice as fast through a ring of 4 MiB as through one of 64 KiB, if the two
//! processors share a cache that is larger than that.
//!
//! # The event queue: many connections
//!
//! One thread serves thousands of connections by waiting for [`Event`]s.
//!
//! ```
//! use barewire::{Connection, Event, Node};
//! use std::thread;
//!
//! # fn main() -> barewire::Result<()> {
//! # const CLIENTS: usize = 20;
//! let name = format!("tour-many-{}", std::process::id());
//! let node = Node::new()?;
//! let _listener = node.listen(&name)?;
//! # let clients = thread::spawn(move || -> barewire::Result<()> {
//! #     let node = Node::new()?;
//! #     let mut all = Vec::new();
//! #     for _ in 0..CLIENTS {
//! #         all.push(node.connect(&name)?);
//! #     }
//! #     for connection in &mut all {
//! #         connection.send(b"ping")?;
//! #         assert_eq!(connection.recv(&mut [0; 16])?, 4);
//! #     }
//! #     Ok(())
//! # });
//!
//! // The number of a connection is small and used again: it indexes a table.
//! let mut connections: Vec<Option<Connection>> = Vec::new();
//! let mut events = Vec::new();
//! let mut buffer = [0; 4096];
//! # let mut ended = 0;
//! loop {
//!     node.wait(&mut events, 64, None)?; // spins a little, then sleeps
//!     for event in events.drain(..) {
//!         match event {
//!             Event::Request(request) => {
//!                 // Look at request.peer(), request.name() and request.data() here.
//!                 // An error: the client has given up meanwhile.
//!                 let Ok(connection) = request.accept() else { continue };
//!                 let at = connection.id().index();
//!                 connections.resize_with(connections.len().max(at + 1), || None);
//!                 connections[at] = Some(connection);
//!             }
//!             Event::Ready(id) => {
//!                 let Some(connection) = &mut connections[id.index()] else {
//!                     continue;
//!                 };
//!                 // One message per turn keeps it fair: `Ready` comes again for the rest.
//!                 let answered = match connection.try_recv(&mut buffer) {
//!                     // If it does not read its answers, it does not get them.
//!                     Ok(Some(len)) => connection.try_send(&buffer[..len]).map(drop),
//!                     Ok(None) => Ok(()),
//!                     Err(error) => Err(error),
//!                 };
//!                 // Whatever the reason, it ends this connection and no other.
//!                 if answered.is_err() {
//!                     connections[id.index()] = None;
//! #                     ended += 1;
//!                 }
//!             }
//!             _ => {}
//!         }
//!     }
//! #     if ended == CLIENTS { break }
//! }
//! # clients.join().unwrap()?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Event::Ready`] means: try. It comes when something arrives after nothing was there. It comes
//! again if you stop before [`try_recv`](Receiver::try_recv) says that nothing is left. It also
//! comes at the end of a connection, so a program that handles `Ready` need not handle
//! [`Event::Closed`]. `Closed` is for programs that do not read from a connection and still
//! want to know that it ended, and why. The queue can not overflow: each connection and each
//! *tripwire* is in it at most once. Behind it is the *doorbell*: one bit for each source of
//! events, which peers set and the owner clears.
//!
//! Room to send is reported in the same way: after a `try_send` that returned `false`,
//! [`Event::Ready`] comes when another try may succeed.
//!
//! ```
//! # use barewire::{Connection, Node};
//! # use std::{thread, time::Duration};
//! # fn pair(name: &str) -> barewire::Result<[(Node, Connection); 2]> {
//! #     let name = format!("tour-{name}-{}", std::process::id());
//! #     let (server, client) = (Node::new()?, Node::new()?);
//! #     let _listener = server.listen(&name)?;
//! #     let opening = thread::spawn(move || client.connect(&name).map(|c| (client, c)));
//! #     let accepted = server.next_request(None)?.accept()?;
//! #     Ok([(server, accepted), opening.join().unwrap()?])
//! # }
//! use barewire::{Error, Event};
//!
//! # fn main() -> barewire::Result<()> {
//! # let [(node, mut connection), (_b, mut to_a)] = pair("closed")?;
//! # to_a.send(b"goodbye")?;
//! # drop(to_a);
//! let (ended, reason) = loop {
//!     match node.next_event(Duration::from_secs(5))? {
//!         Some(Event::Closed { connection, reason }) => break (connection, reason),
//!         Some(_) => {}
//!         None => panic!("not within five seconds"),
//!     }
//! };
//! assert_eq!(ended, connection.id());
//! match &reason {
//!     Error::PeerGone => println!("closed in an orderly way"),
//!     Error::PeerDied { pid } => println!("process {pid} died"),
//!     Error::PeerMisbehaved(how) => println!("broke the protocol: {how}"),
//!     other => println!("{other}"),
//! }
//! # assert_eq!(reason, Error::PeerGone);
//! // What was sent before the end is still there to be received.
//! assert_eq!(connection.receiver().recv_message()?.into_vec(), b"goodbye");
//! assert_eq!(connection.recv(&mut [0; 8]), Err(Error::Finished));
//! # Ok(())
//! # }
//! ```
//!
//! # Waiting in your own loop
//!
//! A [`Node`] has a descriptor ([`AsFd`](std::os::fd::AsFd)) for `select`, `poll`, `epoll`
//! and what is built on them. There is one rule: poll until nothing is there, then wait. A
//! [`Node::poll`] that returns 0 arms the descriptor: the next event makes it readable.
//!
//! ```
//! use barewire::{Event, Node};
//! use rustix::event::{PollFd, PollFlags, poll};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let name = format!("tour-loop-{}", std::process::id());
//! let node = Node::new()?;
//! let _listener = node.listen(&name)?;
//! # let client = std::thread::spawn(move || Node::new()?.connect(&name).map(drop));
//! let mut events = Vec::new();
//! 'outer: loop {
//!     while node.poll(&mut events, 64)? > 0 {
//!         for event in events.drain(..) {
//!             if let Event::Request(request) = event {
//!                 request.accept()?;
//!                 break 'outer;
//!             }
//!         }
//!     }
//!     let mut fds = [PollFd::new(&node, PollFlags::IN) /* and others */];
//!     poll(&mut fds, None)?;
//! }
//! # client.join().unwrap()?;
//! # Ok(())
//! # }
//! ```
//!
//! In such a loop use the calls that do not wait (`examples/own_loop.rs`, with a timer beside
//! the node).
//!
//! # Async code
//!
//! With the cargo feature `tokio` there is the module `barewire::tokio`: an `AsyncNode` whose
//! connections are `Stream` and `Sink` of messages, or `AsyncRead` and `AsyncWrite`. Futures
//! may be dropped at any moment without a loss. `examples/async.rs` is a server with many
//! clients. (By hand, and for other runtimes: the node's descriptor, as in
//! `examples/tokio.rs`.)
//!
//! ```
//! # #[cfg(feature = "tokio")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use barewire::Node;
//! use barewire::tokio::AsyncNode;
//! use futures_util::{SinkExt, StreamExt};
//!
//! # let name = format!("tour-async-{}", std::process::id());
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let server = AsyncNode::new(Node::new()?)?;
//! let _listener = server.listen(&name)?;
//! tokio::spawn(async move {
//!     let connection = server.accept(server.next_request().await?)?;
//!     let (answers, requests) = connection.split();
//!     requests.forward(answers).await // sends back what comes, until the client finishes
//! });
//!
//! let client = AsyncNode::new(Node::new()?)?;
//! let mut connection = client.connect(&name).await?;
//! SinkExt::send(&mut connection, b"hello").await?;
//! assert_eq!(connection.next().await, Some(Ok(b"hello".to_vec())));
//! connection.finish().await?;
//! assert_eq!(connection.next().await, None);
//! # Ok(())
//! # })
//! # }
//! # #[cfg(not(feature = "tokio"))]
//! # fn main() {}
//! ```
//!
//! # Apertures and tripwires
//!
//! An *aperture* is memory of one process that a peer may store into or load from, with
//! stated [`Rights`]. The owner exports it and grants it on a connection; the peer imports
//! it. Both use it through [`Memory`]: [`put`](Memory::put) and [`get`](Memory::get) at any
//! offset, and atomic words at multiples of 8. The owner runs no code for it.
//!
//! A *tripwire* is a trap on a range of an aperture. When a transfer touches the range, its
//! [`Action`] happens: an event in the queue, a count, or a wake-up. The owner sets tripwires on
//! the stores of its peers ([`Aperture::tripwire`]). An importer sets them on the stores of the
//! owner ([`RemoteAperture::tripwire_on_owner`]), or on its own
//! ([`RemoteAperture::tripwire`]). These three kinds are independent of each other.
//!
//! ```
//! # use barewire::{Connection, Node};
//! # use std::{thread, time::Duration};
//! # fn pair(name: &str) -> barewire::Result<[(Node, Connection); 2]> {
//! #     let name = format!("tour-{name}-{}", std::process::id());
//! #     let (server, client) = (Node::new()?, Node::new()?);
//! #     let _listener = server.listen(&name)?;
//! #     let opening = thread::spawn(move || client.connect(&name).map(|c| (client, c)));
//! #     let accepted = server.next_request(None)?.accept()?;
//! #     Ok([(server, accepted), opening.join().unwrap()?])
//! # }
//! use barewire::{AccessError, Action, ApertureConfig, Event, Memory, Mode, Rights};
//!
//! # fn main() -> barewire::Result<()> {
//! # let [(alice, to_bob), (_bob, to_alice)] = pair("apertures")?;
//! // Alice exports a page and sets a trap on its second line.
//! let page = alice.export(ApertureConfig::new(4096, Rights::ReadWrite))?;
//! to_bob.grant(&page, 42)?; // 42: what Bob gets to know it by
//! let enqueue = Action::Enqueue { cookie: 7 };
//! let trap = page.tripwire(64, 64, Mode::OneShot, enqueue)?;
//!
//! // Bob stores into it.
//! let (number, far) = to_alice.import(Some(Duration::from_secs(5)))?;
//! assert_eq!((number, far.len_bytes()), (42, 4096));
//! far.put(0, b"nobody looks here")?;
//! far.put(100, b"but here")?;
//!
//! // Alice is told.
//! let event = alice.next_event(Some(Duration::from_secs(5)))?;
//! let Some(Event::Tripwire { cookie: 7, aperture }) = event else {
//!     panic!("{event:?}");
//! };
//! assert_eq!(aperture, page.id());
//! let mut text = [0; 8];
//! page.get(100, &mut text)?;
//! assert_eq!(&text, b"but here");
//! assert!(!trap.is_armed()); // a one-shot
//!
//! // And takes it away again. Her contents stay; Bob's stores no longer reach them.
//! page.revoke()?;
//! assert_eq!(far.put(0, b"too late"), Err(AccessError::Revoked));
//! # Ok(())
//! # }
//! ```
//!
//! When a tripwire reports a put, all bytes of that put are there. The order of two puts is not
//! promised: to mark data as complete, [`store`](Memory::store) a word after it. Whoever sees
//! the word sees what was put before.
//!
//! Values of plain data, and arrays of them, are loaded and stored with [`Typed`]: types of
//! your own by the derives of [`bytemuck`], with bounds and alignment checked.
//!
//! ```
//! # fn main() -> barewire::Result<()> {
//! # let node = barewire::Node::new()?;
//! use barewire::{ApertureConfig, Rights, Typed};
//!
//! let page = node.export(ApertureConfig::new(4096, Rights::Read))?;
//! page.store_value(16, &21.5_f64)?;
//! let prices = page.array::<[f32; 4]>(64, 10)?;
//! prices.set(3, &[1.0, 2.0, 0.5, 0.25])?;
//! assert_eq!(prices.get(3)?[2], 0.5);
//! assert!(page.load_value::<f64>(20).is_err()); // not a multiple of 8
//! # Ok(())
//! # }
//! ```
//!
//! # A table with readers who wait
//!
//! One process keeps a table; others read it and sleep until it changes. The owner only
//! stores: it sends nothing, and need not poll its node. A reader sets a tripwire on the
//! owner's stores, then reads the table, and waits if nothing has changed. In this order no
//! change is missed: a store that comes after the read ends the wait.
//! `examples/shared_table.rs` does this with five processes.
//!
//! ```
//! # use barewire::{Connection, Node};
//! # use std::{thread, time::Duration};
//! # fn pair(name: &str) -> barewire::Result<[(Node, Connection); 2]> {
//! #     let name = format!("tour-{name}-{}", std::process::id());
//! #     let (server, client) = (Node::new()?, Node::new()?);
//! #     let _listener = server.listen(&name)?;
//! #     let opening = thread::spawn(move || client.connect(&name).map(|c| (client, c)));
//! #     let accepted = server.next_request(None)?.accept()?;
//! #     Ok([(server, accepted), opening.join().unwrap()?])
//! # }
//! use barewire::{Action, ApertureConfig, Memory, Mode, Rights};
//!
//! # fn main() -> barewire::Result<()> {
//! # let [(owner, to_reader), (reader, to_owner)] = pair("table")?;
//! // The sum of the numbers up to the version: the version at 0, the sum at 8.
//! let table = owner.export(ApertureConfig::new(4096, Rights::Read))?;
//! to_reader.grant(&table, 0)?;
//! let (_, far) = to_owner.import(Some(Duration::from_secs(5)))?;
//!
//! let reading = thread::spawn(move || -> barewire::Result<u64> {
//!     let _changes = far.tripwire_on_owner(0, 8, Mode::Sticky, Action::Wake)?;
//!     let (mut seen, mut events) = (0, Vec::new());
//!     loop {
//!         let version = far.load(0)?; // an error once the owner has gone
//!         if version == 100 {
//!             return Ok(far.load(8)?); // stored before the version
//!         }
//!         if version == seen {
//!             reader.wait(&mut events, 16, None)?; // its end ends the wait, too
//!             events.clear();
//!         }
//!         seen = version;
//!     }
//! });
//! for version in 1..=100 {
//!     table.add(8, version)?;
//!     table.store(0, version)?;
//! }
//! assert_eq!(reading.join().unwrap()?, 5050);
//! # Ok(())
//! # }
//! ```
//!
//! As long as no importer has set such a tripwire on an aperture, each store of its owner costs
//! two more loads. Afterwards it costs a lock within the owner's process and one load for each
//! importer. Waking an importer that sleeps costs a system call.
//!
//! **Rows of more than 8 bytes.** Only a word is loaded whole. Give each row a version that is odd while the
//! row is being changed, and load and store the row word by word: all processes see the stores of
//! words in one order. The owner adds 1 to the version, stores the words, adds 1 again, and then adds
//! 1 to a word on which the tripwires lie: one on the version would wake readers in the middle of a
//! change. A reader loads the version, the words, and the version again. If both are the same and
//! even, the row is whole; else it reads again. If the owner dies in between, the next load returns an
//! error. `put`, `get` and typed values of more than a word are copies without a promised order: do
//! not use them for the words of a row. `examples/shared_table.rs` does all this.
//!
//! # A remote counter
//!
//! Words of an aperture are atomic for all processes that hold it, including the owner: they
//! add to them and exchange them as in their own memory. `examples/remote_counter.rs`
//! does this with four processes.
//!
//! ```
//! # use barewire::{Connection, Node};
//! # use std::{thread, time::Duration};
//! # fn pair(name: &str) -> barewire::Result<[(Node, Connection); 2]> {
//! #     let name = format!("tour-{name}-{}", std::process::id());
//! #     let (server, client) = (Node::new()?, Node::new()?);
//! #     let _listener = server.listen(&name)?;
//! #     let opening = thread::spawn(move || client.connect(&name).map(|c| (client, c)));
//! #     let accepted = server.next_request(None)?.accept()?;
//! #     Ok([(server, accepted), opening.join().unwrap()?])
//! # }
//! use barewire::{Action, ApertureConfig, Memory, Mode, Rights};
//!
//! # fn main() -> barewire::Result<()> {
//! # let [(owner, to_peer), (_peer, to_owner)] = pair("counter")?;
//! let counter = owner.export(ApertureConfig::new(8, Rights::ReadWrite))?;
//! to_peer.grant(&counter, 0)?;
//! let touched = counter.tripwire(0, 8, Mode::Sticky, Action::Count)?;
//!
//! let (_, far) = to_owner.import(Some(Duration::from_secs(5)))?;
//! thread::scope(|scope| {
//!     scope.spawn(|| (0..1000).try_for_each(|_| far.add(0, 1).map(drop)));
//!     scope.spawn(|| (0..1000).try_for_each(|_| counter.add(0, 1).map(drop)));
//! });
//! assert_eq!(counter.load(0)?, 2000);
//! assert_eq!(touched.count(), 1000); // what the peer added: not the owner's own
//!
//! // A lock that whoever holds 1 has: taken if it was 0.
//! assert_eq!(far.compare_exchange(0, 2000, 1)?, Ok(2000));
//! assert_eq!(far.compare_exchange(0, 2000, 1)?, Err(1));
//! # Ok(())
//! # }
//! ```
//!
//! # Bulk transfers
//!
//! [`RemoteAperture::bulk_put`] and [`RemoteAperture::bulk_get`] copy in a thread of the
//! node, while yours goes on. They take the buffer, and give it back with an
//! [`Event::Completion`] at the end. They are worth it from some hundred KiB on.
//!
//! ```
//! # use barewire::{Connection, Node};
//! # use std::{thread, time::Duration};
//! # fn pair(name: &str) -> barewire::Result<[(Node, Connection); 2]> {
//! #     let name = format!("tour-{name}-{}", std::process::id());
//! #     let (server, client) = (Node::new()?, Node::new()?);
//! #     let _listener = server.listen(&name)?;
//! #     let opening = thread::spawn(move || client.connect(&name).map(|c| (client, c)));
//! #     let accepted = server.next_request(None)?.accept()?;
//! #     Ok([(server, accepted), opening.join().unwrap()?])
//! # }
//! use barewire::{ApertureConfig, Event, Memory, Rights};
//!
//! # fn main() -> barewire::Result<()> {
//! # let [(alice, to_bob), (bob, to_alice)] = pair("bulk")?;
//! let store = alice.export(ApertureConfig::new(1 << 20, Rights::ReadWrite))?;
//! to_bob.grant(&store, 0)?;
//! let (_, far) = to_alice.import(Some(Duration::from_secs(5)))?;
//!
//! far.bulk_put(0, vec![3; 1 << 20], 99)?;
//! let buffer = loop {
//!     match bob.next_event(Some(Duration::from_secs(5)))? {
//!         Some(Event::Completion { cookie: 99, result }) => break result?,
//!         Some(_) => {} // readiness of the new connection, for instance
//!         None => panic!("not within five seconds"),
//!     }
//! };
//! assert_eq!(buffer.len(), 1 << 20); // to be used again
//! assert_eq!(store.load(0)?, 0x0303_0303_0303_0303);
//! # Ok(())
//! # }
//! ```
//!
//! # Out of band
//!
//! [`Connection::send_out_of_band`] overtakes what is queued: a short message (4 KiB) that
//! arrives as an [`Event::OutOfBand`], through the kernel, even when the ring is full. It is
//! for control ("stop", "are you there?"), not for data.
//!
//! ```
//! # use barewire::{Connection, Event, Node};
//! # use std::{thread, time::Duration};
//! # fn pair(name: &str) -> barewire::Result<[(Node, Connection); 2]> {
//! #     let name = format!("tour-{name}-{}", std::process::id());
//! #     let (server, client) = (Node::new()?, Node::new()?);
//! #     let _listener = server.listen(&name)?;
//! #     let opening = thread::spawn(move || client.connect(&name).map(|c| (client, c)));
//! #     let accepted = server.next_request(None)?.accept()?;
//! #     Ok([(server, accepted), opening.join().unwrap()?])
//! # }
//! # fn main() -> barewire::Result<()> {
//! # let [(_a, mut alice), (bob, _to_alice)] = pair("oob")?;
//! while alice.try_send(b"work")? {} // until it is full
//! assert!(alice.send_out_of_band(b"stop")?);
//! loop {
//!     match bob.next_event(Some(Duration::from_secs(5)))? {
//!         Some(Event::OutOfBand { data, .. }) => break assert_eq!(data, b"stop"),
//!         Some(_) => {}
//!         None => panic!("not within five seconds"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Errors, and whose fault they are
//!
//! Every call returns an [`Error`] that says what was wrong and, where it can, what to do.
//! [`Error::fault`] says whose fault it is: the caller's (mend the call), the peer's (let the
//! connection go), or the system's (a limit, memory, the kernel).
//!
//! ```
//! use barewire::{ConnectOptions, Error, Fault, Node};
//!
//! # fn main() -> barewire::Result<()> {
//! let node = Node::new()?;
//! let options = ConnectOptions { wait_for_name: false, ..ConnectOptions::default() };
//! let error = node.connect_with("tour-nobody-has-this", &options).unwrap_err();
//! assert!(matches!(error, Error::NoSuchName { .. }));
//! assert_eq!(error.fault(), Fault::Peer);
//!
//! let error = node.listen("").unwrap_err();
//! assert!(matches!(error, Error::BadName { .. }));
//! assert_eq!(error.fault(), Fault::Caller);
//! # Ok(())
//! # }
//! ```
//!
//! | error while receiving | means |
//! |---|---|
//! | [`Error::Finished`] | the peer has finished, and everything it sent has been received |
//! | [`Error::PeerGone`] | its node has gone in an orderly way |
//! | [`Error::PeerDied`] | its process died, or turned into another program |
//! | [`Error::PeerMisbehaved`] | it broke the protocol, and how; the connection is closed |
//!
//! What the peer sent before one of these is received first. A peer that breaks the protocol
//! loses its own connections with you, and nothing else. A panic is a bug: in this crate, or in
//! a caller that broke the conditions under `# Panics`.
//!
//! # Threads
//!
//! ```
//! use barewire::{Aperture, Connection, Node, Receiver, RemoteAperture, Sender, SharedSender, Stream};
//!
//! fn is_send<T: Send>() {}
//! fn is_sync<T: Sync>() {}
//! is_send::<Connection>();
//! is_send::<Stream>();
//! is_send::<Sender>();
//! is_send::<Receiver>();
//! is_sync::<Node>();
//! is_sync::<SharedSender>();
//! is_sync::<Aperture>();
//! is_sync::<RemoteAperture>();
//! ```
//!
//! - A [`Connection`] or [`Stream`] may move to another thread than its node's, but one
//!   thread at a time uses it. `split` gives halves for two threads.
//! - [`Sender::share`] gives a sender for many threads: many producers, one receiver.
//! - A [`Node`] is cheap to clone. Several threads may wait on it; each event goes to one.
//! - Apertures may be used by all threads at once.
//! - One thread per node, with its own connections, scales best: nodes share nothing.
//! - After `fork` the child can use nothing that its parent made: [`Error::Forked`]. It has to
//!   make a node of its own. The parent is not affected.
//!
//! # Life and death
//!
//! - Dropping a [`Connection`] closes it. What was sent before stays receivable.
//! - [`Connection::finish`] closes one direction, for instance at the end of a request.
//! - A [`Node`] lives until its last handle, connection, listener and aperture is dropped,
//!   imported ones too.
//! - When a process dies, for whatever reason, its peers get events at once: `Ready`, then
//!   [`Event::Closed`] with [`Error::PeerDied`]. What it had sent can still be received,
//!   because it lies in the receiver's memory. Everything that it held is released.
//! - Every access to one of its apertures returns [`AccessError::PeerGone`] as soon as the kernel
//!   knows of the death, even if you never poll your node: while you hold an imported aperture,
//!   a thread of your process watches for the death of its owner. That thread sleeps, and does
//!   not make an access slower. An out-of-band message or a grant to a dead process gives
//!   [`Error::PeerDied`].
//! - A program that neither waits nor polls nor holds an aperture learns of a death after at
//!   most 256 [`try_recv`](Connection::try_recv) or [`try_send`](Connection::try_send) calls
//!   that found nothing or no room. Wait or poll from time to time.
//! - Nothing has to be cleaned up after a crash. There are no files, no daemon, no locks: a
//!   name is free again when its holder is gone.
//! - A program that waits first spins, for at most as long as two wake-ups take, and less while
//!   that does not pay, and then sleeps. [`NodeConfig::spin`] changes that ([`Spin`]).
//!
//! # Limits and memory
//!
//! | what | default | most |
//! |---|---|---|
//! | receive ring of a connection, a power of two | 4 KiB | 256 MiB |
//! | message | 16 MiB | 2 GiB |
//! | message with `try_send` ([`Sender::try_send_bytes_max`]) | half the receiver's ring, less 128 bytes: 1920 bytes | |
//! | message built in place, with `reserve` or `send_with` ([`Sender::reserve_bytes_max`]) | a quarter of the receiver's ring, less 64 bytes: 960 bytes | |
//! | name | | 80 bytes |
//! | data with a request; out-of-band message | | 4 KiB |
//! | connections of a node | 131 072 | 200 000 |
//! | connections and tripwires of a node | | 262 144 |
//! | aperture | | 64 GiB |
//! | tripwires of an aperture, by its owner | 1024 | 1 048 576 |
//! | tripwires of an importer on one aperture: on its own transfers | | 1024 |
//! | the same, on what the owner stores (16 if the owner is of another user) | | 1024 |
//! | apertures that one peer has granted us | 1024 | |
//! | nodes of another user linked to a node | 128 | |
//! | bulk transfers under way | 64 | |
//!
//! The memory of a connection is its ring and one line, at each end; pages are taken as they
//! are used. A message that came in pieces is put together in private memory, unless `recv` or
//! its kin take it into their buffer while it comes. All
//! connections between two nodes share one link: one socket, a few mappings, a handful of
//! descriptors. A call that would exceed a limit fails with [`Error::LimitReached`] or
//! [`Error::OutOfLimits`].
//!
//! The kernel chooses where the memory of a node lies (the rings that it receives from, the
//! apertures that it exports), unless you set this when you make the node:
//!
//! | you want | setting | what it takes |
//! |---|---|---|
//! | memory that is never swapped out | [`NodeConfig::lock_memory`] | `RLIMIT_MEMLOCK` for all of it; each segment of a link is taken at once |
//! | memory near the processors of a NUMA node | [`NodeConfig::numa_node`] | memory of that node, or of others when it has none left |
//! | fewer TLB misses, with large rings and apertures | [`NodeConfig::huge_pages`] | whole huge pages, at once: 2 MiB or more for each link |
//!
//! ```
//! use barewire::{HugePages, Node, NodeConfig};
//!
//! # fn main() -> barewire::Result<()> {
//! let node = Node::with_config(NodeConfig {
//!     ring_bytes: 1 << 20,
//!     huge_pages: HugePages::Try, // `Require`: or an error that says what is missing
//!     ..NodeConfig::default()
//! })?;
//! # drop(node);
//! # Ok(())
//! # }
//! ```
//!
//! This also holds for memory that a peer touches first. Peers need not know of it, and may place
//! their own memory differently: each side receives in its own.
//!
//! # Inspecting and changing a live node
//!
//! You can inspect a node while its program runs, and change some of its settings.
//!
//! | you want | command |
//! |---|---|
//! | all nodes and what they do | `barewire ls`, `barewire stat PID` |
//! | what waits in a queue, header by header, also of a process that hangs | `barewire dump PID` |
//! | other limits, or another time to spin | `barewire set PID KEY=VALUE`, [`Node::set`] |
//!
//! [`Node::settings`] lists what can be set: how long to spin, limits and budgets, sizes for
//! connections that begin afterwards, and whether a capture goes on. A node answers a request
//! from outside when it is polled or waits. Only its own user and root may make one. A change
//! does not affect memory that the node has made already.
//!
//! ```
//! use barewire::Node;
//!
//! # fn main() -> barewire::Result<()> {
//! let node = Node::new()?;
//! node.set(&[("spin", "20us"), ("backlog_max", "64")])?; // both, or none
//! let error = node.set(&[("colour", "red")]).unwrap_err();
//! assert!(error.to_string().contains("these can be set: spin, "));
//! # Ok(())
//! # }
//! ```
//!
//! # Other hosts
//!
//! A node that [`Node::listen_on`] gives a port is reached from other hosts, under all its names, as `host:port/name`, or as
//! `certificate@host:port/name` by who wants that host and no other.
//! Connections between hosts are used as all others; [`Connection::remote`] says who is there. Both nodes must be
//! told how to make sure of each other ([`HostsConfig`]); by default no link to another host is made. `docs/hosts.md` in the
//! repository says how to run programs on several hosts.
//!
//! ```
//! use barewire::{HostsConfig, Node, NodeConfig, Security};
//! use std::thread;
//!
//! # fn main() -> barewire::Result<()> {
//! let node = || Node::with_config(NodeConfig {
//!     hosts: HostsConfig {
//!         security: Security::Insecure, // between hosts: Security::Keys
//!         shortcut: false, // or the two would meet in shared memory
//!         ..HostsConfig::default()
//!     },
//!     ..NodeConfig::default()
//! });
//! let server = node()?;
//! let listener = server.listen(&format!("tour-hosts-{}", std::process::id()))?;
//! let port = server.listen_on("127.0.0.1:0")?;
//! let name = format!("{}/{}", port.address(), listener.name());
//! let client = node()?;
//! let calling = thread::spawn(move || client.connect(&name)?.send(b"hello"));
//! let mut connection = server.next_request(None)?.accept()?;
//! let mut buffer = [0; 8];
//! assert_eq!(connection.recv(&mut buffer)?, 5);
//! assert!(connection.remote().is_some());
//! # calling.join().unwrap()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Security
//!
//! The boundary is the *trust domain*, a user id. Within one, the network defends against
//! accidents; between two, against malice. By default only processes of your own user may
//! connect. [`Policy`] lets others in; [`Connection::peer`] says who is at the other end, as
//! the kernel knows it, not as the peer claims.
//!
//! ```
//! use barewire::{ListenOptions, Node, Policy};
//!
//! # fn main() -> barewire::Result<()> {
//! let node = Node::new()?;
//! let options = ListenOptions { policy: Policy::same_user().and_user(1000).and_group(100) };
//! let _listener = node.listen_with(&format!("tour-open-{}", std::process::id()), options)?;
//! # Ok(())
//! # }
//! ```
//!
//! To connect to a name of another user, state that user ([`ConnectOptions::owner`]). If
//! somebody else holds the name, the call fails with [`Error::WrongOwner`], before a byte is
//! shared. `docs/security.md` in the repository says for each mechanism what a peer can do and
//! what it can not.
// tidy: long file: a guided tour, whose code is compiled and run

// A file imports only from its own layer and those above it in this list, lowest first.
//
// ```layers
// error: what can go wrong, and whose fault it is
// log: the log of this process's nodes, if there is one
// config: settings of nodes, listeners and connections, with their limits
// messages: what two processes say to each other over a link's control socket
// links: one link to a peer: doorbells, receive memory, budget, what a connection shares
// apertures: exported and imported memory and its tripwires, without a node
// remote: what plays the part of a node on another host
// tables: what a node knows, under its one lock
// node: what all handles of a node share: the lock, waiting, live settings
// handles: the public face
// fuzzing: what fuzz targets need of what is private
// tokio: the public face in async code
// ```

#![forbid(unsafe_code)]

mod apertures;
pub mod config;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod handles;
mod links;
mod log;
mod messages;
mod node;
mod remote;
mod tables;
#[cfg(feature = "tokio")]
pub mod tokio;

pub use apertures::layout::{ApertureConfig, ApertureId};
pub use barewire_carrier::{How, PeerIdentity};
pub use barewire_fabric::aperture::{AccessError, Action, Memory, Mode, Rights};
pub use barewire_fabric::{SendProgress, Violation};
pub use bytemuck;
pub use config::{
    Budget, ConnectOptions, HostsConfig, HugePages, ListenOptions, NodeConfig, Policy, Security,
    Spin, Transport,
};
pub use error::{Credentials, Error, Fault, Lost, Misconduct, Result};
pub use handles::aperture::Aperture;
pub use handles::connection::Connection;
pub use handles::event::Event;
pub use handles::id::ConnectionId;
pub use handles::listener::Listener;
pub use handles::node::Node;
pub use handles::port::Port;
pub use handles::receiver::{Message, Receiver};
pub use handles::remote::RemoteAperture;
pub use handles::request::Request;
pub use handles::sender::{Reservation, Sender, SharedSender};
pub use handles::stream::{Stream, StreamReader, StreamWriter};
pub use handles::tripwire::Tripwire;
pub use handles::typed::{Array, Typed};
pub use links::cork::Cork;
pub use links::driven::RemotePeer;
pub use node::settings;

/// The code in the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

/// The code in the book's chapter on several hosts, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/hosts.md")]
mod hosts {}

/// The code in the book's chapter on programs, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/programming.md")]
mod book {}
