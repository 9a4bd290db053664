/* Instances and devices of the mock driver, and the way from a name to a function. */
#include "mock.h"

static atomic_llong objects;
static _Thread_local bool refuses;
static _Thread_local const char *failing;
static _Thread_local VkResult failing_result;

void mock_refuse(bool on) { refuses = on; }

void mock_fail(const char *name, VkResult result) {
  failing = name;
  failing_result = result;
}

VkResult mock_failure(const char *name) {
  if (!failing || strcmp(failing, name)) return VK_SUCCESS;
  failing = NULL;
  return failing_result;
}

int64_t mock_objects(void) { return atomic_load(&objects); }

void *mock_zeros(size_t size) {
  void *made = malloc(size ? size : 1);
  CHECK(made, "out of memory");
  return memset(made, 0, size);
}

void *mock_make(size_t size, mock_device *owner) {
  void *made = mock_zeros(size);
  atomic_fetch_add_explicit(&objects, 1, memory_order_relaxed);
  if (owner) atomic_fetch_add_explicit(&owner->children, 1, memory_order_relaxed);
  return made;
}

void mock_drop(void *thing, mock_device *owner) {
  if (!thing) return;
  atomic_fetch_sub_explicit(&objects, 1, memory_order_relaxed);
  if (owner) atomic_fetch_sub_explicit(&owner->children, 1, memory_order_relaxed);
  free(thing);
}

static VkResult create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *a, VkInstance *out) {
  (void)info, (void)a;
  if (refuses) return VK_ERROR_OUT_OF_HOST_MEMORY;
  mock_instance *made = mock_make(sizeof *made, NULL);
  made->key = made->physical.key = made;
  *out = (VkInstance)made;
  return VK_SUCCESS;
}

static void destroy_instance(VkInstance handle, const VkAllocationCallbacks *a) {
  (void)a;
  mock_drop(handle, NULL);
}

static VkResult enumerate(VkInstance handle, uint32_t *count, VkPhysicalDevice *out) {
  if (out && *count) out[0] = (VkPhysicalDevice)&((mock_instance *)handle)->physical;
  *count = 1;
  return VK_SUCCESS;
}

static void properties(VkPhysicalDevice handle, VkPhysicalDeviceProperties *out) {
  (void)handle;
  memset(out, 0, sizeof *out);
  out->apiVersion = VK_API_VERSION_1_3;
}

static void properties2(VkPhysicalDevice handle, VkPhysicalDeviceProperties2 *out) {
  properties(handle, &out->properties);
  for (VkBaseOutStructure *next = out->pNext; next; next = next->pNext) {
    VkPhysicalDeviceIDProperties *identity = (VkPhysicalDeviceIDProperties *)next;
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT *import = (VkPhysicalDeviceExternalMemoryHostPropertiesEXT *)next;
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES) memset(identity->deviceUUID, 7, VK_UUID_SIZE);
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT) {
      import->minImportedHostPointerAlignment = MOCK_PAGE_BYTES;
    }
  }
}

static void features(VkPhysicalDevice handle, VkPhysicalDeviceFeatures *out) {
  (void)handle;
  memset(out, 0, sizeof *out);
  out->shaderFloat64 = out->shaderInt64 = VK_TRUE;
}

static void features2(VkPhysicalDevice handle, VkPhysicalDeviceFeatures2 *out) {
  features(handle, &out->features);
  for (VkBaseOutStructure *next = out->pNext; next; next = next->pNext) {
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR *told = (VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR *)next;
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR) {
      told->pipelineExecutableInfo = VK_TRUE;
    }
  }
}

static void memory_properties(VkPhysicalDevice handle, VkPhysicalDeviceMemoryProperties *out) {
  (void)handle;
  memset(out, 0, sizeof *out);
  const VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  out->memoryHeapCount = 2;
  out->memoryHeaps[0] = (VkMemoryHeap){1 << 30, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
  out->memoryHeaps[1] = (VkMemoryHeap){1 << 30, 0};
  out->memoryTypeCount = 3;
  out->memoryTypes[0].propertyFlags = host | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  out->memoryTypes[MOCK_UNCACHED] = (VkMemoryType){host, 1};
  out->memoryTypes[MOCK_CACHED] = (VkMemoryType){host | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 1};
}

static VkResult create_device(
    VkPhysicalDevice physical, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *a, VkDevice *out) {
  (void)physical, (void)a;
  if (refuses) return VK_ERROR_OUT_OF_HOST_MEMORY;
  mock_device *made = mock_make(sizeof *made, NULL);
  made->key = made->queue.key = made;
  made->last = &made->first;
  for (const VkBaseInStructure *next = info->pNext; next; next = next->pNext) {
    made->captures |= next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR;
  }
  pthread_mutex_init(&made->lock, NULL);
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&made->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  CHECK(pthread_create(&made->worker, NULL, mock_work, made) == 0, "no thread");
  *out = (VkDevice)made;
  return VK_SUCCESS;
}

static void destroy_device(VkDevice handle, const VkAllocationCallbacks *a) {
  (void)a;
  mock_device *device = DEVICE(handle);
  pthread_mutex_lock(&device->lock);
  CHECK(!device->first || device->lost, "the device is destroyed with work in its queue");
  device->closing = true;
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->lock);
  pthread_join(device->worker, NULL);
  CHECK(atomic_load(&device->children) == 0, "objects outlive their device");
  pthread_mutex_destroy(&device->lock);
  pthread_cond_destroy(&device->changed);
  mock_drop(device, NULL);
}

static void get_queue(VkDevice handle, uint32_t family, uint32_t index, VkQueue *out) {
  CHECK(family == MOCK_FAMILY && index == 0, "the device was made with another queue");
  *out = (VkQueue)&DEVICE(handle)->queue;
}

PFN_vkVoidFunction mock_instance_proc(VkInstance instance, const char *name) {
  (void)instance;
  NAMED(CreateInstance, create_instance)
  NAMED(DestroyInstance, destroy_instance)
  NAMED(EnumeratePhysicalDevices, enumerate)
  NAMED(GetPhysicalDeviceProperties, properties)
  NAMED(GetPhysicalDeviceProperties2, properties2)
  NAMED(GetPhysicalDeviceFeatures, features)
  NAMED(GetPhysicalDeviceFeatures2, features2)
  NAMED(GetPhysicalDeviceMemoryProperties, memory_properties)
  NAMED(CreateDevice, create_device)
  return NULL;
}

PFN_vkVoidFunction mock_device_proc(VkDevice device, const char *name) {
  (void)device;
  if (mock_failure("vkGetDeviceProcAddr") != VK_SUCCESS) return NULL;
  NAMED(DestroyDevice, destroy_device)
  NAMED(GetDeviceQueue, get_queue)
  PFN_vkVoidFunction found = mock_queue_proc(name);
  if (!found) found = mock_memory_proc(name);
  if (!found) found = mock_pipeline_proc(name);
  return found ? found : mock_command_proc(name);
}
