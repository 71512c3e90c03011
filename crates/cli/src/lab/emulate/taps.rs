//! A TAP device for a station, in a network namespace of its own. Neither has a name outside this
//! process, and both end with it.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;

use barewire_sys::frames::FrameDevice;
use barewire_sys::links::{Setting, add_address, set_state, set_up};
use barewire_sys::netlink::RouteSocket;
use barewire_sys::netns::NetNamespace;

use super::arguments::TapWish;
use super::ethernet::address;
use crate::lab::error::{LabError, Result};

/// A station's TAP device.
#[derive(Debug)]
pub struct Tap {
    wish: TapWish,
    namespace: NetNamespace,
    device: FrameDevice,
}

impl Tap {
    /// Makes namespace and device, with packets of at most `mtu_bytes`.
    pub fn open(wish: &TapWish, mtu_bytes: usize) -> Result<Self> {
        let failed = |source| LabError::Namespace {
            name: wish.name.clone(),
            source,
        };
        let namespace = NetNamespace::create().map_err(failed)?;
        let device = namespace.run(|| Ok(FrameDevice::tap(&wish.name, None)));
        let device = device.map_err(failed)?.map_err(LabError::Tap)?;
        let set = namespace.run(|| {
            // Nothing but IPv4 is carried. Where there is no IPv6 at all, there is nothing to switch off.
            let switch = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", wish.name);
            let _ = std::fs::write(switch, "1");
            let mut socket = RouteSocket::open()?;
            set_state(&mut socket, "lo", true)?;
            let setting = Setting {
                mtu_bytes: u32::try_from(mtu_bytes).unwrap_or(u32::MAX),
                // No bursts: each packet fits the network.
                segments_max: 1,
                bridge: None,
            };
            set_up(&mut socket, &wish.name, setting)?;
            add_address(&mut socket, device.index(), address(wish.station))
        });
        set.map_err(failed)?;
        Ok(Self {
            wish: wish.clone(),
            namespace,
            device,
        })
    }

    pub fn name(&self) -> &str {
        &self.wish.name
    }

    pub fn station(&self) -> u16 {
        self.wish.station
    }

    pub fn address(&self) -> Ipv4Addr {
        address(self.wish.station)
    }

    pub fn is_named(&self, name: &str) -> bool {
        self.wish.is_named(name)
    }

    /// Where other processes find the namespace, while this one lives.
    pub fn namespace_path(&self) -> PathBuf {
        let descriptor = self.namespace.as_fd().as_raw_fd();
        format!("/proc/{}/fd/{descriptor}", std::process::id()).into()
    }

    pub fn namespace(&self) -> &NetNamespace {
        &self.namespace
    }

    pub fn device(&self) -> &FrameDevice {
        &self.device
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}
