"""What a site brings along: its own programs beside Tandem's."""
import json
import re
import subprocess

import pytest
import yaml

from harness import patience, wait_for

PROGRAMS = {
    "prolog": '#!/bin/sh\n[ ! -e /tmp/broken ] || exit 3\necho "prolog $SLURM_JOB_ID $(id -un) $CUDA_VISIBLE_DEVICES" >>/tmp/site.log\n',
    "epilog": '#!/bin/sh\necho "epilog $SLURM_JOB_ID $(id -un)" >>/tmp/site.log\n',
    "task": '#!/bin/sh\necho "export SITE=$(id -un)"\n',
    "taskend": '#!/bin/sh\necho "task epilog $SLURM_JOB_ID $(id -un)" >>/home/researcher/task.log\n',
    "ctld": '#!/bin/sh\necho "slurmctld prolog $SLURM_JOB_ID $(id -un)" >>/tmp/site.log\n',
    "health": '#!/bin/sh\necho "health $SLURMD_NODENAME" >>/tmp/health.log\n',
    "submit": "function slurm_job_submit(job, parts, uid)\n  if job.name == 'NO' then slurm.log_user('the site says no'); return slurm.ERROR end\n  return slurm.SUCCESS\nend\n"
              "function slurm_job_modify(job, rec, parts, uid) return slurm.SUCCESS end\n",
    "filter": "function slurm_cli_setup_defaults(o, early) return slurm.SUCCESS end\nfunction slurm_cli_pre_submit(o, pack)\n"
              "  if o['job-name'] == 'filtered' then slurm.log_error('the filter says no'); return slurm.ERROR end\n  return slurm.SUCCESS\nend\n"
              "function slurm_cli_post_submit(offset, job, step) return slurm.SUCCESS end\n",
}
SCRIPTS = {"prolog": "prolog", "epilog": "epilog", "taskProlog": "task", "taskEpilog": "taskend", "slurmctldProlog": "ctld", "healthCheck": "health", "jobSubmitLua": "submit", "cliFilterLua": "filter"}


def patch(pool, spec):
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": spec}))


def condition(pool, kind="ConfigValid"):
    """It, if it is about the newest spec."""
    o = pool.get("slurmcluster", "main", "-n", "slurm")
    c = next((c for c in o.get("status", {}).get("conditions", []) if c["type"] == kind), {})
    return c if c.get("observedGeneration", 0) >= o["metadata"]["generation"] else {}


def in_force(pool):
    return condition(pool, "Ready").get("status") == "True" and condition(pool).get("status") == "True"


def programs(pool, data):
    pool.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ours", "namespace": "slurm"}, "data": data})


def inside(pool, pod, *argv):
    return pool.run("kubectl", "-n", "slurm", "exec", pod, "-c", "login" if "login" in pod else "slurmctld" if "ctld" in pod else "slurmd", "--", *argv, check=False).stdout


def alive(pool):
    return {p["metadata"]["uid"]: p["status"]["containerStatuses"][0]["restartCount"] for p in pool.items("pods", "-n", "slurm") if "-trial-" not in p["metadata"]["name"]}


def ref(key):
    return {"configMap": "ours", "key": key}


@pytest.mark.feature("A2.6", "A2.7")
def test_a_sites_programs_run_beside_tandems(home):
    home.up("--nodes", "1")
    patch(home, {"scripts": {k: ref(v) for k, v in SCRIPTS.items()}, "config": {"slurmConf": {"HealthCheckInterval": "1"}}})
    wait_for("what is not there is named", lambda: condition(home).get("status") == "False" and "there is no ConfigMap ours" in condition(home)["message"])
    programs(home, {k: v for k, v in PROGRAMS.items() if k != "submit"})
    wait_for("so is a key", lambda: "spec.scripts.jobSubmitLua.key" in condition(home).get("message", ""))
    programs(home, PROGRAMS)
    wait_for("they are in force", lambda: in_force(home) and "task-prolog.sh" in home.shell("scontrol", "show", "config"), 120)

    who, job = home.cmd("shell", "--", "srun", "--gres=gpu:2", "printenv", "SITE", "SLURM_JOB_ID").stdout.split()
    assert who == "researcher"
    wait_for("the job's programs have run", lambda: inside(home, "main-pool-n0", "cat", "/tmp/site.log") == f"prolog {job} root 0,1\nepilog {job} root\n")
    assert inside(home, "main-pool-n0", "cat", "/home/researcher/task.log") == f"task epilog {job} researcher\n"
    assert inside(home, "main-slurmctld-0", "cat", "/tmp/site.log") == f"slurmctld prolog {job} slurm\n"
    wait_for("the health program runs", lambda: "health n0" in inside(home, "main-pool-n0", "cat", "/tmp/health.log"))
    for name, said in (("NO", "the site says no"), ("filtered", "the filter says no")):
        assert said in home.cmd("shell", "--", "srun", "-J", name, "true", check=False).stderr

    # A program that changes restarts nothing, and one that Lua cannot read replaces none that works.
    pods = alive(home)
    programs(home, {**PROGRAMS, "task": "#!/bin/sh\necho export SITE=two\n", "submit": PROGRAMS["submit"].replace("site says no", "site still says no")})
    wait_for("the new ones run", lambda: home.cmd("shell", "--", "srun", "printenv", "SITE").stdout == "two\n")
    wait_for("Lua's too", lambda: "the site still says no" in home.cmd("shell", "--", "srun", "-J", "NO", "true", check=False).stderr)
    programs(home, {**PROGRAMS, "submit": "function nope("})
    wait_for("the broken one is refused", lambda: condition(home).get("status") == "False" and "spec.scripts.jobSubmitLua: " in condition(home)["message"])
    assert "job-submit.lua:1:" in condition(home)["message"]
    assert "the site still says no" in home.cmd("shell", "--", "srun", "-J", "NO", "true", check=False).stderr
    programs(home, {**PROGRAMS, "prolog": "echo no program\n"})
    wait_for("what cannot be executed is refused", lambda: 'does not begin with "#!"' in condition(home).get("message", ""))
    programs(home, PROGRAMS)
    wait_for("all is well", lambda: in_force(home))
    assert alive(home) == pods

    # A prolog that fails does what Slurm says: the node is drained, the job waits.
    inside(home, "main-pool-n0", "touch", "/tmp/broken")
    job = home.sbatch("--gres=gpu:1")
    wait_for("the node is drained", lambda: "Prolog error" in home.shell("sinfo", "-h", "-R"))
    wait_for("the job waits again", lambda: home.squeue()[job]["state"] == "PENDING")
    inside(home, "main-pool-n0", "rm", "/tmp/broken")
    home.shell("scontrol", "update", "nodename=n0", "state=resume")
    wait_for("it runs", lambda: home.squeue()[job]["state"] == "RUNNING", 120)


SERVICES = {
    "first": "#!/bin/sh\nsleep 0.5\necho first >>/tmp/order\n",
    "second": "#!/bin/sh\necho second >>/tmp/order\n",
    "daemon": "#!/bin/sh\necho daemon >>/tmp/order\nexec sleep 54321\n",
    "slow": "#!/bin/sh\necho working\nexec sleep 100\n",
}


def service(name, **kw):
    return {"name": name, "configMap": "ours", "key": name, **kw}


@pytest.mark.feature("A2.10", "A2.12", "A2.13", "A2.14", "A2.15", "A2.16")
def test_a_sites_services_run_in_order_and_say_when_they_fail(home):
    home.up("--nodes", "1")

    def nodeset():
        return home.get("nodeset", "pool", "-n", "slurm")["status"]

    def said():
        return next((c["message"] for c in nodeset()["conditions"] if c["type"] == "ServicesRunning" and c["status"] == "False"), "")

    def in_login():
        return next((c["message"] for c in home.get("slurmcluster", "main", "-n", "slurm")["status"]["conditions"] if c["type"] == "ServicesRunning" and c["status"] == "False"), "")

    def services(*l):
        patch(home, {"services": list(l)})

    # In pods that run, without a restart.
    pods = alive(home)
    programs(home, SERVICES)
    services(service("second", after=["first", "daemon"]), service("daemon", type="service", where="all", after=["first"]), service("first"))
    for pod in ("main-pool-n0", "main-login-0"):
        wait_for(f"they have run in {pod}", lambda: inside(home, pod, "cat", "/tmp/order").split() == ["first", "daemon", "second"])
    services(service("first", where="all"), service("daemon", type="service"))
    programs(home, {**SERVICES, "first": "#!/bin/sh\necho cannot do it\nexit 3\n"})
    wait_for("a failure in a login pod is shown", lambda: in_login() == "main-login-0: service first: exit 3: cannot do it")
    wait_for("a failure on a node is shown", lambda: said() == "n0: service first: exit 3: cannot do it")
    assert [n["services"] for n in nodeset()["nodes"]] == ["service first: exit 3: cannot do it"]
    wait_for("and is an event", lambda: any(e["reason"] == "ServiceFailed" and "cannot do it" in e["message"] for e in home.items("events", "-n", "slurm")))
    limit = f"{round(patience()) + 4}s"  # so that it has said something by then
    services(service("slow", timeout=limit), service("daemon", type="service"))
    programs(home, SERVICES)
    wait_for("so is one that takes too long", lambda: said() == f"n0: service slow: not done within {limit}: working")
    daemon = inside(home, "main-pool-n0", "pgrep", "-f", "sleep 54321").split()
    inside(home, "main-pool-n0", "kill", *daemon)
    wait_for("a service that ends is started again", lambda: inside(home, "main-pool-n0", "pgrep", "-f", "sleep 54321").split() not in (daemon, []))
    services()
    wait_for("what is not wanted any more ends", lambda: not said() and not inside(home, "main-pool-n0", "pgrep", "-f", "sleep 54321"))
    assert alive(home) == pods

    # A pod that starts waits for them. What fails there keeps it from starting, and is said where people look.
    programs(home, {**SERVICES, "first": "#!/bin/sh\necho cannot do it\nexit 3\n"})
    services(service("first", where="login"))
    wait_for("it has failed there", lambda: "exit 3" in inside(home, "main-login-0", "cat", "/run/tandem-services/first.state"))
    home.kubectl("delete", "pod", "main-login-0", "-n", "slurm")
    wait_for("LoginReady says why", lambda: "main-login-0: service first: exit 3: cannot do it" in condition(home, "LoginReady").get("message", ""))
    programs(home, SERVICES)
    # A kubelet tries again after 10 s, then 20 s, and so on up to five minutes: longer, the longer the lines above took.
    wait_for("it starts when that is mended", lambda: condition(home, "LoginReady").get("status") == "True", 480)
    wait_for("with its service", lambda: inside(home, "main-login-0", "cat", "/tmp/order") == "first\n")

    # Each node says which configuration its slurmd has.
    revision = lambda: home.get("slurmcluster", "main", "-n", "slurm")["status"]["configHash"]
    wait_for("it is the newest", lambda: [n.get("config") for n in nodeset()["nodes"]] == [revision()])
    old, pods = revision(), alive(home)
    wait_for("Slurm hears the login pod, whose sackd comes after its services", lambda: home.shell("sinfo", "-h"))
    job = home.sbatch("-c1")
    wait_for("a job runs", lambda: home.squeue()[job]["state"] == "RUNNING")
    patch(home, {"config": {"slurmConf": {"KillWait": "11"}}})
    wait_for("it is the new one", lambda: revision() != old and [n.get("config") for n in nodeset()["nodes"]] == [revision()])
    assert alive(home) == pods and home.squeue()[job]["state"] == "RUNNING", "slurmctld read it in its place"
    assert "KillWait=11 " in re.sub(" +", "", home.shell("scontrol", "show", "config")).replace("sec", " ")
    assert "KillWait=11\n" in inside(home, "main-pool-n0", "cat", "/run/slurm/conf/slurm.conf")
    origins = {l["line"]: l["origin"] for l in json.loads(home.cmd("config", "show", "slurm.conf", "-o", "json").stdout)["files"]["slurm.conf"]}
    assert origins["KillWait=11"] == "spec.config.slurmConf.KillWait" and origins["MinJobAge=300"] == "default" and origins["ClusterName=main"] == "metadata.name"
    assert origins["SlurmUser=slurm"].startswith("Tandem (") and next(o for l, o in origins.items() if l.startswith("PartitionName=")) == "spec.partitions[0]"
    assert "KillWait=11 " in home.cmd("config", "show").stdout
    assert json.loads(home.cmd("config", "nodes", "-o", "json").stdout) == {"config": revision(), "nodes": [{"name": "n0", "nodeSet": "pool", "state": "mixed", "config": revision(), "newest": True}], "unlisted": 0}
    assert "there is no file" in home.cmd("config", "show", "nope", check=False).stderr


OLD = {
    "slurm.conf": """ClusterName=HPC_one
SlurmctldHost=ctl1
SchedulerParameters=bf_continue,\\
bf_window=10080
KillWait=30 MinJobAge=600   # two on a line
Prolog=/etc/slurm/prolog.sh
Epilog=/etc/slurm/epilog.sh
NodeName=gpu[01-04] CPUs=64 Gres=gpu:h100:8 Feature=h100,ib Weight=10
NodeName=cpu[001-100] CPUs=64 TmpDisk=1000000
PartitionName=DEFAULT MaxTime=7-00:00:00
PartitionName=batch Nodes=cpu[001-100] Default=YES
PartitionName=gpu Nodes=gpu[01-04] PriorityTier=10 OverSubscribe=NO
PartitionName=part Nodes=gpu[01-02]
""",
    "prolog.sh": "#!/bin/sh\nexit 0\n",
    "cgroup.conf": "ConstrainDevices=yes\nAllowedRAMSpace=95\n",
}


@pytest.mark.feature("A2.1")
def test_a_slurm_conf_becomes_objects(tandem, tmp_path):
    """What it asks for is asked for, what cannot be is listed with what to do, and the objects are valid."""
    for name, text in OLD.items():
        (tmp_path / name).write_text(text)
    run = lambda *argv: subprocess.run([tandem, *argv], capture_output=True, text=True, timeout=60)
    r = run("config", "import", *(tmp_path / name for name in OLD))
    assert r.returncode == 0, r.stderr
    (tmp_path / "out.yaml").write_text(r.stdout)
    docs = {(d["kind"], d["metadata"]["name"]): d for d in yaml.safe_load_all(r.stdout)}
    spec = docs["SlurmCluster", "hpc-one"]["spec"]
    assert spec["config"]["slurmConf"] == {"SchedulerParameters": "bf_continue,bf_window=10080", "KillWait": "30", "MinJobAge": "600"}
    assert spec["config"]["files"] == {"cgroup.conf": "AllowedRAMSpace=95\n"}
    assert spec["partitions"] == [{"name": "batch", "maxTime": "7-00:00:00", "nodeSets": ["cpu"], "default": True}, {"name": "gpu", "maxTime": "7-00:00:00", "nodeSets": ["gpu"], "priorityTier": 10}]
    assert docs["ConfigMap", "hpc-one-programs"]["data"][spec["scripts"]["prolog"]["key"]] == OLD["prolog.sh"]
    gpu = docs["NodeSet", "gpu"]["spec"]
    assert gpu["slurm"] == {"gres": "gpu:h100:8", "features": ["h100", "ib"], "weight": 10} and gpu["clusterName"] == "hpc-one"
    assert docs["NodeSet", "cpu"]["spec"]["slurm"] == {"extraConf": {"TmpDisk": "1000000"}}
    for words in ("slurm.conf:2: SlurmctldHost=ctl1: ", "slurm.conf:7: Epilog=/etc/slurm/epilog.sh: give that file here", "PartitionName=gpu OverSubscribe=NO: has no field", "slurm.conf:13: Nodes=gpu[01-02]: the partition is left out"):
        assert words in r.stderr, r.stderr
    assert run("validate", "-f", tmp_path / "out.yaml").returncode == 0
    r = run("config", "import", tmp_path / "prolog.sh")
    assert r.returncode == 1 and "there is no slurm.conf among the files" in r.stderr


@pytest.mark.feature("A2.11")
def test_a_staging_cluster_is_one_more_object(home):
    """Beside the one that works, on a node that leaves it; it comes and goes without a pod of the other's being touched."""
    home.up("--nodes", "2")
    pods = {p["metadata"]["uid"] for p in home.items("pods", "-n", "slurm") if p["metadata"]["name"] != "main-pool-n1"}
    job = home.sbatch("-w", "n0", "-c1")
    spec = home.get("slurmcluster", "main", "-n", "slurm")["spec"]
    spec["controller"]["storage"]["hostPath"] = {"path": "/var/lib/slurm-staging", "node": "n0"}
    spec["accounting"] = {"enabled": False}
    spec["partitions"] = [{"name": "next", "default": True}]
    spec["config"]["slurmConf"] = {"KillWait": "7"}
    spec["scheduler"].update({"schedulerName": "staging", "defaultPartition": "next"})
    home.kubectl("label", "node", "n1", "ring=staging")
    out = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "ring", "operator": "DoesNotExist"}]}]}}}
    home.kubectl("patch", "nodeset", "pool", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"affinity": out}}))
    kind = lambda k, name, s: {"apiVersion": "tandem.dev/v1alpha1", "kind": k, "metadata": {"name": name, "namespace": "slurm"}, "spec": s}
    home.apply(kind("SlurmCluster", "staging", spec), kind("NodeSet", "ring", {"clusterName": "staging", "nodeSelector": {"ring": "staging"}}))

    def there(*argv):
        return inside(home, "staging-login-0", *argv)
    wait_for("the staging cluster has the node", lambda: there("sinfo", "-h", "-N", "-o", "%N %P %t").split() == ["n1", "next*", "idle"], 180)
    assert there("runuser", "-u", "researcher", "--", "srun", "-D", "/tmp", "--gres=gpu:8", "hostname") == "n1\n"
    assert re.search(r"KillWait += 7 ", there("scontrol", "show", "config"))
    assert home.shell("sinfo", "-h", "-N", "-o", "%N").split() == ["n0"] and home.squeue()[job]["state"] == "RUNNING"
    assert json.loads(home.cmd("config", "nodes", "--cluster", "slurm/staging", "-o", "json").stdout)["nodes"][0]["name"] == "n1"
    home.kubectl("delete", "nodeset/ring", "slurmcluster/staging", "-n", "slurm")
    wait_for("nothing of it is left", lambda: not [o["metadata"]["name"] for o in home.items("pods,configmaps,statefulsets,deployments,services,secrets", "-n", "slurm") if o["metadata"]["name"].startswith("staging-")])
    assert {p["metadata"]["uid"] for p in home.items("pods", "-n", "slurm")} >= pods and home.squeue()[job]["state"] == "RUNNING"
