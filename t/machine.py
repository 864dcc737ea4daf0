"""A machine beside an embedded pool: namespaces of its own, the file system of Slurm's image with Tandem's programs put in, and a cable to the pool's switch.
What runs in it runs as on a host: no kubelet, no pod."""
import base64
import contextlib
import json
import os
import pathlib
import shutil
import subprocess

from harness import IMAGES, ROOT, wait_for

# What /proc, /dev and the cgroups of the machine are; then the command, as its PID 1's only child.
INIT = """
set -eu
mount --make-rprivate /
hostname "$NAME"
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$DIR/upper,workdir=$DIR/work" "$DIR/root"
mount -t proc proc "$DIR/root/proc"
mount -t tmpfs -o mode=755 tmpfs "$DIR/root/dev"
for d in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0 $DEVICES; do
	IFS=: read -r name major minor <<-END
		$d
	END
	mknod -m 666 "$DIR/root/dev/$name" c "$major" "$minor"
done
mkdir "$DIR/root/dev/pts" "$DIR/root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$DIR/root/dev/pts"
ln -s pts/ptmx "$DIR/root/dev/ptmx"
ln -s /proc/self/fd "$DIR/root/dev/fd"
mount -t tmpfs tmpfs "$DIR/root/run"
mount -t tmpfs tmpfs "$DIR/root/sys"
for c in /sys/fs/cgroup/*; do
	[ -d "$c" ] || continue
	[ ! -L "$c" ] || continue
	mkdir -p "$c/$GROUP" "$DIR/root$c"
	[ ! -e "$c/cpuset.cpus" ] || { cat "$c/cpuset.cpus" >"$c/$GROUP/cpuset.cpus"; cat "$c/cpuset.mems" >"$c/$GROUP/cpuset.mems"; }
	mount --bind "$c/$GROUP" "$DIR/root$c"
done
cd "$DIR/root"
mount --move . / # and not chroot alone: whoever is in one makes no user namespace
exec chroot . sh -c '"$@"; echo "machine: ended ($?)"; exec sleep infinity' machine "$@"
"""


class Machine:
    def __init__(self, pool, name, last=2, devices=""):
        """last: of its address. devices: its character devices besides the usual ones, "NAME:MAJOR:MINOR …"."""
        self.pool, self.name, self.dir = pool, name, pathlib.Path(pool.home) / f"machine-{name}"
        self.switch, self.ns, self.cable = f"td{pool.id}", f"td{pool.id}-{name}", f"tm{pool.id[:4]}{name}"[:15]
        self.group = f"tandem-{pool.id}-{name}"
        self.address = f"10.{pool.instance['subnet']}.250.{last}"
        # Slurm's daemons are reached from Slurm's pods alone, and it is none (docs/host.md).
        self.policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": f"machine-{name}", "namespace": "slurm"}, "spec": {
            "podSelector": {"matchLabels": {"tandem.dev/cluster": "main"}}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"ipBlock": {"cidr": f"{self.address}/32"}}]}]}}
        self.lib = self.dir / "upper/opt/tandem-lib"
        self.procs, self.devices = [], devices

    def __enter__(self):
        for d in ("upper/etc", "upper/opt/tandem-lib", "upper/usr/bin", "upper/usr/lib/tandem", "work", "root"):
            (self.dir / d).mkdir(parents=True)
        build = pathlib.Path(self.pool.tandem).parents[1]
        for path in ("standin/tandem-standin", "spank/tandem-container", "spank/tandem-spank.so", "spank/tandem-scratch.so", "spank/tandem-filter.so", "spank/tandem-login.so"):
            shutil.copy(build / path, self.dir / "upper/usr" / ("bin" if path.startswith("standin") else "lib/tandem"))
        shutil.copy(self.pool.tandem, self.lib / "tandem")
        for line in subprocess.run(["ldd", self.pool.tandem], capture_output=True, text=True, check=True).stdout.splitlines():
            path = line.split("=>")[-1].split()[0]
            if path.startswith("/"):
                shutil.copy(path, self.lib)
        (self.dir / "upper/etc/hosts").write_text(f"127.0.0.1 localhost\n{self.address} {self.name}\n")
        self.ip("netns", "add", self.ns)
        self.ip("link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", self.ns)
        self.ip("link", "set", self.cable, "master", self.switch, "up")
        self.ip("-n", self.ns, "addr", "add", f"{self.address}/16", "dev", "eth0")
        self.ip("-n", self.ns, "link", "set", "lo", "up")
        self.ip("-n", self.ns, "link", "set", "eth0", "up")
        self.pool.apply(self.policy)
        return self

    def join(self):
        """Leaves what `tandem join` leaves on a machine: a certificate that says which node it is. (test_join.py has how it gets that.)"""
        pki, run = f"{self.pool.home}/pki", lambda *argv: subprocess.run(argv, check=True, capture_output=True, cwd=self.dir)
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "node.key", "-out", "node.csr", "-subj", f"/O=system:nodes/CN=system:node:{self.name}")
        run("openssl", "x509", "-req", "-in", "node.csr", "-CA", f"{pki}/ca.crt", "-CAkey", f"{pki}/ca.key", "-set_serial", "77", "-out", "node.crt", "-days", "2")
        self.conf = self.kubeconfig("etc/kubernetes/kubelet.conf", self.dir / "node.crt", self.dir / "node.key")

    def kubeconfig(self, where, crt, key):
        """Writes a kubeconfig of the pool for the machine, which reaches the API at the switch's address."""
        b64 = lambda path: base64.b64encode(open(path, "rb").read()).decode()
        conf = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": f"https://10.{self.pool.instance['subnet']}.0.1:{self.pool.instance['apiPort']}",
                                                       "certificate-authority-data": b64(f"{self.pool.home}/pki/ca.crt")}}],
                "users": [{"name": "u", "user": {"client-certificate-data": b64(crt), "client-key-data": b64(key)}}]}
        path = self.dir / "upper" / where
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(conf))
        path.chmod(0o600)
        return path

    @staticmethod
    def ip(*argv, check=True):
        subprocess.run(["ip", *argv], check=check, capture_output=True)

    def start(self, *argv, log="host.log"):
        """Starts a program there as the machine's first process: what it leaves ends with it."""
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "NAME": self.name, "DIR": str(self.dir), "GROUP": self.group, "DEVICES": self.devices,
               "LOWER": f"{IMAGES}/tandem+slurm/24.11/rootfs"}
        with open(self.dir / log, "ab") as out:
            p = subprocess.Popen(["nsenter", f"--net=/run/netns/{self.ns}", "unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "sh", "-c", INIT, "machine", *map(str, argv)],
                                 env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.procs.append(p)
        return p

    def first(self):
        """The process that is PID 1 there."""
        p = self.procs[0]
        return int(wait_for("the machine runs", lambda: pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split(), 60)[0])

    def inside(self, *argv):
        """The words by which a program is run in the machine that runs already."""
        return ["nsenter", "-t", str(self.first()), "-m", "-n", "-p", "-u", "-i", *map(str, argv)]

    def also(self, *argv, log="also.log"):
        with open(self.dir / log, "ab") as out:
            p = subprocess.Popen(self.inside(*argv), env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.procs.append(p)
        return p

    def process(self, *which):
        """The one that pgrep finds there, or None. Nobody there reaps one whose parent has ended."""
        for pid in subprocess.run(["pgrep", "--ns", str(self.first()), "--nslist", "pid", *which], capture_output=True, text=True).stdout.split():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                    return int(pid)
        return None

    def host(self):
        """The process of `tandem host` there."""
        return self.process("-f", "^/opt/tandem-lib/ld.*/tandem host")

    def tandem(self, *argv):
        """The words by which Tandem is run there: with its own libraries, which its children do not inherit."""
        lib = "/opt/tandem-lib"
        return (f"{lib}/{next(p.name for p in self.lib.glob('ld-linux*'))}", "--library-path", lib, f"{lib}/tandem", *argv)

    def log(self, log="host.log"):
        return (self.dir / log).read_text(errors="replace")

    def __exit__(self, failed, *_):
        for log in sorted(self.dir.glob("*.log")) if failed else ():
            print(f"{self.name} {log.name}:", *log.read_text(errors="replace").splitlines()[-20:], sep="\n> ")
        for p in self.procs:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                for child in pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split():
                    os.kill(int(child), 9)  # the machine's PID 1, and with it all that runs there
                p.kill()
            p.wait(60)
        self.pool.kubectl("-n", "slurm", "delete", "networkpolicy", self.policy["metadata"]["name"], "--ignore-not-found")
        self.ip("netns", "del", self.ns, check=False)
        self.ip("link", "del", self.cable, check=False)

        def gone():
            left = [d for d in pathlib.Path("/sys/fs/cgroup").glob(f"*/{self.group}")]
            for top in left:
                for d in sorted((x for x in top.rglob("*") if x.is_dir()), reverse=True):
                    with contextlib.suppress(OSError):
                        d.rmdir()
                with contextlib.suppress(OSError):
                    top.rmdir()
            return not [d for d in left if d.exists()]
        wait_for("the machine's cgroups are gone", gone, 60)
        shutil.rmtree(self.dir, ignore_errors=True)
