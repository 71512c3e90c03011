/* Threads that are cancelled, and processes that are killed, in the middle of a call on a socket that
 * others go on with. See torture.h. */
#include "torture.h"

#include <pthread.h>
#include <sys/wait.h>

enum { ROUNDS = 12, PIECE_BYTES = 1 << 20, SLOW_BYTES = 64 << 10, QUIET_MS = 200 };

/* Sends for ever, what waits. */
static void *send_for_ever(void *argument)
{
    static uint8_t bytes[PIECE_BYTES];
    uint64_t position = outgoing.position;
    for (;;) {
        fill(outgoing.seed, position, bytes, sizeof bytes);
        ssize_t sent = write(*(int *)argument, bytes, sizeof bytes);
        if (sent < 0) fail("write: %s", strerrorname_np(errno));
        position += sent;
    }
}

static void cancel_sender(int fd)
{
    pthread_t thread;
    void *result;
    CHECK(!pthread_create(&thread, NULL, send_for_ever, &fd));
    rest_ms(random_size(30));
    CHECK(!pthread_cancel(thread));
    CHECK(!pthread_join(thread, &result));
    say("%s", result == PTHREAD_CANCELED ? "cancelled" : "returned");
}

static void kill_child(pid_t child)
{
    int status;
    MUST(kill(child, SIGKILL));
    MUST(waitpid(child, &status, 0));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void kill_sender(int fd)
{
    pid_t child = MUST(fork());
    if (!child) send_for_ever(&fd);
    rest_ms(random_size(30));
    kill_child(child);
    say("killed");
}

/* What was sent, only the other end can tell. */
static void go_on_after(int fd, void (*sender_ends)(int))
{
    talk(fd, 50);
    for (int i = 0; i < ROUNDS; i++) {
        meet();
        sender_ends(fd);
        post();
        await_bytes(&outgoing.position, sizeof outgoing.position);
        talk(fd, 20);
    }
}

static bool receive_some(int fd)
{
    static uint8_t bytes[SLOW_BYTES];
    if (!poll_for(fd, POLLIN, QUIET_MS)) return false;
    ssize_t got = MUST(read(fd, bytes, sizeof bytes));
    if (!got) fail("an end");
    check(incoming.seed, incoming.position, bytes, got);
    incoming.position += got;
    return true;
}

/* Reads slowly, or not before all was sent. */
static void reader(int fd)
{
    talk(fd, 50);
    for (int i = 0; i < ROUNDS; i++) {
        meet();
        while (i % 2 && !poll_for(AWAIT_FD, POLLIN, 0)) receive_some(fd);
        await();
        while (receive_some(fd)) {}
        post_bytes(&incoming.position, sizeof incoming.position);
        talk(fd, 20);
    }
}

static void cancelled_sending(int fd)
{
    go_on_after(fd, cancel_sender);
}

static void killed_sending(int fd)
{
    go_on_after(fd, kill_sender);
}

/* Who is to end does so before it reads: the bytes are there for others. */
static void *read_when_cancelled(void *argument)
{
    uint8_t bytes[64];
    pthread_cancel(pthread_self());
    recv(*(int *)argument, bytes, sizeof bytes, 0);
    return NULL;
}

static void *read_at_once_when_cancelled(void *argument)
{
    uint8_t bytes[64];
    pthread_cancel(pthread_self());
    recv(*(int *)argument, bytes, sizeof bytes, MSG_DONTWAIT);
    return NULL;
}

static void *send_when_cancelled(void *argument)
{
    uint8_t bytes[64] = {0};
    pthread_cancel(pthread_self());
    send(*(int *)argument, bytes, sizeof bytes, 0);
    return NULL;
}

static void cancelled_before(int fd)
{
    void *(*ends[])(void *) = {read_when_cancelled, read_at_once_when_cancelled, send_when_cancelled};
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        void *result;
        talk(fd, 20);
        post();
        /* Asleep, or not: then the bytes come in another way. */
        if (i / 3 % 2) poll_for(fd, POLLIN, -1);
        else wait_for_bytes(fd, 64);
        CHECK(!pthread_create(&thread, NULL, ends[i % 3], &fd));
        CHECK(!pthread_join(thread, &result));
        say("%d: %s", i % 3, result == PTHREAD_CANCELED ? "cancelled" : "returned");
        receive_next(fd, 64);
    }
}

static void cancelled_before_peer(int fd)
{
    for (int i = 0; i < ROUNDS; i++) {
        talk(fd, 20);
        await();
        rest_ms(20);
        send_next(fd, 64);
    }
}

/* Messages of eight bytes, which are numbers. */
static bool get_number(int fd, uint64_t *number)
{
    size_t got = 0;
    while (got < sizeof *number) {
        ssize_t more = recv(fd, (char *)number + got, sizeof *number - got, 0);
        if (more <= 0) return false;
        got += more;
    }
    return true;
}

static void put_number(int fd, uint64_t number)
{
    if (MUST(send(fd, &number, sizeof number, MSG_NOSIGNAL)) != sizeof number) fail("a short send");
}

/* At a few instructions, in which a connection changes lanes, a kill breaks it: so many of the rounds
 * may meet one. */
enum { NUMBER_ROUNDS = 40, ASKS = 1, BYE = 2, CHECKED = 100, BROKEN_MAX = 2 };

static bool is_answered(int fd)
{
    uint64_t number = ASKS;
    if (send(fd, &number, sizeof number, MSG_NOSIGNAL) != sizeof number) return false;
    if (!get_number(fd, &number)) return false;
    CHECK(number == ASKS);
    return true;
}

static int accept_anew(int listener)
{
    outgoing.position = incoming.position = 0;
    int fd = accept_one(listener);
    talk(fd, 100);
    return fd;
}

/* A process is killed anywhere in a send of a few bytes; its parent goes on. */
static void killed_putting(int fd)
{
    int listener = listener_here(1), broken = 0;
    fd = accept_anew(listener);
    for (int i = 0; i < NUMBER_ROUNDS; i++) {
        pid_t child = MUST(fork());
        if (!child)
            for (;;) put_number(fd, 0);
        usleep(4000 + random_size(3000));
        kill_child(child);
        if (is_answered(fd)) continue;
        if (++broken > BROKEN_MAX) fail("broken %d times in %d rounds", broken, i + 1);
        close(fd);
        fd = accept_anew(listener);
    }
    put_number(fd, BYE);
    say("answered");
}

static void answers(int fd)
{
    uint64_t number;
    do {
        outgoing.position = incoming.position = 0;
        fd = dial();
        talk(fd, 100);
        number = 0;
        while (get_number(fd, &number) && number != BYE)
            if (number == ASKS) send(fd, &number, sizeof number, MSG_NOSIGNAL);
        close(fd);
    } while (number != BYE);
}

/* A reader ends anywhere in a read. The next one may lack what it had taken, and no more. */
static int shared_fd;

static void *read_for_ever(void *argument)
{
    uint64_t number;
    (void)argument;
    while (get_number(shared_fd, &number)) {}
    return NULL;
}

static void cancel_reader(void)
{
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, read_for_ever, NULL));
    usleep(2000 + random_size(3000));
    CHECK(!pthread_cancel(thread));
    CHECK(!pthread_join(thread, NULL));
}

static void kill_reader(void)
{
    pid_t child = MUST(fork());
    if (!child) read_for_ever(NULL);
    usleep(4000 + random_size(3000));
    kill_child(child);
}

static void read_on_after(int fd, void (*reader_ends)(void))
{
    uint64_t first = 0, number;
    struct timeval limit = {5, 0};
    talk(fd, 50);
    shared_fd = fd;
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    for (int i = 0; i < NUMBER_ROUNDS; i++) {
        uint64_t before = first;
        reader_ends();
        for (int j = 0; j < CHECKED; j++) {
            if (!get_number(fd, &number)) fail("number %d: %s", j, strerrorname_np(errno));
            if (j == 0) first = number;
            if (number != first + j) fail("number %d is %#lx, not %#lx", j, number, first + j);
        }
        CHECK(first >= before);
    }
    post();
    say("always in order");
}

static void cancelled_reading(int fd)
{
    read_on_after(fd, cancel_reader);
}

static void killed_reading(int fd)
{
    read_on_after(fd, kill_reader);
}

static void counts_for_ever(int fd)
{
    talk(fd, 50);
    signal(SIGPIPE, SIG_IGN);
    for (uint64_t i = 0; !poll_for(AWAIT_FD, POLLIN, 0); i++) {
        if (send(fd, &i, sizeof i, 0) != sizeof i) break;
        usleep(i % 64 < 32 ? 20 : 200);
    }
    await();
}

const struct torture_case cancel_cases[] = {
    {"cancelled-sending", cancelled_sending, reader, 0},
    {"killed-sending", killed_sending, reader, 0},
    {"killed-putting", killed_putting, answers, OWN_SOCKETS},
    {"cancelled-reading", cancelled_reading, counts_for_ever, 0},
    {"killed-reading", killed_reading, counts_for_ever, 0},
    {"cancelled-before", cancelled_before, cancelled_before_peer, 0},
    {NULL, NULL, NULL, 0},
};
