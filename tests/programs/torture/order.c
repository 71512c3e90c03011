/* The order in which a program hears: who sends on one connection, and then on another, is heard in this
 * order, by whatever call, whether the connections are upgraded or not. See torture.h. */
#include "torture.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { AHEAD, BEHIND };
enum way { LEVEL, EDGE, ONCE, ONE_EVENT, POLL, SELECT };
enum server { WAITS, ASKS, SLEEPS, IS_AWAY };
enum other { UPGRADED, NOT_UPGRADED, PIPE };

/* What is told must be read, and an answer is sent when both were heard: over a connection of its own,
 * since the kernel puts off what arrives at a socket while its owner is in a call on it. */
struct plan {
    enum way way;
    enum server server;
    enum other other;
    bool other_first; /* the other one is sent before the one that is upgraded */
    bool by_chain;    /* another process sends the second, when it hears of the first */
    int rounds;
};

struct message {
    uint64_t round;
};

/* -------------------------------------------------------------------------------- the server */

struct ear {
    const struct plan *plan;
    int fds[2]; /* in the order in which they are sent */
    int set;
    bool heard[2];
};

static void register_ear(struct ear *ear)
{
    static const uint32_t events[] = {
        [LEVEL] = EPOLLIN,
        [EDGE] = EPOLLIN | EPOLLET,
        [ONCE] = EPOLLIN | EPOLLONESHOT,
        [ONE_EVENT] = EPOLLIN,
    };
    if (ear->plan->way >= POLL) return;
    ear->set = MUST(epoll_create1(0));
    /* The second first: the order of registration tells nothing. */
    for (int i = BEHIND; i >= AHEAD; i--) {
        struct epoll_event event = {.events = events[ear->plan->way], .data.u32 = i};
        MUST(epoll_ctl(ear->set, EPOLL_CTL_ADD, ear->fds[i], &event));
    }
}

static int by_epoll(struct ear *ear, int limit_ms, int *told)
{
    struct epoll_event events[4];
    int count = MUST(epoll_wait(ear->set, events, ear->plan->way == ONE_EVENT ? 1 : 4, limit_ms));
    for (int i = 0; i < count; i++) told[i] = events[i].data.u32;
    return count;
}

/* poll() and select() tell of all at once: of the first first, if it is told. */
static int by_poll(struct ear *ear, int limit_ms, int *told)
{
    struct pollfd fds[2] = {{ear->fds[BEHIND], POLLIN, 0}, {ear->fds[AHEAD], POLLIN, 0}};
    MUST(poll(fds, 2, limit_ms));
    int count = 0;
    if (fds[1].revents) told[count++] = AHEAD;
    if (fds[0].revents) told[count++] = BEHIND;
    return count;
}

static int by_select(struct ear *ear, int limit_ms, int *told)
{
    fd_set set;
    FD_ZERO(&set);
    for (int i = AHEAD; i <= BEHIND; i++) FD_SET(ear->fds[i], &set);
    struct timeval limit = {0};
    int most = ear->fds[0] > ear->fds[1] ? ear->fds[0] : ear->fds[1];
    MUST(select(most + 1, &set, NULL, NULL, limit_ms ? NULL : &limit));
    int count = 0;
    for (int i = AHEAD; i <= BEHIND; i++)
        if (FD_ISSET(ear->fds[i], &set)) told[count++] = i;
    return count;
}

static int wait_once(struct ear *ear, int limit_ms, int *told)
{
    if (ear->plan->way == POLL) return by_poll(ear, limit_ms, told);
    if (ear->plan->way == SELECT) return by_select(ear, limit_ms, told);
    return by_epoll(ear, limit_ms, told);
}

static void read_one(struct ear *ear, int which, uint64_t round)
{
    struct message message;
    CHECK(read(ear->fds[which], &message, sizeof message) == sizeof message);
    CHECK(message.round == round);
    if (ear->plan->way == ONCE) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = which};
        MUST(epoll_ctl(ear->set, EPOLL_CTL_MOD, ear->fds[which], &event));
    }
    ear->heard[which] = true;
}

/* Returns whether the second was heard before the first. */
static bool hear_round(struct ear *ear, uint64_t round)
{
    bool inverted = false;
    ear->heard[AHEAD] = ear->heard[BEHIND] = false;
    while (!ear->heard[AHEAD] || !ear->heard[BEHIND]) {
        int told[4];
        int count = wait_once(ear, ear->plan->server == ASKS ? 0 : -1, told);
        for (int i = 0; i < count; i++) {
            inverted |= told[i] == BEHIND && !ear->heard[AHEAD];
            read_one(ear, told[i], round);
        }
    }
    /* A set forgets what it has told when it is asked again. */
    int told[4];
    CHECK(wait_once(ear, 0, told) == 0);
    return inverted;
}

static void be_away(void)
{
    struct timespec now, until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 60000;
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec * 1000000000 + now.tv_nsec < until.tv_sec * 1000000000 + until.tv_nsec);
}

static void hear(const struct plan *plan)
{
    int listener = listener_here(3);
    int answers = accept_one(listener);
    int upgraded = accept_one(listener);
    warm_up(upgraded);
    int other = plan->other == PIPE ? AWAIT_FD : accept_one(listener);
    if (plan->other == UPGRADED) warm_up(other);
    struct ear ear = {.plan = plan, .set = -1};
    ear.fds[plan->other_first ? BEHIND : AHEAD] = upgraded;
    ear.fds[plan->other_first ? AHEAD : BEHIND] = other;
    register_ear(&ear);
    post();
    int inverted = 0;
    for (int round = 0; round < plan->rounds; round++) {
        inverted += hear_round(&ear, round);
        CHECK(send(answers, "a", 1, 0) == 1);
        if (plan->server == IS_AWAY) be_away();
    }
    /* Under contention, a thread of the kernel's delivers what is sent over TCP, and up to 3 of
     * 20000 come in the wrong order without any library. */
    if (inverted > plan->rounds / 1000) fail("%d of %d in the wrong order", inverted, plan->rounds);
    say("in order");
}

/* -------------------------------------------------------------------------------- the client */

/* A connection that no library has seen made: its socket comes by an instruction of our own. */
static int dial_unseen(void)
{
    long fd = SYS_socket;
    learn();
#if defined __x86_64__
    __asm__ volatile("syscall"
                     : "+a"(fd)
                     : "D"((long)family()), "S"((long)SOCK_STREAM), "d"(0L)
                     : "rcx", "r11", "memory");
#else
    fd = MUST(socket(family(), SOCK_STREAM, 0));
#endif
    CHECK(fd >= 0);
    dial_by(fd);
    return fd;
}

/* Sends the second of each round when it hears of the first. */
static void pass_on(int from, int to)
{
    struct message message;
    while (read(from, &message, sizeof message) == sizeof message)
        CHECK(write(to, &message, sizeof message) == sizeof message);
    _exit(0);
}

/* What to write to, so that another process writes to `fd`. */
static int by_another(int fd)
{
    int ends[2];
    MUST(pipe(ends));
    if (!MUST(fork())) {
        close(ends[1]);
        pass_on(ends[0], fd);
    }
    close(ends[0]);
    return ends[1];
}

/* Keeps the senders on one processor. Each has a queue of its own for what was sent over TCP, and under
 * contention a second message from another processor can overtake the first. */
static void stay_here(void)
{
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(MUST(sched_getcpu()), &here);
    MUST(sched_setaffinity(0, sizeof here, &here));
}

/* Not only when all before it was acknowledged, for which the kernel may take its time. */
static void send_at_once(int fd)
{
    int yes = 1;
    if (family() != AF_UNIX) MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes));
}

static void speak(const struct plan *plan)
{
    stay_here();
    learn();
    int answers = dial();
    int upgraded = dial();
    warm_up(upgraded);
    int other = plan->other == PIPE        ? POST_FD
                : plan->other == UPGRADED ? dial()
                                          : dial_unseen();
    if (plan->other == UPGRADED) warm_up(other);
    int first = plan->other_first ? other : upgraded;
    int second = plan->other_first ? upgraded : other;
    if (plan->by_chain) second = by_another(second);
    send_at_once(upgraded);
    if (plan->other != PIPE) send_at_once(other);
    await();
    for (int round = 0; round < plan->rounds; round++) {
        struct message message = {round};
        char answer;
        if (plan->server == SLEEPS) usleep(500);
        CHECK(write(first, &message, sizeof message) == sizeof message);
        CHECK(write(second, &message, sizeof message) == sizeof message);
        CHECK(recv(answers, &answer, 1, 0) == 1);
    }
    if (plan->by_chain) {
        close(second);
        MUST(wait(NULL));
    }
}

/* ------------------------------------------------------------------------------------- cases */

/* Many rounds where they are short, few where somebody sleeps in each. */
enum { MANY = 20000, SOME = 5000, FEW = 1000 };

#define CASE(name, ...)                                                                     \
    static const struct plan name##_plan = {__VA_ARGS__};                                   \
    static void name##_server(int fd) { hear(&name##_plan); }                               \
    static void name##_client(int fd) { speak(&name##_plan); }

CASE(level, LEVEL, WAITS, UPGRADED, false, false, MANY)
CASE(level_asks, LEVEL, ASKS, UPGRADED, false, false, MANY)
CASE(level_sleeps, LEVEL, SLEEPS, UPGRADED, false, false, FEW)
CASE(level_away, LEVEL, IS_AWAY, UPGRADED, false, false, SOME)
CASE(level_chain, LEVEL, WAITS, UPGRADED, false, true, SOME)
CASE(edge, EDGE, WAITS, UPGRADED, false, false, MANY)
CASE(edge_sleeps, EDGE, SLEEPS, UPGRADED, false, false, FEW)
CASE(once, ONCE, WAITS, UPGRADED, false, false, SOME)
CASE(once_sleeps, ONCE, SLEEPS, UPGRADED, false, false, FEW)
CASE(one_event, ONE_EVENT, WAITS, UPGRADED, false, false, SOME)
CASE(one_event_away, ONE_EVENT, IS_AWAY, UPGRADED, false, false, SOME)
CASE(poll, POLL, WAITS, UPGRADED, false, false, MANY)
CASE(poll_sleeps, POLL, SLEEPS, UPGRADED, false, false, FEW)
CASE(select, SELECT, WAITS, UPGRADED, false, false, MANY)
CASE(then_kernel, LEVEL, WAITS, NOT_UPGRADED, false, false, SOME)
CASE(then_kernel_asks, LEVEL, ASKS, NOT_UPGRADED, false, false, SOME)
CASE(then_kernel_sleeps, LEVEL, SLEEPS, NOT_UPGRADED, false, false, FEW)
CASE(then_kernel_away, LEVEL, IS_AWAY, NOT_UPGRADED, false, false, SOME)
CASE(then_kernel_chain, LEVEL, IS_AWAY, NOT_UPGRADED, false, true, SOME)
CASE(then_kernel_poll, POLL, WAITS, NOT_UPGRADED, false, false, SOME)
CASE(kernel_first, LEVEL, WAITS, NOT_UPGRADED, true, false, SOME)
CASE(kernel_first_asks, LEVEL, ASKS, NOT_UPGRADED, true, false, SOME)
CASE(kernel_first_sleeps, LEVEL, SLEEPS, NOT_UPGRADED, true, false, FEW)
CASE(kernel_first_away, LEVEL, IS_AWAY, NOT_UPGRADED, true, false, SOME)
CASE(kernel_first_chain, LEVEL, IS_AWAY, NOT_UPGRADED, true, true, SOME)
CASE(kernel_first_poll, POLL, WAITS, NOT_UPGRADED, true, false, SOME)
CASE(then_pipe, LEVEL, WAITS, PIPE, false, false, SOME)
CASE(then_pipe_away, LEVEL, IS_AWAY, PIPE, false, false, SOME)
CASE(pipe_first, LEVEL, WAITS, PIPE, true, false, SOME)
CASE(pipe_first_away, LEVEL, IS_AWAY, PIPE, true, false, SOME)

#define ENTRY(text, name) {"order-" text, name##_server, name##_client, OWN_SOCKETS}

const struct torture_case order_cases[] = {
    ENTRY("level", level),
    ENTRY("level-asks", level_asks),
    ENTRY("level-sleeps", level_sleeps),
    ENTRY("level-away", level_away),
    ENTRY("level-chain", level_chain),
    ENTRY("edge", edge),
    ENTRY("edge-sleeps", edge_sleeps),
    ENTRY("once", once),
    ENTRY("once-sleeps", once_sleeps),
    ENTRY("one-event", one_event),
    ENTRY("one-event-away", one_event_away),
    ENTRY("poll", poll),
    ENTRY("poll-sleeps", poll_sleeps),
    ENTRY("select", select),
    ENTRY("then-kernel", then_kernel),
    ENTRY("then-kernel-asks", then_kernel_asks),
    ENTRY("then-kernel-sleeps", then_kernel_sleeps),
    ENTRY("then-kernel-away", then_kernel_away),
    ENTRY("then-kernel-chain", then_kernel_chain),
    ENTRY("then-kernel-poll", then_kernel_poll),
    ENTRY("kernel-first", kernel_first),
    ENTRY("kernel-first-asks", kernel_first_asks),
    ENTRY("kernel-first-sleeps", kernel_first_sleeps),
    ENTRY("kernel-first-away", kernel_first_away),
    ENTRY("kernel-first-chain", kernel_first_chain),
    ENTRY("kernel-first-poll", kernel_first_poll),
    ENTRY("then-pipe", then_pipe),
    ENTRY("then-pipe-away", then_pipe_away),
    ENTRY("pipe-first", pipe_first),
    ENTRY("pipe-first-away", pipe_first_away),
    {NULL, NULL, NULL, 0},
};
