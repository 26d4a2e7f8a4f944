#!/usr/bin/env bash
# Formats every C++ file, or with --check says which are not formatted and fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=(-i)
[[ ${1:-} == --check ]] && mode=(--dry-run --Werror)
git ls-files -co --exclude-standard -z '*.h' '*.cpp' '*.cu' | xargs -0 -r clang-format-19 "${mode[@]}"
