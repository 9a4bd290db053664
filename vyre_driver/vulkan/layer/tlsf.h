/* Which ranges of some blocks are taken, by two-level segregated fit: knows no Vulkan, and never touches the blocks themselves.

   A block is cut into chunks without gaps between them. Free ones are in lists by their length, 32 lists for each power of two, so
   that one that is long enough is found in a few steps, whatever the number of chunks; neighbours that are free are one chunk.

   Source: Masmano, Ripoll, Crespo, Real, "TLSF: a New Dynamic Memory Allocator for Real-Time Systems", ECRTS 2004. */
#ifndef VYRE_TLSF_H
#define VYRE_TLSF_H

#include <stdbool.h>
#include <stdint.h>

#define VYRE_TLSF_PARTS 32 /* of a power of two */

typedef struct vyre_chunk vyre_chunk;
struct vyre_chunk {
  uint64_t offset, bytes;      /* in its block, multiples of the unit */
  void *block;                 /* whose it is */
  vyre_chunk *before, *after;  /* its neighbours in the block; NULL: the block's ends */
  vyre_chunk *next, *previous; /* in the list of free ones of its length */
  bool is_free;
};

/* All zeros but for the unit: there are no blocks yet. Its user keeps others away. */
typedef struct vyre_tlsf {
  uint64_t unit;        /* a power of two */
  uint64_t rows;        /* which of the rows of lists have chunks, by bit, */
  uint32_t lists[64];   /* and which lists of each row */
  vyre_chunk *chunks[64][VYRE_TLSF_PARTS];
  vyre_chunk *unused;   /* records of chunks that are no more */
} vyre_tlsf;

/* A new block, all of it free: its first chunk, whose record stays that of the first as long as the block is there. Bytes beyond the
   last whole unit are left out. NULL: no memory, or less than a unit. */
vyre_chunk *vyre_tlsf_add(vyre_tlsf *ranges, uint64_t bytes, void *block);
/* A chunk of so many bytes, rounded up to units; more where there is no memory to note the rest. NULL: none is long enough. */
vyre_chunk *vyre_tlsf_take(vyre_tlsf *ranges, uint64_t bytes);
void vyre_tlsf_give(vyre_tlsf *ranges, vyre_chunk *chunk); /* back; the record may be another chunk's from now on */
void vyre_tlsf_remove(vyre_tlsf *ranges, vyre_chunk *first); /* a block, with all its chunks, taken or not */
uint64_t vyre_tlsf_longest(const vyre_tlsf *ranges); /* bytes of the longest free chunk */
void vyre_tlsf_close(vyre_tlsf *ranges); /* once all blocks are removed */

/* Whether nothing of the block is taken. */
static inline bool vyre_tlsf_is_idle(const vyre_chunk *first) { return first->is_free && !first->after; }

#endif
