/* What follows from a scenario's seed: who, how much, how it ends, and the bytes. */
#include "soak.h"

uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

uint64_t draw(struct life *life, uint64_t limit)
{
    return mix(life->random++) % limit;
}

/* Small numbers as often as large ones. */
static uint64_t spread(uint64_t random, uint64_t most)
{
    static const uint64_t limits[] = {8, 100, 1500, 16384, 100000, 1 << 20};
    uint64_t limit = limits[random % 6];
    return 1 + (random >> 8) % (limit < most ? limit : most);
}

enum { TALK, BULK, DUPLEX, MIXED, STYLES };

uint64_t act_bytes(const struct plan *plan, uint64_t seed, unsigned act, unsigned side)
{
    uint64_t random = mix(seed ^ mix(act * 2 + 1)), own = mix(random + side);
    bool is_mine = act % 2 == side;
    if (act >= plan->acts) return side == plan->first ? 0 : spread(own, 50000);
    if (plan->is_short) return is_mine ? 1 + own % 100 : 0;
    switch (plan->style) {
    case TALK:
        return is_mine ? spread(own, 3000) : 0;
    case BULK:
        return random % 2 == side ? spread(own, PIECE_MAX) : 0;
    case DUPLEX:
        return spread(own, PIECE_MAX);
    default:
        return random % 3 == 2 ? spread(own, PIECE_MAX) : random % 3 == side ? spread(own, 20000) : 0;
    }
}

static enum fate fate_of(uint64_t random)
{
    switch (random % 20) {
    case 0: return is_wanted(CUTS) ? RESET : NORMAL;
    case 1: return is_wanted(CUTS) ? CLOSED : NORMAL;
    case 2: return is_wanted(KILLS) ? KILLED : NORMAL;
    case 3: return is_wanted(KILLS) ? READER_KILLED : NORMAL;
    default: return NORMAL;
    }
}

struct plan plan_of(uint64_t seed)
{
    static const unsigned odds[] = {0, 0, 1000, 300, 100, 30, 10, 5};
    uint64_t state = mix(seed);
#define NEXT (state = mix(state))
    struct plan plan = {.server = NEXT % 5 % SERVERS};
    plan.style = NEXT % STYLES;
    uint64_t acts = NEXT;
    plan.acts = plan.style == TALK ? 2 + acts % 400 : 1 + acts % 12;
    plan.first = NEXT % 2;
    plan.half = NEXT % 2;
    uint64_t extra = NEXT;
    plan.extra = extra % 3 ? 0 : 1 + extra / 3 % 5;
    plan.urgent = NEXT % 30 == 0;
    plan.fate = fate_of(NEXT);
    plan.hurt = NEXT % 2;
    uint64_t longest_us = NEXT % 4 ? 3000 : 60000;
    plan.hurt_us = 1 + NEXT % longest_us;
    for (int side = 0; side < 2; side++) plan.step_odds[side] = odds[NEXT % 8];
    if (NEXT % 3 == 0) {
        plan.is_short = true;
        plan.acts = 2;
        plan.extra = 0;
        plan.urgent = false;
        plan.fate = NORMAL;
        plan.step_odds[0] = plan.step_odds[1] = 0;
    }
    for (unsigned act = 0; act < plan.acts + plan.extra; act++)
        for (int side = 0; side < 2; side++) plan.total[side] += act_bytes(&plan, seed, act, side);
    plan.hurt_at = NEXT % (plan.total[0] + plan.total[1] + 1);
#undef NEXT
    return plan;
}

/* The bytes of a stream. */
static void generate(uint64_t stream, uint64_t position, uint8_t *bytes, size_t size)
{
    size_t i = 0;
    while (i < size) {
        uint64_t word = mix(stream + (position + i) / 8);
        size_t skip = (position + i) % 8, part = 8 - skip;
        if (part > size - i) part = size - i;
        memcpy(bytes + i, (uint8_t *)&word + skip, part);
        i += part;
    }
}

/* Those of one side of a scenario; behind the last one stand total and sum. */
static void fill(const struct plan *plan, uint64_t seed, unsigned side, uint64_t position,
                 uint64_t sum, uint8_t *bytes, size_t size)
{
    uint64_t total = plan->total[side];
    size_t part = position >= total ? 0 : total - position < size ? total - position : size;
    generate(mix(seed) + ((uint64_t)side << 60), position, bytes, part);
    uint64_t trailer[2] = {total, sum};
    if (part < size)
        memcpy(bytes + part, (uint8_t *)trailer + (position + part - total), size - part);
}

static uint64_t sum_of(const uint8_t *bytes, size_t size)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < size; i++) sum += bytes[i];
    return sum;
}

/* How many of these belong to the sum. */
static size_t summed(uint64_t total, uint64_t position, size_t size)
{
    return position >= total ? 0 : total - position < size ? total - position : size;
}

void next_bytes(const struct life *life, const struct plan *plan, uint8_t *bytes, size_t size)
{
    fill(plan, life->seed, life->side, life->out, life->out_sum, bytes, size);
}

void sent_bytes(struct life *life, const struct plan *plan, const uint8_t *bytes, size_t size)
{
    life->out_sum += sum_of(bytes, summed(plan->total[life->side], life->out, size));
    life->out += size;
}

/* Whether these bytes, at least 16, are of one side of a scenario; where, if so. */
static bool is_from(uint64_t seed, unsigned side, const uint8_t *bytes, uint64_t *position)
{
    struct plan plan = plan_of(seed);
    uint8_t part[4096 + 16];
    for (uint64_t at = 0; at < plan.total[side]; at += 4096) {
        generate(mix(seed) + ((uint64_t)side << 60), at, part, sizeof part);
        const uint8_t *found = memmem(part, sizeof part, bytes, 16);
        if (!found) continue;
        *position = at + (found - part);
        return true;
    }
    return false;
}

/* Says where wrong bytes come from: who reads the fault will want to know. */
static void say_origin(const uint8_t *bytes, size_t size, char *text, size_t room)
{
    uint64_t position;
    snprintf(text, room, "of nobody's");
    for (unsigned place = 0; size >= 16 && place < LIVES_MAX; place++) {
        struct lives *entry = &shared->lives[place];
        for (unsigned side = 0; entry->state == LIVING && side < 2; side++) {
            if (!is_from(entry->seed, side, bytes, &position)) continue;
            snprintf(text, room, "what side %u of %llu sends at %llu", side,
                     (unsigned long long)entry->seed, (unsigned long long)position);
            return;
        }
    }
}

static void fault_at(const struct life *life, const struct plan *plan, uint64_t position,
                     const uint8_t *bytes, size_t size, uint8_t expected)
{
    char hex[49] = "", origin[160];
    for (size_t i = 0; i < size && i < 16; i++) sprintf(hex + 3 * i, " %02x", bytes[i]);
    say_origin(bytes, size, origin, sizeof origin);
    fault(life, "wrong byte at %llu of %llu: %02x, not %02x; in this piece %zu behind:%s, %s",
          (unsigned long long)position, (unsigned long long)plan->total[!life->side], bytes[0],
          expected, size, hex, origin);
}

void check_bytes(const struct life *life, const struct plan *plan, const uint8_t *bytes,
                 size_t size)
{
    static __thread uint8_t expected[16384];
    uint64_t position = life->in;
    while (size) {
        size_t part = size < sizeof expected ? size : sizeof expected;
        fill(plan, life->seed, !life->side, position, life->in_sum, expected, part);
        if (memcmp(expected, bytes, part)) {
            size_t i = 0;
            while (expected[i] == bytes[i]) i++;
            fault_at(life, plan, position + i, bytes + i, size - i, expected[i]);
        }
        bytes += part, position += part, size -= part;
    }
}

void took_bytes(struct life *life, const struct plan *plan, const uint8_t *bytes, size_t size)
{
    check_bytes(life, plan, bytes, size);
    life->in_sum += sum_of(bytes, summed(plan->total[!life->side], life->in, size));
    life->in += size;
    count(BYTES, size);
}
