//! PostgreSQL with pgbench. The server refuses root, so root lends it another user.

use std::fs;
use std::path::{Path, PathBuf};

use super::figure::{Figure, Mode, Sample, Target, Unit};
use super::launcher::{Launcher, REPORT_VARIABLE, User, installed};
use super::micro::How;
use super::real::{Servers, number_after, unexpected_output};
use crate::error::Result;

/// The folder with the programs: Debian keeps them apart by version.
pub fn programs() -> std::result::Result<PathBuf, String> {
    let debian = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut folders: Vec<PathBuf> = debian.map(|entry| entry.path().join("bin")).collect();
    folders.sort();
    let beside = installed("initdb").and_then(|file| Some(file.parent()?.to_owned()));
    folders.extend(beside);
    let whole = |folder: &PathBuf| {
        let names = ["initdb", "postgres", "pgbench"];
        names.iter().all(|name| folder.join(name).is_file())
    };
    let missing = "initdb, postgres and pgbench are not installed (apt-get install postgresql)";
    let folder = folders.into_iter().rfind(whole).ok_or(missing)?;
    if own_user() == 0 && user().is_none() {
        return Err("PostgreSQL refuses root, and there is no user postgres or nobody".into());
    }
    Ok(folder)
}

fn own_user() -> u32 {
    barewire_sys::process::own_credentials().uid
}

/// Who is to run it, if we are root.
fn user() -> User {
    if own_user() != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    named(&users, "postgres").or_else(|| named(&users, "nobody"))
}

fn named(users: &str, name: &str) -> User {
    let line = users
        .lines()
        .find(|line| line.split(':').next() == Some(name))?;
    let mut ids = line.split(':').skip(2).map(str::parse::<u32>);
    Some((ids.next()?.ok()?, ids.next()?.ok()?))
}

/// What `pgbench` does: in words, its options, and the target.
const CASES: [(&str, &str, f64); 3] = [
    ("1 clients", "-c 1", 2.0),
    ("8 clients", "-c 8", 1.15),
    ("1 clients, a connection each", "-c 1 -C", 1.0),
];

/// `pgbench`, select-only: by one client, by eight, and by one with a connection for each transaction,
/// which a forked child serves.
pub fn postgres(launcher: &Launcher, how: How, bin: &Path) -> Result<Vec<Figure>> {
    let user = user();
    for mode in [Mode::Plain, Mode::Preloaded] {
        let data = launcher.path_of(mode, "postgres");
        launcher.make_folder(&data, user)?;
        let mut command = launcher.program(Mode::Plain, bin.join("initdb"));
        command.args([
            "-A",
            "trust",
            "-U",
            "tester",
            "--no-sync",
            "--locale=C.UTF-8",
            "-D",
        ]);
        launcher.run(command.arg(&data), user)?;
    }
    let servers = Servers::start(launcher, |mode, port| {
        let mut command = launcher.program(mode, bin.join("postgres"));
        // Not a line for each back end: the clients' are enough.
        command.env_remove(REPORT_VARIABLE);
        command.arg("-D").arg(launcher.path_of(mode, "postgres"));
        command.args(["-p", &port.to_string()]);
        for setting in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "fsync=off",
            "max_connections=40",
            "autovacuum=off",
        ] {
            command.args(["-c", setting]);
        }
        launcher.server(&mut command, port, user)
    })?;
    let pgbench = bin.join("pgbench");
    let at = "-h 127.0.0.1 -p {port} -U tester";
    for mode in [Mode::Plain, Mode::Preloaded] {
        let fill = format!("-i -q -s 1 {at} postgres");
        servers.client(launcher, mode, &pgbench, &fill, user)?;
    }
    let seconds = how.ms.div_ceil(1000);
    let mut figures = Vec::new();
    for (words, options, least) in CASES {
        let name = format!("pgbench select-only, {words}");
        let mut figure =
            Figure::new("postgres", name, Unit::PerSecond).with_target(Target::Gain(least));
        let arguments = format!("-S -n {options} -j 1 -T {seconds} {at} postgres");
        for round in 0..how.rounds {
            for mode in How::modes(round) {
                let (said, sample) = servers.client(launcher, mode, &pgbench, &arguments, user)?;
                let failed = number_after(&said, "number of failed transactions:");
                let done = number_after(&said, "actually processed:");
                let (None, Some(operations), Some(value)) =
                    (failed, done, number_after(&said, "tps ="))
                else {
                    return Err(unexpected_output("pgbench", &said));
                };
                let sample = Sample {
                    value,
                    operations,
                    ..sample
                };
                figure.enter(mode, &sample);
            }
        }
        figures.push(figure);
    }
    servers.end(launcher, &mut figures);
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_the_system() {
        let users = "root:x:0:0:root:/root:/bin/sh\npostgres:x:105:110:,,,:/var:/bin/sh\n";
        assert_eq!(named(users, "postgres"), Some((105, 110)));
        assert_eq!(named(users, "nobody"), None);
    }

    #[test]
    fn the_output_is_understood() {
        let said = "number of transactions actually processed: 812\n\
                    number of failed transactions: 0 (0.000%)\ntps = 4060.5 (without)\n";
        assert_eq!(number_after(said, "tps ="), Some(4060.5));
        assert_eq!(number_after(said, "actually processed:"), Some(812.0));
        assert_eq!(number_after(said, "number of failed transactions:"), None);
    }
}
