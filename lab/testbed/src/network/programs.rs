//! What runs on the hosts: each kind of program does what the experiment of its name does on the
//! workbench, and draws the same random numbers if it is the first of its network.

mod incast;
mod ping;
mod program;
mod request;
mod stream;
mod tcp;

use barewire_units::Rng;

pub(super) use incast::IncastSpec;
pub(super) use ping::PingSpec;
pub(super) use program::{Hands, Program, Tables};
pub(super) use request::RequestSpec;
pub(super) use stream::StreamSpec;
pub(super) use tcp::{ENDS_MAX, TcpRequestSpec, TcpSpec, TcpStreamSpec};

/// What a program is, and where.
#[derive(Clone, Debug)]
pub(super) enum ProgramSpec {
    Ping(PingSpec),
    Stream(StreamSpec),
    Request(RequestSpec),
    Incast(IncastSpec),
    TcpStream(TcpStreamSpec),
    TcpRequest(TcpRequestSpec),
}

impl ProgramSpec {
    pub(super) fn begin(&self, rng: &Rng) -> Box<dyn Program> {
        match self {
            Self::Ping(spec) => Box::new(ping::Ping::new(*spec, rng)),
            Self::Stream(spec) => Box::new(stream::Stream::new(*spec)),
            Self::Request(spec) => Box::new(request::Request::new(spec.clone(), rng)),
            Self::Incast(spec) => Box::new(incast::Incast::new(spec.clone(), rng)),
            Self::TcpStream(spec) => Box::new(tcp::TcpStream::new(spec.clone(), rng)),
            Self::TcpRequest(spec) => Box::new(tcp::TcpRequest::new(spec.clone(), rng)),
        }
    }

    /// From whom to whom it sends, and back, if it does.
    pub(super) fn ways(&self) -> Vec<(u16, u16)> {
        let both = |from: u16, to: u16| [(from, to), (to, from)];
        match self {
            Self::Ping(spec) => both(spec.from, spec.to).into(),
            Self::Stream(spec) if spec.window == 0 => vec![(spec.from, spec.to)],
            Self::Stream(spec) => both(spec.from, spec.to).into(),
            Self::Request(spec) => {
                let from = spec.from.iter();
                from.flat_map(|&from| both(from, spec.to)).collect()
            }
            Self::Incast(spec) => spec.from.iter().map(|&from| (from, spec.to)).collect(),
            Self::TcpStream(TcpStreamSpec { tcp, .. })
            | Self::TcpRequest(TcpRequestSpec { tcp, .. }) => {
                let from = tcp.from.iter();
                from.flat_map(|&from| both(from, tcp.to)).collect()
            }
        }
    }

    /// Messages that it sends, at most, each with its bytes: for how long a run will take.
    pub(super) fn messages(&self) -> Vec<(f64, u64)> {
        match self {
            Self::Ping(spec) => vec![(2.0 * f64::from(spec.round_trips + 1), spec.bytes)],
            Self::Stream(spec) => vec![
                (spec.messages as f64, spec.bytes),
                (spec.messages as f64, spec.credit_bytes),
            ],
            Self::Request(spec) => {
                let requests = spec.rate * spec.time.as_ps() as f64 * 1e-12;
                vec![
                    (requests, spec.request_bytes),
                    (requests, spec.answer_bytes),
                ]
            }
            Self::Incast(spec) => {
                let messages = spec.from.len() as f64 * f64::from(spec.rounds);
                vec![(messages, spec.bytes)]
            }
            Self::TcpStream(spec) => spec.messages(),
            Self::TcpRequest(spec) => spec.messages(),
        }
    }

    /// Hosts that it runs on.
    pub(super) fn hosts(&self) -> Vec<u16> {
        let mut hosts: Vec<u16> = self.ways().iter().flat_map(|&(a, b)| [a, b]).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }
}
