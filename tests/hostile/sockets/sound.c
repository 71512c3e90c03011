/* The sound programs: a server that gives every byte back, and a client that counts how long
 * each answer took. They use the C library, and nothing else. */
#include "hostile.h"

#include <dirent.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/wait.h>

long now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

int dial(int port, int own_port, bool marked)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, zero = 0;
    struct sockaddr_in own = loopback(own_port), other = loopback(port);
    MUST(fd >= 0);
    if (marked) MUST(!setsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &zero, sizeof zero));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (own_port) MUST(!bind(fd, (struct sockaddr *)&own, sizeof own));
    MUST(!connect(fd, (struct sockaddr *)&other, sizeof other));
    return fd;
}

bool ping(int fd, unsigned round)
{
    unsigned char out[PING_BYTES], in[PING_BYTES];
    for (int i = 0; i < PING_BYTES; i++) out[i] = round * 31 + i;
    if (send(fd, out, sizeof out, MSG_NOSIGNAL) != sizeof out) return false;
    for (size_t got = 0; got < sizeof in;) {
        ssize_t now = recv(fd, in + got, sizeof in - got, 0);
        if (now <= 0) return false;
        got += now;
    }
    if (memcmp(out, in, sizeof in)) {
        printf("WRONG BYTES in round %u\n", round);
        exit(4);
    }
    return true;
}

int talk(int port, int own_port, int rounds)
{
    long slowest_us = 0;
    int fd = dial(port, own_port, false);
    for (int round = 0; round < rounds; round++) {
        long began_us = now_us();
        if (!ping(fd, round)) {
            printf("ended in round %d: %s\n", round, strerror(errno));
            return 1;
        }
        long took_us = now_us() - began_us;
        if (took_us > slowest_us) slowest_us = took_us;
        if (round % 8 == 0) pause_ms(1);
    }
    printf("rounds %d slowest_us %ld\n", rounds, slowest_us);
    return 0;
}

/* The server. */

struct guest {
    int fd;
    size_t kept, sent;
    bool is_unread;
    char bytes[16 << 10];
};

static struct guest *guests[4096];
static bool reads_nothing;
static int set;

static void end(struct guest *guest)
{
    guests[guest->fd] = NULL;
    close(guest->fd);
    free(guest);
}

static void watch(struct guest *guest)
{
    uint32_t events = guest->sent < guest->kept ? EPOLLOUT : reads_nothing ? 0 : EPOLLIN;
    struct epoll_event event = {.events = events, .data.fd = guest->fd};
    MUST(!epoll_ctl(set, EPOLL_CTL_MOD, guest->fd, &event));
}

/* One read and one write at most, so that no guest keeps the others waiting. */
static void give_back(struct guest *guest)
{
    if (guest->sent == guest->kept && !reads_nothing) {
        ssize_t got = recv(guest->fd, guest->bytes, sizeof guest->bytes, 0);
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) return end(guest);
        guest->kept = got;
        guest->sent = 0;
    }
    ssize_t put =
        send(guest->fd, guest->bytes + guest->sent, guest->kept - guest->sent, MSG_NOSIGNAL);
    if (put < 0 && errno != EAGAIN) return end(guest);
    if (put > 0) guest->sent += put;
    watch(guest);
}

static int count_of(const char *folder)
{
    DIR *open = opendir(folder);
    int count = 0;
    MUST(open);
    while (readdir(open)) count++;
    closedir(open);
    return count;
}

extern char **environ;

static void spawn(void)
{
    char *const arguments[] = {"true", NULL};
    long began_us = now_us();
    pid_t child;
    MUST(!posix_spawnp(&child, "true", NULL, NULL, arguments, environ));
    waitpid(child, NULL, 0);
    printf("spawn_us %ld\n", now_us() - began_us);
}

/* Commands come on standard input, each with one answer. */
static void obey(void)
{
    char command;
    if (read(0, &command, 1) != 1) exit(0);
    if (command == 'r')
        printf("fds %d threads %d\n", count_of("/proc/self/fd"), count_of("/proc/self/task"));
    if (command == 's') spawn();
    if (command == 'u') {
        reads_nothing = true;
        for (int fd = 0; fd < 4096; fd++)
            if (guests[fd]) watch(guests[fd]);
        printf("unread\n");
    }
    fflush(stdout);
}

static void *give_all_back(void *of)
{
    int fd = (int)(intptr_t)of;
    char bytes[16 << 10];
    ssize_t got;
    while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0)
        for (ssize_t sent = 0; sent < got;) {
            ssize_t put = send(fd, bytes + sent, got - sent, MSG_NOSIGNAL);
            if (put <= 0) goto over;
            sent += put;
        }
over:
    close(fd);
    return NULL;
}

static void *accept_blocking(void *of)
{
    int listener = (int)(intptr_t)of;
    for (;;) {
        pthread_t thread;
        int fd = accept(listener, NULL, NULL), one = 1;
        if (fd < 0) continue;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        MUST(!pthread_create(&thread, NULL, give_all_back, (void *)(intptr_t)fd));
        pthread_detach(thread);
    }
    return NULL;
}

static void welcome(int listener)
{
    int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    struct guest *guest = calloc(1, sizeof *guest);
    if (fd < 0) return free(guest);
    MUST(guest && fd < 4096);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    guest->fd = fd;
    guests[fd] = guest;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    MUST(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
}

static void loop(int listener)
{
    struct epoll_event found[16];
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    set = epoll_create1(EPOLL_CLOEXEC);
    MUST(!epoll_ctl(set, EPOLL_CTL_ADD, listener, &event));
    event.data.fd = 0;
    MUST(!epoll_ctl(set, EPOLL_CTL_ADD, 0, &event));
    for (;;) {
        int count = epoll_wait(set, found, 16, -1);
        for (int i = 0; i < count; i++) {
            int fd = found[i].data.fd;
            if (fd == listener)
                welcome(listener);
            else if (fd == 0)
                obey();
            else if (guests[fd])
                give_back(guests[fd]);
        }
    }
}

int serve(const char *mode, int port)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    struct sockaddr_in at = loopback(port);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    MUST(!bind(listener, (struct sockaddr *)&at, sizeof at) && !listen(listener, 64));
    printf("serving %d\n", own_port_of(listener));
    fflush(stdout);
    if (!strcmp(mode, "events")) {
        loop(listener);
        return 0;
    }
    pthread_t thread;
    MUST(!pthread_create(&thread, NULL, accept_blocking, (void *)(intptr_t)listener));
    for (;;) obey();
}

int main(int count, char **words)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *role = count > 1 ? words[1] : "";
    int port = count > 3 ? atoi(words[3]) : 0, other = count > 4 ? atoi(words[4]) : 0;
    if (!strcmp(role, "serve")) return serve(words[2], port);
    if (!strcmp(role, "talk")) return talk(atoi(words[2]), port, other);
    if (!strcmp(role, "switch")) return switch_lanes(words[2], port, other);
    if (!strcmp(role, "greet")) return greet(words[2], port);
    if (!strcmp(role, "squat")) return squat(words[2], port, other);
    if (!strcmp(role, "lie")) return lie(words[2], port);
    fprintf(stderr, "usage: hostile serve events|threads PORT | talk PORT OWN_PORT ROUNDS |\n"
                    "       switch wait|dial PORT CALLS |\n"
                    "       greet KIND PORT | squat KIND PORT OTHER_PORT | lie KIND PORT\n");
    return 2;
}
