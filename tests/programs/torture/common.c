/* What all cases use: saying, meeting, streams, connections. See torture.h. */
#include "torture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

struct flow outgoing, incoming;
bool is_server;
const char *program_path;
long scale = 1;

static void say_list(const char *format, va_list values)
{
    char line[1024];
    int size = vsnprintf(line, sizeof line - 1, format, values);
    if (size > (int)sizeof line - 2) size = sizeof line - 2;
    line[size++] = '\n';
    if (write(LOG_FD, line, size) != size) _exit(3);
}

void say(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say_list(format, values);
    va_end(values);
}

void fail(const char *format, ...)
{
    char line[900];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    say("FAILED: %s", line);
    _exit(1);
}

void say_result(const char *what, long result)
{
    if (result < 0)
        say("%s: %s", what, strerrorname_np(errno));
    else
        say("%s: %ld", what, result);
}

/* The pipes. */

void post_bytes(const void *bytes, size_t size)
{
    while (size) {
        ssize_t put = write(POST_FD, bytes, size);
        if (put < 0 && errno == EINTR) continue;
        MUST(put);
        bytes = (const char *)bytes + put;
        size -= put;
    }
}

void await_bytes(void *bytes, size_t size)
{
    while (size) {
        ssize_t got = read(AWAIT_FD, bytes, size);
        if (got < 0 && errno == EINTR) continue;
        MUST(got);
        if (got == 0) fail("the other end is gone");
        bytes = (char *)bytes + got;
        size -= got;
    }
}

void post(void)
{
    post_bytes("x", 1);
}

void await(void)
{
    char byte;
    await_bytes(&byte, 1);
}

void meet(void)
{
    post();
    await();
}

/* Streams. */

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

static uint8_t byte_at(uint64_t seed, uint64_t position)
{
    return mix((seed << 56) + position / 8) >> (position % 8 * 8);
}

void fill(uint64_t seed, uint64_t position, uint8_t *bytes, size_t size)
{
    size_t i = 0;
    for (; i < size && (position + i) % 8; i++) bytes[i] = byte_at(seed, position + i);
    for (; i + 8 <= size; i += 8) {
        uint64_t word = mix((seed << 56) + (position + i) / 8);
        memcpy(bytes + i, &word, 8);
    }
    for (; i < size; i++) bytes[i] = byte_at(seed, position + i);
}

void check(uint64_t seed, uint64_t position, const uint8_t *bytes, size_t size)
{
    static __thread uint8_t expected[65536];
    while (size) {
        size_t part = size < sizeof expected ? size : sizeof expected;
        fill(seed, position, expected, part);
        if (memcmp(expected, bytes, part)) {
            size_t i = 0;
            while (expected[i] == bytes[i]) i++;
            fail("stream %d: at byte %llu is %02x, should be %02x", (int)seed,
                 (unsigned long long)position + i, bytes[i], expected[i]);
        }
        bytes += part, position += part, size -= part;
    }
}

void send_next(int fd, size_t size)
{
    static __thread uint8_t bytes[65536];
    while (size) {
        size_t part = size < sizeof bytes ? size : sizeof bytes;
        fill(outgoing.seed, outgoing.position, bytes, part);
        ssize_t put = send(fd, bytes, part, MSG_NOSIGNAL);
        if (put < 0 && errno == EAGAIN) {
            poll_for(fd, POLLOUT, -1);
            continue;
        }
        MUST(put);
        outgoing.position += put;
        size -= put;
    }
}

void receive_next(int fd, size_t size)
{
    static __thread uint8_t bytes[65536];
    while (size) {
        size_t part = size < sizeof bytes ? size : sizeof bytes;
        ssize_t got = recv(fd, bytes, part, 0);
        if (got < 0 && errno == EAGAIN) {
            poll_for(fd, POLLIN, -1);
            continue;
        }
        MUST(got);
        if (got == 0) fail("the stream ends %zu bytes early", size);
        check(incoming.seed, incoming.position, bytes, got);
        incoming.position += got;
        size -= got;
    }
}

void receive_to_end(int fd)
{
    uint8_t bytes[4096];
    ssize_t got;
    while ((got = MUST(recv(fd, bytes, sizeof bytes, 0))) > 0) {
        check(incoming.seed, incoming.position, bytes, got);
        incoming.position += got;
    }
    say("the stream ended after %llu bytes", (unsigned long long)incoming.position);
}

/* Enough messages and bytes both ways that a carrier which takes over only connections
 * that prove worth it takes over this one. */
void warm_up(int fd)
{
    for (int i = 0; i < 200; i++) {
        if (is_server) receive_next(fd, 64);
        send_next(fd, 64);
        if (!is_server) receive_next(fd, 64);
    }
    for (int i = 0; i < 16; i++) {
        if (is_server) receive_next(fd, 20000);
        send_next(fd, 20000);
        if (!is_server) receive_next(fd, 20000);
    }
    meet();
}

void duplex(int fd, uint64_t out, uint64_t in)
{
    uint8_t bytes[16384];
    out += outgoing.position, in += incoming.position;
    while (outgoing.position < out || incoming.position < in) {
        bool sending = outgoing.position < out, receiving = incoming.position < in;
        poll_for(fd, (sending ? POLLOUT : 0) | (receiving ? POLLIN : 0), -1);
        if (sending) {
            size_t size = random_size(sizeof bytes);
            if (size > out - outgoing.position) size = out - outgoing.position;
            fill(outgoing.seed, outgoing.position, bytes, size);
            ssize_t put = send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (put < 0 && errno != EAGAIN) fail("duplex: send: %s", strerrorname_np(errno));
            outgoing.position += put > 0 ? put : 0;
        }
        if (receiving) {
            size_t size = random_size(sizeof bytes);
            if (size > in - incoming.position) size = in - incoming.position;
            ssize_t got = recv(fd, bytes, size, MSG_DONTWAIT);
            if (got < 0 && errno == EAGAIN) continue;
            MUST(got);
            if (got == 0) fail("duplex: the stream ends at %llu", (unsigned long long)incoming.position);
            check(incoming.seed, incoming.position, bytes, got);
            incoming.position += got;
        }
    }
}

void talk(int fd, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        send_next(fd, 3000);
        receive_next(fd, 3000);
    }
}

void finish(int fd)
{
    MUST(shutdown(fd, SHUT_WR));
    receive_to_end(fd);
    MUST(close(fd));
}

/* The other end of cases that are about receiving: sends when told, ends when told. */
void on_demand(int fd)
{
    for (;;) {
        char order;
        await_bytes(&order, 1);
        if (order == 's') send_next(fd, 100);
        if (order == 'h') MUST(shutdown(fd, SHUT_WR));
        if (order == 'r') {
            uint64_t size;
            await_bytes(&size, sizeof size);
            receive_next(fd, size);
        }
        if (order == 'q') break;
        post_bytes(&order, 1);
    }
}

void order(char what)
{
    post_bytes(&what, 1);
    if (what != 'q') await_bytes(&what, 1);
}

void order_bytes(int fd, size_t total)
{
    order('s');
    wait_for_bytes(fd, total);
}

static uint64_t random_state = 1;

uint64_t random_number(void)
{
    return mix(__atomic_fetch_add(&random_state, 1, __ATOMIC_RELAXED));
}

/* Small sizes as often as large ones. */
size_t random_size(size_t most)
{
    size_t limits[] = {8, 100, 1500, 16384, 100000, most};
    size_t limit = limits[random_number() % 6];
    if (limit > most) limit = most;
    return 1 + random_number() % limit;
}

/* Connections. */

int family(void)
{
    const char *name = getenv("TORTURE_FAMILY");
    if (!name || !strcmp(name, "inet")) return AF_INET;
    if (!strcmp(name, "inet6")) return AF_INET6;
    if (!strcmp(name, "unix")) return AF_UNIX;
    fail("TORTURE_FAMILY=%s", name);
}

struct place {
    struct sockaddr_storage address;
    socklen_t size;
};

static struct place there;

/* A listener, of whose address the other end is told. */
void listen_by(int listener, int backlog)
{
    struct place here = {.size = sizeof here.address};
    if (family() == AF_UNIX) {
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        /* The kernel chooses an abstract name. */
        MUST(bind(listener, (struct sockaddr *)&name, sizeof(sa_family_t)));
    } else if (family() == AF_INET) {
        struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        MUST(bind(listener, (struct sockaddr *)&name, sizeof name));
    } else {
        struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
        MUST(bind(listener, (struct sockaddr *)&name, sizeof name));
    }
    MUST(listen(listener, backlog));
    MUST(getsockname(listener, (struct sockaddr *)&here.address, &here.size));
    post_bytes(&here, sizeof here);
}

int listener_here(int backlog)
{
    int listener = MUST(socket(family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    listen_by(listener, backlog);
    return listener;
}

int accept_one(int listener)
{
    int fd;
    while ((fd = accept(listener, NULL, NULL)) < 0 && (errno == EINTR || errno == EAGAIN))
        poll_for(listener, POLLIN, -1);
    return MUST(fd);
}

void learn(void)
{
    if (!there.size) await_bytes(&there, sizeof there);
}

void dial_by(int fd)
{
    learn();
    if (connect(fd, (struct sockaddr *)&there.address, there.size) && errno != EINPROGRESS)
        fail("connect: %s", strerrorname_np(errno));
}

static int dial_as(int type)
{
    int fd = MUST(socket(family(), type, 0));
    dial_by(fd);
    return fd;
}

int dial(void)
{
    return dial_as(SOCK_STREAM);
}

int dial_nonblocking(void)
{
    return dial_as(SOCK_STREAM | SOCK_NONBLOCK);
}

/* Time and waiting. */

long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void rest_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&time, &time) && errno == EINTR) {}
}

short poll_for(int fd, short events, int timeout_ms)
{
    struct pollfd entry = {fd, events, 0};
    int ready;
    while ((ready = poll(&entry, 1, timeout_ms)) < 0 && errno == EINTR) {}
    MUST(ready);
    return entry.revents;
}

void say_poll(const char *when, int fd, short events)
{
    short got = poll_for(fd, events, 0);
    say("%s: poll:%s%s%s%s%s%s%s", when, got & POLLIN ? " IN" : "", got & POLLPRI ? " PRI" : "",
        got & POLLOUT ? " OUT" : "", got & POLLRDHUP ? " RDHUP" : "", got & POLLERR ? " ERR" : "",
        got & POLLHUP ? " HUP" : "", got & POLLNVAL ? " NVAL" : "");
}

void set_nonblocking(int fd, bool on)
{
    int flags = MUST(fcntl(fd, F_GETFL));
    MUST(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
}

void wait_for_bytes(int fd, size_t size)
{
    for (long deadline = now_ms() + 10000;; rest_ms(1)) {
        int waiting = 0;
        MUST(ioctl(fd, FIONREAD, &waiting));
        if ((size_t)waiting >= size) return;
        if (now_ms() > deadline) fail("FIONREAD stays at %d, should be %zu", waiting, size);
    }
}

void wait_child(pid_t child)
{
    int status;
    pid_t got;
    while ((got = waitpid(child, &status, 0)) < 0 && errno == EINTR) {}
    MUST(got);
    if (status) fail("a child ended with status %#x", status);
}
