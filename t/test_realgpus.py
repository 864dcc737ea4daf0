"""`tandem up --gpus real`: the machine's own GPUs on virtual nodes. There is none here: a library of the test's stands for NVML, device files that nobody serves for the
GPUs'. Real ones were tried by hand (docs/BENCHMARKS.md)."""
import json
import os
import shutil
import stat
import subprocess

import pytest

from harness import wait_for

pytestmark = pytest.mark.embedded

SHOW = """ls /dev | grep -E 'nvidia|tandem-gpu' | tr '\\n' ' '; echo; echo $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES
cat /usr/lib/*-linux-gnu/libcuda.so.1 /usr/bin/nvidia-smi; mknod /x c 195 61; mknod /y c 195 60; cat /x; cat /y"""


@pytest.fixture(scope="module")  # the machine has these device files once
def driver(tandem, tmp_path_factory):
    """A driver of two GPUs: the first has the device file 61, the second 60, and an XID."""
    tmp_path = tmp_path_factory.mktemp("driver")
    made = [f"/dev/nvidia{n}" for n in (60, 61) if not os.path.exists(f"/dev/nvidia{n}")]
    (tmp_path / "lib").mkdir()
    (tmp_path / "bin").mkdir()
    shutil.copy(os.path.join(os.path.dirname(tandem), "../checkup/libfake_nvml.so"), tmp_path / "lib/libnvidia-ml.so.1")
    (tmp_path / "lib/libcuda.so.5").write_text("the machine's libcuda\n")
    (tmp_path / "lib/libcuda.so.1").symlink_to("libcuda.so.5")
    (tmp_path / "bin/nvidia-smi").write_text("\x7fELF, the machine's nvidia-smi\n")
    try:
        for path in made:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(195, int(path[-2:])))
        yield str(tmp_path / "lib")
    finally:
        for path in made:
            os.unlink(path)


@pytest.mark.feature("A10.1", "D1.1", "B3.2")
def test_each_node_has_its_own(home, driver):
    """Each of two nodes has one of the machine's two GPUs; a pod gets its node's, with the driver's files; who asks for none can open none."""
    r = home.cmd("up", "--gpus", "real", check=False, env={**home.env, "TANDEM_DRIVER": "/nonexistent"})
    assert r.returncode == 1 and "NVML finds no GPUs on this machine" in r.stderr, r.stderr
    r = home.cmd("up", "--gpus", "realy", check=False)
    assert r.returncode == 2 and "give a number from 0 to 64, or real" in r.stderr
    home.env["TANDEM_DRIVER"] = driver
    said = home.up("--no-slurm", "--nodes", "2", "--gpus", "real")
    assert "1 real GPUs each" in said, said

    def node(i):
        n = home.get("node", f"n{i}")
        told = json.loads(n["metadata"].get("annotations", {}).get("tandem.dev/gpus", "null"))
        sick = [c["message"] for c in n["status"]["conditions"] if c["type"] == "GpuUnhealthy" and c["status"] == "True"]
        return n["status"]["allocatable"]["nvidia.com/gpu"], told and [(g["uuid"], g["minor"]) for g in told["gpus"]], sick

    wait_for("each tells of its GPU, and of nobody else's fault", lambda: node(0) == ("1", [("GPU-test-0", 61)], []) and node(1)[:2] == ("1", [("GPU-test-1", 60)])
             and "XID 79" in "".join(node(1)[2]))
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{i}{gpus}"},
             "spec": {"nodeName": f"n{i}", "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                      "containers": [{"name": "c", "image": "debian:13", "command": ["sh", "-c", f"({SHOW}) 2>&1; true"],
                                      "resources": {"limits": {"nvidia.com/gpu": gpus} if gpus else {}}}]}} for i, gpus in ((0, 1), (1, 1), (1, 0))]
    home.apply(*pods)
    wait_for("they end", lambda: all(home.get("pod", p["metadata"]["name"])["status"]["phase"] == "Succeeded" for p in pods))
    out = {name: home.kubectl("logs", name) for name in ("p01", "p11", "p10")}
    # Opening a device that is one's own fails only because nobody serves it.
    for name, mine, uuid in (("p01", 61, 0), ("p11", 60, 1)):
        lines = out[name].splitlines()
        assert lines[0].split() == [f"nvidia{mine}", "tandem-gpu0"] and lines[1] == f"0 GPU-test-{uuid}", out[name]
        assert lines[2:4] == ["the machine's libcuda", "\x7fELF, the machine's nvidia-smi"], out[name]
        other, own = ("/y", "/x") if mine == 61 else ("/x", "/y")
        assert f"{other}: Operation not permitted" in out[name] and f"{own}: No such device" in out[name], out[name]
    lines = out["p10"].splitlines()
    assert lines[0] == "" and lines[1] == "void" and "the machine's" not in out["p10"], out["p10"]
    assert "/x: Operation not permitted" in out["p10"] and "/y: Operation not permitted" in out["p10"]
    r = home.cmd("up", "--gpus", "2", check=False)
    assert r.returncode == 1 and "it is up with other sizes" in r.stderr


@pytest.mark.feature("B5.1")
def test_the_gpu_that_is_meant_is_tested(tandem, driver):
    """NVML has two GPUs, and CUDA does not see the first: the second is CUDA's first, and not the one behind it, which somebody else may compute on."""
    def tested(gpu):
        r = subprocess.run([tandem, "gpu-test", "--library", os.path.join(os.path.dirname(tandem), "../checkup/libfake_cuda.so"), "--ms", "1", "--only", gpu], capture_output=True, text=True, timeout=60,
                           env={**os.environ, "TANDEM_DRIVER": driver})
        return r.returncode, json.loads(r.stdout) if r.stdout else r.stderr

    code, said = tested("1")
    assert code == 0 and said["wrong"] == [] and said["devices"] == 1, said
    code, said = tested("0")
    assert code == 1 and said["wrong"] == ["gpu0"] and said["message"] == "gpu0: NVML has it, and CUDA does not see it", said
    code, said = tested("2")
    assert code == 2 and "this machine has 2 GPUs" in said, said


@pytest.mark.feature("A10.1", "B3.2")
def test_one_that_is_lost_stops_no_other(home, driver):
    """A GPU is lost when the pool starts: its node says so, and the other node has the GPU that it always had."""
    home.env.update(TANDEM_DRIVER=driver, FAKE_NVML_LOST="0")
    home.up("--no-slurm", "--nodes", "2", "--gpus", "real")

    def sick(i):
        return "".join(c["message"] for c in home.get("node", f"n{i}")["status"]["conditions"] if c["type"] == "GpuUnhealthy" and c["status"] == "True")

    wait_for("its node says so", lambda: "does not answer" in sick(0) and "does not answer" not in sick(1))
    home.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                "spec": {"nodeName": "n1", "restartPolicy": "Never", "containers": [{"name": "c", "image": "debian:13", "command": ["sh", "-c", f"({SHOW}) 2>&1; true"],
                                                                                      "resources": {"limits": {"nvidia.com/gpu": 1}}}]}})
    wait_for("it ends", lambda: home.get("pod", "p")["status"]["phase"] == "Succeeded")
    assert home.kubectl("logs", "p").splitlines()[:2] == ["nvidia60 tandem-gpu0 ", "0 GPU-test-1"]
