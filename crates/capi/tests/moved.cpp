// Objects that were moved from, closed, or whose handle was taken out: every call with them is an error, and nothing is
// closed twice.
#include "../examples/cpp/common.hpp"

static_assert(!std::is_copy_constructible_v<barewire::connection>, "handles cannot be copied");
static_assert(std::is_nothrow_move_constructible_v<barewire::connection>, "handles can be moved");

static void pair(const std::string &name) {
    auto server = barewire::node::make().value();
    auto client = barewire::node::make().value();
    auto listener = server.listen(name).value();
    std::uint32_t number = client.start_connect(name).value();
    auto request = server.next_request(30s).value();
    ensure(request.name().value() == name && request.data().value().empty(), "the request");
    auto one = request.accept().value();
    ensure(!request && request.accept().failed_with(BW_E_NULL), "a request that was accepted");

    std::vector<barewire::event> events;
    barewire::connection other;
    while (!other) {
        client.wait(events, 4, 30s).value();
        for (auto &event : events) {
            if (event.kind() != BW_EVENT_KIND_CONNECTED) continue;
            ensure(event.connection_number() == number, "the number");
            other = event.take_connection();
            ensure(!event.take_connection(), "a connection that was taken");
        }
    }

    barewire::connection moved = std::move(one);
    ensure(!one && one.send("x").failed_with(BW_E_NULL), "an object that was moved from");
    moved.send("hello").value();
    std::string text;
    ensure(other.recv_into(text, 30s).value() == 5 && text == "hello", "the message");

    // The accessor that throws.
    bool thrown = false;
    try {
        one.recv_into(text).value();
    } catch (const barewire::exception &e) {
        thrown = e.error().code() == BW_E_NULL && e.error().fault() == BW_FAULT_CALLER;
    }
    ensure(thrown, "what value() throws");

    auto [sender, receiver] = moved.split().value();
    ensure(!moved && moved.close().failed_with(BW_E_NULL), "a connection that was split");
    auto shared = sender.share().value();
    ensure(!sender, "a sender that is shared");
    auto again = shared.clone().value();
    again.send("one").value();
    shared.send("two").value();
    ensure(other.recv_into(text, 30s).value() == 3 && text == "one", "the first message");
    // What is destroyed here closes its direction.
    { auto gone = std::move(receiver); }
    while (other.send("more")) {
    }
    ensure(other.send("more").failed_with(BW_E_PEER_DEAF), "a peer that does not receive");
    ensure(other.close().has_value() && other.close().failed_with(BW_E_NULL), "a second close");

    auto aperture = client.make_aperture(4096, BW_RIGHTS_READ_WRITE).value();
    std::uint64_t expected = 1;
    ensure(!aperture.compare_exchange(0, expected, 2).value() && expected == 0, "an exchange that fails");
    ensure(aperture.compare_exchange(0, expected, 2).value() && aperture.add(0, 3).value() == 2, "an exchange");
    ensure(aperture.load(0).value() == 5 && aperture.size().value() == 4096, "the word");
    ensure(client.get_setting("spin").value() == "adaptive", "a setting");
    ensure(client.clone().value().descriptor().value() == client.descriptor().value(), "a clone");
}

int main() {
    return run([] {
        pair("moved-cpp-" + std::to_string(getpid()));
        std::printf("empty objects are errors\n");
        return 0;
    });
}
