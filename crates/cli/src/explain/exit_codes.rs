//! With what the commands end. `docs/reference/exit-codes.md` is made of this.

use super::entry::Fault::{Caller, Environment, Nobody, Peer, Various};
use super::entry::{Entry, Group, Kind, entry};

const fn group(of: &'static str, entries: &'static [Entry]) -> Group {
    Group {
        kind: Kind::ExitCode,
        of,
        entries,
    }
}

/// The exit codes of all commands, and of those that have more of them.
pub const GROUPS: &[Group] = &[
    group("every command, if nothing else is said", EVERY),
    group("barewire run", RUN),
    group("barewire doctor", DOCTOR),
    group("barewire stream", STREAM),
    group("barewire wire decode, wire check", WIRE),
    group("barewire lab reproduce", REPRODUCE),
    group("barewire lab emulate", EMULATE),
    group("barewire daq", DAQ),
];

const EVERY: &[Entry] = &[
    entry("0", Nobody, "The command did what was asked.", ""),
    entry(
        "1",
        Various,
        "It failed. The cause is on standard error.",
        "Read the cause.",
    ),
    entry(
        "2",
        Caller,
        "An option or a file is faulty.",
        "The message says which. `barewire COMMAND --help` has all options.",
    )
    .on("reference/commands.md"),
    entry(
        "141",
        Nobody,
        "The reader of the output went away, as in `barewire lab list | head`. Nothing more was printed.",
        "",
    ),
];

const EMULATE: &[Entry] = &[entry(
    "1",
    Various,
    "The run is invalid, since packets were too late; or the last program of `--run` failed.",
    "The output says which. On a busy machine: `chrt -f 10 barewire lab emulate ...`.",
)
.on("emulate.md#the-report")];

const RUN: &[Entry] = &[
    entry(
        "the program's own",
        Nobody,
        "`barewire run` becomes the program, so this is what the program ended with.",
        "Read the program's manual.",
    ),
    entry(
        "125",
        Caller,
        "A setting is wrong, the library is missing, nothing can be written to the file of `--why`, or `barewire` itself \
         has more rights than its caller (set-user-id).",
        "The message says which.",
    )
    .on("reference/settings.md#unmodified-programs"),
    entry("126", Caller, "The program cannot be executed.", "Check its permissions, and whether it is a program."),
    entry("127", Caller, "There is no such program.", "Check its name, and PATH."),
];

const DOCTOR: &[Entry] = &[
    entry(
        "0",
        Nobody,
        "All is well, or nothing is worse than a warning.",
        "",
    ),
    entry(
        "1",
        Environment,
        "Nothing can be upgraded here.",
        "Change what the lines with `BAD` say.",
    )
    .on("operate.md#troubleshooting"),
];

const STREAM: &[Entry] = &[
    entry(
        "1",
        Peer,
        "A test failed: nobody listens, bytes are missing at the other end, or nothing moves for 10 s. A slow figure is \
         never an error.",
        "See whether `barewire stream --serve` runs at the other end, and can be reached.",
    )
    .on("bench.md#a-stream-to-another-host"),
];

const WIRE: &[Entry] = &[
    entry(
        "1",
        Nobody,
        "The bytes are faulty.",
        "The output says where.",
    ),
    entry(
        "2",
        Caller,
        "A file cannot be read, or is none of the kind that was named.",
        "Check the file and `--as`.",
    ),
];

const REPRODUCE: &[Entry] = &[entry(
    "1",
    Nobody,
    "A figure lies outside what was published, or is missing.",
    "The tables mark it.",
)];

const DAQ: &[Entry] = &[
    entry("0", Nobody, "The run ended as it should, and the ledger balances.", ""),
    entry(
        "1",
        Nobody,
        "`check`, `convert`: the file is damaged. `order`: the run refuses the order.",
        "The output says what is damaged, or why it refuses.",
    )
    .on("event-builder.md#a-damaged-recording"),
    entry(
        "2",
        Caller,
        "The configuration is faulty, a part cannot work, or a file cannot be read (an HDF5 file without its end cannot). \
         `order`: there is no such run. `convert`: the new file exists already.",
        "The message says which.",
    )
    .on("event-builder.md#the-configuration"),
    entry("3", Environment, "The ledger does not balance.", "This is a fault: report it, with the ledger.")
        .on("event-builder.md#the-ledger"),
    entry(
        "4",
        Various,
        "The run ended before its time, or the `scan` was ended before everything was measured.",
        "The output says why.",
    )
    .on("event-builder.md#when-a-part-dies"),
    entry(
        "5",
        Various,
        "The ledger balances, but something was lost that no setting allows.",
        "The output says what. If such losses are meant, allow them in the configuration.",
    )
    .on("event-builder.md#what-may-be-lost"),
    entry("6", Nobody, "`source`, `builder`: the run ended before this part had joined it.", ""),
];
