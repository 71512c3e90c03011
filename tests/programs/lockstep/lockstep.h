/* Lockstep: random calls on TCP sockets, one at a time, in two or three processes.
 *
 *     lockstep SEED STEPS [SKIP,SKIP-SKIP,...]
 *
 * Two processes, A (listens) and B (connects), later perhaps a third, D (forked from A or B), hold two
 * connections over 127.0.0.1. A coordinator tells one of them at a time to make one call with random
 * parameters, waits for the answer, and writes it to standard output. A step depends on the seed and its
 * number alone, so steps can be skipped. The output of one seed is the same with a library preloaded as
 * without. Amounts are small, so no send is ever partial; all waits end. Where docs/sockets.md names a
 * difference, the calls keep clear of it: those places say "known".
 */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 8, SETS = 3, ROOM = 20 * 1024, TEXT = 1800 };

// What the coordinator says: a call, random arguments, how many bytes may still go each way.
struct command {
    int code;
    uint32_t step;
    uint32_t a[12];
    int room[2][2];  // [connection][side that sends]
    int unread[2][2];
    int port[2][2];
    int third;  // whether there is a third process
};
struct reply {
    int sent[2][2], taken[2][2];  // [connection][side that sent them]
    int value, ended;             // of the call; whether the process has ended
    char text[TEXT];
};
struct slot {
    int fd, conn, side;  // fd -1: free
};
// All that a worker knows; it goes on over an exec.
struct state {
    char name;
    int in, out, memfd, listener, pair[2], other[3][2];
    int calm[2];  // a pipe that is only in epoll sets and polls
    struct slot slot[SLOTS];
    int set[SETS];
    uint32_t data;
    int timeout_ms;
};

extern struct state S;   /* of this worker */
extern struct command C; /* the one at hand */
extern struct reply R;   /* to it */
extern volatile sig_atomic_t alarms, pipes;
extern uint8_t buf[65536];
extern int threaded; /* whether a thread waits */

uint32_t fnv(const void *p, size_t n);
uint64_t mix(uint64_t x);
__attribute__((format(printf, 1, 2))) void say(const char *form, ...);
void result(long rc);
void fill(uint8_t *p, size_t n);
void on_alarm(int s);
void on_pipe(int s);
void handle(int sig, void (*f)(int), int flags);
void ring(int ms);
struct slot *pick(uint32_t a);
struct slot *spare(void);
void who(const char *call, struct slot *s);
int size(struct slot *s, uint32_t a);
int want(uint32_t a);
void sent(struct slot *s, long n);
void taken(struct slot *s, long n);
int send_flags(uint32_t a);
int recv_flags(uint32_t a);
void op_send(struct slot *s);
void op_sendv(struct slot *s);
void op_more(struct slot *s);
void op_recv(struct slot *s);
void op_recvv(struct slot *s);
void op_ioctl(struct slot *s);
void op_nonblock(struct slot *s);
void op_option(struct slot *s);
void op_option2(struct slot *s);
int events_of(uint32_t a);
void op_poll(struct slot *s);
void op_select(struct slot *s);
void op_ctl(struct slot *s);
void op_wait(struct slot *s);
void op_reset_set(struct slot *s);
void op_shutdown(struct slot *s);
void op_dup(struct slot *s);
void op_close(struct slot *s);
void op_name(struct slot *s);
void op_file(struct slot *s);
void op_splice(struct slot *s);
void op_odd(struct slot *s);
void op_unspec(struct slot *s);
void op_oob(struct slot *s);
void op_stdio(struct slot *s);
void op_dprintf(struct slot *s);
void op_alarm(struct slot *s);
void op_fork(struct slot *s);
void op_spawn(struct slot *s);
void op_exec(struct slot *s);
void op_pass(struct slot *s);
void op_thread(struct slot *s);
void op_join(struct slot *s);
void op_close_all(struct slot *s);
void op_connect(struct slot *s);
void op_accept(struct slot *s);
void op_warm(struct slot *s);
void op_quit(struct slot *s);
int by_data(const void *a, const void *b);
void unhex(const char *t, void *p, size_t n);
int is_unread(void);
int inner(uint32_t a);
void run(int code, struct slot *s);

#endif
