#!/usr/bin/env bash
# Runs bench/WHAT.py for WHAT in kernels, networks, shapes, tc, gpu (default: the first two) beside the peers, which live in a
# virtual environment of their own and are installed on the first call. WHAT torch installs torch there, which is so large
# that it is a peer only where somebody asked for it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

run() {
  printf '+ %s\n' "$*" >&2
  "$@"
}

what=${1:-}
[[ $# -gt 0 ]] && shift
case $what in
  '') parts=(kernels networks) ;;
  kernels | networks | shapes | tc | gpu) parts=("$what") ;;
  torch) parts=() ;;
  *) echo "bench: '$what' is none of kernels, networks, shapes, tc, gpu, torch" >&2; exit 2 ;;
esac

install() { # LIST PIP_OPTION...: what tools/requirements-LIST.txt names, once
  local list=tools/requirements-$1.txt stamp=.venv-peers/$1.stamp want
  shift
  want=$(sha256sum <"$list")
  [[ "$(cat "$stamp" 2>/dev/null)" == "$want" ]] && return
  [[ -x .venv-peers/bin/python ]] || run /usr/bin/python3 -m venv .venv-peers
  run .venv-peers/bin/pip install -q --disable-pip-version-check "$@" -r "$list"
  echo "$want" >"$stamp"
}
if [[ $what == gpu ]]; then
  why_not=$(PATH=$PWD/build/bin:$PATH .venv/bin/python bench/gpu.py --probe)
  [[ -n $why_not ]] && echo "$why_not" && exit 0
fi
install peers
[[ $what == torch || -e .venv-peers/torch.stamp ]] && install torch --no-deps --no-cache-dir
export PATH=$PWD/build/bin:$PATH PYTHONPATH=$PWD/build/python
for part in "${parts[@]}"; do
  run .venv-peers/bin/python "bench/$part.py" "$@"
done
