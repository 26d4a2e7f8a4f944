#!/usr/bin/env bash
# Random programs of the whole kernel language through the interpreter, the scheduled nest (checked for races and bounds) and
# machine code, and through their mapping to a grid, its interpreter (likewise) and its CUDA text on the CPU. A failure prints
# its seed. Each test run takes a few hundred of them, this script 2,000 of each kind, or as many as it is told.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export WEFT_RANDOM_PROGRAMS=${1:-2000}
build/bin/oracle_test --gtest_filter='WholeLanguage.*'
exec build/bin/cuda_test --gtest_filter='CudaMap.Random*:CudaMap.TheWhole*'
