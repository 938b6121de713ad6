#!/bin/bash
#SBATCH --job-name=evaluation
#SBATCH --array=1-8
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --output=evaluation-%a.log

# exec: the engine gets the signal that comes two minutes before the time is over, and saves what runs.
exec engine batch tasks.jsonl --results-dir results --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" -j 4
