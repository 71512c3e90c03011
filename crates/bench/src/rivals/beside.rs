//! Samples of our own between the runs of a rival.

use crate::case::{Case, Test, Transport, Variant, Waiting};
use crate::error::Result;
use crate::plan::Plan;
use crate::results::{Books, CaseBook};
use crate::runner;
use crate::session::Session;

/// The numbers of the channels that are open beside a rival start here.
const FIRST_CHANNEL: usize = 1_000_000;

/// The cases of the limit and of barewire of a size, with books for the samples taken
/// between runs of a rival: without them there might be nothing to compare in its own band.
pub struct Beside<'a>(Books<'a>);

impl<'a> Beside<'a> {
    /// Opens their channels.
    pub fn open(plan: &'a Plan, test: Test, size: usize, session: &mut Session) -> Result<Self> {
        let mut books: Books<'a> = Vec::new();
        for phase in &plan.phases {
            for case in phase.cases.iter().filter(|case| fits(case, test, size)) {
                let id = FIRST_CHANNEL + books.len();
                session.open(id, &phase.channels[case.channel])?;
                books.push((case, CaseBook::default()));
            }
        }
        Ok(Beside(books))
    }

    /// A sample of each.
    pub fn take(&mut self, session: &mut Session) -> Result<()> {
        for (index, (case, book)) in self.0.iter_mut().enumerate() {
            runner::take(session, FIRST_CHANNEL + index, case, book)?;
        }
        Ok(())
    }

    /// Closes the channels and adds the samples to the other ones of the same cases.
    pub fn close(self, session: &mut Session, books: &mut Books<'a>) -> Result<()> {
        for (index, (case, book)) in self.0.into_iter().enumerate() {
            session.close(FIRST_CHANNEL + index)?;
            runner::merge(books, case, book);
        }
        Ok(())
    }
}

fn fits(case: &Case, test: Test, size: usize) -> bool {
    matches!(case.transport, Transport::Limit | Transport::Barewire)
        && (case.work.test == test && case.work.size == size)
        && case.work.waiting == Waiting::Polling
        && case.variant != Variant::PingPong
}
