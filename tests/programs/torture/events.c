/* Readiness: who is told, how often, and what a signal does meanwhile. */
#include "torture.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/timerfd.h>

static int set_with(int fd, uint32_t events)
{
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = events, .data.fd = fd};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    return set;
}

/* Says what a set tells within a time. */
static void say_set(const char *when, int set, int limit_ms)
{
    struct epoll_event event = {0};
    int got = epoll_wait(set, &event, 1, limit_ms);
    uint32_t e = event.events;
    say("%s: epoll: %d%s%s%s%s%s%s", when, got, e & EPOLLIN ? " IN" : "",
        e & EPOLLPRI ? " PRI" : "", e & EPOLLOUT ? " OUT" : "", e & EPOLLRDHUP ? " RDHUP" : "",
        e & EPOLLERR ? " ERR" : "", e & EPOLLHUP ? " HUP" : "");
}

static void level_truth(int fd)
{
    int set = set_with(fd, EPOLLIN | EPOLLRDHUP);
    say_set("nothing", set, 0);
    order_bytes(fd, 100);
    say_set("100 bytes", set, 5000);
    say_set("still", set, 0);
    receive_next(fd, 50);
    say_set("50 left", set, 0);
    receive_next(fd, 50);
    say_set("none left", set, 50);
    order('h');
    say_set("the end", set, 5000);
    say_set("still the end", set, 0);
    MUST(shutdown(fd, SHUT_WR));
    say_set("both ends", set, 5000);
    order('q');
}

static void edge_truth(int fd)
{
    int set = set_with(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
    say_set("at first", set, 5000);
    say_set("again", set, 50);
    order_bytes(fd, 100);
    say_set("100 bytes", set, 5000);
    say_set("again", set, 50);
    receive_next(fd, 50);
    say_set("50 left, no edge", set, 50);
    order_bytes(fd, 150);
    say_set("150 bytes", set, 5000);
    receive_next(fd, 150);
    say_set("all read", set, 50);
    struct epoll_event event = {.events = EPOLLOUT | EPOLLET, .data.fd = fd};
    MUST(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    say_set("changed: tells again", set, 5000);
    say_set("and once", set, 50);
    order_bytes(fd, 100);
    receive_next(fd, 100);
    order('h');
    order('q');
}

static void oneshot_truth(int fd)
{
    int set = set_with(fd, EPOLLIN | EPOLLONESHOT);
    order_bytes(fd, 100);
    say_set("once", set, 5000);
    say_set("no more", set, 50);
    order_bytes(fd, 200);
    say_set("though more came", set, 50);
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = fd};
    MUST(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    say_set("armed again", set, 5000);
    receive_next(fd, 200);
    MUST(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    say_set("armed, empty", set, 50);
    order_bytes(fd, 100);
    say_set("and told", set, 5000);
    SAY(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL));
    SAY(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL));
    SAY(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    SAY(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    SAY(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    say_set("added again", set, 5000);
    order('q');
}

/* One socket in two sets and in poll(): all are told. */
static void two_sets(int fd)
{
    int one = set_with(fd, EPOLLIN), two = set_with(fd, EPOLLIN | EPOLLET);
    int around = set_with(one, EPOLLIN);
    say_set("nothing", one, 0);
    say_set("nothing", around, 0);
    order_bytes(fd, 100);
    say_set("one", one, 5000);
    say_set("two", two, 5000);
    say_set("around one", around, 5000);
    say_poll("a set, polled", one, POLLIN);
    say_poll("the socket, polled", fd, POLLIN);
    receive_next(fd, 100);
    say_set("one, after", one, 0);
    say_set("two, after", two, 50);
    say_set("around one, after", around, 0);
    say_poll("a set, polled", one, POLLIN);
    close(one);
    order_bytes(fd, 100);
    say_set("two, alone", two, 5000);
    order('q');
}

/* A set through which a copy of the descriptor outlives the one that was added. */
static void set_and_dup(int fd)
{
    int copy = MUST(dup(fd));
    int set = set_with(fd, EPOLLIN);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = copy};
    SAY(epoll_ctl(set, EPOLL_CTL_ADD, copy, &event));
    SAY(epoll_ctl(set, EPOLL_CTL_DEL, copy, NULL));
    close(fd);
    order_bytes(copy, 100);
    say_set("through the copy", set, 5000);
    receive_next(copy, 100);
    say_set("after", set, 0);
    order_bytes(copy, 100);
    close(copy);
    say_set("all closed", set, 50);
    order('q');
}

/* All kinds of descriptors in one set; each wakes it. */
static void mixed_set(int fd)
{
    int event_fd = MUST(eventfd(0, EFD_NONBLOCK)), timer = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    int pipe_fds[2];
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    MUST(sigprocmask(SIG_BLOCK, &signals, NULL));
    int signal_fd = MUST(signalfd(-1, &signals, 0));
    MUST(pipe(pipe_fds));
    int fds[] = {fd, event_fd, timer, pipe_fds[0], signal_fd};
    const char *names[] = {"socket", "event", "timer", "pipe", "signal"};
    int set = MUST(epoll_create1(0));
    for (int i = 0; i < 5; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &event));
    }
    for (int round = 0; round < 50; round++) {
        int which = round % 5;
        struct itimerspec soon = {.it_value.tv_nsec = 2000000};
        uint64_t one = 1;
        if (which == 0) order('s');
        if (which == 1) MUST(write(event_fd, &one, 8));
        if (which == 2) MUST(timerfd_settime(timer, 0, &soon, NULL));
        if (which == 3) MUST(write(pipe_fds[1], "x", 1));
        if (which == 4) MUST(kill(getpid(), SIGUSR1));
        struct epoll_event events[8];
        int got = epoll_wait(set, events, 8, 5000);
        if (got != 1 || events[0].data.u32 != (uint32_t)which)
            fail("waiting for the %s: %d events, the first of the %s", names[which], got,
                 got > 0 ? names[events[0].data.u32] : "none");
        char bytes[256];
        if (which == 0)
            receive_next(fd, 100);
        else
            CHECK(read(fds[which], bytes, which == 3 ? 1 : sizeof bytes) > 0);
        CHECK(epoll_wait(set, events, 8, 0) == 0);
        struct pollfd entries[7] = {{-1, POLLIN, 7}};
        for (int i = 0; i < 5; i++) entries[i + 1] = (struct pollfd){fds[i], POLLIN, 0};
        entries[6] = (struct pollfd){999, POLLIN, 0};
        CHECK(poll(entries, 7, 0) == 1);
        CHECK(entries[0].revents == 0 && entries[6].revents == POLLNVAL);
    }
    say("50 events, each told once");
    order('q');
}

/* Signals interrupt waiting, or do not, by SA_RESTART. */
static volatile sig_atomic_t alarms;
static void on_alarm(int number) { (void)number, alarms++; }

static void alarm_soon(int flags)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = flags};
    struct itimerval soon = {.it_value.tv_usec = 100000};
    MUST(sigaction(SIGALRM, &action, NULL));
    MUST(setitimer(ITIMER_REAL, &soon, NULL));
}

static void signals(int fd)
{
    uint8_t byte;
    struct epoll_event event;
    struct pollfd entry = {fd, POLLIN, 0};
    fd_set reads;
    int set = set_with(fd, EPOLLIN);
    alarm_soon(0);
    SAY(recv(fd, &byte, 1, 0));
    alarm_soon(0);
    SAY(read(fd, &byte, 1));
    alarm_soon(0);
    SAY(poll(&entry, 1, -1));
    alarm_soon(SA_RESTART);
    SAY(poll(&entry, 1, 10000));
    alarm_soon(SA_RESTART);
    SAY(epoll_wait(set, &event, 1, -1));
    FD_ZERO(&reads);
    FD_SET(fd, &reads);
    alarm_soon(SA_RESTART);
    SAY(select(fd + 1, &reads, NULL, NULL, NULL));
    /* A timeout makes recv() one of the calls that are not restarted. */
    struct timeval limit = {10, 0};
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    alarm_soon(SA_RESTART);
    SAY(recv(fd, &byte, 1, 0));
    limit.tv_sec = 0;
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    say("signals: %d", alarms);
    post_bytes("d", 1); /* 100 bytes come after 300 ms */
    alarm_soon(SA_RESTART);
    receive_next(fd, 100);
    say("received after a signal; signals: %d", alarms);
    /* The set of ppoll() lets a blocked signal through. */
    sigset_t blocked, open;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    MUST(sigprocmask(SIG_BLOCK, &blocked, &open));
    alarm_soon(0);
    rest_ms(200);
    say("blocked: %d", alarms);
    SAY(ppoll(&entry, 1, NULL, &open));
    say("let through: %d", alarms);
    alarm_soon(0);
    rest_ms(200);
    SAY(epoll_pwait(set, &event, 1, 5000, &open));
    alarm_soon(0);
    rest_ms(200);
    FD_SET(fd, &reads);
    SAY(pselect(fd + 1, &reads, NULL, NULL, NULL, &open));
    say("signals: %d", alarms);
    /* A full socket: what was taken is counted, not lost. */
    MUST(sigprocmask(SIG_SETMASK, &open, NULL));
    size_t size = 64 << 20;
    uint8_t *bytes = malloc(size);
    fill(outgoing.seed, outgoing.position, bytes, size);
    alarm_soon(0);
    ssize_t put = send(fd, bytes, size, MSG_NOSIGNAL);
    say("a send that a signal cuts short: %s",
        put > 0 && (size_t)put < size ? "a part" : "nothing or all");
    uint64_t end = outgoing.position + put;
    post_bytes("n", 1);
    post_bytes(&end, sizeof end);
    await();
}

static void signals_peer(int fd)
{
    char what;
    await_bytes(&what, 1);
    CHECK(what == 'd');
    rest_ms(300);
    send_next(fd, 100);
    await_bytes(&what, 1);
    CHECK(what == 'n');
    uint64_t end;
    await_bytes(&end, sizeof end);
    receive_next(fd, end - incoming.position);
    post();
}

/* An idle connection uses no processor time, however it is waited for. */
static void say_idle(const char *how, long before_us)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    long used = usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec +
                usage.ru_stime.tv_sec * 1000000 + usage.ru_stime.tv_usec - before_us;
    if (used > 100000) say("%s: used %ld us in 700 ms", how, used);
}

static long used_us(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_sec * 1000000 + usage.ru_stime.tv_usec;
}

static void idle(int fd)
{
    int set = set_with(fd, EPOLLIN);
    struct epoll_event event;
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(fd, &reads);
    long before = used_us();
    CHECK(poll_for(fd, POLLIN, 700) == 0);
    say_idle("poll", before);
    before = used_us();
    CHECK(epoll_wait(set, &event, 1, 700) == 0);
    say_idle("epoll", before);
    before = used_us();
    struct timeval limit = {0, 700000};
    CHECK(select(fd + 1, &reads, NULL, NULL, &limit) == 0);
    say_idle("select", before);
    post();
    before = used_us();
    receive_next(fd, 100);
    say_idle("recv", before);
    say("idle without using time");
}

static void idle_peer(int fd)
{
    await();
    rest_ms(700);
    send_next(fd, 100);
}

/* Several threads wait in one set; each message wakes one of them at least, and none is
 * lost. */
static int shared_set, shared_fd;
static int taken_bytes;

static void *take_from_set(void *unused)
{
    (void)unused;
    for (;;) {
        struct epoll_event event;
        int got = epoll_wait(shared_set, &event, 1, 10000);
        if (got < 0 && errno == EINTR) continue;
        CHECK(got == 1);
        char bytes[64];
        ssize_t size = recv(shared_fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (size < 0) {
            CHECK(errno == EAGAIN);
            continue;
        }
        if (size == 0) return NULL;
        __atomic_add_fetch(&taken_bytes, size, __ATOMIC_RELAXED);
    }
}

static void threads_in_set(int fd)
{
    shared_fd = fd;
    shared_set = set_with(fd, EPOLLIN | EPOLLEXCLUSIVE);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK(!pthread_create(threads + i, NULL, take_from_set, NULL));
    for (int i = 0; i < 300; i++) order('s');
    order('h');
    for (int i = 0; i < 4; i++) CHECK(!pthread_join(threads[i], NULL));
    say("threads took %d bytes", taken_bytes);
    order('q');
}

/* Several threads wait in one set for a socket that is told of one time: no two have it at once. */
static uint32_t once_events;
static int once_handlers;
static uint64_t once_until;

static void *handle_once(void *unused)
{
    (void)unused;
    for (;;) {
        struct epoll_event event;
        int got = epoll_wait(shared_set, &event, 1, 10000);
        if (got < 0 && errno == EINTR) continue;
        CHECK(got == 1);
        CHECK(__atomic_fetch_add(&once_handlers, 1, __ATOMIC_ACQ_REL) == 0);
        uint8_t bytes[256];
        ssize_t size;
        while ((size = recv(shared_fd, bytes, sizeof bytes, 0)) > 0) {
            check(incoming.seed, incoming.position, bytes, size);
            incoming.position += size;
        }
        CHECK(errno == EAGAIN);
        bool over = incoming.position == once_until;
        CHECK(__atomic_fetch_sub(&once_handlers, 1, __ATOMIC_ACQ_REL) == 1);
        event.events = (over ? EPOLLOUT : once_events) | EPOLLONESHOT;
        MUST(epoll_ctl(shared_set, EPOLL_CTL_MOD, shared_fd, &event));
        if (over) return NULL;
    }
}

enum { ONCE_MESSAGES = 6000, ONCE_BYTES = 100, ONCE_HANDLERS = 4 };

static void told_once(int fd)
{
    const uint32_t wishes[] = {EPOLLIN, EPOLLIN | EPOLLOUT, EPOLLIN | EPOLLRDHUP | EPOLLET};
    shared_fd = fd;
    set_nonblocking(fd, true);
    for (int i = 0; i < 3; i++) {
        once_events = wishes[i];
        once_until = incoming.position + ONCE_MESSAGES * ONCE_BYTES;
        shared_set = set_with(fd, once_events | EPOLLONESHOT);
        pthread_t threads[ONCE_HANDLERS];
        for (int j = 0; j < ONCE_HANDLERS; j++)
            CHECK(!pthread_create(threads + j, NULL, handle_once, NULL));
        post();
        for (int j = 0; j < ONCE_HANDLERS; j++) CHECK(!pthread_join(threads[j], NULL));
        close(shared_set);
        say("%#x: all came, to one at a time", wishes[i]);
    }
    post();
}

static void told_once_peer(int fd)
{
    for (int i = 0; i < 3; i++) {
        await();
        for (int j = 0; j < ONCE_MESSAGES; j++) {
            send_next(fd, ONCE_BYTES);
            /* From none to some tens of microseconds. */
            for (volatile size_t k = random_size(20000); k > 0; k--) {}
        }
    }
    await();
}

/* A thread is cancelled while it waits; the socket stays good. */
static void *wait_in_recv(void *argument)
{
    uint8_t byte;
    recv(*(int *)argument, &byte, 1, 0);
    return NULL;
}

static void *wait_in_poll(void *argument)
{
    struct pollfd entry = {*(int *)argument, POLLIN, 0};
    poll(&entry, 1, -1);
    return NULL;
}

static void *wait_in_set(void *argument)
{
    struct epoll_event event;
    epoll_wait(set_with(*(int *)argument, EPOLLIN), &event, 1, -1);
    return NULL;
}

static void cancelled(int fd)
{
    void *(*waits[])(void *) = {wait_in_recv, wait_in_poll, wait_in_set};
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        void *result;
        CHECK(!pthread_create(&thread, NULL, waits[i], &fd));
        rest_ms(100);
        CHECK(!pthread_cancel(thread));
        CHECK(!pthread_join(thread, &result));
        say("wait %d: %s", i, result == PTHREAD_CANCELED ? "cancelled" : "returned");
        order('s');
        receive_next(fd, 100);
    }
    order('q');
}

/* A full socket becomes writable again: level and edge. */
static void writable_again(int fd)
{
    int level = set_with(fd, EPOLLOUT), edge = set_with(fd, EPOLLOUT | EPOLLET);
    set_nonblocking(fd, true);
    say_set("empty", level, 0);
    say_set("empty", edge, 0);
    uint8_t bytes[4096];
    uint64_t start = outgoing.position;
    for (int quiet = 0; quiet < 5;) {
        fill(outgoing.seed, outgoing.position, bytes, sizeof bytes);
        ssize_t put = send(fd, bytes, sizeof bytes, 0);
        if (put > 0) {
            outgoing.position += put, quiet = 0;
            continue;
        }
        CHECK(errno == EAGAIN);
        quiet++, rest_ms(10);
    }
    say_poll("full", fd, POLLOUT);
    say_set("full, level", level, 0);
    while (epoll_wait(edge, &(struct epoll_event){0}, 1, 0) == 1) {}
    uint64_t size = outgoing.position - start;
    post_bytes("r", 1);
    post_bytes(&size, sizeof size);
    await();
    say_poll("read", fd, POLLOUT);
    say_set("read, level", level, 5000);
    say_set("read, edge", edge, 5000);
    say_set("read, edge", edge, 50);
    order('q');
}

/* An edge for bytes in the ring, behind bytes on the line that were not all read. */
static void edge_behind_line(int fd)
{
    uint8_t byte;
    talk(fd, 20);
    set_nonblocking(fd, true);
    CHECK(recv(fd, &byte, 1, 0) < 0);
    CHECK(!poll_for(fd, POLLIN, 0));
    order_bytes(fd, 100);
    receive_next(fd, 10);
    int set = set_with(fd, EPOLLIN | EPOLLET);
    say_set("added", set, 1000);
    for (int i = 0; i < 2; i++) {
        order('s');
        say_set("more", set, 1000);
        say_set("no more", set, 20);
    }
    receive_next(fd, 290);
    order('s');
    say_set("all was read", set, 1000);
    order('q');
}

/* Who waits for the end only, and is told, finds it. */
static void end_without_bytes(int fd)
{
    uint8_t byte;
    talk(fd, 20);
    set_nonblocking(fd, true);
    int set = set_with(fd, EPOLLRDHUP | EPOLLET);
    CHECK(recv(fd, &byte, 1, 0) < 0);
    order('h');
    if (is_server) say_set("end", set, 1000);
    else say_poll("end", fd, POLLRDHUP);
    SAY(recv(fd, &byte, 1, 0));
    order('q');
}

/* An error that a read has found behind its bytes is told until somebody takes it. */
static void error_behind_bytes(int fd)
{
    uint8_t bytes[200];
    int error;
    socklen_t size = sizeof error;
    struct timeval limit = {0, 30000};
    talk(fd, 20);
    set_nonblocking(fd, true);
    CHECK(recv(fd, bytes, 1, 0) < 0);
    order_bytes(fd, 100);
    send_next(fd, 10);
    order('q');
    await();
    rest_ms(50);
    set_nonblocking(fd, false);
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    SAY(recv(fd, bytes, sizeof bytes, MSG_WAITALL));
    say_poll("read", fd, POLLIN);
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
    say("error: %s", error ? strerrorname_np(error) : "none");
    SAY(recv(fd, bytes, sizeof bytes, 0));
}

static void closes_unread(int fd)
{
    talk(fd, 20);
    on_demand(fd);
    wait_for_bytes(fd, 10);
    close(fd);
    post();
}

/* A set from which the socket was taken, beside the socket. */
static void taken_out(int fd)
{
    talk(fd, 20);
    int set = set_with(fd, EPOLLONESHOT | EPOLLIN | EPOLLOUT | EPOLLRDHUP);
    MUST(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL));
    struct pollfd both[] = {{fd, POLLIN, 0}, {set, POLLIN, 0}};
    SAY(poll(both, 2, 0));
    say("socket %#x, set %#x", both[0].revents, both[1].revents);
    order('q');
}

static void on_demand_after_talk(int fd)
{
    talk(fd, 20);
    on_demand(fd);
}

const struct torture_case event_cases[] = {
    {"level-truth", level_truth, on_demand, 0},
    {"edge-truth", edge_truth, on_demand, 0},
    {"oneshot-truth", oneshot_truth, on_demand, 0},
    {"two-sets", two_sets, on_demand, 0},
    {"set-and-dup", set_and_dup, on_demand, 0},
    {"mixed-set", mixed_set, on_demand, 0},
    {"signals", signals, signals_peer, 0},
    {"idle", idle, idle_peer, 0},
    {"threads-in-set", threads_in_set, on_demand, 0},
    {"told-once", told_once, told_once_peer, 0},
    {"cancelled", cancelled, on_demand, 0},
    {"edge-behind-line", edge_behind_line, on_demand_after_talk, 0},
    {"end-by-edge", end_without_bytes, on_demand_after_talk, 0},
    {"end-by-poll", on_demand_after_talk, end_without_bytes, 0},
    {"error-behind-bytes", error_behind_bytes, closes_unread, INTERNET},
    {"taken-out", taken_out, on_demand_after_talk, 0},
    {"writable-again", writable_again, on_demand, 0},
    {NULL, NULL, NULL, 0},
};
