/* Pages that are pinned when their device goes. */
#include <sched.h>
#include <unistd.h>

#include "pages.h"

/* An app that one thread closes while others have its pages. */
typedef struct closing {
  app a;
  atomic_ullong pinned;
  atomic_bool is_told; /* the holder knows that the device is going */
  pages held;
} closing;

static void destroy(app *a) {
  a->DestroyDevice(a->device, NULL);
  close_instance(a);
}

static void end(app *a) {
  vyre_release(a->face);
  pthread_mutex_destroy(&a->lock);
}

/* Two of them, so that no tensor has to stay. */
static void *pin_until_closed(void *argument) {
  closing *c = argument;
  VkResult result = VK_SUCCESS;
  for (uint64_t i = 0; result == VK_SUCCESS; i++) {
    pages from, to;
    transfer part = {0};
    result = pin(&c->a, MOCK_PAGE_BYTES, &from);
    VkResult second = pin(&c->a, 2 * MOCK_PAGE_BYTES, &to);
    CHECK((result == VK_SUCCESS || result == VK_ERROR_DEVICE_LOST) && (second == VK_SUCCESS || second == VK_ERROR_DEVICE_LOST));
    CHECK(result == VK_SUCCESS || second == VK_ERROR_DEVICE_LOST); /* it is closed for good */
    memset(from.at, (int)(i % 200 + 1), MOCK_PAGE_BYTES);
    const vyre_region region = {from.buffer, 0, to.buffer, MOCK_PAGE_BYTES, MOCK_PAGE_BYTES, 0};
    if (second == VK_SUCCESS) (void)vyre_transfer(c->a.face, &region, 1, false, &part.commands, &part.fence);
    if (part.fence && i % 3) {
      while ((second = vyre_wait_fence(c->a.face, part.fence, 100000)) == VK_TIMEOUT) continue;
      CHECK(second == VK_ERROR_DEVICE_LOST || are_all(to.at + MOCK_PAGE_BYTES, MOCK_PAGE_BYTES, (unsigned char)(i % 200 + 1)));
    }
    if (part.fence) vyre_give_fence_back(c->a.face, part.fence);
    vyre_drop_transfer(c->a.face, part.commands);
    atomic_fetch_add(&c->pinned, 1);
    if (i % 2) unpin(&c->a, &from);
    unpin(&c->a, &to);
    if (from.at) unpin(&c->a, &from);
    usleep(200); /* the lock that closing waits for prefers those who use the device */
  }
  return NULL;
}

void device_is_closed_while_pages_are_pinned(void) {
  for (uint64_t i = 0; i < rounds / 10 + 3; i++) {
    closing c = {.pinned = 0};
    pthread_t threads[THREADS];
    pages left;
    open_app(&c.a, i % 2 ? 1000 : 0, 1 << 20);
    CHECK(pin(&c.a, MOCK_PAGE_BYTES, &left) == VK_SUCCESS);
    for (int j = 0; j < THREADS; j++) CHECK(pthread_create(&threads[j], NULL, pin_until_closed, &c) == 0);
    while (atomic_load(&c.pinned) < 8 + i % 16) sched_yield();
    destroy(&c.a);
    CHECK(mock_imports() == 0);
    for (int j = 0; j < THREADS; j++) CHECK(pthread_join(threads[j], NULL) == 0);
    memset(left.at, 1, left.bytes); /* they outlive the device */
    unpin(&c.a, &left);
    end(&c.a);
  }
}

static void *unpin_in_the_middle(void *argument) {
  closing *c = argument;
  while (vyre_is_alive(c->a.face)) sched_yield();
  atomic_store(&c->is_told, true);
  vyre_drop_import(c->a.face, c->held.buffer);
  /* From here on they are the holder's: to read, and to unmap. */
  CHECK(mock_imports() == 0 && are_all(c->held.at, c->held.bytes, 5));
  c->held.buffer = VK_NULL_HANDLE;
  unpin(&c->a, &c->held);
  return NULL;
}

static void *let_go_once_told(void *argument) {
  closing *c = argument;
  while (!atomic_load(&c->is_told)) sched_yield();
  for (int i = 0; i < 100; i++) sched_yield(); /* for who does not wait to be seen */
  mock_hold(c->a.device, false);
  return NULL;
}

/* The device is going and waits for a copy into them: they are not free before that has ended. */
void pages_are_unpinned_in_the_middle_of_closing(void) {
  for (uint64_t i = 0; i < rounds / 10 + 3; i++) {
    closing c = {.pinned = 0};
    pthread_t unpinning, releasing;
    transfer part = {0};
    open_app(&c.a, 0, 1 << 20);
    CHECK(pin(&c.a, 2 * MOCK_PAGE_BYTES, &c.held) == VK_SUCCESS);
    memset(c.held.at, 5, MOCK_PAGE_BYTES);
    mock_hold(c.a.device, true);
    const vyre_region region = {c.held.buffer, 0, c.held.buffer, MOCK_PAGE_BYTES, MOCK_PAGE_BYTES, 0};
    submit_part(&c.a, &part, &region, 1);
    CHECK(pthread_create(&unpinning, NULL, unpin_in_the_middle, &c) == 0);
    CHECK(pthread_create(&releasing, NULL, let_go_once_told, &c) == 0);
    destroy(&c.a);
    pthread_join(unpinning, NULL);
    pthread_join(releasing, NULL);
    end(&c.a);
  }
}
