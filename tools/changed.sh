# Sourced. changed SUFFIX_REGEX: the files that differ from $WEFT_BASE, else from where this branch left origin/main,
# else (no such remote) from ten commits ago.
changed() {
  local base
  base=${WEFT_BASE:-$(git merge-base HEAD origin/main 2>/dev/null || git rev-parse -q --verify HEAD~10 || git hash-object -t tree /dev/null)}
  { git diff --name-only --diff-filter=d "$base"; git ls-files -o --exclude-standard; } | sort -u | grep -E "$1" || true
}
