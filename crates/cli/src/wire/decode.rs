//! `barewire wire decode`: the fields of bytes as a tree, and what is wrong with them.

use barewire_report::columns::print;
use barewire_wire::capture::Reader;
use barewire_wire::tree::Sink;
use clap::Args;

use super::content;
use super::error::{Result, Verdict, WireError};
use super::input::{self, Input};
use super::kind::Kind;
use super::show::{Tree, counted};

/// Show the fields of bytes as a tree, with bit positions, and what is wrong with them
#[derive(Clone, Debug, Args)]
pub struct DecodeArgs {
    /// A file of raw bytes, a text file of hex, a pcap or pcapng file, `-` for standard input,
    /// or the bytes themselves in hex
    #[arg(value_name = "FILE|HEX")]
    pub input: String,
    /// Format of the bytes; the packets of a capture name theirs
    #[arg(long = "as", value_name = "KIND")]
    pub kind: Option<Kind>,
    /// The file is raw bytes, whatever it looks like
    #[arg(long)]
    pub raw: bool,
    /// Show all bytes of long fields
    #[arg(long)]
    pub bytes: bool,
    /// Show only packet N of a capture, counted from 1
    #[arg(long, value_name = "N")]
    pub packet: Option<usize>,
    /// Print JSON: one object
    #[arg(long)]
    pub json: bool,
}

/// Decodes and prints; the verdict says whether anything was wrong.
pub fn run(args: &DecodeArgs) -> Result<Verdict> {
    let mut tree = Tree::default();
    match (input::read(&args.input, args.raw)?, args.kind) {
        (Input::Bytes(_), _) if args.packet.is_some() => {
            return Err(WireError::NoCapture(args.input.clone()));
        }
        (Input::Bytes(bytes), Some(kind)) => kind.describe(&bytes, 0, &mut tree),
        (Input::Bytes(_), None) => return Err(WireError::NoKind),
        (Input::Capture(file), Some(Kind::Capture)) => {
            Kind::Capture.describe(&file, 0, &mut tree);
        }
        (Input::Capture(file), kind) => capture(args, &file, kind, &mut tree)?,
    }
    let text = if args.json {
        format!("{:#}\n", tree.json())
    } else {
        tree.text(args.bytes) + &summary(&tree)
    };
    print(&text)?;
    Ok(Verdict::of(tree.fault_count()))
}

fn capture(args: &DecodeArgs, file: &[u8], kind: Option<Kind>, tree: &mut Tree) -> Result<()> {
    let mut count = 0;
    for packet in Reader::new(file) {
        match packet {
            Ok(packet) => {
                count += 1;
                if args.packet.is_none_or(|wanted| wanted == count) {
                    content::describe(count, &packet, kind, tree);
                }
            }
            Err(error) => tree.wrong(error),
        }
    }
    match args.packet {
        Some(wanted) if wanted == 0 || wanted > count => Err(WireError::NoPacket(wanted, count)),
        _ => Ok(()),
    }
}

fn summary(tree: &Tree) -> String {
    match tree.fault_count() {
        0 => String::new(),
        faults => format!("{} wrong\n", counted(faults, "thing")),
    }
}
