/* Bound kernels that C code runs, each with arrays of its own, so that what it gave can be compared. */
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pages.h"
#include "taken.h"

/* A kernel that copies between pinned pages. */
typedef struct kernel {
  pages from, to;
  transfer part;
  vyre_taken taken;
} kernel;

typedef struct stage {
  app a;
  vyre_use use;
  atomic_ullong runs, submissions;
} stage;

static void open_stage(stage *s) {
  memset(s, 0, sizeof *s);
  open_app(&s->a, 1000, 64 * 1024);
  CHECK(vyre_use_init(&s->use));
}

static void close_stage(stage *s) {
  CHECK(vyre_counter_value(s->a.face, VYRE_WORK_PENDING) == 0 && mock_imports() == 0);
  vyre_use_close(&s->use);
  CHECK(vyre_use_wait(&s->use, 0));
  vyre_use_destroy(&s->use);
  close_app(&s->a);
}

static void take(stage *s, kernel *k) {
  *k = (kernel){0};
  CHECK(pin(&s->a, MOCK_PAGE_BYTES, &k->from) == VK_SUCCESS && pin(&s->a, MOCK_PAGE_BYTES, &k->to) == VK_SUCCESS);
  const vyre_region region = {k->from.buffer, 0, k->to.buffer, 0, MOCK_PAGE_BYTES, 0};
  submit_part(&s->a, &k->part, &region, 1);
  while (vyre_finish(s->a.face, &k->part.fence, 1000000) == VK_TIMEOUT) continue;
  atomic_fetch_add(&s->submissions, 1);
  CHECK(vyre_taken_init(&k->taken, s->a.face, &s->use, k->part.commands, NULL));
}

static void drop(stage *s, kernel *k) {
  vyre_taken_end(&k->taken);
  vyre_drop_transfer(s->a.face, k->part.commands);
  unpin(&s->a, &k->from);
  unpin(&s->a, &k->to);
}

/* Runs it in one of the ways that there are; returns the last status. */
static vyre_bound_status run_kernel(vyre_bound_kernel *handle, uint64_t way) {
  vyre_bound_status status = way % 4 ? vyre_bound_submit(handle) : vyre_bound_run(handle, UINT64_MAX);
  if (status != VYRE_BOUND_SUCCESS || way % 4 == 0) return status;
  if (way % 4 == 1) return vyre_bound_wait(handle, UINT64_MAX);
  do {
    status = way % 4 == 2 ? vyre_bound_poll(handle) : vyre_bound_wait(handle, 0);
  } while (status == VYRE_BOUND_RUNNING || status == VYRE_BOUND_TIMED_OUT);
  return status;
}

static void *run_until_closed(void *argument) {
  stage *s = argument;
  kernel k;
  vyre_bound_status status;
  const vyre_failure earlier = {VYRE_CALL_MAP, VK_ERROR_MEMORY_MAP_FAILED, 77};
  take(s, &k);
  vyre_this_thread()->failure = earlier;
  uint64_t way = 0;
  do {
    memset(k.from.at, (int)(way % 251 + 1), MOCK_PAGE_BYTES);
    status = run_kernel(&k.taken.handle, way);
    if (status == VYRE_BOUND_SUCCESS) {
      CHECK(are_all(k.to.at, MOCK_PAGE_BYTES, (unsigned char)(way % 251 + 1)));
      atomic_fetch_add(&s->submissions, 1);
    }
    atomic_fetch_add(&s->runs, 1);
    way++;
  } while (status == VYRE_BOUND_SUCCESS);
  CHECK(status == VYRE_BOUND_CLOSED && !memcmp(&vyre_this_thread()->failure, &earlier, sizeof earlier));
  if (k.taken.fence) atomic_fetch_add(&s->submissions, 1); /* nobody could wait for it any more */
  CHECK(vyre_bound_submit(&k.taken.handle) == VYRE_BOUND_CLOSED);
  drop(s, &k);
  vyre_this_thread()->failure = (vyre_failure){0};
  return NULL;
}

static void *close_when_run(void *argument) {
  stage *s = argument;
  while (atomic_load(&s->runs) < rounds) sched_yield();
  vyre_use_close(&s->use);
  while (!vyre_use_wait(&s->use, 1000000)) continue;
  return NULL;
}

void bound_kernels_give_what_they_ran_until_they_are_closed(void) {
  stage s;
  pthread_t closing;
  open_stage(&s);
  CHECK(pthread_create(&closing, NULL, close_when_run, &s) == 0);
  on_threads(run_until_closed, &s);
  CHECK(pthread_join(closing, NULL) == 0);
  CHECK(mock_submissions(s.a.device) == atomic_load(&s.submissions));
  close_stage(&s);
}

/* A failure is told by the status, and the kernel runs again after it. */
void bound_kernels_that_fail_run_again(void) {
  static const int CALLS[] = {VYRE_CALL_SUBMIT, VYRE_CALL_WAIT};
  stage s;
  kernel k;
  open_stage(&s);
  take(&s, &k);
  for (uint64_t i = 0; i < 16; i++) {
    memset(k.from.at, (int)i + 1, MOCK_PAGE_BYTES);
    vyre_inject(CALLS[i / 4 % 2], 1, VK_ERROR_OUT_OF_HOST_MEMORY);
    CHECK(run_kernel(&k.taken.handle, i) == VYRE_BOUND_FAILED && vyre_this_thread()->failure.call == VYRE_CALL_NONE);
    CHECK((k.taken.fence != VK_NULL_HANDLE) == (i / 4 % 2)); /* a wait that failed leaves what it waited for */
    CHECK(vyre_bound_wait(&k.taken.handle, UINT64_MAX) == VYRE_BOUND_SUCCESS); /* else a submission may come too early */
    CHECK(run_kernel(&k.taken.handle, i) == VYRE_BOUND_SUCCESS && are_all(k.to.at, MOCK_PAGE_BYTES, (unsigned char)(i + 1)));
    CHECK(!k.taken.fence && vyre_counter_value(s.a.face, VYRE_WORK_PENDING) == 0);
  }
  drop(&s, &k);
  close_stage(&s);
}

static void *let_kernel_go(void *argument) {
  stage *s = argument;
  for (int i = 0; i < 100; i++) sched_yield();
  mock_hold(s->a.device, false);
  return NULL;
}

/* Work that does not end leaves each call at its time-out, and whoever drops the kernel waits for it. */
void bound_kernels_are_dropped_while_they_run(void) {
  for (uint64_t i = 0; i < rounds / 10 + 2; i++) {
    stage s;
    kernel k;
    pthread_t releasing;
    open_stage(&s);
    take(&s, &k);
    memset(k.from.at, 9, MOCK_PAGE_BYTES);
    mock_hold(s.a.device, true);
    uint64_t before = mock_submissions(s.a.device);
    CHECK(i % 2 ? vyre_bound_submit(&k.taken.handle) == VYRE_BOUND_SUCCESS
                : vyre_bound_run(&k.taken.handle, 1000) == VYRE_BOUND_TIMED_OUT);
    CHECK(vyre_bound_poll(&k.taken.handle) == VYRE_BOUND_RUNNING && vyre_bound_submit(&k.taken.handle) == VYRE_BOUND_RUNNING);
    CHECK(vyre_bound_wait(&k.taken.handle, 1000) == VYRE_BOUND_TIMED_OUT);
    CHECK(vyre_bound_run(&k.taken.handle, 1000) == VYRE_BOUND_RUNNING);
    CHECK(mock_submissions(s.a.device) == before + 1 && are_all(k.to.at, MOCK_PAGE_BYTES, 0));
    CHECK(pthread_create(&releasing, NULL, let_kernel_go, &s) == 0);
    vyre_taken_end(&k.taken);
    CHECK(are_all(k.to.at, MOCK_PAGE_BYTES, 9) && vyre_counter_value(s.a.face, VYRE_WORK_PENDING) == 0);
    CHECK(pthread_join(releasing, NULL) == 0);
    vyre_drop_transfer(s.a.face, k.part.commands);
    unpin(&s.a, &k.from);
    unpin(&s.a, &k.to);
    close_stage(&s);
  }
}

/* The device is the parent's: the child's calls say so, and dropping the kernel leaves it alone. */
void bound_kernels_are_refused_in_a_forked_child(void) {
  stage s;
  kernel k;
  int status = -1;
  open_stage(&s);
  take(&s, &k);
  mock_hold(s.a.device, true);
  CHECK(vyre_bound_submit(&k.taken.handle) == VYRE_BOUND_SUCCESS);
  pid_t child = fork();
  if (child == 0) {
    alarm(30); /* who waits for the parent's work here waits for ever */
    bool is_refused = vyre_bound_run(&k.taken.handle, 0) == VYRE_BOUND_FORKED;
    is_refused = is_refused && vyre_bound_poll(&k.taken.handle) == VYRE_BOUND_FORKED;
    vyre_taken_end(&k.taken);
    _exit(is_refused && k.taken.fence ? 7 : 8);
  }
  mock_hold(s.a.device, false);
  CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
  CHECK(vyre_bound_run(&k.taken.handle, UINT64_MAX) == VYRE_BOUND_SUCCESS);
  drop(&s, &k);
  close_stage(&s);
}
