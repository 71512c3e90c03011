// A node in a loop of your own, with poll.
//
//     own_loop
#include "common.hpp"

#include <poll.h>

#include <optional>

constexpr int REQUESTS = 500;

static int client(const std::string &name) {
    auto node = barewire::node::make().value();
    auto connection = node.connect(name, patient()).value();
    for (int request = 0; request < REQUESTS; request++) {
        int answer = -1;
        connection.send({&request, sizeof request}).value();
        connection.recv({&answer, sizeof answer}).value();
        ensure(answer == request, "the answer");
    }
    return 0;
}

static int serve() {
    std::string name = "own-loop-cpp-" + std::to_string(getpid());
    auto node = barewire::node::make().value();
    auto listener = node.listen(name).value();
    child calling({"client", name});
    std::optional<barewire::connection> connection;
    std::vector<barewire::event> events;
    int answered = 0;
    for (bool finished = false; !finished;) {
        // Poll until there is nothing: only then does the descriptor tell of the next.
        while (!finished && node.poll(events, 16).value() > 0) {
            for (barewire::event &event : events) {
                if (event.kind() == BW_EVENT_KIND_REQUEST) connection = event.take_request().accept().value();
                if (event.kind() != BW_EVENT_KIND_READY || !connection) continue;
                char buffer[64];
                for (;;) {
                    auto received = connection->try_recv(buffer);
                    finished = received.failed_with(BW_E_FINISHED);
                    if (finished || !received.value()) break;
                    ensure(connection->try_send({buffer, **received}).value(), "room for an answer");
                    answered++;
                }
            }
        }
        if (finished) break;
        pollfd waiting{node.descriptor().value(), POLLIN, 0};
        ensure(poll(&waiting, 1, 30000) == 1, "nothing for half a minute");
    }
    calling.end();
    std::printf("answered %d requests\n", answered);
    ensure(answered == REQUESTS, "how many requests were answered");
    return 0;
}

int main(int argc, char **argv) {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    return run([&] {
        if (arguments.size() == 2 && arguments[0] == "client") return client(arguments[1]);
        ensure(arguments.empty(), "usage: own_loop");
        return serve();
    });
}
