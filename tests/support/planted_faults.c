/* Make one fault of Vulkan's rules, for the Khronos validation layer to report: each kind of validation finds its own.

   Usage: planted_faults KIND MODULE, where MODULE is a SPIR-V file with `main`, a storage buffer at binding 0 that is read and one
   at binding 1 that is written. Exit status: 0 the fault was made, 1 the machine cannot make it. No fault harms the driver: what
   is out of range is recorded and never submitted. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <vulkan/vulkan.h>

enum { BYTES = 4096 };
#define NEEDS(call) if ((call) != VK_SUCCESS) { fprintf(stderr, "%s failed\n", #call); exit(1); }

static VkInstance instance;
static VkPhysicalDevice physical;
static VkDevice device;
static VkQueue queue;
static uint32_t family;
static VkCommandPool pool;
static VkBuffer buffers[2];
static VkDeviceMemory memories[2];
static const char *module_path;

static void open_device(void) {
  VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1};
  VkInstanceCreateInfo about = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
  NEEDS(vkCreateInstance(&about, NULL, &instance));
  uint32_t count = 1;
  if (vkEnumeratePhysicalDevices(instance, &count, &physical) < 0 || !count) exit(1);
  VkQueueFamilyProperties families[16];
  count = 16;
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families);
  while (family < count && !(families[family].queueFlags & VK_QUEUE_COMPUTE_BIT)) family++;
  if (family == count) exit(1);
  float priority = 1;
  VkDeviceQueueCreateInfo about_queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueFamilyIndex = family,
                                         .queueCount = 1, .pQueuePriorities = &priority};
  VkDeviceCreateInfo about_device = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &about_queue};
  NEEDS(vkCreateDevice(physical, &about_device, NULL, &device));
  vkGetDeviceQueue(device, family, 0, &queue);
  VkCommandPoolCreateInfo about_pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = family};
  NEEDS(vkCreateCommandPool(device, &about_pool, NULL, &pool));
}

static void make_buffers(void) {
  for (int i = 0; i < 2; i++) {
    VkBufferCreateInfo about = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = BYTES,
                                .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                         VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    NEEDS(vkCreateBuffer(device, &about, NULL, &buffers[i]));
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(device, buffers[i], &needs);
    uint32_t type = 0;
    while (!(needs.memoryTypeBits >> type & 1)) type++;
    VkMemoryAllocateInfo about_memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = needs.size,
                                         .memoryTypeIndex = type};
    NEEDS(vkAllocateMemory(device, &about_memory, NULL, &memories[i]));
    NEEDS(vkBindBufferMemory(device, buffers[i], memories[i], 0));
  }
}

static VkCommandBuffer begin(void) {
  VkCommandBufferAllocateInfo about = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = pool,
                                       .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY, .commandBufferCount = 1};
  VkCommandBuffer commands;
  NEEDS(vkAllocateCommandBuffers(device, &about, &commands));
  VkCommandBufferBeginInfo about_begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  NEEDS(vkBeginCommandBuffer(commands, &about_begin));
  return commands;
}

static void copy(VkCommandBuffer commands) {
  vkCmdCopyBuffer(commands, buffers[0], buffers[1], 1, &(VkBufferCopy){0, 0, BYTES});
}

static VkShaderModule load(int without_capability) {
  static uint32_t code[16384];
  FILE *file = fopen(module_path, "rb");
  size_t words = file ? fread(code, 4, sizeof code / 4, file) : 0;
  if (file) fclose(file);
  if (words < 7 || code[5] != (2u << 16 | 17) || code[6] != 1) exit(1); /* The first instruction is OpCapability Shader. */
  if (without_capability) code[6] = 0; /* Matrix, with which nothing can be stored. */
  VkShaderModuleCreateInfo about = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = words * 4, .pCode = code};
  VkShaderModule module;
  NEEDS(vkCreateShaderModule(device, &about, NULL, &module));
  return module;
}

static VkPipelineLayout layout;
static VkDescriptorSet sets[2]; /* From the first buffer to the second, and back. */

static void make_sets(void) {
  VkDescriptorSetLayoutBinding bindings[2] = {{0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL},
                                              {1, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL}};
  VkDescriptorSetLayoutCreateInfo about_set = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = 2,
                                               .pBindings = bindings};
  VkDescriptorSetLayout set_layouts[2];
  NEEDS(vkCreateDescriptorSetLayout(device, &about_set, NULL, &set_layouts[0]));
  set_layouts[1] = set_layouts[0];
  VkPipelineLayoutCreateInfo about = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1,
                                      .pSetLayouts = set_layouts};
  NEEDS(vkCreatePipelineLayout(device, &about, NULL, &layout));
  VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 4};
  VkDescriptorPoolCreateInfo about_pool = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = 2,
                                           .poolSizeCount = 1, .pPoolSizes = &size};
  VkDescriptorPool descriptors;
  NEEDS(vkCreateDescriptorPool(device, &about_pool, NULL, &descriptors));
  VkDescriptorSetAllocateInfo about_sets = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                            .descriptorPool = descriptors, .descriptorSetCount = 2, .pSetLayouts = set_layouts};
  NEEDS(vkAllocateDescriptorSets(device, &about_sets, sets));
  for (uint32_t set = 0; set < 2; set++) {
    for (uint32_t slot = 0; slot < 2; slot++) {
      VkDescriptorBufferInfo range = {buffers[set ^ slot], 0, VK_WHOLE_SIZE};
      VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .dstSet = sets[set], .dstBinding = slot,
                                    .descriptorCount = 1, .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                    .pBufferInfo = &range};
      vkUpdateDescriptorSets(device, 1, &write, 0, NULL);
    }
  }
}

static VkPipeline make_pipeline(VkShaderModule module) {
  VkComputePipelineCreateInfo about = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module, .pName = "main"},
      .layout = layout};
  VkPipeline pipeline;
  NEEDS(vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &about, NULL, &pipeline));
  return pipeline;
}

static void end_and_submit(VkCommandBuffer commands) {
  NEEDS(vkEndCommandBuffer(commands));
  VkSubmitInfo about = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
  NEEDS(vkQueueSubmit(queue, 1, &about, VK_NULL_HANDLE));
}

/* A fill that begins where its buffer ends. */
static void core(void) {
  make_buffers();
  vkCmdFillBuffer(begin(), buffers[0], BYTES, VK_WHOLE_SIZE, 0);
}

/* A flag that no fence has. */
static void parameters(void) {
  VkFenceCreateInfo about = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, .flags = 1u << 30};
  VkFence fence;
  vkCreateFence(device, &about, NULL, &fence);
}

/* A fence that is left when its device is destroyed. */
static void lifetimes(void) {
  VkFenceCreateInfo about = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  VkFence fence;
  NEEDS(vkCreateFence(device, &about, NULL, &fence));
  vkDestroyCommandPool(device, pool, NULL);
  vkDestroyDevice(device, NULL);
}

/* SPIR-V that lacks the capability for what it does. */
static void shaders(void) {
  load(1);
}

/* A command pool that one thread resets while another allocates from it: the driver asks for memory in between. */
static pthread_t resetting;

static void *reset(void *unused) {
  vkResetCommandPool(device, pool, 0);
  return unused;
}

static void *VKAPI_CALL allocate(void *user, size_t bytes, size_t alignment, VkSystemAllocationScope scope) {
  (void)scope;
  int *is_armed = user;
  if (*is_armed) {
    *is_armed = 0;
    if (pthread_create(&resetting, NULL, reset, NULL)) exit(1);
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL); /* The validator has the other thread wait for this one. */
  }
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void *VKAPI_CALL reallocate(void *user, void *memory, size_t bytes, size_t alignment, VkSystemAllocationScope scope) {
  (void)user, (void)alignment, (void)scope;
  return realloc(memory, bytes);
}

static void VKAPI_CALL release(void *user, void *memory) {
  (void)user;
  free(memory);
}

static void threads(void) {
  static int is_armed;
  VkAllocationCallbacks host = {
      .pUserData = &is_armed, .pfnAllocation = allocate, .pfnReallocation = reallocate, .pfnFree = release};
  VkCommandPoolCreateInfo about = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = family};
  NEEDS(vkCreateCommandPool(device, &about, &host, &pool));
  is_armed = 1;
  VkCommandBufferAllocateInfo one = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = pool,
                                     .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY, .commandBufferCount = 1};
  VkCommandBuffer commands;
  NEEDS(vkAllocateCommandBuffers(device, &one, &commands));
  if (is_armed) exit(1);
  pthread_join(resetting, NULL);
}

/* Two copies into one buffer without a barrier. */
static void synchronization(void) {
  make_buffers();
  VkCommandBuffer commands = begin();
  copy(commands);
  copy(commands);
}

/* The same in two submissions. */
static void submissions(void) {
  make_buffers();
  for (int i = 0; i < 2; i++) {
    VkCommandBuffer commands = begin();
    copy(commands);
    end_and_submit(commands);
  }
  vkQueueWaitIdle(queue);
}

/* A dispatch that reads what the one before wrote, without a barrier. */
static void shader_accesses(void) {
  make_buffers();
  make_sets();
  VkPipeline pipeline = make_pipeline(load(0));
  VkCommandBuffer commands = begin();
  vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  for (int i = 0; i < 2; i++) {
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &sets[i], 0, NULL);
    vkCmdDispatch(commands, 1, 1, 1);
  }
}

static const struct { const char *name; void (*make)(void); } kinds[] = {
    {"core", core}, {"parameters", parameters}, {"lifetimes", lifetimes}, {"shaders", shaders}, {"threads", threads},
    {"synchronization", synchronization}, {"submissions", submissions}, {"shader accesses", shader_accesses}};

int main(int count, char **arguments) {
  if (count != 3) return 1;
  module_path = arguments[2];
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (strcmp(arguments[1], kinds[i].name)) continue;
    open_device();
    kinds[i].make();
    fflush(stdout);
    _exit(0); /* What is left behind is no fault that was asked for. */
  }
  return 1;
}
