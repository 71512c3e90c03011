//! Async code on tokio that has nothing to do uses no processor time. Alone in its process,
//! whose time is measured.

#![forbid(unsafe_code)]

mod common;

use std::time::{Duration, Instant};

use ::tokio::io::AsyncReadExt;
use ::tokio::runtime::Builder;
use ::tokio::time::sleep;
use barewire::Node;
use barewire::tokio::{AsyncConnection, AsyncNode};
use barewire_sys::process::cpu_time_self;
use common::*;

async fn pair() -> (AsyncConnection, AsyncConnection) {
    let name = name("async-idle");
    let a = AsyncNode::new(Node::new().unwrap()).unwrap();
    let b = AsyncNode::new(Node::new().unwrap()).unwrap();
    let _listener = a.listen(&name).unwrap();
    let accepting = async { a.accept(a.next_request().await.unwrap()).unwrap() };
    ::tokio::join!(accepting, async { b.connect(&name).await.unwrap() })
}

async fn is_idle(what: &str) {
    // What was under way comes to rest.
    sleep(Duration::from_millis(50)).await;
    let (began, busy) = (Instant::now(), cpu_time_self());
    sleep(Duration::from_millis(300)).await;
    let (waited, used) = (began.elapsed(), cpu_time_self() - busy);
    println!("{what}: {used:?} of {waited:?}");
    assert!(used < waited / 4, "{what}: {used:?} of {waited:?}");
}

async fn idle() {
    let (mut to_b, mut to_a) = pair().await;
    is_idle("nothing is there").await;
    for _ in 0..10 {
        to_b.send(b"abc").await.unwrap();
    }
    assert_eq!(to_a.recv(&mut [0; 8]).await, Ok(3));
    is_idle("messages that nobody takes").await;
    for _ in 0..9 {
        assert_eq!(to_a.recv(&mut [0; 8]).await, Ok(3));
    }
    let receiving = ::tokio::spawn(async move { (to_a.recv(&mut [0; 8]).await, to_a) });
    is_idle("a receiver that waits").await;
    to_b.send(b"abcd").await.unwrap();
    let (received, mut to_a) = receiving.await.unwrap();
    assert_eq!(received, Ok(4));

    let sending = ::tokio::spawn(async move {
        for _ in 0..1000 {
            to_b.send(b"abc").await.unwrap();
        }
        to_b
    });
    is_idle("a sender that waits for room").await;
    assert_eq!(to_a.recv(&mut [0; 8]).await, Ok(3));
    is_idle("a sender that waits for room behind one that was taken").await;
    for _ in 1..1000 {
        assert_eq!(to_a.recv(&mut [0; 8]).await, Ok(3));
    }
    let _to_b = sending.await.unwrap();

    let (mut to_b, to_a) = pair().await;
    let mut stream = to_a.into_stream();
    to_b.send(b"abc").await.unwrap();
    stream.read_exact(&mut [0; 1]).await.unwrap();
    is_idle("bytes that nobody takes").await;
    drop(to_b);
    is_idle("an end that nobody takes").await;
}

#[test]
fn who_waits_uses_no_processor() {
    let _dog = watchdog("idle", Duration::from_secs(60));
    let one = Builder::new_current_thread().enable_all().build();
    one.unwrap().block_on(idle());
    let two = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    two.unwrap().block_on(idle());
}
