/* A Vulkan driver that has no device and, as Mesa's for guests (26.1), takes a thread-specific key that it never gives back.

   It knows every function, as a driver newer than that of the device in use may. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

static pthread_key_t key;

__attribute__((constructor)) static void take_a_key(void) { (void)pthread_key_create(&key, NULL); }

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(
    const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out) {
  static const uintptr_t LOADER_MAGIC = 0x01CDC0DE;
  (void)info, (void)allocator;
  uintptr_t *instance = calloc(1, sizeof *instance);
  if (!instance) return VK_ERROR_OUT_OF_HOST_MEMORY;
  *instance = LOADER_MAGIC;
  *out = (VkInstance)instance;
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance instance, const VkAllocationCallbacks *allocator) {
  (void)allocator;
  free(instance);
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate_extensions(const char *layer, uint32_t *count, VkExtensionProperties *out) {
  (void)layer, (void)out;
  *count = 0;
  return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate_devices(VkInstance instance, uint32_t *count, VkPhysicalDevice *out) {
  (void)instance, (void)out;
  *count = 0;
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL never_called(void) { abort(); }

__attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
  if (*version > 5) *version = 5;
  return VK_SUCCESS;
}

__attribute__((visibility("default"))) VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vk_icdGetInstanceProcAddr(
    VkInstance instance, const char *name) {
  (void)instance;
  if (!strcmp(name, "vkCreateInstance")) return (PFN_vkVoidFunction)create_instance;
  if (!strcmp(name, "vkDestroyInstance")) return (PFN_vkVoidFunction)destroy_instance;
  if (!strcmp(name, "vkEnumerateInstanceExtensionProperties")) return (PFN_vkVoidFunction)enumerate_extensions;
  if (!strcmp(name, "vkEnumeratePhysicalDevices")) return (PFN_vkVoidFunction)enumerate_devices;
  if (!strncmp(name, "vk_icd", 6) || !strcmp(name, "vkEnumerateInstanceVersion")) return NULL;
  return never_called;
}
