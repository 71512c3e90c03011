//! A program before a terminal of its own.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// Everything here happens at once or, on a busy machine, within this.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// What a program writes that takes the whole terminal.
pub const ENTER: &str = "\u{1b}[?1049h";
/// What it writes to give it back.
pub const LEAVE: &str = "\u{1b}[?1049l";

/// A program before a terminal.
pub struct Seat {
    /// The program.
    pub child: Child,
    controller: OwnedFd,
    bytes: Receiver<Vec<u8>>,
    shown: String,
}

impl Seat {
    /// Starts it.
    pub fn start(mut command: Command) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&controller).expect("granted");
        unlockpt(&controller).expect("unlocked");
        let size = Winsize {
            ws_row: 40,
            ws_col: 160,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&controller, size).expect("a size");
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let user = ioctl_tiocgptpeer(&controller, flags).expect("its other end");
        let end = || Stdio::from(user.try_clone().expect("a descriptor"));
        command.stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().expect("it starts");
        let (sender, bytes) = channel();
        let mut from = File::from(controller.try_clone().expect("a descriptor"));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // It fails when the last one before the terminal has gone.
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            controller,
            bytes,
            shown: String::new(),
        }
    }

    /// Waits until `text` comes, after what was waited for before.
    pub fn wait_for(&mut self, text: &str) -> String {
        let begun = Instant::now();
        loop {
            if let Some(at) = self.shown.find(text) {
                let rest = self.shown.split_off(at + text.len());
                return std::mem::replace(&mut self.shown, rest);
            }
            let more = self.bytes.recv_timeout(Duration::from_millis(100));
            self.shown += &String::from_utf8_lossy(&more.unwrap_or_default());
            assert!(
                begun.elapsed() < PATIENCE,
                "no {text:?} in {:?}",
                self.shown
            );
        }
    }

    /// Presses keys.
    pub fn press(&mut self, key: &str) {
        let copy = self.controller.try_clone().expect("a descriptor");
        File::from(copy).write_all(key.as_bytes()).expect("pressed");
    }

    /// How the terminal treats lines and keys.
    pub fn modes(&self) -> LocalModes {
        tcgetattr(&self.controller).expect("a terminal").local_modes
    }
}

/// After a test that failed: a run that is asked to end twice takes its parts with it.
impl Drop for Seat {
    fn drop(&mut self) {
        for _ in 0..2 {
            if matches!(self.child.try_wait(), Ok(None)) {
                let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
                // It says something when it ends.
                let _ = self.bytes.recv_timeout(Duration::from_millis(200));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
