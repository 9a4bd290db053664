/* A second queue of kompute's family, for copies that go on beside its work: on one queue a submission waits for the one before. */
#include "layer.h"

const VkDeviceQueueCreateInfo *vyre_ask_for_copy_queue(
    vyre_device *device, const vyre_instance *instance, VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
    VkDeviceQueueCreateInfo *changed) {
  static const float SAME[] = {1.0f, 1.0f};
  VkQueueFamilyProperties families[32];
  uint32_t count = sizeof families / sizeof *families;
  if (info->queueCreateInfoCount != 1 || !instance->queue_families) return info->pQueueCreateInfos;
  *changed = *info->pQueueCreateInfos;
  if (changed->queueCount != 1) return info->pQueueCreateInfos;
  instance->queue_families(physical, &count, families);
  if (changed->queueFamilyIndex >= count || families[changed->queueFamilyIndex].queueCount < 2) return info->pQueueCreateInfos;
  changed->queueCount = 2;
  changed->pQueuePriorities = SAME;
  device->has_copy_queue = true;
  return changed;
}

void vyre_take_copy_queue(vyre_device *device) {
  VkQueue queue = VK_NULL_HANDLE;
  if (!device->has_copy_queue || device->copy_queue || !device->set_loader_data) return;
  device->vk.GetDeviceQueue(device->handle, device->queue_family, 1, &queue);
  if (queue && device->set_loader_data(device->handle, queue) == VK_SUCCESS) device->copy_queue = queue;
}
