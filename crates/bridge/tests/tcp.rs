//! TCP and UDP in a program, through a bridge, with kernels at the other end.

mod common;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use barewire::Node;
use barewire_edge::{
    Edge, EdgeError, EdgeNode, EdgeSocket, EdgeStream, LeaseOptions, StreamOptions,
};
use barewire_tcp::State;
use common::*;

const ALL: [Kind; 3] = [Kind::Tap, Kind::Interface, Kind::Xdp];

fn listener(place: &Place, is_v6: bool) -> TcpListener {
    let at = (place.peer_address(is_v6), 0);
    place.peer.run(|| TcpListener::bind(at)).unwrap()
}

/// Sends back what comes, to the end.
fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(LONG))?;
    let mut buffer = vec![0; 65_536];
    loop {
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            return stream.shutdown(Shutdown::Write);
        }
        stream.write_all(&buffer[..len])?;
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 / 3) as u8).collect()
}

/// Sends bytes and gets them back, and then the end.
fn exchange(mut stream: EdgeStream, len: usize) {
    let sent = bytes(len);
    let (mut at, mut back) = (0, Vec::new());
    let mut buffer = vec![0; 65_536];
    while back.len() < len {
        if at < len {
            at += stream.try_write(&sent[at..]).unwrap();
        }
        let len = stream.read(&mut buffer).unwrap();
        assert!(len > 0, "it ends after {} bytes", back.len());
        back.extend_from_slice(&buffer[..len]);
    }
    assert!(back == sent, "other bytes came back");
    stream.shutdown().unwrap();
    assert_eq!(stream.read(&mut buffer).unwrap(), 0);
    stream.finish(LONG).unwrap();
}

#[test]
fn streams_go_to_a_kernel_and_back() {
    everywhere("streams_go_to_a_kernel_and_back", &ALL, |place| {
        for offload in [false, true] {
            let bridge = Running::start(place, place.config(offload)).unwrap();
            for is_v6 in [false, true] {
                let kernel = listener(place, is_v6);
                let at = kernel.local_addr().unwrap();
                let server = std::thread::spawn(move || echo(kernel.accept()?.0));
                let node = Node::new().unwrap();
                let stream = node.tcp_connect(&at.to_string()).unwrap();
                exchange(stream, 2_000_000);
                server.join().unwrap().unwrap();
            }
            let counters = bridge.stop().counters;
            assert_eq!((counters.client_malformed, counters.resets_sent), (0, 0));
        }
    });
}

#[test]
fn many_streams_share_a_node() {
    const STREAMS: usize = 30;
    const LEN: usize = 40_000;
    everywhere("many_streams_share_a_node", &[Kind::Tap], |place| {
        let bridge = Running::start(place, place.config(true)).unwrap();
        let kernel = listener(place, false);
        let at = kernel.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let all: Vec<_> = (0..STREAMS)
                .map(|_| {
                    let stream = kernel.accept().unwrap().0;
                    std::thread::spawn(move || echo(stream))
                })
                .collect();
            for one in all {
                one.join().unwrap().unwrap();
            }
        });
        let node = Node::new().unwrap();
        let mut edge = Edge::new(&node);
        for _ in 0..STREAMS {
            edge.start_connect(at, &StreamOptions::default()).unwrap();
        }
        let sent = bytes(LEN);
        let mut progress = std::collections::HashMap::new();
        let from = Instant::now();
        while !edge.is_empty() {
            assert!(from.elapsed() < LONG, "{progress:?}");
            for id in edge.wait(Some(LONG)).unwrap() {
                let Some(stream) = edge.stream(id) else {
                    continue;
                };
                let (out, back) = progress.entry(id).or_insert((0, 0));
                *out += stream.try_write(&sent[*out..]).unwrap();
                let mut buffer = vec![0; 65_536];
                while let Some(len @ 1..) = stream.try_read(&mut buffer).unwrap() {
                    assert!(buffer[..len] == sent[*back..*back + len]);
                    *back += len;
                }
                if *back == LEN {
                    edge.remove(id).unwrap().finish(LONG).unwrap();
                }
            }
        }
        server.join().unwrap();
        bridge.stop();
    });
}

#[test]
fn a_port_where_nobody_listens_refuses() {
    everywhere("a_port_where_nobody_listens_refuses", &ALL, |place| {
        let bridge = Running::start(place, place.config(true)).unwrap();
        let node = Node::new().unwrap();
        let at = SocketAddr::new(place.peer_address(false), 81);
        let error = node
            .tcp_connect(&at.to_string())
            .expect_err("nobody listens");
        assert_eq!(error, EdgeError::Transport(barewire_tcp::Error::Refused));
        bridge.stop();
    });
}

#[test]
fn a_kernel_that_resets_is_heard() {
    everywhere("a_kernel_that_resets_is_heard", &[Kind::Tap], |place| {
        let bridge = Running::start(place, place.config(true)).unwrap();
        let kernel = listener(place, false);
        let at = kernel.local_addr().unwrap();
        let node = Node::new().unwrap();
        let mut stream = node.tcp_connect(&at.to_string()).unwrap();
        stream.write_all(&[1; 1000]).unwrap();
        let (mut peer, _) = kernel.accept().unwrap();
        peer.read_exact(&mut [0]).unwrap();
        // It has bytes that nobody has read.
        drop(peer);
        let error = stream.read(&mut [0; 10]).expect_err("a reset");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(stream.state(), State::Closed);
        bridge.stop();
    });
}

#[test]
fn a_bridge_that_goes_ends_its_streams() {
    everywhere(
        "a_bridge_that_goes_ends_its_streams",
        &[Kind::Tap],
        |place| {
            let bridge = Running::start(place, place.config(true)).unwrap();
            let kernel = listener(place, false);
            let at = kernel.local_addr().unwrap();
            let node = Node::new().unwrap();
            let mut stream = node.tcp_connect(&at.to_string()).unwrap();
            bridge.stop();
            let error = stream.read(&mut [0; 10]).expect_err("the bridge is gone");
            assert!(error.to_string().contains("the bridge is gone"), "{error}");
        },
    );
}

#[test]
fn a_stream_that_is_dropped_resets_its_peer() {
    everywhere("a_stream_that_is_dropped_resets_its_peer", &ALL, |place| {
        let bridge = Running::start(place, place.config(true)).unwrap();
        let kernel = listener(place, false);
        let at = kernel.local_addr().unwrap();
        let node = Node::new().unwrap();
        let stream = node.tcp_connect(&at.to_string()).unwrap();
        let (mut peer, _) = kernel.accept().unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        drop(stream);
        let error = peer.read(&mut [0]).expect_err("a reset");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        bridge.stop();
    });
}

/// A process that is killed with the test.
struct Process(std::process::Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A page by HTTP/1.0, without its header.
fn get(node: &Node, at: SocketAddr, path: &str) -> Result<Vec<u8>, EdgeError> {
    let mut stream = node.tcp_connect(&at.to_string())?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{path}");
    let mut lines = answer.windows(4);
    let header = lines.position(|four| four == b"\r\n\r\n").unwrap();
    Ok(answer.split_off(header + 4))
}

#[test]
fn pages_come_from_nginx() {
    let test = "pages_come_from_nginx";
    if std::process::Command::new("nginx")
        .arg("-v")
        .output()
        .is_err()
    {
        return skip(test, "no nginx");
    }
    everywhere(test, &ALL, |place| {
        let folder = std::env::temp_dir().join(format!("bw-nginx-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let page = bytes(3_000_000);
        std::fs::write(folder.join("page"), &page).unwrap();
        let at = SocketAddr::new(place.peer_address(false), 8088);
        let root = folder.display();
        let config = format!(
            "daemon off; master_process off; pid {root}/pid; error_log stderr;\n\
             events {{}}\nhttp {{ access_log off; client_body_temp_path {root}/body;\n\
             server {{ listen {at}; root {root}; }} }}\n"
        );
        std::fs::write(folder.join("nginx.conf"), config).unwrap();
        let nginx = place.peer.run(|| {
            let mut command = std::process::Command::new("nginx");
            command.arg("-c").arg(folder.join("nginx.conf"));
            command.stderr(std::process::Stdio::null()).spawn()
        });
        let _nginx = Process(nginx.unwrap());
        let bridge = Running::start(place, place.config(true)).unwrap();
        let node = Node::new().unwrap();
        let from = Instant::now();
        let first = loop {
            match get(&node, at, "/page") {
                Ok(page) => break page,
                // It does not listen yet.
                Err(error) => assert!(from.elapsed() < LONG, "{error}"),
            }
        };
        assert!(first == page, "another page came");
        for _ in 0..3 {
            assert!(get(&node, at, "/page").unwrap() == page);
        }
        bridge.stop();
        std::fs::remove_dir_all(&folder).unwrap();
    });
}

/// A client of the kernel: sends, and gets it back, and then the end.
fn kernel_client(place: &Place, at: SocketAddr, len: usize) {
    let mut stream = place.peer.run(|| TcpStream::connect(at)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let sent = bytes(len);
    let mut writer = stream.try_clone().unwrap();
    let whole = sent.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&whole).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    writing.join().unwrap();
    assert!(back == sent, "other bytes came back");
}

#[test]
fn kernels_connect_to_a_program() {
    const CLIENTS: usize = 8;
    everywhere("kernels_connect_to_a_program", &ALL, |place| {
        let bridge = Running::start(place, place.config(true)).unwrap();
        let node = Node::new().unwrap();
        let mut edge = Edge::new(&node);
        let options = StreamOptions {
            local_port: 8080,
            ..StreamOptions::default()
        };
        for is_v6 in [false, true] {
            // Fewer than there are clients: some have to wait.
            let at = edge.listen(is_v6, 4, &options).unwrap();
            assert_eq!(at.port(), 8080);
            std::thread::scope(|scope| {
                let clients: Vec<_> = (0..CLIENTS)
                    .map(|_| scope.spawn(move || kernel_client(place, at, 100_000)))
                    .collect();
                serve_echo(&mut edge, CLIENTS);
                for client in clients {
                    client.join().unwrap();
                }
            });
        }
        let error = edge.listen(false, 4, &options).expect_err("it is taken");
        assert!(error.to_string().contains("8080"), "{error}");
        bridge.stop();
    });
}

/// Sends back what comes, until so many connections have ended.
fn serve_echo(edge: &mut Edge<'_>, connections: usize) {
    let mut waiting = std::collections::HashMap::new();
    let mut ended = 0;
    let from = Instant::now();
    while ended < connections {
        assert!(from.elapsed() < LONG, "{ended} have ended");
        for id in edge.wait(Some(LONG)).unwrap() {
            let Some(stream) = edge.stream(id) else {
                continue;
            };
            let back: &mut Vec<u8> = waiting.entry(id).or_default();
            let mut buffer = vec![0; 65_536];
            let mut has_ended = false;
            while back.len() < 500_000 {
                match stream.try_read(&mut buffer).unwrap() {
                    Some(0) => {
                        has_ended = true;
                        break;
                    }
                    Some(len) => back.extend_from_slice(&buffer[..len]),
                    None => break,
                }
            }
            let len = stream.try_write(back).unwrap();
            back.drain(..len);
            if has_ended && back.is_empty() {
                edge.remove(id).unwrap().finish(LONG).unwrap();
                ended += 1;
            }
        }
    }
}

#[test]
fn datagrams_go_to_a_kernel_and_back() {
    everywhere("datagrams_go_to_a_kernel_and_back", &ALL, |place| {
        for offload in [false, true] {
            let bridge = Running::start(place, place.config(offload)).unwrap();
            let node = Node::new().unwrap();
            for is_v6 in [false, true] {
                let at = (place.peer_address(is_v6), 0);
                let kernel = place.peer.run(|| UdpSocket::bind(at)).unwrap();
                kernel.set_read_timeout(Some(LONG)).unwrap();
                let to = kernel.local_addr().unwrap();
                let options = LeaseOptions::default();
                let mut one = EdgeSocket::connect(&node, to, &options).unwrap();
                let mut all = EdgeSocket::bind(&node, 5300, is_v6, &options).unwrap();
                let mut buffer = [0; 2000];
                for len in [0, 1, 1000, one.datagram_bytes_max()] {
                    for socket in [&mut one, &mut all] {
                        let sent = bytes(len);
                        assert!(socket.try_send_to(&sent, to).unwrap());
                        let (count, from) = kernel.recv_from(&mut buffer).unwrap();
                        assert_eq!((&buffer[..count], from), (&sent[..], socket.local()));
                        kernel.send_to(&sent, from).unwrap();
                        let back = socket.receive_timeout(LONG).unwrap();
                        assert_eq!(back, Some((to, sent)));
                    }
                }
                assert_eq!(one.try_receive().unwrap(), None);
            }
            bridge.stop();
        }
    });
}
