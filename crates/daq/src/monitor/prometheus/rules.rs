//! The rules of the text format of Prometheus, of OpenMetrics 1.0 and of `promtool check metrics`, as far
//! as what is told here can break them. For tests.

use std::collections::{BTreeMap, BTreeSet};

use super::Format;

/// What a family has so far.
#[derive(Default)]
struct Family {
    kind: String,
    help: bool,
    unit: Option<String>,
    samples: Vec<Sample>,
}

struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// Units that are no base units, and kinds, at the end of a name or of its part.
const NO_WORDS: &[&str] = &[
    "ns",
    "us",
    "ms",
    "nanoseconds",
    "microseconds",
    "milliseconds",
    "minutes",
    "hours",
    "days",
    "kilobytes",
    "megabytes",
    "kb",
    "mb",
    "kib",
    "mib",
    "bits",
    "percent",
    "counter",
    "gauge",
    "histogram",
];

/// All rules that `text` breaks.
pub fn broken(text: &str, format: Format) -> Vec<String> {
    let mut reader = Reader {
        is_open: format != Format::Prometheus,
        families: BTreeMap::new(),
        order: Vec::new(),
        faults: Vec::new(),
    };
    reader.read(text);
    reader.judge();
    reader.faults
}

struct Reader {
    is_open: bool,
    families: BTreeMap<String, Family>,
    /// As they begin.
    order: Vec<String>,
    faults: Vec<String>,
}

impl Reader {
    fn fault(&mut self, what: impl Into<String>) {
        self.faults.push(what.into());
    }

    fn read(&mut self, text: &str) {
        if !text.is_empty() && !text.ends_with('\n') {
            self.fault("the last line does not end");
        }
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let is_last = at + 1 == lines.len();
            match line.strip_prefix("# ") {
                Some("EOF") if self.is_open && is_last => {}
                Some("EOF") => self.fault("EOF where it does not belong"),
                Some(rest) => self.metadata(rest),
                None if line.is_empty() && !self.is_open => {}
                None => self.sample(line),
            }
        }
        if self.is_open && lines.last() != Some(&"# EOF") {
            self.fault("no EOF at the end");
        }
    }

    /// The family of this name, which is to be the one that is being told.
    fn enter(&mut self, name: &str) -> &mut Family {
        if self.order.last().is_none_or(|it| it != name) {
            if self.families.contains_key(name) {
                self.fault(format!("{name}: not all in one place"));
            }
            self.order.push(name.to_owned());
        }
        self.families.entry(name.to_owned()).or_default()
    }

    fn metadata(&mut self, rest: &str) {
        let mut words = rest.splitn(3, ' ');
        let (what, name, value) = (words.next(), words.next(), words.next());
        let (Some(what), Some(name), Some(value)) = (what, name, value) else {
            return self.fault(format!("a comment of no kind: {rest}"));
        };
        if !is_name(name, true) {
            self.fault(format!("{name}: no name"));
        }
        let is_open = self.is_open;
        let family = self.enter(name);
        let mut fault = None;
        if !family.samples.is_empty() {
            fault = Some("comes after its samples");
        }
        let again = match what {
            "HELP" => core::mem::replace(&mut family.help, true),
            "TYPE" => !core::mem::replace(&mut family.kind, value.to_owned()).is_empty(),
            "UNIT" if is_open => family.unit.replace(value.to_owned()).is_some(),
            _ => {
                fault = Some("is of no kind");
                false
            }
        };
        if again {
            fault = Some("is told twice");
        }
        if what == "HELP" && value.trim().is_empty() {
            fault = Some("is empty");
        }
        let kinds = ["counter", "gauge", "histogram"];
        if what == "TYPE" && !kinds.contains(&value) {
            fault = Some("is not known");
        }
        if let Some(fault) = fault {
            self.fault(format!("{name}: its {what} {fault}"));
        }
    }

    /// The family that a sample is of.
    fn family_of(&self, name: &str) -> Option<String> {
        let endings: &[&str] = match self.is_open {
            true => &["", "_total", "_created", "_bucket", "_sum", "_count"],
            false => &["", "_bucket", "_sum", "_count"],
        };
        let stems = endings.iter().filter_map(|it| name.strip_suffix(it));
        let known = stems.filter(|it| self.families.contains_key(*it));
        // The one that is being told first.
        known
            .max_by_key(|it| self.order.last().is_some_and(|last| last == it))
            .map(str::to_owned)
    }

    fn sample(&mut self, line: &str) {
        let Some(sample) = parse(line) else {
            return self.fault(format!("no sample: {line:?}"));
        };
        let Some(family) = self.family_of(&sample.name) else {
            return self.fault(format!("{}: no TYPE before it", sample.name));
        };
        self.enter(&family).samples.push(sample);
    }

    fn judge(&mut self) {
        let mut faults = Vec::new();
        let mut names = BTreeSet::new();
        for (name, family) in &self.families {
            let mut say = |what: &str| faults.push(format!("{name}: {what}"));
            if !family.help {
                say("has no HELP");
            }
            if family.kind.is_empty() {
                say("has no TYPE");
            }
            if name.split('_').any(|it| NO_WORDS.contains(&it)) {
                say("no base unit, or a kind, in the name");
            }
            let ends_total = name.ends_with("_total");
            if ends_total != (family.kind == "counter" && !self.is_open) {
                say("_total is for counters");
            }
            if let Some(unit) = family.unit.as_ref().filter(|it| !it.is_empty()) {
                if !name.ends_with(&format!("_{unit}")) {
                    say("does not end with its unit");
                }
            }
            let base = name.trim_end_matches("_total");
            if self.is_open && family.unit.is_none() {
                let has_unit = ["seconds", "bytes"].iter().any(|it| base.ends_with(it));
                if has_unit {
                    say("has no UNIT");
                }
            }
            let mut seen = BTreeSet::new();
            for sample in &family.samples {
                if !seen.insert((sample.name.clone(), sample.labels.clone())) {
                    say("a sample is told twice");
                }
                let ending = &sample.name[name.len()..];
                let is_right = match (family.kind.as_str(), ending) {
                    ("counter", "_total" | "_created") => self.is_open,
                    ("counter", "") => !self.is_open,
                    ("gauge", "") => true,
                    ("histogram", "_bucket" | "_sum" | "_count") => true,
                    _ => false,
                };
                if !is_right {
                    say("a sample has a wrong ending");
                }
                let counts = family.kind == "counter" || family.kind == "histogram";
                if counts && (sample.value.is_nan() || sample.value < 0.0) {
                    say("counts below 0");
                }
                if sample.labels.contains_key("le") != (ending == "_bucket") {
                    say("le is for buckets");
                }
            }
            if family.kind == "histogram" {
                histogram(&family.samples, self.is_open, &mut say);
            }
            // What OpenMetrics keeps for this family, whatever it has.
            for ending in ["", "_total", "_created", "_bucket", "_count", "_sum"] {
                let is_own = ending.is_empty()
                    || match family.kind.as_str() {
                        "counter" => matches!(ending, "_total" | "_created"),
                        "histogram" => ending != "_total",
                        _ => false,
                    };
                if is_own && !names.insert(format!("{base}{ending}")) {
                    say("another family has its names");
                }
            }
        }
        self.faults.extend(faults);
    }
}

fn histogram(samples: &[Sample], is_open: bool, say: &mut impl FnMut(&str)) {
    /// Buckets with their bounds; sum and count.
    type Series = (Vec<(f64, f64)>, [Option<f64>; 2]);
    let mut series: BTreeMap<BTreeMap<String, String>, Series> = BTreeMap::new();
    for sample in samples {
        let mut labels = sample.labels.clone();
        let bound = labels.remove("le");
        let (buckets, [sum, count]) = series.entry(labels).or_default();
        if let Some(bound) = bound {
            let is_canonical = bound == "+Inf" || bound.contains('.') || bound.contains('e');
            if is_open && !is_canonical {
                say("a bound has no point");
            }
            buckets.push((bound.parse().unwrap_or(f64::NAN), sample.value));
        } else if sample.name.ends_with("_sum") {
            *sum = Some(sample.value);
        } else {
            *count = Some(sample.value);
        }
    }
    for (buckets, [sum, count]) in series.values() {
        if !buckets
            .windows(2)
            .all(|it| it[0].0 < it[1].0 && it[0].1 <= it[1].1)
        {
            say("buckets do not ascend");
        }
        let last = buckets.last();
        if last.is_none_or(|it| it.0 != f64::INFINITY) {
            say("no bucket for +Inf");
        }
        if sum.is_none() || *count != last.map(|it| it.1) {
            say("sum or count is not there or wrong");
        }
    }
}

fn is_name(text: &str, with_colon: bool) -> bool {
    let is_letter = |it: u8| it.is_ascii_alphabetic() || it == b'_' || (with_colon && it == b':');
    let mut bytes = text.bytes();
    bytes.next().is_some_and(is_letter) && bytes.all(|it| is_letter(it) || it.is_ascii_digit())
}

/// `name{label="value",...} number`.
fn parse(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let end = unescaped_quote(after)?;
            let is_good = is_name(label, false) && !label.starts_with("__");
            if !is_good
                || labels
                    .insert(label.to_owned(), after[..end].to_owned())
                    .is_some()
            {
                return None;
            }
            rest = &after[end + 1..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ')?.parse().ok()?;
    let name = is_name(name, true).then(|| name.to_owned())?;
    Some(Sample {
        name,
        labels,
        value,
    })
}

/// Where a label's value ends; `None` too if something is escaped that cannot be.
fn unescaped_quote(text: &str) -> Option<usize> {
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some(at),
            '\\' => drop(
                letters
                    .next()
                    .filter(|it| matches!(it.1, '\\' | '"' | 'n'))?,
            ),
            _ => {}
        }
    }
    None
}

#[test]
fn what_breaks_a_rule_is_found() {
    let good = "# HELP a Of a.\n# TYPE a gauge\na{b=\"c\\\"\\n\"} 1\na 2.5\n";
    assert_eq!(broken(good, Format::Prometheus), [""; 0]);
    assert_eq!(
        broken(&format!("{good}# EOF\n"), Format::OpenMetrics),
        [""; 0]
    );
    let counter = "# HELP a_total A.\n# TYPE a_total counter\na_total 1\n";
    assert_eq!(broken(counter, Format::Prometheus), [""; 0]);
    let histogram = "# HELP h_bytes A.\n# TYPE h_bytes histogram\nh_bytes_bucket{le=\"1\"} 1\n\
                     h_bytes_bucket{le=\"+Inf\"} 2\nh_bytes_sum 3\nh_bytes_count 2\n";
    assert_eq!(broken(histogram, Format::Prometheus), [""; 0]);
    let changed = |text: &str, from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    };
    let b = "# HELP b B.\n# TYPE b gauge\nb 1\n";
    for (text, what) in [
        (good.trim_end().to_owned(), "does not end"),
        (format!("{good}# EOF\n"), "EOF where it does not belong"),
        (changed(good, "# HELP a Of a.\n", ""), "has no HELP"),
        (changed(good, "Of a.", " "), "is empty"),
        (changed(good, "# TYPE a gauge\n", ""), "has no TYPE"),
        (changed(good, "gauge", "gage"), "not known"),
        (
            changed(good, "gauge\n", "gauge\n# TYPE a gauge\n"),
            "told twice",
        ),
        (
            changed(good, "# HELP a Of a.\n", "") + "# HELP a A.\n",
            "after its samples",
        ),
        (format!("{good}{b}a 7\n"), "not all in one place"),
        (format!("{good}a 3\n"), "told twice"),
        (format!("{good}c 3\n"), "no TYPE before it"),
        (format!("{good}a{{d=\"1\",d=\"2\"}} 3\n"), "no sample"),
        (format!("{good}a{{__d=\"1\"}} 3\n"), "no sample"),
        (format!("{good}a{{d=\"\\x\"}} 3\n"), "no sample"),
        (format!("{good}a x\n"), "no sample"),
        (format!("{good}a{{le=\"1\"}} 3\n"), "le is for buckets"),
        (
            good.replace("a{", "a_total{")
                .replace("a 2", "a_total 2")
                .replace(" a ", " a_total "),
            "_total is for counters",
        ),
        (counter.replace("a_total", "a"), "_total is for counters"),
        (changed(counter, "a_total 1", "a_total -1"), "below 0"),
        (changed(counter, "a_total 1", "a_total NaN"), "below 0"),
        (counter.replace("a_total", "a_ms_total"), "no base unit"),
        (format!("{counter}{good}"), "another family has its names"),
        (changed(histogram, "+Inf", "5"), "no bucket for +Inf"),
        (changed(histogram, "} 1", "} 3"), "do not ascend"),
        (changed(histogram, "count 2", "count 3"), "sum or count"),
        (changed(histogram, "h_bytes_sum 3\n", ""), "sum or count"),
    ] {
        let faults = broken(&text, Format::Prometheus);
        assert!(
            faults.iter().any(|it| it.contains(what)),
            "{what}: {faults:?} of\n{text}"
        );
    }
    let open = |text: &str| broken(text, Format::OpenMetrics);
    for (text, what) in [
        (good.to_owned(), "no EOF at the end"),
        (
            format!("# EOF\n{good}# EOF\n"),
            "EOF where it does not belong",
        ),
        (format!("{good}\n# EOF\n"), "no sample"),
        (format!("{counter}# EOF\n"), "_total is for counters"),
        (
            counter
                .replace("# HELP a_total", "# HELP a")
                .replace("# TYPE a_total", "# TYPE a")
                .replace("\na_total", "\na")
                + "# EOF\n",
            "wrong ending",
        ),
        (format!("{histogram}# EOF\n"), "a bound has no point"),
        (format!("{histogram}# EOF\n"), "has no UNIT"),
        (
            changed(good, "gauge\n", "gauge\n# UNIT a bytes\n") + "# EOF\n",
            "does not end with its unit",
        ),
    ] {
        let faults = open(&text);
        assert!(
            faults.iter().any(|it| it.contains(what)),
            "{what}: {faults:?} of\n{text}"
        );
    }
}
