"""Ranks of several nodes talk over the interface that spec.fabric says, in native jobs and in gangs of pods."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import hardware
import judges
from gangs import GANG, SIZE, all_run
from harness import wait_for

PLANE = {"UCX_NET_DEVICES": "rail0", "NCCL_SOCKET_IFNAME": "=rail0", "GLOO_SOCKET_IFNAME": "rail0", "OMPI_MCA_btl_tcp_if_include": "rail0"}
SENT = 8 << 20  # what a node sends at least: a megabyte, eight times
PROGRAM = f"{judges.HOME}/bin/python3", f"{judges.HOME}/with_plane.py"


def run(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def inside(pid, *argv):
    return run("nsenter", "-t", str(pid), "-n", *argv)


@contextlib.contextmanager
def cable(a, b, net):
    """A link between the networks of two processes, as rail0 in both."""
    run("ip", "link", "add", "rail0", "netns", str(a), "type", "veth", "peer", "name", "rail0", "netns", str(b))
    try:
        for i, pid in enumerate((a, b)):
            inside(pid, "ip", "addr", "add", f"{net}.{i + 1}/24", "dev", "rail0")
            inside(pid, "ip", "link", "set", "rail0", "up")
        yield
    finally:
        subprocess.run(["nsenter", "-t", str(a), "-n", "ip", "link", "del", "rail0"], capture_output=True)


def came(pid):
    """Bytes that came in, by interface."""
    found = (re.match(r"\s*(\S+):\s*(\d+)", line) for line in inside(pid, "cat", "/proc/net/dev").splitlines())
    return {m[1]: int(m[2]) for m in found if m}


def over_the_rail(before, after):
    more = {k: after[k] - before.get(k, 0) for k in after if k != "lo"}
    assert more.pop("rail0") >= SENT and sum(more.values()) < SENT / 4, (before, after)


def hosts_of(text, ranks):
    said = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert [(s["rank"], s["size"], s["sums"], s["env"]) for s in said] == [(r, ranks, [ranks * (ranks + 1) / 2], PLANE) for r in range(ranks)], text
    return {s["host"] for s in said}


def init_of(pool, pod):
    """The first process of a pod's container."""
    for cid in os.listdir(f"{pool.run_dir}/runc"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            with open(f"{pool.home}/pods/{cid}/config.json") as c, open(f"{pool.run_dir}/runc/{cid}/state.json") as s:
                if json.load(c)["hostname"] == pod:
                    return json.load(s)["init_process_pid"]
    raise AssertionError(f"no container of {pod}")


def mpiexec(pool, pods, *program):
    """In the first pod. What it wants to have started on each host is started there by exec, as an MPIJob's launcher does."""
    def start(pod, *argv):
        return subprocess.Popen(["kubectl", "exec", pod, "--", *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **pool.env})
    mpi = start(pods[0], f"{judges.HOME}/bin/mpiexec", "-launcher", "manual", "-hosts", ",".join(pods), "-ppn", "1", "-n", str(len(pods)), *program)
    proxies, said = [], []
    for line in mpi.stdout:
        if line.startswith("HYDRA_LAUNCH:"):
            proxies.append(start(pods[len(proxies)], "sh", "-c", line.removeprefix("HYDRA_LAUNCH:")))
        else:
            said.append(line)
    code, more = mpi.wait(60), [p.communicate(timeout=60)[0] for p in proxies]
    assert code == 0, (said, more)
    return "".join(said)


@pytest.mark.slow  # MPICH and mpi4py are 15 MB to fetch, once on a machine
@pytest.mark.embedded  # the cables are laid between namespaces of this machine
@pytest.mark.feature("C5.1", "C5.3", "C5.4")
def test_ranks_of_two_nodes_talk_over_the_plane(home):
    """All-reduce by srun, and by mpiexec in a gang of pods: the variables reach the ranks, and the bytes go over the plane's interface."""
    pool = home
    pool.up("--nodes", "2", "--gpus", "2")
    for node in ("n0", "n1"):
        t = hardware.Tree(pool, node)
        t.ethernet("rail0", mbps=100000)
        t.ethernet("eno1", slot=3)
        t.done()
    planes = {"gpu": {"interfaces": ["rail*"]}, "user": {"interfaces": ["eno*"]}}
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"fabric": {"planes": planes}}}))
    with contextlib.contextmanager(judges.lend)(pool, judges.MPI, "import mpi4py"):
        shutil.copy(judges.LISTS / "with_plane.py", pathlib.Path(pool.shared_dir) / "judges")
        told = lambda: pool.shell("srun", "-Q", "-N2", "--mem=50M", "env").splitlines().count("UCX_NET_DEVICES=rail0")
        wait_for("tasks are told of it", lambda: told() == 2, 120)
        pids = [pool.daemons("slurmd")[n] for n in ("n0", "n1")]
        with cable(*pids, "10.213.1"):
            before = [came(p) for p in pids]
            said = pool.as_user("researcher", "srun", "-Q", "--mpi=pmi2", "-N2", "-n4", "--ntasks-per-node=2", "--mem-per-cpu=200M", *PROGRAM, timeout=200).stdout
            assert hosts_of(said, 4) == {"n0", "n1"}
            for p, b in zip(pids, before):
                over_the_rail(b, came(p))

        # Each pod of a gang has a network of its own.
        both = [pool.pod(f"mpi-{i}", 2, image="tandem/slurm:24.11", cpu="2", memory="512Mi", volumes=[{"name": "env", "hostPath": {"path": f"{pool.shared_home}/judges"}}]) for i in range(2)]
        for p in both:
            p["metadata"].update(labels={GANG: "mpi"}, annotations={SIZE: "2"})
            p["spec"]["containers"][0]["volumeMounts"] = [{"name": "env", "mountPath": judges.HOME}]
        pool.apply(*both)
        assert {p["spec"]["nodeName"] for p in all_run(pool, "mpi", 2).values()} == {"n0", "n1"}
        pids = [init_of(pool, f"mpi-{i}") for i in range(2)]
        with cable(*pids, "10.213.2"):
            before = [came(p) for p in pids]
            assert hosts_of(mpiexec(pool, ["mpi-0", "mpi-1"], *PROGRAM), 2) == {"mpi-0", "mpi-1"}
            for p, b in zip(pids, before):
                over_the_rail(b, came(p))
