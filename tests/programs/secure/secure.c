// Says what the preload library could have done to this process, as one line of facts:
//
//   secure     AT_SECURE: whether the process has more rights than who began it
//   mark       IP_MULTICAST_LOOP of a listening socket, which the library clears
//   handlers   whether there is a handler for SIGSEGV
//   threads    how many threads there are
//   large      whether more than 1 GB of addresses are reserved
//   variables  variables in the environment that are the library's
//   moved      bytes that came back over a TCP connection with a child
//
// `secure -x` first takes its rights as the real user's too, and begins itself again.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { ROUNDS = 200, MESSAGE = 64 };

// A number of /proc/self/status, in this base.
static unsigned long status(const char *name, int base) {
    char line[256];
    unsigned long value = 0;
    FILE *file = fopen("/proc/self/status", "r");
    if (!file) err(1, "status");
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name))) value = strtoul(line + strlen(name), NULL, base);
    fclose(file);
    return value;
}

static int variables(void) {
    int count = 0;
    for (char **variable = environ; *variable; variable++) count += !strncmp(*variable, "BAREWIRE_", 9);
    return count;
}

// Sends back what comes, until there is no more.
static void answer(int fd) {
    char bytes[MESSAGE];
    ssize_t len;
    while ((len = recv(fd, bytes, sizeof bytes, 0)) > 0) send(fd, bytes, len, 0);
}

static long talk(int listener, struct sockaddr_in *to) {
    if (fork() == 0) {
        answer(accept(listener, NULL, NULL));
        exit(0);
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)to, sizeof *to)) err(1, "connect");
    char bytes[MESSAGE] = {0};
    long moved = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (send(fd, bytes, MESSAGE, 0) != MESSAGE) err(1, "send");
        moved += recv(fd, bytes, MESSAGE, MSG_WAITALL);
    }
    close(fd);
    wait(NULL);
    return moved;
}

int main(int count, char **words) {
    if (count > 1 && !strcmp(words[1], "-x")) {
        if (setresgid(0, 0, 0) || setresuid(0, 0, 0)) err(1, "setresuid");
        execl(words[0], words[0], NULL);
        err(1, "%s", words[0]);
    }
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), mark = -1;
    socklen_t mark_len = sizeof mark;
    if (bind(listener, (struct sockaddr *)&at, len) || listen(listener, 1)) err(1, "listen");
    if (getsockname(listener, (struct sockaddr *)&at, &len)) err(1, "getsockname");
    if (getsockopt(listener, IPPROTO_IP, IP_MULTICAST_LOOP, &mark, &mark_len)) err(1, "mark");
    long moved = talk(listener, &at);
    printf("secure=%lu mark=%d handlers=%lu threads=%lu large=%d variables=%d moved=%ld\n",
           getauxval(AT_SECURE), mark, status("SigCgt:", 16) >> 10 & 1, status("Threads:", 10),
           status("VmSize:", 10) > 1 << 20, variables(), moved);
    return 0;
}
