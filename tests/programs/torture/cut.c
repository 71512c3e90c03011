/* Connections that are cut, by a reset, by `connect` with no family or by the death of an end, and
 * errors, which are told once: what each call says then. See torture.h. */
#include "torture.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/uio.h>

static const struct sockaddr no_family = {.sa_family = AF_UNSPEC};

static void disconnect(int fd)
{
    MUST(connect(fd, &no_family, sizeof no_family));
}

/* A socket with a duplicate is disconnected, and connected anew. */
static void again_by(int rounds)
{
    int fd = dial();
    int other = MUST(dup(fd));
    talk(fd, rounds);
    disconnect(fd);
    post();
    outgoing.position = incoming.position = 0;
    dial_by(fd);
    talk(other, 100);
    talk(fd, 100);
    for (int i = 0; i < 50; i++) {
        talk(other, 2);
        talk(fd, 3);
    }
    meet();
}

static void again_with(int rounds)
{
    int listener = listener_here(1);
    int fd = accept_one(listener);
    talk(fd, rounds);
    await();
    close(fd);
    outgoing.position = incoming.position = 0;
    fd = accept_one(listener);
    talk(fd, 450);
    meet();
    say("talked");
}

static void again_client(int fd)
{
    (void)fd;
    again_by(100);
}

static void again_server(int fd)
{
    (void)fd;
    again_with(100);
}

/* Before it is worth more than the kernel's. */
static void soon_again_client(int fd)
{
    (void)fd;
    again_by(2);
}

static void soon_again_server(int fd)
{
    (void)fd;
    again_with(2);
}

/* Options are the program's, whatever became of the connection. */
static void say_delays(const char *when, int fd)
{
    int no_delay = -1;
    socklen_t size = sizeof no_delay;
    MUST(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, &size));
    say("%s: TCP_NODELAY %d", when, no_delay);
}

static void delays_client(int fd)
{
    fd = dial();
    talk(fd, 100);
    say_delays("connected", fd);
    disconnect(fd);
    say_delays("disconnected", fd);
    post();
    outgoing.position = incoming.position = 0;
    dial_by(fd);
    talk(fd, 450);
    say_delays("connected again", fd);
    meet();
}

/* What who only asks is told behind the end. */
static void ask(int fd)
{
    char bytes[100];
    set_nonblocking(fd, true);
    say_result("first recv", recv(fd, bytes, sizeof bytes, 0));
    say_result("second recv", recv(fd, bytes, sizeof bytes, 0));
    say_result("third recv", recv(fd, bytes, sizeof bytes, 0));
    say_result("send", send(fd, "x", 1, MSG_NOSIGNAL));
    rest_ms(20);
    say_result("recv", recv(fd, bytes, sizeof bytes, 0));
    say_result("send", send(fd, "x", 1, MSG_NOSIGNAL));
}

static void cut_server(int fd)
{
    talk(fd, 100);
    meet();
    await();
    rest_ms(100);
    ask(fd);
    post();
}

static void cut_client(int fd)
{
    int other = MUST(dup(fd));
    talk(fd, 100);
    meet();
    disconnect(fd);
    post();
    await();
    close(other);
}

/* The same, and a child has the socket. */
static void cut_shared_client(int fd)
{
    int gate[2];
    char byte;
    MUST(pipe(gate));
    talk(fd, 50);
    pid_t child = MUST(fork());
    if (!child) {
        close(gate[1]);
        _exit(read(gate[0], &byte, 1) != 0);
    }
    talk(fd, 50);
    meet();
    disconnect(fd);
    post();
    await();
    close(gate[1]);
    wait_child(child);
}

/* Who only sends. */
static void cut_sender(int fd)
{
    talk(fd, 100);
    meet();
    await();
    rest_ms(100);
    int error = -1;
    socklen_t size = sizeof error;
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
    say("SO_ERROR %d", error);
    say_result("send", send(fd, "x", 1, MSG_NOSIGNAL));
    post();
}

/* An end is killed with bytes unread that came over the kernel's connection. */
static void killed_server(int fd)
{
    char bytes[100] = {0};
    talk(fd, 100);
    post();
    rest_ms(100);
    MUST(send(fd, bytes, sizeof bytes, 0));
    poll_for(fd, POLLHUP, 5000);
    rest_ms(100);
    ask(fd);
}

static void killed_client(int fd)
{
    talk(fd, 100);
    await();
    poll_for(fd, POLLIN, 5000);
    rest_ms(100);
    raise(SIGKILL);
}

/* A pointer to no memory is the call's error, not the connection's. */
static void pointer_server(int fd)
{
    char byte;
    talk(fd, 100);
    post();
    receive_next(fd, 100);
    say_result("recv to nowhere", recv(fd, (void *)8, 100, 0));
    receive_next(fd, 100);
    struct iovec parts[2] = {{(char[]){'x'}, 1}, {(char[]){'y'}, 1}};
    say_result("writev", writev(fd, parts, 2));
    int error = -1;
    socklen_t size = sizeof error;
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
    say("SO_ERROR %d", error);
    say_result("recv", recv(fd, &byte, 1, MSG_DONTWAIT));
    meet();
}

static void pointer_client(int fd)
{
    talk(fd, 100);
    await();
    rest_ms(200);
    send_next(fd, 100);
    rest_ms(200);
    send_next(fd, 100);
    meet();
}

/* Who looks at the queue of errors does not take the socket's. */
static void queue_server(int fd)
{
    char bytes[100];
    struct iovec room = {bytes, sizeof bytes};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &room, .msg_iovlen = 1}};
    talk(fd, 100);
    post();
    await();
    rest_ms(50);
    say_result("recvmmsg", recvmmsg(fd, &message, 1, MSG_ERRQUEUE | MSG_DONTWAIT, NULL));
    say_result("recv", recv(fd, bytes, sizeof bytes, 0));
    say_result("recv", recv(fd, bytes, sizeof bytes, 0));
}

static void queue_client(int fd)
{
    struct linger none = {1, 0};
    talk(fd, 100);
    await();
    MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none));
    close(fd);
    post();
}

/* Times for which there is no room. */
static void room_server(int fd)
{
    int on = 1;
    char bytes[10];
    struct iovec room = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &room, .msg_iovlen = 1};
    talk(fd, 100);
    MUST(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on));
    talk(fd, 3);
    /* The kernel begins to take times a little later. */
    rest_ms(100);
    meet();
    say_result("recvmsg", recvmsg(fd, &message, 0));
    say("%s", message.msg_flags & MSG_CTRUNC ? "MSG_CTRUNC" : "no flag");
    meet();
}

static void room_client(int fd)
{
    talk(fd, 103);
    meet();
    MUST(send(fd, "0123456789", 10, 0));
    meet();
}

/* An end closes with bytes unread: waits for other events tell of the error, too. */
static void unread_server(int fd)
{
    char bytes[10];
    talk(fd, 200);
    meet();
    MUST(send(fd, "hello", 5, 0));
    post();
    await();
    say_poll("nothing", fd, 0);
    say_poll("room", fd, POLLOUT);
    say_poll("end", fd, POLLRDHUP);
    say_poll("bytes", fd, POLLIN);
    say_result("recv", recv(fd, bytes, sizeof bytes, 0));
    say_poll("room", fd, POLLOUT);
}

static void unread_client(int fd)
{
    talk(fd, 200);
    meet();
    await();
    /* The bytes may wait for an acknowledgement that is delayed. */
    rest_ms(200);
    close(fd);
    post();
}

const struct torture_case cut_cases[] = {
    {"cut-again", again_server, again_client, OWN_SOCKETS | INTERNET},
    {"cut-soon-again", soon_again_server, soon_again_client, OWN_SOCKETS | INTERNET},
    {"cut-delays", again_server, delays_client, OWN_SOCKETS | INTERNET},
    {"cut-asked", cut_server, cut_client, INTERNET},
    {"cut-shared", cut_server, cut_shared_client, INTERNET},
    {"cut-sent", cut_sender, cut_client, INTERNET},
    {"killed-unread", killed_server, killed_client, ONE_IS_KILLED},
    {"error-of-pointer", pointer_server, pointer_client, 0},
    {"error-of-queue", queue_server, queue_client, INTERNET},
    {"no-room-for-times", room_server, room_client, INTERNET},
    {"closed-unread", unread_server, unread_client, 0},
    {NULL, NULL, NULL, 0},
};
