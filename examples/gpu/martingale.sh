#!/usr/bin/env bash
#SBATCH --job-name=martingale --gpus=1 --cpus-per-task=8 --mem=64G --time=06:00:00
# Do beliefs drift along evidence in a direction that was to be expected? 600 questions whose outcomes are computed, which
# tell an M of 0.02 from none where updates are small; a judge, at least as strong as the model, reads the steps as well.
set -euo pipefail
MODEL=${MODEL:-model.yaml}
JUDGE=${JUDGE:?name a judge at least as strong as the model, such as Qwen/Qwen3-4B}
OUT=${OUT:-runs}

doxascope run martingale -m "$MODEL" --out "$OUT" -o "domains={factual: {kind: computed}}" -o items=600 \
  -o registered.n=600 -o "stated.judges={judge: {model: '$JUDGE'}}" "$@"
