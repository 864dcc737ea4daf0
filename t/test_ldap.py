"""Users, groups and ssh keys of a directory service: a real OpenLDAP server, SSSD in Slurm's pods (docs/people.md; rows A15 A13)."""
import concurrent.futures
import json
import subprocess

import pytest

from directory import READER, SUFFIX, Directory
from harness import wait_for
from laptop import Laptop
from person import Person, comes_in, login_address

pytestmark = pytest.mark.embedded  # pods reach the test's own server at the switch


def change(pool, **spec):
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": spec}))


def config(pool):
    return next(c for c in pool.get("slurmcluster", "main", "-n", "slurm")["status"]["conditions"] if c["type"] == "ConfigValid")


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
        """Every node the newest configuration, too: what starts while slurmctld reads it may be lost."""
        pods, cluster = own_pool.items("pods", "-n", "slurm"), own_pool.get("slurmcluster", "main", "-n", "slurm")["status"]
        return all(any(c["name"] == "sssd" for c in p["spec"].get("initContainers", [])) for p in pods) and \
            cluster["phase"] == "Running" and own_pool.idle_nodes() == len(own_pool.nodes) and \
            {n.get("config") for n in own_pool.get("nodeset", "pool", "-n", "slurm")["status"]["nodes"]} == {cluster["configHash"]}
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


@pytest.mark.feature("A15.5", "A15.2")
def test_a_user_of_the_directory_works_at_the_gateway(pool, lab, tmp_path):
    # Nobody has told spec.users of her: she has her uid, her home and her jobs at the gateway, as in ssh.
    lea = Laptop(pool, tmp_path / "laptop", "lea")
    who = lea.api("GET", "/whoami")[1]
    assert (who["user"], who["uid"], who["gid"], who["home"]) == ("lea", 4000, 4000, "/home/lea")
    run = lea.submit("--", "sh", "-c", "id; pwd; touch made")
    wait_for("it has run", lambda: lea.state(run) == "done")
    words = lea.run("logs", run).stdout
    assert "uid=4000(lea) gid=4000(lea)" in words and "6000(chem)" in words and "/home/lea/tandem/runs/" in words
    assert lab.lea.ssh(login_address(pool), f"stat -c %U tandem/runs/{run}*/made tandem/runs/{run}*/*/made 2>&-").stdout == "lea\n"
    # A page of hundreds of files asks once who she is; so do many at once who are not known yet.
    lab.user("pia", 4005)
    key = Laptop(pool, tmp_path / "pia", "pia")
    with concurrent.futures.ThreadPoolExecutor(8) as many:
        assert [r[1].get("uid") for r in many.map(lambda _: key.api("GET", "/whoami"), range(8))] == [4005] * 8


@pytest.mark.feature("A15.5")
def test_the_gateway_takes_nobody_for_somebody_else(pool, lab, tmp_path):
    def says(name, words):
        status, reply = Laptop(pool, tmp_path / name, name).api("GET", "/whoami")
        assert words in reply["error"]["message"], reply
        return status
    # The directory gives somebody the number of one of spec.users, or Slurm's own.
    lab.user("eve", 1000)
    lab.user("sly", 64030)
    assert says("eve", "gives eve the uid 1000, which is researcher's here") == 403
    assert says("sly", "and not 64030 (slurm)") == 403
    # Whom it does not have stays out, and so do names that no person has.
    assert says("ghost", "user ghost is no longer among this cluster's users") == 401
    for name in ("root", "1000", "-h"):
        assert "spec.users" in pool.cmd("user", "key", "--", name, check=False).stderr, name
    # Who leaves the directory is out, with the key that he has.
    lab.user("tom", 4006)
    tom = Laptop(pool, tmp_path / "tom", "tom")
    wait_for("tom comes in", lambda: tom.api("GET", "/whoami")[0] == 200)
    lab.delete("uid=tom,ou=people")
    wait_for("tom is out", lambda: tom.api("GET", "/whoami")[0] == 401)


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
    at, before, max_ = login_address(pool), pool.slurm_pods(), Person(tmp_path / "max", "max")
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
    assert before == pool.slurm_pods()


@pytest.mark.feature("A15.3")
def test_who_is_known_comes_in_while_the_directory_is_away(pool, lab):
    at = login_address(pool)
    assert lab.lea.ssh(at, "srun -N2 -p lab true").returncode == 0
    lab.stop()
    try:
        # What asks it in the moment when it goes may get no answer; then it is known to be away.
        wait_for("she comes in, and her jobs run", lambda: lab.lea.ssh(at, "srun -N2 id -un").stdout == "lea\nlea\n")
        wait_for("she comes in again and again", lambda: lab.lea.ssh(at, "id -Gn").stdout == "lea chem\n")
    finally:
        lab.start()
    lab.user("kim", 4002)
    wait_for("it is asked again", lambda: lab.lea.ssh(at, "id -u kim").stdout == "4002\n", 180)


@pytest.mark.feature("A15.3", "A2.1")
def test_a_directory_that_cannot_be_trusted_is_refused(pool, lab):
    before = pool.slurm_pods()
    change(pool, identity={"ldap": {"uris": [lab.uri, "ldap://10.0.0.1"], "options": {"ldap_uri": "x", "ldap_page_size": "100"}}})
    try:
        wait_for("it is said", lambda: "spec.identity.ldap.uris[1]: anybody on the way" in config(pool)["message"])
        assert "spec.identity.ldap.options.ldap_uri: Tandem sets this option" in config(pool)["message"]
    finally:
        change(pool, identity={"ldap": {"uris": [lab.uri], "options": None}})
    wait_for("all is well", lambda: config(pool)["status"] == "True")
    assert before == pool.slurm_pods()
