/* When the device worked on each submission, by its own clock, while that is asked for: intervals.c. */
#ifndef VYRE_INTERVALS_H
#define VYRE_INTERVALS_H

#include "layer.h"

typedef struct vyre_interval {
  uint64_t first, last;             /* ticks of the device's clock: all its commands lie in between */
  uint64_t submit_ns, submitted_ns; /* CLOCK_MONOTONIC before and after vkQueueSubmit */
  uint32_t thread;                  /* that submitted it, as gettid has it */
  uint32_t label;                   /* vyre_label of its command buffer; 0: none */
  uint32_t queue;                   /* 0: kompute's; from 1 on those for copies */
} vyre_interval;

/* Labels from 0 on up to these are not names of Python's. */
enum { VYRE_LABEL_NONE, VYRE_LABEL_COPY, VYRE_LABEL_FILL };

/* Both clocks at one moment. Source: VK_EXT_calibrated_timestamps. */
typedef struct vyre_moment {
  uint64_t ticks, host_ns;
  uint64_t deviation_ns; /* how far the two may be apart */
} vyre_moment;

/* intervals.c: what Python calls. Each start is followed by one stop. */
bool vyre_start_intervals(vyre_device *device, size_t most); /* false: no memory, or the device is gone */
void vyre_stop_intervals(vyre_device *device);
/* Sees what has ended, and copies up to ``room`` of those from number ``from`` on; returns how many there are in all. */
size_t vyre_copy_intervals(vyre_device *device, size_t from, vyre_interval *out, size_t room);
/* [0]: had no room; [1]: were submitted while 256 others were under way; [2]: have not ended. */
void vyre_count_intervals(vyre_device *device, uint64_t counts[3]);
bool vyre_read_moment(vyre_device *device, vyre_moment *out); /* false: the device cannot tell, or is gone */
bool vyre_last_moment(vyre_device *device, vyre_moment *out); /* of its closing; false: it is open, or could not tell */

/* What the other parts call. */
void vyre_describe_clocks(vyre_device *device, const vyre_instance *instance, VkPhysicalDevice physical);
void vyre_label(vyre_device *device, VkCommandBuffer commands, uint32_t label); /* 0: none any more */
/* Under queue_lock, while the device is timed; as vkQueueSubmit. */
VkResult vyre_submit_timed(vyre_device *device, VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence);
void vyre_intervals_close(vyre_device *device); /* its work has ended */
void vyre_intervals_free(vyre_device *device);

#endif
