"""Slurm's topology from the labels of nodes, and from their fabric."""
import json
import re

import pytest

import hardware
from harness import wait_for


def discovered(leaves):
    """What ibnetdiscover prints of leaves with these hosts, (node GUID, description) each, below one spine."""
    lines = []
    for i, hosts in enumerate(leaves):
        lines.append(f'Switch\t65 "S-b83fd20300a0{i:04x}"\t\t# "MF0;leaf-{i}:MQM9700/U1" enhanced port 0 lid {i + 1} lmc 0')
        lines += [f'[{k + 1}]\t"H-{guid}"[1]({guid}) \t\t# "{said}" lid {100 + k} 4xNDR' for k, (guid, said) in enumerate(hosts)]
        lines += [f'[33]\t"S-b83fd20300b00000"[{i + 1}]\t\t# "MF0;spine-0:MQM9700/U1" lid 50 4xNDR', ""]
    return "\n".join(lines)


@pytest.mark.feature("A2.5", "A9.1", "A9.3")
def test_jobs_stay_in_one_rack(home):
    """Turned on while a job runs; a job of two nodes lands below one switch; and when labels change, or what is known of the fabric, the next one follows, without a restart."""
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

    # A machine that runs slurmd itself has no labels, and Slurm would run nothing on a node that the tree does not name.
    tree = lambda: pool.get("cm", "main-config", "-n", "slurm")["data"]["topology.conf"]
    pool.apply({"apiVersion": "tandem.dev/v1alpha1", "kind": "NodeSet", "metadata": {"name": "metal", "namespace": "slurm"}, "spec": {"clusterName": "main", "hosts": ["h9"]}})
    wait_for("it has a place", lambda: "Nodes=h9" in tree(), 60)
    pool.kubectl("-n", "slurm", "delete", "nodeset", "metal")
    wait_for("it has none", lambda: "h9" not in tree(), 60)

    def fabric(text):
        pool.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fabric", "namespace": "slurm"}, "data": {"ibnetdiscover": text}})
    for i in (0, 3):
        hardware.rails(pool, f"n{i}", number=i)
    rail = {i: (f"506b4b03{i:04x}0000", "by its GUID") for i in (0, 3)}
    fabric(discovered([[rail[0], rail[3]], [("506b4b0300aa0001", "n1 mlx5_0"), ("506b4b0300aa0002", "n2 mlx5_0")]]))
    spec = {"topology": {"labels": None, "fabric": {"configMap": "fabric"}}, "fabric": {"planes": {"gpu": {"interfaces": ["ib*"]}}}}
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": spec}))
    wait_for("Slurm knows the fabric's leaves", lambda: leaves() == {"leaf-0": "n[0,3]", "leaf-1": "n[1-2]"}, 240)
    assert sorted(two()) == ["n1", "n2"]
    fabric(discovered([[rail[0], ("506b4b0300aa0001", "n1 mlx5_0")], [rail[3], ("506b4b0300aa0002", "n2 mlx5_0")]]))
    wait_for("a cable is moved", lambda: leaves() == {"leaf-0": "n[0-1]", "leaf-1": "n[2-3]"}, 240)
    fabric("ibwarn: can't open UMAD port")

    def said():
        return " ".join(c.get("message", "") for c in pool.get("slurmcluster", "main", "-n", "slurm")["status"]["conditions"] if c["type"] == "ConfigValid")
    wait_for("what is no fabric is refused, and changes nothing", lambda: "spec.topology.fabric: key ibnetdiscover of ConfigMap fabric: it names no switch" in said(), 60)
    assert leaves() == {"leaf-0": "n[0-1]", "leaf-1": "n[2-3]"}
    assert pool.get("pod", "main-slurmctld-0", "-n", "slurm")["metadata"]["uid"] == uid
    assert pool.squeue()[busy]["state"] == "RUNNING"
