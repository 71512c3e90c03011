//! The readers of capture files and of pseudo-headers: any bytes as a file, and a file that
//! we wrote, read back.
#![no_main]

use barewire_fuzz::faults;
use barewire_wire::capture::{
    self, Buffer, ByteOrder, LinkType, PACKET_BYTES_MAX, Pcap, Pcapng, Reader, Resolution, erf,
    exported, sunatm,
};
use libfuzzer_sys::fuzz_target;
fn read(file: &[u8]) {
    let mut is_over = false;
    for packet in Reader::new(file) {
        assert!(!is_over, "an error is the last item");
        let Ok(packet) = packet else {
            is_over = true;
            continue;
        };
        assert_eq!(
            &file[packet.offset_bytes..][..packet.data.len()],
            packet.data
        );
        assert!(packet.comments().count() <= file.len());
        let _ = packet.open();
    }
    for describe in [
        capture::describe,
        sunatm::describe,
        erf::describe,
        exported::describe,
    ] {
        faults(|sink| describe(file, 0, sink));
    }
}

/// Writes `packet` in every format, and reads it back.
fn round_trip(link_type: LinkType, snap_bytes: u32, time_ns: u64, packet: &[u8]) {
    let kept = match snap_bytes {
        0 => packet,
        snap_bytes => &packet[..packet.len().min(snap_bytes as usize)],
    };
    let mut room = vec![0; packet.len() + 200];
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut buffer = Buffer::new(&mut room);
        let mut file = Pcapng::new(&mut buffer, order).unwrap();
        let port = file.interface(link_type, snap_bytes, "lab").unwrap();
        file.packet(port, time_ns, &[packet], "seen").unwrap();
        let read = Reader::new(buffer.written()).next().unwrap().unwrap();
        assert_eq!((read.data, read.time_ns), (kept, Some(time_ns)));
        assert_eq!(read.original_bytes as usize, packet.len());

        let mut buffer = Buffer::new(&mut room);
        let nano = Resolution::Nanoseconds;
        let mut file = Pcap::new(&mut buffer, order, nano, link_type, snap_bytes).unwrap();
        let time_ns = time_ns % 1_000_000_000_000_000_000;
        file.packet(time_ns, &[packet]).unwrap();
        let read = Reader::new(buffer.written()).next().unwrap().unwrap();
        assert_eq!((read.data, read.time_ns), (kept, Some(time_ns)));
        assert_eq!(read.link_type, link_type);
    }
}

fuzz_target!(|data: &[u8]| {
    read(data);
    if let Some((head, packet)) = data.split_first_chunk::<12>() {
        let [a, b, snap, _, time @ ..] = *head;
        if packet.len() <= PACKET_BYTES_MAX {
            let link_type = LinkType(u16::from_le_bytes([a, b]));
            round_trip(link_type, snap.into(), u64::from_le_bytes(time), packet);
        }
    }
});
