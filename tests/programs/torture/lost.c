/* An end goes with bytes unread, in every way that there is: the other end, which may have sent more than
 * was read, is told that something was lost. See torture.h. */
#include "torture.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { UNREAD = 1000, LAST = 100 };

static void closes(int fd)
{
    MUST(close(fd));
}

static void closes_duplicates(int fd)
{
    int copy = MUST(dup(fd)), other = MUST(fcntl(fd, F_DUPFD_CLOEXEC, 100));
    MUST(close(fd));
    MUST(close(other));
    MUST(close(copy));
}

static void closes_range(int fd)
{
    MUST(close_range(fd, fd, 0));
}

static void duplicates_over(int fd)
{
    int null = MUST(open("/dev/null", O_RDWR));
    MUST(dup2(null, fd));
}

static void shuts_and_closes(int fd)
{
    MUST(shutdown(fd, SHUT_RD));
    MUST(close(fd));
}

static void lingers(int fd)
{
    struct linger none = {1, 0};
    MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none));
    MUST(close(fd));
}

static void exits(int fd)
{
    (void)fd;
    exit(0);
}

static void exits_at_once(int fd)
{
    (void)fd;
    _exit(0);
}

static void exits_by_number(int fd)
{
    (void)fd;
    syscall(SYS_exit_group, 0);
}

static void is_killed(int fd)
{
    (void)fd;
    kill(getpid(), SIGKILL);
}

static void crashes(int fd)
{
    (void)fd;
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGABRT, SIG_DFL);
    abort();
}

static void is_terminated(int fd)
{
    (void)fd;
    raise(SIGTERM);
}

static void becomes_another(int fd)
{
    MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
    execl("/bin/true", "true", NULL);
    fail("exec: %s", strerrorname_np(errno));
}

static void becomes_another_by_range(int fd)
{
    MUST(close_range(fd, fd, CLOSE_RANGE_CLOEXEC));
    execl("/bin/true", "true", NULL);
    fail("exec: %s", strerrorname_np(errno));
}

static void fails_to_become_another(int fd)
{
    MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
    SAY(execl("/no/such/program", "none", NULL));
    receive_next(fd, UNREAD);
    send_next(fd, LAST);
    post();
    MUST(close(fd));
}

/* A child has the socket as well, and goes last. */
static void leaves_it_to_child(int fd)
{
    int ready[2];
    MUST(pipe(ready));
    pid_t child = MUST(fork());
    if (!child) {
        char byte;
        close(ready[1]);
        CHECK(read(ready[0], &byte, 1) == 0);
        kill(getpid(), SIGKILL);
    }
    MUST(close(fd));
    close(ready[1]);
    MUST(waitpid(child, NULL, 0));
}

static void reads_all_first(int fd)
{
    receive_next(fd, UNREAD);
    becomes_another(fd);
}

/* It goes in a process of its own, so that it can be waited for. */
static void goes(int fd, void (*how)(int))
{
    pid_t child = MUST(fork());
    if (!child) {
        talk(fd, 100);
        meet();
        wait_for_bytes(fd, UNREAD);
        send_next(fd, LAST);
        meet();
        how(fd);
        _exit(0);
    }
    MUST(close(fd));
    MUST(waitpid(child, NULL, 0));
    post();
}

static void (*const ways[])(int) = {
    closes, closes_duplicates, closes_range, duplicates_over, shuts_and_closes, lingers, exits, exits_at_once, exits_by_number, is_killed, crashes, is_terminated, becomes_another,
    becomes_another_by_range, leaves_it_to_child,
};
static const char *const names[] = {
    "close", "duplicates", "close_range", "dup2", "shutdown and close", "SO_LINGER", "exit", "_exit", "exit_group", "SIGKILL", "abort", "SIGTERM", "exec", "exec of a range",
    "a child",
};
enum { WAYS = sizeof ways / sizeof *ways, FIRSTS = 4 };

static void lost_server(int unused)
{
    (void)unused;
    int listener = listener_here(1);
    fcntl(listener, F_SETFD, FD_CLOEXEC);
    for (int first = 0; first < FIRSTS; first++)
        for (int i = 0; i < WAYS; i++) {
            goes(accept_one(listener), ways[i]);
            outgoing.position = incoming.position = 0;
        }
}

static void lost_client(int unused)
{
    (void)unused;
    uint8_t bytes[200];
    for (int first = 0; first < FIRSTS; first++)
        for (int i = 0; i < WAYS; i++) {
            int fd = dial(), error = -1, set = MUST(epoll_create1(0));
            socklen_t size = sizeof error;
            struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};
            MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
            talk(fd, 100);
            send_next(fd, UNREAD);
            meet();
            receive_next(fd, LAST);
            meet();
            /* A read that sleeps, or calls that come when it is over. */
            if (first > 0) await();
            say("%s", names[i]);
            rest_ms(first ? 50 : 0);
            if (first == 1) {
                MUST(poll_for(fd, POLLRDHUP, 5000));
                say_poll("told", fd, POLLIN | POLLRDHUP);
                CHECK(MUST(epoll_wait(set, &event, 1, 5000)) == 1);
                say("the set:%s%s%s", event.events & EPOLLIN ? " IN" : "",
                    event.events & EPOLLERR ? " ERR" : "", event.events & EPOLLHUP ? " HUP" : "");
            }
            if (first == 2) {
                MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
                say("SO_ERROR: %d", error);
            }
            if (first == 3) {
                /* The first may go before the news comes. */
                for (int turn = 0; turn < 100 && send(fd, bytes, 1, MSG_NOSIGNAL) == 1; turn++)
                    rest_ms(20);
                CHECK(errno == ECONNRESET || errno == EPIPE);
                /* Whether this call is told, the next or both is not the same in each run with the library. */
                bool told = errno == ECONNRESET;
                told |= recv(fd, bytes, sizeof bytes, 0) == -1 && errno == ECONNRESET;
                say("told: %s", told ? "yes" : "no");
            } else {
                SAY(recv(fd, bytes, sizeof bytes, 0));
            }
            SAY(recv(fd, bytes, sizeof bytes, 0));
            SAY(send(fd, bytes, 1, MSG_NOSIGNAL));
            if (first == 0) await();
            close(set);
            close(fd);
            outgoing.position = incoming.position = 0;
        }
}

/* What has nothing to do with loss is told as ever: all was read, or only a half is over. */
static void kept_server(int unused)
{
    (void)unused;
    int listener = listener_here(1);
    for (int round = 0; round < 10; round++) {
        goes(accept_one(listener), reads_all_first);
        outgoing.position = incoming.position = 0;
    }
    goes(accept_one(listener), fails_to_become_another);
    outgoing.position = incoming.position = 0;
    int fd = accept_one(listener);
    talk(fd, 100);
    meet();
    wait_for_bytes(fd, UNREAD);
    MUST(shutdown(fd, SHUT_WR));
    meet();
    receive_next(fd, UNREAD + LAST);
    meet();
    close(fd);
}

static void kept_client(int unused)
{
    (void)unused;
    uint8_t bytes[200];
    for (int round = 0; round < 12; round++) {
        int fd = dial();
        talk(fd, 100);
        send_next(fd, UNREAD);
        meet();
        if (round == 11) {
            SAY(recv(fd, bytes, sizeof bytes, 0));
            SAY(recv(fd, bytes, sizeof bytes, 0));
            send_next(fd, LAST);
            meet();
            meet();
            close(fd);
            break;
        }
        receive_next(fd, LAST);
        meet();
        if (round == 10) {
            receive_next(fd, LAST);
            await();
        }
        await();
        SAY(recv(fd, bytes, sizeof bytes, 0));
        close(fd);
        outgoing.position = incoming.position = 0;
    }
}

const struct torture_case lost_cases[] = {
    {"lost-unread", lost_server, lost_client, OWN_SOCKETS},
    {"nothing-lost", kept_server, kept_client, OWN_SOCKETS},
    {NULL, NULL, NULL, 0},
};
