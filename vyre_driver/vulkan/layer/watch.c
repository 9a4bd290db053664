/* What kompute forgets: its constructors throw halfway after a failure, and nothing destroys what they have created.

   While a thread is watched, what it makes is listed until it is destroyed; what is left of a constructor that failed is
   destroyed here, the last made first. Objects that only kompute's pipelines have are listed here too, and have no other hook. */
#include <string.h>

#include "layer.h"

void vyre_watch(void) {
  vyre_thread *thread = vyre_this_thread();
  thread->made_count = 0;
  thread->watched = true;
}

void vyre_made(enum vyre_object kind, uint64_t handle) {
  vyre_thread *thread = vyre_this_thread();
  if (!thread->watched || !handle || thread->made_count == VYRE_WATCHED) return;
  thread->made[thread->made_count++] = (vyre_made_object){kind, handle};
}

void vyre_unmade(enum vyre_object kind, uint64_t handle) {
  vyre_thread *thread = vyre_this_thread();
  for (uint32_t i = 0; thread->watched && i < thread->made_count; i++) {
    if (thread->made[i].kind != kind || thread->made[i].handle != handle) continue;
    thread->made_count--;
    memmove(&thread->made[i], &thread->made[i + 1], (thread->made_count - i) * sizeof thread->made[0]);
    return;
  }
}

#define DESTROY(hook, type, name) ((PFN_vk##name)hook("vk" #name))(device->handle, (type)(uintptr_t)made.handle, NULL)

static void destroy(vyre_device *device, vyre_made_object made) {
  switch (made.kind) {
    case VYRE_BUFFER: DESTROY(vyre_memory_hook, VkBuffer, DestroyBuffer); break;
    case VYRE_MEMORY: DESTROY(vyre_memory_hook, VkDeviceMemory, FreeMemory); break;
    case VYRE_SHADER_MODULE: DESTROY(vyre_pipeline_hook, VkShaderModule, DestroyShaderModule); break;
    case VYRE_SET_LAYOUT: DESTROY(vyre_pipeline_hook, VkDescriptorSetLayout, DestroyDescriptorSetLayout); break;
    case VYRE_PIPELINE_LAYOUT: DESTROY(vyre_pipeline_hook, VkPipelineLayout, DestroyPipelineLayout); break;
    case VYRE_PIPELINE_CACHE: DESTROY(vyre_watch_hook, VkPipelineCache, DestroyPipelineCache); break;
    case VYRE_DESCRIPTOR_POOL: DESTROY(vyre_pipeline_hook, VkDescriptorPool, DestroyDescriptorPool); break;
    case VYRE_PIPELINE: DESTROY(vyre_pipeline_hook, VkPipeline, DestroyPipeline); break;
  }
}

void vyre_destroy_watched(vyre_device *device) {
  vyre_thread *thread = vyre_this_thread();
  thread->watched = false;
  while (thread->made_count) destroy(device, thread->made[--thread->made_count]);
}

static VKAPI_ATTR void VKAPI_CALL destroy_pipeline_cache(
    VkDevice handle, VkPipelineCache cache, const VkAllocationCallbacks *allocator) {
  vyre_unmade(VYRE_PIPELINE_CACHE, VYRE_HANDLE(cache));
  vyre_find_device(handle)->vk.DestroyPipelineCache(handle, cache, allocator);
}

PFN_vkVoidFunction vyre_watch_hook(const char *name) {
  static const vyre_hook HOOKS[] = {
    VYRE_HOOK("vkDestroyPipelineCache", destroy_pipeline_cache),
  };
  return VYRE_FIND_HOOK(HOOKS, name);
}
