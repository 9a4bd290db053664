/* What the parts of the harness share: apps as kompute is one, what they make, and the scenes. */
#ifndef VYRE_HARNESS_H
#define VYRE_HARNESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layer.h"
#include "shared.h"
#include "mock_driver.h"

#define THREADS 8
#define BUFFER_BYTES 1000
#define MAILBOX 4
#define CHECK(rule) \
  do { \
    if (!(rule)) { \
      fprintf(stderr, "harness: %s: line %d: %s\n", __FILE__, __LINE__, #rule); \
      abort(); \
    } \
  } while (0)

extern VkNegotiateLayerInterface layer;
extern uint64_t rounds;

/* Work that nobody has waited for, and what it runs on. */
typedef struct sequence {
  VkCommandPool pool;
  VkCommandBuffer commands;
  VkFence fence;
  uint32_t clock;
} sequence;

typedef struct tensor {
  VkBuffer buffer;
  VkDeviceMemory memory;
  unsigned char *bytes;
} tensor;

/* A copy of our own, that nobody has waited for. */
typedef struct transfer {
  VkCommandBuffer commands;
  VkFence fence;
} transfer;

typedef struct parcel {
  bool full;
  sequence work;
  transfer part;
  tensor from, to;
  unsigned char mark;
} parcel;

typedef struct app {
  VkInstance instance;
  VkDevice device;
  VkQueue queue;
  vyre_device *face; /* what Python holds */
  bool may_fail;     /* failures are injected, or the device is lost */
  pthread_mutex_t lock;
  parcel mailbox[MAILBOX];
#define X(name) PFN_vk##name name;
  VYRE_DEVICE_CALLS(X)
#undef X
} app;

void on_threads(void *(*run)(void *), void *argument);

/* failing.c: of this thread's calls, the one that the countdown ends at fails; 0: none does. */
void fail_calloc(uint64_t countdown);
uint64_t callocs_to_fail(void); /* what is left of the countdown */
void fail_thread(uint64_t countdown);

/* apps.c */
#define OF_INSTANCE(a, name) ((PFN_vk##name)layer.pfnGetInstanceProcAddr((a)->instance, "vk" #name))
VkResult open_instance(app *a);
void close_instance(app *a);
VkPhysicalDevice open_armed_instance(app *a, uint64_t poll_ns, uint64_t cache_bytes);
VkResult set_loader_data(VkDevice device, void *object); /* the loader puts a pointer to its dispatch table into each object */
VkResult open_device(app *a, VkPhysicalDevice physical);
void open_app(app *a, uint64_t poll_ns, uint64_t cache_bytes);
void close_app(app *a);

/* kompute.c: as kompute and Python do. */
bool make_tensor(app *a, tensor *t); /* on with null handles after a failure; then nothing is left. Whether it is whole */
void drop_tensor(app *a, tensor *t);
void make_and_drop_pipeline(app *a, uint32_t kind, const tensor *bound);
void record_sequence(app *a, sequence *s, const tensor *from, const tensor *to);
void drop_sequence(app *a, sequence *s);
void eval_sequence(app *a, sequence *s, bool detach);
bool finish_sequence(app *a, sequence *s, int slices); /* gives up after some, as a time-out does */
void submit_part(app *a, transfer *t, const vyre_region *regions, uint32_t count);
void end_part(app *a, transfer *t, int times); /* submits it again, as long as it is wanted, and lets it go */

/* runs.c */
void run_once(app *a, uint64_t number); /* tensors, a pipeline, work that this thread or another ends */
void end_mailbox(app *a);

/* scenes_work.c */
void many_threads_on_one_device(void);
void layouts_that_are_prepared_are_those_that_kompute_gets(void);
void failures_are_injected(void);
void device_is_lost(void);
void closed_with_work_running(void);

/* scenes_devices.c */
void devices_of_their_own_come_and_go(void);
void hundreds_of_devices_are_open_at_once(void);
void instances_not_ours_pass_and_refused_ones_leave_nothing(void);
void refused_devices_leave_nothing(void);

/* scenes_taken.c */
void bound_kernels_run_until_the_device_is_lost_or_closed(bool is_lost);

/* scenes_taken_alone.c */
void bound_kernels_give_what_they_ran_until_they_are_closed(void);
void bound_kernels_that_fail_run_again(void);
void bound_kernels_are_dropped_while_they_run(void);
void bound_kernels_are_refused_in_a_forked_child(void);

/* scenes_pages.c */
void pages_are_zeros_and_go_whole(void);
void pages_are_copied_while_others_come_and_go(void);
void pages_without_memory_to_know_them_leave_nothing(void);
void pages_that_cannot_be_pinned_leave_nothing(void);
void failures_are_injected_into_pinning(void);
void device_is_lost_with_pages_pinned(void);

/* scenes_pages_end.c */
void device_is_closed_while_pages_are_pinned(void);
void pages_are_unpinned_in_the_middle_of_closing(void);

/* scenes_exports.c */
void exported_memory_is_seen_and_outlives_its_device(void);
void exports_that_fail_leave_nothing(void);
void device_is_lost_with_memory_exported(void);

/* scenes_movers.c */
void arrays_are_moved_by_eight_movers(void);
void device_is_lost_while_arrays_are_moved(void);

/* scenes_arenas.c */
typedef struct made_block {
  tensor tensor;
  vyre_block *name;
} made_block;
bool add_block(app *a, uint64_t bytes, enum vyre_length length, made_block *out); /* as kompute makes a tensor */
void buffers_are_ranges_of_blocks(void);
void buffers_that_cannot_be_had_leave_nothing(void);
void buffers_that_are_left_go_with_their_device(void);

/* scenes_launches.c */
void launches_of_many_threads_end_in_order(void);
void launches_that_fail_leave_room_for_others(void);
void launches_end_with_a_device_that_is_lost(void);
void launches_that_nobody_waits_for_go_with_their_device(void);

/* scenes_copies.c */
void long_arrays_are_copied_side_by_side(void);

#endif
