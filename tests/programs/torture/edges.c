/* What a socket does at its edges: ends, errors, limits, options. */
#include "torture.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <linux/sockios.h>

/* Each half is shut in turn; what poll says is said at each step. */
static void halves_server(int fd)
{
    const short all = POLLIN | POLLOUT | POLLRDHUP;
    say_poll("open", fd, all);
    meet(); /* the client shuts its half */
    await();
    receive_next(fd, 1000);
    CHECK(poll_for(fd, POLLRDHUP, 5000) & POLLRDHUP);
    say_poll("the peer has shut", fd, all);
    uint8_t byte;
    say("recv at the end: %zd, %zd", recv(fd, &byte, 1, 0), recv(fd, &byte, 1, 0));
    send_next(fd, 300000);
    SAY(shutdown(fd, SHUT_WR));
    await();
    say_poll("both have shut", fd, all);
    SAY(send(fd, "x", 1, MSG_NOSIGNAL));
    SAY(shutdown(fd, SHUT_WR));
    meet();
    close(fd);
}

static void halves_client(int fd)
{
    const short all = POLLIN | POLLOUT | POLLRDHUP;
    meet();
    send_next(fd, 1000);
    SAY(shutdown(fd, SHUT_WR));
    SAY(send(fd, "x", 1, MSG_NOSIGNAL));
    post();
    receive_next(fd, 300000);
    CHECK(poll_for(fd, POLLRDHUP, 5000) & POLLRDHUP);
    post();
    say_poll("both have shut", fd, all);
    uint8_t byte;
    say("recv at the end: %zd", recv(fd, &byte, 1, 0));
    meet();
    close(fd);
}

/* Shutting one's own receiving half: what comes later is still delivered by TCP. */
static void shut_read_server(int fd)
{
    uint8_t bytes[16];
    SAY(shutdown(fd, SHUT_RD));
    say_poll("receiving is shut", fd, POLLIN | POLLOUT | POLLRDHUP);
    SAY(recv(fd, bytes, 16, 0));
    send_next(fd, 5000);
    SAY(shutdown(fd, SHUT_RDWR));
    say_poll("all is shut", fd, POLLIN | POLLOUT | POLLRDHUP);
    SAY(recv(fd, bytes, 16, 0));
    SAY(send(fd, bytes, 16, MSG_NOSIGNAL));
    meet();
}

static void shut_read_client(int fd)
{
    receive_to_end(fd);
    meet();
}

/* shutdown() wakes a thread that waits in recv(). */
static void *wait_in_recv(void *argument)
{
    uint8_t byte;
    return (void *)recv(*(int *)argument, &byte, 1, 0);
}

static void shut_wakes_server(int fd)
{
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, wait_in_recv, &fd));
    rest_ms(200);
    void *result;
    SAY(shutdown(fd, SHUT_RDWR));
    CHECK(!pthread_join(thread, &result));
    say("recv in the thread: %zd", (ssize_t)result);
    meet();
}

static void shut_wakes_client(int fd)
{
    receive_to_end(fd);
    meet();
}

/* What was sent before close() arrives, then the end. */
static void close_pending_server(int fd)
{
    send_next(fd, 150000);
    SAY(close(fd));
    post();
}

static void close_pending_client(int fd)
{
    await();
    rest_ms(100);
    receive_to_end(fd);
    SAY(close(fd));
}

/* A process that just ends: as with close(). */
static void exit_pending_server(int fd)
{
    send_next(fd, 150000);
    post();
    exit(0);
}

static void exit_pending_client(int fd)
{
    await();
    rest_ms(200);
    receive_to_end(fd);
}

/* close() before the other end has read all that was sent to it: a reset. */
static void close_unread_server(int fd)
{
    await();
    wait_for_bytes(fd, 10000);
    send_next(fd, 5000);
    SAY(close(fd));
    post();
}

static void close_unread_client(int fd)
{
    send_next(fd, 10000);
    post();
    await();
    CHECK(poll_for(fd, POLLRDHUP, 5000));
    rest_ms(50);
    say_poll("the peer closed with bytes unread", fd, POLLIN | POLLOUT | POLLRDHUP);
    uint8_t bytes[5000];
    SAY(recv(fd, bytes, sizeof bytes, MSG_WAITALL));
    SAY(recv(fd, bytes, sizeof bytes, 0));
    SAY(recv(fd, bytes, sizeof bytes, 0));
    SAY(send(fd, bytes, 1, MSG_NOSIGNAL));
    SAY(send(fd, bytes, 1, MSG_NOSIGNAL));
}

/* SO_LINGER of zero: a reset in place of an end. */
static void linger_server(int fd)
{
    struct linger now = {1, 0};
    MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now));
    await();
    SAY(close(fd));
    post();
}

static void linger_client(int fd)
{
    uint8_t byte;
    int error = -1;
    socklen_t size = sizeof error;
    post();
    await();
    CHECK(poll_for(fd, POLLRDHUP, 5000));
    say_poll("the peer reset", fd, POLLIN | POLLOUT | POLLRDHUP);
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
    say("SO_ERROR: %s", error ? strerrorname_np(error) : "none");
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
    say("SO_ERROR again: %s", error ? strerrorname_np(error) : "none");
    SAY(recv(fd, &byte, 1, 0));
    SAY(send(fd, &byte, 1, MSG_NOSIGNAL));
    struct sockaddr_storage name;
    socklen_t name_size = sizeof name;
    SAY(getpeername(fd, (struct sockaddr *)&name, &name_size));
}

/* The same while the other end waits in recv(). */
static void linger_wait_client(int fd)
{
    uint8_t byte;
    post();
    SAY(recv(fd, &byte, 1, 0));
    SAY(recv(fd, &byte, 1, 0));
    await();
}

static void linger_wait_server(int fd)
{
    struct linger now = {1, 0};
    MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now));
    await();
    rest_ms(200);
    SAY(close(fd));
    post();
}

/* Writing to who is gone: first it seems to work, then EPIPE, with or without a signal. */
static volatile sig_atomic_t pipes;
static void on_pipe(int number) { (void)number, pipes++; }

static void epipe_server(int fd)
{
    SAY(close(fd));
    post();
    await();
}

static void epipe_client(int fd)
{
    signal(SIGPIPE, on_pipe);
    await();
    CHECK(poll_for(fd, POLLRDHUP, 5000));
    say_poll("the peer closed", fd, POLLIN | POLLOUT | POLLRDHUP);
    SAY(send(fd, "first", 5, 0));
    rest_ms(100);
    say_poll("after the first", fd, POLLIN | POLLOUT | POLLRDHUP);
    SAY(send(fd, "second", 6, MSG_NOSIGNAL));
    say("signals: %d", pipes);
    SAY(write(fd, "third", 5));
    say("signals: %d", pipes);
    struct iovec part = {"fourth", 6};
    SAY(writev(fd, &part, 1));
    say("signals: %d", pipes);
    uint8_t byte;
    SAY(recv(fd, &byte, 1, 0));
    post();
}

/* The default action: the process dies of SIGPIPE. */
static void sigpipe_client(int fd)
{
    await();
    CHECK(poll_for(fd, POLLRDHUP, 5000));
    pid_t child = MUST(fork());
    if (!child) {
        signal(SIGPIPE, SIG_DFL);
        for (int i = 0; i < 3; i++) {
            if (write(fd, "x", 1) < 0) _exit(1);
            rest_ms(100);
        }
        _exit(2);
    }
    siginfo_t info;
    MUST(waitid(P_PID, child, &info, WEXITED));
    say("the child: %s %d", info.si_code == CLD_KILLED ? "killed by" : "exit", info.si_status);
    post();
}

/* Timeouts of receiving and sending. */
static void timeouts_client(int fd)
{
    struct timeval limit = {0, 300000}, got;
    socklen_t size = sizeof got;
    uint8_t bytes[65536] = {0};
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    MUST(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &got, &size));
    say("SO_RCVTIMEO: %ld.%06ld", (long)got.tv_sec, (long)got.tv_usec);
    long start = now_ms();
    SAY(recv(fd, bytes, 10, 0));
    long took = now_ms() - start;
    CHECK(took >= 280 && took < 3000);
    start = now_ms();
    SAY(read(fd, bytes, 10));
    took = now_ms() - start;
    CHECK(took >= 280 && took < 3000);
    meet(); /* now the peer sends 10 bytes */
    SAY(recv(fd, bytes, 20, MSG_WAITALL));
    start = now_ms();
    ssize_t put;
    while ((put = send(fd, bytes, sizeof bytes, MSG_NOSIGNAL)) > 0) CHECK(now_ms() < start + 20000);
    say_result("send to a full socket", put);
    meet();
}

static void timeouts_server(int fd)
{
    meet();
    SAY(send(fd, "0123456789", 10, 0));
    meet();
}

/* poll() speaks of reading only from the low-water mark on. */
static void low_water_server(int fd)
{
    int mark = 100, got;
    socklen_t size = sizeof got;
    SAY(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark));
    MUST(getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &got, &size));
    say("SO_RCVLOWAT: %d", got);
    meet();
    wait_for_bytes(fd, 60);
    rest_ms(50);
    say_poll("60 of 100 bytes", fd, POLLIN);
    uint8_t bytes[256];
    say_result("recv without waiting", recv(fd, bytes, 10, MSG_DONTWAIT | MSG_PEEK));
    meet();
    wait_for_bytes(fd, 120);
    CHECK(poll_for(fd, POLLIN, 5000));
    say_poll("120 bytes", fd, POLLIN);
    receive_next(fd, 120);
    meet();
    SAY(recv(fd, bytes, sizeof bytes, MSG_PEEK));
    receive_next(fd, 150);
}

static void low_water_client(int fd)
{
    meet();
    send_next(fd, 60);
    meet();
    send_next(fd, 60);
    meet();
    send_next(fd, 50);
    rest_ms(100);
    send_next(fd, 100);
    /* So that the end does not come early. */
    rest_ms(200);
}

/* FIONREAD and SIOCOUTQ. */
static void queues_server(int fd)
{
    int count = -1;
    SAY(ioctl(fd, FIONREAD, &count));
    say("nothing: %d", count);
    meet();
    wait_for_bytes(fd, 12345);
    SAY(ioctl(fd, FIONREAD, &count));
    say("unread: %d", count);
    receive_next(fd, 345);
    ioctl(fd, FIONREAD, &count);
    say("after 345: %d", count);
    meet();
    await(); /* the client has filled us */
    ioctl(fd, FIONREAD, &count);
    post_bytes(&count, sizeof count);
    await();
    receive_next(fd, 12000);
    uint64_t total;
    await_bytes(&total, sizeof total);
    receive_next(fd, total);
    ioctl(fd, FIONREAD, &count);
    say("all read: %d", count);
    post();
}

static void queues_client(int fd)
{
    int count = -1, unread;
    meet();
    send_next(fd, 12345);
    meet();
    for (int i = 0; i < 100 && !ioctl(fd, SIOCOUTQ, &count) && count; i++) rest_ms(10);
    say("SIOCOUTQ at rest: %d", count);
    set_nonblocking(fd, true);
    uint8_t bytes[4096];
    uint64_t total = 0;
    for (int quiet = 0; quiet < 5;) {
        fill(outgoing.seed, outgoing.position, bytes, sizeof bytes);
        ssize_t put = send(fd, bytes, sizeof bytes, MSG_NOSIGNAL);
        if (put < 0) {
            CHECK(errno == EAGAIN);
            quiet++, rest_ms(20);
            continue;
        }
        quiet = 0, total += put, outgoing.position += put;
    }
    say_poll("full", fd, POLLOUT);
    post();
    await_bytes(&unread, sizeof unread);
    SAY(ioctl(fd, SIOCOUTQ, &count));
    CHECK(count > 0);
    /* What the one has not read and the other still holds is all there is. */
    if ((uint64_t)count + unread != total + 12000)
        say("%d unread and %d unsent, of %llu", unread, count, (unsigned long long)total + 12000);
    post();
    post_bytes(&total, sizeof total);
    await();
    for (int i = 0; i < 100 && !ioctl(fd, SIOCOUTQ, &count) && count; i++) rest_ms(10);
    say("SIOCOUTQ when all is read: %d", count);
    say_poll("empty", fd, POLLOUT);
}

/* Flags of single calls. */
static void flags_server(int fd)
{
    uint8_t bytes[4096];
    SAY(recv(fd, bytes, 10, MSG_DONTWAIT));
    SAY(recv(fd, bytes, 10, MSG_DONTWAIT | MSG_PEEK));
    meet();
    wait_for_bytes(fd, 3000);
    memset(bytes, 0, sizeof bytes);
    SAY(recv(fd, bytes, 1000, MSG_PEEK));
    check(incoming.seed, incoming.position, bytes, 1000);
    SAY(recv(fd, bytes, 2000, MSG_PEEK | MSG_WAITALL));
    /* With MSG_TRUNC, TCP throws bytes away: they are counted, not written. */
    memset(bytes, 0x55, sizeof bytes);
    say_result("MSG_TRUNC", recv(fd, bytes, 500, MSG_TRUNC));
    if (family() != AF_UNIX) CHECK(bytes[0] == 0x55 && bytes[499] == 0x55);
    incoming.position += 500;
    receive_next(fd, 500);
    if (family() != AF_UNIX) {
        say_result("MSG_TRUNC without a buffer", recv(fd, NULL, 700, MSG_TRUNC));
        incoming.position += 700;
        receive_next(fd, 1300);
    } else {
        receive_next(fd, 2000);
    }
    SAY(recv(fd, bytes, 0, MSG_DONTWAIT));
    meet();
    wait_for_bytes(fd, 100);
    SAY(recv(fd, bytes, 0, MSG_DONTWAIT));
    SAY(recv(fd, bytes, 0, 0));
    receive_next(fd, 100);
    SAY(send(fd, bytes, 0, 0));
    SAY(read(fd, bytes, 0));
    SAY(write(fd, bytes, 0));
    struct iovec part = {bytes, 0};
    SAY(writev(fd, &part, 1));
    SAY(readv(fd, &part, 1));
    SAY(writev(fd, &part, 0));
    meet();
    SAY(recv(fd, bytes, 0, 0));
    SAY(recv(fd, bytes, 10, MSG_ERRQUEUE));
    SAY(recv(fd, bytes, 10, 0));
    meet();
}

static void flags_client(int fd)
{
    meet();
    send_next(fd, 3000);
    meet();
    send_next(fd, 100);
    meet();
    SAY(shutdown(fd, SHUT_WR));
    meet();
}

/* Wrong arguments on a connection in use: errors, and nothing is lost. */
static void faults_server(int fd)
{
    meet();
    wait_for_bytes(fd, 1000);
    /* Volatile, or the compiler knows better than to call. */
    void *volatile nowhere = (void *)16, *volatile null = NULL;
    volatile int minus_one = -1, too_many = 5000;
    SAY(recv(fd, nowhere, 100, 0));
    SAY(read(fd, nowhere, 100));
    struct iovec part = {nowhere, 100};
    SAY(readv(fd, &part, 1));
    SAY(readv(fd, &part, minus_one));
    SAY(readv(fd, null, 1));
    SAY(readv(fd, &part, too_many));
    SAY(recvmsg(fd, null, 0));
    SAY(recvmsg(fd, nowhere, 0));
    SAY(send(fd, nowhere, 100, MSG_NOSIGNAL));
    SAY(write(fd, nowhere, 100));
    SAY(writev(fd, &part, 1));
    part.iov_len = -1;
    SAY(writev(fd, &part, 1));
    SAY(ioctl(fd, FIONREAD, nowhere));
    SAY(ioctl(fd, TCGETS, nowhere));
    SAY(lseek(fd, 0, SEEK_CUR));
    SAY(pread(fd, nowhere, 1, 0));
    SAY(pwrite(fd, "x", 1, 0));
    SAY(ftruncate(fd, 0));
    SAY(fsync(fd));
    SAY(fchdir(fd));
    SAY((long)(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0));
    struct stat stat;
    SAY(fstat(fd, &stat));
    say("a socket: %d", S_ISSOCK(stat.st_mode));
    SAY(isatty(fd));
    SAY(listen(fd, 1));
    SAY(accept(fd, NULL, NULL));
    struct sockaddr_in name = {.sin_family = AF_INET};
    SAY(connect(fd, (struct sockaddr *)&name, sizeof name));
    SAY(bind(fd, (struct sockaddr *)&name, sizeof name));
    SAY(sendto(fd, "x", 0, 0, (struct sockaddr *)&name, sizeof name));
    SAY(shutdown(fd, 7));
    SAY(setsockopt(fd, SOL_SOCKET, 9999, &name, 4));
    socklen_t size = 4;
    SAY(getsockopt(fd, SOL_SOCKET, SO_TYPE, nowhere, &size));
    SAY(getpeername(fd, nowhere, &size));
    int half = 500;
    uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(munmap(pages + 4096, 4096));
    receive_next(fd, half);
    SAY(recv(fd, pages + 4096 - 300, 300, 0));
    check(incoming.seed, incoming.position, pages + 4096 - 300, 300);
    incoming.position += 300;
    receive_next(fd, 200);
    send_next(fd, 1000);
    meet();
}

static void faults_client(int fd)
{
    meet();
    send_next(fd, 1000);
    receive_next(fd, 1000);
    meet();
}

/* Options read back as they were set. */
static void say_option(int fd, const char *name, int level, int option)
{
    int value = -1;
    socklen_t size = sizeof value;
    if (getsockopt(fd, level, option, &value, &size))
        say("%s: %s", name, strerrorname_np(errno));
    else
        say("%s: %d (%u bytes)", name, value, size);
}
#define SAY_OPTION(level, option) say_option(fd, #option, level, option)

static void options(int fd)
{
    int value = 1;
    struct linger linger = {1, 7};
    socklen_t size = sizeof linger;
    SAY(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, sizeof value));
    SAY(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, sizeof value));
    SAY(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    value = 77777;
    SAY(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, sizeof value));
    SAY(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, sizeof value));
    SAY_OPTION(IPPROTO_TCP, TCP_NODELAY);
    SAY_OPTION(IPPROTO_TCP, TCP_CORK);
    SAY_OPTION(IPPROTO_TCP, TCP_KEEPIDLE);
    SAY_OPTION(IPPROTO_TCP, TCP_USER_TIMEOUT);
    SAY_OPTION(IPPROTO_TCP, TCP_MAXSEG);
    SAY_OPTION(SOL_SOCKET, SO_KEEPALIVE);
    SAY_OPTION(SOL_SOCKET, SO_SNDBUF);
    SAY_OPTION(SOL_SOCKET, SO_RCVBUF);
    SAY_OPTION(SOL_SOCKET, SO_TYPE);
    SAY_OPTION(SOL_SOCKET, SO_DOMAIN);
    SAY_OPTION(SOL_SOCKET, SO_PROTOCOL);
    SAY_OPTION(SOL_SOCKET, SO_ACCEPTCONN);
    SAY_OPTION(SOL_SOCKET, SO_ERROR);
    SAY_OPTION(SOL_SOCKET, SO_REUSEADDR);
    SAY_OPTION(SOL_SOCKET, SO_OOBINLINE);
    SAY_OPTION(SOL_SOCKET, SO_RCVLOWAT);
    MUST(getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &size));
    say("SO_LINGER: %d %d", linger.l_onoff, linger.l_linger);
    struct sockaddr_storage name;
    size = sizeof name;
    MUST(getpeername(fd, (struct sockaddr *)&name, &size));
    say("getpeername: family %d", name.ss_family);
    /* A short buffer gets a part, and the true size. */
    size = 2;
    MUST(getsockname(fd, (struct sockaddr *)&name, &size));
    if (family() != AF_UNIX) say("getsockname: %u bytes", size);
    SAY(fcntl(fd, F_GETFL));
    SAY(fcntl(fd, F_GETFD));
    SAY(fcntl(fd, F_SETFD, FD_CLOEXEC));
    SAY(fcntl(fd, F_GETFD));
    value = 1;
    SAY(ioctl(fd, FIONBIO, &value));
    SAY(fcntl(fd, F_GETFL));
    uint8_t byte;
    SAY(recv(fd, &byte, 1, 0));
    value = 0;
    SAY(ioctl(fd, FIONBIO, &value));
    meet();
    if (is_server) receive_next(fd, 40000);
    send_next(fd, 40000);
    if (!is_server) receive_next(fd, 40000);
    meet();
}

/* A corked stream arrives in full when the cork goes. */
static void cork_client(int fd)
{
    int on = 1, off = 0;
    SAY(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on));
    for (int i = 0; i < 50; i++) send_next(fd, 10);
    SAY(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off));
    for (int i = 0; i < 20; i++) {
        uint8_t bytes[100];
        fill(outgoing.seed, outgoing.position, bytes, 100);
        MUST(send(fd, bytes, 100, i == 19 ? 0 : MSG_MORE));
        outgoing.position += 100;
    }
    receive_next(fd, 10);
}

static void cork_server(int fd)
{
    receive_next(fd, 2500);
    send_next(fd, 10);
}

/* An urgent byte, and the mark in the stream. */
static void urgent_server(int fd)
{
    await();
    CHECK(poll_for(fd, POLLPRI, 5000) & POLLPRI);
    say_poll("urgent", fd, POLLIN | POLLPRI);
    uint8_t byte, bytes[100];
    SAY(recv(fd, &byte, 1, MSG_OOB));
    say("the urgent byte: %c", byte);
    SAY(recv(fd, &byte, 1, MSG_OOB));
    SAY(sockatmark(fd));
    ssize_t got = MUST(recv(fd, bytes, sizeof bytes, 0));
    say("to the mark: %zd", got);
    check(incoming.seed, incoming.position, bytes, got);
    incoming.position += got;
    SAY(sockatmark(fd));
    receive_next(fd, 60);
    SAY(sockatmark(fd));
    send_next(fd, 1000);
}

static void urgent_client(int fd)
{
    send_next(fd, 40);
    SAY(send(fd, "!", 1, MSG_OOB));
    send_next(fd, 60);
    post();
    receive_next(fd, 1000);
}

/* A file into the socket, and the socket into a file through a pipe. */
static int file_of(uint64_t seed, uint64_t position, size_t size)
{
    int file = MUST(memfd_create("torture", 0));
    uint8_t *bytes = malloc(size);
    fill(seed, position, bytes, size);
    CHECK(write(file, bytes, size) == (ssize_t)size);
    free(bytes);
    return file;
}

static void sendfile_server(int fd)
{
    int file = file_of(outgoing.seed, outgoing.position, 500000);
    off_t at = 0;
    while (at < 500000) MUST(sendfile(fd, file, &at, 500000 - at));
    outgoing.position += 500000;
    send_next(fd, 1000);
    meet();
    int pipes_fd[2];
    MUST(pipe(pipes_fd));
    close(file);
    file = file_of(outgoing.seed, outgoing.position, 200000);
    for (loff_t from = 0; from < 200000;) {
        ssize_t in = MUST(splice(file, &from, pipes_fd[1], NULL, 50000, SPLICE_F_MOVE));
        while (in > 0) in -= MUST(splice(pipes_fd[0], NULL, fd, NULL, in, SPLICE_F_MORE));
    }
    outgoing.position += 200000;
    send_next(fd, 1000);
    meet();
}

static void sendfile_client(int fd)
{
    receive_next(fd, 501000);
    meet();
    int pipes_fd[2];
    uint8_t bytes[65536];
    MUST(pipe(pipes_fd));
    for (size_t left = 200000; left;) {
        ssize_t got = MUST(splice(fd, NULL, pipes_fd[1], NULL, left < 65536 ? left : 65536, 0));
        CHECK(got > 0);
        CHECK(read(pipes_fd[0], bytes, sizeof bytes) == got);
        check(incoming.seed, incoming.position, bytes, got);
        incoming.position += got, left -= got;
    }
    receive_next(fd, 1000);
    meet();
}

/* Standard streams over a socket. */
static void stdio(int fd)
{
    FILE *in = fdopen(fd, "r"), *out = fdopen(dup(fd), "w");
    CHECK(in && out);
    for (int i = 0; i < 500; i++) {
        char line[200];
        if (is_server) CHECK(fgets(line, sizeof line, in));
        fprintf(out, "line %d of %s\n", i, is_server ? "the server" : "the client");
        fflush(out);
        if (!is_server) CHECK(fgets(line, sizeof line, in));
        int number;
        CHECK(sscanf(line, "line %d", &number) == 1 && number == i);
    }
    dprintf(fd, "last\n");
    char line[200];
    CHECK(fgets(line, sizeof line, in));
    say("the last line: %.4s", line);
    fclose(out);
    fclose(in);
}

/* The same calls through syscall(). */
static void by_number(int fd)
{
    uint8_t bytes[100];
    for (int i = 0; i < 200; i++) {
        for (int turn = 0; turn < 2; turn++) {
            if (is_server == turn) {
                fill(outgoing.seed, outgoing.position, bytes, sizeof bytes);
                long put = i % 2 ? syscall(SYS_write, fd, bytes, sizeof bytes)
                                 : syscall(SYS_sendto, fd, bytes, sizeof bytes, 0, NULL, 0);
                CHECK(put == sizeof bytes);
                outgoing.position += put;
            } else {
                for (size_t at = 0; at < sizeof bytes;) {
                    long got = i % 3 ? syscall(SYS_read, fd, bytes, sizeof bytes - at)
                                     : syscall(SYS_recvfrom, fd, bytes, sizeof bytes - at, 0, 0, 0);
                    CHECK(got > 0);
                    check(incoming.seed, incoming.position, bytes, got);
                    incoming.position += got, at += got;
                }
            }
        }
    }
    say("through syscall(): good");
    meet();
}

const struct torture_case edge_cases[] = {
    {"shutdown-halves", halves_server, halves_client, 0},
    {"shutdown-read", shut_read_server, shut_read_client, 0},
    {"shutdown-wakes", shut_wakes_server, shut_wakes_client, 0},
    {"close-pending", close_pending_server, close_pending_client, 0},
    {"exit-pending", exit_pending_server, exit_pending_client, 0},
    {"close-unread", close_unread_server, close_unread_client, 0},
    {"linger-zero", linger_server, linger_client, INTERNET},
    {"linger-zero-waiting", linger_wait_server, linger_wait_client, INTERNET},
    {"epipe", epipe_server, epipe_client, 0},
    {"sigpipe", epipe_server, sigpipe_client, 0},
    {"timeouts", timeouts_server, timeouts_client, 0},
    {"low-water", low_water_server, low_water_client, INTERNET},
    {"queues", queues_server, queues_client, INTERNET},
    {"flags", flags_server, flags_client, 0},
    {"faults", faults_server, faults_client, 0},
    {"options", options, options, INTERNET},
    {"cork", cork_server, cork_client, INTERNET},
    {"urgent", urgent_server, urgent_client, INTERNET},
    {"sendfile-splice", sendfile_server, sendfile_client, 0},
    {"stdio", stdio, stdio, 0},
    {"by-number", by_number, by_number, 0},
    {NULL, NULL, NULL, 0},
};
