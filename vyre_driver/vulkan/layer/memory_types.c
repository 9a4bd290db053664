/* Which of a device's memory types are for what. */
#include "layer.h"

void vyre_classify_memory(vyre_device *device, const VkPhysicalDeviceMemoryProperties *properties) {
  const VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  const VkMemoryPropertyFlags upload = host | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  const VkMemoryPropertyFlags readback = host | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  VkDeviceSize largest = 0;
  for (uint32_t i = 0; i < properties->memoryHeapCount; i++) {
    const VkMemoryHeap *heap = &properties->memoryHeaps[i];
    if (heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT && heap->size > largest) largest = heap->size;
  }
  for (uint32_t i = 0; i < properties->memoryTypeCount; i++) {
    VkMemoryPropertyFlags flags = properties->memoryTypes[i].propertyFlags;
    /* Where the host sees but a window of the device's memory, the window is too small for everybody's buffers. */
    bool whole = properties->memoryHeaps[properties->memoryTypes[i].heapIndex].size == largest;
    if (whole && (flags & upload) == upload) device->upload_types |= UINT32_C(1) << i;
    if ((flags & host) == host) device->coherent_types |= UINT32_C(1) << i;
    if ((flags & readback) == readback) device->readback_types |= UINT32_C(1) << i;
  }
}
