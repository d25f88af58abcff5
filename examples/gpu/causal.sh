#!/usr/bin/env bash
#SBATCH --job-name=causal --gpus=1 --cpus-per-task=8 --mem=64G --time=02:00:00
# Is what a probe of truth reads what the model uses? After `probe.sh`, with the same MODEL and OUT: steer along the probe,
# compare with random directions, erase; then the sweep once more, whose card has the verdict.
set -euo pipefail
OUT=${OUT:-runs}

for probe in "$OUT"/probes/probe-*/probe.npz; do
    doxascope probe causal "$OUT"/truth-* -o probe="${probe%.npz}" --out "$OUT/probes" "$@"
done
doxascope probe sweep "$OUT"/truth-* --out "$OUT/probes"
