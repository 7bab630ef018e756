#!/usr/bin/env bash
# Can this machine tell a kernel that is 2 % slower from its base?  perf_suite/trials/planted_slowdown.sh FOLDER [TRIES]
#
# In a clone of its own it plants planted_slowdown.patch on this commit (rope does every 34th block twice, which costs a
# memory-bound call some 2 %), and lets asv measure both commits TRIES times (20), each pair in the other order. Each run's
# files go to FOLDER/try-N/{base,planted}; `warpwatch import` and `warpwatch check --threshold 0.01` judge them.
# On a machine whose asv builds nothing, ASV_RUN_BASE and ASV_RUN_PLANTED are the arguments of asv run instead of a commit.
set -euo pipefail
folder=$(realpath -m "${1:?where the runs go}") tries=${2:-20}
here=$(cd "$(dirname "$0")" && pwd)
selection='rope\.Rope\.track_latency\(.*(b8-h32|b4-h32).*(warpwatch|triton|eager)'

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
clone=$scratch/warpwatch
git clone --quiet "$here/../.." "$clone"
cd "$clone"
base=$(git rev-parse HEAD)
git apply "$here/planted_slowdown.patch"
git -c user.name=trial -c user.email=trial@localhost commit --quiet --all --message "rope: planted, every 34th block is done twice"
planted=$(git rev-parse HEAD)

measure() { # what it is called, commit, arguments of asv run
  local name=$1 commit=$2 run=$3
  # shellcheck disable=SC2086 - several arguments
  python3 -m asv run --record-samples --bench "$selection" ${run:-$commit^!}
  mkdir -p "$folder/try-$try/$name"
  mv .asv/results/*/"${commit:0:8}"-* "$folder/try-$try/$name/"
}

for try in $(seq "$tries"); do
  order="base planted"
  ((try % 2)) || order="planted base"
  for name in $order; do
    if [[ $name == base ]]; then measure base "$base" "${ASV_RUN_BASE:-}"; else measure planted "$planted" "${ASV_RUN_PLANTED:-}"; fi
  done
done
cp .asv/results/benchmarks.json .asv/results/*/machine.json "$folder/"
