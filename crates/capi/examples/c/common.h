/* What all examples do: end with a text when something fails, and start themselves again as another process. */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

#define _GNU_SOURCE

#include <barewire.h>

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS(n) ((int64_t)(n) * 1000000000)

/* To connect with: waits half a minute for a name to appear, which is enough for the slowest machine. */
static inline const bw_connect_options *patient(void) {
    static const bw_connect_options options = {
        .struct_bytes = sizeof options,
        .timeout_ns = SECONDS(30),
    };
    return &options;
}

/* Ends the program if a call has failed. */
static inline int64_t check(int64_t result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "%s: %s (%s)\n", what, bw_last_error()->text, bw_code_name((int)result));
        exit(1);
    }
    return result;
}

/* Ends the program if something is not as it must be. */
static inline void ensure(int is_so, const char *what) {
    if (!is_so) {
        fprintf(stderr, "wrong: %s\n", what);
        exit(1);
    }
}

/* Starts this program again with other arguments, the last of them NULL. */
static inline pid_t start(const char *first, ...) {
    char *arguments[8] = {(char *)"example", (char *)first};
    int count = 2;
    va_list rest;
    va_start(rest, first);
    do {
        arguments[count] = va_arg(rest, char *);
    } while (arguments[count++] != NULL && count < 8);
    va_end(rest);
    /* By its name: valgrind shows its own program behind /proc/self/exe. */
    char program[4096];
    ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
    ensure(len > 0, "the name of this program");
    program[len] = '\0';
    pid_t child = fork();
    ensure(child >= 0, "fork");
    if (child == 0) {
        /* It does not go on without us. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execv(program, arguments);
        _exit(127);
    }
    return child;
}

/* Waits for a child, which must end well. */
static inline void end(pid_t child) {
    int status = 0;
    ensure(waitpid(child, &status, 0) == child, "wait for a child");
    ensure(WIFEXITED(status) && WEXITSTATUS(status) == 0, "how the child ended");
}

/* Ends a child that would go on for ever. */
static inline void stop(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

#endif
