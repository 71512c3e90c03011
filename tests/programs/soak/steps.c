/* What a life does to its socket beside sending and receiving: it goes on elsewhere, or does
 * something that only the kernel serves. */
#include "soak.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spawn.h>
#include <sys/ioctl.h>

char **environment(bool has_library)
{
    extern char **environ;
    static char *lists[2][512], preload[4200];
    char **list = lists[has_library];
    if (list[0]) return list;
    int size = 0;
    for (char **at = environ; *at && size < 500; at++)
        if (strncmp(*at, "LD_PRELOAD=", 11)) list[size++] = *at;
    const char *library = getenv("SOAK_PRELOAD");
    if (has_library && library && *library) {
        snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
        list[size++] = preload;
    }
    return list;
}

static void note_pid(const struct life *life, int pid)
{
    if (life->place < LIVES_MAX) atomic_store(&shared->lives[life->place].pid, pid);
}

void become_child(struct life *life, int fd)
{
    life->in_child = true;
    note_pid(life, getpid());
    if (fd > 3) MUST(life, close_range(3, fd - 1, 0));
    if (fd + 1 < FIRST_COMMON_FD) MUST(life, close_range(fd + 1, FIRST_COMMON_FD - 1, 0));
    MUST(life, close_range(LAST_COMMON_FD + 1, ~0U, 0));
}

void await_child(const struct life *life, pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) fault(life, "waitpid: %s", strerrorname_np(errno));
    if (WIFSIGNALED(status)) fault(life, "process %d died of signal %d", child, WTERMSIG(status));
    if (WEXITSTATUS(status)) fault(life, "process %d: exit %d", child, WEXITSTATUS(status));
}

static enum went parted(struct life *life, struct hands *hands, pid_t child)
{
    drop_set(hands);
    MUST(life, close(hands->fd));
    if (child) await_child(life, child);
    return GONE_ON;
}

/* A child goes on with the connection. */
static enum went by_fork(struct life *life, struct hands *hands)
{
    drop_set(hands);
    pid_t child = MUST(life, fork());
    if (child) return parted(life, hands, child);
    become_child(life, hands->fd);
    take_hands(hands, life, hands->fd);
    return ON;
}

/* Another image of this program. */

struct image {
    char *words[5], fd[16], hex[2 * sizeof(struct life) + 1];
    char **environment;
};

static void make_image(struct image *image, struct life *life, int fd)
{
    const uint8_t *bytes = (const uint8_t *)life;
    for (size_t i = 0; i < sizeof *life; i++) sprintf(image->hex + 2 * i, "%02x", bytes[i]);
    sprintf(image->fd, "%d", fd);
    image->words[0] = (char *)program_path;
    image->words[1] = "@life";
    image->words[2] = image->fd;
    image->words[3] = image->hex;
    image->words[4] = NULL;
    image->environment = environment(draw(life, 2));
}

int go_on(char **words)
{
    struct life life;
    uint8_t *bytes = (uint8_t *)&life;
    for (size_t i = 0; i < sizeof life; i++) {
        unsigned byte;
        if (sscanf(words[3] + 2 * i, "%2x", &byte) != 1) return 2;
        bytes[i] = byte;
    }
    int fd = atoi(words[2]);
    MUST(&life, fcntl(fd, F_SETFD, FD_CLOEXEC));
    become_child(&life, fd);
    live(&life, fd);
    return 0;
}

static void become_image(struct life *life, struct image *image, int fd)
{
    MUST(life, fcntl(fd, F_SETFD, 0));
    execve(program_path, image->words, image->environment);
    fault(life, "execve: %s", strerrorname_np(errno));
}

static enum went by_exec(struct life *life, struct hands *hands)
{
    struct image image;
    bool directly = life->in_child && draw(life, 2), by_vfork = draw(life, 3) == 0;
    make_image(&image, life, hands->fd);
    drop_set(hands);
    if (directly) become_image(life, &image, hands->fd);
    int fd = hands->fd;
    volatile pid_t child;
    if (by_vfork) {
        child = MUST(life, vfork());
        if (child == 0) {
            fcntl(fd, F_SETFD, 0);
            execve(program_path, image.words, image.environment);
            _exit(9);
        }
    } else {
        child = MUST(life, fork());
        if (child == 0) become_image(life, &image, fd);
    }
    return parted(life, hands, child);
}

/* As by_exec; the C library clears the flag that closes the descriptor. */
static enum went by_spawn(struct life *life, struct hands *hands)
{
    struct image image;
    posix_spawn_file_actions_t actions;
    pid_t child;
    int fd = draw(life, 2) ? hands->fd : 399;
    make_image(&image, life, fd);
    drop_set(hands);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, hands->fd, fd);
    int error = posix_spawn(&child, program_path, &actions, NULL, image.words, image.environment);
    posix_spawn_file_actions_destroy(&actions);
    if (error) fault(life, "posix_spawn: %s", strerrorname_np(error));
    return parted(life, hands, child);
}

/* Another process, which was there before. */
static enum went by_message(struct life *life, struct hands *hands)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {};
    struct iovec part = {life, sizeof *life};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    int helper = HELPER_FDS + draw(life, HELPERS);
    control.header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &hands->fd, sizeof(int));
    note_pid(life, 0);
    bool was_child = life->in_child;
    life->in_child = false;
    MUST(life, sendmsg(helper, &message, MSG_NOSIGNAL));
    life->in_child = was_child;
    return parted(life, hands, 0);
}

/* Here, but not as before. */

static void by_option(struct life *life, int fd)
{
    int value, flags;
    switch (draw(life, 4)) {
    case 0:
        value = 2;
        MUST(life, setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof value));
        value = 1;
        MUST(life, setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof value));
        break;
    case 1:
        value = 1000;
        MUST(life, setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &value, sizeof value));
        break;
    case 2:
        flags = MUST(life, fcntl(fd, F_GETFL));
        MUST(life, fcntl(fd, F_SETFL, flags | O_ASYNC));
        MUST(life, fcntl(fd, F_SETFL, flags));
        break;
    case 3:
        value = MUST(life, fcntl(fd, F_DUPFD_CLOEXEC, 3));
        FILE *file = fdopen(value, "r+");
        if (!file) fault(life, "fdopen: %s", strerrorname_np(errno));
        fclose(file);
    }
}

static void by_setting(struct life *life, int fd)
{
    static const int names[] = {TCP_NODELAY, TCP_QUICKACK}, sizes[] = {SO_SNDBUF, SO_RCVBUF};
    /* Slow ones now and then: the soak is to see much. */
    int value = draw(life, 16) != 0, bytes = 16384 << draw(life, 7);
    MUST(life, setsockopt(fd, IPPROTO_TCP, names[draw(life, 2)], &value, sizeof value));
    if (draw(life, 4) == 0)
        MUST(life, setsockopt(fd, SOL_SOCKET, sizes[draw(life, 2)], &bytes, sizeof bytes));
    MUST(life, ioctl(fd, FIONREAD, &value));
    uint8_t byte;
    if (value > 0 && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN)
        fault(life, "FIONREAD says %d, and there is nothing", value);
}

static void by_duplicate(struct life *life, struct hands *hands)
{
    drop_set(hands);
    int fd = draw(life, 2) ? MUST(life, fcntl(hands->fd, F_DUPFD_CLOEXEC, 3)) : MUST(life, dup(hands->fd));
    /* Programs that other threads begin meanwhile have this one as well, and the number is soon
     * another's. */
    if (draw(life, 2)) rest_us(draw(life, 2000));
    MUST(life, fcntl(fd, F_SETFD, FD_CLOEXEC));
    if (draw(life, 2)) {
        MUST(life, close(hands->fd));
        hands->fd = fd;
    } else {
        MUST(life, dup3(fd, hands->fd, O_CLOEXEC));
        MUST(life, close(fd));
    }
}

/* A program that has nothing to do with it runs meanwhile; it may have the descriptor. */
static void by_program(struct life *life, int fd)
{
    char *words[] = {"/bin/true", NULL}, **variables = environment(draw(life, 2));
    bool leaks = draw(life, 2);
    volatile pid_t child = MUST(life, draw(life, 2) ? fork() : vfork());
    if (child == 0) {
        if (leaks) fcntl(fd, F_SETFD, 0);
        execve(words[0], words, variables);
        _exit(9);
    }
    await_child(life, child);
}

static void by_urgent_byte(struct life *life, const struct plan *plan, int fd)
{
    /* Before the last byte of the stream: one that nobody has passed counts as unread. */
    if (!plan->urgent || life->urgent_sent || life->out + 1 >= life->out_until) return;
    life->urgent_sent = true;
    count(URGENT, 1);
    if (send(fd, "!", 1, MSG_OOB | MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN
        && !life->is_mortal && plan->fate == NORMAL)
        fault(life, "MSG_OOB: %s", strerrorname_np(errno));
}

enum went step(struct life *life, const struct plan *plan, struct hands *hands)
{
    unsigned odds = plan->step_odds[life->side];
    if (!odds || life->steps >= STEPS_MAX || draw(life, odds)) return ON;
    life->steps++;
    /* A process that is to be killed must be the one that has the connection. */
    bool may_part = life->handovers < HANDOVERS_MAX
        && !(plan->fate == KILLED && plan->hurt == life->side);
    static const enum count kinds[16] = {
        FORKS, EXECS, EXECS, SPAWNS, GIVEN, GIVEN, OPTIONS, PROGRAMS, URGENT, URGENT, DUPS, RESTS,
        RESTS, SETTINGS, SETTINGS, SETTINGS,
    };
    enum count what = kinds[draw(life, 16)];
    bool parts = what == FORKS || what == EXECS || what == SPAWNS || what == GIVEN;
    if (!is_wanted(what) || (parts && !may_part)) return ON;
    life->handovers += parts;
    if (what != URGENT) count(what, 1);
    switch (what) {
    case FORKS: return by_fork(life, hands);
    case EXECS: return by_exec(life, hands);
    case SPAWNS: return by_spawn(life, hands);
    case GIVEN: return by_message(life, hands);
    case OPTIONS: by_option(life, hands->fd); break;
    case PROGRAMS: by_program(life, hands->fd); break;
    case URGENT: by_urgent_byte(life, plan, hands->fd); break;
    case DUPS: by_duplicate(life, hands); break;
    case RESTS: rest_us(1 << draw(life, 13)); break;
    default: by_setting(life, hands->fd);
    }
    return ON;
}
