/* Bound kernels that C code runs. */
#include <sched.h>

#include "pages.h"
#include "taken.h"

/* What C extensions share: handles of bound kernels. */
typedef struct handles {
  vyre_use use;
  vyre_taken taken[2];
  atomic_ullong calls;
  atomic_ullong submitted; /* by calls whose status says so */
} handles;

static void *call_until_refused(void *argument) {
  handles *shared = argument;
  uint64_t counts[VYRE_COUNTER_COUNT + 1];
  int status = VYRE_BOUND_SUCCESS;
  for (uint64_t i = 0; status >= VYRE_BOUND_SUCCESS; i++) {
    vyre_bound_kernel *kernel = &shared->taken[i / 8 % 2].handle;
    switch (i % 8) {
      case 1: status = vyre_bound_submit(kernel); break;
      case 3: status = vyre_bound_poll(kernel); break;
      case 5: status = vyre_bound_wait(kernel, 1000); break;
      case 7: status = vyre_bound_run(kernel, 1000); break;
      default: status = vyre_bound_run(kernel, UINT64_MAX);
    }
    bool is_run = i % 8 != 1 && i % 8 != 3 && i % 8 != 5;
    bool is_submitted = status == VYRE_BOUND_SUCCESS ? is_run || i % 8 == 1 : is_run && status == VYRE_BOUND_TIMED_OUT;
    if (is_submitted && kernel == &shared->taken[0].handle) atomic_fetch_add(&shared->submitted, 1);
    CHECK(vyre_bound_counts(kernel, counts, VYRE_COUNTER_COUNT + 1) == VYRE_COUNTER_COUNT && !counts[VYRE_COUNTER_COUNT]);
    atomic_fetch_add(&shared->calls, 1);
  }
  return (void *)(intptr_t)status;
}

void bound_kernels_run_until_the_device_is_lost_or_closed(bool is_lost) {
  app a;
  tensor from, to;
  transfer part = {0};
  handles shared = {.calls = 0};
  pthread_t threads[THREADS];
  open_app(&a, is_lost ? 0 : 1000, 1 << 20);
  CHECK(make_tensor(&a, &from) && make_tensor(&a, &to) && vyre_use_init(&shared.use));
  const vyre_region region = {from.buffer, 0, to.buffer, 1, 9, 0};
  submit_part(&a, &part, &region, 1);
  while (vyre_finish(a.face, &part.fence, 1000000) == VK_TIMEOUT) continue;
  uint64_t before = mock_submissions(a.device);
  memset(from.bytes, 0x3C, 9);
  CHECK(vyre_taken_init(&shared.taken[0], a.face, &shared.use, part.commands, NULL));
  CHECK(vyre_taken_init(&shared.taken[1], a.face, &shared.use, NULL, NULL));
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, call_until_refused, &shared) == 0);
  while (atomic_load(&shared.calls) < rounds) sched_yield();
  if (is_lost) mock_lose(a.device);
  if (!is_lost) vyre_use_close(&shared.use);
  for (int i = 0; i < THREADS; i++) {
    void *status;
    CHECK(pthread_join(threads[i], &status) == 0);
    CHECK((intptr_t)status == (is_lost ? VYRE_BOUND_DEVICE_LOST : VYRE_BOUND_CLOSED));
  }
  vyre_use_close(&shared.use);
  while (!vyre_use_wait(&shared.use, 1000000)) continue;
  CHECK(vyre_bound_run(&shared.taken[0].handle, 0) == VYRE_BOUND_CLOSED);
  if (is_lost) vyre_taken_end(&shared.taken[0]);
  (void)vyre_wait_idle(a.face);
  uint64_t submitted = mock_submissions(a.device) - before, told = atomic_load(&shared.submitted);
  CHECK(submitted >= told && submitted <= told + (is_lost ? THREADS : 0)); /* a run on a device that is lost may be of either */
  if (!is_lost) CHECK(to.bytes[0] == 0 && are_all(to.bytes + 1, 9, 0x3C) && to.bytes[10] == 0);
  drop_tensor(&a, &from);
  drop_tensor(&a, &to);
  (void)vyre_wait_idle(a.face);
  a.DestroyDevice(a.device, NULL);
  close_instance(&a);
  if (!is_lost) vyre_taken_end(&shared.taken[0]);
  vyre_taken_end(&shared.taken[1]);
  vyre_use_destroy(&shared.use);
  vyre_drop_transfer(a.face, part.commands);
  vyre_release(a.face);
  pthread_mutex_destroy(&a.lock);
}
