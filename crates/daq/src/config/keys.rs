//! Every key of a configuration, with its default and what it means: what `init` writes, and
//! what the reader looks up.

/// A key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub section: &'static str,
    pub name: &'static str,
    /// As TOML.
    pub default: &'static str,
    pub comment: &'static str,
}

const fn key(
    section: &'static str,
    name: &'static str,
    default: &'static str,
    comment: &'static str,
) -> Key {
    Key {
        section,
        name,
        default,
        comment,
    }
}

/// In the order in which they are written.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("run", "name", "\"daq\"", "on one host, names on the network begin with it: another run needs another one"),
    key("run", "number", "1", "stands in every fragment; counts up when the run is configured again"),
    key("run", "transport", "\"ring\"", "`ring`: user-level network, one host; `tcp`; `hosts`: user-level network, several hosts"),
    key("run", "events", "100000", "drain after so many triggers; 0: no limit"),
    key("run", "duration", "\"0 s\"", "drain after this time; 0: no limit"),
    key("run", "goes_on", "true", "whether the run goes on without a lost source or builder"),
    key("run", "restart", "true", "`daq run` starts a part again that died"),
    key("run", "seed", "1", "of triggers, sizes and contents"),
    key("parts", "sources", "2", "numbered from 0"),
    key("parts", "builders", "1", "numbered from 0"),
    key("parts", "liveness", "\"800 ms\"", "a part not heard of for so long is lost"),
    key("parts", "patience", "\"10 s\"", "how long the manager waits for all parts at the beginning"),
    key("tcp", "manager", "\"127.0.0.1:7100\"", "where the manager listens"),
    key("tcp", "builders", "[\"127.0.0.1:7110\"]", "where builders listen, in their order; with one, the port counts up"),
    key("hosts", "security", "\"keys\"", "`keys`: TLS, with those of `barewire node keygen`; `insecure`: nothing proved or encrypted, private addresses only; `insecure-anywhere`"),
    key("hosts", "keys", "\"\"", "folder of the keys, on every host; empty: where `barewire node keygen` puts them"),
    key("hosts", "trusted", "[]", "hosts that may take part, by the names of their certificates; those that share a secret need none"),
    key("hosts", "carrier", "\"stream\"", "`stream`: TLS, or TCP if insecure; `libfabric`: not encrypted"),
    key("hosts", "provider", "\"\"", "of `libfabric`, such as verbs; empty: the best that there is"),
    key("start", "manager", "\"\"", "command before the manager's; empty: it is started here"),
    key("start", "builders", "[]", "the same for builders: one for all, or one for each, in their order"),
    key("start", "sources", "[]", "the same for sources"),
    key("start", "program", "\"\"", "path of `barewire` for these commands; empty: that of the program here"),
    key("trigger", "mode", "\"max\"", "`max`: while the window has room; `clock`: every period; `poisson`: on average every period; `sources`: by their fragments"),
    key("trigger", "period", "\"100 us\"", "of `clock` and `poisson`"),
    key("fragments", "sizes", "\"fixed\"", "`fixed`, `uniform`, `exponential`, `log-normal`"),
    key("fragments", "size", "\"1 KiB\"", "the size, or its mean"),
    key("fragments", "size_min", "\"0 B\"", "of all but `fixed`: smaller ones are as large"),
    key("fragments", "size_max", "\"64 MiB\"", "larger ones are as small; at most 64 MiB"),
    key("fragments", "sigma", "0.5", "of `log-normal`: standard deviation of the logarithm, 0 to 4"),
    key("assignment", "policy", "\"round-robin\"", "`round-robin`, `least-loaded`, `pulled`, `hash`"),
    key("assignment", "window", "0", "events assigned and not closed, to 4096; 0: as many as 1 MiB of a source takes, 256 to 4096"),
    key("assignment", "backlog", "1024", "triggers that wait; more are refused"),
    key("assignment", "pull", "64", "of `pulled`: events that a builder wants to have"),
    key("flow", "control", "\"credits\"", "`none`, `credits`, `barrel`, `bucket`, `schedule`; `kernel`: HTB on the interface, `tcp` and root"),
    key("flow", "credits", "0", "of `credits`: fragments under way to a builder; 0: as many as 1 MiB takes, 64 to 4096"),
    key("flow", "rate", "\"1 Gbit/s\"", "of `bucket` and `kernel`: each source to each builder; of `barrel`: of the link"),
    key("flow", "burst", "\"256 KiB\"", "of `bucket`: its depth, at least a piece; of `kernel`: what goes at once"),
    key("flow", "line", "\"\"", "rate of a builder's line: sources that may send more to it together are refused; empty: not checked"),
    key("flow", "slot", "\"1 ms\"", "of `barrel` and `schedule`: time of a slot, a piece must fit"),
    key("flow", "lead", "\"2 ms\"", "of `schedule`: from assignment to the first slot"),
    key("source", "kind", "\"generator\"", "`generator`; `replay`: of files below, with mode = \"sources\"; `own`: programs of yours"),
    key("source", "program", "\"\"", "of `own`: what `daq run` starts with the configuration and a number; empty: you start them"),
    key("source", "buffer", "\"64 MiB\"", "fragments that wait in a source"),
    key("source", "full", "\"block\"", "when the buffer is full: `block` or `drop`, with account"),
    key("source", "piece", "\"64 KiB\"", "what of a fragment goes at a time, 64 B to 16 MiB"),
    key("faults", "late", "0.0", "share of fragments that are sent later, 0 to 1"),
    key("faults", "delay", "\"2 s\"", "how much later: more than builder.timeout is too late"),
    key("faults", "twice", "0.0", "share that is sent twice"),
    key("faults", "number", "0.0", "share with a number that no event has"),
    key("faults", "size", "0.0", "share with a wrong size"),
    key("faults", "check", "0.0", "share with a wrong check code"),
    key("replay", "files", "[]", "of all builders of one run, such as [\"run-000001-builder-00-000.evb\"]"),
    key("replay", "pace", "\"max\"", "`max`: as fast as it goes; `recorded`: at the times of the recorded triggers"),
    key("replay", "repeat", "false", "begins again at the end, with numbers that go on"),
    key("builder", "timeout", "\"1 s\"", "how long an event may be open"),
    key("builder", "incomplete", "\"loss\"", "an event closed by the timeout without a fragment: `loss`: the run ends with 5; `allowed`"),
    key("builder", "remembered", "65536", "closed events of which late fragments are told from copies"),
    key("network", "ring", "\"512 KiB\"", "receive memory of a connection, a power of two of at least 4 pieces + 4 KiB"),
    key("sink", "kind", "\"discard\"", "`discard`: verified and dropped; `file`: recorded; `hdf5`: and in HDF5; `hand-over`: to a consumer on this host"),
    key("sink", "directory", "\".\"", "of `file` and `hdf5`: where, a directory that exists; an existing file is never touched"),
    key("sink", "patience", "\"10 s\"", "of `file` and `hdf5`: how long the run waits for a file system that is full, read-only or faulty; then it ends"),
    key("sink", "consumer", "\"wait\"", "of `hand-over`, without a consumer, or with a slow one: `wait`, or `drop` with account"),
    key("sink", "buffer", "\"64 MiB\"", "of `drop`: events that wait for the consumer"),
    key("monitor", "period", "\"1 s\"", "between two lines of the view"),
    key("monitor", "prometheus", "\"\"", "address for Prometheus, such as 127.0.0.1:9177; empty: none"),
    key("monitor", "log", "\"\"", "file to which events are appended; empty: standard error alone"),
    key("monitor", "line", "\"\"", "rate of a line, to show what share of it each part uses; empty: not shown"),
];

const SECTIONS: &[(&str, &str)] = &[
    ("run", "What runs."),
    ("parts", "Who takes part."),
    (
        "tcp",
        "Where parts listen, with transport = \"tcp\" or \"hosts\".",
    ),
    (
        "hosts",
        "Only for transport = \"hosts\": links between nodes on several hosts.",
    ),
    (
        "start",
        "Commands by which `daq run` starts parts elsewhere, such as \"ssh node1\"; words are separated by spaces.",
    ),
    ("trigger", "When events happen."),
    (
        "fragments",
        "What the generator makes. Sizes have a unit: B, kB, KiB, MB, MiB.",
    ),
    ("assignment", "Which builder gets an event."),
    (
        "flow",
        "When a source may send. Rates have a unit: kbit/s, Mbit/s, Gbit/s.",
    ),
    ("source", "Each source."),
    (
        "faults",
        "Only for kind = \"generator\": fragments that are faulty on purpose, to try out a run.",
    ),
    ("replay", "Only for kind = \"replay\"."),
    ("builder", "Each builder."),
    ("network", "The user-level network."),
    ("sink", "What becomes of events."),
    ("monitor", "What is said."),
];

/// A configuration with every key, its default and its comment.
#[must_use]
pub fn template() -> String {
    let mut text = String::from(
        "# An event builder. `barewire daq run FILE` runs it.\n\
         # Every key may be left out; its default stands here. Times have a unit: ns, us, ms, s, min.\n",
    );
    for (section, comment) in SECTIONS {
        text += &format!("\n# {comment}\n[{section}]\n");
        for key in KEYS.iter().filter(|key| key.section == *section) {
            let setting = format!("{} = {}", key.name, key.default);
            text += &format!("{setting:<36} # {}\n", key.comment);
        }
    }
    text
}
