/* Memory in blocks: buffers of ours, each bound into a block that kompute has allocated for a tensor of its own.

   Vulkan promises 4,096 allocations in all, and one takes 100 us or more; a buffer that is bound into memory which is there takes
   less than one. Python, which has the tensors, adds blocks and drops them. */
#ifndef VYRE_ARENA_H
#define VYRE_ARENA_H

#include <stdbool.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

#include "tlsf.h"

/* Up to here buffers share blocks with others as short, then with others as long, so that none of the short ones keeps the place
   of a long one. */
#define VYRE_SHORT_BYTES (UINT64_C(1) << 20)
/* Longer buffers have a block each: what they leave of one would be of no use to others. */
#define VYRE_LONG_BYTES (UINT64_C(1) << 26)

enum vyre_length {
  VYRE_SHORT,
  VYRE_MEDIUM,
  VYRE_LONG,
};

static inline enum vyre_length vyre_length_of(uint64_t bytes) {
  return bytes <= VYRE_SHORT_BYTES ? VYRE_SHORT : bytes <= VYRE_LONG_BYTES ? VYRE_MEDIUM : VYRE_LONG;
}

enum vyre_arena_kind {
  VYRE_ARENA_STORAGE, /* what kernels use */
  VYRE_ARENA_STAGING, /* of the host's, where the device has memory of its own: what the host writes and reads goes through it */
  VYRE_ARENA_COUNT,
};

typedef struct vyre_block vyre_block;
struct vyre_block {
  vyre_block *next;
  VkDeviceMemory memory;
  char *mapped;      /* NULL: the host does not see it */
  uint64_t bytes;
  enum vyre_length length; /* of its buffers; LONG: one has all of it */
  vyre_chunk *first; /* NULL in a LONG one */
  bool is_dedicated; /* one buffer of kompute's, with which it goes */
  bool is_idle;      /* nothing of it is taken, */
  uint64_t since;    /* and that is how long: the order in which blocks came to be so */
};

/* Under memory_lock. */
typedef struct vyre_arena {
  vyre_tlsf ranges[VYRE_LONG]; /* of the blocks for shorter ones, by length */
  vyre_block *blocks;
  uint64_t block_count, used, reserved, idle, peak, turn;
} vyre_arena;

/* A buffer, and where its bytes are. */
typedef struct vyre_allocation {
  VkBuffer buffer;
  vyre_block *block;
  vyre_chunk *chunk; /* NULL: all of the block */
  char *mapped;      /* NULL: the host does not see it */
  uint64_t taken;    /* bytes of the block */
  uint64_t launch;   /* the last one that uses it */
} vyre_allocation;

/* Bytes: in buffers, in blocks, in blocks of which nothing is taken, the most that ever were in buffers, free in one piece, and in
   blocks for short buffers. */
typedef struct vyre_arena_facts {
  uint64_t blocks, used, reserved, idle, peak, longest, in_short;
} vyre_arena_facts;

struct vyre_device;

/* A buffer of so many bytes, in a block for its length or, if ``is_anywhere``, also in one for others: VK_NOT_READY where none has
   room for it. A failure is remembered, and leaves nothing. */
VkResult vyre_allocate(
    struct vyre_device *device, enum vyre_arena_kind kind, uint64_t bytes, bool is_anywhere, vyre_allocation *out);
/* True: there are more idle blocks now than are to be kept. Its last launch may be under way; nothing else that uses it is. */
bool vyre_free(struct vyre_device *device, enum vyre_arena_kind kind, const vyre_allocation *allocation);
/* Makes a block of the memory of the tensor that this thread has made last, for buffers of that length. With ``out`` it is
   dedicated: that is its buffer. A failure is remembered. */
VkResult vyre_add_block(
    struct vyre_device *device, enum vyre_arena_kind kind, enum vyre_length length, vyre_allocation *out, vyre_block **block);
/* Takes a block out that is idle, the one that is for longest, if ``is_all`` or there are more than are to be kept: it is a name from
   then on, by which Python drops the tensor. NULL: there is none. */
vyre_block *vyre_take_surplus(struct vyre_device *device, enum vyre_arena_kind kind, bool is_all);
void vyre_arena_facts_of(struct vyre_device *device, enum vyre_arena_kind kind, vyre_arena_facts *out);
void vyre_arenas_close(struct vyre_device *device); /* before the device goes: destroys what buffers are left */

#endif
