"""GPUs of types: from a node's label or a NodeSet, asked for by jobs and pods."""
import json
import re

import pytest

from harness import expand_ranges, wait_for
from laptop import Laptop

# Which devices the job may open (they are fake: an open that is allowed ends with ENXIO), and which Slurm says.
PROBE = """for i in 0 1 2 3; do m=$( (exec 3</dev/tandem-gpu$i) 2>&1 ); case $m in *"No such device"*) printf '%s ' $i;; esac; done
echo; scontrol -o -d show job $SLURM_JOB_ID | grep -o 'GRES=gpu[^ ]*IDX[^ ]*'"""


def near(shown):
    """The NUMA nodes of a job's cores and of its GPUs, where each has 7 cores and 2 GPUs."""
    cores, gpus = re.search(r" CPU_IDs=(\S+) .*GRES=gpu:\d+\(IDX:([^)]+)\)", shown).groups()
    return {i // 7 for i in expand_ranges(cores)}, {i // 2 for i in expand_ranges(gpus)}


def parts_of_gpus(pool):
    """On n0, whose four GPUs are given out in parts, too: pods and jobs of 60 hundredths, what fits beside them, and who wants one whole."""
    def held():
        """The hundredths of each GPU that Slurm has given out; those that the gate counts, which hears of no end, are never too many."""
        used = re.search(r"GresUsed=(\S+)", pool.shell("scontrol", "-d", "show", "node", "n0"))[1]
        table = json.load(open(f"{pool.home}/agent/gate/n0.json"))["devices"]
        assert all(sum(h.get("share", 100) for h in (d["holder"], *d.get("with", [])) if not h.get("idle")) <= 100 for d in table), table
        return [int(n) for kind in re.findall(r"shard:\w+:\d+\(([^)]*)\)", used) for n in re.findall(r"(\d+)/100", kind)]

    def states(*jobs):
        now = pool.squeue()
        return [now[j]["state"] for j in jobs]

    def pod(name, share, gpus=1):
        p = pool.pod(name, gpus, nodeSelector={"kubernetes.io/hostname": "n0"}, command=["sh", "-c", "ls /dev | grep -c tandem-gpu; exec sleep 10000"])
        p["metadata"]["annotations"] = {"slurm.tandem.dev/gpu-share": share}
        return p
    jobs = [pool.sbatch("-w", "n0", "--gres=shard:60") for _ in (0, 1)]
    pool.apply(pod("part0", "60"), pod("part1", "60"), pod("much", "101"), pod("little", "5"), pod("two", "50", 2))
    wait_for("four parts of 60 are held, each of another GPU", lambda: len(pool.running()) == 2 and held() == [60] * 4)
    me = Laptop(pool, f"{pool.home}/laptop", "researcher")
    shown = lambda: [(g["used"], g.get("share"), len(g.get("shares", [])), g["type"]) for n in me.api("GET", "/pool")[1]["nodes"] if n["name"] == "n0" for g in n["gpus"]]
    wait_for("the pool shows them", lambda: shown() == [(True, 60, 1, kind) for kind in ("zeta", *["alpha"] * 3)])
    wait_for("top, too", lambda: (top := me.json("top"))["gpusUsed"] >= 4 and sum(u["gpus"] for u in top["users"]) == 2.4)
    grants = [json.loads(pool.get("pod", p)["metadata"]["annotations"]["tandem.dev/devices"]) for p in ("part0", "part1")]
    assert all(g["share"] == "60" for g in grants) and grants[0] != grants[1]
    wait_for("it sees one GPU", lambda: pool.kubectl("logs", "part0").strip() == "1")
    assert f"nvidia.com/gpu {grants[0]['nvidia.com/gpu']} (60/100 of it)" in pool.cmd("why", "part0").stdout
    # Beside one of them, with that device and no other.
    mine, step = pool.shell("srun", "-Q", "-w", "n0", "--mem=64M", "--gres=shard:40", "bash", "-c", PROBE.split("echo;")[0] + "echo; echo $SLURM_STEP_GPUS $SLURM_SHARDS_ON_NODE").splitlines()
    assert f"{mine.strip()} 40" == step, (mine, step)
    more, whole = pool.sbatch("-w", "n0", "--gres=shard:60"), pool.sbatch("-w", "n0", "--gpus=1")
    assert states(*jobs, more, whole) == ["RUNNING", "RUNNING", "PENDING", "PENDING"]
    pool.shell("scancel", str(jobs[0]))
    wait_for("the next part has its place", lambda: states(more, whole) == ["RUNNING", "PENDING"] and held() == [60] * 4)
    for name, words in (("much", "is no part of a GPU: write 6 to 100"), ("little", "is no part of a GPU: write 6 to 100"), ("two", "a pod has a part of one GPU")):
        wait_for(f"{name} is refused in words", lambda: any(words in c.get("message", "") for c in pool.get("pod", name)["status"].get("conditions", [])))
    for wrong in ("shard:101", "shard:5", "shard", "shard:alpha:50"):
        r = pool.cmd("shell", "--", "srun", f"--gres={wrong}", "true", check=False)
        assert r.returncode and "shard counts hundredths of one GPU" in r.stderr, r.stderr
    r = pool.cmd("shell", "--user", "root", "--", "scontrol", "update", f"JobId={whole}", "Gres=shard:5", check=False)
    assert r.returncode and "shard counts hundredths of one GPU" in r.stdout + r.stderr, r
    pool.kubectl("delete", "pods", "--all", "--grace-period=0")
    wait_for("whoever wants a whole one has it, once nobody has a part of it", lambda: states(more, whole) == ["RUNNING"] * 2)
    wait_for("nothing of the pods is left", lambda: sorted(held()) == [0, 0, 60, 60])
    assert pool.job(jobs[1])["JobState"] == "RUNNING"
    pool.shell("scancel", *map(str, (jobs[1], more, whole)))
    wait_for("all are gone", lambda: not pool.squeue())


@pytest.mark.feature("A10.1", "A10.2", "A7.2", "A1.8", "D1.1", "D1.4", "D2.1", "D2.4")
def test_jobs_and_pods_ask_for_a_type(home):
    """A label types one node, a NodeSet both, with two types each; who asks for a type gets devices of it and no other, and one that is not there is refused with those that are."""
    pool = home
    pool.up("--nodes", "2", "--gpus", "4")

    def gres():
        """Without the sockets, such as (S:0-1)."""
        return dict(re.sub(r"\([^)]*\)", "", line).split() for line in pool.shell("sinfo", "-h", "-N", "-t", "idle", "-o", "%N %G").splitlines())

    def opens(*argv):
        mine, said = pool.shell("srun", "-Q", "--mem=64M", *argv, "bash", "-c", PROBE).splitlines()
        indexes = sorted(i for part in said.split("IDX:")[1:] for i in expand_ranges(part.split(")")[0]))
        assert [int(i) for i in mine.split()] == indexes, (mine, said)
        return indexes

    assert gres() == {"n0": "gpu:4", "n1": "gpu:4"}
    # Cores and GPUs of a job come from one NUMA node, where they are known.
    pool.kubectl("annotate", "node", "n0", "tandem.dev/gpu-numa=0,0,1,1")
    wait_for("Slurm knows both NUMA nodes", lambda: pool.shell("sinfo", "-h", "-N", "-n", "n0", "-t", "idle", "-o", "%z %G").split() == ["2:7:1", "gpu:4(S:0-1)"], 120)
    pods = [pool.pod(f"near{i}", gpus=2, cpu="3", nodeSelector={"kubernetes.io/hostname": "n0"}) for i in (0, 1)]
    pool.apply(*pods)
    wait_for("both run", lambda: len(pool.running()) == 2)
    jobs = [pool.grant(pool.get("pod", f"near{i}"))[0] for i in (0, 1)]
    seen = [near(pool.shell("scontrol", "-o", "-d", "show", "job", str(j))) for j in jobs]
    assert all(cores == gpus and len(gpus) == 1 for cores, gpus in seen) and seen[0] != seen[1], seen
    pool.kubectl("delete", "pods", "--all")
    r = pool.cmd("shell", "--", "sbatch", "-w", "n0", "-c8", "--gres=gpu:2", "--gres-flags=enforce-binding", "--wrap=true", check=False)
    assert r.returncode and "Requested node configuration is not available" in r.stderr, "no NUMA node has 8 cores"
    pool.kubectl("annotate", "node", "n1", "tandem.dev/gpu-numa=0,0,2")
    wait_for("a slip is said, and the node goes on", lambda: "is of 3 GPUs, the node has 4" in json.dumps(pool.get("nodeset", "pool", "-n", "slurm")["status"]))
    assert gres()["n1"] == "gpu:4"
    pool.kubectl("annotate", "node", "n1", "tandem.dev/gpu-numa-")
    # What the machine itself tells counts where nobody says anything else.
    pool.cmd("fault", "n1", "node", "product=NVIDIA-L40S", "numa=0,0,1,1,3")  # and two NUMA nodes without GPUs
    wait_for("the machine's own words are Slurm's", lambda: pool.shell("sinfo", "-h", "-N", "-n", "n1", "-t", "idle", "-o", "%z %G").split() == ["4:3:1", "gpu:l40s:4(S:0-1)"], 120)
    pool.kubectl("label", "node", "n1", "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3")
    wait_for("the label's type is Slurm's", lambda: gres() == {"n0": "gpu:4", "n1": "gpu:h100:4"}, 120)
    assert json.loads(pool.get("node", "n1")["metadata"]["annotations"]["tandem.dev/slurm-share"])["types"] == "h100:4"
    assert len(opens("--gpus=h100:2")) == 2
    job = pool.sbatch("--gpus=h100:1")
    wait_for("it runs", lambda: pool.squeue()[job]["state"] == "RUNNING")
    shown = pool.job(job)
    assert shown["NodeList"] == "n1" and "gres/gpu=1,gres/gpu:h100=1" in shown["AllocTRES"]  # limits of gres/gpu count it too
    pool.shell("scancel", str(job))
    r = pool.cmd("shell", "--", "srun", "--gpus=b200:1", "true", check=False)
    assert r.returncode and "no node has GPUs of the type b200: there are h100" in r.stderr, r.stderr

    # Two types on a node: what Slurm calls 0 to 3 must be those devices.
    pool.kubectl("patch", "nodeset", "pool", "-n", "slurm", "--type=merge", "-p", '{"spec":{"slurm":{"gres":"gpu:zeta:1,gpu:alpha:3","gpuSharing":"Counted","extraConf":{"CpuSpecList":"7-8"}},"updateStrategy":{"maxUnavailable":"100%"}}}')
    wait_for("both nodes have both types", lambda: gres() == dict.fromkeys(("n0", "n1"), "gpu:zeta:1,gpu:alpha:3,shard:zeta:100,shard:alpha:300"), 120)
    # The system's own cores are nobody's, and no reason to make the node anew.
    slurmd = lambda: pool.get("pod", "main-pool-n0", "-n", "slurm")["metadata"]["uid"]
    first = slurmd()
    assert "CPUEfctv=12 CPUTot=14" in (shown := pool.shell("scontrol", "show", "node", "n0")) and "CPUSpecList=7-8 " in shown, shown
    cores = re.search(r" CPU_IDs=(\S+) ", pool.shell("srun", "-Q", "-w", "n0", "-c12", "--mem=64M", "sh", "-c", "scontrol -o -d show job $SLURM_JOB_ID"))[1]
    assert expand_ranges(cores) == {*range(7), *range(9, 14)}, cores
    assert opens("--gpus=zeta:1") == [0] and opens("--gpus=alpha:3") == [1, 2, 3]
    assert opens("--gpus=4", "-N1") == [0, 1, 2, 3]  # Prolog is told of one type only
    assert opens("--gres=gpu:zeta:1,gpu:alpha:1") == [0, 1]
    parts_of_gpus(pool)

    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", '{"spec":{"scheduler":{"gresMap":{"nvidia.com/gpu":"gpu","example.com/zeta":"gpu:zeta"}}}}')
    by_note, by_resource, wrong = pool.pod("note", 2), pool.pod("resource"), pool.pod("wrong", 1)
    by_note["metadata"]["annotations"] = {"slurm.tandem.dev/gpu-type": "alpha"}
    wrong["metadata"]["annotations"] = {"slurm.tandem.dev/gpu-type": "h100"}
    by_resource["spec"]["containers"][0]["resources"]["limits"]["example.com/zeta"] = "1"
    by_resource["spec"]["containers"][0]["resources"]["requests"]["example.com/zeta"] = "1"
    pool.apply(by_note, by_resource, wrong)
    wait_for("two run", lambda: len(pool.running()) == 2, 90)
    assert pool.grant(pool.get("pod", "note"))[2] <= {1, 2, 3} and pool.grant(pool.get("pod", "resource"))[2] == {0}

    def words():
        return " ".join(c.get("message", "") for c in pool.get("pod", "wrong")["status"].get("conditions", []))
    wait_for("the third is refused in words", lambda: "no node has gpu of the type h100: there are alpha, zeta" in words())
    assert len(opens("--gpus=alpha:3", "-N1")) == 3  # beside the pods, on the other node or none of theirs

    assert slurmd() == first

    # A NodeSet that mixes up its types is refused, and its nodes go on.
    pool.kubectl("patch", "nodeset", "pool", "-n", "slurm", "--type=merge", "-p", '{"spec":{"slurm":{"gres":"gpu:zeta:1,gpu:alpha:2,gpu:zeta:1"}}}')
    wait_for("it says what to write", lambda: "must be next to each other; write gpu:4" in json.dumps(pool.get("nodeset", "pool", "-n", "slurm")["status"]))
    assert len(pool.running()) == 2
