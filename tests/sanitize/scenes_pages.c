/* Pages of the process that a device copies from and to. */
#include <unistd.h>

#include "pages.h"

#define HUGE ((size_t)1 << 21)
#define SHELF 4

/* Pages that whoever finds them unpins. */
typedef struct shelf {
  app a;
  pages pinned[SHELF];
} shelf;

static size_t address_space(void) {
  unsigned long all = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file && fscanf(file, "%lu", &all) == 1);
  fclose(file);
  return all * (size_t)sysconf(_SC_PAGESIZE);
}

void pages_are_zeros_and_go_whole(void) {
  const size_t page = MOCK_PAGE_BYTES, sizes[] = {page, HUGE - page, HUGE, HUGE + page, 9 * HUGE + 3 * page};
  for (int turn = 0; turn < 2; turn++) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      unsigned char *at = vyre_map_pages(sizes[i]);
      CHECK(at && (uintptr_t)at % (sizes[i] < HUGE ? MOCK_PAGE_BYTES : HUGE) == 0);
      CHECK(are_all(at, sizes[i], 0));
      memset(at, 0xA5, sizes[i]);
      vyre_unmap_pages(at, sizes[i]);
    }
  }
  size_t before = address_space();
  for (int i = 0; i < 64; i++) vyre_unmap_pages(vyre_map_pages(HUGE + MOCK_PAGE_BYTES), HUGE + MOCK_PAGE_BYTES);
  CHECK(address_space() < before + 16 * HUGE); /* each is mapped with a huge page to spare, which goes too */
  CHECK(!vyre_map_pages(SIZE_MAX - HUGE / 2) && !vyre_map_pages(SIZE_MAX / 2));
}

/* The first half goes to the tensor and comes back into the second; the words between are filled. */
static void copy_both_ways(app *a, const pages *p, const tensor *t, unsigned char mark) {
  transfer part = {0};
  size_t half = p->bytes / 2;
  memset(p->at, mark, half);
  memset(p->at + half, (unsigned char)~mark, half);
  const vyre_region regions[] = {
      {p->buffer, half - 500, t->buffer, 0, 500, 0}, {t->buffer, 0, p->buffer, half + 8, 500, 0},
      {VK_NULL_HANDLE, 0, p->buffer, half, 8, 0x07070707}};
  CHECK(vyre_enter(a->face));
  const vyre_region past = {t->buffer, 0, p->buffer, p->bytes - 4, 8, 0};
  CHECK(!vyre_fault_of(a->face, &regions[1]) && strstr(vyre_fault_of(a->face, &past), "past the buffer that is written"));
  vyre_leave(a->face);
  submit_part(a, &part, regions, 3);
  bool is_submitted = part.fence;
  end_part(a, &part, 2);
  if (!is_submitted || a->may_fail) return;
  CHECK(are_all(p->at, half, mark) && are_all(p->at + half, 8, 7) && are_all(p->at + half + 8, 500, mark));
  CHECK(are_all(p->at + half + 508, half - 508, (unsigned char)~mark));
}

static void swap_on_shelf(shelf *s, pages *p, uint64_t number) {
  pthread_mutex_lock(&s->a.lock);
  pages other = s->pinned[number % SHELF];
  s->pinned[number % SHELF] = *p;
  pthread_mutex_unlock(&s->a.lock);
  *p = other;
}

static void pin_once(shelf *s, const tensor *t, uint64_t number) {
  pages p;
  size_t bytes = (1 + number % 5) * MOCK_PAGE_BYTES;
  vyre_this_thread()->failure.call = VYRE_CALL_NONE;
  VkResult result = pin(&s->a, bytes, &p);
  CHECK(result == VK_SUCCESS || s->a.may_fail);
  CHECK((result == VK_SUCCESS) == (vyre_this_thread()->failure.call == VYRE_CALL_NONE));
  CHECK(are_all(p.at, bytes, 0));
  if (result == VK_SUCCESS) {
    copy_both_ways(&s->a, &p, t, (unsigned char)number);
    if (number % 4 == 2) swap_on_shelf(s, &p, number / 4);
  }
  if (p.at) unpin(&s->a, &p);
}

static void open_shelf(shelf *s) {
  memset(s, 0, sizeof *s);
  open_app(&s->a, 1000, 64 * 1024);
  CHECK(vyre_import_alignment(s->a.face) == MOCK_PAGE_BYTES && mock_imports() == 0);
}

static void close_shelf(shelf *s) {
  for (int i = 0; i < SHELF; i++) {
    if (s->pinned[i].at) unpin(&s->a, &s->pinned[i]);
  }
  CHECK(mock_imports() == 0 && vyre_counter_value(s->a.face, VYRE_WORK_PENDING) == 0);
  close_app(&s->a);
}

static void *pin_many(void *argument) {
  shelf *s = argument;
  tensor t;
  CHECK(make_tensor(&s->a, &t));
  for (uint64_t i = 0; i < rounds; i++) pin_once(s, &t, i);
  drop_tensor(&s->a, &t);
  return NULL;
}

void pages_are_copied_while_others_come_and_go(void) {
  shelf s;
  open_shelf(&s);
  on_threads(pin_many, &s);
  close_shelf(&s);
}

/* A failure is told with its bytes, and leaves nothing; without it the same pages are pinned. */
static void check_failure(app *a, VkResult expected) {
  const size_t bytes = 3 * MOCK_PAGE_BYTES;
  vyre_failure *failure = &vyre_this_thread()->failure;
  int64_t objects = mock_objects();
  uint64_t told = vyre_counter_value(a->face, VYRE_FAILURES_RECORDED);
  pages p;
  *failure = (vyre_failure){0};
  CHECK(pin(a, bytes, &p) == expected && mock_objects() == objects && mock_imports() == 0);
  CHECK(failure->call == VYRE_CALL_ALLOCATE && failure->result == expected && failure->bytes == bytes);
  CHECK(vyre_counter_value(a->face, VYRE_FAILURES_RECORDED) == told + 1);
  CHECK(vyre_import_pages(a->face, p.at, bytes, &p.buffer) == VK_SUCCESS);
  CHECK(mock_objects() == objects + 2 && mock_imports() == 1);
  CHECK(vyre_buffer_bytes(a->face, p.buffer) == bytes);
  VkBuffer buffer = p.buffer;
  unpin(a, &p);
  CHECK(mock_objects() == objects && mock_imports() == 0 && vyre_buffer_bytes(a->face, buffer) == 0);
}

/* Each table of a new device grows with its first entry: keys and values, of buffers and of imports. */
void pages_without_memory_to_know_them_leave_nothing(void) {
  for (uint64_t countdown = 1; countdown <= 5; countdown++) {
    app a;
    pages p;
    open_app(&a, 0, 0);
    int64_t objects = mock_objects();
    fail_calloc(countdown);
    VkResult result = pin(&a, MOCK_PAGE_BYTES, &p);
    CHECK(result == (countdown < 5 ? VK_ERROR_OUT_OF_HOST_MEMORY : VK_SUCCESS) && callocs_to_fail() == countdown / 5);
    fail_calloc(0);
    CHECK(mock_objects() == objects + (countdown == 5 ? 2 : 0) && a.face->buffer_bytes.count == (countdown == 5));
    unpin(&a, &p);
    close_app(&a);
  }
}

void pages_that_cannot_be_pinned_leave_nothing(void) {
  static const char *const CALLS[] = {
      "vkCreateBuffer", "vkGetMemoryHostPointerPropertiesEXT", "vkAllocateMemory", "vkBindBufferMemory"};
  app a;
  pages p;
  open_app(&a, 0, 64 * 1024);
  for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++) {
    mock_fail(CALLS[i], i % 2 ? VK_ERROR_INVALID_EXTERNAL_HANDLE : VK_ERROR_OUT_OF_HOST_MEMORY);
    check_failure(&a, i % 2 ? VK_ERROR_INVALID_EXTERNAL_HANDLE : VK_ERROR_OUT_OF_HOST_MEMORY);
  }
  vyre_inject(VYRE_CALL_CREATE_BUFFER, 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
  check_failure(&a, VK_ERROR_OUT_OF_DEVICE_MEMORY);
  vyre_inject(VYRE_CALL_ALLOCATE, 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
  check_failure(&a, VK_ERROR_OUT_OF_DEVICE_MEMORY);
  mock_allow_page_types(0);
  CHECK(pin(&a, MOCK_PAGE_BYTES, &p) == VK_ERROR_INVALID_EXTERNAL_HANDLE);
  unpin(&a, &p);
  mock_allow_page_types(1u << MOCK_UNCACHED); /* else the mock driver finds that they are cached */
  CHECK(pin(&a, MOCK_PAGE_BYTES, &p) == VK_SUCCESS);
  unpin(&a, &p);
  mock_allow_page_types(MOCK_PAGE_TYPES);
  close_app(&a);
}

static void *pin_with_failures(void *argument) {
  static const int CALLS[] = {VYRE_CALL_CREATE_BUFFER, VYRE_CALL_ALLOCATE, VYRE_CALL_SUBMIT, VYRE_CALL_WAIT};
  shelf *s = argument;
  for (uint64_t i = 0; i < rounds; i++) {
    tensor t;
    vyre_this_thread()->failure.call = VYRE_CALL_NONE;
    bool is_whole = make_tensor(&s->a, &t);
    vyre_inject(CALLS[i % 4], i % 3 + 1, VK_ERROR_OUT_OF_HOST_MEMORY);
    if (is_whole) pin_once(s, &t, i);
    drop_tensor(&s->a, &t);
  }
  return NULL;
}

void failures_are_injected_into_pinning(void) {
  shelf s;
  open_shelf(&s);
  s.a.may_fail = true;
  on_threads(pin_with_failures, &s);
  for (int call = 1; call < VYRE_CALL_COUNT; call++) vyre_inject(call, 0, 0);
  close_shelf(&s);
}

static void *pin_on_lost_device(void *argument) {
  shelf *s = argument;
  tensor t;
  CHECK(make_tensor(&s->a, &t));
  for (uint64_t i = 0; i < rounds; i++) {
    if (i == rounds / 2) mock_lose(s->a.device);
    pin_once(s, &t, i);
  }
  drop_tensor(&s->a, &t);
  return NULL;
}

void device_is_lost_with_pages_pinned(void) {
  shelf s;
  open_shelf(&s);
  s.a.may_fail = true;
  on_threads(pin_on_lost_device, &s);
  CHECK(vyre_is_lost(s.a.face));
  close_shelf(&s);
}
