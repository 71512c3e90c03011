//! How much memory a process has, as the kernel counts it.

use serde::{Deserialize, Serialize};

/// Memory of a process in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// All that is resident.
    pub resident: u64,
    /// Of that, what lies in shared memory: other processes may count it, too.
    pub shared: u64,
    /// Its fair share: what several processes have counts for each in part. The sum over
    /// all processes is what is really there.
    pub proportional: u64,
}

impl Memory {
    /// That of this process. Zeros where /proc is not mounted.
    pub fn own() -> Memory {
        let read = |name: &str| std::fs::read_to_string(name).unwrap_or_default();
        Memory::parse(&read("/proc/self/status"), &read("/proc/self/smaps_rollup"))
    }

    fn parse(status: &str, rollup: &str) -> Memory {
        Memory {
            resident: kib(status, "VmRSS:"),
            shared: kib(status, "RssShmem:"),
            proportional: kib(rollup, "Pss:"),
        }
    }
}

/// A field of so many KiB, in bytes.
fn kib(text: &str, name: &str) -> u64 {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    value.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_kernel() {
        let status = "VmPeak:\t 9 kB\nVmRSS:\t    2048 kB\nRssShmem:\t   16 kB\n";
        let memory = Memory::parse(status, "Rss: 7 kB\nPss:                 512 kB\n");
        assert_eq!(memory.resident, 2048 << 10);
        assert_eq!(memory.shared, 16 << 10);
        assert_eq!(memory.proportional, 512 << 10);
        assert!(Memory::own().resident > 0);
    }
}
