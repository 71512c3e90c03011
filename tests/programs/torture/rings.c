/* Rings of the kernel's (io_uring): made by hand, by liburing, unseen; used for sockets, and beside
 * them. See torture.h. */
#include "torture.h"

#include <dlfcn.h>
#include <linux/io_uring.h>
#include <linux/time_types.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#ifdef WITH_LIBURING
#include <liburing.h>
#endif

/* A ring of the kernel's, made by hand. */
struct ring {
    int fd;
    uint64_t submitted;
    unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *results;
};

static struct ring a_ring(void)
{
    struct io_uring_params params = {0};
    struct ring ring = {.fd = syscall(SYS_io_uring_setup, 8, &params)};
    if (ring.fd < 0) return ring;
    size_t size = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    size_t results = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    uint8_t *sq = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
    uint8_t *cq = mmap(NULL, results, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_CQ_RING);
    ring.entries = mmap(NULL, params.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
                        MAP_SHARED, ring.fd, IORING_OFF_SQES);
    CHECK(sq != MAP_FAILED && cq != MAP_FAILED && ring.entries != MAP_FAILED);
    ring.sq_tail = (unsigned *)(sq + params.sq_off.tail);
    ring.sq_mask = (unsigned *)(sq + params.sq_off.ring_mask);
    ring.sq_array = (unsigned *)(sq + params.sq_off.array);
    ring.cq_head = (unsigned *)(cq + params.cq_off.head);
    ring.cq_tail = (unsigned *)(cq + params.cq_off.tail);
    ring.cq_mask = (unsigned *)(cq + params.cq_off.ring_mask);
    ring.results = (struct io_uring_cqe *)(cq + params.cq_off.cqes);
    return ring;
}

bool has_ring(void)
{
    return a_ring().fd >= 0;
}

/* One call through the ring, to its end. */
static int through(struct ring *ring, int what, int fd, void *bytes, size_t size)
{
    unsigned at = *ring->sq_tail & *ring->sq_mask;
    ring->entries[at] = (struct io_uring_sqe){
        .opcode = what, .fd = fd, .addr = (uintptr_t)bytes, .len = size};
    ring->sq_array[at] = at;
    __atomic_store_n(ring->sq_tail, *ring->sq_tail + 1, __ATOMIC_RELEASE);
    MUST(syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0));
    CHECK(__atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE) != *ring->cq_head);
    int result = ring->results[*ring->cq_head & *ring->cq_mask].res;
    __atomic_store_n(ring->cq_head, *ring->cq_head + 1, __ATOMIC_RELEASE);
    return result;
}

/* With a ring that there is, or one that is made where bytes are waiting. */
static void use_ring(int fd, const struct ring *made, bool is_other_away)
{
    uint8_t bytes[1000];
    talk(fd, 50);
    meet();
    wait_for_bytes(fd, 700);
    struct ring ring = made ? *made : a_ring();
    if (is_other_away) meet();
    if (ring.fd < 0) {
        say("no ring: %s", strerrorname_np(errno));
    }
    for (int i = 0; i < 50; i++) {
        for (size_t left = i ? 100 : 700; left;) {
            int got = ring.fd < 0 ? recv(fd, bytes, left, 0)
                                  : through(&ring, IORING_OP_RECV, fd, bytes, left);
            CHECK(got > 0);
            check(incoming.seed, incoming.position, bytes, got);
            incoming.position += got, left -= got;
        }
        fill(outgoing.seed, outgoing.position, bytes, 100);
        int put = ring.fd < 0 ? send(fd, bytes, 100, 0)
                              : through(&ring, IORING_OP_SEND, fd, bytes, 100);
        CHECK(put == 100);
        outgoing.position += put;
    }
    say("through the ring: good");
    meet();
}

static void uring_server(int fd)
{
    use_ring(fd, NULL, false);
}

/* The other end does nothing with its socket meanwhile. */
static void relayed_server(int fd)
{
    use_ring(fd, NULL, true);
}

/* A plugin beside the program makes one by a liburing of its own, which is no concern of the
 * program's. */
static void plugin_server(int fd)
{
    char path[4096];
    snprintf(path, sizeof path, "%s-plugin.so", program_path);
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*make_ring)(void) = plugin ? (int (*)(void))dlsym(plugin, "make_ring") : NULL;
    talk(fd, 50);
    say("the plugin: %d", make_ring ? make_ring() >= 0 : -1);
    talk(fd, 50);
}

static void plugin_client(int fd)
{
    talk(fd, 100);
}

/* It is there before the connection, and cannot be seen any more: there is no /proc (for root). */
static void unseen_ring_server(int unused)
{
    (void)unused;
    int listener = listener_here(1);
    struct ring ring = a_ring();
    int outcome = chroot("/dev");
    (void)outcome;
    use_ring(accept_one(listener), &ring, false);
}

static void send_to_ring(int fd, bool is_away)
{
    talk(fd, 50);
    meet();
    send_next(fd, 700);
    if (is_away) meet();
    receive_next(fd, 100);
    for (int i = 1; i < 50; i++) {
        send_next(fd, 100);
        receive_next(fd, 100);
    }
    meet();
}

static void uring_client(int fd)
{
    send_to_ring(fd, false);
}

static void relayed_client(int fd)
{
    send_to_ring(fd, true);
}

static void unseen_ring_client(int unused)
{
    (void)unused;
    uring_client(dial());
}

/* Puts an entry into the ring, which is submitted later. */
static struct io_uring_sqe *put_entry(struct ring *ring, int what, int fd)
{
    unsigned at = *ring->sq_tail & *ring->sq_mask;
    ring->entries[at] = (struct io_uring_sqe){.opcode = what, .fd = fd, .user_data = ring->submitted};
    ring->sq_array[at] = at;
    __atomic_store_n(ring->sq_tail, *ring->sq_tail + 1, __ATOMIC_RELEASE);
    ring->submitted++;
    return &ring->entries[at];
}

/* Submits these entries, waits for as many results, and gives them in the order of the entries. */
static void submit(struct ring *ring, unsigned count, int *results)
{
    uint64_t first = ring->submitted - count;
    CHECK(MUST(syscall(SYS_io_uring_enter, ring->fd, count, count, IORING_ENTER_GETEVENTS, NULL, 0)) ==
          (int)count);
    for (unsigned i = 0; i < count; i++) {
        CHECK(__atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE) != *ring->cq_head);
        struct io_uring_cqe *result = &ring->results[*ring->cq_head & *ring->cq_mask];
        CHECK(result->user_data - first < count);
        results[result->user_data - first] = result->res;
        __atomic_store_n(ring->cq_head, *ring->cq_head + 1, __ATOMIC_RELEASE);
    }
}

static const char *name_of(int result)
{
    return result < 0 ? strerrorname_np(-result) : "good";
}

/* A change of a set, as libuv has it made. */
static void put_control(struct ring *ring, int set, int what, int fd, struct epoll_event *event)
{
    struct io_uring_sqe *entry = put_entry(ring, IORING_OP_EPOLL_CTL, set);
    entry->addr = (uintptr_t)event, entry->len = what, entry->off = fd;
}

static void say_control(struct ring *ring, const char *what, int set, int how, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    int result;
    put_control(ring, set, how, fd, &event);
    submit(ring, 1, &result);
    say("%s: %s", what, name_of(result));
}

static void say_events(int set, int timeout_ms)
{
    struct epoll_event event = {0};
    int count = MUST(epoll_wait(set, &event, 1, timeout_ms));
    say("events: %d, %x", count, count ? event.events : 0);
}

/* Answers by its set, so many times. */
static void answer(int fd, int set, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        struct epoll_event event;
        CHECK(epoll_wait(set, &event, 1, 20000) == 1 && event.data.fd == fd);
        receive_next(fd, 100);
        send_next(fd, 100);
    }
}

/* The other end of answer(): asks so many times. */
static void ask(int fd, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        send_next(fd, 100);
        receive_next(fd, 100);
    }
}

/* Changes of a set that go through the ring have the same effect as by epoll_ctl: libuv makes them so. */
static void controlled_server(int unused)
{
    (void)unused;
    int listener = listener_here(1), set = MUST(epoll_create1(0));
    struct ring ring = a_ring();
    int fd = accept_one(listener);
    if (ring.fd < 0) {
        warm_up(fd);
        meet();
        say("no ring");
        return;
    }
    say_control(&ring, "add", set, EPOLL_CTL_ADD, fd, EPOLLIN);
    warm_up(fd);
    meet();
    answer(fd, set, 100);
    say_control(&ring, "add again", set, EPOLL_CTL_ADD, fd, EPOLLIN);
    say_control(&ring, "change", set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT);
    say_events(set, 20000);
    say_control(&ring, "take out", set, EPOLL_CTL_DEL, fd, 0);
    say_control(&ring, "take out again", set, EPOLL_CTL_DEL, fd, 0);
    say_events(set, 0);
    say_control(&ring, "no set", fd, EPOLL_CTL_ADD, fd, EPOLLIN);
    say_control(&ring, "closed", set, EPOLL_CTL_ADD, 199, EPOLLIN);
    say_control(&ring, "add at last", set, EPOLL_CTL_ADD, fd, EPOLLIN);
    meet();
    answer(fd, set, 100);
    receive_to_end(fd);
    close(fd);
}

static void controlled_client(int unused)
{
    (void)unused;
    int fd = dial();
    warm_up(fd);
    meet();
    ask(fd, 100);
    meet();
    ask(fd, 100);
    finish(fd);
}

/* Several changes at once: what one says depends on those before it. */
static void batch_server(int fd)
{
    int set = MUST(epoll_create1(0)), results[4];
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    struct ring ring = a_ring();
    talk(fd, 20);
    if (ring.fd >= 0) {
        put_control(&ring, set, EPOLL_CTL_MOD, fd, &event);
        put_control(&ring, set, EPOLL_CTL_ADD, fd, &event);
        put_control(&ring, set, EPOLL_CTL_ADD, fd, &event);
        put_control(&ring, set, EPOLL_CTL_ADD, set, &event);
        submit(&ring, 4, results);
        for (int i = 0; i < 4; i++) say("of four: %s", name_of(results[i]));
    } else {
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    }
    answer(fd, set, 100);
    finish(fd);
}

/* In a chain whose first entry fails nothing is changed. */
static void chain_server(int fd)
{
    int set = MUST(epoll_create1(0)), results[2];
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    struct ring ring = a_ring();
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    talk(fd, 20);
    if (ring.fd >= 0) {
        put_entry(&ring, IORING_OP_READ, 199)->flags = IOSQE_IO_LINK;
        put_control(&ring, set, EPOLL_CTL_DEL, fd, &event);
        submit(&ring, 2, results);
        say("of a chain: %s, %s", name_of(results[0]), name_of(results[1]));
    }
    answer(fd, set, 100);
    finish(fd);
}

static void chain_client(int fd)
{
    talk(fd, 20);
    ask(fd, 100);
    finish(fd);
}

/* A ring for files and time beside a connection. */
static void beside_server(int fd)
{
    char path[] = "/tmp/torture-XXXXXX", bytes[8] = "", *text = "written";
    int results[3], file = MUST(mkstemp(path));
    unlink(path);
    struct ring ring = a_ring();
    for (int i = 0; i < 100; i++) {
        struct __kernel_timespec time = {0, 1000};
        talk(fd, 5);
        if (ring.fd < 0) continue;
        struct io_uring_sqe *entry = put_entry(&ring, IORING_OP_WRITE, file);
        entry->addr = (uintptr_t)text, entry->len = 8, entry->flags = IOSQE_IO_LINK;
        entry = put_entry(&ring, IORING_OP_READ, file);
        entry->addr = (uintptr_t)bytes, entry->len = 8;
        entry = put_entry(&ring, IORING_OP_TIMEOUT, -1);
        entry->addr = (uintptr_t)&time, entry->len = 1;
        submit(&ring, 3, results);
        CHECK(results[0] == 8 && results[1] == 8 && results[2] == -ETIME && !strcmp(bytes, text));
    }
    say("files and time: good");
    finish(fd);
}

static void beside_client(int fd)
{
    talk(fd, 500);
    finish(fd);
}

/* Of two connections one is read by the ring; the other is none of its concern. */
static void of_two_server(int unused)
{
    (void)unused;
    int listener = listener_here(2);
    struct ring ring = a_ring();
    int one = accept_one(listener), other = accept_one(listener);
    warm_up(one);
    warm_up(other);
    for (int i = 0; i < 100; i++) {
        uint8_t part[100];
        ssize_t got = ring.fd < 0 ? recv(other, part, 100, MSG_WAITALL)
                                  : through(&ring, IORING_OP_RECV, other, part, 100);
        CHECK(got == 100);
        check(incoming.seed, incoming.position, part, 100);
        incoming.position += 100;
        send_next(other, 100);
        receive_next(one, 100);
        send_next(one, 100);
    }
    say("through the ring: good");
    meet();
    close(one), close(other);
}

static void of_two_client(int unused)
{
    (void)unused;
    int one = dial(), other = dial();
    warm_up(one);
    warm_up(other);
    for (int i = 0; i < 100; i++) {
        ask(other, 1);
        ask(one, 1);
    }
    meet();
    close(one), close(other);
}

/* The ring waits for a socket, before it is connected and when it is. */
static void polled_server(int unused)
{
    (void)unused;
    int fd = accept_one(listener_here(1));
    warm_up(fd);
    for (int i = 0; i < 100; i++) {
        meet();
        send_next(fd, 100);
    }
    receive_to_end(fd);
}

static void polled_client(int unused)
{
    (void)unused;
    learn();
    int fd = MUST(socket(family(), SOCK_STREAM, 0)), results[1];
    struct ring ring = a_ring();
    if (ring.fd >= 0) {
        put_entry(&ring, IORING_OP_POLL_ADD, fd)->poll32_events = POLLOUT;
        submit(&ring, 1, results);
        say("before: %x", results[0] & POLLHUP);
    }
    dial_by(fd);
    warm_up(fd);
    for (int i = 0; i < 100; i++) {
        meet();
        if (ring.fd >= 0) {
            put_entry(&ring, IORING_OP_POLL_ADD, fd)->poll32_events = POLLIN;
            submit(&ring, 1, results);
            CHECK(results[0] & POLLIN);
        }
        receive_next(fd, 100);
    }
    say("told: good");
    finish(fd);
}

/* A socket that is registered, and used by its place; then closed by the ring. */
static void registered_server(int fd)
{
    uint8_t part[100];
    int results[1], list[2] = {-1, fd};
    struct ring ring = a_ring();
    talk(fd, 50);
    bool is_made = ring.fd >= 0;
    if (is_made) MUST(syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_FILES, list, 2));
    meet();
    for (int i = 0; i < 50; i++) {
        ssize_t got = 100;
        if (is_made) {
            struct io_uring_sqe *entry = put_entry(&ring, IORING_OP_RECV, 1);
            entry->addr = (uintptr_t)part, entry->len = 100, entry->flags = IOSQE_FIXED_FILE;
            entry->msg_flags = MSG_WAITALL;
            submit(&ring, 1, results);
            got = results[0];
        } else {
            got = recv(fd, part, 100, MSG_WAITALL);
        }
        CHECK(got == 100);
        check(incoming.seed, incoming.position, part, 100);
        incoming.position += 100;
        send_next(fd, 100);
    }
    say("by its place: good");
    if (is_made) {
        MUST(syscall(SYS_io_uring_register, ring.fd, IORING_UNREGISTER_FILES, NULL, 0));
        put_entry(&ring, IORING_OP_CLOSE, fd);
        submit(&ring, 1, results);
        CHECK(results[0] == 0);
    } else {
        close(fd);
    }
    SAY(fcntl(fd, F_GETFD));
    int file = MUST(open("/dev/zero", O_RDONLY));
    CHECK(dup2(file, fd) == fd && read(fd, part, 100) == 100 && !part[99]);
}

static void registered_client(int fd)
{
    talk(fd, 50);
    meet();
    ask(fd, 50);
    receive_to_end(fd);
}

#ifdef WITH_LIBURING
/* The same by liburing, which calls the kernel past the C library. */
static void use_library_ring(int fd, struct io_uring *made)
{
    struct io_uring new, *ring = made ? made : &new;
    uint8_t bytes[100];
    talk(fd, 50);
    meet();
    wait_for_bytes(fd, 700);
    int error = made ? 0 : io_uring_queue_init(8, ring, 0);
    for (size_t left = 700 + 49 * 100; left;) {
        size_t size = left < sizeof bytes ? left : sizeof bytes;
        ssize_t got;
        if (!error) {
            struct io_uring_cqe *result;
            io_uring_prep_recv(io_uring_get_sqe(ring), fd, bytes, size, 0);
            CHECK(io_uring_submit(ring) == 1 && !io_uring_wait_cqe(ring, &result));
            got = result->res;
            io_uring_cqe_seen(ring, result);
        } else {
            got = recv(fd, bytes, size, 0);
        }
        CHECK(got > 0);
        check(incoming.seed, incoming.position, bytes, got);
        incoming.position += got, left -= got;
        if (left % 100 == 0 && left < 5000) send_next(fd, 100);
    }
    say("through the library's ring: good");
    meet();
}

static void liburing_server(int fd)
{
    use_library_ring(fd, NULL);
}

/* Before the connection, and without its descriptor. */
static void closed_ring_server(int unused)
{
    (void)unused;
    struct io_uring ring;
    int listener = listener_here(1);
    bool made = !io_uring_queue_init(8, &ring, 0);
    if (made && io_uring_register_ring_fd(&ring) == 1) close(ring.ring_fd);
    use_library_ring(accept_one(listener), made ? &ring : NULL);
}

/* A file by liburing's ring beside the connection, as MariaDB has its files. */
static void library_beside_server(int fd)
{
    struct io_uring ring;
    char bytes[8];
    int file = MUST(open("/dev/zero", O_RDONLY));
    bool is_made = !io_uring_queue_init(8, &ring, 0);
    for (int i = 0; i < 100; i++) {
        talk(fd, 5);
        if (!is_made) continue;
        struct io_uring_cqe *result;
        io_uring_prep_read(io_uring_get_sqe(&ring), file, bytes, sizeof bytes, 0);
        CHECK(io_uring_submit(&ring) == 1 && !io_uring_wait_cqe(&ring, &result));
        CHECK(result->res == sizeof bytes);
        io_uring_cqe_seen(&ring, result);
    }
    finish(fd);
}

static void liburing_client(int fd)
{
    talk(fd, 50);
    meet();
    send_next(fd, 700);
    for (int i = 0; i < 49; i++) send_next(fd, 100);
    receive_next(fd, 50 * 100);
    meet();
}

static void closed_ring_client(int unused)
{
    (void)unused;
    liburing_client(dial());
}
#endif

const struct torture_case ring_cases[] = {
    {"io-uring", uring_server, uring_client, 0},
    {"io-uring-relayed", relayed_server, relayed_client, 0},
    {"io-uring-plugin", plugin_server, plugin_client, 0},
    {"io-uring-unseen", unseen_ring_server, unseen_ring_client, OWN_SOCKETS},
    {"io-uring-epoll", controlled_server, controlled_client, OWN_SOCKETS},
    {"io-uring-batch", batch_server, chain_client, 0},
    {"io-uring-chain", chain_server, chain_client, 0},
    {"io-uring-beside", beside_server, beside_client, 0},
    {"io-uring-of-two", of_two_server, of_two_client, OWN_SOCKETS},
    {"io-uring-poll", polled_server, polled_client, OWN_SOCKETS},
    {"io-uring-registered", registered_server, registered_client, 0},
#ifdef WITH_LIBURING
    {"io-uring-library-beside", library_beside_server, beside_client, 0},
    {"io-uring-library", liburing_server, liburing_client, 0},
    {"io-uring-closed", closed_ring_server, closed_ring_client, OWN_SOCKETS},
#endif
    {NULL, NULL, NULL, 0},
};
