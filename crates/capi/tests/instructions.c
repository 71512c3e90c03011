/* Calls of the message path, to be counted by callgrind: scripts/instructions.sh.
 *
 *     instructions messages|waiting SIZE TURNS
 *
 * Two nodes in one thread, as in benches/src/bin/instructions.rs. `waiting` calls what would wait, but need not. */
#include "../examples/c/common.h"

#include <string.h>

int main(int argc, char **argv) {
    static char message[4096], buffer[4096];
    char name[64];
    bw_node server, client;
    bw_listener listener;
    bw_request request;
    bw_connection ends[2];
    bw_event event;
    ensure(argc == 4, "usage: instructions messages|waiting SIZE TURNS");
    int64_t timeout_ns = strcmp(argv[1], "waiting") == 0 ? BW_FOREVER : BW_NO_WAIT;
    size_t bytes = strtoul(argv[2], NULL, 10);
    long turns = strtol(argv[3], NULL, 10);
    ensure(bytes <= sizeof message, "at most 4096 bytes");
    snprintf(name, sizeof name, "instructions-c-%d", (int)getpid());
    check(bw_node_new(NULL, &server), "make a node");
    check(bw_node_new(NULL, &client), "make a node");
    check(bw_node_listen(server, name, NULL, &listener), "listen");
    check(bw_node_start_connect(client, name, NULL), "start to connect");
    check(bw_node_next_request(server, SECONDS(30), &request), "the request");
    check(bw_request_accept(request, 0, &ends[0]), "accept");
    do {
        check(bw_node_wait(client, &event, 1, SECONDS(30)), "wait");
    } while (event.kind != BW_EVENT_KIND_CONNECTED);
    ends[1] = event.connection;
    for (long turn = 0; turn < 2 * turns; turn++) {
        bw_connection from = ends[(turn + 1) % 2], to = ends[turn % 2];
        check(bw_connection_send(from, message, bytes, timeout_ns), "send");
        check(bw_connection_recv(to, buffer, sizeof buffer, timeout_ns), "receive");
    }
    return 0;
}
