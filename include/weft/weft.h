/* The C interface of the runtime: loads a plan and runs it in memory that the caller owns.
 *
 *   weft_plan* plan = NULL;
 *   if (weft_plan_load("digits.plan", NULL, &plan)) return fail(weft_error_message());
 *   const void* inputs[] = {image};
 *   void* outputs[] = {digit};
 *   weft_plan_run(plan, 0, inputs, outputs, NULL);
 *   weft_plan_free(plan);
 *
 * Link with -lweft_runtime. A plan holds no machine code: its kernels come from the code cache of
 * the machine, where `weft build` or a first `weft run` put them. Tensors are dense and row-major.
 * A plan has one specialization for each set of input shapes that it was built for, counted from 0.
 *
 * Calls on different plans are independent; runs of one plan take turns. No function throws, prints
 * or ends the process. Strings that are given stay valid as long as the plan, those of an error
 * until the next call in the same thread. */
#ifndef WEFT_WEFT_H_
#define WEFT_WEFT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when something here changes its meaning; what is added at the end of a struct does not
 * count, since each says its own size. */
#define WEFT_ABI_VERSION 1

/* Equal to WEFT_ABI_VERSION of the header that the library was built with. */
int32_t weft_abi_version(void);
const char* weft_version(void); /* "0.1.0" */

/* The exit codes of the command line. */
typedef enum weft_code {
  WEFT_OK = 0,
  WEFT_USAGE = 2,       /* called wrongly */
  WEFT_INVALID = 3,     /* a malformed plan, or an index outside of its tensor */
  WEFT_UNSUPPORTED = 4, /* well-formed, but this runtime can't run it */
  WEFT_LIMIT = 5,       /* no memory */
  WEFT_MISSING = 6,     /* a device, a library or a kernel's machine code is not here */
  WEFT_INTERNAL = 70,   /* a defect of weft */
  WEFT_INTERRUPTED = 130
} weft_code;

/* Of the last call in this thread that failed; empty strings before any did. */
const char* weft_error_message(void); /* where, what, why and what to try, in one line */
const char* weft_error_what(void);
const char* weft_error_where(void);
const char* weft_error_hint(void);
weft_code weft_error_code(void);

typedef enum weft_dtype {
  WEFT_BOOL = 0,
  WEFT_U8,
  WEFT_I8,
  WEFT_U16,
  WEFT_I16,
  WEFT_U32,
  WEFT_I32,
  WEFT_U64,
  WEFT_I64,
  WEFT_F16,
  WEFT_BF16,
  WEFT_F32,
  WEFT_F64,
  WEFT_STRING,  /* no bytes: plans with such inputs or outputs are described, but not run */
  WEFT_U4 = 14, /* two in a byte, the first in its low half */
  WEFT_I4
} weft_dtype;

#define WEFT_MAX_RANK 26

typedef struct weft_tensor {
  size_t struct_bytes; /* sizeof(weft_tensor), set by the caller */
  const char* name;
  weft_dtype dtype;
  int32_t rank;
  int64_t extents[WEFT_MAX_RANK];
  size_t bytes; /* of all elements: what a run reads or writes */
} weft_tensor;

typedef struct weft_options {
  size_t struct_bytes;   /* sizeof(weft_options), set by the caller */
  uint32_t threads;      /* 0: what the machine allows */
  const char* cache_dir; /* of machine code; NULL: WEFT_CACHE_DIR, else the user's cache */
} weft_options;

typedef struct weft_plan weft_plan;

/* `options` may be NULL. On failure *plan is NULL. The bytes are copied. */
weft_code weft_plan_load(const char* path, const weft_options* options, weft_plan** plan);
weft_code weft_plan_load_bytes(const void* bytes, size_t count, const weft_options* options,
                               weft_plan** plan);
void weft_plan_free(weft_plan* plan); /* NULL is allowed; not while it runs */

size_t weft_plan_specializations(const weft_plan* plan);
size_t weft_plan_inputs(const weft_plan* plan, size_t specialization);
size_t weft_plan_outputs(const weft_plan* plan, size_t specialization);
weft_code weft_plan_input(const weft_plan* plan, size_t specialization, size_t index,
                          weft_tensor* tensor);
weft_code weft_plan_output(const weft_plan* plan, size_t specialization, size_t index,
                           weft_tensor* tensor);
/* Of the arena that a run may be given. */
size_t weft_plan_arena_bytes(const weft_plan* plan, size_t specialization);

/* One pointer for each input and output, in the plan's order, each to as many bytes as its
 * weft_tensor says. Element alignment suffices; memory aligned to 64 bytes is never copied.
 * `arena`: weft_plan_arena_bytes of memory, aligned to 64 bytes, or NULL for the plan's own.
 * Running again with the same pointers costs least: they are bound once. */
weft_code weft_plan_run(weft_plan* plan, size_t specialization, const void* const* inputs,
                        void* const* outputs, void* arena);
/* For a plan that was built for a GPU, and runs on it. As weft_plan_run, but inputs, outputs and
 * arena are in the device's memory, aligned to 16 bytes, the arena to 64, in the primary context of
 * the device; `stream` is a CUstream (or cudaStream_t), or NULL for the plan's own. It returns once
 * the run is enqueued, and waits only where a step of the plan runs on the host. Runs of one plan
 * follow each other, whatever their streams. Started again with the same pointers, a run is one
 * CUDA graph. */
weft_code weft_plan_enqueue(weft_plan* plan, size_t specialization, const void* const* inputs,
                            void* const* outputs, void* arena, void* stream);
/* Waits for the stream. What a kernel found wrong with its operands is an error of this call. */
weft_code weft_plan_wait(weft_plan* plan, size_t specialization, void* stream);
/* Ends the run that is going on, or else the next one, from any thread or a signal handler: it
 * returns WEFT_INTERRUPTED. */
void weft_plan_cancel(weft_plan* plan);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_WEFT_H_ */
