//! Processor time: of the programs under test, and of all others meanwhile.

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use barewire_sys::process::{SpawnOpts, spawn_with};

use crate::error::{Result, What};

/// The kernel's unit in /proc, which has been 100 per second wherever Linux runs.
const TICK_NS: f64 = 1e7;

/// What a sample cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// How long it took.
    pub wall_ns: f64,
    /// Processor time of the programs under test.
    pub own_ns: f64,
    /// Processor time of everything on the machine, with what the host took away.
    pub all_ns: f64,
}

impl Cost {
    /// Processors that the programs under test used on average.
    pub fn processors(&self) -> f64 {
        self.own_ns / self.wall_ns.max(1.0)
    }

    /// Processors that all others used.
    pub fn others(&self) -> f64 {
        ((self.all_ns - self.own_ns) / self.wall_ns.max(1.0)).max(0.0)
    }
}

/// Measures the machine's load over a stretch of time.
pub struct Watch {
    begin: Instant,
    all_ns: f64,
}

impl Watch {
    /// From now on.
    pub fn start() -> Watch {
        Watch {
            all_ns: machine_ns(),
            begin: Instant::now(),
        }
    }

    /// Until now. `own_ns`: what the programs under test used of it.
    pub fn stop(&self, own_ns: f64) -> Cost {
        Cost {
            wall_ns: self.begin.elapsed().as_nanos() as f64,
            own_ns,
            all_ns: machine_ns() - self.all_ns,
        }
    }
}

/// Programs that keep processors busy until they are dropped.
pub struct BusyPrograms(Vec<Child>);

impl BusyPrograms {
    /// Starts so many, which run wherever the system puts them; 0: one for each processor.
    pub fn start(count: Option<u32>, processors: u64) -> Result<BusyPrograms> {
        let count = match count {
            None => 0,
            Some(0) => u32::try_from(processors).unwrap_or(u32::MAX),
            Some(count) => count,
        };
        let mut all = BusyPrograms(Vec::new());
        for _ in 0..count {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]);
            command.stdin(Stdio::null()).env_remove("LD_PRELOAD");
            let options = SpawnOpts {
                pdeathsig: true,
                pin: None,
                uid_gid: None,
            };
            all.0
                .push(spawn_with(&mut command, options).what("starting a busy program")?);
        }
        Ok(all)
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.0.len() as u32
    }
}

impl Drop for BusyPrograms {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Processor time that anybody used since the machine started.
fn machine_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    busy_ticks(text.lines().next().unwrap_or("")) as f64 * TICK_NS
}

/// All but idle and waiting: user, nice, system, interrupts, and what the host took.
fn busy_ticks(line: &str) -> u64 {
    let fields = line.split_whitespace().skip(1).take(8).enumerate();
    let busy = fields.filter(|(at, _)| !matches!(at, 3 | 4));
    busy.filter_map(|(_, field)| field.parse::<u64>().ok())
        .sum()
}

/// Processor time of a process, of its children that it has waited for, and of those that
/// it has now with theirs.
pub fn family_ns(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let own = family_ticks(&text) as f64 * TICK_NS;
    own + children(pid).into_iter().map(family_ns).sum::<f64>()
}

/// Fields 14 to 17: user and system time, of itself and of children that are gone.
fn family_ticks(stat: &str) -> u64 {
    // The name is in parentheses, and may hold anything.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let fields = after.split_whitespace().skip(11).take(4);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// The children of a process's first thread.
pub fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|it| it.parse().ok())
        .collect()
}

/// Processor time of children that this process has waited for.
pub fn waited_for_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = text.rsplit_once(')').map_or("", |(_, after)| after);
    let fields = after.split_whitespace().skip(13).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 * TICK_NS
}

/// The machine's load average of the last minute.
pub fn average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|it| it.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_programs_are_as_many_as_processors_unless_told() {
        let counts =
            [None, Some(0), Some(1)].map(|count| BusyPrograms::start(count, 2).unwrap().count());
        assert_eq!(counts, [0, 2, 1]);
    }

    #[test]
    fn fields_of_the_kernel() {
        assert_eq!(busy_ticks("cpu  1 2 3 1000 2000 4 5 6 7 8"), 21);
        let stat = "12 (a) b) S 1 12 12 0 -1 4194304 100 0 0 0 7 8 9 10 20 0 1 0 5";
        assert_eq!(family_ticks(stat), 34);
        assert_eq!(family_ticks(""), 0);
    }

    #[test]
    fn a_busy_process_is_seen() {
        let watch = Watch::start();
        let begin = Instant::now();
        while begin.elapsed().as_millis() < 60 {
            std::hint::spin_loop();
        }
        assert!(family_ns(std::process::id()) > 0.0);
        let cost = watch.stop(0.0);
        assert!(cost.wall_ns >= 6e7 && cost.all_ns > 0.0, "{cost:?}");
        assert!(average() >= 0.0);
        assert!(children(u32::MAX).is_empty());
    }
}
