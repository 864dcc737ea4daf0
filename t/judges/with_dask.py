"""What a user of dask-jobqueue does: two workers with a GPU each, some work, and none any more."""
import json
import os
import time

from dask.distributed import Client
from dask_jobqueue import SLURMCluster

if __name__ == "__main__":
    with SLURMCluster(cores=1, processes=1, memory="400MB", walltime="00:10:00", local_directory="/tmp", job_extra_directives=["--gres=gpu:1"]) as cluster, Client(cluster) as client:
        cluster.scale(2)
        client.wait_for_workers(2, timeout=600)
        said = {"workers": list(client.run(lambda: [int(os.environ["SLURM_JOB_ID"]), os.environ["CUDA_VISIBLE_DEVICES"]]).values())}
        said["sum"] = sum(client.gather(client.map(lambda x: x * x, range(20))))
        cluster.scale(0)
        while client.scheduler_info()["workers"]:
            time.sleep(0.1)
    print(json.dumps(said))
