/* The soak: mixed traffic between processes that know nothing of the library that some of
 * them preload, for as long as is wanted.
 *
 * A *scenario* is one TCP connection. All that its two ends do to the stream, and how it
 * ends, follows from its seed; so does the process that opens it. An end's *life* may go on
 * in a child, in another program, or in another process: what it carries along is `struct
 * life`. Every byte is a function of the stream and its position, so a receiver verifies
 * each as it comes; total and sum are sent behind them and verified too.
 */
#ifndef SOAK_H
#define SOAK_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* What every process finds open; kept over exec. */
enum {
    FIRST_COMMON_FD = 400,
    LOG_FD = 400,    /* where faults are told */
    SHARED_FD = 401, /* struct shared */
    HELPER_FDS = 402, /* where connections are given away: to one without the library, to one with it */
    TAKING_FD = 404,  /* of a helper: where connections come */
    ANSWER_FD = 405, /* of a child that reads for its parent */
    LAST_COMMON_FD = ANSWER_FD,
};

enum { SERVERS = 3, CLIENTS = 4, HELPERS = 2, LIVES_MAX = 4096 };
/* The client that is killed now and then; the others live as long as the soak. */
enum { MORTAL_CLIENT = CLIENTS - 1 };

/* How a scenario ends. */
enum fate {
    NORMAL,      /* both streams are complete */
    RESET,       /* one end closes with SO_LINGER 0 */
    CLOSED,      /* one end closes in the middle, read or not */
    KILLED,      /* the process of one end is killed */
    READER_KILLED, /* one end has a child that reads, and that is killed */
};

/* What follows from the seed. Sides: 0 opened the connection, 1 accepted it. */
struct plan {
    unsigned server;      /* which one it goes to */
    bool is_short;        /* a few bytes and over */
    unsigned style;       /* what the acts are like */
    unsigned acts, extra; /* for both; and then, when one side has ended, for the other */
    unsigned first;       /* the side that ends its stream first */
    bool half;            /* it shuts its half before the extra acts */
    enum fate fate;
    unsigned hurt;        /* the side that ends it badly */
    uint64_t hurt_at;     /* after so many bytes, of both directions */
    unsigned hurt_us;     /* or after so long */
    unsigned step_odds[2]; /* one step in so many pieces; 0: none */
    bool urgent;          /* each side may send one byte out of band */
    uint64_t total[2];    /* bytes that each side sends, without what stands at the end */
};

enum { TRAILER_BYTES = 16, PIECE_MAX = 1 << 20, HANDOVERS_MAX = 6, STEPS_MAX = 60 };

/* One end of a scenario, wherever it goes on. */
struct life {
    uint64_t seed, random;
    uint32_t side, act;
    uint32_t place;     /* in the table of lives */
    uint32_t handovers, steps;
    bool in_child;      /* this process is there for this life only */
    bool urgent_sent, is_mortal;
    uint64_t out, in;   /* positions */
    uint64_t out_until, in_until; /* at the end of this act */
    uint64_t out_sum, in_sum;
};

/* What all processes share: what goes on, and counts. */
enum life_state { FREE, CLAIMED, LIVING };
struct lives {
    _Atomic uint32_t state;
    uint32_t side, is_mortal;
    _Atomic int pid;
    uint64_t seed;
    _Atomic long last_ms; /* when it last came on */
    _Atomic uint64_t out, in;
};
enum count {
    SCENARIOS, SHORTS, CUTS, BYTES, FORKS, EXECS, SPAWNS, GIVEN, OPTIONS, URGENT, DUPS, PROGRAMS,
    RESTS, SETTINGS, SPLITS, THREADS, KILLS, LOST, COUNTS,
};
extern const char *const count_names[COUNTS];
struct shared {
    _Atomic int faults, is_paused, is_over, ports[SERVERS];
    _Atomic long left; /* times that the only scenario is to be opened yet */
    _Atomic uint64_t counts[COUNTS];
    struct lives lives[LIVES_MAX];
};
extern struct shared *shared;
extern const char *program_path;

/* Says what went wrong, and stays as it is: the supervisor ends everything. */
void fault(const struct life *life, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
#define MUST(life, call)                                                                    \
    ({                                                                                      \
        __typeof__(call) got_ = (call);                                                     \
        if (got_ == (__typeof__(call))-1)                                                   \
            fault(life, "%s:%d: %s: %s", __FILE__, __LINE__, #call, strerrorname_np(errno)); \
        got_;                                                                               \
    })
/* To the log, in one piece. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void count(enum count what, uint64_t by);
/* Whether SOAK_WITHOUT does not name it. */
bool is_wanted(enum count what);
long now_ms(void);
void rest_us(unsigned us);
uint64_t mix(uint64_t x);
/* A number below `limit`. */
uint64_t draw(struct life *life, uint64_t limit);

/* plan.c: what follows from the seed. */
struct plan plan_of(uint64_t seed);
uint64_t act_bytes(const struct plan *plan, uint64_t seed, unsigned act, unsigned side);
/* The bytes that are next to be sent, and a check of those that have come. */
void next_bytes(const struct life *life, const struct plan *plan, uint8_t *bytes, size_t size);
void sent_bytes(struct life *life, const struct plan *plan, const uint8_t *bytes, size_t size);
void check_bytes(const struct life *life, const struct plan *plan, const uint8_t *bytes,
                 size_t size);
void took_bytes(struct life *life, const struct plan *plan, const uint8_t *bytes, size_t size);

/* pieces.c: a life's calls on its socket. */
struct hands {
    int fd;
    int set; /* an epoll set, or -1 */
    int way; /* how this one waits */
    bool is_nonblocking;
};
enum went { ON, CUT, GONE_ON, OVER };
enum went send_piece(struct life *life, const struct plan *plan, struct hands *hands);
enum went receive_piece(struct life *life, const struct plan *plan, struct hands *hands);
enum went duplex_piece(struct life *life, const struct plan *plan, struct hands *hands);
void take_hands(struct hands *hands, struct life *life, int fd);
void drop_set(struct hands *hands);
/* Gives back the memory of this thread's pieces. */
void drop_room(void);
/* Whether an end or an error of the other side's is as it should be; else it is a fault. */
enum went cut(const struct life *life, const struct plan *plan, const char *where, ssize_t result);

/* steps.c: what a life does to its socket beside that. */
enum went step(struct life *life, const struct plan *plan, struct hands *hands);
/* A child for this life alone: closes what is not its own. */
void become_child(struct life *life, int fd);
/* Waits for a child; a fault if it did not end well. */
void await_child(const struct life *life, pid_t child);
/* What later images begin with: `@life FD HEX`. */
int go_on(char **words);
/* The environment of a program with the library, or without. */
char **environment(bool has_library);

/* life.c */
void live(struct life *life, int fd);
/* Enters a life in the table, and takes it out. */
void enter(struct life *life);
void leave(struct life *life);

/* lost.c: ends a process's connections that the kernel will never end; says how many. */
int end_lost(int pid);
/* The state of a process's connections, as the kernel has it. */
void tell_sockets(int pid);

/* evidence.c: tells what a process is in the middle of, once, and then its children. */
void tell_evidence(int pid);
void tell_children(int pid);

/* processes.c: what the processes are. */
int serve(unsigned server);
int open_connections(unsigned client, uint64_t seed, unsigned threads, uint64_t only);
int help(void);

#endif
