/* A Vulkan driver without a device, for the layer to stand on: it checks what Vulkan asks of its caller and aborts on a breach.

   Submissions run on a thread of the device, which copies between buffers and signals fences. Handles are heap blocks that go
   when they are destroyed, so that a sanitizer sees every late use. */
#ifndef VYRE_MOCK_DRIVER_H
#define VYRE_MOCK_DRIVER_H

#include <stdbool.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

#define MOCK_FAMILY 3          /* of the only queue */
#define MOCK_PAGE_BYTES 4096   /* of what imported pages begin and end at */
#define MOCK_UNCACHED 1        /* a type of host memory; type 0 is the device's, which the host sees too */
#define MOCK_CACHED 2
#define MOCK_PAGE_TYPES (1u << MOCK_UNCACHED | 1u << MOCK_CACHED)

PFN_vkVoidFunction mock_instance_proc(VkInstance instance, const char *name);
PFN_vkVoidFunction mock_device_proc(VkDevice device, const char *name);
void mock_lose(VkDevice device);          /* every later submission and wait says VK_ERROR_DEVICE_LOST */
void mock_hold(VkDevice device, bool on); /* submitted work does not end until the hold is off */
void mock_refuse(bool on);                /* this thread's next instances and devices: VK_ERROR_OUT_OF_HOST_MEMORY */
int64_t mock_objects(void);               /* how many exist in the process */
int64_t mock_imports(void);               /* so many of them are memory that was made of pages */
uint32_t mock_subgroup_size(VkPipeline pipeline); /* that its subgroups must have; 0: any */
uint64_t mock_submissions(VkDevice device); /* how many command buffers it was given */

/* This thread's next call of that name of Vulkan's fails, if it is one of those that mock_failure is asked for; NULL: none does. */
void mock_fail(const char *name, VkResult result);
void mock_allow_page_types(uint32_t types); /* the memory types that pages may be, from now on; MOCK_PAGE_TYPES at first */

#endif
