//! `barewire kek --tc FILE`: a script of `tc` commands on the source of 1x3, and what comes out.
//!
//! The script is checked by the laboratory's parser first, which names line and column, and takes
//! what the plan `kek-stream` takes as well. Then the kernel's own `tc` applies it, a command at a
//! time, in the namespace of the source: to the one interface there, whatever the script calls its
//! device.

use std::io::{self, Read};
use std::path::Path;
use std::process::Command;

use barewire_proto::shaping::{Timer, Tree};
use barewire_tables::ResultTable;

use super::error::KekError;
use super::measurement::Measurement;
use super::shaping::SPREAD;
use super::star::Host;
use super::streams::run;
use super::tables::{count, number, table, text};

/// A script is read up to here, and is no script beyond.
const SCRIPT_BYTES_MAX: u64 = 1 << 20;
/// What the star calls the interface of a host.
const DEVICE: &str = "nic";
const MTU_BYTES: u32 = 1500;

/// Commands, with the number of the line that each stands in.
#[derive(Debug)]
pub struct Script {
    commands: Vec<(usize, Vec<String>)>,
}

fn wrong(path: &Path, reason: impl std::fmt::Display) -> KekError {
    KekError::Script(format!("{}: {reason}", path.display()))
}

impl Script {
    /// Reads and checks a script.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or a command that is not understood.
    pub fn read(path: &Path) -> Result<Self, KekError> {
        let mut script = String::new();
        let file = std::fs::File::open(path).map_err(|error| wrong(path, error))?;
        let mut file = file.take(SCRIPT_BYTES_MAX);
        file.read_to_string(&mut script)
            .map_err(|error| wrong(path, error))?;
        Self::parse(&script).map_err(|reason| wrong(path, reason))
    }

    fn parse(script: &str) -> Result<Self, String> {
        Tree::parse(script, Timer::EXACT).map_err(|error| error.to_string())?;
        let words = |(at, line): (usize, &str)| {
            let command = line.split('#').next().unwrap_or_default();
            let words = command.split_whitespace().map(str::to_owned);
            (at + 1, on_our_device(words.collect()))
        };
        let commands = script.lines().enumerate().map(words);
        let commands: Vec<_> = commands.filter(|command| !command.1.is_empty()).collect();
        match commands.is_empty() {
            true => Err("no commands in it".to_owned()),
            false => Ok(Self { commands }),
        }
    }

    /// Has the kernel shape what a host sends.
    ///
    /// # Errors
    ///
    /// No `tc`, or a command that it refuses.
    fn apply(&self, host: &Host) -> Result<(), KekError> {
        for (line, words) in &self.commands {
            // The parser has seen that the first word is `tc`; nothing else is ever run.
            let run = || Command::new("tc").args(&words[1..]).output();
            let output = host.net.run(run).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    KekError::Script("there is no `tc` here: install iproute2".to_owned())
                }
                _ => error.into(),
            })?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                let said = said.trim();
                let command = words.join(" ");
                return Err(KekError::Script(format!(
                    "line {line}: the kernel refuses `{command}`: {said}"
                )));
            }
        }
        Ok(())
    }
}

/// The command for the star's interface in place of the one that it names.
fn on_our_device(mut words: Vec<String>) -> Vec<String> {
    let at = words.iter().position(|word| word == "dev");
    if let Some(device) = at.and_then(|at| words.get_mut(at + 1)) {
        DEVICE.clone_into(device);
    }
    words
}

/// One source with the script, three destinations.
pub fn measure(kek: &Measurement, script: &Script) -> Result<ResultTable, KekError> {
    let mut streams = SPREAD.streams();
    streams.iter_mut().for_each(|it| it.class = None);
    let mut star = SPREAD.star(kek, MTU_BYTES)?;
    script.apply(&star.hosts[0])?;
    kek.say(&format!("{}, MTU {MTU_BYTES}, the script", SPREAD.name));
    let measured = run(&mut star, &streams, kek.time)?;
    let row = |(stream, mbps): (&super::streams::Stream, &f64)| {
        let address = star.hosts[stream.to].address;
        vec![text(&address.to_string()), number(*mbps)]
    };
    let mut rows: Vec<_> = streams.iter().zip(&measured.mbps).map(row).collect();
    for row in &mut rows {
        row.extend([count(measured.drops), count(measured.retransmitted)]);
    }
    let columns = [
        ("to", ""),
        ("payload", "Mbit/s"),
        ("drops, all", ""),
        ("sent again, all", ""),
    ];
    Ok(table("shaped by the script", 1, &columns, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_checked_and_put_on_our_device() {
        let script = "# a comment\ntc qdisc add dev eth0 root handle 1: htb default 10\n\n\
                      tc class add dev eth0 parent 1: classid 1:10 htb rate 10mbit # slow\n";
        let script = Script::parse(script).expect("good commands");
        let lines: Vec<_> = script
            .commands
            .iter()
            .map(|it| (it.0, it.1.join(" ")))
            .collect();
        assert_eq!(
            lines,
            [
                (
                    2,
                    "tc qdisc add dev nic root handle 1: htb default 10".to_owned()
                ),
                (
                    4,
                    "tc class add dev nic parent 1: classid 1:10 htb rate 10mbit".to_owned()
                ),
            ]
        );
    }

    #[test]
    fn what_is_no_script_is_refused_with_its_line() {
        let refused = |text: &str| Script::parse(text).expect_err(text);
        assert!(refused("tc qdisc add dev eth0 root htb default\n").contains("line 1"));
        assert!(refused("\nrm -rf /\n").contains("line 2"));
        assert!(refused("qdisc add dev eth0 root htb\n").contains("line 1"));
        assert!(refused("# nothing\n").contains("no commands"));
    }
}
