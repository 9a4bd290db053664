/* What the parts of the mock driver share. */
#ifndef VYRE_MOCK_H
#define VYRE_MOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mock_driver.h"

#define MAX_COPIES 64
#define MAX_TOUCHED 128
#define CHECK(rule, text) \
  do { \
    if (!(rule)) { \
      fprintf(stderr, "mock driver: %s\n", text); \
      abort(); \
    } \
  } while (0)

typedef struct mock_device mock_device;

typedef struct mock_physical {
  void *key;
} mock_physical;

typedef struct mock_instance {
  void *key;
  mock_physical physical;
} mock_instance;

typedef struct mock_memory {
  unsigned char *bytes;
  VkDeviceSize size;
  VkBuffer only_for; /* the one buffer that may be bound to it; NULL: any */
  VkExternalMemoryHandleTypeFlags kind; /* what it is imported from, or may be exported as */
  int fd;        /* of exported memory */
  bool mapped;
  uint32_t uses; /* copies that are pending; under the device's lock */
} mock_memory;

typedef struct mock_buffer {
  mock_memory *memory;
  VkDeviceSize size, offset; /* in its memory */
  VkExternalMemoryHandleTypeFlags kinds; /* of external memory that it may be bound to */
  uint32_t uses;
} mock_buffer;

typedef struct mock_fence {
  bool pending, signalled; /* under the device's lock */
} mock_fence;

typedef struct mock_copy {
  mock_buffer *from, *to; /* from NULL: a fill with word */
  VkBufferCopy region;
  uint32_t word;
} mock_copy;

typedef struct mock_pool mock_pool;

typedef struct mock_commands {
  void *key; /* the loader's, which puts it there */
  mock_device *device;
  mock_pool *pool;
  struct mock_commands *next;
  bool pending;
  bool is_ordered; /* a barrier came since the last copy */
  uint32_t ordered; /* copies that the last barrier came after; UINT32_MAX: there was none */
  const void *pipeline, *set; /* bound, or NULL */
  uint32_t touched_count;
  mock_buffer *touched[MAX_TOUCHED]; /* what dispatches of sets of the layer's have bound */
  uint32_t copy_count;
  mock_copy copies[MAX_COPIES];
} mock_commands;

struct mock_pool {
  mock_commands *first; /* under its user's lock, as Vulkan wants it */
};

typedef struct mock_job {
  mock_commands *commands;
  mock_fence *fence;
  struct mock_job *next;
} mock_job;

struct mock_device {
  void *key;
  struct {
    void *key;
  } queue;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t worker;
  mock_job *first, **last;
  bool lost, held, closing;
  bool captures; /* pipelineExecutableInfo is on */
  uint32_t unfinished; /* jobs; under the lock */
  uint64_t submissions; /* of command buffers */
  atomic_int children;
};

#define DEVICE(handle) ((mock_device *)(handle))

/* Whoever makes an object drops it; a device with objects left may not go. */
void *mock_make(size_t size, mock_device *owner);
void mock_drop(void *thing, mock_device *owner);
void *mock_zeros(size_t size); /* malloc: the layer's calloc may be made to fail */
VkResult mock_failure(const char *name); /* what mock_fail asked of this call, or VK_SUCCESS */

/* Reads a byte of what must be there still. */
static inline void mock_touch(const void *thing) { (void)*(const volatile unsigned char *)thing; }

/* mock_pipelines.c: the buffers that were written to a set last, by this thread; once. */
mock_buffer *const *mock_updated(VkDescriptorSet set, uint32_t *count);

/* mock_queue.c */
void *mock_work(void *device); /* the thread that does what is submitted */
/* Under Vulkan's rule a fence in use may be neither reset nor destroyed; on a lost device it may. */
void mock_check_idle(mock_device *device, const bool *pending, const char *text);
void mock_check_unused(mock_device *device, const uint32_t *uses, const char *text); /* the same of what work copies */

/* A part's function of Vulkan's of that name, or NULL. */
#define NAMED(vulkan, ours) \
  if (strcmp(name, "vk" #vulkan) == 0) return (PFN_vkVoidFunction)(PFN_vk##vulkan)ours;
PFN_vkVoidFunction mock_queue_proc(const char *name);
PFN_vkVoidFunction mock_memory_proc(const char *name);
PFN_vkVoidFunction mock_pipeline_proc(const char *name);
PFN_vkVoidFunction mock_command_proc(const char *name);

#endif
