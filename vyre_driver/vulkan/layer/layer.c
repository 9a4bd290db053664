/* The layer's frame: negotiation with the loader, instances and devices, and the way from a name to a hook.

   Source: the Vulkan loader's layer interface, version 2 (vk_layer.h). */
#include "host_memory.h"
#include "intervals.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Thread_local vyre_thread this_thread;

vyre_thread *vyre_this_thread(void) { return &this_thread; }

void vyre_begin_making(vyre_thread *outer) {
  *outer = this_thread;
  this_thread = (vyre_thread){0};
}

void vyre_end_making(const vyre_thread *outer) {
  vyre_failure failure = this_thread.failure;
  free(this_thread.blob_out);
  this_thread = *outer;
  if (this_thread.failure.call == VYRE_CALL_NONE) this_thread.failure = failure;
}

uint64_t vyre_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static vyre_instance *find_instance(const void *dispatchable) { return vyre_find(vyre_instances, dispatchable); }

vyre_device *vyre_find_device(const void *dispatchable) { return vyre_find(vyre_devices, dispatchable); }

static void free_device(vyre_device *device) {
  pthread_rwlock_destroy(&device->use_lock);
  pthread_mutex_destroy(&device->queue_lock);
  pthread_mutex_destroy(&device->fence_lock);
  pthread_mutex_destroy(&device->memory_lock);
  pthread_cond_destroy(&device->imports_gone);
  pthread_mutex_destroy(&device->pipeline_lock);
  pthread_mutex_destroy(&device->command_lock);
  pthread_mutex_destroy(&device->transfer_lock);
  vyre_recorder_free(device);
  vyre_intervals_free(device);
  free(device);
}

static vyre_instance *new_instance(void) {
  vyre_instance *made = calloc(1, sizeof *made);
  if (made && vyre_take_room(vyre_instances)) return made;
  free(made);
  return NULL;
}

static vyre_device *new_device(void) {
  vyre_device *made = calloc(1, sizeof *made);
  if (!made || !vyre_take_room(vyre_devices)) {
    free(made);
    return NULL;
  }
  atomic_store(&made->references, 1);
  pthread_rwlock_init(&made->use_lock, NULL);
  pthread_mutex_init(&made->queue_lock, NULL);
  pthread_mutex_init(&made->fence_lock, NULL);
  pthread_mutex_init(&made->memory_lock, NULL);
  pthread_cond_init(&made->imports_gone, NULL);
  pthread_mutex_init(&made->pipeline_lock, NULL);
  pthread_mutex_init(&made->command_lock, NULL);
  pthread_mutex_init(&made->transfer_lock, NULL);
  return made;
}

static void drop_instance(vyre_instance *instance) {
  if (!instance) return;
  vyre_give_room_back(vyre_instances);
  free(instance);
}

static void drop_device(vyre_device *device) {
  if (!device) return;
  vyre_give_room_back(vyre_devices);
  free_device(device);
}

bool vyre_arm(const vyre_config *config) {
  this_thread.armed = config;
  this_thread.created_device = NULL;
  this_thread.new_instance = new_instance();
  this_thread.new_device = new_device();
  this_thread.new_chain = vyre_feature_chain_new();
  return this_thread.new_instance && this_thread.new_device && this_thread.new_chain;
}

vyre_device *vyre_disarm(void) {
  vyre_device *created = this_thread.created_device;
  drop_instance(this_thread.new_instance);
  drop_device(this_thread.new_device);
  free(this_thread.new_chain);
  this_thread.new_instance = NULL;
  this_thread.new_device = NULL;
  this_thread.new_chain = NULL;
  this_thread.armed = NULL;
  this_thread.created_device = NULL;
  return created;
}

void vyre_release(vyre_device *device) {
  if (atomic_fetch_sub(&device->references, 1) == 1) free_device(device);
}

static uint64_t memory_value(vyre_device *device, int counter) {
  uint64_t value = 0;
  for (int kind = 0; kind < VYRE_ARENA_COUNT; kind++) {
    vyre_arena_facts facts;
    vyre_arena_facts_of(device, kind, &facts);
    value += counter == VYRE_MEMORY_LIVE_BYTES ? facts.used : counter == VYRE_MEMORY_PEAK_BYTES ? facts.peak : facts.reserved - facts.used;
  }
  return value;
}

uint64_t vyre_counter_value(vyre_device *device, int counter) {
  if (counter >= VYRE_MEMORY_LIVE_BYTES && counter <= VYRE_MEMORY_PEAK_BYTES) return memory_value(device, counter);
  return atomic_load_explicit(&device->counters[counter], memory_order_relaxed);
}

bool vyre_is_lost(const vyre_device *device) { return atomic_load(&device->lost); }

bool vyre_is_alive(const vyre_device *device) { return atomic_load(&device->alive); }

bool vyre_enter(vyre_device *device) {
  pthread_rwlock_rdlock(&device->use_lock);
  if (atomic_load(&device->alive)) return true;
  pthread_rwlock_unlock(&device->use_lock);
  return false;
}

void vyre_leave(vyre_device *device) { pthread_rwlock_unlock(&device->use_lock); }

VkResult vyre_record(vyre_device *device, enum vyre_call call, VkResult result, uint64_t bytes) {
  if (result < 0) {
    if (result == VK_ERROR_DEVICE_LOST) atomic_store(&device->lost, true);
    /* The first failure is the cause; what follows from it is not of interest. */
    if (this_thread.failure.call == VYRE_CALL_NONE) this_thread.failure = (vyre_failure){call, result, bytes};
    vyre_count(device, VYRE_FAILURES_RECORDED, 1);
  }
  return result;
}

void vyre_count(vyre_device *device, enum vyre_counter counter, int64_t by) {
  atomic_fetch_add_explicit(&device->counters[counter], (unsigned long long)by, memory_order_relaxed);
}

static VkLayerInstanceCreateInfo *instance_link(const VkInstanceCreateInfo *info) {
  VkLayerInstanceCreateInfo *link = (VkLayerInstanceCreateInfo *)info->pNext;
  while (link && !(link->sType == VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO && link->function == VK_LAYER_LINK_INFO)) {
    link = (VkLayerInstanceCreateInfo *)link->pNext;
  }
  return link;
}

static VkLayerDeviceCreateInfo *device_link(const VkDeviceCreateInfo *info, VkLayerFunction function) {
  VkLayerDeviceCreateInfo *link = (VkLayerDeviceCreateInfo *)info->pNext;
  while (link && !(link->sType == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO && link->function == function)) {
    link = (VkLayerDeviceCreateInfo *)link->pNext;
  }
  return link;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(
    const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out) {
  vyre_loader_knows();
  VkLayerInstanceCreateInfo *link = instance_link(info);
  if (!link) return VK_ERROR_INITIALIZATION_FAILED;
  PFN_vkGetInstanceProcAddr next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  PFN_vkCreateInstance create = (PFN_vkCreateInstance)next(VK_NULL_HANDLE, "vkCreateInstance");
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  if (!create) return VK_ERROR_INITIALIZATION_FAILED;

  VkInstanceCreateInfo changed = *info;
  VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO};
  const vyre_config *config = this_thread.armed;
  if (config && config->api_version) {
    if (info->pApplicationInfo) application = *info->pApplicationInfo;
    application.apiVersion = config->api_version;
    changed.pApplicationInfo = &application;
  }
  vyre_instance *made = this_thread.new_instance ? this_thread.new_instance : new_instance();
  this_thread.new_instance = NULL;
  VkResult result = made ? create(&changed, allocator, out) : VK_ERROR_OUT_OF_HOST_MEMORY;
  if (result != VK_SUCCESS) {
    drop_instance(made);
    return result;
  }
  made->handle = *out;
  made->owned = config != NULL;
  if (config) made->config = *config;
  made->next = next;
  made->destroy = (PFN_vkDestroyInstance)next(*out, "vkDestroyInstance");
  made->enumerate = (PFN_vkEnumeratePhysicalDevices)next(*out, "vkEnumeratePhysicalDevices");
  made->properties = (PFN_vkGetPhysicalDeviceProperties)next(*out, "vkGetPhysicalDeviceProperties");
  made->properties2 = (PFN_vkGetPhysicalDeviceProperties2)next(*out, "vkGetPhysicalDeviceProperties2");
  made->queue_families =
      (PFN_vkGetPhysicalDeviceQueueFamilyProperties)next(*out, "vkGetPhysicalDeviceQueueFamilyProperties");
  made->features = (PFN_vkGetPhysicalDeviceFeatures)next(*out, "vkGetPhysicalDeviceFeatures");
  made->features2 = (PFN_vkGetPhysicalDeviceFeatures2)next(*out, "vkGetPhysicalDeviceFeatures2");
  made->memory = (PFN_vkGetPhysicalDeviceMemoryProperties)next(*out, "vkGetPhysicalDeviceMemoryProperties");
  vyre_keep(vyre_instances, *out, made);
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance handle, const VkAllocationCallbacks *allocator) {
  if (!handle) return;
  vyre_instance *instance = vyre_forget(vyre_instances, handle);
  if (!instance) return;
  instance->destroy(handle, allocator);
  free(instance);
}

static void read_uuid(const vyre_instance *instance, VkPhysicalDevice device, uint8_t uuid[16]) {
  VkPhysicalDeviceIDProperties identity = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
  VkPhysicalDeviceProperties2 properties = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &identity};
  memset(uuid, 0, 16);
  if (!instance->properties2) return;
  instance->properties2(device, &properties);
  memcpy(uuid, identity.deviceUUID, 16);
}

/* kompute takes an index into this list; ours holds the one device that was chosen, whatever order the loader has. */
static VKAPI_ATTR VkResult VKAPI_CALL enumerate_devices(VkInstance handle, uint32_t *count, VkPhysicalDevice *out) {
  vyre_instance *instance = find_instance(handle);
  VkPhysicalDevice all[64];
  uint32_t found = 64;
  VkResult result = instance->enumerate(handle, &found, all);
  if (result < 0) return result;
  VkPhysicalDevice chosen = VK_NULL_HANDLE;
  for (uint32_t i = 0; i < found && !chosen; i++) {
    uint8_t uuid[16];
    read_uuid(instance, all[i], uuid);
    if (memcmp(uuid, instance->config.device_uuid, 16) == 0) chosen = all[i];
  }
  if (!out) {
    *count = chosen ? 1 : 0;
    return VK_SUCCESS;
  }
  if (!chosen || *count == 0) {
    *count = 0;
    return chosen ? VK_INCOMPLETE : VK_SUCCESS;
  }
  *count = 1;
  out[0] = chosen;
  return VK_SUCCESS;
}

static void load_device_calls(vyre_device *device) {
#define X(name) device->vk.name = (PFN_vk##name)device->next(device->handle, "vk" #name);
  VYRE_DEVICE_CALLS(X)
#undef X
}

static void describe_device(vyre_device *made, const vyre_instance *instance, VkPhysicalDevice physical) {
  VkPhysicalDeviceProperties properties;
  VkPhysicalDeviceMemoryProperties memory;
  instance->properties(physical, &properties);
  instance->memory(physical, &memory);
  vyre_classify_memory(made, &memory);
  made->owned = instance->owned;
  made->config = instance->config;
  made->api_version = properties.apiVersion;
  read_uuid(instance, physical, made->device_uuid);
  vyre_describe_import(made, instance, physical);
  vyre_describe_clocks(made, instance, physical);
}

static VkResult call_create_device(
    vyre_device *device, const vyre_instance *instance, VkPhysicalDevice physical, PFN_vkCreateDevice create,
    const VkDeviceCreateInfo *info, const VkAllocationCallbacks *allocator, VkDevice *out) {
  if (!device->owned) return create(physical, info, allocator, out);
  const char *names[VYRE_MAX_EXTENSIONS + 64];
  VkDeviceCreateInfo changed = *info;
  uint32_t count = 0;
  for (uint32_t i = 0; i < info->enabledExtensionCount && count < 64; i++) names[count++] = info->ppEnabledExtensionNames[i];
  for (uint32_t i = 0; i < device->config.extension_count; i++) names[count++] = device->config.extensions[i];
  uint32_t usable = device->api_version < instance->config.api_version ? device->api_version : instance->config.api_version;
  uint64_t supported = vyre_supported_features(usable, physical, instance->features, instance->features2);
  vyre_feature_chain *chain = this_thread.new_chain ? this_thread.new_chain : vyre_feature_chain_new();
  this_thread.new_chain = NULL;
  if (!chain) return VK_ERROR_OUT_OF_HOST_MEMORY;
  vyre_feature_chain_fill(chain, device->config.features & supported, usable, info->pNext);
  changed.enabledExtensionCount = count;
  changed.ppEnabledExtensionNames = names;
  changed.pEnabledFeatures = vyre_feature_chain_core(chain);
  changed.pNext = vyre_feature_chain_head(chain);
  VkDeviceQueueCreateInfo queues;
  changed.pQueueCreateInfos = vyre_ask_for_copy_queues(device, instance, physical, info, &queues);
  device->captures_statistics = device->config.features & supported & UINT64_C(1) << vyre_feature_index("pipelineExecutableInfo");
  device->resets_queries = device->config.features & supported & UINT64_C(1) << vyre_feature_index("hostQueryReset");
  VkResult result = create(physical, &changed, allocator, out);
  free(chain);
  return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(
    VkPhysicalDevice physical, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *allocator, VkDevice *out) {
  VkLayerDeviceCreateInfo *link = device_link(info, VK_LAYER_LINK_INFO);
  const VkLayerDeviceCreateInfo *loader = device_link(info, VK_LOADER_DATA_CALLBACK);
  vyre_instance *instance = find_instance(physical);
  if (!link || !instance) return VK_ERROR_INITIALIZATION_FAILED;
  PFN_vkGetInstanceProcAddr next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  PFN_vkGetDeviceProcAddr next_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  PFN_vkCreateDevice create = (PFN_vkCreateDevice)next_instance(instance->handle, "vkCreateDevice");
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  if (!create) return VK_ERROR_INITIALIZATION_FAILED;
  vyre_device *made = this_thread.new_device ? this_thread.new_device : new_device();
  this_thread.new_device = NULL;
  if (!made) return VK_ERROR_OUT_OF_HOST_MEMORY;
  describe_device(made, instance, physical);
  VkResult result = call_create_device(made, instance, physical, create, info, allocator, out);
  if (result != VK_SUCCESS) {
    drop_device(made);
    return result;
  }
  made->handle = *out;
  made->next = next_device;
  made->set_loader_data = loader ? loader->u.pfnSetDeviceLoaderData : NULL;
  load_device_calls(made);
  atomic_store(&made->alive, true);
  vyre_keep(vyre_devices, *out, made);
  if (made->owned) {
    for (uint64_t left = made->config.features; left; left &= left - 1) vyre_count(made, VYRE_FEATURES_ENABLED, 1);
    atomic_fetch_add(&made->references, 1);
    if (this_thread.created_device) vyre_release(this_thread.created_device);
    this_thread.created_device = made;
  }
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice handle, const VkAllocationCallbacks *allocator) {
  if (!handle) return;
  vyre_device *device = vyre_find_device(handle);
  if (!device) return;
  /* A thread that drops its work may be waiting for it. */
  pthread_rwlock_wrlock(&device->use_lock);
  atomic_store(&device->alive, false);
  pthread_rwlock_unlock(&device->use_lock);
  if (device->owned) {
    vyre_sync_close(device);
    vyre_recorder_close(device);
    vyre_command_close(device);
    vyre_clocks_close(device);
    vyre_intervals_close(device);
    vyre_transfer_close(device);
    vyre_pipeline_close(device);
    vyre_imports_close(device);
    vyre_memory_close(device);
  }
  vyre_forget(vyre_devices, handle);
  device->vk.DestroyDevice(handle, allocator);
  vyre_release(device);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice handle, const char *name) {
  if (!handle) return NULL;
  vyre_device *device = vyre_find_device(handle);
  if (!device) return NULL;
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)get_device_proc;
  if (strcmp(name, "vkDestroyDevice") == 0) return (PFN_vkVoidFunction)destroy_device;
  PFN_vkVoidFunction hook = NULL;
  if (device->owned) {
    if (!hook) hook = vyre_sync_hook(name);
    if (!hook) hook = vyre_memory_hook(name);
    if (!hook) hook = vyre_pipeline_hook(name);
    if (!hook) hook = vyre_command_hook(name);
    if (!hook) hook = vyre_transfer_hook(name);
    if (!hook) hook = vyre_watch_hook(name);
  }
  return hook ? hook : device->next(handle, name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance handle, const char *name) {
  if (strcmp(name, "vkGetInstanceProcAddr") == 0) return (PFN_vkVoidFunction)get_instance_proc;
  if (strcmp(name, "vkCreateInstance") == 0) return (PFN_vkVoidFunction)create_instance;
  if (!handle) return NULL;
  if (strcmp(name, "vkDestroyInstance") == 0) return (PFN_vkVoidFunction)destroy_instance;
  if (strcmp(name, "vkCreateDevice") == 0) return (PFN_vkVoidFunction)create_device;
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)get_device_proc;
  vyre_instance *instance = find_instance(handle);
  if (!instance) return NULL;
  if (instance->owned && strcmp(name, "vkEnumeratePhysicalDevices") == 0) return (PFN_vkVoidFunction)enumerate_devices;
  return instance->next(handle, name);
}

__attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *version) {
  if (version->sType != LAYER_NEGOTIATE_INTERFACE_STRUCT || version->loaderLayerInterfaceVersion < 2) {
    return VK_ERROR_INITIALIZATION_FAILED;
  }
  version->loaderLayerInterfaceVersion = 2;
  version->pfnGetInstanceProcAddr = get_instance_proc;
  version->pfnGetDeviceProcAddr = get_device_proc;
  version->pfnGetPhysicalDeviceProcAddr = NULL;
  return VK_SUCCESS;
}
