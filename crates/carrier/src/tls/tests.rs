//! Tests of everything between hosts, over connections of the loopback.

mod contract;
mod folders;
mod middle;
mod peers;
mod support;
