/* Several processes add to one word in the memory of another, which sleeps until a tripwire tells that they are done.
 *
 *     remote_counter
 */
#include "common.h"

#include <inttypes.h>
#include <string.h>

enum { COUNTERS = 3, EACH = 10000, SUM = 0, DONE = 64 };

static void count(const char *name, size_t number) {
    bw_node node;
    bw_connection connection;
    bw_remote_aperture memory;
    uint64_t cookie = 0;
    check(bw_node_new(NULL, &node), "make a node");
    check(bw_node_connect(node, name, patient(), &connection), "connect");
    check(bw_connection_import(connection, SECONDS(30), &cookie, &memory), "import");
    ensure(cookie == 7 && bw_remote_aperture_rights(memory) == BW_RIGHTS_READ_WRITE, "what was granted");
    for (int i = 0; i < EACH; i++) {
        check(bw_remote_aperture_add(memory, SUM, 1, NULL), "add");
    }
    /* Whoever sees this word sees the additions before it. */
    check(bw_remote_aperture_store(memory, DONE + number * 64, 1), "store");
    check(bw_remote_aperture_close(memory), "give the memory back");
    check(bw_connection_close(connection), "close the connection");
    check(bw_node_close(node), "close the node");
}

static int counters_done(bw_aperture memory) {
    int done = 0;
    for (size_t i = 0; i < COUNTERS; i++) {
        uint64_t word = 0;
        check(bw_aperture_load(memory, DONE + i * 64, &word), "load");
        done += word == 1;
    }
    return done;
}

static void own(void) {
    char name[64];
    bw_node node;
    bw_listener listener;
    bw_aperture memory;
    bw_tripwire done_wire, sum_wire;
    bw_connection connections[COUNTERS];
    pid_t counters[COUNTERS];
    int connected = 0, done = 0;
    snprintf(name, sizeof name, "remote-counter-c-%d", (int)getpid());
    check(bw_node_new(NULL, &node), "make a node");
    check(bw_node_listen(node, name, NULL, &listener), "listen");
    check(bw_node_export(node, 4096, BW_RIGHTS_READ_WRITE, 0, &memory), "export");
    /* An event with this cookie when a peer stores in one of the «done» words. */
    check(bw_aperture_tripwire(memory, DONE, COUNTERS * 64, BW_MODE_STICKY, BW_ACTION_ENQUEUE, 1, &done_wire),
          "set a tripwire");
    /* Counts the additions, without waking anybody. */
    check(bw_aperture_tripwire(memory, SUM, 8, BW_MODE_STICKY, BW_ACTION_COUNT, 0, &sum_wire), "set a tripwire");
    for (int i = 0; i < COUNTERS; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        counters[i] = start("count", name, number, NULL);
    }
    while (done < COUNTERS) {
        bw_event event;
        ensure(check(bw_node_wait(node, &event, 1, SECONDS(30)), "wait") == 1, "nothing for half a minute");
        if (event.kind == BW_EVENT_KIND_REQUEST) {
            ensure(connected < COUNTERS, "how many connect");
            check(bw_request_accept(event.request, 0, &connections[connected]), "accept");
            check(bw_connection_grant(connections[connected++], memory, 7), "grant");
        } else if (event.kind == BW_EVENT_KIND_TRIPWIRE && event.cookie == 1) {
            done = counters_done(memory);
        } else {
            bw_event_discard(&event);
        }
    }
    uint64_t sum = 0;
    check(bw_aperture_load(memory, SUM, &sum), "load");
    int64_t counted = check(bw_tripwire_count(sum_wire), "count");
    printf("%d processes added %" PRIu64 "; the tripwire counted %" PRId64 "\n", COUNTERS, sum, counted);
    ensure(sum == COUNTERS * EACH && counted == COUNTERS * EACH, "the sum");
    for (int i = 0; i < COUNTERS; i++) {
        end(counters[i]);
        check(bw_connection_close(connections[i]), "close a connection");
    }
    check(bw_tripwire_close(done_wire), "take a tripwire away");
    check(bw_tripwire_close(sum_wire), "take a tripwire away");
    check(bw_aperture_close(memory), "close the aperture");
    check(bw_listener_close(listener), "close the listener");
    check(bw_node_close(node), "close the node");
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "count") == 0) {
        count(argv[2], (size_t)atoi(argv[3]));
    } else if (argc == 1) {
        own();
    } else {
        fprintf(stderr, "usage: remote_counter\n");
        return 2;
    }
    return 0;
}
