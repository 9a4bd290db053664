/* An allocator that fails where it is told to: preloaded, it stands before the C library's malloc, calloc and realloc.

   It looks at what the extension modules of vyre_driver ask for, themselves or through Python's C interface, on the thread that
   watches. Where in them that is, is the site: up to SITE_DEPTH return addresses in one module, from the inside out. What other
   libraries or Python code ask for that they call is not theirs. For all objects of Python's to be asked for here, PYTHONMALLOC
   has to be malloc.

   The kompute in vyre_driver/kompute/bundled is such a library too: pybind11's make_new_instance and kompute's setPushConstants use
   what they get without a look, and end the process. */
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define MOST_MODULES 32
#define MOST_SITES 8192
#define MOST_FRAMES 16
#define SITE_DEPTH 3
#define API __attribute__((visibility("default")))

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

typedef struct site {
  uint32_t module;
  uint32_t offsets[SITE_DEPTH]; /* 0: none */
} site;

typedef struct module {
  uintptr_t base, end;
  char name[64];
} module;

static module modules[MOST_MODULES]; /* of vyre_driver */
static uint32_t module_count;
static module between[MOST_MODULES]; /* through which they ask: this one, Python and the C library */
static uint32_t between_count;
static uintptr_t eval_begin, eval_end;
static site seen[MOST_SITES];
static uint32_t seen_count;
static site wanted;
static bool has_failed;
static _Thread_local enum { IDLE, RECORDING, FAILING, LOOKING } state;

static int note_module(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size, (void)unused;
  const char *slash = strrchr(info->dlpi_name, '/');
  const char *name = slash ? slash + 1 : info->dlpi_name;
  bool is_ours = strstr(info->dlpi_name, "/vyre_driver/") && !strstr(info->dlpi_name, "/vyre_driver/kompute/bundled/");
  bool is_between = !*name || strncmp(name, "libpython", 9) == 0 || strncmp(name, "libc.", 5) == 0 || strstr(name, "failing_malloc");
  if (!is_ours && !is_between) return 0;
  if ((is_ours ? module_count : between_count) == MOST_MODULES) return 1;
  module *found = is_ours ? &modules[module_count++] : &between[between_count++];
  memset(found, 0, sizeof *found);
  strncpy(found->name, name, sizeof found->name - 1);
  found->base = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    uintptr_t end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    if (end > found->end) found->end = end;
  }
  return 0;
}

static const module *module_of(const module *of, uint32_t count, uintptr_t address) {
  for (uint32_t i = 0; i < count; i++) {
    if (address >= of[i].base && address < of[i].end) return &of[i];
  }
  return NULL;
}

/* Once all modules are loaded; also makes backtrace() load what it needs. */
API void allocations_prepare(void) {
  void *frames[2];
  Dl_info info;
  ElfW(Sym) *symbol = NULL;
  module_count = between_count = 0;
  dl_iterate_phdr(note_module, NULL);
  void *eval = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
  if (eval && dladdr1(eval, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol) {
    eval_begin = (uintptr_t)eval;
    eval_end = eval_begin + symbol->st_size;
  }
  (void)backtrace(frames, 2);
}

API uint32_t allocations_modules(void) { return module_count; }

API const char *allocations_module(uint32_t index) { return modules[index].name; }

API void allocations_record(void) {
  seen_count = 0;
  state = RECORDING;
}

API void allocations_fail_at(uint32_t index, uint32_t first, uint32_t second, uint32_t third) {
  wanted = (site){index, {first, second, third}};
  has_failed = false;
  state = FAILING;
}

API bool allocations_stop(void) {
  state = IDLE;
  return has_failed;
}

API uint32_t allocations_seen(const site **out) {
  *out = seen;
  return seen_count;
}

/* false: it is not asked for by one of the modules. */
static bool find_site(site *found) {
  void *frames[MOST_FRAMES];
  int count = backtrace(frames, MOST_FRAMES);
  uint32_t depth = 0;
  memset(found, 0, sizeof *found);
  for (int i = 0; i < count && depth < SITE_DEPTH; i++) {
    uintptr_t address = (uintptr_t)frames[i];
    const module *owner = module_of(modules, module_count, address);
    if (!owner) {
      bool is_python_code = address >= eval_begin && address < eval_end;
      if (depth || is_python_code || !module_of(between, between_count, address)) break;
      continue;
    }
    if (depth && owner != &modules[found->module]) break;
    found->module = (uint32_t)(owner - modules);
    found->offsets[depth++] = (uint32_t)(address - owner->base);
  }
  return depth > 0;
}

static bool fails(void) {
  site here;
  if (state != RECORDING && state != FAILING) return false;
  int before = state;
  state = LOOKING;
  bool is_ours = find_site(&here);
  state = before;
  if (!is_ours) return false;
  if (state == FAILING) {
    if (memcmp(&here, &wanted, sizeof here) != 0) return false;
    state = IDLE;
    has_failed = true;
    return true;
  }
  for (uint32_t i = 0; i < seen_count; i++) {
    if (memcmp(&seen[i], &here, sizeof here) == 0) return false;
  }
  if (seen_count < MOST_SITES) seen[seen_count++] = here;
  return false;
}

API void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }

API void *calloc(size_t count, size_t size) { return fails() ? NULL : __libc_calloc(count, size); }

API void *realloc(void *old, size_t size) { return fails() ? NULL : __libc_realloc(old, size); }
