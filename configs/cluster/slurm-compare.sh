#!/bin/bash
# A comparison on four nodes of a Slurm cluster: Ray is started on all of them, the command runs on the first.
#   sbatch configs/cluster/slurm-compare.sh
# Given again after a node died or the time was over, the job goes on: finished cells are kept, others are resumed.
#SBATCH --job-name=shiftcal-compare
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --no-kill
set -euo pipefail
# The working directory, the data, the results and the environment are on storage that all nodes share.
source .venv/bin/activate
export SHIFTCAL_DATA="${SHIFTCAL_DATA:?folder of the data sets}"
export OMP_NUM_THREADS=1 RAY_USAGE_STATS_ENABLED=0

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address="$(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname -I | awk '{print $1}'):6379"

srun --nodes=1 --ntasks=1 --nodelist="$head" \
    ray start --head --port=6379 --num-cpus="$SLURM_CPUS_PER_TASK" --block &
sleep 20
srun --nodes="$((SLURM_JOB_NUM_NODES - 1))" --ntasks="$((SLURM_JOB_NUM_NODES - 1))" --exclude="$head" \
    ray start --address="$address" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
sleep 20

srun --overlap --nodes=1 --ntasks=1 --nodelist="$head" \
    shiftcal compare --tasks adaptation --methods calibrated,adapted,mcc+target-scaling --seeds 3 \
    --engine "ray:$address" --out results/adaptation
