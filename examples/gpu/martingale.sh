#!/usr/bin/env bash
#SBATCH --job-name=martingale --gpus=1 --cpus-per-task=8 --mem=64G --time=02:00:00
# Do beliefs drift along evidence in a direction that was to be expected?
set -euo pipefail
MODEL=${MODEL:-model.yaml}
OUT=${OUT:-runs}

doxascope run martingale -m "$MODEL" --out "$OUT" "$@"
