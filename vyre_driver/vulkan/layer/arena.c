#include "layer.h"

#include <stdlib.h>

#define USAGE (VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT)
#define LEAST_UNIT 256 /* no device wants buffers, or storage buffers within them, to begin at multiples of more */
#define KEPT_PART 8    /* idle blocks are kept while a reserve of one of so many parts of what is used is not exceeded */

/* Under memory_lock. */
static void note_idle(vyre_arena *arena, vyre_block *block) {
  block->is_idle = true;
  block->since = ++arena->turn;
  arena->idle += block->bytes;
}

static void note_used(vyre_arena *arena, vyre_block *block) {
  if (block->is_idle) arena->idle -= block->bytes;
  block->is_idle = false;
}

static void count_used(vyre_arena *arena, uint64_t bytes) {
  arena->used += bytes;
  if (arena->used > arena->peak) arena->peak = arena->used;
}

/* Whether idle blocks are to go: there are more than are always kept, and with what is free in others they are too large a part. */
static bool has_surplus(const vyre_device *device, const vyre_arena *arena) {
  return arena->idle > device->config.memory_cache_bytes && arena->reserved - arena->used > arena->used / KEPT_PART;
}

/* A block that long buffers have had: the shortest one that is long enough, and not by more than an eighth. */
static vyre_block *find_whole(const vyre_arena *arena, uint64_t bytes) {
  vyre_block *best = NULL;
  for (vyre_block *block = arena->blocks; block; block = block->next) {
    bool fits = block->is_idle && !block->first && block->bytes >= bytes && block->bytes - bytes <= bytes / 8;
    if (fits && (!best || block->bytes < best->bytes)) best = block;
  }
  return best;
}

static vyre_chunk *take_chunk(vyre_arena *arena, enum vyre_length length, uint64_t bytes) {
  return arena->ranges[length].unit ? vyre_tlsf_take(&arena->ranges[length], bytes) : NULL; /* else it has no block yet */
}

static bool take(vyre_device *device, enum vyre_arena_kind kind, uint64_t bytes, bool is_anywhere, vyre_allocation *out) {
  vyre_arena *arena = &device->arenas[kind];
  enum vyre_length length = vyre_length_of(bytes);
  pthread_mutex_lock(&device->memory_lock);
  if (length < VYRE_LONG) out->chunk = take_chunk(arena, length, bytes);
  if (length < VYRE_LONG && is_anywhere && !out->chunk) out->chunk = take_chunk(arena, VYRE_MEDIUM - length, bytes);
  out->block = out->chunk ? out->chunk->block : length == VYRE_LONG ? find_whole(arena, bytes) : NULL;
  if (out->block) {
    out->taken = out->chunk ? out->chunk->bytes : out->block->bytes;
    note_used(arena, out->block);
    count_used(arena, out->taken);
  }
  pthread_mutex_unlock(&device->memory_lock);
  return out->block != NULL;
}

static bool give(vyre_device *device, enum vyre_arena_kind kind, const vyre_allocation *allocation) {
  vyre_arena *arena = &device->arenas[kind];
  vyre_block *block = allocation->block;
  pthread_mutex_lock(&device->memory_lock);
  arena->used -= allocation->taken;
  if (allocation->chunk) vyre_tlsf_give(&arena->ranges[block->length], allocation->chunk);
  if (!block->first || vyre_tlsf_is_idle(block->first)) note_idle(arena, block);
  bool is_more = block->is_dedicated || has_surplus(device, arena);
  pthread_mutex_unlock(&device->memory_lock);
  return is_more;
}

static VkResult bind(
    vyre_device *device, enum vyre_arena_kind kind, uint64_t bytes, bool is_anywhere, vyre_allocation *out) {
  VkMemoryRequirements needs;
  VkResult result = vyre_injected(VYRE_CALL_BIND);
  device->vk.GetBufferMemoryRequirements(device->handle, out->buffer, &needs);
  if (result == VK_SUCCESS && !take(device, kind, needs.size, is_anywhere, out)) return VK_NOT_READY;
  uint64_t offset = out->chunk ? out->chunk->offset : 0;
  if (result == VK_SUCCESS) {
    result = device->vk.BindBufferMemory(device->handle, out->buffer, out->block->memory, offset);
    if (result == VK_SUCCESS && !vyre_remember_buffer(device, out->buffer, bytes)) result = VK_ERROR_OUT_OF_HOST_MEMORY;
    if (result != VK_SUCCESS) (void)give(device, kind, out);
  }
  if (result == VK_SUCCESS && out->block->mapped) out->mapped = out->block->mapped + offset;
  return vyre_record(device, VYRE_CALL_BIND, result, 0);
}

static VkResult allocate(
    vyre_device *device, enum vyre_arena_kind kind, uint64_t bytes, bool is_anywhere, vyre_allocation *out) {
  VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = bytes, .usage = USAGE};
  VkResult result = vyre_record(device, VYRE_CALL_ALLOCATE, vyre_injected(VYRE_CALL_ALLOCATE), bytes);
  if (result != VK_SUCCESS) return result;
  result = vyre_injected(VYRE_CALL_CREATE_BUFFER);
  if (result == VK_SUCCESS) result = device->vk.CreateBuffer(device->handle, &info, NULL, &out->buffer);
  if (result != VK_SUCCESS) return vyre_record(device, VYRE_CALL_CREATE_BUFFER, result, bytes);
  result = bind(device, kind, bytes, is_anywhere, out);
  if (result != VK_SUCCESS) device->vk.DestroyBuffer(device->handle, out->buffer, NULL);
  return result;
}

VkResult vyre_allocate(
    vyre_device *device, enum vyre_arena_kind kind, uint64_t bytes, bool is_anywhere, vyre_allocation *out) {
  *out = (vyre_allocation){0};
  if (!vyre_enter(device)) return VK_ERROR_DEVICE_LOST;
  VkResult result = allocate(device, kind, bytes, is_anywhere, out);
  vyre_leave(device);
  if (result != VK_SUCCESS) *out = (vyre_allocation){0};
  return result;
}

static bool free_now(vyre_device *device, enum vyre_arena_kind kind, const vyre_allocation *allocation) {
  if (!allocation->block->is_dedicated) {
    vyre_forget_buffer(device, allocation->buffer);
    device->vk.DestroyBuffer(device->handle, allocation->buffer, NULL);
  }
  return give(device, kind, allocation);
}

typedef struct allocation_ending {
  vyre_ending ending;
  enum vyre_arena_kind kind;
  vyre_allocation allocation;
} allocation_ending;

static void end_allocation(vyre_device *device, vyre_ending *ending) {
  const allocation_ending *ended = (allocation_ending *)ending;
  (void)free_now(device, ended->kind, &ended->allocation);
  free(ending);
}

/* Whether it is freed when its last launch ends. */
static bool free_later(vyre_device *device, enum vyre_arena_kind kind, const vyre_allocation *allocation) {
  if (vyre_has_launch_ended(device, allocation->launch)) return false;
  allocation_ending *later = malloc(sizeof *later);
  if (later) *later = (allocation_ending){{.launch = allocation->launch, .end = end_allocation}, kind, *allocation};
  if (later && vyre_end_with_launch(device, &later->ending)) return true;
  free(later);
  while (vyre_wait_for_launch(device, allocation->launch, UINT64_MAX) == VK_TIMEOUT) continue;
  return false;
}

bool vyre_free(vyre_device *device, enum vyre_arena_kind kind, const vyre_allocation *allocation) {
  if (!allocation->block || !vyre_enter(device)) return false; /* it went with the device */
  bool is_more = !free_later(device, kind, allocation) && free_now(device, kind, allocation);
  vyre_leave(device);
  return is_more;
}

static VkResult map(vyre_device *device, const vyre_thread *thread, vyre_block *block) {
  bool is_mappable = thread->storage_types & thread->wanted_types & device->upload_types;
  if (block->mapped || !is_mappable) return VK_SUCCESS;
  return device->vk.MapMemory(device->handle, block->memory, 0, VK_WHOLE_SIZE, 0, (void **)&block->mapped);
}

static VkResult add(vyre_device *device, enum vyre_arena_kind kind, enum vyre_length length, vyre_block *block) {
  const vyre_thread *thread = vyre_this_thread();
  vyre_arena *arena = &device->arenas[kind];
  *block = (vyre_block){
      .memory = thread->storage_memory, .mapped = thread->mapped, .bytes = thread->storage_bytes, .length = length};
  VkResult result = map(device, thread, block);
  if (result != VK_SUCCESS) return vyre_record(device, VYRE_CALL_MAP, result, 0);
  pthread_mutex_lock(&device->memory_lock);
  if (length < VYRE_LONG) {
    arena->ranges[length].unit = thread->alignment > LEAST_UNIT ? thread->alignment : LEAST_UNIT;
    block->first = vyre_tlsf_add(&arena->ranges[length], block->bytes, block);
  }
  if (length == VYRE_LONG || block->first) {
    block->next = arena->blocks;
    arena->blocks = block;
    arena->block_count++;
    arena->reserved += block->bytes;
    note_idle(arena, block);
  } else {
    result = VK_ERROR_OUT_OF_HOST_MEMORY;
  }
  pthread_mutex_unlock(&device->memory_lock);
  return vyre_record(device, VYRE_CALL_ALLOCATE, result, block->bytes);
}

VkResult vyre_add_block(
    vyre_device *device, enum vyre_arena_kind kind, enum vyre_length length, vyre_allocation *out, vyre_block **block) {
  vyre_block *made = malloc(sizeof *made);
  if (!made) return vyre_record(device, VYRE_CALL_ALLOCATE, VK_ERROR_OUT_OF_HOST_MEMORY, 0);
  if (!vyre_enter(device)) {
    free(made);
    return VK_ERROR_DEVICE_LOST;
  }
  static const enum vyre_call CALLS[] = {VYRE_CALL_CREATE_BUFFER, VYRE_CALL_ALLOCATE, VYRE_CALL_BIND};
  VkResult result = VK_SUCCESS;
  for (size_t i = 0; out && i < sizeof CALLS / sizeof *CALLS && result == VK_SUCCESS; i++) {
    result = vyre_record(device, CALLS[i], vyre_injected(CALLS[i]), 0); /* of a buffer: that of a block is a matter of its own */
  }
  if (result == VK_SUCCESS) result = add(device, kind, out ? VYRE_LONG : length, made);
  if (result != VK_SUCCESS) {
    free(made);
  } else if (out) {
    pthread_mutex_lock(&device->memory_lock);
    made->is_dedicated = true;
    note_used(&device->arenas[kind], made);
    count_used(&device->arenas[kind], made->bytes);
    *out = (vyre_allocation){vyre_this_thread()->storage_buffer, made, NULL, made->mapped, made->bytes, 0};
    pthread_mutex_unlock(&device->memory_lock);
  }
  vyre_leave(device);
  *block = result == VK_SUCCESS ? made : NULL;
  return result;
}

/* Under memory_lock. What is over the bound by itself goes first: it costs no other block its place. */
static vyre_block **find_surplus(const vyre_device *device, vyre_arena *arena, bool is_all) {
  vyre_block **oldest = NULL;
  bool is_more = is_all || has_surplus(device, arena);
  for (vyre_block **at = &arena->blocks; *at; at = &(*at)->next) {
    if (!(*at)->is_idle) continue;
    if ((*at)->is_dedicated || (is_more && (*at)->bytes > device->config.memory_cache_bytes)) return at;
    if (is_more && (!oldest || (*at)->since < (*oldest)->since)) oldest = at;
  }
  return oldest;
}

vyre_block *vyre_take_surplus(vyre_device *device, enum vyre_arena_kind kind, bool is_all) {
  vyre_arena *arena = &device->arenas[kind];
  if (!vyre_enter(device)) return NULL;
  pthread_mutex_lock(&device->memory_lock);
  vyre_block **at = find_surplus(device, arena, is_all), *block = at ? *at : NULL;
  if (block) {
    *at = block->next;
    arena->block_count--;
    arena->reserved -= block->bytes;
    note_used(arena, block);
    if (block->first) vyre_tlsf_remove(&arena->ranges[block->length], block->first);
    free(block);
  }
  pthread_mutex_unlock(&device->memory_lock);
  vyre_leave(device);
  return block;
}

/* The bytes of the longest free chunk. */
static uint64_t longest(const vyre_arena *arena) {
  uint64_t in_short = vyre_tlsf_longest(&arena->ranges[VYRE_SHORT]), in_medium = vyre_tlsf_longest(&arena->ranges[VYRE_MEDIUM]);
  return in_short > in_medium ? in_short : in_medium;
}

void vyre_arena_facts_of(vyre_device *device, enum vyre_arena_kind kind, vyre_arena_facts *out) {
  const vyre_arena *arena = &device->arenas[kind];
  pthread_mutex_lock(&device->memory_lock);
  *out = (vyre_arena_facts){arena->block_count, arena->used, arena->reserved, arena->idle, arena->peak, longest(arena), 0};
  for (const vyre_block *block = arena->blocks; block; block = block->next) {
    if (block->length == VYRE_SHORT) out->in_short += block->bytes;
  }
  pthread_mutex_unlock(&device->memory_lock);
}

void vyre_arenas_close(vyre_device *device) {
  for (size_t i = 0; i < VYRE_ARENA_COUNT; i++) {
    vyre_arena *arena = &device->arenas[i];
    while (arena->blocks) {
      vyre_block *block = arena->blocks;
      arena->blocks = block->next;
      if (block->first) vyre_tlsf_remove(&arena->ranges[block->length], block->first);
      free(block);
    }
    for (int length = 0; length < VYRE_LONG; length++) vyre_tlsf_close(&arena->ranges[length]);
    *arena = (vyre_arena){.peak = arena->peak};
  }
}
