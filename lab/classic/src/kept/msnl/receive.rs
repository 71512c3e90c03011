//! What a message does: to the call that it is about, or to none.

use barewire_formats::msnl::{Body, MessageRepr, Port, Reason};
use barewire_units::Instant;

use super::call::Call;
use super::{Action, End, Event, Network, State};

impl Network {
    /// Takes a message that came in on the signalling VCI.
    pub fn handle_message(&mut self, now: Instant, message: &MessageRepr) {
        self.stats.received += 1;
        if message.destination != self.config.station {
            self.stats.misaddressed += 1;
            return;
        }
        let may_be_anonymous = matches!(message.body, Body::Reject(_) | Body::Closed);
        if message.source_reference == 0 && !may_be_anonymous {
            self.stats.ignored += 1;
            return;
        }
        if let Body::Connect {
            receive_at,
            service,
        } = message.body
        {
            return self.on_connect(now, message, receive_at, service);
        }
        match self.find(message) {
            Some((reference, state)) => self.on_message(now, message, reference, state),
            None => {
                self.stats.unknown_call += 1;
                self.answer_closed(message);
            }
        }
    }

    /// The call that a message is about, and its state.
    fn find(&self, message: &MessageRepr) -> Option<(u32, State)> {
        let reference = match (message.destination_reference, message.body) {
            // From a caller that left before it was answered.
            (0, Body::Close(_)) => {
                let caller = (message.source, message.source_reference);
                *self.by_caller.get(&caller)?
            }
            (reference, _) => reference,
        };
        let call = self.calls.get(&reference)?;
        // Whoever has no such call may not know how it was numbered.
        let agrees = call.peer_reference == message.source_reference
            || call.peer_reference == 0
            || message.source_reference == 0;
        (call.peer == message.source && agrees).then_some((reference, call.state))
    }

    fn on_message(&mut self, now: Instant, message: &MessageRepr, reference: u32, state: State) {
        match message.body {
            Body::Accept { receive_at } => self.on_accept(now, message, reference, receive_at),
            Body::Reject(reason) => {
                let end = End::Rejected(reason);
                if self.end(now, reference, Event::RejectArrives, end) || state.is_over() {
                    self.answer_closed(message);
                }
            }
            Body::Close(reason) => {
                let end = End::ClosedByPeer(reason);
                self.end(now, reference, Event::CloseArrives, end);
                self.answer_closed(message);
            }
            Body::Closed => {
                self.stats.half_open += u64::from(state == State::Open);
                self.end(now, reference, Event::ClosedArrives, End::ForgottenByPeer);
            }
            Body::Confirm | Body::Probe => self.on_confirm(now, message, reference, state),
            Body::Connect { .. } | Body::Unknown(_) => self.stats.ignored += 1,
        }
    }

    /// A connect opens a call, unless it is another copy of one that came before.
    fn on_connect(&mut self, now: Instant, message: &MessageRepr, peer_port: Port, service: u64) {
        let (source, source_reference) = (message.source, message.source_reference);
        let caller = (source, source_reference);
        if let Some(&reference) = self.by_caller.get(&caller) {
            return self.on_second_connect(message, reference);
        }
        let refusal = if now < self.quiet_until {
            Some(Reason::Restarted)
        } else {
            self.check_room().is_err().then_some(Reason::NoResources)
        };
        if let Some(reason) = refusal {
            self.stats.refused += 1;
            return self.send(source, 0, source_reference, Body::Reject(reason));
        }
        let mut call = Call::new(source, source_reference, service, None);
        call.peer_port = Some(peer_port);
        let reference = self.insert(call);
        self.by_caller.insert(caller, reference);
        self.apply(now, reference, Event::ConnectArrives);
        self.tell(Action::Incoming {
            call: reference,
            from: source,
            service,
        });
    }

    /// The caller has not heard the answer, if there was one.
    fn on_second_connect(&mut self, message: &MessageRepr, reference: u32) {
        let call = self.calls.get(&reference);
        match call.map(|call| (call.state, call.reason)) {
            Some((state, reason)) if state.is_over() => {
                let to = (message.source, message.source_reference);
                self.send(to.0, reference, to.1, Body::Close(reason));
            }
            Some((State::Accepting | State::Rejecting | State::Closing, _)) => {
                self.send_own(reference);
            }
            _ => self.stats.ignored += 1,
        }
    }

    fn on_accept(&mut self, now: Instant, message: &MessageRepr, reference: u32, port: Port) {
        let Some(call) = self.calls.get_mut(&reference) else {
            return;
        };
        let source_reference = message.source_reference;
        match call.state {
            State::Connecting => {
                call.peer_reference = source_reference;
                call.peer_port = Some(port);
                self.apply(now, reference, Event::AcceptArrives);
                self.tell(Action::Opened { call: reference });
                self.answer(message, reference, Body::Confirm);
            }
            State::Open => self.answer(message, reference, Body::Confirm),
            State::Closing => {
                call.peer_reference = source_reference;
                self.send_own(reference);
            }
            state if state.is_over() => self.answer_closed(message),
            _ => self.stats.ignored += 1,
        }
    }

    /// A confirm, or a probe, which says the same and wants an answer.
    fn on_confirm(&mut self, now: Instant, message: &MessageRepr, reference: u32, state: State) {
        match state {
            State::Accepting => {
                self.apply(now, reference, Event::ConfirmArrives);
                self.tell(Action::Opened { call: reference });
            }
            State::Open => {
                let timing = self.config.timing;
                self.update(reference, |call| call.heard(now, &timing));
            }
            State::Closing | State::Rejecting => return self.send_own(reference),
            _ if state.is_over() => return self.answer_closed(message),
            _ => {
                self.stats.ignored += 1;
                return;
            }
        }
        if message.body == Body::Probe {
            self.answer(message, reference, Body::Confirm);
        }
    }

    /// The peer ends the call; the user hears of it if the call was still the user's. Whether
    /// the state of the call allows that is returned.
    fn end(&mut self, now: Instant, reference: u32, event: Event, end: End) -> bool {
        let Some(call) = self.calls.get_mut(&reference) else {
            return false;
        };
        if call.state.on(event).is_none() {
            self.stats.ignored += 1;
            return false;
        }
        if call.state.is_users() {
            self.tell(Action::Closed {
                call: reference,
                end,
            });
        }
        self.apply(now, reference, event);
        true
    }

    fn answer(&mut self, message: &MessageRepr, reference: u32, body: Body) {
        self.send(message.source, reference, message.source_reference, body);
    }

    /// There is no such call here. That itself is not answered, nor is what comes from no call.
    fn answer_closed(&mut self, message: &MessageRepr) {
        let unanswerable = matches!(message.body, Body::Closed | Body::Unknown(_));
        if !unanswerable && message.source_reference != 0 {
            self.answer(message, message.destination_reference, Body::Closed);
        }
    }
}
