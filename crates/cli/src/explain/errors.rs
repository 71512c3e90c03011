//! The errors of the Rust interface, by their names. `docs/reference/errors.md` is made of this.

use super::entry::Fault::{Caller, Environment, Nobody, Peer};
use super::entry::{Entry, Group, Kind, entry};

const fn group(of: &'static str, entries: &'static [Entry]) -> Group {
    Group {
        kind: Kind::Error,
        of,
        entries,
    }
}

/// All of them, by the type that has them.
pub const GROUPS: &[Group] = &[
    group("barewire::Error", NETWORK),
    group("barewire::Misconduct", MISCONDUCT),
    group("barewire::AccessError", ACCESS),
    group("barewire::ArmError", ARM),
    group("barewire_sys::SysError", SYSTEM),
    group("barewire_carrier::HandshakeError", HANDSHAKE),
    group("barewire_carrier::IdentityError", IDENTITY),
    group("barewire_ofi::OfiError", LIBFABRIC),
];

const NETWORK: &[Entry] = &[
    entry("BadName", Caller, "A name is empty, too long, or has a zero byte.", "Choose another name."),
    entry(
        "NameTaken",
        Caller,
        "Another process listens under this name already. The message names it.",
        "Stop that process, or choose another name.",
    )
    .on("programming.md"),
    entry(
        "NoSuchName",
        Peer,
        "Nobody listens under this name for this user.",
        "Start the listener, in the same network namespace. Or let the connection wait for the name \
         (`ConnectConfig::wait_for_name`).",
    )
    .on("programming.md"),
    entry(
        "OwnName",
        Caller,
        "A node connected to a name that it listens to itself, and nobody accepted meanwhile.",
        "Accept in another thread, use `start_connect` and accept in the event loop, or connect from a second node.",
    ),
    entry(
        "WrongOwner",
        Peer,
        "The name is held by a process of another user than expected. Nothing was sent to it.",
        "Find out whose process that is. If it is the right one, name its user when you connect.",
    )
    .on("security.md#who-may-connect"),
    entry(
        "HostUnreachable",
        Peer,
        "Another host does not answer, or is not one to talk to. The message has the cause.",
        "Check the address, the port, firewalls, and the keys of both hosts (`barewire node keys`).",
    )
    .on("hosts.md"),
    entry(
        "HostLost",
        Peer,
        "The link to another host is down. What was received before can still be taken. The message says how much of what was sent may be lost.",
        "Connect again, and send again what may be lost. If it happens often, look at the network between the hosts.",
    )
    .on("hosts.md"),
    entry(
        "Refused",
        Peer,
        "The other side refused the connection. The message has its reason: a policy, a budget, or a full backlog.",
        "Read the reason. A policy or a budget is changed on the other side.",
    )
    .on("security.md#who-may-connect"),
    entry(
        "Timeout",
        Peer,
        "The time that the call allowed has passed, and the other end did not do its part.",
        "See whether the other end hangs (`barewire stat PID`, `barewire dump PID`), or allow more time.",
    )
    .on("operate.md#troubleshooting"),
    entry(
        "OutOfLimits",
        Caller,
        "A value is outside what is allowed. The message has the bounds.",
        "Choose a value within them.",
    ),
    entry(
        "LimitReached",
        Caller,
        "There are as many of something as this node allows.",
        "Release some, or raise the limit in `NodeConfig`.",
    ),
    entry(
        "GrantedAlready",
        Caller,
        "The peer's node has this aperture already, over this connection or another one.",
        "Grant it again after the peer has dropped it and this node has been polled.",
    ),
    entry(
        "TooLong",
        Caller,
        "A message is longer than its receiver takes.",
        "Send less at a time, or have the receiver allow longer messages.",
    ),
    entry(
        "BufferTooSmall",
        Caller,
        "The buffer is too small for the next message. The message stays in the queue.",
        "Call again with a buffer of the length that the error names.",
    ),
    entry(
        "Finished",
        Peer,
        "The peer has finished sending, and all that it sent has been received. This is the orderly end.",
        "Nothing: stop receiving.",
    ),
    entry(
        "PeerDeaf",
        Peer,
        "The peer has stopped receiving. What is sent now would never be read.",
        "Stop sending.",
    ),
    entry(
        "PeerGone",
        Peer,
        "The peer has closed the connection, or its node, in an orderly way.",
        "Connect again if there is more to say.",
    ),
    entry(
        "PeerDied",
        Peer,
        "The peer's process died, or turned into another program. What it had sent before can still be received.",
        "Look at the peer's own log for the cause. Then connect again.",
    ),
    entry(
        "PeerMisbehaved",
        Peer,
        "The peer broke the protocol, so the connection is closed. This process is unharmed.",
        "If the peer is a program of yours, report it: no correct program can cause this. If not, take it for an attack.",
    )
    .on("security.md"),
    entry(
        "Closed",
        Caller,
        "This side has closed its half already, or a long message timed out while it was half sent.",
        "Do not use the half any more. Connect again.",
    ),
    entry(
        "Forked",
        Caller,
        "The process was forked, and a child cannot use the node of its parent.",
        "Make a node of its own in the child.",
    ),
    entry(
        "OtherNode",
        Caller,
        "An aperture or a connection was used with another node than its own.",
        "Use it with the node that made it.",
    ),
    entry(
        "NoRuntime",
        Caller,
        "No runtime of tokio drives this node.",
        "Make the node inside a runtime with I/O and time enabled, and keep that runtime running.",
    ),
    entry(
        "Access",
        Caller,
        "An access to an aperture was refused, and nothing was transferred. The inner error says why; the fault is the \
         caller's or, where the aperture is gone, its owner's.",
        "Look up the inner error: `barewire explain OutOfRange`, for instance.",
    ),
    entry(
        "Arm",
        Caller,
        "A tripwire could not be set. The inner error says why.",
        "Look up the inner error: `barewire explain TableFull`, for instance.",
    ),
    entry(
        "BadSetting",
        Caller,
        "A setting of a live node was not changed. The message says why.",
        "`barewire set PID` lists the settings, with their values.",
    )
    .on("reference/settings.md#a-live-node"),
    entry(
        "Capture",
        Environment,
        "The capture file cannot be written.",
        "Check the folder, its permissions, and the space in the file system.",
    ),
    entry(
        "System",
        Environment,
        "The system refused something. The inner error says what.",
        "Look up the inner error: `barewire explain TooManyDescriptors`, for instance.",
    ),
];

const MISCONDUCT: &[Entry] = &[
    entry(
        "Ring",
        Peer,
        "What the peer wrote into a ring, or into the control line of a connection, breaks the protocol.",
        "Report it, with the message. `barewire dump PID` shows what lies in the queue.",
    ),
    entry(
        "Control",
        Peer,
        "A message of the peer on the control channel of the link breaks the protocol. The whole link is closed.",
        "Report it, with the message and the versions at both ends.",
    ),
    entry(
        "Exceeds",
        Peer,
        "The peer, or others of its user, asked for more than a budget allows.",
        "If that much is meant, raise the budget in `NodeConfig`, or with `barewire set`.",
    )
    .on("security.md#budgets"),
    entry(
        "Descriptor",
        Peer,
        "The peer passed a descriptor that cannot be used: of another kind, too small, or not sealed.",
        "Report it, with the versions at both ends.",
    ),
];

const ACCESS: &[Entry] = &[
    entry(
        "OutOfRange",
        Caller,
        "The range does not lie inside the aperture.",
        "Check offset and length against `len_bytes()` of the aperture.",
    ),
    entry(
        "Misaligned",
        Caller,
        "An atomic access needs an offset that is a multiple of 8.",
        "Place the word at such an offset.",
    ),
    entry(
        "Unaligned",
        Caller,
        "A typed access needs an offset that is a multiple of the alignment of its type.",
        "Place the value at such an offset.",
    ),
    entry(
        "NoSuchElement",
        Caller,
        "The array in the aperture has no such element.",
        "Check the index.",
    ),
    entry(
        "ReadOnly",
        Caller,
        "The owner exported the aperture for reading only.",
        "Do not store, or have the owner export it for writing.",
    ),
    entry(
        "Revoked",
        Peer,
        "The owner has withdrawn the aperture.",
        "Drop it. Ask the owner for another one.",
    ),
    entry(
        "PeerGone",
        Peer,
        "The process that owned the aperture is gone.",
        "Drop it, and connect again.",
    ),
];

const ARM: &[Entry] = &[
    entry(
        "OutOfRange",
        Caller,
        "The watched range is empty, or does not lie inside the aperture.",
        "Check offset and length.",
    ),
    entry(
        "TableFull",
        Caller,
        "All tripwires of the aperture are in use.",
        "Remove some, or export the aperture with more.",
    ),
    entry(
        "PlaceFull",
        Caller,
        "There are too many tripwires on the same line, on the same page, or across pages.",
        "Watch one larger range instead of many small ones.",
    ),
];

const SYSTEM: &[Entry] = &[
    entry(
        "TooManyDescriptors",
        Environment,
        "The process or the system has no descriptors left, or too many are in flight between sockets.",
        "Raise the limit: `ulimit -n`, `LimitNOFILE=` of a service, or `fs.file-max`.",
    )
    .on("operate.md#limits"),
    entry(
        "OutOfMemory",
        Environment,
        "The kernel would not give the memory.",
        "Free memory, raise the limit (`memory.max` of the cgroup, `ulimit -v`), or ask for fewer or smaller rings.",
    )
    .on("operate.md#limits"),
    entry(
        "LockedMemoryLimit",
        Environment,
        "More memory was to be locked than this process may lock.",
        "Raise the limit (`ulimit -l`, `LimitMEMLOCK=` of a service), give the program CAP_IPC_LOCK, or lock less.",
    )
    .on("operate.md#limits"),
    entry(
        "NoNumaNode",
        Environment,
        "There is no such NUMA node with memory, or this process may not use it.",
        "Choose one of those that the message lists.",
    ),
    entry(
        "NoHugePages",
        Environment,
        "Not all of the memory could be had on huge pages.",
        "Only try huge pages instead of requiring them, or free memory and allow them: \
         `/sys/kernel/mm/transparent_hugepage/shmem_enabled` must not be `deny`.",
    ),
    entry(
        "Unsupported",
        Environment,
        "This kernel lacks a call, or a sandbox hides it. The message names the oldest kernel that has it.",
        "Use a newer kernel, or allow the call in the sandbox. `barewire doctor` tries all calls.",
    )
    .on("operate.md#containers"),
    entry(
        "PermissionDenied",
        Environment,
        "The system does not allow it to this user.",
        "Run as the owner of what is asked for, or as root.",
    ),
    entry("NoSuchProcess", Environment, "The process is gone, or never was.", "`barewire ls` lists those that there are."),
    entry(
        "AddressInUse",
        Environment,
        "Another socket has this abstract name already.",
        "Stop that process, or use another name.",
    ),
    entry(
        "NoListener",
        Environment,
        "Nobody listens under this abstract name.",
        "Start the listener first, in the same network namespace.",
    ),
    entry(
        "Busy",
        Environment,
        "As many connections wait at the listener as it takes.",
        "Try again shortly. If it stays so, the listener does not accept: see whether it hangs.",
    ),
    entry("Hangup", Environment, "The other end of the socket is closed.", "Connect again."),
    entry(
        "InvalidArgument",
        Environment,
        "An argument that can never work. The message says what is wrong with it.",
        "Correct it. If no call of yours has it, report it.",
    ),
    entry(
        "BadDescriptor",
        Environment,
        "A descriptor is not what it must be: of another kind, too small, or not sealed.",
        "See which program made it, and with which version.",
    ),
    entry(
        "Os",
        Environment,
        "Any other failure of the system. The message names the call and the error number.",
        "Look up the error number: `errno -l`, or the manual page of the call.",
    ),
];

const HANDSHAKE: &[Entry] = &[
    entry(
        "Connection",
        Environment,
        "The connection to the other host failed on the way.",
        "Check the network between the hosts.",
    ),
    entry(
        "Ended",
        Peer,
        "The other side closed the connection during the handshake and did not say why.",
        "See whether it still runs, and whether it speaks Barewire at that port.",
    ),
    entry(
        "NotTls",
        Peer,
        "What came is not TLS, so it is no node of Barewire with the same settings.",
        "Check the port, and that both hosts use the same transport.",
    ),
    entry(
        "NotBarewire",
        Peer,
        "The other side speaks TLS, but is no node of Barewire.",
        "Check the address and port.",
    ),
    entry(
        "OldTls",
        Peer,
        "The other side has no TLS 1.3, and nothing older is safe enough.",
        "Use a newer program there.",
    ),
    entry(
        "Incompatible",
        Peer,
        "The TLS of the two sides has nothing in common.",
        "Use programs of the same version at both ends.",
    ),
    entry(
        "OtherWay",
        Caller,
        "One host proves itself by a certificate, the other by a secret, or they are of different versions.",
        "Give both a key of `barewire node keygen`, or both the same file `secret`.",
    ),
    entry(
        "NotTrusted",
        Caller,
        "This host does not trust the certificate of the other one.",
        "If it is the right host, copy its `certificate.pem` here and run `barewire node trust FILE --as NAME`.",
    ),
    entry(
        "NotTrustedThere",
        Peer,
        "The other host does not trust the certificate of this one.",
        "Copy this host's `certificate.pem` there and run `barewire node trust FILE --as NAME` there.",
    ),
    entry(
        "WrongKey",
        Peer,
        "The other side shows a certificate whose key it does not hold. Somebody may pretend to be that host.",
        "If its key was replaced, trust its new certificate. If not, take it for an attack.",
    ),
    entry(
        "WrongKeyHere",
        Caller,
        "This host does not hold the key of its certificate.",
        "Run `barewire node keygen --force`, and trust the new certificate on the other host.",
    ),
    entry(
        "BadCertificate",
        Peer,
        "The certificate of the other side cannot be used. The message says why.",
        "Make a new one there with `barewire node keygen --force`, and trust it here.",
    ),
    entry(
        "UnknownName",
        Caller,
        "No trusted certificate has the name of the host that is to be reached.",
        "`barewire node keys` lists the names. `barewire node trust FILE --as NAME` adds one.",
    ),
    entry(
        "OtherName",
        Caller,
        "A trusted host answered, but not the one that was to be reached.",
        "Check the address, and the name behind `--as`.",
    ),
    entry(
        "OtherNameHere",
        Peer,
        "The other host wanted to reach a host with another name than it trusts this one by.",
        "Check there under which name it trusts this host's certificate.",
    ),
    entry(
        "OtherSecret",
        Caller,
        "The other side does not have this host's secret, or somebody is in the middle.",
        "Copy the file `secret` to all hosts of the group, by a safe way.",
    ),
    entry(
        "TooMuch",
        Peer,
        "The other side sent more than a handshake takes without proving who it is.",
        "It is no correct node. Check the address.",
    ),
    entry(
        "Refused",
        Peer,
        "The other side broke off the handshake. The message has the alert of TLS.",
        "Look at the error that the other side has.",
    ),
    entry(
        "Protocol",
        Peer,
        "What came is TLS, but wrong, or was changed on the way.",
        "Try again. If it stays so, something between the hosts changes what they send.",
    ),
    entry(
        "Own",
        Environment,
        "This host cannot take part in the handshake. The message says why.",
        "Do what it says.",
    ),
    entry(
        "Over",
        Nobody,
        "The handshake is over, and its outcome was given before.",
        "Use the outcome that was given.",
    ),
];

const IDENTITY: &[Entry] = &[
    entry(
        "Missing",
        Caller,
        "The folder holds no keys.",
        "Run `barewire node keygen`, or `barewire node keygen --secret`.",
    ),
    entry(
        "NoHome",
        Environment,
        "HOME is not set, so nobody knows where the keys are.",
        "Name the folder: `--dir`.",
    ),
    entry(
        "TwoWays",
        Caller,
        "The folder holds both a key and a secret, and only one of them could count.",
        "Move away the one that is not to be used.",
    ),
    entry(
        "Io",
        Environment,
        "The system refuses to read or write a file of the keys.",
        "The message says which, and why.",
    ),
    entry(
        "TooOpen",
        Caller,
        "Others may read a private file, or change what decides who is trusted.",
        "Run the `chmod` that the message names. If somebody may have read a key, make a new one.",
    ),
    entry(
        "ForeignOwner",
        Caller,
        "A file belongs to another user, who could change it.",
        "Give it to you or to root (`chown`).",
    ),
    entry(
        "Content",
        Caller,
        "A file does not hold what it must.",
        "Copy it again, or make it again.",
    ),
    entry(
        "BadName",
        Caller,
        "A host cannot have this name.",
        "Use up to 64 letters, digits, `.`, `-` and `_`, the first a letter or digit; not `secret`, not `nobody`.",
    ),
    entry(
        "TrustedTwice",
        Caller,
        "One certificate is trusted under two names.",
        "Remove one of them.",
    ),
    entry(
        "Exists",
        Caller,
        "The file is there already.",
        "Replace it with `--force`, if that is meant.",
    ),
    entry(
        "Generate",
        Environment,
        "A key, a certificate or a random number could not be made.",
        "The message says why.",
    ),
];

const LIBFABRIC: &[Entry] = &[
    entry(
        "Unavailable",
        Environment,
        "libfabric cannot be opened on this machine.",
        "Install it: the package `libfabric1` on Debian and Ubuntu. Or use the transport `tcp`.",
    ),
    entry(
        "NoProvider",
        Environment,
        "libfabric has no provider for connected endpoints at this address.",
        "`fi_info -t FI_EP_MSG` lists those that there are. Verbs needs a card and its drivers.",
    ),
    entry(
        "Address",
        Caller,
        "This address cannot be that of a link.",
        "The message says why. Choose another one.",
    ),
    entry(
        "Offer",
        Peer,
        "The offer of the other host is none, or asks for what is not allowed.",
        "Use the same version at both ends.",
    ),
    entry(
        "OtherProvider",
        Caller,
        "The two hosts use different providers of libfabric.",
        "Choose the same one at both ends.",
    ),
    entry(
        "Strangers",
        Peer,
        "More connections came without the key of this link than are allowed.",
        "Find out who connects to this port. Then connect again.",
    ),
    entry(
        "Impostor",
        Peer,
        "Who answered does not know the key of this link.",
        "Check the address. Take it for an attack.",
    ),
    entry(
        "Failed",
        Environment,
        "libfabric, its provider or the kernel reports a failure.",
        "The message has the call and the cause.",
    ),
];

#[cfg(test)]
mod tests {
    use barewire::Error;
    use barewire_fabric::aperture::AccessError;
    use barewire_shm::watch::ArmError;
    use barewire_sys::SysError;

    use super::super::entry::Fault;
    use super::*;

    /// One of each variant.
    fn one_of_each() -> Vec<Error> {
        let text = String::new;
        vec![
            Error::BadName {
                name: text(),
                max: 1,
            },
            Error::NameTaken {
                name: text(),
                holder: text(),
            },
            Error::NoSuchName {
                name: text(),
                owner: 1,
            },
            Error::OwnName { name: text() },
            Error::WrongOwner {
                name: text(),
                pid: 1,
                found: 1,
                expected: 2,
            },
            Error::HostUnreachable {
                host: text(),
                reason: text(),
            },
            Error::HostLost {
                host: text(),
                reason: text(),
                lost: None,
            },
            Error::Refused { reason: text() },
            Error::Timeout,
            Error::OutOfLimits {
                what: "",
                value: 1,
                min: 2,
                max: 3,
            },
            Error::LimitReached { what: "", limit: 1 },
            Error::GrantedAlready,
            Error::TooLong {
                len_bytes: 2,
                max_bytes: 1,
            },
            Error::BufferTooSmall {
                needed_bytes: 2,
                buffer_bytes: 1,
            },
            Error::Finished,
            Error::PeerDeaf,
            Error::PeerGone,
            Error::PeerDied { pid: 1 },
            Error::PeerMisbehaved(barewire::Misconduct::Control("")),
            Error::Closed,
            Error::Forked,
            Error::OtherNode,
            Error::NoRuntime,
            Error::Access(AccessError::ReadOnly),
            Error::Arm(ArmError::PlaceFull),
            Error::BadSetting {
                key: text(),
                reason: text(),
            },
            Error::Capture {
                path: text(),
                reason: text(),
            },
            Error::System(SysError::Hangup { what: "" }),
        ]
    }

    /// The name of a variant: what its debugging text begins with.
    fn name(debugged: &str) -> &str {
        let end = debugged.find(|one: char| !one.is_alphanumeric());
        &debugged[..end.unwrap_or(debugged.len())]
    }

    #[test]
    fn the_table_and_the_errors_agree_on_whose_fault_it_is() {
        let all = one_of_each();
        assert_eq!(all.len(), NETWORK.len());
        for error in all {
            let debugged = format!("{error:?}");
            let entry = NETWORK.iter().find(|entry| entry.code == name(&debugged));
            let said = entry.unwrap_or_else(|| panic!("{debugged} is not explained"));
            let expected = match error.fault() {
                barewire::Fault::Caller => Fault::Caller,
                barewire::Fault::Peer => Fault::Peer,
                barewire::Fault::Environment => Fault::Environment,
            };
            assert_eq!(said.fault, expected, "{debugged}");
        }
    }
}
