#!/usr/bin/env bash
# Random programs of the whole kernel language through the interpreter, the scheduled nest (checked for races and bounds) and
# machine code; a failure prints its seed. Each test run takes 200 of them, this script 2,000, or as many as it is told.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
WEFT_RANDOM_PROGRAMS=${1:-2000} exec build/bin/oracle_test --gtest_filter='WholeLanguage.*'
