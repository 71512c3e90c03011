//! What the manager says: a line or a page per period, an event log with severities, figures
//! for Prometheus, and the ledger at the end.

mod log;
mod losses;
mod picture;
mod prometheus;
mod shown;
mod text;
mod time_of_day;

pub use log::{Log, Severity};
pub use losses::{Count, in_words, losses, losses_of_builder, losses_of_source, wrapped};
pub use picture::{Picture, Seen};
pub use prometheus::{Exporter, Families, Format, exposition};
pub use shown::{View, Viewer};
pub use text::{
    Rates, event_sum, ledger, lines, lost, lost_on_purpose, share_held_up, share_of_buffer, waiting,
};
pub use time_of_day::{date_and_time, unix_s, with_time_of_day};
