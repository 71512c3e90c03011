/* What the clients among these programs share: bytes that are known by a number, sums, times. */
#ifndef ECHO_COMMON_H
#define ECHO_COMMON_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline void check(int is_so, const char *what) {
    if (is_so) return;
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
}

/* Bytes that are not alike anywhere. */
static inline void fill(unsigned char *to, size_t size, uint64_t number) {
    uint64_t state = number * 0x9e3779b97f4a7c15u + 1;
    for (size_t at = 0; at < size; at += sizeof state) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        memcpy(to + at, &state, size - at < sizeof state ? size - at : sizeof state);
    }
}

#define SUM_START 0xcbf29ce484222325u

/* A sum that goes on from another: FNV-1a, of words. */
static inline uint64_t sum(uint64_t from, const void *data, size_t size) {
    const unsigned char *bytes = (const unsigned char *)data;
    for (size_t at = 0; at < size; at += sizeof from) {
        uint64_t word = 0;
        memcpy(&word, bytes + at, size - at < sizeof word ? size - at : sizeof word);
        from = (from ^ word) * 0x100000001b3u;
    }
    return from;
}

/* The size of the exchange `i`: short ones, and one in 16 that is long. */
static inline size_t size_of(uint64_t i) {
    static const size_t sizes[] = {0, 1, 40, 100, 700, 3000, 9000, 40000};
    return i % 16 == 15 ? 300000 + i : sizes[i % 8];
}

static inline double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Tells that many exchanges have been made, and that more follow. */
static inline void say_busy(void) {
    fprintf(stderr, "busy\n");
}

/* Tells a rate, as the harness reads it. */
static inline void figure(const char *name, double count, double since) {
    fprintf(stderr, "figure: %s: %.3f\n", name, count / (seconds() - since));
}
#endif
