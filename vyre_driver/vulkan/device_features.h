/* Device features by name and bit: which a device has, and the structures that switch features on. */
#ifndef VYRE_DEVICE_FEATURES_H
#define VYRE_DEVICE_FEATURES_H

#include <stdint.h>
#include <vulkan/vulkan.h>

typedef struct vyre_feature_chain vyre_feature_chain;

int vyre_feature_index(const char *name);          /* -1: unknown */
const char *vyre_feature_name(uint32_t index);     /* NULL: past the end */
uint64_t vyre_supported_features(
    uint32_t api_version, VkPhysicalDevice device, PFN_vkGetPhysicalDeviceFeatures features,
    PFN_vkGetPhysicalDeviceFeatures2 features2);
vyre_feature_chain *vyre_feature_chain_new(void); /* malloc; empty until it is filled */
void vyre_feature_chain_fill(vyre_feature_chain *chain, uint64_t features, uint32_t api_version, const void *next);
const VkPhysicalDeviceFeatures *vyre_feature_chain_core(const vyre_feature_chain *chain);
const void *vyre_feature_chain_head(const vyre_feature_chain *chain);

#endif
