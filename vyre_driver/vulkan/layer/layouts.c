/* Layouts: what descriptor sets and pipelines have, byte for byte, and pipeline layouts that are equal are one.

   kompute makes a pipeline layout for each set of buffers, which takes some drivers longer than all else that it makes for them.
   Unused ones are kept, within a bound. */
#include <stdlib.h>
#include <string.h>

#include "layer.h"
#include "layouts.h"

#define MAX_IDLE_LAYOUTS 64

struct vyre_shared_layout {
  VkPipelineLayout handle;
  uint32_t users;
  vyre_bytes *bytes; /* as in the device's map, which has those of layouts that are not shared too */
  vyre_shared_layout *next;
};

bool vyre_shares(const vyre_device *device) { return device->config.hooks & VYRE_HOOK_SHARED_PIPELINES; }

void vyre_keep_bytes(vyre_device *device, vyre_handle_map *map, uint64_t key, vyre_bytes *bytes) {
  if (!bytes) return;
  pthread_mutex_lock(&device->pipeline_lock);
  bool kept = vyre_map_put(map, key, (uintptr_t)bytes);
  pthread_mutex_unlock(&device->pipeline_lock);
  if (!kept) free(bytes);
}

void vyre_drop_bytes(vyre_device *device, vyre_handle_map *map, uint64_t key) {
  uintptr_t found = 0;
  pthread_mutex_lock(&device->pipeline_lock);
  (void)vyre_map_take(map, key, &found);
  pthread_mutex_unlock(&device->pipeline_lock);
  free((void *)found);
}

const vyre_bytes *vyre_find_bytes(const vyre_handle_map *map, uint64_t key) {
  uintptr_t found = 0;
  return vyre_map_get(map, key, &found) ? (const vyre_bytes *)found : NULL;
}

vyre_bytes *vyre_new_bytes(size_t size) {
  vyre_bytes *bytes = malloc(sizeof *bytes + size);
  if (bytes) bytes->size = size;
  return bytes;
}

/* Appends a length and that many bytes; returns the end. */
unsigned char *vyre_append(unsigned char *at, const void *data, size_t size) {
  uint64_t length = size;
  memcpy(at, &length, sizeof length);
  if (size) memcpy(at + sizeof length, data, size);
  return at + sizeof length + size;
}

void vyre_free_map_of_bytes(vyre_handle_map *map) {
  for (size_t i = 0; i < map->capacity; i++) {
    if (map->keys[i]) free((void *)map->values[i]);
  }
  vyre_map_free(map);
}

static vyre_bytes *describe_set_layout(const VkDescriptorSetLayoutCreateInfo *info) {
  if (info->pNext || info->flags) return NULL;
  vyre_bytes *bytes = vyre_new_bytes(info->bindingCount * 4 * sizeof(uint32_t));
  for (uint32_t i = 0; bytes && i < info->bindingCount; i++) {
    const VkDescriptorSetLayoutBinding *binding = &info->pBindings[i];
    if (binding->pImmutableSamplers) {
      free(bytes);
      return NULL;
    }
    uint32_t facts[4] = {
        binding->binding, (uint32_t)binding->descriptorType, binding->descriptorCount, (uint32_t)binding->stageFlags};
    memcpy(bytes->data + i * sizeof facts, facts, sizeof facts);
  }
  return bytes;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_set_layout(
    VkDevice handle, const VkDescriptorSetLayoutCreateInfo *info, const VkAllocationCallbacks *allocator,
    VkDescriptorSetLayout *out) {
  vyre_device *device = vyre_find_device(handle);
  VkResult result = device->vk.CreateDescriptorSetLayout(handle, info, allocator, out);
  if (result == VK_SUCCESS && vyre_shares(device)) {
    vyre_keep_bytes(device, &device->set_layouts, VYRE_HANDLE(*out), describe_set_layout(info));
  }
  if (result == VK_SUCCESS) vyre_made(VYRE_SET_LAYOUT, VYRE_HANDLE(*out));
  return result;
}

static VKAPI_ATTR void VKAPI_CALL destroy_set_layout(
    VkDevice handle, VkDescriptorSetLayout layout, const VkAllocationCallbacks *allocator) {
  vyre_device *device = vyre_find_device(handle);
  if (layout) vyre_drop_bytes(device, &device->set_layouts, VYRE_HANDLE(layout));
  vyre_unmade(VYRE_SET_LAYOUT, VYRE_HANDLE(layout));
  device->vk.DestroyDescriptorSetLayout(handle, layout, allocator);
}

/* Under pipeline_lock. */
static vyre_bytes *describe_pipeline_layout(const vyre_device *device, const VkPipelineLayoutCreateInfo *info) {
  size_t push_bytes = info->pushConstantRangeCount * sizeof *info->pPushConstantRanges;
  size_t size = sizeof(uint64_t) + push_bytes;
  if (info->pNext || info->flags) return NULL;
  for (uint32_t i = 0; i < info->setLayoutCount; i++) {
    const vyre_bytes *set = vyre_find_bytes(&device->set_layouts, VYRE_HANDLE(info->pSetLayouts[i]));
    if (!set) return NULL;
    size += sizeof(uint64_t) + set->size;
  }
  vyre_bytes *bytes = vyre_new_bytes(size);
  if (!bytes) return NULL;
  unsigned char *at = vyre_append(bytes->data, info->pPushConstantRanges, push_bytes);
  for (uint32_t i = 0; i < info->setLayoutCount; i++) {
    const vyre_bytes *set = vyre_find_bytes(&device->set_layouts, VYRE_HANDLE(info->pSetLayouts[i]));
    at = vyre_append(at, set->data, set->size);
  }
  return bytes;
}

/* Under pipeline_lock. An equal layout moves to the front and gets a user. */
static VkPipelineLayout take_equal(vyre_device *device, const vyre_bytes *bytes) {
  for (vyre_shared_layout **at = &device->layouts; *at; at = &(*at)->next) {
    vyre_shared_layout *layout = *at;
    if (layout->bytes->size != bytes->size || memcmp(layout->bytes->data, bytes->data, bytes->size) != 0) continue;
    *at = layout->next;
    layout->next = device->layouts;
    device->layouts = layout;
    layout->users++;
    return layout->handle;
  }
  return VK_NULL_HANDLE;
}

/* Under pipeline_lock. Owns the bytes if it returns true. */
static bool share(vyre_device *device, VkPipelineLayout handle, vyre_bytes *bytes) {
  vyre_shared_layout *made = malloc(sizeof *made);
  if (!made || !vyre_map_put(&device->pipeline_layouts, VYRE_HANDLE(handle), (uintptr_t)bytes)) {
    free(made);
    return false;
  }
  *made = (vyre_shared_layout){.handle = handle, .users = 1, .bytes = bytes, .next = device->layouts};
  device->layouts = made;
  return true;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipeline_layout(
    VkDevice handle, const VkPipelineLayoutCreateInfo *info, const VkAllocationCallbacks *allocator, VkPipelineLayout *out) {
  vyre_device *device = vyre_find_device(handle);
  VkResult result = VK_SUCCESS;
  pthread_mutex_lock(&device->pipeline_lock);
  vyre_bytes *bytes = vyre_shares(device) ? describe_pipeline_layout(device, info) : NULL;
  *out = bytes ? take_equal(device, bytes) : VK_NULL_HANDLE;
  if (!*out) {
    result = device->vk.CreatePipelineLayout(handle, info, allocator, out);
    if (result == VK_SUCCESS && bytes && share(device, *out, bytes)) bytes = NULL;
  }
  pthread_mutex_unlock(&device->pipeline_lock);
  free(bytes);
  if (result == VK_SUCCESS) vyre_made(VYRE_PIPELINE_LAYOUT, VYRE_HANDLE(*out));
  return result;
}

/* Under pipeline_lock. Takes the least recently used idle layout out when there are too many. */
static vyre_shared_layout *cut_idle(vyre_device *device) {
  uintptr_t bytes = 0;
  size_t idle = 0;
  vyre_shared_layout **last = NULL;
  for (vyre_shared_layout **at = &device->layouts; *at; at = &(*at)->next) {
    if ((*at)->users) continue;
    idle++;
    last = at;
  }
  if (idle <= MAX_IDLE_LAYOUTS) return NULL;
  vyre_shared_layout *cut = *last;
  *last = cut->next;
  (void)vyre_map_take(&device->pipeline_layouts, VYRE_HANDLE(cut->handle), &bytes);
  return cut;
}

static VKAPI_ATTR void VKAPI_CALL destroy_pipeline_layout(
    VkDevice handle, VkPipelineLayout layout, const VkAllocationCallbacks *allocator) {
  vyre_device *device = vyre_find_device(handle);
  vyre_shared_layout *cut = NULL;
  bool known = false;
  if (!layout) return;
  vyre_unmade(VYRE_PIPELINE_LAYOUT, VYRE_HANDLE(layout));
  pthread_mutex_lock(&device->pipeline_lock);
  for (vyre_shared_layout *at = device->layouts; at && !known; at = at->next) {
    known = at->handle == layout;
    if (known) at->users--;
  }
  if (known) cut = cut_idle(device);
  pthread_mutex_unlock(&device->pipeline_lock);
  if (!known) device->vk.DestroyPipelineLayout(handle, layout, allocator);
  if (!cut) return;
  device->vk.DestroyPipelineLayout(handle, cut->handle, NULL);
  free(cut->bytes);
  free(cut);
}

void vyre_layouts_close(vyre_device *device) {
  while (device->layouts) {
    vyre_shared_layout *layout = device->layouts;
    device->layouts = layout->next;
    device->vk.DestroyPipelineLayout(device->handle, layout->handle, NULL);
    free(layout); /* its bytes go with the map */
  }
  vyre_free_map_of_bytes(&device->set_layouts);
  vyre_free_map_of_bytes(&device->pipeline_layouts);
}

PFN_vkVoidFunction vyre_layout_hook(const char *name) {
  static const vyre_hook HOOKS[] = {
    VYRE_HOOK("vkCreateDescriptorSetLayout", create_set_layout),
    VYRE_HOOK("vkDestroyDescriptorSetLayout", destroy_set_layout),
    VYRE_HOOK("vkCreatePipelineLayout", create_pipeline_layout),
    VYRE_HOOK("vkDestroyPipelineLayout", destroy_pipeline_layout),
  };
  return VYRE_FIND_HOOK(HOOKS, name);
}
