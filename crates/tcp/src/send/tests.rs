//! Tests of the sending side alone.
