/* One connection whose two directions change between the line and the ring thousands of times
 * under load: two processes, each with a thread that sends and one that receives. Each byte is a
 * function of its position, and the ways to send and to receive change from call to call. A send
 * with MSG_ZEROCOPY, which means nothing to a socket that has not asked for it, goes over the line,
 * and so does a splice; what comes next goes back to the ring. */
#include "hostile.h"

#include <pthread.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

/* Each end sends at most so far ahead of what it has received: else all would lie in the kernel's
 * buffers, and both ends stay on the line. */
enum { MOST_BYTES = 2000, AHEAD_BYTES = 4000, PERIOD_BYTES = 251 * 256 };

struct half {
    int fd, other_fd, calls;
    unsigned seed, random;
    _Atomic uint64_t position;
    struct half *back;
};

static unsigned char byte_at(unsigned seed, uint64_t position)
{
    return (position % 251 * 7 + position / 251 + seed) % 256;
}

static unsigned next(struct half *half)
{
    half->random = half->random * 1103515245u + 12345u;
    return half->random >> 8;
}

/* The bytes of a period, twice, so that any stretch of them lies in one piece. */
static int file_of(unsigned seed, unsigned char **bytes)
{
    size_t len = 2 * PERIOD_BYTES;
    int file = memfd_create("switch", MFD_CLOEXEC);
    MUST(file >= 0 && !ftruncate(file, len));
    *bytes = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    MUST(*bytes != MAP_FAILED);
    for (size_t at = 0; at < len; at++) (*bytes)[at] = byte_at(seed, at);
    return file;
}

static void *send_all(void *of)
{
    struct half *half = of;
    unsigned char *bytes;
    int file = file_of(half->seed, &bytes), tube[2];
    MUST(!pipe(tube));
    for (int call = 0; call < half->calls; call++) {
        size_t len = 1 + next(half) % MOST_BYTES, begin = half->position % PERIOD_BYTES;
        off_t offset = begin;
        struct iovec parts[2] = {{bytes + begin, len / 2}, {bytes + begin + len / 2, len - len / 2}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        int fd = call % 2 ? half->fd : half->other_fd;
        ssize_t put;
        while (half->position > half->back->position + AHEAD_BYTES) sched_yield();
        switch (next(half) % 9) {
        case 0: case 1: put = send(fd, bytes + begin, len, MSG_ZEROCOPY); break;
        case 2:
            MUST(write(tube[1], bytes + begin, len) == (ssize_t)len);
            for (put = 0; put < (ssize_t)len;) {
                ssize_t now = splice(tube[0], NULL, fd, NULL, len - put, 0);
                MUST(now > 0);
                put += now;
            }
            break;
        case 7: put = sendfile(fd, file, &offset, len); break;
        case 3: put = write(fd, bytes + begin, len); break;
        case 4: put = writev(fd, parts, 2); break;
        case 5: put = sendmsg(fd, &message, MSG_NOSIGNAL); break;
        case 6: put = send(fd, bytes + begin, len, MSG_DONTWAIT); break;
        default: put = send(fd, bytes + begin, len, MSG_MORE);
        }
        if (put < 0 && errno == EAGAIN) {
            struct pollfd room = {fd, POLLOUT, 0};
            poll(&room, 1, 1000);
            continue;
        }
        MUST(put > 0);
        half->position += put;
    }
    MUST(!shutdown(half->fd, SHUT_WR));
    return NULL;
}

static ssize_t receive(struct half *half, unsigned char *bytes, size_t len)
{
    struct iovec parts[2] = {{bytes, len / 2}, {bytes + len / 2, len - len / 2}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    struct pollfd some = {half->fd, POLLIN, 0};
    switch (next(half) % 6) {
    case 0: return recv(half->fd, bytes, len, 0);
    case 1: return read(half->other_fd, bytes, len);
    case 2: return readv(half->fd, parts, 2);
    case 3: return recvmsg(half->other_fd, &message, 0);
    case 4: return recv(half->fd, bytes, len, MSG_DONTWAIT);
    default:
        poll(&some, 1, 1000);
        recv(half->fd, bytes, len, MSG_PEEK | MSG_DONTWAIT);
        return recv(half->fd, bytes, len, MSG_DONTWAIT);
    }
}

static uint64_t receive_all(struct half *half)
{
    static unsigned char bytes[MOST_BYTES];
    uint64_t position = 0;
    for (;;) {
        ssize_t got = receive(half, bytes, 1 + next(half) % MOST_BYTES);
        if (got < 0 && errno == EAGAIN) continue;
        MUST(got >= 0);
        if (!got) break;
        for (ssize_t at = 0; at < got; at++, position++)
            if (bytes[at] != byte_at(half->seed, position)) {
                printf("WRONG at %llu\n", (unsigned long long)position);
                exit(4);
            }
        half->position = position;
    }
    half->position = UINT64_MAX / 2;
    return position;
}

static int end_at(const char *side, int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!strcmp(side, "dial")) return dial(port, 0, false);
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd;
    MUST(!bind(listener, (struct sockaddr *)&at, sizeof at) && !listen(listener, 1));
    printf("serving %d\n", own_port_of(listener));
    MUST((fd = accept(listener, NULL, NULL)) >= 0);
    close(listener);
    return fd;
}

int switch_lanes(const char *side, int port, int calls)
{
    int fd = end_at(side, port), other_fd = dup(fd);
    bool dials = !strcmp(side, "dial");
    struct half in = {fd, other_fd, calls, !dials, 3 + dials, 0, NULL};
    struct half out = {fd, other_fd, calls, dials, 1 + dials, 0, &in};
    pthread_t sender;
    MUST(!pthread_create(&sender, NULL, send_all, &out));
    uint64_t received = receive_all(&in);
    pthread_join(sender, NULL);
    close(other_fd);
    close(fd);
    printf("sent %llu received %llu\n", (unsigned long long)out.position,
           (unsigned long long)received);
    return 0;
}
