#!/usr/bin/env bash
#SBATCH --job-name=kinds --gpus=1 --cpus-per-task=8 --mem=64G --time=02:00:00
# What a model says, computes and holds: one experiment with stated numbers and probes that are cross-fitted within the run,
# the differences of these kinds of belief, and its probe job. EXPERIMENT=bscore, martingale, sycophancy, rationality or
# truth for others; EXPERIMENT=ask takes QUESTIONS=mine.csv.
set -euo pipefail
MODEL=${MODEL:-model.yaml}
OUT=${OUT:-runs}
EXPERIMENT=${EXPERIMENT:-consistency}
JOB=probe-$EXPERIMENT
[ "$EXPERIMENT" != truth ] || JOB=probe

doxascope run "$EXPERIMENT" ${QUESTIONS:+"$QUESTIONS"} -m "$MODEL" --out "$OUT" -o items=200 -o kinds=all "$@"
doxascope compare "$OUT/$EXPERIMENT"-* --out "$OUT/kinds"
doxascope probe sweep "$JOB" "$OUT/$EXPERIMENT"-* --out "$OUT/probes"
