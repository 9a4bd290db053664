/* The threads of a mover, and what is asked of it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mover_state.h"

#define AREA_ALIGNMENT UINT64_C(64)
#define SETTLE_POLL_NS 200000
#define STACK_BYTES ((size_t)1 << 18) /* a library's thread-local variables lie there too */

void vyre_wait_a_little(pthread_cond_t *what, pthread_mutex_t *lock, uint64_t ns) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  ns += (uint64_t)until.tv_nsec;
  until.tv_sec += (time_t)(ns / 1000000000);
  until.tv_nsec = (long)(ns % 1000000000);
  (void)pthread_cond_timedwait(what, lock, &until);
}

static void *copy_until_stopped(void *given) {
  vyre_mover *m = given;
  pthread_mutex_lock(&m->lock);
  while (!m->is_stopped) {
    if (!vyre_copy_one(m)) pthread_cond_wait(&m->work, &m->lock);
  }
  pthread_mutex_unlock(&m->lock);
  return NULL;
}

/* Three quarters of the processors: the thread that submits must not wait for one. With all of them an H200's host is slower. */
static unsigned wanted_threads(void) {
  cpu_set_t allowed;
  unsigned processors = sched_getaffinity(0, sizeof allowed, &allowed) ? 1 : (unsigned)CPU_COUNT(&allowed);
  unsigned wanted = processors * 3 / 4;
  return wanted < 1 ? 1 : wanted > VYRE_MOST_COPYING ? VYRE_MOST_COPYING : wanted;
}

/* Under the lock; false: there is none that submits. */
static bool start_threads(vyre_mover *m) {
  pthread_attr_t attributes;
  sigset_t all, before;
  if (m->thread_count) return true;
  if (pthread_attr_init(&attributes)) return false;
  (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
  sigfillset(&all); /* signals are for the threads that Python knows */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  unsigned wanted = 1 + wanted_threads();
  while (m->thread_count < wanted) {
    void *(*run)(void *) = m->thread_count ? copy_until_stopped : vyre_submit_until_stopped;
    if (pthread_create(&m->threads[m->thread_count], &attributes, run, m)) break;
    m->thread_count++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return m->thread_count > 0;
}

vyre_mover *vyre_mover_make(vyre_device *device, char *memory, VkBuffer areas, uint64_t bytes) {
  pthread_condattr_t clock;
  vyre_mover *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->device = device;
  m->memory = memory;
  m->areas = areas;
  m->area_bytes = bytes / VYRE_AREAS / AREA_ALIGNMENT * AREA_ALIGNMENT;
  pthread_mutex_init(&m->lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&m->work, &clock);
  pthread_cond_init(&m->changed, &clock);
  pthread_cond_init(&m->done, &clock);
  pthread_condattr_destroy(&clock);
  return m;
}

uint64_t vyre_mover_put(
    vyre_mover *m, const vyre_move *moves, size_t count, VkCommandBuffer commands, bool is_beside) {
  vyre_step *s = calloc(1, sizeof *s + count * sizeof *moves);
  if (!s) return 0;
  s->commands = commands;
  s->is_beside = is_beside;
  s->count = count;
  if (count) memcpy(s->moves, moves, count * sizeof *moves);
  vyre_cut_into_turns(m, s);
  pthread_mutex_lock(&m->lock);
  if (!start_threads(m)) {
    pthread_mutex_unlock(&m->lock);
    free(s);
    return 0;
  }
  uint64_t number = s->number = ++m->put;
  *(m->last ? &m->last->next : &m->first) = s;
  m->last = s;
  vyre_advance(m);
  pthread_cond_signal(&m->changed);
  pthread_mutex_unlock(&m->lock);
  return number;
}

VkResult vyre_mover_wait(vyre_mover *m, uint64_t number, uint64_t slice_ns) {
  uint64_t began = vyre_now_ns(), passed = 0;
  pthread_mutex_lock(&m->lock);
  while (m->completed < number && m->result == VK_SUCCESS && !m->is_cancelled && passed <= slice_ns) {
    if (!vyre_copy_one(m)) vyre_wait_a_little(&m->done, &m->lock, slice_ns - passed);
    passed = vyre_now_ns() - began;
  }
  VkResult result = m->completed >= number ? VK_SUCCESS : m->result;
  if (m->completed < number && result == VK_SUCCESS) result = m->is_cancelled ? VK_ERROR_UNKNOWN : VK_TIMEOUT;
  pthread_mutex_unlock(&m->lock);
  return result;
}

VkResult vyre_mover_settle(vyre_mover *m, uint64_t slice_ns) {
  uint64_t began = vyre_now_ns(), passed = 0;
  pthread_mutex_lock(&m->lock);
  while (vyre_runs_something(m) && passed <= slice_ns) {
    vyre_wait_a_little(&m->done, &m->lock, SETTLE_POLL_NS);
    passed = vyre_now_ns() - began;
  }
  VkResult result = vyre_runs_something(m) ? VK_TIMEOUT : VK_SUCCESS;
  pthread_mutex_unlock(&m->lock);
  return result;
}

void vyre_mover_cancel(vyre_mover *m) {
  pthread_mutex_lock(&m->lock);
  m->is_cancelled = true;
  while (m->copying || m->is_submitting) pthread_cond_wait(&m->done, &m->lock);
  pthread_mutex_unlock(&m->lock);
}

size_t vyre_mover_times(vyre_mover *m, vyre_turn_times *out, size_t most) {
  pthread_mutex_lock(&m->lock);
  uint64_t count = m->over < VYRE_KEPT_TIMES ? m->over : VYRE_KEPT_TIMES;
  if (count > most) count = most;
  for (uint64_t i = 0; i < count; i++) out[i] = m->times[(m->over - count + i) % VYRE_KEPT_TIMES];
  pthread_mutex_unlock(&m->lock);
  return (size_t)count;
}

void vyre_mover_free(vyre_mover *m) {
  vyre_mover_cancel(m);
  pthread_mutex_lock(&m->lock);
  m->is_stopped = true;
  pthread_cond_broadcast(&m->work);
  pthread_cond_broadcast(&m->changed);
  pthread_mutex_unlock(&m->lock);
  for (unsigned i = 0; i < m->thread_count; i++) pthread_join(m->threads[i], NULL);
  while (m->first) {
    vyre_step *next = m->first->next;
    free(m->first);
    m->first = next;
  }
  pthread_cond_destroy(&m->work);
  pthread_cond_destroy(&m->changed);
  pthread_cond_destroy(&m->done);
  pthread_mutex_destroy(&m->lock);
  free(m);
}
