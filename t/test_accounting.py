"""Accounting: slurmdbd with MariaDB in a pod, and what follows from accounts, limits and shares (rows A1 A2 A6 C3)."""
import json
import os
import re
import signal

import pytest

from harness import wait_for

pytestmark = pytest.mark.planes


@pytest.fixture(scope="module")
def up(own_pool):
    """A pool in which associations and limits count, with the accounts physics and chem; pods are chem's."""
    own_pool.shell("sacctmgr", "-i", "add", "account", "physics,chem")
    own_pool.shell("sacctmgr", "-i", "add", "user", "researcher", "account=physics")
    own_pool.shell("sacctmgr", "-i", "add", "user", "pods", "account=chem")
    configure(own_pool, {"AccountingStorageEnforce": "associations,limits", "PriorityWeightAge": "100000000", "PriorityMaxAge": "1-0",
                         "PriorityCalcPeriod": "00:01:00", "PriorityWeightFairshare": "100000"})
    yield own_pool
    if own_pool.plane == "real":  # others use it after us
        own_pool.clean()
        configure(own_pool, None)
        # Slurm puts a job of an account that is not there into its user's default account.
        wait_for("they are gone", lambda: own_pool.shell("sacctmgr", "-i", "delete", "user", "researcher,pods", check=False) is not None and
                 own_pool.shell("sacctmgr", "-i", "delete", "account", "physics,chem", check=False) is not None and
                 not {"physics", "chem"} & set(own_pool.shell("sacctmgr", "-n", "-P", "show", "account", "format=account").split()))


@pytest.fixture
def pool(up):
    up.clean()
    return up


def mine(pool, *argv, **kw):
    """As the researcher; pool.shell() as root."""
    return pool.as_user("researcher", *argv, **kw).stdout


def sbatch(pool, *argv, script="#!/bin/sh\nexec sleep 100000\n"):
    return int(mine(pool, "sbatch", "--parsable", "--mem=100M", *argv, input=script))


def configure(pool, keys):
    """Puts these keys of slurm.conf in force; None: those of the tests go."""
    pool.change({"config": {"slurmConf": keys}})
    wait_for("slurmctld has it", lambda: all(re.search(rf"^{k}\s*= {re.escape(v)}\b", pool.shell("scontrol", "show", "config"), re.M | re.I)
                                             for k, v in (keys or {}).items() if not k.startswith("Priority")))


def ready(pool):
    return next((c["status"] for c in pool.get("slurmcluster", "main", "-n", "slurm")["status"]["conditions"] if c["type"] == "AccountingReady"), None)


def sacct(pool, *argv):
    """Jobs of everybody, without their steps: {id: fields}."""
    fields = ["JobIDRaw", "JobName", "User", "Account", "State", "ExitCode", "AllocTRES", "Comment", "End"]
    out = pool.shell("sacct", "-a", "-X", "-n", "-P", "-S", "now-1day", "-o", ",".join(fields), *argv)
    return {int(line.split("|")[0]): dict(zip(fields, line.split("|"))) for line in out.splitlines()}


def job_of(pool, name):
    return wait_for(f"{name} is in the queue", lambda: next((i for i, j in pool.squeue().items() if j["name"].startswith(f"{name}.")), None))


@pytest.mark.nightly_real
@pytest.mark.feature("A1.2", "A6.6")
def test_jobs_and_pods_are_in_the_history(pool):
    batch = sbatch(pool, "-N1", "--gres=gpu:2", script="#!/bin/sh\nsrun true\nexit 4\n")
    pool.apply(pool.pod("trained", gpus=3))
    wait_for("it runs", lambda: pool.phase("trained") == "Running")
    job, uid = pool.grant(pool.get("pod", "trained"))[0], pool.get("pod", "trained")["metadata"]["uid"]
    pool.kubectl("delete", "pod", "trained")
    wait_for("both are over", lambda: all(sacct(pool).get(j, {}).get("End", "Unknown") != "Unknown" for j in (batch, job)))
    seen = sacct(pool)
    b, p = seen[batch], seen[job]
    assert (b["User"], b["Account"], b["State"], b["ExitCode"]) == ("researcher", "physics", "FAILED", "4:0")
    assert "gres/gpu=2" in b["AllocTRES"] and "gres/gpu=3" in p["AllocTRES"]
    assert (p["User"], p["Account"]) == ("pods", "chem") and p["Comment"].endswith(f"/default/trained/{uid}")
    # A user sees his own, with his own rights.
    assert f"{batch}.0|true|COMPLETED" in mine(pool, "sacct", "-n", "-P", "-S", "now-1day", "-o", "JobID,JobName,State")
    assert "physics" in mine(pool, "sacctmgr", "-n", "-P", "show", "associations", "user=researcher", "format=account,user")
    r = pool.as_user("researcher", "sacctmgr", "-i", "add", "account", "mine", check=False)
    assert r.returncode and "Only admins/operators/coordinators can add accounts" in r.stdout + r.stderr


@pytest.mark.nightly_real
@pytest.mark.feature("A1.2", "A1.5")
def test_seff_says_what_a_job_has_used(pool):
    burn = "import time; t = time.process_time()\nwhile time.process_time() - t < 2: pass\n"
    job = str(sbatch(pool, "-c2", "--mem=200M", script=f"#!/bin/sh\nsrun --mem=200M python3 -c '{burn}'\n"))
    wait_for("it has ended", lambda: pool.shell("sacct", "-nX", "-j", job, "-o", "State").strip() == "COMPLETED")
    said = dict(l.split(": ", 1) for l in mine(pool, "seff", job).splitlines())
    assert (said["Job ID"], said["User/Group"], said["State"], said["Cores"]) == (job, "researcher/researcher", "COMPLETED (exit code 0)", "2")
    seconds = lambda t: sum(int(x) * 60**k for k, x in enumerate(reversed(t.split(":"))))
    wall, total = seconds(said["Job Wall-clock time"]), seconds(said["CPU Efficiency"].split()[2])
    assert total == 2 * wall and seconds(said["CPU Utilized"]) >= 2
    assert said["Memory Efficiency"].endswith("% of 200.00 MB")
    r = pool.cmd("shell", "--user", "root", "--", "seff", "999999", check=False)
    assert r.returncode == 1 and "no job 999999" in r.stderr


@pytest.mark.nightly_real
@pytest.mark.feature("A6.5", "A18.2")
def test_a_limit_is_said_and_its_cure_lets_the_pod_go_on(pool):
    pool.shell("sacctmgr", "-i", "modify", "account", "chem", "set", "GrpTRES=gres/gpu=2")
    try:
        pool.apply(pool.pod("within", gpus=2))
        wait_for("it runs", lambda: pool.phase("within") == "Running")
        pool.apply(pool.pod("beyond", gpus=1))
        wait_for("why says which limit", lambda: "AssocGrpGRES" in pool.cmd("why", "beyond").stdout)
        wait_for("and its condition", lambda: any("AssocGrpGRES" in c.get("message", "") for c in pool.get("pod", "beyond")["status"].get("conditions", [])))
        native = sbatch(pool, "--gres=gpu:1")  # of another account
        wait_for("the other account runs", lambda: pool.squeue()[native]["state"] == "RUNNING")
    finally:
        pool.shell("sacctmgr", "-i", "modify", "account", "chem", "set", "GrpTRES=gres/gpu=-1")
    wait_for("it goes on by itself", lambda: pool.phase("beyond") == "Running")


@pytest.mark.nightly_real
@pytest.mark.feature("A6.5", "A18.2")
def test_who_has_no_account_is_refused_by_name_and_goes_on_when_he_has_one(pool):
    # Its jobs of the test before may not have ended in the database yet.
    wait_for("the account is taken away", lambda: pool.shell("sacctmgr", "-i", "remove", "user", "pods", "account=chem") is not None)
    try:
        pool.apply(pool.pod("nobodys"))
        wait_for("it is told", lambda: "account" in pool.cmd("why", "nobodys").stdout and "Invalid account" in pool.cmd("why", "nobodys").stdout)
        r = pool.as_user("researcher", "sbatch", "--account=chem", "--wrap=true", check=False)
        assert r.returncode and "Invalid account or account/partition combination" in r.stderr
    finally:
        pool.shell("sacctmgr", "-i", "add", "user", "pods", "account=chem")
    wait_for("it goes on by itself", lambda: pool.phase("nobodys") == "Running")


@pytest.mark.embedded  # Slurm's order, in which kubelets have no part
@pytest.mark.feature("A6.4")
def test_who_had_less_goes_first(pool):
    """Fair share: pods' account has used the pool, the other has not, so its job gets the node although it came later."""
    pool.apply(*[pool.pod(f"used{i}", gpus=8) for i in range(len(pool.nodes))])
    wait_for("the pool is full", lambda: all(pool.phase(f"used{i}") == "Running" for i in range(len(pool.nodes))))
    shares = lambda: {f[0]: float(f[1]) for f in (l.strip().split("|") for l in pool.shell("sshare", "-n", "-P", "-o", "Account,RawUsage").splitlines())}
    wait_for("its use is counted", lambda: shares()["chem"] > shares()["physics"] + 30, 200)
    pool.apply(pool.pod("more", gpus=8))
    more = job_of(pool, "more")
    native = sbatch(pool, "-N1", "--gres=gpu:8")
    share = lambda job: float(pool.shell("sprio", "-h", "-j", str(job), "-o", "%f").strip() or 0)
    wait_for("Slurm has weighed them", lambda: share(native) > share(more), 200)


@pytest.mark.nightly
@pytest.mark.slow  # Slurm computes ages once a minute
@pytest.mark.embedded  # Slurm's order, in which kubelets have no part
@pytest.mark.feature("C3.5")
def test_who_waits_for_long_comes_before_who_came_later(pool):
    """Age counts for pods as for jobs."""
    priority = lambda job: int(pool.job(job)["Priority"])
    native = [pool.sbatch("-N1", "--exclusive") for _ in pool.nodes]
    wait_for("the pool is full", lambda: all(pool.squeue()[j]["state"] == "RUNNING" for j in native))
    pod = pool.pod("old", gpus=8)
    pod["metadata"]["annotations"] = {"slurm.tandem.dev/nice": "2000"}
    pool.apply(pod)
    old = job_of(pool, "old")
    first = priority(old)
    wait_for("it has aged", lambda: priority(old) > first + 10000, 200)


def database(pool):
    """The first processes of the containers of MariaDB and slurmdbd."""
    return [pid for name in ("mariadbd", "slurmdbd") for pid in pool.daemons(name).values()]


@pytest.mark.embedded  # it kills processes of a pod
@pytest.mark.feature("A1.2")
def test_no_record_is_lost_when_the_database_dies(pool):
    """Killed in the midst of writes, both; jobs start and end meanwhile."""
    def stream(n):
        out = mine(pool, "sh", "-c", f"for i in $(seq {n}); do sbatch --parsable --mem=50M --wrap true; done")
        return [int(x) for x in out.split()]
    jobs = stream(5)
    killed = database(pool)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    jobs += stream(5)
    wait_for("jobs go on", lambda: not set(jobs) & set(pool.squeue()))
    wait_for("it is back", lambda: ready(pool) == "True" and len(now := database(pool)) == 2 and not set(now) & set(killed))  # "True" may be older
    for pid in pool.daemons("slurmdbd").values():
        os.kill(pid, signal.SIGKILL)
    jobs += stream(5)
    wait_for("every record is there", lambda: all(sacct(pool).get(j, {}).get("State") == "COMPLETED" for j in jobs), 120)


@pytest.mark.nightly
@pytest.mark.embedded  # the same pod and script
@pytest.mark.feature("A1.2")
def test_the_history_is_dumped_and_restored(pool):
    """The two commands of docs/accounting.md, with everything lost in between."""
    def inside(*argv, **kw):
        return pool.kubectl("exec", "-n", "slurm", *(["-i"] if "input" in kw else []), "main-slurmdbd-0", "--", *argv, **kw)
    script = "/etc/slurm/database.sh"
    job = sbatch(pool, "--comment=it's \\ a \"test\"", script="#!/bin/sh\ntrue\n")
    wait_for("it is in the history", lambda: sacct(pool).get(job, {}).get("State") == "COMPLETED")
    dump = inside("sh", script, "dump")
    assert pool.run("kubectl", "exec", "-n", "slurm", "-i", "main-slurmdbd-0", "--", "sh", script, "restore", input=dump[:-20], check=False).returncode == 1
    inside("mariadb", "--socket=/run/mysqld/mysqld.sock", "-e", "drop database slurm_acct_db")
    inside("sh", script, "restore", input=dump)
    wait_for("slurmdbd starts anew", lambda: ready(pool) != "True" or sacct(pool).get(job))
    wait_for("the history is there", lambda: ready(pool) == "True" and sacct(pool).get(job, {}).get("State") == "COMPLETED", 120)
    assert {"physics", "chem"} <= set(pool.shell("sacctmgr", "-n", "-P", "show", "account", "format=account").split())
    # And goes on.
    after = sbatch(pool, script="#!/bin/sh\ntrue\n")
    wait_for("a new job is in it", lambda: sacct(pool).get(after, {}).get("State") == "COMPLETED", 120)


@pytest.mark.embedded
@pytest.mark.feature("A2.9")
def test_nobody_but_slurmdbd_reaches_the_database(pool):
    """It has no port, and its socket is in the pod of slurmdbd. slurmdbd's own port wants Slurm's key."""
    address = pool.get("pod", "main-slurmdbd-0", "-n", "slurm")["status"]["podIP"]
    ports = pool.shell("bash", "-c", f"for p in 3306 6819; do (exec 3<>/dev/tcp/{address}/$p) 2>/dev/null && echo $p; done; true").split()
    assert ports == ["6819"]
    listens = pool.kubectl("exec", "-n", "slurm", "main-slurmdbd-0", "-c", "mariadb", "--", "cat", "/proc/net/tcp", "/proc/net/tcp6")
    assert f"{3306:04X}" not in listens


@pytest.mark.nightly
@pytest.mark.embedded
@pytest.mark.feature("A1.2", "A2.10")
def test_accounting_is_turned_off_and_on_again_while_jobs_run(pool):
    """Jobs go on through both, and the history of before is there again."""
    before = pool.sbatch(script="#!/bin/sh\ntrue\n")
    wait_for("a job is in the history", lambda: sacct(pool).get(before, {}).get("State") == "COMPLETED")
    runs = pool.sbatch("-N1", "--gres=gpu:1")
    wait_for("it runs", lambda: pool.squeue()[runs]["state"] == "RUNNING")

    def turn(on):
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {
            "accounting": {"enabled": on}, "config": {"slurmConf": None if not on else {"AccountingStorageEnforce": "associations,limits"}}}}))
        kind = "slurmdbd" if on else r"\(null\)"
        wait_for("slurmctld has it", lambda: re.search(rf"AccountingStorageType\s*= \S*{kind}", pool.cmd("shell", "--", "scontrol", "show", "config", check=False).stdout), 200)
        wait_for("the pod is as asked", lambda: ready(pool) == ("True" if on else None), 120)
    turn(False)
    wait_for("no pod of it is left", lambda: not pool.items("pods", "-n", "slurm", "-l", "app.kubernetes.io/name=slurmdbd"))
    between = pool.sbatch(script="#!/bin/sh\ntrue\n")
    wait_for("jobs run without it", lambda: between not in pool.squeue())
    turn(True)
    after = wait_for("slurmctld takes a job", lambda: pool.sbatch(script="#!/bin/sh\ntrue\n"))  # when slurmdbd has told it of the associations
    wait_for("the history goes on", lambda: sacct(pool).get(after, {}).get("State") == "COMPLETED")
    # slurmctld may be told once more, and may have to be ended for it (docs/facts/slurm.md S-C10): the job goes on through that, too.
    wait_for("the history of before is there", lambda: sacct(pool).get(before, {}).get("State") == "COMPLETED")
    assert wait_for("the job goes on", lambda: (j := pool.job(runs)).get("JobState") == "RUNNING" and j)["Restarts"] == "0"


@pytest.mark.nightly
@pytest.mark.alone  # slurmctld, slurmdbd and MariaDB start anew twice and must find each other
@pytest.mark.embedded  # it looks at the directories of a node
@pytest.mark.feature("A1.2", "A2.10")
def test_another_database_is_joined_and_the_first_one_is_there_again(pool):
    """Without a CLUSTER ID MISMATCH, which would keep slurmctld from starting."""
    storage = pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["accounting"]["database"]["embedded"]["storage"]["hostPath"]
    before = sbatch(pool, script="#!/bin/sh\ntrue\n")
    wait_for("a job is in the history", lambda: sacct(pool).get(before, {}).get("State") == "COMPLETED")
    runs = sbatch(pool, "-N1", "--gres=gpu:1")

    def move(path):
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {
            "accounting": {"database": {"embedded": {"storage": {"hostPath": {"path": path}}}}},
            "config": {"slurmConf": {"AccountingStorageEnforce": None if path != storage["path"] else "associations,limits"}}}}))
        asked = lambda *what: pool.shell("sacctmgr", "-n", "-P", "show", *what, check=False)
        wait_for("slurmctld is registered there", lambda: asked("cluster", "format=cluster,controlport").startswith("main|68") and
                 ("physics" in asked("account", "format=account")) == (path == storage["path"]), 200)
    move(storage["path"] + "-other")
    there = taken(pool)
    wait_for("jobs are recorded there", lambda: sacct(pool).get(there, {}).get("State") == "COMPLETED")
    move(storage["path"])
    wait_for("the first history is there again", lambda: sacct(pool).get(before, {}).get("State") == "COMPLETED")
    assert wait_for("the job that ran goes on", lambda: (j := pool.job(runs)).get("JobState") == "RUNNING" and j)["Restarts"] == "0"


def taken(pool):
    """A short job, as soon as slurmctld takes one: the new database may know the cluster while slurmctld still starts anew with the other half of the edit."""
    return wait_for("slurmctld takes a job", lambda: sbatch(pool, script="#!/bin/sh\ntrue\n"))


SERVER = """set -e
mariadb-install-db --no-defaults --datadir=/tmp/db --auth-root-authentication-method=normal --skip-test-db --force >/dev/null
echo "create user 'slurmdbd'@'%' identified by 'a-password';" >/tmp/init.sql
echo "grant all on slurm_acct_db.* to 'slurmdbd'@'%';" >>/tmp/init.sql
exec mariadbd --no-defaults --user=root --datadir=/tmp/db --socket=/tmp/db.sock --pid-file=/tmp/db.pid --bind-address=0.0.0.0 --init-file=/tmp/init.sql
"""


@pytest.mark.nightly
@pytest.mark.alone  # slurmctld, slurmdbd and MariaDB start anew twice and must find each other
@pytest.mark.embedded  # it starts a server at an address of its own
@pytest.mark.feature("A2.9", "A1.2")
def test_a_database_of_somebody_else(pool):
    """Its password is in a Secret, which slurmdbd's pod alone reads; it is in no configuration that others see."""
    spec = pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["accounting"]
    server = pool.pod("db", scheduler="default-scheduler", cpu="100m", image="tandem/slurm:24.11", command=["sh", "-c", SERVER], memory="512Mi")
    pool.apply(server, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db-user", "namespace": "slurm"},
                        "stringData": {"username": "slurmdbd", "password": "a-password"}})
    wait_for("the server listens", lambda: pool.phase("db") == "Running" and ":0CEA" in pool.kubectl("exec", "db", "--", "cat", "/proc/net/tcp"))
    address = pool.get("pod", "db")["status"]["podIP"]

    def move(database, account):
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {
            "accounting": {"database": database}, "config": {"slurmConf": {"AccountingStorageEnforce": None if not account else "associations,limits"}}}}))
        asked = lambda *what: pool.shell("sacctmgr", "-n", "-P", "show", *what, check=False)
        wait_for("slurmctld is registered there", lambda: asked("cluster", "format=cluster,controlport").startswith("main|68") and
                 ("physics" in asked("account", "format=account")) == account, 200)
    move({"embedded": None, "external": {"host": address, "userSecret": "db-user"}}, False)
    try:
        job = taken(pool)
        wait_for("its record is there", lambda: sacct(pool).get(job, {}).get("State") == "COMPLETED")
        rows = pool.kubectl("exec", "db", "--", "mariadb", "--no-defaults", "-S", "/tmp/db.sock", "-N", "-e", f"select id_job from slurm_acct_db.main_job_table where id_job={job}")
        assert rows.split() == [str(job)]
        for kind in ("configmaps", "pods", "statefulsets"):
            assert "a-password" not in pool.kubectl("get", kind, "-n", "slurm", "-o", "yaml")
    finally:
        move({"embedded": spec["database"]["embedded"], "external": None}, True)
