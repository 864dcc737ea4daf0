"""The real controllers of workloads, unchanged (t/kube/assets/workloads, built by tools/kube-assets), as
processes beside the pool: what they make of the pods that Tandem starts and ends says whether it did
that right."""
import base64
import contextlib
import json
import pathlib
import subprocess

import pytest
import yaml

import kubeget
from apidev import free_port
from harness import KEEP, ROOT, wait_for


def program(name):
    """The path of a controller's program; its manifests are in NAME.d beside it."""
    r = subprocess.run([ROOT / "tools/kube-assets", "--check", name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    if r.returncode:
        pytest.skip(f"the controller {name} is {r.stderr.strip()}")
    return pathlib.Path(r.stdout.strip().splitlines()[-1]) / name


def without_rules(o):
    """A schema without its rules in CEL, which the embedded API refuses (docs/embedded-plane.md)."""
    if isinstance(o, dict):
        return {k: without_rules(v) for k, v in o.items() if k != "x-kubernetes-validations"}
    return [without_rules(v) for v in o] if isinstance(o, list) else o


class Controller:
    """One controller with its kinds. It listens with a certificate of its own. The embedded API calls
    no webhooks, so objects say what these would add; a real one calls them (hooks())."""

    def __init__(self, pool, directory, name, argv, env=(), only=()):
        """argv: from the controller to its flags; only: the plurals of those kinds that are wanted."""
        self.pool, self.dir, self.path = pool, directory, program(name)
        there = sorted(pathlib.Path(f"{self.path}.d/manifests").glob("*.yaml"))
        wanted = [f for f in there if not only or f.stem.split("_")[-1] in (*only, "webhooks")]
        # By libyaml: some are half a megabyte.
        self.manifests = [o for f in wanted for o in yaml.load_all(f.read_text(), Loader=yaml.CSafeLoader) if o and "kind" in o]
        self.kinds = [k for k in self.manifests if k["kind"] == "CustomResourceDefinition"]
        # Where it is reached from the plane's API server.
        self.host = pool.cluster.outside if pool.plane == "real" else "127.0.0.1"
        self.certs = directory / "k8s-webhook-server/serving-certs"
        self.certs.mkdir(parents=True)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=controller",
                        "-addext", f"subjectAltName=IP:{self.host}", "-keyout", self.certs / "tls.key", "-out", self.certs / "tls.crt"], check=True, stderr=subprocess.DEVNULL)
        self.serve(*self.kinds)
        # Its /tmp is its directory, because the place of certificates there is fixed.
        self.log = open(directory / "log", "w")
        inside = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /tmp && exec "$@"', str(directory), str(self.path), *argv(self)]
        self.process = subprocess.Popen(inside, env={**KEEP, "KUBECONFIG": pool.env["KUBECONFIG"], **dict(env)}, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def serve(self, *kinds):
        made = kinds if self.pool.plane == "real" else [without_rules(k) for k in kinds]
        self.pool.kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": made}))
        names = {k["metadata"]["name"] for k in kinds}
        wait_for("its kinds are served", lambda: names <= {k["metadata"]["name"] for k in self.pool.items("crds") if "Established" in conditions(k)})

    def address(self):
        return f"127.0.0.1:{free_port()}"

    def hooks(self, port, selector):
        """The API server calls its webhooks from now on; for pods when the selector fits, as its own manifests have it."""
        trust = base64.b64encode((self.certs / "tls.crt").read_bytes()).decode()
        made = []
        for o in self.manifests:
            if not o["kind"].endswith("WebhookConfiguration"):
                continue
            for w in o["webhooks"]:
                w["clientConfig"] = {"url": f"https://{self.host}:{port}{w['clientConfig']['service']['path']}", "caBundle": trust}
                if w["rules"][0]["resources"] == ["pods"]:
                    w["objectSelector"] = selector
            made.append({**o, "metadata": {"name": f"{self.path.name}.test"}})
        self.pool.kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": made}))
        return [f"{o['kind'].lower()}/{o['metadata']['name']}" for o in made]

    def works(self, ask):
        """Waits for what shows that it works; one that has ended says why."""
        def look():
            assert self.process.poll() is None, (self.dir / "log").read_text()[-4000:]
            return ask()
        return wait_for(f"{self.path.name} works", look)

    def stop(self, *more):
        """Ends it and its kinds, with all objects of them; more: other objects to delete."""
        for k in self.kinds:
            self.pool.kubectl("delete", k["metadata"]["name"], "--all", "-n", "default", "--ignore-not-found", "--wait=false")
        wait_for("its pods are gone", lambda: not self.pool.items("pods", "-n", "default"))
        self.process.terminate()
        self.process.wait(60)
        self.log.close()
        for what in (*more, *(f"crd/{k['metadata']['name']}" for k in self.kinds)):
            self.pool.kubectl("delete", what, "--ignore-not-found")


# A container that ends when somebody says so, and how.
WAITS = ["sh", "-c", 'echo "$RANK/$WORLD_SIZE $TANDEM_GANG_ROLE"; trap "exit 143" TERM; until [ -e /tmp/end ]; do sleep 0.1; done; exit $(cat /tmp/end)']


def template(pool, gpus=0, labels=(), name="main", policy=None):
    """The template of pods of a made object."""
    spec = pool.pod("x", gpus, command=WAITS, terminationGracePeriodSeconds=1)["spec"]
    spec["containers"][0]["name"] = name
    if policy:
        spec["restartPolicy"] = policy
    return {"metadata": {"labels": {"of": "made", **dict(labels)}}, "spec": spec}


def end(pool, pods, code=0):
    """The containers of these pods end with this code."""
    for p in pods:
        with contextlib.suppress(kubeget.Refused):  # its container may end before the exec has
            said = kubeget.server(pool.env["KUBECONFIG"]).run(p, ("sh", "-c", f"echo {code} >/tmp/new && mv /tmp/new /tmp/end"), 120)
            assert said[0] in (0, 137), said


def together(pool, n, but=()):
    """Waits until n made pods run that are none of `but`, of one Slurm job, the only one; returns the job and the pods by rank."""
    old = {p["metadata"]["uid"] for p in but}

    def all_of_them():
        run = [p for p in pool.running("-l", "of=made") if p["metadata"]["uid"] not in old and p["status"].get("containerStatuses") and
               all("running" in c["state"] for c in p["status"]["containerStatuses"])]
        return len(run) == n and run
    run = wait_for(f"{n} made pods run", all_of_them)
    jobs = {pool.grant(p)[0] for p in run}
    assert len(jobs) == 1
    wait_for("its job is the only one", lambda: set(pool.squeue()) == jobs)
    return jobs.pop(), sorted(run, key=lambda p: int(p["metadata"]["annotations"]["tandem.dev/gang-rank"]))


def conditions(o):
    return {c["type"] for c in (o.get("status") or {}).get("conditions") or [] if c["status"] == "True"}


def nothing_left(pool):
    """No pod runs, and Slurm has no job."""
    wait_for("nothing is left", lambda: not pool.running("-l", "of=made") and not pool.squeue())
