/* Another user of Vulkan in the process: fills a buffer on the first device and reads it back.

   Returns 0 when every call succeeded and every word is right, else the line that failed. */
#include <stdint.h>
#include <vulkan/vulkan.h>

#define BYTES 4096
#define WORD 0xA5A50F0Fu
#define TRY(call) \
  if ((call) != VK_SUCCESS) return __LINE__

static uint32_t mapped_type(VkPhysicalDevice physical, uint32_t allowed) {
  const VkFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  VkPhysicalDeviceMemoryProperties memory;
  vkGetPhysicalDeviceMemoryProperties(physical, &memory);
  for (uint32_t i = 0; i < memory.memoryTypeCount; i++) {
    if (allowed >> i & 1 && (memory.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
  }
  return UINT32_MAX;
}

static int fill(VkPhysicalDevice physical, VkDevice device) {
  VkBufferCreateInfo shape = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = BYTES,
      .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT};
  VkBuffer buffer;
  TRY(vkCreateBuffer(device, &shape, NULL, &buffer));
  VkMemoryRequirements needs;
  vkGetBufferMemoryRequirements(device, buffer, &needs);
  VkMemoryAllocateInfo amount = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = needs.size,
      .memoryTypeIndex = mapped_type(physical, needs.memoryTypeBits)};
  VkDeviceMemory memory;
  TRY(vkAllocateMemory(device, &amount, NULL, &memory));
  TRY(vkBindBufferMemory(device, buffer, memory, 0));
  VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  VkCommandPool pool;
  TRY(vkCreateCommandPool(device, &pool_info, NULL, &pool));
  VkCommandBufferAllocateInfo one = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = pool, .commandBufferCount = 1};
  VkCommandBuffer commands;
  TRY(vkAllocateCommandBuffers(device, &one, &commands));
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  TRY(vkBeginCommandBuffer(commands, &begin));
  vkCmdFillBuffer(commands, buffer, 0, BYTES, WORD);
  VkMemoryBarrier barrier = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
      .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
  vkCmdPipelineBarrier(
      commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
  TRY(vkEndCommandBuffer(commands));
  VkFenceCreateInfo plain = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  VkFence fence;
  TRY(vkCreateFence(device, &plain, NULL, &fence));
  VkQueue queue;
  vkGetDeviceQueue(device, 0, 0, &queue);
  VkSubmitInfo work = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
  TRY(vkQueueSubmit(queue, 1, &work, fence));
  TRY(vkWaitForFences(device, 1, &fence, VK_TRUE, UINT64_MAX));
  void *words;
  TRY(vkMapMemory(device, memory, 0, VK_WHOLE_SIZE, 0, &words));
  for (uint32_t i = 0; i < BYTES / 4; i++) {
    if (((const uint32_t *)words)[i] != WORD) return __LINE__;
  }
  vkDestroyFence(device, fence, NULL);
  vkDestroyCommandPool(device, pool, NULL);
  vkDestroyBuffer(device, buffer, NULL);
  vkFreeMemory(device, memory, NULL);
  return 0;
}

int stranger(void) {
  VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_0};
  VkInstanceCreateInfo instance_info = {
      .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
  VkInstance instance;
  TRY(vkCreateInstance(&instance_info, NULL, &instance));
  VkPhysicalDevice physical[16];
  uint32_t count = 16;
  TRY(vkEnumeratePhysicalDevices(instance, &count, physical));
  float priority = 1;
  VkDeviceQueueCreateInfo queue = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
  VkDeviceCreateInfo device_info = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue};
  VkDevice device;
  TRY(vkCreateDevice(physical[0], &device_info, NULL, &device));
  int failed = fill(physical[0], device);
  vkDestroyDevice(device, NULL);
  vkDestroyInstance(instance, NULL);
  return failed;
}
