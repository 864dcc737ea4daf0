"""Users, groups and ssh keys of a directory service: a real OpenLDAP server, SSSD in Slurm's pods (docs/people.md; rows A15 A13)."""
import json
import subprocess

import pytest

from directory import READER, SUFFIX, Directory
from harness import wait_for
from person import Person, comes_in, login_address

pytestmark = pytest.mark.embedded  # pods reach the test's own server at the switch


def change(pool, **spec):
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": spec}))


def config(pool):
    return next(c for c in pool.get("slurmcluster", "main", "-n", "slurm")["status"]["conditions"] if c["type"] == "ConfigValid")


def uids(pool):
    return {p["metadata"]["uid"] for p in pool.items("pods", "-n", "slurm")}


@pytest.fixture(scope="module")
def lab(own_pool, tmp_path_factory):
    """The directory service, with lea in the group chem."""
    address = f"10.{own_pool.instance['subnet']}.0.1"
    lab = Directory(tmp_path_factory.mktemp("ldap") / "d", address)
    lab.lea = Person(tmp_path_factory.mktemp("lea"), "lea")
    lab.user("lea", 4000, lab.lea.key)
    lab.group("chem", 6000, "lea")
    yield lab
    lab.stop()


@pytest.fixture(scope="module")
def pool(own_pool, lab):
    own_pool.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ldap-reader", "namespace": "slurm"}, "stringData": {"password": lab.password}},
                   {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ldap-ca", "namespace": "slurm"}, "data": {"ca.crt": lab.ca}})

    def all_have_it():
        pods = own_pool.items("pods", "-n", "slurm")
        return all(any(c["name"] == "sssd" for c in p["spec"].get("initContainers", [])) for p in pods) and \
            own_pool.get("slurmcluster", "main", "-n", "slurm")["status"]["phase"] == "Running" and own_pool.idle_nodes() == len(own_pool.nodes)
    change(own_pool, identity={"ldap": {"uris": [lab.uri], "baseDN": SUFFIX, "bind": {"dn": READER, "secret": "ldap-reader"}, "tls": {"caConfigMap": "ldap-ca"}, "cacheSeconds": 2}},
           partitions=[{"name": "all", "default": True}, {"name": "lab", "allowGroups": ["chem"]}])
    wait_for("all pods ask the directory", all_have_it, 180)
    comes_in(own_pool, lab.lea)
    return own_pool


@pytest.mark.feature("A15.3", "A13.2")
def test_a_user_of_the_directory_comes_in_and_works(pool, lab):
    at = login_address(pool)
    r = lab.lea.ssh(at, "id; pwd; stat -c '%a %U %G' .; srun -N2 -p lab id | sort -u; srun sh -c 'pwd; touch made'; ls -l made | cut -d' ' -f3")
    who = "uid=4000(lea) gid=4000(lea) groups=4000(lea),6000(chem)"
    assert r.stdout.splitlines() == [who, "/home/lea", "700 lea lea", who, "/home/lea", "lea"], r
    # Slurm knows him by name: in the queue, and as a user with an account.
    pool.shell("sacctmgr", "-i", "add", "account", "chemistry")
    assert "Adding User(s)" in pool.shell("sacctmgr", "-i", "add", "user", "lea", "account=chemistry")
    assert lab.lea.ssh(at, "sbatch -A chemistry --wrap 'sleep 1000' >&2; squeue -h --me -o %u; scancel -u lea").stdout == "lea\n"


@pytest.mark.feature("A15.3", "A15.6")
def test_nobody_sees_the_password_of_the_directory(pool, lab):
    at = login_address(pool)
    r = lab.lea.ssh(at, "grep -rs 'read me' /etc /run /var/lib/sss /proc/*/environ; env; ls /etc/tandem; srun sh -c 'grep -rs \"read me\" /etc /run /var/lib/sss; ls /etc/tandem'")
    assert lab.password not in r.stdout and "users" in r.stdout
    # Not even root of a login pod or of a job's node: it is in SSSD's own container only.
    for argv in (("shell", "--user", "root", "--", "grep", "-rs", lab.password, "/etc", "/run", "/var/lib/sss"), ):
        assert pool.cmd(*argv, check=False).stdout == ""


@pytest.mark.feature("A15.3", "A2.10")
def test_who_is_added_comes_in_and_who_is_gone_does_not_and_nothing_restarts(pool, lab, tmp_path):
    at, before, max_ = login_address(pool), uids(pool), Person(tmp_path / "max", "max")
    works = subprocess.Popen(["ssh", *max_.options, f"max@{at}", "echo here; cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "Permission denied" in works.communicate()[1]
    lab.user("max", 4001, max_.key)
    comes_in(pool, max_)
    # He joins a group, and may use its partition.
    lab.modify("cn=chem,ou=groups", "add: memberUid\nmemberUid: max")
    wait_for("he is in it", lambda: "6000(chem)" in max_.ssh(at, "id").stdout)
    job = max_.ssh(at, "sbatch --parsable -p lab --wrap 'sleep 1000'").stdout.strip()
    wait_for("it runs", lambda: max_.ssh(at, f"squeue -h -j {job} -o %T").stdout == "RUNNING\n", 120)
    # A key of his is taken away, another one comes.
    other = Person(tmp_path / "other", "max")
    lab.modify("uid=max,ou=people", f"replace: sshPublicKey\nsshPublicKey: {other.key}")
    comes_in(pool, other)
    wait_for("the old key opens nothing", lambda: max_.ssh(at, "true").returncode == 255)
    # He leaves: his session and his job go on, and he does not come in again.
    works = subprocess.Popen(["ssh", *other.options, f"max@{at}", "echo here; cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert works.stdout.readline() == "here\n"
        lab.delete("uid=max,ou=people")
        wait_for("max is unknown", lambda: other.ssh(at, "true").returncode == 255)
        works.stdin.write("still\n")
        works.stdin.flush()
        assert works.stdout.readline() == "still\n"
        assert pool.shell("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING\n"
    finally:
        works.kill()
        works.wait()
    pool.shell("scancel", job)
    assert before == uids(pool)


@pytest.mark.feature("A15.3")
def test_who_is_known_comes_in_while_the_directory_is_away(pool, lab):
    at = login_address(pool)
    assert lab.lea.ssh(at, "srun -N2 -p lab true").returncode == 0
    lab.stop()
    try:
        assert lab.lea.ssh(at, "srun -N2 id -un").stdout == "lea\nlea\n"
        wait_for("she comes in again and again", lambda: lab.lea.ssh(at, "id -Gn").stdout == "lea chem\n")
    finally:
        lab.start()
    lab.user("kim", 4002)
    wait_for("it is asked again", lambda: lab.lea.ssh(at, "id -u kim").stdout == "4002\n", 180)


@pytest.mark.feature("A15.3", "A2.1")
def test_a_directory_that_cannot_be_trusted_is_refused(pool, lab):
    before = uids(pool)
    change(pool, identity={"ldap": {"uris": [lab.uri, "ldap://10.0.0.1"], "options": {"ldap_uri": "x", "ldap_page_size": "100"}}})
    try:
        wait_for("it is said", lambda: "spec.identity.ldap.uris[1]: anybody on the way" in config(pool)["message"])
        assert "spec.identity.ldap.options.ldap_uri: Tandem sets this option" in config(pool)["message"]
    finally:
        change(pool, identity={"ldap": {"uris": [lab.uri], "options": None}})
    wait_for("all is well", lambda: config(pool)["status"] == "True")
    assert before == uids(pool)
