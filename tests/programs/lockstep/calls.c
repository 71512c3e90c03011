/* What all calls need, and the calls on one socket that end at once. See lockstep.h. */
#include "lockstep.h"

struct state S;
struct command C;
struct reply R;
volatile sig_atomic_t alarms, pipes;
uint8_t buf[65536];

uint32_t fnv(const void *p, size_t n) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)p)[i]) * 16777619u;
    return h;
}
uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}
void say(const char *form, ...) {
    size_t at = strlen(R.text);
    va_list list;
    va_start(list, form);
    vsnprintf(R.text + at, TEXT - at, form, list);
    va_end(list);
}
void result(long rc) {
    int e = errno;
    if (rc < 0) say(" = %ld %s", rc, strerrorname_np(e) ?: "?");
    else say(" = %ld", rc);
}
void fill(uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++) p[i] = (uint8_t)(C.step * 131 + i * 7 + (i >> 8) + 1);
}
void on_alarm(int s) { (void)s, alarms++; }
void on_pipe(int s) { (void)s, pipes++; }
void handle(int sig, void (*f)(int), int flags) {
    struct sigaction act = {.sa_handler = f, .sa_flags = flags};
    sigaction(sig, &act, NULL);
}
void ring(int ms) {
    struct itimerval t = {.it_value = {.tv_usec = ms * 1000}};
    setitimer(ITIMER_REAL, &t, NULL);
}

// A socket by a random number: the next open slot from there.
struct slot *pick(uint32_t a) {
    for (int i = 0; i < SLOTS; i++) {
        struct slot *s = &S.slot[(a + i) % SLOTS];
        if (s->fd >= 0) return s;
    }
    return NULL;
}
struct slot *spare(void) {
    for (int i = 0; i < SLOTS; i++)
        if (S.slot[i].fd < 0) return &S.slot[i];
    return NULL;
}
void who(const char *call, struct slot *s) {
    say("%s(s%d:%d%c", call, (int)(s - S.slot), s->conn, "AB"[s->side]);
}
int size(struct slot *s, uint32_t a) {
    static const int sizes[] = {1, 1, 2, 5, 16, 64, 100, 333, 1000, 1500, 4000, 4096, 6000, 0};
    int n = sizes[a % 14], room = C.room[s->conn][s->side];
    return n > room ? room : n;
}
int want(uint32_t a) {
    static const int sizes[] = {1, 1, 2, 5, 16, 64, 100, 500, 1000, 3000, 4096, 9000, 30000, 30000};
    return sizes[a % 14];
}
void sent(struct slot *s, long n) {
    if (n > 0) R.sent[s->conn][s->side] += (int)n;
}
void taken(struct slot *s, long n) {
    if (n > 0) R.taken[s->conn][!s->side] += (int)n;
}


int send_flags(uint32_t a) {
    int f = MSG_NOSIGNAL;
    if (a % 7 == 0) f = 0;
    if (a % 3) f |= MSG_DONTWAIT;
    if (a % 31 == 0) f |= MSG_EOR;
    if (a % 37 == 0) f |= MSG_DONTROUTE;
    if (a % 41 == 0) f |= MSG_CONFIRM;
    return f;
}
int recv_flags(uint32_t a) {
    int f = a % 16 ? MSG_DONTWAIT : 0;
    if ((a >> 4) % 4 == 0) f |= MSG_PEEK;
    // One that waits hides a reset: known.
    if ((a >> 6) % 5 == 0 && f & MSG_DONTWAIT) f |= MSG_WAITALL;
    // Both: known.
    if ((a >> 9) % 9 == 0 && !(f & MSG_PEEK)) f |= MSG_TRUNC;
    if ((a >> 13) % 40 == 0) f |= MSG_ERRQUEUE;
    if ((a >> 19) % 60 == 0) f |= MSG_CMSG_CLOEXEC;
    return f;
}

// ---- calls -------------------------------------------------------------------------------
void op_send(struct slot *s) {
    int n = size(s, C.a[1]), f = send_flags(C.a[2]);
    fill(buf, n);
    long rc;
    switch (C.a[3] % 4) {
    case 0:
        who("write", s), say(", %d)", n);
        rc = write(s->fd, buf, n);
        break;
    case 1: {
        struct sockaddr_in to = {.sin_family = C.a[4] % 3 ? AF_INET : AF_UNSPEC, .sin_port = 7};
        who("sendto", s), say(", %d, %x)", n, f);
        rc = sendto(s->fd, buf, n, f, (void *)&to, C.a[5] % 5 ? sizeof to : C.a[5] % 64);
        break;
    }
    default:
        who("send", s), say(", %d, %x)", n, f);
        rc = send(s->fd, buf, n, f);
    }
    result(rc), sent(s, rc);
}
static int vector(struct iovec *v, int most, int total, uint32_t a) {
    int k = a % (most + 1), at = 0;
    if (a % 29 == 0) k = most;
    for (int i = 0; i < k; i++) {
        int n = (int)(mix(a + i * 77) % (uint32_t)(total / (k ? k : 1) + 1));
        if (mix(a + i) % 4 == 0) n = 0;
        if (i == k - 1) n = total - at;
        v[i].iov_base = n || a % 3 ? buf + at : NULL, v[i].iov_len = n;
        at += n;
    }
    return k;
}
void op_sendv(struct slot *s) {
    struct iovec v[64];
    int n = size(s, C.a[1]), f = send_flags(C.a[2]);
    fill(buf, n);
    int k = vector(v, C.a[4] % 5 ? 5 : 64, n, C.a[5]);
    struct msghdr m = {.msg_iov = v, .msg_iovlen = k};
    long rc;
    switch (C.a[3] % 5) {
    case 0:
        who("writev", s), say(", %d/%d)", n, k);
        rc = writev(s->fd, v, k);
        break;
    case 1: {
        struct mmsghdr mm[3] = {{.msg_hdr = m}, {.msg_hdr = m}, {.msg_hdr = m}};
        int c = 1 + C.a[6] % 3;
        if (n > C.room[s->conn][s->side] / 4) c = 1;
        who("sendmmsg", s), say(", %d/%d x%d, %x)", n, k, c, f);
        rc = sendmmsg(s->fd, mm, c, f);
        result(rc);
        for (int i = 0; i < rc; i++) say(" %u", mm[i].msg_len), sent(s, mm[i].msg_len);
        return;
    }
    case 2: {
        int fl = C.a[6] % 3 ? 0 : RWF_NOWAIT;
        who("pwritev2", s), say(", %d/%d, -1, %x)", n, k, fl);
        rc = pwritev2(s->fd, v, k, C.a[6] % 7 ? -1 : 0, fl);
        break;
    }
    default:
        who("sendmsg", s), say(", %d/%d, %x)", n, k, f);
        rc = sendmsg(s->fd, &m, f);
    }
    result(rc), sent(s, rc);
}
// Parts that may be held back, and one that pushes them.
void op_more(struct slot *s) {
    int one = 1, zero = 0, how = C.a[3] % 3, total = 0;
    who("more", s), say(", %d)", how);
    if (how == 1) result(setsockopt(s->fd, IPPROTO_TCP, TCP_CORK, &one, sizeof one));
    fill(buf, 300);
    for (unsigned i = 0; i < 1 + C.a[4] % 4; i++) {
        int n = 1 + (C.a[5] + i * 13) % 200;
        if (total + n + 200 > C.room[s->conn][s->side]) break;
        long rc = send(s->fd, buf, n, MSG_NOSIGNAL | MSG_DONTWAIT | (how == 1 ? 0 : MSG_MORE));
        result(rc), sent(s, rc), total += n;
    }
    if (how == 1) {
        result(setsockopt(s->fd, IPPROTO_TCP, TCP_CORK, &zero, sizeof zero));
    } else if (total) {
        long rc = send(s->fd, buf, 7, MSG_NOSIGNAL | MSG_DONTWAIT);
        result(rc), sent(s, rc);
    }
}
void op_recv(struct slot *s) {
    int n = want(C.a[1]), f = recv_flags(C.a[2]);
    long rc;
    memset(buf, 0xee, n);
    switch (C.a[3] % 6) {
    case 0:
        who("read", s), say(", %d)", n);
        f = 0;
        rc = read(s->fd, buf, n);
        break;
    case 1: {
        struct sockaddr_storage from;
        memset(&from, 0xaa, sizeof from);
        socklen_t len = sizeof from;
        who("recvfrom", s), say(", %d, %x)", n, f);
        rc = recvfrom(s->fd, buf, n, f, (void *)&from, &len);
        int e = errno;
        say(" len %u %x", len, fnv(&from, sizeof from)), errno = e;
        break;
    }
    case 2:
        f = (f & ~MSG_WAITALL) | MSG_DONTWAIT;
        who("recv0", s), say(", 0, %x)", f);
        n = 0, rc = recv(s->fd, C.a[4] % 2 ? buf : NULL, 0, f);
        break;
    default:
        who("recv", s), say(", %d, %x)", n, f);
        rc = recv(s->fd, buf, n, f);
    }
    result(rc), say(" %x", fnv(buf, n));
    if (!(f & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE))) taken(s, rc);
}
void op_recvv(struct slot *s) {
    struct iovec v[64];
    int n = want(C.a[1]), f = recv_flags(C.a[2]);
    int k = vector(v, C.a[4] % 5 ? 5 : 64, n, C.a[5]);
    uint8_t control[128];
    struct sockaddr_storage from;
    memset(control, 0, sizeof control);
    struct msghdr m = {.msg_iov = v, .msg_iovlen = k};
    if (C.a[6] % 2) m.msg_control = control, m.msg_controllen = C.a[6] % 5 ? sizeof control : 10;
    if (C.a[6] % 3 == 0) m.msg_name = &from, m.msg_namelen = sizeof from;
    m.msg_flags = 0x55;
    memset(buf, 0xee, n);
    long rc;
    if (!k || !n) f |= MSG_DONTWAIT;
    switch (C.a[3] % 5) {
    case 0:
        f &= MSG_DONTWAIT, f = 0;
        if (!k || !n) {
            say("none");
            return;
        }
        who("readv", s), say(", %d/%d)", n, k);
        rc = readv(s->fd, v, k);
        break;
    case 1: {
        struct mmsghdr mm[3];
        memset(mm, 0, sizeof mm);
        for (int i = 0; i < 3; i++) mm[i].msg_hdr = m;
        int c = 1 + C.a[7] % 3;
        if (C.a[8] % 3 == 0) f |= MSG_WAITFORONE;
        struct timespec t = {.tv_nsec = 1000000};
        f |= MSG_DONTWAIT;
        who("recvmmsg", s), say(", %d/%d x%d, %x)", n, k, c, f);
        rc = recvmmsg(s->fd, mm, c, f, C.a[8] % 4 ? NULL : &t);
        result(rc);
        for (int i = 0; i < rc; i++) {
            say(" %u/%x/%zu", mm[i].msg_len, mm[i].msg_hdr.msg_flags, mm[i].msg_hdr.msg_controllen);
            if (!(f & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE))) taken(s, mm[i].msg_len);
        }
        say(" %x", fnv(buf, n));
        return;
    }
    case 2: {
        if (!k || !n) {
            say("none");
            return;
        }
        int fl = C.a[7] % 3 ? RWF_NOWAIT : 0;
        f = 0;
        who("preadv2", s), say(", %d/%d, -1, %x)", n, k, fl);
        rc = preadv2(s->fd, v, k, -1, fl);
        break;
    }
    default:
        who("recvmsg", s), say(", %d/%d, %x)", n, k, f);
        rc = recvmsg(s->fd, &m, f);
        int e = errno;
        if (rc >= 0) {
            say(" flags %x control %zu name %u", m.msg_flags, m.msg_controllen, m.msg_namelen);
            for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
                say(" [%d %d %zu", c->cmsg_level, c->cmsg_type, c->cmsg_len);
                if (c->cmsg_level == SOL_TCP) say(" %d", *(int *)CMSG_DATA(c));
                say("]");
            }
        }
        errno = e;
    }
    result(rc), say(" %x", fnv(buf, n));
    if (!(f & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE))) taken(s, rc);
}
void op_ioctl(struct slot *s) {
    int v = -1;
    switch (C.a[1] % 6) {
    case 0:
    case 1:
    case 2: {
        who("FIONREAD", s);
        long rc = ioctl(s->fd, FIONREAD, &v);
        say(") %d", v), result(rc);
        break;
    }
    case 3:
        who("SIOCATMARK", s);
        result(ioctl(s->fd, SIOCATMARK, &v)), say(" %d", v);
        break;
    case 4:
        who("TCGETS", s), result(ioctl(s->fd, TIOCGWINSZ, buf));
        break;
    case 5:
        who("SIOCOUTQ", s);
        if (C.unread[s->conn][s->side]) return say(" unread");
        for (int i = 0; i < 300 && ioctl(s->fd, SIOCOUTQ, &v) == 0 && v > 0; i++) usleep(1000);
        say(")");
    }
}
void op_nonblock(struct slot *s) {
    int v = C.a[1] % 2;
    if (C.a[2] % 2) {
        who("FIONBIO", s), say(", %d)", v), result(ioctl(s->fd, FIONBIO, &v));
    } else {
        int old = fcntl(s->fd, F_GETFL);
        who("F_SETFL", s), say(" %x, %d)", old, v);
        result(fcntl(s->fd, F_SETFL, (old & ~O_NONBLOCK) | (v ? O_NONBLOCK : 0)));
    }
}
struct option {
    int level, name;
    const char *text;
    int values[3];
};
static const struct option options[] = {
    {SOL_SOCKET, SO_KEEPALIVE, "KEEPALIVE", {0, 1, 2}},
    {SOL_SOCKET, SO_OOBINLINE, "OOBINLINE", {0, 1, 0}},
    {SOL_SOCKET, SO_REUSEADDR, "REUSEADDR", {0, 1, 0}},
    {SOL_SOCKET, SO_PRIORITY, "PRIORITY", {0, 3, 6}},
    {SOL_SOCKET, SO_BROADCAST, "BROADCAST", {0, 1, 1}},
    {SOL_SOCKET, SO_SNDLOWAT, "SNDLOWAT", {0, 1, 5}},
    {SOL_SOCKET, SO_TIMESTAMP, "TIMESTAMP", {0, 0, 1}},
    {SOL_SOCKET, SO_BUSY_POLL, "BUSY_POLL", {0, 0, 0}},
    {SOL_SOCKET, SO_MARK, "MARK", {0, 1, 2}},
    {SOL_SOCKET, SO_RCVLOWAT, "RCVLOWAT", {1, 0, 1}},
    {SOL_SOCKET, SO_LOCK_FILTER, "LOCK_FILTER", {0, 0, 0}},
    {SOL_SOCKET, SO_ZEROCOPY, "ZEROCOPY", {0, 1, 2}},
    {SOL_SOCKET, 9999, "unknown", {0, 1, 2}},
    {IPPROTO_TCP, TCP_NODELAY, "NODELAY", {1, 1, 1}},
    {IPPROTO_TCP, TCP_KEEPIDLE, "KEEPIDLE", {100, 200, 0}},
    {IPPROTO_TCP, TCP_KEEPCNT, "KEEPCNT", {3, 4, 500}},
    {IPPROTO_TCP, TCP_KEEPINTVL, "KEEPINTVL", {30, 40, 0}},
    {IPPROTO_TCP, TCP_SYNCNT, "SYNCNT", {3, 4, 300}},
    {IPPROTO_TCP, TCP_LINGER2, "LINGER2", {3, 4, -1}},
    {IPPROTO_TCP, TCP_DEFER_ACCEPT, "DEFER_ACCEPT", {0, 1, 3}},
    {IPPROTO_TCP, TCP_USER_TIMEOUT, "USER_TIMEOUT", {0, 30000, -1}},
    {IPPROTO_TCP, TCP_NOTSENT_LOWAT, "NOTSENT_LOWAT", {1 << 20, 1 << 21, 1 << 22}},
    {IPPROTO_TCP, TCP_INQ, "INQ", {0, 1, 2}},
    {IPPROTO_TCP, TCP_THIN_DUPACK, "THIN_DUPACK", {0, 1, 0}},
    {IPPROTO_TCP, TCP_WINDOW_CLAMP, "SAVE_SYN", {0, 0, 0}},
    {IPPROTO_TCP, 999, "unknown", {0, 1, 2}},
    {IPPROTO_IP, IP_TOS, "TOS", {0, 8, 16}},
    {IPPROTO_IP, IP_TTL, "TTL", {64, 30, 300}},
    {IPPROTO_IP, IP_RECVTOS, "RECVTOS", {0, 1, 0}},
    {IPPROTO_IP, IP_MTU_DISCOVER, "MTU_DISCOVER", {0, 1, 9}},
    {IPPROTO_IPV6, 67, "v6", {0, 1, 9}},
};
void op_option(struct slot *s) {
    const struct option *o = &options[C.a[1] % (sizeof options / sizeof *options)];
    int v = o->values[C.a[2] % 3];
    if (o->name == TCP_INQ && o->level == IPPROTO_TCP && C.unread[s->conn][!s->side]) return say("unread");
    socklen_t len = C.a[3] % 12 ? 4 : C.a[3] / 12 % 7;
    if (C.a[4] % 5 < 2 && o->name != TCP_WINDOW_CLAMP) {
        who("set", s), say(" %s, %d, %u)", o->text, v, len);
        result(setsockopt(s->fd, o->level, o->name, &v, len));
    } else if (o->name != TCP_WINDOW_CLAMP) {
        v = 0x5a5a5a5a;
        who("get", s), say(" %s, %u)", o->text, len);
        long rc = getsockopt(s->fd, o->level, o->name, &v, &len);
        result(rc), say(" %x/%u", v, len);
    }
}
void op_option2(struct slot *s) {
    socklen_t len = 4;
    int v = 0;
    switch (C.a[1] % 10) {
    case 0:
    case 1:
        who("SO_ERROR", s), result(getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &v, &len));
        say(" %d", v);
        break;
    case 2: {
        struct tcp_info info = {0};
        len = sizeof info;
        usleep(2000);
        who("TCP_INFO", s), result(getsockopt(s->fd, IPPROTO_TCP, TCP_INFO, &info, &len));
        // FIN_WAIT1 becomes FIN_WAIT2 when the acknowledgement comes.
        say(" state %d len %u", info.tcpi_state == 5 ? 4 : info.tcpi_state, len);
        break;
    }
    case 3: {
        struct linger l = {C.a[2] % 2, C.a[2] % 4 == 1 ? 0 : 1};
        who("SO_LINGER", s), say(" %d %d", l.l_onoff, l.l_linger);
        result(setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &l, sizeof l));
        break;
    }
    case 4: {
        struct linger l = {9, 9};
        len = sizeof l;
        who("get LINGER", s), result(getsockopt(s->fd, SOL_SOCKET, SO_LINGER, &l, &len));
        say(" %d %d", l.l_onoff, l.l_linger);
        break;
    }
    case 5: {
        struct timeval t = {.tv_usec = C.a[2] % 3 ? 24000 : 12000};
        int name = C.a[3] % 2 ? SO_RCVTIMEO : SO_SNDTIMEO;
        who("TIMEO", s), say(" %d %ld", name, (long)t.tv_usec);
        result(setsockopt(s->fd, SOL_SOCKET, name, &t, sizeof t));
        break;
    }
    case 6: {
        struct timeval t = {0};
        len = sizeof t;
        int name = C.a[3] % 2 ? SO_RCVTIMEO : SO_SNDTIMEO;
        who("get TIMEO", s), result(getsockopt(s->fd, SOL_SOCKET, name, &t, &len));
        say(" %d %ld %ld", name, (long)t.tv_sec, (long)t.tv_usec);
        break;
    }
    case 7: {
        static const int names[] = {SO_TYPE, SO_DOMAIN, SO_PROTOCOL, SO_ACCEPTCONN};
        who("type", s), result(getsockopt(s->fd, SOL_SOCKET, names[C.a[2] % 4], &v, &len));
        say(" %d", v);
        break;
    }
    case 8: {
        v = C.a[2] % 2;
        who("QUICKACK", s), say(" %d", v);
        result(setsockopt(s->fd, IPPROTO_TCP, TCP_QUICKACK, &v, sizeof v));
        break;
    }
    case 9:
        if (C.a[2] % 2 == 0) {
            v = C.a[2] % 4 ? 1 : 1 + C.a[3] % 300;
            who("RCVLOWAT", s), say(" %d", v);
            result(setsockopt(s->fd, SOL_SOCKET, SO_RCVLOWAT, &v, sizeof v));
        } else {
            who("get RCVLOWAT", s), result(getsockopt(s->fd, SOL_SOCKET, SO_RCVLOWAT, &v, &len));
            say(" %d", v);
        }
    }
}
int events_of(uint32_t a) {
    static const int all[] = {POLLIN, POLLOUT, POLLIN | POLLOUT, POLLIN | POLLRDHUP, POLLRDHUP, POLLPRI, 0,
                              POLLIN | POLLOUT | POLLRDHUP | POLLPRI, POLLRDNORM, POLLWRNORM | POLLRDBAND,
                              POLLIN, POLLIN | POLLOUT | POLLRDHUP};
    return all[a % 12];
}
static int some_ms(uint32_t a) { return a % 5 ? 0 : 4; }
void op_poll(struct slot *s) {
    struct pollfd p[6];
    int n = 1 + C.a[1] % 5;
    for (int i = 0; i < n; i++) {
        uint32_t a = (uint32_t)mix(C.a[2] + i);
        struct slot *t = i ? pick(a) : s;
        p[i].fd = t->fd, p[i].events = events_of(a >> 8), p[i].revents = 0x77;
        if (i && a % 13 == 0) p[i].fd = -1;
        if (i && a % 17 == 0) p[i].fd = 900;
        if (i && a % 7 == 0) p[i].fd = S.set[a / 7 % SETS];
        if (i && a % 11 == 0) p[i].fd = S.calm[0];
    }
    int ms = some_ms(C.a[3]);
    struct timespec t = {.tv_nsec = ms * 1000000};
    sigset_t mask;
    sigemptyset(&mask);
    who(C.a[4] % 3 ? "poll" : "ppoll", s), say(" +%d, %d)", n - 1, ms);
    result(C.a[4] % 3 ? poll(p, n, ms) : ppoll(p, n, &t, C.a[4] % 2 ? &mask : NULL));
    for (int i = 0; i < n; i++) say(" %x:%x", p[i].events, p[i].revents);
}
void op_select(struct slot *s) {
    fd_set in, out, other;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_ZERO(&other);
    int top = 0;
    for (unsigned i = 0; i < 1 + C.a[1] % 4; i++) {
        uint32_t a = (uint32_t)mix(C.a[2] + i);
        struct slot *t = i ? pick(a) : s;
        if ((a >> 8) % 3) FD_SET(t->fd, &in);
        if ((a >> 10) % 2) FD_SET(t->fd, &out);
        if ((a >> 12) % 2) FD_SET(t->fd, &other);
        if (t->fd > top) top = t->fd;
    }
    int ms = some_ms(C.a[3]);
    struct timeval v = {.tv_usec = ms * 1000};
    struct timespec t = {.tv_nsec = ms * 1000000};
    int no_in = C.a[5] % 5 == 0;
    who(C.a[4] % 2 ? "select" : "pselect", s), say(", %d)", ms);
    if (C.a[4] % 2) result(select(top + 1, no_in ? NULL : &in, &out, &other, &v));
    else result(pselect(top + 1, no_in ? NULL : &in, &out, &other, &t, NULL));
    for (int i = 0; i < SLOTS; i++) {
        int fd = S.slot[i].fd;
        if (fd >= 0 && fd <= top)
            say(" s%d:%d%d%d", i, no_in ? 0 : !!FD_ISSET(fd, &in), !!FD_ISSET(fd, &out), !!FD_ISSET(fd, &other));
    }
}
static uint32_t epoll_events(uint32_t a) {
    // Without IN and OUT, what wakes an edge is the kernel's own affair.
    uint32_t e = events_of(a) & ~(POLLRDNORM | POLLWRNORM | POLLRDBAND);
    // One of the two: what else an edge tells is known to differ.
    if ((a >> 5) % 2) e = (e | EPOLLET) & ~(EPOLLPRI | (a % 2 ? EPOLLIN : EPOLLOUT));
    if ((a >> 7) % 5 == 0) e |= EPOLLONESHOT;
    if ((a >> 10) % 12 == 0) e = EPOLLEXCLUSIVE | (e & (EPOLLIN | EPOLLOUT | EPOLLET));
    return e;
}
void op_ctl(struct slot *s) {
    int set = C.a[1] % SETS, op = 1 + C.a[2] % 6;
    if (op > 3) op = op == 4 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    int fd = s->fd;
    if (C.a[3] % 13 == 0) fd = S.set[C.a[4] % SETS];
    if (C.a[3] % 17 == 0) fd = S.calm[C.a[4] % 2];
    struct epoll_event e = {.events = epoll_events(C.a[5]), .data.u64 = ((uint64_t)C.step << 8) | set};
    if (S.set[set] < 0) return say("none");
    if (fd != s->fd) e.events &= ~(EPOLLET | EPOLLONESHOT);  // Of sets in sets: known.
    if (op != EPOLL_CTL_ADD) e.events &= ~EPOLLEXCLUSIVE;  // EINVAL before ENOENT: known.
    who("epoll_ctl", s), say(" set%d %s %s %x)", set, op == 1 ? "ADD" : op == 2 ? "DEL" : "MOD", fd == s->fd ? "socket" : "other", e.events);
    result(epoll_ctl(S.set[set], op, fd, &e));
}
int by_data(const void *a, const void *b) {
    const struct epoll_event *x = a, *y = b;
    return x->data.u64 < y->data.u64 ? -1 : x->data.u64 > y->data.u64;
}
void op_wait(struct slot *s) {
    (void)s;
    int set = C.a[1] % SETS, ms = some_ms(C.a[3]);
    struct epoll_event e[16];
    struct timespec t = {.tv_nsec = ms * 1000000};
    sigset_t mask;
    sigemptyset(&mask);
    if (S.set[set] < 0) return say("none");
    say("epoll_wait(set%d, %d)", set, ms);
    long rc;
    switch (C.a[2] % 4) {
    case 0:
        rc = epoll_pwait(S.set[set], e, 16, ms, C.a[4] % 2 ? &mask : NULL);
        break;
    case 1:
        rc = epoll_pwait2(S.set[set], e, 16, &t, C.a[4] % 2 ? &mask : NULL);
        break;
    default:
        rc = epoll_wait(S.set[set], e, 16, ms);
    }
    result(rc);
    if (rc > 1) qsort(e, rc, sizeof *e, by_data);
    for (int i = 0; i < rc; i++) say(" %x:%x", (int)e[i].data.u64, e[i].events);
}
void op_reset_set(struct slot *s) {
    (void)s;
    int set = C.a[1] % SETS;
    if (S.set[set] >= 0) close(S.set[set]);
    S.set[set] = epoll_create1(0);
    say("epoll_create set%d %d", set, S.set[set] >= 0);
}
void op_shutdown(struct slot *s) {
    static const int hows[] = {SHUT_WR, SHUT_WR, SHUT_WR, SHUT_RD, SHUT_RDWR, 3, -1};
    int how = hows[C.a[1] % 7];
    // What is unread then hides the reset that the other end's next bytes cause: known.
    // And a shutdown is an edge by itself, of what is unread as well.
    if (C.unread[s->conn][!s->side]) return say("unread");
    who("shutdown", s), say(", %d)", how);
    result(shutdown(s->fd, how));
}
void op_dup(struct slot *s) {
    struct slot *t = spare();
    int fd;
    if (!t || C.a[1] % 3 == 0) {
        t = pick(C.a[2]);
        if (t == s || C.third) return say("none");
        who("dup2", s), say(", s%d)", (int)(t - S.slot));
        fd = C.a[3] % 2 ? dup2(s->fd, t->fd) : dup3(s->fd, t->fd, C.a[3] % 4 ? 0 : O_CLOEXEC);
    } else {
        who("dup", s);
        fd = C.a[3] % 2 ? dup(s->fd) : fcntl(s->fd, C.a[3] % 4 ? F_DUPFD : F_DUPFD_CLOEXEC, 30);
    }
    // Not the number: the library may have one open for a moment.
    result(fd < 0 ? fd : 0);
    if (fd >= 0) *t = (struct slot){fd, s->conn, s->side};
}
void op_close(struct slot *s) {
    // The kernel tells a set of a socket that only another process has open: the library does not.
    int others = 0;
    for (int i = 0; i < SLOTS; i++) others += S.slot[i].fd >= 0 && S.slot[i].conn == s->conn && &S.slot[i] != s;
    if (C.third && !others) return say("shared");
    who("close", s);
    int fd = s->fd;
    result(C.a[1] % 4 ? close(fd) : close_range(fd, fd, 0));
    s->fd = -1;
    if (C.a[2] % 4 == 0) result(send(fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT));
    if (C.a[2] % 4 == 1) result(recv(fd, buf, 1, MSG_DONTWAIT));
}
void op_name(struct slot *s) {
    struct sockaddr_in a;
    socklen_t len = C.a[1] % 5 ? sizeof a : C.a[1] / 5 % 20;
    memset(&a, 0, sizeof a);
    int peer = C.a[2] % 2;
    who(peer ? "getpeername" : "getsockname", s);
    result(peer ? getpeername(s->fd, (void *)&a, &len) : getsockname(s->fd, (void *)&a, &len));
    int port = ntohs(a.sin_port);
    say(" %u %d %x %s", len, a.sin_family, a.sin_addr.s_addr,
        port == C.port[s->conn][0] ? "portA" : port == C.port[s->conn][1] ? "portB" : port ? "other port" : "0");
}
void op_file(struct slot *s) {
    int n = size(s, C.a[1]);
    off_t at = C.a[2] % 10000;
    who("sendfile", s), say(", %ld, %d)", (long)at, n);
    if (C.a[3] % 2) {
        result(lseek(S.memfd, at, SEEK_SET));
        long rc = sendfile(s->fd, S.memfd, NULL, n);
        result(rc), sent(s, rc);
        say(" at %ld", (long)lseek(S.memfd, 0, SEEK_CUR));
    } else {
        long rc = sendfile(s->fd, S.memfd, &at, n);
        result(rc), sent(s, rc), say(" at %ld", (long)at);
    }
}
void op_splice(struct slot *s) {
    int p[2];
    if (pipe(p)) return say("no pipe");
    if (C.a[3] % 2) {
        int n = size(s, C.a[1]);
        fill(buf, n);
        if (n && write(p[1], buf, n) != n) say("?");
        who("splice to", s), say(", %d)", n);
        // MORE without more would hold them back.
        long rc = splice(p[0], NULL, s->fd, NULL, C.a[4] % 3 ? n : n / 2 + 1, SPLICE_F_NONBLOCK);
        result(rc), sent(s, rc);
    } else {
        int n = want(C.a[1]);
        who("splice from", s), say(", %d)", n);
        long rc = splice(s->fd, NULL, p[1], NULL, n, SPLICE_F_NONBLOCK);
        result(rc), taken(s, rc);
        memset(buf, 0, 16);
        long got = rc > 0 ? read(p[0], buf, sizeof buf) : 0;
        say(" %ld %x", got, fnv(buf, got > 0 ? got : 0));
    }
    close(p[0]), close(p[1]);
}
void op_odd(struct slot *s) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct stat st;
    struct iovec v[2] = {{buf, 4}, {(void *)8, 4}};
    static struct iovec many[1025];
    volatile int none = -1;
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    long rc;
    switch (C.a[1] % 26) {
    case 0: who("lseek", s), result(lseek(s->fd, 0, SEEK_CUR)); break;
    case 1: who("pread", s), result(pread(s->fd, buf, 4, 0)); break;
    case 2: who("pwrite", s), result(pwrite(s->fd, buf, 4, 0)); break;
    case 3: who("listen", s), result(listen(s->fd, 1)); break;
    case 4: who("accept", s), result(accept4(s->fd, NULL, NULL, SOCK_NONBLOCK)); break;
    case 5: say("-"); break;
    case 6: who("connect", s), result(connect(s->fd, (void *)&a, sizeof a)); break;
    case 7: who("fsync", s), result(fsync(s->fd)); break;
    case 8: who("ftruncate", s), result(ftruncate(s->fd, 0)); break;
    case 9:
        rc = fstat(s->fd, &st);
        who("fstat", s), result(rc), say(" %o %ld", st.st_mode, (long)st.st_size);
        break;
    case 10: who("send bad", s), result(send(s->fd, (void *)8, 10, MSG_NOSIGNAL | MSG_DONTWAIT)); break;
    case 11: who("recv bad", s), result(recv(s->fd, (void *)8, 10, MSG_DONTWAIT)); break;
    case 12: who("recv bad peek", s), result(recv(s->fd, (void *)8, 10, MSG_DONTWAIT | MSG_PEEK)); break;
    case 13: who("readv <0", s), result(readv(s->fd, v, none)); break;
    case 14: who("writev many", s), result(writev(s->fd, many, 1025)); break;
    case 15: who("sendmsg null", s), result(sendmsg(s->fd, NULL, MSG_DONTWAIT)); break;
    case 16: who("recvmsg null", s), result(recvmsg(s->fd, NULL, MSG_DONTWAIT)); break;
    case 17: v[1].iov_len = -1ul, who("recvmsg long", s), result(recvmsg(s->fd, &m, MSG_DONTWAIT)); break;
    case 18: v[1].iov_len = -1ul, who("writev long", s), result(writev(s->fd, v, 2)); break;
    case 19: m.msg_iovlen = 1025, who("sendmsg many", s), result(sendmsg(s->fd, &m, MSG_DONTWAIT)); break;
    case 20:
        who("recv trunc null", s), rc = recv(s->fd, NULL, 100, MSG_TRUNC | MSG_DONTWAIT);
        result(rc), taken(s, rc);
        break;
    case 21:
        if (C.unread[s->conn][!s->side] > 4) return say("unread");
        // An error after some bytes: what was copied counts.
        who("recvmsg half bad", s), memset(buf, 0, 8), rc = recvmsg(s->fd, &m, MSG_DONTWAIT);
        result(rc), taken(s, rc);
        break;
    case 22:
        if (C.room[s->conn][s->side] < 10) return say("room");
        who("sendmsg half bad", s), rc = sendmsg(s->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
        result(rc), sent(s, rc);
        break;
    case 23: {
        int v = -1;
        who("FIONREAD bad", s), result(ioctl(s->fd, FIONREAD, (void *)8)), (void)v;
        break;
    }
    case 24: who("F_GETFD", s), result(fcntl(s->fd, F_GETFD)), result(fcntl(s->fd, F_GETFL)); break;
    case 25: {
        if (C.unread[s->conn][!s->side] > 100) return say("unread");
        uint8_t *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(page + 4096, 4096, PROT_NONE);
        int n = 1 + C.a[2] % 100, k = n + 1 + C.a[3] % 100;
        if (C.a[4] % 2 && C.unread[s->conn][!s->side] > n) n = 100;
        if (C.a[4] % 2) {
            who("recv edge", s), say(" %d/%d", n, k);
            rc = recv(s->fd, page + 4096 - n, k, MSG_DONTWAIT);
            if (rc < 0) memset(page, 0, 4096);  // What is there after EFAULT says nobody.
            result(rc), say(" %x", fnv(page, 4096)), taken(s, rc);
        } else if (C.room[s->conn][s->side] > 300) {
            fill(page, 4096);
            who("send edge", s), say(" %d/%d", n, k);
            rc = send(s->fd, page + 4096 - n, k, MSG_DONTWAIT | MSG_NOSIGNAL);
            result(rc), sent(s, rc);
        }
        munmap(page, 8192);
    }
    }
}
void op_unspec(struct slot *s) {
    struct sockaddr_in a = {.sin_family = AF_UNSPEC};
    who("disconnect", s), result(connect(s->fd, (void *)&a, sizeof a));
}
void op_oob(struct slot *s) {
    long rc;
    if (C.a[1] % 2) {
        if (C.room[s->conn][s->side] < 10) return say("room");
        int n = 1 + C.a[2] % 3;
        who("send OOB", s), rc = send(s->fd, "!?:", n, MSG_OOB | MSG_NOSIGNAL | MSG_DONTWAIT);
        result(rc), sent(s, rc);
    } else {
        buf[0] = 0;
        who("recv OOB", s), rc = recv(s->fd, buf, 1 + C.a[2] % 2, MSG_OOB | MSG_DONTWAIT | (C.a[3] % 3 ? 0 : MSG_PEEK));
        result(rc), say(" %x", buf[0]);
    }
}
void op_stdio(struct slot *s) {
    if (C.unread[s->conn][!s->side]) return say("unread");
    int fd = dup(s->fd);
    FILE *f = fdopen(fd, "r+");
    if (C.a[1] % 2) setvbuf(f, NULL, C.a[1] % 4 == 1 ? _IONBF : _IOLBF, 256);
    long rc;
    if (C.a[2] % 2) {
        if (C.room[s->conn][s->side] < 600) fclose(f), say("room");
        else {
            int n = 1 + C.a[3] % 500;
            fill(buf, n);
            who("fwrite", s), say(" %d)", n), rc = fwrite(buf, 1, n, f), result(rc), sent(s, rc);
            say(" %d", fflush(f));
            fclose(f);
        }
    } else {
        int n = 1 + C.a[3] % 500;
        memset(buf, 0, n);
        who("fread", s), say(" %d)", n), rc = fread(buf, 1, n, f);
        int e = errno;
        taken(s, rc + (f->_IO_read_end - f->_IO_read_ptr));
        say(" = %ld %x eof %d err %d %s", rc, fnv(buf, n), feof(f), ferror(f), rc < n ? strerrorname_np(e) : "");
        fclose(f);
    }
}
void op_dprintf(struct slot *s) {
    if (is_unread()) return say("unread");
    if (C.room[s->conn][s->side] < 100) return say("room");
    who("dprintf", s);
    int rc = dprintf(s->fd, "step %u\n", C.step);
    result(rc), sent(s, rc);
}
