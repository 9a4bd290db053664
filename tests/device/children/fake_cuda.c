/* As much of CUDA's driver as sharing a buffer takes, on the CPU: what it imports is lavapipe's memory, an anonymous file.

   FAKE_CUDA_UUIDS: its GPUs, in hexadecimal, one after the other. FAKE_CUDA_FAILS: NAME=RESULT, of a call that fails. Structures
   are written here as cuda.h has them; what is wrong in one is CUDA_ERROR_INVALID_VALUE (1). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
  int type;
  union {
    int fd;
    struct {
      void *handle;
      const void *name;
    } win32;
    const void *nvSciBufObject;
  } handle;
  unsigned long long size;
  unsigned int flags;
  unsigned int reserved[16];
} handle_desc;

typedef struct {
  unsigned long long offset;
  unsigned long long size;
  unsigned int flags;
  unsigned int reserved[16];
} buffer_desc;

typedef struct {
  char *base;
  size_t length;
  unsigned long long size;
} memory;

static int retained, imported, mapped;
static _Thread_local int contexts;
static int context;

#define CHECK(holds, result) if (!(holds)) return result
#define CALL(name) do { int failure = failure_of(name); if (failure) return failure; } while (0)
#define IN_CONTEXT CHECK(contexts == 1, 201)

static int failure_of(const char *name) {
  const char *set = getenv("FAKE_CUDA_FAILS");
  size_t length = strlen(name);
  return set && !strncmp(set, name, length) && set[length] == '=' ? atoi(set + length + 1) : 0;
}

static int are_zero(const unsigned int *words) {
  for (int i = 0; i < 16; i++) CHECK(!words[i], 0);
  return 1;
}

void fake_cuda_counts(int counts[4]) {
  memcpy(counts, (int[]){retained, contexts, imported, mapped}, sizeof(int[4]));
}

int cuInit(unsigned int flags) {
  CALL("cuInit");
  return flags ? 1 : 0;
}

int cuDeviceGetCount(int *count) {
  const char *uuids = getenv("FAKE_CUDA_UUIDS");
  *count = uuids ? (int)(strlen(uuids) / 32) : 0;
  return 0;
}

int cuDeviceGet(int *device, int ordinal) {
  *device = 100 + ordinal; /* a handle, not the ordinal */
  return 0;
}

int cuDeviceGetUuid(unsigned char uuid[16], int device) {
  const char *text = getenv("FAKE_CUDA_UUIDS") + 32 * (device - 100);
  for (int i = 0; i < 16; i++) CHECK(sscanf(text + 2 * i, "%2hhx", &uuid[i]) == 1, 1);
  return 0;
}

int cuDevicePrimaryCtxRetain(void **out, int device) {
  CHECK(device >= 100, 101);
  *out = &context;
  retained++;
  return 0;
}

int cuCtxPushCurrent_v2(void *pushed) {
  CHECK(pushed == &context, 201);
  contexts++;
  return 0;
}

int cuCtxPopCurrent_v2(void **out) {
  IN_CONTEXT;
  contexts--;
  *out = &context;
  return 0;
}

int cuImportExternalMemory(void **out, const handle_desc *desc) {
  struct stat file;
  IN_CONTEXT;
  CALL("cuImportExternalMemory");
  CHECK(desc->type == 1 && desc->flags == 1 && are_zero(desc->reserved) && !fstat(desc->handle.fd, &file), 1);
  memory *made = calloc(1, sizeof *made);
  made->length = (size_t)file.st_size;
  made->size = desc->size;
  made->base = mmap(NULL, made->length, PROT_READ | PROT_WRITE, MAP_SHARED, desc->handle.fd, 0);
  /* Mesa begins the file with its length and where the memory begins in it (os_memory_fd.c). */
  const size_t *head = (const size_t *)made->base;
  if (made->base == MAP_FAILED || head[0] != made->length || head[1] > made->length || desc->size > made->length - head[1]) {
    free(made);
    return 1;
  }
  close(desc->handle.fd); /* its own now */
  imported++;
  *out = made;
  return 0;
}

int cuExternalMemoryGetMappedBuffer(unsigned long long *address, void *external, const buffer_desc *desc) {
  memory *found = external;
  IN_CONTEXT;
  CALL("cuExternalMemoryGetMappedBuffer");
  CHECK(desc->offset == 0 && desc->flags == 0 && are_zero(desc->reserved) && desc->size == found->size, 1);
  *address = (unsigned long long)(found->base + ((const size_t *)found->base)[1]);
  mapped++;
  return 0;
}

int cuMemFree_v2(unsigned long long address) {
  IN_CONTEXT;
  CHECK(address, 1);
  mapped--;
  return 0;
}

int cuDestroyExternalMemory(void *external) {
  memory *found = external;
  IN_CONTEXT;
  munmap(found->base, found->length);
  free(found);
  imported--;
  return 0;
}

int cuGetErrorName(int result, const char **name) {
  *name = result == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : result == 100 ? "CUDA_ERROR_NO_DEVICE" : NULL;
  return *name ? 0 : 1;
}
