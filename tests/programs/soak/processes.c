/* The processes that live as long as the soak: servers, clients, and helpers, to whom
 * connections are given. */
#include "soak.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

/* What a client says first. */
struct greeting {
    uint64_t seed, is_mortal;
};

static const struct life nobody;

/* An address of this host: of server 1 that of IPv6. */
static socklen_t address_of(unsigned server, int port, struct sockaddr_storage *address)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port),
                               .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port),
                               .sin_addr = {htonl(INADDR_LOOPBACK)}};
    memset(address, 0, sizeof *address);
    if (server == 1) return memcpy(address, &six, sizeof six), sizeof six;
    return memcpy(address, &four, sizeof four), sizeof four;
}

static void begin_thread(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 1 << 18);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int error = pthread_create(&thread, &attributes, run, argument);
    pthread_attr_destroy(&attributes);
    if (error) fault(&nobody, "pthread_create: %s", strerrorname_np(error));
}

/* Most programs that talk do this; without it scenarios take long. */
static void hurry(const struct life *life, int fd)
{
    int on = 1;
    if (life->seed / CLIENTS % 16)
        MUST(life, setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
}

static void *answer(void *argument)
{
    int fd = (intptr_t)argument;
    struct greeting greeting;
    ssize_t got = recv(fd, &greeting, sizeof greeting, MSG_WAITALL);
    if (got != sizeof greeting) {
        /* A client that was killed at once; one that was not misses us. */
        if (got < 0)
            fault(&nobody, "no greeting on %d: %s", fd, strerrorname_np(errno));
        close(fd);
        return NULL;
    }
    struct life life = {.seed = greeting.seed, .side = 1, .is_mortal = greeting.is_mortal,
                        .random = mix(greeting.seed + 1)};
    enter(&life);
    hurry(&life, fd);
    live(&life, fd);
    return NULL;
}

int serve(unsigned server)
{
    struct sockaddr_storage address;
    socklen_t size = address_of(server, 0, &address);
    int listener = MUST(&nobody, socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    MUST(&nobody, bind(listener, (struct sockaddr *)&address, size));
    MUST(&nobody, listen(listener, 128));
    MUST(&nobody, getsockname(listener, (struct sockaddr *)&address, &size));
    shared->ports[server] = ntohs(((struct sockaddr_in *)&address)->sin_port);
    while (!shared->is_over) {
        struct pollfd entry = {listener, POLLIN, 0};
        if (poll(&entry, 1, 200) <= 0) continue;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) begin_thread(answer, (void *)(intptr_t)fd);
        if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            fault(&nobody, "accept: %s", strerrorname_np(errno));
    }
    return 0;
}

/* Clients. */

struct opener {
    unsigned client;
    uint64_t random, only;
};

static int dial(struct life *life, unsigned server)
{
    struct sockaddr_storage address;
    socklen_t size = address_of(server, shared->ports[server], &address);
    int wait = draw(life, 2) ? SOCK_NONBLOCK : 0, error;
    socklen_t error_size = sizeof error;
    int fd = MUST(life, socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | wait, 0));
    if (connect(fd, (struct sockaddr *)&address, size) == 0) return fd;
    if (errno != EINPROGRESS) fault(life, "connect: %s", strerrorname_np(errno));
    struct pollfd entry = {fd, POLLOUT, 0};
    if (poll(&entry, 1, 10000) != 1) fault(life, "connect: not in time");
    MUST(life, getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size));
    if (error) fault(life, "connect: %s", strerrorname_np(error));
    return fd;
}

static void open_one(unsigned client, uint64_t seed)
{
    struct life life = {.seed = seed, .random = mix(seed + 2), .is_mortal = client == MORTAL_CLIENT};
    struct plan plan = plan_of(seed);
    struct greeting greeting = {seed, life.is_mortal};
    enter(&life);
    int fd = dial(&life, plan.server);
    if (send(fd, &greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting)
        fault(&life, "the greeting: %s", strerrorname_np(errno));
    hurry(&life, fd);
    live(&life, fd);
}

static void *open_many(void *argument)
{
    struct opener opener = *(struct opener *)argument;
    free(argument);
    while (!shared->is_over) {
        uint64_t seed = mix(opener.random++);
        /* The seed says by whom it is opened. */
        seed = opener.only ? opener.only : seed - seed % CLIENTS + opener.client;
        bool is_mine = !opener.only || opener.only % CLIENTS == opener.client;
        if (shared->is_paused || !is_mine || (opener.only && shared->left-- <= 0))
            rest_us(20000);
        else
            open_one(opener.client, seed);
    }
    return NULL;
}

int open_connections(unsigned client, uint64_t seed, unsigned threads, uint64_t only)
{
    for (unsigned i = 0; i < threads; i++) {
        struct opener *opener = malloc(sizeof *opener);
        *opener = (struct opener){client, mix(mix(seed + client) + i), only};
        begin_thread(open_many, opener);
    }
    while (!shared->is_over) rest_us(50000);
    /* Whoever is yet in the middle of it is done when the table of lives is empty. */
    return 0;
}

/* Helpers. */

struct gift {
    struct life life;
    int fd;
};

static void *take(void *argument)
{
    struct gift gift = *(struct gift *)argument;
    free(argument);
    if (gift.life.place < LIVES_MAX)
        atomic_store(&shared->lives[gift.life.place].pid, getpid());
    live(&gift.life, gift.fd);
    return NULL;
}

int help(void)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    while (!shared->is_over) {
        struct pollfd entry = {TAKING_FD, POLLIN, 0};
        if (poll(&entry, 1, 200) <= 0) continue;
        struct gift *gift = malloc(sizeof *gift);
        struct iovec part = {&gift->life, sizeof gift->life};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                                 .msg_controllen = sizeof control};
        ssize_t got = recvmsg(TAKING_FD, &message, MSG_CMSG_CLOEXEC);
        if (got != sizeof gift->life || !message.msg_controllen)
            fault(&nobody, "a gift of %zd bytes: %s", got, strerrorname_np(errno));
        memcpy(&gift->fd, CMSG_DATA(&control.header), sizeof gift->fd);
        begin_thread(take, gift);
    }
    return 0;
}
