/* Plays the Vulkan loader, kompute and Python above the layer, from many threads, with the mock driver below.

   Usage: harness ROUNDS. Ends with status 0 and "done", or aborts; the sanitizer that it was built with watches. */
#include "harness.h"

VkResult vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *version);

/* The layer lets the GIL go in a blocking wait; there is no Python here. */
int Py_IsInitialized(void) { return 0; }
int PyGILState_Check(void) { return 0; }
void *PyEval_SaveThread(void) { return NULL; }
void PyEval_RestoreThread(void *state) { (void)state; }

VkNegotiateLayerInterface layer;
uint64_t rounds;

void on_threads(void *(*run)(void *), void *argument) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, run, argument) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv) {
  layer.sType = LAYER_NEGOTIATE_INTERFACE_STRUCT;
  layer.loaderLayerInterfaceVersion = 2;
  CHECK(argc == 2 && vkNegotiateLoaderLayerInterfaceVersion(&layer) == VK_SUCCESS);
  CHECK(setenv("VK_LAYER_PATH", "/theirs", 1) == 0 && unsetenv("VK_INSTANCE_LAYERS") == 0);
  rounds = strtoull(argv[1], NULL, 10);
  long_arrays_are_copied_side_by_side();
  many_threads_on_one_device();
  layouts_that_are_prepared_are_those_that_kompute_gets();
  devices_of_their_own_come_and_go();
  failures_are_injected();
  device_is_lost();
  closed_with_work_running();
  bound_kernels_run_until_the_device_is_lost_or_closed(false);
  bound_kernels_run_until_the_device_is_lost_or_closed(true);
  hundreds_of_devices_are_open_at_once();
  instances_not_ours_pass_and_refused_ones_leave_nothing();
  refused_devices_leave_nothing();
  pages_are_zeros_and_go_whole();
  pages_are_copied_while_others_come_and_go();
  pages_without_memory_to_know_them_leave_nothing();
  pages_that_cannot_be_pinned_leave_nothing();
  failures_are_injected_into_pinning();
  device_is_lost_with_pages_pinned();
  device_is_closed_while_pages_are_pinned();
  pages_are_unpinned_in_the_middle_of_closing();
  bound_kernels_give_what_they_ran_until_they_are_closed();
  bound_kernels_that_fail_run_again();
  bound_kernels_are_dropped_while_they_run();
  bound_kernels_are_refused_in_a_forked_child();
  exported_memory_is_seen_and_outlives_its_device();
  exports_that_fail_leave_nothing();
  device_is_lost_with_memory_exported();
  arrays_are_moved_by_eight_movers();
  device_is_lost_while_arrays_are_moved();
  buffers_are_ranges_of_blocks();
  buffers_that_cannot_be_had_leave_nothing();
  buffers_that_are_left_go_with_their_device();
  launches_of_many_threads_end_in_order();
  launches_that_fail_leave_room_for_others();
  launches_end_with_a_device_that_is_lost();
  launches_that_nobody_waits_for_go_with_their_device();
  CHECK(mock_objects() == 0);
  CHECK(strcmp(getenv("VK_LAYER_PATH"), "/theirs") == 0 && !getenv("VK_INSTANCE_LAYERS"));
  puts("done");
  return 0;
}
