"""`tandem adopt accounts` takes accounts, users, limits, shares and QOS over (docs/adopt.md): from a real slurmdbd with MariaDB, slurmctld and slurmd of another cluster, on a
machine beside the pool."""
import pathlib
import re

import pytest
import yaml

from harness import IMAGES, wait_for
from oldslurm import CONF, OldSlurm

pytestmark = [pytest.mark.embedded]

OLD = CONF + """PriorityType=priority/multifactor
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=h1
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations,limits,qos
NodeName=h1 CPUs=2 RealMemory=1000
PartitionName=main Nodes=h1 Default=YES MaxTime=1:00:00
"""
DBD = """AuthType=auth/slurm
AuthInfo=use_client_ids
DbdHost=h1
SlurmUser=root
PidFile=/run/old-slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
"""
# A site's database, and Slurm over it.
START = """#!/bin/sh
set -eu
mkdir -p /run/mysqld /var/spool/old-slurmctld /var/spool/old-slurmd
mariadb-install-db --no-defaults --user=root --datadir=/var/lib/old --auth-root-authentication-method=socket --auth-root-socket-user=root --skip-test-db --force >/dev/null
mariadbd --no-defaults --user=root --datadir=/var/lib/old --socket=/run/mysqld/mysqld.sock --skip-networking --skip-name-resolve --performance-schema=OFF --max-allowed-packet=16M --innodb-lock-wait-timeout=900 --innodb-flush-log-at-trx-commit=0 --loose-innodb-snapshot-isolation=OFF &
until mariadb --no-defaults -S /run/mysqld/mysqld.sock -e 'create database if not exists slurm_acct_db' >/dev/null 2>&1; do sleep 0.05; done
slurmdbd -D &
until sacctmgr -n show cluster >/dev/null 2>&1; do sleep 0.05; done
sacctmgr -iQ add cluster old
slurmd -N h1
exec slurmctld -D
"""
# What a site has of everything: a tree, limits of accounts and people, a QOS with limits that preempts, a partition's own row, a coordinator, an operator.
SITE = """add qos name=low Description="may be preempted" GraceTime=90 Flags=NoReserve UsageFactor=0.5
add qos name=high Priority=10 Flags=DenyOnLimit,OverPartQOS GraceTime=30 MaxTRESPerAccount=cpu=4,mem=4G MaxWallDurationPerJob=2:00:00 MaxJobsPerUser=2 MinTRESPerJob=cpu=1 PreemptMode=requeue LimitFactor=1.5 GrpWall=100 MinPrioThresh=3 MaxJobsAccruePerUser=4
modify qos where name=high set Preempt=low,normal
modify qos where name=normal set MaxSubmitJobsPerUser=500
modify account where name=root cluster=old set GrpTRES=cpu=1000 QOS=normal,low
add account name=science parent=root cluster=old Description="All of science: two floors" Organization=uni Fairshare=10 GrpTRES=cpu=40,mem=200000M,gres/gpu=2 QOS=normal,high DefaultQOS=normal
add account name=physics parent=science cluster=old Description=physics Organization=uni Fairshare=parent MaxWallDurationPerJob=60 MaxTRESPerJob=cpu=8,node=2 GrpTRESMins=cpu=100000 MaxTRESPerNode=cpu=9 GrpJobsAccrue=30 GrpSubmitJobs=90
add account name=art parent=root cluster=old Description=art Organization=uni Fairshare=3 MaxSubmitJobs=0
add user name=researcher account=physics cluster=old Fairshare=5 MaxJobs=1 MaxSubmitJobs=3 QOS=+high,-normal DefaultQOS=high
add user name=researcher account=science cluster=old
add user name=ann account=science cluster=old partition=main MaxJobs=7
add user name=ann account=art cluster=old
modify user where name=ann cluster=old set DefaultAccount=art
modify user where name=ann set AdminLevel=Operator
add coordinator account=science names=researcher
"""
ASSOC = "format=Account,User,Partition,Share,Priority,GrpJobs,GrpTRES,GrpSubmit,GrpWall,GrpTRESMins,MaxJobs,MaxTRES,MaxTRESPerNode,MaxSubmit,MaxWall,MaxTRESMins,QOS,DefaultQOS,GrpTRESRunMins,ParentName"


class Old(OldSlurm):
    """With its database."""

    def __enter__(self):
        super().__enter__()
        etc = self.dir / "upper/etc"
        self.passwd = f"ann:x:3000:100:Ann:/home/ann:/bin/sh\nresearcher:x:{self.pool.uid}:{self.pool.uid}::/home/researcher:/bin/bash\n"
        (etc / "passwd").write_text(pathlib.Path(f"{IMAGES}/tandem+slurm/24.11/rootfs/etc/passwd").read_text() + self.passwd)
        self.put(OLD, start=START)
        (etc / "slurm/slurmdbd.conf").write_text(DBD)
        (etc / "slurm/slurmdbd.conf").chmod(0o600)
        self.start("start", log="old.log")
        return self

    def user(self, *argv, check=True):
        return self.ask("setpriv", "--reuid", self.pool.uid, "--regid", self.pool.uid, "--clear-groups", *argv, check=check)


@pytest.fixture(scope="module")
def sites(own_pool):
    own_pool.uid = int(own_pool.as_user("researcher", "id", "-u").stdout)
    with Old(own_pool, "h1", last=3) as m:
        wait_for("the old Slurm runs", lambda: "idle" in m.ask("sinfo", "-h", "-o", "%T", check=False).stdout, 120)
        m.ask("sacctmgr", "-iQ", check=False, input=SITE)
        yield own_pool, m


SHARES = ("sshare", "-a", "-m", "-P", "-o", "Account,User,Partition,RawUsage,GrpTRESRaw")


def used(ask):
    """Seconds of each row, by account, user and partition."""
    lines = [[f.strip() for f in line.split("|")] for line in ask(*SHARES, "-n").splitlines()]
    return {f"{a}|{u}|{p}": int(raw) for a, u, p, raw, _ in lines if u}


def rows(text):
    """Lines of sacctmgr as sets: what is in a list has no order."""
    return {tuple(frozenset(f.split(",")) for f in line.split("|")) for line in text.splitlines()}


def fourth_is_refused(ask, submit):
    """Whether a person gets three jobs into the queue, as his limit says, and then no more."""
    jobs = [submit("sbatch", "--parsable", "--hold", "-n1", "--mem=10M", "-o", "/dev/null", "--wrap", "true").stdout.strip() for _ in range(3)]
    refused = submit("sbatch", "--hold", "-n1", "--mem=10M", "-o", "/dev/null", "--wrap", "true", check=False)
    assert refused.returncode != 0 and "AssocMaxSubmitJobLimit" in refused.stderr
    assert sorted(ask("squeue", "-h", "-o", "%i %a %q").splitlines()) == sorted(f"{j} physics high" for j in jobs)
    ask("scancel", *jobs)


@pytest.mark.feature("C6.5", "A1.2")
def test_accounts_of_an_old_slurmdbd_are_the_pools(sites, tmp_path):
    """What sacctmgr says of both Slurms is the same; a limit that held there holds here; a second time nothing is left to do; what stands differently in the pool stays, and is told; and who has used much there is behind who has not, here too."""
    pool, m = sites
    dump, qos, people = tmp_path / "dump", tmp_path / "qos", tmp_path / "passwd"
    m.old("sacctmgr", "-Q", "dump", "old", "file=/root/dump")
    dump.write_text((m.dir / "upper/root/dump").read_text())
    listed = ("sacctmgr", "-P", "show", "qos", f"format={FORMAT}")
    qos.write_text(m.old(*listed))
    people.write_text(m.passwd)
    fourth_is_refused(m.old, m.user)

    # Without --apply it is printed; from the old machine itself sacctmgr and getent are asked.
    printed = pool.cmd("adopt", "accounts", dump, "--qos", qos, "--people", people)
    asked = m.ask(*m.tandem("adopt", "accounts", "--people", "getent"))
    assert asked.stdout == printed.stdout and len(re.findall("^#> ", printed.stdout, re.M)) == 14
    assert yaml.safe_load(printed.stdout)["spec"]["users"] == [{"name": "ann", "uid": 3000, "gid": 100, "shell": "/bin/sh"}, {"name": "researcher", "uid": pool.uid}]

    # One account stands there already, and differently.
    pool.shell("sacctmgr", "-i", "add", "account", "name=art", "cluster=main", "fairshare=4")
    done = pool.cmd("adopt", "accounts", "-", "--qos", qos, "--people", people, "--apply", input=dump.read_text())
    assert "1 people in spec.users" in done.stdout and "spec.accounting.enforce is none" in done.stderr
    assert "account art: Fairshare is 4 here and was 3" in done.stderr
    assert pool.shell("sacctmgr", "-n", "-P", "show", "assoc", "account=art", "user=", "format=share,maxsubmit").split()[0] == "4|0"
    pool.shell("sacctmgr", "-i", "modify", "account", "name=art", "cluster=main", "set", "fairshare=3")
    here, there = (rows(ask("sacctmgr", "-n", "-P", "show", "assoc", f"cluster={c}", ASSOC)) for ask, c in ((pool.shell, "main"), (m.old, "old")))
    assert here == there
    ours = lambda text: "\n".join(line for line in text.splitlines() if not line.startswith("tandem."))
    assert rows(ours(pool.shell(*listed))) == rows(m.old(*listed))
    who = ("sacctmgr", "-n", "-P", "show", "user", "withcoord", "format=user,defaultaccount,admin,coord")
    assert rows(pool.shell(*who)) >= rows(m.old(*who))
    assert "slurmdbd has it all" in pool.cmd("adopt", "accounts", dump, "--qos", qos, "--people", people, "--apply").stdout

    # What they have used: sshare's own lines, of which one has ten hours. Given twice it counts once.
    use = tmp_path / "use"
    text, n = re.subn(r"(physics\|researcher\|\|)0\|cpu=0", r"\g<1>36000|cpu=600", m.old(*SHARES))
    assert n == 1, text
    use.write_text(text)
    done = pool.cmd("adopt", "use", use, "--apply")
    assert "1 rows of use count in the pool" in done.stdout, done.stdout + done.stderr
    assert "nothing is left to give" in pool.cmd("adopt", "use", use, "--apply").stdout
    assert 35000 < used(pool.shell)["physics|researcher|"] <= 36000

    # The limit holds here, too; the new person's job runs.
    pool.change({"accounting": {"enforce": "limits"}, "config": {"slurmConf": {"PriorityWeightFairshare": "10000"}}})
    wait_for("limits are in force", lambda: re.search(r"^AccountingStorageEnforce\s*= .*limits", pool.shell("scontrol", "show", "config"), re.M))
    shares = dict(line.split("|") for line in pool.shell("sshare", "-a", "-n", "-P", "-o", "User,FairShare").splitlines() if not line.startswith("|"))
    assert used(pool.shell)["physics|researcher|"] > 35000 and float(shares["researcher"]) < float(shares["ann"]), "slurmctld has started again"
    fourth_is_refused(pool.shell, lambda *argv, **kw: pool.as_user("researcher", *argv, **kw))
    pool.shell("sacctmgr", "-i", "modify", "account", "name=art", "cluster=main", "set", "maxsubmitjobs=-1")
    partition = pool.shell("sinfo", "-h", "-o", "%P").split("*")[0]
    pool.shell("scontrol", "update", f"partitionname={partition}", "state=down")
    jobs = [pool.as_user(who, "sbatch", "--parsable", "-p", partition, "-n1", "--mem=10M", "-D", "/", "-o", "/dev/null", "--wrap", "true").stdout.strip() for who in ("researcher", "ann")]
    heavy, light = (float(pool.shell("sprio", "-h", "-j", j, "-o", "%F")) for j in jobs)
    assert heavy < light
    pool.shell("scancel", *jobs)
    pool.shell("scontrol", "update", f"partitionname={partition}", "state=up")
    job = pool.as_user("ann", "sbatch", "--parsable", "-n1", "--mem=10M", "-D", "/", "-o", "/dev/null", "--wrap", "sleep 1000").stdout.strip()
    wait_for("her job runs", lambda: pool.shell("squeue", "-h", "-j", job, "-o", "%u %a %q %T").strip() == "ann art normal RUNNING", 60)
    pool.shell("scancel", job)
    assert "Invalid qos" in pool.as_user("ann", "srun", "-n1", "--qos=high", "true", check=False).stderr


@pytest.mark.feature("C6.5")
def test_what_the_pool_refuses_is_told(sites, tmp_path):
    """A change that slurmdbd refuses is named, with what sacctmgr said, and the command fails; a text of strangers gives no command of its own."""
    pool, _ = sites
    dump = tmp_path / "dump"
    dump.write_text("Cluster - 'x'\nParent - 'root'\nAccount - 'odd':GrpTRES=license/none=3\nAccount - 'a b':Fairshare=1\ndelete cluster main\n")
    r = pool.cmd("adopt", "accounts", dump, "--apply", check=False)
    assert r.returncode == 1 and "sacctmgr did not take:" in r.stderr and "GrpTRES=license/none=3" in r.stderr and "1 of 1 changes were not taken" in r.stderr
    assert 'dump:4: "a b": not a name' in r.stderr and 'dump:5: "delete cluster main": no line of a dump' in r.stderr
    dump.write_text("ClusterName=old\n")
    r = pool.cmd("adopt", "accounts", dump, check=False)
    assert r.returncode == 1 and "give what `sacctmgr dump CLUSTER file=FILE` wrote" in r.stderr


FORMAT = re.sub(r'"\s*\\?\n\s*"', "", (pathlib.Path(__file__).parents[1] / "src/slurm/books.h").read_text()).split("define TD_BOOKS_QOS_FORMAT")[1].split('"')[1]
