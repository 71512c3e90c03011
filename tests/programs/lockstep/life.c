/* Calls that others see: signals, children, programs, descriptors in messages, threads; and what the
 * coordinator needs. See lockstep.h. */
#include "lockstep.h"

// A read or wait that a signal interrupts.
void op_alarm(struct slot *s) {
    alarms = 0;
    handle(SIGALRM, on_alarm, C.a[4] % 2 ? SA_RESTART : 0);
    ring(8);
    struct timeval t = {.tv_usec = 36000};
    setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    struct pollfd p = {s->fd, C.a[5] % 2 ? POLLIN : POLLRDHUP, 0};
    struct epoll_event e[4];
    sigset_t all, none;
    sigemptyset(&none), sigfillset(&all);
    long rc;
    int n = want(C.a[6]);
    switch (C.a[1] % 5) {
    case 0:
        who("alarm+recv", s), rc = recv(s->fd, buf, n, 0);
        result(rc), taken(s, rc);
        break;
    case 1:
        who("alarm+recv all", s), rc = recv(s->fd, buf, n, 0);
        result(rc), taken(s, rc);
        break;
    case 2: who("alarm+poll", s), result(poll(&p, 1, 30)), say(" %x", p.revents); break;
    case 3:
        if (S.set[0] < 0) break;
        who("alarm+epoll", s), rc = epoll_pwait(S.set[0], e, 4, 24, C.a[5] % 2 ? &all : NULL);
        result(rc < 0 ? rc : rc > 0);
        break;
    default: {
        struct timespec ts = {.tv_nsec = 24000000};
        who("alarm+ppoll", s), rc = ppoll(&p, 1, &ts, C.a[5] % 3 ? &all : &none);
        result(rc), say(" %x", p.revents);
    }
    }
    ring(0);
    say(" alarms %d", alarms > 0 ? 1 : 0);
    alarms = 0;
}
// A child that makes one call on what it shares with us.
void op_fork(struct slot *s) {
    (void)s;
    int p[2];
    if (pipe(p)) return say("no pipe");
    pid_t child = C.a[8] % 5 ? fork() : _Fork();
    if (child == 0) {
        C.code = inner(C.a[9]);
        memset(&R, 0, sizeof R);
        run(C.code, pick(C.a[0]));
        if (write(p[1], &R, sizeof R) < 0) _exit(1);
        _exit(0);
    }
    close(p[1]);
    struct reply r = {0};
    int status = -1;
    if (read(p[0], &r, sizeof r) != sizeof r) say("child said nothing ");
    waitpid(child, &status, 0);
    close(p[0]);
    R = r;
    say(" in child, status %x", status);
}
static char *hex(const void *p, size_t n) {
    char *t = malloc(2 * n + 1);
    for (size_t i = 0; i < n; i++) sprintf(t + 2 * i, "%02x", ((const uint8_t *)p)[i]);
    return t;
}
void unhex(const char *t, void *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned v;
        sscanf(t + 2 * i, "%2x", &v);
        ((uint8_t *)p)[i] = (uint8_t)v;
    }
}
extern char **environ;
// What is unread when a descriptor goes to another program comes there later, by way of the other end or
// of a relay (docs/sockets.md): so these calls are made only when nothing is.
int is_unread(void) {
    for (int c = 0; c < 2; c++)
        for (int d = 0; d < 2; d++)
            if (C.unread[c][d]) return 1;
    return 0;
}
// Another program that inherits all and makes one call.
void op_spawn(struct slot *s) {
    (void)s;
    int p[2];
    if (is_unread()) return say("unread");
    if (pipe(p)) return say("no pipe");
    C.code = inner(C.a[9]);
    char number[16];
    sprintf(number, "%d", p[1]);
    char *argv[] = {"lock", "@spawned", hex(&S, sizeof S), hex(&C, sizeof C), number, NULL};
    pid_t child = -1;
    if (C.a[8] % 2) {
        posix_spawn(&child, "/proc/self/exe", NULL, NULL, argv, environ);
    } else if ((child = vfork()) == 0) {
        execv("/proc/self/exe", argv);
        _exit(9);
    }
    close(p[1]);
    struct reply r = {0};
    int status = -1;
    if (read(p[0], &r, sizeof r) != sizeof r) say("spawned said nothing ");
    waitpid(child, &status, 0);
    close(p[0]);
    R = r;
    say(" spawned, status %x", status);
}
// The worker goes on as the next program.
void op_exec(struct slot *s) {
    (void)s;
    if (is_unread()) return say("unread");
    for (int i = 0; i < SLOTS; i++) {
        int fd = S.slot[i].fd;
        if (fd >= 0 && fcntl(fd, F_GETFD) & FD_CLOEXEC) S.slot[i].fd = -1;
    }
    char *argv[] = {"lock", "@exec", hex(&S, sizeof S), NULL};
    execv("/proc/self/exe", argv);
    say("exec failed %d", errno);
}
// A descriptor to ourselves, only where nothing is unread.
void op_pass(struct slot *s) {
    struct slot *t = spare();
    if (!t) return say("none");
    for (int i = 0; i < 4; i++)
        if (C.unread[s->conn][i & 1]) return say("unread");
    union {
        char b[CMSG_SPACE(4)];
        struct cmsghdr h;
    } u = {0};
    struct iovec v = {"x", 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = u.b, .msg_controllen = sizeof u.b};
    u.h = (struct cmsghdr){CMSG_LEN(4), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(&u.h), &s->fd, 4);
    who("SCM_RIGHTS", s), result(sendmsg(S.pair[0], &m, 0));
    char x;
    v.iov_base = &x;
    result(recvmsg(S.pair[1], &m, MSG_DONTWAIT));
    int fd;
    memcpy(&fd, CMSG_DATA(&u.h), 4);
    *t = (struct slot){fd, s->conn, s->side};
}

// ---- a thread that waits, while somebody does something --------------------------------------
static pthread_t thread;
int threaded;
static struct {
    int what, fd, n, set, events;
    long rc;
    int error;
    struct epoll_event e[8];
    struct pollfd p;
    struct slot s;
    uint8_t bytes[32768];
} T;
static void *waiting(void *x) {
    (void)x;
    switch (T.what) {
    case 0: T.rc = recv(T.fd, T.bytes, T.n, 0); break;
    case 1: T.rc = recv(T.fd, T.bytes, T.n, 0); break;
    case 2: T.rc = poll(&T.p, 1, 40); break;
    case 3: T.rc = epoll_wait(T.set, T.e, 8, 40); break;
    case 4: T.rc = recv(T.fd, T.bytes, T.n, MSG_PEEK); break;
    case 5: T.rc = read(T.fd, T.bytes, T.n); break;
    case 6: {
        fd_set in;
        FD_ZERO(&in);
        FD_SET(T.fd, &in);
        struct timeval t = {.tv_usec = 40000};
        T.rc = select(T.fd + 1, &in, NULL, NULL, &t);
    }
    }
    T.error = errno;
    return NULL;
}
void op_thread(struct slot *s) {
    if (threaded) return say("busy");
    memset(&T, 0, sizeof T);
    T.what = C.a[1] % 7, T.s = *s, T.fd = s->fd, T.n = want(C.a[2]), T.set = S.set[C.a[3] % SETS];
    T.p = (struct pollfd){s->fd, events_of(C.a[4]) & ~(POLLOUT | POLLWRNORM), 0};
    if (T.what == 3 && T.set < 0) T.what = 2;
    struct timeval t = {.tv_usec = 40000};
    setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    who("thread", s), say(" %d %d %x)", T.what, T.n, T.p.events);
    pthread_create(&thread, NULL, waiting, NULL);
    threaded = 1;
}
void op_join(struct slot *s) {
    (void)s;
    if (!threaded) return say("none");
    pthread_join(thread, NULL);
    threaded = 0;
    errno = T.error;
    say("join"), result(T.rc);
    if (T.what < 2 || T.what == 5) taken(&T.s, T.rc);
    say(" %x %x", T.p.revents, fnv(T.bytes, sizeof T.bytes));
    if (T.what == 3) {
        if (T.rc > 1) qsort(T.e, T.rc, sizeof *T.e, by_data);
        for (int i = 0; i < T.rc; i++) say(" %x:%x", (int)T.e[i].data.u64, T.e[i].events);
    }
}

// ---- what the coordinator needs ---------------------------------------------------------------
void op_close_all(struct slot *s) {
    (void)s;
    for (int i = 0; i < SLOTS; i++)
        if (S.slot[i].fd >= 0 && S.slot[i].conn == (int)C.a[1]) close(S.slot[i].fd), S.slot[i].fd = -1;
    if (!spare()) close(S.slot[7].fd), S.slot[7].fd = -1;
}
static void fresh(int fd, int side) {
    int one = 1;
    struct timeval t = {.tv_usec = 24000};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
    struct slot *s = spare();
    *s = (struct slot){fd, (int)C.a[1], side};
    say(" s%d", (int)(s - S.slot));
}
void op_connect(struct slot *s) {
    (void)s;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(C.a[2]), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    say("connect"), result(connect(fd, (void *)&a, sizeof a));
    socklen_t len = sizeof a;
    getsockname(fd, (void *)&a, &len);
    R.value = ntohs(a.sin_port);
    fresh(fd, 1);
}
void op_accept(struct slot *s) {
    (void)s;
    int fd = accept(S.listener, NULL, NULL);
    say("accept"), fresh(fd, 0);
}
// Small messages each way, so that the connection goes up.
void op_warm(struct slot *s) {
    for (int i = 0; i < SLOTS; i++)
        if (S.slot[i].fd >= 0 && S.slot[i].conn == (int)C.a[1]) s = &S.slot[i];
    struct timeval t = {.tv_sec = 5}, back = {.tv_usec = 24000};
    setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    uint8_t m[16] = "small message";
    for (unsigned i = 0; i < C.a[2]; i++) {
        if (s->side == 0 && send(s->fd, m, 16, 0) != 16) say("warm send %d", errno);
        if (recv(s->fd, m, 16, MSG_WAITALL) != 16) say("warm recv %d", errno);
        if (s->side == 1 && send(s->fd, m, 16, 0) != 16) say("warm send %d", errno);
    }
    setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &back, sizeof back);
}
void op_quit(struct slot *s) {
    (void)s;
    R.ended = 1;
    say("quit");
}
