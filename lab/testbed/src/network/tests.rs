//! Networks that other systems have, too, give what those give; mistakes are found at their keys.

mod cards;
mod equal;
mod tcp;
mod ways;
mod wrong;
