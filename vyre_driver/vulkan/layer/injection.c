/* Failures that a program asks for, to try what an exhausted or a lost device does to it. */
#include "layer.h"

static atomic_ullong injection_countdown[VYRE_CALL_COUNT];
static atomic_int injection_result[VYRE_CALL_COUNT];

void vyre_inject(int call, uint64_t countdown, int32_t result) {
  if (call <= VYRE_CALL_NONE || call >= VYRE_CALL_COUNT) return;
  atomic_store(&injection_result[call], result);
  atomic_store(&injection_countdown[call], countdown);
}

VkResult vyre_injected(enum vyre_call call) {
  unsigned long long left = atomic_load_explicit(&injection_countdown[call], memory_order_relaxed);
  while (left > 0) {
    if (atomic_compare_exchange_weak(&injection_countdown[call], &left, left - 1)) {
      return left == 1 ? (VkResult)atomic_load(&injection_result[call]) : VK_SUCCESS;
    }
  }
  return VK_SUCCESS;
}
