/* A node in a loop of your own, beside another descriptor (here a timer), with epoll.
 *
 *     own_loop
 */
#include "common.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

enum { REQUESTS = 500, NODE = 1, TIMER = 2 };

/* Answers everything that is there; 1 at the end. */
static int answer(bw_connection connection, int *answered) {
    char buffer[64];
    for (;;) {
        int64_t len = bw_connection_recv(connection, buffer, sizeof buffer, BW_NO_WAIT);
        if (len == BW_E_WOULD_BLOCK) {
            return 0;
        }
        if (len == BW_E_FINISHED) {
            return 1;
        }
        check(len, "receive");
        /* One request at a time, so there is room for the answer. */
        check(bw_connection_send(connection, buffer, (size_t)len, BW_NO_WAIT), "send");
        *answered += 1;
    }
}

static void watch(int epoll, int descriptor, uint64_t number) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = number};
    ensure(epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0, "epoll_ctl");
}

static void serve(const char *name, pid_t *client) {
    bw_node node;
    bw_listener listener;
    bw_connection connection = {0};
    int answered = 0, finished = 0;
    uint64_t ticks = 0;
    check(bw_node_new(NULL, &node), "make a node");
    check(bw_node_listen(node, name, NULL, &listener), "listen");
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    struct itimerspec every = {.it_interval.tv_nsec = 1000000, .it_value.tv_nsec = 1000000};
    ensure(timer >= 0 && timerfd_settime(timer, 0, &every, NULL) == 0, "a timer");
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    ensure(epoll >= 0, "epoll_create1");
    watch(epoll, (int)check(bw_node_descriptor(node), "the node's descriptor"), NODE);
    watch(epoll, timer, TIMER);
    *client = start("client", name, NULL);

    while (!finished) {
        /* Poll until there is nothing: only then does the descriptor tell of the next. */
        bw_event event;
        while (!finished && check(bw_node_poll(node, &event, 1), "poll") > 0) {
            if (event.kind == BW_EVENT_KIND_REQUEST) {
                check(bw_request_accept(event.request, 0, &connection), "accept");
            } else if (event.kind == BW_EVENT_KIND_READY && connection.id != 0) {
                finished = answer(connection, &answered);
            } else {
                bw_event_discard(&event);
            }
        }
        if (finished) {
            break;
        }
        struct epoll_event ready[2];
        int count = epoll_wait(epoll, ready, 2, 30000);
        ensure(count > 0, "nothing for half a minute");
        for (int i = 0; i < count; i++) {
            uint64_t expirations = 0;
            if (ready[i].data.u64 == TIMER && read(timer, &expirations, sizeof expirations) > 0) {
                ticks += expirations;
            }
        }
    }
    printf("answered %d requests, and saw the timer tick %d times\n", answered, (int)ticks);
    ensure(answered == REQUESTS, "how many requests were answered");
    close(epoll);
    close(timer);
    check(bw_connection_close(connection), "close the connection");
    check(bw_listener_close(listener), "close the listener");
    check(bw_node_close(node), "close the node");
}

static void client(const char *name) {
    bw_node node;
    bw_connection connection;
    check(bw_node_new(NULL, &node), "make a node");
    check(bw_node_connect(node, name, patient(), &connection), "connect");
    for (int request = 0; request < REQUESTS; request++) {
        int answer = -1;
        check(bw_connection_send(connection, &request, sizeof request, BW_FOREVER), "send");
        int64_t len = check(bw_connection_recv(connection, &answer, sizeof answer, BW_FOREVER), "receive");
        ensure(len == sizeof answer && answer == request, "the answer");
    }
    check(bw_connection_close(connection), "close the connection");
    check(bw_node_close(node), "close the node");
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "client") == 0) {
        client(argv[2]);
    } else if (argc == 1) {
        char name[64];
        pid_t child = 0;
        snprintf(name, sizeof name, "own-loop-c-%d", (int)getpid());
        serve(name, &child);
        end(child);
    } else {
        fprintf(stderr, "usage: own_loop\n");
        return 2;
    }
    return 0;
}
