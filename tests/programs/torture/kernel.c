/* What single system calls give for right and wrong arguments, written from their manual
 * pages. The cases bear the names of those of the Linux Test Project that look at the same
 * calls. What is right is what the kernel alone gives. */
#include "torture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

/* Volatile, or the compiler knows better than to call. */
static void *volatile nowhere = (void *)16;
static void *volatile null = NULL;
static volatile int minus_one = -1;

static int a_file(void)
{
    return MUST(open("/dev/null", O_RDWR));
}

static int a_socket(int type)
{
    return MUST(socket(AF_INET, type, 0));
}

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){AF_INET, htons(port), {htonl(INADDR_LOOPBACK)}, {0}};
}

/* A listener of our own, and its address. */
static int a_listener(struct sockaddr_in *name)
{
    int fd = a_socket(SOCK_STREAM);
    socklen_t size = sizeof *name;
    *name = loopback(0);
    MUST(bind(fd, (struct sockaddr *)name, size));
    MUST(listen(fd, 4));
    MUST(getsockname(fd, (struct sockaddr *)name, &size));
    return fd;
}

/* Says a result that is a descriptor, whose number means nothing, and closes it. */
static void say_descriptor(const char *what, int fd)
{
    if (fd < 0) {
        say_result(what, fd);
        return;
    }
    say("%s: flags %#x %#x", what, fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
    close(fd);
}
#define SAY_FD(call) say_descriptor(#call, call)

static void over(int fd)
{
    order('q');
    close(fd);
}

static void socket01(int fd)
{
    SAY_FD(socket(0, SOCK_STREAM, 0));
    SAY_FD(socket(AF_INET, 75, 0));
    SAY_FD(socket(AF_UNIX, SOCK_DGRAM, 0));
    SAY_FD(socket(AF_INET, SOCK_DGRAM, 17));
    SAY_FD(socket(AF_INET, SOCK_STREAM, 17));
    SAY_FD(socket(AF_INET, SOCK_DGRAM, 6));
    SAY_FD(socket(AF_INET, SOCK_STREAM, 6));
    SAY_FD(socket(AF_INET, SOCK_STREAM, 1));
    SAY_FD(socket(AF_INET, SOCK_STREAM, 132));
    SAY_FD(socket(AF_UNIX, SOCK_STREAM, 9));
    int pair[2];
    SAY(socketpair(AF_INET, SOCK_STREAM, 0, pair));
    SAY(socketpair(AF_UNIX, 75, 0, pair));
    SAY(socketpair(AF_UNIX, SOCK_STREAM, 0, nowhere));
    SAY(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair));
    SAY(fcntl(pair[0], F_GETFL));
    over(fd);
}

static void socket02(int fd)
{
    SAY_FD(socket(AF_INET, SOCK_STREAM, 0));
    SAY_FD(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    SAY_FD(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    SAY_FD(socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    over(fd);
}

static void bind01(int fd)
{
    struct sockaddr_in name = loopback(0), taken;
    struct sockaddr_un path = {.sun_family = AF_UNIX, .sun_path = "/dev/null/none"};
    int listener = a_listener(&taken), other = a_socket(SOCK_STREAM);
    SAY(bind(minus_one, (struct sockaddr *)&name, sizeof name));
    SAY(bind(a_file(), (struct sockaddr *)&name, sizeof name));
    SAY(bind(other, nowhere, sizeof name));
    SAY(bind(other, (struct sockaddr *)&name, 3));
    SAY(bind(other, (struct sockaddr *)&name, minus_one));
    SAY(bind(other, (struct sockaddr *)&path, sizeof path));
    SAY(bind(other, (struct sockaddr *)&taken, sizeof taken));
    name.sin_addr.s_addr = inet_addr("10.255.254.253");
    SAY(bind(other, (struct sockaddr *)&name, sizeof name));
    name = loopback(0);
    SAY(bind(other, (struct sockaddr *)&name, sizeof name));
    SAY(bind(other, (struct sockaddr *)&name, sizeof name));
    SAY(bind(fd, (struct sockaddr *)&name, sizeof name));
    int local = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    SAY(bind(local, (struct sockaddr *)&path, sizeof path));
    close(listener);
    over(fd);
}

static void listen01(int fd)
{
    SAY(listen(minus_one, 1));
    SAY(listen(a_file(), 1));
    SAY(listen(a_socket(SOCK_DGRAM), 1));
    SAY(listen(a_socket(SOCK_STREAM), 1));
    SAY(listen(a_socket(SOCK_STREAM), minus_one));
    SAY(listen(fd, 1));
    over(fd);
}

static void accept01(int fd)
{
    struct sockaddr_in name, peer;
    socklen_t size = sizeof peer;
    int listener = a_listener(&name), client = a_socket(SOCK_STREAM);
    SAY(accept(minus_one, NULL, NULL));
    SAY(accept(a_file(), NULL, NULL));
    SAY(accept(a_socket(SOCK_STREAM), NULL, NULL));
    SAY(accept(a_socket(SOCK_DGRAM), NULL, NULL));
    SAY(accept(fd, NULL, NULL));
    SAY(connect(client, (struct sockaddr *)&name, sizeof name));
    SAY(accept4(listener, NULL, NULL, 0x7));
    SAY(accept(listener, nowhere, &size));
    SAY(connect(client = a_socket(SOCK_STREAM), (struct sockaddr *)&name, sizeof name));
    size = minus_one;
    SAY(accept(listener, (struct sockaddr *)&peer, &size));
    SAY(connect(client = a_socket(SOCK_STREAM), (struct sockaddr *)&name, sizeof name));
    size = 4;
    SAY_FD(accept4(listener, (struct sockaddr *)&peer, &size, SOCK_NONBLOCK));
    say("size: %u", size);
    set_nonblocking(listener, true);
    SAY_FD(accept(listener, NULL, NULL));
    over(fd);
}

static void connect01(int fd)
{
    struct sockaddr_in name, gone;
    int listener = a_listener(&name), other = a_socket(SOCK_STREAM);
    close(a_listener(&gone));
    SAY(connect(minus_one, (struct sockaddr *)&name, sizeof name));
    SAY(connect(a_file(), (struct sockaddr *)&name, sizeof name));
    SAY(connect(other, nowhere, sizeof name));
    SAY(connect(other, (struct sockaddr *)&name, 3));
    SAY(connect(other, (struct sockaddr *)&name, minus_one));
    name.sin_family = 47;
    SAY(connect(other, (struct sockaddr *)&name, sizeof name));
    name.sin_family = AF_INET;
    SAY(connect(other, (struct sockaddr *)&gone, sizeof gone));
    SAY(connect(other, (struct sockaddr *)&name, sizeof name));
    SAY(connect(other, (struct sockaddr *)&name, sizeof name));
    SAY(connect(fd, (struct sockaddr *)&name, sizeof name));
    SAY(connect(listener, (struct sockaddr *)&name, sizeof name));
    int plain = a_socket(SOCK_STREAM);
    set_nonblocking(plain, true);
    SAY(connect(plain, (struct sockaddr *)&name, sizeof name));
    over(fd);
}

static void send01(int fd)
{
    static char bytes[100000];
    struct sockaddr_in name = loopback(9);
    int datagrams = a_socket(SOCK_DGRAM);
    SAY(send(minus_one, bytes, 10, 0));
    SAY(send(a_file(), bytes, 10, 0));
    SAY(send(fd, nowhere, 10, 0));
    SAY(send(fd, NULL, 0, 0));
    SAY(send(a_socket(SOCK_STREAM), bytes, 10, MSG_NOSIGNAL));
    SAY(send(datagrams, bytes, 10, 0));
    SAY(sendto(datagrams, bytes, sizeof bytes, 0, (struct sockaddr *)&name, sizeof name));
    SAY(sendto(fd, bytes, 0, 0, nowhere, 16));
    SAY(sendto(fd, bytes, 0, 0, (struct sockaddr *)&name, minus_one));
    SAY(send(fd, bytes, 10, MSG_ERRQUEUE | MSG_DONTWAIT));
    SAY(send(datagrams, bytes, 10, MSG_OOB));
    SAY(sendto(fd, bytes, 10, 0, nowhere, 16));
    SAY(sendto(fd, bytes, 10, 0, (struct sockaddr *)&name, minus_one));
    order('h');
    SAY(shutdown(fd, SHUT_WR));
    SAY(send(fd, bytes, 10, MSG_NOSIGNAL));
    SAY(send(fd, bytes, 0, MSG_NOSIGNAL));
    SAY(sendto(fd, bytes, 10, MSG_NOSIGNAL, NULL, 0));
    over(fd);
}

static void sendmsg01(int fd)
{
    char bytes[100] = {0}, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {bytes, 10}, bad = {nowhere, 10}, halves[2] = {{bytes, 5}, {nowhere, 5}};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    SAY(sendmsg(minus_one, &message, 0));
    SAY(sendmsg(a_file(), &message, 0));
    SAY(sendmsg(fd, nowhere, 0));
    SAY(sendmsg(fd, null, 0));
    message.msg_iovlen = 5000;
    SAY(sendmsg(fd, &message, 0));
    message.msg_iovlen = -1;
    SAY(sendmsg(fd, &message, 0));
    message = (struct msghdr){.msg_iov = nowhere, .msg_iovlen = 1};
    SAY(sendmsg(fd, &message, 0));
    message = (struct msghdr){.msg_iov = &bad, .msg_iovlen = 1};
    SAY(sendmsg(fd, &message, 0));
    message = (struct msghdr){.msg_iovlen = 0};
    SAY(sendmsg(fd, &message, 0));
    message = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1, .msg_name = nowhere,
                              .msg_namelen = 16};
    SAY(sendmsg(fd, &message, 0));
    message.msg_namelen = -1;
    SAY(sendmsg(fd, &message, 0));
    struct sockaddr_in name = loopback(9);
    message.msg_name = &name;
    message.msg_namelen = sizeof name;
    SAY(sendmsg(fd, &message, 0));
    message = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1, .msg_control = nowhere,
                              .msg_controllen = 64};
    SAY(sendmsg(fd, &message, 0));
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_len = 3, .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    SAY(sendmsg(fd, &message, 0));
    *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(4), .cmsg_level = SOL_SOCKET, .cmsg_type = 99};
    SAY(sendmsg(fd, &message, 0));
    struct mmsghdr many[2] = {{.msg_hdr = {.msg_iov = &bad, .msg_iovlen = 1}}};
    SAY(sendmmsg(fd, many, 1, 0));
    SAY(sendmmsg(fd, nowhere, 1, 0));
    SAY(sendmmsg(fd, many, 0, 0));
    SAY(sendmmsg(minus_one, many, 1, 0));
    /* TCP may have taken the first half when it meets the fault in the second; either way
     * no more comes of this connection. */
    message = (struct msghdr){.msg_iov = halves, .msg_iovlen = 2};
    SAY(sendmsg(fd, &message, 0));
    over(fd);
}

static void recv01(int fd)
{
    char bytes[100];
    socklen_t size = sizeof bytes;
    SAY(recv(minus_one, bytes, 10, 0));
    SAY(recv(a_file(), bytes, 10, 0));
    SAY(recv(a_socket(SOCK_STREAM), bytes, 10, 0));
    SAY(recv(fd, bytes, 10, MSG_OOB));
    SAY(recv(fd, bytes, 10, MSG_ERRQUEUE | MSG_DONTWAIT));
    SAY(recv(fd, bytes, 10, MSG_DONTWAIT));
    order_bytes(fd, 100);
    SAY(recv(fd, nowhere, 10, 0));
    SAY(recv(fd, nowhere, 10, MSG_PEEK));
    SAY(recv(fd, bytes, 10, MSG_OOB));
    SAY(recvfrom(fd, bytes, 10, MSG_PEEK, nowhere, &size));
    SAY(recvfrom(fd, bytes, 10, MSG_PEEK, (struct sockaddr *)bytes, nowhere));
    size = -1;
    SAY(recvfrom(fd, bytes, 10, MSG_PEEK, (struct sockaddr *)bytes, &size));
    struct sockaddr_storage name = {0};
    size = sizeof name;
    SAY(recvfrom(fd, bytes, 10, MSG_PEEK, (struct sockaddr *)&name, &size));
    say("name: %u bytes, family %d", size, name.ss_family);
    receive_next(fd, 100);
    over(fd);
}

static void recvmsg01(int fd)
{
    char bytes[100], control[64];
    struct iovec part = {bytes, 10}, bad = {nowhere, 10};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    SAY(recvmsg(minus_one, &message, 0));
    SAY(recvmsg(a_file(), &message, 0));
    SAY(recvmsg(fd, &message, MSG_DONTWAIT));
    SAY(recvmsg(fd, &message, MSG_OOB | MSG_DONTWAIT));
    SAY(recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT));
    order_bytes(fd, 100);
    SAY(recvmsg(fd, nowhere, 0));
    message.msg_iovlen = -1;
    SAY(recvmsg(fd, &message, 0));
    message.msg_iovlen = 5000;
    SAY(recvmsg(fd, &message, 0));
    message = (struct msghdr){.msg_iov = &bad, .msg_iovlen = 1};
    SAY(recvmsg(fd, &message, 0));
    message.msg_iov = nowhere;
    SAY(recvmsg(fd, &message, 0));
    message = (struct msghdr){.msg_iovlen = 0};
    SAY(recvmsg(fd, &message, 0));
    struct sockaddr_storage name = {0};
    message = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1, .msg_name = &name,
                              .msg_namelen = sizeof name, .msg_control = control,
                              .msg_controllen = sizeof control, .msg_flags = 0x7fff};
    SAY(recvmsg(fd, &message, MSG_PEEK));
    say("flags %#x, name %u bytes, control %zu", message.msg_flags, message.msg_namelen,
        (size_t)message.msg_controllen);
    message.msg_name = nowhere;
    message.msg_namelen = -1;
    SAY(recvmsg(fd, &message, MSG_PEEK));
    struct mmsghdr many[2] = {{.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}},
                              {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}}};
    struct timespec wrong = {0, 2000000000};
    SAY(recvmmsg(fd, many, 2, MSG_PEEK, &wrong));
    SAY(recvmmsg(fd, nowhere, 2, MSG_PEEK, NULL));
    SAY(recvmmsg(fd, many, 2, MSG_PEEK, NULL));
    SAY(recvmmsg(fd, many, 0, 0, NULL));
    say("lengths: %u %u", many[0].msg_len, many[1].msg_len);
    receive_next(fd, 100);
    over(fd);
}

static void shutdown01(int fd)
{
    struct sockaddr_in name;
    SAY(shutdown(minus_one, SHUT_RD));
    SAY(shutdown(a_file(), SHUT_RD));
    SAY(shutdown(a_socket(SOCK_STREAM), SHUT_RDWR));
    SAY(shutdown(fd, minus_one));
    SAY(shutdown(fd, 3));
    SAY(shutdown(fd, SHUT_RD));
    SAY(shutdown(fd, SHUT_RD));
    SAY(shutdown(fd, SHUT_WR));
    SAY(shutdown(fd, SHUT_RDWR));
    SAY(shutdown(a_listener(&name), SHUT_RD));
    over(fd);
}

static void getsockname01(int fd)
{
    char name[128] = {0};
    socklen_t size = sizeof name;
    SAY(getsockname(minus_one, (struct sockaddr *)name, &size));
    SAY(getsockname(a_file(), (struct sockaddr *)name, &size));
    SAY(getsockname(fd, nowhere, &size));
    SAY(getsockname(fd, (struct sockaddr *)name, nowhere));
    size = -1;
    SAY(getsockname(fd, (struct sockaddr *)name, &size));
    size = 0;
    SAY(getsockname(fd, (struct sockaddr *)name, &size));
    size = sizeof name;
    SAY(getsockname(a_socket(SOCK_STREAM), (struct sockaddr *)name, &size));
    say("size: %u", size);
    over(fd);
}

static void getpeername01(int fd)
{
    char name[128] = {0};
    int pair[2];
    struct sockaddr_in own;
    socklen_t size = sizeof name;
    SAY(getpeername(minus_one, (struct sockaddr *)name, &size));
    SAY(getpeername(a_file(), (struct sockaddr *)name, &size));
    SAY(getpeername(a_socket(SOCK_STREAM), (struct sockaddr *)name, &size));
    SAY(getpeername(a_listener(&own), (struct sockaddr *)name, &size));
    SAY(getpeername(fd, nowhere, &size));
    SAY(getpeername(fd, (struct sockaddr *)name, nowhere));
    size = -1;
    SAY(getpeername(fd, (struct sockaddr *)name, &size));
    size = sizeof name;
    SAY(getpeername(fd, (struct sockaddr *)name, &size));
    say("size: %u", family() == AF_UNIX ? 0 : size);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    size = sizeof name;
    SAY(getpeername(pair[0], (struct sockaddr *)name, &size));
    say("size: %u", size);
    over(fd);
}

static void epoll_create01(int fd)
{
    SAY_FD(epoll_create(1));
    SAY_FD(epoll_create(100000));
    SAY_FD(epoll_create(0));
    SAY_FD(epoll_create(minus_one));
    SAY_FD(epoll_create1(0));
    SAY_FD(epoll_create1(EPOLL_CLOEXEC));
    SAY_FD(epoll_create1(minus_one));
    over(fd);
}

static void epoll_ctl01(int fd)
{
    int set = MUST(epoll_create1(0)), inner = MUST(epoll_create1(0));
    int regular = MUST(open("/proc/self/exe", O_RDONLY));
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 7}, got;
    SAY(epoll_ctl(minus_one, EPOLL_CTL_ADD, fd, &event));
    SAY(epoll_ctl(set, EPOLL_CTL_ADD, minus_one, &event));
    SAY(epoll_ctl(set, EPOLL_CTL_ADD, regular, &event));
    SAY(epoll_ctl(fd, EPOLL_CTL_ADD, fd, &event));
    SAY(epoll_ctl(set, EPOLL_CTL_ADD, set, &event));
    SAY(epoll_ctl(set, minus_one, fd, &event));
    SAY(epoll_ctl(set, EPOLL_CTL_ADD, fd, nowhere));
    SAY(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    SAY(epoll_ctl(set, EPOLL_CTL_DEL, fd, &event));
    SAY(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    SAY(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    SAY(epoll_ctl(inner, EPOLL_CTL_ADD, set, &event));
    SAY(epoll_ctl(set, EPOLL_CTL_ADD, inner, &event));
    SAY(epoll_wait(set, &got, 1, 0));
    event = (struct epoll_event){.events = EPOLLOUT, .data.u64 = 9};
    SAY(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    SAY(epoll_wait(set, &got, 1, 0));
    say("events %#x, data %llu", got.events, (unsigned long long)got.data.u64);
    event.events |= EPOLLEXCLUSIVE;
    SAY(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    SAY(epoll_ctl(set, EPOLL_CTL_DEL, fd, nowhere));
    event.events = EPOLLEXCLUSIVE | EPOLLONESHOT | EPOLLIN;
    SAY(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    event.events = 0;
    SAY(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    SAY(epoll_wait(set, &got, 1, 0));
    over(fd);
}

static void epoll_wait01(int fd)
{
    int set = MUST(epoll_create1(0)), pipe_fds[2];
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.u64 = 7}, got[8];
    MUST(pipe(pipe_fds));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    SAY(epoll_wait(minus_one, got, 8, 0));
    SAY(epoll_wait(fd, got, 8, 0));
    SAY(epoll_wait(a_file(), got, 8, 0));
    SAY(epoll_wait(set, got, 0, 0));
    SAY(epoll_wait(set, got, minus_one, 0));
    SAY(epoll_wait(set, nowhere, 8, 0));
    SAY(epoll_wait(set, got, 8, 0));
    say("events %#x, data %llu", got[0].events, (unsigned long long)got[0].data.u64);
    order_bytes(fd, 100);
    SAY(epoll_wait(set, got, 8, minus_one));
    say("events %#x", got[0].events);
    event = (struct epoll_event){.events = EPOLLIN, .data.u64 = 8};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, pipe_fds[0], &event));
    CHECK(write(pipe_fds[1], "x", 1) == 1);
    /* Waits in quick succession may be told of rings only: see what differs, docs/sockets.md. */
    rest_ms(1);
    SAY(epoll_wait(set, got, 8, 0));
    SAY(epoll_wait(set, got, 1, 0));
    SAY(epoll_pwait(set, got, 8, 0, nowhere));
    struct timespec wrong = {0, -1};
    SAY(epoll_pwait2(set, got, 8, &wrong, NULL));
    SAY(epoll_pwait2(set, got, 8, nowhere, NULL));
    SAY(poll(nowhere, 1, 0));
    SAY(poll(NULL, 0, 10));
    SAY(select(minus_one, NULL, NULL, NULL, NULL));
    over(fd);
}

static void dup01(int fd)
{
    int copy = dup(fd);
    struct stat one, two;
    MUST(fstat(fd, &one));
    MUST(fstat(copy, &two));
    say("the same file: %d, another number: %d", one.st_ino == two.st_ino, copy != fd);
    SAY(dup(minus_one));
    SAY(fcntl(copy, F_GETFD));
    close(fd);
    order_bytes(copy, 100);
    receive_next(copy, 100);
    over(copy);
}

static void dup201(int fd)
{
    SAY(dup2(minus_one, 120));
    SAY(dup2(fd, minus_one));
    SAY(dup2(fd, 1 << 30));
    SAY(dup2(120, 121));
    SAY(dup2(120, 120));
    SAY(dup2(fd, 120));
    SAY(dup2(120, 121));
    MUST(fcntl(121, F_SETFD, FD_CLOEXEC));
    SAY(dup2(120, 121));
    SAY(fcntl(121, F_GETFD));
    close(fd);
    close(120);
    order_bytes(121, 100);
    receive_next(121, 100);
    over(121);
}

static void dup301(int fd)
{
    SAY(dup3(fd, 120, O_CLOEXEC));
    SAY(fcntl(120, F_GETFD));
    SAY(dup3(fd, 120, 0));
    SAY(fcntl(120, F_GETFD));
    SAY(dup3(fd, fd, 0));
    SAY(dup3(fd, 121, minus_one));
    SAY(dup3(fd, 121, O_NONBLOCK));
    SAY(dup3(minus_one, 121, 0));
    order_bytes(120, 100);
    receive_next(120, 100);
    over(fd);
}

static void close01(int fd)
{
    int pipe_fds[2], copy = dup(fd);
    MUST(pipe(pipe_fds));
    SAY(close(minus_one));
    SAY(close(1 << 30));
    SAY(close(pipe_fds[0]));
    SAY(close(pipe_fds[0]));
    SAY(close(fd));
    SAY(close(fd));
    SAY(send(fd, "x", 1, 0));
    SAY(recv(fd, &(char){0}, 1, 0));
    SAY(poll(&(struct pollfd){fd, POLLIN, 0}, 1, 0));
    order_bytes(copy, 100);
    receive_next(copy, 100);
    over(copy);
}

static void fcntl01(int fd)
{
    int low = fcntl(fd, F_DUPFD, 1);
    say("F_DUPFD: the lowest free: %d", low > 2);
    SAY(fcntl(fd, F_DUPFD, 120));
    SAY(fcntl(fd, F_DUPFD, 120));
    SAY(fcntl(fd, F_DUPFD_CLOEXEC, 120));
    SAY(fcntl(122, F_GETFD));
    SAY(fcntl(fd, F_DUPFD, minus_one));
    SAY(fcntl(fd, F_DUPFD, 1 << 30));
    SAY(fcntl(minus_one, F_DUPFD, 1));
    SAY(fcntl(fd, F_GETFD));
    SAY(fcntl(fd, F_SETFD, FD_CLOEXEC));
    SAY(fcntl(fd, F_GETFD));
    SAY(fcntl(120, F_GETFD));
    SAY(fcntl(fd, F_SETFL, O_NONBLOCK | O_APPEND));
    SAY(fcntl(120, F_GETFL));
    SAY(fcntl(fd, F_SETFL, 0));
    SAY(fcntl(120, F_GETFL));
    SAY(fcntl(fd, 9999));
    SAY(fcntl(minus_one, F_GETFL));
    SAY(fcntl(fd, F_SETOWN, getpid()));
    say("F_GETOWN: %s", fcntl(fd, F_GETOWN) == getpid() ? "own" : "other");
    struct flock lock = {.l_type = F_WRLCK};
    SAY(fcntl(fd, F_GETLK, &lock));
    order_bytes(121, 100);
    receive_next(121, 100);
    over(fd);
}

static void fork01(int fd)
{
    pid_t own = getpid(), child = MUST(fork());
    if (!child) _exit(getppid() == own && getpid() != own ? 42 : 1);
    int status;
    say("waitpid: the child: %d", waitpid(child, &status, 0) == child);
    say("exit: %d", WEXITSTATUS(status));
    order_bytes(fd, 100);
    child = MUST(fork());
    if (!child) {
        receive_next(fd, 60);
        _exit(0);
    }
    wait_child(child);
    incoming.position += 60;
    receive_next(fd, 40);
    SAY(waitpid(child, &status, 0));
    over(fd);
}

static void vfork01(int fd)
{
    static volatile int written;
    static volatile pid_t own;
    own = getpid();
    pid_t child = vfork();
    if (child == 0) {
        /* The memory is the parent's; the descriptors are the child's own. */
        written = getppid() == own ? 42 : 1;
        close(fd);
        _exit(7);
    }
    int status;
    say("waitpid: the child: %d", waitpid(MUST(child), &status, 0) == child);
    say("exit: %d, written: %d", WEXITSTATUS(status), written);
    order_bytes(fd, 100);
    receive_next(fd, 100);
    over(fd);
}

#define CASE(name) {#name, name, on_demand, 0}
const struct torture_case kernel_cases[] = {
    CASE(socket01),      CASE(socket02),       CASE(bind01),      CASE(listen01),
    CASE(accept01),      CASE(connect01),      CASE(send01),      CASE(sendmsg01),
    CASE(recv01),        CASE(recvmsg01),      CASE(shutdown01),  CASE(getsockname01),
    CASE(getpeername01), CASE(epoll_create01), CASE(epoll_ctl01), CASE(epoll_wait01),
    CASE(dup01),         CASE(dup201),         CASE(dup301),      CASE(close01),
    CASE(fcntl01),       CASE(fork01),         CASE(vfork01),     {NULL, NULL, NULL, 0},
};
