/* What one thread does to a socket that another one uses, and what a program does at the edges of what it
 * may have: ends that come beside bytes, room in pipes, time that has passed, small stacks, few
 * descriptors, many sets, few addresses. See torture.h. */
#include "torture.h"

#include <arpa/inet.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

extern char **environ;

/* A thread that sends much, waiting. */
struct long_send {
    int fd;
    size_t size;
    ssize_t sent;
    pthread_t thread;
};

static void *send_long(void *argument)
{
    struct long_send *job = argument;
    uint8_t *bytes = malloc(job->size);
    CHECK(bytes);
    fill(outgoing.seed, outgoing.position, bytes, job->size);
    job->sent = send(job->fd, bytes, job->size, MSG_NOSIGNAL);
    free(bytes);
    return NULL;
}

/* Another thread's send that does not wait is not kept by one that does. */
static void send_beside(int fd)
{
    struct long_send job = {fd, 16 << 20, 0, 0};
    CHECK(!pthread_create(&job.thread, NULL, send_long, &job));
    rest_ms(300);
    long before = now_ms();
    /* Where there is a little room by now, the kernel takes it. */
    CHECK(send(fd, "x", 1, MSG_DONTWAIT) == 1 || errno == EAGAIN);
    CHECK(now_ms() - before < 2000);
    post();
    CHECK(!pthread_join(job.thread, NULL));
    CHECK(job.sent == (ssize_t)job.size);
    MUST(shutdown(fd, SHUT_WR));
    say("told at once");
}

static void send_beside_peer(int fd)
{
    static uint8_t bytes[1 << 16];
    await();
    while (recv(fd, bytes, sizeof bytes, 0) > 0) {}
}

/* Behind the end that another thread makes while this one sends nothing comes. */
static void shut_beside(int fd)
{
    struct long_send job = {fd, 200 << 20, 0, 0};
    CHECK(!pthread_create(&job.thread, NULL, send_long, &job));
    rest_ms(30);
    MUST(shutdown(fd, SHUT_WR));
    CHECK(!pthread_join(job.thread, NULL));
    uint64_t sent = job.sent > 0 ? job.sent : 0;
    post_bytes(&sent, sizeof sent);
    meet();
}

static void shut_beside_peer(int fd)
{
    uint64_t sent, start = incoming.position;
    receive_to_end(fd);
    await_bytes(&sent, sizeof sent);
    CHECK(incoming.position - start == sent);
    for (int i = 0; i < 100; i++) {
        char byte;
        CHECK(recv(fd, &byte, 1, MSG_DONTWAIT) == 0);
        rest_ms(1);
    }
    meet();
    say("as much came as was sent");
}

/* A send of very many buffers that waits sends all of them. */
enum { PARTS = 1000, PART = 8192 };

static void many_parts(int fd)
{
    static uint8_t bytes[PARTS * PART];
    static struct iovec parts[PARTS];
    for (int round = 0; round < 3; round++) {
        fill(outgoing.seed, outgoing.position, bytes, sizeof bytes);
        for (int i = 0; i < PARTS; i++) parts[i] = (struct iovec){bytes + i * PART, PART};
        SAY(writev(fd, parts, PARTS));
        outgoing.position += sizeof bytes;
    }
}

static void many_parts_peer(int fd)
{
    rest_ms(200);
    for (int i = 0; i < 3 * PARTS / 8; i++) {
        receive_next(fd, 8 * PART);
        if (i % 8 == 0) rest_ms(1);
    }
}

/* A sender by edges that uses sendfile between is told when there is room. */
static void edge_sendfile(int fd)
{
    static uint8_t bytes[100000];
    FILE *file = tmpfile();
    CHECK(file);
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET};
    set_nonblocking(fd, true);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    for (int i = 0; i < 30000; i++) {
        size_t size = 1 + random_size(i % 4 == 1 ? sizeof bytes - 1 : 2000);
        fill(outgoing.seed, outgoing.position, bytes, size);
        /* The kernel sends the file's own pages: those that were sent do not change. */
        CHECK(pwrite(fileno(file), bytes, size, outgoing.position) == (ssize_t)size);
        for (size_t sent = 0; sent < size;) {
            off_t from = outgoing.position + sent;
            ssize_t put = i % 4 == 1 ? sendfile(fd, fileno(file), &from, size - sent)
                                : send(fd, bytes + sent, size - sent, 0);
            CHECK(put > 0 || (put < 0 && errno == EAGAIN));
            if (put > 0) sent += put;
            if (sent < size && put < 0 && epoll_wait(set, &event, 1, 5000) != 1)
                fail("message %d: no edge after %zu bytes", i, sent);
        }
        outgoing.position += size;
    }
    MUST(shutdown(fd, SHUT_WR));
    meet();
}

/* Stops its parent for a while, again and again: in the middle of a read now and then. */
static pid_t stopper(void)
{
    pid_t parent = getpid(), child = MUST(fork());
    if (child) return child;
    for (int i = 0; getppid() == parent; i++) {
        rest_ms(random_size(15));
        kill(parent, SIGSTOP);
        rest_ms(10 + random_size(20));
        kill(parent, SIGCONT);
    }
    _exit(0);
}

static void edge_sendfile_peer(int fd)
{
    static uint8_t bytes[300000];
    pid_t child = stopper();
    ssize_t got;
    while ((got = MUST(recv(fd, bytes, sizeof bytes, 0))) > 0) {
        check(incoming.seed, incoming.position, bytes, got);
        incoming.position += got;
    }
    say("%llu bytes came", (unsigned long long)incoming.position);
    kill(child, SIGKILL);
    MUST(waitpid(child, NULL, 0));
    meet();
}

/* The end is told as often as it is asked for. */
static void end_again(int fd)
{
    char byte;
    ssize_t got;
    await();
    do got = recv(fd, &byte, 1, MSG_DONTWAIT);
    while (got < 0 && errno == EAGAIN);
    SAY(got);
    for (int i = 0; i < 500; i++) CHECK(recv(fd, &byte, 1, MSG_DONTWAIT) == 0);
    meet();
}

static void end_again_peer(int fd)
{
    MUST(shutdown(fd, SHUT_WR));
    post();
    meet();
}

/* Who only writes is told soon that nobody reads. */
static void writes_to_nobody(int fd)
{
    talk(fd, 50);
    post();
    rest_ms(300);
    long before = now_ms();
    int count = 0;
    while (send(fd, "x", 1, MSG_NOSIGNAL) == 1 && now_ms() - before < 5000) count++, rest_ms(5);
    say("%s", count < 20 ? strerrorname_np(errno) : "nothing is told");
}

static void nobody(int fd)
{
    talk(fd, 50);
    await();
    kill(getpid(), SIGKILL);
}

/* The time that a read may take is that of all its waits. */
static void waits_for_all(int fd)
{
    struct timeval limit = {0, 500000};
    uint8_t bytes[20];
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    meet();
    long before = now_ms();
    ssize_t got = recv(fd, bytes, sizeof bytes, MSG_WAITALL);
    CHECK(got > 0 && got < 20 && now_ms() - before < 1500);
    post();
    say("in time");
}

static void drips(int fd)
{
    struct pollfd over = {AWAIT_FD, POLLIN, 0};
    meet();
    while (!poll(&over, 1, 200)) MUST(send(fd, "x", 1, MSG_NOSIGNAL));
    await();
}

/* A signal that only the mask of a wait lets through ends the wait, if it waits no time at all. */
static void on_signal(int unused)
{
    (void)unused;
}

static void mask_at_once(int fd)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t blocked, none;
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    MUST(sigaction(SIGUSR1, &action, NULL));
    MUST(sigprocmask(SIG_BLOCK, &blocked, NULL));
    struct timespec at_once = {0, 0};
    struct pollfd entry = {fd, POLLIN, 0};
    raise(SIGUSR1);
    SAY(ppoll(&entry, 1, &at_once, &none));
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    raise(SIGUSR1);
    SAY(pselect(fd + 1, &set, NULL, NULL, &at_once, &none));
    meet();
}

static void silent(int fd)
{
    (void)fd;
    meet();
}

/* To a pipe without room nothing is spliced; to what is no pipe neither. */
static void splice_room(int fd)
{
    static char much[PIPE_BUF];
    int pipes[2];
    MUST(pipe(pipes));
    meet();
    wait_for_bytes(fd, 100);
    set_nonblocking(pipes[1], true);
    while (write(pipes[1], much, sizeof much) > 0) {}
    set_nonblocking(pipes[1], false);
    SAY(splice(fd, NULL, pipes[1], NULL, 100, SPLICE_F_NONBLOCK));
    FILE *file = tmpfile();
    CHECK(file);
    SAY(splice(fd, NULL, fileno(file), NULL, 100, 0));
    receive_next(fd, 100);
    MUST(pipe(pipes));
    meet();
    /* The flag is for the pipe: the socket waits. */
    SAY(splice(fd, NULL, pipes[1], NULL, 100, SPLICE_F_NONBLOCK));
}

static void splice_room_peer(int fd)
{
    send_next(fd, 100);
    meet();
    meet();
    rest_ms(100);
    send_next(fd, 100);
}

/* A socket whose connection is ended by connecting to nothing connects anew. */
static void connects_anew(int fd)
{
    struct sockaddr nothing_there = {.sa_family = AF_UNSPEC};
    fd = dial();
    talk(fd, 100);
    MUST(connect(fd, &nothing_there, sizeof nothing_there));
    post();
    outgoing.position = incoming.position = 0;
    dial_by(fd);
    talk(fd, 100);
    meet();
}

static void connects_anew_peer(int fd)
{
    int listener = listener_here(1);
    fd = accept_one(listener);
    talk(fd, 100);
    await();
    close(fd);
    outgoing.position = incoming.position = 0;
    fd = accept_one(listener);
    talk(fd, 100);
    meet();
    say("both talked");
}

/* On little stack, a signal's, a program waits in every way. */
static int waited_for;

static void wait_in_all_ways(int unused)
{
    (void)unused;
    int fd = waited_for;
    struct pollfd entry = {fd, POLLIN, 0};
    CHECK(poll(&entry, 1, 5000) == 1);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    struct timeval limit = {5, 0};
    CHECK(select(fd + 1, &set, NULL, NULL, &limit) == 1);
    int events = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(events >= 0 && !epoll_ctl(events, EPOLL_CTL_ADD, fd, &event));
    CHECK(epoll_wait(events, &event, 1, 5000) == 1);
    close(events);
}

enum { STACK = 24 << 10, GUARD = 64 << 10 };

static void small_stack(int fd)
{
    /* Whoever needs more meets memory that is not there. */
    char *guard = mmap(NULL, GUARD + STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(guard != MAP_FAILED);
    MUST(mprotect(guard + GUARD, STACK, PROT_READ | PROT_WRITE));
    stack_t stack = {.ss_sp = guard + GUARD, .ss_size = STACK};
    struct sigaction action = {.sa_handler = wait_in_all_ways, .sa_flags = SA_ONSTACK};
    MUST(sigaltstack(&stack, NULL));
    MUST(sigaction(SIGUSR1, &action, NULL));
    waited_for = fd;
    for (int i = 0; i < 50; i++) {
        post();
        raise(SIGUSR1);
        receive_next(fd, 64);
    }
    say("all waited");
}

static void small_stack_peer(int fd)
{
    for (int i = 0; i < 50; i++) {
        await();
        if (i % 2) rest_ms(3);
        send_next(fd, 64);
    }
}

/* A program that may have few descriptors has as many connections as without us. */
enum { FEW = 50, FEW_DESCRIPTORS = 64 };

static void few_descriptors(int fd)
{
    struct rlimit few = {FEW_DESCRIPTORS, FEW_DESCRIPTORS};
    int listener = listener_here(FEW), count = 0;
    MUST(setrlimit(RLIMIT_NOFILE, &few));
    for (; count < FEW && (fd = accept(listener, NULL, NULL)) >= 0; count++) {
        uint8_t byte;
        for (int i = 0; i < 20; i++) CHECK(recv(fd, &byte, 1, 0) == 1);
        MUST(send(fd, "x", 1, 0));
    }
    say("%d connections", count);
    post();
}

static void few_descriptors_peer(int fd)
{
    learn();
    for (int i = 0; i < FEW; i++) {
        char bytes[20] = {0};
        fd = dial();
        MUST(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL));
        if (recv(fd, bytes, 1, 0) != 1) break;
    }
    await();
}

/* What a program opens gets the lowest number, also while a connection looks for its other end. */
struct numbers {
    int opened, copy;
};

static struct numbers numbers_now(int fd)
{
    struct numbers now = {MUST(open("/dev/null", O_RDONLY)), MUST(dup(fd))};
    MUST(close(now.opened));
    MUST(close(now.copy));
    return now;
}

static void check_numbers(int fd, struct numbers before)
{
    struct numbers now = numbers_now(fd);
    CHECK(now.opened == before.opened && now.copy == before.copy);
}

static void low_numbers(int fd)
{
    struct numbers lowest = numbers_now(fd);
    for (int i = 0; i < 40; i++) {
        send_next(fd, 64);
        check_numbers(fd, lowest);
    }
    post();
    for (int i = 0; i < 200; i++) {
        talk(fd, 1);
        check_numbers(fd, lowest);
    }
    say("lowest");
}

static void low_numbers_peer(int fd)
{
    struct numbers lowest = numbers_now(fd);
    await();
    for (int i = 0; i < 40; i++) {
        receive_next(fd, 64);
        check_numbers(fd, lowest);
    }
    for (int i = 0; i < 200; i++) {
        talk(fd, 1);
        check_numbers(fd, lowest);
    }
    say("lowest");
}

/* More sets than the library looks after. */
static void many_sets(int fd)
{
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    int set = MUST(epoll_create1(0));
    /* Where fewer are allowed, the last of those. */
    for (int next, i = 0; i < 4200 && (next = epoll_create1(0)) >= 0; i++) set = next;
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    for (int i = 0; i < 50; i++) {
        post();
        CHECK(epoll_wait(set, &event, 1, 5000) == 1);
        receive_next(fd, 64);
    }
    say("always told");
}

/* What the library has reserved is not of what the program may have. */
static void few_addresses(int fd)
{
    struct rlimit few = {1 << 30, 1 << 30}, shown = {0, 0};
    MUST(setrlimit(RLIMIT_AS, &few));
    MUST(getrlimit(RLIMIT_AS, &shown));
    CHECK(shown.rlim_cur == few.rlim_cur && shown.rlim_max == few.rlim_max);
    void *little = mmap(NULL, 64 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *much = mmap(NULL, 1 << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say("little: %s, much: %s", little == MAP_FAILED ? "no" : "yes", much == MAP_FAILED ? "no" : "yes");
    talk(fd, 100);
}

static void talks(int fd)
{
    talk(fd, 100);
}

/* A program with functions of the C library's names, which call the C library's by other names. */
static void own_names(int fd)
{
    char path[PATH_MAX];
    pid_t child;
    int status;
    snprintf(path, sizeof path, "%s-names", program_path);
    char *words[] = {path, NULL};
    CHECK(!posix_spawn(&child, path, NULL, NULL, words, environ));
    MUST(waitpid(child, &status, 0));
    say("status %#x", status);
    talk(fd, 10);
}

static void own_names_peer(int fd)
{
    talk(fd, 10);
}

const struct torture_case beside_cases[] = {
    {"send-beside", send_beside, send_beside_peer, 0},
    {"shut-beside", shut_beside, shut_beside_peer, 0},
    {"many-parts", many_parts, many_parts_peer, 0},
    {"edge-sendfile", edge_sendfile, edge_sendfile_peer, 0},
    {"end-again", end_again, end_again_peer, 0},
    {"writes-to-nobody", writes_to_nobody, nobody, ONE_IS_KILLED | INTERNET},
    {"waits-for-all", waits_for_all, drips, INTERNET},
    {"mask-at-once", mask_at_once, silent, 0},
    {"splice-room", splice_room, splice_room_peer, INTERNET},
    {"connects-anew", connects_anew_peer, connects_anew, OWN_SOCKETS | INTERNET},
    {"small-stack", small_stack, small_stack_peer, 0},
    {"few-descriptors", few_descriptors, few_descriptors_peer, OWN_SOCKETS},
    {"low-numbers", low_numbers, low_numbers_peer, COLD},
    {"many-sets", many_sets, small_stack_peer, 0},
    {"few-addresses", few_addresses, talks, 0},
    {"own-names", own_names, own_names_peer, 0},
    {NULL, NULL, NULL, 0},
};
