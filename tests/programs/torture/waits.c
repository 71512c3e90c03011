/* How a program waits for what comes, and whether the library can know: by an instruction of its own, not
 * at all, in a set that it was in early, in sets in a set, in a set of select() beyond the usual size.
 * See torture.h. */
#include "torture.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

/* Waits by the kernel's own instruction, past the C library, which has waited for other things. */
static long raw(long number, long a, long b, long c, long d, long e)
{
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = 0;
    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return number;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = 0;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
#else
#error "no such instruction known"
#endif
}

/* A read that does not wait: takes what there is of the stream, up to `size`; says how much. */
static size_t take_some(int fd, size_t size, int flags)
{
    uint8_t bytes[4096];
    ssize_t got = recv(fd, bytes, size < sizeof bytes ? size : sizeof bytes, flags);
    CHECK(got > 0 || (got < 0 && errno == EAGAIN));
    if (got < 0) return 0;
    check(incoming.seed, incoming.position, bytes, got);
    incoming.position += got;
    return got;
}

/* Reads `size` bytes of the stream; after each read that finds nothing it waits in a set. */
static void receive_in_set(int fd, long set, size_t size)
{
    while (size > 0) {
        size_t got = take_some(fd, size, 0);
        struct epoll_event event;
        if (!got) CHECK(raw(SYS_epoll_pwait, set, (long)&event, 1, 5000, 0) == 1);
        size -= got;
    }
}

/* Messages to and fro, with rests in which the other end falls asleep. */
static void rally(int fd, int rounds, void (*receive)(int fd, long argument, size_t size), long argument)
{
    for (int i = 0; i < rounds; i++) {
        if (!is_server) send_next(fd, 64);
        receive(fd, argument, 64);
        if (is_server && i % 50 == 0) rest_ms(2);
        if (is_server) send_next(fd, 64);
    }
}

static void receive_blocking(int fd, long unused, size_t size)
{
    (void)unused;
    receive_next(fd, size);
}

static long set_past_us(int fd)
{
    long set = raw(SYS_epoll_create1, 0, 0, 0, 0, 0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    CHECK(set >= 0 && !raw(SYS_epoll_ctl, set, EPOLL_CTL_ADD, fd, (long)&event, 0));
    return set;
}

static long ppoll_past_us(int fd, long limit_ns)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    struct timespec limit = {limit_ns / 1000000000, limit_ns % 1000000000};
    return raw(SYS_ppoll, (long)&wanted, 1, (long)&limit, 0, 0);
}

static void waits_past_us(int fd)
{
    CHECK(poll(NULL, 0, 0) == 0);
    set_nonblocking(fd, true);
    long set = set_past_us(fd);
    rally(fd, 2000, receive_in_set, set);
    close(set);
    meet();
    say("all came");
}

/* Many empty reads, as of a program that does other things besides, and then such a wait. */
static void asks_and_waits(int fd)
{
    set_nonblocking(fd, true);
    long set = set_past_us(fd);
    uint8_t byte;
    for (int i = 0; i < 20000; i++) CHECK(recv(fd, &byte, 1, 0) < 0 && errno == EAGAIN);
    meet();
    rally(fd, 500, receive_in_set, set);
    close(set);
    meet();
    say("all came");
}

/* One process has waited by poll(); its child, which has the same socket, waits unseen. */
static void child_past_us(int fd)
{
    set_nonblocking(fd, true);
    for (int i = 0; i < 100; i++) {
        if (!is_server) send_next(fd, 64);
        CHECK(poll_for(fd, POLLIN, 5000) & POLLIN);
        receive_next(fd, 64);
        if (is_server) send_next(fd, 64);
    }
    pid_t child = MUST(fork());
    if (child) return wait_child(child);
    long set = set_past_us(fd);
    rally(fd, 500, receive_in_set, set);
    say("all came");
    _exit(0);
}

/* Of its own time: others may want the processor, too. */
static void work_ns(long span_ns)
{
    struct timespec from, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000000 + now.tv_nsec - from.tv_nsec < span_ns);
}

/* Nothing but reads that do not wait, again and again. Of 2000 one is late, as if the processor had been
 * taken away. */
static void ask_only(int fd, int rounds, long late_ns)
{
    static int asked;
    for (int i = 0; i < rounds; i++) {
        if (!is_server) send_next(fd, 64);
        for (size_t left = 64; left > 0; left -= take_some(fd, left, 0))
            if (++asked % 2000 == 0) work_ns(late_ns);
        if (is_server) send_next(fd, 64);
    }
}

/* Then it waits after all. */
static void asks_only(int fd)
{
    set_nonblocking(fd, true);
    ask_only(fd, 5000, 0);
    set_nonblocking(fd, false);
    meet();
    talk(fd, 100);
    for (int i = 0; i < 100; i++) {
        if (is_server) rest_ms(1), send_next(fd, 100);
        if (is_server) continue;
        CHECK(poll_for(fd, POLLIN, 5000) & POLLIN);
        receive_next(fd, 100);
    }
    meet();
    say("all came");
}

/* What the kernel carried, which the library does not tell of. */
static uint64_t carried(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    CHECK(raw(SYS_getsockopt, fd, IPPROTO_TCP, TCP_INFO, (long)&info, (long)&size) == 0);
    return info.tcpi_bytes_received;
}

static bool is_preloaded(const char *end)
{
    const char *library = getenv(end);
    return library && *library;
}

/* Who is interrupted is not slow for ever. */
static void asks_interrupted(int fd)
{
    enum { LATE_NS = 100000, LAST = 300 };
    set_nonblocking(fd, true);
    ask_only(fd, 3000, LATE_NS);
    uint64_t before = carried(fd);
    ask_only(fd, LAST, LATE_NS);
    bool by_kernel = carried(fd) - before >= LAST * 64 / 2;
    bool is_upgraded = is_preloaded("TORTURE_SERVER_PRELOAD") && is_preloaded("TORTURE_CLIENT_PRELOAD");
    CHECK(by_kernel != is_upgraded);
    set_nonblocking(fd, false);
    meet();
    say("all came");
}

/* Asks again and again, with something between that the library does not see, which may be a wait for this
 * socket; then it does wait. */
static void wait_past_us_after(int fd, int asks, void (*between)(int fd))
{
    set_nonblocking(fd, true);
    uint8_t byte;
    for (int i = 0; i < asks; i++) {
        CHECK(recv(fd, &byte, 1, 0) < 0 && errno == EAGAIN);
        between(fd);
    }
    meet();
    for (int i = 0; i < 500; i++) {
        if (!is_server) send_next(fd, 64);
        CHECK(ppoll_past_us(fd, 5000000000) == 1);
        receive_next(fd, 64);
        if (is_server && i % 50 == 0) rest_ms(2);
        if (is_server) send_next(fd, 64);
    }
    say("all came");
}

static void nap_sometimes(int fd)
{
    static int asked;
    if (++asked % 10 == 0) CHECK(ppoll_past_us(fd, 50000) == 0);
}

static void naps_and_waits(int fd)
{
    wait_past_us_after(fd, 20000, nap_sometimes);
}

static void work_long(int fd)
{
    (void)fd;
    work_ns(100000);
}

static void works_and_waits(int fd)
{
    wait_past_us_after(fd, 5000, work_long);
}

/* In a set before it is connected, as some libraries do it; read once for each event. */
static void receive_by_events(int fd, long set, size_t size)
{
    for (struct epoll_event event; size > 0; size -= take_some(fd, size, 0))
        CHECK(epoll_wait(set, &event, 1, 5000) == 1);
}

/* As above, read until there is no more, and only then waited. */
static void receive_by_edges(int fd, long set, size_t size)
{
    while (size > 0) {
        size_t got = take_some(fd, size, 0);
        struct epoll_event event;
        if (!got) CHECK(epoll_wait(set, &event, 1, 5000) == 1);
        size -= got;
    }
}

static const struct {
    uint32_t events;
    bool is_changed, is_polled;
    void (*receive)(int fd, long set, size_t size);
} early[] = {
    {EPOLLIN, false, false, receive_by_events}, {EPOLLIN, false, false, receive_by_edges},
    {EPOLLIN, true, false, receive_by_events},  {EPOLLIN | EPOLLET, false, false, receive_by_edges},
    {EPOLLIN, true, true, receive_by_events},   {EPOLLIN | EPOLLET, true, false, receive_by_edges},
    {EPOLLIN, false, true, receive_by_edges},
};
enum { EARLY = sizeof early / sizeof *early };

static void registered_early(int fd)
{
    for (int i = 0; i < EARLY; i++) {
        int set = MUST(epoll_create1(0));
        fd = MUST(socket(family(), SOCK_STREAM | SOCK_NONBLOCK, 0));
        struct epoll_event event = {.events = early[i].events, .data.fd = fd};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
        dial_by(fd);
        CHECK(poll_for(fd, POLLOUT, 5000) & POLLOUT);
        if (early[i].is_changed) {
            event.events |= EPOLLOUT;
            MUST(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
            event.events &= ~EPOLLOUT;
            MUST(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
        }
        if (early[i].is_polled) CHECK(poll_for(fd, POLLIN, 20) == 0);
        rally(fd, 500, early[i].receive, set);
        say("way %d: all came", i);
        close(fd);
        close(set);
    }
}

static void early_peer(int fd)
{
    int listener = listener_here(1);
    for (int i = 0; i < EARLY; i++) {
        fd = accept_one(listener);
        rally(fd, 500, receive_blocking, 0);
        close(fd);
    }
}

/* In a set before it listens, and told of one connection at a time. */
enum { CALLERS = 8 };

static void listens_late(int fd)
{
    int set = MUST(epoll_create1(0)), listener = MUST(socket(family(), SOCK_STREAM, 0));
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = listener};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, listener, &event));
    listen_by(listener, CALLERS);
    for (int i = 0; i < CALLERS; i++) {
        /* Not connected, it had hung up. */
        do {
            event.events = EPOLLIN | EPOLLONESHOT;
            MUST(epoll_ctl(set, EPOLL_CTL_MOD, listener, &event));
            CHECK(epoll_wait(set, &event, 1, 5000) == 1);
        } while (!(event.events & EPOLLIN));
        fd = accept_one(listener);
        talk(fd, 30);
        close(fd);
    }
    say("all came");
}

static void late_callers(int fd)
{
    for (int i = 0; i < CALLERS; i++) {
        fd = dial();
        talk(fd, 30);
        receive_to_end(fd);
        close(fd);
    }
}

/* Several sets in one set, each with a socket of its own. */
enum { INNER = 9 };
static int inner_fds[INNER];

static void receive_in_any(int fd, long outer, size_t size)
{
    for (struct epoll_event event; size > 0; size -= take_some(fd, size, MSG_DONTWAIT))
        CHECK(epoll_wait(outer, &event, 1, 5000) == 1 && inner_fds[event.data.u32] == fd);
}

static void many_inner(int fd)
{
    int outer = MUST(epoll_create1(0)), listener = is_server ? listener_here(INNER) : -1;
    for (unsigned i = 0; i < INNER; i++) {
        inner_fds[i] = fd = is_server ? accept_one(listener) : dial();
        int set = MUST(epoll_create1(0));
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
        MUST(epoll_ctl(outer, EPOLL_CTL_ADD, set, &event));
    }
    for (int i = 0; i < 20 * INNER; i++) rally(inner_fds[i % INNER], 20, receive_in_any, outer);
    say("all came");
}

/* A set of select() for more descriptors than fd_set has, after polls of the same socket. */
enum { HIGH_FD = 1500, SET_WORDS = HIGH_FD / 64 + 1 };

static void receive_by_large_select(int fd, long unused, size_t size)
{
    (void)unused;
    for (; size > 0; size -= take_some(fd, size, MSG_DONTWAIT)) {
        unsigned long set[SET_WORDS] = {0};
        set[fd / 64] |= 1UL << fd % 64;
        struct timeval limit = {5, 0};
        CHECK(select(fd + 1, (fd_set *)set, NULL, NULL, &limit) == 1 && set[fd / 64] == 1UL << fd % 64);
    }
}

static void large_select(int fd)
{
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = HIGH_FD + 1;
    if (limit.rlim_max < limit.rlim_cur) fail("ulimit -n is below %d", HIGH_FD + 1);
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    int high = MUST(fcntl(fd, F_DUPFD, HIGH_FD));
    talk(fd, 20);
    CHECK(poll_for(fd, POLLIN, 0) == 0);
    meet();
    rally(high, 500, receive_by_large_select, 0);
    say("all came");
}

/* Killed right behind its last bytes: who waits for edges is told of both. */
enum { KILLED = 30 };

static void killed_behind_bytes(int fd)
{
    learn();
    for (int i = 0; i < KILLED; i++) {
        size_t rest = random_size(200000);
        pid_t child = MUST(fork());
        if (child) {
            MUST(waitpid(child, NULL, 0));
            continue;
        }
        fd = dial();
        talk(fd, 50);
        for (volatile size_t j = rest; j > 0; j--) {}
        send_next(fd, 64);
        kill(getpid(), SIGKILL);
    }
}

static void survivor_by_edges(int fd)
{
    int listener = listener_here(1), ends = 0;
    for (int i = 0; i < KILLED; i++) {
        outgoing.position = incoming.position = 0;
        fd = accept_one(listener);
        talk(fd, 50);
        set_nonblocking(fd, true);
        int set = MUST(epoll_create1(0));
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = fd};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
        for (ssize_t got = 1; got != 0;) {
            uint8_t bytes[64];
            got = recv(fd, bytes, sizeof bytes, 0);
            CHECK(got >= 0 || errno == EAGAIN);
            if (got < 0) CHECK(epoll_wait(set, &event, 1, 5000) == 1);
            if (got < 0) continue;
            check(incoming.seed, incoming.position, bytes, got);
            incoming.position += got;
        }
        ends++;
        close(set);
        close(fd);
    }
    say("told of %d ends", ends);
}

/* To who waits for edges a short count means that there is no room, until there is. */
static const struct {
    bool is_past_us, is_vector;
} edge_writers[] = {{false, false}, {false, true}, {true, false}};
enum { EDGE_WRITERS = sizeof edge_writers / sizeof *edge_writers, BLOCK = 1 << 20, BLOCKS = 30 };

static ssize_t send_part(int fd, uint8_t *bytes, size_t size, bool is_vector)
{
    struct iovec halves[] = {{bytes, size / 2}, {bytes + size / 2, size - size / 2}};
    return is_vector ? writev(fd, halves, 2) : send(fd, bytes, size, 0);
}

static void edge_writer(int fd)
{
    static uint8_t bytes[BLOCK];
    set_nonblocking(fd, true);
    for (int way = 0; way < EDGE_WRITERS; way++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP};
        int set = raw(SYS_epoll_create1, 0, 0, 0, 0, 0);
        if (!edge_writers[way].is_past_us) close(set), set = MUST(epoll_create1(0));
        long done = edge_writers[way].is_past_us ? raw(SYS_epoll_ctl, set, EPOLL_CTL_ADD, fd, (long)&event, 0)
                                                 : epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
        CHECK(done == 0);
        for (int i = 0; i < BLOCKS; i++) {
            fill(outgoing.seed, outgoing.position, bytes, BLOCK);
            for (size_t sent = 0; sent < BLOCK;) {
                ssize_t put = send_part(fd, bytes + sent, BLOCK - sent, edge_writers[way].is_vector);
                CHECK(put > 0 || (put < 0 && errno == EAGAIN));
                if (put > 0) sent += put;
                if (sent == BLOCK) break;
                long told = edge_writers[way].is_past_us ? raw(SYS_epoll_pwait, set, (long)&event, 1, 5000, 0)
                                                         : epoll_wait(set, &event, 1, 5000);
                if (told != 1) fail("way %d, block %d: no edge after %zu bytes", way, i, sent);
            }
            outgoing.position += BLOCK;
            await();
        }
        close(set);
        say("way %d: all went", way);
    }
}

static void edge_writer_peer(int fd)
{
    for (int i = 0; i < EDGE_WRITERS * BLOCKS; i++) {
        receive_next(fd, BLOCK);
        post();
    }
}

const struct torture_case wait_cases[] = {
    {"waits-past-us", waits_past_us, waits_past_us, 0},
    {"asks-and-waits", asks_and_waits, asks_and_waits, 0},
    {"child-past-us", child_past_us, child_past_us, 0},
    {"asks-only", asks_only, asks_only, 0},
    {"asks-interrupted", asks_interrupted, asks_interrupted, INTERNET},
    {"naps-and-waits", naps_and_waits, naps_and_waits, 0},
    {"works-and-waits", works_and_waits, works_and_waits, 0},
    {"registered-early", early_peer, registered_early, OWN_SOCKETS | INTERNET},
    {"listens-late", listens_late, late_callers, OWN_SOCKETS},
    {"many-inner", many_inner, many_inner, OWN_SOCKETS},
    {"large-select", large_select, large_select, 0},
    {"edge-writer", edge_writer, edge_writer_peer, 0},
    {"kill-behind-bytes", survivor_by_edges, killed_behind_bytes, OWN_SOCKETS},
    {NULL, NULL, NULL, 0},
};
