/* A program that has a `sigaction` of its own, for all libraries to see, which calls the C library's by its
 * other name, as the Erlang runtime does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>

static volatile sig_atomic_t told;

int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    static int depth;
    int (*next)(int, const struct sigaction *, struct sigaction *) = dlsym(RTLD_NEXT, "__sigaction");
    if (!next || ++depth > 1) abort();
    int result = next(number, action, before);
    depth--;
    return result;
}

static void note(int number)
{
    told = number;
}

int main(void)
{
    struct sigaction action = {.sa_handler = note};
    if (sigaction(SIGUSR1, &action, NULL)) return 1;
    raise(SIGUSR1);
    return told == SIGUSR1 ? 0 : 2;
}
