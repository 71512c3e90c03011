/* How connections come to be and end: many, short ones, refused ones, killed ones; and
 * programs that close, exhaust or confine. */
#include "torture.h"

#include <arpa/inet.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* What is sent on each of many connections begins anew. */
static void from_the_start(void)
{
    outgoing.position = incoming.position = 0;
}

/* Short connections, one after the other, some with no byte at all. */
enum { CHURN = 300 };

static void churn_server(int unused)
{
    (void)unused;
    int listener = listener_here(16);
    for (int i = 0; i < CHURN; i++) {
        int fd = accept_one(listener);
        from_the_start();
        for (int j = 0; j < i % 60; j++) {
            receive_next(fd, 64);
            send_next(fd, 64);
        }
        uint8_t byte;
        if (i % 3 == 0) CHECK(recv(fd, &byte, 1, 0) == 0);
        MUST(close(fd));
    }
    say("%d connections", CHURN);
}

static void churn_client(int unused)
{
    (void)unused;
    for (int i = 0; i < CHURN; i++) {
        int fd = dial();
        from_the_start();
        for (int j = 0; j < i % 60; j++) {
            send_next(fd, 64);
            receive_next(fd, 64);
        }
        if (i % 3 == 0) MUST(shutdown(fd, SHUT_WR));
        uint8_t byte;
        CHECK(recv(fd, &byte, 1, 0) == 0);
        MUST(close(fd));
    }
}

/* Many connections at once, served from one set by one thread. */
enum { CONNECTIONS = 100, ROUNDS = 60 };

static void many_at_once_server(int unused)
{
    (void)unused;
    int listener = listener_here(CONNECTIONS), set = MUST(epoll_create1(0)), open = 0, seen = 0;
    long total = 0;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    set_nonblocking(listener, true);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, listener, &event));
    while (seen < CONNECTIONS || open) {
        struct epoll_event events[16];
        int got = epoll_wait(set, events, 16, 20000);
        CHECK(got > 0);
        for (int i = 0; i < got; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                if (fd < 0) continue;
                event = (struct epoll_event){.events = EPOLLIN, .data.fd = fd};
                MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
                open++, seen++;
                continue;
            }
            char bytes[300];
            ssize_t size = recv(fd, bytes, sizeof bytes, 0);
            if (size < 0 && errno == EAGAIN) continue;
            MUST(size);
            if (size == 0) {
                MUST(close(fd));
                open--;
                continue;
            }
            CHECK(send(fd, bytes, size, 0) == size);
            total += size;
        }
    }
    say("echoed %ld bytes of %d connections", total, seen);
}

static void many_at_once_client(int unused)
{
    (void)unused;
    int fds[CONNECTIONS];
    uint8_t bytes[100];
    for (int i = 0; i < CONNECTIONS; i++) fds[i] = dial();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CONNECTIONS; i++) {
            fill(i, round * 100, bytes, 100);
            CHECK(send(fds[i], bytes, 100, 0) == 100);
        }
        for (int i = 0; i < CONNECTIONS; i++) {
            CHECK(recv(fds[i], bytes, 100, MSG_WAITALL) == 100);
            check(i, round * 100, bytes, 100);
        }
    }
    for (int i = 0; i < CONNECTIONS; i++) MUST(close(fds[i]));
}

/* Several processes accept from one listener. */
static void prefork_server(int unused)
{
    (void)unused;
    int listener = listener_here(64);
    pid_t children[3];
    for (int c = 0; c < 3; c++) {
        children[c] = MUST(fork());
        if (children[c]) continue;
        for (;;) {
            int fd = accept_one(listener);
            uint8_t bytes[128];
            bool last = false;
            for (;;) {
                ssize_t got = MUST(recv(fd, bytes, sizeof bytes, 0));
                if (got == 0) break;
                last = got == 1 && bytes[0] == 'q';
                CHECK(send(fd, bytes, got, 0) == got);
            }
            close(fd);
            if (last) _exit(0);
        }
    }
    for (int c = 0; c < 3; c++) wait_child(children[c]);
    say("all children ended");
}

static void prefork_client(int unused)
{
    (void)unused;
    uint8_t bytes[128];
    for (int i = 0; i < 33; i++) {
        int fd = dial();
        for (int j = 0; j < 60 && i < 30; j++) {
            fill(i, j * 128, bytes, 128);
            CHECK(send(fd, bytes, 128, 0) == 128);
            CHECK(recv(fd, bytes, 128, MSG_WAITALL) == 128);
            check(i, j * 128, bytes, 128);
        }
        if (i >= 30) {
            CHECK(send(fd, "q", 1, 0) == 1);
            CHECK(recv(fd, bytes, 1, 0) == 1);
        }
        MUST(shutdown(fd, SHUT_WR));
        CHECK(recv(fd, bytes, 1, 0) == 0);
        MUST(close(fd));
    }
}

/* Non-blocking connecting and accepting, and their errors. */
static void connecting_server(int unused)
{
    (void)unused;
    int listener = listener_here(4);
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    set_nonblocking(listener, true);
    SAY(accept(listener, NULL, NULL));
    say_poll("nobody", listener, POLLIN | POLLOUT);
    meet();
    CHECK(poll_for(listener, POLLIN, 5000) == POLLIN);
    int fd = MUST(accept4(listener, (struct sockaddr *)&name, &size, SOCK_CLOEXEC));
    say("accepted: family %d, flags %d %d", name.ss_family, fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
    SAY(accept4(listener, NULL, NULL, 0x40));
    SAY(getpeername(listener, (struct sockaddr *)&name, &size));
    SAY(send(listener, "x", 1, MSG_NOSIGNAL));
    SAY(recv(listener, &name, 1, 0));
    warm_up(fd);
    close(listener);
    meet(); /* the client is refused */
    finish(fd);
}

static void connecting_client(int unused)
{
    (void)unused;
    learn();
    meet();
    int fd = dial_nonblocking(), error = -1;
    socklen_t size = sizeof error;
    CHECK(poll_for(fd, POLLOUT, 5000) == POLLOUT);
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
    say("SO_ERROR: %d", error);
    struct sockaddr_storage peer;
    size = sizeof peer;
    MUST(getpeername(fd, (struct sockaddr *)&peer, &size));
    SAY(connect(fd, (struct sockaddr *)&peer, size));
    set_nonblocking(fd, false);
    warm_up(fd);
    meet();
    int other = MUST(socket(family(), SOCK_STREAM, 0));
    SAY(connect(other, (struct sockaddr *)&peer, size));
    say_poll("refused", other, POLLIN | POLLOUT);
    uint8_t byte;
    SAY(send(other, "x", 1, MSG_NOSIGNAL));
    SAY(recv(other, &byte, 1, 0));
    close(other);
    other = MUST(socket(family(), SOCK_STREAM, 0));
    say_poll("never connected", other, POLLIN | POLLOUT);
    SAY(send(other, "x", 1, MSG_NOSIGNAL));
    SAY(recv(other, &byte, 1, 0));
    SAY(shutdown(other, SHUT_WR));
    finish(fd);
}

/* The client has sent, and is gone, before it is accepted. */
static void early_gone_server(int unused)
{
    (void)unused;
    int listener = listener_here(4);
    await();
    rest_ms(100);
    int fd = accept_one(listener);
    receive_to_end(fd);
    SAY(close(fd));
    fd = accept_one(listener);
    uint8_t byte;
    SAY(recv(fd, &byte, 1, 0));
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    SAY(getpeername(fd, (struct sockaddr *)&name, &size));
    SAY(close(fd));
}

static void early_gone_client(int unused)
{
    (void)unused;
    int fd = dial();
    send_next(fd, 5000);
    MUST(close(fd));
    fd = dial();
    struct linger now = {1, 0};
    MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now));
    MUST(close(fd));
    post();
}

/* Both ends in one process. */
static void in_one_process(int unused)
{
    (void)unused;
    if (!is_server) {
        int nothing[64];
        await_bytes(nothing, 1);
        return;
    }
    int listener = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof name;
    MUST(bind(listener, (struct sockaddr *)&name, size));
    MUST(listen(listener, 1));
    MUST(getsockname(listener, (struct sockaddr *)&name, &size));
    int near = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(near, (struct sockaddr *)&name, size));
    int far = accept_one(listener);
    uint8_t bytes[1000];
    for (int i = 0; i < 300; i++) {
        int from = i % 2 ? near : far, to = i % 2 ? far : near;
        fill(5, i * 1000, bytes, 1000);
        CHECK(send(from, bytes, 1000, 0) == 1000);
        CHECK(poll_for(to, POLLIN, 5000) & POLLIN);
        CHECK(recv(to, bytes, 1000, MSG_WAITALL) == 1000);
        check(5, i * 1000, bytes, 1000);
    }
    MUST(close(near));
    CHECK(recv(far, bytes, 1, 0) == 0);
    say("300 messages in one process");
    post();
}

/* socketpair() between parent and child, each of which streams to the other. */
static void pair(int unused)
{
    (void)unused;
    if (!is_server) {
        await();
        return;
    }
    int fds[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
    pid_t child = MUST(fork());
    is_server = child != 0;
    outgoing.seed = is_server ? 1 : 2, incoming.seed = is_server ? 2 : 1;
    close(fds[!child]);
    talk(fds[!!child], 100);
    duplex(fds[!!child], 3000000, 3000000);
    if (!child) _exit(0);
    receive_to_end(fds[1]);
    wait_child(child);
    post();
}

/* An IPv6 socket that speaks to an IPv4 one; another address of this host. */
static void other_address(const char *listen_at, const char *dial_at)
{
    if (is_server) {
        int listener = MUST(socket(AF_INET, SOCK_STREAM, 0));
        struct sockaddr_in name = {.sin_family = AF_INET};
        socklen_t size = sizeof name;
        CHECK(inet_pton(AF_INET, listen_at, &name.sin_addr) == 1);
        MUST(bind(listener, (struct sockaddr *)&name, size));
        MUST(listen(listener, 1));
        MUST(getsockname(listener, (struct sockaddr *)&name, &size));
        post_bytes(&name.sin_port, 2);
        int fd = accept_one(listener);
        warm_up(fd);
        finish(fd);
        return;
    }
    int fd = MUST(socket(AF_INET6, SOCK_STREAM, 0)), no = 0;
    struct sockaddr_in6 name = {.sin6_family = AF_INET6};
    MUST(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no));
    CHECK(inet_pton(AF_INET6, dial_at, &name.sin6_addr) == 1);
    await_bytes(&name.sin6_port, 2);
    MUST(connect(fd, (struct sockaddr *)&name, sizeof name));
    warm_up(fd);
    socklen_t size = sizeof name;
    char text[64];
    MUST(getpeername(fd, (struct sockaddr *)&name, &size));
    say("peer: %s", inet_ntop(AF_INET6, &name.sin6_addr, text, sizeof text));
    finish(fd);
}

static void mapped(int unused)
{
    (void)unused;
    other_address("0.0.0.0", "::ffff:127.0.0.1");
}

static void mapped_other(int unused)
{
    (void)unused;
    other_address("127.9.8.7", "::ffff:127.9.8.7");
}

/* Killed while both directions flow: the other end has a contiguous prefix, then the end. */
static void *kill_later(void *unused)
{
    (void)unused;
    rest_ms(30);
    kill(getpid(), SIGKILL);
    return NULL;
}

static void killed_in_flow(int fd)
{
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, kill_later, NULL));
    duplex(fd, 1ull << 40, 1ull << 40);
}

static void *send_until_refused(void *argument)
{
    static uint8_t bytes[10000];
    int fd = *(int *)argument;
    uint64_t at = outgoing.position;
    for (;;) {
        fill(outgoing.seed, at, bytes, sizeof bytes);
        ssize_t put = send(fd, bytes, sizeof bytes, MSG_NOSIGNAL);
        if (put < 0) break;
        at += put;
    }
    say("sending ends: %s", errno == EPIPE || errno == ECONNRESET ? "EPIPE or ECONNRESET"
                                                                  : strerrorname_np(errno));
    return NULL;
}

static void survivor(int fd)
{
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, send_until_refused, &fd));
    uint8_t bytes[10000];
    ssize_t got;
    while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0) {
        check(incoming.seed, incoming.position, bytes, got);
        incoming.position += got;
    }
    const char *how = got == 0 || errno == ECONNRESET ? "the end or ECONNRESET"
                                                      : strerrorname_np(errno);
    CHECK(!pthread_join(thread, NULL));
    say("receiving ends: %s", how);
}

/* Killed at rest, all that it had sent arrives. */
static void killed_at_rest(int fd)
{
    send_next(fd, 100000);
    post();
    rest_ms(100);
    raise(SIGKILL);
}

static void rest_survivor(int fd)
{
    await();
    rest_ms(300);
    receive_to_end(fd);
    long start = now_ms();
    say_poll("the peer is dead", fd, POLLIN | POLLOUT | POLLRDHUP);
    CHECK(now_ms() - start < 1000);
}

/* Killed while the other waits: it is told at once. */
static void killed_while_awaited(int fd)
{
    (void)fd;
    await();
    rest_ms(200);
    raise(SIGKILL);
}

static void waiting_survivor(int fd)
{
    uint8_t byte;
    post();
    long start = now_ms();
    SAY(recv(fd, &byte, 1, 0));
    if (now_ms() - start > 3000) say("after a long time");
}

static void waiting_in_set(int fd)
{
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    post();
    long start = now_ms();
    SAY(epoll_wait(set, &event, 1, 20000));
    say("events: %#x", event.events);
    if (now_ms() - start > 3000) say("after a long time");
}

static void waiting_to_send(int fd)
{
    static uint8_t bytes[100000];
    post();
    long start = now_ms();
    while (send(fd, bytes, sizeof bytes, MSG_NOSIGNAL) > 0) {}
    say_result("send", -1);
    if (now_ms() - start > 5000) say("after a long time");
}

/* A program that closes all it did not open, as daemons do at their start. */
static void close_all_first(int unused)
{
    (void)unused;
    MUST(syscall(SYS_close_range, 3, LOG_FD - 1, 0));
    close_range(AWAIT_FD + 1, ~0u, 0);
    int listener = is_server ? listener_here(1) : -1;
    int fd = is_server ? accept_one(listener) : dial();
    warm_up(fd);
    finish(fd);
}

/* One that closes everything but its connection, in the middle. */
static void close_all_later(int fd)
{
    MUST(dup2(fd, 50));
    close_range(3, 49, 0);
    close_range(51, LOG_FD - 1, 0);
    close_range(AWAIT_FD + 1, ~0u, 0);
    talk(50, 30);
    for (int i = 51; i < 100; i++) CHECK(close(i) < 0 && errno == EBADF);
    finish(50);
}

static void close_all_peer(int fd)
{
    talk(fd, 30);
    finish(fd);
}

/* close_range() and closefrom() close the connection as well. */
static void close_by_range(int fd)
{
    talk(fd, 30);
    SAY(close_range(fd, fd, 0));
    SAY(send(fd, "x", 1, MSG_NOSIGNAL));
    SAY(close(fd));
    await();
}

static void close_by_range_peer(int fd)
{
    talk(fd, 30);
    receive_to_end(fd);
    post();
}

/* A number that was a socket becomes a file. */
static void number_again(int fd)
{
    talk(fd, 30);
    MUST(close(fd));
    int file = MUST(fcntl(MUST(memfd_create("file", 0)), F_DUPFD, fd));
    say("the same number: %d", file == fd);
    char bytes[8] = {0};
    SAY(write(file, "abc", 3));
    SAY(pread(file, bytes, 3, 0));
    SAY(lseek(file, 0, SEEK_END));
    SAY(send(file, "x", 1, MSG_NOSIGNAL));
    await();
}

/* No descriptor is left: accept() says so, open connections go on, and new ones later. */
static void exhausted_server(int unused)
{
    (void)unused;
    int listener = listener_here(8);
    int fd = accept_one(listener);
    talk(fd, 20);
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = 100;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    int taken[128], count = 0, got;
    while ((got = dup(listener)) >= 0) taken[count++] = got;
    say("dup: %s", strerrorname_np(errno));
    meet(); /* the client dials again */
    CHECK(poll_for(listener, POLLIN, 5000) == POLLIN);
    SAY(accept(listener, NULL, NULL));
    SAY(socket(AF_INET, SOCK_STREAM, 0));
    SAY(epoll_create1(0));
    talk(fd, 200);
    while (count) MUST(close(taken[--count]));
    int second = accept_one(listener);
    struct flow out = outgoing, in = incoming;
    from_the_start();
    talk(second, 30);
    finish(second);
    outgoing = out, incoming = in;
    talk(fd, 20);
    finish(fd);
}

static void exhausted_client(int unused)
{
    (void)unused;
    int fd = dial();
    talk(fd, 20);
    meet();
    int second = dial();
    talk(fd, 200);
    struct flow out = outgoing, in = incoming;
    from_the_start();
    talk(second, 30);
    finish(second);
    outgoing = out, incoming = in;
    talk(fd, 20);
    finish(fd);
}

/* Confined: some calls fail, or all but four kill. */
static void confine(void)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_eventfd2, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

static void confined_first(int fd)
{
    confine();
    SAY(socket(AF_INET, SOCK_STREAM, 0));
    warm_up(fd);
    finish(fd);
}

static void confined_first_peer(int fd)
{
    warm_up(fd);
    finish(fd);
}

static void confined_later(int fd)
{
    talk(fd, 10);
    confine();
    talk(fd, 20);
    duplex(fd, 3000000, 3000000);
    finish(fd);
}

static void confined_later_peer(int fd)
{
    talk(fd, 30);
    duplex(fd, 3000000, 3000000);
    finish(fd);
}

/* Only read, write, exit and sigreturn are left; any other call kills. */
static void strict(int fd)
{
    static uint8_t bytes[3000];
    alarm(0);
    talk(fd, 10);
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
    for (int round = 0; round < 20; round++) {
        fill(outgoing.seed, outgoing.position, bytes, sizeof bytes);
        CHECK(write(fd, bytes, sizeof bytes) == sizeof bytes);
        outgoing.position += sizeof bytes;
        for (size_t left = sizeof bytes; left;) {
            ssize_t got = read(fd, bytes, left);
            CHECK(got > 0);
            check(incoming.seed, incoming.position, bytes, got);
            incoming.position += got, left -= got;
        }
    }
    say("confined to read and write: good");
    syscall(SYS_exit, 0);
}

static void strict_peer(int fd)
{
    talk(fd, 30);
    receive_to_end(fd);
}

/* Inherited by a child that then exhausts, closes or is confined, nothing changes here. */
static void child_of_its_own(int fd)
{
    talk(fd, 10);
    pid_t child = MUST(fork());
    if (!child) {
        close_range(3, LOG_FD - 1, 0);
        confine();
        _exit(0);
    }
    wait_child(child);
    talk(fd, 20);
    finish(fd);
}

const struct torture_case life_cases[] = {
    {"churn", churn_server, churn_client, OWN_SOCKETS},
    {"many-at-once", many_at_once_server, many_at_once_client, OWN_SOCKETS},
    {"prefork", prefork_server, prefork_client, OWN_SOCKETS},
    {"connecting", connecting_server, connecting_client, OWN_SOCKETS | INTERNET},
    {"early-gone", early_gone_server, early_gone_client, OWN_SOCKETS},
    {"one-process", in_one_process, in_one_process, OWN_SOCKETS | INTERNET},
    {"pair", pair, pair, OWN_SOCKETS},
    {"mapped", mapped, mapped, OWN_SOCKETS | INTERNET},
    {"mapped-other", mapped_other, mapped_other, OWN_SOCKETS | INTERNET},
    {"kill-flow", killed_in_flow, survivor, ONE_IS_KILLED},
    {"kill-flow-client", survivor, killed_in_flow, ONE_IS_KILLED},
    {"kill-rest", killed_at_rest, rest_survivor, ONE_IS_KILLED},
    {"kill-awaited", killed_while_awaited, waiting_survivor, ONE_IS_KILLED},
    {"kill-awaited-set", killed_while_awaited, waiting_in_set, ONE_IS_KILLED},
    {"kill-full", killed_while_awaited, waiting_to_send, ONE_IS_KILLED},
    {"close-all-first", close_all_first, close_all_first, OWN_SOCKETS},
    {"close-all-later", close_all_later, close_all_peer, 0},
    {"close-by-range", close_by_range, close_by_range_peer, 0},
    {"number-again", number_again, close_by_range_peer, 0},
    {"exhausted", exhausted_server, exhausted_client, OWN_SOCKETS},
    {"confined-first", confined_first, confined_first_peer, COLD},
    {"confined-later", confined_later, confined_later_peer, 0},
    {"confined-strict", strict, strict_peer, 0},
    {"child-apart", child_of_its_own, close_all_peer, 0},
    {NULL, NULL, NULL, 0},
};
