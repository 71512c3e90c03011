//! What went over the links of a run, as a pcapng file: one interface for each link, the
//! packets of all links in the order of their times, time 0 being that of the run.

use std::convert::Infallible;

use barewire_testbed::LinkCapture;
use barewire_wire::capture::{ByteOrder, Output, Pcapng, Port};

/// The file. It is the same on every machine.
#[must_use]
pub fn pcapng(links: &[LinkCapture]) -> Vec<u8> {
    let mut file = Bytes(Vec::new());
    match write(&mut file, links) {
        Ok(()) => file.0,
        Err(never) => match never {},
    }
}

fn write(file: &mut Bytes, links: &[LinkCapture]) -> Result<(), Infallible> {
    let mut capture = Pcapng::new(file, ByteOrder::Little)?;
    let mut ports: Vec<Port> = Vec::new();
    for link in links {
        ports.push(capture.interface(link.link_type, 0, &link.link)?);
    }
    let packets = links.iter().zip(&ports).flat_map(|(link, port)| {
        let packets = link.packets.iter();
        packets.map(|packet| (packet.at.since_origin().as_ps(), *port, packet))
    });
    let mut packets: Vec<_> = packets.collect();
    // Stable: at the same time the first link comes first.
    packets.sort_by_key(|(at_ps, ..)| *at_ps);
    for (at_ps, port, packet) in packets {
        capture.packet(port, at_ps / 1000, &[&packet.bytes], "")?;
    }
    Ok(())
}

struct Bytes(Vec<u8>);

impl Output for Bytes {
    type Error = Infallible;

    fn put(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use barewire_units::{Duration, Instant};
    use barewire_wire::capture::{LinkType, Reader};

    use super::*;

    #[test]
    fn an_interface_for_each_link_and_packets_in_the_order_of_their_times() {
        let at = |us| Instant::ORIGIN + Duration::from_us(us);
        let mut there = LinkCapture::new("there", LinkType::ETHERNET, 2);
        let mut back = LinkCapture::new("back", LinkType::ERF, 9);
        for us in [1, 5, 9] {
            there.record(at(us), || vec![us as u8; 20]);
            back.record(at(us + 1), || vec![us as u8 + 1; 30]);
        }
        let file = pcapng(&[there, back]);
        let packets: Vec<_> = Reader::new(&file).map(|packet| packet.unwrap()).collect();
        let seen: Vec<_> = packets
            .iter()
            .map(|packet| {
                (
                    packet.time_ns,
                    packet.link_type,
                    packet.data[0],
                    packet.data.len(),
                )
            })
            .collect();
        let (ethernet, erf) = (LinkType::ETHERNET, LinkType::ERF);
        assert_eq!(
            seen,
            [
                (Some(1000), ethernet, 1, 20),
                (Some(2000), erf, 2, 30),
                (Some(5000), ethernet, 5, 20),
                (Some(6000), erf, 6, 30),
                (Some(10_000), erf, 10, 30),
            ]
        );
        assert!(Reader::new(&pcapng(&[])).next().is_none());
    }
}
