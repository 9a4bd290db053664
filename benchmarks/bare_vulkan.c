/* What the Vulkan driver itself costs: one recorded dispatch, submitted and polled for, over and over, in C without any layer.

   bare_vulkan SPIRV DEVICE_INDEX QUEUE_FAMILY REPEATS: prints the median microseconds of REPEATS turns, again for each line
   that it reads. The shader has two storage buffers, bindings 0 and 1. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <vulkan/vulkan.h>

#define BUFFER_BYTES 256

static VkPhysicalDevice physical;
static VkDevice device;
static VkQueue queue;
static VkCommandBuffer commands;
static VkFence fence;

static void check(VkResult result, const char *call) {
  if (result == VK_SUCCESS) return;
  fprintf(stderr, "%s returned %d\n", call, result);
  exit(1);
}
#define CHECK(call) check(call, #call)

static void open_device(uint32_t index, uint32_t family) {
  VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1};
  VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
  VkInstance instance;
  CHECK(vkCreateInstance(&instance_info, NULL, &instance));
  VkPhysicalDevice all[16];
  uint32_t count = 16;
  VkResult listed = vkEnumeratePhysicalDevices(instance, &count, all);
  if (listed < 0 || index >= count) check(VK_ERROR_INITIALIZATION_FAILED, "vkEnumeratePhysicalDevices");
  physical = all[index];
  float priority = 1;
  VkDeviceQueueCreateInfo queue_info = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueFamilyIndex = family, .queueCount = 1,
      .pQueuePriorities = &priority};
  VkDeviceCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue_info};
  CHECK(vkCreateDevice(physical, &info, NULL, &device));
  vkGetDeviceQueue(device, family, 0, &queue);
}

static VkBuffer make_buffer(void) {
  VkBufferCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = BUFFER_BYTES, .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
  VkBuffer buffer;
  CHECK(vkCreateBuffer(device, &info, NULL, &buffer));
  VkMemoryRequirements needs;
  vkGetBufferMemoryRequirements(device, buffer, &needs);
  VkPhysicalDeviceMemoryProperties memory;
  vkGetPhysicalDeviceMemoryProperties(physical, &memory);
  uint32_t type = 0;
  while (!(needs.memoryTypeBits >> type & 1 && memory.memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT)) type++;
  VkMemoryAllocateInfo allocation = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = needs.size, .memoryTypeIndex = type};
  VkDeviceMemory block;
  CHECK(vkAllocateMemory(device, &allocation, NULL, &block));
  CHECK(vkBindBufferMemory(device, buffer, block, 0));
  return buffer;
}

static VkDescriptorSet make_descriptors(VkDescriptorSetLayout layout) {
  VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 2};
  VkDescriptorPoolCreateInfo pool_info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = 1, .poolSizeCount = 1, .pPoolSizes = &size};
  VkDescriptorPool pool;
  CHECK(vkCreateDescriptorPool(device, &pool_info, NULL, &pool));
  VkDescriptorSetAllocateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, .descriptorPool = pool, .descriptorSetCount = 1,
      .pSetLayouts = &layout};
  VkDescriptorSet set;
  CHECK(vkAllocateDescriptorSets(device, &info, &set));
  for (uint32_t binding = 0; binding < 2; binding++) {
    VkDescriptorBufferInfo buffer = {make_buffer(), 0, BUFFER_BYTES};
    VkWriteDescriptorSet write = {
        .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .dstSet = set, .dstBinding = binding, .descriptorCount = 1,
        .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .pBufferInfo = &buffer};
    vkUpdateDescriptorSets(device, 1, &write, 0, NULL);
  }
  return set;
}

static VkPipeline make_pipeline(const char *path, VkPipelineLayout layout) {
  static uint32_t code[65536];
  FILE *file = fopen(path, "rb");
  if (!file) check(VK_ERROR_INITIALIZATION_FAILED, path);
  size_t bytes = fread(code, 1, sizeof code, file);
  fclose(file);
  VkShaderModuleCreateInfo module_info = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = bytes, .pCode = code};
  VkShaderModule module;
  CHECK(vkCreateShaderModule(device, &module_info, NULL, &module));
  VkComputePipelineCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module, .pName = "main"},
      .layout = layout};
  VkPipeline pipeline;
  CHECK(vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline));
  return pipeline;
}

static void record(const char *path, uint32_t family) {
  VkDescriptorSetLayoutBinding bindings[2] = {
      {0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL},
      {1, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL}};
  VkDescriptorSetLayoutCreateInfo set_info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = 2, .pBindings = bindings};
  VkDescriptorSetLayout set_layout;
  CHECK(vkCreateDescriptorSetLayout(device, &set_info, NULL, &set_layout));
  VkPipelineLayoutCreateInfo layout_info = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1, .pSetLayouts = &set_layout};
  VkPipelineLayout layout;
  CHECK(vkCreatePipelineLayout(device, &layout_info, NULL, &layout));
  VkDescriptorSet set = make_descriptors(set_layout);
  VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = family};
  VkCommandPool pool;
  CHECK(vkCreateCommandPool(device, &pool_info, NULL, &pool));
  VkCommandBufferAllocateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = pool, .commandBufferCount = 1};
  CHECK(vkAllocateCommandBuffers(device, &info, &commands));
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  CHECK(vkBeginCommandBuffer(commands, &begin));
  vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, make_pipeline(path, layout));
  vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, NULL);
  vkCmdDispatch(commands, 1, 1, 1);
  CHECK(vkEndCommandBuffer(commands));
}

static double run(void) {
  VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
  struct timespec began, ended;
  clock_gettime(CLOCK_MONOTONIC, &began);
  CHECK(vkQueueSubmit(queue, 1, &submit, fence));
  while (vkGetFenceStatus(device, fence) == VK_NOT_READY) continue;
  CHECK(vkResetFences(device, 1, &fence));
  clock_gettime(CLOCK_MONOTONIC, &ended);
  return (double)(ended.tv_sec - began.tv_sec) * 1e6 + (double)(ended.tv_nsec - began.tv_nsec) * 1e-3;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int count, char **arguments) {
  if (count != 5) return 2;
  uint32_t family = (uint32_t)atoi(arguments[3]);
  size_t repeats = (size_t)atoi(arguments[4]);
  double *times = calloc(repeats, sizeof *times);
  if (!times || repeats == 0) return 2;
  open_device((uint32_t)atoi(arguments[2]), family);
  record(arguments[1], family);
  VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  CHECK(vkCreateFence(device, &info, NULL, &fence));
  for (char line[64]; fgets(line, sizeof line, stdin);) {
    for (size_t i = 0; i < repeats; i++) times[i] = run();
    qsort(times, repeats, sizeof *times, ascending);
    printf("%.3f\n", times[repeats / 2]);
    fflush(stdout);
  }
  vkDeviceWaitIdle(device);
  return 0;
}
