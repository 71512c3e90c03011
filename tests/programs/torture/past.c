/* Functions of the C library that read or write a socket by themselves, or do what others do under
 * another name or by a number; ends without the usual handlers; threads that are cancelled inside.
 * See torture.h. */
#include "torture.h"

#include <aio.h>
#include <execinfo.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* Each of these writes one line to the socket. */
static void by_list(int fd, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vdprintf(fd, format, list);
    va_end(list);
}

static void plainly_by_list(int fd, const char *format, ...)
{
    int (*volatile plain)(int, const char *, va_list) = vdprintf;
    va_list list;
    va_start(list, format);
    plain(fd, format, list);
    va_end(list);
}

static void print(int fd)
{
    dprintf(fd, "%s %d %.3f %Lf\n", "checked", 1, 2.5, 3.25L);
}

static void print_plainly(int fd)
{
    int (*volatile plain)(int, const char *, ...) = dprintf;
    plain(fd, "%d %d %d %d %d %d %d %d %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %Lf %s\n", 1, 2, 3,
          4, 5, 6, 7, 8, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5L, "many");
}

static void print_by_list(int fd)
{
    by_list(fd, "%s %d %f\n", "a list", 2, 0.5);
}

static void print_plainly_by_list(int fd)
{
    plainly_by_list(fd, "%s %d %f\n", "a plain list", 3, 0.25);
}

static void print_symbols(int fd)
{
    void *nowhere = (void *)1;
    backtrace_symbols_fd(&nowhere, 1, fd);
}

static void print_to_stdout(int fd)
{
    int before = MUST(dup(1));
    MUST(dup2(fd, 1));
    printf("printed %d\n", 4);
    fflush(stdout);
    MUST(dup2(before, 1));
    close(before);
}

static void print_to_stream_that_moves(int fd)
{
    FILE *stream = fdopen(MUST(dup(fd)), "w");
    fprintf(stream, "a stream\n");
    stream = freopen("/dev/null", "w", stream);
    CHECK(stream);
    fprintf(stream, "elsewhere\n");
    fclose(stream);
}

static void write_aside(int fd)
{
    static char line[] = "aside\n";
    struct aiocb what = {.aio_fildes = fd, .aio_buf = line, .aio_nbytes = 6};
    const struct aiocb *list[] = {&what};
    MUST(aio_write(&what));
    while (aio_error(&what) == EINPROGRESS) aio_suspend(list, 1, NULL);
    CHECK(aio_return(&what) == 6);
}

static void write_aside_in_list(int fd)
{
    static char line[] = "listed\n";
    struct aiocb what = {
        .aio_fildes = fd, .aio_buf = line, .aio_nbytes = 7, .aio_lio_opcode = LIO_WRITE};
    struct aiocb *list[] = {NULL, &what};
    MUST(lio_listio(LIO_WAIT, list, 2, NULL));
}

static void (*const prints[])(int) = {
    print,           print_plainly,
    print_by_list,   print_plainly_by_list,
    print_symbols,   print_to_stdout,
    write_aside,     write_aside_in_list,
    print_to_stream_that_moves,
};
enum { PRINTS = sizeof prints / sizeof *prints };

static void say_line(int fd)
{
    char line[200];
    size_t size = 0;
    do CHECK(recv(fd, line + size, 1, 0) == 1 && size + 1 < sizeof line);
    while (line[size++] != '\n');
    line[size - 1] = 0;
    say("line: %s", line);
}

static void printed_server(int fd)
{
    int listener = listener_here(1);
    for (int i = 0; i < PRINTS; i++) {
        fd = accept_one(listener);
        warm_up(fd);
        talk(fd, 20);
        meet();
        prints[i](fd);
        meet();
        prints[i](fd);
        talk(fd, 20);
        finish(fd);
    }
}

static void printed_client(int fd)
{
    for (int i = 0; i < PRINTS; i++) {
        fd = dial();
        warm_up(fd);
        talk(fd, 20);
        /* Asleep, or with bytes of its own on their way. */
        meet();
        say_line(fd);
        meet();
        say_line(fd);
        talk(fd, 20);
        finish(fd);
    }
}

/* What is written, and read, with an offset that says that there is none. */
static void take_v2(int fd, bool by_number, int flags)
{
    uint8_t bytes[100];
    struct iovec parts[2] = {{bytes, 30}, {bytes + 30, 70}};
    ssize_t got = by_number ? syscall(SYS_preadv2, fd, parts, 2, -1L, -1L, flags)
                            : preadv2(fd, parts, 2, -1, flags);
    say_result("preadv2", got);
    if (got <= 0) return;
    check(incoming.seed, incoming.position, bytes, got);
    incoming.position += got;
    receive_next(fd, 100 - got);
}

static void give_v2(int fd, bool by_number, int flags)
{
    uint8_t bytes[100];
    struct iovec parts[2] = {{bytes, 30}, {bytes + 30, 70}};
    fill(outgoing.seed, outgoing.position, bytes, sizeof bytes);
    ssize_t put = by_number ? syscall(SYS_pwritev2, fd, parts, 2, -1L, -1L, flags)
                            : pwritev2(fd, parts, 2, -1, flags);
    say_result("pwritev2", put);
    if (put > 0) outgoing.position += put;
}

static void v2_server(int fd)
{
    struct iovec part = {(char[4]){0}, 4};
    talk(fd, 20);
    for (int i = 0; i < 8; i++) {
        meet();
        wait_for_bytes(fd, 100);
        take_v2(fd, i & 1, i & 2 ? RWF_NOWAIT : 0);
        take_v2(fd, i & 1, RWF_NOWAIT);
        give_v2(fd, i & 1, i & 2 ? RWF_NOWAIT : 0);
        SAY(preadv2(fd, &part, 1, 0, 0));
        SAY(pwritev2(fd, &part, 1, 7, 0));
    }
    SAY(preadv2(fd, &part, 1, -1, 1 << 30));
    meet();
    give_v2(fd, false, RWF_HIPRI);
    finish(fd);
}

static void v2_client(int fd)
{
    talk(fd, 20);
    for (int i = 0; i < 8; i++) {
        send_next(fd, 100);
        meet();
        receive_next(fd, 100);
    }
    meet();
    receive_next(fd, 100);
    finish(fd);
}

/* What the kernel's calls tell of the time, and what they take for a mask. */
static void say_time(const char *what, long result, struct timespec left, struct timespec given)
{
    bool is_less = left.tv_sec < given.tv_sec ||
                   (left.tv_sec == given.tv_sec && left.tv_nsec < given.tv_nsec);
    say("%s: %ld, %s", what, result, !left.tv_sec && !left.tv_nsec ? "over" : is_less ? "less" : "same");
}

static void wait_by_number(int fd, struct timespec given)
{
    struct timespec left = given;
    struct pollfd entry = {fd, POLLIN, 0};
    say_time("ppoll", syscall(SYS_ppoll, &entry, 1, &left, NULL, 0), left, given);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    left = given;
    long result = syscall(SYS_pselect6, fd + 1, &set, NULL, NULL, &left, NULL);
    say_time("pselect6", result, left, given);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void time_server(int fd)
{
    static const struct timespec constant = {0, 1000000};
    const struct timespec some = {0, 30000000}, wrong = {0, 1000000000}, ages = {1L << 40, 0};
    struct {
        void *mask;
        size_t size;
    } words = {&(sigset_t){{0}}, 16};
    struct pollfd entry = {fd, POLLIN, 0};
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN}, told;
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    talk(fd, 20);
    wait_by_number(fd, some);
    SAY(syscall(SYS_ppoll, &entry, 1, &constant, NULL, 0));
    SAY(syscall(SYS_ppoll, &entry, 1, &wrong, NULL, 0));
    SAY(syscall(SYS_ppoll, &entry, 1, (void *)16, NULL, 0));
    SAY(syscall(SYS_ppoll, &entry, 1, &some, words.mask, 16));
    SAY(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &constant, (void *)16));
    SAY(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &constant, &words));
    SAY(syscall(SYS_epoll_pwait, set, &told, 1, 0, words.mask, 16));
    SAY(syscall(SYS_epoll_pwait2, set, &told, 1, &constant, words.mask, 16));
    uint64_t before = now_ns();
    SAY(epoll_wait(set, &told, 1, 20));
    say("not early: %d", now_ns() - before >= 20000000);
    before = now_ns();
    SAY(epoll_pwait2(set, &told, 1, &(struct timespec){0, 2500000}, NULL));
    say("not early: %d", now_ns() - before >= 2500000);
    meet();
    SAY(epoll_pwait2(set, &told, 1, &ages, NULL));
    receive_next(fd, 100);
    meet();
    SAY(epoll_wait(set, &told, 1, INT32_MAX));
    wait_by_number(fd, (struct timespec){50, 0});
    wait_by_number(fd, (struct timespec){0, 0});
    receive_next(fd, 100);
    finish(fd);
}

static void time_client(int fd)
{
    talk(fd, 20);
    for (int i = 0; i < 2; i++) {
        meet();
        rest_ms(30);
        send_next(fd, 100);
    }
    finish(fd);
}

/* Room for less than a number. */
static void short_server(int fd)
{
    talk(fd, 20);
    for (socklen_t size = 0; size <= 5; size++) {
        uint8_t value[5] = {9, 9, 9, 9, 9};
        socklen_t room = size;
        SAY(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, value, &room));
        say("%u: %d %d %d %d %d", room, value[0], value[1], value[2], value[3], value[4]);
    }
    finish(fd);
}

static void short_client(int fd)
{
    talk(fd, 20);
    finish(fd);
}

/* Ends without the usual handlers: the peer is told whether all that it sent was read. */
static void before_end(int fd)
{
    talk(fd, 50);
    meet();
    send_next(fd, 10);
    await();
}

static void ended_at_once(int fd)
{
    before_end(fd);
    _Exit(0);
}

static void ended_quickly(int fd)
{
    before_end(fd);
    quick_exit(0);
}

static void read_and_ended(int fd)
{
    before_end(fd);
    receive_next(fd, 100);
    _Exit(0);
}

static void ended_peer(int fd)
{
    uint8_t byte;
    talk(fd, 50);
    meet();
    receive_next(fd, 10);
    send_next(fd, 100);
    post();
    SAY(recv(fd, &byte, 1, 0));
}

/* A child that is made past the C library's fork has the connection when its parent has closed it. */
static pid_t by_clone(void)
{
    return syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
}

static pid_t (*const forks[])(void) = {_Fork, by_clone};
enum { FORKS = sizeof forks / sizeof *forks };

static void untold_server(int fd)
{
    int listener = listener_here(1);
    for (int i = 0; i < FORKS; i++) {
        fd = accept_one(listener);
        warm_up(fd);
        talk(fd, 20);
        pid_t child = MUST(forks[i]());
        if (!child) {
            await();
            talk(fd, 100);
            post();
            _exit(0);
        }
        close(fd);
        post();
        wait_child(child);
    }
}

static void untold_client(int fd)
{
    for (int i = 0; i < FORKS; i++) {
        fd = dial();
        warm_up(fd);
        talk(fd, 20);
        struct flow in = incoming, out = outgoing;
        meet();
        talk(fd, 100);
        uint8_t byte;
        SAY(recv(fd, &byte, 1, 0));
        close(fd);
        /* As the parent has them. */
        incoming = in, outgoing = out;
    }
}

/* A thread that is to end does so where the kernel's calls have it end, and nowhere else. */
struct steps {
    int fd, listener;
    long results[12];
};

static void *be_cancelled(void *argument)
{
    struct steps *steps = argument;
    long *result = steps->results;
    int one = 1, fd = steps->fd, set = epoll_create1(0), spare = dup(fd);
    socklen_t size = sizeof one;
    struct epoll_event event = {.events = EPOLLIN};
    uint8_t bytes[50];
    pthread_cancel(pthread_self());
    *result++ = listen(steps->listener, 1);
    *result++ = setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    *result++ = getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, &size);
    *result++ = epoll_ctl(set, EPOLL_CTL_ADD, spare, &event);
    *result++ = dup2(fd, spare) == spare;
    *result++ = fcntl(fd, F_SETFL, fcntl(fd, F_GETFL));
    *result++ = syscall(SYS_recvfrom, fd, bytes, sizeof bytes, 0, NULL, NULL);
    check(incoming.seed, incoming.position, bytes, sizeof bytes);
    incoming.position += sizeof bytes;
    pid_t child = fork();
    if (!child) _exit(0);
    *result++ = child > 0;
    *result++ = fcntl(fd, F_SETFL, O_ASYNC | fcntl(fd, F_GETFL));
    *result++ = shutdown(fd, SHUT_WR);
    *result++ = 77;
    pthread_testcancel();
    *result++ = 78;
    return NULL;
}

static void cold_server(int fd)
{
    struct steps steps = {fd, MUST(socket(AF_INET, SOCK_STREAM, 0)), {0}};
    pthread_t thread;
    void *result;
    signal(SIGIO, SIG_IGN);
    meet();
    wait_for_bytes(fd, 50);
    CHECK(!pthread_create(&thread, NULL, be_cancelled, &steps));
    CHECK(!pthread_join(thread, &result));
    for (int i = 0; i < 12; i++) say("step %d: %ld", i, steps.results[i]);
    say("%s", result == PTHREAD_CANCELED ? "cancelled" : "returned");
    receive_to_end(fd);
}

static void cold_client(int fd)
{
    meet();
    send_next(fd, 50);
    receive_to_end(fd);
    MUST(shutdown(fd, SHUT_WR));
}

static void inside_server(int fd)
{
    talk(fd, 20);
    cold_server(fd);
}

static void inside_client(int fd)
{
    talk(fd, 20);
    cold_client(fd);
}

/* Cancelled behind another that waits for room in the same socket. */
static void *send_much(void *argument)
{
    static const uint8_t zeros[1 << 20];
    for (int i = 0; i < 16; i++)
        if (send(*(int *)argument, zeros, sizeof zeros, 0) < 0) break;
    return NULL;
}

static void behind_server(int fd)
{
    pthread_t first, second;
    void *result;
    talk(fd, 50);
    CHECK(!pthread_create(&first, NULL, send_much, &fd));
    rest_ms(200);
    CHECK(!pthread_create(&second, NULL, send_much, &fd));
    rest_ms(200);
    CHECK(!pthread_cancel(second));
    CHECK(!pthread_join(second, &result));
    say("second: %s", result == PTHREAD_CANCELED ? "cancelled" : "returned");
    CHECK(!pthread_cancel(first));
    CHECK(!pthread_join(first, &result));
    say("first: %s", result == PTHREAD_CANCELED ? "cancelled" : "returned");
    meet();
}

static void behind_client(int fd)
{
    talk(fd, 50);
    meet();
    close(fd);
}

const struct torture_case past_cases[] = {
    {"printed", printed_server, printed_client, OWN_SOCKETS},
    {"no-offset", v2_server, v2_client, 0},
    {"time-told", time_server, time_client, 0},
    {"short-option", short_server, short_client, INTERNET},
    {"ended-at-once", ended_at_once, ended_peer, 0},
    {"ended-quickly", ended_quickly, ended_peer, 0},
    {"read-and-ended", read_and_ended, ended_peer, 0},
    {"fork-untold", untold_server, untold_client, OWN_SOCKETS},
    {"cancelled-inside", inside_server, inside_client, 0},
    {"cancelled-cold", cold_server, cold_client, COLD},
    {"cancelled-behind", behind_server, behind_client, 0},
    {NULL, NULL, NULL, 0},
};
