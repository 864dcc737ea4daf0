"""Shared storage of login and compute pods, by the fields of the SlurmCluster alone (docs/storage.md): homes, the directories of users and
groups, slurmctld's own state on a claim (rows A13 A15)."""
import json
import os
import pathlib

import pytest

from harness import wait_for

USERS = [{"name": "researcher", "uid": 1000}, {"name": "pods", "uid": 2000}, {"name": "ann", "uid": 3000, "groups": ["physics"]},
         {"name": "bob", "uid": 3001, "groups": ["physics"]}, {"name": "eve", "uid": 3002}]
STORAGE = [{"name": "home", "mountPath": "/home", "claim": "home"}, {"name": "projects", "mountPath": "/projects", "claim": "projects", "perGroup": True},
           {"name": "scratch", "mountPath": "/scratch", "hostPath": "/var/scratch", "where": "compute", "perUser": True},
           {"name": "data", "mountPath": "/data/sets", "claim": "projects", "subPath": "sets", "readOnly": True, "where": "login"},
           {"name": "vault", "mountPath": "/vault", "claim": "projects", "subPath": "vault"}]
GROUPS = [{"name": "secret", "fileSystems": ["vault"], "users": ["eve"]}]


def change(pool, **spec):
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": spec}))


def config(pool):
    return next(c for c in pool.get("slurmcluster", "main", "-n", "slurm")["status"]["conditions"] if c["type"] == "ConfigValid")


def has_storage(pod):
    return any(v["name"] == "storage-projects" for v in pod["spec"]["volumes"])


@pytest.fixture(scope="module")
def pool(own_pool):
    """A pool whose storage lies on claims; the state of slurmctld too."""
    def claims(*names):
        own_pool.apply(*[{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": n, "namespace": "slurm"},
                          "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "10Gi"}}}} for n in names])

    def all_have_it():
        pods = own_pool.items("pods", "-n", "slurm")
        return all(has_storage(p) for p in pods if p["metadata"]["labels"]["app.kubernetes.io/name"] in ("login", "slurmd")) and \
            own_pool.get("slurmcluster", "main", "-n", "slurm")["status"]["phase"] == "Running" and own_pool.idle_nodes() == len(own_pool.nodes)
    claims("home", "state")
    uids = own_pool.slurm_pods()
    change(own_pool, storage=STORAGE, storageGroups=GROUPS, users=USERS, login=[{"name": "login", "replicas": 2, "storageGroups": True}, {"name": "plain", "replicas": 1}], groups=[{"name": "physics", "gid": 5000}], controller={"storage": {"claim": "state", "hostPath": None}},
           partitions=[{"name": "all", "default": True}, {"name": "fast", "allowGroups": ["physics"]}])
    # A claim that is not there: nothing changes until it is.
    wait_for("the missing claim is named", lambda: 'spec.storage[1].claim: there is no PersistentVolumeClaim "projects" in namespace slurm; create it' in config(own_pool)["message"])
    assert uids == own_pool.slurm_pods()
    claims("projects")
    wait_for("all pods have the storage", all_have_it, 180)
    return own_pool


def as_(pool, user, script):
    return pool.cmd("shell", "--user", user, "--", "sh", "-c", script, check=False)


def srun(pool, user, script, *options):
    return pool.as_user(user, "srun", *options, "sh", "-c", script).stdout


@pytest.mark.feature("A13.1", "A13.2", "A13.3")
def test_a_home_is_made_by_whoever_comes_first(pool):
    # A job of somebody who never came in; its home is there on all nodes and at the login pod.
    pool.shell("sh", "-c", "rm -rf /home/eve")
    script = "cd; pwd; stat -c '%a %U' .; ls -A | head -1; echo from a job > f"
    assert pool.shell("runuser", "-u", "eve", "--", "env", "HOME=/home/eve", "srun", "-D", "/", "-w", "n1", "sh", "-c", script) == "/home/eve\n700 eve\n.bash_logout\n"
    assert as_(pool, "eve", "cat ~/f").stdout == "from a job\n"
    for k in (0, 1):  # all login pods share it
        assert pool.kubectl("exec", "-n", "slurm", f"main-login-{k}", "--", "cat", "/home/eve/f") == "from a job\n"
    # Nobody else sees into it.
    r = as_(pool, "bob", "ls /home/eve")
    assert r.returncode and "Permission denied" in r.stderr
    assert pool.run("stat", "-c", "%a %u", f"{pool.home}/shared/claims/slurm/home/eve").stdout == "700 3002\n"


@pytest.mark.feature("A13.4")
def test_members_of_a_group_share_a_directory(pool):
    assert as_(pool, "ann", "umask; mkdir /projects/physics/run; echo ann > /projects/physics/run/f").stdout == "0002\n"
    job = srun(pool, "bob", "id -Gn; echo bob >> /projects/physics/run/f; cat /projects/physics/run/f; stat -c %G /projects/physics/run/f", "-w", "n1")
    assert job == "bob physics\nann\nbob\nphysics\n"
    for user in ("eve", "researcher"):
        r = as_(pool, user, "ls /projects/physics")
        assert r.returncode and "Permission denied" in r.stderr
    # A part of it, read-only, in login pods.
    with open(f"{pool.home}/shared/claims/slurm/projects/sets/f", "w") as f:
        f.write("one\n")
    r = pool.cmd("shell", "--user", "root", "--", "sh", "-c", "cat /data/sets/f; touch /data/sets/x", check=False)
    assert r.stdout == "one\n" and "Read-only file system" in r.stderr


@pytest.mark.feature("A13.3", "D8.3")
def test_each_user_has_a_scratch_directory_of_his_own_on_each_node(pool):
    for node in pool.nodes:
        assert srun(pool, "ann", "cd /scratch/ann && stat -c '%a %U' . && ls && hostname > on", "-w", node) == "700 ann\n"
        assert srun(pool, "ann", "cat /scratch/ann/on", "-w", node) == f"{node}\n"
        assert "Permission denied" in srun(pool, "bob", "ls /scratch/ann 2>&1 || :", "-w", node)
    assert as_(pool, "ann", "ls /scratch").returncode  # login pods have none


@pytest.mark.feature("A13.3", "C8.1")
def test_a_tenants_namespace_says_which_claims_of_the_storage_it_has(pool):
    """For deploy/manifests/mutating.yaml, which cannot look: t/test_policy.py shows what it does with it. A file system of a storage group is
    there, and in the jobs and logins of its people, when it has been granted to the Tenant; nobody else's reach it, and who has it no more
    keeps no login with it."""
    notes = lambda: pool.get("namespace", "lab")["metadata"].get("annotations", {})
    vault = f"{pool.home}/shared/claims/slurm/projects/vault"
    os.chmod(vault, 0o777)
    pathlib.Path(vault, "f").write_text("gold\n")
    sees = lambda user: srun(pool, user, "cat /vault/f || :; ls /var/lib/tandem/groups/vault || :", "-w", "n1")
    assert not os.path.exists(f"{pool.home}/shared/claims/slurm/projects/vault/mine")
    # One user by his name; what slurmd writes for somebody does not get there.
    wait_for("eve has it", lambda: sees("eve") == "gold\n")
    wait_for("in a login too", lambda: as_(pool, "eve", "cat /vault/f").stdout == "gold\n")
    assert sees("ann") == sees("bob") == ""
    # By ssh as well. Another's login finds it neither at its path nor where it lies, and not by the process of who has it.
    ssh = "ssh -qi .ssh/key -o StrictHostKeyChecking=no -o BatchMode=yes localhost"
    key = "umask 77; mkdir -p .ssh; [ -e .ssh/key ] || { ssh-keygen -qN '' -t ed25519 -f .ssh/key; cat .ssh/key.pub >>.ssh/authorized_keys; }; "
    assert as_(pool, "eve", key + ssh + " cat /vault/f").stdout == "gold\n"
    left = as_(pool, "eve", ssh + " 'setsid sleep 1000 >/dev/null 2>&1 & echo $!'").stdout.strip()
    tries = f"""ls /vault /var/lib/tandem/groups/vault /proc/{left}/root/vault /proc/{left}/cwd/; nsenter -m -t {left} ls /vault; umount /vault
        unshare -Urm sh -c 'ls /vault /var/lib/tandem/groups/vault /proc/{left}/root/vault; /opt/tandem/tandem-container files login eve ls /vault'
        /opt/tandem/tandem-container files login eve ls /vault; find / -xdev -name f 2>/dev/null"""
    # A login pod has neither the file system nor the rights for it where nobody has asked for them.
    plain = next(p for p in pool.items("pods", "-n", "slurm") if p["metadata"]["name"].startswith("main-plain"))
    assert not plain["spec"]["containers"][0].get("securityContext", {}).get("capabilities") and not any(v["name"] == "storage-vault" for v in plain["spec"]["volumes"])
    for r in (as_(pool, "bob", tries), as_(pool, "bob", f"{key}{ssh} <<'END'\n{tries}\nEND")):
        assert "f" not in [os.path.basename(w) for w in r.stdout.split()], r.stdout
    assert as_(pool, "eve", f"umount /vault; unshare -Urm sh -c 'umount /vault; mount -o remount,suid /vault'; ls /vault; {ssh} ls /vault").stdout == "f\nf\n"
    for path in ("/vault", "/var/lib/tandem/groups/vault"):
        r = pool.as_user("bob", "sh", "-c", f"salloc -w n1 sh -c 'sbcast -f /etc/hostname {path}/mine; srun unshare -Urm sh -c \"umount {path}; ls {path}\"'", check=False)
        assert "mine" not in os.listdir(vault) and "f" not in r.stdout.split(), r.stdout
    pool.apply({"apiVersion": "tandem.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": "lab"}, "spec": {
        "cluster": {"namespace": "slurm", "name": "main"}, "namespaces": ["lab"], "storage": {"mode": "posix"}, "members": [{"user": "ann"}, {"user": "bob", "role": "viewer"}]}})
    wait_for("its namespace is made", lambda: pool.run("kubectl", "get", "namespace", "lab", check=False).returncode == 0 and ":claim:" in notes().get("tandem.dev/storage", ""))
    assert ":/vault:" not in notes()["tandem.dev/storage"]
    pool.kubectl("patch", "tenant", "lab", "--type=merge", "-p", '{"spec":{"storageGroups":["secret"]}}')
    wait_for("its jobs have it", lambda: sees("ann") == "gold\n")
    wait_for("and its pods", lambda: ":/vault:" in notes()["tandem.dev/storage"])
    assert sees("bob") == "", "he only looks"
    wait_for("and his logins", lambda: as_(pool, "ann", "cat /vault/f").stdout == "gold\n")
    # One login with it, one in mounts of a user namespace, one that hides there what it has open, and another's.
    begin = "setsid sleep 1000 >/dev/null 2>&1 & echo $!"
    kept = [as_(pool, "ann", s).stdout.strip() for s in (begin, f"unshare -Urm sh -c 'mkdir -p /tmp/ann && mount --bind /vault /tmp/ann; {begin}'",
                                                                   "unshare -Urm sh -c 'exec 9</vault; cd /tmp && mkdir -p bare/usr && for d in bin lib lib64; do ln -sfn usr/$d bare/$d; done; mount --rbind /usr bare/usr && setsid chroot bare sleep 1000 >/dev/null 2>&1 & echo $!'")]
    other = as_(pool, "bob", begin).stdout.strip()
    lives = lambda pid: pool.cmd("shell", "--user", "root", "--", "test", "-e", f"/proc/{pid}", check=False).returncode == 0
    assert all(map(lives, [*kept, other, left])) and as_(pool, "ann", f"ls /proc/{kept[2]}/fd/9/").stdout == "f\n"
    assert "tandem.dev/storage-claims" not in notes()
    for name in ("home", "other"):
        pool.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "lab"}, "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}})
    wait_for("it says so", lambda: notes().get("tandem.dev/storage-claims") == "home")
    pool.kubectl("delete", "tenant", "lab", "--wait=false")
    pool.kubectl("delete", "namespace", "lab", "--wait=false")
    wait_for("ann has it no more", lambda: sees("ann") == "")
    wait_for("nor do her logins", lambda: not any(map(lives, kept)) and as_(pool, "ann", "ls /vault").stdout == "")
    assert lives(other) and lives(left), "nobody else's login ends"


@pytest.mark.feature("A2.1", "A13.3")
def test_a_partition_is_for_the_members_of_a_group(pool):
    assert srun(pool, "ann", "id -un", "-p", "fast") == "ann\n"
    job = pool.as_user("eve", "sbatch", "--parsable", "-p", "fast", "--wrap", "sleep 1000").stdout.strip()
    state = lambda: pool.as_user("eve", "squeue", "-h", "-j", job, "-o", "%T %r").stdout.strip()
    wait_for("it waits", lambda: state().startswith("PENDING") and state() != "PENDING None")
    # Who joins the group may, without a restart.
    uids = pool.slurm_pods()
    change(pool, users=[{**u, "groups": ["physics"]} for u in USERS])
    wait_for("eve may", lambda: state() == "RUNNING None", 120)
    pool.as_user("eve", "scancel", job)
    change(pool, users=USERS)
    assert uids == pool.slurm_pods()


@pytest.mark.feature("A12.1", "A13.1")
def test_the_queue_on_a_claim_outlives_the_pod_of_slurmctld(pool):
    job = pool.as_user("ann", "sbatch", "--parsable", "--hold", "--wrap", "true").stdout.strip()
    pod = pool.get("pod", "main-slurmctld-0", "-n", "slurm")
    assert {"name": "state", "persistentVolumeClaim": {"claimName": "state"}} in pod["spec"]["volumes"]
    pool.kubectl("delete", "pod", "main-slurmctld-0", "-n", "slurm")
    wait_for("another one runs", lambda: pool.get("pod", "main-slurmctld-0", "-n", "slurm", )["metadata"]["uid"] != pod["metadata"]["uid"])
    wait_for("the job is there", lambda: pool.as_user("ann", "squeue", "-h", "-j", job, "-o", "%r", check=False).stdout == "JobHeldUser\n")
    pool.as_user("ann", "scancel", job)


@pytest.mark.feature("A2.1")
def test_storage_that_cannot_be_is_named_and_changes_nothing(pool):
    uids = pool.slurm_pods()
    change(pool, storage=[*STORAGE, {"name": "bad", "mountPath": "/etc/slurm", "claim": "home"}])
    try:
        wait_for("it is named", lambda: "spec.storage[5].mountPath: /etc/slurm lies in or over /etc" in config(pool)["message"])
        assert config(pool)["status"] == "False"
    finally:
        change(pool, storage=STORAGE)
    wait_for("all is well", lambda: config(pool)["status"] == "True")
    assert uids == pool.slurm_pods()
