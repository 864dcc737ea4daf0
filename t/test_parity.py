"""One sequence of requests to both planes, the embedded API server and a real kube-apiserver: the answers are compared (t/parity/play.py). What differs on
purpose is in t/parity/refused.yaml with its reason, and docs/design/0009-parity.md says it in words."""
import importlib
import json
import pathlib
import shutil
import ssl
import subprocess
import sys
import tempfile

import pytest

from apidev import Server

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "kube"), str(HERE / "parity")]
import cluster  # noqa: E402
import play  # noqa: E402
import refusals  # noqa: E402

pytestmark = pytest.mark.feature("F1.2")

# Discovery first: the real one's still shows a definition for a while after it is gone.
TOPICS = sorted((p.stem.removeprefix("topic_") for p in (HERE / "parity").glob("topic_*.py")), key=lambda t: (t != "discovery", t))


def tls(pki, user):
    ctx = ssl.create_default_context(cafile=f"{pki}/ca.crt")
    ctx.check_hostname = False
    ctx.load_cert_chain(f"{pki}/{user}.crt", f"{pki}/{user}.key")
    return ctx


@pytest.fixture(scope="module")
def planes(tandem):
    """Both API servers alone: nothing else acts on what is in them."""
    r = subprocess.run([HERE.parent / "tools/kube-assets", "--check"], capture_output=True, text=True, timeout=60)
    if r.returncode:
        pytest.skip("real Kubernetes " + r.stderr.strip())
    home = pathlib.Path(tempfile.mkdtemp(prefix="tandem-kube-", dir="/var/tmp"))
    c = cluster.Cluster(home=home, assets=r.stdout.strip().splitlines()[-1], nodes=0, controllers=False)
    server = None
    try:
        c.up()
        server = Server(tandem)
        yield play.Plane("real", c.api, 443, tls(home / "pki", "admin")), play.Plane("embedded", "127.0.0.1", server.port, tls(f"{server.dir}/pki", "admin"))
    finally:
        if server:
            server.close()
        c.down(keep_images=False)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def rules():
    return refusals.load()


COUNT = {"requests": 0, "differ": 0}


def show(topic, left):
    out = []
    for step, diffs in left:
        out.append(f"{topic}: {step}")
        for path, real, ours in diffs[:8]:
            out.append(f"    {path}\n        real     {json.dumps(real)[:300]}\n        embedded {json.dumps(ours)[:300]}")
        if len(diffs) > 8:
            out.append(f"    … and {len(diffs) - 8} more")
    return "\n".join(out)


@pytest.mark.parametrize("topic", TOPICS)
def test_the_same_answers(planes, rules, topic):
    steps = importlib.import_module(f"topic_{topic}").STEPS
    results = play.play_topic(planes, topic, steps)
    COUNT["requests"] += len(results)
    COUNT["differ"] += sum(1 for _, d in results if d)
    left = refusals.judge(rules, topic, results)
    assert not left, f"{len(left)} of {len(results)} requests are answered differently:\n{show(topic, left)}"


@pytest.mark.feature("F1.5")
def test_no_refusal_is_out_of_date(planes, rules, request):
    """Whatever refused.yaml lists is needed: a difference that was mended leaves the list."""
    if request.session.testsfailed or COUNT["requests"] == 0:
        pytest.skip("says something only when all topics were played and passed")
    print(f"{COUNT['requests']} requests compared, {COUNT['differ']} differ as refused.yaml says")
    stale = [f"{r.text}  ({r.why[:60]})" for r in rules if not r.used]
    assert not stale, "no difference needs these entries of t/parity/refused.yaml:\n" + "\n".join(stale)
