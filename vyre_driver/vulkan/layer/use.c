/* The uses of a device: any number of threads may use it, and closing it waits for them.

   A thread knows what it uses itself, innermost last, for it must not wait for itself: a signal handler or a finalizer may close a
   device in the middle of anything. Uses nested deeper than that are not known. */
#include <errno.h>
#include <time.h>

#include "layer.h"

#define MOST_KNOWN 16
static _Thread_local const vyre_use *known[MOST_KNOWN];
static _Thread_local size_t nested;

bool vyre_use_init(vyre_use *use) {
  pthread_condattr_t monotonic;
  if (pthread_condattr_init(&monotonic)) return false;
  (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  bool made = pthread_cond_init(&use->unused, &monotonic) == 0;
  (void)pthread_condattr_destroy(&monotonic);
  if (!made) return false;
  if (pthread_mutex_init(&use->lock, NULL)) {
    (void)pthread_cond_destroy(&use->unused);
    return false;
  }
  atomic_init(&use->users, 1);
  atomic_init(&use->closed, false);
  return true;
}

void vyre_use_destroy(vyre_use *use) {
  (void)pthread_cond_destroy(&use->unused);
  (void)pthread_mutex_destroy(&use->lock);
}

bool vyre_use_begin(vyre_use *use) {
  if (nested < MOST_KNOWN) known[nested] = use;
  nested++;
  atomic_fetch_add(&use->users, 1);
  return !atomic_load(&use->closed);
}

static void leave(vyre_use *use) {
  if (atomic_fetch_sub(&use->users, 1) != 1) return;
  pthread_mutex_lock(&use->lock);
  pthread_cond_broadcast(&use->unused);
  pthread_mutex_unlock(&use->lock);
}

void vyre_use_end(vyre_use *use) {
  nested--;
  leave(use);
}

bool vyre_use_is_mine(const vyre_use *use) {
  for (size_t i = 0; i < nested && i < MOST_KNOWN; i++) {
    if (known[i] == use) return true;
  }
  return false;
}

void vyre_use_close(vyre_use *use) {
  if (!atomic_exchange(&use->closed, true)) leave(use);
}

bool vyre_use_wait(vyre_use *use, uint64_t timeout_ns) {
  struct timespec end;
  int result = 0;
  uint64_t at = vyre_now_ns() + timeout_ns;
  end.tv_sec = (time_t)(at / UINT64_C(1000000000));
  end.tv_nsec = (long)(at % UINT64_C(1000000000));
  pthread_mutex_lock(&use->lock);
  while (atomic_load(&use->users) && result != ETIMEDOUT) result = pthread_cond_timedwait(&use->unused, &use->lock, &end);
  pthread_mutex_unlock(&use->lock);
  return atomic_load(&use->users) == 0;
}
