//! A picture as control messages, for one who looks from another process.

use barewire_proto::evb::{BuilderId, Part, RunState, SourceId};

use super::picture::{Picture, Seen};
use crate::accounts::{BuilderReport, SourceReport, event_numbers, events_from};
use crate::wire::Control;

/// What one who looks sees.
#[derive(Clone, Debug)]
pub struct View {
    /// The run; without what is missing by source, without the reports of those that died,
    /// and with quantiles in place of histograms.
    pub picture: Picture,
    /// Of building times: median, 90 %, 99 %, 99.9 %, largest, in ns.
    pub building_ns: Vec<u64>,
    /// The same of events, in bytes.
    pub event_bytes: Vec<u64>,
    /// Number of the first line of `log`.
    pub log_from: u64,
    /// Lines of the event log.
    pub log: Vec<String>,
}

impl Picture {
    /// As messages, with lines of the event log.
    #[must_use]
    pub fn shown(&self, log_from: u64, log: Vec<String>) -> Vec<Control> {
        let sources = (0..).zip(&self.sources).map(|(id, seen)| {
            let sums = seen.report.to_numbers();
            shown_part(Part::Source(SourceId(id)), seen, sums)
        });
        let builders = (0..).zip(&self.builders).map(|(id, seen)| {
            let mut report = seen.report.clone();
            report.account.missing_by_source.clear();
            shown_part(Part::Builder(BuilderId(id)), seen, report.to_numbers())
        });
        let spread = self.spread();
        let shown = Control::Shown {
            run: self.run,
            state: self.state,
            age_ns: self.age_ns,
            processor_ns: self.processor_ns,
            events: event_numbers(&self.events),
            building_ns: spread.building_ns.quantiles().to_vec(),
            event_bytes: spread.event_bytes.quantiles().to_vec(),
            log_from,
            log,
        };
        sources.chain(builders).chain([shown]).collect()
    }
}

fn shown_part<R>(part: Part, seen: &Seen<R>, sums: Vec<u64>) -> Control {
    Control::ShownPart {
        part,
        live: u8::from(seen.live),
        lives: seen.lives,
        sums,
    }
}

/// Puts messages together.
#[derive(Debug, Default)]
pub struct Viewer {
    sources: Vec<Seen<SourceReport>>,
    builders: Vec<Seen<BuilderReport>>,
}

impl Viewer {
    /// Takes a message; a view if it was the last of one. Others mean nothing here.
    pub fn take(&mut self, message: Control) -> Option<View> {
        match message {
            Control::ShownPart {
                part,
                live,
                lives,
                sums,
            } => {
                self.take_part(part, live != 0, lives, &sums);
                None
            }
            Control::Shown {
                run,
                state,
                age_ns,
                processor_ns,
                events,
                building_ns,
                event_bytes,
                log_from,
                log,
            } => {
                let mut picture = self.picture(run, state);
                picture.age_ns = age_ns;
                picture.processor_ns = processor_ns;
                picture.events = events_from(&events);
                Some(View {
                    picture,
                    building_ns,
                    event_bytes,
                    log_from,
                    log,
                })
            }
            _ => None,
        }
    }

    fn take_part(&mut self, part: Part, live: bool, lives: u32, sums: &[u64]) {
        match part {
            // They come in their order.
            Part::Source(_) => self.sources.push(Seen {
                live,
                lives,
                report: SourceReport::from_numbers(sums),
                past: Vec::new(),
            }),
            Part::Builder(_) => self.builders.push(Seen {
                live,
                lives,
                report: BuilderReport::from_numbers(sums),
                past: Vec::new(),
            }),
        }
    }

    fn picture(&mut self, run: u32, state: RunState) -> Picture {
        Picture {
            run,
            state,
            events: events_from(&[]),
            sources: core::mem::take(&mut self.sources),
            builders: core::mem::take(&mut self.builders),
            spreads: Vec::new(),
            age_ns: 0,
            processor_ns: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_seen() {
        let mut viewer = Viewer::default();
        let mut picture = viewer.picture(7, RunState::Paused);
        picture.events.built = 5;
        picture.age_ns = 9;
        let numbers: Vec<u64> = (1..=13).collect();
        let source = Seen {
            live: true,
            lives: 2,
            report: SourceReport::from_numbers(&numbers),
            past: Vec::new(),
        };
        picture.sources = vec![source; 2];
        let numbers: Vec<u64> = (1..=30).collect();
        picture.builders = vec![Seen {
            report: BuilderReport::from_numbers(&numbers),
            ..Seen::default()
        }];
        let messages = picture.shown(3, vec!["a line".to_owned()]);
        let views: Vec<_> = messages
            .into_iter()
            .filter_map(|it| viewer.take(it))
            .collect();
        let [view] = &views[..] else {
            panic!("{views:?}")
        };
        assert_eq!(view.picture.sources[1].report, picture.sources[1].report);
        assert_eq!((view.picture.run, view.picture.age_ns), (7, 9));
        assert_eq!(view.picture.events, picture.events);
        let builder = &view.picture.builders[0].report;
        assert_eq!(builder.recorded, picture.builders[0].report.recorded);
        assert!(builder.account.missing_by_source.is_empty());
        assert_eq!((view.log_from, view.log.len()), (3, 1));
    }
}
