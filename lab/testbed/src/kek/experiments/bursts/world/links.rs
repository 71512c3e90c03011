//! What is recorded of the links.

use barewire_wire::capture::LinkType;

use crate::experiment::LinkCapture;
use crate::kek::ethernet::Ends;
use crate::kek::experiments::bursts::shape::Shape;

/// The port that builders listen at.
const PORT: u16 = 4_400;

/// Of each source's and each builder's link; empty if not asked for.
#[derive(Default)]
pub(super) struct Captures {
    pub(super) from_sources: Vec<LinkCapture>,
    pub(super) to_builders: Vec<LinkCapture>,
    pub(super) from_builders: Vec<LinkCapture>,
}

impl Captures {
    pub(super) fn new(shape: &Shape, limit: usize) -> Self {
        if limit == 0 {
            return Self::default();
        }
        let of = |class: &str, count: u16, way: &str| {
            let link = |number| format!("{class} {number}, {way}");
            let capture = |number| LinkCapture::new(link(number), LinkType::ETHERNET, limit);
            (0..count).map(capture).collect()
        };
        Self {
            from_sources: of("source", shape.sources, "transmit"),
            to_builders: of("builder", shape.builders, "receive"),
            from_builders: of("builder", shape.builders, "transmit"),
        }
    }

    pub(super) fn links(self) -> Vec<LinkCapture> {
        let all = [self.from_sources, self.to_builders, self.from_builders];
        all.into_iter().flatten().collect()
    }
}

pub(super) const fn ends_of(source: u16, builder: u16) -> Ends {
    Ends {
        from: (0, source),
        to: (1, builder),
        from_port: PORT + 1,
        to_port: PORT,
    }
}
