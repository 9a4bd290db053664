/* The vyre Vulkan layer: what its parts share, and what _layer.pyx calls.

   The loader and Python open the same shared object, so both see one copy of this state. Only instances created on a thread that
   has armed the layer are touched; every other instance and device in the process passes through. */
#ifndef VYRE_LAYER_H
#define VYRE_LAYER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vulkan/vulkan.h>
#include <vulkan/vk_layer.h>

#include "arena.h"
#include "device_features.h"
#include "fork_guard.h"
#include "handle_map.h"
#include "hooks.h"
#include "ranges.h"
#include "recorder.h"
#include "regions.h"
#include "use.h"

#define VYRE_LAYER_NAME "VK_LAYER_VYRE_driver"

#define VYRE_MAX_EXTENSIONS 16
#define VYRE_EXTENSION_CHARS 64

/* What Python asks of the next instance that its thread creates. */
typedef struct vyre_config {
  uint32_t api_version;         /* for the instance; 0 leaves kompute's */
  uint8_t device_uuid[16];      /* the only physical device the instance will list */
  uint64_t features;            /* bits by vyre_feature_index */
  uint32_t extension_count;
  char extensions[VYRE_MAX_EXTENSIONS][VYRE_EXTENSION_CHARS];
  uint64_t poll_ns;             /* how long a wait polls before it blocks */
  uint64_t memory_cache_bytes;  /* of idle blocks, kept at most */
} vyre_config;

typedef struct vyre_failure {
  int32_t call;      /* enum vyre_call; VYRE_CALL_NONE: nothing failed */
  int32_t result;    /* VkResult */
  uint64_t bytes;    /* asked for, of an allocation */
} vyre_failure;

/* What one pipeline creation was, from the thread that made it. */
typedef struct vyre_pipeline_facts {
  bool created;
  bool shared;          /* an equal pipeline was there already */
  bool feedback;        /* the driver reported what follows */
  bool cache_hit;       /* the driver found it in the blob it was given */
  uint64_t compile_ns;  /* as measured around the call */
} vyre_pipeline_facts;

typedef struct vyre_instance vyre_instance;
typedef struct vyre_device vyre_device;

/* What a constructor of kompute's may leave behind: a tensor has two buffers, each with memory, an algorithm one of each other. */
enum vyre_object {
  VYRE_BUFFER,
  VYRE_MEMORY,
  VYRE_SHADER_MODULE,
  VYRE_SET_LAYOUT,
  VYRE_PIPELINE_LAYOUT,
  VYRE_PIPELINE_CACHE,
  VYRE_DESCRIPTOR_POOL,
  VYRE_PIPELINE,
};

#define VYRE_WATCHED 8
#define VYRE_HANDLE(handle) ((uint64_t)(uintptr_t)(handle))

typedef struct vyre_made_object {
  enum vyre_object kind;
  uint64_t handle;
} vyre_made_object;

/* State of one thread; Python reads and writes its own.

   A garbage collection may run finalizers at any allocation, and they may make buffers and pipelines while one is being made:
   whatever makes something sets the state of the work around it aside, and puts it back. */
typedef struct vyre_thread {
  const vyre_config *armed;
  vyre_device *created_device;
  vyre_instance *new_instance;    /* records for what is made next, with their room: kompute goes on with what Vulkan refused, */
  vyre_device *new_device;        /* and the loader ends the process then, so that they are allocated before it is called */
  vyre_feature_chain *new_chain;
  bool tells_loader;              /* the loader's variables are set for this thread */
  vyre_failure failure;
  uint64_t buffer_bytes;          /* of the buffers made next, whatever kompute asks for; 0: that */
  bool is_stand_in;               /* the tensor made next has no memory */
  bool want_export;               /* it has memory that other APIs of the device may see; */
  VkBuffer export_next;           /* its buffer, when its memory is what is allocated next */
  uint32_t wanted_types;          /* of its memory, bit by index, where one of them will do */
  VkBuffer storage_buffer;        /* its buffer, */
  VkDeviceSize alignment;         /* where such may begin, */
  VkDeviceMemory storage_memory;  /* its memory, */
  uint64_t storage_bytes;         /* how long that is, */
  uint32_t storage_types;         /* of which type, by bit, */
  char *mapped;                   /* and where kompute has mapped it; NULL: nowhere */
  const vyre_range_of *parts;     /* by binding, what the pipeline made next binds in place of kompute's tensors; NULL: those */
  uint32_t part_count;
  uint32_t parts_written;         /* so many of them fitted and are in descriptors, */
  uint32_t parts_missed;          /* and so many descriptors have none */
  bool watched;                   /* what this thread makes now is listed, until it is destroyed: */
  vyre_made_object made[VYRE_WATCHED];
  uint32_t made_count;
  bool detach_waits;              /* answer the next wait at once and keep its fence */
  VkFence detached_fence;
  uint32_t group;                 /* operations recorded under one number, not 0, need no barrier among themselves */
  bool device_only;               /* the host reads nothing that what is being recorded writes */
  const vyre_copies *copies;      /* around the dispatch recorded next, which takes them; NULL: none */
  uint32_t starts_clock;          /* the command buffer begun next, which takes it; 0: none */
  uint32_t stops_clock;           /* the dispatch recorded next, the same */
  const void *blob_in;
  size_t blob_in_bytes;
  bool want_blob;
  uint32_t subgroup_size;         /* of the pipeline made next, whose subgroups are full then; 0: what the device chooses */
  void *blob_out;                 /* malloc */
  size_t blob_out_bytes;
  vyre_pipeline_facts pipeline;
  vyre_bound bound;               /* of the pipeline made last */
} vyre_thread;

typedef struct vyre_device_calls {
#define VYRE_DEVICE_CALLS(X) \
  X(DestroyDevice) X(GetDeviceQueue) X(DeviceWaitIdle) X(QueueSubmit) \
  X(CreateFence) X(DestroyFence) X(ResetFences) X(GetFenceStatus) X(WaitForFences) \
  X(AllocateMemory) X(FreeMemory) X(MapMemory) X(UnmapMemory) X(CreateBuffer) X(DestroyBuffer) \
  X(GetBufferMemoryRequirements) X(BindBufferMemory) X(GetMemoryHostPointerPropertiesEXT) X(UpdateDescriptorSets) X(CreateShaderModule) X(DestroyShaderModule) \
  X(CreateDescriptorSetLayout) X(DestroyDescriptorSetLayout) X(CreatePipelineLayout) X(DestroyPipelineLayout) \
  X(CreatePipelineCache) X(DestroyPipelineCache) X(CreateDescriptorPool) X(DestroyDescriptorPool) X(ResetDescriptorPool) X(AllocateDescriptorSets) X(GetPipelineCacheData) X(CreateComputePipelines) X(DestroyPipeline) X(CreateCommandPool) \
  X(DestroyCommandPool) X(ResetCommandPool) X(AllocateCommandBuffers) X(FreeCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdBindPipeline) X(CmdBindDescriptorSets) X(CmdPushConstants) X(CmdDispatch) X(CmdCopyBuffer) \
  X(GetPipelineExecutablePropertiesKHR) X(GetPipelineExecutableStatisticsKHR) X(CmdFillBuffer) X(CmdPipelineBarrier) \
  X(CreateQueryPool) X(DestroyQueryPool) X(GetQueryPoolResults) X(CmdResetQueryPool) X(CmdWriteTimestamp) \
  X(ResetQueryPool) X(GetCalibratedTimestampsEXT)
#define X(name) PFN_vk##name name;
  VYRE_DEVICE_CALLS(X)
#undef X
} vyre_device_calls;

struct vyre_instance {
  VkInstance handle;
  bool owned;
  vyre_config config;
  PFN_vkGetInstanceProcAddr next;
  PFN_vkDestroyInstance destroy;
  PFN_vkEnumeratePhysicalDevices enumerate;
  PFN_vkGetPhysicalDeviceProperties2 properties2;
  PFN_vkGetPhysicalDeviceQueueFamilyProperties queue_families;
  PFN_vkGetPhysicalDeviceProperties properties;
  PFN_vkGetPhysicalDeviceFeatures features;
  PFN_vkGetPhysicalDeviceFeatures2 features2;
  PFN_vkGetPhysicalDeviceMemoryProperties memory;
};

typedef struct vyre_shared vyre_shared;
typedef struct vyre_command_pool vyre_command_pool;

#define VYRE_FENCE_POOL 64
#define VYRE_COPY_QUEUES 2
#define VYRE_CLOCKS 1024
#define VYRE_IDLE_TRANSFERS 16
#define VYRE_IDLE_COMMAND_POOLS 16
#define VYRE_DEVICE_ONLY (UINT32_C(1) << 31) /* beside a group: no barrier to the host at the end */

struct vyre_device {
  VkDevice handle;
  bool owned;
  atomic_bool alive;  /* the VkDevice exists */
  pthread_rwlock_t use_lock;  /* held for reading while Python uses the VkDevice, so that its destruction waits */
  atomic_bool lost;   /* VK_ERROR_DEVICE_LOST was seen; every later submission and wait says so at once */
  atomic_int references;
  vyre_config config;
  PFN_vkGetDeviceProcAddr next;
  vyre_device_calls vk;
  uint8_t device_uuid[16];
  uint32_t api_version;
  bool resets_queries, has_moments; /* hostQueryReset is on; both clocks can be read at once: intervals.h */
  bool captures_statistics; /* each pipeline, so that the driver tells of its code: pipelineExecutableInfo is on */
  atomic_ullong counters[VYRE_COUNTER_COUNT];

  _Atomic(VkQueue) queue;                /* the one that kompute has; NULL before it has asked for it */
  uint32_t queue_family;                 /* its; written before it */
  VkQueue copy_queues[VYRE_COPY_QUEUES]; /* others of its family */
  uint32_t copy_queue_count;             /* 0: there are none, or they are not asked for */
  uint32_t asked_copy_queues;
  pthread_mutex_t queue_lock;            /* held while work is handed to it */
  pthread_mutex_t fence_lock;
  VkFence idle_fences[VYRE_FENCE_POOL];  /* to be reset and handed out */
  uint32_t idle_fence_count;
  _Atomic(VkFence) ready_fence;          /* reset already; NULL: none is */
  uint32_t abandoned_fence_count;
  vyre_handle_map fences;                /* VkFence -> VYRE_FENCE_* bits, of those handed out */
  vyre_handle_map fence_work;            /* VkFence -> the one VkCommandBuffer last submitted with it */

  pthread_mutex_t memory_lock;
  vyre_handle_map memory;                /* VkDeviceMemory of kompute's -> its type */
  vyre_handle_map buffer_bytes;          /* VkBuffer -> its size */
  vyre_arena arenas[VYRE_ARENA_COUNT];
  uint32_t upload_types;                 /* memory types of device memory that the host can write, bit by index */
  uint32_t readback_types;               /* of host memory that the host reads through its caches */
  uint32_t coherent_types;               /* of all memory that the host sees as the device does */
  vyre_handle_map imports;               /* VkBuffer of this process's pages -> its VkDeviceMemory */
  pthread_cond_t imports_gone;           /* with the device */
  uint64_t import_alignment;             /* of such pages and their bytes; 0: there can be none */

  pthread_mutex_t pipeline_lock;
  vyre_shared *shader_modules;           /* each list the most recently used first */
  vyre_shared *set_layouts;
  vyre_shared *pipeline_layouts;
  vyre_shared *descriptor_pools;
  vyre_shared *pipelines;
  uint64_t last_serial;                  /* of what is in them */

  pthread_mutex_t command_lock;
  vyre_handle_map command_buffers;       /* VkCommandBuffer -> the group of its last operation | VYRE_DEVICE_ONLY */
  vyre_handle_map command_pools;         /* VkCommandPool -> vyre_command_pool, handed out */
  vyre_command_pool *idle_command_pools; /* reset, most recently used first */
  uint32_t idle_command_pool_count;
  VkQueryPool clock_pool;                /* made with the first clock */
  uint32_t idle_clocks[VYRE_CLOCKS];     /* numbers, from 1 on, of those that were made and are not taken */
  uint32_t idle_clock_count, made_clocks;
  vyre_handle_map labels;                /* VkCommandBuffer of ours -> vyre_label */
  struct vyre_intervals *intervals;      /* NULL before anybody asked for them; under queue_lock */
  atomic_bool is_timed;                  /* what is submitted */

  _Atomic(vyre_recorder *) recorder;     /* NULL before the first launch */

  PFN_vkSetDeviceLoaderData set_loader_data; /* makes what the layer allocates itself a dispatchable object of the loader's */
  pthread_mutex_t transfer_lock;
  VkCommandPool transfer_pool;
  VkCommandBuffer idle_transfers[VYRE_IDLE_TRANSFERS];
  uint32_t idle_transfer_count;
};

/* layer.c: what Python calls */
vyre_thread *vyre_this_thread(void);
void vyre_begin_making(vyre_thread *outer);     /* sets the thread's state aside; what is made has one of its own */
void vyre_end_making(const vyre_thread *outer); /* puts it back; a failure since counts as one of the work around */
bool vyre_arm(const vyre_config *config);  /* false: out of memory */
vyre_device *vyre_disarm(void);  /* the device created since vyre_arm, referenced, or NULL */
void vyre_release(vyre_device *device);
uint64_t vyre_counter_value(vyre_device *device, int counter);
bool vyre_is_lost(const vyre_device *device);
bool vyre_is_alive(const vyre_device *device);
void vyre_inject(int call, uint64_t countdown, int32_t result); /* injection.c */

/* registry.c: what is open, by any dispatchable handle of it. Room is taken first; only that can fail. */
typedef struct vyre_registry vyre_registry;
extern vyre_registry *const vyre_instances; /* of vyre_instance */
extern vyre_registry *const vyre_devices;   /* of vyre_device */
bool vyre_take_room(vyre_registry *registry); /* false: out of memory */
void vyre_give_room_back(vyre_registry *registry);
void vyre_keep(vyre_registry *registry, const void *dispatchable, void *record);
void *vyre_find(const vyre_registry *registry, const void *dispatchable);   /* NULL: not kept */
void *vyre_forget(vyre_registry *registry, const void *dispatchable);       /* its record; NULL: not kept */

/* environment.c: the loader finds the layer from vyre_tell_loader until vyre_loader_knows, which undoes that, once, if this
   thread has done it. The caller holds the GIL and makes no Python object in between: no other thread of Python's may start a
   process that would find the layer too. */
bool vyre_tell_loader(const char *path_variable, const char *directory, const char *name_variable); /* false: no memory, no change */
void vyre_loader_knows(void);

/* layer.c: what the other parts call */
bool vyre_enter(vyre_device *device); /* false: the VkDevice is gone; else vyre_leave must follow */
void vyre_leave(vyre_device *device);
vyre_device *vyre_find_device(const void *dispatchable);
VkResult vyre_injected(enum vyre_call call);
/* Returns the result, remembered for Python if it is a failure and the hook is on. */
VkResult vyre_record(vyre_device *device, enum vyre_call call, VkResult result, uint64_t bytes);
void vyre_count(vyre_device *device, enum vyre_counter counter, int64_t by);
uint64_t vyre_now_ns(void);

/* A function of ours in the place of Vulkan's of that name. */
typedef struct vyre_hook {
  const char *name;
  PFN_vkVoidFunction function;
} vyre_hook;

#define VYRE_HOOK(name, function) {name, (PFN_vkVoidFunction)(function)}
#define VYRE_FIND_HOOK(hooks, name) vyre_find_hook(hooks, sizeof(hooks) / sizeof *(hooks), name)

/* Each part names its hooks to layer.c and gives back what it holds before the device goes. */
PFN_vkVoidFunction vyre_find_hook(const vyre_hook *hooks, size_t count, const char *name);
PFN_vkVoidFunction vyre_sync_hook(const char *name);
PFN_vkVoidFunction vyre_memory_hook(const char *name);
PFN_vkVoidFunction vyre_pipeline_hook(const char *name);
PFN_vkVoidFunction vyre_command_hook(const char *name);
PFN_vkVoidFunction vyre_transfer_hook(const char *name);
void vyre_sync_close(vyre_device *device);
void vyre_memory_close(vyre_device *device);
void vyre_pipeline_close(vyre_device *device);
void vyre_command_close(vyre_device *device);
void vyre_transfer_close(vyre_device *device);

/* sync.c: waiting on a detached fence. Polls, then blocks for at most slice_ns; VK_TIMEOUT: not yet. */
VkResult vyre_wait_fence(vyre_device *device, VkFence fence, uint64_t slice_ns);
/* A fence that is signalled once all work submitted before has ended; NULL: none is pending. */
VkResult vyre_submit_marker(vyre_device *device, VkFence *out);
/* The same with work of ours, inside vyre_enter; a failure is remembered. */
VkResult vyre_submit_commands(vyre_device *device, VkCommandBuffer commands, VkFence *out);
VkResult vyre_submit_recorded(vyre_device *device, VkCommandBuffer commands, VkFence *out); /* of the recorder, which goes before none */
/* Beside kompute's queue, if it can be: those of odd turns beside those of even ones too. */
VkResult vyre_submit_copies(vyre_device *device, uint64_t turn, VkCommandBuffer commands, VkFence *out);
/* As vyre_wait_fence, of work that was submitted; a fence whose work has ended is given back, and *fence is NULL then. */
VkResult vyre_finish(vyre_device *device, VkFence *fence, uint64_t slice_ns);
/* Submits and finishes in one; a failure that leaves *fence NULL is the submission's. */
VkResult vyre_run_commands(vyre_device *device, VkCommandBuffer commands, uint64_t slice_ns, VkFence *fence);
/* The same in two parts. The first waits for no work: false, and nothing is done, where somebody destroys the device or waits for
   all of it. The second follows a *result of VK_SUCCESS. */
bool vyre_begin_run(vyre_device *device, VkCommandBuffer commands, VkFence *fence, VkResult *result);
VkResult vyre_end_run(vyre_device *device, uint64_t slice_ns, VkFence *fence);
void vyre_give_fence_back(vyre_device *device, VkFence fence);
bool vyre_give_fence_back_within(vyre_device *device, VkFence fence, uint64_t most_ns); /* false: its work still runs */
void vyre_abandon_fence(vyre_device *device, VkFence fence); /* nobody waits for it; it is given back once it is signalled, */
void vyre_collect_abandoned(vyre_device *device);            /* by this, or with the device */
void vyre_finish_work(vyre_device *device, VkCommandBuffer buffer); /* returns when its submission has ended */

/* waits.c: of a fence that was submitted. */
VkResult vyre_wait_submitted(vyre_device *device, VkFence fence, uint64_t slice_ns);
/* sync.c: for all that was submitted; the caller keeps others from submitting. */
VkResult vyre_wait_idle(vyre_device *device);

/* gil.c: a long call, which must not need the GIL, goes between the two; without Python, or its GIL, they do nothing. */
void *vyre_let_gil_go(void);
void vyre_take_gil_back(void *state);

/* memory.c */
void vyre_classify_memory(vyre_device *device, const VkPhysicalDeviceMemoryProperties *properties);
bool vyre_remember_buffer(vyre_device *device, VkBuffer buffer, uint64_t bytes); /* false: out of memory */
void vyre_forget_buffer(vyre_device *device, VkBuffer buffer);
uint64_t vyre_buffer_bytes(vyre_device *device, VkBuffer buffer); /* 0: there is no such buffer */

/* commands.c: what is recorded next sees what all work before has done; and the host sees it, once the work has ended. */
void vyre_order(vyre_device *device, VkCommandBuffer buffer);
void vyre_show_host(vyre_device *device, VkCommandBuffer buffer);
void vyre_forget_commands(vyre_device *device, VkCommandBuffer buffer); /* under command_lock */

/* clocks.c. A clock is started in one command buffer and stopped in it or in a later one of the same queue; it is given back once
   their work has ended, or the device is gone. */
uint32_t vyre_take_clock(vyre_device *device); /* 0: none is left, or there is no memory */
void vyre_give_clock_back(vyre_device *device, uint32_t clock);
void vyre_start_clock(vyre_device *device, VkCommandBuffer commands, uint32_t clock);
void vyre_stop_clock(vyre_device *device, VkCommandBuffer commands, uint32_t clock); /* when all work before has ended */
VkResult vyre_read_clock(vyre_device *device, uint32_t clock, uint64_t ticks[2]); /* VK_NOT_READY: it was not stopped yet */
void vyre_clocks_close(vyre_device *device);

/* bindings.c. What is bound is dropped before the device goes, or with it. */
bool vyre_keep_bound(vyre_device *device, const vyre_bound *bound, vyre_bound *kept); /* without its set; false: not shared */
void vyre_drop_bound(vyre_device *device, const vyre_bound *bound, uint64_t launch); /* once that has ended */
bool vyre_part_fits(vyre_device *device, const vyre_range_of *part); /* whether the buffer has such bytes */
/* Other buffers, by binding, for a pipeline that is kept; a failure is remembered, and leaves nothing. */
VkResult vyre_bind_buffers(
    vyre_device *device, const vyre_bound *like, const vyre_range_of *parts, uint32_t count, vyre_bound *out);

/* command_pools.c */
PFN_vkVoidFunction vyre_command_pool_hook(const char *name);
void vyre_command_pools_close(vyre_device *device);

/* copy_queues.c: what the device is to be created with, ``info``'s or ``changed``; and the queues, once kompute has its own. */
const VkDeviceQueueCreateInfo *vyre_ask_for_copy_queues(
    vyre_device *device, const vyre_instance *instance, VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
    VkDeviceQueueCreateInfo *changed);
void vyre_take_copy_queues(vyre_device *device);

/* transfer.c */
const char *vyre_fault_of(vyre_device *device, const vyre_region *region); /* what is wrong with it, or NULL; inside vyre_enter */
/* Records a dispatch to be submitted again and again; the same barriers as around kompute's. A failure is remembered, and leaves
   *commands NULL. */
VkResult vyre_record_dispatch(vyre_device *device, const vyre_dispatch *dispatch, bool device_only, VkCommandBuffer *commands);
/* Records them where *commands is NULL, and submits what is recorded; the caller has seen the end of an earlier submission. *out is signalled at the end; a failure leaves it NULL, and *commands to be dropped. */
VkResult vyre_transfer(
    vyre_device *device, const vyre_region *regions, uint32_t count, bool device_only, VkCommandBuffer *commands, VkFence *out);
void vyre_drop_transfer(vyre_device *device, VkCommandBuffer commands); /* its fence was given back, or there was none */
void vyre_record_regions(vyre_device *device, VkCommandBuffer buffer, const vyre_region *regions, uint32_t count);

/* watch.c */
void vyre_watch(void);
void vyre_made(enum vyre_object kind, uint64_t handle);
void vyre_unmade(enum vyre_object kind, uint64_t handle);
void vyre_destroy_watched(vyre_device *device); /* what the thread has made since vyre_watch and not destroyed */
PFN_vkVoidFunction vyre_watch_hook(const char *name);

#endif
