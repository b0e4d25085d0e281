#!/bin/bash
# One training on four nodes with eight GPUs each, by torchrun.
#   sbatch configs/cluster/slurm-train.sh
# After a node died the others end with an error; requeued, the job goes on from the last checkpoint (--resume).
#SBATCH --job-name=shiftcal-train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=24:00:00
#SBATCH --requeue
set -euo pipefail
# The working directory, the data, the run folder and the environment are on storage that all nodes share.
source .venv/bin/activate
export SHIFTCAL_DATA="${SHIFTCAL_DATA:?folder of the data sets}"

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node=8 \
    --rdzv-id="$SLURM_JOB_ID" --rdzv-backend=c10d --rdzv-endpoint="$head:29500" \
    -m shiftcal run configs/visda-2017/source-only.yaml --set batch_size=512 --set num_workers=7 \
    --set precision=bf16 --resume
