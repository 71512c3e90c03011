//! Source, builder and manager under any inputs at any time: nothing panics, and every account
//! balances after each.
#![no_main]

use barewire_proto::evb::{
    Barrel, Builder, BuilderConfig, BuilderId, Command, Flow, Fragment, Manager, ManagerConfig,
    Outcome, Part, Policy, Source, SourceConfig, SourceId, WhenFull,
};
use barewire_units::{ByteSize, Duration, Instant, Rate};
use libfuzzer_sys::fuzz_target;

/// Bytes of one input: kind, who, time, event, number.
const INPUT_BYTES: usize = 8;

struct Parts {
    source: Source,
    builder: Builder,
    manager: Manager,
}

impl Parts {
    fn new(setup: u8) -> Self {
        let rate = Rate::from_mbps(100);
        let slot = Duration::from_us(200);
        let flow = match setup % 5 {
            0 => Flow::Free,
            1 => Flow::Shaped {
                rate,
                burst: ByteSize::from_bytes(600),
            },
            2 => Flow::Barrel(Barrel {
                builders: 3,
                period: 4,
                epoch: Instant::ORIGIN,
                slot,
                rate,
            }),
            3 => Flow::Credits,
            _ => Flow::Scheduled { slot },
        };
        let source = SourceConfig {
            id: SourceId(1),
            buffer_bytes: 5_000,
            full: WhenFull::Drop,
            piece_bytes: 500,
            overhead_bytes: 38,
            flow,
        };
        let builder = BuilderConfig {
            id: BuilderId(0),
            run: 0,
            sources: 3,
            timeout: Duration::from_ms(5),
            credits: Some(2),
            pull: Some(2),
            remembered_events: 4,
        };
        let policies = [
            Policy::RoundRobin,
            Policy::LeastLoaded,
            Policy::Pulled,
            Policy::Hash,
        ];
        let manager = ManagerConfig {
            sources: 3,
            builders: 3,
            policy: policies[usize::from(setup / 5) % 4],
            window: Some(5),
            backlog: 5,
            schedule: None,
            liveness: Duration::from_ms(10),
            goes_on: setup & 0x80 == 0,
        };
        Self {
            source: Source::new(source).expect("a good configuration"),
            builder: Builder::new(builder),
            manager: Manager::new(manager, Instant::ORIGIN),
        }
    }

    fn disturb(&mut self, now: Instant, kind: u8, who: u8, event: u64, number: u16) {
        let source = SourceId(u16::from(who));
        let builder = BuilderId(u16::from(who));
        let part = match who & 0x40 {
            0 => Part::Source(SourceId(u16::from(who & 3))),
            _ => Part::Builder(BuilderId(u16::from(who & 3))),
        };
        match kind % 24 {
            0 => drop(self.source.offer(event, u64::from(number))),
            1 => self.source.handle_assign(event, builder, None),
            2 => self.source.handle_assign(event, builder, Some(now)),
            3 => self.source.handle_grant(event),
            4 => self.source.handle_withdrawn(event),
            5 => self.source.handle_full(builder),
            6 => self.source.handle_room(builder),
            7 => self.source.handle_lost(builder),
            8 => self.source.handle_entered(event),
            9 => drop(self.source.transmit(now)),
            10 => self.builder.handle_assign(now, event),
            11 => {
                let fragment = Fragment {
                    run: u32::from(number & 1),
                    event,
                    source,
                    sequence: u64::from(number),
                    bytes: u64::from(number),
                    intact: number & 2 == 0,
                };
                self.builder.handle_fragment(now, fragment);
            }
            12 => self.builder.handle_lost(now, source),
            13 => self.builder.handle_joined(source),
            14 => self.builder.handle_time(now),
            15 => self.builder.handle_entered(now),
            16 => drop(self.manager.trigger(now)),
            17 => self.manager.handle_request(now, builder, u32::from(number)),
            18 => {
                let outcome = Outcome {
                    expected: u32::from(number & 7),
                    present: u32::from(number >> 8 & 7),
                };
                self.manager.handle_close(now, builder, event, outcome);
            }
            19 => self.manager.handle_alive(now, part),
            20 => self.manager.handle_lost(now, part),
            21 => self.source.lack(event),
            22 => {
                let _ = self.source.poll_lack();
                self.builder.handle_lack(now, event, source);
            }
            _ => {
                let commands = [
                    Command::Configure,
                    Command::Start,
                    Command::Pause,
                    Command::Resume,
                    Command::Drain,
                    Command::Abort,
                ];
                let _ = self.manager.command(now, commands[usize::from(who) % 6]);
                self.manager.handle_time(now);
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&setup, inputs)) = data.split_first() else {
        return;
    };
    let mut parts = Parts::new(setup);
    let mut now = Instant::ORIGIN;
    for input in inputs.chunks_exact(INPUT_BYTES) {
        now = now.saturating_add(Duration::from_us(u64::from(input[2]) * 10));
        let event = u64::from(u16::from_be_bytes([input[3], input[4]]) % 64);
        let event = if input[5] == 0xff {
            u64::MAX - event
        } else {
            event
        };
        let number = u16::from_be_bytes([input[6], input[7]]);
        parts.disturb(now, input[0], input[1], event, number);
        while parts.builder.poll_action().is_some() {}
        while parts.manager.poll_action().is_some() {}
        parts
            .source
            .account()
            .balance()
            .expect("a source's account");
        parts
            .builder
            .account()
            .balance()
            .expect("a builder's account");
        parts
            .manager
            .account()
            .balance()
            .expect("the manager's account");
    }
});
