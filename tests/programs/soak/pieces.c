/* Sending and receiving, in all the ways that programs do it. */
#include "soak.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

enum { WAYS = 7 };

void take_hands(struct hands *hands, struct life *life, int fd)
{
    const char *way = getenv("SOAK_WAY");
    *hands = (struct hands){.fd = fd, .set = -1, .way = draw(life, WAYS)};
    if (way) hands->way = atoi(way) % WAYS;
    hands->is_nonblocking = MUST(life, fcntl(fd, F_GETFL)) & O_NONBLOCK;
}

void drop_set(struct hands *hands)
{
    if (hands->set >= 0) close(hands->set);
    hands->set = -1;
}

static void set_nonblocking(const struct life *life, struct hands *hands, bool on)
{
    if (hands->is_nonblocking == on) return;
    hands->is_nonblocking = on;
    int flags = MUST(life, fcntl(hands->fd, F_GETFL));
    MUST(life, fcntl(hands->fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
}

enum went cut(const struct life *life, const struct plan *plan, const char *where, ssize_t result)
{
    bool may_be = life->is_mortal || plan->fate != NORMAL;
    if (result == 0) {
        if (!may_be) fault(life, "%s: the stream ends early", where);
        return CUT;
    }
    if (!may_be || (errno != ECONNRESET && errno != EPIPE))
        fault(life, "%s: %s", where, strerrorname_np(errno));
    return CUT;
}

static bool not_now(ssize_t result)
{
    return result < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Waiting. */

static void wait_by_poll(const struct life *life, int fd, bool in, bool out, bool precise)
{
    struct pollfd entry = {fd, (in ? POLLIN : 0) | (out ? POLLOUT : 0), 0};
    int ready = precise ? ppoll(&entry, 1, NULL, NULL) : poll(&entry, 1, -1);
    if (ready < 0 && errno != EINTR) fault(life, "poll: %s", strerrorname_np(errno));
    if (ready == 0) fault(life, "poll without a limit returns 0");
}

static void wait_by_select(const struct life *life, int fd, bool in, bool out, bool precise)
{
    fd_set ins, outs;
    if (fd >= FD_SETSIZE) return wait_by_poll(life, fd, in, out, precise);
    FD_ZERO(&ins);
    FD_ZERO(&outs);
    if (in) FD_SET(fd, &ins);
    if (out) FD_SET(fd, &outs);
    int ready = precise ? pselect(fd + 1, &ins, &outs, NULL, NULL, NULL)
                        : select(fd + 1, &ins, &outs, NULL, NULL);
    if (ready < 0 && errno != EINTR) fault(life, "select: %s", strerrorname_np(errno));
    if (ready == 0) fault(life, "select without a limit returns 0");
}

/* A set that stays: by level, by edge, or once and again. All of these are told at once what
 * is ready now when a socket is entered or changed. */
static void wait_by_set(const struct life *life, struct hands *hands, bool in, bool out)
{
    unsigned kind = hands->way == 4 ? 0 : hands->way == 5 ? EPOLLET : EPOLLONESHOT;
    struct epoll_event event = {.events = kind};
    bool is_new = hands->set < 0;
    if (is_new) hands->set = MUST(life, epoll_create1(EPOLL_CLOEXEC));
    event.events |= kind == EPOLLET ? EPOLLIN | EPOLLOUT : (in ? EPOLLIN : 0) | (out ? EPOLLOUT : 0);
    event.data.u64 = life->seed;
    if (is_new)
        MUST(life, epoll_ctl(hands->set, EPOLL_CTL_ADD, hands->fd, &event));
    else if (kind != EPOLLET)
        MUST(life, epoll_ctl(hands->set, EPOLL_CTL_MOD, hands->fd, &event));
    struct epoll_event got;
    int ready = epoll_wait(hands->set, &got, 1, -1);
    if (ready < 0 && errno != EINTR) fault(life, "epoll_wait: %s", strerrorname_np(errno));
    if (ready == 0) fault(life, "epoll_wait without a limit returns 0");
    if (ready > 0 && got.data.u64 != life->seed) fault(life, "epoll_wait: not our data");
}

/* Waits after a call that said "not now". */
static void wait_for(const struct life *life, struct hands *hands, bool in, bool out)
{
    switch (hands->way) {
    case 0: case 1: return wait_by_poll(life, hands->fd, in, out, hands->way);
    case 2: case 3: return wait_by_select(life, hands->fd, in, out, hands->way == 3);
    default: return wait_by_set(life, hands, in, out);
    }
}

/* Sending. */

static size_t piece_size(struct life *life, uint64_t left)
{
    static const size_t limits[] = {1, 16, 700, 1460, 9000, 65536, 300000, PIECE_MAX};
    uint64_t size = 1 + draw(life, limits[draw(life, 8)]);
    return size < left ? size : left;
}

static void split(struct life *life, uint8_t *bytes, size_t size, struct iovec parts[3])
{
    size_t a = draw(life, size + 1), b = a + draw(life, size - a + 1);
    parts[0] = (struct iovec){bytes, a};
    parts[1] = (struct iovec){bytes + a, b - a};
    parts[2] = (struct iovec){bytes + b, size - b};
}

static ssize_t send_file(const struct life *life, int fd, const uint8_t *bytes, size_t size)
{
    int file = MUST(life, memfd_create("soak", MFD_CLOEXEC));
    ssize_t put = 0;
    for (size_t at = 0; at < size; at += put)
        put = MUST(life, write(file, bytes + at, size - at));
    off_t from = 0;
    ssize_t result = sendfile(fd, file, &from, size);
    int error = errno;
    close(file);
    errno = error;
    return result;
}

static ssize_t send_by(struct life *life, int fd, uint8_t *bytes, size_t size, int flags)
{
    struct iovec parts[3];
    split(life, bytes, size, parts);
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    struct mmsghdr messages[2] = {{{.msg_iov = parts, .msg_iovlen = 1}, 0},
                                  {{.msg_iov = parts + 1, .msg_iovlen = 2}, 0}};
    flags |= MSG_NOSIGNAL;
    bool plain = !(flags & MSG_DONTWAIT);
    switch (draw(life, 8)) {
    case 0: if (plain) return write(fd, bytes, size); break;
    case 1: if (plain) return writev(fd, parts, 3); break;
    case 2: return sendmsg(fd, &message, flags);
    case 3:
        if (parts[0].iov_len == 0 || parts[0].iov_len == size) break;
        if (sendmmsg(fd, messages, 2, flags) < 0) return -1;
        return (ssize_t)messages[0].msg_len + (messages[0].msg_len < parts[0].iov_len ? 0 : messages[1].msg_len);
    case 4: return sendto(fd, bytes, size, flags, NULL, 0);
    case 5: if (plain && draw(life, 4) == 0) return send_file(life, fd, bytes, size); break;
    }
    return send(fd, bytes, size, flags);
}

/* Two large pieces of bytes, of this thread's. */
static __thread uint8_t *room_bytes;

/* Past the C library's allocator, which keeps what it gets back: the soak looks at the memory that
 * a process has at rest. */
static uint8_t *room(void)
{
    if (room_bytes) return room_bytes;
    room_bytes = mmap(NULL, 2 * PIECE_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room_bytes == MAP_FAILED) abort();
    return room_bytes;
}

void drop_room(void)
{
    if (room_bytes) munmap(room_bytes, 2 * PIECE_MAX);
    room_bytes = NULL;
}

static void note(const struct life *life)
{
    if (life->place >= LIVES_MAX) return;
    atomic_store(&shared->lives[life->place].last_ms, now_ms());
    atomic_store(&shared->lives[life->place].out, life->out);
    atomic_store(&shared->lives[life->place].in, life->in);
}

static enum went send_some(struct life *life, const struct plan *plan, struct hands *hands,
                           int flags, bool *is_full)
{
    uint8_t *bytes = room();
    size_t size = piece_size(life, life->out_until - life->out);
    next_bytes(life, plan, bytes, size);
    ssize_t put = send_by(life, hands->fd, bytes, size, flags);
    *is_full = put < 0;
    if (not_now(put)) return ON;
    if (put <= 0) return cut(life, plan, "send", put ? put : -1);
    sent_bytes(life, plan, bytes, put);
    note(life);
    return ON;
}

enum went send_piece(struct life *life, const struct plan *plan, struct hands *hands)
{
    bool is_full, waits = draw(life, 2);
    if (draw(life, 8) == 0) set_nonblocking(life, hands, !waits);
    enum went went = send_some(life, plan, hands, waits ? 0 : MSG_DONTWAIT, &is_full);
    if (went == ON && is_full) wait_for(life, hands, false, true);
    return went;
}

/* Receiving. */

static ssize_t receive_spliced(struct life *life, int fd, uint8_t *bytes, size_t size)
{
    int ends[2];
    MUST(life, pipe2(ends, O_CLOEXEC));
    if (size > 16384) size = 16384;
    ssize_t got = splice(fd, NULL, ends[1], NULL, size, draw(life, 2) ? SPLICE_F_NONBLOCK : 0);
    int error = errno;
    for (ssize_t at = 0; at < got;) at += MUST(life, read(ends[0], bytes + at, got - at));
    close(ends[0]);
    close(ends[1]);
    errno = error;
    return got;
}

/* What was seen ahead must come. */
static ssize_t receive_peeked(struct life *life, const struct plan *plan, int fd, uint8_t *bytes,
                              size_t size, int flags)
{
    ssize_t seen = recv(fd, bytes, size, flags | MSG_PEEK);
    if (seen <= 0) return seen;
    check_bytes(life, plan, bytes, seen);
    memset(bytes, 0, seen);
    ssize_t got = recv(fd, bytes, draw(life, 2) ? seen : size, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) fault(life, "%zd bytes were seen, and are not there", seen);
    return got;
}

static ssize_t receive_by(struct life *life, const struct plan *plan, int fd, uint8_t *bytes,
                          size_t size, int flags)
{
    struct iovec parts[3];
    split(life, bytes, size, parts);
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    struct mmsghdr messages = {message, 0};
    bool plain = !(flags & MSG_DONTWAIT);
    ssize_t got;
    switch (draw(life, 10)) {
    case 0: if (plain) return read(fd, bytes, size); break;
    case 1: if (plain) return readv(fd, parts, 3); break;
    case 2: return recvmsg(fd, &message, flags);
    case 3: return recvmmsg(fd, &messages, 1, flags, NULL) == 1 ? (ssize_t)messages.msg_len : -1;
    case 4: return recvfrom(fd, bytes, size, flags, NULL, NULL);
    case 5: return receive_peeked(life, plan, fd, bytes, size, flags);
    case 6:
        /* At an urgent byte splice returns 0, as at the end. */
        if (plain && !plan->urgent && draw(life, 4) == 0)
            return receive_spliced(life, fd, bytes, size);
        break;
    case 7:
        if (!plain) break;
        got = recv(fd, bytes, size, MSG_WAITALL);
        if (got > 0 && (size_t)got < size && plan->fate == NORMAL && !life->is_mortal && !plan->urgent
            && !(fcntl(fd, F_GETFL) & O_NONBLOCK))
            fault(life, "MSG_WAITALL: %zd of %zu", got, size);
        return got;
    }
    return recv(fd, bytes, size, flags);
}

static enum went receive_some(struct life *life, const struct plan *plan, struct hands *hands,
                              int flags, bool *is_empty)
{
    uint8_t *bytes = room() + PIECE_MAX;
    size_t size = piece_size(life, life->in_until - life->in);
    ssize_t got = receive_by(life, plan, hands->fd, bytes, size, flags);
    *is_empty = got < 0;
    if (not_now(got)) return ON;
    if (got <= 0) return cut(life, plan, "receive", got);
    took_bytes(life, plan, bytes, got);
    note(life);
    return ON;
}

enum went receive_piece(struct life *life, const struct plan *plan, struct hands *hands)
{
    bool is_empty, waits = draw(life, 2);
    if (draw(life, 8) == 0) set_nonblocking(life, hands, !waits);
    if (draw(life, 10) == 0 && hands->way < 4) wait_for(life, hands, true, false);
    enum went went = receive_some(life, plan, hands, waits ? 0 : MSG_DONTWAIT, &is_empty);
    if (went == ON && is_empty) wait_for(life, hands, true, false);
    return went;
}

/* Both at once. */

struct half {
    struct life life;
    const struct plan *plan;
    struct hands hands;
    enum went went;
};

static void *receive_all(void *argument)
{
    struct half *half = argument;
    struct life *life = &half->life;
    bool is_empty;
    while (half->went == ON && life->in < life->in_until)
        half->went = receive_some(life, half->plan, &half->hands, 0, &is_empty);
    drop_room();
    return NULL;
}

static enum went send_all(struct life *life, const struct plan *plan, struct hands *hands)
{
    bool is_full;
    enum went went = ON;
    while (went == ON && life->out < life->out_until)
        went = send_some(life, plan, hands, 0, &is_full);
    return went;
}

static struct half other_half(struct life *life, const struct plan *plan, struct hands *hands)
{
    struct half half = {*life, plan, *hands, ON};
    half.life.random = mix(life->random);
    half.hands.set = -1;
    half.life.place = LIVES_MAX;
    return half;
}

static void merge(struct life *life, const struct life *reader)
{
    life->in = reader->in;
    life->in_sum = reader->in_sum;
}

/* A thread reads and this one writes. */
static enum went duplex_by_thread(struct life *life, const struct plan *plan, struct hands *hands)
{
    struct half half = other_half(life, plan, hands);
    pthread_t thread;
    set_nonblocking(life, hands, false);
    if (pthread_create(&thread, NULL, receive_all, &half)) fault(life, "pthread_create");
    count(THREADS, 1);
    enum went went = send_all(life, plan, hands);
    /* The reader has its own end, or sees the same. */
    if (went != ON) shutdown(hands->fd, SHUT_RDWR);
    pthread_join(thread, NULL);
    merge(life, &half.life);
    return went == ON ? half.went : went;
}

/* The reader is killed; this process goes on writing for this act, and closes. */
static enum went without_reader(struct life *life, const struct plan *plan, struct hands *hands,
                                pid_t child, int answer)
{
    enum went went = ON;
    bool is_full;
    for (unsigned left = draw(life, 6); went == ON && left && life->out < life->out_until; left--)
        went = send_some(life, plan, hands, 0, &is_full);
    rest_us(plan->hurt_us);
    kill(child, SIGKILL);
    count(KILLS, 1);
    waitpid(child, NULL, 0);
    close(answer);
    if (went == ON) went = send_all(life, plan, hands);
    return went == ON ? OVER : went;
}

/* A child reads and this process writes. */
static enum went duplex_by_child(struct life *life, const struct plan *plan, struct hands *hands)
{
    struct half half = other_half(life, plan, hands);
    int ends[2];
    set_nonblocking(life, hands, false);
    MUST(life, pipe2(ends, O_CLOEXEC));
    count(SPLITS, 1);
    pid_t child = MUST(life, fork());
    if (child == 0) {
        MUST(life, dup2(ends[1], ANSWER_FD));
        become_child(&half.life, hands->fd);
        half.life.place = LIVES_MAX;
        receive_all(&half);
        /* A parent that is killed does not hear it. */
        bool may_be = life->is_mortal || plan->fate != NORMAL;
        if (write(ANSWER_FD, &half, sizeof half) < 0 && !may_be)
            fault(life, "no answer: %s", strerrorname_np(errno));
        _exit(0);
    }
    close(ends[1]);
    if (plan->fate == READER_KILLED && plan->hurt == life->side)
        return without_reader(life, plan, hands, child, ends[0]);
    enum went went = send_all(life, plan, hands);
    if (went != ON) shutdown(hands->fd, SHUT_RDWR);
    ssize_t got;
    while ((got = read(ends[0], &half, sizeof half)) < 0 && errno == EINTR) {}
    close(ends[0]);
    await_child(life, child);
    if (got != sizeof half) fault(life, "the reader says nothing");
    merge(life, &half.life);
    return went == ON ? half.went : went;
}

enum went duplex_piece(struct life *life, const struct plan *plan, struct hands *hands)
{
    if (plan->fate == READER_KILLED && plan->hurt == life->side && life->out + life->in >= plan->hurt_at)
        return duplex_by_child(life, plan, hands);
    switch (draw(life, 60)) {
    case 0: if (is_wanted(THREADS)) return duplex_by_thread(life, plan, hands); break;
    case 1: if (is_wanted(SPLITS)) return duplex_by_child(life, plan, hands); break;
    }
    bool is_full, is_empty;
    enum went went = send_some(life, plan, hands, MSG_DONTWAIT, &is_full);
    if (went != ON) return went;
    went = receive_some(life, plan, hands, MSG_DONTWAIT, &is_empty);
    if (went == ON && is_full && is_empty) wait_for(life, hands, true, true);
    return went;
}
