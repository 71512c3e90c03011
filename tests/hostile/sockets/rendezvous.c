/* Attacks at the rendezvous socket: as the other end, with what no sound one leaves there, and as
 * a third process. */
#include "hostile.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <pthread.h>

static char *add_end(char *to, int port)
{
    static const unsigned char address[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
    for (int i = 0; i < 16; i++) to += sprintf(to, "%02x", address[i]);
    return to + sprintf(to, "%04x", port);
}

socklen_t rendezvous_address(struct sockaddr_un *at, int one_port, int other_port)
{
    int low = one_port < other_port ? one_port : other_port;
    memset(at, 0, sizeof *at);
    at->sun_family = AF_UNIX;
    char *to = at->sun_path + 1;
    to += sprintf(to, "barewire/5/tcp/");
    to = add_end(add_end(to, low), one_port + other_port - low);
    return to - (char *)at;
}

static int place(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    MUST(fd >= 0);
    return fd;
}

int go_there(const struct sockaddr_un *at, socklen_t len)
{
    int fd = place();
    if (!connect(fd, (struct sockaddr *)at, len)) return fd;
    close(fd);
    return -1;
}

int wait_there(const struct sockaddr_un *at, socklen_t len)
{
    int fd = place();
    if (!bind(fd, (struct sockaddr *)at, len) && !listen(fd, 8)) return fd;
    close(fd);
    return -1;
}

int own_port_of(int fd)
{
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    MUST(!getsockname(fd, (struct sockaddr *)&at, &len));
    return ntohs(at.sin_port);
}

uint64_t cookie_of(int own_port, int other_port)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 body;
    } question = {
        .header = {.nlmsg_len = sizeof question,
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST},
        .body = {.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_states = -1},
    };
    question.body.id.idiag_sport = htons(own_port);
    question.body.id.idiag_dport = htons(other_port);
    question.body.id.idiag_src[0] = question.body.id.idiag_dst[0] = htonl(INADDR_LOOPBACK);
    memset(question.body.id.idiag_cookie, 0xff, 8);
    struct {
        struct nlmsghdr header;
        struct inet_diag_msg body;
        char rest[512];
    } answer;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    uint64_t cookie = 0;
    if (send(fd, &question, sizeof question, 0) > 0 && recv(fd, &answer, sizeof answer, 0) > 0 &&
        answer.header.nlmsg_type == SOCK_DIAG_BY_FAMILY)
        memcpy(&cookie, answer.body.id.idiag_cookie, 8);
    close(fd);
    return cookie;
}

struct greeting sound_greeting(int own_port, int other_port)
{
    struct greeting it = {.magic = "barewr5",
                          .own_cookie = cookie_of(own_port, other_port),
                          .other_cookie = cookie_of(other_port, own_port),
                          .ring_bytes = RING_BYTES};
    return it;
}

int memory_with(size_t bytes, int seals, bool readable_only)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    MUST(fd >= 0 && !ftruncate(fd, bytes) && (!seals || !fcntl(fd, F_ADD_SEALS, seals)));
    if (!readable_only) return fd;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int other = open(path, O_RDONLY | O_CLOEXEC);
    MUST(other >= 0);
    close(fd);
    return other;
}

bool leave(int socket, const void *bytes, size_t len, const int *descriptors, int count)
{
    _Alignas(8) char control[CMSG_SPACE(sizeof(int) * 253)];
    struct iovec part = {(void *)bytes, len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(header), descriptors, sizeof(int) * count);
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

/* A connection with unsent bytes that nobody reads, whose last close waits for these. */
int slow_to_close(void)
{
    static int listener = -1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (listener < 0) {
        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        MUST(!bind(listener, (struct sockaddr *)&at, sizeof at) && !listen(listener, 4096));
    }
    int fd = dial(own_port_of(listener), 0, false);
    struct linger linger = {1, 120};
    char bytes[1 << 16] = {0};
    while (send(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0) continue;
    MUST(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    return fd;
}

static void *close_it(void *of)
{
    close((int)(intptr_t)of);
    return NULL;
}

/* Whoever is the last to close it waits: not we. */
void close_beside(int fd)
{
    pthread_t thread;
    MUST(!pthread_create(&thread, NULL, close_it, (void *)(intptr_t)fd));
    pthread_detach(thread);
}

/* As the other end of a connection. */

enum { DESCRIPTORS = 12 };

struct gift {
    struct greeting greeting;
    size_t len;
    int descriptors[DESCRIPTORS], count;
};

static int opened(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    MUST(fd >= 0);
    return fd;
}

int proof_of(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return opened(path, O_PATH);
}

static int piped(void)
{
    int ends[2];
    MUST(!pipe2(ends, O_CLOEXEC));
    close(ends[1]);
    return ends[0];
}

static bool is(const char *kind, const char *name)
{
    return !strcmp(kind, name);
}

static int memory_of(const char *kind)
{
    if (is(kind, "pipe")) return piped();
    if (is(kind, "folder")) return opened("/", O_RDONLY | O_DIRECTORY);
    if (is(kind, "file")) return opened("/tmp", O_TMPFILE | O_RDWR);
    if (is(kind, "tmpfs")) return opened("/dev/shm", O_TMPFILE | O_RDWR);
    if (is(kind, "readonly")) return memory_with(CARRIER_BYTES, SEALS, true);
    if (is(kind, "short")) return memory_with(4096, SEALS, false);
    if (is(kind, "long")) return memory_with(1 << 30, SEALS, false);
    if (is(kind, "shrinkable")) return memory_with(CARRIER_BYTES, 0, false);
    if (is(kind, "growable"))
        return memory_with(CARRIER_BYTES, F_SEAL_SHRINK | F_SEAL_SEAL, false);
    if (is(kind, "unwritable")) return memory_with(CARRIER_BYTES, SEALS | F_SEAL_WRITE, false);
    if (is(kind, "slow")) return slow_to_close();
    return memory_with(CARRIER_BYTES, SEALS, false);
}

static int proof_for(const char *kind, int fd)
{
    if (is(kind, "file-proof")) return opened("/", O_PATH);
    if (is(kind, "slow-proof")) return slow_to_close();
    if (is(kind, "other-proof")) {
        int other = socket(AF_INET, SOCK_STREAM, 0), proof = proof_of(other);
        close(other);
        return proof;
    }
    return proof_of(fd);
}

static struct gift gift_of(const char *kind, int fd, struct greeting greeting)
{
    struct gift it = {greeting, sizeof it.greeting, {memory_of(kind), proof_for(kind, fd)}, 2};
    if (is(kind, "nothing")) it.count = 0;
    if (is(kind, "no-proof")) it.count = 1;
    if (is(kind, "own-cookie")) it.greeting.own_cookie++;
    if (is(kind, "other-cookie")) it.greeting.other_cookie++;
    if (is(kind, "ring-size")) it.greeting.ring_bytes *= 2;
    if (is(kind, "zeros")) memset(&it.greeting, 0, sizeof it.greeting);
    if (is(kind, "half")) it.len = 20;
    if (is(kind, "empty")) it.len = 0;
    if (is(kind, "many"))
        while (it.count < DESCRIPTORS) it.descriptors[it.count++] = piped();
    return it;
}

/* Leaves its gift as soon as the server waits at the place, and goes on over the line. */
int greet(const char *kind, int port)
{
    struct sockaddr_un at;
    int fd = dial(port, 0, true), own = own_port_of(fd), left = 0;
    socklen_t len = rendezvous_address(&at, own, port);
    for (unsigned round = 0; round < 400; round++) {
        if (!ping(fd, round)) {
            printf("ended in round %u\n", round);
            return 1;
        }
        int there = left ? -1 : go_there(&at, len);
        if (there < 0) continue;
        struct gift gift = gift_of(kind, fd, sound_greeting(own, port));
        left += leave(there, &gift.greeting, gift.len, gift.descriptors, gift.count);
        for (int i = 0; is(kind, "behind") && i < 4; i++) {
            int slow = slow_to_close();
            leave(there, "", 1, &slow, 1);
            close_beside(slow);
        }
        for (int i = 0; i < gift.count; i++) close_beside(gift.descriptors[i]);
    }
    printf("left %d\n", left);
    return 0;
}

/* As a third process. */

/* Takes whatever whoever comes leaves, and tells of memory. */
static int take_all(int socket)
{
    _Alignas(8) char control[CMSG_SPACE(sizeof(int) * 4)];
    char bytes[256];
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    if (recvmsg(socket, &message, MSG_DONTWAIT) <= 0) return 0;
    return CMSG_FIRSTHDR(&message) != NULL;
}

static int hold_place(const char *kind, const struct sockaddr_un *at, socklen_t len)
{
    int listener = wait_there(at, len), come[64], count = 0, taken = 0;
    MUST(listener >= 0);
    printf("there\n");
    for (;;) {
        struct pollfd ends[2] = {{0, POLLIN, 0}, {listener, POLLIN, 0}};
        poll(ends, 2, 1);
        if (ends[0].revents) break;
        int fd = ends[1].revents && count < 64 ? accept(listener, NULL, NULL) : -1;
        if (fd >= 0) come[count++] = fd;
        for (int i = 0; i < count; i++) taken += take_all(come[i]);
        if (fd >= 0 && is(kind, "hold-slow")) {
            int slow = slow_to_close();
            while (leave(fd, "", 1, &slow, 1)) continue;
            close_beside(slow);
        }
    }
    printf("come %d taken %d\n", count, taken);
    return 0;
}

/* Goes there as soon as anybody waits. */
static int visit_place(const char *kind, const struct sockaddr_un *at, socklen_t len, int port,
                       int other_port)
{
    int been = 0, last[4] = {-1, -1, -1, -1};
    int gift[2] = {memory_with(CARRIER_BYTES, SEALS, false), place()};
    printf("there\n");
    for (;;) {
        struct pollfd input = {0, POLLIN, 0};
        if (poll(&input, 1, 0) > 0) break;
        int fd = go_there(at, len);
        if (fd < 0) continue;
        if (is(kind, "visit-sound")) {
            struct greeting greeting = sound_greeting(other_port, port);
            leave(fd, &greeting, sizeof greeting, gift, 2);
        } else if (is(kind, "visit-slow")) {
            /* Its last holder is whoever throws the message away. */
            int slow = slow_to_close();
            leave(fd, "", 1, &slow, 1);
            close_beside(slow);
        }
        close(last[been % 4]);
        last[been++ % 4] = fd;
    }
    printf("been %d\n", been);
    return 0;
}

int squat(const char *kind, int port, int other_port)
{
    struct sockaddr_un at;
    socklen_t len = rendezvous_address(&at, port, other_port);
    if (!strncmp(kind, "hold", 4)) return hold_place(kind, &at, len);
    return visit_place(kind, &at, len, port, other_port);
}
