"""What every system test uses: one pool, its commands, waiting for a state, and what a pool leaves
on the machine."""
import fcntl
import glob
import http.client
import json
import os
import pathlib
import pty
import re
import signal
import ssl
import struct
import subprocess
import tempfile
import termios
import threading
import time
import urllib.request

import kubeget
import kubewrite

ROOT = pathlib.Path(__file__).resolve().parent.parent
IMAGES = os.environ.get("TANDEM_IMAGES", "/var/cache/tandem/images")
KEEP = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/root"), "LANG": "C.UTF-8"}
# Every deadline is multiplied by this, for emulated machines.
SLOW = float(os.environ.get("TANDEM_TEST_SLOW", "1"))
ACT_OVER = ("Succeeded", "Failed", "Unknown")  # the last phases of a NodeAction
SANITIZE = {"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:log_path=stderr", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}


def store_with(image):
    """A store of images, made of links, in which the usual name of Slurm's image, tandem/slurm:24.11, is another one of
    IMAGES. Who asked removes it."""
    def place(name):
        repo, _, tag = name.rpartition(":")
        return repo.replace("/", "+") + "/" + tag
    usual, other = place("tandem/slurm:24.11"), pathlib.Path(IMAGES) / place(image)
    meta = json.loads((other / "image.json").read_text())
    store = pathlib.Path(tempfile.mkdtemp(prefix="tandem-images-", dir="/var/tmp"))
    (store / usual).mkdir(parents=True)
    (store / "debian").symlink_to(pathlib.Path(IMAGES) / "debian")
    (store / usual / "rootfs").symlink_to(other / "rootfs")
    (store / usual / "image.json").write_text(json.dumps({**meta, "name": "tandem/slurm:24.11", "tool": ""}))  # "": it was imported, and `up` builds no other
    return str(store)


def patience():
    """How much longer things take on this machine now: the load per CPU, at least 1, times SLOW."""
    return SLOW * max(1, os.getloadavg()[0] / os.cpu_count())


def ended(pid):
    """Whether a process is gone, or is a zombie that holds no file or socket any more. (The first
    thread of a process is already a zombie while other threads may still hold them.)"""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] == "Z" and os.listdir(f"/proc/{pid}/task") == [str(pid)]
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_for(what, predicate, seconds=180, least=180):
    """Waits until predicate() is truthy and returns its value; fails with `what` and the last
    answer. Never use a pause instead. The deadline only ends a test that hangs, and is never
    below three minutes: how long something takes is a question for bench/, and what comes second
    on a busy machine may meet Slurm's own two minutes (a requeued job's, cred_expire).

    What it asks of its own process it asks fifty times a second. A question that starts processes
    takes CPU from whoever is waited for, and is asked less often the longer the wait lasts."""
    seconds = max(seconds, least) * SLOW
    start = time.monotonic()
    last = None
    while True:
        asked = time.monotonic()
        try:
            last = predicate()
        # A command that fails means: not yet.
        except subprocess.CalledProcessError as e:
            last = None
            error = (e.stderr or "") + (e.stdout or "")
        # No answer, too.
        except (subprocess.TimeoutExpired, ConnectionError, TimeoutError, http.client.HTTPException) as e:
            last, error = None, repr(e)
        else:
            error = None
        if last:
            return last
        now = time.monotonic()
        if now > start + seconds:
            raise AssertionError(f"not within {seconds} s: {what}; last answer: {error or last!r}")
        # Poll interval; synchronises nothing.
        time.sleep(max(0.02 if SLOW == 1 else 0.2 * SLOW, min((now - start) / 4, (now - asked) * 8, 0.4)))


class Failed(subprocess.CalledProcessError):
    """A command that should have succeeded. Its text has the command's output."""

    def __str__(self):
        return super().__str__() + "\n" + (self.stdout or "")[-2000:] + (self.stderr or "")[-2000:]


def known(kubeconfig, argv):
    """What `kubectl get -o json` says, where kubeget.py knows how to ask; else None."""
    try:
        return kubeget.get(kubeconfig, [str(a) for a in argv])
    except kubeget.Refused as e:
        raise Failed(1, ("kubectl", "get", *argv), "", str(e)) from e


def got(kubeconfig, kubectl, *argv):
    """What `kubectl get -o json` says; kubectl: how to call it for what kubeget.py does not know."""
    return known(kubeconfig, argv) or json.loads(kubectl("get", *argv, "-o", "json"))


def kubectl(kubeconfig, real, argv, kw):
    """What kubectl prints. real: how to call it for what needs itself (kubeget.py and kubewrite.py do what they know)."""
    if set(kw) - {"input", "timeout", "check"}:
        return real(*argv, **kw)
    if argv[:1] == ("get",) and argv[-2:] == ("-o", "json"):
        try:
            obj = known(kubeconfig, argv[1:-2])
        except Failed:
            if kw.get("check", True):
                raise
            return ""
        if obj:
            return json.dumps(obj)
    did = kubewrite.run(kubeconfig, argv, kw.get("input"), kw.get("timeout", 120) * SLOW)
    if not did:
        return real(*argv, **kw)
    said, left = did
    return said + real(*argv, **{**kw, "input": left}) if left else said


class Api:
    """Talks JSON to the API with the admin's certificate, one connection per thread."""

    def __init__(self, home):
        text = json.loads(subprocess.run(["kubectl", "--kubeconfig", f"{home}/kubeconfig/admin.conf", "config", "view", "--raw", "-o", "json"],
                                         check=True, stdout=subprocess.PIPE, text=True).stdout)
        self.host = text["clusters"][0]["cluster"]["server"].split("//")[1]
        self.tls = ssl.create_default_context(cafile=f"{home}/pki/ca.crt")
        self.tls.load_cert_chain(f"{home}/pki/admin.crt", f"{home}/pki/admin.key")
        self.local = threading.local()

    def call(self, method, path, body=None, kind="application/json"):
        for attempt in (1, 2):
            try:
                c = getattr(self.local, "c", None)
                if c is None:
                    c = self.local.c = http.client.HTTPSConnection(self.host, context=self.tls, timeout=60)
                c.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": kind})
                r = c.getresponse()
                return r.status, json.loads(r.read() or b"{}")
            except (OSError, http.client.HTTPException):
                self.local.c = None
                if attempt == 2:
                    raise

    def status(self, path, patch):
        return self.call("PATCH", path, patch, "application/merge-patch+json")


class Pool:
    """One TANDEM_HOME. realpool.RealPool is the same on a real Kubernetes."""

    plane = "embedded"
    # The directory that hostPath volumes of pods and jobs share on all nodes.
    shared_home = "/shared/home"

    def __init__(self, tandem, home):
        self.tandem = tandem
        self.home = home
        self.env = {**KEEP, **SANITIZE, "TANDEM_HOME": home, "TANDEM_IMAGES": IMAGES, "KUBECONFIG": f"{home}/kubeconfig/admin.conf"}

    # ---- commands ----
    def run(self, *argv, check=True, timeout=120, input=None, env=None):
        env = env or self.env
        if argv[0] == "kubectl":
            env = {**env, "GOGC": "off"}  # it ends soon; its collector is a third of what a call costs
        r = subprocess.run([str(a) for a in argv], env=env, input=input, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout * SLOW)
        if check and r.returncode:
            raise Failed(r.returncode, argv, r.stdout, r.stderr)
        return r

    def cmd(self, *argv, **kw):
        return self.run(self.tandem, *argv, **kw)

    def on_terminal(self, *argv, types=b"", env=()):
        """Runs a command of tandem on a terminal of 80 columns where somebody types this. Returns its
        exit code and what it showed."""
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(self.tandem, [self.tandem, *argv], {**self.env, "TERM": "xterm", **dict(env)})
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.write(fd, types)
        said = b""
        try:
            while chunk := os.read(fd, 65536):
                said += chunk
        except OSError:  # the other end is closed
            pass
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said.decode()

    def up(self, *argv, timeout=600):
        os.makedirs(IMAGES, exist_ok=True)
        if SLOW > 1 and "--wait" not in argv:
            argv += ("--wait", f"{int(180 * SLOW)}s")
        return self.cmd("up", *argv, timeout=timeout).stdout

    def down(self, purge=False, timeout=180):
        return self.cmd("down", *(["--purge", "--yes"] if purge else []), timeout=timeout).stdout

    def kubectl(self, *argv, **kw):
        return kubectl(self.env["KUBECONFIG"], lambda *a, **k: self.run("kubectl", *a, **k).stdout, argv, kw)

    def get(self, *argv):
        return got(self.env["KUBECONFIG"], self.kubectl, *argv)

    def items(self, *argv):
        return self.get(*argv)["items"]

    def apply(self, *objects):
        return self.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def administrator(self, *argv):
        """The command that `tandem shell --user root -- …` runs in the login pod."""
        return ("sh", "-c", (ROOT / "src/cli/programs/shell.sh").read_text(), "sh", "root", "", *argv)

    def ask(self, *argv, timeout=120):
        """(exit code, stdout, stderr) of a command in the login pod, as Slurm's administrator. Where what it says is asked for, and not
        `tandem shell`."""
        try:
            login = [p for p in self.items("pods", "-n", "slurm", "-l", "app.kubernetes.io/name=login,tandem.dev/cluster=main")
                     if not p["metadata"].get("deletionTimestamp") and any(c.get("ready") for c in p["status"].get("containerStatuses", []))]
            if not login:
                return 1, "", "the login pod is not running yet"
            return kubeget.server(self.env["KUBECONFIG"]).run(login[0], self.administrator(*argv), timeout * SLOW)
        except (kubeget.Refused, Failed) as e:
            return 1, "", str(e)

    def shell(self, *argv, check=True, timeout=120, **kw):
        """A command in the login pod, as Slurm's administrator."""
        if kw:
            return self.cmd("shell", "--user", "root", "--", *argv, check=check, timeout=timeout, **kw).stdout
        code, out, err = self.ask(*argv, timeout=timeout)
        if check and code:
            raise Failed(code, argv, out, err)
        return out

    @property
    def instance(self):
        return json.load(open(f"{self.home}/instance.json"))

    @property
    def id(self):
        return self.instance["id"]

    @property
    def shared_dir(self):
        """The path of shared_home on this machine."""
        return f"{self.home}/shared/home"

    @property
    def nodes(self):
        return [f"n{i}" for i in range(self.instance["nodes"])]

    @property
    def run_dir(self):
        return f"/run/tandem/{self.id}"

    def role_pid(self, role):
        try:
            return int(open(f"{self.run_dir}/{role}.pid").read().split()[0])
        except FileNotFoundError:
            return 0

    node_role = "kubelet"  # the role that has the gate
    roles = ("apiserver", "kubelet", "controllers", "operator", "bridge", "gateway")

    def kill_role(self, role):
        """Ends a role by kill -9. supervise then starts another one."""
        def killed():
            pid = self.role_pid(role)
            assert pid, f"{role} does not run"  # os.kill(0) would signal this whole process group
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:  # it has just ended by itself, and the next one is not there yet
                return False
            return True
        wait_for(f"{role} is killed", killed)

    def daemons(self, name):
        """Of slurmctld, slurmrestd or the slurmds: {host: pid of the container's init on this
        machine}."""
        found = {}
        for cid in os.listdir(f"{self.run_dir}/runc"):
            try:
                conf = json.load(open(f"{self.home}/pods/{cid}/config.json"))
                if re.search(rf'{name}(?:\)")? -', " ".join(conf["process"]["args"])):  # also of one that is started by its path
                    found[conf["hostname"]] = json.load(open(f"{self.run_dir}/runc/{cid}/state.json"))["init_process_pid"]
            except (OSError, ValueError, KeyError):
                continue  # the container is just starting or ending
        return found

    def gate_socket(self, node):
        return f"{self.run_dir}/nodes/{node}/gate.sock"

    # ---- Slurm ----
    def squeue(self):
        """Jobs in the queue: {job id: {state, name, reason, nodes, user}}."""
        out = self.shell("squeue", "-h", "-a", "-o", "%A|%T|%j|%r|%N|%u")
        jobs = {}
        for line in out.splitlines():
            f = line.split("|")
            jobs[int(f[0])] = dict(state=f[1], name=f[2], reason=f[3], nodes=f[4], user=f[5])
        return jobs

    def sbatch(self, *argv, script="#!/bin/sh\nexec sleep 100000\n"):
        """Submits a batch job, with a memory limit unless one is given, and returns its id."""
        args = list(argv)
        if not any(a.startswith("--mem") for a in args):
            args.insert(0, "--mem=100M")
        out = self.shell("sh", "-c", 'script=$1; shift; printf %s "$script" | sbatch --parsable -D /home "$@"', "sh", script, *args)
        return int(out.strip().split(";")[0])

    def job(self, job_id):
        """The fields of scontrol show job, or {} when Slurm does not know it."""
        argv = ("scontrol", "-d", "-o", "show", "job", job_id)
        code, said, err = self.ask(*argv)
        if code:
            if "Invalid job id" in err:
                return {}
            raise Failed(code, argv, said, err)  # nobody could say
        fields = {}
        for word in said.split():
            k, _, v = word.partition("=")
            fields.setdefault(k, v)
        return fields

    def job_devices(self, job_id):
        """The GPUs that Slurm gave to a running job: {node: set of indexes}."""
        out = self.shell("scontrol", "-d", "-o", "show", "job", job_id)
        got = {}
        for nodes, idx in re.findall(r"Nodes=(\S+) CPU_IDs=\S+ Mem=\d+ GRES=gpu:\d+\(IDX:([0-9,-]+)\)", out):
            for n in expand_hosts(nodes):
                got[n] = expand_ranges(idx)
        return got

    def admin_comment(self, job_id):
        """What Tandem has said of a job in Slurm."""
        found = re.search(r"^ *AdminComment=(.*)$", self.shell("scontrol", "show", "job", job_id), re.M)
        return found[1] if found else ""

    # ---- the pool as a whole ----
    def change(self, spec, idle=True):
        """Patches the spec of the SlurmCluster, and waits until it is in force and, unless told otherwise, every node is idle."""
        where = ("slurmcluster", "main", "-n", "slurm")
        self.kubectl("patch", *where, "--type=merge", "-p", json.dumps({"spec": spec}))
        want = self.get(*where)["metadata"]["generation"]

        def in_force():
            s = self.get(*where)["status"]
            return s.get("observedGeneration", 0) >= want and s["phase"] == "Running" and (not idle or self.idle_nodes() == len(self.nodes))
        wait_for("in force", in_force, 200)

    def annotation(self, node, key):
        """Of Tandem's annotations of a node; None: it is not there."""
        return self.get("node", node)["metadata"].get("annotations", {}).get(f"tandem.dev/{key}")

    def in_service(self, node):
        """It takes work, and no act is under way anywhere. While it is tested it is not drained, but nobody else gets it."""
        return not self.annotation(node, "hold") and all(a.get("status", {}).get("phase") in ACT_OVER for a in self.items("nodeactions")) and \
            not self.shell("sinfo", "-h", "-N", "-n", node, "-t", "drain,draining,drained,down,maint,reserved", "-o", "%N").strip()

    # ---- metrics ----
    def metrics_address(self, role):
        return f"127.0.0.1:{self.instance['metricsPort'] + ('bridge', 'operator', 'agent').index(role)}"

    def series(self, role, name, **labels):
        """What a role's /metrics says: the labels and the value of each series of this name that has these labels."""
        with urllib.request.urlopen(f"http://{self.metrics_address(role)}/metrics", timeout=60) as r:
            found = [(dict(re.findall(r'(\w+)="([^"]*)"', line)), float(line.split()[-1])) for line in r.read().decode().splitlines() if re.match(rf"{name}[ {{]", line)]
        return [(have, v) for have, v in found if all(have.get(k) == x for k, x in labels.items())]

    def counted(self, role, name, **labels):
        """The sum of these series; 0: there is none."""
        return sum(v for _, v in self.series(role, name, **labels))

    def bridge_metric(self, name):
        """The value of a metric without labels."""
        return next(v for _, v in self.series("bridge", name))

    # ---- pods ----
    def pod(self, name, gpus=0, cpu="1", memory="64Mi", scheduler="tandem", command=None, image="debian:13", ns="default", **spec):
        res = {"cpu": cpu, "memory": memory}
        if gpus:
            res["nvidia.com/gpu"] = str(gpus)
        body = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 2, "containers": [
            {"name": "main", "image": image, "command": command or ["sleep", "100000"], "resources": {"requests": res, "limits": res}}]}
        body.update(spec)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": ns}, "spec": body}

    def deployment(self, name, replicas, gpus, scheduler="tandem", **kw):
        p = self.pod(name, gpus, scheduler=scheduler, **kw)
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
                "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
                         "template": {"metadata": {"labels": {"app": name}}, "spec": p["spec"]}}}

    def phase(self, name, ns="default"):
        p = self.get("pod", name, "-n", ns)
        return p["status"].get("phase")

    def running(self, *selector):
        return [p for p in self.items("pods", *selector) if p["status"].get("phase") == "Running" and not p["metadata"].get("deletionTimestamp")]

    def grant(self, pod):
        """(job id, node, set of GPU indexes) of a bound pod object, or None."""
        a = pod["metadata"].get("annotations", {})
        if "tandem.dev/job-id" not in a:
            return None
        devices = json.loads(a.get("tandem.dev/devices", "{}"))
        return int(a["tandem.dev/job-id"]), pod["spec"].get("nodeName"), expand_ranges(devices.get("nvidia.com/gpu", ""))

    def clean(self):
        """Makes the pool idle again: nothing of an earlier test is left on either side."""
        for n in self.items("nodes"):
            if n.get("spec", {}).get("unschedulable"):
                self.kubectl("uncordon", n["metadata"]["name"])
        kinds = ("deployments", "replicasets", "statefulsets", "jobs", "pods")
        if any(self.items(k, "-n", "default") for k in kinds):
            self.kubectl("delete", ",".join(kinds), "--all", "-n", "default", "--wait=false")
        wait_for("no pods left", lambda: not self.items("pods", "-n", "default"), 90)
        # Repeated until it holds: Slurm requeues a job whose prolog fails even when it was
        # cancelled meanwhile, and drains nodes late ("Duplicate jobid" after a kill of slurmctld,
        # "Prolog error"). A job whose user is not there any more has no name to be cancelled by.
        sweep = ("squeue -h -a -o %A | xargs -r scancel -Q; for n in $(sinfo -h -N -o %N -t drain,draining,drained | sort -u); do"
                 " scontrol update nodename=$n state=undrain; done; squeue -h -a -o 'job %i'; sinfo -h -N -t idle -o %N | sort -u")
        idle = sorted(self.nodes)
        wait_for("no jobs left, and all nodes idle", lambda: sorted(self.shell("sh", "-c", sweep).split()) == idle, 210)

    def as_user(self, user, *argv, **kw):
        """Runs a command in the login pod as one of its users, in his home; on both planes."""
        inside = ("sh", "-c", 'cd "$HOME" && exec "$@"', "sh")
        return self.cmd("shell", "--user", "root", "--", "runuser", "-u", user, "--", "env", f"HOME=/home/{user}", *inside, *argv, **kw)

    def slurm_pods(self):
        """{name: uid} of Slurm's pods, without those that try a configuration out and go."""
        return {p["metadata"]["name"]: p["metadata"]["uid"] for p in self.items("pods", "-n", "slurm") if "-trial-" not in p["metadata"]["name"]}

    def idle_nodes(self):
        return len({l for l in self.shell("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split()})

    def crash_reports(self):
        """The lines that sanitizers and aborts left in the roles' logs. A role that dies is started
        again, so the test itself would not notice."""
        bad = re.compile(r"Sanitizer|runtime error:|Assertion .* failed|out of memory")
        return [f"{os.path.basename(log)}: {line.strip()}" for log in sorted(glob.glob(f"{self.home}/log/*.log")) for line in open(log, errors="replace") if bad.search(line)]

    def describe(self):
        parts = []
        for run, argv in ((self.run, ("kubectl", "get", "pods", "-A", "-o", "wide")), (self.run, ("kubectl", "get", "nodes")), (self.cmd, ("shell", "--user", "root", "--", "squeue", "-a")),
                          (self.cmd, ("shell", "--user", "root", "--", "sinfo", "-N", "-l")), (self.cmd, ("status",))):
            try:
                r = run(*argv, check=False, timeout=30)
                parts.append("$ " + " ".join(argv) + "\n" + r.stdout + r.stderr)
            except Exception as e:  # describing must not hide the failure
                parts.append(f"$ {argv}: {e}")
        for log in sorted(glob.glob(f"{self.home}/log/*.log")) + sorted(glob.glob(f"{self.home}/log/pods/slurm_*/slurm*/*.log")):
            parts.append(f"--- {log}\n" + "".join(open(log, errors="replace").readlines()[-40:]))
        return "\n".join(parts)


def expand_ranges(text):
    """"0-2,5" -> {0, 1, 2, 5}"""
    got = set()
    for part in filter(None, text.split(",")):
        a, _, b = part.partition("-")
        got |= set(range(int(a), int(b or a) + 1))
    return got


def expand_hosts(text):
    m = re.fullmatch(r"([a-z]+)\[([0-9,-]+)\]", text)
    return [f"{m.group(1)}{i}" for i in sorted(expand_ranges(m.group(2)))] if m else text.split(",")


def machine_state():
    """Everything that a pool could leave behind, by kind."""
    def lines(*argv):
        return set(subprocess.run(argv, stdout=subprocess.PIPE, text=True).stdout.splitlines())
    links = {l.split(": ")[1].split("@")[0] for l in lines("ip", "-o", "link")}
    cgroups = {p for pattern in ("tandem-*", "*/tandem-*") for p in glob.glob(f"/sys/fs/cgroup/{pattern}")}  # not deeper: other things run there
    mounts = {l.split()[1] for l in open("/proc/mounts")}
    procs = set()
    for d in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            cmd = open(d, errors="replace").read().replace("\0", " ").strip()
        except OSError:
            continue
        if "tandem" in cmd or "slurm" in cmd:
            procs.add(cmd)
    return {"links": links, "netns": set(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else set(), "cgroups": cgroups, "mounts": mounts,
            "processes": procs, "devices": set(glob.glob("/dev/tandem*"))}


def leftovers(before, after, home_id):
    """What is new and belongs to this home. The id must stand alone or behind "td": inside of
    longer hexadecimal numbers it means nothing."""
    ours = re.compile(rf"(?:\btd|(?<![0-9a-f])){home_id}(?![0-9a-f])")
    return sorted(f"{kind}: {x}" for kind in after for x in after[kind] - before[kind] if ours.search(x) or kind == "devices")
