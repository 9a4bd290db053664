/* What a handle of a bound kernel is, between the extension that makes it (vulkan/layer) and the table that C code calls it by
   (_fast), which has to load without Vulkan. */
#ifndef VYRE_BOUND_CALLS_H
#define VYRE_BOUND_CALLS_H

#include "vyre_driver.h"

typedef struct vyre_bound_calls {
  vyre_bound_status (*run)(vyre_bound_kernel *kernel, uint64_t timeout_ns);
  vyre_bound_status (*submit)(vyre_bound_kernel *kernel);
  vyre_bound_status (*wait)(vyre_bound_kernel *kernel, uint64_t timeout_ns);
  vyre_bound_status (*poll)(vyre_bound_kernel *kernel);
  size_t (*counts)(const vyre_bound_kernel *kernel, uint64_t *counts, size_t count);
} vyre_bound_calls;

struct vyre_bound_kernel {
  const vyre_bound_calls *calls;
  void *owner; /* the Python object that it lies in */
};

static inline void vyre_bound_own(vyre_bound_kernel *kernel, void *owner) { kernel->owner = owner; }
static inline void *vyre_bound_owner(const vyre_bound_kernel *kernel) { return kernel->owner; }

static inline vyre_bound_status vyre_bound_run(vyre_bound_kernel *kernel, uint64_t timeout_ns) {
  return kernel->calls->run(kernel, timeout_ns);
}

static inline vyre_bound_status vyre_bound_submit(vyre_bound_kernel *kernel) { return kernel->calls->submit(kernel); }

static inline vyre_bound_status vyre_bound_wait(vyre_bound_kernel *kernel, uint64_t timeout_ns) {
  return kernel->calls->wait(kernel, timeout_ns);
}

static inline vyre_bound_status vyre_bound_poll(vyre_bound_kernel *kernel) { return kernel->calls->poll(kernel); }

static inline size_t vyre_bound_counts(const vyre_bound_kernel *kernel, uint64_t *counts, size_t count) {
  return kernel->calls->counts(kernel, counts, count);
}

#endif
