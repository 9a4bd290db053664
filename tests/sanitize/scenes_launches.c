/* Launches that are recorded as they come: by many threads, beside other work, with failures, and on a device that ends. */
#include "harness.h"

#define BLOCK_BYTES (1 << 20)
#define PARTS 2
#define WAITS_FOR 7 /* one launch of so many */

typedef struct launcher {
  app *a;
  vyre_bound bound;
  tensor from, to;
} launcher;

/* A pipeline that is shared, kept as Python keeps it. */
static vyre_bound make_bound(app *a) {
  const uint32_t code[4] = {0x07230203, 77, 78, 79};
  VkShaderModuleCreateInfo shader = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = sizeof code, .pCode = code};
  VkDescriptorSetLayoutBinding bindings[PARTS] = {
      {0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL},
      {1, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL}};
  VkDescriptorSetLayoutCreateInfo set = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = PARTS, .pBindings = bindings};
  VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 8};
  VkDescriptorSetLayout made_set;
  VkPipelineLayoutCreateInfo layout = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1, .pSetLayouts = &made_set,
      .pushConstantRangeCount = 1, .pPushConstantRanges = &range};
  VkComputePipelineCreateInfo pipeline = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  VkShaderModule made_shader;
  VkPipelineLayout made_layout;
  VkPipeline made;
  vyre_bound kept;
  CHECK(a->CreateShaderModule(a->device, &shader, NULL, &made_shader) == VK_SUCCESS);
  CHECK(a->CreateDescriptorSetLayout(a->device, &set, NULL, &made_set) == VK_SUCCESS);
  CHECK(a->CreatePipelineLayout(a->device, &layout, NULL, &made_layout) == VK_SUCCESS);
  pipeline.stage = (VkPipelineShaderStageCreateInfo){
      .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .module = made_shader, .pName = "main"};
  pipeline.layout = made_layout;
  CHECK(a->CreateComputePipelines(a->device, VK_NULL_HANDLE, 1, &pipeline, NULL, &made) == VK_SUCCESS);
  vyre_bound bound = {.pipeline = made, .layout = made_layout, .set_layout = made_set};
  CHECK(vyre_keep_bound(a->face, &bound, &kept));
  a->DestroyPipeline(a->device, made, NULL);
  a->DestroyPipelineLayout(a->device, made_layout, NULL);
  a->DestroyDescriptorSetLayout(a->device, made_set, NULL);
  a->DestroyShaderModule(a->device, made_shader, NULL);
  return kept;
}

/* Records a launch on two buffers, as Python does; 0: it could not be. */
static uint64_t launch(const launcher *l, const vyre_range_of parts[PARTS]) {
  static const uint32_t words[2] = {1, 2};
  vyre_launch what = {
      .bound = &l->bound, .parts = parts, .part_count = PARTS, .written = 2, .push = words, .push_bytes = sizeof words,
      .groups = {1, 1, 1}, .shows_host = true};
  uint64_t number;
  VkResult result;
  while ((result = vyre_record_launch(l->a->face, &what, &number)) == VK_NOT_READY) {
    CHECK(vyre_wait_for_launch(l->a->face, number, 100000) >= 0 || l->a->may_fail);
    if (vyre_is_lost(l->a->face)) return 0;
  }
  CHECK((result == VK_SUCCESS && number) || l->a->may_fail);
  vyre_this_thread()->failure.call = VYRE_CALL_NONE;
  return result == VK_SUCCESS ? number : 0;
}

static void wait_for(const launcher *l, uint64_t number) {
  VkResult result;
  while ((result = vyre_wait_for_launch(l->a->face, number, 100000)) == VK_TIMEOUT) continue;
  CHECK((result == VK_SUCCESS && vyre_has_launch_ended(l->a->face, number)) || l->a->may_fail);
  vyre_this_thread()->failure.call = VYRE_CALL_NONE;
}

/* Buffers of a block, let go of as soon as their launch is recorded; the same ones again; and other work in between. */
static void *launch_many(void *argument) {
  const launcher *l = argument;
  app *a = l->a;
  for (uint64_t i = 0; i < rounds; i++) {
    vyre_allocation taken[PARTS] = {{0}};
    bool is_whole = true;
    for (int k = 0; k < PARTS; k++) {
      is_whole = vyre_allocate(a->face, VYRE_ARENA_STORAGE, 256, false, &taken[k]) == VK_SUCCESS && is_whole;
    }
    vyre_this_thread()->failure.call = VYRE_CALL_NONE;
    vyre_range_of parts[PARTS] = {
        {is_whole ? taken[0].buffer : l->from.buffer, {0, 256}}, {is_whole ? taken[1].buffer : l->to.buffer, {0, 256}}};
    uint64_t number = launch(l, parts);
    for (int k = 0; k < PARTS; k++) {
      taken[k].launch = is_whole ? number : 0;
      (void)vyre_free(a->face, VYRE_ARENA_STORAGE, &taken[k]);
    }
    if (i % WAITS_FOR == 0 && number) wait_for(l, number);
    if (i % 31 == 0) {
      transfer part = {0};
      const vyre_region region = {l->from.buffer, 0, l->to.buffer, 512, 9, 0};
      submit_part(a, &part, &region, 1);
      CHECK(vyre_has_launch_ended(a->face, 0) && (a->may_fail || vyre_last_launch(a->face) >= number));
      end_part(a, &part, 1);
    }
  }
  return NULL;
}

static void open_launcher(launcher *l, app *a) {
  open_app(a, 1000, BLOCK_BYTES);
  *l = (launcher){.a = a};
  CHECK(make_tensor(a, &l->from) && make_tensor(a, &l->to));
  l->bound = make_bound(a);
}

static void close_launcher(launcher *l, uint64_t number) {
  vyre_drop_bound(l->a->face, &l->bound, number);
  CHECK(vyre_wait_idle(l->a->face) == VK_SUCCESS || l->a->may_fail);
  drop_tensor(l->a, &l->from);
  drop_tensor(l->a, &l->to);
  close_app(l->a);
}

void launches_of_many_threads_end_in_order(void) {
  app a;
  launcher l;
  made_block block;
  open_launcher(&l, &a);
  CHECK(add_block(&a, BLOCK_BYTES, VYRE_SHORT, &block));
  on_threads(launch_many, &l);
  uint64_t last = vyre_last_launch(a.face);
  wait_for(&l, last);
  vyre_arena_facts facts;
  vyre_arena_facts_of(a.face, VYRE_ARENA_STORAGE, &facts);
  CHECK(last == rounds * THREADS && facts.used == 0);
  CHECK(vyre_take_surplus(a.face, VYRE_ARENA_STORAGE, true) == block.name);
  drop_tensor(&a, &block.tensor);
  close_launcher(&l, last);
}

static void *launch_and_fail(void *argument) {
  const launcher *l = argument;
  const vyre_range_of parts[PARTS] = {{l->from.buffer, {0, 64}}, {l->to.buffer, {64, 64}}};
  for (uint64_t i = 0; i < rounds; i++) {
    vyre_inject(i % 2 ? VYRE_CALL_SUBMIT : VYRE_CALL_WAIT, i % 5 + 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    uint64_t number = launch(l, parts);
    if (number) wait_for(l, number);
  }
  return NULL;
}

void launches_that_fail_leave_room_for_others(void) {
  app a;
  launcher l;
  open_launcher(&l, &a);
  a.may_fail = true;
  on_threads(launch_and_fail, &l);
  for (int call = 1; call < VYRE_CALL_COUNT; call++) vyre_inject(call, 0, 0);
  const vyre_range_of parts[PARTS] = {{l.from.buffer, {0, 64}}, {l.to.buffer, {64, 64}}};
  uint64_t number = launch(&l, parts);
  CHECK(number && vyre_wait_for_launch(a.face, number, UINT64_MAX) == VK_SUCCESS);
  close_launcher(&l, number);
}

static void *launch_until_lost(void *argument) {
  const launcher *l = argument;
  const vyre_range_of parts[PARTS] = {{l->from.buffer, {0, 64}}, {l->to.buffer, {0, 64}}};
  for (uint64_t i = 0; i < rounds; i++) {
    if (i == rounds / 2) mock_lose(l->a->device);
    uint64_t number = launch(l, parts);
    if (number && i % 3) wait_for(l, number);
  }
  return NULL;
}

void launches_end_with_a_device_that_is_lost(void) {
  app a;
  launcher l;
  open_launcher(&l, &a);
  a.may_fail = true;
  on_threads(launch_until_lost, &l);
  CHECK(vyre_is_lost(a.face));
  close_launcher(&l, vyre_last_launch(a.face));
}

void launches_that_nobody_waits_for_go_with_their_device(void) {
  for (uint64_t i = 0; i < rounds / 10 + 3; i++) {
    app a;
    launcher l;
    uint64_t number = 0;
    open_launcher(&l, &a);
    const vyre_range_of parts[PARTS] = {{l.from.buffer, {0, 64}}, {l.to.buffer, {0, 64}}};
    for (uint64_t k = 0; k < i % 150 + 1; k++) number = launch(&l, parts);
    close_launcher(&l, number);
  }
}
