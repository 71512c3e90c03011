/* Programs of the test of attacks on unmodified programs: two sound ones, which know nothing
 * of the library, and those that attack them, which speak its protocol by hand, from the
 * tables in crates/sockets/src/upgrade/steps.rs and crates/fabric/src/hybrid.rs. */
#ifndef HOSTILE_H
#define HOSTILE_H

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MUST(call) \
    do { \
        if (!(call)) { \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, strerror(errno)); \
            exit(3); \
        } \
    } while (0)

enum { RING_BYTES = 64 << 10, CARRIER_BYTES = 4096 + 2 * RING_BYTES, PING_BYTES = 32 };

long now_us(void);
void pause_ms(long ms);

/* A connection to 127.0.0.1:PORT from a port of that number, or any if it is 0. */
int dial(int port, int own_port, bool marked);
/* Sends PING_BYTES, and checks that they come back. False if the connection has ended. */
bool ping(int fd, unsigned round);

int serve(const char *mode, int port);
int talk(int port, int own_port, int rounds);
int switch_lanes(const char *side, int port, int calls);

/* The address of the rendezvous socket of a connection between two ports of 127.0.0.1. */
socklen_t rendezvous_address(struct sockaddr_un *at, int one_port, int other_port);
int go_there(const struct sockaddr_un *at, socklen_t len);
int wait_there(const struct sockaddr_un *at, socklen_t len);
/* The cookie of the socket of this host with this end and that. */
uint64_t cookie_of(int own_port, int other_port);
int own_port_of(int fd);
int memory_with(size_t bytes, int seals, bool readable_only);
bool leave(int socket, const void *bytes, size_t len, const int *descriptors, int count);
struct greeting {
    char magic[8];
    uint64_t own_cookie, other_cookie;
    uint32_t ring_bytes, zeros[3];
};
struct greeting sound_greeting(int own_port, int other_port);
enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };
/* A descriptor whose last close waits for minutes, and how we close it. */
int slow_to_close(void);
void close_beside(int fd);
/* A descriptor of a socket's with no rights. */
int proof_of(int fd);

int greet(const char *kind, int port);
int squat(const char *kind, int port, int other_port);
int lie(const char *kind, int port);

#endif
