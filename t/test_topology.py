"""Slurm's topology from the labels of nodes."""
import re

import pytest

from harness import wait_for


@pytest.mark.feature("A2.5", "A9.1")
def test_jobs_stay_in_one_rack(home):
    """Turned on while a job runs; a job of two nodes lands below one switch; and when labels change, the next one follows, without a restart."""
    pool = home
    pool.up("--nodes", "4")  # racks r0: n0 n1, r1: n2 n3
    busy = pool.sbatch("-w", "n0", "--exclusive")
    wait_for("it runs", lambda: pool.squeue()[busy]["state"] == "RUNNING")
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", '{"spec":{"topology":{"type":"auto"}}}')

    def leaves():
        """The leaves as topology.conf has them, once all nodes are in the tree: one with other labels registers anew."""
        text = pool.shell("scontrol", "show", "topology")
        if not re.search(r"SwitchName=top .*Nodes=n\[0-3\]( |$)", text, re.M):
            return {}
        return {m[1]: m[2] for m in re.finditer(r"SwitchName=(\S+) Level=0 .*?Nodes=(\S+)", text)}

    def two(*more):
        return pool.shell("srun", "-Q", "-N2", "--exclusive", "--switches=1", *more, "hostname").split()
    wait_for("Slurm knows the racks", lambda: leaves() == {"b0.r0": "n[0-1]", "b0.r1": "n[2-3]"}, 240)
    assert sorted(two()) == ["n2", "n3"]  # n1 is idle too, and comes first

    uid = pool.get("pod", "main-slurmctld-0", "-n", "slurm")["metadata"]["uid"]
    pool.kubectl("label", "node", "n2", "topology.tandem.dev/rack=r0", "--overwrite")
    pool.kubectl("label", "node", "n1", "topology.tandem.dev/rack=r1", "--overwrite")
    wait_for("Slurm knows where they are now", lambda: leaves() == {"b0.r0": "n[0,2]", "b0.r1": "n[1,3]"}, 240)
    assert sorted(two()) == ["n1", "n3"]
    pool.kubectl("label", "node", "n3", "topology.tandem.dev/rack-")
    wait_for("one is elsewhere", lambda: leaves().get("b0.elsewhere") == "n3", 240)
    assert pool.get("pod", "main-slurmctld-0", "-n", "slurm")["metadata"]["uid"] == uid
    assert pool.squeue()[busy]["state"] == "RUNNING"
