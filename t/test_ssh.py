"""People come in by ssh: a real client, a real sshd in the login pods (rows A15 A2 A13)."""
import json
import subprocess

import pytest

from harness import wait_for
from person import Person, comes_in, login_address as address


@pytest.fixture(scope="module")
def pool(own_pool):
    return own_pool


def set_users(pool, users):
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"users": users}}))


@pytest.fixture(scope="module")
def ann(pool, tmp_path_factory):
    """A user whose key the SlurmCluster has."""
    ann = Person(str(tmp_path_factory.mktemp("ann")), "ann")
    users = pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["users"]
    set_users(pool, users + [{"name": "ann", "uid": 3000, "sshKeys": [ann.key]}])
    comes_in(pool, ann)
    return ann


@pytest.mark.feature("A15.6", "A13.2", "A15.1")
def test_a_user_comes_in_by_ssh_and_works(pool, ann):
    at = address(pool)
    r = ann.ssh(at, "id -un; pwd; stat -c %a ~; srun -N2 --gres=gpu:1 printenv SLURMD_NODENAME | sort; sbatch --parsable -o out.txt --wrap 'echo from the job'")
    assert r.returncode == 0, r.stderr
    who, home, mode, *nodes, job = r.stdout.split()
    assert (who, home, mode, nodes) == ("ann", "/home/ann", "700", pool.nodes)
    wait_for("its output is at home", lambda: ann.ssh(at, "cat out.txt").stdout == "from the job\n")
    copy = subprocess.run(["scp", *ann.options, f"ann@{at}:out.txt", f"{ann.dir}/"], capture_output=True, text=True, timeout=60)
    assert copy.returncode == 0 and open(f"{ann.dir}/out.txt").read() == "from the job\n", copy.stderr


@pytest.mark.feature("A15.6")
def test_nothing_of_kubernetes_is_seen_and_no_key_can_be_read(pool, ann):
    at = address(pool)
    assert "KUBERNETES" not in ann.ssh(at, "env").stdout
    r = ann.ssh(at, "ls /var/run/secrets/kubernetes.io; cat /etc/tandem/ssh/ssh_host_key; cat /etc/slurm-keys/slurm.key; cat /etc/shadow; ls /home/researcher")
    assert r.stdout == "" and r.stderr.count("Permission denied") == 4 and "No such file or directory" in r.stderr


@pytest.mark.feature("A15.6")
def test_only_keys_open_the_door_and_never_for_root(pool, ann, tmp_path):
    at, stranger = address(pool), Person(str(tmp_path), "ann")
    for person, user in ((stranger, "ann"), (ann, "root"), (ann, "researcher"), (ann, "slurm"), (ann, "nobody-here")):
        r = person.ssh(at, "id", user=user)
        assert r.returncode == 255 and "Permission denied (publickey)" in r.stderr, (user, r)
    r = ann.ssh(at, "id", options=["-o", "PreferredAuthentications=password,keyboard-interactive"])
    assert r.returncode == 255 and "Permission denied (publickey)" in r.stderr
    # Nobody becomes root, or somebody else, from inside.
    assert ann.ssh(at, "su -c id").returncode and ann.ssh(at, "su researcher -c id").returncode


@pytest.mark.feature("A15.1", "A2.10")
def test_members_of_sudo_administrate_the_login_pods_and_nobody_else(pool, ann):
    at, users = address(pool), pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["users"]
    r = ann.ssh(at, "sudo -n id -u")
    assert r.returncode and r.stdout == "" and "sudo" in r.stderr
    set_users(pool, [{**u, "groups": ["sudo"]} if u["name"] == "ann" else u for u in users])
    try:
        wait_for("ann may", lambda: ann.ssh(at, "sudo -n id -u").stdout == "0\n", 120)
        assert ann.ssh(at, "sudo -n -u researcher id -un; sudo -n su - researcher -c 'id -un; pwd'").stdout == "researcher\nresearcher\n/home/researcher\n"
    finally:
        set_users(pool, users)
    wait_for("she may not any more", lambda: ann.ssh(at, "sudo -n id -u").returncode != 0, 120)


@pytest.mark.feature("A15.6", "A2.10")
def test_a_key_that_is_taken_away_opens_nothing_and_throws_nobody_out(pool, ann, tmp_path_factory):
    """Keys and users come and go without a restart; who works there goes on."""
    at, bob = address(pool), Person(str(tmp_path_factory.mktemp("bob")), "bob")
    uids = pool.slurm_pods()
    users = pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["users"]
    works = subprocess.Popen(["ssh", *ann.options, f"ann@{at}", "echo here; cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert works.stdout.readline() == "here\n"
        set_users(pool, users + [{"name": "bob", "uid": 3001, "sshKeys": [bob.key]}])
        comes_in(pool, bob)
        other = Person(str(tmp_path_factory.mktemp("other")), "bob")
        set_users(pool, users + [{"name": "bob", "uid": 3001, "sshKeys": [other.key]}])
        comes_in(pool, other)
        wait_for("the old key opens nothing", lambda: bob.ssh(at, "true").returncode == 255)
        set_users(pool, users)
        wait_for("bob is unknown", lambda: other.ssh(at, "true").returncode == 255)
        works.stdin.write("still\n")
        works.stdin.flush()
        assert works.stdout.readline() == "still\n"
    finally:
        works.kill()
        works.wait()
    assert uids == pool.slurm_pods()


@pytest.mark.feature("A15.6")
def test_the_host_key_outlives_the_pod(pool, ann):
    at = address(pool)
    known = open(f"{ann.dir}/known").read().split()[1:3]
    pool.kubectl("delete", "pod", "-n", "slurm", "main-login-0")
    wait_for("another pod is there", lambda: ann.ssh(address(pool), "true").returncode == 0, 120)
    scan = subprocess.run(["ssh-keyscan", "-T", "20", "-t", "ecdsa", address(pool)], capture_output=True, text=True, timeout=60).stdout
    assert scan.split()[-2:] == known and at


@pytest.mark.feature("A15.1")
def test_wrong_keys_are_refused_by_name(pool):
    before = pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["users"]
    users = before + [{"name": "eve", "uid": 3002, "sshKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHX eve", 'command="id" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHX', "ssh-rsa AAAA\nroot ssh-rsa AAAAB3NzaC1yc2EAAAA"]}]
    at = len(users) - 1

    def told():
        c = next(c for c in pool.get("slurmcluster", "main", "-n", "slurm")["status"]["conditions"] if c["type"] == "ConfigValid")
        return c["status"] == "False" and all(f"spec.users[{at}].sshKeys[{i}]: must be one line" in c["message"] for i in (1, 2)) and "sshKeys[0]" not in c["message"]
    set_users(pool, users)
    try:
        wait_for("it is told", told)
    finally:
        set_users(pool, before)
    wait_for("all is well", lambda: pool.get("slurmcluster", "main", "-n", "slurm")["status"]["phase"] == "Running")


@pytest.mark.planes
@pytest.mark.feature("A15.1", "A15.6")
def test_sshd_answers_in_every_login_pod(pool):
    """From inside, so that it can be asked on a real Kubernetes too."""
    script = ("umask 77; mkdir -p .ssh; rm -f .ssh/t; ssh-keygen -q -t ed25519 -N '' -f .ssh/t; cat .ssh/t.pub > .ssh/authorized_keys;"
              " ssh -F /dev/null -i .ssh/t -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null 127.0.0.1 'id -un; env; sinfo -h -o %D'")
    out = wait_for("sshd answers", lambda: pool.as_user("researcher", "sh", "-c", script, check=False).stdout).split()
    assert out[0] == "researcher" and out[-1] == str(len(pool.nodes)) and not [w for w in out if "KUBERNETES" in w]
