/* A Vulkan loader with three made devices, for the probe alone: each number is another one, so that none can be mixed up.

   Device 0 is of Vulkan 1.4 with many extensions, device 1 of 1.1 with two, device 2 of 1.0 with none. A structure or a call that
   a device cannot know ends the process: the specification forbids them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

enum { NEW, MIDDLE, OLD, DEVICES };

/* Of VK_KHR_cooperative_matrix, VK_NV_cooperative_matrix2, VK_KHR_pipeline_binary, VK_KHR_shader_bfloat16 and
   VK_EXT_shader_float8, written anew from the specification. */
enum { MATRIX_FEATURES = 1000506000, MATRIX_SHAPE, MATRIX_PROPERTIES };
enum { BINARY_FEATURES = 1000483000, BINARY_PROPERTIES = 1000483004, BFLOAT16_FEATURES = 1000141000 };
enum { FLOAT8_FEATURES = 1000567000, MATRIX2_FEATURES = 1000593000, FLEXIBLE_SHAPE, MATRIX2_PROPERTIES };
typedef struct numbers {
  VkStructureType sType;
  void *pNext;
  uint32_t value[10];
} numbers;

static const char *const EXTENSIONS[DEVICES][7] = {
    {"VK_KHR_cooperative_matrix", "VK_KHR_pipeline_binary", "VK_EXT_memory_budget", "VK_EXT_robustness2", "VK_EXT_pci_bus_info",
     "VK_NV_shader_sm_builtins", "VK_NV_cooperative_matrix2"},
    {"VK_AMD_shader_core_properties2", "VK_EXT_subgroup_size_control"}};
static const uint32_t EXTENSION_COUNTS[DEVICES] = {7, 2, 0};

static int device_data[DEVICES];
static int instance_data;

static int which(VkPhysicalDevice device) { return (int)((int *)device - device_data); }

static void forbid(const char *what, int device, int number) {
  fprintf(stderr, "made loader: device %d does not know %s %d\n", device, what, number);
  abort();
}

static VkResult VKAPI_CALL version(uint32_t *out) {
  *out = VK_MAKE_API_VERSION(0, 1, 4, 300);
  return VK_SUCCESS;
}

static VkResult VKAPI_CALL create(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out) {
  (void)allocator;
  int asked = (int)info->pApplicationInfo->apiVersion;
  if (asked != (int)VK_API_VERSION_1_3) forbid("an instance of", -1, asked);
  *out = (VkInstance)&instance_data;
  return VK_SUCCESS;
}

static void VKAPI_CALL destroy(VkInstance instance, const VkAllocationCallbacks *allocator) {
  (void)instance;
  (void)allocator;
}

static VkResult VKAPI_CALL enumerate(VkInstance instance, uint32_t *count, VkPhysicalDevice *out) {
  (void)instance;
  for (uint32_t i = 0; out && i < *count && i < DEVICES; i++) out[i] = (VkPhysicalDevice)&device_data[i];
  *count = DEVICES;
  return VK_SUCCESS;
}

static VkResult VKAPI_CALL extensions(VkPhysicalDevice device, const char *layer, uint32_t *count, VkExtensionProperties *out) {
  (void)layer;
  uint32_t there = EXTENSION_COUNTS[which(device)];
  for (uint32_t i = 0; out && i < there; i++) strcpy(out[i].extensionName, EXTENSIONS[which(device)][i]);
  *count = there;
  return VK_SUCCESS;
}

static void VKAPI_CALL properties(VkPhysicalDevice device, VkPhysicalDeviceProperties *out) {
  static const uint32_t VERSIONS[] = {
      VK_MAKE_API_VERSION(0, 1, 4, 312), VK_MAKE_API_VERSION(0, 1, 1, 5), VK_MAKE_API_VERSION(0, 1, 0, 68)};
  static const char *const NAMES[] = {"Made new", "Made middle", "Made old"};
  memset(out, 0, sizeof *out);
  out->apiVersion = VERSIONS[which(device)];
  out->driverVersion = 11;
  out->vendorID = 12;
  out->deviceID = 13;
  out->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  strcpy(out->deviceName, NAMES[which(device)]);
  memset(out->pipelineCacheUUID, 0x14, VK_UUID_SIZE);
  VkPhysicalDeviceLimits *limits = &out->limits;
  limits->maxStorageBufferRange = 101;
  limits->maxPushConstantsSize = 102;
  limits->maxPerStageDescriptorStorageBuffers = 103;
  limits->maxComputeSharedMemorySize = 104;
  for (uint32_t i = 0; i < 3; i++) limits->maxComputeWorkGroupCount[i] = 105 + i;
  limits->maxComputeWorkGroupInvocations = 108;
  for (uint32_t i = 0; i < 3; i++) limits->maxComputeWorkGroupSize[i] = 109 + i;
  limits->timestampComputeAndGraphics = VK_TRUE;
  limits->timestampPeriod = 0.5f;
  limits->minStorageBufferOffsetAlignment = 112;
  limits->minMemoryMapAlignment = 113;
  limits->nonCoherentAtomSize = 114;
  limits->maxMemoryAllocationCount = 115;
}

/* Numbers first, first + 1, ... into the members behind the structure's head. */
static void fill(void *structure, uint32_t count, uint32_t first) {
  for (uint32_t i = 0; i < count; i++) ((numbers *)structure)->value[i] = first + i;
}

static int fill_of_1_1(VkBaseOutStructure *at) {
  switch ((int)at->sType) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES:
      memset(((VkPhysicalDeviceIDProperties *)at)->deviceUUID, 0x21, VK_UUID_SIZE);
      memset(((VkPhysicalDeviceIDProperties *)at)->driverUUID, 0x22, VK_UUID_SIZE);
      return 1;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES:
      fill(at, 3, 201);
      return 1;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES:
      ((VkPhysicalDeviceMaintenance3Properties *)at)->maxPerSetDescriptors = 211;
      ((VkPhysicalDeviceMaintenance3Properties *)at)->maxMemoryAllocationSize = UINT64_C(1) << 41;
      return 1;
    default:
      return 0;
  }
}

static int fill_of_middle(VkBaseOutStructure *at) {
  switch ((int)at->sType) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES:
      fill(at, 4, 221);
      return 1;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD:
      fill(at, 2, 242);
      return 1;
    default:
      return 0;
  }
}

static int fill_of_new(VkBaseOutStructure *at) {
  switch ((int)at->sType) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES: {
      VkPhysicalDeviceDriverProperties *driver = (VkPhysicalDeviceDriverProperties *)at;
      driver->driverID = VK_DRIVER_ID_NVIDIA_PROPRIETARY;
      strcpy(driver->driverName, "Made driver");
      strcpy(driver->driverInfo, "580.1");
      driver->conformanceVersion = (VkConformanceVersion){1, 4, 1, 3};
      return 1;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES:
      ((VkPhysicalDeviceMaintenance4Properties *)at)->maxBufferSize = UINT64_C(1) << 42;
      return 1;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES:
      fill(at, 4, 221);
      return 1;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_PROPERTIES_EXT:
      ((VkPhysicalDeviceRobustness2PropertiesEXT *)at)->robustStorageBufferAccessSizeAlignment = 231;
      return 1;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT:
      fill(at, 4, 1);
      return 1;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV:
      fill(at, 2, 241);
      return 1;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES:
      *(VkPhysicalDeviceFloatControlsProperties *)at = (VkPhysicalDeviceFloatControlsProperties){
          .sType = at->sType,
          .pNext = at->pNext,
          .denormBehaviorIndependence = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE,
          .roundingModeIndependence = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL,
          .shaderSignedZeroInfNanPreserveFloat16 = VK_TRUE,
          .shaderDenormFlushToZeroFloat32 = VK_TRUE,
      };
      return 1;
    case MATRIX_PROPERTIES:
      fill(at, 1, 251);
      return 1;
    case MATRIX2_PROPERTIES:
      fill(at, 3, 261);
      return 1;
    case BINARY_PROPERTIES:
      memcpy(((numbers *)at)->value, (uint32_t[]){1, 0, 1, 1, 0}, 5 * sizeof(uint32_t));
      return 1;
    default:
      return 0;
  }
}

static void VKAPI_CALL properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *out) {
  if (which(device) == OLD) forbid("vkGetPhysicalDeviceProperties", OLD, 2);
  properties(device, &out->properties);
  for (VkBaseOutStructure *at = out->pNext; at; at = at->pNext) {
    int known = fill_of_1_1(at) || (which(device) == NEW ? fill_of_new(at) : fill_of_middle(at));
    if (!known) forbid("property structure", which(device), at->sType);
  }
}

static void VKAPI_CALL features(VkPhysicalDevice device, VkPhysicalDeviceFeatures *out) {
  (void)device;
  memset(out, 0, sizeof *out);
  out->shaderInt64 = VK_TRUE;
}

/* A driver skips the structures of extensions that it does not have; the new device has one feature of each that it knows. */
static void VKAPI_CALL features2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *out) {
  if (which(device) == OLD) forbid("vkGetPhysicalDeviceFeatures", OLD, 2);
  features(device, &out->features);
  for (VkBaseOutStructure *at = out->pNext; at && which(device) == NEW; at = at->pNext) {
    switch ((int)at->sType) {
      case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES:
        ((VkPhysicalDeviceVulkan11Features *)at)->storageBuffer16BitAccess = VK_TRUE;
        break;
      case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES:
        ((VkPhysicalDeviceVulkan12Features *)at)->vulkanMemoryModelAvailabilityVisibilityChains = VK_TRUE;
        break;
      case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES:
        ((VkPhysicalDeviceVulkan13Features *)at)->synchronization2 = VK_TRUE;
        break;
      case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT:
        ((VkPhysicalDeviceRobustness2FeaturesEXT *)at)->nullDescriptor = VK_TRUE;
        break;
      case MATRIX_FEATURES:
      case BINARY_FEATURES:
      case BFLOAT16_FEATURES:
      case FLOAT8_FEATURES:
      case MATRIX2_FEATURES:
        ((numbers *)at)->value[0] = VK_TRUE;
        break;
      default:
        break;
    }
  }
}

static void VKAPI_CALL queues(VkPhysicalDevice device, uint32_t *count, VkQueueFamilyProperties *out) {
  (void)device;
  if (out) {
    out[0] = (VkQueueFamilyProperties){.queueFlags = 0xF, .queueCount = 16, .timestampValidBits = 64};
    out[1] = (VkQueueFamilyProperties){.queueFlags = 0x6, .queueCount = 8, .timestampValidBits = 36};
  }
  *count = 2;
}

static void VKAPI_CALL memory(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties *out) {
  (void)device;
  memset(out, 0, sizeof *out);
  out->memoryTypeCount = 3;
  out->memoryTypes[0] = (VkMemoryType){0x1, 0};
  out->memoryTypes[1] = (VkMemoryType){0x6, 1};
  out->memoryTypes[2] = (VkMemoryType){0xE, 1};
  out->memoryHeapCount = 2;
  out->memoryHeaps[0] = (VkMemoryHeap){UINT64_C(1) << 37, 1};
  out->memoryHeaps[1] = (VkMemoryHeap){UINT64_C(1) << 36, 0};
}

static void VKAPI_CALL memory2(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2 *out) {
  memory(device, &out->memoryProperties);
  for (VkBaseOutStructure *at = out->pNext; at; at = at->pNext) {
    if (which(device) != NEW || at->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) {
      forbid("memory structure", which(device), at->sType);
    }
    VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = (VkPhysicalDeviceMemoryBudgetPropertiesEXT *)at;
    budget->heapBudget[0] = UINT64_C(3) << 35;
    budget->heapUsage[0] = UINT64_C(1) << 35;
    budget->heapBudget[1] = UINT64_C(1) << 36;
  }
}

static VkResult VKAPI_CALL matrices(VkPhysicalDevice device, uint32_t *count, numbers *out) {
  static const uint32_t SHAPES[2][9] = {{16, 8, 32, 3, 7, 5, 9, 1, 3}, {64, 32, 16, 0, 1000141000, 1, 2, 0, 2}};
  if (which(device) != NEW) forbid("cooperative matrices", which(device), 0);
  for (uint32_t i = 0; out && i < *count && i < 2; i++) {
    if ((int)out[i].sType != MATRIX_SHAPE) forbid("matrix structure", NEW, out[i].sType);
    memcpy(out[i].value, SHAPES[i], sizeof SHAPES[i]);
  }
  *count = 2;
  return VK_SUCCESS;
}

static VkResult VKAPI_CALL flexible(VkPhysicalDevice device, uint32_t *count, numbers *out) {
  static const uint32_t SHAPE[10] = {16, 8, 32, 1000491002, 1000491003, 1, 0, 1, 2, 271};
  if (which(device) != NEW) forbid("flexible matrices", which(device), 0);
  if (out && *count > 0) {
    if ((int)out->sType != FLEXIBLE_SHAPE) forbid("matrix structure", NEW, out->sType);
    memcpy(out->value, SHAPE, sizeof SHAPE);
  }
  *count = 1;
  return VK_SUCCESS;
}

PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char *name) {
  static const struct {
    const char *name;
    PFN_vkVoidFunction call;
  } CALLS[] = {
      {"vkEnumerateInstanceVersion", (PFN_vkVoidFunction)version},
      {"vkCreateInstance", (PFN_vkVoidFunction)create},
      {"vkDestroyInstance", (PFN_vkVoidFunction)destroy},
      {"vkEnumeratePhysicalDevices", (PFN_vkVoidFunction)enumerate},
      {"vkEnumerateDeviceExtensionProperties", (PFN_vkVoidFunction)extensions},
      {"vkGetPhysicalDeviceProperties", (PFN_vkVoidFunction)properties},
      {"vkGetPhysicalDeviceProperties2", (PFN_vkVoidFunction)properties2},
      {"vkGetPhysicalDeviceFeatures", (PFN_vkVoidFunction)features},
      {"vkGetPhysicalDeviceFeatures2", (PFN_vkVoidFunction)features2},
      {"vkGetPhysicalDeviceQueueFamilyProperties", (PFN_vkVoidFunction)queues},
      {"vkGetPhysicalDeviceMemoryProperties", (PFN_vkVoidFunction)memory},
      {"vkGetPhysicalDeviceMemoryProperties2", (PFN_vkVoidFunction)memory2},
      {"vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR", (PFN_vkVoidFunction)matrices},
      {"vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV", (PFN_vkVoidFunction)flexible},
  };
  (void)instance;
  for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++) {
    if (strcmp(CALLS[i].name, name) == 0) return CALLS[i].call;
  }
  return NULL;
}
