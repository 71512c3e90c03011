/* What a process looks like that does not come on: told before everything is ended, for whoever has to
 * find out who did not wake whom. */
#include "soak.h"

#include <dirent.h>
#include <spawn.h>

/* Words of a hybrid stream's memory; see `fabric::hybrid`. */
static const char *const direction_words[] = {
    [1] = "EPOCH", [2] = "WAKE_BYTES", [8] = "BOUND0", [9] = "BOUND1", [10] = "BOUND2",
    [11] = "BOUND3", [12] = "WAKE_BYTES_AT0", [13] = "WAKE_BYTES_AT1", [14] = "WAKE_BYTES_AT2",
    [15] = "WAKE_BYTES_AT3", [16] = "TAIL", [17] = "REACHED", [18] = "READS_KERNEL", [24] = "ARMED",
    [25] = "IN_RING", [26] = "ORDERED",
};
/* Of the head lines. HEAD: the position, above it how many of its last bytes are short bytes, above that DATED. */
static const char *const head_words[] = {"HEAD", "SEEN", "SINCE", "KERNEL"};
static const char *const side_words[] = {"UP", "LEAVING", "WANT_KERNEL", "TAKE_BACK"};
enum { PROCESSES_TOLD = 24 };
enum { DIRECTION_WORDS = 32, SIDES_AT = 64, SIDES_END = 72, HEAD_AT = 128, WORDS_APART = 16, WORDS = 160, NAMES = sizeof direction_words / sizeof *direction_words };

/* The first line of a file of /proc; empty if it cannot be read. */
static void first_line(const char *path, char *line, size_t room)
{
    FILE *file = fopen(path, "re");
    line[0] = 0;
    if (file && fgets(line, room, file)) line[strcspn(line, "\n")] = 0;
    if (file) fclose(file);
}

/* Each thread: what it is in the middle of, by number and arguments, and how long it has waited for a
 * processor in all (the second number of `schedstat`, in nanoseconds). */
static void tell_threads(int pid)
{
    char path[64], call[160], place[64], waited[80];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *folder = opendir(path);
    for (struct dirent *item; folder && (item = readdir(folder));) {
        int thread = atoi(item->d_name);
        if (!thread) continue;
        snprintf(path, sizeof path, "/proc/%d/task/%d/syscall", pid, thread);
        first_line(path, call, sizeof call);
        snprintf(path, sizeof path, "/proc/%d/task/%d/wchan", pid, thread);
        first_line(path, place, sizeof place);
        snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", pid, thread);
        first_line(path, waited, sizeof waited);
        say("  thread %d: call %s; waits in %s; schedstat %s\n", thread, call, place, waited);
    }
    if (folder) closedir(folder);
}

static void tell_words(const char *inode, const uint64_t words[WORDS])
{
    char line[1200];
    for (int direction = 0; direction < 2; direction++) {
        int size = 0;
        for (int i = 0; i < NAMES; i++)
            if (direction_words[i])
                size += snprintf(line + size, sizeof line - size, " %s %llu", direction_words[i],
                                 (unsigned long long)words[direction * DIRECTION_WORDS + i]);
        for (int i = 0; i < 4; i++)
            size += snprintf(line + size, sizeof line - size, " %s %#llx", head_words[i],
                             (unsigned long long)words[HEAD_AT + direction * WORDS_APART + i]);
        say("  stream %s, direction %d:%s\n", inode, direction, line);
    }
    int size = 0;
    for (int i = SIDES_AT; i < SIDES_END; i++)
        size += snprintf(line + size, sizeof line - size, " %s%d %llu", side_words[(i - SIDES_AT) / 2],
                         i % 2, (unsigned long long)words[i]);
    say("  stream %s:%s\n", inode, line);
}

/* The hybrid streams that the process has. Both ends of one have the same inode. */
static void tell_streams(int pid)
{
    char path[64], line[600], inode[32];
    uint64_t words[WORDS];
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "re");
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    int memory = open(path, O_RDONLY | O_CLOEXEC);
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long long at;
        if (!strstr(line, "/memfd:barewire")) continue;
        if (sscanf(line, "%llx-%*x %*s %*x %*s %31s", &at, inode) != 2) continue;
        if (pread(memory, words, sizeof words, at) == sizeof words)
            tell_words(inode, words);
        else
            say("  stream %s: %s\n", inode, strerrorname_np(errno));
    }
    if (memory >= 0) close(memory);
    if (maps) fclose(maps);
}

/* Where the threads stand in the program, if there is a debugger. */
static void tell_stacks(int pid)
{
    char number[16];
    char *words[] = {"timeout", "20", "gdb", "-nx", "-batch", "-p", number, "-ex",
                     "thread apply all backtrace 16", NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    snprintf(number, sizeof number, "%d", pid);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, LOG_FD, 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    if (!posix_spawnp(&child, "timeout", &actions, NULL, words, environment(false)))
        waitpid(child, NULL, 0);
    posix_spawn_file_actions_destroy(&actions);
}

void tell_evidence(int pid)
{
    static int told[PROCESSES_TOLD];
    for (unsigned i = 0; i < sizeof told / sizeof *told; i++) {
        if (told[i] == pid) return;
        if (told[i]) continue;
        told[i] = pid;
        break;
    }
    say("  process %d:\n", pid);
    tell_threads(pid);
    tell_sockets(pid);
    tell_streams(pid);
    tell_stacks(pid);
    tell_children(pid);
}

void tell_children(int pid)
{
    char path[64];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *folder = opendir(path);
    for (struct dirent *item; folder && (item = readdir(folder));) {
        snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, atoi(item->d_name));
        FILE *list = fopen(path, "re");
        while (list && fscanf(list, "%d", &child) == 1) tell_evidence(child);
        if (list) fclose(list);
    }
    if (folder) closedir(folder);
}
