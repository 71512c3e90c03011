//! The host as text: a part of a plan, with the origin of each value.

use std::fmt::Write;

use barewire_bench::environment::Environment;

use super::figures::{Figure, Figures};

/// What is not measured, with the value of the preset `modern-pc`.
const TAKEN_OVER: &str = "OPEN, taken over from the preset modern-pc";

struct Text(String);

impl Text {
    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    fn table(&mut self, name: &str) {
        self.line(&format!("\n[{name}]"));
    }

    /// A value with its origin above.
    fn value(&mut self, key: &str, value: &str, origin: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# {origin}.\n{key} = {value}");
    }

    /// A time that was measured, or the preset's.
    fn time(&mut self, key: &str, ns: Option<f64>, origin: &str, preset: &str) {
        match ns {
            Some(ns) => self.value(key, &time(ns), origin),
            None => self.value(key, preset, TAKEN_OVER),
        }
    }

    fn rate(&mut self, key: &str, figure: Option<Figure>, what: &str, preset: &str) {
        let gbps = |bps: f64| format!("{:.1} Gbit/s", bps / 1e9);
        match figure {
            Some(figure) => {
                let (low, high) = (gbps(figure.low), gbps(figure.high));
                let of = figure.samples;
                let origin = format!("Measured, median of {of} ({low} to {high}): {what}");
                let mbps = (figure.median / 1e6).max(1.0);
                self.value(key, &format!("\"{mbps:.0} Mbit/s\""), &origin);
            }
            None => self.value(key, preset, TAKEN_OVER),
        }
    }
}

fn time(ns: f64) -> String {
    format!("\"{:.2} ns\"", ns.max(0.0))
}

/// How a figure was come by.
fn measured(figure: Option<Figure>, what: &str) -> String {
    figure.map_or_else(String::new, |figure| {
        let (median, low, high, of) = (figure.median, figure.low, figure.high, figure.samples);
        format!("Measured, median {median:.1} ns of {of} ({low:.1} to {high:.1}): {what}")
    })
}

/// The host.
pub(super) fn compose(figures: &Figures, environment: &Environment) -> String {
    let mut text = Text(String::new());
    head(&mut text, figures, environment);
    costs(&mut text, figures);
    memory(&mut text, figures);
    bus(&mut text);
    comparison(&mut text, figures);
    text.0
}

fn head(text: &mut Text, figures: &Figures, environment: &Environment) {
    text.line("# This machine as a host for the workbench, by `barewire lab calibrate`.");
    text.line(&format!(
        "# {}; {}",
        environment.processor, environment.kernel
    ));
    text.line(&format!(
        "# {}; {}",
        environment.date, environment.placement
    ));
    if environment.virtual_machine {
        text.line("# A virtual machine: waking a processor up may cost ten times what it costs a real one.");
    }
    if environment.build == "debug" {
        text.line("# Measured by a debug build: copies and sums mean little.");
    }
    for failed in &figures.failed {
        text.line(&format!("# Not measured: {}", failed.replace('\n', " ")));
    }
    text.table("parameters.host");
    let processors = if figures.processors >= 2 { "2" } else { "1" };
    let there = figures.processors;
    let origin = format!("{there} processors to be had; the system gives interrupts to any");
    text.value("processors", processors, &origin);
}

fn costs(text: &mut Text, figures: &Figures) {
    text.table("parameters.host.costs");
    let call = figures.system_call;
    let call_ns = call.map(|figure| figure.median);
    let origin = measured(call, "a system call that does nothing, there and back");
    text.time("send_call", call_ns, &origin, "\"100 ns\"");
    text.value("send_return", "\"0 us\"", "In the call above");
    text.time("receive_call", call_ns, "As to send", "\"100 ns\"");
    text.value("receive_return", "\"0 us\"", "In the call above");
    text.value("interrupt", "\"1 us\"", TAKEN_OVER);
    // A wake-up: two system calls, the switch, and on another processor its waking up.
    let switch = figures.asleep_together.map(|figure| {
        let calls = 2.0 * call_ns.unwrap_or(0.0);
        (figure.median / 2.0 - calls).max(0.0)
    });
    let two = figures.asleep.map(|figure| figure.median / 2.0);
    let one = figures.asleep_together.map(|figure| figure.median / 2.0);
    let wake_up = two.zip(one).map(|(two, one)| (two - one).max(0.0));
    let origin = measured(
        figures.asleep,
        "there and back between two programs that sleep, on two processors; half of it, less half of that on one",
    );
    text.time("wake_up", wake_up, &origin, "\"2 us\"");
    let origin = measured(
        figures.asleep_together,
        "the same on one processor; half of it, less two system calls",
    );
    text.time("context_switch", switch, &origin, "\"1.5 us\"");
    let look = figures.line.map(|figure| figure.median / 2.0);
    let origin = measured(
        figures.line,
        "a cache line there and back; half of it: a look that finds something new",
    );
    text.time("poll", look, &origin, "\"20 ns\"");
    let packet = figures.tcp.map(|figure| {
        let calls = 2.0 * call_ns.unwrap_or(0.0);
        ((figure.median / 2.0 - calls) / 2.0).max(0.0)
    });
    let origin = measured(
        figures.tcp,
        "8 B there and back over TCP, loopback, spinning; a quarter, less a system call. No driver of a card is in it; how it divides is OPEN",
    );
    text.time("send_packet", packet, &origin, "\"1 us\"");
    text.value("send_kib", "\"0 us\"", "OPEN: copies are counted as such");
    text.time("receive_packet", packet, "As to send", "\"1 us\"");
    text.value(
        "receive_kib",
        "\"0 us\"",
        "OPEN: copies are counted as such",
    );
    let sum = figures.checksum_kib;
    let origin = measured(sum, "the Internet checksum of a KiB in the cache");
    let sum_ns = sum.map(|figure| figure.median);
    text.time("checksum_kib", sum_ns, &origin, "\"50 ns\"");
}

fn memory(text: &mut Text, figures: &Figures) {
    text.table("parameters.host.memory");
    let line = figures.copy_setup;
    let line_ns = line.map(|figure| figure.median);
    let origin = measured(line, "a copy of 64 B");
    text.time("setup", line_ns, &origin, "\"10 ns\"");
    text.rate(
        "cached",
        figures.cached_bps,
        "copies of 64 KiB",
        "\"160 Gbit/s\"",
    );
    text.rate(
        "beyond",
        figures.beyond_bps,
        "copies of 128 MiB",
        "\"80 Gbit/s\"",
    );
    match figures.cache_bytes {
        Some(bytes) => {
            let size = format!("\"{} KiB\"", bytes >> 10);
            let origin = "Measured: the longest message, in powers of two, that is copied nearer to the first rate than to the second";
            text.value("cache", &size, origin);
        }
        None => text.value("cache", "\"256 KiB\"", TAKEN_OVER),
    }
    let origin = "Cards see the caches of processors of today";
    text.value("write_back_kib", "\"0 us\"", origin);
}

/// As the preset has it: a program does not see the bus.
fn bus(text: &mut Text) {
    text.table("parameters.host.bus");
    text.line(&format!("# {TAKEN_OVER}: PCIe 4.0 of 16 lanes."));
    for (key, value) in [
        ("rate", "252 Gbit/s"),
        ("burst", "256 B"),
        ("setup", "0.8 ns"),
        ("store_burst", "64 B"),
        ("store_setup", "0.8 ns"),
        ("word", "8 B"),
        ("write", "60 ns"),
        ("read", "800 ns"),
    ] {
        text.line(&format!("{key} = \"{value}\""));
    }
}

fn comparison(text: &mut Text, figures: &Figures) {
    if figures.exchanges.is_empty() {
        return;
    }
    text.line("\n# For comparison, and no parameter: there and back between two programs that spin, a message");
    text.line("# copied into shared memory, a flag, the message copied out.");
    for (size, figure) in &figures.exchanges {
        if let Some(Figure {
            median, low, high, ..
        }) = figure
        {
            text.line(&format!(
                "# {size:6} B  {median:9.1} ns ({low:.1} to {high:.1})"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use barewire_testbed::systems;

    use super::*;
    use barewire_bench::placement::Placement;

    fn keys(text: &str) -> Vec<&str> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let lines = lines.filter(|line| !line.is_empty());
        lines
            .map(|line| line.split(" = ").next().unwrap_or(line))
            .collect()
    }

    fn preset() -> &'static str {
        let workbench = systems().iter().find(|system| system.name() == "workbench");
        let fragments = workbench.expect("the workbench").fragments();
        let preset = fragments.iter().find(|(name, _)| *name == "modern-pc");
        preset.expect("the preset").1
    }

    fn values(text: &str) -> Vec<&str> {
        let lines = text.lines().filter(|line| line.contains(" = "));
        lines.filter(|line| !line.starts_with('#')).collect()
    }

    #[test]
    fn a_host_has_all_keys_and_the_origin_of_each() {
        let environment = Environment::look(Placement::Pinned(0, 1));
        let figure = |median: f64| Figure::of(&[median, median * 0.9, median * 1.2]);
        let figures = Figures {
            processors: 2,
            system_call: figure(100.0),
            line: figure(120.0),
            asleep: figure(20_000.0),
            asleep_together: figure(4_000.0),
            tcp: figure(10_000.0),
            copy_setup: figure(3.0),
            cached_bps: figure(2e11),
            beyond_bps: figure(8e10),
            cache_bytes: Some(1 << 20),
            checksum_kib: figure(30.0),
            exchanges: vec![(64, figure(300.0)), (4096, None)],
            failed: vec!["tcp 8 B: refused".to_owned()],
        };
        let text = compose(&figures, &environment);
        assert_eq!(keys(&text), keys(preset()));
        for line in [
            "send_call = \"100.00 ns\"",
            "wake_up = \"8000.00 ns\"",
            "context_switch = \"1800.00 ns\"",
            "poll = \"60.00 ns\"",
            "send_packet = \"2400.00 ns\"",
            "cached = \"200000 Mbit/s\"",
            "cache = \"1024 KiB\"",
            "# Not measured: tcp 8 B: refused",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.windows(2) {
            let value = pair[1].contains(" = ") && !pair[1].starts_with('#');
            let bus = text.find("host.bus]") < text.find(pair[1]);
            assert!(!value || bus || pair[0].starts_with("# "), "{}", pair[1]);
        }
    }

    #[test]
    fn what_is_not_measured_is_the_presets() {
        let environment = Environment::look(Placement::OneProcessor);
        let text = compose(&Figures::default(), &environment);
        let expected: Vec<String> = values(preset())
            .into_iter()
            .map(|line| line.replace("processors = 2", "processors = 1"))
            .collect();
        assert_eq!(values(&text), expected);
    }
}
