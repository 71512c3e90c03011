/* The other end of a connection that is upgraded, and lies in the shared memory. */
#include "hostile.h"

#include <pthread.h>

/* Of the direction that we send in, and of the one that the server sends in: see the table in
 * crates/fabric/src/hybrid.rs. */
enum { EPOCH = 1, TOKENS, BOUND = 8, TOKENS_AT = 12, ARMED = 24, IN_RING = 25 };
enum { BACK = 32, TAIL = BACK + 16, REACHED, IN_LINE, BACK_ARMED = BACK + ARMED };
enum { UP = 64, LEAVING = 66, WANT_LINE = 68, TAKE_BACK = 70, WORDS = 72 };
/* The head lines: ours are words 128 to 135, those of the server words 144 to 151. In HEAD, above the position: how many
 * of the last bytes are short bytes, and whether it is dated. */
enum { HEAD = 128, HEAD_LINES_WORDS = 24 };
static const uint64_t SHORT_BYTE = 1ull << 56, DATED = 1ull << 63;
enum { LIE_MS = 200 };

static _Atomic uint64_t *words;
static _Atomic bool over;

/* Goes to the rendezvous socket as the other end would, and comes back with the server upgraded. */
static bool board(int fd, int port)
{
    struct sockaddr_un at;
    int own = own_port_of(fd), there = -1;
    socklen_t len = rendezvous_address(&at, own, port);
    int memory = memory_with(CARRIER_BYTES, SEALS, false);
    words = mmap(NULL, CARRIER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    MUST(words != MAP_FAILED);
    words[UP] = 1;
    for (unsigned round = 0; round < 2000 && !words[UP + 1]; round++) {
        /* It goes up in a call of its own, and from then on may use the ring. */
        if (!ping(fd, round)) return false;
        if (there >= 0) continue;
        there = go_there(&at, len);
        struct greeting greeting = sound_greeting(own, port);
        int gift[2] = {memory, proof_of(fd)};
        if (there >= 0) leave(there, &greeting, sizeof greeting, gift, 2);
        close(gift[1]);
        words[WANT_LINE] = 1;
    }
    close(there);
    close(memory);
    words[WANT_LINE] = 0;
    return words[UP + 1];
}

static uint64_t any(void)
{
    static _Thread_local uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* Near what is there, or near an edge. */
static void spoil(unsigned word)
{
    uint64_t how = any();
    uint64_t truth = words[word];
    words[word] = how % 8 < 4   ? truth + how / 8 % 5 - 2
                  : how % 8 < 6 ? how / 8 % 6
                  : how % 8 < 7 ? truth + RING_BYTES
                                : how;
}

static unsigned any_word(void)
{
    unsigned word = any() % (WORDS + HEAD_LINES_WORDS);
    return word < WORDS ? word : HEAD + word - WORDS;
}

static void *spoil_all(void *of)
{
    (void)of;
    while (!over) spoil(any_word());
    return NULL;
}

/* The server's looks at EPOCH, HEAD and TOKENS find something else each time. */
static void *flap(void *of)
{
    (void)of;
    while (!over) {
        words[EPOCH] = 2;
        words[HEAD] = any() % 3 | any() % 3 * SHORT_BYTE | any() % 2 * DATED;
        words[EPOCH] = 1;
        words[TOKENS] = any() % 3;
    }
    return NULL;
}

/* Says of every request that it is about to be answered. */
static void *promise(void *of)
{
    (void)of;
    while (!over)
        if (words[TAKE_BACK + 1] & 1) words[TAKE_BACK + 1] = 2;
    return NULL;
}

static void send_for_a_while(int fd, bool reads, bool spoils)
{
    char bytes[1 << 14] = {0};
    long until_us = now_us() + LIE_MS * 1000;
    while (now_us() < until_us) {
        ssize_t put = send(fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (reads) recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (spoils) spoil(any_word());
        if (put < 0 && errno != EAGAIN) pause_ms(1);
    }
}

static bool is(const char *kind, const char *name)
{
    return !strcmp(kind, name);
}

static void tell_once(const char *kind)
{
    if (is(kind, "head")) words[HEAD] = 70000;
    if (is(kind, "far-head")) words[HEAD] = 1ull << 55;
    if (is(kind, "short-bytes")) words[HEAD] = 64 | 64 * SHORT_BYTE;
    if (is(kind, "48-short-bytes")) words[HEAD] = 48 | 48 * SHORT_BYTE;
    if (is(kind, "dated-short-bytes")) words[HEAD] = 9 | 9 * SHORT_BYTE | DATED;
    if (is(kind, "many-short-bytes")) words[HEAD] = 127 | 127 * SHORT_BYTE;
    if (is(kind, "far-short-bytes")) words[HEAD] = 70000 | 64 * SHORT_BYTE;
    if (is(kind, "tokens")) words[TOKENS] = 5;
    if (is(kind, "many-tokens")) words[TOKENS] = UINT64_MAX / 2;
    if (is(kind, "bound")) words[BOUND + 1] = UINT64_MAX;
    if (is(kind, "bound")) words[EPOCH] = 2;
    if (is(kind, "far-epoch")) words[EPOCH] = 1000;
    if (is(kind, "tail")) words[TAIL] = 1ull << 40;
    if (is(kind, "reached")) words[REACHED] = 99;
    if (is(kind, "in-line")) words[IN_LINE] = 1;
    if (is(kind, "armed")) words[BACK_ARMED] = 2;
    if (is(kind, "take-back")) words[TAKE_BACK] = 1;
    if (is(kind, "leaving")) words[LEAVING] = 2;
    if (is(kind, "in-ring")) words[IN_RING] = 1;
    if (is(kind, "in-ring")) words[HEAD] = 9;
}

/* The bytes that we send go over the line still. */
static bool is_of_the_way_back(const char *kind)
{
    return is(kind, "tail") || is(kind, "reached") || is(kind, "in-line") || is(kind, "armed") ||
           is(kind, "take-back") || is(kind, "leaving");
}

int lie(const char *kind, int port)
{
    int fd = dial(port, 0, true);
    if (!board(fd, port)) {
        printf("not upgraded\n");
        return 1;
    }
    printf("upgraded\n");
    if (is(kind, "promise")) getchar();
    if (!is_of_the_way_back(kind)) {
        words[BOUND] = 0;
        words[EPOCH] = 1;
    }
    tell_once(kind);
    if (is(kind, "epoch-back")) {
        send_for_a_while(fd, true, false);
        words[EPOCH] = 0;
    }
    pthread_t helper;
    void *(*work)(void *) = is(kind, "spoil")     ? spoil_all
                            : is(kind, "flap")    ? flap
                            : is(kind, "promise") ? promise
                                                  : NULL;
    if (work) MUST(!pthread_create(&helper, NULL, work, NULL));
    if (is(kind, "promise")) {
        words[HEAD] = 10;
        printf("lying\n");
        getchar();
    } else {
        send_for_a_while(fd, !is(kind, "in-line"), is(kind, "spoil-slowly"));
    }
    over = true;
    if (work) pthread_join(helper, NULL);
    printf("lied\n");
    return 0;
}
