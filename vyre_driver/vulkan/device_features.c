/* Device features by name: which the device has, and the structures that switch the wanted ones on.

   vulkan_tables.h, made of Vulkan's registry, has the features and their places. Every feature structure is a type, pNext and
   VkBool32s; one bit a feature, in the order of the table. */
#include <stdlib.h>
#include <string.h>

#include "device_features.h"
#include "vulkan_tables.h"

#define STRUCTURE(type, version) {type, version},
static const struct {
  int32_t type;
  uint32_t version; /* of Vulkan, from which on a device knows it; 0: an extension has it */
} STRUCTURES[] = {VYRE_FEATURE_STRUCTURES(STRUCTURE)};
#undef STRUCTURE

#define FEATURE(name, structure, member) {#name, structure, member},
static const struct {
  const char *name;
  uint32_t structure;
  uint32_t member;
} FEATURES[] = {VYRE_FEATURES(FEATURE)};
#undef FEATURE

enum { STRUCTURE_COUNT = sizeof STRUCTURES / sizeof *STRUCTURES, FEATURE_COUNT = sizeof FEATURES / sizeof *FEATURES };
_Static_assert(FEATURE_COUNT <= 64, "features are bits of a uint64_t");
_Static_assert(STRUCTURE_COUNT <= 32, "structures are bits of a uint32_t");

struct vyre_feature_chain {
  struct {
    VkBaseOutStructure head;
    VkBool32 members[VYRE_FEATURE_MEMBERS];
  } structures[STRUCTURE_COUNT]; /* the first holds the members of VkPhysicalDeviceFeatures, and is not chained */
  const void *head;
};

int vyre_feature_index(const char *name) {
  for (int i = 0; i < FEATURE_COUNT; i++) {
    if (strcmp(FEATURES[i].name, name) == 0) return i;
  }
  return -1;
}

const char *vyre_feature_name(uint32_t index) { return index < FEATURE_COUNT ? FEATURES[index].name : NULL; }

static VkBool32 *place(vyre_feature_chain *chain, int feature) {
  return &chain->structures[FEATURES[feature].structure].members[FEATURES[feature].member];
}

/* Chain the structures that a version of Vulkan has, and of those of extensions the wanted: a feature may only be switched on
   together with its extension. A driver ignores a structure of an extension that it does not know. */
static void link_structures(vyre_feature_chain *chain, uint32_t api_version, uint32_t wanted, void *tail) {
  for (int i = STRUCTURE_COUNT - 1; i > 0; i--) {
    uint32_t version = STRUCTURES[i].version;
    if (version ? api_version >= version : wanted >> i & 1) {
      chain->structures[i].head = (VkBaseOutStructure){(VkStructureType)STRUCTURES[i].type, tail};
      tail = &chain->structures[i];
    }
  }
  chain->head = tail;
}

uint64_t vyre_supported_features(
    uint32_t api_version, VkPhysicalDevice device, PFN_vkGetPhysicalDeviceFeatures features,
    PFN_vkGetPhysicalDeviceFeatures2 features2) {
  vyre_feature_chain chain = {0};
  VkPhysicalDeviceFeatures2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  uint64_t found = 0;
  if (features2 && api_version >= VK_API_VERSION_1_1) {
    link_structures(&chain, api_version, UINT32_MAX, NULL);
    all.pNext = (void *)chain.head;
    features2(device, &all);
  } else if (features) {
    features(device, &all.features);
  }
  memcpy(chain.structures[0].members, &all.features, sizeof all.features);
  for (int i = 0; i < FEATURE_COUNT; i++) {
    if (*place(&chain, i)) found |= UINT64_C(1) << i;
  }
  return found;
}

vyre_feature_chain *vyre_feature_chain_new(void) { return malloc(sizeof(vyre_feature_chain)); }

void vyre_feature_chain_fill(vyre_feature_chain *chain, uint64_t features, uint32_t api_version, const void *next) {
  uint32_t wanted = 0;
  memset(chain, 0, sizeof *chain);
  for (int i = 0; i < FEATURE_COUNT; i++) {
    if (features >> i & 1) {
      *place(chain, i) = VK_TRUE;
      wanted |= UINT32_C(1) << FEATURES[i].structure;
    }
  }
  link_structures(chain, api_version, wanted, (void *)next);
}

const VkPhysicalDeviceFeatures *vyre_feature_chain_core(const vyre_feature_chain *chain) {
  return (const VkPhysicalDeviceFeatures *)chain->structures[0].members;
}

const void *vyre_feature_chain_head(const vyre_feature_chain *chain) { return chain->head; }
