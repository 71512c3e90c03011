/* A plugin into which liburing is linked: it has, and exports, a function that makes a ring. Of
 * those that the library in front knows this is the one that most programs have not got from a
 * liburing of their own; theirs would be called in its place, and can be. */
#include <linux/io_uring.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RING_BYTES = 4096, MEMORY_BYTES = 256 << 10 };

static _Alignas(4096) char ring[RING_BYTES], memory[MEMORY_BYTES];

int io_uring_queue_init_mem(unsigned entries, void *made, struct io_uring_params *params, void *into,
                            size_t bytes)
{
    (void)into, (void)bytes;
    *(int *)made = syscall(SYS_io_uring_setup, entries, params);
    return *(int *)made < 0 ? -1 : 0;
}

int make_ring(void)
{
    struct io_uring_params params = {0};
    return io_uring_queue_init_mem(8, ring, &params, memory, sizeof memory);
}
