//! The file of events. All numbers are little-endian.
//!
//! Source: ours.
//!
//! | part | bytes | what |
//! |---|---|---|
//! | head | 8 | `BWEVENT1` |
//! | | 4 | run |
//! | | 2 | builder |
//! | | 14 | zero |
//! | | 4 | CRC-32C of what is before it in the head |
//! | of the run: not in files of older versions | 4 | `INFO` |
//! | | 4 | bytes of the version |
//! | | 4 | bytes of the configuration |
//! | | 4 | CRC-32C of both texts |
//! | | 8 | seed |
//! | | 8 | when the file was made, ns since 1970 |
//! | | 8 | when the manager's clock was 0, ns since 1970 |
//! | | 4 | zero |
//! | | 4 | CRC-32C of the 44 bytes before it |
//! | | | version, configuration: at most a MiB each |
//! | event, any number | 4 | `EVNT` |
//! | | 4 | fragments that are missing: 0 for a built event |
//! | | 8 | event |
//! | | 8 | bytes of all its fragments with their heads |
//! | | 4 | fragments |
//! | | 4 | CRC-32C of the 28 bytes before it |
//! | fragment of it | 2 | source |
//! | | 2 | lowest 16 bits of the event |
//! | | 4 | CRC-32C of all of the fragment but these 4 bytes |
//! | | 8 | time of the trigger, ns on the manager's clock |
//! | | 8 | bytes of its data |
//! | | | data |
//! | index | 4 | `INDX` |
//! | | 4 | zero |
//! | | 8 | events |
//! | | 16 each | event, and where its record begins |
//! | tail | 8 | where the index begins |
//! | | 4 | CRC-32C of the index |
//! | | 4 | zero |
//! | | 8 | `BWEVEND1` |
//!
//! A builder writes the record of an event before it says that the event is closed; before that, room for index
//! and tail is set aside, so that also a file on a full file system ends with them. If it is
//! killed, index and tail are not there, the last record may be cut, and all before it is
//! read by going from record to record.
//!
//! Reading goes on behind damage, see [`Reading`]:
//!
//! | damaged | what is read |
//! |---|---|
//! | the data of a fragment | its event without that fragment, and all others |
//! | the head of a record | all other events: an index says where the next record begins; without one its fragments are stepped over by their own check codes, and then the bytes are searched for the next good head |
//! | the head of the file | all events; run and builder may be wrong |
//! | what it says of the run | all events |
//! | index or tail | all events |
//! | bytes were lost or came in between | all events whose records are whole |
//!
//! Within a fragment nothing is searched as long as the heads around it are good: a fragment may
//! hold a recording. Only if the head of a record **and** its first fragments are damaged, and there is
//! no index, a record within the data of a fragment is taken for one of the file.

mod about;
mod check;
mod damage;
mod format;
mod index;
mod read;
mod write;

pub use about::About;
pub use check::{Checked, IndexState, check};
pub use damage::{Damage, Ending, Stretch};
pub use format::{RecordError, Recorded, Stored, append, parse};
pub use index::{index_in, read_index};
pub use read::{Reading, outline, places};
pub use write::Recorder;

#[cfg(test)]
mod tests;
