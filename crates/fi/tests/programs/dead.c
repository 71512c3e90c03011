/* Two endpoints of libfabric in two processes. The other one is killed while this one waits for a message of it, and
 * while a long message for it is under way: both must end with an error. Prints "ok". */
#include "endpoint.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void open_all(char *own)
{
    open_endpoint(hints_for(FI_TAGGED | FI_DIRECTED_RECV));
    enable(own);
}

int main(void)
{
    char own[ADDRESS], other[ADDRESS];
    int up[2], down[2], first, second;
    size_t len = 1 << 22;
    char *out = calloc(1, len), in[8];
    fi_addr_t address;
    struct fi_cq_tagged_entry entry, other_entry;
    check(!pipe(up) && !pipe(down), "pipes");
    pid_t child = fork();
    open_all(own);
    check(write(child ? down[1] : up[1], own, ADDRESS) == ADDRESS, "tell the name");
    check(read(child ? up[0] : down[0], other, ADDRESS) == ADDRESS, "get the name");
    check(fi_av_insert(table, other, 1, &address, 0, NULL) == 1, "insert");
    if (!child) {
        /* A first message, so that there is a connection; then nothing is ever received. */
        check(!fi_tsend(endpoint, "hello", 5, NULL, address, 1, in), "send");
        check(complete(&entry) == 0 && entry.op_context == in, "the child's send ends");
        for (;;)
            fi_cq_read(queue, NULL, 0);
    }
    check(!fi_trecv(endpoint, in, sizeof in, NULL, address, 1, 0, in), "receive");
    check(complete(&entry) == 0 && entry.op_context == in && !memcmp(in, "hello", 5), "the first message comes");
    check(!fi_trecv(endpoint, in, sizeof in, NULL, address, 2, 0, in), "receive what will not come");
    check(!fi_tsend(endpoint, out, len, NULL, address, 3, out), "send what will not arrive");
    kill(child, SIGKILL);
    first = complete(&entry);
    second = complete(&other_entry);
    check(first == FI_ECONNRESET && second == FI_ECONNRESET, "both end with an error");
    check(entry.op_context != other_entry.op_context, "each of both ends");
    check(!fi_tsend(endpoint, out, 8, NULL, address, 3, out), "send to the dead");
    check(complete(&entry) == FI_ECONNRESET, "which is told");
    check(!fi_trecv(endpoint, in, sizeof in, NULL, address, 2, 0, in), "receive from the dead");
    check(complete(&entry) == FI_ECONNRESET, "which is told, too");
    waitpid(child, NULL, 0);
    check(!fi_close(&endpoint->fid) && !fi_close(&queue->fid) && !fi_close(&table->fid), "close");
    puts("ok");
    return 0;
}
