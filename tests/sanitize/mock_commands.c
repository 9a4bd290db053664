/* Command pools of a mock device, and what is recorded. */
#include "mock.h"

static VkResult create_pool(VkDevice d, const VkCommandPoolCreateInfo *info, const VkAllocationCallbacks *a, VkCommandPool *out) {
  (void)a;
  VkCommandPoolCreateFlags again = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT | VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
  CHECK(info->flags & again, "what is recorded again cannot be reset"); /* by itself, or with its pool */
  CHECK(info->queueFamilyIndex == MOCK_FAMILY, "a pool is for another queue");
  *out = (VkCommandPool)mock_make(sizeof(mock_pool), DEVICE(d));
  return VK_SUCCESS;
}

static VkResult allocate_commands(VkDevice d, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *out) {
  CHECK(info->commandBufferCount == 1 && info->commandPool, "one command buffer comes from a pool");
  mock_commands *made = mock_make(sizeof *made, DEVICE(d));
  made->device = DEVICE(d);
  made->pool = (mock_pool *)info->commandPool;
  made->next = made->pool->first;
  made->pool->first = made;
  *out = (VkCommandBuffer)made;
  return VK_SUCCESS;
}

static void free_commands(VkDevice d, VkCommandPool pool, uint32_t count, const VkCommandBuffer *buffers) {
  for (uint32_t i = 0; i < count; i++) {
    mock_commands *commands = (mock_commands *)buffers[i], **at = &commands->pool->first;
    CHECK(commands->pool == (mock_pool *)pool, "a command buffer is freed into another pool");
    mock_check_idle(DEVICE(d), &commands->pending, "a command buffer is freed that is in use");
    while (*at != commands) at = &(*at)->next;
    *at = commands->next;
    mock_drop(commands, DEVICE(d));
  }
}

static void destroy_pool(VkDevice d, VkCommandPool handle, const VkAllocationCallbacks *a) {
  (void)a;
  mock_pool *pool = (mock_pool *)handle;
  while (pool->first) {
    VkCommandBuffer first = (VkCommandBuffer)pool->first;
    free_commands(d, handle, 1, &first);
  }
  mock_drop(pool, DEVICE(d));
}

static VkResult reset_pool(VkDevice d, VkCommandPool handle, VkCommandPoolResetFlags flags) {
  (void)flags;
  for (mock_commands *one = ((mock_pool *)handle)->first; one; one = one->next) {
    mock_check_idle(DEVICE(d), &one->pending, "a command pool is reset whose work is running");
    one->copy_count = 0;
  }
  return VK_SUCCESS;
}

static VkResult begin_commands(VkCommandBuffer buffer, const VkCommandBufferBeginInfo *info) {
  (void)info;
  mock_commands *commands = (mock_commands *)buffer;
  CHECK(commands->key, "a command buffer is recorded that the loader has not seen");
  mock_check_idle(commands->device, &commands->pending, "a command buffer is recorded that is in use");
  commands->copy_count = commands->touched_count = 0;
  commands->is_ordered = false;
  commands->ordered = UINT32_MAX;
  commands->pipeline = commands->set = NULL;
  return VK_SUCCESS;
}

static VkResult end_commands(VkCommandBuffer buffer) {
  (void)buffer;
  return VK_SUCCESS;
}

static void bind_pipeline(VkCommandBuffer buffer, VkPipelineBindPoint point, VkPipeline pipeline) {
  CHECK(point == VK_PIPELINE_BIND_POINT_COMPUTE, "a pipeline is bound that is not for compute");
  ((mock_commands *)buffer)->pipeline = (const void *)pipeline;
  mock_touch((const void *)pipeline);
}

static void bind_sets(
    VkCommandBuffer buffer, VkPipelineBindPoint point, VkPipelineLayout layout, uint32_t first, uint32_t count,
    const VkDescriptorSet *sets, uint32_t offset_count, const uint32_t *offsets) {
  (void)offsets;
  CHECK(point == VK_PIPELINE_BIND_POINT_COMPUTE && !first && count == 1 && !offset_count, "a set is bound elsewhere");
  mock_commands *commands = (mock_commands *)buffer;
  commands->set = (const void *)*sets;
  uint32_t touched;
  mock_buffer *const *buffers = mock_updated(*sets, &touched);
  for (uint32_t i = 0; i < touched; i++) {
    CHECK(commands->touched_count < MAX_TOUCHED, "too many buffers are bound");
    commands->touched[commands->touched_count++] = buffers[i];
  }
  mock_touch((const void *)layout);
  mock_touch((const void *)*sets);
}

static void push(
    VkCommandBuffer buffer, VkPipelineLayout layout, VkShaderStageFlags stages, uint32_t offset, uint32_t size, const void *data) {
  (void)buffer;
  mock_touch((const void *)layout);
  CHECK(stages == VK_SHADER_STAGE_COMPUTE_BIT && !offset && size && size % 4 == 0, "push constants are not those of the layout");
  for (uint32_t i = 0; i < size; i++) mock_touch((const unsigned char *)data + i);
}

static void dispatch(VkCommandBuffer buffer, uint32_t x, uint32_t y, uint32_t z) {
  CHECK(x && y && z, "a dispatch of nothing");
  CHECK(!((mock_commands *)buffer)->pipeline || ((mock_commands *)buffer)->is_ordered, "a dispatch waits for nothing before it");
}

static bool meet(const mock_buffer *one, uint64_t begin, const mock_buffer *other, uint64_t other_begin, uint64_t size[2]) {
  return one && one == other && begin < other_begin + size[1] && other_begin < begin + size[0];
}

/* Whether one of the two writes what the other touches. */
static bool clash(const mock_copy *a, const mock_copy *b) {
  const VkBufferCopy *x = &a->region, *y = &b->region;
  uint64_t sizes[2] = {x->size, y->size};
  return meet(a->to, x->dstOffset, b->to, y->dstOffset, sizes) || meet(a->to, x->dstOffset, b->from, y->srcOffset, sizes) ||
         meet(a->from, x->srcOffset, b->to, y->dstOffset, sizes);
}

static void note(VkCommandBuffer buffer, mock_copy copy) {
  mock_commands *commands = (mock_commands *)buffer;
  CHECK(commands->copy_count < MAX_COPIES, "too many copies");
  CHECK(commands->ordered != UINT32_MAX, "a copy does not wait for what is before it");
  for (uint32_t i = commands->ordered; i < commands->copy_count; i++) {
    CHECK(!clash(&commands->copies[i], &copy), "a copy does not wait for one before it");
  }
  CHECK(copy.region.size && copy.region.dstOffset + copy.region.size <= copy.to->size, "a copy ends past its buffer");
  CHECK(!copy.from || copy.region.srcOffset + copy.region.size <= copy.from->size, "a copy begins past its buffer");
  commands->copies[commands->copy_count++] = copy;
  commands->is_ordered = false;
}

static void copy(VkCommandBuffer buffer, VkBuffer from, VkBuffer to, uint32_t count, const VkBufferCopy *regions) {
  CHECK(count == 1, "a copy has one region");
  note(buffer, (mock_copy){(mock_buffer *)from, (mock_buffer *)to, *regions, 0});
}

static void fill(VkCommandBuffer buffer, VkBuffer to, VkDeviceSize offset, VkDeviceSize size, uint32_t word) {
  CHECK((offset | size) % 4 == 0, "a fill is not of words");
  note(buffer, (mock_copy){NULL, (mock_buffer *)to, {0, offset, size}, word});
}

/* Of timestamps, which are written when they are recorded: each is its query's number. Threads have queries of their own. */
typedef struct mock_queries {
  uint32_t count;
  enum { QUERY_NEW, QUERY_RESET, QUERY_WRITTEN } states[1 << 12];
} mock_queries;

static VkResult create_queries(VkDevice d, const VkQueryPoolCreateInfo *info, const VkAllocationCallbacks *a, VkQueryPool *out) {
  (void)a;
  mock_queries *made = mock_make(sizeof *made, DEVICE(d));
  CHECK(info->queryType == VK_QUERY_TYPE_TIMESTAMP && info->queryCount <= 1 << 12, "queries are not timestamps, or too many");
  made->count = info->queryCount;
  *out = (VkQueryPool)made;
  return VK_SUCCESS;
}

static void destroy_queries(VkDevice d, VkQueryPool pool, const VkAllocationCallbacks *a) {
  (void)a;
  mock_drop((mock_queries *)pool, DEVICE(d));
}

static void reset_queries(VkCommandBuffer buffer, VkQueryPool pool, uint32_t first, uint32_t count) {
  mock_queries *queries = (mock_queries *)pool;
  (void)buffer;
  CHECK(first < queries->count && count <= queries->count - first, "queries are reset that the pool does not have");
  for (uint32_t i = first; i < first + count; i++) queries->states[i] = QUERY_RESET;
}

static void reset_by_host(VkDevice d, VkQueryPool pool, uint32_t first, uint32_t count) {
  (void)d;
  reset_queries(VK_NULL_HANDLE, pool, first, count);
}

/* Both clocks are at the number of the reading. */
static VkResult read_clocks(VkDevice d, uint32_t count, const VkCalibratedTimestampInfoEXT *infos, uint64_t *out, uint64_t *deviation) {
  static _Atomic uint64_t readings;
  uint64_t now = ++readings;
  (void)d, (void)infos;
  for (uint32_t i = 0; i < count; i++) out[i] = now;
  *deviation = 1;
  return VK_SUCCESS;
}

static void write_timestamp(VkCommandBuffer buffer, VkPipelineStageFlagBits stage, VkQueryPool pool, uint32_t query) {
  mock_queries *queries = (mock_queries *)pool;
  (void)buffer, (void)stage;
  CHECK(query < queries->count && queries->states[query] == QUERY_RESET, "a query is written that is not reset");
  queries->states[query] = QUERY_WRITTEN;
}

static VkResult query_results(
    VkDevice d, VkQueryPool pool, uint32_t first, uint32_t count, size_t bytes, void *out, VkDeviceSize stride,
    VkQueryResultFlags flags) {
  const mock_queries *queries = (const mock_queries *)pool;
  (void)d;
  CHECK(flags == VK_QUERY_RESULT_64_BIT && stride == 8 && bytes == 8 * (size_t)count, "results are asked for in another form");
  for (uint32_t i = 0; i < count; i++) {
    if (queries->states[first + i] != QUERY_WRITTEN) return VK_NOT_READY;
    ((uint64_t *)out)[i] = first + i;
  }
  return VK_SUCCESS;
}

static void barrier(
    VkCommandBuffer buffer, VkPipelineStageFlags from, VkPipelineStageFlags to, VkDependencyFlags flags, uint32_t memories,
    const VkMemoryBarrier *memory, uint32_t buffers, const VkBufferMemoryBarrier *of_buffers, uint32_t images,
    const VkImageMemoryBarrier *of_images) {
  (void)from, (void)to, (void)flags, (void)memories, (void)memory, (void)buffers, (void)of_buffers, (void)images;
  (void)of_images;
  ((mock_commands *)buffer)->is_ordered = true;
  ((mock_commands *)buffer)->ordered = ((mock_commands *)buffer)->copy_count;
}

PFN_vkVoidFunction mock_command_proc(const char *name) {
  NAMED(CmdBindPipeline, bind_pipeline)
  NAMED(CmdBindDescriptorSets, bind_sets)
  NAMED(CmdPushConstants, push)
  NAMED(CreateCommandPool, create_pool)
  NAMED(DestroyCommandPool, destroy_pool)
  NAMED(ResetCommandPool, reset_pool)
  NAMED(AllocateCommandBuffers, allocate_commands)
  NAMED(FreeCommandBuffers, free_commands)
  NAMED(BeginCommandBuffer, begin_commands)
  NAMED(EndCommandBuffer, end_commands)
  NAMED(CmdDispatch, dispatch)
  NAMED(CmdCopyBuffer, copy)
  NAMED(CmdFillBuffer, fill)
  NAMED(CmdPipelineBarrier, barrier)
  NAMED(CreateQueryPool, create_queries)
  NAMED(DestroyQueryPool, destroy_queries)
  NAMED(GetQueryPoolResults, query_results)
  NAMED(CmdResetQueryPool, reset_queries)
  NAMED(CmdWriteTimestamp, write_timestamp)
  NAMED(ResetQueryPool, reset_by_host)
  NAMED(GetCalibratedTimestampsEXT, read_clocks)
  return NULL;
}
