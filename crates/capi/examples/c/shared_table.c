/* One process keeps a table in its memory; others read it, and sleep until their row changes. There is no message: the
 * owner's stores wake them.
 *
 *     shared_table
 */
#include "common.h"

#include <inttypes.h>
#include <string.h>

/* A row has a cache line of its own: its version (odd while it is being changed), its price, and a count of its
 * changes, which is stored last, so that nobody is woken in the middle of one. */
enum { ROWS = 20, ROW_BYTES = 64, VERSION = 0, PRICE = 8, CHANGED = 16, READERS = 3, CHANGES = 300 };

static void change(bw_aperture table, size_t row, uint64_t price) {
    size_t at = row * ROW_BYTES;
    check(bw_aperture_add(table, at + VERSION, 1, NULL), "add");
    check(bw_aperture_store(table, at + PRICE, price), "store");
    check(bw_aperture_add(table, at + VERSION, 1, NULL), "add");
    check(bw_aperture_add(table, at + CHANGED, 1, NULL), "add");
}

/* The version and the price of a row, that belong together; or an error. */
static int look(bw_remote_aperture table, size_t row, uint64_t *version, uint64_t *price) {
    size_t at = row * ROW_BYTES;
    for (;;) {
        uint64_t after;
        int failed = bw_remote_aperture_load(table, at + VERSION, version);
        failed = failed < 0 ? failed : bw_remote_aperture_load(table, at + PRICE, price);
        failed = failed < 0 ? failed : bw_remote_aperture_load(table, at + VERSION, &after);
        if (failed < 0 || (*version % 2 == 0 && *version == after)) {
            return failed;
        }
    }
}

static void read_row(const char *name, size_t row) {
    bw_node node;
    bw_connection connection;
    bw_remote_aperture table;
    bw_tripwire changed;
    bw_event events[16];
    uint64_t version = 0, price = 0;
    check(bw_node_new(NULL, &node), "make a node");
    check(bw_node_connect(node, name, patient(), &connection), "connect");
    check(bw_connection_import(connection, SECONDS(30), NULL, &table), "import the table");
    /* Set before the first look: what changes between a look and the wait ends the wait. */
    check(bw_remote_aperture_tripwire_on_owner(table, row * ROW_BYTES + CHANGED, 8, BW_MODE_STICKY,
                                               BW_ACTION_WAKE, 0, &changed),
          "set a tripwire");
    for (;;) {
        check(look(table, row, &version, &price), "look");
        if (version == 2 * CHANGES) {
            break;
        }
        check(bw_node_wait(node, events, 16, SECONDS(30)), "wait");
    }
    ensure(price == CHANGES * 100 + row, "the price of the row");
    check(bw_connection_send(connection, "seen", 4, BW_FOREVER), "say so");
    /* The same wait tells of the owner's end: the next look says so. */
    for (;;) {
        int failed = look(table, row, &version, &price);
        if (failed == BW_E_PEER_GONE || failed == BW_E_REVOKED) {
            break;
        }
        check(failed, "look");
        check(bw_node_wait(node, events, 16, SECONDS(30)), "wait");
    }
    check(bw_tripwire_close(changed), "take the tripwire away");
    check(bw_remote_aperture_close(table), "give the table back");
    check(bw_connection_close(connection), "close the connection");
    check(bw_node_close(node), "close the node");
}

static void own(void) {
    char name[64];
    bw_node node;
    bw_listener listener;
    bw_aperture table;
    bw_connection connections[READERS];
    pid_t readers[READERS];
    snprintf(name, sizeof name, "shared-table-c-%d", (int)getpid());
    check(bw_node_new(NULL, &node), "make a node");
    check(bw_node_listen(node, name, NULL, &listener), "listen");
    /* Readers may only read: the kernel refuses them a writable mapping. */
    check(bw_node_export(node, ROWS * ROW_BYTES, BW_RIGHTS_READ, 0, &table), "export the table");
    for (int i = 0; i < READERS; i++) {
        char row[16];
        snprintf(row, sizeof row, "%d", i * 7);
        readers[i] = start("read", name, row, NULL);
    }
    for (int i = 0; i < READERS; i++) {
        bw_request request;
        check(bw_node_next_request(node, SECONDS(30), &request), "wait for a reader");
        check(bw_request_accept(request, 0, &connections[i]), "accept");
        check(bw_connection_grant(connections[i], table, 0), "grant");
    }
    for (uint64_t nth = 1; nth <= CHANGES; nth++) {
        for (size_t row = 0; row < ROWS; row++) {
            change(table, row, nth * 100 + row);
        }
        usleep(20);
    }
    for (int i = 0; i < READERS; i++) {
        char said[16];
        int64_t len = bw_connection_recv(connections[i], said, sizeof said, SECONDS(30));
        ensure(check(len, "hear of a reader") == 4, "what a reader says");
        check(bw_connection_close(connections[i]), "close a connection");
    }
    printf("%d readers saw %d changes of %d rows to the end\n", READERS, CHANGES, ROWS);
    check(bw_aperture_close(table), "close the table");
    check(bw_listener_close(listener), "close the listener");
    check(bw_node_close(node), "close the node");
    for (int i = 0; i < READERS; i++) {
        end(readers[i]);
    }
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "read") == 0) {
        read_row(argv[2], (size_t)atoi(argv[3]));
    } else if (argc == 1) {
        own();
    } else {
        fprintf(stderr, "usage: shared_table\n");
        return 2;
    }
    return 0;
}
