/* A program that confines itself to some system calls, before it has connections, while they
 * talk, or in a child. Whatever is not on its list kills it, or is told by a signal. */
#include "torture.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

/* What a case needs to say what it found, and to end; and the time, which the C library asks the
 * kernel for on some machines only. */
#define ALWAYS SYS_write, SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_clock_gettime
/* And to speak as talk() does. */
#define SPEAKING SYS_sendto, SYS_recvfrom

enum { STEPS_MAX = 64 };

static struct sock_filter steps[STEPS_MAX];

/* A filter that allows `count` calls, and else does `action`. */
static struct sock_fprog list(const int *calls, size_t count, uint32_t action)
{
    struct sock_filter *step = steps;
    CHECK(count + 3 <= STEPS_MAX);
    *step++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                           offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < count; i++)
        *step++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], count - i, 0);
    *step++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    *step++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return (struct sock_fprog){step - steps, steps};
}

#define LIST(action, ...)                                             \
    list((const int[]){__VA_ARGS__},                                  \
         sizeof((const int[]){__VA_ARGS__}) / sizeof(int), action)

static void confine(struct sock_fprog filter)
{
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
}

/* The first call that was not on the list. */
static volatile sig_atomic_t trapped = -1;

static void trap(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    if (trapped < 0) trapped = info->si_syscall;
}

static void set_trap(void)
{
    struct sigaction action = {.sa_sigaction = trap, .sa_flags = SA_SIGINFO};
    MUST(sigaction(SIGSYS, &action, NULL));
}

static void say_trapped(void)
{
    if (trapped >= 0) fail("call %d was made, which is not on the list", (int)trapped);
    say("confined: good");
}

/* While the connection is up: from then on by these calls only. */
static void later_trap(int fd)
{
    set_trap();
    talk(fd, 20);
    confine(LIST(SECCOMP_RET_TRAP, ALWAYS, SPEAKING));
    talk(fd, 200);
    say_trapped();
}

static void later_kill(int fd)
{
    talk(fd, 20);
    confine(LIST(SECCOMP_RET_KILL_PROCESS, ALWAYS, SPEAKING));
    talk(fd, 200);
    say("confined: good");
}

static void later_peer(int fd)
{
    talk(fd, 220);
    receive_to_end(fd);
}

/* By the number of the call, as sandbox libraries do. */
static void by_number(int fd)
{
    talk(fd, 20);
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    struct sock_fprog filter = LIST(SECCOMP_RET_KILL_PROCESS, ALWAYS, SPEAKING);
    /* Whether the kernel could: no filter. */
    SAY(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
    talk(fd, 20);
    MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter));
    talk(fd, 180);
    say("confined: good");
}

/* With bytes that were not read, in both directions. */
static void unread(int fd)
{
    uint8_t bytes[3000];
    talk(fd, 20);
    wait_for_bytes(fd, sizeof bytes);
    send_next(fd, 5000);
    confine(LIST(SECCOMP_RET_KILL_PROCESS, ALWAYS, SPEAKING));
    receive_next(fd, 3000);
    talk(fd, 20);
    say("confined: good");
}

static void unread_peer(int fd)
{
    talk(fd, 20);
    send_next(fd, 3000);
    receive_next(fd, 5000);
    talk(fd, 20);
    receive_to_end(fd);
}

/* All ways to wait, read and write, and what a program does to descriptors. */
static void all_ways(int fd)
{
    uint8_t bytes[64];
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {EPOLLIN, {0}};
    struct pollfd entry = {fd, POLLIN, 0};
    set_trap();
    talk(fd, 20);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    confine(LIST(SECCOMP_RET_TRAP, ALWAYS, SPEAKING, SYS_read, SYS_readv, SYS_writev, SYS_sendmsg,
                 SYS_recvmsg, SYS_poll, SYS_ppoll, SYS_epoll_wait, SYS_epoll_pwait, SYS_pselect6,
                 SYS_dup, SYS_dup2, SYS_dup3, SYS_close, SYS_epoll_create1, SYS_epoll_ctl,
                 SYS_ioctl, SYS_fcntl, SYS_shutdown, SYS_getpeername));
    for (int i = 0; i < 100; i++) {
        fill(outgoing.seed, outgoing.position, bytes, sizeof bytes);
        struct iovec parts[2] = {{bytes, 10}, {bytes + 10, sizeof bytes - 10}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        fd_set one;
        FD_ZERO(&one);
        FD_SET(fd, &one);
        struct timespec second = {1, 0};
        if (i % 3 == 0) CHECK(MUST(write(fd, bytes, sizeof bytes)) == sizeof bytes);
        if (i % 3 == 1) CHECK(MUST(writev(fd, parts, 2)) == sizeof bytes);
        if (i % 3 == 2) CHECK(MUST(sendmsg(fd, &message, MSG_NOSIGNAL)) == sizeof bytes);
        outgoing.position += sizeof bytes;
        if (i % 4 == 0) CHECK(MUST(poll(&entry, 1, -1)) == 1);
        if (i % 4 == 1) CHECK(MUST(epoll_wait(set, &event, 1, -1)) == 1);
        if (i % 4 == 2) CHECK(MUST(pselect(fd + 1, &one, NULL, NULL, &second, NULL)) == 1);
        if (i % 4 == 3) CHECK(MUST(ppoll(&entry, 1, &second, NULL)) == 1);
        size_t got = i % 2 ? MUST(read(fd, bytes, sizeof bytes)) : MUST(readv(fd, parts, 2));
        check(incoming.seed, incoming.position, bytes, got);
        incoming.position += got;
        receive_next(fd, sizeof bytes - got);
    }
    int copy = MUST(dup(fd)), other = MUST(fcntl(fd, F_DUPFD, 100));
    MUST(dup2(copy, other));
    MUST(close(other));
    MUST(close(copy));
    MUST(close(MUST(epoll_create1(0))));
    int count = 0;
    MUST(ioctl(fd, FIONREAD, &count));
    MUST(shutdown(fd, SHUT_WR));
    say_trapped();
}

static void all_ways_peer(int fd)
{
    talk(fd, 20);
    for (int i = 0; i < 100; i++) {
        receive_next(fd, 64);
        send_next(fd, 64);
    }
    receive_to_end(fd);
}

/* A thread waits in a read when another confines both. */
static int reading;

static void *read_waiting(void *unused)
{
    uint8_t bytes[100];
    for (size_t left = 3 * sizeof bytes; left;) {
        ssize_t got = MUST(read(reading, bytes, sizeof bytes));
        CHECK(got > 0);
        check(incoming.seed, incoming.position, bytes, got);
        incoming.position += got, left -= got;
    }
    return unused;
}

static void threads(int fd)
{
    pthread_t reader;
    set_trap();
    talk(fd, 20);
    reading = fd;
    CHECK(!pthread_create(&reader, NULL, read_waiting, NULL));
    rest_ms(50);
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    struct sock_fprog filter =
        LIST(SECCOMP_RET_TRAP, ALWAYS, SPEAKING, SYS_read, SYS_futex, SYS_madvise, SYS_munmap,
             SYS_rseq, SYS_set_robust_list, SYS_rt_sigprocmask);
    MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter));
    post();
    CHECK(!pthread_join(reader, NULL));
    talk(fd, 20);
    say_trapped();
}

static void threads_peer(int fd)
{
    talk(fd, 20);
    await();
    for (int i = 0; i < 3; i++) send_next(fd, 100);
    talk(fd, 20);
    receive_to_end(fd);
}

/* A filter that the kernel refuses: nothing has changed. */
static void refused(int fd)
{
    struct sock_fprog none = {0, steps};
    talk(fd, 20);
    for (int i = 0; i < 4; i++) {
        SAY(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &none));
        talk(fd, 50);
    }
    say("not confined: good");
}

/* Connections of a program that is confined already. */
static void opens(int unused)
{
    (void)unused;
    set_trap();
    int listener = listener_here(5);
    learn();
    confine(LIST(SECCOMP_RET_TRAP, ALWAYS, SPEAKING, SYS_socket, SYS_connect, SYS_accept,
                 SYS_accept4, SYS_close, SYS_shutdown, SYS_socketpair));
    for (int i = 0; i < 3; i++) {
        outgoing.position = incoming.position = 0;
        int fd = is_server ? accept_one(listener) : dial();
        talk(fd, 200);
        finish(fd);
    }
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    for (int i = 0; i < 300; i++) {
        char byte;
        CHECK(MUST(send(pair[i % 2], "x", 1, 0)) == 1 && MUST(recv(pair[1 - i % 2], &byte, 1, 0)) == 1);
    }
    MUST(close(pair[0]));
    MUST(close(pair[1]));
    say_trapped();
}

/* As a server does that has its untrusted half in a child: over a pair, from the first byte on,
 * or when the pair has long been talking. */
static void halves(int before)
{
    int ends[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pid_t child = MUST(fork());
    is_server = !child;
    outgoing = (struct flow){is_server ? 1 : 2, 0};
    incoming = (struct flow){is_server ? 2 : 1, 0};
    close(ends[is_server]);
    int fd = ends[!is_server];
    talk(fd, before);
    if (!child) confine(LIST(SECCOMP_RET_KILL_PROCESS, ALWAYS, SPEAKING, SYS_close));
    talk(fd, 300);
    close(fd);
    if (!child) _exit(0);
    wait_child(child);
    say("the untrusted half: good");
}

static void untrusted_half(int unused)
{
    (void)unused;
    halves(0);
    halves(200);
}

/* A child is confined, and talks on over its parent's connection; then the parent does. Nothing is
 * unread when it is: what cannot be taken back in time is the parent's. */
static void child(int fd)
{
    talk(fd, 20);
    pid_t child = MUST(fork());
    if (!child) {
        confine(LIST(SECCOMP_RET_KILL_PROCESS, ALWAYS, SPEAKING));
        post();
        talk(fd, 20);
        _exit(0);
    }
    wait_child(child);
    outgoing.position += 20 * 3000, incoming.position += 20 * 3000;
    talk(fd, 180);
    say("the child: good");
}

static void child_peer(int fd)
{
    talk(fd, 20);
    await();
    talk(fd, 200);
    receive_to_end(fd);
}

/* Another program inherits a filter that kills for what only the library calls. */
static void inherits(int unused)
{
    (void)unused;
    static const int calls[] = {SYS_memfd_create, SYS_membarrier, SYS_sched_yield, SYS_recvmsg,
                                SYS_sendmsg, SYS_tkill};
    enum { COUNT = sizeof calls / sizeof *calls };
    if (!getenv("TORTURE_INHERITED")) {
        setenv("TORTURE_INHERITED", "1", 1);
        struct sock_fprog filter = list(calls, COUNT, SECCOMP_RET_ALLOW);
        steps[COUNT + 2].k = SECCOMP_RET_KILL_PROCESS;
        confine(filter);
        execl(program_path, program_path, is_server ? "@server" : "@client", "confined-inherits",
              NULL);
        fail("exec: %s", strerrorname_np(errno));
    }
    int fd = is_server ? accept_one(listener_here(1)) : dial();
    talk(fd, 300);
    finish(fd);
}

/* A filter that refuses handlers: a fault of the program's own ends it all the same. */
static void no_handlers(int fd)
{
    static const int calls[] = {SYS_rt_sigaction, SYS_rt_tgsigqueueinfo};
    talk(fd, 20);
    struct sock_fprog filter = list(calls, 2, SECCOMP_RET_ALLOW);
    steps[4].k = SECCOMP_RET_ERRNO | EPERM;
    confine(filter);
    pid_t child = MUST(fork());
    if (!child) {
        *(volatile int *volatile)0 = 1;
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0));
    say("a fault: %d", WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status));
    talk(fd, 200);
}

const struct torture_case confined_cases[] = {
    {"confined-trap", later_trap, later_peer, 0},
    {"confined-kill", later_kill, later_peer, 0},
    {"confined-client", later_peer, later_kill, 0},
    {"confined-number", by_number, later_peer, 0},
    {"confined-unread", unread, unread_peer, 0},
    {"confined-ways", all_ways, all_ways_peer, 0},
    {"confined-threads", threads, threads_peer, 0},
    {"confined-refused", refused, later_peer, 0},
    {"confined-inherits", inherits, inherits, OWN_SOCKETS},
    {"confined-opens", opens, opens, OWN_SOCKETS},
    {"confined-half", untrusted_half, untrusted_half, OWN_SOCKETS},
    {"confined-fault", no_handlers, later_peer, 0},
    {"confined-child", child, child_peer, 0},
    {NULL, NULL, NULL, 0},
};
