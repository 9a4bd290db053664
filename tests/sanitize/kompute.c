/* Tensors, algorithms and sequences, as kompute makes them, and transfers of our own. */
#include "harness.h"
#include "statistics.h"

bool make_tensor(app *a, tensor *t) {
  VkBufferCreateInfo buffer = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = 4, .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
  VkMemoryAllocateInfo memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  VkMemoryRequirements needs;
  void *bytes = NULL;
  memset(t, 0, sizeof *t);
  vyre_watch();
  vyre_this_thread()->buffer_bytes = BUFFER_BYTES;
  vyre_this_thread()->mapped = NULL;
  (void)a->CreateBuffer(a->device, &buffer, NULL, &t->buffer);
  vyre_this_thread()->buffer_bytes = 0;
  a->GetBufferMemoryRequirements(a->device, t->buffer, &needs);
  memory.allocationSize = needs.size;
  (void)a->AllocateMemory(a->device, &memory, NULL, &t->memory);
  (void)a->BindBufferMemory(a->device, t->buffer, t->memory, 0);
  VkResult mapped = a->MapMemory(a->device, t->memory, 0, 4, 0, &bytes);
  t->bytes = bytes;
  bool whole = vyre_this_thread()->failure.call == VYRE_CALL_NONE;
  CHECK(whole == (t->buffer && t->memory && mapped == VK_SUCCESS) || a->may_fail);
  whole = whole && mapped == VK_SUCCESS;
  if (!whole) {
    vyre_destroy_watched(a->face);
    memset(t, 0, sizeof *t);
  }
  vyre_this_thread()->watched = false;
  return whole;
}

void drop_tensor(app *a, tensor *t) {
  if (t->bytes) a->UnmapMemory(a->device, t->memory);
  if (t->buffer) a->DestroyBuffer(a->device, t->buffer, NULL);
  a->FreeMemory(a->device, t->memory, NULL);
}

/* As a bound kernel runs from Python: in one part where another thread is in the way of the first. */
static void run_in_parts(app *a, VkCommandBuffer commands) {
  VkFence fence = VK_NULL_HANDLE;
  VkResult result = VK_SUCCESS;
  if (!vyre_begin_run(a->face, commands, &fence, &result)) {
    result = vyre_run_commands(a->face, commands, 100000, &fence);
  } else if (result == VK_SUCCESS) {
    result = vyre_end_run(a->face, 100000, &fence);
  }
  CHECK(result == VK_SUCCESS ? !fence : fence || a->may_fail);
  while (fence && (result = vyre_finish(a->face, &fence, 100000)) == VK_TIMEOUT) continue;
  if (fence) vyre_give_fence_back(a->face, fence);
}

/* A dispatch of the layer's own, of the pipeline that this thread made last; with copies beside it or without. */
static void dispatch_twice(app *a, uint32_t kind, const tensor *bound) {
  static const uint32_t pushed[3] = {1, 2, 3};
  const vyre_region copies[] = {{bound->buffer, 0, bound->buffer, 512, 64, 0}, {bound->buffer, 512, bound->buffer, 0, 64, 0}};
  vyre_dispatch what = {
      .bound = vyre_this_thread()->bound, .groups = {1, 2, 3}, .push = pushed, .push_bytes = kind & 1 ? sizeof pushed : 0};
  if (kind % 4 == 2) what.copies = (vyre_copies){copies, 1, copies + 1, 1};
  VkCommandBuffer commands = NULL;
  vyre_bound kept, other = {0};
  CHECK(vyre_keep_bound(a->face, &what.bound, &kept));
  const vyre_range_of part = {bound->buffer, {0, BUFFER_BYTES / 2}}, past = {bound->buffer, {8, UINT64_MAX}};
  CHECK(vyre_part_fits(a->face, &part) && !vyre_part_fits(a->face, &past));
  VkResult result = vyre_bind_buffers(a->face, &kept, &part, 1, &other);
  CHECK((result == VK_SUCCESS) == (other.set != VK_NULL_HANDLE) && (other.set || a->may_fail));
  vyre_drop_bound(a->face, &kept, 0);
  if (!other.set) return;
  if (kind % 3) what.bound = other;
  result = vyre_record_dispatch(a->face, &what, kind % 2, &commands);
  CHECK((result == VK_SUCCESS) == (commands != NULL) && (commands || a->may_fail));
  for (int turn = 0; turn < 2 && commands; turn++) {
    VkFence fence = VK_NULL_HANDLE;
    CHECK(vyre_enter(a->face));
    result = vyre_submit_commands(a->face, commands, &fence);
    vyre_leave(a->face);
    CHECK((result == VK_SUCCESS) == (fence != VK_NULL_HANDLE) && (fence || a->may_fail));
    while (fence && vyre_wait_fence(a->face, fence, 100000) == VK_TIMEOUT) continue;
    if (fence) vyre_give_fence_back(a->face, fence);
  }
  if (commands) run_in_parts(a, commands);
  vyre_drop_transfer(a->face, commands);
  vyre_drop_bound(a->face, &other, 0);
}

/* What the driver tells, all of it or nothing; and what it fails to tell is left out. */
static void read_statistics(app *a, const vyre_bound *bound) {
  static const char *const FAILING[] = {NULL, "vkGetPipelineExecutablePropertiesKHR", "vkGetPipelineExecutableStatisticsKHR"};
  for (uint32_t i = 0; i < 3; i++) {
    vyre_executable *found;
    bool captures = a->face->captures_statistics;
    if (captures) mock_fail(FAILING[i], VK_ERROR_OUT_OF_HOST_MEMORY);
    uint32_t count = vyre_read_executables(a->face, bound, &found);
    CHECK(count == (captures && i != 1 ? 2 : 0) && (count != 0) == (found != NULL));
    if (count) {
      CHECK(found[0].properties.subgroupSize == 32 && found[0].statistic_count == (i == 2 ? 0 : 3) && !found[1].statistics);
      CHECK(i == 2 || found[0].statistics[2].value.u64 == 2);
    }
    vyre_free_executables(found, count);
  }
}

/* One kompute algorithm: an entry's blob goes in, the new one comes out. Refused, it forgets all that it has made. */
void make_and_drop_pipeline(app *a, uint32_t kind, const tensor *bound) {
  static const char saved[64] = "blob";
  const uint32_t code[4] = {0x07230203, kind, kind * 3, kind * 5};
  VkShaderModuleCreateInfo shader = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = sizeof code, .pCode = code};
  VkDescriptorSetLayoutBinding binding = {0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL};
  VkDescriptorSetLayoutCreateInfo set = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = 1, .pBindings = &binding};
  VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 4};
  VkPipelineLayoutCreateInfo layout = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1, .pushConstantRangeCount = kind & 1};
  VkPipelineCacheCreateInfo cache = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  VkComputePipelineCreateInfo pipeline = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  VkShaderModule made_shader;
  VkDescriptorSetLayout made_set;
  VkPipelineLayout made_layout;
  VkPipelineCache made_cache;
  VkPipeline made;
  vyre_thread *thread = vyre_this_thread();
  layout.pPushConstantRanges = &range;
  if (kind % 2) vyre_prepare_layout(a->face, 1, 4);
  vyre_watch();
  VkDescriptorPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = 1};
  VkDescriptorPool made_pool;
  CHECK(a->CreateDescriptorPool(a->device, &pool, NULL, &made_pool) == VK_SUCCESS);
  CHECK(a->CreateDescriptorSetLayout(a->device, &set, NULL, &made_set) == VK_SUCCESS);
  VkDescriptorSetAllocateInfo sets = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, .descriptorPool = made_pool, .descriptorSetCount = 1,
      .pSetLayouts = &made_set};
  VkDescriptorSet made_descriptors;
  CHECK(a->AllocateDescriptorSets(a->device, &sets, &made_descriptors) == VK_SUCCESS);
  const vyre_range_of seen = {bound->buffer, {kind * 6, BUFFER_BYTES / 2}};
  VkDescriptorBufferInfo info = {bound->buffer, 0, VK_WHOLE_SIZE};
  thread->parts = kind % 3 ? &seen : NULL;
  thread->part_count = 1;
  thread->parts_written = thread->parts_missed = 0;
  VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .descriptorCount = 1, .pBufferInfo = &info};
  write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  a->UpdateDescriptorSets(a->device, 1, &write, 0, NULL);
  bool fits = kind * 6 <= BUFFER_BYTES / 2;
  CHECK(thread->parts_written == (kind % 3 && fits) && thread->parts_missed == (kind % 3 && !fits));
  thread->parts = NULL;
  layout.pSetLayouts = &made_set;
  CHECK(a->CreateShaderModule(a->device, &shader, NULL, &made_shader) == VK_SUCCESS);
  CHECK(a->CreatePipelineLayout(a->device, &layout, NULL, &made_layout) == VK_SUCCESS);
  thread->blob_in = saved;
  thread->blob_in_bytes = sizeof saved;
  thread->want_blob = true;
  CHECK(a->CreatePipelineCache(a->device, &cache, NULL, &made_cache) == VK_SUCCESS);
  pipeline.stage = (VkPipelineShaderStageCreateInfo){
      .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .module = made_shader, .pName = "main"};
  pipeline.layout = made_layout;
  static _Thread_local uint32_t turn; /* equal pipelines but for their size follow one another */
  thread->subgroup_size = ++turn % 3 * 32;
  VkResult result = a->CreateComputePipelines(a->device, made_cache, 1, &pipeline, NULL, &made);
  CHECK(!made || mock_subgroup_size(made) == thread->subgroup_size);
  thread->subgroup_size = 0;
  CHECK((result == VK_SUCCESS) == (made != VK_NULL_HANDLE) && (made || a->may_fail));
  CHECK(!made || thread->pipeline.shared || thread->blob_out_bytes == 100);
  free(thread->blob_out);
  thread->blob_out = NULL;
  thread->blob_out_bytes = thread->blob_in_bytes = 0;
  thread->blob_in = NULL;
  thread->want_blob = false;
  if (!made) {
    vyre_destroy_watched(a->face);
    return;
  }
  thread->watched = false;
  read_statistics(a, &thread->bound);
  CHECK(thread->bound.pipeline == made && thread->bound.layout == made_layout && thread->bound.set == made_descriptors);
  dispatch_twice(a, kind, bound);
  a->DestroyPipeline(a->device, made, NULL);
  a->DestroyPipelineCache(a->device, made_cache, NULL);
  a->DestroyPipelineLayout(a->device, made_layout, NULL);
  a->DestroyDescriptorSetLayout(a->device, made_set, NULL);
  a->DestroyShaderModule(a->device, made_shader, NULL);
  a->DestroyDescriptorPool(a->device, made_pool, NULL);
}

void record_sequence(app *a, sequence *s, const tensor *from, const tensor *to) {
  VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = MOCK_FAMILY};
  VkCommandBufferAllocateInfo buffers = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandBufferCount = 1};
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  VkBufferCopy region = {0, 0, BUFFER_BYTES};
  memset(s, 0, sizeof *s);
  CHECK(a->CreateCommandPool(a->device, &pool, NULL, &s->pool) == VK_SUCCESS);
  buffers.commandPool = s->pool;
  CHECK(a->AllocateCommandBuffers(a->device, &buffers, &s->commands) == VK_SUCCESS);
  (void)set_loader_data(a->device, s->commands);
  s->clock = vyre_take_clock(a->face);
  uint64_t ticks[2] = {0};
  CHECK(s->clock);
  vyre_this_thread()->starts_clock = s->clock;
  CHECK(a->BeginCommandBuffer(s->commands, &begin) == VK_SUCCESS);
  /* Copies beside the last dispatch, over which the last copy goes; and some that do not fit. */
  const vyre_region regions[] = {
      {from->buffer, 3, to->buffer, 1, 500, 0}, {NULL, 0, to->buffer, 8, 400, 0}, {from->buffer, 990, to->buffer, 0, 11, 0}};
  const vyre_copies right = {regions, 2, regions, 1}, wrong = {regions, 1, regions + 2, 1};
  for (uint32_t group = 1; group <= 3; group++) {
    vyre_this_thread()->group = group;
    vyre_this_thread()->copies = group == 1 ? NULL : group == 2 ? &wrong : &right;
    vyre_this_thread()->stops_clock = group == 3 ? s->clock : 0;
    a->CmdDispatch(s->commands, 1, 1, 1);
    CHECK((vyre_read_clock(a->face, s->clock, ticks) == VK_SUCCESS) == (group == 3));
    CHECK(vyre_this_thread()->copies == (group == 2 ? &wrong : NULL));
    vyre_this_thread()->copies = NULL;
    vyre_this_thread()->group += group == 3;
    a->CmdCopyBuffer(s->commands, from->buffer, to->buffer, 1, &region);
  }
  CHECK(ticks[1] == ticks[0] + 1 && !vyre_this_thread()->starts_clock && !vyre_this_thread()->stops_clock);
  vyre_this_thread()->group = 0;
  CHECK(a->EndCommandBuffer(s->commands) == VK_SUCCESS);
}

void drop_sequence(app *a, sequence *s) {
  vyre_give_clock_back(a->face, s->clock);
  a->FreeCommandBuffers(a->device, s->pool, 1, &s->commands);
  a->DestroyCommandPool(a->device, s->pool, NULL);
}

/* kompute's eval(): a fence of its own each time; detached, the wait returns at once and the fence is Python's. */
void eval_sequence(app *a, sequence *s, bool detach) {
  VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &s->commands};
  vyre_thread *thread = vyre_this_thread();
  VkFence fence;
  CHECK(a->CreateFence(a->device, &info, NULL, &fence) == VK_SUCCESS);
  thread->detached_fence = VK_NULL_HANDLE;
  thread->detach_waits = detach;
  VkResult result = a->QueueSubmit(a->queue, 1, &submit, fence);
  if (result == VK_SUCCESS) result = a->WaitForFences(a->device, 1, &fence, VK_TRUE, UINT64_MAX);
  CHECK(result == VK_SUCCESS || a->may_fail);
  a->DestroyFence(a->device, fence, NULL);
  thread->detach_waits = false;
  s->fence = thread->detached_fence;
  CHECK(!detach || s->fence || a->may_fail);
}

bool finish_sequence(app *a, sequence *s, int slices) {
  VkResult result = VK_SUCCESS;
  if (!s->fence) return true;
  do {
    result = vyre_wait_fence(a->face, s->fence, 100000);
  } while (result == VK_TIMEOUT && --slices);
  if (result == VK_SUCCESS) {
    vyre_give_fence_back(a->face, s->fence);
    s->fence = VK_NULL_HANDLE;
  }
  CHECK(result >= 0 || a->may_fail);
  return result == VK_SUCCESS;
}

void submit_part(app *a, transfer *t, const vyre_region *regions, uint32_t count) {
  VkResult result = vyre_transfer(a->face, regions, count, false, &t->commands, &t->fence);
  CHECK((result == VK_SUCCESS) == (t->fence != VK_NULL_HANDLE) && (t->fence || a->may_fail));
}

void end_part(app *a, transfer *t, int times) {
  VkResult result = VK_SUCCESS;
  while (t->fence) {
    do {
      result = vyre_wait_fence(a->face, t->fence, 100000);
    } while (result == VK_TIMEOUT);
    CHECK(result == VK_SUCCESS || a->may_fail);
    vyre_give_fence_back(a->face, t->fence);
    t->fence = VK_NULL_HANDLE;
    if (times-- > 1) submit_part(a, t, NULL, 0);
  }
  vyre_drop_transfer(a->face, t->commands);
}
