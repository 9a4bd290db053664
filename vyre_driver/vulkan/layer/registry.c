/* From a dispatchable handle to what the layer knows of its instance or device: two tables, which grow with what is open.

   Looking a handle up takes no lock. A slot's key is there only while its record is: an application may not use a handle that
   another thread is destroying, so the record of a key that was found stays valid for the call, and no other record is looked
   at. A table that was outgrown stays as it is for threads that still read it; all of them together are smaller than the one in
   use.

   Room is taken before the Vulkan driver is called: once it has made an instance or a device nothing here can fail, for the
   loader would free what a layer both destroys and refuses. */
#include <stdlib.h>
#include <string.h>

#include "layer.h"

#define FIRST_CAPACITY 64

typedef struct slot {
  _Atomic(void *) key; /* NULL: free */
  _Atomic(void *) record;
} slot;

typedef struct table {
  size_t capacity; /* a power of two */
  struct table *outgrown;
  slot slots[];
} table;

struct vyre_registry {
  pthread_mutex_t lock; /* of all that writes */
  size_t taken;         /* rooms, filled or not */
  _Atomic(table *) now;
};

static vyre_registry of_instances = {.lock = PTHREAD_MUTEX_INITIALIZER};
static vyre_registry of_devices = {.lock = PTHREAD_MUTEX_INITIALIZER};
vyre_registry *const vyre_instances = &of_instances;
vyre_registry *const vyre_devices = &of_devices;

/* The loader keeps a pointer to its dispatch table first in every dispatchable object; one instance or device has one. */
static void *key_of(const void *dispatchable) { return *(void *const *)dispatchable; }

static size_t first_slot(const table *in, const void *key) {
  uint64_t spread = (uint64_t)(uintptr_t)key * UINT64_C(0x9E3779B97F4A7C15);
  return (size_t)(spread >> 32) & (in->capacity - 1);
}

static void fill(table *in, void *key, void *record) {
  size_t at = first_slot(in, key);
  while (atomic_load_explicit(&in->slots[at].key, memory_order_relaxed)) at = (at + 1) & (in->capacity - 1);
  atomic_store_explicit(&in->slots[at].record, record, memory_order_relaxed);
  atomic_store_explicit(&in->slots[at].key, key, memory_order_release);
}

/* Under the lock. */
static bool grow(vyre_registry *registry) {
  table *old = atomic_load_explicit(&registry->now, memory_order_relaxed);
  size_t capacity = old ? old->capacity * 2 : FIRST_CAPACITY;
  table *larger = calloc(1, sizeof *larger + capacity * sizeof larger->slots[0]);
  if (!larger) return false;
  larger->capacity = capacity;
  larger->outgrown = old;
  for (size_t i = 0; old && i < old->capacity; i++) {
    void *key = atomic_load_explicit(&old->slots[i].key, memory_order_relaxed);
    if (key) fill(larger, key, atomic_load_explicit(&old->slots[i].record, memory_order_relaxed));
  }
  atomic_store_explicit(&registry->now, larger, memory_order_release);
  return true;
}

bool vyre_take_room(vyre_registry *registry) {
  pthread_mutex_lock(&registry->lock);
  const table *now = atomic_load_explicit(&registry->now, memory_order_relaxed);
  bool has_room = (now && registry->taken * 2 < now->capacity) || grow(registry);
  if (has_room) registry->taken++;
  pthread_mutex_unlock(&registry->lock);
  return has_room;
}

void vyre_give_room_back(vyre_registry *registry) {
  pthread_mutex_lock(&registry->lock);
  registry->taken--;
  pthread_mutex_unlock(&registry->lock);
}

void vyre_keep(vyre_registry *registry, const void *dispatchable, void *record) {
  pthread_mutex_lock(&registry->lock);
  fill(atomic_load_explicit(&registry->now, memory_order_relaxed), key_of(dispatchable), record);
  pthread_mutex_unlock(&registry->lock);
}

/* A key may lie behind slots that have become free since: the search ends at the key, or after the whole table. */
static slot *find_slot(const vyre_registry *registry, const void *dispatchable) {
  void *key = key_of(dispatchable);
  table *now = atomic_load_explicit(&registry->now, memory_order_acquire);
  size_t at = now ? first_slot(now, key) : 0;
  for (size_t left = now ? now->capacity : 0; left; left--, at = (at + 1) & (now->capacity - 1)) {
    if (atomic_load_explicit(&now->slots[at].key, memory_order_acquire) == key) return &now->slots[at];
  }
  return NULL;
}

void *vyre_find(const vyre_registry *registry, const void *dispatchable) {
  slot *found = find_slot(registry, dispatchable);
  return found ? atomic_load_explicit(&found->record, memory_order_relaxed) : NULL;
}

void *vyre_forget(vyre_registry *registry, const void *dispatchable) {
  pthread_mutex_lock(&registry->lock);
  slot *found = find_slot(registry, dispatchable);
  void *record = found ? atomic_load_explicit(&found->record, memory_order_relaxed) : NULL;
  if (found) {
    atomic_store_explicit(&found->key, NULL, memory_order_relaxed);
    registry->taken--;
  }
  pthread_mutex_unlock(&registry->lock);
  return record;
}

PFN_vkVoidFunction vyre_find_hook(const vyre_hook *hooks, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(hooks[i].name, name) == 0) return hooks[i].function;
  }
  return NULL;
}
