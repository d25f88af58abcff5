"""One run in eight jobs of a cluster, submitted from Python: `pip install submitit`, then `python submitit_array.py`.

Without Slurm the jobs are processes of this machine. A job that is done reads what others have not: some may be waiting
for a GPU still, and find nothing to do when they get one. Once all are done, the scores are there; on a disk without
file locks `doxascope report` writes them.
"""

import sys

import submitit  # pyright: ignore[reportMissingImports]

JOBS = 8
COMMAND = ["doxascope", "run", "consistency", "-m", "model.yaml", "-o", "model.threads=8", "-o", "items=5000"]


def main(jobs: int = JOBS, command: list[str] = COMMAND) -> None:
    """Submit, wait, and say what each has printed last."""
    executor = submitit.AutoExecutor(folder="submitit")
    executor.update_parameters(name="consistency", timeout_min=60, cpus_per_task=8, gpus_per_node=1, mem_gb=64)
    mine = [[*command, "--shard", f"{i}/{jobs}", "--take-over"] for i in range(1, jobs + 1)]
    with executor.batch():
        submitted = [executor.submit(submitit.helpers.CommandFunction(one)) for one in mine]
    for job in submitted:
        print(job.job_id, job.result().splitlines()[-1])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:]) if len(sys.argv) > 2 else main()
