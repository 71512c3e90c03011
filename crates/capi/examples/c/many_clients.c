/* One thread that serves many connections of several processes, by events.
 *
 *     many_clients                                   a server, and four clients as children
 *     many_clients client NAME CONNECTIONS REQUESTS
 */
#include "common.h"

#include <string.h>

enum { CLIENTS = 4, CONNECTIONS = 50, REQUESTS = 20, EVENTS = 64 };

/* By the number of the connection, which is small and used again. */
static bw_connection connections[4096];
static int served, answered;

static void accept_request(bw_request request) {
    bw_connection connection;
    if (bw_request_accept(request, 0, &connection) < 0) {
        served++; /* The client has given up meanwhile. */
        return;
    }
    int64_t number = check(bw_connection_number(connection), "its number");
    ensure(number < 4096, "the number of a connection");
    connections[number] = connection;
}

/* Answers what has come, at most 16 requests, so that the others get their turn: of the rest we are told again. */
static void answer(uint32_t number) {
    char buffer[256];
    if (number >= 4096 || connections[number].id == 0) {
        return;
    }
    for (int nth = 0; nth < 16; nth++) {
        int64_t len = bw_connection_recv(connections[number], buffer, sizeof buffer, BW_NO_WAIT);
        if (len == BW_E_WOULD_BLOCK) {
            return;
        }
        int sent = BW_E_OK;
        if (len >= 0) {
            sent = bw_connection_send(connections[number], buffer, (size_t)len, BW_NO_WAIT);
        }
        if (len < 0 || (sent < 0 && sent != BW_E_WOULD_BLOCK)) {
            if (len != BW_E_FINISHED && len != BW_E_PEER_GONE) {
                fprintf(stderr, "connection %u: %s\n", number, bw_last_error()->text);
            }
            bw_connection_close(connections[number]);
            connections[number].id = 0;
            served++;
            return;
        }
        /* A client that does not read its answers does not get them. */
        answered += sent == BW_E_OK;
    }
}

static void serve(bw_node node, int until) {
    bw_event events[EVENTS];
    while (served < until) {
        /* Polls a little, then sleeps. An idle server uses no processor time. */
        int64_t count = check(bw_node_wait(node, events, EVENTS, SECONDS(30)), "wait for events");
        ensure(count > 0, "no client for half a minute");
        for (int64_t nth = 0; nth < count; nth++) {
            switch (events[nth].kind) {
            case BW_EVENT_KIND_REQUEST:
                accept_request(events[nth].request);
                break;
            /* The end of a connection comes as readiness, too. */
            case BW_EVENT_KIND_READY:
                answer(events[nth].connection_number);
                break;
            default:
                bw_event_discard(&events[nth]);
                break;
            }
        }
    }
}

static void client(const char *name, int count, int requests) {
    bw_node node;
    bw_connection *all = calloc((size_t)count, sizeof *all);
    ensure(all != NULL, "memory");
    check(bw_node_new(NULL, &node), "make a node");
    for (int i = 0; i < count; i++) {
        /* They share one link, so a connection costs neither descriptor nor mapping. */
        check(bw_node_connect(node, name, patient(), &all[i]), "connect");
    }
    for (int request = 0; request < requests; request++) {
        for (int i = 0; i < count; i++) {
            char text[64];
            int len = snprintf(text, sizeof text, "request %d on %d", request, i);
            check(bw_connection_send(all[i], text, (size_t)len, BW_FOREVER), "send");
        }
        for (int i = 0; i < count; i++) {
            char text[64], expected[64];
            int expected_len = snprintf(expected, sizeof expected, "request %d on %d", request, i);
            int64_t len = check(bw_connection_recv(all[i], text, sizeof text, BW_FOREVER), "receive");
            ensure(len == expected_len && memcmp(text, expected, (size_t)len) == 0, "the answer");
        }
    }
    for (int i = 0; i < count; i++) {
        check(bw_connection_close(all[i]), "close the connection");
    }
    free(all);
    check(bw_node_close(node), "close the node");
}

static void demonstrate(void) {
    char name[64], count[16], requests[16];
    bw_node node;
    bw_listener listener;
    pid_t clients[CLIENTS];
    snprintf(name, sizeof name, "many-clients-c-%d", (int)getpid());
    snprintf(count, sizeof count, "%d", CONNECTIONS);
    snprintf(requests, sizeof requests, "%d", REQUESTS);
    check(bw_node_new(NULL, &node), "make a node");
    check(bw_node_listen(node, name, NULL, &listener), "listen");
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = start("client", name, count, requests, NULL);
    }
    serve(node, CLIENTS * CONNECTIONS);
    for (int i = 0; i < CLIENTS; i++) {
        end(clients[i]);
    }
    printf("%d connections of %d processes, %d requests, one thread\n", served, CLIENTS, answered);
    ensure(answered == CLIENTS * CONNECTIONS * REQUESTS, "how many requests were answered");
    check(bw_listener_close(listener), "close the listener");
    check(bw_node_close(node), "close the node");
}

int main(int argc, char **argv) {
    if (argc == 5 && strcmp(argv[1], "client") == 0) {
        client(argv[2], atoi(argv[3]), atoi(argv[4]));
    } else if (argc == 1) {
        demonstrate();
    } else {
        fprintf(stderr, "usage: many_clients [client NAME CONNECTIONS REQUESTS]\n");
        return 2;
    }
    return 0;
}
