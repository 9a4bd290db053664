/* Buffers of ours in blocks of kompute's. */
#include "harness.h"

#define BLOCK_BYTES (1 << 20)
#define HELD 16

bool add_block(app *a, uint64_t bytes, enum vyre_length length, made_block *out) {
  VkBufferCreateInfo buffer = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = 4, .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
  VkMemoryAllocateInfo memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  VkMemoryRequirements needs;
  vyre_thread outer;
  memset(out, 0, sizeof *out);
  vyre_begin_making(&outer);
  vyre_this_thread()->buffer_bytes = bytes;
  vyre_this_thread()->wanted_types = a->face->upload_types;
  vyre_watch();
  (void)a->CreateBuffer(a->device, &buffer, NULL, &out->tensor.buffer);
  a->GetBufferMemoryRequirements(a->device, out->tensor.buffer, &needs);
  memory.allocationSize = needs.size;
  (void)a->AllocateMemory(a->device, &memory, NULL, &out->tensor.memory);
  (void)a->BindBufferMemory(a->device, out->tensor.buffer, out->tensor.memory, 0);
  VkResult result = vyre_this_thread()->failure.result;
  if (vyre_this_thread()->failure.call == VYRE_CALL_NONE) {
    result = vyre_add_block(a->face, VYRE_ARENA_STORAGE, length, NULL, &out->name);
  }
  if (result != VK_SUCCESS) vyre_destroy_watched(a->face);
  vyre_this_thread()->failure.call = VYRE_CALL_NONE;
  vyre_end_making(&outer);
  return result == VK_SUCCESS;
}

static void drop_surplus(app *a, made_block *blocks, size_t count, bool is_all) {
  const vyre_block *name;
  while ((name = vyre_take_surplus(a->face, VYRE_ARENA_STORAGE, is_all))) {
    for (size_t i = 0; i < count; i++) {
      if (blocks[i].name != name) continue;
      drop_tensor(a, &blocks[i].tensor);
      blocks[i].name = NULL;
    }
  }
}

static vyre_arena_facts facts(app *a) {
  vyre_arena_facts found;
  vyre_arena_facts_of(a->face, VYRE_ARENA_STORAGE, &found);
  return found;
}

/* Each byte of a buffer is its own, whoever makes and frees others meanwhile. */
static void *make_and_free(void *argument) {
  app *a = argument;
  vyre_allocation held[HELD] = {0};
  unsigned char marks[HELD] = {0};
  uint64_t random = (uint64_t)(uintptr_t)&random | 1;
  for (uint64_t i = 0; i < rounds * 16; i++) {
    random = random * UINT64_C(6364136223846793005) + 1;
    size_t at = (size_t)(random >> 33) % HELD;
    uint64_t bytes = (random >> 40) % 5000 + 4;
    if (held[at].block) {
      for (size_t k = 0; k < 4; k++) CHECK(held[at].mapped[k] == (char)marks[at]);
      (void)vyre_free(a->face, VYRE_ARENA_STORAGE, &held[at]);
    }
    VkResult result = vyre_allocate(a->face, VYRE_ARENA_STORAGE, bytes, random >> 20 & 1, &held[at]);
    CHECK(result == VK_SUCCESS || (result == VK_NOT_READY && !held[at].block));
    marks[at] = (unsigned char)(random >> 50);
    if (held[at].block) memset(held[at].mapped, marks[at], bytes);
    if (held[at].block) CHECK(vyre_buffer_bytes(a->face, held[at].buffer) == bytes && held[at].taken >= bytes);
  }
  for (size_t i = 0; i < HELD; i++) {
    if (held[i].block) (void)vyre_free(a->face, VYRE_ARENA_STORAGE, &held[i]);
  }
  return NULL;
}

void buffers_are_ranges_of_blocks(void) {
  app a;
  made_block blocks[2];
  vyre_allocation one;
  open_app(&a, 0, BLOCK_BYTES);
  int64_t objects = mock_objects();
  CHECK(vyre_allocate(a.face, VYRE_ARENA_STORAGE, 8, true, &one) == VK_NOT_READY && !one.block);
  CHECK(add_block(&a, BLOCK_BYTES, VYRE_MEDIUM, &blocks[1]));
  CHECK(vyre_allocate(a.face, VYRE_ARENA_STORAGE, 8, false, &one) == VK_NOT_READY && !one.block);
  CHECK(add_block(&a, BLOCK_BYTES / 4, VYRE_SHORT, &blocks[0]) && facts(&a).in_short == BLOCK_BYTES / 4);
  on_threads(make_and_free, &a);
  CHECK(facts(&a).used == 0 && facts(&a).idle == facts(&a).reserved && facts(&a).longest == BLOCK_BYTES);
  drop_surplus(&a, blocks, 2, false);
  CHECK(facts(&a).blocks == 1);
  drop_surplus(&a, blocks, 2, true);
  CHECK(facts(&a).blocks == 0 && facts(&a).reserved == 0 && mock_objects() == objects);
  close_app(&a);
}

void buffers_that_cannot_be_had_leave_nothing(void) {
  static const char *const CALLS[] = {"vkCreateBuffer", "vkBindBufferMemory", "vkAllocateMemory"};
  app a;
  made_block block, other;
  vyre_allocation one;
  open_app(&a, 0, 0);
  a.may_fail = true;
  CHECK(add_block(&a, BLOCK_BYTES, VYRE_SHORT, &block));
  int64_t objects = mock_objects();
  for (size_t i = 0; i < 3; i++) {
    mock_fail(CALLS[i], VK_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK(!add_block(&a, BLOCK_BYTES, i % 2 ? VYRE_LONG : VYRE_SHORT, &other) && mock_objects() == objects);
    if (i == 2) break;
    mock_fail(CALLS[i], VK_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK(vyre_allocate(a.face, VYRE_ARENA_STORAGE, 8, false, &one) < VK_SUCCESS && !one.block && mock_objects() == objects);
    vyre_this_thread()->failure.call = VYRE_CALL_NONE;
  }
  CHECK(vyre_allocate(a.face, VYRE_ARENA_STORAGE, 2 * BLOCK_BYTES, true, &one) == VK_NOT_READY);
  CHECK(facts(&a).used == 0);
  drop_surplus(&a, &block, 1, true);
  close_app(&a);
}

void buffers_that_are_left_go_with_their_device(void) {
  app a;
  made_block block;
  vyre_allocation kept[2];
  open_app(&a, 0, 0);
  vyre_device *face = a.face;
  CHECK(add_block(&a, BLOCK_BYTES, VYRE_SHORT, &block));
  CHECK(vyre_allocate(face, VYRE_ARENA_STORAGE, 1000, false, &kept[0]) == VK_SUCCESS);
  CHECK(vyre_allocate(face, VYRE_ARENA_STORAGE, 1000, false, &kept[1]) == VK_SUCCESS);
  (void)vyre_free(face, VYRE_ARENA_STORAGE, &kept[0]);
  drop_tensor(&a, &block.tensor); /* as kompute's Manager does, whoever holds what */
  atomic_fetch_add(&face->references, 1);
  close_app(&a);
  CHECK(!vyre_free(face, VYRE_ARENA_STORAGE, &kept[1]));
  CHECK(vyre_allocate(face, VYRE_ARENA_STORAGE, 8, false, &kept[1]) == VK_ERROR_DEVICE_LOST);
  vyre_release(face);
}
