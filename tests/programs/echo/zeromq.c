/* ZeroMQ: questions and answers (REQ, REP), a stream one way (PUSH, PULL), and messages to subscribers.
 *   zeromq server PORT              at PORT, PORT + 1 and PORT + 2; serves until a client asks for the end
 *   zeromq client PORT ROUNDS       compares what comes back, prints sums */
#include <errno.h>
#include <zmq.h>

#include "common.h"

static const char END[] = "end", SUM[] = "sum";
enum { LONGEST = 1000000, NEWS = 2000 };
static unsigned char buffer[LONGEST], other[LONGEST];

static void *opened(void *context, int kind, const char *port, int more, int listens) {
    char address[64];
    snprintf(address, sizeof address, "tcp://127.0.0.1:%d", atoi(port) + more);
    void *socket = zmq_socket(context, kind);
    int no_limit = 0, limit_ms = 60000;
    if (kind == ZMQ_XPUB || kind == ZMQ_SUB) {
        /* Else news are dropped for want of room. The other kinds wait. */
        zmq_setsockopt(socket, ZMQ_SNDHWM, &no_limit, sizeof no_limit);
        zmq_setsockopt(socket, ZMQ_RCVHWM, &no_limit, sizeof no_limit);
    }
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &limit_ms, sizeof limit_ms);
    int status = listens ? zmq_bind(socket, address) : zmq_connect(socket, address);
    check(status == 0, zmq_strerror(errno));
    return socket;
}

static size_t receive(void *socket, unsigned char *to) {
    int size = zmq_recv(socket, to, LONGEST, 0);
    check(size >= 0 && size <= LONGEST, "a message comes, and is not too long");
    return (size_t)size;
}

/* What has come by the stream. */
static uint64_t pulled_count, pulled_sum = SUM_START;

static void pull(void *socket) {
    size_t size = receive(socket, buffer);
    pulled_sum = sum(pulled_sum, buffer, size);
    pulled_count++;
}

/* Tells what has come by the stream: the asker says how many messages that is. */
static void tell_sum(void *answers, void *pulls, const unsigned char *question) {
    uint64_t wanted = strtoull((const char *)question + sizeof SUM, NULL, 10);
    while (pulled_count < wanted) pull(pulls);
    char answer[64];
    snprintf(answer, sizeof answer, "%llu %llx", (unsigned long long)pulled_count, (unsigned long long)pulled_sum);
    zmq_send(answers, answer, strlen(answer), 0);
    pulled_count = 0;
    pulled_sum = SUM_START;
}

/* A subscriber has come: tells it the news. */
static void tell_news(void *news) {
    size_t size = receive(news, buffer);
    if (size == 0 || buffer[0] != 1) return;
    for (uint64_t i = 0; i < NEWS; i++) {
        size = size_of(i % 6);
        fill(buffer, size, i);
        zmq_send(news, "n", 1, ZMQ_SNDMORE);
        zmq_send(news, buffer, size, 0);
    }
}

static void serve(void *context, const char *port) {
    void *answers = opened(context, ZMQ_REP, port, 0, 1);
    void *pulls = opened(context, ZMQ_PULL, port, 1, 1);
    void *news = opened(context, ZMQ_XPUB, port, 2, 1);
    zmq_pollitem_t items[] = {
        {.socket = answers, .events = ZMQ_POLLIN},
        {.socket = pulls, .events = ZMQ_POLLIN},
        {.socket = news, .events = ZMQ_POLLIN},
    };
    for (int is_over = 0; !is_over;) {
        check(zmq_poll(items, 3, -1) >= 0, "zmq_poll");
        if (items[1].revents) pull(pulls);
        if (items[2].revents) tell_news(news);
        if (!items[0].revents) continue;
        size_t size = receive(answers, buffer);
        if (size > sizeof SUM && memcmp(buffer, SUM, sizeof SUM) == 0) {
            tell_sum(answers, pulls, buffer);
            continue;
        }
        is_over = size == sizeof END && memcmp(buffer, END, size) == 0;
        zmq_send(answers, buffer, size, 0);
    }
    zmq_close(answers);
    zmq_close(pulls);
    zmq_close(news);
}

static uint64_t exchange(void *questions, uint64_t from, uint64_t number, size_t size) {
    fill(buffer, size, number);
    check(zmq_send(questions, buffer, size, 0) == (int)size, "a message goes");
    check(receive(questions, other) == size, "as much comes back");
    check(memcmp(buffer, other, size) == 0, "the same bytes come back");
    return sum(from, other, size);
}

/* Sends a stream and asks what has come of it. */
static void push(void *questions, void *pushes, uint64_t count, size_t size, char *answer) {
    char question[64];
    memcpy(question, SUM, sizeof SUM);
    fill(buffer, size, 0);
    for (uint64_t i = 0; i < count; i++) {
        size_t one = size > 0 ? size : size_of(i);
        if (size == 0) fill(buffer, one, i);
        check(zmq_send(pushes, buffer, one, 0) == (int)one, "a message goes");
    }
    int more = snprintf(question + sizeof SUM, sizeof question - sizeof SUM, "%llu", (unsigned long long)count);
    zmq_send(questions, question, sizeof SUM + (size_t)more + 1, 0);
    size_t length = receive(questions, (unsigned char *)other);
    memcpy(answer, other, length);
    answer[length] = 0;
}

static void hear_news(void *context, const char *port) {
    void *news = opened(context, ZMQ_SUB, port, 2, 0);
    zmq_setsockopt(news, ZMQ_SUBSCRIBE, "n", 1);
    uint64_t all = SUM_START;
    for (uint64_t i = 0; i < NEWS; i++) {
        check(receive(news, buffer) == 1, "a topic comes");
        size_t size = receive(news, other);
        fill(buffer, size, i);
        check(size == size_of(i % 6) && memcmp(buffer, other, size) == 0, "news come in order");
        all = sum(all, other, size);
    }
    printf("news %llx\n", (unsigned long long)all);
    zmq_close(news);
}

static void ask(void *context, const char *port, uint64_t rounds) {
    char answer[64];
    void *questions = opened(context, ZMQ_REQ, port, 0, 0);
    void *pushes = opened(context, ZMQ_PUSH, port, 1, 0);
    uint64_t all = SUM_START;
    for (uint64_t i = 0; i < 400; i++) all = exchange(questions, all, i, size_of(i));
    printf("answers %llx\n", (unsigned long long)all);
    push(questions, pushes, 800, 0, answer);
    printf("pushed %s\n", answer);
    hear_news(context, port);
    double since = seconds();
    for (uint64_t i = 0; i < rounds; i++) all = exchange(questions, all, i, 100);
    figure("answers of 100 B a second", (double)rounds, since);
    since = seconds();
    push(questions, pushes, rounds * 100, 100, answer);
    figure("messages of 100 B a second one way", (double)(rounds * 100), since);
    since = seconds();
    push(questions, pushes, rounds, 100000, answer);
    figure("messages of 100 kB a second one way", (double)rounds, since);
    printf("all %llx %s\n", (unsigned long long)all, answer);
    zmq_send(questions, END, sizeof END, 0);
    check(receive(questions, other) == sizeof END, "the end is answered");
    zmq_close(questions);
    zmq_close(pushes);
}

int main(int count, char **words) {
    check(count > 2, "zeromq server PORT | zeromq client PORT ROUNDS");
    void *context = zmq_ctx_new();
    if (strcmp(words[1], "server") == 0) {
        serve(context, words[2]);
    } else {
        check(count > 3, "zeromq client PORT ROUNDS");
        ask(context, words[2], strtoull(words[3], NULL, 10));
    }
    zmq_ctx_term(context);
    return 0;
}
