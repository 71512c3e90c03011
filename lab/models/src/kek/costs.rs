//! What the operations of a PC's processor cost: cycles of the kernel, at the PC's clock.

use barewire_units::{ByteSize, Duration, Rate};

use crate::parameters::Cycles;

crate::parameters! {
    /// A PC's processor and memory.
    #[derive(Copy, PartialEq, Eq)]
    pub struct Machine {
        /// Its clock.
        pub clock_mhz: u64,
        /// Copies between program and socket.
        pub copy: Rate,
    }
}

crate::parameters! {
    /// The kernel.
    #[derive(Copy, PartialEq, Eq)]
    pub struct Kernel {
        /// A received segment, from the driver to the socket.
        pub receive: Cycles,
        /// A received acknowledgement.
        pub receive_ack: Cycles,
        /// A segment to send, from TCP to the card.
        pub send: Cycles,
        /// An acknowledgement to send.
        pub send_ack: Cycles,
        /// A tick of the timer.
        pub tick: Cycles,
        /// A call of the program, once a message.
        pub call: Cycles,
        /// Another program than before, or one that slept.
        pub switch: Cycles,
        /// An interrupt: entry, exit.
        pub interrupt: Cycles,
        /// The card's registers, in each interrupt.
        pub interrupt_registers: Duration,
        /// A packet classified and queued in the discipline.
        pub shaping_enqueue: Cycles,
        /// A look at the discipline, whether it gives a packet or not.
        pub shaping_dequeue: Cycles,
        /// Ticks of the timer in a second.
        pub tick_hz: u32,
        /// Whether traffic wakes a throttled queue, or a tick alone.
        pub woken_by_traffic: bool,
    }
}

/// What the operations of one processor cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// The PC.
    pub machine: Machine,
    /// Its kernel.
    pub kernel: Kernel,
}

impl Costs {
    /// So many cycles.
    #[must_use]
    pub fn time(&self, cycles: Cycles) -> Duration {
        Duration::from_ps(cycles.0 * 1_000_000 / self.machine.clock_mhz.max(1))
    }

    /// An interrupt.
    #[must_use]
    pub fn interrupt(&self) -> Duration {
        self.time(self.kernel.interrupt) + self.kernel.interrupt_registers
    }

    /// Copies `bytes` between program and socket.
    #[must_use]
    pub fn copy(&self, bytes: u64) -> Duration {
        self.machine.copy.time_to_send(ByteSize::from_kib(1)) * bytes / 1024
    }
}
