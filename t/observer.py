"""Observes which process can open which device, according to the kernel; for the random test.

A holder is a pod or a native job with a process in a cgroup for which the kernel allows a device of
the pool. Not counted are: slurmd and its stepds, which hold every device and use none; a container
that exists but whose program has not started; and stand-ins, which count as the pod that they stand
for (those of gangs, whose names begin with "gang", for none). On pure cgroup v2 the rules cannot be read back; there the container's configuration and the
job's SLURM_JOB_GPUS are used."""
import glob
import hashlib
import itertools
import json
import os
import re
import threading
import time

from harness import SLOW

V1 = "/sys/fs/cgroup/devices"
HEX_UID = re.compile(r"-([0-9a-f]{32})-")
UID = re.compile(r"\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$")


def _read(path):
    try:
        with open(path, "rb") as f:
            return f.read().decode(errors="replace")
    except OSError:
        return ""


def _born(pid):
    """The start time of a live process. None: it is gone or dead."""
    f = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return f[19] if len(f) > 19 and f[0] not in "ZX" else None


def _pids(cgroup):
    return [int(p) for d, _, _ in os.walk(cgroup) for p in _read(f"{d}/cgroup.procs").split()]


def _words(pid):
    """Describes a process for people: its pid, state, command line and name, and its cgroup in the
    device hierarchy."""
    f = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    where = next((line.rpartition(":")[2] for line in _read(f"/proc/{pid}/cgroup").splitlines() if ":devices:" in line or line.startswith("0::/")), "")
    return f"{pid} {f[0] if f else 'gone'} {_read(f'/proc/{pid}/cmdline').split(chr(0))[:4]} {_read(f'/proc/{pid}/comm').strip()} {where[-60:]}"


class Container:
    """A container by its runtime id. What is read here never changes during its life."""

    def __init__(self, home, cid):
        conf = json.load(open(f"{home}/pods/{cid}/config.json"))
        self.cid, self.host = cid, conf.get("hostname", "")
        self.args = " ".join(conf["process"]["args"])
        self.devices = {(d["major"], d["minor"]) for d in conf["linux"].get("devices", []) if d["path"].startswith("/dev/tandem-gpu")}
        self.uid = HEX_UID.search(cid).group(1)

    @property
    def slurmd(self):
        return bool(re.fullmatch(r"n[0-9]+", self.host))  # the pod of a node has the node's name


class Observer(threading.Thread):
    """Looks all the time. `doubles` are the devices that two holders could open at one moment."""

    def __init__(self, pool):
        super().__init__(daemon=True)
        self.home, self.id = pool.home, pool.id
        self.stop, self.doubles, self.evidence, self.looks, self.seen, self.known = threading.Event(), [], [], 0, set(), {}
        self.root = next((p for p in (f"{V1}/tandem-{self.id}", f"/sys/fs/cgroup/tandem-{self.id}") if os.path.isdir(p)), None)

    def names(self):
        """{uid: a name for people}."""
        return {c.uid: c.host for c in list(self.known.values())}

    def pods_left(self):
        """The pods that are left, without Slurm's daemons."""
        runc = f"/run/tandem/{self.id}/runc"
        there = [self.container(c) for c in os.listdir(runc)]
        return [c.host for c in there if c and not c.slurmd and not c.host.startswith("main-")]

    def container(self, cid):
        if cid not in self.known:
            try:
                self.known[cid] = Container(self.home, cid)
            except (OSError, ValueError, KeyError, AttributeError):
                return None
        return self.known[cid]

    def allowed(self, cgroup, majors):
        rules = _read(f"{cgroup}/devices.list")
        return {(int(a), int(b)) for a, b in re.findall(r"^c (\d+):(\d+) \S*[rw]", rules, re.M) if int(a) in majors}

    def holders(self):
        """All processes with a device: [(who, devices, pid, start time)]."""
        found, majors = [], {m for c in list(self.known.values()) for m, _ in c.devices}
        for entry in os.listdir(self.root):
            c = self.container(entry) if os.path.isdir(f"{self.root}/{entry}") else None
            if not c or not c.devices:
                continue
            base = f"{self.root}/{entry}"
            if c.slurmd:
                for job in glob.glob(f"{base}/**/job_*", recursive=True):
                    if os.path.isdir(job) and job.rpartition("_")[2].isdigit():
                        self.native(c, job, majors, found)
                continue
            devices = self.allowed(base, majors) if self.root.startswith(V1) else c.devices
            for pid in _pids(base):
                if "runc" not in os.path.basename(_read(f"/proc/{pid}/cmdline").split("\0")[0]):
                    found.append((c.uid, devices, pid, _born(pid)))
        return found

    def native(self, c, job, majors, found):
        for pid in _pids(job):
            env = dict(e.split("=", 1) for e in _read(f"/proc/{pid}/environ").split("\0") if "=" in e)
            if "SLURM_JOB_ID" not in env:
                continue  # the stepd
            if env.get("SLURM_JOB_NAME", "").startswith("gang"):
                continue  # the stand-in of a gang has what all its members have on its node, and uses nothing
            if _read(f"/proc/{pid}/cmdline").split("\0")[0].endswith("/task-prolog"):
                # The gate's own check, before anything of the task runs.
                continue
            ask = UID.search(env.get("SLURM_JOB_NAME", ""))
            who = ask.group(1).replace("-", "") if ask else f"job {env['SLURM_JOB_ID']}"
            if self.root.startswith(V1):
                devices = self.allowed(job, majors)
            else:
                index = [int(i) for i in env.get("SLURM_JOB_GPUS", "").split(",") if i.isdigit()]
                low = min(c.devices)
                devices = {(low[0], low[1] + i) for i in index}
            found.append((who, devices, pid, _born(pid)))

    def look(self):
        by = {}
        for who, devices, pid, born in self.holders():
            for d in devices if born else ():
                by.setdefault(d, []).append((who, pid, born))
        self.looks += 1
        for d, procs in by.items():
            self.seen |= {who for who, _, _ in procs}
            # Who was seen and still lives has lived at the moment in between: all of these held the
            # device together.
            alive = {who for who, pid, born in procs if len({w for w, _, _ in procs}) > 1 and _born(pid) == born}
            if len(alive) > 1:
                self.doubles.append((time.time(), d, sorted(alive)))
                self.evidence.append(f"{time.strftime('%H:%M:%S')} {d} " + "; ".join(f"{who}: {_words(pid)}" for who, pid, _ in procs))

    def double_words(self):
        """Who shared a device, from when to when. Pods are given by name."""
        spans = {}
        for at, d, who in self.doubles:
            spans.setdefault((d, tuple(who)), []).append(at)
        names = self.names()
        return [f"device {d[1] % 64} of n{d[1] // 64}: {[names.get(w, w) for w in who]}, {len(t)} times in {t[-1] - t[0]:.2f} s from "
                + time.strftime("%H:%M:%S", time.gmtime(t[0])) for (d, who), t in sorted(spans.items())]

    def run(self):
        while not self.stop.wait(0.02 if SLOW == 1 else 0.2 * SLOW):
            try:
                self.look()
            except OSError:
                pass

    def end(self):
        self.stop.set()
        self.join(10)


class KubeletObserver(Observer):
    """The same where kubelets and containerd make the cgroups; cgroup v1 only, because the kernel's
    rules are read back."""

    def __init__(self, pool):
        super().__init__(pool)
        self.root, self.major, self.where = f"{V1}/tandem-kube-{self.id}", pool.instance["deviceMajor"], {}

    def names(self):
        return {uid.replace("-", ""): f"{node}/{uid}" for uid, node in list(self.where.items())}

    def pods(self):
        """Yields (node, uid, cgroup, whether it is slurmd's) of each pod."""
        for at in glob.glob(f"{self.root}/n*/kubepods/pod*") + glob.glob(f"{self.root}/n*/kubepods/*/pod*"):
            node, uid = at[len(self.root) + 1:].split("/")[0], os.path.basename(at)[3:]
            self.where[uid] = node
            yield node, uid, at, bool(glob.glob(f"{self.home}/kube/{node}/kubelet/pods/{uid}/containers/slurmd"))

    def pods_left(self):
        daemons = ("slurmd", "slurmctld", "slurmrestd", "slurmdbd", "login", "coredns")
        return [f"{node}/{uid}" for node, uid, at, _ in self.pods() if not any(glob.glob(f"{self.home}/kube/{node}/kubelet/pods/{uid}/containers/{d}") for d in daemons)]

    def holders(self):
        found, majors = [], {self.major}
        for node, uid, at, slurmd in self.pods():
            if slurmd:
                for job in glob.glob(f"{at}/*/slurm*/**/job_*", recursive=True):
                    if os.path.isdir(job) and job.rpartition("_")[2].isdigit():
                        self.native(None, job, majors, found)
                continue
            for base in glob.glob(f"{at}/*/"):
                devices = self.allowed(base, majors)
                for pid in _pids(base) if devices else ():
                    if "runc" not in os.path.basename(_read(f"/proc/{pid}/cmdline").split("\0")[0]):
                        found.append((uid.replace("-", ""), devices, pid, _born(pid)))
        return found


def asks(pods):
    """{uid of an ask: its pods}. A gang that waits is known by its members: the UID of its ask is made from theirs (docs/protocols.md 1.10)."""
    found, waiting = {}, {}
    for p in pods:
        m = p["metadata"]
        gang = m.get("labels", {}).get("tandem.dev/gang")
        if gang and not p["spec"].get("nodeName"):
            waiting.setdefault(gang, []).append(p)
        else:
            found.setdefault(m.get("annotations", {}).get("tandem.dev/gang-uid", m["uid"]), []).append(p)
    for members in waiting.values():
        least = int(members[0]["metadata"].get("annotations", {}).get("tandem.dev/gang-min", 0))
        for some in itertools.combinations(members, least) if least else [members]:  # the core of an elastic one is one of these
            h = hashlib.sha256("".join(f"{u}\n" for u in sorted(p["metadata"]["uid"] for p in some)).encode()).hexdigest()
            found[f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:32]}"] = list(some)
        found.update({p["metadata"]["uid"]: [p] for p in members if least})  # or it is beyond the core
    return found


def differences(pool):
    """The differences between Kubernetes and Slurm, in words."""
    pods = asks([p for p in pool.items("pods", "-n", "default") if p["status"].get("phase") not in ("Succeeded", "Failed")])
    jobs, found = {}, []
    for i, j in pool.squeue().items():
        uid = j["name"].rpartition(".")[2]
        if len(uid) == 36:
            jobs.setdefault(uid, []).append(i)
    for uid, ids in jobs.items():
        if uid not in pods:
            found.append(f"jobs {ids} have no pod")
        elif len(ids) > 1:
            found.append(f"pod {pods[uid][0]['metadata']['name']} has the jobs {ids}")
    for uid, p in [(uid, p) for uid, members in pods.items() for p in members]:
        name, grant = p["metadata"]["name"], pool.grant(p)
        if p["metadata"].get("deletionTimestamp"):
            found.append(f"pod {name} has not ended")
        elif not p["spec"].get("nodeName"):
            continue
        elif not grant or grant[0] not in jobs.get(uid, []):
            found.append(f"pod {name} is bound, its grant is {grant}, its jobs are {jobs.get(uid)}")
    for uid, members in pods.items():
        bound = [pool.grant(p) for p in members if p["spec"].get("nodeName") and pool.grant(p)]
        dealt = {}
        for _, node, devices in bound:
            dealt.setdefault(node, []).extend(devices)
        gave = pool.job_devices(bound[0][0]) if bound else {}
        if len(members) == 1 or len(bound) == int(members[0]["metadata"]["annotations"].get("tandem.dev/gang-size", 0)):
            wrong = any(sorted(d) != sorted(gave.get(node, set())) for node, d in dealt.items())
        else:  # the others are done
            wrong = any(len(d) != len(set(d)) or set(d) - gave.get(node, set()) for node, d in dealt.items())
        if wrong:
            found.append(f"pod {members[0]['metadata']['name']} has the devices {bound}, Slurm gave {gave}")
    return found


def containers(pool):
    """The containers of the embedded plane that the runtime has."""
    found = []
    for cid in os.listdir(f"{pool.run_dir}/runc"):
        try:
            found.append(Container(pool.home, cid))
        except (OSError, ValueError, KeyError, AttributeError):
            continue  # the container is just starting or ending
    return found
