/* Fences that are used again: fence_pool.c, for sync.c. */
#ifndef VYRE_FENCE_POOL_H
#define VYRE_FENCE_POOL_H

#include "layer.h"

enum {
  VYRE_FENCE_SUBMITTED = 1, /* work that signals it was submitted, and nobody has seen it signalled */
  VYRE_FENCE_DETACHED = 2,  /* kompute thinks it is done with it; Python waits on it */
  VYRE_FENCE_ABANDONED = 4, /* and Python has stopped waiting */
};

/* Under fence_lock. */
void vyre_count_alone(vyre_device *device, enum vyre_counter counter, int64_t by); /* of a counter that changes nowhere else */
void vyre_count_pending(vyre_device *device, uintptr_t before, uintptr_t after); /* submissions whose end nobody has seen */
VkFence vyre_take_idle(vyre_device *device);               /* one that was reset, or NULL */
bool vyre_keep_idle(vyre_device *device, VkFence fence);   /* false: there are enough, or the hook is off */

/* A fence for work that is about to be submitted, which takes no lock where one is ready. Inside vyre_enter, as what follows. */
VkResult vyre_take_fence(vyre_device *device, VkFence *out, bool *is_new);
/* Of a fence that was taken: its work was submitted. ``is_run``: the thread waits for it, so that the next fence may be made. */
void vyre_note_taken(vyre_device *device, VkFence fence, VkCommandBuffer commands, bool is_new, bool is_run);
/* Of work that has ended, or never began. */
void vyre_give_ended_back(vyre_device *device, VkFence fence);
void vyre_fences_close(vyre_device *device);

#endif
