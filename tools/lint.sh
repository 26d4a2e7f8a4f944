#!/usr/bin/env bash
# clang-tidy on the named files, or on the C++ files that changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/changed.sh
files=("$@")
[[ $# -gt 0 ]] || mapfile -t files < <(changed '\.cpp$')
[[ -f build/compile_commands.json ]] || { echo "lint: run ./dev build first" >&2; exit 2; }
known=()
for file in "${files[@]}"; do # what is in no target has no flags to be read with
  grep -qF "/$file\"" build/compile_commands.json && known+=("$file")
done
[[ ${#known[@]} -gt 0 ]] || { echo "lint: nothing to do" >&2; exit 0; }
# The flags are GCC's; clang need not know all of its warnings, nor read its precompiled headers.
printf '%s\0' "${known[@]}" | xargs -0 -n 1 -P "$(nproc)" \
  clang-tidy-19 -p build --quiet --extra-arg=-Wno-unknown-warning-option \
  --extra-arg=-Wno-ignored-gch
