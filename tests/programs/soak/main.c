/* Starts the processes, kills some, and sees to it that nothing is lost or left. See soak.h. */
#include "soak.h"

#include <dirent.h>
#include <malloc.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <time.h>

struct shared *shared;
const char *program_path;
const char *const count_names[COUNTS] = {
    "scenarios", "short", "cut", "bytes", "forks", "execs", "spawns", "given", "options",
    "urgent", "dups", "programs", "rests", "settings", "splits",
    "threads", "kills", "resets the kernel lost",
};

void count(enum count what, uint64_t by)
{
    atomic_fetch_add_explicit(&shared->counts[what], by, memory_order_relaxed);
}

bool is_wanted(enum count what)
{
    const char *without = getenv("SOAK_WITHOUT");
    return !without || !strstr(without, count_names[what]);
}

long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void rest_us(unsigned us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&time, &time) && errno == EINTR) {}
}

void say(const char *format, ...)
{
    char line[1000];
    va_list values;
    va_start(values, format);
    int size = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    if (write(LOG_FD, line, size) != size) abort();
}

static void tell_fault(const struct life *life, const char *what)
{
    shared->faults++;
    say("FAULT: scenario %llu side %u pid %d act %u: %s (out %llu of %llu, in %llu of %llu)\n",
        (unsigned long long)life->seed, life->side, getpid(), life->act, what,
        (unsigned long long)life->out, (unsigned long long)life->out_until,
        (unsigned long long)life->in, (unsigned long long)life->in_until);
}

void fault(const struct life *life, const char *format, ...)
{
    char line[500];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    tell_fault(life, line);
    for (;;) pause();
}

/* The supervisor's own. */

enum { LONG_LIVED = SERVERS + HELPERS + CLIENTS - 1, MORTAL = LONG_LIVED, PROCESSES };

static struct process {
    const char *role;
    unsigned number;
    bool has_library;
    pid_t pid;
    int fds, memories, threads;
    long rss_kib;
} processes[PROCESSES] = {
    {"@serve", 0, true}, {"@serve", 1, true}, {"@serve", 2, false},
    {"@help", 0, false}, {"@help", 1, true},
    {"@open", 0, true}, {"@open", 1, true}, {"@open", 2, false},
    {"@open", MORTAL_CLIENT, true},
};

static uint64_t seed, only;
static unsigned threads = 3;
static long times; /* that the only scenario is opened */
static long begun_ms, mortal_ends_ms;

static void problem(const char *format, ...)
{
    char line[500];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    shared->faults++;
    say("FAULT: %s\n", line);
}

static void start(struct process *process)
{
    char number[16], seed_text[32], threads_text[16], only_text[32];
    static unsigned starts;
    sprintf(number, "%u", process->number);
    sprintf(seed_text, "%llu", (unsigned long long)seed + starts++);
    sprintf(threads_text, "%u", threads);
    sprintf(only_text, "%llu", (unsigned long long)only);
    char *words[] = {(char *)program_path, (char *)process->role, number, seed_text, threads_text,
                     only_text, NULL};
    char **variables = environment(process->has_library);
    process->pid = fork();
    if (process->pid) return;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execve(program_path, words, variables);
    _exit(9);
}

static int entries(pid_t pid, const char *folder)
{
    char path[64];
    int found = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", pid, folder);
    DIR *list = opendir(path);
    if (!list) return -1;
    while (readdir(list)) found++;
    closedir(list);
    return found - 2;
}

/* Mappings of shared memory that has a descriptor's name: a carrier's. */
static int memories(pid_t pid)
{
    char path[64], line[600];
    int found = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "re");
    if (!maps) return -1;
    while (fgets(line, sizeof line, maps)) found += strstr(line, "/memfd:") != NULL;
    fclose(maps);
    return found;
}

static long rss_kib(pid_t pid)
{
    char path[64], line[200];
    long kib = -1;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *status = fopen(path, "re");
    if (!status) return -1;
    while (fgets(line, sizeof line, status)) sscanf(line, "VmRSS: %ld", &kib);
    fclose(status);
    return kib;
}

/* Children that are not ours by name: relays, and whoever has lost its parent. */
static int strangers(bool tell)
{
    char path[64];
    int pid, found = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    FILE *list = fopen(path, "re");
    if (!list) return 0;
    while (fscanf(list, "%d", &pid) == 1) {
        bool known = false;
        for (int i = 0; i < PROCESSES; i++) known |= processes[i].pid == pid;
        if (known) continue;
        found++;
        if (!tell) continue;
        char name[64] = "?";
        snprintf(path, sizeof path, "/proc/%d/comm", pid);
        FILE *comm = fopen(path, "re");
        if (comm && fgets(name, sizeof name, comm)) name[strcspn(name, "\n")] = 0;
        if (comm) fclose(comm);
        problem("process %d (%s) is left", pid, name);
    }
    fclose(list);
    return found;
}

/* Reaps; a death of a process that should live is a fault. */
static void reap(void)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (int i = 0; i < PROCESSES; i++) {
            if (processes[i].pid != pid) continue;
            processes[i].pid = 0;
            bool bad = i < LONG_LIVED ? !shared->is_over || status != 0
                                      : WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL;
            if (bad) problem("%s %u, process %d, ended: status %#x", processes[i].role,
                             processes[i].number, pid, status);
        }
        if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
            problem("process %d died of signal %d", pid, WTERMSIG(status));
    }
}

static long patience_ms(void)
{
    const char *seconds = getenv("SOAK_PATIENCE_S");
    return (seconds ? atol(seconds) : 60) * 1000;
}

/* Looks at all lives; says how many there are. */
static int look_at_lives(void)
{
    int found = 0;
    bool any_stalls = false;
    long now = now_ms();
    for (unsigned place = 0; place < LIVES_MAX; place++) {
        struct lives *entry = &shared->lives[place];
        if (atomic_load(&entry->state) != LIVING) continue;
        found++;
        int pid = atomic_load(&entry->pid);
        long age_ms = now - entry->last_ms;
        bool is_gone = pid ? kill(pid, 0) && errno == ESRCH : age_ms > 5000;
        if (is_gone && entry->is_mortal) {
            atomic_store(&entry->state, FREE);
            continue;
        }
        if (age_ms < patience_ms()) continue;
        int lost = pid ? end_lost(pid) : 0;
        if (lost > 0) {
            count(LOST, lost);
            entry->last_ms = now;
            continue;
        }
        problem("scenario %llu side %u: no byte for %ld s: process %d%s, out %llu, in %llu",
                (unsigned long long)entry->seed, entry->side, age_ms / 1000, pid,
                is_gone ? " (gone)" : "", (unsigned long long)entry->out,
                (unsigned long long)entry->in);
        if (pid && !is_gone) tell_evidence(pid);
        any_stalls = true;
        entry->last_ms = now + 1000000000;
    }
    /* Relays among them. */
    if (any_stalls) tell_children(getpid());
    return found;
}

static void manage_mortal(void)
{
    struct process *mortal = &processes[MORTAL];
    static unsigned deaths;
    if (!is_wanted(KILLS) || (only && only % CLIENTS != MORTAL_CLIENT)) return;
    if (mortal->pid && (shared->is_paused || now_ms() > mortal_ends_ms)) {
        /* Itself, or all that it has begun. */
        bool all = mix(seed + deaths++) % 2;
        /* It may not have a group yet. */
        if (all) kill(-mortal->pid, SIGKILL);
        kill(mortal->pid, SIGKILL);
        count(KILLS, 1);
        waitpid(mortal->pid, NULL, 0);
        mortal->pid = 0;
    }
    if (!mortal->pid && !shared->is_paused) {
        mortal_ends_ms = now_ms() + 20 + mix(seed - deaths) % 2000;
        start(mortal);
    }
}

/* Watches for so long, or until there is a fault. */
static void watch(long ms)
{
    long until = now_ms() + ms;
    while (now_ms() < until && !shared->faults) {
        reap();
        manage_mortal();
        look_at_lives();
        if (only && shared->left <= 0) return;
        rest_us(50000);
    }
}

static bool is_as_before(bool tell)
{
    bool good = true;
    for (int i = 0; i < LONG_LIVED; i++) {
        struct process *process = &processes[i];
        int fds = entries(process->pid, "fd"), maps = memories(process->pid),
            tasks = entries(process->pid, "task");
        if (fds == process->fds && maps == process->memories && tasks == process->threads) continue;
        good = false;
        if (tell)
            problem("%s %u, process %d: %d descriptors, were %d; %d carriers, were %d; "
                    "%d threads, were %d", process->role, process->number, process->pid, fds,
                    process->fds, maps, process->memories, tasks, process->threads);
    }
    return good && strangers(tell) == 0;
}

/* The bound: how much more memory a process may have at the end of a round than at that of
 * the first. The C library keeps 40 MiB of stacks for threads to come. */
enum { RSS_MORE_KIB = 48 << 10 };

static void compare_memory(bool is_first)
{
    for (int i = 0; i < LONG_LIVED; i++) {
        struct process *process = &processes[i];
        long kib = rss_kib(process->pid);
        if (is_first) process->rss_kib = kib;
        if (kib > process->rss_kib + RSS_MORE_KIB)
            problem("%s %u, process %d: %ld KiB of memory, were %ld", process->role,
                    process->number, process->pid, kib, process->rss_kib);
    }
}

static void tell_counts(void)
{
    char line[900];
    int size = 0;
    for (int i = 0; i < COUNTS; i++)
        size += snprintf(line + size, sizeof line - size, " %llu %s",
                         (unsigned long long)shared->counts[i], count_names[i]);
    size += snprintf(line + size, sizeof line - size, "; MiB:");
    for (int i = 0; i < LONG_LIVED; i++)
        size += snprintf(line + size, sizeof line - size, " %ld", rss_kib(processes[i].pid) >> 10);
    say("%ld s:%s\n", (now_ms() - begun_ms) / 1000, line);
}

/* Nothing new begins; all ends; nothing is left. */
static void come_to_rest(bool is_first)
{
    shared->is_paused = 1;
    manage_mortal();
    long until = now_ms() + patience_ms() + 10000;
    bool is_still = false;
    while (now_ms() < until && !shared->faults && !is_still) {
        reap();
        is_still = look_at_lives() == 0 && is_as_before(false);
        rest_us(50000);
    }
    if (!shared->faults && !is_still) is_as_before(true);
    tell_counts();
    if (!shared->faults) compare_memory(is_first);
}

static void begin(void)
{
    int helpers[HELPERS][2];
    int memory = memfd_create("soak-shared", 0);
    if (memory < 0 || ftruncate(memory, sizeof *shared)) abort();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (shared == MAP_FAILED || dup2(memory, SHARED_FD) < 0 || dup2(1, LOG_FD) < 0) abort();
    close(memory);
    for (int i = 0; i < HELPERS; i++) {
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, helpers[i])
            || dup2(helpers[i][0], HELPER_FDS + i) < 0)
            abort();
        close(helpers[i][0]);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int i = 0; i < LONG_LIVED; i++) {
        struct process *process = &processes[i];
        bool is_helper = !strcmp(process->role, "@help");
        if (!strcmp(process->role, "@open")) continue;
        if (is_helper && dup2(helpers[process->number][1], TAKING_FD) < 0) abort();
        start(process);
        if (is_helper) close(TAKING_FD);
    }
    for (int i = 0; i < HELPERS; i++) close(helpers[i][1]);
    for (int i = 0; i < SERVERS; i++)
        while (!shared->ports[i]) reap(), rest_us(10000);
    shared->is_paused = 1;
    for (int i = 0; i < LONG_LIVED; i++)
        if (!strcmp(processes[i].role, "@open")) start(&processes[i]);
    /* Until all have begun their threads, also on a busy machine. */
    rest_us(500000);
    for (int i = 0; i < LONG_LIVED; i++) {
        struct process *process = &processes[i];
        bool is_client = !strcmp(process->role, "@open");
        while (is_client && entries(process->pid, "task") < 1 + (int)threads) reap(), rest_us(10000);
        process->fds = entries(process->pid, "fd");
        process->memories = memories(process->pid);
        process->threads = entries(process->pid, "task");
    }
    begun_ms = now_ms();
}

static void finish(void)
{
    shared->is_over = 1;
    long until = now_ms() + 10000;
    bool any = true;
    while (any && now_ms() < until) {
        reap();
        any = strangers(false);
        for (int i = 0; i < PROCESSES; i++) any |= processes[i].pid != 0;
        rest_us(20000);
    }
    if (any) strangers(true);
    for (int i = 0; i < PROCESSES; i++)
        if (processes[i].pid) problem("%s %u, process %d, does not end", processes[i].role,
                                      processes[i].number, processes[i].pid);
}

static void kill_all(void)
{
    for (int i = 0; i < PROCESSES; i++)
        if (processes[i].pid) kill(-processes[i].pid, SIGKILL);
    rest_us(100000);
    while (waitpid(-1, NULL, WNOHANG) > 0) {}
}

static int supervise(long seconds)
{
    long round_ms = seconds * 1000 / 4;
    if (!only && round_ms > 60000) round_ms = 60000;
    begin();
    say("seed %llu, %ld s\n", (unsigned long long)seed, seconds);
    shared->left = times;
    for (bool is_first = true; !shared->faults; is_first = false) {
        shared->is_paused = 0;
        watch(round_ms);
        if (!shared->faults) come_to_rest(is_first);
        if (now_ms() - begun_ms >= seconds * 1000 || (only && shared->left <= 0)) break;
    }
    if (!shared->faults) finish();
    if (shared->faults) {
        shared->is_paused = 1;
        /* Others may have something to say, too. */
        rest_us(2000000);
        const char *keep = getenv("SOAK_KEEP");
        if (keep && keep[0] == '1') {
            say("everything is kept as it is: end process %d to end it\n", getpid());
            for (;;) pause();
        }
        kill_all();
    }
    say(shared->faults ? "BAD\n" : "good\n");
    return shared->faults != 0;
}

static int run_part(char **words)
{
    unsigned number = atoi(words[2]);
    if (!strcmp(words[1], "@serve")) return serve(number);
    if (!strcmp(words[1], "@help")) return help();
    return open_connections(number, strtoull(words[3], NULL, 10), atoi(words[4]),
                            strtoull(words[5], NULL, 10));
}

int main(int words_count, char **words)
{
    static char path[4096];
    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0) return 2;
    program_path = path;
    signal(SIGPIPE, SIG_IGN);
    /* posix_spawn holds all signals back in its thread; a SIGCHLD that comes then goes to another
     * thread, which ignores it, but whose MSG_WAITALL the kernel has cut short for it. */
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    /* One heap: how much memory there is shall not depend on which threads came first. */
    mallopt(M_ARENA_MAX, 1);
    if (getenv("SOAK_THREADS")) threads = atoi(getenv("SOAK_THREADS"));
    if (words_count > 3 && words[1][0] == '@') {
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, SHARED_FD, 0);
        if (shared == MAP_FAILED) return 2;
        return !strcmp(words[1], "@life") ? go_on(words) : run_part(words);
    }
    if (words_count >= 3 && !strcmp(words[1], "run")) {
        seed = words_count > 3 ? strtoull(words[3], NULL, 10) : mix(getpid() + now_ms());
        return supervise(atol(words[2]));
    }
    if (words_count >= 3 && !strcmp(words[1], "one")) {
        only = strtoull(words[2], NULL, 10);
        times = words_count > 3 ? atol(words[3]) : 1;
        return supervise(24 * 3600);
    }
    fputs("usage: soak run SECONDS [SEED] | soak one SCENARIO [TIMES]\n"
          "environment: SOAK_PRELOAD=FILE  SOAK_THREADS=N (of each client)  SOAK_PATIENCE_S=N\n"
          "  SOAK_WITHOUT=forks,execs... (what is counted, and is not to be done)\n"
          "  SOAK_WAY=N (wait by: poll ppoll select pselect, epoll by level, edge, one shot)\n"
          "  SOAK_KEEP=1 (after a fault all stays as it is, to be looked at)\n", stderr);
    return 2;
}
