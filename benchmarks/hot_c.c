/* What the functions of the C table cost a caller in C: nanoseconds a call, the best of several loops. */
#include <stdio.h>
#include <time.h>

#include "vyre_driver.h"

enum { MOST = 64, LOOPS = 9 };

static volatile uint64_t used; /* so that no call is left out */

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

#define BEST_OF_LOOPS(calls, statement)                     \
    do {                                                    \
        for (int loop = 0; loop < LOOPS; loop++) {          \
            double began = now_ns();                        \
            for (uint64_t call = 0; call < (calls); call++) \
                statement;                                  \
            double took = (now_ns() - began) / (calls);     \
            if (loop == 0 || took < best)                   \
                best = took;                                \
        }                                                   \
    } while (0)

static size_t constants(vyre_spec_entry *entries, char names[][12], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        entries[i].name_len = (size_t)snprintf(names[i], 12, "CONSTANT_%02u", (unsigned)i);
        entries[i].name = names[i];
        entries[i].value_hash = (uint64_t)(i * 3) << 8;
    }
    return count;
}

/* FNV-1a a byte at a time, as the original does it. */
static uint64_t plain_hash(const vyre_spec_entry *entries, size_t count)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < count; i++) {
        for (size_t at = 0; at < entries[i].name_len; at++)
            hash = (hash ^ (uint8_t)entries[i].name[at]) * UINT64_C(0x100000001B3);
        for (int shift = 0; shift < 64; shift += 8)
            hash = (hash ^ (entries[i].value_hash >> shift & 0xFF)) * UINT64_C(0x100000001B3);
    }
    return hash;
}

double time_spec_map_hash(const vyre_driver_api *vyre, size_t count, uint64_t calls)
{
    double best = 0;
    char names[MOST][12];
    vyre_spec_entry entries[MOST];
    constants(entries, names, count);
    BEST_OF_LOOPS(calls, used = vyre->spec_map_hash(entries, count));
    return best;
}

double time_plain_hash(size_t count, uint64_t calls)
{
    double best = 0;
    char names[MOST][12];
    vyre_spec_entry entries[MOST];
    constants(entries, names, count);
    BEST_OF_LOOPS(calls, used = plain_hash(entries, count));
    return best;
}

double time_autotune_key(const vyre_driver_api *vyre, uint64_t calls)
{
    double best = 0;
    char digits[32];
    vyre_spec_cache_key key = {1, 2, 3, {64, 1, 1}};
    BEST_OF_LOOPS(calls, (key.shader_hash = call, vyre->autotune_key(&key, digits), used = (uint64_t)digits[0]));
    return best;
}

static void declare(vyre_buffer_decl *decls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        decls[i] = (vyre_buffer_decl){
            .element_size = 4,
            .binding = (uint32_t)i,
            .count = 1024,
            .access = i + 1 < count ? VYRE_ACCESS_READ_ONLY : VYRE_ACCESS_READ_WRITE,
            .kind = VYRE_KIND_GLOBAL,
        };
}

double time_plan_build(const vyre_driver_api *vyre, size_t count, uint64_t calls)
{
    double best = 0;
    vyre_buffer_decl decls[MOST];
    vyre_binding plan[MOST];
    size_t fault;
    declare(decls, count);
    BEST_OF_LOOPS(calls, used = (uint64_t)vyre->plan_build(decls, count, NULL, 0, plan, &fault));
    return best;
}

double time_validate_lengths(const vyre_driver_api *vyre, size_t count, uint64_t calls)
{
    double best = 0;
    vyre_buffer_decl decls[MOST];
    vyre_binding plan[MOST];
    uint64_t lengths[MOST];
    size_t at_fault;
    vyre_lengths_fault fault;
    declare(decls, count);
    vyre->plan_build(decls, count, NULL, 0, plan, &at_fault);
    for (size_t i = 0; i < count; i++)
        lengths[i] = 4096;
    BEST_OF_LOOPS(calls, used = (uint64_t)vyre->validate_lengths(plan, count, lengths, count, &fault));
    return best;
}
