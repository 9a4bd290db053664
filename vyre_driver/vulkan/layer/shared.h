/* Vulkan objects that are handed out again: equal ones are one, or one after the other where they have a state. */
#ifndef VYRE_SHARED_H
#define VYRE_SHARED_H

#include "layer.h"

struct vyre_shared {
  uint64_t handle;
  uint64_t serial; /* of this object alone, where a handle may come again */
  uint32_t users;  /* 0: kept for the next one */
  vyre_shared *next;
  size_t size;
  unsigned char data[]; /* equal objects have equal bytes */
};

/* How the objects of one kind are made and destroyed; ``info`` is Vulkan's, as the hook got it. */
typedef struct vyre_kind {
  enum vyre_object object;
  bool has_state; /* one user at a time */
  VkResult (*make)(vyre_device *device, const void *info, const VkAllocationCallbacks *allocator, uint64_t *out);
  void (*destroy)(vyre_device *device, uint64_t handle, const VkAllocationCallbacks *allocator);
} vyre_kind;

/* A kind whose functions of Vulkan's are Create and Destroy of this type. */
#define VYRE_KIND(name, object, has_state, Type) \
  static VkResult make_##Type(vyre_device *device, const void *info, const VkAllocationCallbacks *allocator, uint64_t *out) { \
    Vk##Type made = VK_NULL_HANDLE; \
    VkResult result = device->vk.Create##Type(device->handle, info, allocator, &made); \
    *out = result == VK_SUCCESS ? VYRE_HANDLE(made) : 0; \
    return result; \
  } \
  static void end_##Type(vyre_device *device, uint64_t handle, const VkAllocationCallbacks *allocator) { \
    device->vk.Destroy##Type(device->handle, (Vk##Type)(uintptr_t)handle, allocator); \
  } \
  const vyre_kind name = {object, has_state, make_##Type, end_##Type};

unsigned char *vyre_append(unsigned char *at, const void *data, size_t size); /* a length and so many bytes; returns the end */

/* Lists, most recently used first. Hands out an object of the list with equal bytes, or makes one; without data it is not shared. */
VkResult vyre_share(
    vyre_device *device, vyre_shared **list, const vyre_kind *kind, const void *data, size_t size, const void *info,
    const VkAllocationCallbacks *allocator, uint64_t *out);
/* One user less, or the object destroyed where it is not in the list; what nobody uses is kept, within a bound. */
void vyre_unshare(
    vyre_device *device, vyre_shared **list, const vyre_kind *kind, uint64_t handle, const VkAllocationCallbacks *allocator);
void vyre_release_shared(vyre_device *device, vyre_shared **list, const vyre_kind *kind, uint64_t handle); /* of those, one the less */
void vyre_shared_close(vyre_device *device, vyre_shared **list, const vyre_kind *kind); /* at the end of the device */

/* Under pipeline_lock. */
vyre_shared *vyre_shared_find(vyre_shared *list, uint64_t handle);                      /* NULL: it is not in the list */
vyre_shared *vyre_shared_take(vyre_shared **list, const void *data, size_t size);       /* an equal one, with a user more, or NULL */
void vyre_shared_add(vyre_device *device, vyre_shared **list, const void *data, size_t size, uint64_t handle); /* with one user */

extern const vyre_kind vyre_pipeline_kind;        /* pipeline.c, */
extern const vyre_kind vyre_shader_module_kind;
extern const vyre_kind vyre_set_layout_kind;      /* layouts.c, */
extern const vyre_kind vyre_pipeline_layout_kind;
extern const vyre_kind vyre_descriptor_pool_kind;

/* layouts.c */
/* Has the layouts at hand of a pipeline that binds so many buffers, and takes so many bytes of push constants, as kompute makes them. */
void vyre_prepare_layout(vyre_device *device, uint32_t buffers, uint32_t push_bytes);
VkResult vyre_take_descriptor_pool(vyre_device *device, uint32_t buffers, VkDescriptorPool *out); /* for one set of so many */
PFN_vkVoidFunction vyre_layout_hook(const char *name);
void vyre_layouts_close(vyre_device *device);

#endif
