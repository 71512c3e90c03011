// One process keeps words in its memory; another adds to them, and sleeps until the owner stores. Tripwires of both
// kinds, bulk transfers, and out-of-band messages.
//
//     shared_table
#include "common.hpp"

constexpr std::size_t SIZE = 4096, VERSION = 0, SUM = 8, BULK = 1024;

static int reader(const std::string &name) {
    auto node = barewire::node::make().value();
    auto connection = node.connect(name, patient()).value();
    auto [cookie, table] = connection.import(30s).value();
    ensure(cookie == 42 && table.size().value() == SIZE, "what was granted");
    // Set before the first look: what changes between a look and the wait ends the wait.
    auto changed = table.tripwire_on_owner(VERSION, 8, BW_MODE_STICKY, BW_ACTION_WAKE).value();
    std::vector<barewire::event> events;
    while (table.load(VERSION).value() < 100) node.wait(events, 16, 30s).value();
    ensure(table.load(SUM).value() == 5050, "what was stored before the version");

    // The end of a transfer in the background comes as an event.
    table.bulk_put(BULK, "in bulk", 7).value();
    bool is_put = false;
    while (!is_put) {
        node.wait(events, 16, 30s).value();
        for (barewire::event &event : events) {
            is_put |= event.kind() == BW_EVENT_KIND_COMPLETION && event.cookie() == 7 && !event.error();
        }
    }
    ensure(connection.send_out_of_band("put").value(), "an out-of-band message");
    // Until the owner is gone.
    char nothing[8];
    ensure(connection.recv(nothing, 30s).failed_with(BW_E_FINISHED), "the end");
    return 0;
}

static int own() {
    std::string name = "shared-table-cpp-" + std::to_string(getpid());
    auto node = barewire::node::make().value();
    auto listener = node.listen(name).value();
    child reading({"read", name});
    auto table = node.make_aperture(SIZE, BW_RIGHTS_READ_WRITE).value();
    auto touched = table.tripwire(BULK, 8, BW_MODE_ONE_SHOT, BW_ACTION_ENQUEUE, 5).value();
    auto connection = node.next_request(30s).value().accept().value();
    connection.grant(table, 42).value();
    for (std::uint64_t version = 1; version <= 100; version++) {
        table.add(SUM, version).value();
        table.store(VERSION, version).value();
    }
    bool is_touched = false, is_told = false;
    std::vector<barewire::event> events;
    while (!is_touched || !is_told) {
        ensure(node.wait(events, 16, 30s).value() > 0, "nothing for half a minute");
        for (barewire::event &event : events) {
            if (event.kind() == BW_EVENT_KIND_TRIPWIRE) {
                ensure(event.cookie() == 5 && event.aperture_number() == table.number().value(), "the tripwire");
                is_touched = true;
            } else if (event.kind() == BW_EVENT_KIND_OUT_OF_BAND) {
                ensure(event.data().text() == "put", "the out-of-band message");
                is_told = true;
            }
        }
    }
    char text[7];
    table.get_bytes(BULK, text).value();
    ensure(std::string(text, 7) == "in bulk" && !touched.is_armed().value(), "what was put");
    connection.close().value();
    reading.end();
    std::printf("the reader saw 100 changes, and put 7 bytes\n");
    return 0;
}

int main(int argc, char **argv) {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    return run([&] {
        if (arguments.size() == 2 && arguments[0] == "read") return reader(arguments[1]);
        ensure(arguments.empty(), "usage: shared_table");
        return own();
    });
}
