//! The kinds of attack.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use barewire_fabric::frame::Kind;
use barewire_sys::memory::{Memfd, SealSet};
use barewire_sys::socket::{Listener, Socket};
use barewire_sys::wake::EventFd;
use barewire_units::Rng;

use crate::link::{Link, on_owner_bytes};
use crate::ring::{adversarial, scribble, storm};
use crate::{wait, wire};

/// Every kind, for a test to go through.
pub const KINDS: &[&str] = &[
    "ring", "doorbell", "control", "grant", "memory", "flood", "silent", "callee", "die", "mix",
];

struct Attacker<'a> {
    name: &'a str,
    owner: u32,
    rng: Rng,
    mutations: u64,
    rounds: u64,
    /// Attempts at a link that the victim did not take.
    unanswered: u64,
}

/// Attacks until so many mutations have been made, and says how many there were.
pub fn run(name: &str, owner: u32, kind: &str, seed: u64, mutations: u64) {
    let mut attacker = Attacker {
        name,
        owner,
        rng: Rng::from_seed(seed).fork(kind),
        mutations: 0,
        rounds: 0,
        unanswered: 0,
    };
    let begun = Instant::now();
    while attacker.mutations < mutations && begun.elapsed() < Duration::from_secs(600) {
        let kind = match kind {
            "mix" => KINDS[attacker.rng.index(6)],
            other => other,
        };
        attacker.round(kind);
        attacker.rounds += 1;
        if kind == "die" && attacker.mutations >= mutations {
            attacker.tell();
            // In the middle of everything: links stand and are cut off by the kernel.
            std::process::abort();
        }
    }
    attacker.tell();
}

/// Takes the node id of whoever listens as `model`, and greets `name` with it; then waits
/// for the end of its standard input.
pub fn imitate(model: &str, name: &str, owner: u32) {
    let copied = Link::connect(model, owner).map(|link| link.far_node);
    let (Some(node), Some(socket)) = (copied, Link::dial(name, owner)) else {
        return;
    };
    let mut link = Link::over(socket, name, owner);
    link.node = node;
    let link = link.greet();
    println!("{}", if link.is_some() { "in place" } else { "failed" });
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
}

impl Attacker<'_> {
    fn tell(&self) {
        let line = format!(
            "mutations {} rounds {} unanswered {}\n",
            self.mutations, self.rounds, self.unanswered
        );
        let _ = std::io::stdout().write_all(line.as_bytes());
        let _ = std::io::stdout().flush();
    }

    fn link(&mut self) -> Option<Link> {
        let link = Link::connect(self.name, self.owner);
        if link.is_none() {
            self.unanswered += 1;
            std::thread::sleep(Duration::from_millis(5));
        }
        link
    }

    fn round(&mut self, kind: &str) {
        match kind {
            "ring" => self.rings(),
            "doorbell" => self.doorbells(),
            "control" => self.controls(),
            "grant" => self.grants(),
            "memory" => self.memories(),
            "flood" => self.floods(),
            "silent" => self.silence(),
            "callee" => self.callee(),
            _ => {
                self.rings();
                self.doorbells();
                self.grants();
            }
        }
    }

    /// Connections whose rings and control lines are spoiled.
    fn rings(&mut self) {
        let Some(mut link) = self.link() else {
            return;
        };
        if !link.open_to(8, b"") {
            return;
        }
        // A message without end, until the victim has had enough.
        for _ in 0..1000 {
            if link.conns[0].is_refused() {
                break;
            }
            self.mutations += link.conns[0].go_on();
            link.ring(link.conns[0].source);
            std::thread::sleep(Duration::from_micros(20));
        }
        for _ in 0..400 {
            if !link.open_to(8, b"") {
                return;
            }
            for at in 0..link.conns.len() {
                for _ in 0..1 + self.rng.below(4) {
                    self.mutations += link.conns[at].spoil(&mut self.rng);
                }
                link.ring(link.conns[at].source);
            }
            self.pause();
            if self.rng.below(16) == 0 {
                self.mutations += self.scribble_arena(&link);
            }
            if self.rng.below(4) == 0 {
                let at = self.rng.index(link.conns.len());
                link.detach(link.conns[at].number);
            }
            link.pump();
        }
        if self.rng.below(2) == 0 {
            link.send(&wire::bye(), &[]);
        }
    }

    /// So that the victim gets to see something before it is spoiled further.
    fn pause(&mut self) {
        if self.rng.below(8) > 0 {
            std::thread::sleep(Duration::from_micros(self.rng.below(150)));
        }
    }

    fn scribble_arena(&mut self, link: &Link) -> u64 {
        let arena = link.arena.iter();
        arena.map(|m| scribble(&m.window, &mut self.rng, 100)).sum()
    }

    fn doorbells(&mut self) {
        let Some(mut link) = self.link() else {
            return;
        };
        for i in 0..100 {
            if !link.open_to(2, b"") {
                return;
            }
            self.mutations += storm(&mut link, &mut self.rng);
            self.pause();
            if i % 4 == 0 {
                link.conns[0].publish(Kind::Whole, b"still here");
                link.ring(link.conns[0].source);
            }
            link.pump();
        }
    }

    /// Control messages, most of them wrong.
    fn controls(&mut self) {
        // Before any greeting, now and then.
        if self.rng.below(8) == 0 {
            if let Some(socket) = Link::dial(self.name, self.owner) {
                let mut link = Link::over(socket, self.name, self.owner);
                self.say_something(&mut link);
            }
            return;
        }
        let Some(mut link) = self.link() else {
            return;
        };
        if !link.open_to(2, b"aperture") {
            return;
        }
        for _ in 0..200 {
            self.say_something(&mut link);
            link.pump();
            if !link.up {
                return;
            }
        }
    }

    fn some_number(&mut self, link: &Link) -> u32 {
        match self.rng.below(4) {
            0 => self.rng.below(16) as u32,
            1 => adversarial(&mut self.rng) as u32,
            _ => match link.conns.first() {
                Some(conn) => conn.far,
                None => 0,
            },
        }
    }

    fn some_region(&mut self) -> wire::Region {
        match self.rng.below(4) {
            0 => (
                adversarial(&mut self.rng) as u32,
                adversarial(&mut self.rng),
                adversarial(&mut self.rng) as u32,
            ),
            1 => (0, adversarial(&mut self.rng) & !63, 4096),
            2 => (0, 0, 1 << self.rng.below(32)),
            _ => Link::own_region(self.rng.below(8) as u32),
        }
    }

    /// A message of any type, right or nearly so, and how many descriptors go with it.
    fn message(&mut self, link: &Link) -> (Vec<u8>, usize) {
        let number = self.some_number(link);
        let word = adversarial(&mut self.rng);
        let region = self.some_region();
        let any = [0x41; 5000];
        let len = self.rng.index(5000);
        let source = if self.rng.below(4) == 0 {
            word as u32
        } else {
            5
        };
        let message = match self.rng.below(16) {
            0 => wire::hello(wire::VERSION, [word, number.into()], 1, source),
            1 => wire::hello(word as u32, [1, 2], 0, 3),
            2 => return (wire::segment(number, word), 1),
            3 => return (wire::segment(1, 1 << 20), 1),
            4 => wire::open(number, region, source, word, self.name.as_bytes(), b"x"),
            5 => wire::open(number, Link::own_region(9), 9, word, b"nobody", &any[..len]),
            6 => wire::accept(number, number, region, source, word),
            7 => wire::reject(number, word as u8, &any[..len.min(1200)]),
            8 => wire::numbered(wire::DETACH, number),
            9 => wire::numbered(wire::ABANDON, number),
            10 => return (wire::grant(number, word as u32, word, 1 << 16, 8, 1, 16), 4),
            11 => {
                return (
                    wire::grant(number, 1, 2, word, word as u32, 0, word as u32),
                    4,
                );
            }
            12 => wire::numbered(wire::RELEASE, number),
            13 => wire::numbered(wire::REVOKE, number),
            14 => wire::out_of_band(number, &any[..len.min(4200)]),
            _ => wire::wake(),
        };
        let page = usize::from(message[0] == 1);
        (message, page + usize::from(page == 1 && link.same_user()))
    }

    fn say_something(&mut self, link: &mut Link) {
        let (mut message, mut count) = self.message(link);
        match self.rng.below(8) {
            0 => {
                let at = self.rng.index(message.len());
                message[at] ^= 1 << self.rng.below(8);
            }
            1 => message.truncate(1 + self.rng.index(message.len())),
            2 => message.resize(message.len() + 1 + self.rng.index(20_000), 7),
            3 => count = self.rng.index(17),
            4 => self.rng.fill_bytes(&mut message),
            _ => {}
        }
        let fds: Vec<OwnedFd> = (0..count).filter_map(|_| self.descriptor(link)).collect();
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        for _ in 0..1 + self.rng.below(2) {
            link.send(&message, &fds);
            self.mutations += 1;
        }
    }

    /// A descriptor that is hardly ever what is wanted.
    fn descriptor(&mut self, link: &Link) -> Option<OwnedFd> {
        let memory = |bytes, seals: SealSet| {
            let memfd = Memfd::create("hostile", bytes).ok()?;
            memfd.seal(seals).ok()?;
            Some(memfd.into_fd())
        };
        let size = SealSet::SHRINK | SealSet::GROW;
        let some_bytes = [4096, 12_288, 65_536, 1 << 20][self.rng.index(4)];
        match self.rng.below(12) {
            0 => Some(rustix::pipe::pipe().ok()?.0),
            1 => Some(Socket::pair().ok()?.0.into_fd()),
            2 => {
                let flags = rustix::fs::OFlags::RDONLY;
                rustix::fs::open("/proc/self/exe", flags, rustix::fs::Mode::empty()).ok()
            }
            3 => {
                let flags = rustix::fs::OFlags::RDWR;
                rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty()).ok()
            }
            4 => memory(some_bytes, SealSet::NONE),
            5 => memory(some_bytes, SealSet::SHRINK),
            6 => memory(
                some_bytes,
                SealSet::SHRINK | SealSet::GROW | SealSet::FUTURE_WRITE,
            ),
            7 => {
                // Filled to the brim and made blocking, to hold up whoever writes to it.
                let full = EventFd::new().ok()?.into_fd();
                let _ = rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes());
                let flags = rustix::fs::OFlags::empty();
                let _ = rustix::fs::fcntl_setfl(&full, flags);
                Some(full)
            }
            8 => link
                .far_page
                .as_ref()?
                .memfd
                .try_clone()
                .ok()
                .map(Memfd::into_fd),
            9 => link
                .arena
                .first()?
                .memfd
                .try_clone()
                .ok()
                .map(Memfd::into_fd),
            10 => link
                .apertures
                .first()?
                .1
                .memfd
                .try_clone()
                .ok()
                .map(Memfd::into_fd),
            _ => memory(some_bytes, size),
        }
    }

    /// Apertures of ours, with watch tables that lie, and the victim's own.
    fn grants(&mut self) {
        let Some(mut link) = self.link() else {
            return;
        };
        if !link.open_to(2, b"aperture") {
            return;
        }
        for aperture in 0..24 {
            let Some(far) = link.conns.first().map(|c| c.far) else {
                return;
            };
            let slots = [1, 8, 64][self.rng.index(3)];
            let bytes = [4096, 65_536, 10_000][self.rng.index(3)];
            let pages = |b: usize| b.next_multiple_of(4096);
            let table_bytes = pages(barewire_shm::watch::table_bytes(bytes, slots));
            let size = SealSet::SHRINK | SealSet::GROW;
            let on_owner = [0, 16, 1024][self.rng.index(3)];
            let waiting_bytes = on_owner_bytes(bytes, on_owner);
            let made = [pages(bytes), table_bytes, 4096, waiting_bytes].map(|b| {
                let memfd = Memfd::create("hostile-aperture", b).ok()?;
                let window = memfd.map(barewire_sys::memory::Access::ReadWrite).ok()?;
                memfd.seal(size).ok()?;
                Some((memfd, window.whole()))
            });
            let [Some(memory), Some(table), Some(counts), Some(waiting)] = made else {
                return;
            };
            self.spoil_table(&table.1);
            let message = wire::grant(far, aperture, 7, bytes as u64, slots, 1, on_owner);
            let fds = [&memory, &table, &counts, &waiting].map(|(memfd, _)| memfd.as_fd());
            link.send(&message, &fds);
            for _ in 0..20 {
                self.spoil_table(&table.1);
                // What the victim sets in it, it must not read back with trust.
                self.spoil_table(&waiting.1);
                self.mutations += scribble(&counts.1, &mut self.rng, 8);
            }
            for at in 0..link.apertures.len() {
                let (_, theirs, counts, writable) = &link.apertures[at];
                if *writable {
                    self.mutations += scribble(&theirs.window, &mut self.rng, 64);
                }
                if let Some(counts) = counts {
                    self.mutations += scribble(&counts.window, &mut self.rng, 64);
                }
            }
            self.wait_for_stores(&link);
            self.pause();
            if self.rng.below(3) == 0 {
                link.send(&wire::numbered(wire::REVOKE, aperture), &[]);
            }
            link.pump();
            if !link.up {
                return;
            }
        }
    }

    /// Says that it waits for the victim's own stores, with tables that lie.
    fn wait_for_stores(&mut self, link: &Link) {
        for (aperture, memory) in &link.waiting {
            if let Some(page) = &link.far_page {
                barewire_fabric::doorbell::announce_waiting(&page.window, *aperture);
            }
            self.spoil_table(&memory.window);
        }
    }

    /// Slots that lead in circles, out of the table, to sources that do not exist.
    fn spoil_table(&mut self, table: &barewire_shm::Window) {
        self.mutations += 64;
        if self.rng.below(4) == 0 {
            scribble(table, &mut self.rng, 64);
            return;
        }
        let words = table.len_bytes() / 8;
        // All lines watched, all chains lead somewhere.
        for word in 8..words.min(40) {
            table.atomic_store(word * 8, u64::MAX);
        }
        for _ in 0..24 {
            let word = self.rng.index(words);
            let value = match self.rng.below(4) {
                0 => 1 + self.rng.below(70),
                1 => (4 | 2 | 1) << 32 | self.rng.below(1 << 20),
                2 => 64 * self.rng.below(64),
                _ => adversarial(&mut self.rng),
            };
            table.atomic_store(word * 8, value);
        }
    }

    /// Everything that the victim handed out or stores into is resized and punched.
    fn memories(&mut self) {
        let Some(mut link) = self.link() else {
            return;
        };
        if !link.open_to(4, b"aperture") {
            return;
        }
        for _ in 0..100 {
            for conn in &mut link.conns {
                conn.publish(Kind::Whole, &[7; 200]);
            }
            for at in 0..link.conns.len() {
                link.ring(link.conns[at].source);
            }
            link.segment.abuse(&mut self.rng);
            link.page.abuse(&mut self.rng);
            if let Some(page) = link.far_page.as_ref().filter(|_| !link.same_user()) {
                page.abuse(&mut self.rng);
            }
            for memory in &link.arena {
                memory.abuse(&mut self.rng);
            }
            for (_, memory, counts, _) in &link.apertures {
                memory.abuse(&mut self.rng);
                if let Some(counts) = counts {
                    counts.abuse(&mut self.rng);
                }
            }
            for (_, memory) in &link.waiting {
                memory.abuse(&mut self.rng);
            }
            let own = link.segment.window.clone();
            self.mutations += 20 + scribble(&own, &mut self.rng, 100);
            self.mutations += scribble(&link.page.window, &mut self.rng, 100);
            link.pump();
            if !link.open_to(2, b"aperture") {
                return;
            }
        }
    }

    /// Too much of everything that is allowed, without reading the answers.
    fn floods(&mut self) {
        let Some(mut link) = self.link() else {
            return;
        };
        if !link.open_to(2, b"aperture") {
            return;
        }
        let far = link.conns[0].far;
        let what = self.rng.below(7);
        for i in 0..3000_u32 {
            let region = Link::own_region(i % 200);
            let message = match what {
                0 => wire::wake(),
                1 => wire::out_of_band(far, &[1; 4096]),
                2 => wire::open(i, region, 1, 100, b"nobody", b""),
                3 => wire::open(i, region, 1, 100, self.name.as_bytes(), b"aperture"),
                4 => wire::numbered(wire::ABANDON, i),
                5 => wire::numbered(wire::RELEASE, i % 4),
                _ => wire::numbered(wire::REVOKE, i),
            };
            link.send(&message, &[]);
            self.mutations += 1;
            if i % 64 == 0 {
                link.ring(link.far_source);
            }
            if !link.up {
                return;
            }
        }
    }

    /// Sockets that say nothing, and ones that stop half-way.
    fn silence(&mut self) {
        let mut open = Vec::new();
        for i in 0..300 {
            let Some(socket) = Link::dial(self.name, self.owner) else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            self.mutations += 1;
            if i % 3 == 0 {
                let mut link = Link::over(socket, self.name, self.owner);
                link.say_hello();
                open.push(link.socket);
            } else {
                open.push(socket);
            }
        }
    }

    /// Has the victim call, and answers in wrong ways.
    fn callee(&mut self) {
        let own = barewire_sys::process::own_credentials();
        let name = format!("hostile-{}-{}", own.pid, self.rounds);
        let full = format!("barewire/1/{}/{name}", own.uid);
        let Ok(listener) = Listener::bind(full.as_bytes(), 16) else {
            return;
        };
        let Some(mut link) = self.link() else {
            return;
        };
        if !link.open_to(1, format!("call:{name}").as_bytes()) {
            return;
        }
        let accept = || listener.accept().ok().flatten();
        let Some(socket) = wait::poll(Duration::from_millis(200), accept) else {
            return;
        };
        let mut second = Link::over(socket, &name, own.uid);
        self.mutations += 1;
        if self.rng.below(3) == 0 {
            self.say_something(&mut second);
        }
        second.say_hello();
        for _ in 0..10 {
            std::thread::sleep(Duration::from_micros(200));
            second.pump();
            let calls = core::mem::take(&mut second.calls);
            for (number, region, source) in calls {
                if self.rng.below(2) == 0 {
                    let own = Link::own_region(3);
                    second.send(&wire::accept(number, 3, own, 3, 100), &[]);
                    second.stands(3, number, region, source);
                } else {
                    let region = self.some_region();
                    second.send(&wire::accept(number, 3, region, 3, 100), &[]);
                }
                self.mutations += 1;
            }
            for _ in 0..self.rng.below(3) {
                self.say_something(&mut second);
            }
            for conn in &mut second.conns {
                self.mutations += conn.spoil(&mut self.rng);
            }
            if !second.up {
                return;
            }
        }
    }
}
