//! The sockets of programs with the preload library, as a table.

use barewire_report::columns::in_columns;
use barewire_report::number::bytes;

use crate::sockets::{PreloadedProcess, Socket};

const HEADING: [&str; 10] = [
    "pid", "command", "fd", "local", "remote", "peer", "state", "path out", "ring out", "ring in",
];

/// The table, and below it what there is to say of processes that are not in it.
pub fn table(processes: &[PreloadedProcess]) -> String {
    let mut heading = HEADING.map(str::to_owned).to_vec();
    heading.push("why".to_owned());
    let mut lines = vec![heading];
    let mut notes = String::new();
    for process in processes {
        lines.extend(process.sockets.iter().map(|socket| line(process, socket)));
        let (pid, comm) = (process.pid, &process.comm);
        if let Some(why) = &process.hidden {
            notes += &format!("(process {pid}, {comm}, has the library, but {why})\n");
        } else if process.is_sandboxed && process.sockets.is_empty() {
            notes +=
                &format!("(process {pid}, {comm}, has the library, but is sandboxed by seccomp)\n");
        } else if process.sockets.is_empty() {
            notes += &format!(
                "(process {pid}, {comm}, has the library, but no socket that could be accelerated)\n"
            );
        }
    }
    match lines.len() {
        1 => notes,
        _ => in_columns(&lines, &[1, 3, 4, 6, 7, 10], "") + &notes,
    }
}

fn line(process: &PreloadedProcess, socket: &Socket) -> Vec<String> {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let fds: Vec<String> = socket.fds.iter().map(i32::to_string).collect();
    let [out, into] = socket.ring_bytes;
    vec![
        process.pid.to_string(),
        process.comm.clone(),
        fds.join(","),
        or_dash(&socket.local),
        or_dash(&socket.remote),
        socket
            .peer_pid
            .map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
        socket.state.clone(),
        socket.paths[0].to_owned(),
        bytes(out),
        bytes(into),
        socket.why.clone(),
    ]
}
