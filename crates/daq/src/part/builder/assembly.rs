//! Fragments that come in pieces: put together, checked, and kept until their event is closed.

use std::collections::BTreeMap;

use barewire_proto::evb::{Builder, Fate, Fragment, SourceId};

use super::super::read_batch;
use crate::config::{Config, Shape, SinkKind, SourceKind};
use crate::generate::Generator;
use crate::net::Incoming;
use crate::record::Stored;
use crate::spread::Spreads;
use crate::wire::{Control, PIECE_HEADER_BYTES, PieceHeader, WireError, is_control};

/// Copied, checked and verified at a time: what stays in the nearest cache.
const CHUNK_BYTES: usize = 16 << 10;
/// A larger piece is looked at in chunks.
const WHOLE_BYTES: usize = 4 << 10;
/// A fragment of which more pieces are to come.
#[derive(Default)]
struct Partial {
    bytes: u64,
    broken: bool,
    data: Vec<u8>,
}

/// What is made of pieces.
pub(super) struct Assembly {
    /// Events go to a sink.
    pub keeps: bool,
    /// Fragments hold what the generator makes.
    generated: bool,
    generator: Generator,
    run: u32,
    partial: BTreeMap<(SourceId, u64), Partial>,
    /// Whole fragments of open events, if they are recorded.
    pub stored: BTreeMap<u64, Vec<Stored>>,
    /// Pieces that do not hold what the generator makes.
    pub mismatched: u64,
    /// Fragments whose size is not that which the generator makes.
    pub wrong_size: u64,
    /// Sizes are looked at: where they cost nothing to know, or may be wrong.
    knows_sizes: bool,
    /// Fragments of which only a part came.
    pub cut: u64,
    pub spreads: Spreads,
    chunk: Vec<u8>,
}

impl Assembly {
    pub fn new(config: &Config, run: u32) -> Self {
        Self {
            keeps: config.sink != SinkKind::Discard,
            generated: config.source_kind == SourceKind::Generator,
            generator: Generator::new(config.sizes, config.seed),
            run,
            partial: BTreeMap::new(),
            stored: BTreeMap::new(),
            mismatched: 0,
            wrong_size: 0,
            knows_sizes: config.source_kind == SourceKind::Generator
                && (config.sizes.shape == Shape::Fixed || config.faults.any()),
            cut: 0,
            spreads: Spreads::default(),
            chunk: vec![0; CHUNK_BYTES],
        }
    }

    pub fn begin(&mut self, run: u32) {
        self.run = run;
        self.partial.clear();
        self.stored.clear();
        (self.mismatched, self.wrong_size, self.cut) = (0, 0, 0);
        self.spreads.clear();
    }

    /// Gives up what `source` has sent in part.
    pub fn forget(&mut self, source: SourceId) {
        let before = self.partial.len();
        self.partial.retain(|(from, _), _| *from != source);
        self.cut += (before - self.partial.len()) as u64;
    }

    /// Takes a message: full of pieces, or of what the source lacks.
    pub fn take(
        &mut self,
        now: barewire_units::Instant,
        core: &mut Builder,
        source: SourceId,
        message: &Incoming<'_>,
    ) -> Result<(), WireError> {
        let mut start = [0; 4];
        let start = &mut start[..message.len().min(4)];
        message.read(0, start);
        if is_control(start) {
            return take_lacks(now, core, source, message);
        }
        let mut chunk = core::mem::take(&mut self.chunk);
        let mut at = 0;
        let mut outcome = Ok(());
        while at < message.len() && outcome.is_ok() {
            let left = message.len() - at;
            let mut head = [0; PIECE_HEADER_BYTES];
            let head = &mut head[..PIECE_HEADER_BYTES.min(left)];
            message.read(at, head);
            let taken = header_of(head, source).and_then(|header| {
                let bytes = PIECE_HEADER_BYTES + header.bytes as usize;
                if header.bytes as usize > WHOLE_BYTES || bytes > left {
                    return self.take_long(now, core, message, at, &header, &mut chunk);
                }
                let there = &mut chunk[..CHUNK_BYTES.min(left)];
                message.read(at, there);
                self.take_some(now, core, source, there)
            });
            outcome = taken.map(|bytes| at += bytes);
        }
        self.chunk = chunk;
        outcome
    }

    /// Takes the small pieces at the beginning of `bytes`, of which one at least is whole; how
    /// many bytes they are.
    fn take_some(
        &mut self,
        now: barewire_units::Instant,
        core: &mut Builder,
        source: SourceId,
        bytes: &[u8],
    ) -> Result<usize, WireError> {
        let mut at = 0;
        while bytes.len() - at >= PIECE_HEADER_BYTES {
            let header = header_of(&bytes[at..], source)?;
            let start = at + PIECE_HEADER_BYTES;
            let count = header.bytes as usize;
            if count > WHOLE_BYTES {
                break;
            }
            let Some(body) = bytes.get(start..start + count) else {
                break;
            };
            let good = crate::wire::crc32c(body) == header.crc;
            self.verify(&header, u64::from(header.offset), body);
            self.piece_is_there(now, core, &header, good, body);
            at = start + count;
        }
        Ok(at)
    }

    /// Takes one piece, chunk by chunk; how many bytes it is with its header.
    fn take_long(
        &mut self,
        now: barewire_units::Instant,
        core: &mut Builder,
        message: &Incoming<'_>,
        at: usize,
        header: &PieceHeader,
        chunk: &mut [u8],
    ) -> Result<usize, WireError> {
        let start = at + PIECE_HEADER_BYTES;
        let bytes = header.bytes as usize;
        if start + bytes > message.len() {
            return Err(WireError::Short {
                what: "piece",
                found: message.len() - start,
                needed: bytes,
            });
        }
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        let mut data = Vec::with_capacity(if self.keeps { bytes } else { 0 });
        let mut done = 0;
        while done < bytes {
            let count = chunk.len().min(bytes - done);
            let part = &mut chunk[..count];
            message.read(start + done, part);
            digest.update(part);
            self.verify(header, u64::from(header.offset) + done as u64, part);
            if self.keeps {
                data.extend_from_slice(part);
            }
            done += count;
        }
        let good = digest.finalize() as u32 == header.crc;
        self.piece_is_there(now, core, header, good, &data);
        Ok(PIECE_HEADER_BYTES + bytes)
    }

    fn verify(&mut self, header: &PieceHeader, offset: u64, bytes: &[u8]) {
        if !self.generated {
            return;
        }
        let good = self
            .generator
            .verify(header.source, header.event, offset, bytes);
        self.mismatched += u64::from(!good);
    }

    fn piece_is_there(
        &mut self,
        now: barewire_units::Instant,
        core: &mut Builder,
        header: &PieceHeader,
        good: bool,
        body: &[u8],
    ) {
        let source = SourceId(header.source);
        let whole = header.bytes == header.fragment_bytes;
        let mut partial = match whole {
            true => Partial::default(),
            false => self
                .partial
                .remove(&(source, header.event))
                .unwrap_or_default(),
        };
        partial.broken |= !good || u64::from(header.offset) != partial.bytes;
        partial.bytes += u64::from(header.bytes);
        if !header.ends() {
            if self.keeps {
                partial.data.extend_from_slice(body);
            }
            self.partial.insert((source, header.event), partial);
            return;
        }
        let bytes = u64::from(header.fragment_bytes);
        if self.knows_sizes && bytes != self.generator.size(header.source, header.event) {
            self.wrong_size += 1;
            partial.broken = true;
        }
        let fate = core.handle_fragment(
            now,
            Fragment {
                run: header.run,
                event: header.event,
                source,
                sequence: header.sequence,
                bytes,
                intact: !partial.broken,
            },
        );
        if fate != Fate::Accepted {
            return;
        }
        self.spreads.fragment_bytes.note(bytes);
        if self.keeps {
            partial.data.extend_from_slice(body);
            self.stored.entry(header.event).or_default().push(Stored {
                source: header.source,
                at_ns: header.at_ns,
                data: partial.data,
            });
        }
    }
}

/// Takes what a source says of fragments that will not come.
fn take_lacks(
    now: barewire_units::Instant,
    core: &mut Builder,
    source: SourceId,
    message: &Incoming<'_>,
) -> Result<(), WireError> {
    for message in read_batch(message)? {
        let Control::Lack { run, events } = message else {
            continue;
        };
        // What a source said before it heard of a new run is not about that.
        let is_of_this_run = run == core.config().run;
        for event in events.into_iter().filter(|_| is_of_this_run) {
            core.handle_lack(now, event, source);
        }
    }
    Ok(())
}

fn header_of(bytes: &[u8], source: SourceId) -> Result<PieceHeader, WireError> {
    let header = PieceHeader::parse(bytes)?;
    if header.source != source.0 {
        return Err(WireError::Value {
            field: "source",
            value: u64::from(header.source),
        });
    }
    Ok(header)
}
