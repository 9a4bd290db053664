/* What a mover hands to the device, by one thread: commands of steps to kompute's queue, copies to the one for copies. */
#include "intervals.h"
#include "mover_state.h"

#include <stdlib.h>

#define POLL_NS 50000
#define AREA_POLL_NS 10000 /* of the 300,000 that one takes: an area that waits for the host is not copied from */

static void fail(vyre_mover *m, VkResult result) {
  if (m->result == VK_SUCCESS) m->result = result;
  m->is_cancelled = true;
  pthread_cond_broadcast(&m->done);
}

/* VK_TIMEOUT: not yet. Else the fence is given back, and the work has ended, or is lost. */
static VkResult poll(vyre_device *device, VkFence *fence) {
  VkResult result = VK_ERROR_DEVICE_LOST;
  if (vyre_enter(device)) {
    result = device->vk.GetFenceStatus(device->handle, *fence);
    vyre_leave(device);
  }
  if (result == VK_NOT_READY) return VK_TIMEOUT;
  result = vyre_finish(device, fence, 0); /* notes a lost device too */
  if (*fence) vyre_give_fence_back(device, *fence);
  *fence = VK_NULL_HANDLE;
  return result == VK_TIMEOUT ? VK_SUCCESS : result;
}

static VkResult submit_regions(vyre_mover *m, const vyre_region *regions, uint32_t count, vyre_turn *t) {
  vyre_device *device = m->device;
  const vyre_dispatch copies = {.beside = regions, .beside_count = count, .label = VYRE_LABEL_COPY};
  VkResult result = vyre_record_dispatch(device, &copies, false, &t->commands);
  if (result == VK_SUCCESS && vyre_enter(device)) {
    result = t->of->is_beside ? vyre_submit_copies(device, m->submitted, t->commands, &t->fence)
                              : vyre_submit_commands(device, t->commands, &t->fence);
    vyre_leave(device);
  } else if (result == VK_SUCCESS) {
    result = VK_ERROR_DEVICE_LOST;
  }
  if (result != VK_SUCCESS && t->commands) {
    vyre_drop_transfer(device, t->commands);
    t->commands = VK_NULL_HANDLE;
  }
  return result;
}

static void end_turn(vyre_mover *m, vyre_turn *t) {
  if (t->commands) vyre_drop_transfer(m->device, t->commands);
  t->commands = VK_NULL_HANDLE;
  t->of->ended++;
  vyre_begin_copies(m, t, true);
  vyre_advance(m);
}

/* Each of these four returns whether it has done something. */
static bool submit_turn(vyre_mover *m) {
  vyre_turn *t = &m->turns[m->submitted % VYRE_AREAS];
  if (m->is_cancelled || m->submitted == m->begun || t->state != TURN_READY || m->ended + 1 < t->of->number) return false;
  vyre_region *regions = calloc(t->of->count, sizeof *regions);
  VkResult result = regions ? VK_SUCCESS : VK_ERROR_OUT_OF_HOST_MEMORY;
  uint32_t count = regions ? vyre_regions_of(m, t, regions) : 0;
  m->is_submitting = true;
  pthread_mutex_unlock(&m->lock);
  if (count) result = submit_regions(m, regions, count, t);
  free(regions);
  pthread_mutex_lock(&m->lock);
  m->is_submitting = false;
  if (m->is_cancelled) pthread_cond_broadcast(&m->done);
  if (result != VK_SUCCESS) {
    fail(m, result);
    return true;
  }
  t->state = TURN_SUBMITTED;
  t->times.submitted = vyre_now_ns();
  m->submitted++;
  if (!t->fence) end_turn(m, t);
  return true;
}

static bool poll_turns(vyre_mover *m) {
  for (uint64_t g = m->over; g < m->submitted; g++) {
    vyre_turn *t = &m->turns[g % VYRE_AREAS];
    if (!t->fence) continue;
    VkResult result = poll(m->device, &t->fence);
    if (result == VK_TIMEOUT) return false;
    if (result != VK_SUCCESS) fail(m, result);
    end_turn(m, t);
    return true;
  }
  return false;
}

static bool submit_commands(vyre_mover *m) {
  const vyre_step *before = NULL;
  vyre_step *s = m->first;
  while (s && s->is_submitted) {
    before = s;
    s = s->next;
  }
  if (!s || m->is_cancelled || (before && before->ended < before->turns)) return false;
  VkResult result = VK_SUCCESS;
  if (s->commands) {
    result = VK_ERROR_DEVICE_LOST;
    if (vyre_enter(m->device)) {
      result = vyre_submit_commands(m->device, s->commands, &s->fence);
      vyre_leave(m->device);
    }
  }
  s->is_submitted = result == VK_SUCCESS;
  if (result != VK_SUCCESS) fail(m, result);
  return true;
}

static bool poll_commands(vyre_mover *m) {
  for (vyre_step *s = m->first; s; s = s->next) {
    if (s->number <= m->ended) continue;
    if (!s->is_submitted) return false;
    VkResult result = s->fence ? poll(m->device, &s->fence) : VK_SUCCESS;
    if (result == VK_TIMEOUT) return false;
    if (result != VK_SUCCESS) fail(m, result);
    m->ended = s->number;
    vyre_advance(m);
    return true;
  }
  return false;
}

bool vyre_runs_something(const vyre_mover *m) {
  for (uint64_t g = m->over; g < m->submitted; g++) {
    if (m->turns[g % VYRE_AREAS].fence) return true;
  }
  for (const vyre_step *s = m->first; s; s = s->next) {
    if (s->fence) return true;
  }
  return false;
}

void *vyre_submit_until_stopped(void *given) {
  vyre_mover *m = given;
  pthread_mutex_lock(&m->lock);
  while (!m->is_stopped || vyre_runs_something(m)) {
    if (submit_commands(m) || submit_turn(m) || poll_commands(m) || poll_turns(m)) continue;
    if (vyre_runs_something(m)) {
      vyre_wait_a_little(&m->changed, &m->lock, m->areas ? AREA_POLL_NS : POLL_NS);
    } else if (!m->is_stopped) {
      pthread_cond_wait(&m->changed, &m->lock);
    }
  }
  pthread_mutex_unlock(&m->lock);
  return NULL;
}
