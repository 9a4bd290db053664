/* The driver's statistics of a pipeline's code: registers, spills, and whatever else, by names of its own. */
#ifndef VYRE_STATISTICS_H
#define VYRE_STATISTICS_H

#include "layer.h"

/* One piece of code of a pipeline; texts need not end in a NUL where a driver fills all of them. */
typedef struct vyre_executable {
  VkPipelineExecutablePropertiesKHR properties;
  uint32_t statistic_count;
  VkPipelineExecutableStatisticKHR *statistics;
} vyre_executable;

/* Of a pipeline that is bound so, which the caller keeps; returns how many there are. 0: the device is not to tell, or it fails to. */
uint32_t vyre_read_executables(vyre_device *device, const vyre_bound *bound, vyre_executable **out);
void vyre_free_executables(vyre_executable *executables, uint32_t count);

#endif
