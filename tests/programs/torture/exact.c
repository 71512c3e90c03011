/* What a library in front of the kernel finds hard to give as the kernel does: peeks over bytes
 * that came in different ways, low-water marks, pointers to no memory, calls by their number. See
 * torture.h. */
#include "torture.h"

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

/* Sends bytes of the stream in a way that only the kernel can: out of a file, from where it is. */
static void send_from_file(int fd, size_t size)
{
    uint8_t bytes[4096];
    int file = MUST(memfd_create("torture", 0));
    CHECK(size <= sizeof bytes);
    fill(outgoing.seed, outgoing.position, bytes, size);
    CHECK(write(file, bytes, size) == (ssize_t)size);
    MUST(lseek(file, 0, SEEK_SET));
    for (size_t sent = 0; sent < size;) sent += MUST(sendfile(fd, file, NULL, size - sent));
    outgoing.position += size;
    close(file);
}

static void say_peek(int fd, size_t size, int flags)
{
    static uint8_t bytes[8192];
    memset(bytes, 0, sizeof bytes);
    ssize_t got = recv(fd, bytes, size, MSG_PEEK | flags);
    say_result("peek", got);
    if (got > 0) check(incoming.seed, incoming.position, bytes, got);
}

/* A peek sees all that is there, however it came; one that waits for all, waits. */
static void peek_server(int fd)
{
    uint8_t bytes[8192];
    for (int round = 0; round < 3; round++) {
        meet();
        wait_for_bytes(fd, 300);
        say_peek(fd, 50, 0);
        say_peek(fd, 150, MSG_DONTWAIT);
        say_peek(fd, 250, MSG_WAITALL);
        say_peek(fd, 1000, 0);
        struct iovec parts[3] = {{bytes, 70}, {bytes + 70, 1}, {bytes + 71, 200}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
        SAY(recvmsg(fd, &message, MSG_PEEK));
        check(incoming.seed, incoming.position, bytes, 271);
        ssize_t got = MUST(recv(fd, bytes, 150, 0));
        say("read: %zd", got);
        check(incoming.seed, incoming.position, bytes, got);
        incoming.position += got;
        say_peek(fd, 1000, 0);
        got = MUST(recv(fd, bytes, 1000, 0));
        say("read: %zd", got);
        check(incoming.seed, incoming.position, bytes, got);
        incoming.position += got;
        say_peek(fd, 1000, MSG_DONTWAIT);
    }
    meet();
    wait_for_bytes(fd, 100);
    /* Some of it comes later; at a Unix socket a peek does not wait for that. */
    post();
    if (family() != AF_UNIX) say_peek(fd, 600, MSG_WAITALL);
    receive_next(fd, 600);
    meet();
    struct timeval limit = {0, 100000};
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    wait_for_bytes(fd, 200);
    say_peek(fd, 600, MSG_WAITALL);
    say_peek(fd, 600, 0);
    limit.tv_usec = 0;
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    post();
    if (family() != AF_UNIX) say_peek(fd, 600, MSG_WAITALL);
    receive_next(fd, 300);
    SAY(recv(fd, bytes, sizeof bytes, MSG_PEEK | MSG_WAITALL));
}

static void peek_client(int fd)
{
    for (int round = 0; round < 3; round++) {
        meet();
        send_next(fd, 100);
        send_from_file(fd, 100);
        send_next(fd, 100);
    }
    meet();
    send_next(fd, 60);
    send_from_file(fd, 40);
    await();
    rest_ms(50);
    send_next(fd, 200);
    rest_ms(50);
    send_next(fd, 300);
    meet();
    send_next(fd, 200);
    await();
    rest_ms(50);
    send_next(fd, 100);
    rest_ms(50);
    MUST(shutdown(fd, SHUT_WR));
    uint8_t byte;
    SAY(recv(fd, &byte, 1, 0));
}

/* Marks that are set while bytes are there, and every way to wait. */
static void say_selected(const char *when, int fd)
{
    fd_set set;
    struct timeval none = {0, 0};
    FD_ZERO(&set);
    FD_SET(fd, &set);
    say("%s: select: %d", when, MUST(select(fd + 1, &set, NULL, NULL, &none)));
}

static void say_marked(const char *when, int fd, int level, int edge)
{
    struct epoll_event event;
    say_poll(when, fd, POLLIN);
    say_selected(when, fd);
    say("%s: level: %d", when, MUST(epoll_wait(level, &event, 1, 0)));
    say("%s: edge: %d", when, MUST(epoll_wait(edge, &event, 1, 0)));
}

static void mark_server(int fd)
{
    uint8_t bytes[4096];
    int mark = 100, usual = 1, got;
    socklen_t size = sizeof got;
    int level = MUST(epoll_create1(0)), edge = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(level, EPOLL_CTL_ADD, fd, &event));
    SAY(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &usual, sizeof usual));
    meet();
    wait_for_bytes(fd, 60);
    SAY(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark));
    MUST(getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &got, &size));
    say("SO_RCVLOWAT: %d", got);
    event.events |= EPOLLET;
    MUST(epoll_ctl(edge, EPOLL_CTL_ADD, fd, &event));
    say_marked("60 of 100", fd, level, edge);
    /* With nothing to tell, waits that sleep end in time. */
    long before = now_ms();
    SAY(poll_for(fd, POLLIN, 50));
    SAY(epoll_wait(level, &event, 1, 50));
    SAY(epoll_wait(edge, &event, 1, 50));
    CHECK(now_ms() - before >= 140);
    post();
    SAY(poll_for(fd, POLLIN, 5000));
    wait_for_bytes(fd, 110);
    say_marked("110 of 100", fd, level, edge);
    receive_next(fd, 50);
    MUST(getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &got, &size));
    say("SO_RCVLOWAT: %d", got);
    say_marked("60 left", fd, level, edge);
    post();
    /* A read that waits gets as many as the mark says, or as it has room for. */
    got = MUST(recv(fd, bytes, sizeof bytes, 0));
    CHECK(got >= 100);
    check(incoming.seed, incoming.position, bytes, got);
    incoming.position += got;
    receive_next(fd, 160 - got);
    mark = 4;
    SAY(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark));
    post();
    for (int i = 0; i < 3; i++) receive_next(fd, 4);
    SAY(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &usual, sizeof usual));
    MUST(getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &got, &size));
    say("SO_RCVLOWAT: %d", got);
    post();
    receive_next(fd, 1);
    mark = 1000;
    SAY(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark));
    post();
    /* The end of the stream is above every mark. */
    got = MUST(recv(fd, bytes, sizeof bytes, 0));
    say("to the end: %d", got);
    SAY(recv(fd, bytes, sizeof bytes, 0));
}

static void mark_client(int fd)
{
    meet();
    send_next(fd, 60);
    await();
    send_next(fd, 20);
    rest_ms(50);
    send_next(fd, 30);
    await();
    rest_ms(50);
    send_next(fd, 10);
    rest_ms(50);
    send_next(fd, 90);
    await();
    for (int i = 0; i < 3; i++) {
        rest_ms(10);
        send_next(fd, 4);
    }
    await();
    send_next(fd, 1);
    await();
    send_next(fd, 30);
    rest_ms(20);
    MUST(shutdown(fd, SHUT_WR));
    uint8_t byte;
    recv(fd, &byte, 1, 0);
}

/* Memory that is not there, may not be read, or not written. */
enum { PAGE = 4096 };

static int signal_of_child(void (*work)(void))
{
    int status;
    pid_t child = MUST(fork());
    if (!child) {
        work();
        _exit(0);
    }
    MUST(waitpid(child, &status, 0));
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static void *volatile null;

static void write_nowhere(void)
{
    *(volatile int *)null = 1;
}

static void send_itself(void)
{
    raise(SIGSEGV);
}

static volatile int handled;

static void leave_by_handler(int number)
{
    handled = number;
    _exit(42);
}

static void handle_it(void)
{
    struct sigaction action = {.sa_handler = leave_by_handler}, before;
    MUST(sigaction(SIGSEGV, &action, &before));
    if (before.sa_handler != SIG_DFL) _exit(43);
    write_nowhere();
}

static void ignore_it(void)
{
    signal(SIGSEGV, SIG_IGN);
    raise(SIGSEGV);
    _exit(44);
}

static void pages_server(int fd)
{
    uint8_t *pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *gone = pages + PAGE, *constant = pages + 2 * PAGE, *secret = pages + 3 * PAGE;
    void *volatile no_address = (void *)0x5555000000000000;
    meet();
    wait_for_bytes(fd, 1000);
    MUST(munmap(gone, PAGE));
    MUST(mprotect(constant, PAGE, PROT_READ));
    MUST(mprotect(secret, PAGE, PROT_NONE));
    SAY(recv(fd, gone, 100, 0));
    SAY(recv(fd, constant, 100, 0));
    SAY(recv(fd, secret, 100, 0));
    SAY(recv(fd, no_address, 100, 0));
    SAY(recv(fd, gone - 50, 100, MSG_PEEK));
    struct iovec parts[2] = {{pages, 10}, {secret, 10}};
    SAY(readv(fd, (void *)gone, 1));
    struct msghdr message = {.msg_iov = parts + 1, .msg_iovlen = 1};
    SAY(recvmsg(fd, &message, 0));
    SAY(recvmsg(fd, (void *)constant, 0));
    SAY(send(fd, gone, 100, MSG_NOSIGNAL));
    SAY(send(fd, secret, 100, MSG_NOSIGNAL));
    SAY(send(fd, no_address, 100, MSG_NOSIGNAL));
    SAY(send(fd, gone - 50, 100, MSG_NOSIGNAL));
    SAY(writev(fd, parts + 1, 1));
    SAY(sendmsg(fd, (void *)secret, MSG_NOSIGNAL));
    SAY(ioctl(fd, FIONREAD, constant));
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    SAY(epoll_wait(set, (void *)gone, 8, 0));
    SAY(epoll_wait(set, (void *)constant, 8, 0));
    SAY(poll((void *)gone, 1, 0));
    SAY(select(fd + 1, (void *)secret, NULL, NULL, NULL));
    SAY(recvfrom(fd, pages, 10, MSG_PEEK, (void *)pages, (void *)gone));
    receive_next(fd, 1000);
    /* What the program makes of faults of its own is its own affair. */
    say("a fault: %d", signal_of_child(write_nowhere));
    say("sent: %d", signal_of_child(send_itself));
    say("handled: %d", signal_of_child(handle_it));
    say("ignored: %d", signal_of_child(ignore_it));
    struct sigaction before;
    MUST(sigaction(SIGSEGV, NULL, &before));
    say("no handler: %d %#x", before.sa_handler == SIG_DFL, before.sa_flags);
    say("none: %d", signal(SIGBUS, SIG_DFL) == SIG_DFL);
    send_next(fd, 1000);
    meet();
}

/* Calls that are on no connection, where a fault is the program's handler's, or nobody's. */
static void say_aside(void *gone)
{
    uint8_t byte = 0;
    int other = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = gone, .msg_controllen = 100};
    SAY(sendmsg(other, gone, 0));
    SAY(sendmsg(other, &message, 0));
    SAY(sendmmsg(other, gone, 2, 0));
    SAY(sendfile(other, other, gone, 10));
    MUST(close(other));
}

static void *no_page(void)
{
    void *page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    return page;
}

static void answers_aside(int unused)
{
    (void)unused;
    say_aside(no_page());
}

static void told_of_memory(void)
{
    siginfo_t info = {.si_signo = SIGBUS, .si_code = BUS_MCEERR_AO};
    MUST(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGBUS, &info));
    _exit(45);
}

static void answers_with_handler(void)
{
    struct sigaction action = {.sa_handler = leave_by_handler};
    MUST(sigaction(SIGSEGV, &action, NULL));
    say_aside(no_page());
}

/* Wherever the program says that it wants no handler, all is as before. */
static void signals_server(int fd)
{
    unsigned long words[4] = {1, 1, 1, 1};
    struct sigaction none = {.sa_handler = SIG_DFL};
    void *gone = no_page();
    meet();
    wait_for_bytes(fd, 1000);
    MUST(syscall(SYS_rt_sigaction, SIGSEGV, NULL, words, 8));
    say("by its number: %lu %#lx", words[0], words[1]);
    SAY(recv(fd, gone, 100, 0));
    say("none: %d", signal(SIGSEGV, SIG_DFL) == SIG_DFL);
    SAY(recv(fd, gone, 100, 0));
    MUST(sigaction(SIGSEGV, &none, NULL));
    SAY(recv(fd, gone, 100, 0));
    words[0] = 0;
    MUST(syscall(SYS_rt_sigaction, SIGSEGV, words, NULL, 8));
    SAY(recv(fd, gone, 100, 0));
    SAY(syscall(SYS_rt_sigaction, SIGSEGV, gone, NULL, 8));
    say("a fault: %d", signal_of_child(write_nowhere));
    say("sent: %d", signal_of_child(send_itself));
    say("told: %d", signal_of_child(told_of_memory));
    say("aside: %d", signal_of_child(answers_with_handler));
    receive_next(fd, 1000);
    send_next(fd, 1000);
    meet();
}

static void pages_client(int fd)
{
    meet();
    send_next(fd, 1000);
    receive_next(fd, 1000);
    meet();
}

/* One end calls by number, the other by name. */
static void number_server(int fd)
{
    uint8_t bytes[1000];
    struct iovec part = {bytes, 100};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    for (int i = 0; i < 100; i++) {
        struct pollfd entry = {fd, POLLIN, 0};
        CHECK(syscall(SYS_ppoll, &entry, 1, NULL, NULL, 0) == 1);
        long got = i % 3 == 0   ? syscall(SYS_recvmsg, fd, &message, MSG_WAITALL)
                   : i % 3 == 1 ? syscall(SYS_recvfrom, fd, bytes, 100, MSG_WAITALL, NULL, NULL)
                                : syscall(SYS_readv, fd, &part, 1);
        CHECK(got > 0);
        check(incoming.seed, incoming.position, bytes, got);
        incoming.position += got;
        receive_next(fd, 100 - got);
        fill(outgoing.seed, outgoing.position, bytes, 100);
        CHECK(100 == (i % 3 == 0   ? syscall(SYS_sendmsg, fd, &message, 0)
                      : i % 3 == 1 ? syscall(SYS_sendto, fd, bytes, 100, 0, NULL, 0)
                                   : syscall(SYS_writev, fd, &part, 1)));
        outgoing.position += 100;
    }
    int copy = syscall(SYS_dup, fd), other = syscall(SYS_fcntl, fd, F_DUPFD, 150);
    say("F_DUPFD: %d", other);
    SAY(syscall(SYS_dup3, fd, 151, O_CLOEXEC));
    SAY(syscall(SYS_close, fd));
    SAY(syscall(SYS_close, fd));
    SAY(syscall(SYS_recvfrom, fd, bytes, 10, 0, NULL, NULL));
    SAY(syscall(SYS_fcntl, copy, F_SETFL, O_NONBLOCK));
    SAY(syscall(SYS_read, other, bytes, 10));
    SAY(syscall(SYS_fcntl, copy, F_SETFL, 0));
    int value = 0, set = syscall(SYS_epoll_create1, 0);
    socklen_t size = sizeof value;
    SAY(syscall(SYS_getsockopt, other, SOL_SOCKET, SO_TYPE, &value, &size));
    say("SO_TYPE: %d", value);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = 5}, told = {0};
    SAY(syscall(SYS_epoll_ctl, set, EPOLL_CTL_ADD, other, &event));
    SAY(syscall(SYS_epoll_pwait, set, &told, 1, 0, NULL, 8));
    meet();
    SAY(syscall(SYS_epoll_pwait, set, &told, 1, -1, NULL, 8));
    say("data: %d", (int)told.data.u64);
    wait_for_bytes(copy, 500);
    SAY(syscall(SYS_ioctl, copy, FIONREAD, &value));
    say("FIONREAD: %d", value);
    SAY(syscall(SYS_read, 151, (void *)16, 10));
    receive_next(other, 500);
    SAY(syscall(SYS_shutdown, copy, SHUT_WR));
    SAY(syscall(SYS_read, 151, bytes, 10));
    /* What has nothing to do with sockets, with six arguments. */
    void *at = (void *)syscall(SYS_mmap, NULL, PAGE, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say("mmap: %d", at != MAP_FAILED && !*(char *)at);
    say("getpid: %d", syscall(SYS_getpid) == getpid());
    SAY(syscall(SYS_read, -1, bytes, 1));
    SAY(syscall(12345));
}

static void number_client(int fd)
{
    for (int i = 0; i < 100; i++) {
        send_next(fd, 100);
        receive_next(fd, 100);
    }
    meet();
    send_next(fd, 500);
    receive_to_end(fd);
    MUST(shutdown(fd, SHUT_WR));
    rest_ms(50);
}

const struct torture_case exact_cases[] = {
    {"peek-lanes", peek_server, peek_client, 0},
    {"low-water-later", mark_server, mark_client, INTERNET},
    {"fault-pages", pages_server, pages_client, 0},
    {"fault-signals", signals_server, pages_client, 0},
    {"fault-aside", answers_aside, answers_aside, OWN_SOCKETS},
    {"by-number-mixed", number_server, number_client, 0},
    {NULL, NULL, NULL, 0},
};
