#!/usr/bin/env bash
#SBATCH --job-name=martingale --gpus=1 --cpus-per-task=8 --mem=64G --time=12:00:00
# Do beliefs drift along evidence in a direction that was to be expected? 2,400 questions whose outcomes are computed: the
# standard error of M is 0.01 where updates spread half as widely as priors, and 0.005, enough for the margin of 0.02, where
# they spread a quarter as widely. A judge, at least as strong as the model, reads the steps as well.
set -euo pipefail
MODEL=${MODEL:-model.yaml}
JUDGE=${JUDGE:?name a judge at least as strong as the model, such as Qwen/Qwen3-4B}
OUT=${OUT:-runs}

doxascope run martingale -m "$MODEL" --out "$OUT" -o "domains={factual: {kind: computed}}" -o items=2400 -o batch_items=16 \
  -o registered.n=2400 -o "stated.judges={judge: {model: '$JUDGE'}}" "$@"
