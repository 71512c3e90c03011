/* Looks at messages that have arrived, with and without claiming them, and drops them. One endpoint sends to itself. Each
 * operation ends with one completion, also that which drops a message. Prints "ok". */
#include "endpoint.h"

enum { TAG = 0x900d, BYTES = 100 };

static fi_addr_t own;

static void open_all(void)
{
    char name[ADDRESS];
    open_endpoint(hints_for(FI_TAGGED));
    enable(name);
    check(fi_av_insert(table, name, 1, &own, 0, NULL) == 1, "insert");
}

static int operate(uint64_t tag, uint64_t flags, struct fi_cq_tagged_entry *entry)
{
    static char bytes[BYTES];
    static struct fi_context context;
    struct iovec room = {bytes, sizeof bytes};
    int has_room = !(flags & (FI_PEEK | FI_DISCARD));
    struct fi_msg_tagged message = {
        .msg_iov = has_room ? &room : NULL, .iov_count = has_room, .addr = FI_ADDR_UNSPEC, .tag = tag, .context = &context};
    memset(entry, 0, sizeof *entry);
    check(!fi_trecvmsg(endpoint, &message, flags), "begin");
    int error = complete(entry);
    check(error || (entry->op_context == &context && entry->tag == tag), "its own completion");
    return error;
}

int main(void)
{
    static char bytes[BYTES];
    struct fi_cq_tagged_entry entry;
    open_all();
    check(operate(TAG, FI_PEEK, &entry) == FI_ENOMSG, "nothing has come");
    for (int k = 0; k < 4; k++) {
        check(!fi_tsend(endpoint, bytes, BYTES, NULL, own, TAG + k, NULL), "send");
        check(!complete(&entry), "sent");
    }
    check(!operate(TAG, FI_PEEK, &entry) && entry.len == BYTES, "peek");
    check(!operate(TAG, 0, &entry) && entry.len == BYTES, "receive after a peek");
    check(!operate(TAG + 1, FI_PEEK | FI_CLAIM, &entry), "claim");
    check(operate(TAG + 1, FI_PEEK, &entry) == FI_ENOMSG, "a claimed message is found by nobody else");
    check(!operate(TAG + 1, FI_CLAIM, &entry) && entry.len == BYTES, "receive what was claimed");
    check(!operate(TAG + 2, FI_PEEK | FI_DISCARD, &entry), "find and drop");
    check(operate(TAG + 2, FI_PEEK, &entry) == FI_ENOMSG, "it is gone");
    check(!operate(TAG + 3, FI_PEEK | FI_CLAIM, &entry), "claim what is to be dropped");
    check(!operate(TAG + 3, FI_CLAIM | FI_DISCARD, &entry), "drop what was claimed");
    check(operate(TAG + 3, FI_PEEK, &entry) == FI_ENOMSG, "it is gone, too");
    puts("ok");
    return 0;
}
