#!/usr/bin/env bash
# Can this machine detect a kernel that is 2 % slower than its base?   Needs git, asv, and for the first step a CUDA compiler.
#
#   planted_slowdown.sh prepare WORK [PATCH]      clones this commit, plants the patch, builds both; needs no GPU
#   planted_slowdown.sh record WORK RUNS.tar.gz   measures: five runs of the base, then TRIES pairs of base and planted
#
# planted_slowdown.patch lets rope do every 34th block twice, which costs a memory-bound call some 2 %. Each run is an
# `asv run` of its own, with processes of its own, in an environment that exists: nothing is built or installed between
# two runs. The pairs are in turn base first and planted first, and their bases belong in turn to two commits that differ
# in nothing, so that two bases are an A/A pair of commits. Several GPUs share the tries, each in a clone of its own.
#
# PYTHON    the interpreter with torch and asv (python3)       TRIES     pairs in all (20)
# MACHINE   what asv is to call this machine (its host name)   LIMIT_S   begin no pair that would end later (no limit)
# WARPWATCH_CUDA_ARCHS=90a    builds for an H100 or H200 alone
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=$(command -v "${PYTHON:-python3}")
[[ $python == /* ]] || python=$PWD/$python # this script changes folders
selection='rope\.Rope\.track_latency\(.*(b8-h32|b4-h32|cpu-).*(warpwatch|triton|eager)'
repeats=5

prepare() { # WORK [PATCH]
  local work=$1 patch=${2:-$here/planted_slowdown.patch}
  patch=$(realpath "$patch")
  mkdir "$work"
  git clone --quiet "$here/../.." "$work/repository"
  cd "$work/repository"
  git checkout --quiet -B trial
  git rev-parse HEAD > ../before
  commit odd --allow-empty
  commit even --allow-empty
  build base
  git apply "$patch"
  commit planted --all
  build planted
  git clean --quiet -dfx # what the builds left
}

commit() { # its name, arguments of git commit; a minute apart, for tools that order commits by date
  local name=$1 at
  at=$(($(git log -1 --format=%ct) + 60))
  GIT_COMMITTER_DATE="@$at" git -c user.name=trial -c user.email=trial@localhost \
    commit --quiet --date "@$at" --message "trial: $name" "${@:2}"
  git rev-parse HEAD > "../$name"
}

build() { # base or planted
  "$python" -m pip install --quiet --no-deps --no-build-isolation --no-compile --target "../site-$1" .
}

record() { # WORK RUNS.tar.gz
  local work archive gpus gpu failed=0
  work=$(realpath "$1") archive=$(realpath -m "$2")
  runs=$(mktemp -d) machine=${MACHINE:-$(hostname)}
  trap 'kill $(jobs -p) 2> /dev/null || true; rm -rf "$runs"' EXIT
  export HOME=$runs/home # asv keeps a file about the machine there
  mkdir -p "$HOME" "$runs/results/$machine"
  git config --global safe.directory '*' # WORK may have been prepared by somebody else
  gpus=$(nvidia-smi --list-gpus 2> /dev/null | wc -l) || true
  local lanes=()
  for ((gpu = 0; gpu < (gpus > 0 ? gpus : 1); ++gpu)); do
    lane "$gpu" "$((gpus > 0 ? gpus : 1))" &
    lanes+=($!)
  done
  for gpu in "${lanes[@]}"; do wait "$gpu" || failed=1; done
  tar --create --gzip --file "$archive" --directory "$runs/results" . # of a lane that failed, what it has measured
  echo "$archive: $(cat "$runs"/results/*.seconds | wc -l) runs in $SECONDS s"
  return "$failed"
}

lane() { # GPU, how many lanes there are
  local gpu=$1 lanes=$2 try turn=0
  git clone --quiet "$work/repository" "$runs/lane-$gpu"
  cd "$runs/lane-$gpu"
  export CUDA_VISIBLE_DEVICES=$gpu
  "$python" -m asv machine --yes --machine "$machine" > /dev/null
  for try in $(seq "$repeats"); do measure "gpu$gpu-before-$try" base "$(cat "$work/before")"; done
  for try in $(seq $((gpu + 1)) "$lanes" "${TRIES:-20}"); do
    ((SECONDS + 2 * longest <= ${LIMIT_S:-1000000})) || break
    if ((turn++ % 2 == 0)); then
      measure "gpu$gpu-try-$try-base" base "$(cat "$work/odd")"
      measure "gpu$gpu-try-$try-planted" planted "$(cat "$work/planted")"
    else
      measure "gpu$gpu-try-$try-planted" planted "$(cat "$work/planted")"
      measure "gpu$gpu-try-$try-base" base "$(cat "$work/even")"
    fi
  done
  [[ -e $runs/results/benchmarks.json ]] || cp .asv/results/benchmarks.json "$runs/results/"
  [[ -e $runs/results/$machine/machine.json ]] || cp ".asv/results/$machine/machine.json" "$runs/results/$machine/"
}

longest=0
measure() { # what its files are called, whose build, the commit they are recorded under
  local label=$1 commit=$3 began=$SECONDS found
  local path=$work/site-$2${PYTHONPATH:+:$PYTHONPATH}
  # asv ends with 2 where a row failed; what was measured is in the file all the same.
  PYTHONPATH=$path ASV_PYTHONPATH=$path "$python" -m asv run --environment "existing:$python" --machine "$machine" \
    --set-commit-hash "$commit" --record-samples --bench "$selection" > "$label.log" 2>&1 || true
  found=$(compgen -G ".asv/results/$machine/${commit:0:8}-*.json") || { tail "$label.log" >&2; exit 1; }
  if ! grep --quiet "\"implementation\": \"warpwatch\".*\"status\": \"ok\"" "${found%.json}.context.jsonl"; then
    echo "$label: no number of warpwatch's own kernels" >&2
    tail "$label.log" >&2
    exit 1
  fi
  mv "$found" "$runs/results/$machine/$label.json"
  mv "${found%.json}.context.jsonl" "$runs/results/$machine/$label.context.jsonl"
  printf '%s\t%s\n' "$label" "$((SECONDS - began))" >> "$runs/results/gpu$CUDA_VISIBLE_DEVICES.seconds"
  ((SECONDS - began <= longest)) || longest=$((SECONDS - began))
}

case ${1:-} in
  prepare | record) "$@" ;;
  *) sed -n '2,17s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
