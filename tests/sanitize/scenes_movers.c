/* Arrays that threads of the host and the device move together. */
#include "mover.h"
#include "pages.h"

#define AREA_BYTES ((size_t)4 << 16)
#define MOST_BYTES (((size_t)1 << 20) + MOCK_PAGE_BYTES)

/* A mover, its areas, and pages that stand for a buffer of the device. */
typedef struct van {
  pages areas, buffer;
  vyre_mover *mover;
  unsigned char *from, *to;
} van;

static bool open_van(app *a, van *v) {
  memset(v, 0, sizeof *v);
  bool whole = pin(a, AREA_BYTES, &v->areas) == VK_SUCCESS;
  whole = pin(a, MOST_BYTES, &v->buffer) == VK_SUCCESS && whole;
  v->from = malloc(MOST_BYTES);
  v->to = malloc(MOST_BYTES);
  CHECK(v->from && v->to && (whole || a->may_fail));
  if (whole) v->mover = vyre_mover_make(a->face, (char *)v->areas.at, v->areas.buffer, AREA_BYTES);
  return v->mover;
}

static void close_van(app *a, van *v) {
  if (v->mover) vyre_mover_free(v->mover);
  unpin(a, &v->areas);
  unpin(a, &v->buffer);
  free(v->from);
  free(v->to);
}

static VkResult wait_for(van *v, uint64_t number) {
  VkResult result = VK_TIMEOUT;
  while (result == VK_TIMEOUT) result = vyre_mover_wait(v->mover, number, 100000);
  return result;
}

/* There and back in steps that follow each other, then zeros over it; returns whether all of it was done. */
static bool there_and_back(app *a, van *v, size_t bytes, unsigned char mark) {
  for (size_t at = 0; at < bytes; at++) v->from[at] = (unsigned char)(mark + at * 7 + at / 4096);
  memset(v->to, (unsigned char)~mark, bytes);
  const vyre_move up = {.buffer = v->buffer.buffer, .bytes = bytes, .host = (char *)v->from};
  const vyre_move down = {.buffer = v->buffer.buffer, .bytes = bytes, .host = (char *)v->to, .is_down = true};
  const vyre_move zeros = {.buffer = v->buffer.buffer, .bytes = bytes / 4 * 4};
  bool beside = mark % 2;
  uint64_t first = vyre_mover_put(v->mover, &up, 1, NULL, beside);
  uint64_t empty = vyre_mover_put(v->mover, NULL, 0, NULL, beside);
  uint64_t last = vyre_mover_put(v->mover, &down, 1, NULL, beside);
  CHECK(first && empty == first + 1 && last == first + 2);
  VkResult result = wait_for(v, last);
  CHECK(result == VK_SUCCESS || a->may_fail);
  if (result != VK_SUCCESS) return false;
  CHECK(memcmp(v->from, v->to, bytes) == 0);
  if (!zeros.bytes) return true;
  (void)vyre_mover_put(v->mover, &zeros, 1, NULL, beside);
  result = wait_for(v, vyre_mover_put(v->mover, &down, 1, NULL, beside));
  CHECK(result == VK_SUCCESS || a->may_fail);
  CHECK(result != VK_SUCCESS || are_all(v->to, zeros.bytes, 0));
  return result == VK_SUCCESS;
}

/* Two arrays up beside one that a pinned move brings back; the buffer's own memory is what a shared device has. */
static void move_several(app *a, van *v) {
  size_t half = MOST_BYTES / 2 / 64 * 64;
  memset(v->from, 3, half);
  memset(v->from + half, 5, half);
  const vyre_move ups[] = {
      {.buffer = v->buffer.buffer, .bytes = half, .host = (char *)v->from},
      {.buffer = v->buffer.buffer, .offset = half, .bytes = half, .host = (char *)v->from + half}};
  CHECK(wait_for(v, vyre_mover_put(v->mover, ups, 2, NULL, true)) == VK_SUCCESS || a->may_fail);
  if (!a->may_fail) CHECK(are_all(v->buffer.at, half, 3) && are_all(v->buffer.at + half, half, 5));
  const vyre_move direct[] = {
      {.bytes = half, .host = (char *)v->to, .direct = (char *)v->buffer.at + half, .is_down = true},
      {.bytes = half, .direct = (char *)v->buffer.at}};
  CHECK(wait_for(v, vyre_mover_put(v->mover, direct, 2, NULL, true)) == VK_SUCCESS || a->may_fail);
  if (!a->may_fail) CHECK(are_all(v->to, half, 5) && are_all(v->buffer.at, half, 0));
}

static void *move_many(void *argument) {
  const size_t sizes[] = {1, 63, 4096, 100001, MOST_BYTES};
  app *a = argument;
  for (uint64_t turn = 0; turn < rounds / 50 + 1; turn++) {
    van v;
    bool goes_on = open_van(a, &v);
    for (size_t i = 0; goes_on && i < sizeof sizes / sizeof *sizes; i++) {
      goes_on = there_and_back(a, &v, sizes[i], (unsigned char)(turn + i));
    }
    if (goes_on) move_several(a, &v);
    const vyre_move up = {.buffer = v.buffer.buffer, .bytes = MOST_BYTES, .host = (char *)v.from};
    if (v.mover && turn % 2) (void)vyre_mover_put(v.mover, &up, 1, NULL, turn % 4 == 1); /* and is freed in the middle */
    if (v.mover && turn % 4 == 3) {
      vyre_mover_cancel(v.mover);
      memset(v.from, 0, MOST_BYTES); /* nobody reads it any more */
      CHECK(vyre_mover_wait(v.mover, UINT64_MAX, 1000) != VK_SUCCESS);
      while (vyre_mover_settle(v.mover, 1000) == VK_TIMEOUT) continue;
    }
    close_van(a, &v);
  }
  return NULL;
}

void arrays_are_moved_by_eight_movers(void) {
  app a;
  open_app(&a, 1000, 1 << 20);
  on_threads(move_many, &a);
  a.may_fail = true;
  for (uint64_t nth = 1; nth < 40; nth += 3) {
    vyre_inject(nth % 2 ? VYRE_CALL_SUBMIT : VYRE_CALL_WAIT, nth, VK_ERROR_OUT_OF_HOST_MEMORY);
    on_threads(move_many, &a);
    vyre_inject(nth % 2 ? VYRE_CALL_SUBMIT : VYRE_CALL_WAIT, 0, 0);
  }
  close_app(&a);
}

/* The mover's own thread sees it first: what that finds is what all others are told. */
void device_is_lost_while_arrays_are_moved(void) {
  app a;
  van v;
  open_app(&a, 1000, 1 << 20);
  CHECK(open_van(&a, &v));
  memset(v.from, 1, MOST_BYTES);
  const vyre_move up = {.buffer = v.buffer.buffer, .bytes = MOST_BYTES, .host = (char *)v.from};
  uint64_t before = mock_submissions(a.device);
  mock_hold(a.device, true);
  uint64_t number = vyre_mover_put(v.mover, &up, 1, NULL, true);
  while (mock_submissions(a.device) == before) CHECK(vyre_mover_wait(v.mover, number, 100000) == VK_TIMEOUT);
  mock_lose(a.device);
  CHECK(wait_for(&v, number) == VK_ERROR_DEVICE_LOST && vyre_is_lost(a.face));
  mock_hold(a.device, false);
  a.may_fail = true;
  close_van(&a, &v);
  close_app(&a);
}
