/* A server that sends every message back, and a client that measures how long that takes.
 *
 *     echo serve NAME     in one terminal
 *     echo call NAME      in another
 *     echo                both, the server as a child
 */
#include "common.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { MESSAGE_BYTES_MAX = 1 << 20 };

/* Sends back what comes until the client has finished. The connection may be used in another thread than its node. */
static void *answer(void *argument) {
    bw_connection connection = *(bw_connection *)argument;
    free(argument);
    char *buffer = malloc(MESSAGE_BYTES_MAX);
    ensure(buffer != NULL, "memory");
    for (;;) {
        int64_t len = bw_connection_recv(connection, buffer, MESSAGE_BYTES_MAX, BW_FOREVER);
        if (len >= 0) {
            len = bw_connection_send(connection, buffer, (size_t)len, BW_FOREVER);
        }
        if (len == BW_E_FINISHED || len == BW_E_PEER_GONE) {
            break;
        }
        if (len < 0) {
            fprintf(stderr, "%s\n", bw_last_error()->text);
            break;
        }
    }
    free(buffer);
    bw_connection_close(connection);
    return NULL;
}

/* Serves for ever. Each connection gets a thread. (One thread for all of them: many_clients.c.) */
static void serve(const char *name) {
    bw_node node;
    bw_listener listener;
    check(bw_node_new(NULL, &node), "make a node");
    check(bw_node_listen(node, name, NULL, &listener), "listen");
    for (;;) {
        bw_request request;
        pthread_t thread;
        bw_connection *connection = malloc(sizeof *connection);
        ensure(connection != NULL, "memory");
        check(bw_node_next_request(node, BW_FOREVER, &request), "wait for a request");
        check(bw_request_accept(request, 0, connection), "accept");
        ensure(pthread_create(&thread, NULL, answer, connection) == 0, "start a thread");
        pthread_detach(thread);
    }
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

static void measure(bw_connection connection, size_t bytes) {
    static char message[1024], buffer[4096];
    static double times[2000];
    int count = 0;
    memset(message, 7, sizeof message);
    double until = now_ns() + 2e8;
    while (count < 2000 && now_ns() < until) {
        double sent = now_ns();
        check(bw_connection_send(connection, message, bytes, BW_FOREVER), "send");
        int64_t len = check(bw_connection_recv(connection, buffer, sizeof buffer, BW_FOREVER), "receive");
        times[count++] = now_ns() - sent;
        ensure((size_t)len == bytes && memcmp(buffer, message, bytes) == 0, "the answer");
    }
    qsort(times, (size_t)count, sizeof times[0], compare);
    printf("%5zu bytes there and back: %.0f ns (median of %d)\n", bytes, times[count / 2], count);
}

static void call(const char *name) {
    bw_node node;
    bw_connection connection;
    bw_credentials peer;
    char buffer[64];
    check(bw_node_new(NULL, &node), "make a node");
    /* Waits for the name to appear. */
    check(bw_node_connect(node, name, patient(), &connection), "connect");
    check(bw_connection_peer(connection, &peer), "ask who is there");
    printf("connected to process %d\n", (int)peer.pid);

    check(bw_connection_send(connection, "hello", 5, BW_FOREVER), "send");
    int64_t len = check(bw_connection_recv(connection, buffer, sizeof buffer, BW_FOREVER), "receive");
    printf("it says \"%.*s\"\n", (int)len, buffer);

    measure(connection, 8);
    measure(connection, 56);
    measure(connection, 1024);
    check(bw_connection_close(connection), "close the connection");
    check(bw_node_close(node), "close the node");
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "serve") == 0) {
        serve(argv[2]);
    } else if (argc == 3 && strcmp(argv[1], "call") == 0) {
        call(argv[2]);
    } else if (argc == 1) {
        char name[64];
        snprintf(name, sizeof name, "echo-c-%d", (int)getpid());
        pid_t server = start("serve", name, NULL);
        call(name);
        stop(server);
    } else {
        fprintf(stderr, "usage: echo [serve NAME | call NAME]\n");
        return 2;
    }
    return 0;
}
