/* More than one process, or program, at one end: fork, exec, passing of descriptors. */
#include "torture.h"

#include <pthread.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>

extern char **environ;

/* The peer of most cases: so many rounds of talk in all, then the end. */
enum { BEFORE = 10, AFTER = 20 };
/* What lies unread when the descriptor goes to another program; less than a fresh window. */
enum { UNREAD = 40000 };

static void talker(int fd)
{
    talk(fd, BEFORE + AFTER);
    finish(fd);
}

/* Turns of one descriptor's copies. */
static void dup_turns(int fd)
{
    int copies[5] = {fd, MUST(dup(fd)), MUST(dup2(fd, 100)), MUST(dup3(fd, 101, O_CLOEXEC)),
                     MUST(fcntl(fd, F_DUPFD_CLOEXEC, 150))};
    say("copies: %d %d %d", copies[2], copies[3], copies[4]);
    SAY(dup2(fd, fd));
    SAY(dup3(fd, fd, 0));
    SAY(dup2(fd, -1));
    say("flags: %d %d", fcntl(copies[2], F_GETFD), fcntl(copies[3], F_GETFD));
    for (int i = 0; i < BEFORE; i++) talk(copies[i % 5], 1);
    /* All of them share what is set on the open file. */
    set_nonblocking(copies[3], true);
    say("non-blocking: %d", !!(fcntl(fd, F_GETFL) & O_NONBLOCK));
    set_nonblocking(copies[4], false);
    close(copies[0]);
    for (int i = 0; i < AFTER - 1; i++) talk(copies[1 + i % 4], 1);
    for (int i = 1; i < 4; i++) close(copies[i]);
    talk(copies[4], 1);
    finish(copies[4]);
}

/* Something else is put in the place of the socket: that closes it. */
static void dup_over(int fd)
{
    talk(fd, BEFORE + AFTER);
    int file = MUST(memfd_create("other", 0));
    MUST(dup2(file, fd));
    CHECK(write(fd, "to the file", 11) == 11);
    char bytes[20] = {0};
    CHECK(pread(file, bytes, sizeof bytes, 0) == 11);
    say("in the place of the socket: %s", bytes);
}

static void dup_over_peer(int fd)
{
    talk(fd, BEFORE + AFTER);
    receive_to_end(fd);
}

/* The stream, its positions shared, used by parent and child in turn. */
struct shared {
    struct flow out, in;
};

static struct shared *share(void)
{
    struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    return shared;
}

static void talk_shared(struct shared *shared, int fd, int rounds)
{
    outgoing = shared->out, incoming = shared->in;
    talk(fd, rounds);
    shared->out = outgoing, shared->in = incoming;
}

static void fork_turns(int fd)
{
    struct shared *shared = share();
    int to_child[2], to_parent[2];
    char byte;
    MUST(pipe(to_child));
    MUST(pipe(to_parent));
    shared->out = outgoing, shared->in = incoming;
    pid_t child = MUST(fork());
    for (int i = 0; i < (BEFORE + AFTER) / 2; i++) {
        if (!child) CHECK(read(to_child[0], &byte, 1) == 1);
        talk_shared(shared, fd, 1);
        CHECK(write(child ? to_child[1] : to_parent[1], "x", 1) == 1);
        if (child) CHECK(read(to_parent[0], &byte, 1) == 1);
    }
    if (!child) _exit(0);
    wait_child(child);
    outgoing = shared->out, incoming = shared->in;
    finish(fd);
}

/* The parent sends while the child receives. */
static void fork_split(int fd)
{
    pid_t child = MUST(fork());
    if (!child) {
        duplex(fd, 0, 3000 * (BEFORE + AFTER));
        _exit(0);
    }
    duplex(fd, 3000 * (BEFORE + AFTER), 0);
    wait_child(child);
    incoming.position += 3000 * (BEFORE + AFTER);
    finish(fd);
}

/* The child goes on alone; the stream ends only when both have closed. */
static void fork_child_goes_on(int fd)
{
    talk(fd, BEFORE);
    pid_t child = MUST(fork());
    if (!child) {
        talk(fd, AFTER);
        rest_ms(100);
        _exit(0);
    }
    MUST(close(fd));
    wait_child(child);
}

static void fork_parent_goes_on(int fd)
{
    talk(fd, BEFORE);
    pid_t child = MUST(fork());
    if (!child) exit(0);
    wait_child(child);
    talk(fd, AFTER);
    MUST(close(fd));
}

static void end_sayer(int fd)
{
    talk(fd, BEFORE + AFTER);
    receive_to_end(fd);
}

/* Many forks while the stream flows both ways. */
static void *flow_in_thread(void *argument)
{
    duplex(*(int *)argument, 2000000, 2000000);
    return NULL;
}

static void fork_often(int fd)
{
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, flow_in_thread, &fd));
    for (int i = 0; i < 30; i++) {
        pid_t child = MUST(fork());
        if (!child) {
            if (i % 2) close(fd);
            _exit(0);
        }
        wait_child(child);
    }
    CHECK(!pthread_join(thread, NULL));
    finish(fd);
}

static void flow_peer(int fd)
{
    duplex(fd, 2000000, 2000000);
    finish(fd);
}

/* An epoll set that was made before fork(), waited on in the child. */
static void fork_set(int fd)
{
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    talk(fd, BEFORE);
    pid_t child = MUST(fork());
    if (!child) {
        for (int i = 0; i < AFTER; i++) {
            send_next(fd, 3000);
            for (size_t left = 3000; left;) {
                CHECK(epoll_wait(set, &event, 1, 10000) == 1);
                uint8_t bytes[3000];
                ssize_t got = MUST(recv(fd, bytes, left, MSG_DONTWAIT));
                check(incoming.seed, incoming.position, bytes, got);
                incoming.position += got, left -= got;
            }
        }
        _exit(0);
    }
    wait_child(child);
    outgoing.position += 3000 * AFTER, incoming.position += 3000 * AFTER;
    finish(fd);
}

/* One of the sharers is killed while it waits; the other goes on. */
static void kill_sharer(int fd)
{
    talk(fd, BEFORE);
    pid_t child = MUST(fork());
    if (!child) {
        uint8_t byte;
        recv(fd, &byte, 1, 0);
        fail("recv returned in the child");
    }
    rest_ms(200);
    MUST(kill(child, SIGKILL));
    MUST(waitpid(child, NULL, 0));
    post();
    talk(fd, AFTER);
    finish(fd);
}

static void kill_sharer_peer(int fd)
{
    talk(fd, BEFORE);
    await();
    talk(fd, AFTER);
    finish(fd);
}

/* Threads that share the socket: each byte comes to one of them, once. */
static int counts[256];
static int threads_fd;

static void *send_own_byte(void *argument)
{
    uint8_t bytes[50];
    memset(bytes, (int)(intptr_t)argument, sizeof bytes);
    for (int i = 0; i < 400; i++) {
        ssize_t size = 1 + i % 50;
        CHECK(send(threads_fd, bytes, size, 0) == size);
    }
    return NULL;
}

static void *count_bytes(void *unused)
{
    (void)unused;
    uint8_t bytes[100];
    ssize_t got;
    while ((got = MUST(recv(threads_fd, bytes, sizeof bytes, 0))) > 0)
        for (ssize_t i = 0; i < got; i++) __atomic_add_fetch(counts + bytes[i], 1, __ATOMIC_RELAXED);
    return NULL;
}

static void threads(int fd)
{
    pthread_t senders[4], receivers[4];
    threads_fd = fd;
    for (intptr_t i = 0; i < 4; i++) {
        CHECK(!pthread_create(receivers + i, NULL, count_bytes, NULL));
        CHECK(!pthread_create(senders + i, NULL, send_own_byte, (void *)(i + 1)));
    }
    for (int i = 0; i < 4; i++) CHECK(!pthread_join(senders[i], NULL));
    MUST(shutdown(fd, SHUT_WR));
    for (int i = 0; i < 4; i++) CHECK(!pthread_join(receivers[i], NULL));
    say("bytes of each thread: %d %d %d %d, others %d", counts[1], counts[2], counts[3], counts[4],
        counts[0]);
}

/* Another program at this end. */
enum image { PRELOADED, BARE, STATIC };

static const char *image_path(enum image image)
{
    static char beside[4200];
    if (image != STATIC) return program_path;
    if (getenv("TORTURE_STATIC")) return getenv("TORTURE_STATIC");
    snprintf(beside, sizeof beside, "%s-static", program_path);
    return beside;
}

static char **image_words(enum image image, const char *work, int fd)
{
    static char numbers[3][24];
    static char *words[8];
    snprintf(numbers[0], 24, "%d", fd);
    snprintf(numbers[1], 24, "%llu", (unsigned long long)outgoing.position);
    snprintf(numbers[2], 24, "%llu", (unsigned long long)incoming.position);
    char *all[] = {(char *)image_path(image), "@then", is_server ? "server" : "client",
                   (char *)work, numbers[0], numbers[1], numbers[2], NULL};
    memcpy(words, all, sizeof all);
    return words;
}

static void become(enum image image, const char *work, int fd)
{
    if (image == BARE) unsetenv("LD_PRELOAD");
    char **words = image_words(image, work, fd);
    execv(words[0], words);
    fail("exec of %s: %s", words[0], strerrorname_np(errno));
}

static void say_end(const char *work)
{
    say("%s: good", work);
}

/* What the later image does with its socket. */
static void work(const char *name, int fd)
{
    if (!strcmp(name, "talk")) {
        talk(fd, AFTER);
        finish(fd);
    } else if (!strcmp(name, "unread")) {
        receive_next(fd, UNREAD);
        talk(fd, AFTER);
        finish(fd);
    } else if (!strcmp(name, "flow")) {
        duplex(fd, 1500000, 1500000);
        finish(fd);
    } else if (!strcmp(name, "options")) {
        say_options_there(fd);
    } else if (!strcmp(name, "some")) {
        talk(fd, AFTER);
        say("fcntl of another: %s", fcntl(150, F_GETFD) < 0 ? strerrorname_np(errno) : "open");
    } else {
        fail("no work is called %s", name);
    }
}

static int receive_descriptor(int channel)
{
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    CHECK(MUST(recvmsg(channel, &message, 0)) == 1);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    CHECK(header && header->cmsg_type == SCM_RIGHTS);
    int fd;
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

static void send_descriptor(int channel, int fd)
{
    char byte = 'f', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    CHECK(MUST(sendmsg(channel, &message, 0)) == 1);
}

int later_image(int count, char **words)
{
    if (count != 7 || strcmp(words[1], "@then")) return 2;
    alarm(60);
    is_server = !strcmp(words[2], "server");
    outgoing = (struct flow){is_server ? 1 : 2, strtoull(words[5], NULL, 10)};
    incoming = (struct flow){is_server ? 2 : 1, strtoull(words[6], NULL, 10)};
    int fd = atoi(words[4]);
    if (!strncmp(words[3], "passed-", 7)) {
        int channel = fd;
        fd = receive_descriptor(channel);
        words[3] += 7;
    }
    work(words[3], fd);
    say_end(words[3]);
    return 0;
}

#define EXEC_CASE(name, image)             \
    static void name(int fd)               \
    {                                      \
        talk(fd, BEFORE);                  \
        become(image, "talk", fd);         \
    }                                      \
    static void name##_unread(int fd)      \
    {                                      \
        talk(fd, BEFORE);                  \
        wait_for_bytes(fd, UNREAD);        \
        become(image, "unread", fd);       \
    }                                      \
    static void name##_flow(int fd)        \
    {                                      \
        duplex(fd, 500000, 500000);        \
        become(image, "flow", fd);         \
    }
EXEC_CASE(exec_preloaded, PRELOADED)
EXEC_CASE(exec_bare, BARE)
EXEC_CASE(exec_static, STATIC)

static void unread_peer(int fd)
{
    talk(fd, BEFORE);
    send_next(fd, UNREAD);
    talk(fd, AFTER);
    finish(fd);
}

/* exec() closes what is marked so: the peer sees the end. */
static void exec_closes(int fd)
{
    talk(fd, BEFORE + AFTER);
    MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
    execl("/bin/true", "true", NULL);
    fail("exec");
}

/* A child by vfork() or posix_spawn() that becomes another program on this socket. */
static void vfork_exec(int fd)
{
    talk(fd, BEFORE);
    char **words = image_words(PRELOADED, "some", fd);
    pid_t child = vfork();
    if (child == 0) {
        execv(words[0], words);
        _exit(9);
    }
    MUST(child);
    wait_child(child);
    MUST(close(fd));
}

static void spawned(int fd)
{
    talk(fd, BEFORE);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, 120);
    pid_t child;
    char **words = image_words(PRELOADED, "some", 120);
    CHECK(!posix_spawn(&child, words[0], &actions, NULL, words, environ));
    MUST(close(fd));
    wait_child(child);
}

static void vfork_closes(int fd)
{
    /* What a vfork child closes and moves, it closes for itself. */
    for (volatile int i = 0; i < BEFORE; i++) {
        pid_t child = vfork();
        if (child == 0) {
            close(fd);
            execl("/bin/true", "true", NULL);
            _exit(9);
        }
        wait_child(MUST(child));
        talk(fd, 1);
    }
    pid_t child = vfork();
    if (child == 0) {
        dup2(fd, 0);
        execl("/bin/true", "true", NULL);
        _exit(9);
    }
    wait_child(MUST(child));
    talk(fd, AFTER);
    MUST(close(fd));
}

/* The socket itself closes when the other program begins; its copy, which has bytes to be read, does
 * not. */
static void vfork_duplicates(int fd)
{
    talk(fd, BEFORE);
    wait_for_bytes(fd, UNREAD);
    MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
    char **words = image_words(BARE, "unread", 120);
    pid_t child = vfork();
    if (child == 0) {
        dup2(fd, 120);
        execv(words[0], words);
        _exit(9);
    }
    MUST(close(fd));
    wait_child(MUST(child));
}

/* A child by vfork() is about to become another program on a socket that it has from a process that
 * is killed meanwhile: what it does then must not hit the next connection. */

static void next_connection(int fd)
{
    outgoing.position = incoming.position = 0;
    talk(fd, BEFORE);
    rest_ms(1500);
    talk(fd, AFTER);
    finish(fd);
}

static void be_left(int fd, int told)
{
    talk(fd, BEFORE);
    wait_for_bytes(fd, UNREAD);
    char *words[] = {"/bin/true", NULL};
    MUST(write(told, "x", 1));
    if (vfork() == 0) {
        execv(words[0], words);
        _exit(9);
    }
    for (;;) pause();
}

static void vfork_orphan_server(int unused)
{
    (void)unused;
    int listener = listener_here(2), told[2];
    MUST(pipe2(told, O_CLOEXEC));
    int fd = accept_one(listener);
    pid_t child = MUST(fork());
    if (!child) be_left(fd, told[1]);
    MUST(close(fd));
    char byte;
    CHECK(read(told[0], &byte, 1) == 1);
    rest_ms(200);
    MUST(kill(child, SIGKILL));
    MUST(waitpid(child, NULL, 0));
    post();
    next_connection(accept_one(listener));
}

static void vfork_orphan_client(int unused)
{
    (void)unused;
    learn();
    pid_t child = MUST(fork());
    if (!child) {
        int fd = dial();
        talk(fd, BEFORE);
        send_next(fd, UNREAD);
        /* It takes nothing back. */
        for (;;) pause();
    }
    await();
    next_connection(dial());
    MUST(kill(child, SIGKILL));
    MUST(waitpid(child, NULL, 0));
}

static void with_system(int fd)
{
    for (int i = 0; i < BEFORE; i++) {
        CHECK(system("exit 3") == 3 << 8);
        FILE *out = popen("echo x", "r");
        CHECK(out && fgetc(out) == 'x');
        CHECK(pclose(out) == 0);
        talk(fd, 1);
    }
    talk(fd, AFTER);
    MUST(close(fd));
}

static void as_daemon(int fd)
{
    talk(fd, BEFORE);
    MUST(daemon(1, 1));
    talk(fd, AFTER);
    finish(fd);
    exit(0);
}

/* A descriptor passed to another process, in this program or another. */
static void pass(int fd, enum image image, bool forked, const char *name, bool keep)
{
    int channel[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, channel));
    pid_t child = MUST(fork());
    if (!child) {
        close(fd);
        close(channel[0]);
        if (forked) {
            work(name + 7, receive_descriptor(channel[1]));
            say_end(name + 7);
            _exit(0);
        }
        become(image, name, channel[1]);
    }
    close(channel[1]);
    rest_ms(50);
    send_descriptor(channel[0], fd);
    if (!keep) MUST(close(fd));
    wait_child(child);
    if (keep) {
        uint8_t byte;
        say("after the other has ended: recv: %zd", recv(fd, &byte, 1, 0));
    }
}

#define PASS_CASE(name, image, forked)                        \
    static void name(int fd)                                  \
    {                                                         \
        talk(fd, BEFORE);                                     \
        pass(fd, image, forked, "passed-talk", true);         \
    }                                                         \
    static void name##_unread(int fd)                         \
    {                                                         \
        talk(fd, BEFORE);                                     \
        wait_for_bytes(fd, UNREAD);                           \
        pass(fd, image, forked, "passed-unread", false);      \
    }                                                         \
    static void name##_flow(int fd)                           \
    {                                                         \
        duplex(fd, 500000, 500000);                           \
        pass(fd, image, forked, "passed-flow", false);        \
    }
PASS_CASE(pass_forked, PRELOADED, true)
PASS_CASE(pass_preloaded, PRELOADED, false)
PASS_CASE(pass_bare, BARE, false)
PASS_CASE(pass_static, STATIC, false)

/* Passed and kept: both processes use it in turn. */
static void pass_turns(int fd)
{
    struct shared *shared = share();
    int channel[2];
    char byte;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, channel));
    talk(fd, BEFORE);
    shared->out = outgoing, shared->in = incoming;
    pid_t child = MUST(fork());
    if (!child) {
        close(fd);
        int passed = receive_descriptor(channel[1]);
        for (int i = 0; i < AFTER / 2; i++) {
            talk_shared(shared, passed, 1);
            CHECK(write(channel[1], "x", 1) == 1);
            CHECK(read(channel[1], &byte, 1) == 1);
        }
        _exit(0);
    }
    send_descriptor(channel[0], fd);
    for (int i = 0; i < AFTER / 2; i++) {
        CHECK(read(channel[0], &byte, 1) == 1);
        talk_shared(shared, fd, 1);
        CHECK(write(channel[0], "x", 1) == 1);
    }
    wait_child(child);
    finish(fd);
}

/* Passed while it lies in the queue only: the sender has closed it already. */
static void pass_to_self(int fd)
{
    int channel[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, channel));
    for (int i = 0; i < BEFORE; i++) {
        send_descriptor(channel[0], fd);
        MUST(close(fd));
        fd = receive_descriptor(channel[1]);
        talk(fd, 1);
    }
    talk(fd, AFTER);
    finish(fd);
}

/* A thread closes a socket that another sleeps on; the next connection gets its number. */

static void *receives(void *fd)
{
    char bytes[4096];
    return (void *)recv((intptr_t)fd, bytes, sizeof bytes, 0);
}

static void *sends_much(void *fd)
{
    enum { SIZE = 64 << 20 };
    char *bytes = calloc(SIZE, 1);
    CHECK(bytes);
    long sent = send((intptr_t)fd, bytes, SIZE, MSG_NOSIGNAL);
    free(bytes);
    return (void *)sent;
}

static void *close_under(void *(*sleeper)(void *), int how)
{
    int listener = listener_here(2), fd = accept_one(listener);
    talk(fd, BEFORE);
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, sleeper, (void *)(intptr_t)fd));
    rest_ms(200);
    if (how >= 0) MUST(shutdown(fd, how));
    MUST(close(fd));
    post();
    int next = accept_one(listener);
    CHECK(next == fd);
    outgoing.position = incoming.position = 0;
    talk(next, BEFORE * AFTER);
    post();
    void *result;
    CHECK(!pthread_join(thread, &result));
    finish(next);
    return result;
}

static void close_under_reader(int unused)
{
    (void)unused;
    say("recv: %ld", (long)close_under(receives, SHUT_RDWR));
}

static void close_under_sender(int unused)
{
    (void)unused;
    /* It has sent something when the other end hangs up. */
    CHECK((long)close_under(sends_much, -1) > 0);
}

static void close_under_peer(int unused)
{
    (void)unused;
    int fd = dial();
    talk(fd, BEFORE);
    await();
    int next = dial();
    outgoing.position = incoming.position = 0;
    talk(next, BEFORE * AFTER);
    await();
    MUST(close(fd));
    finish(next);
}

const struct torture_case process_cases[] = {
    {"dup-turns", dup_turns, talker, 0},
    {"dup-over", dup_over, dup_over_peer, 0},
    {"fork-turns", fork_turns, talker, 0},
    {"fork-split", fork_split, talker, 0},
    {"fork-child", fork_child_goes_on, end_sayer, 0},
    {"fork-parent", fork_parent_goes_on, end_sayer, 0},
    {"fork-often", fork_often, flow_peer, 0},
    {"fork-often-client", flow_peer, fork_often, 0},
    {"fork-both", fork_often, fork_often, 0},
    {"fork-set", fork_set, talker, 0},
    {"kill-sharer", kill_sharer, kill_sharer_peer, 0},
    {"close-under-reader", close_under_reader, close_under_peer, OWN_SOCKETS},
    {"close-under-sender", close_under_sender, close_under_peer, OWN_SOCKETS},
    {"threads", threads, threads, 0},
    {"exec-preloaded", exec_preloaded, talker, 0},
    {"exec-preloaded-unread", exec_preloaded_unread, unread_peer, 0},
    {"exec-preloaded-flow", exec_preloaded_flow, flow_peer, 0},
    {"exec-bare", exec_bare, talker, 0},
    {"exec-bare-unread", exec_bare_unread, unread_peer, 0},
    {"exec-bare-flow", exec_bare_flow, flow_peer, 0},
    {"exec-static", exec_static, talker, 0},
    {"exec-static-unread", exec_static_unread, unread_peer, 0},
    {"exec-static-flow", exec_static_flow, flow_peer, 0},
    {"exec-client", talker, exec_preloaded, 0},
    {"exec-both", exec_preloaded_flow, exec_bare_flow, 0},
    {"exec-closes", exec_closes, end_sayer, 0},
    {"vfork-exec", vfork_exec, end_sayer, 0},
    {"vfork-closes", vfork_closes, end_sayer, 0},
    {"vfork-duplicates", vfork_duplicates, unread_peer, 0},
    {"vfork-orphan", vfork_orphan_server, vfork_orphan_client, OWN_SOCKETS},
    {"spawned", spawned, end_sayer, 0},
    {"system", with_system, end_sayer, 0},
    {"daemon", as_daemon, talker, 0},
    {"pass-forked", pass_forked, talker, 0},
    {"pass-forked-unread", pass_forked_unread, unread_peer, 0},
    {"pass-forked-flow", pass_forked_flow, flow_peer, 0},
    {"pass-preloaded", pass_preloaded, talker, 0},
    {"pass-preloaded-unread", pass_preloaded_unread, unread_peer, 0},
    {"pass-preloaded-flow", pass_preloaded_flow, flow_peer, 0},
    {"pass-bare", pass_bare, talker, 0},
    {"pass-bare-unread", pass_bare_unread, unread_peer, 0},
    {"pass-bare-flow", pass_bare_flow, flow_peer, 0},
    {"pass-static", pass_static, talker, 0},
    {"pass-static-unread", pass_static_unread, unread_peer, 0},
    {"pass-static-flow", pass_static_flow, flow_peer, 0},
    {"pass-turns", pass_turns, talker, 0},
    {"pass-to-self", pass_to_self, talker, 0},
    {NULL, NULL, NULL, 0},
};
