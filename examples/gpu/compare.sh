#!/usr/bin/env bash
#SBATCH --job-name=compare --gpus=1 --cpus-per-task=8 --mem=64G --time=01:00:00
# One experiment on two models, and what differs on the items that both have.
set -euo pipefail
MODEL=${MODEL:-model.yaml}
OTHER=${OTHER:-Qwen/Qwen3-8B}
OUT=${OUT:-runs}

for one in "$MODEL" "$OTHER"; do
    doxascope run consistency -m "$one" -o model.dtype=bfloat16 --out "$OUT" "$@"
done
doxascope compare "$OUT"/consistency-* --out "$OUT/compared"
