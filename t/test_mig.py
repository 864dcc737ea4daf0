"""GPUs that are cut in parts (NVIDIA's MIG): each part is a device of its own, in Slurm and for pods (docs/gpus.md)."""
import json
import os

import pytest

from harness import ACT_OVER, wait_for

# Which of the files may be opened: they are fake, so an open that is allowed ends with ENXIO.
PROBE = """for f in /dev/tandem-gpu* /dev/nvidia[0-9]* /dev/nvidia-caps/*; do [ ! -e $f ] || case $( (exec 3<$f) 2>&1 ) in *"No such device"*) echo $f;; esac; done
env | grep -E '(CUDA|NVIDIA)_VISIBLE_DEVICES' | sort | sed 's/.*=//'"""
PART = "nvidia.com/mig-1g.10gb"


def files(caps, gpu=1):
    return [f"/dev/nvidia{gpu}", *(f"/dev/nvidia-caps/nvidia-cap{i}" for i in sorted(caps, key=str))]


@pytest.mark.feature("A7.3", "A10.1", "C1.2", "D2.2", "D2.3")
def test_parts_of_gpus_are_devices(home):
    """n1 has a whole GPU and one that is cut into three parts, n0 two whole ones, n2 parts of one kind only. Jobs and pods get exactly the part that Slurm grants, two parts of a GPU go to two of them, nobody who asks for a GPU gets a part, and a Tenant's quota counts them."""
    pool = home
    for node, text in (("n1", "gpu1 3g.40gb 1g.10gb 1g.10gb\n"), ("n2", "gpu0\ngpu1 2g.20gb 2g.20gb\n")):
        os.makedirs(f"{pool.home}/hardware/{node}")
        with open(f"{pool.home}/hardware/{node}/mig", "w") as f:
            f.write(text)
    pool.up("--nodes", "3", "--gpus", "2")
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps(
        {"spec": {"scheduler": {"gresMap": {"nvidia.com/gpu": "gpu", PART: "gpu:1g.10gb"}}}}))
    offered = {n["metadata"]["name"]: {k: v for k, v in n["status"]["capacity"].items() if "/" in k} for n in pool.items("nodes")}
    assert offered == {"n0": {"nvidia.com/gpu": "2"}, "n1": {"nvidia.com/gpu": "1", PART: "2", "nvidia.com/mig-3g.40gb": "1"},
                       "n2": {"nvidia.com/gpu": "0", "nvidia.com/mig-2g.20gb": "2"}}
    sinfo = dict(line.split() for line in pool.shell("sinfo", "-h", "-N", "-o", "%N %G").splitlines())
    assert sinfo == {"n0": "gpu:2", "n1": "gpu:nvidia:1,gpu:1g.10gb:2,gpu:3g.40gb:1", "n2": "gpu:2g.20gb:2"}

    def pod(name, resource, n=1, cpu="1", **spec):
        p = pool.pod(name, command=["bash", "-c", PROBE + "\necho looked; exec sleep 100000"], image="tandem/slurm:24.11", **spec)
        for kind in ("limits", "requests"):
            p["spec"]["containers"][0]["resources"][kind] = {"cpu": cpu, "memory": "64Mi", resource: str(n)}
        return p

    # Whoever asks for GPUs gets whole ones, though parts are free: no other node than n0 does for "whole" and for "more", which comes when nothing is left there.
    pool.apply(pod("whole", "nvidia.com/gpu", 2), pod("part", PART), pod("foreign", PART, cpu="100m", scheduler="default-scheduler", nodeName="n1"))
    wait_for("two run", lambda: {p["metadata"]["name"] for p in pool.running()} >= {"whole", "part"})
    pool.apply(pod("more", "nvidia.com/gpu"))
    whole, part = (pool.grant(pool.get("pod", name)) for name in ("whole", "part"))
    assert whole[1:] == ("n0", {0, 1}) and part[1] == "n1" and len(part[2]) == 1
    own = part[2].pop()
    assert own in (1, 2), "n1's index 0 is the whole GPU, 3 the large part"
    wait_for("it has looked", lambda: "looked" in pool.kubectl("logs", "part").split())
    caps = {1: (5, 6), 2: (7, 8)}
    assert pool.kubectl("logs", "part").split()[:-1] == [*files(caps[own]), *[f"MIG-fake-1-{own + 1}"] * 2]
    # A native job gets the other one beside it, by Slurm's device cgroup and TaskProlog.
    other = 3 - own
    job = lambda *what: pool.shell("srun", "-Q", "--mem=64M", *what, "bash", "-c", PROBE + "; echo $SLURM_STEP_GPUS").split()
    assert job("--gpus=1g.10gb:1") == [*files(caps[other]), *[f"MIG-fake-1-{other + 1}"] * 2, str(other)]
    assert job("--gres=gpu:3g.40gb:1") == [*files((3, 4)), *["MIG-fake-1-1"] * 2, "3"]
    assert job("--gpus=nvidia:1") == ["/dev/tandem-gpu0", *["GPU-fake-0"] * 2, "0"]
    assert job("--gres=gpu:2g.20gb:2") == [*files((3, 4, 5, 6)), *["MIG-fake-1-1,MIG-fake-1-2"] * 2, "0,1"]  # of one type: Prolog asks nobody
    # The gate holds each part for who has it.
    table = {d["index"]: d["holder"].get("job") for d in json.load(open(f"{pool.home}/agent/gate/n1.json"))["devices"]}
    assert table[own] == part[0] and table[other] not in (part[0], 0), table
    r = pool.cmd("shell", "--", "srun", "--gpus=1g.20gb:1", "true", check=False)
    assert r.returncode and "no node has GPUs of the type 1g.20gb: there are 1g.10gb, 2g.20gb, 3g.40gb, nvidia" in r.stderr, r.stderr

    # A Tenant's quota of parts is a limit in Slurm.
    pool.apply({"apiVersion": "tandem.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": "small"},
                "spec": {"cluster": {"namespace": "slurm", "name": "main"}, "quota": {PART: "1"}, "members": [{"user": "researcher"}]}})
    wait_for("Slurm has it", lambda: "small||gres/gpu:1g.10gb=1" in pool.shell("sacctmgr", "-nP", "show", "assoc", "format=account,user,grptres"))
    assert "GPUs      nvidia:1,1g.10gb:2,3g.40gb:1" in pool.cmd("node", "n1").stdout
    assert "GPUs: nvidia:1,1g.10gb:2,3g.40gb:1" in pool.cmd("status").stdout
    assert f"nvidia.com/gpu {own}" in pool.cmd("why", "part").stdout
    assert "nodeName" not in pool.get("pod", "more")["spec"]
    wait_for("a pod of another scheduler gets none", lambda: "are given out by Slurm alone" in json.dumps(pool.get("pod", "foreign")["status"]))


def cut(pool, name, parts, gpu=1, node="n1", **spec):
    pool.apply({"apiVersion": "tandem.dev/v1alpha1", "kind": "NodeAction", "metadata": {"name": name},
                "spec": {"node": node, "action": "cut-gpu", "gpu": gpu, "parts": parts, **spec}})


def over(pool, name):
    status = lambda: pool.get("nodeaction", name).get("status", {})
    wait_for(f"{name} is over", lambda: status().get("phase") in ACT_OVER)
    return status()


@pytest.mark.nightly
@pytest.mark.embedded
@pytest.mark.feature("D2.5", "D2.2", "D2.3")
def test_a_gpu_is_cut_and_whole_again(home):
    """A GPU that nobody uses is cut by a NodeAction: its node gives out the parts, jobs get them, and it is whole again; the node's own job ends by itself, the other nodes' go on. Whoever is killed in the middle carries on, what does not fit is refused before anything leaves service, and nobody else may ask for it."""
    pool = home
    pool.up("--nodes", "2", "--gpus", "2")
    gres = lambda node="n1": pool.shell("sinfo", "-h", "-N", "-n", node, "-o", "%G").strip()
    assert gres() == "gpu:2"
    neighbour = pool.sbatch("-w", "n0", "--gres=gpu:2", "-o", "/dev/null")
    wait_for("the other node's job runs", lambda: pool.squeue().get(neighbour, {}).get("state") == "RUNNING")
    since = pool.job(neighbour)["StartTime"]

    # What does not fit is refused with what there is; the node stays in service.
    cut(pool, "too-much", ["3g.40gb", "3g.40gb", "1g.10gb"])
    assert "spec.parts: GPU 1: 3g.40gb 3g.40gb 1g.10gb do not fit beside each other: it can be cut in 1g.10gb, 1g.10gb.me" in over(pool, "too-much")["message"]
    cut(pool, "no-such-gpu", ["1g.10gb"], gpu=2)
    assert "spec.gpu: this node has no GPU 2 that can be cut" in over(pool, "no-such-gpu")["message"]
    cut(pool, "alone", ["1g.10gb"], scope="device", device="gpu1")
    assert "spec.scope" in over(pool, "alone")["message"]
    pool.kubectl("label", "node", "n1", "nvidia.com/mig.config=all-1g.10gb")
    cut(pool, "not-ours", ["1g.10gb"])
    assert "NVIDIA's MIG manager cuts the GPUs of this node" in over(pool, "not-ours")["message"]
    pool.kubectl("label", "node", "n1", "nvidia.com/mig.config-")
    r = pool.run("kubectl", "--as", "researcher", "create", "-f", "-", check=False, input=json.dumps(
        {"apiVersion": "tandem.dev/v1alpha1", "kind": "NodeAction", "metadata": {"name": "mine"}, "spec": {"node": "n1", "action": "cut-gpu"}}))
    assert r.returncode and "forbidden" in r.stderr.lower(), r.stderr
    assert pool.in_service("n1") and not os.path.exists(f"{pool.home}/hardware/n1/mig")

    # A job on the node is waited for, and nothing is cut while it runs.
    own = pool.sbatch("-w", "n1", "--gres=gpu:1", "-o", "/dev/null")
    wait_for("it runs", lambda: pool.squeue().get(own, {}).get("state") == "RUNNING")
    cut(pool, "to-parts", ["1g.10gb", "3g.40gb", "1g.10gb"], reason="a class")
    wait_for("the node is drained for it", lambda: "devices change: action cut-gpu: a class" in pool.shell("sinfo", "-h", "-R", "-o", "%E"))
    assert pool.squeue()[own]["state"] == "RUNNING" and not os.path.exists(f"{pool.home}/hardware/n1/mig")
    pool.shell("scancel", own)
    done = over(pool, "to-parts")
    assert done["phase"] == "Succeeded" and [s["name"] for s in done["steps"]] == ["drain", "cut-gpu", "return"], done
    assert gres() == "gpu:nvidia:1,gpu:1g.10gb:2,gpu:3g.40gb:1"
    with open(f"{pool.home}/hardware/n1/mig") as f:
        assert f.read() == "gpu1 3g.40gb 1g.10gb 1g.10gb\n"
    job = lambda *what: pool.shell("srun", "-Q", "--mem=64M", *what, "bash", "-c", PROBE).split()
    assert job("--gpus=1g.10gb:2") == [*files((5, 6, 7, 8)), *["MIG-fake-1-2,MIG-fake-1-3"] * 2]
    assert job("--gpus=3g.40gb:1") == [*files((3, 4)), *["MIG-fake-1-1"] * 2]

    # Whole again, by the command, while those who do it are killed: the agent when it was told, the operator with it.
    made = json.loads(pool.cmd("node", "cut", "n1", "--gpu", "1", "--parts", "whole", "-o", "json").stdout)
    wait_for("the agent is told", lambda: made["metadata"]["uid"] in (pool.annotation("n1", "operation") or ""))
    pool.kill_role("kubelet")
    pool.kill_role("operator")
    done = over(pool, made["metadata"]["name"])
    assert done["phase"] == "Succeeded", done
    assert gres() == "gpu:2" and job("-w", "n1", "--gpus=2")[:2] == ["/dev/tandem-gpu0", "/dev/tandem-gpu1"]
    assert pool.in_service("n1")

    # The other node's job has run all the time.
    now = pool.job(neighbour)
    assert (now["JobState"], now["StartTime"], now["Restarts"]) == ("RUNNING", since, "0")
    assert "cut-gpu, asked for by" in pool.cmd("history", "n1").stdout
    on_demand(pool, neighbour)


def on_demand(pool, neighbour):
    """No node has a part: where the NodeSet lets GPUs be cut, a job and a pod that ask for one get it, each by a cut of its own on an idle node, and parts that nobody has are made whole again. n0 is in use all the time, and is left alone."""
    actions = lambda: {a["metadata"]["name"]: a for a in pool.items("nodeactions") if a["spec"].get("policy") == "spec.gpuCutting"}
    ended = lambda n: [a for a in actions().values() if a.get("status", {}).get("phase") == "Succeeded"][n - 1:]
    cutting = lambda **spec: pool.kubectl("patch", "nodeset", "pool", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": spec}))
    runs = lambda job: pool.squeue().get(job, {}).get("state") == "RUNNING"
    assert pool.cmd("shell", "--", "sbatch", "--gpus=1g.10gb:1", "--wrap", "true", check=False).returncode, "no NodeSet allows it yet"
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps(
        {"spec": {"scheduler": {"gresMap": {"nvidia.com/gpu": "gpu", PART: "gpu:1g.10gb"}}}}))
    cutting(gpuCutting={"keepWhole": 1, "pause": "0s", "idleTime": "1h", "parts": ["1g.10gb"]}, slurm={"gres": "gpu:2"})
    wait_for("the wrong field is named", lambda: 'spec.gpuCutting: spec.slurm.gres is "gpu:2"' in json.dumps(pool.get("nodeset", "pool", "-n", "slurm"), ensure_ascii=False).replace('\\"', '"'))
    cutting(slurm={"gres": None})
    wait_for("the node says what may be", lambda: pool.annotation("n1", "gpu-cutting"))
    # Who may annotate Nodes can have nothing cut that the NodeSet does not allow.
    pool.kubectl("annotate", "node", "n1", 'tandem.dev/gpu-cut={"gpu":0,"parts":["7g.80gb"]}')
    wait_for("that is refused", lambda: any("does not allow 7g.80gb" in e["message"] for e in pool.items("events")) and not pool.annotation("n1", "gpu-cut"))
    assert not actions()

    # A job for parts that no node has: it is held, a GPU of the idle node is cut, and it is released.
    job = int(wait_for("a job may ask for it", lambda: pool.cmd("shell", "--", "sbatch", "--parsable", "--mem=64M", "--gpus=1g.10gb:1", "-o", "/dev/null", "--wrap", "sleep 100000", check=False).stdout.strip()))
    own = pool.sbatch("-H", "--gpus=1g.10gb:1", "-o", "/dev/null")
    wait_for("it has its part", lambda: runs(job))
    wait_for("the cut is over", lambda: ended(1))
    assert pool.squeue()[own]["state"] == "PENDING", "who holds his job himself releases it himself"
    pool.shell("scancel", own)
    (a,) = actions().values()
    assert (a["spec"]["node"], a["spec"]["parts"], a["spec"]["reason"]) == ("n1", ["1g.10gb"] * 7, f"job {job} of researcher waits for 1g.10gb")
    # Others find parts; who wants more than are free is told what he waits for, and nothing is cut while one is in use.
    more = pool.sbatch("--gpus=1g.10gb:7", "-o", "/dev/null")
    wait_for("why tells", lambda: "It waits for a part 1g.10gb: a GPU is cut for it as soon as nothing of a node that it may use is in use" in pool.cmd("why", more).stdout)
    assert len(actions()) == 1
    pool.shell("scancel", job)
    wait_for("he has all of them", lambda: runs(more))
    pool.shell("scancel", more)
    cutting(gpuCutting={"idleTime": "1s"})
    wait_for("nobody has or wants them, so they are whole", lambda: ended(2) and pool.in_service("n1") and pool.shell("sinfo", "-h", "-N", "-n", "n1", "-o", "%G").strip() == "gpu:2")

    # A pod for such a part waits, and is not refused.
    pod = pool.pod("cut-for-me", command=["sleep", "100000"], image="tandem/slurm:24.11")
    pod["spec"]["containers"][0]["resources"] = {k: {"cpu": "1", "memory": "64Mi", PART: "1"} for k in ("limits", "requests")}
    pool.apply(pod)
    wait_for("the pod runs on a part", lambda: "cut-for-me" in {p["metadata"]["name"] for p in pool.running()})
    assert not [e for e in pool.items("events") if e["reason"] == "Refused" and e["involvedObject"]["name"] == "cut-for-me"]
    assert [a["spec"]["reason"] for a in actions().values()].count("a pod waits for 1g.10gb") == 1 and len(actions()) == 3
    assert pool.job(neighbour)["JobState"] == "RUNNING"
    cutting(gpuCutting=None)
    wait_for("it is turned off", lambda: not pool.annotation("n1", "gpu-cutting"))
