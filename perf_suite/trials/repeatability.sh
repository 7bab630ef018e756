#!/usr/bin/env bash
# How well do runs of this commit agree on this machine?  repeatability.sh FOLDER [RUNS] [ARGUMENTS OF ASV RUN...]
#
# Measures HEAD in RUNS (5) runs of asv, one after another, each with processes of its own, and leaves their result files
# in FOLDER as run-1.json.gz ..., with the seconds that each took in seconds.tsv. Without further arguments asv builds HEAD
# and measures latency, warm latency and cycles; `-E existing:python3 --set-commit-hash "$(git rev-parse HEAD)"` measures
# what is installed, `--bench .` everything. PYTHON is the interpreter with torch and asv (python3).
set -euo pipefail
folder=$(realpath -m "${1:?where the runs go}") runs=${2:-5}
python=$(command -v "${PYTHON:-python3}")
[[ $python == /* ]] || python=$PWD/$python # this script changes folders
cd "$(dirname "$0")/../.."
arguments=("${@:3}")
((${#arguments[@]})) || arguments=("HEAD^!")
[[ " ${arguments[*]} " =~ \ (-b|--bench)[\ =] ]] || arguments+=(--bench 'track_(latency|warm_latency|cycles)')

mkdir -p "$folder"
"$python" -m asv machine --yes > /dev/null
for run in $(seq "$runs"); do
  touch "$folder/.begun"
  began=$SECONDS
  # asv ends with 2 where a row failed; what was measured is in the file all the same.
  "$python" -m asv run --record-samples "${arguments[@]}" || (($? == 2))
  printf 'run-%s\t%s\n' "$run" "$((SECONDS - began))" >> "$folder/seconds.tsv"
  written=$(find .asv/results -mindepth 2 -name '*.json' ! -name machine.json -newer "$folder/.begun")
  gzip --no-name --stdout "${written:?asv wrote no result file}" > "$folder/run-$run.json.gz"
done
rm "$folder/.begun"
