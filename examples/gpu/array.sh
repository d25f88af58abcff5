#!/usr/bin/env bash
#SBATCH --job-name=consistency --array=1-8 --gpus=1 --cpus-per-task=8 --mem=64G --time=01:00:00
# One run in eight jobs that share a disk, with file locks or without. Each reads every eighth batch, and then what others
# have not read yet; the one that ends last writes the scores. The same line again, for all or for those that were killed,
# goes on where they were.
set -euo pipefail
MODEL=${MODEL:-model.yaml}
OUT=${OUT:-runs}
PART=${SLURM_ARRAY_TASK_ID:-1}
OF=${SLURM_ARRAY_TASK_COUNT:-1}
SHARD=(--shard "$PART/$OF")
[ "$OF" = 1 ] || SHARD+=(--take-over)

doxascope run consistency -m "$MODEL" -o model.threads=8 -o items=5000 --out "$OUT" "${SHARD[@]}" "$@"
