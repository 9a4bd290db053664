/* Print what the layer hands to vkCreateDevice for each feature alone, for all, and for none.

   Usage: feature_chain API_VERSION. A line is: what was asked | the types of the chained structures | the features that are on in
   the chain. These are read back through vyre_supported_features, from a device that has just what the chain switches on. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_features.h"
#include "vulkan_tables.h"

static const VkBaseOutStructure *chain_head;
static VkPhysicalDeviceFeatures chain_core;

static void VKAPI_CALL features2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *out) {
  (void)device;
  out->features = chain_core;
  for (VkBaseOutStructure *asked = out->pNext; asked; asked = asked->pNext) {
    for (const VkBaseOutStructure *on = chain_head; on; on = on->pNext) {
      if (on->sType == asked->sType) memcpy(asked + 1, on + 1, VYRE_FEATURE_MEMBERS * sizeof(VkBool32));
    }
  }
}

static void print(const char *asked, uint64_t features, uint32_t api_version) {
  vyre_feature_chain *chain = vyre_feature_chain_new();
  if (!chain) exit(1);
  vyre_feature_chain_fill(chain, features, api_version, NULL);
  chain_head = vyre_feature_chain_head(chain);
  chain_core = *vyre_feature_chain_core(chain);
  printf("%s|", asked);
  for (const VkBaseOutStructure *on = chain_head; on; on = on->pNext) printf("%d ", (int)on->sType);
  printf("|");
  uint64_t found = vyre_supported_features(VK_API_VERSION_1_3, NULL, NULL, features2);
  for (uint32_t i = 0; vyre_feature_name(i); i++) {
    if (found >> i & 1) printf("%s ", vyre_feature_name(i));
  }
  printf("\n");
  free(chain);
}

int main(int count, char **arguments) {
  uint32_t api_version = count > 1 ? (uint32_t)strtoul(arguments[1], NULL, 10) : 0;
  uint64_t all = 0;
  for (uint32_t i = 0; vyre_feature_name(i); i++) {
    all |= UINT64_C(1) << i;
    print(vyre_feature_name(i), UINT64_C(1) << i, api_version);
  }
  print("all", all, api_version);
  print("none", 0, api_version);
  return 0;
}
