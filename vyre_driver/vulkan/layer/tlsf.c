#include "tlsf.h"

#include <stdlib.h>

#define PART_BITS 5  /* 1 << it is VYRE_TLSF_PARTS */
#define LOOKED_AT 16 /* chunks of the list in which some are long enough and some are not */

typedef struct place {
  uint32_t row, part;
} place;

/* Where chunks of so many units are: each length up to 32 has a list, then each 32nd part of a power of two. */
static place place_of(uint64_t units) {
  if (units < VYRE_TLSF_PARTS) return (place){0, (uint32_t)units};
  uint32_t power = 63 - (uint32_t)__builtin_clzll(units);
  return (place){power - PART_BITS + 1, (uint32_t)(units >> (power - PART_BITS)) & (VYRE_TLSF_PARTS - 1)};
}

static void put(vyre_tlsf *ranges, vyre_chunk *chunk) {
  place at = place_of(chunk->bytes / ranges->unit);
  vyre_chunk **head = &ranges->chunks[at.row][at.part];
  chunk->is_free = true;
  chunk->previous = NULL;
  chunk->next = *head;
  if (*head) (*head)->previous = chunk;
  *head = chunk;
  ranges->rows |= UINT64_C(1) << at.row;
  ranges->lists[at.row] |= UINT32_C(1) << at.part;
}

static void pull(vyre_tlsf *ranges, vyre_chunk *chunk) {
  place at = place_of(chunk->bytes / ranges->unit);
  vyre_chunk **head = &ranges->chunks[at.row][at.part];
  if (chunk->next) chunk->next->previous = chunk->previous;
  *(chunk->previous ? &chunk->previous->next : head) = chunk->next;
  chunk->is_free = false;
  if (*head) return;
  ranges->lists[at.row] &= ~(UINT32_C(1) << at.part);
  if (!ranges->lists[at.row]) ranges->rows &= ~(UINT64_C(1) << at.row);
}

static vyre_chunk *new_chunk(vyre_tlsf *ranges) {
  vyre_chunk *made = ranges->unused;
  if (!made) return malloc(sizeof *made);
  ranges->unused = made->next;
  return made;
}

static void forget(vyre_tlsf *ranges, vyre_chunk *chunk) {
  chunk->next = ranges->unused;
  ranges->unused = chunk;
}

vyre_chunk *vyre_tlsf_add(vyre_tlsf *ranges, uint64_t bytes, void *block) {
  bytes = bytes / ranges->unit * ranges->unit;
  vyre_chunk *made = bytes ? new_chunk(ranges) : NULL;
  if (!made) return NULL;
  *made = (vyre_chunk){.bytes = bytes, .block = block};
  put(ranges, made);
  return made;
}

/* The first of the lists from there on that has a chunk. */
static vyre_chunk *first_from(const vyre_tlsf *ranges, place at) {
  uint32_t lists = at.part < VYRE_TLSF_PARTS ? ranges->lists[at.row] >> at.part << at.part : 0;
  if (!lists) {
    uint64_t rows = at.row < 63 ? ranges->rows >> (at.row + 1) << (at.row + 1) : 0;
    if (!rows) return NULL;
    at.row = (uint32_t)__builtin_ctzll(rows);
    lists = ranges->lists[at.row];
  }
  return ranges->chunks[at.row][__builtin_ctz(lists)];
}

static vyre_chunk *find(const vyre_tlsf *ranges, uint64_t bytes) {
  place at = place_of(bytes / ranges->unit);
  vyre_chunk *best = NULL, *one = ranges->chunks[at.row][at.part];
  for (int left = LOOKED_AT; one && left; left--, one = one->next) {
    if (one->bytes >= bytes && (!best || one->bytes < best->bytes)) best = one;
  }
  return best ? best : first_from(ranges, (place){at.row, at.part + 1});
}

vyre_chunk *vyre_tlsf_take(vyre_tlsf *ranges, uint64_t bytes) {
  if (bytes > UINT64_MAX - ranges->unit) return NULL;
  bytes = bytes ? (bytes + ranges->unit - 1) / ranges->unit * ranges->unit : ranges->unit;
  vyre_chunk *chunk = find(ranges, bytes);
  if (!chunk) return NULL;
  pull(ranges, chunk);
  vyre_chunk *rest = chunk->bytes > bytes ? new_chunk(ranges) : NULL;
  if (rest) {
    *rest = (vyre_chunk){
        .offset = chunk->offset + bytes, .bytes = chunk->bytes - bytes, .block = chunk->block, .before = chunk, .after = chunk->after};
    if (rest->after) rest->after->before = rest;
    chunk->after = rest;
    chunk->bytes = bytes;
    put(ranges, rest);
  }
  return chunk;
}

/* Joins the second, which is in no list, to the first. */
static void join(vyre_tlsf *ranges, vyre_chunk *first, vyre_chunk *second) {
  first->bytes += second->bytes;
  first->after = second->after;
  if (first->after) first->after->before = first;
  forget(ranges, second);
}

void vyre_tlsf_give(vyre_tlsf *ranges, vyre_chunk *chunk) {
  vyre_chunk *before = chunk->before, *after = chunk->after;
  if (after && after->is_free) {
    pull(ranges, after);
    join(ranges, chunk, after);
  }
  if (before && before->is_free) {
    pull(ranges, before);
    join(ranges, before, chunk);
    chunk = before;
  }
  put(ranges, chunk);
}

void vyre_tlsf_remove(vyre_tlsf *ranges, vyre_chunk *first) {
  while (first) {
    vyre_chunk *after = first->after;
    if (first->is_free) pull(ranges, first);
    free(first);
    first = after;
  }
}

uint64_t vyre_tlsf_longest(const vyre_tlsf *ranges) {
  if (!ranges->rows) return 0;
  uint32_t row = 63 - (uint32_t)__builtin_clzll(ranges->rows);
  uint64_t longest = 0;
  const vyre_chunk *one = ranges->chunks[row][31 - __builtin_clz(ranges->lists[row])];
  for (; one; one = one->next) {
    if (one->bytes > longest) longest = one->bytes;
  }
  return longest;
}

void vyre_tlsf_close(vyre_tlsf *ranges) {
  while (ranges->unused) {
    vyre_chunk *one = ranges->unused;
    ranges->unused = one->next;
    free(one);
  }
}
