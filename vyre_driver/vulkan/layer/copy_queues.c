/* More queues of kompute's family, for copies that go on beside its work: on one queue a submission waits for the one before. There
   are two of them, so that the host has the next copy under way when one ends. */
#include "layer.h"

const VkDeviceQueueCreateInfo *vyre_ask_for_copy_queues(
    vyre_device *device, const vyre_instance *instance, VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
    VkDeviceQueueCreateInfo *changed) {
  static const float SAME[1 + VYRE_COPY_QUEUES] = {1.0f, 1.0f, 1.0f};
  VkQueueFamilyProperties families[32];
  uint32_t count = sizeof families / sizeof *families;
  if (info->queueCreateInfoCount != 1 || !instance->queue_families) return info->pQueueCreateInfos;
  *changed = *info->pQueueCreateInfos;
  if (changed->queueCount != 1) return info->pQueueCreateInfos;
  instance->queue_families(physical, &count, families);
  if (changed->queueFamilyIndex >= count || families[changed->queueFamilyIndex].queueCount < 2) return info->pQueueCreateInfos;
  uint32_t others = families[changed->queueFamilyIndex].queueCount - 1;
  device->asked_copy_queues = others < VYRE_COPY_QUEUES ? others : VYRE_COPY_QUEUES;
  changed->queueCount = 1 + device->asked_copy_queues;
  changed->pQueuePriorities = SAME;
  return changed;
}

void vyre_take_copy_queues(vyre_device *device) {
  if (!device->set_loader_data) return;
  while (device->copy_queue_count < device->asked_copy_queues) {
    VkQueue queue = VK_NULL_HANDLE;
    device->vk.GetDeviceQueue(device->handle, device->queue_family, 1 + device->copy_queue_count, &queue);
    if (!queue || device->set_loader_data(device->handle, queue) != VK_SUCCESS) return;
    device->copy_queues[device->copy_queue_count++] = queue;
  }
}
