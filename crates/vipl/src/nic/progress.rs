//! Events of the node, and what else takes operations further.

use barewire::Event;

use super::state::Inner;

/// Events that are taken at once.
const EVENTS_MAX: usize = 64;
/// Of so many looks at the connection of the last message, one looks at all.
const LOOKS_BETWEEN_POLLS: u64 = 16;

impl Inner {
    /// Takes all operations as far as they go now, beginning with those of a VI.
    pub(crate) fn progress(&mut self, first: Option<usize>) {
        self.polls = self.polls.wrapping_add(1);
        let worked = match first.or(self.recent) {
            Some(vi) => {
                self.pump_again(vi);
                self.drain(vi)
            }
            None => false,
        };
        if !worked || self.polls % LOOKS_BETWEEN_POLLS == 0 {
            let mut events = std::mem::take(&mut self.events);
            // It can only fail where nothing of the node is of use any more: in a child of the process that made it.
            let _ = self.node.poll(&mut events, EVENTS_MAX);
            for event in events.drain(..) {
                self.handle(event);
            }
            self.events = events;
            if std::mem::take(&mut self.woke_program) {
                self.wake_helper();
            }
            self.keep_time();
        }
        if self.drain_busy() {
            // The program need not come again.
            self.wake_helper();
        }
    }

    /// Handles what the helper thread got from the node.
    pub(crate) fn handle_all(&mut self, events: &mut Vec<Event>) {
        for event in events.drain(..) {
            self.handle(event);
        }
        self.woke_program = false;
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Ready(id) => match self.by_connection.get(&id).copied() {
                Some(vi) => {
                    self.drain(vi);
                    self.pump(vi);
                }
                None => self.drain_waker(),
            },
            Event::Request(request) => self.requested(request),
            Event::Connected(connection) => self.connected(*connection),
            Event::ConnectFailed { connection, error } => self.call_failed(connection, &error),
            Event::Closed { connection, .. } => {
                if let Some(vi) = self.by_connection.get(&connection).copied() {
                    while self.drain(vi) {}
                    if self.by_connection.contains_key(&connection) {
                        self.lost(vi);
                    }
                }
            }
            _ => {}
        }
    }

    /// Tries once more what there was no room for. The node tells of room, too, but a node that is polled looks at connections
    /// less and less often.
    fn pump_again(&mut self, vi: usize) {
        let link = self.vis.get(&vi).and_then(|of| of.link.as_ref());
        let is_full = link.is_some_and(|link| link.flow.is_full);
        if is_full {
            self.pump(vi);
        }
    }

    fn drain_waker(&mut self) {
        if let Some([_, end]) = &mut self.waker {
            while matches!(end.try_recv(&mut [0; 8]), Ok(Some(_))) {
                self.woke_program = true;
            }
        }
    }

    /// Wakes the helper thread out of the node.
    pub(crate) fn wake_helper(&mut self) {
        if let Some([end, _]) = &mut self.waker {
            // Without room for it there is one that was not taken yet.
            let _ = end.try_send(&[1]);
        }
    }
}
