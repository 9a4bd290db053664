/* The calls that a failure may be injected into, and the counters, by number. */

#ifndef VYRE_HOOKS_H
#define VYRE_HOOKS_H

/* Calls whose VkResult kompute ignores, and which a failure may be injected into. */
enum vyre_call {
  VYRE_CALL_NONE,
  VYRE_CALL_ALLOCATE,
  VYRE_CALL_MAP,
  VYRE_CALL_BIND,
  VYRE_CALL_CREATE_BUFFER,
  VYRE_CALL_SUBMIT,
  VYRE_CALL_WAIT,
  VYRE_CALL_CREATE_PIPELINE,
  VYRE_CALL_BIND_BUFFERS, /* the layer's own: bindings.c */
  VYRE_CALL_EXPORT,       /* and exports.c */
  VYRE_CALL_COUNT,
};

enum vyre_counter {
  VYRE_FENCES_CREATED,
  VYRE_FENCES_REUSED,
  VYRE_WAITS_POLLED,
  VYRE_WAITS_BLOCKED,
  VYRE_MEMORY_ALLOCATED,
  VYRE_MEMORY_REUSED,
  VYRE_MEMORY_LIVE_BYTES,
  VYRE_MEMORY_CACHED_BYTES,
  VYRE_MEMORY_PEAK_BYTES,
  VYRE_MEMORY_FLUSHES,
  VYRE_BARRIERS_ADDED,
  VYRE_PIPELINES_CREATED,
  VYRE_PIPELINES_SHARED,
  VYRE_BLOBS_GIVEN,
  VYRE_BLOBS_TAKEN,
  VYRE_FEATURES_ENABLED,
  VYRE_WORK_PENDING,
  VYRE_FAILURES_RECORDED,
  VYRE_COMMAND_POOLS_CREATED,
  VYRE_COMMAND_POOLS_REUSED,
  VYRE_COUNTER_COUNT,
};

/* No VkResult of Vulkan's: the work has ended, and the driver has cut a loop of it. */
#define VYRE_LOOP_CUT ((VkResult)-2000000001)

#endif
