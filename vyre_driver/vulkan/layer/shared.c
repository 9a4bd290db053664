/* The lists of objects that are handed out again.

   kompute makes a descriptor pool, a shader module, layouts and a pipeline for each set of buffers, and destroys them with it. */
#include "shared.h"

#include <stdlib.h>
#include <string.h>

#define MAX_IDLE 64

unsigned char *vyre_append(unsigned char *at, const void *data, size_t size) {
  uint64_t length = size;
  memcpy(at, &length, sizeof length);
  if (size) memcpy(at + sizeof length, data, size);
  return at + sizeof length + size;
}

static vyre_shared *take(vyre_shared **list, const void *data, size_t size, bool has_state) {
  for (vyre_shared **at = list; *at; at = &(*at)->next) {
    vyre_shared *one = *at;
    if (one->size != size || (has_state && one->users) || (size && memcmp(one->data, data, size) != 0)) continue;
    *at = one->next;
    one->next = *list;
    *list = one;
    one->users++;
    return one;
  }
  return NULL;
}

vyre_shared *vyre_shared_take(vyre_shared **list, const void *data, size_t size) { return take(list, data, size, false); }

vyre_shared *vyre_shared_find(vyre_shared *list, uint64_t handle) {
  while (list && list->handle != handle) list = list->next;
  return list;
}

void vyre_shared_add(vyre_device *device, vyre_shared **list, const void *data, size_t size, uint64_t handle) {
  vyre_shared *made = malloc(sizeof *made + size);
  if (!made) return; /* nobody shares it then */
  *made = (vyre_shared){.handle = handle, .serial = ++device->last_serial, .users = 1, .next = *list, .size = size};
  if (size) memcpy(made->data, data, size);
  *list = made;
}

/* Takes the least recently used idle object out when there are too many. */
static vyre_shared *cut_idle(vyre_shared **list) {
  size_t idle = 0;
  vyre_shared **last = NULL;
  for (vyre_shared **at = list; *at; at = &(*at)->next) {
    if ((*at)->users) continue;
    idle++;
    last = at;
  }
  if (idle <= MAX_IDLE) return NULL;
  vyre_shared *cut = *last;
  *last = cut->next;
  return cut;
}

VkResult vyre_share(
    vyre_device *device, vyre_shared **list, const vyre_kind *kind, const void *data, size_t size, const void *info,
    const VkAllocationCallbacks *allocator, uint64_t *out) {
  VkResult result = VK_SUCCESS;
  pthread_mutex_lock(&device->pipeline_lock);
  const vyre_shared *equal = data ? take(list, data, size, kind->has_state) : NULL;
  if (equal) {
    *out = equal->handle;
  } else {
    result = kind->make(device, info, allocator, out);
    if (result == VK_SUCCESS && data) vyre_shared_add(device, list, data, size, *out);
  }
  pthread_mutex_unlock(&device->pipeline_lock);
  if (result == VK_SUCCESS) vyre_made(kind->object, *out);
  return result;
}

static void release(
    vyre_device *device, vyre_shared **list, const vyre_kind *kind, uint64_t handle, const VkAllocationCallbacks *allocator) {
  vyre_shared *cut = NULL;
  pthread_mutex_lock(&device->pipeline_lock);
  vyre_shared *one = *list;
  while (one && one->handle != handle) one = one->next;
  if (one && --one->users == 0) cut = cut_idle(list);
  pthread_mutex_unlock(&device->pipeline_lock);
  if (!one) kind->destroy(device, handle, allocator);
  if (cut) kind->destroy(device, cut->handle, NULL);
  free(cut);
}

void vyre_unshare(
    vyre_device *device, vyre_shared **list, const vyre_kind *kind, uint64_t handle, const VkAllocationCallbacks *allocator) {
  if (!handle) return;
  vyre_unmade(kind->object, handle);
  release(device, list, kind, handle, allocator);
}

void vyre_release_shared(vyre_device *device, vyre_shared **list, const vyre_kind *kind, uint64_t handle) {
  release(device, list, kind, handle, NULL);
}

void vyre_shared_close(vyre_device *device, vyre_shared **list, const vyre_kind *kind) {
  while (*list) {
    vyre_shared *first = *list;
    *list = first->next;
    kind->destroy(device, first->handle, NULL);
    free(first);
  }
}
