/* Streams in both directions at once, by every way to wait and every way to move bytes. */
#include "torture.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/uio.h>

enum { MOST = 300000, PARTS = 5 };

/* One attempt to move at most `size` bytes. */
typedef ssize_t (*move_fn)(int fd, uint8_t *bytes, size_t size);

static ssize_t by_send(int fd, uint8_t *b, size_t n) { return send(fd, b, n, MSG_NOSIGNAL); }
static ssize_t by_recv(int fd, uint8_t *b, size_t n) { return recv(fd, b, n, 0); }
static ssize_t by_write(int fd, uint8_t *b, size_t n) { return write(fd, b, n); }
static ssize_t by_read(int fd, uint8_t *b, size_t n) { return read(fd, b, n); }
static ssize_t by_sendto(int fd, uint8_t *b, size_t n) { return sendto(fd, b, n, 0, NULL, 0); }

static ssize_t by_recvfrom(int fd, uint8_t *b, size_t n)
{
    return recvfrom(fd, b, n, 0, NULL, NULL);
}

static ssize_t by_send_now(int fd, uint8_t *b, size_t n)
{
    return send(fd, b, n, MSG_DONTWAIT | MSG_NOSIGNAL | (random_number() % 4 ? 0 : MSG_MORE));
}

static ssize_t by_recv_now(int fd, uint8_t *b, size_t n) { return recv(fd, b, n, MSG_DONTWAIT); }

/* Cuts a buffer into parts of uneven sizes, an empty one among them. */
static int cut(uint8_t *bytes, size_t size, struct iovec *parts)
{
    size_t at = 0;
    for (int i = 0; i < PARTS - 1; i++) {
        size_t part = i == 2 ? 0 : (size - at) / (i + 2);
        parts[i] = (struct iovec){bytes + at, part};
        at += part;
    }
    parts[PARTS - 1] = (struct iovec){bytes + at, size - at};
    return PARTS;
}

static ssize_t by_writev(int fd, uint8_t *b, size_t n)
{
    struct iovec parts[PARTS];
    return writev(fd, parts, cut(b, n, parts));
}

static ssize_t by_readv(int fd, uint8_t *b, size_t n)
{
    struct iovec parts[PARTS];
    return readv(fd, parts, cut(b, n, parts));
}

static ssize_t by_sendmsg(int fd, uint8_t *b, size_t n)
{
    struct iovec parts[PARTS];
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = cut(b, n, parts)};
    return sendmsg(fd, &message, MSG_NOSIGNAL);
}

static ssize_t by_recvmsg(int fd, uint8_t *b, size_t n)
{
    struct iovec parts[PARTS];
    char control[64];
    struct msghdr message = {.msg_iov = parts,
                             .msg_iovlen = cut(b, n, parts),
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t got = recvmsg(fd, &message, 0);
    if (got >= 0 && (message.msg_controllen || message.msg_flags & ~MSG_EOR))
        fail("recvmsg: control of %zu bytes, flags %#x", (size_t)message.msg_controllen,
             message.msg_flags);
    return got;
}

/* Several messages in a call. Bytes of a stream have no borders, so what comes back is
 * counted until the first message that is not full. */
static ssize_t by_sendmmsg(int fd, uint8_t *b, size_t n)
{
    struct iovec parts[2] = {{b, n - n / 2}, {b + (n - n / 2), n / 2}};
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = parts, .msg_iovlen = 1}},
                                  {.msg_hdr = {.msg_iov = parts + 1, .msg_iovlen = 1}}};
    int sent = sendmmsg(fd, messages, n / 2 ? 2 : 1, MSG_NOSIGNAL);
    if (sent < 0) return sent;
    if (sent == 2 && messages[0].msg_len < parts[0].iov_len)
        fail("sendmmsg went on after a short message");
    return messages[0].msg_len + (sent == 2 ? messages[1].msg_len : 0);
}

static ssize_t by_recvmmsg(int fd, uint8_t *b, size_t n)
{
    struct iovec parts[2] = {{b, n - n / 2}, {b + (n - n / 2), n / 2}};
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = parts, .msg_iovlen = 1}},
                                  {.msg_hdr = {.msg_iov = parts + 1, .msg_iovlen = 1}}};
    int got = recvmmsg(fd, messages, n / 2 ? 2 : 1, MSG_WAITFORONE, NULL);
    if (got < 0) return got;
    size_t first = messages[0].msg_len;
    size_t second = got == 2 ? messages[1].msg_len : 0;
    if (second && first < parts[0].iov_len) memmove(b + first, parts[1].iov_base, second);
    return first + second;
}

static ssize_t by_peek(int fd, uint8_t *b, size_t n)
{
    static __thread uint8_t seen[MOST];
    ssize_t ahead = recv(fd, seen, n, MSG_PEEK);
    if (ahead <= 0) return ahead;
    ssize_t again = recv(fd, b, 1 + random_number() % n, MSG_PEEK | MSG_DONTWAIT);
    CHECK(again > 0);
    CHECK(!memcmp(seen, b, again < ahead ? again : ahead));
    ssize_t got = recv(fd, b, ahead, 0);
    CHECK(got == ahead);
    CHECK(!memcmp(seen, b, got));
    return got;
}

static ssize_t by_waitall(int fd, uint8_t *b, size_t n)
{
    ssize_t got = recv(fd, b, n, MSG_WAITALL);
    uint8_t more;
    /* Fewer than asked for only at the end of the stream. */
    if (got > 0 && (size_t)got < n && recv(fd, &more, 1, 0) != 0)
        fail("MSG_WAITALL: %zd of %zu bytes", got, n);
    return got;
}

/* What is received, checked; false at the end of the stream. */
static bool take(int fd, move_fn move, uint8_t *bytes, size_t most)
{
    ssize_t got = move(fd, bytes, random_size(most));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got < 0) fail("receiving: %s", strerrorname_np(errno));
    check(incoming.seed, incoming.position, bytes, got);
    incoming.position += got;
    return got > 0;
}

/* As much as is taken of one piece; true if there was room for all of it. */
static bool give(int fd, move_fn move, uint8_t *bytes, size_t most, uint64_t end)
{
    size_t size = random_size(most);
    if (size > end - outgoing.position) size = end - outgoing.position;
    fill(outgoing.seed, outgoing.position, bytes, size);
    ssize_t put = move(fd, bytes, size);
    if (put < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (put < 0) fail("sending: %s", strerrorname_np(errno));
    outgoing.position += put;
    return (size_t)put == size;
}

static void say_totals(void)
{
    say("sent %llu bytes, received %llu", (unsigned long long)outgoing.position,
        (unsigned long long)incoming.position);
}

/* Blocking calls: a thread that sends, and one that receives. */

struct sender {
    int fd;
    move_fn move;
    uint64_t end;
};

static void *send_all(void *argument)
{
    struct sender *self = argument;
    uint8_t *bytes = malloc(MOST);
    while (outgoing.position < self->end) {
        give(self->fd, self->move, bytes, MOST, self->end);
        if (random_number() % 64 == 0) rest_ms(1);
    }
    free(bytes);
    MUST(shutdown(self->fd, SHUT_WR));
    return NULL;
}

static void blocking_pair(int fd, move_fn put, move_fn get)
{
    struct sender sender = {fd, put, outgoing.position + (scale << 22)};
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, send_all, &sender));
    uint8_t *bytes = malloc(MOST);
    while (take(fd, get, bytes, MOST))
        if (random_number() % 64 == 0) rest_ms(1);
    free(bytes);
    CHECK(!pthread_join(thread, NULL));
    say_totals();
    close(fd);
}

#define BLOCKING(name, put, get) \
    static void name(int fd) { blocking_pair(fd, put, get); }
BLOCKING(blocking, by_send, by_recv)
BLOCKING(blocking_write, by_write, by_read)
BLOCKING(blocking_from, by_sendto, by_recvfrom)
BLOCKING(blocking_vectors, by_writev, by_readv)
BLOCKING(blocking_messages, by_sendmsg, by_recvmsg)
BLOCKING(blocking_several, by_sendmmsg, by_recvmmsg)
BLOCKING(blocking_peek, by_send, by_peek)
BLOCKING(blocking_waitall, by_write, by_waitall)

/* One thread that waits for both directions. */

enum { CAN_READ = 1, CAN_WRITE = 2 };
/* Waits for what is wanted; says what there is. */
typedef int (*wait_fn)(int fd, int wanted);

static int wait_poll(int fd, int wanted)
{
    short got = poll_for(fd, (wanted & CAN_READ ? POLLIN : 0) | (wanted & CAN_WRITE ? POLLOUT : 0),
                         -1);
    return (got & (POLLIN | POLLHUP | POLLERR) ? CAN_READ : 0) | (got & POLLOUT ? CAN_WRITE : 0);
}

static int wait_ppoll(int fd, int wanted)
{
    struct pollfd entries[2] = {{fd, wanted & CAN_READ ? POLLIN : 0, 0},
                                {fd, wanted & CAN_WRITE ? POLLOUT : 0, 0}};
    struct timespec limit = {20, 0};
    sigset_t none;
    sigemptyset(&none);
    CHECK(ppoll(entries, 2, &limit, &none) > 0);
    return (entries[0].revents ? CAN_READ : 0) | (entries[1].revents & POLLOUT ? CAN_WRITE : 0);
}

static int wait_select(int fd, int wanted)
{
    fd_set reads, writes;
    FD_ZERO(&reads);
    FD_ZERO(&writes);
    if (wanted & CAN_READ) FD_SET(fd, &reads);
    if (wanted & CAN_WRITE) FD_SET(fd, &writes);
    struct timeval limit = {20, 0};
    CHECK(select(fd + 1, &reads, &writes, NULL, &limit) > 0);
    return (FD_ISSET(fd, &reads) ? CAN_READ : 0) | (FD_ISSET(fd, &writes) ? CAN_WRITE : 0);
}

static int wait_pselect(int fd, int wanted)
{
    fd_set reads, writes, errors;
    FD_ZERO(&reads);
    FD_ZERO(&writes);
    FD_ZERO(&errors);
    if (wanted & CAN_READ) FD_SET(fd, &reads);
    if (wanted & CAN_WRITE) FD_SET(fd, &writes);
    FD_SET(fd, &errors);
    struct timespec limit = {20, 0};
    CHECK(pselect(fd + 1, &reads, &writes, &errors, &limit, NULL) > 0);
    CHECK(!FD_ISSET(fd, &errors));
    return (FD_ISSET(fd, &reads) ? CAN_READ : 0) | (FD_ISSET(fd, &writes) ? CAN_WRITE : 0);
}

static int set = -1;

static int from_epoll(uint32_t events)
{
    return (events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP) ? CAN_READ : 0) |
           (events & EPOLLOUT ? CAN_WRITE : 0);
}

static void ask_epoll(int fd, int wanted, uint32_t extra)
{
    struct epoll_event event = {
        .events = extra | (wanted & CAN_READ ? EPOLLIN : 0) | (wanted & CAN_WRITE ? EPOLLOUT : 0),
        .data.u64 = 0x1122334455667788};
    if (epoll_ctl(set, EPOLL_CTL_MOD, fd, &event)) {
        CHECK(errno == ENOENT);
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    }
}

static int wait_in_set(int in)
{
    struct epoll_event event;
    int got = epoll_wait(in, &event, 1, 20000);
    if (got != 1) fail("epoll_wait: %d", got);
    CHECK(event.data.u64 == 0x1122334455667788);
    return from_epoll(event.events);
}

static int wait_level(int fd, int wanted)
{
    static int asked;
    if (set < 0) set = MUST(epoll_create1(EPOLL_CLOEXEC));
    if (asked != wanted) ask_epoll(fd, asked = wanted, 0);
    return wait_in_set(set);
}

static int wait_oneshot(int fd, int wanted)
{
    if (set < 0) set = MUST(epoll_create(1));
    ask_epoll(fd, wanted, EPOLLONESHOT);
    return wait_in_set(set);
}

static int wait_nested(int fd, int wanted)
{
    static int outer = -1, asked;
    if (set < 0) {
        set = MUST(epoll_create1(0));
        outer = MUST(epoll_create1(0));
        struct epoll_event event = {.events = EPOLLIN, .data.fd = set};
        MUST(epoll_ctl(outer, EPOLL_CTL_ADD, set, &event));
    }
    if (asked != wanted) ask_epoll(fd, asked = wanted, 0);
    struct epoll_event event;
    CHECK(epoll_wait(outer, &event, 1, 20000) == 1);
    CHECK(event.data.fd == set);
    return wait_in_set(set);
}

static int wait_polled_set(int fd, int wanted)
{
    static int asked;
    if (set < 0) set = MUST(epoll_create1(0));
    if (asked != wanted) ask_epoll(fd, asked = wanted, 0);
    CHECK(poll_for(set, POLLIN, 20000) == POLLIN);
    return wait_in_set(set);
}

static int wait_pwait2(int fd, int wanted)
{
    static int asked;
    if (set < 0) set = MUST(epoll_create1(0));
    if (asked != wanted) ask_epoll(fd, asked = wanted, 0);
    struct epoll_event events[4];
    struct timespec limit = {20, 0};
    int got = epoll_pwait2(set, events, 4, &limit, NULL);
    if (got < 0 && errno == ENOSYS) return wait_in_set(set);
    CHECK(got == 1);
    return from_epoll(events[0].events);
}

static void waiting_pair(int fd, wait_fn wait, move_fn put, move_fn get)
{
    uint64_t end = outgoing.position + (scale << 22);
    uint8_t *bytes = malloc(MOST);
    bool reading = true, writing = true;
    set_nonblocking(fd, true);
    while (reading || writing) {
        int can = wait(fd, (reading ? CAN_READ : 0) | (writing ? CAN_WRITE : 0));
        if (reading && can & CAN_READ) reading = take(fd, get, bytes, MOST);
        if (writing && can & CAN_WRITE) {
            give(fd, put, bytes, MOST, end);
            if (outgoing.position == end) {
                writing = false;
                MUST(shutdown(fd, SHUT_WR));
            }
        }
        if (random_number() % 128 == 0) rest_ms(1);
    }
    free(bytes);
    say_totals();
    close(fd);
}

#define WAITING(name, wait, put, get) \
    static void name(int fd) { waiting_pair(fd, wait, put, get); }
WAITING(with_poll, wait_poll, by_send, by_recv)
WAITING(with_poll_now, wait_poll, by_send_now, by_recv_now)
WAITING(with_ppoll, wait_ppoll, by_write, by_read)
WAITING(with_select, wait_select, by_writev, by_readv)
WAITING(with_pselect, wait_pselect, by_sendmsg, by_recvmsg)
WAITING(with_level, wait_level, by_write, by_read)
WAITING(with_oneshot, wait_oneshot, by_send, by_peek)
WAITING(with_nested, wait_nested, by_sendmsg, by_readv)
WAITING(with_polled_set, wait_polled_set, by_writev, by_recvmsg)
WAITING(with_pwait2, wait_pwait2, by_sendmmsg, by_recvmmsg)

/* Edge-triggered: told once, so each direction goes on until it would block. */
static void with_edge(int fd)
{
    uint64_t end = outgoing.position + (scale << 22);
    uint8_t *bytes = malloc(MOST);
    bool reading = true, writing = true;
    int in = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.u64 = 0x1122334455667788};
    set_nonblocking(fd, true);
    MUST(epoll_ctl(in, EPOLL_CTL_ADD, fd, &event));
    while (reading || writing) {
        int can = wait_in_set(in);
        while (reading && can & CAN_READ) {
            ssize_t got = read(fd, bytes, random_size(MOST));
            if (got < 0 && errno == EAGAIN) break;
            MUST(got);
            check(incoming.seed, incoming.position, bytes, got);
            incoming.position += got;
            reading = got > 0;
        }
        while (writing && can & CAN_WRITE && give(fd, by_send, bytes, MOST, end)) {
            if (outgoing.position < end) continue;
            writing = false;
            MUST(shutdown(fd, SHUT_WR));
        }
    }
    free(bytes);
    say_totals();
    close(fd);
}

/* Small messages in turn, the pattern that a faster carrier is for. */
static void ping_pong(int fd)
{
    for (int i = 0; i < 3000 * scale; i++) {
        size_t size = 1 + i % 200;
        if (is_server) receive_next(fd, size);
        send_next(fd, size);
        if (!is_server) receive_next(fd, size);
    }
    say_totals();
}

/* Spins on a non-blocking socket, as polling programs do. */
static void spinning(int fd)
{
    uint8_t bytes[64];
    set_nonblocking(fd, true);
    for (int i = 0; i < 1000 * scale; i++) {
        if (!is_server) send_next(fd, 64);
        for (size_t at = 0; at < 64;) {
            ssize_t got = recv(fd, bytes, 64 - at, 0);
            if (got < 0 && errno == EAGAIN) continue;
            CHECK(got > 0);
            check(incoming.seed, incoming.position, bytes, got);
            incoming.position += got, at += got;
        }
        if (is_server) send_next(fd, 64);
    }
    say_totals();
}

/* One end floods, the other dawdles: buffers fill and drain many times. */
static void flood(int fd)
{
    if (!is_server) {
        int small = 65536;
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    }
    meet();
    if (is_server) {
        uint8_t *bytes = malloc(MOST);
        for (uint64_t end = outgoing.position + (scale << 22); outgoing.position < end;)
            give(fd, by_write, bytes, MOST, end);
        MUST(shutdown(fd, SHUT_WR));
        free(bytes);
        receive_to_end(fd);
        return;
    }
    uint8_t bytes[10000];
    for (int i = 0; take(fd, by_read, bytes, sizeof bytes); i++)
        if (i % 100 == 0) rest_ms(3);
    MUST(shutdown(fd, SHUT_WR));
    say_totals();
}

const struct torture_case stream_cases[] = {
    {"blocking", blocking, blocking, 0},
    {"blocking-write", blocking_write, blocking_write, 0},
    {"blocking-from", blocking_from, blocking_from, 0},
    {"blocking-vectors", blocking_vectors, blocking_vectors, 0},
    {"blocking-messages", blocking_messages, blocking_messages, 0},
    {"blocking-several", blocking_several, blocking_several, 0},
    {"blocking-peek", blocking_peek, blocking_peek, 0},
    {"blocking-waitall", blocking_waitall, blocking_waitall, 0},
    {"poll", with_poll, with_poll, 0},
    {"poll-dontwait", with_poll_now, with_poll_now, 0},
    {"ppoll", with_ppoll, with_ppoll, 0},
    {"select", with_select, with_select, 0},
    {"pselect", with_pselect, with_pselect, 0},
    {"epoll-level", with_level, with_level, 0},
    {"epoll-edge", with_edge, with_edge, 0},
    {"epoll-oneshot", with_oneshot, with_oneshot, 0},
    {"epoll-nested", with_nested, with_nested, 0},
    {"epoll-polled", with_polled_set, with_polled_set, 0},
    {"epoll-pwait2", with_pwait2, with_pwait2, 0},
    {"mixed-ways", with_edge, blocking_messages, 0},
    {"mixed-waits", with_select, with_oneshot, 0},
    {"ping-pong", ping_pong, ping_pong, 0},
    {"spinning", spinning, spinning, 0},
    {"flood", flood, flood, 0},
    {NULL, NULL, NULL, 0},
};
