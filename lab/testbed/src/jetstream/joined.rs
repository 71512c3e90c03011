//! A ring and an ATM switch, joined by an interworking unit.
//!
//! ```text
//! host - ring - ... - unit === fibre === ATM switch === fibre === host
//!          |                                  \====== fibre === host
//!         host
//! ```
//! The unit is the master of the ring, and has the first link of the switch. What it does with frames and cells is
//! [`barewire_classic::interworking`], byte by byte; ring, links and switch are those of the other experiments.
//!
//! | way | what happens |
//! |---|---|
//! | ring to ATM | a frame that is whole in the unit is cut; its cells wait for the line, circuit by circuit in turns |
//! | ATM to ring | the unit gathers the cells of a circuit; the frame waits for the token as a host's does |
//! | to a host on ATM | [`Pool`] puts the cells together and checks the PDU |
//! | to a host of the ring | the host checks the PDU, which nobody has checked before |
//!
//! Each way from a host of the ring to one beyond is a circuit of its own, on the ring and on ATM. The unit takes no
//! time beside that of its lines, since the paper gives none.
//!
//! A message is lost with the first cell of it that is. What the others still do is as it would be: they take
//! room, and if the last cell is missing, the next PDU of the circuit is taken for the rest of this one.

use barewire_classic::interworking::{Adaptation, Config, ConnectError, Stats, Unit};
use barewire_classic::sar::segment::Aal5Segmenter;
use barewire_classic::sar::{Aal, Pool, PoolConfig, Reassembler as _};
use barewire_des::{Class as Order, Event, Node, Simulator};
use barewire_formats::atm::{CELL_BYTES, HeaderRepr, Interface, PAYLOAD_BYTES, PayloadType};
use barewire_formats::jetstream::{Frame, FrameRepr, OVERHEAD_BYTES};
use barewire_models::jetstream::AtmCell;
use barewire_units::{Duration, Instant};

use super::cells::Cells;
use super::lan::{Lan, from_unit, to_unit};
use super::traffic::{Message, NetEvent, Traffic, Why};
use crate::emulation::Losses;
use crate::error::SystemError;
use crate::experiment::LinkCapture;

/// How the network is made.
pub struct JoinedPlan {
    pub lan: Lan,
    /// Its first port has the unit.
    pub cells: Cells,
    /// Hosts of the ring, and beyond the unit.
    pub hosts: [usize; 2],
    /// PDUs whose cells stop coming to the unit are dropped after this time, and at most twice that.
    pub idle_max: Duration,
}

/// What was lost at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostAtRandom {
    pub frames: u64,
    pub cells: u64,
}

/// The network.
pub struct Joined {
    pub lan: Lan,
    pub cells: Cells,
    unit: Unit,
    hosts_on_ring: usize,
    /// Of the hosts beyond the unit.
    pools: Vec<Pool>,
    rest: Option<Instant>,
    payload: Vec<u8>,
    losses: Option<Losses>,
    lost: LostAtRandom,
}

impl Joined {
    /// # Errors
    /// More hosts than there are circuits for.
    pub fn new(plan: JoinedPlan) -> Result<Self, SystemError> {
        let [on_ring, beyond] = plan.hosts;
        let mut unit = Unit::new(Config {
            idle_max: plan.idle_max,
            ..Config::new(Interface::Uni)
        });
        let mut pools: Vec<_> = (0..beyond).map(|_| pool()).collect();
        let none = |what: String| SystemError::Contradiction(format!("no circuit: {what}"));
        let refused = |error: ConnectError| none(error.to_string());
        for (number, pool) in pools.iter_mut().enumerate() {
            let host = on_ring + number;
            for other in (0..on_ring + beyond).filter(|other| *other != host) {
                let vc = plan.cells.vc(other, host);
                let opened = pool.open(vc, Aal::Aal5);
                opened.map_err(|error| none(error.to_string()))?;
                if other < on_ring {
                    let adaptation = Adaptation::Aal5;
                    unit.connect(vc, to_unit(other, number), adaptation)
                        .map_err(refused)?;
                    let back = plan.cells.vc(host, other);
                    unit.connect(back, from_unit(other, number), adaptation)
                        .map_err(refused)?;
                }
            }
        }
        Ok(Self {
            lan: plan.lan,
            cells: plan.cells,
            unit,
            hosts_on_ring: on_ring,
            pools,
            rest: None,
            payload: Vec::new(),
            losses: None,
            lost: LostAtRandom::default(),
        })
    }

    /// Loses cells and frames at random.
    pub fn lose_at_random(&mut self, losses: Option<Losses>) {
        self.losses = losses;
    }

    /// What the unit has counted.
    pub fn unit_stats(&self) -> Stats {
        self.unit.stats()
    }

    /// What an emulation shows.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        let unit = self.unit.stats();
        vec![
            ("frames into the unit", unit.frames_in),
            ("cells out of it", unit.cells_out),
            ("cells into it", unit.cells_in),
            ("frames out of it", unit.frames_out),
            ("PDUs in it timed out", unit.timed_out),
            ("frames lost", self.lost.frames),
            ("cells lost", self.lost.cells),
            ("cells without room in the switch", self.cells.dropped()),
        ]
    }

    /// What was lost at random.
    pub fn lost_at_random(&self) -> LostAtRandom {
        self.lost
    }

    pub fn take_links(&mut self) -> Vec<LinkCapture> {
        let mut links = std::mem::take(&mut self.lan.links);
        links.append(&mut self.cells.links);
        links
    }

    pub fn send<E: Event + From<NetEvent>>(
        &mut self,
        index: usize,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        let message = &traffic.messages[index];
        if message.from < self.hosts_on_ring {
            return self.lan.send(index, traffic, sim);
        }
        let cells = self.cut(message);
        self.cells.send_cells(index, cells, traffic, sim);
    }

    /// The cells that a host on ATM makes of a message.
    fn cut(&self, message: &Message) -> Vec<[u8; CELL_BYTES]> {
        let vc = self.cells.vc(message.from, message.to);
        let header = HeaderRepr::user(vc, PayloadType::USER);
        let mut payload = message.head.clone();
        payload.resize(message.payload_bytes, 0);
        let mut bytes = vec![0; message.pdu_bytes() / PAYLOAD_BYTES * CELL_BYTES];
        let segmenter = Aal5Segmenter::new(header, Interface::Uni);
        // Cannot fail: no message is longer than a PDU, and the buffer is as long as that.
        let cut = segmenter.segment(&payload, 0, &mut bytes).is_ok();
        debug_assert!(cut);
        let cells = bytes.chunks_exact(CELL_BYTES);
        cells
            .filter_map(|cell| cell.first_chunk().copied())
            .collect()
    }

    pub fn handle<E: Event + From<NetEvent>>(
        &mut self,
        event: NetEvent,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        match event {
            NetEvent::Line(_) | NetEvent::Output(_) | NetEvent::Cell(_) => {
                self.cells.handle(event, traffic, sim);
            }
            NetEvent::Whole(message) => self.whole(message, traffic),
            NetEvent::AtUnit(message) => self.frame(message, traffic, sim),
            NetEvent::CellThere(port, cell) => self.cell(port, cell, traffic, sim),
            NetEvent::Rest => {
                let now = sim.now();
                self.rest = None;
                self.unit.handle_timer(now);
                for pool in &mut self.pools {
                    pool.handle_timeout(now);
                    // They are of messages that were lost before.
                    while pool.poll(&mut self.payload).is_some() {}
                }
                self.watch(sim);
            }
            _ => self.lan.handle(event, traffic, sim),
        }
    }

    fn is_lost(&mut self) -> bool {
        self.losses.as_mut().is_some_and(Losses::hit)
    }

    /// A frame is whole at a host of the ring.
    fn whole(&mut self, message: usize, traffic: &mut Traffic) {
        if self.is_lost() {
            self.lost.frames += 1;
            return traffic.lose(message, Why::Damaged);
        }
        match traffic.messages.get(message) {
            Some(it) if it.is_intact() => traffic.receive(message),
            _ => traffic.lose(message, Why::Spoilt),
        }
    }

    /// A frame of the ring is whole in the unit.
    fn frame<E: Event + From<NetEvent>>(
        &mut self,
        message: usize,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        if self.is_lost() {
            self.lost.frames += 1;
            return traffic.lose(message, Why::Damaged);
        }
        let Some(it) = traffic.messages.get(message) else {
            return;
        };
        let frame = self.lan.frame(it);
        match self.unit.handle_frame(&frame) {
            Ok(cells) => {
                let cells = cells.collect();
                self.cells.send_cells(message, cells, traffic, sim);
            }
            Err(_) => traffic.lose(message, Why::Spoilt),
        }
    }

    /// A cell has come to the unit, which is at port 0, or to a host beyond.
    fn cell<E: Event + From<NetEvent>>(
        &mut self,
        port: usize,
        cell: AtmCell,
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) {
        let message = cell.pdu as usize;
        let Some(bytes) = self.cells.take(cell) else {
            return;
        };
        if self.is_lost() {
            self.lost.cells += 1;
            return traffic.lose(message, Why::Damaged);
        }
        if cell.broken {
            traffic.lose(message, Why::Damaged);
        }
        let is_good = match port.checked_sub(1) {
            None => self.gather(message, &bytes, traffic, sim),
            Some(host) => self.put_together(host, message, &bytes, traffic, sim.now()),
        };
        if cell.is_last() && !is_good {
            traffic.lose(message, Why::Spoilt);
        }
        self.watch(sim);
    }

    /// A cell for the unit: whether a frame has gone to the ring.
    fn gather<E: Event + From<NetEvent>>(
        &mut self,
        message: usize,
        cell: &[u8; CELL_BYTES],
        traffic: &mut Traffic,
        sim: &mut Simulator<E>,
    ) -> bool {
        if self.unit.handle_cell(sim.now(), cell).is_err() {
            traffic.lose(message, Why::NoRoom);
        }
        let Some(frame) = self.unit.poll_frame() else {
            return false;
        };
        let headers = Frame::new_checked(&frame[..]).and_then(|frame| FrameRepr::parse(&frame));
        let (Ok(repr), Some(it)) = (headers, traffic.messages.get_mut(message)) else {
            return false;
        };
        let pdu = &frame[OVERHEAD_BYTES..];
        it.mangled = (it.pdu() != pdu).then(|| pdu.to_vec());
        self.lan.send_from_unit(message, repr, traffic, sim);
        true
    }

    /// A cell for a host beyond the unit: whether its message is whole.
    fn put_together(
        &mut self,
        host: usize,
        message: usize,
        cell: &[u8; CELL_BYTES],
        traffic: &mut Traffic,
        now: Instant,
    ) -> bool {
        let pool = &mut self.pools[host];
        pool.handle_cell(now, cell);
        let mut is_good = false;
        while let Some(report) = pool.poll(&mut self.payload) {
            let sent = traffic.messages.get(message);
            is_good = report.result.is_ok() && sent.is_some_and(|it| it.is_of(&self.payload));
        }
        if is_good {
            traffic.receive(message);
        }
        is_good
    }

    /// Has it looked for cells that rest too long.
    fn watch<E: Event + From<NetEvent>>(&mut self, sim: &mut Simulator<E>) {
        if self.rest.is_some() {
            return;
        }
        let pools = self.pools.iter().filter_map(|pool| pool.next_deadline());
        let next = pools.chain(self.unit.next_deadline()).min();
        self.rest = next.map(|at| at.max(sim.now()));
        if let Some(at) = self.rest {
            sim.at(at, Order::NORMAL, Node(0), NetEvent::Rest.into());
        }
    }
}

/// What a host beyond the unit puts PDUs together with.
fn pool() -> Pool {
    Pool::new(PoolConfig::default())
}
