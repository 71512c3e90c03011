//! `barewire dump`: what waits in the queues of a live process, header by header.
//!
//! A node's counters page says where the ring of each connection lies and up to where it has been
//! read; the ring itself is mapped for reading through `/proc/PID/fd`. Nothing is written, nobody
//! is stopped, and the process need not help: it may hang. What is read may change at any time
//! and be anything: sizes and places are checked, headers as the reader checks them
//! ([`barewire_fabric::survey`]), and what is shown is bounded.

use std::collections::HashMap;

use barewire_fabric::frame::{Kind, LINE_BYTES, region_bytes};
use barewire_fabric::survey::{Control, Ending, Forwarded, Header, Survey, survey};
use barewire_report::columns::{in_columns, print};
use barewire_report::number::bytes;
use barewire_shm::Region;
use barewire_shm::counters::SlotCopy;
use barewire_sys::discover::open_arena;
use clap::Args;
use serde::Serialize;

use crate::hosts::Hosts;
use crate::nodes::{self, NodeView, Result};

/// Show the messages that wait in the queues of a process, header by header
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  barewire dump 4711                   the fullest queues, with the first headers of each
  barewire dump 4711 --connection 3 --frames 1000
  barewire dump 4711 --json | jq '.nodes[].queues[] | select(.payload_bytes > 0)'
A queue is a ring that this process receives from. What it sends lies in the rings of
the processes that it sends to: dump those. Of connections to other hosts it is shown
what this process has sent: what waits here, and what is under way or not taken there.
Positions count lines of 64 bytes since the connection began. Pieces of a long message
are taken as they come. A message of at most 56 bytes may wait outside the ring, in the
duplex line, and is not shown.")]
pub struct DumpArgs {
    /// Process id
    pub pid: i32,
    /// Print JSON: one object
    #[arg(long)]
    pub json: bool,
    /// Only connections with this number
    #[arg(long, value_name = "NUMBER")]
    pub connection: Option<u32>,
    /// Show at most N headers of each queue
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub frames: usize,
    /// Show at most N queues of each node, the fullest first
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
}

/// Looks at a queue whose reader moves meanwhile.
const ATTEMPTS: usize = 4;
/// Headers kept of a queue, whatever is asked for.
const FRAMES_MAX: usize = 1 << 16;

#[derive(Debug, Serialize)]
struct ProcessDump {
    pid: i32,
    comm: String,
    uid: u32,
    nodes: Vec<NodeDump>,
}

#[derive(Debug, Serialize)]
struct NodeDump {
    node: String,
    queues: Vec<Queue>,
    /// Queues that are not shown.
    queues_more: usize,
}

/// The ring that a connection receives from.
#[derive(Debug, Serialize)]
struct Queue {
    connection: u32,
    name: String,
    peer_pid: u32,
    peer_uid: u32,
    /// The host at the other end; `null`: this one.
    peer_host: Option<String>,
    ring_bytes: u32,
    capacity_lines: u64,
    #[serde(flatten)]
    content: Content,
}

/// What a connection sends to another host: the stand-in keeps it until the peer has taken it.
#[derive(Debug, Serialize)]
struct Outgoing {
    ring_bytes: u32,
    /// Published, and not handed to the network.
    waiting: Amount,
    /// Handed to the network, and not taken by the peer as far as it has said.
    under_way: Amount,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Amount {
    frames: u64,
    payload_bytes: u64,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Content {
    Read(Box<Waiting>),
    Unreadable { unreadable: String },
}

#[derive(Debug, Serialize)]
struct Waiting {
    /// Descriptor of the memory in the process, and where the region begins in it.
    region_fd: u32,
    region_offset_bytes: u64,
    tail_line: u64,
    head_line: u64,
    used_lines: u64,
    frames: u64,
    payload_bytes: u64,
    headers: Vec<HeaderDump>,
    /// What is wrong with the header behind the last, if it cannot be read.
    fault: Option<String>,
    /// It went on while we looked: what is shown may be from several moments.
    moving: bool,
    peer: Words,
    /// Of a connection to another host; `null` before it has sent anything.
    outgoing: Option<Outgoing>,
}

#[derive(Debug, Serialize)]
struct HeaderDump {
    position_line: u64,
    kind: &'static str,
    offset_bytes: usize,
    len_bytes: usize,
}

/// What the peer has stored in the control line.
#[derive(Debug, Serialize)]
struct Words {
    credit_lines: u64,
    armed: bool,
    starved: bool,
    finished: bool,
    deaf: bool,
    state: u64,
}

impl From<Control> for Words {
    fn from(control: Control) -> Words {
        Words {
            credit_lines: control.credit_lines,
            armed: control.armed,
            starved: control.starved,
            finished: control.finished(),
            deaf: control.deaf(),
            state: control.state,
        }
    }
}

impl From<&Header> for HeaderDump {
    fn from(header: &Header) -> HeaderDump {
        HeaderDump {
            position_line: header.position,
            kind: match header.kind {
                Kind::Whole => "whole",
                Kind::More => "more",
                Kind::Packed => "packed",
                Kind::Skip => "skip",
            },
            offset_bytes: header.offset_bytes,
            len_bytes: header.len_bytes,
        }
    }
}

/// Shows them.
pub fn run(args: &DumpArgs) -> Result<()> {
    let nodes = nodes::of_process(args.pid)?;
    let found = &nodes[0].found;
    let process = ProcessDump {
        pid: found.pid,
        comm: found.comm.clone(),
        uid: found.uid,
        nodes: nodes.iter().map(|node| dump(node, args)).collect(),
    };
    if args.json {
        let text = serde_json::to_string_pretty(&process)?;
        return Ok(print(&(text + "\n"))?);
    }
    Ok(print(&text(&process))?)
}

/// The segments of a process that have been mapped, by descriptor.
type Segments = HashMap<u32, std::result::Result<Region, String>>;

fn dump(node: &NodeView, args: &DumpArgs) -> NodeDump {
    let mut segments = Segments::new();
    let wanted = |slot: &SlotCopy| {
        args.connection
            .is_none_or(|number| slot.connection == number)
    };
    let frames_max = args.frames.min(FRAMES_MAX);
    let connections = node.connections().into_iter().filter(wanted);
    let hosts = Hosts::of(node);
    let look = |slot: SlotCopy| {
        let host = hosts.of_connection(&slot).map(str::to_owned);
        let mut queue = look(node, slot, &mut segments, frames_max)?;
        queue.peer_host = host;
        Some(queue)
    };
    let mut queues: Vec<Queue> = connections.filter_map(look).collect();
    queues.sort_by_key(|queue| (std::cmp::Reverse(queue.fullness()), queue.connection));
    let queues_more = queues.len().saturating_sub(args.top);
    queues.truncate(args.top);
    NodeDump {
        node: node.id(),
        queues,
        queues_more,
    }
}

impl Queue {
    fn new(slot: &SlotCopy, content: Content) -> Queue {
        Queue {
            connection: slot.connection,
            name: slot.name.clone(),
            peer_pid: slot.peer_pid,
            peer_uid: slot.peer_uid,
            peer_host: None,
            ring_bytes: slot.ring_bytes_in,
            capacity_lines: u64::from(slot.ring_bytes_in) / LINE_BYTES as u64,
            content,
        }
    }

    fn fullness(&self) -> u64 {
        match &self.content {
            Content::Read(waiting) => waiting.used_lines,
            Content::Unreadable { .. } => 0,
        }
    }
}

/// One queue; `None` if its connection ends meanwhile.
fn look(
    node: &NodeView,
    mut slot: SlotCopy,
    segments: &mut Segments,
    frames_max: usize,
) -> Option<Queue> {
    let unreadable = |slot: &SlotCopy, why: &str| {
        let unreadable = why.to_owned();
        Some(Queue::new(slot, Content::Unreadable { unreadable }))
    };
    for attempt in 1.. {
        let Some(place) = slot.region else {
            return unreadable(&slot, "the node does not say where its rings lie");
        };
        let pid = node.found.pid;
        let segment = match open_segment(segments, pid, place.fd_number) {
            Ok(segment) => segment,
            Err(why) => return unreadable(&slot, &why),
        };
        let surveyed = survey_region(&segment, &slot, frames_max);
        let now = node.connection(slot.connection)?;
        let same = (now.region, now.ring_bytes_in, now.peer_pid)
            == (slot.region, slot.ring_bytes_in, slot.peer_pid);
        let still = same && now.reader == slot.reader;
        if !still && attempt < ATTEMPTS {
            slot = now;
            continue;
        }
        let Some((found, control, forwarded)) = surveyed else {
            return unreadable(&slot, "its ring is not where the node says");
        };
        let mut waiting = waiting(&slot, &found, control, !still);
        waiting.outgoing = forwarded.filter(|_| slot.remote.is_some()).and_then(|it| {
            let stand_in = open_segment(segments, pid, it.fd_number).ok()?;
            outgoing(&stand_in, &slot, it, control.credit_lines)
        });
        return Some(Queue::new(&slot, Content::Read(Box::new(waiting))));
    }
    None
}

/// Memory of rings that a process has under this descriptor, which is mapped once.
fn open_segment(
    segments: &mut Segments,
    pid: i32,
    fd_number: u32,
) -> std::result::Result<Region, String> {
    let open = || {
        let fd = i32::try_from(fd_number).map_err(|_| "no such descriptor".to_owned())?;
        open_arena(pid, fd).map_err(|error| error.to_string())
    };
    segments.entry(fd_number).or_insert_with(open).clone()
}

/// What lies in the stand-in of a ring of another host, of which the peer has taken `credit` lines; `None` if it does
/// not lie there.
fn outgoing(
    segment: &Region,
    slot: &SlotCopy,
    forwarded: Forwarded,
    credit_lines: u64,
) -> Option<Outgoing> {
    let ring_bytes = slot.ring_bytes_out as usize;
    let offset = usize::try_from(forwarded.offset_bytes).ok()?;
    let from = |line| {
        let window = segment.window(offset, region_bytes(ring_bytes))?;
        let found = survey(window, ring_bytes, line, 0)?;
        Some(Amount {
            frames: found.frames,
            payload_bytes: found.payload_bytes,
        })
    };
    // In this order: what is sent meanwhile counts as under way.
    let (all, waiting) = (from(credit_lines)?, from(forwarded.sent_lines)?);
    Some(Outgoing {
        ring_bytes: slot.ring_bytes_out,
        waiting,
        under_way: Amount {
            frames: all.frames.saturating_sub(waiting.frames),
            payload_bytes: all.payload_bytes.saturating_sub(waiting.payload_bytes),
        },
    })
}

fn survey_region(
    segment: &Region,
    slot: &SlotCopy,
    frames_max: usize,
) -> Option<(Survey, Control, Option<Forwarded>)> {
    let offset = usize::try_from(slot.region?.offset_bytes).ok()?;
    let ring_bytes = slot.ring_bytes_in as usize;
    let window = segment.window(offset, region_bytes(ring_bytes))?;
    let (control, forwarded) = (Control::read(&window), Forwarded::read(&window));
    let found = survey(window, ring_bytes, slot.reader, frames_max)?;
    Some((found, control, forwarded))
}

fn waiting(slot: &SlotCopy, found: &Survey, control: Control, moved: bool) -> Waiting {
    let place = slot.region;
    Waiting {
        region_fd: place.map_or(0, |place| place.fd_number),
        region_offset_bytes: place.map_or(0, |place| place.offset_bytes),
        tail_line: slot.reader,
        head_line: found.head,
        used_lines: found.head.saturating_sub(slot.reader),
        frames: found.frames,
        payload_bytes: found.payload_bytes,
        headers: found.headers.iter().map(HeaderDump::from).collect(),
        fault: match found.ending {
            Ending::Broken(violation) => Some(violation.to_string()),
            Ending::Published | Ending::Moving => None,
        },
        moving: moved || found.ending == Ending::Moving,
        peer: control.into(),
        outgoing: None,
    }
}

fn text(process: &ProcessDump) -> String {
    let (pid, comm, uid) = (process.pid, &process.comm, process.uid);
    let mut out = format!("process {pid} ({comm}), user {uid}\n");
    for node in &process.nodes {
        out += &format!("\nnode {:.8}\n", node.node);
        if node.queues.is_empty() && node.queues_more == 0 {
            out += "  no queues\n";
        }
        out.extend(node.queues.iter().map(queue_text));
        if node.queues_more > 0 {
            out += &format!("  and {} more queues\n", node.queues_more);
        }
    }
    out
}

fn queue_text(queue: &Queue) -> String {
    // For another host this process itself speaks.
    let peer = match &queue.peer_host {
        Some(host) => format!("host {}", host.escape_debug()),
        None => format!("process {} of user {}", queue.peer_pid, queue.peer_uid),
    };
    let (number, name) = (queue.connection, queue.name.escape_debug());
    let mut out = format!("  connection {number} \"{name}\" from {peer}\n");
    match &queue.content {
        Content::Unreadable { unreadable } => out += &format!("    unreadable: {unreadable}\n"),
        Content::Read(waiting) => out += &waiting_text(queue, waiting),
    }
    out
}

fn waiting_text(queue: &Queue, waiting: &Waiting) -> String {
    let mut out = format!(
        "    ring {}, {} of {} lines in use: tail {}, head {}; byte {} of descriptor {}\n",
        bytes(queue.ring_bytes.into()),
        waiting.used_lines,
        queue.capacity_lines,
        waiting.tail_line,
        waiting.head_line,
        waiting.region_offset_bytes,
        waiting.region_fd,
    );
    out += &format!("    {}\n", peer_text(&waiting.peer));
    let (frames, payload) = (waiting.frames, waiting.payload_bytes);
    out += &format!("    waiting: {frames} frames, {payload} bytes\n");
    if !waiting.headers.is_empty() {
        out += &headers_table(&waiting.headers);
    }
    let hidden = waiting.frames - waiting.headers.len() as u64;
    if hidden > 0 {
        out += &format!("      and {hidden} more frames\n");
    }
    if let Some(outgoing) = &waiting.outgoing {
        out += &outgoing_text(outgoing);
    }
    if let Some(fault) = &waiting.fault {
        out += &format!("    behind them a header that no reader would take: {fault}\n");
    }
    if waiting.moving {
        out += "    (it went on while it was read: not all is of one moment)\n";
    }
    out
}

fn outgoing_text(outgoing: &Outgoing) -> String {
    let amount = |it: Amount| format!("{} frames, {} bytes", it.frames, it.payload_bytes);
    format!(
        "    sent to that host, ring {}: waiting here {}; under way or not taken there {}\n",
        bytes(outgoing.ring_bytes.into()),
        amount(outgoing.waiting),
        amount(outgoing.under_way),
    )
}

fn peer_text(peer: &Words) -> String {
    let is = |said: bool, word: &str| match said {
        true => word.to_owned(),
        false => format!("not {word}"),
    };
    let state = match (peer.finished, peer.deaf) {
        (false, false) => "open",
        (true, false) => "finished sending",
        (false, true) => "reads no more",
        (true, true) => "finished sending, reads no more",
    };
    format!(
        "peer: {state}; credit {} lines of what it was sent; {}, {}",
        peer.credit_lines,
        is(peer.armed, "armed"),
        is(peer.starved, "starved"),
    )
}

fn headers_table(headers: &[HeaderDump]) -> String {
    let heading = ["position", "kind", "offset", "bytes"].map(str::to_owned);
    let line = |header: &HeaderDump| {
        vec![
            header.position_line.to_string(),
            header.kind.to_owned(),
            header.offset_bytes.to_string(),
            header.len_bytes.to_string(),
        ]
    };
    let lines: Vec<_> = std::iter::once(heading.to_vec())
        .chain(headers.iter().map(line))
        .collect();
    in_columns(&lines, &[1], "      ")
}

#[cfg(test)]
mod tests {
    use barewire_fabric::frame::{CONTROL_BYTES, pack};
    use barewire_shm::counters::RegionPlace;

    use super::*;

    fn slot(ring_bytes_in: u32, offset_bytes: u64, reader: u64) -> SlotCopy {
        SlotCopy {
            state: 1,
            connection: 3,
            peer_connection: None,
            peer_pid: 4,
            peer_uid: 5,
            remote: None,
            ring_bytes_out: 0,
            ring_bytes_in,
            region: Some(RegionPlace {
                fd_number: 9,
                offset_bytes,
            }),
            reader,
            counters: [0; 6],
            name: "a\x1b[31mname".to_owned(),
        }
    }

    #[test]
    fn a_crafted_ring_is_shown() {
        let segment = Region::private(8192);
        let memory = segment.whole();
        let at = |line: usize| 1024 + CONTROL_BYTES + line * LINE_BYTES;
        memory.atomic_store(at(2), pack(Kind::Whole, 8, 40, 2));
        memory.atomic_store(at(3), pack(Kind::More, 64, 64, 3));
        memory.atomic_store(at(5), 0xffff_ffff);
        let slot = slot(1024, 1024, 2);
        let (found, control, forwarded) = survey_region(&segment, &slot, 1).unwrap();
        assert_eq!(forwarded, None);
        let waiting = waiting(&slot, &found, control, false);
        assert_eq!(
            (waiting.tail_line, waiting.head_line, waiting.frames),
            (2, 5, 2)
        );
        assert_eq!(waiting.payload_bytes, 104);
        let queue = Queue::new(&slot, Content::Read(Box::new(waiting)));
        let shown = queue_text(&queue);
        for words in [
            "2 frames, 104 bytes",
            "3 of 16 lines",
            "whole",
            "1 more frames",
            "no reader",
        ] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        assert!(!shown.contains('\x1b'), "{shown:?}");
        let value = serde_json::to_value(&queue).unwrap();
        assert_eq!(value["headers"][0]["kind"], "whole");
        assert_eq!(value["headers"][0]["position_line"], 2);
        assert!(value["fault"].is_string());
    }

    #[test]
    fn what_was_sent_to_another_host_is_told_from_what_waits() {
        let segment = Region::private(8192);
        let memory = segment.whole();
        let at = |line: usize| 1024 + CONTROL_BYTES + line * LINE_BYTES;
        for (line, len_bytes) in [(2, 40), (3, 50), (4, 56)] {
            memory.atomic_store(at(line), pack(Kind::Whole, 8, len_bytes, line as u64));
        }
        let mut slot = slot(1024, 0, 0);
        slot.ring_bytes_out = 1024;
        let forwarded = Forwarded {
            fd_number: 9,
            offset_bytes: 1024,
            sent_lines: 3,
        };
        let region = segment.window(4096, region_bytes(1024)).unwrap();
        forwarded.write(&region);
        assert_eq!(Forwarded::read(&region), Some(forwarded));
        let found = outgoing(&segment, &slot, forwarded, 2).unwrap();
        let amount = |frames, payload_bytes| Amount {
            frames,
            payload_bytes,
        };
        assert_eq!(
            (found.waiting, found.under_way),
            (amount(2, 106), amount(1, 40))
        );
        let shown = outgoing_text(&found);
        assert!(
            shown.contains("waiting here 2 frames, 106 bytes"),
            "{shown}"
        );
        Forwarded::clear(&region);
        assert_eq!(Forwarded::read(&region), None);
        let nowhere = Forwarded {
            offset_bytes: 8192,
            ..forwarded
        };
        assert!(outgoing(&segment, &slot, nowhere, 2).is_none());
    }

    #[test]
    fn places_and_sizes_that_are_no_ring_are_refused() {
        let segment = Region::private(8192);
        for (ring_bytes, offset) in [
            (1024, 8192),
            (1024, 7168),
            (1024, u64::MAX - 63),
            (8192, 0),
            (1000, 0),
            (0, 0),
            (u32::MAX, 0),
        ] {
            let slot = slot(ring_bytes, offset, u64::MAX);
            assert!(
                survey_region(&segment, &slot, 1).is_none(),
                "{ring_bytes} at {offset}"
            );
        }
    }
}
