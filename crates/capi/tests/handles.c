/* Many threads open and close handles of one kind at the same time, and use some that were closed. Meanwhile children are
 * forked, which open and close handles of their own: what another thread of their parent was doing must not stop them.
 * Prints how many handles were opened. */
#include "../examples/c/common.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { THREADS = 3, OPEN_MAX = 100, FORKS = 200, SECONDS_OF_A_CHILD = 60 };

static atomic_bool stopping;
static atomic_long opened;

/* Each handle is ours alone: no other one that is open has its number. It is an error once it is closed, also when others
 * have its place. */
static void open_and_close(bw_node node, unsigned *random) {
    bw_node mine[OPEN_MAX];
    int count = 1 + rand_r(random) % OPEN_MAX;
    for (int nth = 0; nth < count; nth++) {
        check(bw_node_clone(node, &mine[nth]), "clone");
    }
    for (int left = count; left > 0; left--) {
        int nth = rand_r(random) % left;
        bw_node last = mine[nth];
        check(bw_node_descriptor(last), "use");
        check(bw_node_close(last), "close");
        ensure(bw_node_descriptor(last) == BW_E_HANDLE, "the use of a closed handle");
        ensure(bw_node_close(last) == BW_E_HANDLE, "a second close");
        mine[nth] = mine[left - 1];
    }
    atomic_fetch_add(&opened, count);
}

static void *work(void *node) {
    unsigned random = (unsigned)((bw_node *)node)->id;
    while (!atomic_load(&stopping)) {
        open_and_close(*(bw_node *)node, &random);
    }
    return NULL;
}

/* A child opens handles, too. It is ended if that takes too long. */
static void fork_one(unsigned seed) {
    pid_t child = fork();
    ensure(child >= 0, "fork");
    if (child == 0) {
        alarm(SECONDS_OF_A_CHILD);
        bw_node node;
        check(bw_node_new(NULL, &node), "make a node in a child");
        open_and_close(node, &seed);
        check(bw_node_close(node), "close");
        _exit(0);
    }
    end(child);
}

int main(void) {
    bw_node node, clones[THREADS];
    pthread_t threads[THREADS];
    check(bw_node_new(NULL, &node), "make a node");
    for (int nth = 0; nth < THREADS; nth++) {
        check(bw_node_clone(node, &clones[nth]), "clone");
        ensure(pthread_create(&threads[nth], NULL, work, &clones[nth]) == 0, "a thread");
    }
    for (unsigned nth = 0; nth < FORKS; nth++) {
        fork_one(nth);
    }
    atomic_store(&stopping, true);
    for (int nth = 0; nth < THREADS; nth++) {
        pthread_join(threads[nth], NULL);
        check(bw_node_close(clones[nth]), "close");
    }
    check(bw_node_close(node), "close");
    printf("opened %ld handles, and forked %d times\n", atomic_load(&opened), FORKS);
    return 0;
}
