//! What happens to connections: segments, acknowledgements, ticks.

use barewire_des::{Class, Simulator};
use barewire_models::tcp::Segment;
use barewire_proto::evb::BuilderId;
use barewire_units::ByteSize;

use super::links::ends_of;
use super::{BurstEvent, World, builder_node, source_node};
use crate::kek::ethernet;
use crate::kek::experiments::bursts::shape::ACK_BYTES;
use crate::kek::experiments::bursts::tcp::tick_from;

impl World<'_> {
    pub(super) fn segment(
        &mut self,
        number: u32,
        segment: Segment,
        sim: &mut Simulator<BurstEvent>,
    ) {
        let Some(connections) = self.connections.as_mut() else {
            return;
        };
        let connection = connections.at(number);
        let builder = connection.builder;
        let receiver = &mut connection.receiver;
        let at_once = receiver.handle_segment(sim.now(), segment.seq, segment.len);
        // The program reads at once.
        let told = receiver.take(u64::MAX);
        let mut fragments = Vec::new();
        while let Some(fragment) = connection.delivered() {
            fragments.push(fragment);
        }
        if at_once || told {
            self.acknowledge(number, sim);
        } else {
            self.arm_receiver(number, sim);
        }
        for fragment in fragments {
            self.deliver(builder, fragment, sim);
        }
    }

    pub(super) fn acknowledge(&mut self, number: u32, sim: &mut Simulator<BurstEvent>) {
        let Some(connections) = self.connections.as_mut() else {
            return;
        };
        let connection = connections.at(number);
        let (source, builder) = (connection.source, connection.builder);
        let (ack, edge) = connection.receiver.acknowledge();
        let size = ByteSize::from_bytes(ACK_BYTES);
        let node = &mut self.builders[usize::from(builder)];
        let begins = node.link_free_at.max(sim.now());
        node.link_free_at = begins + self.shape.builder_link.time_to_send(size);
        let at = node.link_free_at + self.shape.way + self.shape.source_link.time_to_send(size);
        let event = BurstEvent::Ack {
            connection: number,
            ack,
            edge,
        };
        sim.at(at, Class::NORMAL, source_node(source), event);
        if let Some(capture) = self.captures.from_builders.get_mut(usize::from(builder)) {
            let ends = ends_of(source, builder).back();
            capture.record(begins, || ethernet::tcp(&ends, 0, ack, edge - ack, 0));
        }
    }

    pub(super) fn arm_receiver(&mut self, number: u32, sim: &mut Simulator<BurstEvent>) {
        let Some(connections) = self.connections.as_mut() else {
            return;
        };
        let connection = connections.at(number);
        let Some(due) = connection.receiver.ack_due() else {
            return;
        };
        if connection.receiver_tick.is_none() {
            let tick = tick_from(due, self.shape.tick);
            connection.receiver_tick = Some(tick);
            let node = builder_node(connection.builder);
            sim.at(tick, Class::NORMAL, node, BurstEvent::ReceiverTick(number));
        }
    }

    pub(super) fn receiver_tick(&mut self, number: u32, sim: &mut Simulator<BurstEvent>) {
        let Some(connections) = self.connections.as_mut() else {
            return;
        };
        let connection = connections.at(number);
        connection.receiver_tick = None;
        if connection.receiver.handle_tick(sim.now()) {
            self.acknowledge(number, sim);
        } else {
            self.arm_receiver(number, sim);
        }
    }

    pub(super) fn acknowledged(
        &mut self,
        number: u32,
        (ack, edge): (u64, u64),
        sim: &mut Simulator<BurstEvent>,
    ) {
        let Some(connections) = self.connections.as_mut() else {
            return;
        };
        let connection = connections.at(number);
        let source = connection.source;
        let node = &mut self.sources[usize::from(source)];
        connection.sender.handle_ack(sim.now(), ack, edge);
        if connection.full && connection.sender.room() >= self.shape.payload_bytes {
            connection.full = false;
            node.core.handle_room(BuilderId(connection.builder));
        }
        if !connection.queued {
            connection.queued = true;
            node.active.push_back(number);
        }
        self.pump(source, sim);
    }

    pub(super) fn sender_tick(&mut self, number: u32, sim: &mut Simulator<BurstEvent>) {
        let Some(connections) = self.connections.as_mut() else {
            return;
        };
        let now = sim.now();
        let connection = connections.at(number);
        let source = connection.source;
        connection.sender.handle_tick(now);
        connection.sender_tick = None;
        if let Some(due) = connection.sender.deadline() {
            let tick = tick_from(due, self.shape.tick).max(now + self.shape.tick);
            connection.sender_tick = Some(tick);
            let event = BurstEvent::SenderTick(number);
            sim.at(tick, Class::NORMAL, source_node(source), event);
        }
        if !connection.queued {
            connection.queued = true;
            self.sources[usize::from(source)].active.push_back(number);
        }
        self.pump(source, sim);
    }
}
