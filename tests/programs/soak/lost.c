/* Connections of which the kernel has lost the end, with the library or without.
 *
 * Whoever is killed with unread bytes resets its connections. A reset is one segment, never sent again.
 * If bytes that were sent before it have been dropped (the other end's buffer was full), its number is
 * not the one that is awaited: the kernel answers with a challenge ACK, which fetches a second reset.
 * Such ACKs are rationed, to one in half a second for a connection (netstat: TCPACKSkippedChallenge);
 * an answer to a window probe counts too. Then there is no second reset, and the other end is established
 * for ever with nobody.
 */
#include "soak.h"

#include <dirent.h>
#include <sys/syscall.h>

struct address {
    char host[33];
    unsigned port;
};

struct entry {
    struct address local, other;
    unsigned state, unacknowledged, unread;
    unsigned long inode;
};

static bool is_same(const struct address *one, const struct address *two)
{
    return one->port == two->port && !strcmp(one->host, two->host);
}

/* Calls `is_it` with the kernel's TCP sockets, until it says so. */
static bool find(bool (*is_it)(const struct entry *, void *), void *argument, struct entry *found)
{
    const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    for (int i = 0; i < 2; i++) {
        FILE *table = fopen(tables[i], "r");
        if (!table) continue;
        char line[512];
        bool is_found = false;
        while (!is_found && fgets(line, sizeof line, table)) {
            int got = sscanf(line, " %*u: %32[0-9A-F]:%x %32[0-9A-F]:%x %x %x:%x %*s %*s %*u %*u %lu",
                             found->local.host, &found->local.port, found->other.host,
                             &found->other.port, &found->state, &found->unacknowledged,
                             &found->unread, &found->inode);
            is_found = got == 8 && is_it(found, argument);
        }
        fclose(table);
        if (is_found) return true;
    }
    return false;
}

static bool has_inode(const struct entry *entry, void *inode)
{
    enum { ESTABLISHED = 1 };
    return entry->state == ESTABLISHED && entry->inode == *(unsigned long *)inode;
}

static bool is_other_end(const struct entry *entry, void *end)
{
    const struct entry *own = end;
    return is_same(&entry->local, &own->other) && is_same(&entry->other, &own->local);
}

static bool has_nobody(unsigned long inode)
{
    struct entry own, other;
    return find(has_inode, &inode, &own) && !find(is_other_end, &own, &other);
}

/* Ends a descriptor of another process. */
static bool end(int pid, int fd)
{
    int process = syscall(SYS_pidfd_open, pid, 0);
    int copy = process < 0 ? -1 : syscall(SYS_pidfd_getfd, process, fd, 0);
    bool is_over = copy >= 0 && !shutdown(copy, SHUT_RDWR);
    if (copy >= 0) close(copy);
    if (process >= 0) close(process);
    return is_over;
}

/* Calls `visit` with each socket of a process; adds up what it returns. */
static int for_each_socket(int pid, int (*visit)(int pid, int fd, unsigned long inode))
{
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/fd", pid);
    DIR *folder = opendir(name);
    int sum = 0;
    for (struct dirent *item; folder && (item = readdir(folder));) {
        char path[400], target[64] = "";
        snprintf(path, sizeof path, "%s/%s", name, item->d_name);
        unsigned long inode;
        if (readlink(path, target, sizeof target - 1) < 0 || sscanf(target, "socket:[%lu]", &inode) != 1)
            continue;
        sum += visit(pid, atoi(item->d_name), inode);
    }
    if (folder) closedir(folder);
    return sum;
}

static int end_if_lost(int pid, int fd, unsigned long inode)
{
    /* Twice: the table is not read in one moment. */
    return has_nobody(inode) && has_nobody(inode) && end(pid, fd);
}

int end_lost(int pid)
{
    return for_each_socket(pid, end_if_lost);
}

static int tell_socket(int pid, int fd, unsigned long inode)
{
    struct entry own;
    if (find(has_inode, &inode, &own))
        say("  descriptor %d of %d: port %u to %u, %u bytes unacknowledged, %u unread\n", fd, pid,
            own.local.port, own.other.port, own.unacknowledged, own.unread);
    return 0;
}

void tell_sockets(int pid)
{
    for_each_socket(pid, tell_socket);
}
