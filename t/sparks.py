"""Spark from Python's index (t/judges/spark.txt), with a runtime made of this machine's JDK: for its own
client (spark-submit) on this machine, and as an image for the pods of a pool."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

import judges
from harness import IMAGES, KEEP, ROOT

sys.path.insert(0, str(ROOT / "deploy/images"))
import archive  # noqa: E402

IMAGE = "lab/spark:4.0"
MODULES = "ALL-MODULE-PATH"
ENTRY = judges.LISTS / "spark-entrypoint"


def home():
    """A directory with Spark in spark and Java in jre."""
    def make(to):
        if not shutil.which("jlink"):
            judges.missing("the machine has no JDK (apt-get install openjdk-17-jdk-headless)")
        with judges.fetcher() as python, tempfile.TemporaryDirectory(dir=judges.CACHE, prefix="spark-") as tmp:
            r = subprocess.run([python, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--require-hashes", "-d", tmp, "-r", judges.LISTS / "spark.txt"],
                               capture_output=True, text=True, timeout=1800)
            if r.returncode:
                judges.missing((r.stderr.strip().splitlines() or ["pip failed"])[-1])
            (there,) = pathlib.Path(tmp).glob("pyspark-*.tar.gz")
            with tarfile.open(there) as t:
                t.extractall(tmp, filter="data")
            (at,) = (p for p in pathlib.Path(tmp).glob("pyspark-*") if p.is_dir())
            os.mkdir(to)
            shutil.move(at / "deps", f"{to}/spark")
            os.mkdir(f"{to}/spark/python")
            shutil.move(at / "lib", f"{to}/spark/python/lib")
        for f in pathlib.Path(f"{to}/spark/bin").iterdir():
            f.chmod(0o755)
        subprocess.run(["jlink", "--add-modules", MODULES, "--strip-debug", "--no-header-files", "--no-man-pages", "--output", f"{to}/jre"], check=True, capture_output=True, timeout=600)
        subprocess.run(["chmod", "-R", "a+rX", to], check=True)
    return judges.kept(f"spark-{judges.stamp(('spark.txt',), MODULES)}", make)


def image(pool, program):
    """Gives the pool IMAGE: Slurm's, which has Python, with Spark and a program at /opt/program.py."""
    there = home()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="spark-image-") as tmp:
        archive.layer_of_dir(f"{tmp}/base", f"{IMAGES}/tandem+slurm/24.11/rootfs")
        with tarfile.open(f"{tmp}/own", "w") as t:
            for what, at in ((there / "spark", "opt/spark"), (there / "jre", "opt/jre"), (ENTRY, "opt/entrypoint"), (program, "opt/program.py")):
                t.add(what, at)
        name = IMAGE if pool.plane != "real" else f"docker.io/{IMAGE}"
        archive.write(f"{tmp}/spark.tar", name, [f"{tmp}/base", f"{tmp}/own"], {
            "Entrypoint": ["/opt/entrypoint"], "WorkingDir": "/opt/spark", "Env": [
                "PATH=/opt/jre/bin:/usr/sbin:/usr/bin:/sbin:/bin", "JAVA_HOME=/opt/jre", "SPARK_HOME=/opt/spark", "PYSPARK_PYTHON=python3", "LANG=C.UTF-8"]})
        for part in ("base", "own"):
            os.unlink(f"{tmp}/{part}")
        if pool.plane == "real":
            pool.cluster.load(f"{tmp}/spark.tar")
        else:
            pool.cmd("image", "import", f"{tmp}/spark.tar", timeout=600)


def kubeconfig(pool, at):
    """A kubeconfig with a token of the ServiceAccount spark: Spark's client takes no client keys but RSA's."""
    token = pool.kubectl("create", "token", "spark", "-n", "default", "--duration=1h").strip()
    config = json.loads(pool.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    config["users"] = [{"name": u["name"], "user": {"token": token}} for u in config["users"]]
    pathlib.Path(at).write_text(json.dumps(config))
    return config["clusters"][0]["cluster"]["server"], str(at)


def submit(pool, name, at, mode="cluster", **conf):
    """spark-submit of the program, as a process; what it says is in `at`.log. at: a file for its kubeconfig; conf: its options, where spark.kubernetes.
    may be left out."""
    there = home()
    server, config = kubeconfig(pool, at)
    argv = [there / "spark/bin/spark-submit", "--master", f"k8s://{server}", "--deploy-mode", mode, "--name", name]
    inside = {} if pool.plane == "real" else {"driver.master": f"https://kubernetes.default.svc:{server.rsplit(':', 1)[1]}"}
    patient = {f"{who}.{what}Timeout": "300000" for who in ("driver", "submission") for what in ("request", "connection")}  # a busy machine's API
    for k, v in {**inside, **patient, "spark.network.timeout": "600s", "container.image": IMAGE, "scheduler.name": "tandem", "authenticate.driver.serviceAccountName": "spark", "container.image.pullPolicy": "IfNotPresent", **conf}.items():
        argv += ["--conf", f"{k if k.startswith('spark.') else 'spark.kubernetes.' + k}={v}"]
    env = {**KEEP, "KUBECONFIG": config, "JAVA_HOME": str(there / "jre"), "SPARK_HOME": str(there / "spark")}
    return subprocess.Popen([*argv, "local:///opt/program.py"], env=env, stdin=subprocess.DEVNULL, stdout=open(f"{at}.log", "w"), stderr=subprocess.STDOUT)
