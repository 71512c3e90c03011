/* One end of a scenario from its beginning to its end. */
#include "soak.h"

#include <sys/prctl.h>

void enter(struct life *life)
{
    unsigned first = mix(life->seed + life->side) % LIVES_MAX;
    for (unsigned i = 0; i < LIVES_MAX; i++) {
        unsigned place = (first + i) % LIVES_MAX;
        struct lives *entry = &shared->lives[place];
        uint32_t state = FREE;
        if (!atomic_compare_exchange_strong(&entry->state, &state, CLAIMED)) continue;
        life->place = place;
        entry->seed = life->seed;
        entry->side = life->side;
        entry->is_mortal = life->is_mortal;
        entry->last_ms = now_ms();
        entry->out = entry->in = 0;
        atomic_store(&entry->pid, getpid());
        atomic_store(&entry->state, LIVING);
        return;
    }
    fault(life, "no room in the table of lives");
}

void leave(struct life *life)
{
    if (life->place < LIVES_MAX) atomic_store(&shared->lives[life->place].state, FREE);
}

/* Acts: those of the plan; the trailer of the side that is first; those of the other alone;
 * its trailer. */
static bool next_act(struct life *life, const struct plan *plan)
{
    unsigned act = life->act++, own = life->side, main = plan->acts, last = main + plan->extra + 1;
    uint64_t bytes[2] = {0, 0};
    if (act > last) return false;
    if (act == main || act == last)
        bytes[act == main ? plan->first : !plan->first] = TRAILER_BYTES;
    else
        for (unsigned side = 0; side < 2; side++)
            bytes[side] = act_bytes(plan, life->seed, act > main ? act - 1 : act, side);
    life->out_until = life->out + bytes[own];
    life->in_until = life->in + bytes[!own];
    return true;
}

static enum went piece(struct life *life, const struct plan *plan, struct hands *hands)
{
    bool sends = life->out < life->out_until, receives = life->in < life->in_until;
    if (sends && receives) return duplex_piece(life, plan, hands);
    if (sends) return send_piece(life, plan, hands);
    return receive_piece(life, plan, hands);
}

/* The bad end, if it is this end's turn. */
static bool is_hurt(const struct life *life, const struct plan *plan, int fd)
{
    bool bad = plan->fate == RESET || plan->fate == CLOSED;
    if (!bad || plan->hurt != life->side || life->out + life->in < plan->hurt_at) return false;
    struct linger reset = {1, 0};
    if (plan->fate == RESET)
        MUST(life, setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset));
    return true;
}

/* After the trailer of the side that ends first. */
static void shut_half(const struct life *life, const struct plan *plan, int fd)
{
    bool is_now = life->act == plan->acts + 1 && life->out == life->out_until;
    if (is_now && plan->half && life->side == plan->first && shutdown(fd, SHUT_WR)
        && !life->is_mortal && plan->fate == NORMAL)
        fault(life, "shutdown: %s", strerrorname_np(errno));
}

static enum went end_well(struct life *life, const struct plan *plan, int fd)
{
    uint8_t byte;
    ssize_t got;
    switch (draw(life, 3)) {
    case 0:
        shutdown(fd, SHUT_WR);
        while ((got = recv(fd, &byte, 1, MSG_NOSIGNAL)) < 0 && (errno == EINTR || errno == EAGAIN))
            rest_us(200);
        if (got > 0) fault(life, "a byte behind the end: %02x", byte);
        if (got < 0) return cut(life, plan, "at the end", got);
        break;
    case 1: shutdown(fd, SHUT_RDWR);
    }
    return OVER;
}

static enum went play(struct life *life, const struct plan *plan, struct hands *hands)
{
    for (;;) {
        while (life->out < life->out_until || life->in < life->in_until) {
            if (is_hurt(life, plan, hands->fd)) return OVER;
            enum went went = step(life, plan, hands);
            if (went == ON) went = piece(life, plan, hands);
            if (went != ON) return went;
        }
        shut_half(life, plan, hands->fd);
        if (!next_act(life, plan)) return end_well(life, plan, hands->fd);
    }
}

/* A child lives this life, and is killed. */
static void be_killed(struct life *life, const struct plan *plan, int fd)
{
    pid_t self = getpid(), child = MUST(life, fork());
    if (child == 0) {
        become_child(life, fd);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* Its parent is killed now and then as well. */
        if (getppid() != self) _exit(0);
        struct hands hands;
        take_hands(&hands, life, fd);
        play(life, plan, &hands);
        for (;;) pause();
    }
    close(fd);
    rest_us(plan->hurt_us);
    kill(child, SIGKILL);
    count(KILLS, 1);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
}

/* Lives it to its end, or until it goes on elsewhere. A process that is there for it alone
 * ends with it. */
void live(struct life *life, int fd)
{
    struct plan plan = plan_of(life->seed);
    if (plan.fate == KILLED && plan.hurt == life->side && !life->in_child) {
        be_killed(life, &plan, fd);
        return leave(life);
    }
    struct hands hands;
    take_hands(&hands, life, fd);
    enum went went = play(life, &plan, &hands);
    if (went != GONE_ON) {
        drop_set(&hands);
        MUST(life, close(hands.fd));
        count(went == CUT ? CUTS : plan.is_short ? SHORTS : SCENARIOS, 1);
        leave(life);
    }
    drop_room();
    if (life->in_child) _exit(0);
}
