//! Programs that we did not write, and C programs that stand for many of them, with and
//! without the preload library. One scenario runs at a time.
//!
//! `cargo test -p barewire-programs --test programs redis -- --nocapture` runs one; see the
//! library of this crate for the settings.

#[path = "programs/coordination.rs"]
mod coordination;
#[path = "programs/cpython.rs"]
mod cpython;
#[path = "programs/files.rs"]
mod files;
#[path = "programs/firewall.rs"]
mod firewall;
#[path = "programs/limits.rs"]
mod limits;
#[path = "programs/mariadb.rs"]
mod mariadb;
#[path = "programs/memcached.rs"]
mod memcached;
#[path = "programs/messages.rs"]
mod messages;
#[path = "programs/postgres.rs"]
mod postgres;
#[path = "programs/privilege.rs"]
mod privilege;
#[path = "programs/python.rs"]
mod python;
#[path = "programs/redis.rs"]
mod redis;
#[path = "programs/replication.rs"]
mod replication;
#[path = "programs/rpc.rs"]
mod rpc;
#[path = "programs/runtimes.rs"]
mod runtimes;
#[path = "programs/ssh.rs"]
mod ssh;
#[path = "programs/suites.rs"]
mod suites;
#[path = "programs/torture.rs"]
mod torture;
#[path = "programs/traffic.rs"]
mod traffic;
#[path = "programs/web.rs"]
mod web;
