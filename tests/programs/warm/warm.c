// Preloaded in front of the library: upgrades each new TCP connection whose two ends are in one process
// before the program's first byte, so that a test suite meets shared memory from its first call on.
//
// When the program accepts a connection, this file looks for the other end among the descriptors of the
// process and sends bytes to and fro until the library has had enough calls to upgrade it
// (BAREWIRE_CALLS_BEFORE=1). Without the library the same bytes pass through the kernel, so a run without it
// sees the same side effects.
//
// A suite whose client is another thread, which may read or write at that moment, cannot be run this way.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROUNDS = 24, LOOKS = 2000, QUICK_LOOKS = 100, PAUSE_US = 100, DESCRIPTORS = 512 };

static ssize_t (*real_send)(int, const void *, size_t, int);
static ssize_t (*real_recv)(int, void *, size_t, int);

// One byte from one end to the other, without waiting for ever.
static bool pass(int from, int to) {
    char byte = 'w';
    if (real_send(from, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1) return false;
    for (int look = 0; look < LOOKS; look++) {
        ssize_t count = real_recv(to, &byte, 1, MSG_DONTWAIT);
        if (count >= 0) return count == 1;
        if (errno != EAGAIN && errno != EINTR) return false;
        if (look > QUICK_LOOKS) usleep(PAUSE_US);
    }
    return false;
}

static bool is_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b) {
    if (a->ss_family != b->ss_family) return false;
    if (a->ss_family == AF_INET) {
        const struct sockaddr_in *x = (const void *)a, *y = (const void *)b;
        return x->sin_port == y->sin_port && x->sin_addr.s_addr == y->sin_addr.s_addr;
    }
    if (a->ss_family == AF_INET6) {
        const struct sockaddr_in6 *x = (const void *)a, *y = (const void *)b;
        return x->sin6_port == y->sin6_port && !memcmp(&x->sin6_addr, &y->sin6_addr, sizeof x->sin6_addr);
    }
    return false;
}

static bool names_of(int fd, struct sockaddr_storage *own, struct sockaddr_storage *other) {
    socklen_t own_size = sizeof *own, other_size = sizeof *other;
    return !getsockname(fd, (void *)own, &own_size) && !getpeername(fd, (void *)other, &other_size);
}

static void warm(int fd) {
    struct sockaddr_storage own, other, its_own, its_other;
    int type;
    socklen_t size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) || type != SOCK_STREAM) return;
    if (!names_of(fd, &own, &other)) return;
    for (int end = 3; end < DESCRIPTORS; end++) {
        if (end == fd || !names_of(end, &its_own, &its_other)) continue;
        if (!is_same(&own, &its_other) || !is_same(&other, &its_own)) continue;
        for (int round = 0; round < ROUNDS; round++)
            if (!pass(end, fd) || !pass(fd, end)) return;
        return;
    }
}

static int accepted(int fd) {
    int before = errno;
    if (fd >= 0) {
        if (!real_send) {
            real_recv = dlsym(RTLD_NEXT, "recv");
            real_send = dlsym(RTLD_NEXT, "send");
        }
        warm(fd);
        errno = before;
    }
    return fd;
}

int accept(int fd, struct sockaddr *address, socklen_t *size) {
    int (*real)(int, struct sockaddr *, socklen_t *) = dlsym(RTLD_NEXT, "accept");
    return accepted(real(fd, address, size));
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
    int (*real)(int, struct sockaddr *, socklen_t *, int) = dlsym(RTLD_NEXT, "accept4");
    return accepted(real(fd, address, size, flags));
}
