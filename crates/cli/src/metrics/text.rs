//! Metrics as text, by the rules of OpenMetrics 1.0
//! (<https://prometheus.io/docs/specs/om/open_metrics_spec/>).

use std::fmt::{Display, Write as _};

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until what it counts is gone.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts in buckets, that only grow.
    Histogram,
}

/// Labels of a sample, with their values.
pub type Labels = Vec<(&'static str, String)>;

/// Samples of one name.
#[derive(Clone, Debug)]
pub struct Family {
    /// Without `barewire_`; of a counter without `_total`.
    pub name: String,
    /// What kind it is.
    pub kind: Kind,
    /// One sentence.
    pub help: String,
    /// The end of the name, labels, and the number as text.
    samples: Vec<(&'static str, Labels, String)>,
}

impl Family {
    /// One without samples.
    pub fn new(name: impl Into<String>, kind: Kind, help: impl Into<String>) -> Family {
        Family {
            name: name.into(),
            kind,
            help: help.into(),
            samples: Vec::new(),
        }
    }

    /// Adds a sample.
    pub fn add(&mut self, labels: Labels, value: impl Display) {
        let ending = match self.kind {
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Histogram => "",
        };
        self.samples.push((ending, labels, value.to_string()));
    }

    /// Adds a histogram: the upper bounds of its buckets (`None`: it has the rest), with how many each has, and the sum.
    pub fn add_histogram(
        &mut self,
        labels: &Labels,
        buckets: impl Iterator<Item = (Option<f64>, u64)>,
        sum: f64,
    ) {
        let mut up_to_here = 0;
        for (bound, count) in buckets {
            up_to_here += count;
            let bound = match bound {
                None => "+Inf".to_owned(),
                Some(0.0) => "0.0".to_owned(),
                Some(bound) => bound.to_string(),
            };
            let mut labels = labels.clone();
            labels.push(("le", bound));
            let count = up_to_here.to_string();
            self.samples.push(("_bucket", labels, count));
        }
        let (sum, count) = (sum.to_string(), up_to_here.to_string());
        self.samples.push(("_sum", labels.clone(), sum));
        self.samples.push(("_count", labels.clone(), count));
    }

    fn unit(&self) -> Option<&'static str> {
        ["bytes", "seconds"]
            .into_iter()
            .find(|unit| self.name.ends_with(unit))
    }

    fn write(&self, text: &mut String) {
        let (name, help) = (&self.name, &self.help);
        let kind = match self.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = writeln!(text, "# TYPE barewire_{name} {kind}");
        if let Some(unit) = self.unit() {
            let _ = writeln!(text, "# UNIT barewire_{name} {unit}");
        }
        let _ = writeln!(text, "# HELP barewire_{name} {help}");
        for (ending, labels, value) in &self.samples {
            let _ = write!(text, "barewire_{name}{ending}");
            for (nth, (label, value)) in labels.iter().enumerate() {
                let before = if nth == 0 { "{" } else { "," };
                let _ = write!(text, "{before}{label}=\"{}\"", escaped(value));
            }
            let end = if labels.is_empty() { "" } else { "}" };
            let _ = writeln!(text, "{end} {value}");
        }
    }
}

/// A label's value: names of programs and addresses come from other processes.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for one in value.chars() {
        match one {
            '\\' => text += "\\\\",
            '"' => text += "\\\"",
            '\n' => text += "\\n",
            one if one.is_control() => text.push('\u{fffd}'),
            one => text.push(one),
        }
    }
    text
}

/// All of them, with their end.
pub fn exposition(families: &[Family]) -> String {
    let mut text = String::new();
    families.iter().for_each(|family| family.write(&mut text));
    text + "# EOF\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_type_unit_help_and_samples() {
        let mut sent = Family::new("sent_bytes", Kind::Counter, "Bytes that were sent.");
        sent.add(
            vec![
                ("name", "a\"b\\c\nd\u{1b}".to_owned()),
                ("to", "x".to_owned()),
            ],
            7,
        );
        let mut up = Family::new("up", Kind::Gauge, "Whether it is up.");
        up.add(Labels::new(), 0.5);
        let mut delay = Family::new("delay_seconds", Kind::Histogram, "How long it takes.");
        let buckets = [
            (Some(0.0), 3),
            (Some(0.000_001), 0),
            (Some(1.048_576), 2),
            (None, 1),
        ];
        delay.add_histogram(&vec![("to", "x".to_owned())], buckets.into_iter(), 2.5);
        let expected = "\
# TYPE barewire_sent_bytes counter
# UNIT barewire_sent_bytes bytes
# HELP barewire_sent_bytes Bytes that were sent.
barewire_sent_bytes_total{name=\"a\\\"b\\\\c\\nd\u{fffd}\",to=\"x\"} 7
# TYPE barewire_up gauge
# HELP barewire_up Whether it is up.
barewire_up 0.5
# TYPE barewire_delay_seconds histogram
# UNIT barewire_delay_seconds seconds
# HELP barewire_delay_seconds How long it takes.
barewire_delay_seconds_bucket{to=\"x\",le=\"0.0\"} 3
barewire_delay_seconds_bucket{to=\"x\",le=\"0.000001\"} 3
barewire_delay_seconds_bucket{to=\"x\",le=\"1.048576\"} 5
barewire_delay_seconds_bucket{to=\"x\",le=\"+Inf\"} 6
barewire_delay_seconds_sum{to=\"x\"} 2.5
barewire_delay_seconds_count{to=\"x\"} 6
# EOF
";
        assert_eq!(exposition(&[sent, up, delay]), expected);
    }
}
