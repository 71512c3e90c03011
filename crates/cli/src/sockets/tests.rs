//! Hostile and torn memory: this very process stands in for the one that is looked at.

use super::*;

/// Words of a status, for memory of our own.
struct Fake {
    words: Vec<u64>,
    records: Vec<u64>,
    descriptors: Vec<u32>,
    highest: Box<u32>,
    carriers: Vec<u64>,
    texts: Vec<u8>,
}

impl Fake {
    fn new() -> Fake {
        let mut texts = vec![0; TEXTS * TEXT_BYTES];
        texts[4 * TEXT_BYTES..4 * TEXT_BYTES + 5].copy_from_slice(b"up\x1b!!");
        let mut fake = Fake {
            words: vec![0; WORDS],
            records: vec![4, 55 << 32, 0, 0, 7, 8, 9, 10],
            descriptors: vec![0, 0, 0, 1],
            highest: Box::new(3),
            carriers: vec![0; 256],
            texts,
        };
        fake.carriers[1] = 1;
        fake.words[0] = u64::from_ne_bytes(*b"barewire");
        fake.words[1] = u64::from_ne_bytes(*b"-status\0");
        let of = |pointer: *const u8| pointer as u64;
        let all = [
            VERSION,
            of(fake.records.as_ptr().cast()),
            64,
            1,
            of(fake.descriptors.as_ptr().cast()),
            of((&raw const *fake.highest).cast()),
            of(fake.carriers.as_ptr().cast()),
            512,
            0,
            8,
            16,
            24,
            32,
            40,
            48,
            56,
            of(fake.texts.as_ptr()),
            50_000,
            16,
            65_536,
            2,
            0,
            0,
            0,
            0,
            SANDBOX,
            0,
            12,
            1,
        ];
        fake.words[2..].copy_from_slice(&all);
        fake
    }

    fn parsed(&self) -> Option<Layout> {
        let bytes: Vec<u8> = self
            .words
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        Layout::parse(&Memory::open(own()).unwrap(), &bytes)
    }

    fn sockets(&self) -> Vec<Socket> {
        let memory = Memory::open(own()).unwrap();
        let inodes = HashMap::from([(3, 1)]);
        let layout = self.parsed();
        layout.map_or(Vec::new(), |layout| {
            layout.sockets(&memory, &inodes, &Network::default())
        })
    }
}

fn own() -> i32 {
    i32::try_from(std::process::id()).unwrap()
}

#[test]
fn what_is_there_is_read() {
    let sockets = Fake::new().sockets();
    assert_eq!(sockets.len(), 1);
    let socket = &sockets[0];
    assert_eq!(
        (socket.fds.as_slice(), socket.state.as_str()),
        (&[3][..], "up!!")
    );
    assert_eq!((socket.ring_bytes, socket.before), ([9, 10], [7, 8]));
    assert_eq!(socket.paths, ["ring", "kernel"]);
    assert_eq!(socket.other_inode, Some(55));
    assert_eq!(socket.local.as_deref(), Some(PAIR));
}

#[test]
fn counters_of_what_is_sent_are_found() {
    for side in [0, 1] {
        let mut fake = Fake::new();
        // The side is in the upper half of the third word.
        fake.records[fake.words[13] as usize / 8] |= side << (fake.words[13] % 8 * 8);
        fake.carriers[128 + 16 * side as usize] = 77 | 5 << 56;
        fake.carriers[16 + 32 * side as usize] = 70;
        let sockets = fake.sockets();
        let counters = sockets[0].counters_out.expect("it is upgraded");
        let memory = Memory::open(own()).unwrap();
        assert_eq!(
            (counters.put(&memory), counters.taken(&memory)),
            (Some(77), Some(70))
        );
    }
}

#[test]
fn an_older_library_is_read_as_well() {
    let mut fake = Fake::new();
    fake.words[27..].copy_from_slice(&[0x1234, 1, 12, 1]);
    let sockets = fake.sockets();
    assert_eq!(sockets.len(), 1);
    assert_eq!(sockets[0].other_inode, None);
    assert!(!fake.parsed().unwrap().is_sandboxed);
}

#[test]
fn a_confined_program_is_said_to_be() {
    let mut fake = Fake::new();
    fake.words[28] = 1;
    assert!(fake.sockets()[0].why.contains("seccomp"));
}

#[test]
fn nothing_that_is_there_does_harm() {
    const BAD: [u64; 8] = [0, 1, 3, 63, 1 << 20, 1 << 47, u64::MAX >> 1, u64::MAX];
    for at in 2..WORDS {
        for bad in BAD {
            let mut fake = Fake::new();
            fake.words[at] = bad;
            fake.sockets();
            for other in 2..WORDS {
                fake.words[other] = bad ^ 7;
                fake.sockets();
            }
        }
    }
    for at in 0..8 {
        for bad in BAD {
            let mut fake = Fake::new();
            fake.records[at] = bad;
            assert!(fake.sockets().len() <= 1);
        }
    }
    let mut fake = Fake::new();
    *fake.highest = u32::MAX;
    fake.sockets();
    fake.descriptors[3] = u32::MAX;
    assert!(fake.sockets().is_empty());
}

#[test]
fn a_process_without_the_library_is_none() {
    assert_eq!(of_process(own()), None);
    assert_eq!(of_process(i32::MAX), None);
}
