#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Shows a rank one GPU, chosen by its number on the node, and becomes the program. For launchers
# that cannot bind GPUs themselves. Usage: one-gpu.sh PROGRAM [arguments ...]
set -euo pipefail
# Each MPI names the node-local rank its own way.
rank=${MPI_LOCALRANKID:-${OMPI_COMM_WORLD_LOCAL_RANK:-${PMI_LOCAL_RANK:-${PALS_LOCAL_RANKID:-${SLURM_LOCALID:-}}}}}
if [ -z "$rank" ]; then
  echo "one-gpu.sh: this launcher sets none of MPI_LOCALRANKID, OMPI_COMM_WORLD_LOCAL_RANK," \
    "PMI_LOCAL_RANK, PALS_LOCAL_RANKID, SLURM_LOCALID; bind the GPUs in the launcher" >&2
  exit 3
fi
export CUDA_VISIBLE_DEVICES=$rank
exec "$@"
