//! Programs that measure a network, for what they say of its soundness: iperf3, sockperf,
//! rstream, and the stressors of stress-ng.

use std::fmt::Write;

use barewire_programs::{Observed, Scenario, Stage, is_long};
use rustix::process::Signal;

#[test]
fn iperf3() {
    let play = |stage: &Stage| -> Observed {
        let bytes = if is_long() { "4G" } else { "200M" };
        let mut seen = String::new();
        let runs: [&[&str]; 7] = [
            &["-c", "127.0.0.1"],
            &["-c", "127.0.0.1", "-R"],
            &["-c", "127.0.0.1", "-P", "4"],
            &["-c", "127.0.0.1", "-P", "4", "-R"],
            &["-c", "::1", "-P", "2"],
            &["-c", "127.0.0.1", "-l", "1000", "-N"],
            &["-c", "127.0.0.1", "-Z"],
        ];
        for options in runs {
            let bytes = if options.contains(&"1000") {
                "20M"
            } else {
                bytes
            };
            let number = stage.free_port();
            let port = number.to_string();
            // For one test, so that none meets a server that is still busy with the last.
            let server = stage
                .server("iperf3")
                .args(["-s", "-1", "-p", &port])
                .start();
            server.wait_for_listener(number);
            let text = stage
                .client("iperf3")
                .args(["-p", &port, "-n", bytes, "-J"])
                .args(options)
                .text(120);
            assert!(!text.contains("\"error\""), "{options:?}: {text}");
            let received = received_bytes(&text);
            assert!(
                received > 10_000_000,
                "{options:?}: {received} bytes: {text}"
            );
            let _ = server.wait(130).success();
            writeln!(seen, "{options:?}: good").unwrap();
        }
        seen
    };
    Scenario::new("iperf3").run(&["iperf3"], play);
}

/// The bytes of `sum_received` in a report of iperf3.
fn received_bytes(json: &str) -> u64 {
    let sum = json.split("\"sum_received\"").nth(1).unwrap_or_default();
    let value = sum.split("\"bytes\":").nth(1).unwrap_or_default();
    let digits: String = value
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap_or(0)
}

/// With its check of the data that come back.
#[test]
fn sockperf() {
    let play = |stage: &Stage| -> Observed {
        let port = stage.free_port();
        // In one second on a busy machine, no connection may live for as long as it takes to be upgraded.
        let seconds = if is_long() { "20" } else { "2" };
        let port_word = port.to_string();
        let at = ["--tcp", "-i", "127.0.0.1", "-p", &port_word];
        let mut seen = String::new();
        // It has room for the times of 600 000 round trips a second, and fails when there are more.
        let runs: [(&str, &[&str]); 4] = [
            ("ping-pong", &["-m", "64", "--mps", "300000"]),
            (
                "ping-pong",
                &["-m", "1400", "--nonblocked", "--mps", "300000"],
            ),
            ("under-load", &["-m", "64", "--mps", "20000"]),
            (
                "under-load",
                &["-m", "4000", "--mps", "5000", "--reply-every", "10"],
            ),
        ];
        for (kind, options) in runs {
            let mut server = stage.server("sockperf").arg("server").args(at).start();
            server.wait_for_text("Warmup stage", 10);
            let check = if kind == "ping-pong" {
                &["--data-integrity"][..]
            } else {
                &[]
            };
            let text = stage
                .client("sockperf")
                .arg(kind)
                .args(at)
                .args(["-t", seconds])
                .args(check)
                .args(options)
                .text(60);
            assert!(text.contains("Test end"), "{kind} {options:?}: {text}");
            for fault in ["data integrity", "ERROR"] {
                assert!(!text.contains(&format!("{fault} test failed")), "{text}");
            }
            let lost =
                "# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0";
            assert!(text.contains(lost), "{kind} {options:?}: {text}");
            writeln!(seen, "{kind} {options:?}: good").unwrap();
            let _ = server.stop(Signal::INT, 10);
        }
        seen
    };
    Scenario::new("sockperf").run(&["sockperf"], play);
}

/// Its own tests over plain sockets: blocking, non-blocking, with poll, forking; it verifies
/// what it receives.
#[test]
fn rstream() {
    let play = |stage: &Stage| -> Observed {
        let mut seen = String::new();
        let size: &[&str] = if is_long() {
            &["-S", "all"]
        } else {
            &["-S", "4096", "-I", "10", "-C", "100"]
        };
        let runs: [&[&str]; 5] = [
            &[],
            &["-T", "b"],
            &["-T", "n"],
            &["-T", "a", "-T", "n"],
            &["-T", "f"],
        ];
        for options in runs {
            let port = stage.free_port();
            let port_word = port.to_string();
            let fixed = ["-T", "s", "-T", "v", "-p", &port_word];
            let server = stage
                .server("rstream")
                .args(fixed)
                .args(size)
                .args(options)
                .start();
            server.wait_for_listener(port);
            let said = stage
                .client("rstream")
                .args(["-s", "127.0.0.1"])
                .args(fixed)
                .args(size)
                .args(options)
                .text(60);
            assert!(said.contains("Gb/sec"), "{options:?}: {said}");
            // A server that forks serves on.
            if options.contains(&"f") {
                let _ = server.stop(Signal::TERM, 10);
            } else {
                let _ = server.wait(60).success();
            }
            writeln!(seen, "{options:?}: {}", said.lines().count()).unwrap();
        }
        seen
    };
    Scenario::new("rstream").run(&["rstream"], play);
}

#[test]
fn stress_ng() {
    let play = |stage: &Stage| -> Observed {
        // In one second on a busy machine, no connection may live for as long as it takes to be upgraded.
        let seconds = if is_long() { "20" } else { "2" };
        let mut seen = String::new();
        let base = stage.free_port().to_string();
        let runs: [(&str, &[&str]); 10] = [
            ("sock", &["--sock-domain", "ipv4", "--sock-port", &base]),
            ("sock", &["--sock-domain", "ipv6", "--sock-port", &base]),
            (
                "sock",
                &[
                    "--sock-domain",
                    "ipv4",
                    "--sock-port",
                    &base,
                    "--sock-opts",
                    "random",
                ],
            ),
            ("sockpair", &[]),
            ("sockmany", &["--sockmany-port", &base]),
            ("sockfd", &["--sockfd-port", &base]),
            ("epoll", &["--epoll-domain", "ipv4", "--epoll-port", &base]),
            ("epoll", &["--epoll-domain", "unix", "--epoll-port", &base]),
            ("poll", &[]),
            ("pipe", &[]),
        ];
        for (stressor, options) in runs {
            let said = stage
                .client("stress-ng")
                .args([&format!("--{stressor}"), "2"])
                .args(options)
                .args(["--verify", "-t", seconds, "--metrics-brief", "--oomable"])
                .without_report()
                .run(120)
                .success();
            let text = said.stdout + &said.stderr;
            assert!(!text.contains("fail:"), "{stressor} {options:?}: {text}");
            assert!(
                text.contains("successful run completed"),
                "{stressor}: {text}"
            );
            let domain = options
                .iter()
                .find(|word| ["ipv4", "ipv6", "unix"].contains(word));
            writeln!(seen, "{stressor} {}: good", domain.unwrap_or(&"")).unwrap();
        }
        seen
    };
    Scenario::new("stress-ng").run(&["stress-ng"], play);
}
