#!/usr/bin/env bash
# Runs bench/WHAT.py for WHAT in kernels, networks (default: both) beside the peers, which live in a
# virtual environment of their own and are installed on the first call.
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
  kernels | networks) parts=("$what") ;;
  *) echo "bench: '$what' is none of kernels, networks" >&2; exit 2 ;;
esac

stamp=.venv-peers/stamp
want=$(sha256sum <tools/requirements-peers.txt)
if [[ "$(cat $stamp 2>/dev/null)" != "$want" ]]; then
  run /usr/bin/python3 -m venv .venv-peers
  run .venv-peers/bin/pip install -q --disable-pip-version-check -r tools/requirements-peers.txt
  echo "$want" >$stamp
fi
export PATH=$PWD/build/bin:$PATH PYTHONPATH=$PWD/build/python
for part in "${parts[@]}"; do
  run .venv-peers/bin/python "bench/$part.py" "$@"
done
