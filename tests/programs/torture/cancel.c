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

static void kill_sender(int fd)
{
    pid_t child = MUST(fork());
    int status;
    if (!child) send_for_ever(&fd);
    rest_ms(random_size(30));
    MUST(kill(child, SIGKILL));
    MUST(waitpid(child, &status, 0));
    say("%s", WIFSIGNALED(status) ? "killed" : "ended");
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

const struct torture_case cancel_cases[] = {
    {"cancelled-sending", cancelled_sending, reader, 0},
    {"killed-sending", killed_sending, reader, 0},
    {"cancelled-before", cancelled_before, cancelled_before_peer, 0},
    {NULL, NULL, NULL, 0},
};
