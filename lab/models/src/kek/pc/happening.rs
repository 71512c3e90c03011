//! What a PC asks to be called for.

/// Something that happens in a PC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The operation of the processor is over.
    Processor,
    /// The kernel's timer ticks.
    Tick,
    /// The card's firmware has prepared a frame to send.
    SendFirmware,
    /// The frame is in the card.
    SendDma,
    /// The frame has left on the wire.
    SendWire,
    /// The card's firmware has looked at a received frame.
    ReceiveFirmware,
    /// The frame is in memory.
    ReceiveDma,
    /// The timer for interrupts about sent frames.
    SendTimer,
    /// The timer for interrupts about received frames.
    ReceiveTimer,
    /// The card interrupts.
    Interrupt,
}
