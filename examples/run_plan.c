/* Runs a plan on zeros and says what came out: all that a program in C needs.
 *
 *   run_plan digits.plan [CACHE_DIR] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/weft.h"

static int fail(void) {
  fprintf(stderr, "run_plan: %s\n", weft_error_message());
  return (int)weft_error_code();
}

static void* memory(size_t bytes) {
  size_t lines = bytes / 64 + 1;
  void* p = aligned_alloc(64, lines * 64); /* aligned: nothing is copied */
  if (!p) exit(WEFT_LIMIT);
  return memset(p, 0, lines * 64);
}

static void print(const char* what, const weft_tensor* t) {
  printf("%s %s: [", what, t->name);
  for (int32_t i = 0; i < t->rank; ++i) printf("%s%lld", i ? ", " : "", (long long)t->extents[i]);
  printf("] in %zu bytes\n", t->bytes);
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: run_plan FILE.plan [CACHE_DIR]\n");
    return WEFT_USAGE;
  }
  if (weft_abi_version() != WEFT_ABI_VERSION) {
    fprintf(stderr, "run_plan: libweft_runtime is of another version\n");
    return WEFT_MISSING;
  }
  weft_options options = {.struct_bytes = sizeof options, .cache_dir = argc > 2 ? argv[2] : NULL};
  weft_plan* plan = NULL;
  if (weft_plan_load(argv[1], &options, &plan)) return fail();

  size_t in = weft_plan_inputs(plan, 0), out = weft_plan_outputs(plan, 0);
  const void** inputs = calloc(in + 1, sizeof *inputs);
  void** outputs = calloc(out + 1, sizeof *outputs);
  if (!inputs || !outputs) return WEFT_LIMIT;
  weft_tensor t = {.struct_bytes = sizeof t};
  for (size_t i = 0; i < in; ++i) {
    if (weft_plan_input(plan, 0, i, &t)) return fail();
    print("input", &t);
    inputs[i] = memory(t.bytes);
  }
  for (size_t i = 0; i < out; ++i) {
    if (weft_plan_output(plan, 0, i, &t)) return fail();
    outputs[i] = memory(t.bytes);
  }
  void* arena = memory(weft_plan_arena_bytes(plan, 0));
  if (weft_plan_run(plan, 0, inputs, outputs, arena)) return fail();
  for (size_t i = 0; i < out; ++i) {
    if (weft_plan_output(plan, 0, i, &t)) return fail();
    print("output", &t);
    if (t.dtype == WEFT_F32)
      for (size_t k = 0; k < t.bytes / sizeof(float) && k < 10; ++k) printf("  %g\n", ((const float*)outputs[i])[k]);
  }

  weft_plan_free(plan);
  free(arena);
  for (size_t i = 0; i < in; ++i) free((void*)inputs[i]);
  for (size_t i = 0; i < out; ++i) free(outputs[i]);
  free(inputs);
  free(outputs);
  return WEFT_OK;
}
