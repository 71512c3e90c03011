//! A switch: a finite buffer at each output, first come first served.

use barewire_models::output::Output;
use barewire_models::workbench::Frame;
use barewire_units::Duration;

use super::device::{Desk, Device};

/// What a switch is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SwitchSpec {
    pub ports: usize,
    pub latency: Duration,
    pub cut_through: bool,
    /// Of each output.
    pub buffer_bytes: u64,
}

/// A switch.
pub(super) struct Switch {
    spec: SwitchSpec,
    outputs: Vec<Output<Frame>>,
    astray: u64,
}

impl Switch {
    pub(super) fn new(spec: SwitchSpec) -> Self {
        let output = |_| Output::new(spec.buffer_bytes);
        Self {
            spec,
            outputs: (0..spec.ports).map(output).collect(),
            astray: 0,
        }
    }

    fn output(&mut self, port: usize, desk: &mut Desk<'_>) {
        if let Some(frame) = self.outputs[port].poll() {
            desk.send(port, frame);
        }
    }
}

impl Device for Switch {
    fn frame(&mut self, _port: usize, frame: Frame, desk: &mut Desk<'_>) {
        let Some(port) = desk.way(&frame) else {
            self.astray += 1;
            desk.lose(frame);
            return;
        };
        let bytes = desk.bytes(port, &frame);
        if self.outputs[port].handle_frame(frame, bytes) {
            self.output(port, desk);
        } else {
            desk.lose(frame);
        }
    }

    fn sent(&mut self, port: usize, desk: &mut Desk<'_>) {
        self.outputs[port].sent();
        self.output(port, desk);
    }

    fn latency(&self) -> Duration {
        self.spec.latency
    }

    fn cut_through(&self) -> bool {
        self.spec.cut_through
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        let lost: u64 = self.outputs.iter().map(Output::lost).sum();
        let most = self.outputs.iter().map(Output::highest_bytes).max();
        vec![
            ("frames lost", (lost + self.astray) as f64),
            ("most held, B", most.unwrap_or(0) as f64),
        ]
    }
}
