/* Buffers of libfabric that take several messages. One process sends to another: short and long messages, before and after
 * the buffer is posted, until it comes back; messages that are cut off; a buffer that is canceled, and one whose sender
 * is killed in the middle of a message. Prints "ok". */
#include "endpoint.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MESSAGES = 3000, LONGEST = 5 << 20, ROOM = 8 << 20, LEAST = 100 };

static fi_addr_t other;

static void open_all(char *own)
{
    open_endpoint(hints_for(FI_MSG | FI_MULTI_RECV | FI_DIRECTED_RECV));
    enable(own);
}

static int post(char *buffer, size_t len, fi_addr_t from)
{
    struct iovec part = {buffer, len};
    struct fi_msg msg = {&part, NULL, 1, from, buffer, 0};
    return (int)fi_recvmsg(endpoint, &msg, FI_MULTI_RECV | FI_COMPLETION);
}

static void send_to_other(const void *bytes, size_t len)
{
    struct fi_cq_tagged_entry entry;
    ssize_t begun;
    while ((begun = fi_send(endpoint, bytes, len, NULL, other, (void *)bytes)) == -FI_EAGAIN)
        fi_cq_read(queue, NULL, 0);
    check(!begun, "send");
    check(complete(&entry) == 0 && entry.flags & FI_SEND, "a send ends well");
}

/* Mostly short, some in pieces, some in one copy. */
static size_t length(unsigned number)
{
    return number % 500 == 499 ? LONGEST : number % 50 == 49 ? 40000 : number * 7 % 900;
}

static void fill(unsigned char *bytes, unsigned number)
{
    for (size_t at = 0; at < length(number); at++)
        bytes[at] = (unsigned char)(at * 3 + number);
}

/* Sends until it is killed. What it reads says what to do. */
static void serve(int orders)
{
    unsigned char *bytes = malloc(LONGEST);
    char order;
    while (read(orders, &order, 1) == 1) {
        if (order == 'm')
            for (unsigned number = 0; number < MESSAGES; number++) {
                fill(bytes, number);
                send_to_other(bytes, length(number));
            }
        else if (order == 'c')
            send_to_other("cut off", 7);
        else if (order == 's')
            send_to_other(bytes, LEAST);
        else {
            check(!fi_send(endpoint, bytes, 100000, NULL, other, bytes), "a send that nobody takes");
            for (int turn = 0; turn < 1000; turn++)
                fi_cq_read(queue, NULL, 0);
            kill(getpid(), SIGKILL);
        }
    }
}

/* All messages come, in order, one behind the other. */
static void many_messages(void)
{
    char *buffers[2] = {malloc(ROOM), malloc(ROOM)};
    unsigned char *expected = malloc(LONGEST);
    char *next[2] = {buffers[0], buffers[1]};
    int released = 0, at = 0;
    check(!post(buffers[0], ROOM, FI_ADDR_UNSPEC) && !post(buffers[1], ROOM, other), "two buffers");
    for (unsigned number = 0; number < MESSAGES; number++) {
        struct fi_cq_tagged_entry entry;
        check(complete(&entry) == 0, "a receive ends well");
        check((entry.flags & ~FI_MULTI_RECV) == (FI_RECV | FI_MSG), "the flags of a receive");
        check(entry.op_context == buffers[at], "the context of its buffer");
        check(entry.len == length(number) && entry.buf == next[at], "where it is");
        fill(expected, number);
        check(!memcmp(entry.buf, expected, entry.len), "what is in it");
        next[at] += entry.len;
        check(!(entry.flags & FI_MULTI_RECV) == (buffers[at] + ROOM - next[at] >= LONGEST), "it comes back when less is left");
        if (entry.flags & FI_MULTI_RECV) {
            next[at] = buffers[at];
            check(!post(buffers[at], ROOM, FI_ADDR_UNSPEC), "post it again");
            released++;
            at = !at;
        }
    }
    check(released > 4, "buffers came back");
    /* Both are posted: they come back with an error, once. */
    for (int which = 0; which < 2; which++) {
        struct fi_cq_tagged_entry entry;
        check(!fi_cancel(&endpoint->fid, buffers[which]), "cancel");
        check(complete(&entry) == FI_ECANCELED && entry.op_context == buffers[which], "it is canceled");
        check(entry.flags & FI_MULTI_RECV, "and comes back");
    }
    check(fi_cq_read(queue, NULL, 0) == -FI_EAGAIN || fi_cq_read(queue, NULL, 0) == 0, "nothing else comes");
    free(expected);
}

/* A message that is longer than what is left is cut off. The buffer comes back, in an entry of its own. */
static void cut_off(int orders)
{
    static char buffer[4];
    struct fi_cq_tagged_entry entry;
    check(!post(buffer, sizeof buffer, FI_ADDR_UNSPEC), "a short buffer");
    check(write(orders, "c", 1) == 1, "order");
    check(complete(&entry) == FI_ETRUNC && entry.op_context == buffer && entry.len == 4, "it is cut off");
    check(!memcmp(buffer, "cut ", 4), "what fits is there");
    check(complete(&entry) == 0 && entry.flags == FI_MULTI_RECV && entry.op_context == buffer, "the buffer comes back");
}

/* What is left, its sender and pieces that are under way when that is killed. */
static void dead_sender(int orders)
{
    static char buffer[300000];
    struct fi_cq_tagged_entry entry;
    check(!post(buffer, sizeof buffer, other), "a buffer for the one that dies");
    check(write(orders, "sd", 2) == 2, "order");
    check(complete(&entry) == 0 && entry.len == LEAST && entry.flags == (FI_RECV | FI_MSG), "the last message");
    int errors = 0, back = 0;
    while (!back) {
        int error = complete(&entry);
        /* The one that was under way may have come to its end. */
        check(entry.op_context == buffer && (!error || error == FI_ECONNRESET), "it ends");
        errors += error != 0;
        back = (entry.flags & FI_MULTI_RECV) != 0;
    }
    check(errors > 0 && errors <= 2, "by the death");
    check(!post(buffer, sizeof buffer, other), "another one");
    check(complete(&entry) == FI_ECONNRESET && entry.flags & FI_MULTI_RECV, "which comes back at once");
}

static void options(void)
{
    size_t least = 0, len = sizeof least;
    struct iovec two[2] = {{&least, 4}, {&len, 4}};
    struct fi_msg msg = {two, NULL, 2, FI_ADDR_UNSPEC, NULL, 0};
    check(!fi_getopt(&endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &len) && least == 64, "its default");
    least = LONGEST;
    check(!fi_setopt(&endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, len), "set it");
    check(!fi_getopt(&endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &len) && least == LONGEST, "it is set");
    check(fi_setopt(&endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, 4) == -FI_EINVAL, "a wrong length");
    check(fi_setopt(&endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &least, len) == -FI_ENOPROTOOPT, "no other option");
    check(fi_recvmsg(endpoint, &msg, FI_MULTI_RECV) == -FI_EINVAL, "a buffer in two places");
}

int main(void)
{
    char own[ADDRESS], name[ADDRESS];
    int up[2], down[2], orders[2];
    size_t least = LEAST;
    check(!pipe(up) && !pipe(down) && !pipe(orders), "pipes");
    pid_t child = fork();
    open_all(own);
    check(write(child ? down[1] : up[1], own, ADDRESS) == ADDRESS, "tell the name");
    check(read(child ? up[0] : down[0], name, ADDRESS) == ADDRESS, "get the name");
    check(fi_av_insert(table, name, 1, &other, 0, NULL) == 1, "insert");
    if (!child) {
        close(orders[1]);
        serve(orders[0]);
        return 0;
    }
    options();
    check(write(orders[1], "m", 1) == 1, "order");
    /* Some of them come before there is a buffer. */
    for (int turn = 0; turn < 100000; turn++)
        fi_cq_read(queue, NULL, 0);
    many_messages();
    cut_off(orders[1]);
    check(!fi_setopt(&endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least), "less may be left");
    dead_sender(orders[1]);
    waitpid(child, NULL, 0);
    check(!fi_close(&endpoint->fid) && !fi_close(&queue->fid) && !fi_close(&table->fid), "close");
    puts("ok");
    return 0;
}
