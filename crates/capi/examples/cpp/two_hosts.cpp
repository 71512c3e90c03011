// A server and a client that reach each other by an address, as on two hosts; here both on the loopback, without keys.
//
//     two_hosts
#include "common.hpp"

#include <thread>

static barewire::node make_node() {
    barewire::node_config config;
    config.security = BW_SECURITY_INSECURE;  // between hosts: BW_SECURITY_KEYS
    config.no_shortcut = 1;                  // or the two would meet in shared memory
    return barewire::node::make(config).value();
}

int main() {
    return run([] {
        std::string name = "two-hosts-cpp-" + std::to_string(getpid());
        auto node = make_node();
        auto listener = node.listen(name).value();
        auto port = node.listen_on("127.0.0.1:0").value();
        std::string address = port.address().value() + "/" + name;
        std::thread calling([&] {
            auto client = make_node();
            auto connection = client.connect(address, patient()).value();
            connection.send("from afar").value();
            std::string answer;
            connection.recv_into(answer).value();
            ensure(answer == "welcome", "the answer");
        });
        auto connection = node.next_request(30s).value().accept().value();
        std::string text;
        connection.recv_into(text, 30s).value();
        auto peer = connection.remote().value();
        ensure(text == "from afar" && peer.has_value(), "who is there");
        std::printf("\"%s\", over %s\n", text.c_str(), peer->transport);
        connection.send("welcome").value();
        calling.join();
        return 0;
    });
}
