#!/usr/bin/env bash
#SBATCH --job-name=locate --gpus=1 --cpus-per-task=8 --mem=64G --time=01:00:00
# Where in the model does evidence become a belief? Activation patching between contexts of equal length.
set -euo pipefail
MODEL=${MODEL:-model.yaml}
OUT=${OUT:-runs}

doxascope run locate -m "$MODEL" --out "$OUT" -o items=100 "$@"
