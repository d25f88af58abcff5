#!/usr/bin/env bash
#SBATCH --job-name=sycophancy --gpus=1 --cpus-per-task=8 --mem=64G --time=02:00:00
# Does the belief bend to the user, or only the words?
set -euo pipefail
MODEL=${MODEL:-model.yaml}
OUT=${OUT:-runs}

doxascope run sycophancy-full -m "$MODEL" --out "$OUT" "$@"
