//! Sleeping and waking: eventfd, epoll, futex, the fences around them, and
//! what a wake-up costs on this machine.

mod cost;
mod epoll;
mod eventfd;
mod fence;
mod futex;

pub use cost::wake_cost;
pub use epoll::{Epoll, EpollEvent, Interest};
pub use eventfd::EventFd;
pub use fence::{heavy_fence, light_fence, register_expedited};
pub use futex::{futex_wait, futex_wake};
