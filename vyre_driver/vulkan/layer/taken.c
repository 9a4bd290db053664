/* Runs of a recorded dispatch from C code, from any thread and without the GIL.

   One thread at a time has its turn with a handle. Each call is a use of the device, so that closing it waits. */
#include "taken.h"

#include <errno.h>
#include <time.h>

#define NO_END UINT64_MAX
#define SLICE_NS UINT64_C(50000000) /* a wait for longer lets others who need the whole device come in between */

static vyre_taken *of(vyre_bound_kernel *kernel) { return (vyre_taken *)(void *)kernel; }

static uint64_t end_of(uint64_t timeout_ns) {
  uint64_t now = timeout_ns == NO_END ? 0 : vyre_now_ns();
  return timeout_ns < NO_END - now ? now + timeout_ns : NO_END;
}

static uint64_t left_ns(uint64_t end) {
  if (end == NO_END) return NO_END;
  uint64_t now = vyre_now_ns();
  return end > now ? end - now : 0;
}

static vyre_bound_status status_of(VkResult result) {
  if (result == VK_SUCCESS) return VYRE_BOUND_SUCCESS;
  if (result == VK_TIMEOUT) return VYRE_BOUND_TIMED_OUT;
  if (result == VK_NOT_READY) return VYRE_BOUND_RUNNING;
  return result == VK_ERROR_DEVICE_LOST ? VYRE_BOUND_DEVICE_LOST : VYRE_BOUND_FAILED;
}

/* Begins a use of the device, which vyre_use_end ends if it can be used. */
static vyre_bound_status begin(vyre_taken *taken) {
  if (vyre_forks() != taken->forks) return VYRE_BOUND_FORKED;
  vyre_bound_status status = VYRE_BOUND_CLOSED;
  if (vyre_use_begin(taken->use)) status = vyre_is_lost(taken->device) ? VYRE_BOUND_DEVICE_LOST : VYRE_BOUND_SUCCESS;
  if (status != VYRE_BOUND_SUCCESS) vyre_use_end(taken->use);
  return status;
}

static bool take_turn_now(vyre_taken *taken) {
  bool is_free = false;
  return atomic_compare_exchange_strong(&taken->is_busy, &is_free, true);
}

static bool take_turn(vyre_taken *taken, uint64_t end) {
  bool is_mine = take_turn_now(taken);
  if (is_mine) return true;
  struct timespec until = {.tv_sec = (time_t)(end / UINT64_C(1000000000)), .tv_nsec = (long)(end % UINT64_C(1000000000))};
  int result = 0;
  pthread_mutex_lock(&taken->lock);
  atomic_fetch_add(&taken->waiting, 1); /* seen by the thread that ends a turn from now on, or the end of that turn is seen below */
  while (!(is_mine = take_turn_now(taken)) && result != ETIMEDOUT) {
    result = end == NO_END ? pthread_cond_wait(&taken->freed, &taken->lock)
                           : pthread_cond_timedwait(&taken->freed, &taken->lock, &until);
  }
  atomic_fetch_sub(&taken->waiting, 1);
  pthread_mutex_unlock(&taken->lock);
  return is_mine;
}

static void end_turn(vyre_taken *taken) {
  atomic_store(&taken->is_busy, false);
  if (!atomic_load(&taken->waiting)) return;
  pthread_mutex_lock(&taken->lock);
  pthread_cond_signal(&taken->freed);
  pthread_mutex_unlock(&taken->lock);
}

/* Of work that has ended with this result. */
static VkResult seen_end(vyre_taken *taken, VkResult result) {
  if (result != VK_SUCCESS || !taken->cut_word || !*taken->cut_word) return result;
  *taken->cut_word = 0;
  return VYRE_LOOP_CUT;
}

static VkResult finish(vyre_taken *taken, uint64_t end) {
  VkResult result = VK_SUCCESS;
  bool is_over = !taken->fence;
  if (is_over) return result;
  while (!is_over) {
    uint64_t left = left_ns(end);
    result = vyre_finish(taken->device, &taken->fence, left < SLICE_NS ? left : SLICE_NS);
    is_over = result != VK_TIMEOUT || left <= SLICE_NS;
  }
  return seen_end(taken, result);
}

/* VK_NOT_READY: it has not ended. */
static VkResult finish_earlier(vyre_taken *taken, uint64_t end) {
  VkResult result = finish(taken, end);
  return result == VK_TIMEOUT ? VK_NOT_READY : result;
}

static VkResult run_in_turn(vyre_taken *taken, uint64_t end) {
  VkResult result = finish_earlier(taken, end);
  if (result != VK_SUCCESS || !taken->commands) return result;
  uint64_t left = left_ns(end);
  result = vyre_run_commands(taken->device, taken->commands, left < SLICE_NS ? left : SLICE_NS, &taken->fence);
  return result == VK_TIMEOUT ? finish(taken, end) : seen_end(taken, result);
}

static VkResult submit_in_turn(vyre_taken *taken, uint64_t end) {
  VkResult result = finish_earlier(taken, end);
  if (result != VK_SUCCESS || !taken->commands) return result;
  if (!vyre_enter(taken->device)) return VK_ERROR_DEVICE_LOST;
  result = vyre_submit_commands(taken->device, taken->commands, &taken->fence);
  vyre_leave(taken->device);
  return result;
}

/* What a thread does in its turn; ``busy`` is said where that does not come in time. */
typedef VkResult in_turn(vyre_taken *taken, uint64_t end);

static vyre_bound_status in_its_turn(vyre_bound_kernel *kernel, uint64_t end, in_turn *call, vyre_bound_status busy) {
  vyre_taken *taken = of(kernel);
  vyre_thread *thread = vyre_this_thread();
  vyre_failure before = thread->failure;
  vyre_bound_status status = begin(taken);
  if (status != VYRE_BOUND_SUCCESS) return status;
  if (!(end ? take_turn(taken, end) : take_turn_now(taken))) {
    status = busy;
  } else {
    status = status_of(call(taken, end));
    end_turn(taken);
  }
  vyre_use_end(taken->use);
  thread->failure = before; /* the status tells */
  return status;
}

static vyre_bound_status run(vyre_bound_kernel *kernel, uint64_t timeout_ns) {
  return in_its_turn(kernel, end_of(timeout_ns), run_in_turn, VYRE_BOUND_RUNNING);
}

static vyre_bound_status submit(vyre_bound_kernel *kernel) {
  return in_its_turn(kernel, 0, submit_in_turn, VYRE_BOUND_RUNNING);
}

static vyre_bound_status wait(vyre_bound_kernel *kernel, uint64_t timeout_ns) {
  return in_its_turn(kernel, end_of(timeout_ns), finish, VYRE_BOUND_TIMED_OUT);
}

static vyre_bound_status poll(vyre_bound_kernel *kernel) { return in_its_turn(kernel, 0, finish_earlier, VYRE_BOUND_RUNNING); }

static size_t counts(const vyre_bound_kernel *kernel, uint64_t *out, size_t count) {
  const vyre_taken *taken = (const vyre_taken *)(const void *)kernel;
  for (size_t i = 0; i < count; i++) out[i] = i < VYRE_COUNTER_COUNT ? vyre_counter_value(taken->device, (int)i) : 0;
  return VYRE_COUNTER_COUNT;
}

bool vyre_taken_init(
    vyre_taken *taken, vyre_device *device, vyre_use *use, VkCommandBuffer commands, volatile uint32_t *cut_word) {
  static const vyre_bound_calls CALLS = {run, submit, wait, poll, counts};
  pthread_condattr_t monotonic;
  if (pthread_condattr_init(&monotonic)) return false;
  (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  bool is_made = pthread_cond_init(&taken->freed, &monotonic) == 0;
  (void)pthread_condattr_destroy(&monotonic);
  if (!is_made) return false;
  if (pthread_mutex_init(&taken->lock, NULL)) {
    (void)pthread_cond_destroy(&taken->freed);
    return false;
  }
  taken->handle.calls = &CALLS;
  taken->device = device;
  taken->use = use;
  taken->forks = vyre_forks();
  taken->commands = commands;
  taken->cut_word = cut_word;
  taken->fence = VK_NULL_HANDLE;
  atomic_init(&taken->is_busy, false);
  atomic_init(&taken->waiting, 0);
  return true;
}

void vyre_taken_end(vyre_taken *taken) {
  if (vyre_forks() != taken->forks) return; /* threads that wait for their turn did not come along, and destroying waits for them */
  if (taken->fence) vyre_give_fence_back(taken->device, taken->fence);
  (void)pthread_cond_destroy(&taken->freed);
  (void)pthread_mutex_destroy(&taken->lock);
}
