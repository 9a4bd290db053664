/* Moves arrays between plain memory of the host and buffers of a device, in steps: threads copy to and from a few pinned areas, the
   device copies between those and its buffers, and runs dispatches meanwhile. */
#ifndef VYRE_MOVER_H
#define VYRE_MOVER_H

#include "layer.h"

/* One array, to a buffer or from it. ``host`` is plain memory of the host's; else ``pinned`` has the bytes, which the device copies
   itself; without either the buffer gets zeros. ``direct`` is the memory of a buffer that the host shares: the device copies
   nothing then. */
typedef struct vyre_move {
  VkBuffer buffer;
  uint64_t offset;
  uint64_t bytes;
  char *host;
  VkBuffer pinned;
  uint64_t pinned_offset;
  char *direct;
  bool is_down;
} vyre_move;

typedef struct vyre_mover vyre_mover;

/* One turn of a step, of those that went through an area: when it was begun, filled by the host, handed over, ended by the device and
   emptied by the host, in ns of the monotonic clock. */
typedef struct vyre_turn_times {
  uint64_t step, begun, filled, submitted, ended, emptied;
} vyre_turn_times;

/* The areas are ``bytes`` of pinned memory at ``memory``, of which ``areas`` is the VkBuffer. NULL: out of memory. */
vyre_mover *vyre_mover_make(vyre_device *device, char *memory, VkBuffer areas, uint64_t bytes);

/* Adds a step, and returns its number, counted from 1 on; 0: out of memory, or no thread can be made.

   The moves of a step begin when the commands of the step before have ended, and its own commands (NULL: none) are submitted when
   the moves of the step before have. So what a step's commands read came with the step before, and what they write goes with the
   step after. A fill's offset and bytes are multiples of 4. The copies take effect in the order of submission, as all of kompute's
   queue, unless they may go on beside other work. */
uint64_t vyre_mover_put(
    vyre_mover *mover, const vyre_move *moves, size_t count, VkCommandBuffer commands, bool is_beside);

/* Returns when the moves of a step have ended, and the commands of the step before; VK_TIMEOUT: not in so many ns. */
VkResult vyre_mover_wait(vyre_mover *mover, uint64_t number, uint64_t slice_ns);

/* From its return on no thread touches memory of the host's. What has been submitted goes on; nothing else does. */
void vyre_mover_cancel(vyre_mover *mover);

/* Returns when the device has ended what was submitted; VK_TIMEOUT: not in so many ns. */
VkResult vyre_mover_settle(vyre_mover *mover, uint64_t slice_ns);

/* Writes the times of the last turns that are over, at most so many, the latest last; returns how many. */
size_t vyre_mover_times(vyre_mover *mover, vyre_turn_times *out, size_t most);

/* Cancels, waits for what was submitted, and frees it. */
void vyre_mover_free(vyre_mover *mover);

#endif
