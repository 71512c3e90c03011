// Sends bytes as a stream to another process, which says how many it has got and what their sum is.
//
//     stream_file
#include "common.hpp"

#include <array>
#include <numeric>

static barewire::node make_node() {
    barewire::node_config config;
    config.ring_bytes = 1 << 20;  // a stream wants a larger ring than messages
    return barewire::node::make(config).value();
}

static std::string description(std::size_t bytes, unsigned long sum) {
    return std::to_string(bytes) + " bytes, sum " + std::to_string(sum);
}

static int receive(const std::string &name) {
    auto node = make_node();
    auto listener = node.listen(name).value();
    auto stream = node.next_request().value().accept().value().into_stream().value();
    std::array<unsigned char, 65536> piece;
    std::size_t received = 0;
    unsigned long sum = 0;
    while (std::size_t len = stream.read(piece).value()) {
        sum = std::accumulate(piece.begin(), piece.begin() + static_cast<long>(len), sum);
        received += len;
    }
    // Destroying the stream ends it; what was written before still arrives.
    stream.write_all(description(received, sum)).value();
    return 0;
}

static int send() {
    std::string name = "stream-file-cpp-" + std::to_string(getpid());
    child receiver({"receive", name});
    auto node = make_node();
    auto stream = node.connect(name, patient()).value().into_stream().value();
    std::vector<unsigned char> bytes(4000000);
    unsigned value = 1;
    for (unsigned char &byte : bytes) byte = static_cast<unsigned char>((value = value * 1664525 + 1013904223) >> 24);
    stream.write_all(bytes).value();
    // The receiver reads to the end of what we wrote; we still read its answer.
    stream.finish().value();
    std::string answer;
    char piece[64];
    while (std::size_t len = stream.read(piece).value()) answer.append(piece, len);
    std::printf("sent %zu bytes; the receiver says: %s\n", bytes.size(), answer.c_str());
    ensure(answer == description(bytes.size(), std::accumulate(bytes.begin(), bytes.end(), 0ul)), "the sum");
    receiver.end();
    return 0;
}

int main(int argc, char **argv) {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    return run([&] {
        if (arguments.size() == 2 && arguments[0] == "receive") return receive(arguments[1]);
        ensure(arguments.empty(), "usage: stream_file");
        return send();
    });
}
