/* Instances and devices, opened as the loader and kompute open them. */
#include "harness.h"

static vyre_config config_of(uint64_t poll_ns, uint64_t cache_bytes) {
  vyre_config config = {.api_version = VK_API_VERSION_1_3, .poll_ns = poll_ns};
  config.memory_cache_bytes = cache_bytes;
  config.features = UINT64_C(3) << vyre_feature_index("shaderFloat64");
  if (poll_ns) config.features |= UINT64_C(1) << vyre_feature_index("pipelineExecutableInfo");
  memset(config.device_uuid, 7, sizeof config.device_uuid);
  strcpy(config.extensions[config.extension_count++], VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  return config;
}

VkResult open_instance(app *a) {
  VkLayerInstanceLink link = {NULL, mock_instance_proc, NULL};
  VkLayerInstanceCreateInfo chain = {.sType = VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO, .function = VK_LAYER_LINK_INFO};
  chain.u.pLayerInfo = &link;
  VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pNext = &chain};
  PFN_vkCreateInstance create = (PFN_vkCreateInstance)layer.pfnGetInstanceProcAddr(NULL, "vkCreateInstance");
  return create(&info, NULL, &a->instance);
}
void close_instance(app *a) { OF_INSTANCE(a, DestroyInstance)(a->instance, NULL); }

VkPhysicalDevice open_armed_instance(app *a, uint64_t poll_ns, uint64_t cache_bytes) {
  static _Thread_local vyre_config config;
  config = config_of(poll_ns, cache_bytes);
  memset(a, 0, sizeof *a);
  vyre_this_thread()->failure.call = VYRE_CALL_NONE;
  pthread_mutex_init(&a->lock, NULL);
  vyre_arm(&config);
  CHECK(vyre_tell_loader("VK_LAYER_PATH", "/nowhere", "VK_INSTANCE_LAYERS"));
  CHECK(open_instance(a) == VK_SUCCESS);
  uint32_t count = 1;
  VkPhysicalDevice physical;
  CHECK(OF_INSTANCE(a, EnumeratePhysicalDevices)(a->instance, &count, &physical) == VK_SUCCESS && count == 1);
  return physical;
}

VkResult set_loader_data(VkDevice device, void *object) {
  *(void **)object = *(void **)device;
  return VK_SUCCESS;
}

VkResult open_device(app *a, VkPhysicalDevice physical) {
  VkLayerDeviceLink link = {NULL, mock_instance_proc, mock_device_proc};
  VkLayerDeviceCreateInfo data = {.sType = VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO, .function = VK_LOADER_DATA_CALLBACK};
  VkLayerDeviceCreateInfo chain = {.sType = VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO, .function = VK_LAYER_LINK_INFO};
  data.u.pfnSetDeviceLoaderData = set_loader_data;
  chain.pNext = &data;
  chain.u.pLayerInfo = &link;
  VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = &chain};
  return OF_INSTANCE(a, CreateDevice)(physical, &info, NULL, &a->device);
}

void open_app(app *a, uint64_t poll_ns, uint64_t cache_bytes) {
  CHECK(open_device(a, open_armed_instance(a, poll_ns, cache_bytes)) == VK_SUCCESS);
  a->face = vyre_disarm();
  CHECK(a->face && vyre_is_alive(a->face) && !vyre_is_lost(a->face));
#define X(name) CHECK(a->name = (PFN_vk##name)layer.pfnGetDeviceProcAddr(a->device, "vk" #name));
  VYRE_DEVICE_CALLS(X)
#undef X
  a->GetDeviceQueue(a->device, MOCK_FAMILY, 0, &a->queue);
}

void close_app(app *a) {
  VkResult idle = vyre_wait_idle(a->face);
  CHECK(idle == VK_SUCCESS || (idle == VK_ERROR_DEVICE_LOST && a->may_fail));
  a->DestroyDevice(a->device, NULL);
  close_instance(a);
  pthread_mutex_destroy(&a->lock);
  CHECK(!vyre_is_alive(a->face));
  vyre_prepare_layout(a->face, 2, 0); /* which there is no device for */
  vyre_release(a->face);
}
