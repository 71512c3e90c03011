//! The program that the kernel runs for each frame of an interface: what is for this host's addresses goes to the socket,
//! and everything else to the kernel.
//!
//! An instruction has 8 bytes (`struct bpf_insn`, `linux/bpf.h`; the instructions are those of RFC 9669):
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0 | `code` | the operation |
//! | 1 | `registers` | target in `dst_reg`, source in `src_reg`: four bits each, the target's low on little-endian machines |
//! | 2..4 | `offset` | of a load or a jump, in the machine's byte order |
//! | 4..8 | `value` | a number, in the machine's byte order |
//!
//! The whole program, for both versions of IP. `a` is our address of IPv4, `b` that of IPv6 with its words `b0` to `b3`,
//! and `s` its solicited-node address: `ff02::1:ff00:0` with the last three bytes of `b` (RFC 4291, 2.7.1). Words of a frame
//! are compared as they lie in memory. Without an address, its lines are not there; with neither, only the last two are.
//!
//! | line | instruction | why |
//! |---|---|---|
//! | 0 | `r2 = *(u32 *)(r1 + 0)` | `xdp_md.data`: the first byte of the frame |
//! | 1 | `r3 = *(u32 *)(r1 + 4)` | `xdp_md.data_end`: the byte after the last |
//! | 2 | `r4 = r2` | |
//! | 3 | `r4 += 42` | the shortest frame that may be for us: ARP, or a datagram of IPv4 without payload |
//! | 4 | `if r4 > r3 goto pass` | a frame that is shorter; from here on, the kernel lets us read 42 bytes |
//! | 5 | `r5 = *(u16 *)(r2 + 12)` | the type of the frame |
//! | 6 | `if w5 == ARP goto arp` | |
//! | 7 | `if w5 == IPv4 goto v4` | |
//! | 8 | `if w5 != IPv6 goto pass` | VLAN tags end here, too |
//! | 9 | `r4 = r2` | |
//! | 10 | `r4 += 54` | the header of Ethernet, and that of IPv6 |
//! | 11 | `if r4 > r3 goto pass` | |
//! | 12 | `r5 = *(u32 *)(r2 + 38)` | the target, words 0 to 3 |
//! | 13 | `if w5 == s0 goto group` | `ff02`: it may be the solicited-node address |
//! | 14 | `if w5 != b0 goto pass` | |
//! | 15, 16 | `r5 = *(u32 *)(r2 + 42)`, `if w5 != b1 goto pass` | |
//! | 17, 18 | `r5 = *(u32 *)(r2 + 46)`, `if w5 != b2 goto pass` | |
//! | 19, 20 | `r5 = *(u32 *)(r2 + 50)`, `if w5 != b3 goto pass` | |
//! | 21 | `goto take` | it is for us, an advertisement that a neighbour sends to us included |
//! | 22, 23 | group: `r5 = *(u32 *)(r2 + 42)`, `if w5 != s1 goto pass` | |
//! | 24, 25 | `r5 = *(u32 *)(r2 + 46)`, `if w5 != s2 goto pass` | |
//! | 26, 27 | `r5 = *(u32 *)(r2 + 50)`, `if w5 != s3 goto pass` | |
//! | 28 | `goto take` | a neighbour asks for our address |
//! | 29 | v4: `r5 = *(u32 *)(r2 + 30)` | the target of IPv4 |
//! | 30 | `if w5 == a goto take` | |
//! | 31 | `goto pass` | |
//! | 32 | arp: `r5 = *(u32 *)(r2 + 38)` | the target protocol address (RFC 826) |
//! | 33 | `if w5 != a goto pass` | |
//! | 34 | take: `r2 = *(u32 *)(r1 + 16)` | `xdp_md.rx_queue_index`: which queue the frame came by |
//! | 35, 36 | `r1 = map` | 16 bytes: the descriptor of the map of sockets, for which the kernel puts the map |
//! | 37 | `r3 = 2` | `XDP_PASS`, if the map has no socket for this queue |
//! | 38 | `call 51` | `bpf_redirect_map` |
//! | 39 | `exit` | with what it returned: `XDP_REDIRECT` or `XDP_PASS` |
//! | 40 | pass: `r0 = 2` | `XDP_PASS`: to the kernel |
//! | 41 | `exit` | |

use std::net::Ipv6Addr;

use super::super::packet::Want;

/// Loads: a word or a half from memory; a constant of 64 bits.
const LOAD_WORD: u8 = 0x61;
const LOAD_HALF: u8 = 0x69;
const LOAD_CONSTANT: u8 = 0x18;
/// Moves and additions of 64 bits.
const MOVE: u8 = 0xbf;
const MOVE_VALUE: u8 = 0xb7;
const ADD_VALUE: u8 = 0x07;
/// Jumps: always; if greater, by registers of 64 bits; by the low 32 bits and a value.
const JUMP: u8 = 0x05;
const JUMP_GREATER: u8 = 0x2d;
const JUMP_EQUAL: u8 = 0x16;
const JUMP_NOT_EQUAL: u8 = 0x56;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// The source register of [`LOAD_CONSTANT`] if the constant is the descriptor of a map.
const MAP_DESCRIPTOR: u8 = 1;
/// `BPF_FUNC_redirect_map`.
const REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;

/// One instruction.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    value: i32,
}

/// Where a jump goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Group,
    V4,
    Arp,
    Take,
    Pass,
}

/// The program while it is written: jumps have no offset before all of it is there.
#[derive(Default)]
struct Writer {
    lines: Vec<Instruction>,
    jumps: Vec<(usize, Label)>,
    labels: Vec<(Label, usize)>,
}

impl Writer {
    fn push(&mut self, code: u8, target: u8, source: u8, offset: i16, value: i32) {
        let registers = match cfg!(target_endian = "little") {
            true => source << 4 | target,
            false => target << 4 | source,
        };
        self.lines.push(Instruction {
            code,
            registers,
            offset,
            value,
        });
    }

    fn label(&mut self, label: Label) {
        self.labels.push((label, self.lines.len()));
    }

    fn jump(&mut self, code: u8, target: u8, source: u8, value: i32, to: Label) {
        self.jumps.push((self.lines.len(), to));
        self.push(code, target, source, 0, value);
    }

    /// To `pass` if the frame ends before byte `end`.
    fn ends_at(&mut self, end: i32) {
        self.push(MOVE, 4, 2, 0, 0);
        self.push(ADD_VALUE, 4, 0, 0, end);
        self.jump(JUMP_GREATER, 4, 3, 0, Label::Pass);
    }

    /// Has r5 be the word at a byte of the frame.
    fn load_word(&mut self, at: i16) {
        self.push(LOAD_WORD, 5, 2, at, 0);
    }

    /// To `take` if the words from 42 on are the last three of an address of IPv6, otherwise to `pass`.
    fn rest_of(&mut self, words: [i32; 4]) {
        for (at, word) in [42, 46, 50].into_iter().zip(&words[1..]) {
            self.load_word(at);
            self.jump(JUMP_NOT_EQUAL, 5, 0, *word, Label::Pass);
        }
        self.jump(JUMP, 0, 0, 0, Label::Take);
    }

    /// Puts the offsets in: from the instruction after the jump on.
    fn finish(mut self) -> Vec<Instruction> {
        for (at, to) in self.jumps {
            let found = self.labels.iter().find(|(label, _)| *label == to);
            // A label that is missing would be a jump to the next instruction; a test runs every one of them.
            let line = found.map_or(at + 1, |(_, line)| *line);
            self.lines[at].offset = (line as isize - at as isize - 1) as i16;
        }
        self.lines
    }
}

/// A type of frames, as it lies in memory.
fn kind(kind: u16) -> i32 {
    i32::from(u16::from_ne_bytes(kind.to_be_bytes()))
}

/// The words of an address, as they lie in memory.
fn words(address: Ipv6Addr) -> [i32; 4] {
    let octets = address.octets();
    std::array::from_fn(|word| {
        i32::from_ne_bytes(std::array::from_fn(|byte| octets[4 * word + byte]))
    })
}

/// The address to which neighbours send questions about an address (RFC 4291, 2.7.1).
fn solicited(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

/// The program for these addresses and the map of sockets that has this descriptor.
pub(super) fn program(want: &Want, map: i32) -> Vec<Instruction> {
    let mut it = Writer::default();
    if want.v4.is_none() && want.v6.is_none() {
        // The kernel loads no program with lines that are never reached.
        it.push(MOVE_VALUE, 0, 0, 0, XDP_PASS);
        it.push(EXIT, 0, 0, 0, 0);
        return it.finish();
    }
    it.push(LOAD_WORD, 2, 1, 0, 0);
    it.push(LOAD_WORD, 3, 1, 4, 0);
    it.ends_at(42);
    it.push(LOAD_HALF, 5, 2, 12, 0);
    if want.v4.is_some() {
        it.jump(JUMP_EQUAL, 5, 0, kind(0x0806), Label::Arp);
        it.jump(JUMP_EQUAL, 5, 0, kind(0x0800), Label::V4);
    }
    match want.v6 {
        Some(own) => version_6(&mut it, own),
        None => it.jump(JUMP, 0, 0, 0, Label::Pass),
    }
    if let Some(own) = want.v4 {
        let own = i32::from_ne_bytes(own.octets());
        it.label(Label::V4);
        it.load_word(30);
        it.jump(JUMP_EQUAL, 5, 0, own, Label::Take);
        it.jump(JUMP, 0, 0, 0, Label::Pass);
        it.label(Label::Arp);
        it.load_word(38);
        it.jump(JUMP_NOT_EQUAL, 5, 0, own, Label::Pass);
    }
    it.label(Label::Take);
    it.push(LOAD_WORD, 2, 1, 16, 0);
    it.push(LOAD_CONSTANT, 1, MAP_DESCRIPTOR, 0, map);
    it.push(0, 0, 0, 0, 0);
    it.push(MOVE_VALUE, 3, 0, 0, XDP_PASS);
    it.push(CALL, 0, 0, 0, REDIRECT_MAP);
    it.push(EXIT, 0, 0, 0, 0);
    it.label(Label::Pass);
    it.push(MOVE_VALUE, 0, 0, 0, XDP_PASS);
    it.push(EXIT, 0, 0, 0, 0);
    it.finish()
}

fn version_6(it: &mut Writer, own: Ipv6Addr) {
    let (own, group) = (words(own), words(solicited(own)));
    it.jump(JUMP_NOT_EQUAL, 5, 0, kind(0x86dd), Label::Pass);
    it.ends_at(54);
    it.load_word(38);
    it.jump(JUMP_EQUAL, 5, 0, group[0], Label::Group);
    it.jump(JUMP_NOT_EQUAL, 5, 0, own[0], Label::Pass);
    it.rest_of(own);
    it.label(Label::Group);
    it.rest_of(group);
}

const _: () = assert!(size_of::<Instruction>() == 8);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// What the kernel would do: whether the frame is taken. It panics where the kernel would not load the program: a read
    /// beyond what was checked.
    fn takes(program: &[Instruction], frame: &[u8]) -> bool {
        let (mut r, mut at, mut checked) = ([0_u64; 11], 0, 0);
        // Registers 2 and 3 are offsets in the frame.
        loop {
            let line = program[at];
            at += 1;
            let (to, from) = (
                usize::from(line.registers & 15),
                usize::from(line.registers >> 4),
            );
            let jumps = match line.code {
                LOAD_WORD if from == 1 => {
                    r[to] = [(0, 0), (4, frame.len() as u64), (16, 7)]
                        .iter()
                        .find(|(at, _)| *at == line.offset)
                        .expect("a field")
                        .1;
                    false
                }
                LOAD_WORD | LOAD_HALF => {
                    let len = if line.code == LOAD_WORD { 4 } else { 2 };
                    let start = r[from] as usize + line.offset as usize;
                    assert!(start + len <= checked, "byte {start} was not checked");
                    let mut bytes = [0; 4];
                    bytes[..len].copy_from_slice(&frame[start..start + len]);
                    r[to] = u64::from(u32::from_le_bytes(bytes));
                    false
                }
                LOAD_CONSTANT => {
                    assert_eq!((from, line.value), (1, 33));
                    at += 1;
                    false
                }
                MOVE => {
                    r[to] = r[from];
                    false
                }
                MOVE_VALUE => {
                    r[to] = line.value as u64;
                    false
                }
                ADD_VALUE => {
                    r[to] += line.value as u64;
                    false
                }
                JUMP => true,
                JUMP_GREATER => {
                    if r[to] <= r[from] {
                        checked = checked.max(r[to] as usize);
                    }
                    r[to] > r[from]
                }
                JUMP_EQUAL => r[to] as u32 == line.value as u32,
                JUMP_NOT_EQUAL => r[to] as u32 != line.value as u32,
                CALL => {
                    assert_eq!((line.value, r[2], r[3]), (REDIRECT_MAP, 7, 2));
                    return true;
                }
                EXIT => {
                    assert_eq!(r[0], 2);
                    return false;
                }
                other => panic!("code {other:#x}"),
            };
            if jumps {
                at = at.checked_add_signed(isize::from(line.offset)).unwrap();
            }
        }
    }

    fn frame(kind: u16, len: usize, at: usize, address: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; len];
        frame[12..14].copy_from_slice(&kind.to_be_bytes());
        frame[at..at + address.len()].copy_from_slice(address);
        frame
    }

    #[test]
    fn the_program_takes_what_is_for_the_addresses() {
        let own_4 = Ipv4Addr::new(10, 1, 2, 3);
        let own_6: Ipv6Addr = "fd00::81:2:3".parse().unwrap();
        let group: Ipv6Addr = "ff02::1:ff02:3".parse().unwrap();
        for (v4, v6) in [
            (Some(own_4), Some(own_6)),
            (Some(own_4), None),
            (None, Some(own_6)),
            (None, None),
        ] {
            let program = program(&Want { v4, v6 }, 33);
            let takes = |frame: &[u8]| takes(&program, frame);
            for (kind, at, len) in [(0x0800, 30, 42), (0x0806, 38, 42)] {
                assert_eq!(takes(&frame(kind, len, at, &own_4.octets())), v4.is_some());
                assert!(!takes(&frame(kind, len, at, &[10, 1, 2, 4])));
                assert!(!takes(&frame(kind, len, at, &[11, 1, 2, 3])));
            }
            for address in [own_6, group] {
                assert_eq!(
                    takes(&frame(0x86dd, 54, 38, &address.octets())),
                    v6.is_some()
                );
                for byte in 0..16 {
                    let mut other = address.octets();
                    other[byte] ^= 1;
                    assert!(!takes(&frame(0x86dd, 54, 38, &other)), "byte {byte}");
                }
            }
            let all_nodes: Ipv6Addr = "ff02::1".parse().unwrap();
            assert!(!takes(&frame(0x86dd, 54, 38, &all_nodes.octets())));
            assert!(!takes(&frame(0x8847, 60, 30, &own_4.octets())));
            assert!(!takes(&frame(0x8100, 60, 30, &own_4.octets())));
            // What is cut short is the kernel's, whatever it seems to be.
            for kind in [0x0800, 0x0806, 0x86dd] {
                for len in 14..54 {
                    let got = takes(&frame(kind, len, 0, &[]));
                    assert!(!got, "{kind:#x}, {len} bytes");
                }
            }
        }
    }

    #[test]
    fn the_table_has_the_lines_of_the_program() {
        let want = Want {
            v4: Some(Ipv4Addr::LOCALHOST),
            v6: Some(Ipv6Addr::LOCALHOST),
        };
        let lines = program(&want, 0);
        assert_eq!(lines.len(), 42);
        let jumps = [
            (4, 40),
            (6, 32),
            (7, 29),
            (8, 40),
            (13, 22),
            (21, 34),
            (33, 40),
        ];
        for (at, to) in jumps {
            assert_eq!(at + 1 + lines[at].offset as usize, to, "line {at}");
        }
    }
}
