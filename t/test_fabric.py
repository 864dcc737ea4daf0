"""The network's variables, from nodes' labels and annotations and the grant."""
import json

import pytest

import hardware
from harness import wait_for

FABRIC = {"variables": [{"name": "NCCL_SOCKET_IFNAME", "label": "net.example.com/interface", "value": "eth0"},
                        {"name": "NCCL_IB_HCA", "annotation": "net.example.com/hcas", "perDevice": True},
                        {"name": "UCX_NET_DEVICES", "label": "net.example.com/hca", "value": "{}:1"},
                        {"name": "NCCL_DEBUG", "value": "WARN"}],
          "planes": {"gpu": {"interfaces": ["none*"], "networks": "slurm/rail@ib0"}}}
FOUND = {"variables": [{"name": "NCCL_IB_HCA", "annotation": "net.example.com/hcas", "found": "adapters", "perDevice": True}],
         "planes": {"gpu": {"interfaces": ["ib*"], "minGbps": 400, "count": 2, "networks": "slurm/rail@ib0"}, "storage": {"interfaces": ["eth5"]}, "user": {"interfaces": ["eno*"]}}}


@pytest.mark.feature("C5.3", "C5.2", "C5.4", "A10.3", "A14.8")
def test_jobs_and_pods_know_their_network(home):
    """Each node's words, those of the granted GPUs only, in tasks and in a gang's members; what a user says wins; a label that changes is followed without a restart."""
    pool = home
    pool.up("--nodes", "2", "--gpus", "4")
    pool.kubectl("label", "node", "n0", "net.example.com/interface=eth7", "net.example.com/hca=mlx5_9")
    pool.kubectl("annotate", "node", "n0", "net.example.com/hcas=mlx5_0,mlx5_0,mlx5_1,mlx5_2")
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"fabric": FABRIC}}))

    def task(*argv, env=()):
        text = pool.shell("env", *env, "srun", "-Q", "--mem=64M", *argv, "env")
        return {k: v for k, _, v in (line.partition("=") for line in text.splitlines()) if k in names}
    names = [v["name"] for v in FABRIC["variables"]]
    there = {"NCCL_SOCKET_IFNAME": "eth7", "UCX_NET_DEVICES": "mlx5_9:1", "NCCL_DEBUG": "WARN"}
    wait_for("tasks have them", lambda: task("-w", "n0") == there, 120)
    assert task("-w", "n0", "--gpus=3") == {**there, "NCCL_IB_HCA": "mlx5_0,mlx5_1"}
    wait_for("the other node knows them, too", lambda: task("-w", "n1", "--gpus=1", env=["NCCL_DEBUG=INFO"]) == {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_DEBUG": "INFO"})

    pods = [pool.pod(f"w-{i}", 4) for i in range(2)]
    networks = "k8s.v1.cni.cncf.io/networks"
    for p in pods:
        p["metadata"].update(labels={"tandem.dev/gang": "train"}, annotations={"tandem.dev/gang-size": "2"})
        p["spec"]["containers"][0]["env"] = [{"name": "NCCL_DEBUG", "value": "TRACE"},
                                             {"name": "MINE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['fabric.tandem.dev/NCCL_SOCKET_IFNAME']"}}}]
    pods[1]["metadata"]["annotations"][networks] = "default/its-own"
    pool.apply(*pods)
    wait_for("both run", lambda: len(pool.running()) == 2, 90)
    got = {}
    assert {p["metadata"]["name"]: p["metadata"]["annotations"][networks] for p in pool.running()} == {"w-0": "slurm/rail@ib0", "w-1": "default/its-own"}
    for p in pool.running():
        env = dict(line.partition("=")[::2] for line in pool.kubectl("exec", p["metadata"]["name"], "--", "env").splitlines())
        assert env["NCCL_DEBUG"] == "TRACE" and env["MINE"] == env["NCCL_SOCKET_IFNAME"] and env["WORLD_SIZE"] == "2"
        got[p["spec"]["nodeName"]] = {k: env.get(k) for k in ("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "UCX_NET_DEVICES")}
    assert got == {"n0": {"NCCL_SOCKET_IFNAME": "eth7", "NCCL_IB_HCA": "mlx5_0,mlx5_1,mlx5_2", "UCX_NET_DEVICES": "mlx5_9:1"},
                   "n1": {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_IB_HCA": None, "UCX_NET_DEVICES": None}}

    uid = pool.get("pod", "main-pool-n0", "-n", "slurm")["metadata"]["uid"]
    pool.kubectl("label", "node", "n0", "net.example.com/interface=eth8", "net.example.com/hca-", "--overwrite")
    wait_for("the next task has the new words", lambda: task("-w", "n0") == {"NCCL_SOCKET_IFNAME": "eth8", "NCCL_DEBUG": "WARN"}, 120)
    assert pool.get("pod", "main-pool-n0", "-n", "slurm")["metadata"]["uid"] == uid and len(pool.running()) == 2

    # What nobody wrote down is found: n0's annotation stays what counts there.
    for i in range(2):
        hardware.rails(pool, f"n{i}", number=i)
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"fabric": FOUND}}))
    pool.kubectl("delete", "pods", "--all", "--wait=true")
    names[:] = ["NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "GLOO_SOCKET_IFNAME", "UCX_NET_DEVICES", "OMPI_MCA_btl_tcp_if_include"]
    plane = {"NCCL_SOCKET_IFNAME": "=ib0,ib1", "GLOO_SOCKET_IFNAME": "ib0,ib1", "OMPI_MCA_btl_tcp_if_include": "ib0,ib1"}
    all_of = {**plane, "NCCL_IB_HCA": "mlx5_0,mlx5_1", "UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1"}
    wait_for("tasks have the names of the GPUs' plane alone", lambda: task("-w", "n1") == all_of, 120)
    assert task("-w", "n1", "--gpus=2") == {**plane, "NCCL_IB_HCA": "mlx5_0", "UCX_NET_DEVICES": "mlx5_0:1"}
    wait_for("what was written by hand wins", lambda: task("-w", "n0", "--gpus=4") == {**all_of, "NCCL_IB_HCA": "mlx5_0,mlx5_1,mlx5_2"}, 60)
    pool.apply(pool.pod("near", 3, nodeSelector={"kubernetes.io/hostname": "n1"}))
    wait_for("a pod runs", lambda: pool.running(), 90)
    got = pool.running()[0]["metadata"]["annotations"]
    assert {k: got.get(f"fabric.tandem.dev/{k}") for k in names} == all_of and networks not in got  # it is of one node
    told = json.loads(pool.get("node", "n1")["metadata"]["annotations"]["tandem.dev/nics"])["nics"]
    assert [(x["name"], x["numa"], x["near"]) for x in told[:2]] == [("mlx5_0", 0, [4, 4, 0, 0]), ("mlx5_1", 1, [0, 0, 4, 4])]
    assert len(pool.series("agent", "tandem_nic_info", node="n1", link="InfiniBand", model="MT4129", firmware="28.39.1002")) == 2
    wait_for("their serial numbers are asked", lambda: {have["serial"] for have, v in pool.series("agent", "tandem_nic_info", node="n1", link="InfiniBand")} == {"S0-8X", "S1-8X"})

    def said(kind="PlanesReady"):
        return " ".join(c.get("message", "") for c in pool.get("slurmcluster", "main", "-n", "slurm")["status"]["conditions"] if c["type"] == kind)
    wait_for("all planes are well", lambda: "as spec.fabric.planes says" in said(), 60)
    hardware.rails(pool, "n1", down=["ib1"], number=1)
    wait_for("one that is down is named", lambda: said() == "n1: ib1 (mlx5_1) of the plane gpu is down", 60)
    wait_for("and no task is sent there", lambda: task("-w", "n1") == {"NCCL_SOCKET_IFNAME": "=ib0", "GLOO_SOCKET_IFNAME": "ib0", "OMPI_MCA_btl_tcp_if_include": "ib0", "NCCL_IB_HCA": "mlx5_0", "UCX_NET_DEVICES": "mlx5_0:1"}, 120)

    # Adapters that are given out: who has one opens its files alone, and knows its name alone.
    pool.kubectl("delete", "pods", "--all", "--wait=true")
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"fabric": {"nics": {"grant": True}}}}))
    wait_for("nodes have adapters", lambda: pool.shell("sinfo", "-N", "-h", "-o", "%N %G %t").split() == ["n0", "gpu:4,nic:2", "idle", "n1", "gpu:4,nic:2", "idle"], 180)
    opens = "for i in 0 1; do [ ! -e /dev/infiniband/uverbs$i ] || (: </dev/infiniband/uverbs$i) 2>&1 | grep -q permitted || echo $i; done; echo $NCCL_IB_HCA"

    def opened(*argv):
        return pool.shell("srun", "-Q", "--mem=64M", "-w", "n1", *argv, "sh", "-c", opens).split()
    wait_for("a task has the one that it asked for", lambda: opened("--gres=nic:1") == ["0", "mlx5_0"], 120)
    assert opened("--gpus=1") == []
    both = pool.pod("both", 0, nodeSelector={"kubernetes.io/hostname": "n1"})
    for what in ("requests", "limits"):
        both["spec"]["containers"][0]["resources"][what]["tandem.dev/nic"] = "2"
    pool.apply(both)
    wait_for("a pod with adapters runs", lambda: pool.running(), 90)
    got = pool.running()[0]["metadata"]["annotations"]
    assert (got["tandem.dev/nics-granted"], got["fabric.tandem.dev/NCCL_IB_HCA"], json.loads(got["tandem.dev/devices"])) == ("mlx5_0,mlx5_1", "mlx5_0,mlx5_1", {"tandem.dev/nic": "0-1"})
    assert {"uverbs0", "uverbs1", "rdma_cm"} < set(pool.kubectl("exec", "both", "--", "ls", "/dev/infiniband").split())

    bad = {"fabric": {"variables": [{"name": "NCCL_IB_HCA", "value": "{}:1"}, {"name": "LD_PRELOAD", "value": "x"}]}}
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": bad}))
    wait_for("it is refused in words", lambda: "spec.fabric.variables[0].value: NCCL_IB_HCA needs" in said("ConfigValid") and "spec.fabric.variables[1].name" in said("ConfigValid"))
