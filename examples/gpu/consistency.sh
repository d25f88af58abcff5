#!/usr/bin/env bash
#SBATCH --job-name=consistency --gpus=1 --cpus-per-task=8 --mem=64G --time=01:00:00
# Does a prior say what the answers after evidence say together? 500 triples of words, all nine contexts, every order.
set -euo pipefail
MODEL=${MODEL:-model.yaml}
OUT=${OUT:-runs}

doxascope run consistency -m "$MODEL" --out "$OUT" -o items=500 -o orders=all --verify 2 "$@"
