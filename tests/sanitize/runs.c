/* One run of work after the other, each with all that belongs to it. */
#include <unistd.h>

#include "exports.h"
#include "harness.h"

/* What the work copied, and what a transfer behind it filled and copied. */
static void check_bytes(const app *a, const parcel *p) {
  bool moved = p->part.commands;
  for (size_t i = 0; i < BUFFER_BYTES && !a->may_fail; i++) {
    CHECK(p->from.bytes[i] == (moved ? (unsigned char)~p->mark : p->mark));
    CHECK(p->to.bytes[i] == (moved && i >= 1 && i < 501 ? (unsigned char)~p->mark : p->mark));
  }
}

static void end_parcel(app *a, parcel *p) {
  bool whole = finish_sequence(a, &p->work, -1);
  if (p->part.commands && p->part.fence) {
    while (vyre_wait_fence(a->face, p->part.fence, 100000) == VK_TIMEOUT) continue;
  }
  if (whole) check_bytes(a, p);
  end_part(a, &p->part, p->mark % 3);
  if (p->work.fence) vyre_give_fence_back(a->face, p->work.fence);
  drop_sequence(a, &p->work);
  drop_tensor(a, &p->from);
  drop_tensor(a, &p->to);
}

/* The memory of the tensor that this thread made last. */
static void give_away(app *a) {
  int fd;
  VkResult result = vyre_export_storage(a->face, &fd);
  CHECK((result == VK_SUCCESS) == (fd >= 0) && (fd >= 0 || a->may_fail));
  CHECK(vyre_this_thread()->storage_bytes == BUFFER_BYTES);
  if (fd >= 0) close(fd);
}

void run_once(app *a, uint64_t number) {
  parcel p = {.full = true, .mark = (unsigned char)number};
  vyre_this_thread()->failure.call = VYRE_CALL_NONE;
  bool whole = make_tensor(a, &p.from);
  vyre_this_thread()->want_export = number % 5 == 0;
  whole = make_tensor(a, &p.to) && whole;
  if (whole && vyre_this_thread()->want_export) give_away(a);
  vyre_this_thread()->want_export = false;
  if (!whole) {
    CHECK(a->may_fail);
    drop_tensor(a, &p.from);
    drop_tensor(a, &p.to);
    return;
  }
  memset(p.from.bytes, p.mark, BUFFER_BYTES);
  make_and_drop_pipeline(a, (uint32_t)(number % 100), &p.from);
  record_sequence(a, &p.work, &p.from, &p.to);
  eval_sequence(a, &p.work, number % 4 != 0);
  uint32_t word = UINT32_C(0x01010101) * (unsigned char)~p.mark;
  const vyre_region part[] = {
      {VK_NULL_HANDLE, 0, p.from.buffer, 0, BUFFER_BYTES, word}, {p.from.buffer, 3, p.to.buffer, 1, 500, 0}};
  if (number % 3 == 0) submit_part(a, &p.part, part, 2);
  if (number % 4 == 1) (void)finish_sequence(a, &p.work, 1);
  if (number % 4 == 2) {
    pthread_mutex_lock(&a->lock);
    parcel other = a->mailbox[number / 4 % MAILBOX];
    a->mailbox[number / 4 % MAILBOX] = p;
    pthread_mutex_unlock(&a->lock);
    p = other;
  }
  if (p.full) end_parcel(a, &p);
  if (number % 8 == 0) {
    VkFence marker = VK_NULL_HANDLE;
    vyre_collect_abandoned(a->face);
    (void)vyre_submit_marker(a->face, &marker);
    if (marker && number % 16 == 0) {
      vyre_abandon_fence(a->face, marker);
      marker = VK_NULL_HANDLE;
    }
    while (marker && vyre_wait_fence(a->face, marker, 1000000) == VK_TIMEOUT) continue;
    if (marker) vyre_give_fence_back(a->face, marker);
  }
  (void)vyre_counter_value(a->face, VYRE_MEMORY_LIVE_BYTES);
}

void end_mailbox(app *a) {
  for (int i = 0; i < MAILBOX; i++) {
    if (a->mailbox[i].full) end_parcel(a, &a->mailbox[i]);
  }
}
