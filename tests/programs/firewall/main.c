/*
 * Two busy connections in a network namespace of their own, whose packets are dropped, rejected or lost with
 * the interface in the middle:
 *
 *     firewall down|drop|reject
 *
 * One connection goes to and fro with 8 bytes at a time, the other sends 8 bytes at a time one way. Their ends
 * poll and never sleep: what wakes a sleeper goes through the kernel in any case. Says whether both stop while
 * the rule is there; and for a rule that drops, whether both go on after it with each byte in its place. A
 * connection counts as stopped when it has moved nothing for a second.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PORT = 7000,
    SEND_BYTES = 8,
    BUSY_BYTES = 1 << 18, /* by then it is upgraded */
    LIMIT_MS = 60000,
    STOP_MS = 10000, /* stated is less than a second; under contention it takes longer */
    REST_MS = 1000,
};

/* What the ends of a connection and the parent share. */
struct shared {
    atomic_ulong moved; /* bytes that the server has read */
    atomic_ulong sent;
    atomic_bool over; /* the client is to end */
    atomic_int error; /* what the client was told */
};

struct connection {
    const char *name;
    bool answers;
    int port;
    struct shared *shared;
    pid_t ends[2];
};

static struct connection connections[2] = {
    {.name = "to and fro", .answers = true, .port = PORT},
    {.name = "one way", .port = PORT + 1},
};

static void fail(const char *what)
{
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

static long now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void pause_ms(long ms) { poll(NULL, 0, ms); }

static struct sockaddr_in address(int port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
}

static void set_loopback(bool up)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = up ? IFF_UP | IFF_RUNNING : 0};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (ioctl(fd, SIOCSIFFLAGS, &request)) fail("lo");
    close(fd);
}

static void rule(const char *verdict)
{
    char text[256];
    snprintf(text, sizeof text,
             "nft 'table inet t { chain c { type filter hook input priority 0; tcp dport %d-%d %s; }; }'",
             PORT, PORT + 1, verdict);
    if (system(text)) fail("nft");
}

static unsigned char byte_at(unsigned long position) { return position * 131 + position / 251; }

static void fill(unsigned char *bytes, size_t count, unsigned long position)
{
    for (size_t i = 0; i < count; i++) bytes[i] = byte_at(position + i);
}

/* Waits without a sleep until a call has done something; lets others run meanwhile. */
static bool is_to_try_again(ssize_t result)
{
    return result < 0 && errno == EAGAIN && !sched_yield();
}

static ssize_t read_some(int fd, unsigned char *bytes, size_t count)
{
    ssize_t result;
    do result = recv(fd, bytes, count, MSG_DONTWAIT);
    while (is_to_try_again(result));
    return result;
}

static bool send_all(int fd, const unsigned char *bytes, size_t count)
{
    for (size_t sent = 0; sent < count;) {
        ssize_t result = send(fd, bytes + sent, count - sent, MSG_DONTWAIT);
        if (is_to_try_again(result)) continue;
        if (result < 0) return false;
        sent += result;
    }
    return true;
}

static void serve(struct connection *own, int listener)
{
    unsigned char bytes[1 << 16];
    int fd = accept(listener, NULL, NULL);
    for (unsigned long position = 0;; own->shared->moved = position) {
        ssize_t got = read_some(fd, bytes, sizeof bytes);
        if (got == 0) exit(0);
        if (got < 0) exit(2);
        for (ssize_t i = 0; i < got; i++)
            if (bytes[i] != byte_at(position + i)) exit(3);
        if (own->answers && !send_all(fd, bytes, got)) exit(2);
        position += got;
    }
}

static void drive(struct connection *own)
{
    unsigned char bytes[SEND_BYTES];
    struct sockaddr_in to = address(own->port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) exit(4);
    while (!own->shared->over) {
        unsigned long sent = own->shared->sent;
        fill(bytes, sizeof bytes, sent);
        bool good = send_all(fd, bytes, sizeof bytes);
        for (size_t got = 0; good && own->answers && got < sizeof bytes;) {
            ssize_t more = read_some(fd, bytes + got, sizeof bytes - got);
            good = more > 0;
            got += good ? more : 0;
        }
        if (!good) {
            own->shared->error = errno;
            exit(0);
        }
        own->shared->sent = sent + sizeof bytes;
        sched_yield();
    }
    shutdown(fd, SHUT_WR);
    recv(fd, bytes, 1, 0);
    exit(0);
}

static void start(struct connection *own)
{
    struct sockaddr_in at = address(own->port);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    own->shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1)) fail("listen");
    for (int i = 0; i < 2; i++) {
        own->ends[i] = fork();
        if (own->ends[i]) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (i) drive(own);
        serve(own, listener);
    }
    close(listener);
}

/* Waits until a connection has moved more than `bytes`. */
static bool goes_on(struct connection *own, unsigned long bytes)
{
    for (long end = now_ms() + LIMIT_MS; own->shared->moved <= bytes; pause_ms(10))
        if (now_ms() > end) return false;
    return true;
}

static bool stops(struct connection *own)
{
    long begin = now_ms(), last_ms = begin;
    unsigned long last = own->shared->moved;
    while (now_ms() - last_ms < REST_MS) {
        if (now_ms() - begin > STOP_MS) return false;
        pause_ms(10);
        unsigned long moved = own->shared->moved;
        if (moved != last) last = moved, last_ms = now_ms();
    }
    return true;
}

/* Whether both ends end well, with all that was sent read. */
static bool ends_well(struct connection *own)
{
    bool well = true;
    own->shared->over = true;
    for (int i = 0; i < 2; i++) {
        int status;
        for (long end = now_ms() + LIMIT_MS; waitpid(own->ends[i], &status, WNOHANG) == 0; pause_ms(10))
            if (now_ms() > end) kill(own->ends[i], SIGKILL);
        if (status) printf("%s: an end has ended with %x\n", own->name, status), well = false;
    }
    return well && own->shared->moved == own->shared->sent;
}

static void end_by_force(struct connection *own)
{
    for (int i = 0; i < 2; i++) {
        kill(own->ends[i], SIGKILL);
        waitpid(own->ends[i], NULL, 0);
    }
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    bool rejects = !strcmp(kind, "reject");
    if (unshare(CLONE_NEWNET)) fail("unshare");
    signal(SIGPIPE, SIG_IGN);
    set_loopback(true);
    for (int i = 0; i < 2; i++) start(&connections[i]);
    unsetenv("LD_PRELOAD"); /* for nft */
    for (int i = 0; i < 2; i++)
        if (!goes_on(&connections[i], BUSY_BYTES)) printf("%s: slow\n", connections[i].name);

    if (!strcmp(kind, "down")) set_loopback(false);
    else rule(rejects ? "reject with tcp reset" : "drop");
    unsigned long moved[2];
    for (int i = 0; i < 2; i++) {
        bool stopped = stops(&connections[i]);
        printf("%s: %s\n", connections[i].name, stopped ? "stops" : "GOES ON");
        moved[i] = connections[i].shared->moved;
    }
    if (!strcmp(kind, "down")) set_loopback(true);
    else if (system("nft flush ruleset")) fail("nft");

    for (int i = 0; i < 2; i++) {
        struct connection *own = &connections[i];
        if (rejects) {
            printf("%s: %s\n", own->name, own->shared->error == ECONNRESET ? "reset" : "NOT RESET");
            end_by_force(own);
            continue;
        }
        printf("%s: %s\n", own->name, goes_on(own, moved[i]) ? "goes on afterwards" : "STAYS STOPPED");
        printf("%s: %s\n", own->name, ends_well(own) ? "complete" : "NOT COMPLETE");
    }
    return 0;
}
