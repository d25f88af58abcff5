#!/usr/bin/env bash
#SBATCH --job-name=bscore --gpus=1 --cpus-per-task=8 --mem=64G --time=02:00:00
# Does an answer bend to what the model itself has said? The whole set of questions.
set -euo pipefail
MODEL=${MODEL:-model.yaml}
OUT=${OUT:-runs}

doxascope run bscore-full -m "$MODEL" --out "$OUT" "$@"
