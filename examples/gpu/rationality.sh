#!/usr/bin/env bash
#SBATCH --job-name=rationality --gpus=1 --cpus-per-task=8 --mem=64G --time=02:00:00
# Does the model act on what it believes? Contexts of worlds whose chances are known.
set -euo pipefail
MODEL=${MODEL:-model.yaml}
OUT=${OUT:-runs}

doxascope run rationality-full -m "$MODEL" --out "$OUT" "$@"
