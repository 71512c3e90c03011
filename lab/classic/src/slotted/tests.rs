//! The ring at work: the theorems of the module header on a simulated fibre, with and
//! without faults, and the table of the slot.

mod fixture;
mod rules;
mod theorems;
