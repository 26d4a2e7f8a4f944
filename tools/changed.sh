# Sourced: changed SUFFIX_REGEX prints the files that differ from the last commit of main (or, on main, from HEAD~).
changed() {
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null || git rev-parse -q --verify HEAD~ 2>/dev/null || git rev-parse HEAD)
  { git diff --name-only --diff-filter=d "$base"; git ls-files -o --exclude-standard; } | sort -u | grep -E "$1" || true
}
