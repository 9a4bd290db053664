/* Launches that are recorded as they come: an open command buffer, which goes to the queue when the device has nothing else to do,
   when it is full, and when somebody waits for one of its launches or hands other work to the queue.

   A launch is a pipeline with all that changes from call to call: buffers, push constants and grid. Each has a number, and the
   launches of a device end in the order of their numbers. What a launch uses may be let go of once it is recorded: it is kept
   until the launch has ended. */
#ifndef VYRE_RECORDER_H
#define VYRE_RECORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

#include "regions.h"
#include "ranges.h"

#define VYRE_BATCHES 16        /* command buffers, of which one is open */
#define VYRE_MOST_LAUNCHES 64  /* of a command buffer */
#define VYRE_MOST_PARTS 64     /* of a launch */

struct vyre_device;

typedef struct vyre_launch {
  const vyre_bound *bound;           /* its pipeline and layouts; the set is not used */
  const vyre_range_of *parts; /* by binding */
  uint32_t part_count;
  uint64_t written;                  /* which of them it writes, bit by binding */
  const void *push;
  uint32_t push_bytes;
  uint32_t groups[3];
  bool shows_host;                   /* the host reads what it writes without a copy */
  uint32_t label;                    /* of its intervals; 0: none */
} vyre_launch;

/* What is to end with a launch. It lies in a block of malloc's, which ``end`` frees. */
typedef struct vyre_ending vyre_ending;
struct vyre_ending {
  vyre_ending *next;
  uint64_t launch;
  void (*end)(struct vyre_device *device, vyre_ending *ending);
};

typedef struct vyre_recorder vyre_recorder;

/* Records it and returns its number, from 1 on. VK_NOT_READY: as many are under way as there may be, and nothing was recorded; once
   launch *number has ended there is room. A failure is remembered. */
VkResult vyre_record_launch(struct vyre_device *device, const vyre_launch *launch, uint64_t *number);
/* Hands to the queue what is recorded. A failure is remembered, and is that of its launches too. */
VkResult vyre_flush_launches(struct vyre_device *device);
/* Waits until a launch has ended, at most so long; VK_TIMEOUT: it has not. */
VkResult vyre_wait_for_launch(struct vyre_device *device, uint64_t number, uint64_t slice_ns);
bool vyre_has_launch_ended(struct vyre_device *device, uint64_t number); /* as far as it was seen; 0 has */
uint64_t vyre_last_launch(struct vyre_device *device);                   /* 0: there was none */
/* Calls ``end`` when the launch has ended, or the device goes; false: it has ended, and nothing is called. */
bool vyre_end_with_launch(struct vyre_device *device, vyre_ending *ending);
void vyre_recorder_close(struct vyre_device *device); /* before the device goes, when all its work has ended; */
void vyre_recorder_free(struct vyre_device *device);  /* with its record */

#endif
