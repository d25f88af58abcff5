#!/usr/bin/env bash
#SBATCH --job-name=probe --gpus=1 --cpus-per-task=16 --mem=64G --time=02:00:00
# Statements with the residual stream of every layer, and a probe at every layer and position with its controls. The sweep
# needs no GPU: as a job of its own it may wait for the first.
set -euo pipefail
MODEL=${MODEL:-model.yaml}
OUT=${OUT:-runs}

doxascope run truth -m "$MODEL" --out "$OUT" "$@"
doxascope probe sweep "$OUT"/truth-* --out "$OUT/probes"
