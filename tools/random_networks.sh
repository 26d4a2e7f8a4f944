#!/usr/bin/env bash
# Random networks through the partitioner: every node in one group, no two groups waiting for each other, and the same groups
# when nodes are shuffled and values renamed; a failure prints its seed. Each test run takes 1,000 of them, this script 100,000,
# or as many as it is told.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
WEFT_RANDOM_NETWORKS=${1:-100000} exec build/bin/partition_test --gtest_filter='Partition.SameGroups*'
