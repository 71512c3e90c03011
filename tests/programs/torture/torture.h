/* The torture pair: two processes, one connection, and one thing a program may do to it.
 *
 * `torture CASE` starts both ends, gathers what each says, and prints it. What is said is
 * the same on every machine and in every run, so a run with a preloaded library can be
 * compared line by line with one without. Every byte of a stream is a function of its
 * position, so a lost, doubled or moved byte is found where it is.
 */
#ifndef TORTURE_H
#define TORTURE_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

/* Where a process finds the pipes of its end; kept over exec. */
enum { LOG_FD = 200, POST_FD = 201, AWAIT_FD = 202 };

/* One end of a case. `fd` is its connection, or -1 for a case that makes its own. */
typedef void (*end_fn)(int fd);

enum {
    OWN_SOCKETS = 1,  /* the case makes its own connections */
    ONE_IS_KILLED = 2, /* an end may die of SIGKILL */
    COLD = 4,         /* nothing is sent before the case begins */
    INTERNET = 8,     /* for TCP only: other families have no such thing */
    UNIX_ONLY = 16,   /* for Unix sockets only */
};

struct torture_case {
    const char *name;
    end_fn server, client;
    unsigned flags;
};

extern const struct torture_case stream_cases[], edge_cases[], event_cases[], process_cases[],
    life_cases[], kernel_cases[], local_cases[], set_cases[], confined_cases[], exact_cases[],
    past_cases[], wait_cases[], beside_cases[], cancel_cases[], cut_cases[], order_cases[],
    ring_cases[], multipath_cases[], answer_cases[], lost_cases[];

/* A stream and how far it has come. */
struct flow {
    uint64_t seed, position;
};
extern struct flow outgoing, incoming;
extern bool is_server;
extern const char *program_path;
extern long scale; /* how many times the default amount is sent */

/* Says one line, which is compared between runs. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Says why the case failed, and ends this process. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
#define MUST(call)                                                                          \
    ({                                                                                      \
        __typeof__(call) got_ = (call);                                                     \
        if (got_ == (__typeof__(call))-1)                                                   \
            fail("%s:%d: %s: %s", __FILE__, __LINE__, #call, strerrorname_np(errno));       \
        got_;                                                                               \
    })
#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition)) fail("%s:%d: not true: %s", __FILE__, __LINE__, #condition);      \
    } while (0)
/* Says what a call gave: its value, or the name of its error. */
void say_result(const char *what, long result);
#define SAY(call) say_result(#call, (long)(call))

/* The two ends meet here, over pipes: what one posts, the other awaits. */
void post(void);
void await(void);
void meet(void);
void post_bytes(const void *bytes, size_t size);
void await_bytes(void *bytes, size_t size);

/* Streams. */
void fill(uint64_t seed, uint64_t position, uint8_t *bytes, size_t size);
void check(uint64_t seed, uint64_t position, const uint8_t *bytes, size_t size);
void send_next(int fd, size_t size);
void receive_next(int fd, size_t size);
void receive_to_end(int fd);
void warm_up(int fd);
/* Sends and receives at once, `out` and `in` bytes, and leaves the socket as it was. */
void duplex(int fd, uint64_t out, uint64_t in);
/* Both ends send and receive so many times in turn. */
void talk(int fd, int rounds);
/* Shuts its half, reads the other to its end, and closes. */
void finish(int fd);

/* An end that does as it is told: `s` sends 100 bytes, `r` and a number receives that many,
 * `h` shuts its half, `q` ends. order() tells it; order_bytes() has it send, and waits until
 * so many bytes are here. */
void on_demand(int fd);
void order(char what);
void order_bytes(int fd, size_t total);

/* Pseudo-random numbers, the same in every run. */
uint64_t random_number(void);
size_t random_size(size_t most);

/* Connections. */
int listener_here(int backlog);
void listen_by(int listener, int backlog);
int accept_one(int listener);
/* Hears where the listener is, which dial() does where it was not done. */
void learn(void);
int dial(void);
int dial_nonblocking(void);
void dial_by(int fd);
int family(void);

/* Whether a ring of the kernel's (io_uring) can be made here. */
bool has_ring(void);
/* Whether sockets of Multipath TCP can be made here. */
bool has_multipath(void);

/* What a program that was made by exec begins with: `@then` and its words. */
int later_image(int count, char **words);

/* Of a program that has got a socket from another: see answers.c. */
void say_options_there(int fd);

/* Time and waiting. */
long now_ms(void);
void rest_ms(long ms);
short poll_for(int fd, short events, int timeout_ms);
void say_poll(const char *when, int fd, short events);
void set_nonblocking(int fd, bool on);
/* Waits until the kernel or the library has `size` bytes for us, without taking any. */
void wait_for_bytes(int fd, size_t size);
void wait_child(pid_t child);

#endif
