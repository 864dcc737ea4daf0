"""Containers in jobs: srun --container-image and its like, with a registry that wants a password."""
import base64
import json
import pathlib
import re
import subprocess

import pytest

import ociforge
from harness import wait_for
from registry import Registry

OS = 'NAME="Forged"\nPRETTY_NAME="Forged 1"\n'
TOOLS = ("sh", "id", "cat", "ls", "pwd", "touch", "rm", "stat", "mkdir", "dd", "chown", "sleep", "env", "true", "hostname", "umount", "wc", "readlink")
CACHE = "/var/lib/tandem/containers"

pytestmark = pytest.mark.embedded  # the registry must be where pods reach it


def image(extra="", pack="+gzip", **config):
    """A root that can run, and says what it is."""
    layout = ociforge.Layout()
    e = ociforge.entry
    files = [e("etc", kind="dir"), e("etc/os-release", OS + extra), e("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"), e("etc/group", "root:x:0:\n"),
             e("etc/shadow", "hidden\n", mode=0o600), e("work", kind="dir"), e("tmp", kind="dir", mode=0o1777), e("suid", "x", mode=0o4755)]
    layout.image([ociforge.busybox(*TOOLS), ociforge.layer(*files)], pack=["+gzip", pack],
                 **{"Env": ["PATH=/bin", "COLOUR=image blue", "TD_KEPT=image"], "WorkingDir": "/work", **config})
    return layout


class Site:
    """A pool whose nodes reach a registry, and its commands as users."""

    def __init__(self, pool, registry):
        self.pool, self.registry, self.host = pool, registry, registry.host
        self.set(insecureRegistries=[self.host])
        self.login("researcher", registry.docker_config())

    def set(self, cache=None, **images):
        """Sets spec.containers.images (and cache), and waits until every node knows it. None: the field goes."""
        self.pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge",
                          "-p", json.dumps({"spec": {"containers": {"images": images, **({"cache": cache} if cache is not None else {})}}}))
        words = {"allowed": "allow", "prePull": "pull", "insecureRegistries": "insecure"}
        want = {f"{words[k]} {x}" for k, v in images.items() for x in v or []}
        gone = tuple(f"{words[k]} " for k, v in images.items() if v is None)

        def known(node):
            lines = self.node(node, "cat", "/etc/tandem/users/containers.conf").splitlines()
            return want <= set(lines) and not (gone and any(l.startswith(gone) for l in lines)) and (cache is None or not cache.get("limit") or "limit 0" not in lines)
        for node in self.pool.nodes:
            wait_for(f"{node} knows the settings", lambda: known(node))

    def node(self, node, *argv, **kw):
        return self.pool.kubectl("exec", "-i", "-n", "slurm", f"main-pool-{node}", "-c", "slurmd", "--", *argv, **kw)

    def login(self, user, text, path=".docker/config.json"):
        self.do(user, "sh", "-c", f"mkdir -p $(dirname ~/{path}); cat >~/{path}; chmod 600 ~/{path}", input=text)

    def do(self, user, *argv, **kw):
        return self.pool.cmd("shell", "--user", user, "--", *argv, **kw)

    def srun(self, *argv, user="researcher", node="n0"):
        return self.do(user, "srun", "-Q", "-D", "/tmp", "-w", node, "--mem=50M", *argv).stdout

    def refused(self, *argv, **kw):
        """A step that must fail: what it says."""
        with pytest.raises(subprocess.CalledProcessError) as e:
            self.srun(*argv, **kw)
        return e.value.stderr

    def trees(self, node="n0"):
        return self.node(node, "ls", f"{CACHE}/trees").split()


@pytest.fixture(scope="module")
def site(own_pool):
    registry = Registry(f"10.{own_pool.instance['subnet']}.0.1")
    try:
        yield Site(own_pool, registry)
    finally:
        registry.stop()


@pytest.fixture(scope="module")
def small(site):
    return site.registry.push(image(), "lab/small", "1")


@pytest.mark.feature("A11.1", "A11.3")
def test_a_step_runs_in_an_image(site, small):
    """As its user, in the image's directory and environment, and TaskProlog does not get in the way. Fetched once per node."""
    show = 'cat /etc/os-release; id -u; id -un; pwd; echo $COLOUR; cat /etc/shadow; echo mine >/etc/new; cat /etc/new; hostname'
    out = site.srun(f"--container-image={small}", "sh", "-c", show).split("\n")
    assert out == [*OS.strip().split("\n"), "1000", "researcher", "/work", "image blue", "hidden", "mine", "n0", ""]

    # REGISTRY#IMAGE is how enroot writes it. What the first container changed is gone.
    fetched = site.registry.fetched()
    again = site.srun(f"--container-image={small.replace('/', '#', 1)}", "--container-workdir=/tmp", "--container-env=TD_KEPT", "sh", "-c", "pwd; echo $TD_KEPT; ls /etc/new || echo gone")
    assert again.split() == ["/tmp", "image", "gone"] and site.registry.fetched() == fetched
    assert "TD_KEPT" not in site.do("researcher", "env").stdout
    kept = site.do("researcher", "env", "TD_KEPT=outside", "srun", "-Q", "--mem=50M", "-w", "n0", f"--container-image={small}", "--container-env=TD_KEPT", "sh", "-c", "echo $TD_KEPT $COLOUR").stdout
    assert kept == "outside image blue\n"

    # Tasks of a step share one container on each node: its files. Each has a view of /dev in mounts of its own.
    spaces = site.do("researcher", "srun", "-Q", "-N2", "-n4", "--mem=50M", f"--container-image={small}", "sh", "-c", "echo $(hostname) $(stat -c %d /)").stdout.split("\n")[:-1]
    assert len(spaces) == 4 and len(set(spaces)) == 2 and {s.split()[0] for s in spaces} == {"n0", "n1"}

    script = f"#!/bin/sh\n#SBATCH --container-image={small.replace('/', chr(92) + '#', 1)} --mem=50M -w n0 -o /home/researcher/out-%j\ncat /etc/os-release\n"
    job = site.do("researcher", "sh", "-c", "cd; cat >job.sh; sbatch -W --parsable job.sh", input=script).stdout.strip()
    assert site.do("researcher", "cat", f"/home/researcher/out-{job}").stdout == OS
    # A step that asks for none has none.
    assert "Debian" in site.srun("cat", "/etc/os-release")


@pytest.mark.feature("A11.1")
def test_mounts_and_names(site, small):
    img = f"--container-image={small}"
    site.do("researcher", "sh", "-c", "mkdir -p ~/data; echo outside >~/data/file")
    mounts = "--container-mounts=/home/researcher/data:/data,/home/researcher/data:/fixed:ro,tmpfs:/scratch,/home/researcher/data/file"
    out = site.srun(img, mounts, "sh", "-c", "cat /data/file /home/researcher/data/file; touch /scratch/x /data/made; touch /fixed/y 2>&1; true")
    assert out.startswith("outside\noutside\n") and "Read-only file system" in out
    assert site.do("researcher", "stat", "-c%U", "/home/researcher/data/made").stdout == "researcher\n"
    assert "data" in site.srun(img, "--container-mount-home", "ls", "/home/researcher")
    assert "Read-only file system" in site.refused(img, "--container-readonly", "touch", "/etc/x")
    assert "/nowhere" in site.refused(img, "--container-mounts=/nowhere:/x", "true")
    assert "SRC:DST" in site.refused(img, "--container-mounts=nowhere", "true")
    assert "--container-workdir" in site.refused(img, "--container-workdir=/nowhere", "true")
    assert "Exited with exit code 127" in site.refused(img, "no-such-program")

    # A name lasts until the job ends.
    lines = [f"srun -Q {img} --container-name=kept touch /mine", "srun -Q --container-name=kept ls /mine", f"srun -Q {img} ls /mine || echo fresh", "echo job=$SLURM_JOB_ID"]
    out = site.do("researcher", "salloc", "-Q", "-w", "n0", "--mem=50M", "sh", "-c", "; ".join(lines)).stdout
    assert out.split("\n")[:2] == ["/mine", "fresh"]
    job = re.search(r"job=(\d+)", out).group(1)
    assert "no container with the name kept" in site.refused("--container-name=kept", "true")
    site.named = f"{job}-kept"


RC = """mkdir -p "/work" 2> /dev/null
cd "/work" && unset OLDPWD || exit 1
if [ -s /etc/rc.local ]; then
    . /etc/rc.local
fi
exec '/entry' "$@"
"""  # as enroot writes it


@pytest.fixture(scope="module")
def squash(site):
    """An image of enroot's kind in a home, with what nobody wants in it. mksquashfs is the Slurm image's."""
    e = ociforge.entry
    entry = "#!/bin/sh\nexec 3>&1\necho in the entry point of $COLOUR, $TD_KEPT\nexport TD_ENTRY=$(wc -l </count)\necho >>/count\ncd /tmp\nexec \"$@\"\n"
    files = [e("bin", kind="dir"), e("bin/busybox", pathlib.Path("/usr/bin/busybox").read_bytes(), mode=0o755), *(e(f"bin/{n}", kind="sym", link="busybox") for n in TOOLS),
             e("etc", kind="dir"), e("etc/os-release", OS), e("etc/rc", RC, mode=0o755), e("entry", entry, mode=0o755), e("count", ""), e("work", kind="dir"), e("tmp", kind="dir", mode=0o1777),
             e("etc/environment", 'PATH=/bin\nCOLOUR="squash green"\nJOB=${SLURM_JOB_ID}\n'), e("etc/shadow", "hidden\n", mode=0o600),
             e("suid", "x", mode=0o6755), e("fifo", kind="fifo"), e("device", kind="char", device=(1, 3)), e("dev", kind="dir"), e("dev/sda", kind="block", device=(8, 0)),
             e("out", kind="sym", link="/etc/slurm-keys"), e("up", kind="sym", link="../../../../etc/passwd")]
    site.do("researcher", "sh", "-c", "base64 -d >~/squash.tar", input=base64.b64encode(ociforge.layer(*files)).decode())
    site.do("researcher", "sh", "-c", "cd; mksquashfs - squash.sqsh -tar -quiet -no-progress <squash.tar; head -c 30000 squash.sqsh >short.sqsh; mkfifo pipe.sqsh")
    return "/home/researcher/squash.sqsh"


@pytest.mark.feature("A11.1", "D8.1")
def test_squashfs_files(site, squash):
    """Read with the user's rights, unpacked once, and nothing in one of them leads out of it."""
    img = f"--container-image={squash}"
    show = "cat /etc/os-release; id -u; pwd; echo $COLOUR $JOB $SLURM_JOB_ID; cat /etc/shadow /out/slurm.key 2>&1; ls /dev/sda /device 2>&1; test -u /suid && echo set"
    out = site.srun(img, "sh", "-c", show + "; true").split("\n")
    job = out[4].split()[-1]
    assert out[:6] == [*OS.strip().split("\n"), "1000", "/work", f"squash green {job} {job}", "hidden"], out
    assert sum("No such file or directory" in l for l in out) == 3 and "set" not in out

    # Found again, by whatever path, until it is another file.
    trees = site.trees()
    site.do("researcher", "sh", "-c", "cd; ln -sf squash.sqsh link.sqsh")
    assert site.do("researcher", "sh", "-c", f"cd; srun -Q -w n0 --mem=50M --container-image=./link.sqsh pwd").stdout == "/work\n"
    assert site.do("researcher", "sh", "-c", f"cd; srun -Q -w n0 --mem=50M --container-image=.//link.sqsh pwd").stdout == "/work\n"  # ./$NOTHING/link.sqsh
    assert sorted(site.trees()) == sorted(trees)
    site.do("researcher", "sh", "-c", "cd; cp squash.sqsh other.sqsh; mv other.sqsh link.sqsh")
    site.srun("--container-image=/home/researcher/link.sqsh", "true")
    assert len(site.trees()) == len(trees) + 1

    site.do("root", "install", "-d", "-o", "2000", "-g", "2000", "-m", "700", "/home/pods")
    assert f"--container-image={squash}: " in (said := site.refused(img, "true", user="pods")) and "Permission denied" in said
    assert "is no file" in site.refused("--container-image=/home/researcher/pipe.sqsh", "true")
    assert "No such file" in site.refused("--container-image=/home/researcher/none.sqsh", "true")
    assert "unpack" in site.refused("--container-image=/home/researcher/short.sqsh", "true")
    assert "as in ./squash.sqsh" in site.refused("--container-image=squash.sqsh", "true")
    assert "is no image" in site.refused("--container-image=/etc/passwd", "true")
    assert not [l for l in site.node("n0", "ls", f"{CACHE}/staging").split() if l.startswith("pull")]
    site.set(allowed=["/tmp/*"])
    try:
        assert "catalogue" in site.refused(img, "true")
        assert "catalogue" in site.refused("--container-image=/tmp/../home/researcher/squash.sqsh", "true")
    finally:
        site.set(allowed=None)


@pytest.mark.feature("A11.1")
def test_entry_points(site, squash):
    """Only when asked for, once for the container, and the program has its variables and its directory. The same for an image of a registry."""
    oci = site.registry.push(image(Entrypoint=["/bin/sh", "-c", 'TD_ENTRY=oci; export TD_ENTRY; exec "$@"', "entry"]), "lab/entry", "1")
    show = ["sh", "-c", "echo $TD_ENTRY $(pwd) $COLOUR $(wc -l </count)"]
    assert site.srun(f"--container-image={squash}", *show) == "/work squash green 0\n"
    assert site.srun(f"--container-image={squash}", "--no-container-entrypoint", *show) == "/work squash green 0\n"
    assert site.srun(f"--container-image={squash}", "--container-entrypoint", "-n3", *show) == "0 /tmp squash green 1\n" * 3
    logged = site.do("researcher", "env", "TD_KEPT=kept", "srun", "-Q", "-w", "n0", "--mem=50M", f"--container-image={squash}", "--container-entrypoint", "--container-entrypoint-log",
                     "--container-env=TD_KEPT", "--container-workdir=/etc", "pwd")
    assert "in the entry point of squash green, kept" in logged.stdout + logged.stderr and logged.stdout.endswith("/etc\n")
    assert site.srun(f"--container-image={oci}", "--container-entrypoint", "sh", "-c", "echo $TD_ENTRY; pwd") == "oci\n/work\n"
    assert site.srun(f"--container-image={oci}", "sh", "-c", "echo none: $TD_ENTRY") == "none:\n"
    bad = site.registry.push(image(Entrypoint=["/bin/sh", "-c", "echo why not; exit 7"]), "lab/bad", "1")
    said = site.refused(f"--container-image={bad}", "--container-entrypoint", "true")
    assert "why not" in said and "ended with 7" in said and "--no-container-entrypoint" in said


@pytest.mark.feature("A11.1", "D8.1")
def test_a_container_is_saved(site, small):
    """By its user, whole or not at all, with what the image said about its start."""
    save = ["--container-save=/home/researcher/saved.sqsh"]
    files = lambda: set(site.do("researcher", "ls", "-A", "/home/researcher").stdout.split())
    before = files()
    entry = site.registry.push(image("SAVED=1\n", Entrypoint=["/bin/env", "TD_ENTRY=it's kept"]), "lab/save", "1")
    # Two tasks: who ends last saves. As with Pyxis the exit code does not matter.
    with pytest.raises(subprocess.CalledProcessError) as e:
        site.srun(f"--container-image={entry}", *save, "-n2", "sh", "-c", "echo of $SLURM_PROCID >/new-$SLURM_PROCID; chmod 0 /new-1; touch /tmp/not-mine /dev/shm/x; exit 3")
    assert e.value.returncode == 3 and e.value.stderr.count("saved as /home/researcher/saved.sqsh") == 1
    assert files() - before == {"saved.sqsh"}
    img = "--container-image=/home/researcher/saved.sqsh"
    out = site.srun(img, "sh", "-c", "cat /new-0 /etc/os-release; stat -c%a /new-1; pwd; echo $COLOUR; ls /tmp/not-mine /dev/shm/x 2>/dev/null; echo entry=$TD_ENTRY")
    assert out == f"of 0\n{OS}SAVED=1\n0\n/work\nimage blue\nentry=\n", out
    assert site.srun(img, "--container-entrypoint", "sh", "-c", "echo $TD_ENTRY; pwd") == "it's kept\n/work\n"

    # Over itself; from the job's own /tmp; of a container with a name.
    site.srun(img, *save, "touch", "/again")
    assert site.srun(img, "ls", "/again", "/new-0") == "/again\n/new-0\n"
    lines = [f"srun -Q {img} --container-name=kept --container-save=x.sqsh touch /one", "srun -Q --container-name=kept --container-save=x.sqsh touch /two", "srun -Q --container-image=./x.sqsh ls /one /two"]
    out = site.do("researcher", "sh", "-c", f"cd /tmp; salloc -Q -w n0 --mem=50M sh -c '{'; '.join(lines)}'").stdout
    assert out == "/one\n/two\n"

    # Refused before anything runs.
    ran = "touch /home/researcher/ran"
    site.do("researcher", "mkdir", "-p", "/home/researcher/rights")
    mine = [f"--container-image={small}", "--container-mount-home"]
    assert "the step has 2 nodes" in site.do("researcher", "srun", "-Q", "-N2", "--mem=50M", *mine, *save, *ran.split(), check=False).stderr
    assert "write --container-writable" in site.refused(*mine, "--container-readonly", *save, *ran.split())
    assert "you cannot write in /etc on this node" in site.refused(*mine, "--container-save=/etc/x.sqsh", *ran.split())
    assert "No such file" in site.refused(*mine, "--container-save=/home/researcher/none/x.sqsh", *ran.split())
    assert "is a directory" in site.refused(*mine, "--container-save=/home/researcher/rights", *ran.split())
    # Refused when it has run: the step fails, and nothing is left.
    said = site.refused(*mine, "--container-save=/home/researcher/rights/x.sqsh", "rm", "-r", "/home/researcher/rights")
    assert "--container-save=/home/researcher/rights/x.sqsh: nothing is saved" in said
    # Signals go on to the program. A step that is cancelled saves nothing.
    job = site.do("researcher", "sbatch", "--parsable", "-w", "n0", "--mem=50M", "-o", "/home/researcher/cancelled", f"--container-image={small}", "--container-save=/home/researcher/never.sqsh",
                  input="#!/bin/sh\ntrap 'echo heard' USR1\necho begun\nwhile true; do sleep 0.1; done\n").stdout.strip()
    wait_for("the job runs", lambda: "begun" in site.do("researcher", "cat", "/home/researcher/cancelled", check=False).stdout)
    said = lambda word: word in site.do("researcher", "cat", "/home/researcher/cancelled").stdout
    site.do("researcher", "scancel", "--batch", "--signal=USR1", job)
    wait_for("the program has heard it", lambda: said("heard"))
    site.do("researcher", "scancel", job)
    wait_for("it has ended", lambda: not site.do("researcher", "squeue", "-h", "-j", job, check=False).stdout)
    wait_for("it says so", lambda: said("nothing is saved, because the step was cancelled"))
    assert not any("never" in f or f == "ran" for f in files())


@pytest.mark.feature("A11.1", "A13.5")
def test_a_container_has_the_jobs_own_tmp(site, small):
    """Also for its MPI: steps in an image and without one meet there, and the job's user may write."""
    img = f"--container-image={small}"
    lines = ["srun -Q sh -c 'for d in /tmp /var/tmp /dev/shm; do echo of $d >$d/x; done'", f"srun -Q {img} sh -c 'cat /tmp/x /var/tmp/x /dev/shm/x; touch /tmp/y /dev/shm/y'",
             "srun -Q ls /tmp/y /dev/shm/y", f"srun -Q {img} --container-readonly sh -c 'touch /tmp/z && ls /tmp/z'"]
    out = site.do("researcher", "salloc", "-Q", "-w", "n0", "--mem=50M", "sh", "-c", "; ".join(lines)).stdout
    assert out.split("\n") == ["of /tmp", "of /var/tmp", "of /dev/shm", "/dev/shm/y", "/tmp/y", "/tmp/z", ""]


@pytest.mark.feature("A11.1", "D8.3")
def test_what_a_container_writes_counts(site, small):
    """As what its job has in /tmp, whether the container has a name or not."""
    for more in ([], ["--container-name=big"]):
        said = site.do("researcher", "srun", "-D", "/tmp", "-w", "n0", "--mem=50M", "--tmp=40M", f"--container-image={small}", *more, "--container-writable", "sh", "-c", "head -c 35000000 /dev/zero >/tmp/a; head -c 35000000 /dev/zero >/b; sleep 100000", check=False).stderr
        assert re.search(r"the job is ended: it holds [4-6]\d MiB of the disk of n0 in /tmp, /var/tmp and its containers, and may hold 40 MiB \(--tmp\)", said), said


@pytest.mark.feature("A11.1", "D8.1")
def test_nobody_gets_more_rights(site, small):
    """Root inside is not root outside; what a user may not read, he cannot mount; and nobody sees the trees or another's container."""
    img = f"--container-image={small}"
    site.do("researcher", "mkdir", "-p", "/home/researcher/rights")
    out = site.srun(img, "--container-remap-root", "--container-mounts=/home/researcher/rights:/r,/etc/slurm-keys:/k,/var/lib/tandem:/t", "sh", "-c",
                    "id -u; touch /r/file; cat /k/slurm.key 2>&1; ls /t/containers 2>&1; ls /t/containers/trees 2>&1; chown 5:5 /r/file && echo chowned")
    # What package managers need only seems to happen: chown succeeds, and the file is still the user's.
    assert out.startswith("0\n") and out.count("ermission denied") == 3 and out.endswith("chowned\n")
    assert site.do("researcher", "stat", "-c%u:%g", "/home/researcher/rights/file").stdout == "1000:1000\n"
    assert "ermission denied" in site.refused(img, "--container-mounts=/etc/slurm-keys/slurm.key:/k", "cat", "/k")
    # Set-user-id programs of an image count nothing.
    assert "nosuid" in site.srun(img, "sh", "-c", "cat /proc/self/mountinfo").split("\n")[0]

    # One who knows where another's container lies.
    out = site.do("researcher", "sh", "-c", f"srun -Q --mem=50M -w n0 {img} sleep 1000 >/dev/null 2>&1 & echo $!").stdout
    # One of a step before may not be gone yet.
    job, = wait_for("its job", lambda: site.pool.shell("squeue", "-h", "-u", "researcher", "-t", "R", "-o", "%A").split())
    pid = wait_for("it runs", lambda: site.node("n0", "sh", "-c", f"cat {CACHE}/run/{job}.*/pid").split())[0]
    ident = site.node("n0", "sh", "-c", f"cd {CACHE}/run; ls -d {job}.*").strip()
    # Who holds the namespaces is outside of the job's limits, and its user may trace it: it can do nothing but wait.
    assert re.search(r"Seccomp:\s+2", site.node("n0", "cat", f"/proc/{pid}/status")) and re.search(r"Max cpu time\s+10 ", site.node("n0", "cat", f"/proc/{pid}/limits"))
    site.do("root", "install", "-d", "-o", "2000", "-g", "2000", "-m", "700", "/home/pods")
    peek = f"ls {CACHE}/run/{ident}/own; cat {CACHE}/run/{ident}/env; ls /proc/{pid}/root/etc; readlink /proc/{pid}/ns/mnt; /opt/tandem/tandem-container enter {CACHE}/run/{ident} '' '' id"
    said = site.do("pods", "srun", "-Q", "-D", "/tmp", "-w", "n0", "--mem=50M", "sh", "-c", f"({peek}) 2>&1; true").stdout
    assert len(said.strip().split("\n")) == said.count("denied") >= 4, said
    # Locks that another user takes there keep nobody's step from its end.
    locks = "; ".join(f"flock {CACHE}/run/{ident}/{f} sleep 1000 &" for f in ("alive", "pid")).replace("&;", "&")
    site.do("pods", "sh", "-c", f"srun -Q -D /tmp -w n0 --mem=50M sh -c '{locks} touch /home/pods/locks; wait' >/dev/null 2>&1 & echo $!")
    wait_for("they are asked for", lambda: site.do("root", "ls", "/home/pods/locks", check=False).stdout)
    site.do("researcher", "scancel", "-u", "researcher")
    wait_for("it is gone", lambda: ident not in site.node("n0", "ls", f"{CACHE}/run"))
    site.do("pods", "scancel", "-u", "pods")


@pytest.mark.feature("A11.1", "A7.5")
def test_gpus_as_granted(site, small):
    """Those of others are not there."""
    show = "for i in 0 1 2 3 4 5 6 7; do dd if=/dev/tandem-gpu$i count=0 2>&1; done; echo x >/dev/null && ls /dev/pts/ptmx /dev/tty; echo $CUDA_VISIBLE_DEVICES"
    argv = ["--gres=gpu:2", "sh", "-c", show]
    native, inside = site.srun(*argv), site.srun(f"--container-image={small}", *argv)
    count = lambda text: (text.count("No such device or address"), text.count("No such file or directory"), text.strip().split("\n")[-3:])
    assert count(native) == count(inside) == (2, 6, ["/dev/pts/ptmx", "/dev/tty", "0,1"]), (native, inside)  # opened and without a driver; not there
    inside = site.srun(f"--container-image={small}", "--container-remap-root", "--gres=gpu:1", "sh", "-c", show)
    assert count(inside) == (1, 7, ["/dev/pts/ptmx", "/dev/tty", "0"]), inside


@pytest.mark.feature("A11.2")
def test_a_registry_with_a_password(site, small):
    """Whoever may not fetch an image may not run it, although it is on the node."""
    img = f"--container-image={small}"
    site.do("root", "install", "-d", "-o", "2000", "-g", "2000", "-m", "700", "/home/pods")
    assert site.srun(img, "id", "-u") == "1000\n"
    said = site.refused(img, "true", user="pods")
    assert f"image {small} cannot be read without credentials" in said and "~/.docker/config.json" in said
    site.login("pods", site.registry.docker_config("wrong"))
    assert "with the credentials in ~/.docker/config.json" in site.refused(img, "true", user="pods")
    site.login("pods", site.registry.netrc(), ".config/enroot/.credentials")
    assert site.srun(img, "id", "-u", user="pods") == "2000\n"
    site.do("pods", "rm", "-r", "/home/pods/.config", "/home/pods/.docker")
    said = site.refused(f"--container-image={site.host}/lab/nothing:1", "true")
    assert f"image {site.host}/lab/nothing:1 cannot be read with the credentials in ~/.docker/config.json" in said and "manifest unknown" in said
    assert "write [REGISTRY#]IMAGE[:TAG]" in site.refused("--container-image=No:Such:Name", "true")
    assert not [l for l in site.node("n0", "ls", f"{CACHE}/staging").split() if l.startswith("pull")]  # no credentials are left


@pytest.mark.feature("A11.5")
def test_the_catalogue(site, small):
    """Refused in plain words, with what there is."""
    other = site.registry.push(image("OTHER=1\n", pack="+zstd"), "elsewhere/tool", "1")
    assert "OTHER=1" in site.srun(f"--container-image={other}", "cat", "/etc/os-release")  # layers packed by zstd, which umoci does not know
    site.set(allowed=[f"{site.host}/lab/*"])
    try:
        said = site.refused(f"--container-image={other}", "true")
        assert f"image {other} is not in this cluster's catalogue ({site.host}/lab/*)" in said and "spec.containers.images.allowed" in said
        site.do("researcher", "touch", "/home/researcher/image.tar")
        assert "catalogue" in site.refused("--container-image=/home/researcher/image.tar", "true")
        assert site.srun(f"--container-image={small}", "id", "-u") == "1000\n"
    finally:
        site.set(allowed=None)


@pytest.mark.feature("A11.3", "A11.4")
def test_ready_images_and_the_limit(site, small):
    """An image that every node has ready is everybody's, and no registry is asked. Of the others those go that nobody uses, while jobs run on in theirs."""
    ready, gone = site.registry.push(image("READY=1\n"), "lab/ready", "1"), site.registry.push(image("GONE=1\n"), "lab/gone", "1")
    img = f"--container-image={ready}"
    site.do("pods", "rm", "-rf", "/home/pods/.docker", "/home/pods/.config")
    assert "without credentials" in site.refused(img, "true", user="pods")
    site.set(prePull=[ready])
    site.pool.kubectl("create", "secret", "docker-registry", "main-image-pull", "-n", "slurm", "--from-file=.dockerconfigjson=/dev/stdin", input=site.registry.docker_config())
    key = wait_for("n1 has it", lambda: site.node("n1", "sh", "-c", f"cat {CACHE}/ready/*"))
    assert site.trees("n1").count(key) == 1
    assert "READY=1" in site.srun(img, "cat", "/etc/os-release", user="pods", node="n1")

    site.srun(f"--container-image={gone}", "true", node="n1")
    job = site.do("researcher", "sbatch", "--parsable", "-w", "n1", "--mem=50M", f"--container-image={small}", "-o", "/home/researcher/lasts", input="#!/bin/sh\ncat /etc/os-release; until [ -e /tmp/end ]; do sleep 0.1; done; cat /etc/os-release\n").stdout.strip()
    wait_for("the job runs", lambda: site.do("researcher", "cat", "/home/researcher/lasts").stdout == OS)
    assert len(site.trees("n1")) >= 3
    site.set(cache={"limit": "1Ki"})
    wait_for("what nobody uses is gone", lambda: len(site.trees("n1")) == 2)
    assert key in site.trees("n1")
    assert "READY=1" in site.srun(img, "cat", "/etc/os-release", node="n1")
    site.set(cache={"limit": None}, prePull=None)
    site.node("n1", "sh", "-c", f"cd {CACHE}/run/{job}.*; setpriv --reuid 1000 --regid 1000 --clear-groups /opt/tandem/tandem-container enter $PWD / '' touch /tmp/end")
    wait_for("it has read its image to the end", lambda: site.do("researcher", "cat", "/home/researcher/lasts").stdout == OS * 2)
    wait_for("nothing is left of the job with a name", lambda: site.named not in site.node("n0", "ls", f"{CACHE}/run"))
