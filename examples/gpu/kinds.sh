#!/usr/bin/env bash
#SBATCH --job-name=kinds --gpus=1 --cpus-per-task=8 --mem=64G --time=02:00:00
# What a model says, computes and holds before it is asked: one experiment with stated numbers and probes that are
# cross-fitted within the run, and the differences of these kinds of belief. EXPERIMENT=bscore, ask, truth, ... for others.
set -euo pipefail
MODEL=${MODEL:-model.yaml}
OUT=${OUT:-runs}
EXPERIMENT=${EXPERIMENT:-consistency}

doxascope run "$EXPERIMENT" -m "$MODEL" --out "$OUT" -o items=200 -o kinds=all "$@"
doxascope compare "$OUT/$EXPERIMENT"-* --out "$OUT/kinds"
