/* Instances and devices that come and go, are many, or are refused. */
#include "harness.h"

#define DEVICES_OF_A_THREAD 17 /* 136 in all: past twice what a table begins with */

static void *open_and_close(void *argument) {
  (void)argument;
  for (uint64_t i = 0; i < rounds / 20 + 1; i++) {
    app a, other;
    open_app(&a, 0, 0);
    open_app(&other, 1000, 1 << 20);
    for (uint64_t j = 0; j < 8; j++) run_once(j % 2 ? &a : &other, j);
    end_mailbox(&a);
    end_mailbox(&other);
    close_app(&a);
    close_app(&other);
  }
  return NULL;
}

void devices_of_their_own_come_and_go(void) { on_threads(open_and_close, NULL); }

typedef struct share {
  app *first;
  int count;
} share;

/* A thread's share of the devices: opened beside those of the others, used in turn, some closed and opened again meanwhile. */
static void *use_share(void *argument) {
  share *mine = argument;
  for (int i = 0; i < mine->count; i++) open_app(&mine->first[i], i % 2 ? 1000 : 0, 64 * 1024);
  for (uint64_t round = 0; round < rounds / 250 + 2; round++) {
    for (int i = 0; i < mine->count; i++) {
      run_once(&mine->first[i], round * 3 + (uint64_t)i);
      if ((round + (uint64_t)i) % 5) continue;
      end_mailbox(&mine->first[i]);
      close_app(&mine->first[i]);
      open_app(&mine->first[i], 0, 64 * 1024);
    }
  }
  return NULL;
}

void hundreds_of_devices_are_open_at_once(void) {
  static app all[THREADS * DEVICES_OF_A_THREAD];
  share shares[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    shares[i] = (share){&all[i * DEVICES_OF_A_THREAD], DEVICES_OF_A_THREAD};
    CHECK(pthread_create(&threads[i], NULL, use_share, &shares[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < THREADS * DEVICES_OF_A_THREAD; i++) {
    end_mailbox(&all[i]);
    close_app(&all[i]);
  }
}

/* What the driver below refuses leaves nothing behind, and takes no room from what it makes later. */
void instances_not_ours_pass_and_refused_ones_leave_nothing(void) {
  static app a[300];
  app refused = {0};
  for (int i = 0; i < 300; i++) {
    mock_refuse(true);
    CHECK(open_instance(&refused) == VK_ERROR_OUT_OF_HOST_MEMORY && !refused.instance);
    mock_refuse(false);
    CHECK(open_instance(&a[i]) == VK_SUCCESS);
  }
  for (int i = 0; i < 300; i++) CHECK(OF_INSTANCE(&a[i], GetPhysicalDeviceProperties));
  for (int i = 0; i < 300; i++) close_instance(&a[i]);
}

void refused_devices_leave_nothing(void) {
  for (int i = 0; i < 300; i++) {
    app a = {0};
    VkPhysicalDevice physical = open_armed_instance(&a, 0, 0);
    mock_refuse(true);
    VkResult result = open_device(&a, physical);
    mock_refuse(false);
    CHECK(result == VK_ERROR_OUT_OF_HOST_MEMORY);
    CHECK(vyre_disarm() == NULL);
    close_instance(&a);
    pthread_mutex_destroy(&a.lock);
  }
}
