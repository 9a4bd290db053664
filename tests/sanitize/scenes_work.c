/* Work on one device: by many threads, with failures, on a lost device, and while it is closed. */
#include "harness.h"

static void *run_many(void *argument) {
  for (uint64_t i = 0; i < rounds; i++) run_once(argument, i);
  return NULL;
}

void many_threads_on_one_device(void) {
  app a;
  open_app(&a, 1000, 64 * 1024);
  on_threads(run_many, &a);
  end_mailbox(&a);
  close_app(&a);
}

void layouts_that_are_prepared_are_those_that_kompute_gets(void) {
  app a;
  open_app(&a, 0, 0);
  VkDescriptorSetLayoutBinding bindings[2] = {
      {0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL},
      {1, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL}};
  VkDescriptorSetLayoutCreateInfo set_info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = 2, .pBindings = bindings};
  VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 12};
  VkDescriptorSetLayout set;
  VkPipelineLayoutCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1, .pSetLayouts = &set,
      .pPushConstantRanges = &push};
  VkPipelineLayout made;
  int64_t before = mock_objects();
  for (uint32_t ranges = 0; ranges <= 1; ranges++) {
    vyre_prepare_layout(a.face, 2, ranges ? push.size : 0);
    CHECK(mock_objects() == before + 2 + ranges); /* both need one layout of sets */
    info.pushConstantRangeCount = ranges;
    CHECK(a.CreateDescriptorSetLayout(a.device, &set_info, NULL, &set) == VK_SUCCESS);
    CHECK(a.CreatePipelineLayout(a.device, &info, NULL, &made) == VK_SUCCESS);
    CHECK(mock_objects() == before + 2 + ranges);
    a.DestroyPipelineLayout(a.device, made, NULL);
    a.DestroyDescriptorSetLayout(a.device, set, NULL);
  }
  vyre_prepare_layout(a.face, 257, 0); /* more than are described on the stack */
  CHECK(mock_objects() == before + 3);
  close_app(&a);
}

static void *fail_often(void *argument) {
  for (uint64_t i = 0; i < rounds; i++) {
    vyre_inject((int)(i % (VYRE_CALL_COUNT - 1)) + 1, i % 5 + 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    run_once(argument, i);
  }
  return NULL;
}

void failures_are_injected(void) {
  app a;
  open_app(&a, 0, 64 * 1024);
  a.may_fail = true;
  on_threads(fail_often, &a);
  for (int call = 1; call < VYRE_CALL_COUNT; call++) vyre_inject(call, 0, 0);
  end_mailbox(&a);
  close_app(&a);
}

static void *lose_midway(void *argument) {
  app *a = argument;
  for (uint64_t i = 0; i < rounds; i++) {
    if (i == rounds / 2) mock_lose(a->device);
    run_once(a, i);
  }
  return NULL;
}

void device_is_lost(void) {
  app a;
  open_app(&a, 1000, 64 * 1024);
  a.may_fail = true;
  on_threads(lose_midway, &a);
  CHECK(vyre_is_lost(a.face));
  end_mailbox(&a);
  close_app(&a);
}

typedef struct leftover {
  app *a;
  sequence *work;
  transfer *part;
} leftover;

static void *drop_late(void *argument) {
  leftover *left = argument;
  vyre_give_fence_back(left->a->face, left->part->fence);
  vyre_drop_transfer(left->a->face, left->part->commands);
  vyre_give_fence_back(left->a->face, left->work->fence);
  return NULL;
}

static void *let_go(void *argument) {
  mock_hold(argument, false);
  return NULL;
}

/* kompute's Manager frees command buffers, then the device; Python drops its work before, meanwhile, or after. */
void closed_with_work_running(void) {
  for (uint64_t i = 0; i < rounds / 10 + 3; i++) {
    app a;
    tensor from, to;
    sequence work[3];
    pthread_t dropping, releasing;
    open_app(&a, 0, 1 << 20);
    CHECK(make_tensor(&a, &from) && make_tensor(&a, &to));
    mock_hold(a.device, true);
    for (int j = 0; j < 3; j++) {
      record_sequence(&a, &work[j], &from, &to);
      eval_sequence(&a, &work[j], true);
    }
    transfer parts[20] = {0}; /* more than are kept idle */
    const vyre_region region = {from.buffer, 0, to.buffer, 1, 9, 0};
    for (int j = 0; j < 20; j++) submit_part(&a, &parts[j], &region, 1);
    CHECK(!finish_sequence(&a, &work[0], 2));
    leftover left = {&a, &work[1], &parts[0]};
    CHECK(pthread_create(&releasing, NULL, let_go, a.device) == 0);
    CHECK(pthread_create(&dropping, NULL, drop_late, &left) == 0);
    pthread_join(releasing, NULL);
    for (int j = 0; j < 3; j++) drop_sequence(&a, &work[j]);
    for (int j = 2; j < 20; j++) end_part(&a, &parts[j], 1);
    drop_tensor(&a, &from);
    drop_tensor(&a, &to);
    a.DestroyDevice(a.device, NULL);
    close_instance(&a);
    pthread_join(dropping, NULL);
    vyre_give_fence_back(a.face, work[2].fence);
    vyre_give_fence_back(a.face, parts[1].fence);
    vyre_drop_transfer(a.face, parts[1].commands);
    transfer late = {0};
    CHECK(vyre_transfer(a.face, &region, 1, false, &late.commands, &late.fence) == VK_ERROR_DEVICE_LOST && !late.commands);
    CHECK(vyre_wait_fence(a.face, work[2].fence, 0) == VK_ERROR_DEVICE_LOST);
    vyre_release(a.face);
    pthread_mutex_destroy(&a.lock);
  }
}
