/* Registrations that change all the time: what a set tells is what was asked for last. */
#include "torture.h"

#include <pthread.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/wait.h>

static const char *const operations[] = {"?", "add", "del", "mod"};

static void change(int set, int operation, int fd, uint32_t events, uint64_t data)
{
    struct epoll_event event = {.events = events, .data.u64 = data};
    int result = epoll_ctl(set, operation, fd, &event);
    say("%s %#x, %llu: %s", operations[operation], events, (unsigned long long)data,
        result < 0 ? strerrorname_np(errno) : "good");
}

/* Says what a set tells, of any number of events. */
static void say_all(const char *when, int set, int limit_ms)
{
    struct epoll_event events[8];
    int got = epoll_wait(set, events, 8, limit_ms);
    uint32_t bits = 0;
    uint64_t data = 0;
    for (int i = 0; i < got; i++) bits |= events[i].events, data += events[i].data.u64;
    say("%s: %d events, %#x, %llu", when, got, bits, (unsigned long long)data);
}

/* Says what the kernel knows of a set, as a program that was begun by this one finds it. */
static void say_known(const char *when, int set)
{
    char line[200];
    snprintf(line, sizeof line,
             "echo '%s:' `grep -o 'events:.*data: *[0-9a-f]*' /proc/self/fdinfo/%d`", when, set);
    char *words[] = {"sh", "-c", line, NULL};
    posix_spawn_file_actions_t actions;
    CHECK(!posix_spawn_file_actions_init(&actions));
    CHECK(!posix_spawn_file_actions_adddup2(&actions, LOG_FD, 1));
    pid_t child;
    CHECK(!posix_spawn(&child, "/bin/sh", &actions, NULL, words, (char *[]){"PATH=/usr/bin:/bin", NULL}));
    CHECK(!posix_spawn_file_actions_destroy(&actions));
    wait_child(child);
}

/* Any change after any other, with waits, bytes and reads between. */
static void changes(int fd)
{
    const uint32_t wishes[] = {EPOLLIN,
                               EPOLLOUT,
                               EPOLLIN | EPOLLOUT,
                               0,
                               EPOLLIN | EPOLLRDHUP,
                               EPOLLOUT | EPOLLRDHUP,
                               EPOLLIN | EPOLLONESHOT,
                               EPOLLIN | EPOLLET};
    int set = MUST(epoll_create1(EPOLL_CLOEXEC)), second = -1;
    unsigned here = 0;
    for (int i = 0; i < 1500; i++) {
        uint64_t dice = random_number();
        /* Mostly those that event loops make. */
        uint32_t wish = wishes[dice % (i % 5 ? 4 : 8)];
        int what = (dice >> 8) % 16;
        if (what < 9) change(set, 1 + (dice >> 16) % 3, fd, wish, dice >> 20 & 1 ? fd : 1000);
        if (what == 9 && second < 0) second = MUST(dup(set));
        if (what == 10 && second >= 0 && dice >> 24 & 1) close(set), set = second, second = -1;
        if (what == 11) order_bytes(fd, here += 100);
        if (what == 12 && here) receive_next(fd, 50), here -= 50;
        if (what == 13 && here) receive_next(fd, here), here = 0;
        if (what == 14 && !(dice >> 16 & 7)) say_all("slept", set, 3);
        if (what == 15 && !(dice >> 16 & 15)) say_poll("polled", set, POLLIN);
        say_all("now", set, 0);
    }
    order('q');
}

/* A set is taken over by a child, and changed by both. */
static void changes_shared(int fd)
{
    int set = MUST(epoll_create1(EPOLL_CLOEXEC));
    for (int i = 0; i < 4; i++) {
        change(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT, 7);
        say_all("added", set, 0);
        change(set, EPOLL_CTL_MOD, fd, EPOLLIN, 7);
        if (i & 1) change(set, EPOLL_CTL_DEL, fd, 0, 0);
        pid_t child = MUST(fork());
        if (!child) {
            say_all("the child", set, 0);
            if (i & 1) change(set, EPOLL_CTL_ADD, fd, EPOLLOUT, 8);
            if (i & 2) change(set, EPOLL_CTL_MOD, fd, EPOLLOUT, 9);
            say_all("the child", set, 0);
            _exit(0);
        }
        wait_child(child);
        say_all("the parent", set, 0);
        change(set, EPOLL_CTL_DEL, fd, 0, 0);
        change(set, EPOLL_CTL_DEL, fd, 0, 0);
        say_all("none", set, 0);
    }
    order('q');
}

/* Another program finds in a set what was asked for last. */
static void changes_known(int fd)
{
    int set = MUST(epoll_create1(0));
    change(set, EPOLL_CTL_ADD, fd, EPOLLIN, 7);
    say_known("added", set);
    set = MUST(epoll_create1(0));
    change(set, EPOLL_CTL_ADD, fd, EPOLLIN, 7);
    say_all("added", set, 0);
    change(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT, 7);
    say_known("changed", set);
    set = MUST(epoll_create1(0));
    change(set, EPOLL_CTL_ADD, fd, EPOLLIN, 7);
    say_all("added", set, 0);
    change(set, EPOLL_CTL_DEL, fd, 0, 0);
    say_known("taken out", set);
    order('q');
}

static int waited_set, waited_got;
static struct epoll_event waited_event;

static void *wait_long(void *unused)
{
    (void)unused;
    waited_got = epoll_wait(waited_set, &waited_event, 1, 10000);
    return NULL;
}

/* A change while another thread waits, and has looked or slept for some time. */
static void changes_waited(int fd)
{
    waited_set = MUST(epoll_create1(EPOLL_CLOEXEC));
    for (int i = 0; i < 60; i++) {
        change(waited_set, EPOLL_CTL_ADD, fd, EPOLLIN, 7);
        say_all("added", waited_set, 0);
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, wait_long, NULL));
        if (i % 6) usleep(i % 6 * 40);
        if (i % 20 == 0) rest_ms(20);
        change(waited_set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT, 8);
        CHECK(!pthread_join(thread, NULL));
        say("the other thread: %d, %#x, %d", waited_got, waited_event.events,
            (int)waited_event.data.u64);
        change(waited_set, EPOLL_CTL_DEL, fd, 0, 0);
    }
    order('q');
}

/* A socket that has bytes already is added to a set on which another thread sleeps. */
static void changes_asleep(int fd)
{
    const uint32_t wishes[] = {EPOLLIN, EPOLLIN | EPOLLONESHOT, EPOLLIN | EPOLLET,
                               EPOLLIN | EPOLLEXCLUSIVE};
    waited_set = MUST(epoll_create1(EPOLL_CLOEXEC));
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, wait_long, NULL));
        rest_ms(10);
        order_bytes(fd, 100);
        change(waited_set, EPOLL_CTL_ADD, fd, wishes[i % 4], 7);
        CHECK(!pthread_join(thread, NULL));
        say("the other thread: %d, %#x", waited_got, waited_event.events);
        say_all("again", waited_set, 0);
        receive_next(fd, 100);
        say_all("read", waited_set, 0);
        order_bytes(fd, 100);
        say_all("more", waited_set, 0);
        receive_next(fd, 100);
        change(waited_set, EPOLL_CTL_DEL, fd, 0, 0);
    }
    order('q');
}

/* What was taken out stays out when its descriptor is closed and the socket is not. */
static void changes_closed(int fd)
{
    int set = MUST(epoll_create1(EPOLL_CLOEXEC)), copy = MUST(dup(fd));
    change(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT, 7);
    say_all("added", set, 0);
    change(set, EPOLL_CTL_DEL, fd, 0, 0);
    close(fd);
    say_all("closed", set, 0);
    change(set, EPOLL_CTL_ADD, copy, EPOLLOUT, 8);
    say_all("the copy", set, 0);
    change(set, EPOLL_CTL_MOD, copy, EPOLLIN, 8);
    int other = MUST(dup(copy));
    close(copy);
    order_bytes(other, 100);
    say_all("kept by the other copy", set, 5000);
    change(set, EPOLL_CTL_DEL, other, 0, 0);
    change(set, EPOLL_CTL_ADD, other, EPOLLIN, 9);
    receive_next(other, 100);
    say_all("read", set, 0);
    order('q');
}

/* Leaving the ring while the kernel has not heard of a change. */
static void changes_and_leaves(int fd)
{
    int set = MUST(epoll_create1(EPOLL_CLOEXEC)), mark = 1;
    change(set, EPOLL_CTL_ADD, fd, EPOLLIN, 7);
    say_all("added", set, 0);
    change(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT, 7);
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark));
    say_all("left", set, 1000);
    change(set, EPOLL_CTL_MOD, fd, EPOLLIN, 7);
    say_all("readable only", set, 0);
    order_bytes(fd, 100);
    say_all("100 bytes", set, 5000);
    change(set, EPOLL_CTL_DEL, fd, 0, 0);
    say_all("none", set, 0);
    order('q');
}

/* A wait that never sleeps is told of bytes that come over the kernel's connection. */
static void changes_polled(int fd)
{
    int set = MUST(epoll_create1(EPOLL_CLOEXEC)), flags = MUST(fcntl(fd, F_GETFL));
    /* Asks the other end to send that way. */
    MUST(fcntl(fd, F_SETFL, flags | O_ASYNC));
    change(set, EPOLL_CTL_ADD, fd, 0, 7);
    say_all("added", set, 0);
    change(set, EPOLL_CTL_MOD, fd, EPOLLIN, 7);
    say_all("changed", set, 0);
    order_bytes(fd, 100);
    say_all("over the kernel's connection", set, 0);
    order('q');
}

const struct torture_case set_cases[] = {
    {"changes", changes, on_demand, 0},
    {"changes-shared", changes_shared, on_demand, 0},
    {"changes-known", changes_known, on_demand, 0},
    {"changes-waited", changes_waited, on_demand, 0},
    {"changes-asleep", changes_asleep, on_demand, 0},
    {"changes-closed", changes_closed, on_demand, 0},
    {"changes-and-leaves", changes_and_leaves, on_demand, 0},
    {"changes-polled", changes_polled, on_demand, INTERNET},
    {NULL, NULL, NULL, 0},
};
