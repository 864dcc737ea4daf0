"""Slurm's topology from the labels of nodes, and from their fabric."""
import json
import re

import pytest

import hardware
from gangs import GANG, RANK, SIZE, all_run, notes, pods, waits
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
    # Ethernet, as lldpctl tells of it; where planes are named and known, the switch for people joins nobody.
    sees = lambda **cables: {"lldp": {"interface": [{i: {"chassis": {s: {"id": {"type": "mac", "value": "b8:3f:d2:00:00:01"}}}}} for i, s in cables.items()]}}
    fabric(json.dumps({"n0": sees(ib0="tor-a", eno1="office"), "n3.example.com": sees(ib0="tor-a", eno1="office"), "n1": sees(eth1="tor-b"), "n2": sees(eth1="tor-b")}))
    wait_for("Slurm knows the switches of Ethernet", lambda: leaves() == {"tor-a": "n[0,3]", "tor-b": "n[1-2]"}, 240)
    assert pool.get("pod", "main-slurmctld-0", "-n", "slurm")["metadata"]["uid"] == uid
    assert pool.squeue()[busy]["state"] == "RUNNING"


CLIQUE = "7b968a6d-c8aa-45e1-9e07-e1e51be99c31"  # as NVIDIA's feature discovery names the NVLink domains of a cluster


@pytest.mark.nightly
@pytest.mark.feature("A9.2")
def test_jobs_and_gangs_lie_in_blocks(home):
    """Blocks by labels, with nodes that register by themselves; segments of a job and of a gang; a node and slurmctld come anew while a job goes on; what no block can hold is said."""
    pool = home
    pool.up("--nodes", "5")
    busy = pool.sbatch("-w", "n4", "-c1")
    wait_for("it runs", lambda: pool.squeue()[busy]["state"] == "RUNNING")

    def label(name, *which):
        pool.kubectl("label", "node", *which, f"nvidia.com/gpu.clique={CLIQUE}.{name}" if name else "nvidia.com/gpu.clique-", "--overwrite")

    def blocks():
        """The blocks as topology.conf has them, once all nodes are placed."""
        text = pool.shell("scontrol", "show", "topology")
        if not re.search(r"^AggregatedBlock=.* Nodes=(\S+,)?n\[0-4\]", text, re.M):
            return {}
        return {m[1]: m[2] for m in re.finditer(rf"^BlockName=(?:{CLIQUE}\.)?(\S+) .*Nodes=tandem-none-\S+?\],(\S+)", text, re.M)}

    def patch(**topology):
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"topology": topology}}))

    def gang(name, n, segment, **kw):
        out = [pool.pod(f"{name}-{i}", 8, **kw) for i in range(n)]
        for p in out:
            p["metadata"].update(labels={GANG: name}, annotations={SIZE: str(n), "slurm.tandem.dev/segment": str(segment)})
        return out
    nodes = lambda *argv: sorted(pool.shell("srun", "-Q", "--mem=50M", *argv, "hostname").split())
    label("1", "n0", "n3", "n4")
    label("2", "n1", "n2")
    patch(type="block")
    wait_for("Slurm knows the blocks", lambda: blocks() == {"1": "n[0,3-4]", "2": "n[1-2]"}, 240)
    assert nodes("-N3", "--segment=3") == ["n0", "n3", "n4"]
    assert pool.shell("sinfo", "-h", "-o", "%D %N").split() == ["5", "n[0-4]"], "nobody sees the nodes that never come"

    pool.apply(*gang("train", 4, 2))
    run = sorted(all_run(pool, "train", 4).values(), key=lambda p: int(notes(p)[RANK]))
    seats = [p["spec"]["nodeName"] for p in run]
    assert set(seats[2:]) == {"n1", "n2"} and set(seats[:2]) < {"n0", "n3", "n4"}, seats
    pool.kubectl("delete", "pods", "-l", f"{GANG}=train", "--wait=true")

    uid = pool.get("pod", "main-slurmctld-0", "-n", "slurm")["metadata"]["uid"]
    label("2", "n3")
    pool.kubectl("label", "node", "n1", "nvidia.com/gpu.clique-")
    wait_for("labels are followed", lambda: blocks() == {"1": "n[0,4]", "2": "n[2-3]", "elsewhere": "n1"}, 240)
    assert pool.get("pod", "main-slurmctld-0", "-n", "slurm")["metadata"]["uid"] == uid
    pool.kubectl("-n", "slurm", "delete", "pod", "main-slurmctld-0", "--wait=true")
    pool.kubectl("-n", "slurm", "delete", "pod", "main-pool-n3", "--wait=true")
    wait_for("both are there again", lambda: blocks() and pool.shell("sinfo", "-h", "-N", "-n", "n3", "-o", "%T").split() == ["idle"], 240)
    wait_for("and the node has its place", lambda: nodes("-N2", "--segment=2", "-x", "n0,n1") == ["n2", "n3"], 120)
    assert pool.squeue()[busy]["state"] == "RUNNING"

    # What no block can hold: Slurm refuses it at first, and lets it wait where it could be held when it was submitted.
    label("1", "n1")
    patch(blockSizes=[4])
    wait_for("a block is planned with 4 nodes", lambda: "BlockSize=4" in pool.shell("scontrol", "show", "topology") and blocks() == {"1": "n[0-1,4]", "2": "n[2-3]"}, 240)
    code, _, said = pool.ask("sbatch", "-N4", "--wrap", "true")
    assert code and "Requested node configuration is not available" in said
    three = pool.sbatch("-N3", "--exclusive")
    wait_for("it waits", lambda: pool.squeue()[three]["reason"] == "Resources", 60)
    assert "block" not in pool.cmd("why", str(three)).stdout
    label("", "n1")
    words = f"Unless it has segments: no block has 3 nodes that it may use: the largest, {CLIQUE}.1, has 2"
    wait_for("it is said why", lambda: words in pool.cmd("why", str(three)).stdout, 60)
    lone = pool.pod("lone", 1)
    lone["metadata"]["annotations"] = {"slurm.tandem.dev/segment": "1"}
    pool.apply(lone, *gang("odd", 3, 2), *gang("wide", 4, 4))
    wait_for("and a gang that no block can hold", lambda: f"it wants 1 segment of 4 nodes, each in one block, and the nodes that it may use make 0: of 3 blocks the largest, {CLIQUE}.1, has 2" in waits(pods(pool, "wide")["wide-0"]), 60)
    wait_for("a pod alone is refused", lambda: "segment: it is for gangs" in waits(pool.get("pod", "lone")))
    wait_for("so is what segments do not divide", lambda: "segment: its gang takes 3 nodes, which is no multiple of 2" in waits(pods(pool, "odd")["odd-0"]))
    patch(blockSizes=[2, 6])
    says = lambda: " ".join(c.get("message", "") for c in pool.get("slurmcluster", "main", "-n", "slurm")["status"]["conditions"] if c["type"] == "ConfigValid")
    wait_for("and sizes that Slurm does not take", lambda: "spec.topology.blockSizes[1]: 6 is not 2, 4, 8" in says(), 60)
