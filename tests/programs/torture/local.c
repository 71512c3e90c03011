/* What Unix sockets have beside the bytes, and what only they do. */
#include "torture.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/un.h>

static void give_descriptor(int fd, int given, size_t size)
{
    uint8_t bytes[1000];
    fill(outgoing.seed, outgoing.position, bytes, size);
    struct iovec part = {bytes, size};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof given)];
    } control = {.header = {CMSG_LEN(sizeof given), SOL_SOCKET, SCM_RIGHTS}};
    memcpy(CMSG_DATA(&control.header), &given, sizeof given);
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    CHECK(MUST(sendmsg(fd, &message, MSG_NOSIGNAL)) == (ssize_t)size);
    outgoing.position += size;
}

/* At most `size` bytes, with room for control data; a descriptor, or -1. */
static int take_descriptor(int fd, size_t size, size_t *taken)
{
    uint8_t bytes[3000];
    char control[256];
    struct iovec part = {bytes, size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    *taken = MUST(recvmsg(fd, &message, 0));
    CHECK(*taken > 0 && message.msg_flags == 0);
    check(incoming.seed, incoming.position, bytes, *taken);
    incoming.position += *taken;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header) return -1;
    CHECK(header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS);
    int given;
    memcpy(&given, CMSG_DATA(header), sizeof given);
    return given;
}

enum { BEFORE = 800, WITH = 900, AFTER = 700 };

/* A descriptor comes with its bytes, not with those before or behind them. */
static void give_client(int fd)
{
    for (int i = 0; i < 200; i++) {
        int ends[2];
        MUST(pipe(ends));
        send_next(fd, BEFORE);
        give_descriptor(fd, ends[0], WITH);
        send_next(fd, AFTER);
        MUST(write(ends[1], &i, sizeof i));
        close(ends[0]);
        close(ends[1]);
        receive_next(fd, 10);
    }
    say("given: good");
}

static void give_server(int fd)
{
    for (int i = 0; i < 200; i++) {
        int given = -1, said = -1;
        for (size_t total = 0, taken; total < BEFORE + WITH + AFTER; total += taken) {
            int now = take_descriptor(fd, BEFORE + WITH + AFTER - total, &taken);
            if (now < 0) continue;
            CHECK(given < 0 && total < BEFORE + WITH && total + taken == BEFORE + WITH);
            given = now;
        }
        CHECK(MUST(read(given, &said, sizeof said)) == sizeof said && said == i);
        close(given);
        send_next(fd, 10);
    }
    say("taken: good");
}

/* From the moment that it is asked for, every message tells who sent it. */
static void names_sender(int fd)
{
    int on = 1, told = 0;
    MUST(setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on));
    send_next(fd, 10);
    for (int i = 0; i < 50; i++) {
        char bytes[100], control[256];
        struct iovec part = {bytes, sizeof bytes};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof control};
        CHECK(MUST(recvmsg(fd, &message, MSG_WAITALL)) == 100);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        told += header && header->cmsg_type == SCM_CREDENTIALS;
        incoming.position += 100;
        send_next(fd, 10);
    }
    say("the sender's credentials: %d times", told);
}

static void is_named(int fd)
{
    receive_next(fd, 10);
    for (int i = 0; i < 50; i++) {
        send_next(fd, 100);
        receive_next(fd, 10);
    }
}

/* The byte out of band, where the kernel has it. */
static void urgent_from(int fd)
{
    char bytes[10];
    await();
    SAY(recv(fd, bytes, 10, 0));
    SAY(recv(fd, bytes, 1, MSG_OOB));
    SAY(recv(fd, bytes, 10, 0));
    post();
}

static void urgent_to(int fd)
{
    MUST(send(fd, "abc", 3, 0));
    long sent = send(fd, "x", 1, MSG_OOB);
    /* A kernel may be without. */
    if (sent < 0) MUST(send(fd, "x", 1, 0));
    MUST(send(fd, "def", 3, 0));
    post();
    await();
}

static int asked(int fd, unsigned long what)
{
    int count = -1;
    MUST(ioctl(fd, what, &count));
    return count;
}

/* What was not read: of either end. */
static void queues_from(int fd)
{
    await();
    say("to be read: %d", asked(fd, FIONREAD));
    receive_next(fd, 3000);
    say("to be read: %d", asked(fd, FIONREAD));
    post();
}

static void queues_to(int fd)
{
    say("not read yet: %s", asked(fd, SIOCOUTQ) ? "some" : "none");
    send_next(fd, 3000);
    say("not read yet: %s", asked(fd, SIOCOUTQ) >= 3000 ? "all" : "less");
    post();
    await();
    say("not read yet: %s", asked(fd, SIOCOUTQ) ? "some" : "none");
}

/* Closed with bytes unread: told once, by whichever call comes first. */
static void error_server(int fd)
{
    send_next(fd, 100);
    await();
    close(fd);
    post();
}

static void error_client(int fd)
{
    int error = 0, set = MUST(epoll_create1(0));
    socklen_t size = sizeof error;
    char bytes[1000];
    struct epoll_event event = {EPOLLIN | EPOLLRDHUP, {0}};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    send_next(fd, 100);
    post();
    await();
    CHECK(MUST(epoll_wait(set, &event, 1, 1000)) == 1);
    say("the set:%s%s%s", event.events & EPOLLIN ? " IN" : "", event.events & EPOLLERR ? " ERR" : "",
        event.events & EPOLLHUP ? " HUP" : "");
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
    say("SO_ERROR: %s", strerrorname_np(error));
    SAY(recv(fd, bytes, sizeof bytes, 0));
    SAY(recv(fd, bytes, sizeof bytes, 0));
    SAY(send(fd, bytes, 1, MSG_NOSIGNAL));
}

/* The reader's half is shut by the reader: who sends is told, who reads gets what was there. */
static void deaf_server(int fd)
{
    send_next(fd, 10);
    await();
    MUST(shutdown(fd, SHUT_RD));
    post();
    receive_to_end(fd);
    send_next(fd, 10);
}

static void deaf_client(int fd)
{
    receive_next(fd, 10);
    send_next(fd, 500);
    post();
    await();
    SAY(send(fd, "x", 1, MSG_NOSIGNAL));
    receive_next(fd, 10);
}

/* Names and options, as the program knows them. */
static void names(int fd)
{
    struct sockaddr_un own, other, sender;
    socklen_t own_size = sizeof own, other_size = sizeof other, sender_size = sizeof sender;
    MUST(getsockname(fd, (struct sockaddr *)&own, &own_size));
    MUST(getpeername(fd, (struct sockaddr *)&other, &other_size));
    send_next(fd, 1);
    uint8_t byte;
    CHECK(MUST(recvfrom(fd, &byte, 1, 0, (struct sockaddr *)&sender, &sender_size)) == 1);
    incoming.position++;
    say("names: own %s, other %s, sender %s", own_size > 2 ? "some" : "none",
        other_size > 2 ? "some" : "none", sender_size > 2 ? "some" : "none");
    CHECK(sender_size <= 2 || !memcmp(&sender, &other, other_size));
    for (int i = 0, value; i < 2; i++) {
        socklen_t size = sizeof value;
        MUST(getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, &size));
        say("receive buffer: %s", i ? (value == 10000 ? "as set" : "other")
                                    : (value % 4096 == 0 ? "a round number" : "odd"));
        value = 5000;
        MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, sizeof value));
    }
    struct sockaddr_un nowhere = {.sun_family = AF_UNIX};
    SAY(sendto(fd, "x", 1, MSG_NOSIGNAL, (struct sockaddr *)&nowhere, sizeof nowhere));
    talk(fd, 100);
}

/* Bytes that no library sees, from the first on. */
static void unseen_client(int fd)
{
    char line[32];
    for (int i = 0; i < 300; i++) {
        CHECK(dprintf(fd, "line %06d\n", i) == 12);
        MUST(recv(fd, line, 12, MSG_WAITALL));
    }
    say("lines: good");
    talk(fd, 300);
}

static void unseen_server(int fd)
{
    char line[32], expected[32];
    for (int i = 0; i < 300; i++) {
        MUST(recv(fd, line, 12, MSG_WAITALL));
        snprintf(expected, sizeof expected, "line %06d\n", i);
        CHECK(!memcmp(line, expected, 12));
        MUST(send(fd, line, 12, 0));
    }
    say("lines: good");
    talk(fd, 300);
}

/* A pair, for a parent and its child. */
static void pair(int unused)
{
    (void)unused;
    int ends[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pid_t child = MUST(fork());
    is_server = !child;
    outgoing = (struct flow){is_server ? 1 : 2, 0};
    incoming = (struct flow){is_server ? 2 : 1, 0};
    close(ends[is_server]);
    int fd = ends[!is_server];
    for (int i = 0; i < 1000; i++) {
        size_t size = 1 + i * 37 % 9000;
        if (is_server) receive_next(fd, size);
        send_next(fd, size);
        if (!is_server) receive_next(fd, size);
    }
    close(fd);
    if (!child) _exit(0);
    wait_child(child);
    say("the pair: good");
}

const struct torture_case local_cases[] = {
    {"descriptors", give_server, give_client, UNIX_ONLY},
    {"descriptors-cold", give_server, give_client, UNIX_ONLY | COLD},
    {"credentials", names_sender, is_named, UNIX_ONLY},
    {"local-urgent", urgent_from, urgent_to, UNIX_ONLY},
    {"local-queues", queues_from, queues_to, UNIX_ONLY},
    {"local-error", error_server, error_client, UNIX_ONLY},
    {"local-deaf", deaf_server, deaf_client, UNIX_ONLY},
    {"local-names", names, names, UNIX_ONLY},
    {"unseen", unseen_server, unseen_client, UNIX_ONLY | COLD},
    {"pair", pair, pair, UNIX_ONLY | OWN_SOCKETS},
    {NULL, NULL, NULL, 0},
};
