/* The same answers as the kernel: pointers to no memory where a time, a mask or a name is to be, options
 * that this library uses for itself, messages by the thousand, bytes that wait for more, and `errno`,
 * which no call that succeeds changes. See torture.h. */
#include "torture.h"

#include <netinet/in.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { PAGE = 4096 };

static void *no_page(void)
{
    void *page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    return page;
}

/* Whether a call is refused. The C library reads some times itself: then it is a fault of the program's. */
static void say_refused(const char *what, int (*call)(int, void *), int fd, void *gone)
{
    int status;
    pid_t child = MUST(fork());
    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        _exit(call(fd, gone) < 0 && errno == EFAULT ? 0 : 1);
    }
    MUST(waitpid(child, &status, 0));
    bool refused = WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : WEXITSTATUS(status) == 0;
    say("%s: %s", what, refused ? "refused" : "done");
}

static int select_until(int fd, void *gone)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    return select(fd + 1, &set, NULL, NULL, gone);
}

static int pselect_until(int fd, void *gone)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    return pselect(fd + 1, &set, NULL, NULL, gone, NULL);
}

static int ppoll_until(int fd, void *gone)
{
    struct pollfd entry = {fd, POLLIN, 0};
    return ppoll(&entry, 1, gone, NULL);
}

/* Every wait with no memory for a time, a mask, or what is waited for; by name and by number. */
static void say_waits(int fd, void *gone)
{
    struct pollfd entry = {fd, POLLIN, 0};
    struct epoll_event event = {.events = EPOLLIN};
    struct timespec none = {0, 0};
    struct { void *mask; size_t size; } given = {gone, 8};
    fd_set read;
    FD_ZERO(&read);
    FD_SET(fd, &read);
    int set = MUST(epoll_create1(0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    SAY(syscall(SYS_select, fd + 1, &read, NULL, NULL, gone));
    SAY(syscall(SYS_pselect6, fd + 1, &read, NULL, NULL, gone, NULL));
    SAY(syscall(SYS_pselect6, fd + 1, &read, NULL, NULL, &none, &given));
    SAY(syscall(SYS_pselect6, fd + 1, &read, NULL, NULL, &none, gone));
    SAY(syscall(SYS_select, fd + 1, gone, NULL, NULL, NULL));
    SAY(syscall(SYS_ppoll, &entry, 1, gone, NULL, 8));
    SAY(syscall(SYS_ppoll, &entry, 1, &none, gone, 8));
    SAY(syscall(SYS_ppoll, gone, 1, &none, NULL, 8));
    SAY(syscall(SYS_epoll_pwait, set, &event, 1, 0, gone, 8));
    SAY(syscall(SYS_epoll_pwait2, set, &event, 1, gone, NULL, 8));
    SAY(syscall(SYS_epoll_pwait2, set, &event, 1, &none, gone, 8));
    SAY(pselect(fd + 1, &read, NULL, NULL, &none, gone));
    SAY(ppoll(&entry, 1, &none, gone));
    SAY(poll(gone, 1, 0));
    SAY(epoll_pwait(set, &event, 1, 0, gone));
    SAY(epoll_pwait2(set, &event, 1, gone, NULL));
    SAY(epoll_pwait2(set, &event, 1, &none, gone));
    say_refused("select", select_until, fd, gone);
    say_refused("pselect", pselect_until, fd, gone);
    say_refused("ppoll", ppoll_until, fd, gone);
    /* A time that may only be read is fine. */
    void *constant = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(constant != MAP_FAILED);
    SAY(syscall(SYS_ppoll, &entry, 1, constant, NULL, 8));
    SAY(ppoll(&entry, 1, constant, NULL));
    SAY(epoll_pwait2(set, &event, 1, constant, NULL));
    MUST(munmap(constant, PAGE));
    MUST(close(set));
}

/* Events for which there is room in part. */
static void say_room(int fd, int other)
{
    uint8_t *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    MUST(munmap(pages + PAGE, PAGE));
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 1}, *one;
    one = (void *)(pages + PAGE - sizeof event - 4);
    int set = MUST(epoll_create1(0));
    SAY(epoll_wait(set, (void *)(pages + PAGE), 4, 0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    event.data.u64 = 2;
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, other, &event));
    SAY(epoll_wait(set, one, 4, 1000));
    SAY(epoll_wait(set, (void *)(pages + PAGE), 4, 1000));
    MUST(close(set));
    MUST(munmap(pages, PAGE));
}

static void no_address_server(int fd)
{
    int pipes[2];
    MUST(pipe(pipes));
    CHECK(write(pipes[1], "x", 1) == 1);
    for (int round = 0; round < 2; round++) {
        void *gone = round ? (void *)0x5555000000000000 : no_page();
        say_waits(fd, gone);
        order_bytes(fd, 100 * (round + 1));
        say_waits(fd, gone);
        say_waits(pipes[0], gone);
    }
    say_room(fd, pipes[0]);
    receive_next(fd, 200);
    order('q');
}

/* The program has a handler of its own, which no bad pointer of these calls may come to. */
static void handled(int number)
{
    (void)number;
    fail("a signal in place of EFAULT");
}

static void no_address_handled(int fd)
{
    struct sigaction action = {.sa_handler = handled};
    int pipes[2];
    MUST(pipe(pipes));
    CHECK(write(pipes[1], "x", 1) == 1);
    MUST(sigaction(SIGSEGV, &action, NULL));
    order_bytes(fd, 100);
    say_waits(fd, no_page());
    say_waits(pipes[0], no_page());
    receive_next(fd, 100);
    order('q');
}

/* No socket that the library has ever seen. */
static void no_address_alone(int unused)
{
    (void)unused;
    int pipes[2], datagrams = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    MUST(pipe(pipes));
    CHECK(write(pipes[1], "x", 1) == 1);
    struct mmsghdr message = {0};
    SAY(recvmmsg(datagrams, &message, 1, MSG_DONTWAIT, no_page()));
    SAY(syscall(SYS_recvmmsg, datagrams, &message, 1, MSG_DONTWAIT, no_page()));
    say_waits(pipes[0], no_page());
}

/* Where a message, its parts, its length or the sender's name are to be. */
static void no_address_messages(int fd)
{
    uint8_t bytes[100], *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    uint8_t *gone = pages + PAGE, *constant = pages + 2 * PAGE;
    struct iovec part = {bytes, 10};
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}},
                                  {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}}};
    /* All of a message but for its length is there. */
    struct mmsghdr *cut = (void *)(gone - offsetof(struct mmsghdr, msg_len));
    cut->msg_hdr = messages[0].msg_hdr;
    memcpy(constant, messages, sizeof messages);
    MUST(munmap(gone, PAGE));
    MUST(mprotect(constant, PAGE, PROT_READ));
    struct timespec time = {1, 0}, bad = {-1, 0};
    socklen_t size = 100;
    order_bytes(fd, 100);
    SAY(recvmmsg(fd, messages, 2, 0, (void *)gone));
    SAY(recvmmsg(fd, messages, 2, 0, &bad));
    SAY(syscall(SYS_recvmmsg, fd, messages, 2, 0, gone));
    SAY(recvmmsg(fd, (void *)gone, 2, 0, &time));
    SAY(recvmmsg(fd, cut, 1, MSG_PEEK, &time));
    SAY(recvmmsg(fd, messages, 2, MSG_PEEK, (void *)(constant + PAGE / 2)));
    struct timespec *fixed = (void *)(constant + PAGE / 2);
    MUST(mprotect(constant, PAGE, PROT_READ | PROT_WRITE));
    *fixed = time;
    MUST(mprotect(constant, PAGE, PROT_READ));
    SAY(recvmmsg(fd, messages, 2, MSG_PEEK, fixed));
    SAY(recvfrom(fd, bytes, 10, MSG_PEEK, (void *)bytes, (void *)gone));
    SAY(recvfrom(fd, bytes, 10, MSG_PEEK, (void *)constant, &size));
    SAY(getsockopt(fd, SOL_SOCKET, SO_ERROR, gone, &size));
    SAY(getsockopt(fd, SOL_SOCKET, SO_ERROR, bytes, (void *)gone));
    SAY(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, gone, 4));
    SAY(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, gone, 4));
    messages[0].msg_hdr.msg_iov = (void *)gone;
    SAY(recvmsg(fd, &messages[0].msg_hdr, 0));
    SAY(sendmsg(fd, &messages[0].msg_hdr, MSG_NOSIGNAL));
    receive_next(fd, 100);
    /* What could be sent is sent, though its length can not be told. */
    fill(outgoing.seed, outgoing.position, bytes, 10);
    SAY(sendmmsg(fd, cut, 1, MSG_NOSIGNAL));
    outgoing.position += 10;
    fill(outgoing.seed, outgoing.position, bytes, 10);
    SAY(sendmmsg(fd, (void *)constant, 2, MSG_NOSIGNAL));
    outgoing.position += 10;
    SAY(sendmmsg(fd, (void *)gone, 2, MSG_NOSIGNAL));
    uint64_t sent = 20;
    post_bytes("r", 1);
    post_bytes(&sent, sizeof sent);
    await();
    loff_t offset = 0;
    int pipes[2];
    MUST(pipe(pipes));
    order('s');
    SAY(splice(fd, &offset, pipes[1], NULL, 10, 0));
    SAY(splice(fd, NULL, pipes[1], &offset, 10, 0));
    receive_next(fd, 100);
    order('q');
}

/* Options that mean nothing to TCP read as the program has set them, at any time. */
enum { TELL_LENGTHS = 26 };

static void say_option(const char *when, int fd, int name)
{
    int value = -1;
    unsigned char byte = 77;
    socklen_t size = sizeof value, one = 1;
    MUST(getsockopt(fd, IPPROTO_IP, name, &value, &size));
    MUST(syscall(SYS_getsockopt, fd, IPPROTO_IP, name, &byte, &one));
    say("%s: option %d: %d of %u, %d of %u", when, name, value, size, byte, one);
}

static void say_options(const char *when, int fd)
{
    say_option(when, fd, IP_MULTICAST_LOOP);
    say_option(when, fd, TELL_LENGTHS);
}

static void set_options(int fd, int loops, int lengths)
{
    unsigned char byte = loops;
    MUST(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &byte, 1));
    MUST(syscall(SYS_setsockopt, fd, IPPROTO_IP, TELL_LENGTHS, &lengths, sizeof lengths));
}

/* A program without the library, to which the socket has gone. */
static void options_elsewhere(const char *when, int fd)
{
    char number[16];
    say("%s:", when);
    pid_t child = MUST(fork());
    if (!child) {
        unsetenv("LD_PRELOAD");
        snprintf(number, sizeof number, "%d", fd);
        execl(program_path, program_path, "@then", is_server ? "server" : "client", "options", number,
              "0", "0", NULL);
        fail("exec: %s", strerrorname_np(errno));
    }
    wait_child(child);
}

void say_options_there(int fd)
{
    say_options("there", fd);
}

static void options_of(int fd)
{
    say_options("new", fd);
    for (int i = 0; i < 8; i++) {
        talk(fd, 3);
        say_options("early", fd);
    }
    set_options(fd, 0, 1);
    say_options("set", fd);
    talk(fd, 100);
    say_options("late", fd);
    set_options(fd, 1, 0);
    say_options("set back", fd);
    talk(fd, 10);
    set_options(fd, 0, 1);
    options_elsewhere("elsewhere", fd);
    say_options("and here", fd);
    set_options(fd, 1, 0);
    say_options("at last", fd);
    talk(fd, 10);
}

static void options_server(int unused)
{
    (void)unused;
    int listener = MUST(socket(family(), SOCK_STREAM, 0));
    say_options("before", listener);
    listen_by(listener, 1);
    say_options("listening", listener);
    int fd = accept_one(listener);
    options_of(fd);
    close(fd);
    /* What the listener is told, those that it accepts have; wherever else it is. */
    set_options(listener, 0, 1);
    say_options("listening", listener);
    meet();
    fd = accept_one(listener);
    say_options("accepted", fd);
    talk(fd, 50);
    close(fd);
    options_elsewhere("listener elsewhere", listener);
    set_options(listener, 1, 0);
    say_options("listening", listener);
    meet();
    options_of(accept_one(listener));
}

static void options_client(int unused)
{
    (void)unused;
    int fd = dial();
    options_of(fd);
    close(fd);
    await();
    fd = MUST(socket(family(), SOCK_STREAM, 0));
    set_options(fd, 0, 1);
    post();
    dial_by(fd);
    say_options("set before", fd);
    talk(fd, 50);
    close(fd);
    meet();
    options_of(dial());
}

/* More messages, and more parts, than the kernel takes. */
static void many_server(int fd)
{
    enum { MANY = 1030 };
    static uint8_t bytes[MANY];
    static struct iovec parts[MANY];
    static struct mmsghdr messages[MANY];
    for (int i = 0; i < MANY; i++) {
        parts[i] = (struct iovec){bytes + i, 1};
        messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = parts + i, .msg_iovlen = 1}};
    }
    for (int round = 0; round < 2; round++) {
        fill(outgoing.seed, outgoing.position, bytes, 1024);
        SAY(round ? syscall(SYS_sendmmsg, fd, messages, MANY, 0) : sendmmsg(fd, messages, MANY, 0));
        outgoing.position += 1024;
        meet();
    }
    SAY(sendmmsg(fd, messages, 0, 0));
    await();
    for (int count = 1024; count < 1026; count++) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
        SAY(readv(fd, parts, count));
        SAY(preadv2(fd, parts, count, -1, 0));
        SAY(recvmsg(fd, &message, 0));
        SAY(writev(fd, parts, count));
        SAY(pwritev2(fd, parts, count, -1, 0));
        SAY(sendmsg(fd, &message, 0));
    }
    volatile int negative = -1;
    SAY(readv(fd, parts, negative));
    SAY(writev(fd, parts, negative));
    post();
    await();
    wait_for_bytes(fd, MANY);
    SAY(recvmmsg(fd, messages, MANY, 0, NULL));
    meet();
}

static void many_client(int fd)
{
    static char bytes[4096];
    for (int round = 0; round < 2; round++) {
        receive_next(fd, 1024);
        meet();
    }
    for (int i = 0; i < 3; i++) MUST(send(fd, bytes, 1024, 0));
    post();
    await();
    MUST(send(fd, bytes, 1030, 0));
    post();
    meet();
}

/* Bytes that are to wait for more do: as a rule, for the kernel sends them with any acknowledgement. */
static void more_server(int unused)
{
    (void)unused;
    enum { ROUNDS = 60, PAIRS = 5 };
    int listener = listener_here(1), early = 0;
    for (int pair = 0; pair < PAIRS; pair++) {
        struct sockaddr_storage name;
        socklen_t size = sizeof name;
        int from = MUST(socket(family(), SOCK_STREAM, 0));
        MUST(getsockname(listener, (void *)&name, &size));
        MUST(connect(from, (void *)&name, size));
        int to = accept_one(listener);
        for (int round = 0; round < ROUNDS; round++) {
            uint8_t bytes[64], sent[33];
            ssize_t got;
            fill(outgoing.seed, outgoing.position, sent, sizeof sent);
            outgoing.position += sizeof sent;
            MUST(send(from, sent, 16, 0));
            CHECK(MUST(recv(to, bytes, sizeof bytes, 0)) == 16);
            MUST(send(from, sent + 16, 16, MSG_MORE));
            got = recv(to, bytes + 16, 16, MSG_DONTWAIT);
            early += got > 0;
            MUST(send(from, sent + 32, 1, 0));
            for (got = 16 + (got > 0 ? got : 0); got < 33;)
                got += MUST(recv(to, bytes + got, sizeof bytes - got, 0));
            CHECK(!memcmp(bytes, sent, sizeof sent));
        }
        close(from);
        close(to);
    }
    say("they wait: %d", early < PAIRS * ROUNDS / 4);
    post();
}

static void more_client(int unused)
{
    (void)unused;
    learn();
    await();
}

/* A call that succeeds leaves `errno` alone. */
#define KEEPS(call)                                                                         \
    ({                                                                                      \
        errno = 4321;                                                                       \
        __typeof__(call) got_ = (call);                                                     \
        if (got_ == (__typeof__(call))-1)                                                   \
            fail("%s:%d: %s: %s", __FILE__, __LINE__, #call, strerrorname_np(errno));       \
        if (errno != 4321)                                                                  \
            fail("%s:%d: %s: %ld, and errno is %d", __FILE__, __LINE__, #call, (long)got_, errno); \
        got_;                                                                               \
    })

static void wait_for_all(int fd, int set)
{
    struct pollfd entry = {fd, POLLIN | POLLOUT, 0};
    struct epoll_event event;
    struct timespec time = {0, 1000000};
    struct timeval limit = {0, 1000};
    sigset_t none;
    fd_set read;
    sigemptyset(&none);
    FD_ZERO(&read);
    FD_SET(fd, &read);
    KEEPS(poll(&entry, 1, 1));
    KEEPS(ppoll(&entry, 1, &time, &none));
    KEEPS(select(fd + 1, &read, NULL, NULL, &limit));
    FD_SET(fd, &read);
    KEEPS(pselect(fd + 1, &read, NULL, NULL, &time, &none));
    KEEPS(epoll_wait(set, &event, 1, 1));
    KEEPS(epoll_pwait(set, &event, 1, 1, &none));
    KEEPS(epoll_pwait2(set, &event, 1, &time, NULL));
    KEEPS(syscall(SYS_ppoll, &entry, 1, &time, NULL, 8));
}

static void take_all(int fd, int size)
{
    static uint8_t bytes[4096];
    struct iovec parts[2] = {{bytes, 40}, {bytes + 40, 60}};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = parts, .msg_iovlen = 2}};
    struct timespec time = {1, 0};
    socklen_t name_size = 0;
    int count;
    KEEPS(ioctl(fd, FIONREAD, &count));
    KEEPS(recv(fd, bytes, 100, MSG_PEEK));
    for (int i = 0; size > 0; i++) {
        int limit = size < 100 ? size : 100;
        parts[0].iov_len = limit < 40 ? limit : 40;
        parts[1].iov_len = limit - parts[0].iov_len;
        switch (i % 7) {
        case 0: size -= KEEPS(recv(fd, bytes, limit, 0)); break;
        case 1: size -= KEEPS(read(fd, bytes, limit)); break;
        case 2: size -= KEEPS(readv(fd, parts, 2)); break;
        case 3: size -= KEEPS(recvmsg(fd, &message.msg_hdr, 0)); break;
        case 4: size -= KEEPS(recvfrom(fd, bytes, limit, 0, NULL, &name_size)); break;
        case 5: size -= KEEPS(recv(fd, bytes, limit, MSG_WAITALL)); break;
        case 6: KEEPS(recvmmsg(fd, &message, 1, 0, &time)); size -= message.msg_len; break;
        }
        rest_ms(i % 3);
    }
}

static void give_all(int fd, int rounds)
{
    static uint8_t bytes[100];
    struct iovec parts[2] = {{bytes, 40}, {bytes + 40, 60}};
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = parts, .msg_iovlen = 2}},
                                  {.msg_hdr = {.msg_iov = parts, .msg_iovlen = 0}}};
    for (int i = 0; i < rounds; i++) {
        switch (i % 5) {
        case 0: CHECK(KEEPS(send(fd, bytes, 100, 0)) == 100); break;
        case 1: CHECK(KEEPS(write(fd, bytes, 100)) == 100); break;
        case 2: CHECK(KEEPS(writev(fd, parts, 2)) == 100); break;
        case 3: CHECK(KEEPS(sendmsg(fd, &messages[0].msg_hdr, MSG_DONTWAIT)) == 100); break;
        case 4: KEEPS(sendmmsg(fd, messages, 1, 0)); break;
        }
        rest_ms(i % 4);
    }
}

static void errno_of(int fd)
{
    enum { ROUNDS = 40 };
    int set = MUST(epoll_create1(0)), value;
    struct epoll_event event = {.events = EPOLLIN};
    socklen_t size = sizeof value;
    KEEPS(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    for (int turn = 0; turn < 4; turn++) {
        if ((turn % 2 == 0) == is_server) {
            give_all(fd, ROUNDS);
            wait_for_all(fd, set);
        } else {
            wait_for_all(fd, set);
            take_all(fd, ROUNDS * 100);
        }
        meet();
        KEEPS(getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &size));
        KEEPS(getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, &size));
        KEEPS(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, size));
        int copy = KEEPS(dup(fd));
        KEEPS(dup2(fd, copy));
        KEEPS(fcntl(copy, F_SETFL, KEEPS(fcntl(copy, F_GETFL))));
        KEEPS(close(copy));
        pid_t child = KEEPS(fork());
        if (!child) _exit(0);
        MUST(waitpid(child, NULL, 0));
    }
    KEEPS(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    KEEPS(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL));
}

static void errno_server(int unused)
{
    (void)unused;
    int listener = KEEPS(socket(family(), SOCK_STREAM, 0));
    listen_by(listener, 1);
    int fd = KEEPS(accept(listener, NULL, NULL));
    errno_of(fd);
    KEEPS(shutdown(fd, SHUT_WR));
    meet();
    char byte;
    CHECK(KEEPS(recv(fd, &byte, 1, 0)) == 0);
    CHECK(KEEPS(recv(fd, &byte, 1, 0)) == 0);
    KEEPS(close(fd));
    KEEPS(close(listener));
}

static void errno_client(int unused)
{
    (void)unused;
    int fd = dial();
    char byte;
    errno_of(fd);
    CHECK(KEEPS(recv(fd, &byte, 1, 0)) == 0);
    meet();
    KEEPS(close(fd));
}

/* As above, of an end that is killed: by a read that sleeps, one that looks, and one that comes late. */
static void killed_ends(int unused)
{
    (void)unused;
    int listener = listener_here(1);
    for (int i = 0; i < 12; i++) {
        int fd = accept_one(listener);
        pid_t child = MUST(fork());
        if (!child) {
            close(listener);
            talk(fd, 100);
            meet();
            rest_ms(i % 3 * 10);
            raise(SIGKILL);
        }
        close(fd);
        MUST(waitpid(child, NULL, 0));
        post();
        outgoing.position = incoming.position = 0;
    }
}

static void reads_of_killed(int unused)
{
    (void)unused;
    for (int i = 0; i < 12; i++) {
        int fd = dial();
        char byte;
        struct timespec time = {10, 0};
        struct iovec part = {&byte, 1};
        struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
        talk(fd, 100);
        meet();
        switch (i % 4) {
        case 0: CHECK(KEEPS(recv(fd, &byte, 1, 0)) == 0); break;
        case 1: CHECK(KEEPS(read(fd, &byte, 1)) == 0); break;
        case 2: CHECK(KEEPS(recvmsg(fd, &message.msg_hdr, 0)) == 0); break;
        case 3: CHECK(KEEPS(recvmmsg(fd, &message, 1, 0, &time)) == 1); break;
        }
        await();
        CHECK(KEEPS(recv(fd, &byte, 1, 0)) == 0);
        KEEPS(close(fd));
        outgoing.position = incoming.position = 0;
    }
}

const struct torture_case answer_cases[] = {
    {"no-address", no_address_server, on_demand, 0},
    {"no-address-handled", no_address_handled, on_demand, 0},
    {"no-address-alone", no_address_alone, no_address_alone, OWN_SOCKETS},
    {"no-address-messages", no_address_messages, on_demand, 0},
    {"marks-hidden", options_server, options_client, OWN_SOCKETS | INTERNET},
    {"many-messages", many_server, many_client, 0},
    {"bytes-wait-for-more", more_server, more_client, OWN_SOCKETS},
    {"errno-kept", errno_server, errno_client, OWN_SOCKETS},
    {"errno-kept-at-end", killed_ends, reads_of_killed, OWN_SOCKETS},
    {NULL, NULL, NULL, 0},
};
