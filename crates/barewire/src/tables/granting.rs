//! Granting apertures, and being granted them.

use std::os::fd::AsFd;
use std::sync::Arc;

use barewire_fabric::aperture::Rights;
use barewire_sys::wake::Interest;

use crate::apertures::access::FLAG_UNWATCHED;
use crate::apertures::exported::Exported;
use crate::apertures::imported::{import, import_far};
use crate::apertures::importers::ON_OWNER_MAX;
use crate::apertures::layout::ApertureConfig;
use crate::error::{Error, Misconduct, Result};
use crate::links::budget::Resource;
use crate::links::connection::ConnectionCore;
use crate::links::driven::Driven;
use crate::links::link::has_ended;
use crate::messages::control::Message;
use crate::messages::passed::{Checked, Passed};
use crate::tables::events::Pending;
use crate::tables::state::State;

/// What an imported aperture takes: its memory, watch table and counts, and the table for
/// tripwires on the owner's stores.
const APERTURE: [(Resource, u64); 2] = [(Resource::Mappings, 4), (Resource::PrivateBytes, 1024)];

impl State {
    /// Grants an aperture of ours to the peer of a connection.
    pub fn grant(
        &mut self,
        exported: &Exported,
        connection: &ConnectionCore,
        cookie: u64,
    ) -> Result<()> {
        exported.set_granted_to(connection.link.peer.uid);
        let (link, number) = self.route(connection.number).ok_or(Error::PeerGone)?;
        let aperture = exported.number;
        if !self.exports.granted(aperture, link) {
            return Err(Error::GrantedAlready);
        }
        let (waiting, receiver_tripwires) = match exported.add_importer(link, &connection.link) {
            Ok(made) => made,
            Err(error) => {
                self.exports.released(aperture, link);
                return Err(error);
            }
        };
        let config = exported.config;
        let message = Message::Grant {
            connection: number,
            aperture,
            cookie,
            len_bytes: config.len_bytes as u64,
            tripwires: config.tripwires_max,
            writable: config.rights == Rights::ReadWrite,
            receiver_tripwires,
        };
        let [memory, watch, counts] = exported.descriptors();
        self.send(link, &message, &[memory, watch, counts, waiting.as_fd()]);
        Ok(())
    }

    /// Tells all who hold it that an aperture of ours has been withdrawn. Returns what carries that to other hosts.
    pub fn revoke(&mut self, aperture: u32) -> Vec<Arc<dyn Driven>> {
        let holders = self.exports.holders(aperture);
        for link in &holders {
            self.send(*link, &Message::Revoke { aperture }, &[]);
        }
        let remote = |link: &usize| self.peers.get(*link)?.remote.clone();
        holders.iter().filter_map(remote).collect()
    }

    /// A peer grants us an aperture.
    pub fn handle_grant(&mut self, index: usize, message: &Message<'_>, passed: Passed) -> Checked {
        let &Message::Grant {
            connection,
            aperture,
            cookie,
            len_bytes,
            tripwires,
            writable,
            receiver_tripwires,
        } = message
        else {
            return Err(Misconduct::Control("not a grant"));
        };
        let Some(serial) = self.serial_if_open(index, connection)? else {
            self.decline(index, aperture);
            return Ok(());
        };
        let peer = &mut self.peers[index];
        let max = self.base.live().config.granted_apertures_max as usize;
        let (count, known) = peer.granted.count(aperture);
        if count >= max {
            return Err(Misconduct::Exceeds {
                what: "apertures of one peer",
                limit: max as u64,
            });
        }
        let config = ApertureConfig {
            len_bytes: usize::try_from(len_bytes).unwrap_or(usize::MAX),
            rights: if writable {
                Rights::ReadWrite
            } else {
                Rights::Read
            },
            tripwires_max: tripwires,
        };
        if config.check().is_err() || receiver_tripwires > ON_OWNER_MAX || known {
            return Err(Misconduct::Control(
                "grants an impossible aperture, or one twice",
            ));
        }
        let link = peer.link().ok_or(Misconduct::Control("closed"))?;
        let at = (index, peer.generation);
        let event = self.charge(index, &[(Resource::Events, 1)])?;
        let charges = self.charge(index, &APERTURE)?;
        let remote = if link.remote().is_some() {
            let [] = passed.take()?;
            import_far(&self.base, link, at, aperture, config, charges)?
        } else {
            let (base, numbers) = (Arc::downgrade(&self.base), (aperture, receiver_tripwires));
            import(base, link, at, numbers, config, passed, charges)?
        };
        self.connections[connection as usize].events += 1;
        if !self.watch_for_end(index) {
            remote.access.set(FLAG_UNWATCHED);
        }
        let peer = &mut self.peers[index];
        peer.granted.add(aperture, &remote.access);
        self.push(Pending::Granted {
            number: connection,
            serial,
            cookie,
            aperture: remote,
            charges: event,
        });
        Ok(())
    }

    /// The connection of a grant was closed meanwhile. Its owner may grant the aperture again, over another one.
    fn decline(&mut self, index: usize, aperture: u32) {
        let (_, known) = self.peers[index].granted.count(aperture);
        if !known {
            self.send(index, &Message::Release { aperture }, &[]);
        }
    }

    /// Has the end of a peer tell its apertures even if nobody polls. `false` if no thread can
    /// be started.
    fn watch_for_end(&mut self, index: usize) -> bool {
        let Some(peer) = self.peers.get_mut(index) else {
            return false;
        };
        let Some(socket) = peer.socket.clone() else {
            return false;
        };
        let (granted, pidfd) = (peer.granted.clone(), peer.pidfd.clone());
        let base = Arc::downgrade(&self.base);
        let ended = move || {
            let base = base.upgrade();
            if let Some(base) = base.filter(|_| has_ended(&socket, pidfd.as_deref())) {
                granted.owner_gone(&base);
            }
        };
        peer.watch(Interest::default(), Arc::new(ended))
    }

    /// Tries again to have the end of a peer watched for.
    pub fn watch_again(&mut self, (index, generation): (usize, u32)) {
        if self.is_peer(index, generation) && self.watch_for_end(index) {
            self.peers[index].granted.watched();
        }
    }
}
