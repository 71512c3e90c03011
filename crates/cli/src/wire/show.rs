//! A tree of fields as lines for people, or as JSON.
//!
//! Lines: bits (first and last, counted from the first bit of the input), name indented by
//! its depth, value, meaning. A `!` marks a field that is wrong; why stands below it.

use std::ops::Range;

use barewire_report::columns::in_columns;
use barewire_wire::Error;
use barewire_wire::tree::{Sink, Value};
use serde_json::{Value as Json, json};

/// Bytes of a field that are shown where not all are asked for.
const BYTES_SHOWN: usize = 16;

/// What a field holds, kept.
#[derive(Clone, Debug)]
enum Held {
    Group,
    Uint(u64),
    Hex(u64),
    Code(u64, String),
    Flag(bool),
    Bytes(Vec<u8>),
}

/// A group or a field.
#[derive(Clone, Debug)]
pub struct Node {
    depth: usize,
    /// As the format names it.
    pub name: String,
    /// Where it stands in the input.
    pub bits: Range<usize>,
    held: Held,
    /// What is wrong with it.
    faults: Vec<Error>,
}

/// Collects what a format shows of itself.
#[derive(Debug, Default)]
pub struct Tree {
    nodes: Vec<Node>,
    depth: usize,
    /// Where the last outermost group begins.
    outermost: usize,
    fault_count: usize,
}

impl Sink for Tree {
    fn open(&mut self, name: &str, bits: Range<usize>) {
        if self.depth == 0 {
            self.outermost = self.nodes.len();
        }
        self.push(name, bits, Held::Group);
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn field(&mut self, name: &str, bits: Range<usize>, value: Value<'_>) {
        let held = match value {
            Value::Uint(number) => Held::Uint(number),
            Value::Hex(number) => Held::Hex(number),
            Value::Code(number, meaning) => Held::Code(number, meaning.to_owned()),
            Value::Flag(on) => Held::Flag(on),
            Value::Bytes(bytes) => Held::Bytes(bytes.to_vec()),
            _ => return,
        };
        self.push(name, bits, held);
    }

    fn wrong(&mut self, error: Error) {
        self.fault_count += 1;
        let place = self.place_of(&error).unwrap_or_else(|| {
            // What is missing has a line of its own, without a value.
            let bits = error.first_bit..error.first_bit + error.bit_count;
            self.push(error.field, bits, Held::Group);
            self.nodes.len() - 1
        });
        self.nodes[place].faults.push(error);
    }
}

impl Tree {
    fn push(&mut self, name: &str, bits: Range<usize>, held: Held) {
        self.nodes.push(Node {
            depth: self.depth,
            name: name.to_owned(),
            bits,
            held,
            faults: Vec::new(),
        });
    }

    /// The node that an error is about: the last field of the outermost group with its
    /// bits, or else the last one that shares some with it.
    fn place_of(&self, error: &Error) -> Option<usize> {
        let bits = error.first_bit..error.first_bit + error.bit_count;
        let is_field = |node: &Node| !matches!(node.held, Held::Group);
        let same = |node: &Node| node.bits == bits && is_field(node);
        let shares = |node: &Node| {
            node.bits.start < bits.end && bits.start < node.bits.end && is_field(node)
        };
        let nodes = &self.nodes[self.outermost..];
        let place = nodes.iter().rposition(same);
        let place = place.or_else(|| nodes.iter().rposition(shares))?;
        Some(self.outermost + place)
    }

    /// How many things are wrong.
    pub fn fault_count(&self) -> usize {
        self.fault_count
    }

    /// What is wrong, in the order of the fields.
    pub fn faults(&self) -> impl Iterator<Item = &Error> {
        self.nodes.iter().flat_map(|node| &node.faults)
    }

    /// The fields, without the groups that they stand in.
    pub fn fields(&self) -> impl Iterator<Item = &Node> {
        let is_field = |node: &&Node| !matches!(node.held, Held::Group);
        self.nodes.iter().filter(is_field)
    }

    /// The tree as lines; `all_bytes` shows fields of bytes to their end.
    pub fn text(&self, all_bytes: bool) -> String {
        let mut lines = vec![
            ["", "bits", "field", "value", ""]
                .map(str::to_owned)
                .to_vec(),
        ];
        let mut reasons = Vec::new();
        for node in &self.nodes {
            let row = lines.len();
            reasons.extend(node.faults.iter().map(|fault| (row, fault.to_string())));
            let [value, meaning] = node.shown(all_bytes);
            let mark = if node.faults.is_empty() { "" } else { "!" };
            let name = format!("{}{}", "  ".repeat(node.depth), node.name);
            lines.push(vec![
                mark.to_owned(),
                node.bits_shown(),
                name,
                value,
                meaning,
            ]);
            if all_bytes {
                node.dump(&mut lines);
            }
        }
        let table = in_columns(&lines, &[0, 1, 2, 3, 4], "");
        with_reasons(&table, &reasons)
    }

    /// The tree as JSON: groups have `fields`, fields have `value`, both may have `faults`.
    pub fn json(&self) -> Json {
        let mut nodes = self.nodes.iter().peekable();
        json!({ "faults": self.fault_count, "fields": json_level(&mut nodes, 0) })
    }
}

/// Puts each reason below the line of the table that it belongs to.
fn with_reasons(table: &str, reasons: &[(usize, String)]) -> String {
    let mut out = String::new();
    let mut reasons = reasons.iter().peekable();
    for (row, line) in table.lines().enumerate() {
        out += line;
        out.push('\n');
        while let Some((_, reason)) = reasons.next_if(|(of, _)| *of == row) {
            out += "!    ";
            out += reason;
            out.push('\n');
        }
    }
    out
}

impl Node {
    fn bits_shown(&self) -> String {
        match self.bits.len() {
            0 => String::new(),
            1 => self.bits.start.to_string(),
            _ => format!("{}-{}", self.bits.start, self.bits.end - 1),
        }
    }

    /// Value and meaning; of bytes the first, and a sign that there are more unless they
    /// follow.
    fn shown(&self, all_bytes: bool) -> [String; 2] {
        match &self.held {
            Held::Group => [String::new(), String::new()],
            Held::Uint(number) => [number.to_string(), String::new()],
            Held::Hex(number) => [self.hex(*number), String::new()],
            Held::Code(number, meaning) => [number.to_string(), meaning.clone()],
            Held::Flag(on) => [u8::from(*on).to_string(), String::new()],
            Held::Bytes(bytes) => {
                let is_cut = bytes.len() > BYTES_SHOWN && !all_bytes;
                let first = spaced(&bytes[..bytes.len().min(BYTES_SHOWN)]);
                let meaning = if is_cut { first + " ..." } else { first };
                [counted(bytes.len(), "byte"), meaning]
            }
        }
    }

    fn hex(&self, number: u64) -> String {
        let digits = self.bits.len().div_ceil(4).max(1);
        format!("0x{number:0digits$x}")
    }

    /// The bytes that do not fit behind the name.
    fn dump(&self, lines: &mut Vec<Vec<String>>) {
        let Held::Bytes(bytes) = &self.held else {
            return;
        };
        for (row, chunk) in bytes.chunks(BYTES_SHOWN).enumerate().skip(1) {
            let at = format!("{}+{}", "  ".repeat(self.depth), row * BYTES_SHOWN);
            let blank = String::new;
            lines.push(vec![blank(), blank(), at, blank(), spaced(chunk)]);
        }
    }

    fn json(&self) -> Json {
        let mut object = json!({
            "name": self.name,
            "first_bit": self.bits.start,
            "bits": self.bits.len(),
        });
        match &self.held {
            Held::Group => {}
            Held::Uint(number) | Held::Hex(number) => object["value"] = json!(number),
            Held::Code(number, meaning) => {
                object["value"] = json!(number);
                object["meaning"] = json!(meaning);
            }
            Held::Flag(on) => object["value"] = json!(on),
            Held::Bytes(bytes) => object["value"] = json!(hex(bytes)),
        }
        if !self.faults.is_empty() {
            object["faults"] = self.faults.iter().map(json_fault).collect();
        }
        object
    }
}

fn json_level<'a>(
    nodes: &mut std::iter::Peekable<impl Iterator<Item = &'a Node>>,
    depth: usize,
) -> Json {
    let mut fields = Vec::new();
    while let Some(node) = nodes.next_if(|node| node.depth >= depth) {
        let mut object = node.json();
        if matches!(node.held, Held::Group) {
            object["fields"] = json_level(nodes, depth + 1);
        }
        fields.push(object);
    }
    Json::Array(fields)
}

/// A fault as JSON.
pub fn json_fault(fault: &Error) -> Json {
    json!({
        "format": fault.format,
        "field": fault.field,
        "first_bit": fault.first_bit,
        "bits": fault.bit_count,
        "reason": fault.fault.to_string(),
    })
}

fn spaced(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(" ")
}

/// Bytes as hexadecimal digits without gaps.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A number and what it counts.
pub fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
