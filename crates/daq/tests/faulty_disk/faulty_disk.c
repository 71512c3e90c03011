// A fault injector, to be preloaded: as long as the file exists that FAULTY_DISK names, a write to a file of events
// (*.evb) fails with the error number that is in that file.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int fault_of(int fd)
{
    const char *control = getenv("FAULTY_DISK");
    char link[64], path[4096];
    int number = 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (!control || len < 4 || memcmp(path + len - 4, ".evb", 4) != 0)
        return 0;
    FILE *file = fopen(control, "r");
    if (!file)
        return 0;
    if (fscanf(file, "%d", &number) != 1)
        number = 0;
    fclose(file);
    return number;
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at)
{
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (!real)
        real = (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
    int fault = fault_of(fd);
    if (fault) {
        errno = fault;
        return -1;
    }
    return real(fd, bytes, count, at);
}
