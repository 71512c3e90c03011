/* The table of calls, the workers, and the coordinator. See lockstep.h. */
#include "lockstep.h"

static void op_stay(struct slot *s);

static const struct op {
    const char *name;
    int weight;    // how often
    int is_inner;  // may be made by a child
    void (*f)(struct slot *);
} ops[] = {
    {"send", 80, 1, op_send},
    {"sendv", 40, 1, op_sendv},
    {"more", 10, 1, op_more},
    {"recv", 80, 1, op_recv},
    {"recvv", 50, 1, op_recvv},
    {"ioctl", 25, 1, op_ioctl},
    {"nonblock", 6, 1, op_nonblock},
    {"option", 20, 0, op_option},
    {"option2", 20, 0, op_option2},
    {"poll", 50, 1, op_poll},
    {"select", 15, 1, op_select},
    {"ctl", 70, 0, op_ctl},
    {"wait", 100, 0, op_wait},
    {"set", 6, 0, op_reset_set},
    {"shutdown", 8, 1, op_shutdown},
    {"dup", 15, 0, op_dup},
    {"close", 10, 0, op_close},
    {"name", 5, 1, op_name},
    {"file", 8, 1, op_file},
    {"splice", 12, 1, op_splice},
    {"odd", 20, 0, op_odd},
    {"unspec", 1, 0, op_unspec},
    {"oob", 2, 0, op_oob},
    {"stdio", 2, 0, op_stdio},
    {"dprintf", 2, 0, op_dprintf},
    {"alarm", 5, 0, op_alarm},
    {"fork", 4, 0, op_fork},
    {"spawn", 2, 0, op_spawn},
    {"exec", 2, 0, op_exec},
    {"pass", 2, 0, op_pass},
    {"thread", 14, 0, op_thread},
    {"stay", 3, 0, op_stay},
    {"leave", 2, 0, op_quit},
    {"renew", 12, 0, NULL},
    // Not by chance:
    {"join", 0, 0, op_join},
    {"closeall", 0, 0, op_close_all},
    {"connect", 0, 0, op_connect},
    {"accept", 0, 0, op_accept},
    {"warm", 0, 0, op_warm},
};
enum { OPS = sizeof ops / sizeof *ops };
static int code_of(const char *name) {
    for (int i = 0; i < OPS; i++)
        if (!strcmp(ops[i].name, name)) return i;
    abort();
}
int inner(uint32_t a) {
    for (int i = a % OPS;; i = (i + 1) % OPS)
        if (ops[i].is_inner) return i;
}
void run(int code, struct slot *s) {
    if (!s && ops[code].weight && ops[code].f != op_quit && ops[code].f != op_stay && ops[code].f != op_exec)
        return say("no socket");
    pipes = 0;
    ops[code].f(s);
    if (pipes) say(" SIGPIPE %d", pipes);
}
static void work(void) {
    handle(SIGPIPE, on_pipe, 0);
    handle(SIGALRM, on_alarm, 0);
    for (;;) {
        if (read(S.in, &C, sizeof C) != sizeof C) _exit(0);
        memset(&R, 0, sizeof R);
        run(C.code, pick(C.a[0]));
        if (write(S.out, &R, sizeof R) != sizeof R) _exit(1);
        if (R.ended) _exit(0);
    }
}

static void op_stay(struct slot *s) {
    (void)s;
    if (S.name == 'D') return say("none");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (fork()) _exit(0);
        S.name = 'D', S.in = S.other[2][0], S.out = S.other[2][1];
        threaded = 0;
        for (int i = 0; i < SETS; i++) close(S.set[i]), S.set[i] = -1;
        for (int i = 0; i < SETS; i++) S.set[i] = epoll_create1(0);
        work();
    }
    waitpid(child, NULL, 0);
    say("third process");
    R.value = 1;
}

// ---- the coordinator -----------------------------------------------------------------------
static int to[3], from[3], have_third, room_sent[2][2], ports[2][2];
static const char *skip_list = "";
static int skipped(unsigned step) {
    for (const char *p = skip_list; *p;) {
        char *e;
        unsigned long a = strtoul(p, &e, 10), b = a;
        if (*e == '-') b = strtoul(e + 1, &e, 10);
        if (step >= a && step <= b) return 1;
        if (*e != ',') break;
        p = e + 1;
    }
    return 0;
}
static void tell(int w) {
    for (int c = 0; c < 2; c++)
        for (int d = 0; d < 2; d++) {
            C.unread[c][d] = room_sent[c][d], C.room[c][d] = ROOM - room_sent[c][d];
            if (C.room[c][d] < 0) C.room[c][d] = 0;
            C.port[c][d] = ports[c][d];
        }
    C.third = have_third;
    if (write(to[w], &C, sizeof C) != sizeof C) exit(3);
}
static void hear(int w) {
    struct pollfd p = {from[w], POLLIN, 0};
    if (poll(&p, 1, 10000) != 1) {
        printf("HANG of %c in %s\n", "ABD"[w], ops[C.code].name);
        fflush(stdout);
        kill(0, SIGKILL);
    }
    if (read(from[w], &R, sizeof R) != sizeof R) {
        printf("DEATH of %c in %s\n", "ABD"[w], ops[C.code].name);
        fflush(stdout);
        kill(0, SIGKILL);
    }
    for (int c = 0; c < 2; c++)
        for (int d = 0; d < 2; d++) room_sent[c][d] += R.sent[c][d] - R.taken[c][d];
}
static void order(int w, const char *name) {
    C.code = code_of(name);
    tell(w), hear(w);
}
static int port;
static void renew(int conn, uint32_t how) {
    C.a[1] = conn;
    int first = how % 2;
    order(first, "closeall");
    if (how % 4 < 2) usleep(300);
    order(!first, "closeall");
    if (have_third) order(2, "closeall");
    usleep(300);
    C.a[1] = conn, C.a[2] = port;
    ports[conn][0] = port;
    order(1, "connect");
    ports[conn][1] = R.value;
    printf("   B %s", R.text);
    order(0, "accept");
    printf(" A %s", R.text);
    C.code = code_of("warm");
    for (int i = 0; i < (how % 8 ? 2 : 1); i++) {
        C.a[2] = i ? 8 : how % 8 ? 32 : how / 8 % 20;
        tell(0), tell(1), hear(0), printf(" %s", R.text), hear(1), printf(" %s", R.text);
        usleep(1000);
    }
    printf("\n");
    memset(room_sent[conn], 0, sizeof room_sent[conn]);
}
int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "@exec")) {
        unhex(argv[2], &S, sizeof S);
        memset(&R, 0, sizeof R);
        say("another program");
        if (write(S.out, &R, sizeof R) < 0) return 1;
        work();
    }
    if (argc > 4 && !strcmp(argv[1], "@spawned")) {
        unhex(argv[2], &S, sizeof S), unhex(argv[3], &C, sizeof C);
        handle(SIGPIPE, on_pipe, 0);
        for (int i = 0; i < SLOTS; i++) {
            int fd = S.slot[i].fd;
            if (fd >= 0 && fcntl(fd, F_GETFD) < 0) S.slot[i].fd = -1;
        }
        run(C.code, pick(C.a[0]));
        return write(atoi(argv[4]), &R, sizeof R) < 0;
    }
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    unsigned steps = argc > 2 ? atoi(argv[2]) : 100;
    if (argc > 3) skip_list = argv[3];
    setpgid(0, 0);
    signal(SIGPIPE, SIG_IGN);
    int down[3][2], up[3][2];
    for (int i = 0; i < 3; i++)
        if (pipe(down[i]) || pipe(up[i])) return 3;
    S.memfd = memfd_create("data", 0);
    for (int i = 0; i < 20000; i++) buf[i] = (uint8_t)(i * 31 + (i >> 6));
    if (write(S.memfd, buf, 20000) != 20000 || pipe(S.calm)) return 3;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, S.pair)) return 3;
    S.listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    if (bind(S.listener, (void *)&a, len) || listen(S.listener, 8)) return 3;
    getsockname(S.listener, (void *)&a, &len);
    port = ntohs(a.sin_port);
    for (int i = 0; i < 3; i++) S.other[i][0] = down[i][0], S.other[i][1] = up[i][1];
    for (int i = 0; i < SLOTS; i++) S.slot[i].fd = -1;
    for (int w = 0; w < 2; w++) {
        if (fork() == 0) {
            for (int i = 0; i < 3; i++) close(down[i][1]), close(up[i][0]);
            S.name = "AB"[w], S.in = down[w][0], S.out = up[w][1];
            for (int i = 0; i < SETS; i++) S.set[i] = epoll_create1(0);
            work();
        }
    }
    for (int i = 0; i < 3; i++) to[i] = down[i][1], from[i] = up[i][0];
    close(S.listener);
    int total = 0;
    for (int i = 0; i < OPS; i++) total += ops[i].weight;
    renew(0, 1), renew(1, 1);
    for (unsigned step = 1; step <= steps; step++) {
        uint64_t r = mix(mix(seed * 1000003) + step);
        memset(&C, 0, sizeof C);
        C.step = step;
        for (int i = 0; i < 12; i++) C.a[i] = (uint32_t)(mix(r + i + 1) >> 20);
        // Slots 0 and 1 more often than others: most are free.
        C.a[0] = C.a[0] % 3 ? C.a[0] % 2 : C.a[0] % SLOTS;
        int w = r % 16 < 7 ? 0 : r % 16 < 14 ? 1 : 2;
        int at = (int)(mix(r) % total), code = 0;
        while (at >= ops[code].weight) at -= ops[code++].weight;
        if (skipped(step)) continue;
        if (w == 2 && !have_third) w = 0;
        printf("%u %c %s: ", step, "ABD"[w], ops[code].name);
        if (!ops[code].f) {
            printf("\n");
            renew(C.a[0] % 2, C.a[3]);
            continue;
        }
        if (ops[code].f == op_quit && w != 2) {
            printf("-\n");
            continue;
        }
        if (ops[code].f == op_stay && have_third) {
            printf("-\n");
            continue;
        }
        C.code = code;
        tell(w), hear(w);
        printf("%s\n", R.text);
        if (!strcmp(R.text, "no socket")) renew(C.a[0] % 2, C.a[3]);
        if (ops[code].f == op_quit) have_third = 0, usleep(1000);
        if (ops[code].f == op_stay && R.value) have_third = 1, usleep(1000);
        if (ops[code].f == op_thread) {
            // What another does meanwhile.
            usleep(5000);
            static const char *meanwhile[] = {"send", "send", "send", "sendv", "shutdown", "recv", "send", "send"};
            int other = C.a[8] % 6 ? !w : w;
            struct command keep = C;
            if (w == 2) other = 0;
            if (C.a[9] % 9) {
                C.a[1] = C.a[10], C.a[2] = C.a[11] * 3;
                const char *name = meanwhile[C.a[9] % 8];
                order(other, name);
                printf("   %c %s\n", "ABD"[other], R.text);
            }
            C = keep;
            order(w, "join");
            printf("   %s\n", R.text);
        }
        if (ops[code].f == op_close || ops[code].f == op_shutdown || ops[code].f == op_dup ||
            ops[code].f == op_unspec || ops[code].f == op_fork || ops[code].f == op_exec || ops[code].f == op_spawn)
            usleep(700);
    }
    fflush(stdout);
    for (int i = 0; i < 3; i++) close(to[i]);
    for (int i = 0; i < 2; i++) wait(NULL);
    return 0;
}
