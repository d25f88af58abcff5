#!/usr/bin/env bash
#SBATCH --job-name=certify --gpus=1 --cpus-per-task=8 --mem=64G --time=00:30:00
# The noise floor: how far bfloat16, packing and the device alone move a belief of this model. Runs that come after it
# print the floor beside each number, so it goes first.
set -euo pipefail
MODEL=${MODEL:-model.yaml}

doxascope certify "$MODEL"
