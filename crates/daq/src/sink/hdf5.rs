//! HDF5 files of events: `/events/NUMBER` is a group, `source-N` in it the bytes of a fragment.
//!
//! Source: the HDF5 File Format Specification, version 3.0. A writer of what is needed, and a
//! reader of what that writes; why there is one is told in `docs/decisions/0006-hdf5.md`. All numbers are
//! little-endian, addresses and lengths have 8 bytes.
//!
//! | object | attributes |
//! |---|---|
//! | `/` | `run`, `builder`, `events`: how many there are; of the run, as far as it is known: `seed`, `made_unix_ns`, `clock_unix_ns`, `version` (text) |
//! | `/config`: the text of the configuration, if the run is known | `crc32c` |
//! | `/events/000000000042` | `run`, `event`, `sources`: those that are there, `missing`: how many are not, `complete`: 1 or 0, `time_ns`: of the first fragment |
//! | `source-N` in it: a list of bytes | `source`, `time_ns`, `crc32c`: of the bytes |
//!
//! `made_unix_ns` is when the recording was made, `clock_unix_ns` when the manager's clock was 0, on
//! which each `time_ns` is; both are in ns since 1970 (UTC). The configuration is a dataset because an
//! attribute is shorter than 64 KiB. `crc32c` is CRC-32C (RFC 3720), because the format has no check code for
//! the bytes of a dataset.
//!
//! | in the file | written | bytes | check code of the format |
//! |---|---|---|---|
//! | superblock, version 2 | at the very end of writing | 48 | yes |
//! | configuration and its object header | at first | | the header |
//! | of each event: data and object header of each fragment, object header with the links to them | when it is added | | the headers |
//! | table of the events: local heap of names, symbol table nodes of at most 8 names, B-tree (version 1) of at most 32 children a node | at the end | 328 and 544 a node | no |
//! | object header of the table (version 1) | at the end | 40 | no |
//! | object header of the root group | at the end | | yes |
//!
//! Until it is whole the file is called `NAME.h5.part` and begins with zeros, so that no reader
//! takes it for one. A writer that is killed leaves that; the file of events beside it is
//! to be converted then.

mod convert;
mod format;
mod parse;
mod read;
mod source;
mod table;
mod write;

pub use convert::{Converted, check, convert, is_hdf5};
pub use format::lookup3;
pub use read::Hdf5Reading;
pub use source::Hdf5Error;
pub use write::Hdf5Writer;

#[cfg(test)]
mod tests;
