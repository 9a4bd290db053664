/* Memory that others see through a descriptor. */
#include <dirent.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exports.h"
#include "harness.h"

static int open_descriptors(void) {
  DIR *all = opendir("/proc/self/fd");
  int count = 0;
  CHECK(all);
  while (readdir(all)) count++;
  closedir(all);
  return count;
}

static bool make_exported(app *a, tensor *t) {
  vyre_this_thread()->failure = (vyre_failure){0};
  vyre_this_thread()->want_export = true;
  bool is_whole = make_tensor(a, t);
  vyre_this_thread()->want_export = false;
  CHECK(!is_whole || vyre_this_thread()->storage_bytes == BUFFER_BYTES);
  return is_whole;
}

/* What another API of the device would import. */
static unsigned char *see(int fd) {
  void *seen = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(seen != MAP_FAILED);
  return seen;
}

static void check_seen(const unsigned char *seen, unsigned char mark, bool is_copied) {
  for (size_t i = 0; i < BUFFER_BYTES; i++) CHECK(seen[i] == (is_copied && i >= 100 && i < 600 ? (unsigned char)~mark : mark));
}

static void export_once(app *a, uint64_t number) {
  tensor shared, other;
  transfer part = {0};
  int fds[2] = {-1, -1};
  unsigned char mark = (unsigned char)number;
  bool is_whole = make_exported(a, &shared);
  for (int i = 0; i < 2 && is_whole; i++) {
    VkResult result = vyre_export_storage(a->face, &fds[i]);
    CHECK((result == VK_SUCCESS) == (fds[i] >= 0) && (fds[i] >= 0 || a->may_fail));
  }
  CHECK((is_whole && fds[0] != fds[1]) || a->may_fail);
  if (fds[0] >= 0 && fds[1] >= 0 && make_tensor(a, &other)) {
    unsigned char *seen = see(fds[0]), *again = see(fds[1]);
    memset(shared.bytes, mark, BUFFER_BYTES);
    memset(other.bytes, (unsigned char)~mark, BUFFER_BYTES);
    check_seen(seen, mark, false);
    const vyre_region region = {other.buffer, 0, shared.buffer, 100, 500, 0};
    submit_part(a, &part, &region, 1);
    bool is_copied = part.fence;
    end_part(a, &part, 1);
    drop_tensor(a, &other);
    drop_tensor(a, &shared);
    if (!a->may_fail) check_seen(again, mark, is_copied); /* the descriptor holds the memory */
    CHECK(memcmp(seen, again, BUFFER_BYTES) == 0);
    munmap(seen, BUFFER_BYTES);
    munmap(again, BUFFER_BYTES);
  } else {
    CHECK(a->may_fail);
    drop_tensor(a, &shared);
  }
  for (int i = 0; i < 2; i++) {
    if (fds[i] >= 0) close(fds[i]);
  }
}

static void *export_many(void *argument) {
  app *a = argument;
  for (uint64_t i = 0; i < rounds; i++) export_once(a, i);
  return NULL;
}

void exported_memory_is_seen_and_outlives_its_device(void) {
  app a;
  tensor t;
  int fd, late = 0, before = open_descriptors();
  open_app(&a, 1000, 64 * 1024);
  on_threads(export_many, &a);
  CHECK(make_exported(&a, &t) && vyre_export_storage(a.face, &fd) == VK_SUCCESS);
  memset(t.bytes, 0x5A, BUFFER_BYTES);
  drop_tensor(&a, &t);
  CHECK(vyre_wait_idle(a.face) == VK_SUCCESS);
  a.DestroyDevice(a.device, NULL);
  close_instance(&a);
  CHECK(vyre_export_storage(a.face, &late) == VK_ERROR_DEVICE_LOST && late == -1);
  vyre_release(a.face);
  pthread_mutex_destroy(&a.lock);
  unsigned char *seen = see(fd);
  check_seen(seen, 0x5A, false);
  munmap(seen, BUFFER_BYTES);
  close(fd);
  CHECK(open_descriptors() == before);
}

static void check_refused_export(app *a, VkResult expected) {
  tensor t;
  int fd = 0, before = open_descriptors();
  CHECK(make_exported(a, &t));
  CHECK(vyre_export_storage(a->face, &fd) == expected && fd == -1);
  const vyre_failure *failure = &vyre_this_thread()->failure;
  CHECK(failure->call == VYRE_CALL_EXPORT && failure->result == expected && failure->bytes == BUFFER_BYTES);
  CHECK(vyre_export_storage(a->face, &fd) == VK_SUCCESS && fd >= 0);
  close(fd);
  drop_tensor(a, &t);
  CHECK(open_descriptors() == before);
}

void exports_that_fail_leave_nothing(void) {
  static const int CALLS[] = {VYRE_CALL_CREATE_BUFFER, VYRE_CALL_ALLOCATE, VYRE_CALL_BIND, VYRE_CALL_MAP};
  static const char *const NAMES[] = {"vkCreateBuffer", "vkAllocateMemory", "vkBindBufferMemory", NULL};
  app a;
  tensor t;
  open_app(&a, 0, 64 * 1024);
  a.may_fail = true;
  int64_t objects = mock_objects();
  int before = open_descriptors();
  for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++) {
    if (NAMES[i]) {
      mock_fail(NAMES[i], VK_ERROR_OUT_OF_DEVICE_MEMORY);
    } else {
      vyre_inject(CALLS[i], 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    }
    CHECK(!make_exported(&a, &t) && vyre_this_thread()->failure.call == CALLS[i]);
    CHECK(mock_objects() == objects && open_descriptors() == before);
    vyre_this_thread()->failure.call = VYRE_CALL_NONE;
    CHECK(make_tensor(&a, &t)); /* an ordinary one: what was wanted before is forgotten */
    drop_tensor(&a, &t);
  }
  vyre_inject(VYRE_CALL_EXPORT, 1, VK_ERROR_OUT_OF_HOST_MEMORY);
  check_refused_export(&a, VK_ERROR_OUT_OF_HOST_MEMORY);
  mock_fail("vkGetMemoryFdKHR", VK_ERROR_TOO_MANY_OBJECTS);
  check_refused_export(&a, VK_ERROR_TOO_MANY_OBJECTS);
  mock_fail("vkGetDeviceProcAddr", VK_ERROR_EXTENSION_NOT_PRESENT);
  check_refused_export(&a, VK_ERROR_EXTENSION_NOT_PRESENT);
  CHECK(mock_objects() == objects);
  close_app(&a);
}

static void *export_and_lose(void *argument) {
  app *a = argument;
  for (uint64_t i = 0; i < rounds; i++) {
    if (i == rounds / 2) mock_lose(a->device);
    vyre_inject(VYRE_CALL_EXPORT, i % 3, VK_ERROR_OUT_OF_HOST_MEMORY);
    export_once(a, i);
  }
  return NULL;
}

void device_is_lost_with_memory_exported(void) {
  app a;
  int before = open_descriptors();
  open_app(&a, 0, 64 * 1024);
  a.may_fail = true;
  on_threads(export_and_lose, &a);
  vyre_inject(VYRE_CALL_EXPORT, 0, 0);
  CHECK(vyre_is_lost(a.face));
  close_app(&a);
  CHECK(open_descriptors() == before);
}
