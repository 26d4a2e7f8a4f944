#!/usr/bin/env bash
# What `./dev check` adds to the tests: format, tidy, one build with ASan and UBSan, a minute of each fuzz target.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

run() {
  printf '+ %s\n' "$*" >&2
  "$@"
}

run tools/format.sh --check
run tools/lint.sh

# clang-19, since clang 14 cannot read libstdc++ 12's ranges.
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
run cmake -S . -B build-asan -G Ninja -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 \
  -DWEFT_SANITIZE=ON
run ninja -C build-asan -j "${WEFT_JOBS:-$(nproc)}"
run .venv/bin/python tools/run_tests.py --build build-asan --only programs,lit

for target in build-asan/bin/fuzz_*; do
  [[ -x $target ]] || continue
  name=${target##*/fuzz_}
  found=build-asan/fuzz/$name
  mkdir -p "$found"
  kept=$name
  [[ $name == infer_shapes || $name == simplify ]] && kept=import_onnx # models, too
  seeds=()
  for folder in tests/fuzz/seeds/$kept tests/fuzz/crashers/$kept; do
    [[ -d $folder ]] && seeds+=("$folder")
  done
  run "$target" -max_total_time="${WEFT_FUZZ_S:-60}" -timeout=10 -rss_limit_mb=2048 -artifact_prefix="$found/crash-" \
    -print_final_stats=0 -verbosity=0 "$found" "${seeds[@]}"
done
echo "check: all clean"
