// One thread that serves many connections of several processes, by events.
//
//     many_clients                                   a server, and four clients as children
//     many_clients client NAME CONNECTIONS REQUESTS
#include "common.hpp"

#include <map>

constexpr int CLIENTS = 4, CONNECTIONS = 50, REQUESTS = 20;

class server {
public:
    explicit server(const std::string &name)
        : node_(barewire::node::make().value()), listener_(node_.listen(name).value()) {}

    int served = 0, answered = 0;

    // Serves until that many connections have ended.
    void run(int connections) {
        std::vector<barewire::event> events;
        while (served < connections) {
            // Polls a little, then sleeps. An idle server uses no processor time.
            ensure(node_.wait(events, 64, 30s).value() > 0, "no client for half a minute");
            for (barewire::event &event : events) {
                if (event.kind() == BW_EVENT_KIND_REQUEST) {
                    auto accepted = event.take_request().accept();
                    // An error: the client has given up meanwhile.
                    if (!accepted) {
                        served++;
                        continue;
                    }
                    std::uint32_t number = accepted->number().value();
                    connections_[number] = std::move(accepted).value();
                } else if (event.kind() == BW_EVENT_KIND_READY) {
                    // The end of a connection comes as readiness, too.
                    answer(event.connection_number());
                }
            }
        }
    }

private:
    // Answers what has come, at most 16 requests, so that the others get their turn: of the rest we are told again.
    void answer(std::uint32_t number) {
        auto found = connections_.find(number);
        if (found == connections_.end()) return;
        char buffer[256];
        for (int nth = 0; nth < 16; nth++) {
            auto received = found->second.try_recv(buffer);
            if (received && !*received) return;
            // A client that does not read its answers does not get them.
            auto sent = received ? found->second.try_send({buffer, **received})
                                 : barewire::result<bool>(received.error());
            if (!sent) {
                if (!sent.failed_with(BW_E_FINISHED) && !sent.failed_with(BW_E_PEER_GONE))
                    std::fprintf(stderr, "connection %u: %s\n", number, sent.error().text().c_str());
                connections_.erase(found);
                served++;
                return;
            }
            answered += *sent;
        }
    }

    barewire::node node_;
    barewire::listener listener_;
    std::map<std::uint32_t, barewire::connection> connections_;
};

static int client(const std::string &name, int connections, int requests) {
    auto node = barewire::node::make().value();
    std::vector<barewire::connection> all;
    // They share one link, so a connection costs neither descriptor nor mapping.
    for (int i = 0; i < connections; i++) all.push_back(node.connect(name, patient()).value());
    auto text = [](int request, int on) {
        return "request " + std::to_string(request) + " on " + std::to_string(on);
    };
    for (int request = 0; request < requests; request++) {
        for (int i = 0; i < connections; i++) all[static_cast<std::size_t>(i)].send(text(request, i)).value();
        for (int i = 0; i < connections; i++) {
            std::string answer;
            all[static_cast<std::size_t>(i)].recv_into(answer).value();
            ensure(answer == text(request, i), "the answer");
        }
    }
    return 0;
}

static int demonstrate() {
    std::string name = "many-clients-cpp-" + std::to_string(getpid());
    server serving(name);
    std::vector<child> clients;
    for (int i = 0; i < CLIENTS; i++)
        clients.emplace_back(std::vector<std::string>{"client", name, std::to_string(CONNECTIONS),
                                                      std::to_string(REQUESTS)});
    serving.run(CLIENTS * CONNECTIONS);
    for (child &client : clients) client.end();
    std::printf("%d connections of %d processes, %d requests, one thread\n", serving.served, CLIENTS,
                serving.answered);
    ensure(serving.answered == CLIENTS * CONNECTIONS * REQUESTS, "how many requests were answered");
    return 0;
}

int main(int argc, char **argv) {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    return run([&] {
        if (arguments.size() == 4 && arguments[0] == "client")
            return client(arguments[1], std::stoi(arguments[2]), std::stoi(arguments[3]));
        ensure(arguments.empty(), "usage: many_clients [client NAME CONNECTIONS REQUESTS]");
        return demonstrate();
    });
}
