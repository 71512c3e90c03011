//! Groups of `poll` and `epoll` events.

pub const POLL_IN: i16 = libc::POLLIN | libc::POLLRDNORM;
pub const EPOLL_IN: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
pub const EPOLL_OUT: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;
/// With one of these the kernel means more than a wake-up byte.
pub const POLL_ENDS: i16 = libc::POLLHUP | libc::POLLERR | libc::POLLRDHUP | libc::POLLNVAL;
pub const EPOLL_ENDS: u32 = (libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP) as u32;
