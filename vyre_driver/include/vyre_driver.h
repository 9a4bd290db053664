/*
 * vyre_driver from C: keys, binding plans, the pipeline cache and runs of bound kernels, as a table of functions that an extension
 * module imports once. C11 and C++11. Compile with -I of `python -m vyre_driver --includes`; nothing is linked.
 *
 *     static const vyre_driver_api *vyre;
 *     ... in the module's init function, with the GIL held:
 *     vyre = import_vyre_driver();
 *     if (vyre == NULL)
 *         return NULL;  // an exception is set
 *
 * Every function says whether it needs the GIL ("no GIL": call it with or without; "takes the GIL": the same, and it waits for
 * it). All are safe from any number of threads at once as long as no two write the same memory. Sizes are bytes unless a name
 * says otherwise; texts are UTF-8 without terminator; no function keeps a pointer after it returns; a pointer may be NULL
 * exactly where the number of what it points to is 0.
 */
#ifndef VYRE_DRIVER_H
#define VYRE_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The table only grows at its end while this number stays; another number is another table. */
#define VYRE_DRIVER_ABI_VERSION 1
#define VYRE_DRIVER_CAPSULE "vyre_driver._fast._C_API"

/* One specialization constant: its name, which may hold any byte, and the cache_hash of its value. */
typedef struct vyre_spec_entry {
    const char *name;
    size_t name_len;
    uint64_t value_hash;
} vyre_spec_entry;

/* What a tuned launch is found by. */
typedef struct vyre_spec_cache_key {
    uint64_t shader_hash;
    uint64_t binding_sig;
    uint64_t spec_hash;
    uint32_t workgroup_size[3]; /* invocations */
} vyre_spec_cache_key;

/* What a dispatch does with a buffer. */
typedef enum vyre_binding_role {
    VYRE_ROLE_INPUT = 0,
    VYRE_ROLE_OUTPUT = 1,
    VYRE_ROLE_INPUT_OUTPUT = 2,
    VYRE_ROLE_UNIFORM = 3,
    VYRE_ROLE_SHARED = 4, /* memory of a workgroup */
    VYRE_ROLE_PERSISTENT = 5
} vyre_binding_role;

/* How a buffer may be used; the values of BufferAccess. */
typedef enum vyre_buffer_access {
    VYRE_ACCESS_READ_ONLY = 0,
    VYRE_ACCESS_READ_WRITE = 1,
    VYRE_ACCESS_UNIFORM = 2,
    VYRE_ACCESS_WRITE_ONLY = 3,
    VYRE_ACCESS_WORKGROUP = 4
} vyre_buffer_access;

/* Where a buffer is; the values of MemoryKind. */
typedef enum vyre_memory_kind {
    VYRE_KIND_GLOBAL = 0,
    VYRE_KIND_SHARED = 1,
    VYRE_KIND_UNIFORM = 2,
    VYRE_KIND_LOCAL = 3,
    VYRE_KIND_READONLY = 4,
    VYRE_KIND_PERSISTENT = 5,
    VYRE_KIND_PUSH = 6
} vyre_memory_kind;

/* What plan_build says. */
typedef enum vyre_plan_status {
    VYRE_PLAN_WHOLE = 0,
    VYRE_PLAN_UNKNOWN_ACCESS = 1,  /* an access that is none of the five */
    VYRE_PLAN_RUNTIME_SIZED = 2,   /* a count of elements that have no size */
    VYRE_PLAN_LENGTH_OVERFLOW = 3, /* count * element_size passes 2**64 - 1 */
    VYRE_PLAN_ALIGNMENT = 4        /* an alignment that is neither 0 nor a power of two */
} vyre_plan_status;

/* What validate_lengths says. */
typedef enum vyre_lengths_status {
    VYRE_LENGTHS_FIT = 0,
    VYRE_LENGTHS_COUNT = 1,      /* another number of inputs than the plan has */
    VYRE_LENGTHS_SHORT = 2,      /* less than least_byte_len */
    VYRE_LENGTHS_MISALIGNED = 3, /* no whole number of elements */
    VYRE_LENGTHS_MISMATCH = 4    /* not static_byte_len */
} vyre_lengths_status;

/* A buffer as a program declares it. */
typedef struct vyre_buffer_decl {
    uint64_t element_size;        /* 0: the type fixes none */
    uint32_t binding;             /* its number */
    uint32_t count;               /* elements; 0: left to run time */
    uint32_t preferred_alignment; /* 0: none asked for, else a power of two */
    uint8_t access;               /* vyre_buffer_access */
    uint8_t kind;                 /* vyre_memory_kind */
    uint8_t is_output;            /* 0 or 1 */
    uint8_t pipeline_live_out;    /* 0 or 1 */
} vyre_buffer_decl;

/* A buffer of a plan; an index of -1 is none. */
typedef struct vyre_binding {
    uint64_t element_size;
    uint64_t preferred_alignment;
    uint64_t static_byte_len; /* only where has_static_byte_len */
    uint64_t header_bytes;    /* before the first element; 0 for a program */
    uint64_t least_byte_len;  /* of an input; 0 for a program */
    uint64_t buffer_index;    /* its place among the declarations */
    int64_t input_index;      /* its place among the inputs */
    int64_t output_index;     /* its place among the outputs */
    uint32_t binding;
    uint32_t element_count; /* 0: left to run time */
    uint8_t role;           /* vyre_binding_role */
    uint8_t has_static_byte_len;
} vyre_binding;

/* The first input that does not fit. */
typedef struct vyre_lengths_fault {
    size_t place;      /* of the binding in the plan; the number of bindings for VYRE_LENGTHS_COUNT */
    uint64_t expected; /* inputs, or bytes: the least, of one element, or in all */
    uint64_t received;
} vyre_lengths_fault;

/* What cache_lookup says; everything but VYRE_CACHE_HIT is a miss. */
typedef enum vyre_cache_verdict {
    VYRE_CACHE_FAILED = -1, /* an argument that is not valid, or no memory */
    VYRE_CACHE_HIT = 0,
    VYRE_CACHE_MISS = 1,
    VYRE_CACHE_TRUNCATED = 2,
    VYRE_CACHE_EXTENDED = 3,
    VYRE_CACHE_CORRUPT = 4,
    VYRE_CACHE_OUTDATED = 5,
    VYRE_CACHE_FOREIGN_KEY = 6,
    VYRE_CACHE_FOREIGN_DEVICE = 7,
    VYRE_CACHE_TOO_LARGE = 8,
    VYRE_CACHE_UNTRUSTED = 9,
    VYRE_CACHE_IO_ERROR = 10
} vyre_cache_verdict;

/* An open cache; release it with cache_close. */
typedef struct vyre_cache vyre_cache;

/* A verified entry. The bytes stay as they are until cache_release, whatever happens to the file. */
typedef struct vyre_cache_entry {
    const uint8_t *spirv;
    size_t spirv_len;
    const uint8_t *native; /* the driver's compiled blob, for the device of the key; NULL without one */
    size_t native_len;
    void *owner;      /* of the bytes */
    char reason[256]; /* of a miss or failure, cut to fit, NUL at its end; empty for a hit */
} vyre_cache_entry;

/* A BoundKernel as C code has it; release it with bound_drop. */
typedef struct vyre_bound_kernel vyre_bound_kernel;

/* How long bound_run and bound_wait wait that shall wait for ever, in ns. */
#define VYRE_NO_TIME_OUT UINT64_MAX

/* What the functions of a bound kernel say; below 0 the work does not run, or how it ended is not known. */
typedef enum vyre_bound_status {
    VYRE_BOUND_SUCCESS = 0,      /* done; of a submission: handed over */
    VYRE_BOUND_RUNNING = 1,      /* an earlier submission has not ended, or another thread is in a call of this handle */
    VYRE_BOUND_TIMED_OUT = 2,    /* it did not end in time, and goes on */
    VYRE_BOUND_FAILED = -1,      /* the device takes no work, or its driver ended a loop early */
    VYRE_BOUND_DEVICE_LOST = -2, /* it stays lost */
    VYRE_BOUND_CLOSED = -3,      /* the driver is closed; all work ended before */
    VYRE_BOUND_FORKED = -4       /* this process was forked from the one that took the handle */
} vyre_bound_status;

/* What device_counts counts, by place, since the device was opened; what is no number of bytes or of now only grows. */
typedef enum vyre_device_count {
    VYRE_COUNT_FENCES_CREATED = 0,
    VYRE_COUNT_FENCES_REUSED = 1,
    VYRE_COUNT_WAITS_POLLED = 2,
    VYRE_COUNT_WAITS_BLOCKED = 3,
    VYRE_COUNT_MEMORY_ALLOCATED = 4,
    VYRE_COUNT_MEMORY_REUSED = 5,
    VYRE_COUNT_MEMORY_LIVE_BYTES = 6,   /* device memory in use */
    VYRE_COUNT_MEMORY_CACHED_BYTES = 7, /* kept to be used again */
    VYRE_COUNT_MEMORY_PEAK_BYTES = 8,   /* the most that was ever in use */
    VYRE_COUNT_MEMORY_FLUSHES = 9,
    VYRE_COUNT_BARRIERS_ADDED = 10,
    VYRE_COUNT_PIPELINES_CREATED = 11,
    VYRE_COUNT_PIPELINES_SHARED = 12,
    VYRE_COUNT_BLOBS_GIVEN = 13,
    VYRE_COUNT_BLOBS_TAKEN = 14,
    VYRE_COUNT_FEATURES_ENABLED = 15,
    VYRE_COUNT_WORK_PENDING = 16,       /* submissions not seen to end */
    VYRE_COUNT_FAILURES_RECORDED = 17,
    VYRE_COUNT_COMMAND_POOLS_CREATED = 18,
    VYRE_COUNT_COMMAND_POOLS_REUSED = 19
} vyre_device_count;

typedef struct vyre_driver_api {
    uint32_t abi_version;
    uint32_t struct_size; /* of this table as it was built; more than sizeof(vyre_driver_api) when it has grown since */

    /* The u64 hash of a specialization map (SpecMap.cache_hash). `entries` stand in the byte order of their names, each name
     * once. Cannot fail. No GIL. */
    uint64_t (*spec_map_hash)(const vyre_spec_entry *entries, size_t count);

    /* Writes the 32 hex digits that name a tuned kernel (AutotuneKey.key_hex), no terminator. Cannot fail. No GIL. */
    void (*autotune_key)(const vyre_spec_cache_key *key, char *out);

    /* Writes 2 * byte_len lower-case hex digits, no terminator. Cannot fail. No GIL. */
    void (*hex)(const uint8_t *data, size_t byte_len, char *out);

    /* Writes the path below the cache's root of a 32-byte digest: "ab/abcd....bin", 71 characters, no terminator. Cannot fail.
     * No GIL. */
    void (*shard_path)(const uint8_t *digest, char *out);

    /* Plans `count` declared buffers into as many `out`, in the order of their numbers, declarations of one number in their
     * own order (BindingPlan.build). `lengths` are those of the inputs in that order; `length_count` of them are known (0 will
     * do), they give buffers without a count their elements. On a fault `out` is not defined and `fault_index` is the place
     * of a declaration at fault. No GIL. */
    vyre_plan_status (*plan_build)(const vyre_buffer_decl *decls, size_t count, const uint64_t *lengths, size_t length_count,
                                   vyre_binding *out, size_t *fault_index);

    /* Proves the byte lengths of a dispatch's inputs against a plan (BindingPlan.validate_inputs); `lengths` in the order of
     * input_index. Fills in `fault` when one does not fit; otherwise it is not defined. No GIL. */
    vyre_lengths_status (*validate_lengths)(const vyre_binding *bindings, size_t count, const uint64_t *lengths,
                                            size_t length_count, vyre_lengths_fault *fault);

    /* Writes the 32-byte digest of a pipeline's manifest (PipelineCacheKey.digest; docs/cache-format.md has its bytes).
     * Returns 0, or -1 when memory runs out. Takes the GIL. */
    int (*pipeline_key)(const uint8_t *manifest, size_t manifest_len, uint8_t *digest);

    /* Opens the cache in a directory, whose name ends with NUL; NULL takes the settings' (VYRE_CACHE_DIR, else the user's).
     * A directory that cannot be used gives a cache in memory, as for a Driver. Returns NULL on a name that is not valid or
     * when memory runs out, with the reason in `reason` (256 characters, or NULL). Takes the GIL. */
    vyre_cache *(*cache_open)(const char *directory, char *reason);

    /* Looks up the entry of a manifest and verifies it wholly: owner, length, digest, key. Always fills in `entry`; release
     * it after a hit. Takes the GIL, and lets others have it while the file is read. */
    vyre_cache_verdict (*cache_lookup)(vyre_cache *cache, const uint8_t *manifest, size_t manifest_len,
                                       vyre_cache_entry *entry);

    /* Gives the bytes of an entry back, and makes it empty; of an empty one does nothing. Takes the GIL. */
    void (*cache_release)(vyre_cache_entry *entry);

    /* Gives a cache back; its entries stay. NULL is fine. Takes the GIL. */
    void (*cache_close)(vyre_cache *cache);

    /* Takes a BoundKernel (its PyObject *) to be run without Python. The handle is a recording of its own, with the push
     * constants that the kernel has now, and keeps what it needs: buffers and pipeline stay until bound_drop, whatever happens
     * to the Python objects; the device is the driver's to close. Its runs are none of the driver's events. Returns NULL where
     * it cannot be run from C, with the reason in `reason` (256 characters, or NULL). Takes the GIL. */
    vyre_bound_kernel *(*bound_take)(void *kernel, char *reason);

    /* Gives a handle back, once its work has ended; no thread is in a call of it. NULL is fine. Takes the GIL, and lets others
     * have it while it waits. */
    void (*bound_drop)(vyre_bound_kernel *kernel);

    /* What follows is safe from any number of threads at once, of one handle too, and while the driver is closed, which waits
     * for calls that have begun. Submissions of all handles and of Python take effect one after the other, in the order in which
     * they are handed over. A thread that holds the GIL keeps it.
     *
     * Submits and waits until it has ended, `timeout_ns` in all (VYRE_NO_TIME_OUT: for ever), also for the earlier submission
     * of this handle and for runs of it in other threads, which come first in no certain order. VYRE_BOUND_RUNNING: those did
     * not end in time, and nothing was submitted. No GIL. */
    vyre_bound_status (*bound_run)(vyre_bound_kernel *kernel, uint64_t timeout_ns);

    /* Submits and returns at once. A handle has one submission under way: VYRE_BOUND_RUNNING until that has ended, and nothing
     * is submitted; take more handles of the kernel to have more under way. No GIL. */
    vyre_bound_status (*bound_submit)(vyre_bound_kernel *kernel);

    /* Waits until the handle's submission has ended, `timeout_ns` at most; where there is none, returns at once. No GIL. */
    vyre_bound_status (*bound_wait)(vyre_bound_kernel *kernel, uint64_t timeout_ns);

    /* Says whether the handle's submission has ended, without waiting: VYRE_BOUND_RUNNING if not. No GIL. */
    vyre_bound_status (*bound_poll)(vyre_bound_kernel *kernel);

    /* Writes the counts of the kernel's device into the first `count` places of `counts` (vyre_device_count), 0 into those that
     * there are not; returns how many there are. Also of a device that is closed. Cannot fail. No GIL. */
    size_t (*device_counts)(const vyre_bound_kernel *kernel, uint64_t *counts, size_t count);
} vyre_driver_api;

#ifdef __cplusplus
}
#endif

/* Needs Python.h before this header. */
#ifdef PyObject_HEAD

/* Returns the table of the installed vyre_driver, or NULL with an exception: ImportError when it is not installed or has
 * another table. It lives as long as the interpreter. Needs the GIL. */
static inline const vyre_driver_api *import_vyre_driver(void)
{
    const vyre_driver_api *api = (const vyre_driver_api *)PyCapsule_Import(VYRE_DRIVER_CAPSULE, 0);
    if (api == NULL)
        return NULL;
    if (api->abi_version != VYRE_DRIVER_ABI_VERSION || api->struct_size < sizeof(vyre_driver_api)) {
        PyErr_Format(PyExc_ImportError,
                     "vyre_driver has C table %u of %u bytes, and this extension was built for table %u of %zu bytes. "
                     "Fix: install the vyre_driver that it was built with, or build it anew.",
                     (unsigned)api->abi_version, (unsigned)api->struct_size, (unsigned)VYRE_DRIVER_ABI_VERSION,
                     sizeof(vyre_driver_api));
        return NULL;
    }
    return api;
}

#endif /* PyObject_HEAD */

#endif /* VYRE_DRIVER_H */
