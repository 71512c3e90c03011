// A server that sends every message back, and a client.
//
//     echo serve NAME     in one terminal
//     echo call NAME      in another
//     echo                both, the server as a child
#include "common.hpp"

#include <thread>

// Sends back what comes until the client has finished. The connection may be used in another thread than its node.
static void answer(barewire::connection connection) {
    std::vector<unsigned char> message;
    for (;;) {
        auto received = connection.recv_into(message);
        auto done = received ? connection.send(message) : barewire::result<void>(received.error());
        if (done.failed_with(BW_E_FINISHED) || done.failed_with(BW_E_PEER_GONE)) return;
        if (!done) {
            std::fprintf(stderr, "%s\n", done.error().text().c_str());
            return;
        }
    }
}

static int serve(const std::string &name) {
    auto node = barewire::node::make().value();
    auto listener = node.listen(name).value();
    for (;;) {
        auto connection = node.next_request().value().accept().value();
        std::thread(answer, std::move(connection)).detach();
    }
}

static int call(const std::string &name) {
    auto node = barewire::node::make().value();
    // Waits for the name to appear.
    auto connection = node.connect(name, patient()).value();
    std::printf("connected to process %d\n", static_cast<int>(connection.peer().value().pid));
    connection.send("hello").value();
    std::string text;
    connection.recv_into(text).value();
    std::printf("it says \"%s\"\n", text.c_str());

    // One that is longer than the ring travels in pieces.
    std::vector<unsigned char> message(100000, 7), back;
    connection.send(message).value();
    ensure(connection.recv_into(back).value() == message.size() && back == message, "the long message");

    // Built in place, and read in place.
    connection.reserve(64).value();
    connection.reserved_write(3, "place").value();
    connection.reserved_write(0, "in ").value();
    ensure(connection.send("not now").failed_with(BW_E_WRONG_ORDER), "a send while room is reserved");
    connection.commit(8).value();
    ensure(connection.peek().value() == 8, "the length of what came back");
    char place[5];
    connection.peeked_read(3, place).value();
    ensure(std::string(place, 5) == "place", "what came back");
    connection.release_message().value();
    std::printf("a message in place came back\n");
    return 0;
}

int main(int argc, char **argv) {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    return run([&] {
        if (arguments.size() == 2 && arguments[0] == "serve") return serve(arguments[1]);
        if (arguments.size() == 2 && arguments[0] == "call") return call(arguments[1]);
        ensure(arguments.empty(), "usage: echo [serve NAME | call NAME]");
        std::string name = "echo-cpp-" + std::to_string(getpid());
        child server({"serve", name});
        return call(name);
    });
}
