//! What a plan can ask of the Penn interface.
//!
//! | experiment | what it asks |
//! |---|---|
//! | `write` | Table I with sizes, drivers and machine of one's own |
//! | `pipeline` | segmenter and reassembler alone: clocks, cell managers, line, bus |
//! | `zero-copy` | the three policies for streaming from the user's pages |
//! | `small-blocks` | where the time of a small block goes, and what would help |
//! | `oc12` | the same design at four times the rate: what has to grow |
//! | `receive` | many circuits through the reassembler, with cells lost on the way |

mod common;
mod oc12;
mod pipeline;
mod receive;
mod small_blocks;
mod write;
pub(super) mod zero_copy;

use crate::experiment::Experiment;

/// All of them.
pub(super) const ALL: [Experiment; 6] = [
    write::WRITE,
    pipeline::PIPELINE,
    zero_copy::ZERO_COPY,
    small_blocks::SMALL_BLOCKS,
    oc12::OC12,
    receive::RECEIVE,
];

#[cfg(test)]
mod tests;
