/* Times round trips in C, as round_trip.rs does in Rust: scripts/bench-c.sh runs both in turn.
 *
 *     round_trip serve NAME           sends every message back, until the client has finished
 *     round_trip call NAME BYTES      prints the median of the time there and back, in nanoseconds
 */
#include "common.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCHES = 400, TRIPS = 1000 };

static void serve(const char *name) {
    bw_node node;
    bw_listener listener;
    bw_request request;
    bw_connection connection;
    char buffer[4096];
    check(bw_node_new(NULL, &node), "make a node");
    check(bw_node_listen(node, name, NULL, &listener), "listen");
    check(bw_node_next_request(node, BW_FOREVER, &request), "wait for a request");
    check(bw_request_accept(request, 0, &connection), "accept");
    for (;;) {
        int64_t len = bw_connection_recv(connection, buffer, sizeof buffer, BW_FOREVER);
        if (len == BW_E_FINISHED) {
            break;
        }
        check(len, "receive");
        check(bw_connection_send(connection, buffer, (size_t)len, BW_FOREVER), "send");
    }
    check(bw_connection_close(connection), "close the connection");
    check(bw_listener_close(listener), "close the listener");
    check(bw_node_close(node), "close the node");
}

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static void call(const char *name, size_t bytes) {
    bw_node node;
    bw_connection connection;
    static char message[4096], buffer[4096];
    static double times[BATCHES];
    check(bw_node_new(NULL, &node), "make a node");
    check(bw_node_connect(node, name, patient(), &connection), "connect");
    for (int batch = 0; batch < BATCHES; batch++) {
        double started = now_ns();
        for (int trip = 0; trip < TRIPS; trip++) {
            check(bw_connection_send(connection, message, bytes, BW_FOREVER), "send");
            int64_t len = bw_connection_recv(connection, buffer, sizeof buffer, BW_FOREVER);
            check(len, "receive");
            ensure((size_t)len == bytes, "the message that came back");
        }
        times[batch] = (now_ns() - started) / TRIPS;
    }
    qsort(times, BATCHES, sizeof times[0], compare);
    printf("%.1f\n", times[BATCHES / 2]);
    check(bw_connection_close(connection), "close the connection");
    check(bw_node_close(node), "close the node");
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "serve") == 0) {
        serve(argv[2]);
    } else if (argc == 4 && strcmp(argv[1], "call") == 0) {
        size_t bytes = (size_t)strtoul(argv[3], NULL, 10);
        ensure(bytes <= 4096, "at most 4096 bytes");
        call(argv[2], bytes);
    } else {
        fprintf(stderr, "usage: round_trip serve NAME | call NAME BYTES\n");
        return 2;
    }
    return 0;
}
