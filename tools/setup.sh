#!/usr/bin/env bash
# Installs what the tree links today. Works on a bare Debian 12 as root without sudo; a second run is a no-op, decided
# by a stamp that holds the hash of this script and of the lists it reads.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

run() {
  printf '+ %s\n' "$*" >&2
  "$@"
}

want=$(cat tools/setup.sh tools/packages.txt tools/requirements.txt | sha256sum)
stamp=.deps/stamp
[[ "$(cat $stamp 2>/dev/null)" == "$want" && -x .venv/bin/python ]] && exit 0
mkdir -p .deps

# Debian packages: only those that are missing, so that no root is needed where all are there.
missing=()
while read -r package; do
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
done < <(grep -v '^#' tools/packages.txt)
if [[ ${#missing[@]} -gt 0 ]]; then
  export DEBIAN_FRONTEND=noninteractive
  as_root=()
  [[ $(id -u) == 0 ]] || as_root=(sudo)
  run "${as_root[@]}" apt-get update -qq
  run "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

# Python: Debian's own, which python3-dev belongs to, whatever else is first on PATH.
[[ -x .venv/bin/python ]] || run /usr/bin/python3 -m venv .venv
run .venv/bin/pip install -q --disable-pip-version-check -r tools/requirements.txt

# Wheels that are unpacked, never installed: libraries that weft loads at run time.
wheels() { # NAME==VERSION...: the wheels' files below $unpacked
  run .venv/bin/pip download -q --disable-pip-version-check --no-deps -d "$unpacked/wheels" "$@"
  local wheel
  for wheel in "$unpacked"/wheels/*.whl; do
    unzip -qo "$wheel" -d "$unpacked"
    rm "$wheel"
  done
}
unpacked=$(mktemp -d .deps/unpack.XXXX)
trap 'rm -rf "$unpacked"' EXIT

# oneDNN 3.2 on TBB threads. Of its 330 MB: the headers, libdnnl, the two Intel runtime libraries it asks for, licences.
if [[ ! -e .deps/onednn/lib/libdnnl.so ]]; then
  echo "note: Intel's libimf and libintlc come under Intel's own licence; see NOTICE" >&2
  wheels onednn-devel-cpu-tbb==2023.2.0 onednn-cpu-tbb==2023.2.0 intel-cmplr-lib-rt==2023.2.0
  root=$unpacked/onednn
  mkdir -p "$root/lib" "$root/licenses"
  mv "$unpacked"/onednn_devel_cpu_tbb-*.data/data/include "$root/include"
  mv "$unpacked"/onednn_cpu_tbb-*.data/data/lib/libdnnl.so.3 "$root/lib/"
  ln -s libdnnl.so.3 "$root/lib/libdnnl.so"
  mv "$unpacked"/intel_cmplr_lib_rt-*.data/data/lib/{libimf.so,libintlc.so.5} "$root/lib/"
  mv "$unpacked"/onednn_cpu_tbb-*.dist-info/LICENSE.txt "$root/licenses/onednn.txt"
  mv "$unpacked"/intel_cmplr_lib_rt-*.dist-info/LICENSE.txt "$root/licenses/intel_cmplr_lib_rt.txt"
  rm -rf .deps/onednn
  mv "$root" .deps/onednn
fi

# NVRTC, to compile (not run) CUDA kernels in the tests where no toolkit is installed.
if [[ ! -e /usr/local/cuda/include/nvrtc.h && ! -e .deps/cuda/include/nvrtc.h ]]; then
  wheels nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-runtime==13.0.96
  rm -f "$unpacked"/nvidia/cu13/lib/*.a "$unpacked"/nvidia/cu13/lib/*.alt.*
  mkdir -p "$unpacked/nvidia/cu13/licenses"
  mv "$unpacked"/nvidia_cuda_nvrtc-*.dist-info/licenses/* "$unpacked/nvidia/cu13/licenses/"
  ln -sf libnvrtc.so.13 "$unpacked/nvidia/cu13/lib/libnvrtc.so"
  rm -rf .deps/cuda
  mv "$unpacked/nvidia/cu13" .deps/cuda
fi

echo "$want" >$stamp
