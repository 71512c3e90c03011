/* Starts both ends of a case and gathers what they say. See torture.h. */
#include "torture.h"

#include <sys/prctl.h>
#include <sys/wait.h>

enum { LIMIT_MS = 60000, LOG_MAX = 1 << 20 };

static const struct torture_case *const tables[] = {
    stream_cases, edge_cases, event_cases, process_cases, life_cases, kernel_cases,
    local_cases, set_cases, confined_cases, exact_cases, past_cases,
    wait_cases, beside_cases, cancel_cases, cut_cases, order_cases, ring_cases, multipath_cases,
    answer_cases, lost_cases,
};

static const struct torture_case *find(const char *name)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct torture_case *c = tables[t]; c->name; c++)
            if (!strcmp(c->name, name)) return c;
    return NULL;
}

static void list(void)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct torture_case *c = tables[t]; c->name; c++)
            printf("%s%s\n", c->name,
                   c->flags & INTERNET    ? " internet"
                   : c->flags & UNIX_ONLY ? " unix"
                                          : "");
}

struct end {
    const char *name;
    const char *preload; /* the variable that says what to preload */
    int log[2], post[2];
    pid_t pid;
    int status;
    bool over;
    char *said;
    size_t said_bytes;
};

static void start(struct end *self, struct end *other, const char *name)
{
    const char *preload = getenv(self->preload);
    self->pid = fork();
    if (self->pid) return;
    setpgid(0, 0);
    dup2(self->log[1], LOG_FD);
    dup2(self->post[1], POST_FD);
    dup2(other->post[0], AWAIT_FD);
    if (preload && *preload) setenv("LD_PRELOAD", preload, 1);
    if (preload && !*preload) unsetenv("LD_PRELOAD");
    execl(program_path, program_path, self->name, name, NULL);
    _exit(127);
}

static void gather(struct end *end)
{
    ssize_t got = read(end->log[0], end->said + end->said_bytes, LOG_MAX - end->said_bytes);
    if (got <= 0) {
        close(end->log[0]);
        end->log[0] = -1;
    } else {
        end->said_bytes += got;
    }
}

/* Reaps; false when no child is left. Orphans come to us, who are their reaper. */
static bool reap(struct end *ends)
{
    int status;
    for (;;) {
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid == 0) return true;
        if (pid < 0) return false;
        for (int i = 0; i < 2; i++)
            if (ends[i].pid == pid) ends[i].status = status, ends[i].over = true;
    }
}

static bool report(struct end *end)
{
    bool good = true;
    end->said[end->said_bytes] = 0;
    for (char *rest = end->said, *line; (line = strsep(&rest, "\n"));) {
        if (!*line) continue;
        if (!strncmp(line, "FAILED", 6)) good = false;
        printf("%s: %s\n", end->name + 1, line);
    }
    return good;
}

static bool report_status(const struct end *end, unsigned flags)
{
    if (!end->over) {
        printf("%s: FAILED: not over in time\n", end->name + 1);
        return false;
    }
    if (WIFSIGNALED(end->status)) {
        printf("%s: died of signal %d\n", end->name + 1, WTERMSIG(end->status));
        return (flags & ONE_IS_KILLED) && WTERMSIG(end->status) == SIGKILL;
    }
    if (WEXITSTATUS(end->status)) {
        printf("%s: exit %d\n", end->name + 1, WEXITSTATUS(end->status));
        return false;
    }
    return true;
}

static int supervise(const struct torture_case *c)
{
    struct end ends[2] = {
        {.name = "@server", .preload = "TORTURE_SERVER_PRELOAD"},
        {.name = "@client", .preload = "TORTURE_CLIENT_PRELOAD"},
    };
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int i = 0; i < 2; i++) {
        MUST(pipe2(ends[i].log, O_CLOEXEC));
        MUST(pipe2(ends[i].post, O_CLOEXEC));
        ends[i].said = malloc(LOG_MAX + 1);
    }
    for (int i = 0; i < 2; i++) start(&ends[i], &ends[!i], c->name);
    for (int i = 0; i < 2; i++) {
        close(ends[i].log[1]);
        close(ends[i].post[0]);
        close(ends[i].post[1]);
    }
    long deadline = now_ms() + LIMIT_MS;
    bool any = true;
    while (any && now_ms() < deadline) {
        struct pollfd fds[2] = {{ends[0].log[0], POLLIN, 0}, {ends[1].log[0], POLLIN, 0}};
        poll(fds, 2, 20);
        for (int i = 0; i < 2; i++)
            if (fds[i].revents) gather(&ends[i]);
        any = reap(ends);
        /* Who lives on when both ends are over has a while to end, too. */
        if (ends[0].over && ends[1].over && deadline > now_ms() + 10000)
            deadline = now_ms() + 10000;
    }
    bool good = true;
    for (int i = 0; i < 2; i++) {
        if (ends[i].log[0] >= 0) fcntl(ends[i].log[0], F_SETFL, O_NONBLOCK);
        while (ends[i].log[0] >= 0) gather(&ends[i]);
        kill(-ends[i].pid, SIGKILL);
    }
    for (int i = 0; i < 2; i++) {
        good &= report(&ends[i]);
        good &= report_status(&ends[i], c->flags);
    }
    if (any && ends[0].over && ends[1].over) {
        puts("FAILED: a process is left");
        good = false;
    }
    puts(good ? "good" : "BAD");
    return !good;
}

/* What the two ends, and the programs that they become, begin with. */
static int run_end(int count, char **words)
{
    const struct torture_case *c = count > 2 ? find(words[2]) : NULL;
    is_server = !strcmp(words[1], "@server");
    if (!c || (!is_server && strcmp(words[1], "@client"))) return later_image(count, words);
    alarm(LIMIT_MS / 1000);
    outgoing.seed = is_server ? 1 : 2;
    incoming.seed = is_server ? 2 : 1;
    end_fn run = is_server ? c->server : c->client;
    if (c->flags & OWN_SOCKETS) {
        run(-1);
        return 0;
    }
    int listener = is_server ? listener_here(1) : -1;
    int fd = is_server ? accept_one(listener) : dial();
    if (is_server) close(listener);
    if (!(c->flags & COLD) && !getenv("TORTURE_COLD")) warm_up(fd);
    run(fd);
    return 0;
}

int main(int count, char **words)
{
    static char path[4096];
    ssize_t got = readlink("/proc/self/exe", path, sizeof path - 1);
    if (got < 0) return 2;
    program_path = path;
    scale = getenv("TORTURE_SCALE") ? atol(getenv("TORTURE_SCALE")) : 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count > 1 && words[1][0] == '@') return run_end(count, words);
    const struct torture_case *c = count == 2 ? find(words[1]) : NULL;
    if (c) return supervise(c);
    if (count == 2 && !strcmp(words[1], "list")) return list(), 0;
    if (count == 2 && !strcmp(words[1], "has-ring")) return !has_ring();
    if (count == 2 && !strcmp(words[1], "has-multipath")) return !has_multipath();
    fputs("usage: torture CASE | list | has-ring | has-multipath\n"
          "environment: TORTURE_FAMILY=inet|inet6|unix  TORTURE_COLD=1  TORTURE_SCALE=N\n"
          "  TORTURE_SERVER_PRELOAD=FILE  TORTURE_CLIENT_PRELOAD=FILE (empty: none)\n"
          "  TORTURE_STATIC=FILE: this program, linked statically\n",
          stderr);
    return 2;
}
