"""Attacks on the embedded plane, real ones: each is refused, and others are served meanwhile. Beside test_api.py (who is let in, heads, bodies), test_rbac.py
(rights and tokens), test_images.py (hostile images) and test_pods_rights.py."""
import base64
import hmac
import http.client
import io
import json
import os
import pathlib
import socket
import ssl
import subprocess
import tarfile
import time

import pytest

from apidev import CMS, Server, cm
from harness import KEEP, patience, wait_for
from podplane import plane  # noqa: F401 (a fixture)

NS = "/api/v1/namespaces/default"


@pytest.fixture(scope="module")
def server(tandem):
    s = Server(tandem)
    yield s
    s.close()


@pytest.fixture(autouse=True)
def others_are_served(request):
    """After every attack on the API server."""
    yield
    if "server" in request.fixturenames:
        s = request.getfixturevalue("server")
        assert s.process.poll() is None and s.call("GET", CMS)[0] == 200


def raw(server, data, seconds=60, user="admin"):
    """Sends bytes as they are and returns all that comes back until the server ends the connection."""
    s = server.socket(user=user, timeout=seconds)
    got = b""
    try:
        s.sendall(data)
        while part := s.recv(65536):
            got += part
    except (OSError, ssl.SSLError):
        pass
    finally:
        s.close()
    return got


# ---- who speaks ----
@pytest.mark.feature("F1.2")
def test_clients_check_the_server(server, tandem, tmp_path):
    """kubectl and the roles refuse a server that another CA vouches for, and one of another name."""
    stranger = Server(tandem)
    try:
        good = f"{server.dir}/kubeconfig/admin.conf"
        pathlib.Path(tmp_path, "dev.conf").write_text(pathlib.Path(good).read_text())
        def kubectl(*argv):
            return subprocess.run(["kubectl", "--kubeconfig", good, *argv, "get", "ns"], env=KEEP, capture_output=True, text=True, timeout=60)
        url = f"https://127.0.0.1:{server.port}"
        assert kubectl("--server", url).returncode == 0
        for argv in (("--server", url, "--certificate-authority", f"{stranger.dir}/pki/ca.crt"), ("--server", f"https://127.0.0.1:{stranger.port}"),
                     ("--server", url, "--tls-server-name", "bank.example")):
            r = kubectl(*argv)
            assert r.returncode != 0 and "x509" in r.stderr, (argv, r.stderr)
    finally:
        stranger.close()


@pytest.mark.feature("F1.2")
def test_forged_tokens(server):
    key = pathlib.Path(f"{server.dir}/pki/sa.key").read_bytes()
    ca = pathlib.Path(f"{server.dir}/pki/ca.crt").read_bytes()
    part = lambda d: base64.urlsafe_b64encode(d if isinstance(d, bytes) else json.dumps(d).encode()).rstrip(b"=").decode()
    claims = {"sub": "admin", "groups": ["system:masters"], "exp": int(time.time()) + 600}

    def forge(head, body, k, hash="sha256"):
        text = f"{part(head)}.{part(body)}"
        return f"{text}.{part(hmac.new(k, text.encode(), hash).digest())}"

    def ask(token):
        return server.call("GET", f"{NS}/secrets", user=None, headers={"Authorization": f"Bearer {token}"})[0]
    assert ask(forge({"alg": "HS256", "typ": "JWT"}, claims, key)) == 200
    hs = {"alg": "HS256", "typ": "JWT"}
    for token in (forge(hs, claims, b"guess"), forge(hs, claims, b""), forge(hs, claims, ca), forge({"alg": "HS512"}, claims, key, "sha512"), forge({"alg": "RS256"}, claims, key),
                  forge({"alg": "none"}, claims, key), forge({"alg": "hs256"}, claims, key), forge({}, claims, key), forge({"alg": ["HS256"]}, claims, key), forge(b"[]", claims, key),
                  forge(hs, b"[]", key), forge(hs, b"{", key), forge(hs, {**claims, "exp": "never"}, key), forge(hs, {**claims, "exp": -1}, key), forge(hs, {**claims, "exp": 1e300}, key),
                  forge(hs, {**claims, "sub": ["admin"]}, key), forge(hs, {"sub": "admin", "groups": ["system:masters"]}, key), forge(hs, {**claims, "aud": ["bank"]}, key)):
        assert ask(token) == 401, token
    good = forge(hs, claims, key)
    h, b, m = good.split(".")
    for token in (f"{h}.{part({**claims, 'sub': 'root'})}.{m}", f"{h}.{b}.{m}=", f"{h}.{b}.{m}\x01", f"{h}..{m}", f"{h}.{b}.{m}.{m}"):
        assert server.socket and ask(token) in (400, 401), token


@pytest.mark.feature("F1.2")
def test_who_one_says_one_is(server):
    """Headers that a proxy would set mean nothing here."""
    for h in ({"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}, {"X-Forwarded-User": "admin"}, {"X-Forwarded-Client-Cert": "Subject=\"CN=admin,O=system:masters\""},
              {"Impersonate-User": "admin", "Impersonate-Group": "system:masters"}, {"Authorization": "Basic YWRtaW46YWRtaW4="}, {"Cookie": "user=admin"}, {"X-Original-URL": "/healthz"}):
        assert server.call("GET", f"{NS}/secrets", user=None, headers=h)[0] == 401, h


# ---- what they send ----
@pytest.mark.feature("F1.2")
def test_requests_in_requests(server):
    """Two readers of the same bytes must see the same requests; what could be read in two ways is not read at all, and the connection ends."""
    smuggled = f"GET {NS}/secrets HTTP/1.1\r\nHost: x\r\n\r\n"
    body = json.dumps(cm("smuggle"))
    post = f"POST {CMS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    for data in (post + f"Content-Length: {len(body)}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}", post + f"Content-Length: {len(body)}\r\nContent-Length: 0\r\n\r\n{body}{smuggled}",
                 post + f"Content-Length: {len(body)}, {len(body)}\r\n\r\n{body}{smuggled}", post + f"Content-Length: +{len(body)}\r\n\r\n{body}{smuggled}", post + f"Content-Length: 0x10\r\n\r\n{body}{smuggled}",
                 post + "Content-Length: -1\r\n\r\n" + smuggled, post + "Content-Length : 5\r\n\r\nabcde" + smuggled, post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggled,
                 post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + smuggled, post + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + smuggled,
                 post + "X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, post + "Transfer-Encoding: chunked\r\n\r\n5;\nx\r\nabcde\r\n0\r\n\r\n" + smuggled,
                 post + "Transfer-Encoding: chunked\r\n\r\n-1\r\n" + smuggled, post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + smuggled, post + "Transfer-Encoding: chunked\r\n\r\n 5\r\nabcde\r\n0\r\n\r\n" + smuggled,
                 post + "Transfer-Encoding: chunked\r\n\r\n5\nabcde\n0\n\n" + smuggled, f"GET {CMS}\x00 HTTP/1.1\r\nHost: x\r\n\r\n" + smuggled, f"GET {CMS} HTTP/1.1\r\nHost: x\r\nA\x00: b\r\n\r\n" + smuggled):
        got = raw(server, data.encode())
        assert got.count(b"HTTP/1.1 ") <= 1 and not got.startswith(b"HTTP/1.1 2"), (data[:120], got[:300])
    # A lone LF ends no line: the head goes on, and is never whole.
    assert b"200" not in raw(server, f"GET {CMS} HTTP/1.1\nHost: x\n\n".encode(), seconds=2)[:20]
    assert server.call("GET", f"{CMS}/smuggle")[0] == 404


@pytest.mark.feature("F1.2")
def test_large_and_deep_bodies(server):
    post = f"POST {CMS} HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\n"
    assert b" 413 " in raw(server, (post % "application/json" + "Content-Length: 999999999999999999\r\n\r\n").encode())[:20]
    assert b" 400 " in raw(server, (post % "application/json" + "Content-Length: 99999999999999999999999999\r\n\r\n").encode())[:20]
    # Chunks without end: it stops reading at its limit.
    s, sent = server.socket(), 0
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    s.sendall((post % "application/json" + "Transfer-Encoding: chunked\r\n\r\n").encode())
    try:
        while sent < 64 << 20:
            s.sendall(chunk)
            sent += len(chunk)
    except (OSError, ssl.SSLError):
        pass
    s.close()
    assert sent < 32 << 20
    before = server.memory()
    deep = "{\"metadata\":" + "[" * 200000 + "]" * 200000 + "}"
    assert server.call("POST", CMS, deep)[0] == 400
    # Aliases that double twenty-six times: 64 million words out of a kilobyte.
    laughs = "a0: &a0 [lol, lol]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 26))
    assert server.call("POST", CMS, f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: lol}}\n{laughs}", headers={"Content-Type": "application/yaml"})[0] in (400, 413, 415)
    for kind in ("gzip", "deflate", "br", "zstd"):
        status, answer = server.call("POST", CMS, b"\x1f\x8b" + os.urandom(100), headers={"Content-Encoding": kind})
        assert status in (400, 415), answer
    for head in ("".join(f"X-{i}: y\r\n" for i in range(5000)), "X: " + "y" * 200000 + "\r\n"):
        assert b" 431 " in raw(server, f"GET {CMS} HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode())[:20]
    assert raw(server, f"GET {CMS}?labelSelector={'x' * 500000} HTTP/1.1\r\nHost: x\r\n\r\n".encode())[9:12] in (b"431", b"414", b"400")
    assert server.memory() - before < 64 << 20


@pytest.mark.feature("F1.2")
def test_paths_that_lead_elsewhere(server):
    server.call("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
    server.call("POST", "/api/v1/namespaces/other/secrets", {"metadata": {"name": "s"}, "stringData": {"k": "v"}})
    for path in ("/healthz/../api/v1/namespaces/other/secrets/s", "/healthz/%2e%2e/api/v1/namespaces/other/secrets/s", "/healthz/%2E%2e%2fapi/v1/namespaces/other/secrets/s", "//api/v1/namespaces/other/secrets/s/../s",
                 "/healthz%2f..%2fapi/v1/secrets", "/healthz;/../api/v1/secrets", "/healthz/..;/api/v1/secrets", "/api/v1/namespaces/other%2fsecrets%2fs", "/healthz%00/api/v1/secrets", "/healthz/%252e%252e/api/v1/secrets",
                 "/api/v1/namespaces/other/secrets/s%0d%0aX: y", "/healthz?x#/../api", "/\\..\\api\\v1\\secrets", "/healthz/", "/healthzX"):
        status, answer = server.call("GET", path, user=None) if " " not in path else (400, "")
        assert (status in (400, 401, 404) or answer == "ok") and "stringData" not in str(answer) and "dg==" not in str(answer), (path, status, answer)
    for name in ("..", ".", "a/b", "a%2fb", "../../etc", "a\x00b", "a b", "-", "A", "x" * 300, "ä"):
        status, answer = server.call("POST", CMS, cm(name))
        assert status in (400, 422), (name, status, answer)
    for key in ("../x", "..", ".", "a/b", "", "a b", "x" * 300, "..x"):
        status, answer = server.call("POST", CMS, {"metadata": {"name": "keys"}, "data": {key: "v"}})
        assert status == 422, (key, status, answer)


@pytest.mark.feature("F1.2")
def test_a_promise_that_is_not_kept_is_said(server):
    """Pod security is not enforced here: who asks for it is told, once."""
    key = "pod-security.kubernetes.io/enforce"
    for level, warned in (("restricted", True), ("baseline", True), ("privileged", False)):
        name = f"ps-{level}"
        assert server.call("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": {key: level}}})[0] == 201
        assert (f"does not enforce pod security: with {key}={level}" in (server.headers["Warning"] or "")) == warned
    patch = {"Content-Type": "application/merge-patch+json"}
    assert server.call("PATCH", "/api/v1/namespaces/ps-baseline", {"metadata": {"labels": {"a": "b"}}}, headers=patch)[0] == 200 and not server.headers["Warning"]
    assert server.call("PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": {key: "baseline"}}}, headers=patch)[0] == 200 and "does not enforce" in server.headers["Warning"]


# ---- how slowly they send it ----
@pytest.mark.alone  # those who are kept out come in too, when the crowd has been cut: that they need not wait is a time
@pytest.mark.feature("F1.2")
def test_a_crowd_that_says_nothing_keeps_nobody_out(server):
    """1060 connections without credentials, more than there are places: half a head, half a body, some that rest after a request, and most that only came."""
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    crowd = []
    try:
        say = [None, b"GET /api/v1 HT", f"POST {CMS} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{{".encode(), b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"]
        ctx = server.tls(None)
        for i in range(1060):
            s = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            s.settimeout(3)
            crowd.append(s)
            text = say[i % len(say)] if i < 40 else None  # most do not even begin with TLS
            if text:
                try:
                    crowd[-1] = ctx.wrap_socket(s, server_hostname="127.0.0.1")
                    crowd[-1].sendall(text)
                    if b"healthz" in text:
                        crowd[-1].recv(4096)
                except OSError:
                    pass  # out again, or no place within three seconds
        for k in range(3):
            begin, limit = time.monotonic(), 5 * patience()
            assert server.call("POST", CMS, cm(f"crowd-{k}"), timeout=limit)[0] == 201 and time.monotonic() - begin < limit
    finally:
        for s in crowd:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ---- pods ----
SECRET = "host-secret-of-the-test"
FILE, EVIL, ABSTRACT = (f"td-t-{w}-{os.getpid()}" for w in ("host-secret", "evil", "abstract"))  # others may run beside


@pytest.fixture(scope="module")
def secret():
    """A file of the host that no pod may read."""
    path = pathlib.Path(f"/var/tmp/{FILE}")
    path.write_text(SECRET)
    path.chmod(0o600)
    yield path
    path.unlink()


def fetch(plane, path, method="GET"):  # noqa: F811
    """(status, text) of any path, as it is."""
    c = http.client.HTTPSConnection(plane.api.host, context=plane.api.tls, timeout=30)
    try:
        c.request(method, path)
        r = c.getresponse()
        return r.status, r.read().decode(errors="replace")
    finally:
        c.close()


@pytest.mark.feature("F1.4")
def test_volumes_lead_nowhere_else(plane, secret):  # noqa: F811
    """A link that a pod made in its own volume, mounted by subPath; names with ..; pipes and devices in a volume."""
    d = dict(volumes=[{"name": "d", "emptyDir": {}}])
    plant = f"ln -s {secret} /d/file; ln -s / /d/root; ln -s /var/tmp /d/dir; ln -s ../../../../../../../../../../../../var/tmp /d/up; ln -s /proc/1/root /d/proc; mkfifo /d/pipe; mknod /d/disk b 8 0; mkdir /d/in; ln -s ../up /d/in/up"
    init = {"name": "plant", "image": "debian:13", "command": ["sh", "-c", plant], "volumeMounts": [{"name": "d", "mountPath": "/d"}]}
    for sub in ("file", "root/var/tmp", "dir", "up", f"up/{FILE}", "proc", "proc/1/root/var/tmp", "in/up"):
        with plane.pod(f"cat /m /m/* /m/{FILE} 2>/dev/null; true", "sub", initContainers=[init], volumeMounts=[{"name": "d", "mountPath": "/m", "subPath": sub}], **d) as name:
            p = plane.wait(name, "over or refused", lambda p: p["status"].get("phase") in ("Succeeded", "Failed") or any(
                c["state"].get("waiting", {}).get("reason") == "CreateContainerConfigError" for c in p["status"].get("containerStatuses", [])))
            if p["status"].get("phase") == "Succeeded":
                assert SECRET not in plane.text(name), sub
    for sub in ("..", "../x", "a/../../b", "/etc"):
        spec = plane.spec("true", volumeMounts=[{"name": "d", "mountPath": "/m", "subPath": sub}], **d)
        code, answer = plane.api.call("POST", f"{NS}/pods", {"metadata": {"name": plane.name("bad")}, "spec": spec})
        assert code == 422, (sub, answer)
    for items in ([{"key": "k", "path": "../../x"}], [{"key": "k", "path": "/etc/x"}], [{"key": "k", "path": "a/../../x"}]):
        for vol in ({"configMap": {"name": "c", "items": items}}, {"secret": {"secretName": "c", "items": items}}, {"projected": {"sources": [{"configMap": {"name": "c", "items": items}}]}},
                    {"projected": {"sources": [{"serviceAccountToken": {"path": items[0]["path"]}}]}}):
            code, answer = plane.api.call("POST", f"{NS}/pods", {"metadata": {"name": plane.name("bad")}, "spec": plane.spec("true", volumes=[{"name": "v", **vol}])})
            assert code == 422, (vol, answer)


@pytest.mark.feature("F1.4")
def test_a_pod_that_reaches_for_its_host(plane, secret):  # noqa: F811
    """Root in a container as most images have it, without privileges: nothing of the host answers."""
    tries = {
        "mount": "mount -t tmpfs none /mnt", "remount": "mount -o remount,rw /proc/sys", "proc": "echo 1 > /proc/sys/kernel/panic", "sysrq": "echo h > /proc/sysrq-trigger", "core": "echo '|/x' > /proc/sys/kernel/core_pattern",
        "uevent": "echo /x > /sys/kernel/uevent_helper", "release": "echo /x > $(find /sys/fs/cgroup -name release_agent | head -1)", "disk": "mknod /tmp/d b $(stat -c '%Hr %Lr' /dev/vda 2>/dev/null || echo 254 0) && head -c 1 /tmp/d",
        "mem": "mknod /tmp/m c 1 1 && head -c 1 /tmp/m", "kmsg": "mknod /tmp/k c 1 11 && head -c 1 /tmp/k", "module": "perl -e 'exit(syscall(313, 3, \"\", 0) == 0 ? 0 : 1)'", "reboot": "perl -e 'exit(syscall(169, 0xfee1dead, 672274793, 0x89abcdef, 0) == 0 ? 0 : 1)'",
        "host-root": f"cat /proc/1/root{secret}", "nsenter": "nsenter -t 1 -n ls /sys/class/net | grep -v -e lo -e eth0", "newns": "unshare -m true", "chroot": f"perl -e 'chdir \"/\"; mkdir \"/j\"; chroot \"/j\"; chdir \"..\" for 1..99; chroot \".\"; open F, \"{secret}\" or exit 1; exit 0'",
        "handle": "perl -e 'exit(syscall(304, 3, \"\", 0) >= 0 ? 0 : 1)'", "time": "date -s 2001-01-01", "host-name": "hostname evil", "nice": "renice -n -20 1 && false", "agent": "ls /run/tandem /var/lib/tandem 2>/dev/null | grep .",
        "devices": "ls /dev | grep -e sd -e vd -e nvme -e mem -e kmsg -e fuse -e kvm", "ptrace": "ls /proc | grep -E '^[0-9]+$' | while read p; do grep -q [p]ytest /proc/$p/cmdline 2>/dev/null && echo $p; done | grep .",
        "abstract": "grep -c '@' /proc/net/unix | grep -v '^0$'",
    }
    script = "".join(f"( {c} ) >/dev/null 2>&1 && echo {n}=REACHED || echo {n}=no\n" for n, c in tries.items()) + "true"
    with plane.pod(script, "reach") as name:
        got = dict(l.split("=", 1) for l in plane.output(name).splitlines() if "=" in l)
    assert set(got) == set(tries) and not [n for n, v in got.items() if v != "no"], got


@pytest.mark.feature("F1.4")
def test_links_in_places_that_pods_share(plane, secret):  # noqa: F811
    """What one pod links in a hostPath, another one's hostPath or subPath follows inside that place only, also when a file or directory is to be made."""
    evil = pathlib.Path(f"/var/tmp/{EVIL}")
    plant = f"mkdir -p /s/t && cd /s/t && ln -sfn /var/tmp dir && ln -sfn {secret} file && ln -sfn ../../../../../../../../var/tmp up && ln -sfn /proc/1/root proc && ln -sfn {evil} new && mkdir -p real && ln -sfn real in"
    with plane.pod(plant, "plant", volumes=[{"name": "s", "hostPath": {"path": "/shared"}}], volumeMounts=[{"name": "s", "mountPath": "/s"}]) as name:
        assert plane.over(name)["status"]["phase"] == "Succeeded"
    tries = [("/shared/t/dir", "", None), ("/shared/t/dir", "Directory", None), ("/shared/t/file", "File", None), ("/shared/t/up", "", FILE), ("/shared/t/proc/var/tmp", "", None), ("/shared/t", "", "dir"),
             ("/shared/t", "", f"up/{FILE}"), ("/shared/t/new", "FileOrCreate", None), (f"/shared/t/dir/{EVIL}", "FileOrCreate", None), (f"/shared/t/dir/{EVIL}", "DirectoryOrCreate", None), ("/shared/t", "", f"dir/{EVIL}"),
             ("/", "", None), ("/proc", "", None), (plane.home, "", None), (plane.run_dir, "", None)]
    pods = {}
    for path, kind, sub in tries:
        mount = {"name": "s", "mountPath": "/m", **({"subPath": sub} if sub else {})}
        name = plane.name("follow")
        plane.post(name, plane.spec(f"cat /m /m/{FILE} /m/1/environ 2>/dev/null; find /m -name '*.key' -o -name '*.conf' -o -name '*.sock' -o -name '*.db'; true", volumes=[{"name": "s", "hostPath": {"path": path, "type": kind}}], volumeMounts=[mount]))
        pods[name] = (path, kind, sub)
    over = lambda p: p["status"].get("phase") in ("Succeeded", "Failed") or any(reason.startswith("Failed") for reason, _ in plane.events(p["metadata"]["name"]))
    for name, what in pods.items():
        p = plane.wait(name, "over or refused", over)
        if p["status"].get("phase") == "Succeeded":
            assert plane.text(name) == "", what
        assert not evil.exists() and secret.read_text() == SECRET, what
    # Within the place a link is as good as a directory.
    with plane.pod("echo here > /m/f", "inside", volumes=[{"name": "s", "hostPath": {"path": "/shared/t/in"}}], volumeMounts=[{"name": "s", "mountPath": "/m"}]) as name:
        assert plane.over(name)["status"]["phase"] == "Succeeded"
    assert pathlib.Path(f"{plane.home}/shared/t/real/f").read_text() == "here\n"
    for name in pods:
        plane.api.call("DELETE", f"{NS}/pods/{name}?gracePeriodSeconds=0")


@pytest.mark.feature("F1.4")
def test_subpaths_that_change_while_they_are_mounted(plane, secret):  # noqa: F811
    """One container turns a directory into a link and back as fast as it can; the other one's mount is made again and again meanwhile."""
    vol = dict(volumes=[{"name": "d", "emptyDir": {}}])
    turn = f"mkdir -p /d/a && ln -s /var/tmp /d/b; perl -e 'while (1) {{ syscall(316, -100, \"/d/a\", -100, \"/d/b\", 2) }}'"
    containers = [{"name": "c", "image": "debian:13", "command": ["sh", "-c", turn], "volumeMounts": [{"name": "d", "mountPath": "/d"}]}] + [
        {"name": f"v{i}", "image": "debian:13", "command": ["sh", "-c", f"cat /m/{FILE} 2>/dev/null; cat /n 2>/dev/null; sleep 0.1; exit 1"],
         "volumeMounts": [{"name": "d", "mountPath": "/m", "subPath": "a"}, {"name": "d", "mountPath": "/n", "subPath": f"a/{FILE}"}]} for i in range(4)]
    for _ in range(3):
        with plane.pod(stem="race", containers=containers, **vol) as name:
            wait_for("most have tried", lambda: sum(bool(c["state"].get("terminated") or c["state"].get("waiting", {}).get("message") or c["restartCount"]) for c in (plane.pod_of(name)["status"].get("containerStatuses") or [])) >= 4, 60)
            for i in range(4):
                assert SECRET not in fetch(plane, f"{NS}/pods/{name}/log?container=v{i}")[1], name


@pytest.mark.feature("F1.4")
def test_a_working_directory_is_in_the_container(plane, secret):  # noqa: F811
    """A descriptor that a runtime left open would be a way out of it."""
    names = {}
    for cwd in [f"/proc/self/fd/{n}" for n in range(3, 13)] + ["/proc/1/cwd", "/proc/self/exe/..", "/../../..", "//proc/self/fd/7/../../.."]:
        names[plane.name("cwd")] = cwd
    for name, cwd in names.items():
        plane.post(name, plane.spec(f"cat var/tmp/{FILE} ../../../../../../var/tmp/{FILE} 2>/dev/null; pwd", workingDir=cwd))
    for name, cwd in names.items():
        p = plane.wait(name, "over or refused", lambda p: p["status"].get("phase") in ("Succeeded", "Failed") or any(
            c["state"].get("waiting", {}).get("reason") not in (None, "ContainerCreating") for c in p["status"].get("containerStatuses", [])))
        if p["status"].get("phase") == "Succeeded":
            assert SECRET not in plane.text(name), cwd
        plane.api.call("DELETE", f"{NS}/pods/{name}?gracePeriodSeconds=0")


@pytest.mark.feature("F1.4")
def test_what_pods_have_is_not_for_everybody_on_the_machine(plane):  # noqa: F811
    """Somebody without rights on the machine reads no token, no Secret and no key below the home, and finds no program there that makes them root."""
    plane.make("secrets", "mine", stringData={"k": "pods-own-secret"})
    script = "cp /bin/sh /rootshell; chmod 4755 /rootshell; cp -p /rootshell /d/; cp -p /rootshell /s/; sleep 1000"
    vols = dict(volumes=[{"name": "x", "secret": {"secretName": "mine"}}, {"name": "d", "emptyDir": {}}, {"name": "s", "hostPath": {"path": "/shared"}}],
                volumeMounts=[{"name": "x", "mountPath": "/x"}, {"name": "d", "mountPath": "/d"}, {"name": "s", "mountPath": "/s"}])
    with plane.pod(script, "has", **vols) as name:
        plane.running(name)
        wait_for("the program", lambda: plane.ex(name, "sh", "-c", "ls /s/rootshell || true").strip())
        had = os.stat(plane.home).st_mode & 0o777
        assert had == 0o700, oct(had)
        look = ("import os, sys\nfor top in sys.argv[1:]:\n  for d, ds, fs in os.walk(top):\n    for f in fs:\n      p = os.path.join(d, f)\n      try:\n        s = os.stat(p)\n        t = open(p, 'rb').read(1 << 20)\n"
                "      except OSError: continue\n      if s.st_mode & 0o4000 or b'pods-own-secret' in t or b'PRIVATE KEY' in t or t[:2] == b'ey': print(p)\n")
        places = [plane.home, plane.run_dir] + [l.split()[1] for l in open("/proc/mounts") if plane.home in l]
        os.chmod(plane.home, 0o755)  # as in homes that an older version made, or that somebody else did
        try:
            r = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", look, *places], capture_output=True, text=True, timeout=120)
        finally:
            os.chmod(plane.home, had)
        assert r.returncode == 0 and [p for p in r.stdout.splitlines() if not p.startswith(f"{plane.home}/shared/")] == [], r.stdout + r.stderr
        plane.ex(name, "rm", "/s/rootshell")


@pytest.mark.feature("A7.4")
def test_pods_that_claim_devices(plane):  # noqa: F811
    """The gate's directory is a hostPath like others; what a pod that is no slurmd says there is worth nothing, and it puts nothing in its place."""
    say = ("use Socket; sub say_ { my ($s, $l) = @_; socket(my $f, PF_UNIX, SOCK_STREAM, 0); connect($f, pack_sockaddr_un(\"/g/$s\")) or return \"no: $!\"; syswrite($f, \"$l\\n\"); my $a = \"\"; "
           "while (sysread($f, my $b, 4096)) { $a .= $b } $a =~ s/\\n/;/g; return $a } print \"claim=\" . say_(\"gate.sock\", \"acquire job=7 start=1 uid=0 devices=0-1 timeout=1000\") . \"\\n\"; "
           "print \"task=\" . say_(\"task.sock\", \"check start=1 devices=0 timeout=1000\") . \"\\n\"")
    script = f"perl -e '{say}'; rm -f /g/gate.sock 2>/dev/null && echo removed; mv /g/task.sock /g/x 2>/dev/null && echo moved; touch /g/new 2>/dev/null && echo made; mkdir -p /tmp/job_7; mount -o remount,rw /g 2>/dev/null && echo remounted; (echo x > /o/tandem-standin) 2>/dev/null && echo replaced; true"
    vols = dict(volumes=[{"name": "g", "hostPath": {"path": "/run/tandem"}}, {"name": "o", "hostPath": {"path": "/opt/tandem"}}], volumeMounts=[{"name": "g", "mountPath": "/g"}, {"name": "o", "mountPath": "/o"}])
    for more in ({}, {"hostNetwork": True}):
        with plane.pod(script, "claim", **more, **vols) as name:
            out = plane.output(name).splitlines()
            assert out == [f"claim=fail pod default/{name} is no slurmd of this node: only Slurm's Prolog claims devices;", "task=fail only tasks of Slurm jobs may ask here;"], out
    for node in plane.nodes:
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(60)
            s.connect(plane.gate_socket(node))  # root on the machine
            s.sendall(b"ping\n")
            assert s.recv(100) == b"ok\n"


@pytest.mark.feature("F1.4")
def test_a_pod_and_the_networks(plane):  # noqa: F811
    """A pod meets nothing that listens on the loopback of the machine or of another pod, by no name, and no abstract socket; the API wants to know who asks, whatever way one comes."""
    with socket.socket() as here, socket.socket(socket.AF_UNIX) as abstract:
        here.bind(("127.0.0.1", 0))
        here.listen()
        abstract.bind(f"\0{ABSTRACT}")
        abstract.listen()
        port, gateway = here.getsockname()[1], f"10.{plane.instance['subnet']}.0.1"
        api = plane.instance["apiPort"]
        metrics = plane.instance["metricsPort"]
        lone = "perl -e 'use Socket; socket(F, PF_INET, SOCK_STREAM, 0); setsockopt(F, SOL_SOCKET, SO_REUSEADDR, 1); bind(F, sockaddr_in(8123, inet_aton(\"127.0.0.1\"))) or die; listen(F, 5); print \"up\\n\"; sleep 1000'"
        with plane.pod(lone, "other") as other:
            ip = plane.running(other)["status"]["podIP"]
            at = [f"127.0.0.1 {port}", f"{gateway} {port}", f"{gateway} {metrics + 2}", f"127.0.0.1 {metrics + 2}", f"{ip} 8123", "127.0.0.1 8123"]
            dial = lambda seconds: "; ".join(f"timeout {seconds} bash -c 'exec 3<>/dev/tcp/{a.replace(' ', '/')}' 2>/dev/null && echo 'MET {a}'" for a in at)
            un = f"perl -e 'use Socket; socket(F, PF_UNIX, SOCK_STREAM, 0); print \"MET abstract\\n\" if connect(F, pack(\"S a*\", 1, \"\\0{ABSTRACT}\"))'"
            ways = "ip route add 127.0.0.0/8 via 10.0.0.1 2>/dev/null && echo 'MET route'; nsenter --net=/proc/1/ns/net true 2>/dev/null; ls /run/netns /var/run/netns 2>/dev/null"
            reach = f"timeout 60 bash -c 'exec 3<>/dev/tcp/{gateway}/{api}' && echo api"
            with plane.pod(f"{dial(3)}; {un}; {ways}; {reach}; true", "dials") as name:
                assert plane.output(name).splitlines() == ["api"]
            # hostNetwork is the machine's network, as on other Kubernetes: its loopback too (docs/SECURITY.md). The API asks who one is all the same.
            with plane.pod(f"{dial(30)}; {un}", "hostnet", hostNetwork=True) as name:
                assert {f"MET 127.0.0.1 {port}", "MET abstract"} <= set(plane.output(name).splitlines())
    for host in ("127.0.0.1", gateway):
        r = subprocess.run(["kubectl", "--server", f"https://{host}:{api}", "--certificate-authority", f"{plane.home}/pki/ca.crt", "--token", "x", "get", "secrets", "-A"], env=KEEP, capture_output=True, text=True, timeout=60)
        assert r.returncode and ("Unauthorized" in r.stderr or "logged in" in r.stderr), r.stderr


@pytest.mark.feature("F1.4")
def test_forged_paths_to_containers(plane):  # noqa: F811
    """exec, attach, log and port-forward go to the pod that the path names, and its right is asked for; nothing in it leads to another."""
    with plane.pod("echo of-the-victim; sleep 1000", "victim") as victim, plane.pod("sleep 1000", "mine") as mine:
        uid = plane.running(victim)["metadata"]["uid"]
        plane.running(mine)
        plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": "away"}}, want=(201, 409))

        def ask(path, method="GET"):
            code, text = fetch(plane, path, method)
            assert "of-the-victim" not in text, (path, code, text)
            return code
        pods = f"{NS}/pods"
        for sub in ("log", "exec", "attach", "portforward"):
            for pod in (f"{mine}%2f..%2f{victim}", f"..%2fpods%2f{victim}", f"{mine}/../{victim}", uid, f"{victim}_{uid}", f"{mine}%00", f"{mine}%2f", ".", "..", f"%2e%2e%2f{victim}", f"{mine};{victim}", "a" * 300):
                assert ask(f"{pods}/{pod}/{sub}") in (400, 404, 405), (sub, pod)
            assert ask(f"/api/v1/namespaces/away/pods/{victim}/{sub}") == 404
            assert ask(f"/api/v1/namespaces/away%2f..%2fdefault/pods/{victim}/{sub}") in (400, 404)
            assert ask(f"{pods}/{mine}/{sub}/../../{victim}/{sub}") in (400, 404, 405)
            assert ask(f"{pods}/{mine}/{sub}%2f..%2f..%2f{victim}") in (400, 404, 405)
        for c in ("..%2fc", "c%2f..%2f..%2f" + victim + "%2fc", f"..%2f..%2f{victim}%2fc", "c%00", "%2f", ".", "..", "c%2f", "c%0d%0aX:y", "c " * 200, "c%23", f"c%3fcontainer=c"):
            for sub in ("log", "exec", "attach"):
                assert ask(f"{pods}/{mine}/{sub}?container={c.replace(' ', '%20')}&command=id&stdout=true") == 400, (sub, c)
        # Two containers in one query: the one that was checked is the one that is meant.
        assert ask(f"{pods}/{mine}/log?container=c&container=..%2f..%2f{victim}%2fc") in (200, 400)
        assert ask(f"{pods}/{mine}/log?container=c&x=%0d%0aGET%20/containerLogs/default/{victim}/c%20HTTP/1.1%0d%0a%0d%0a") == 200
        for port in ("0", "65536", "-1", "22/../23", "4294967318"):
            r = plane.run("kubectl", "port-forward", mine, f":{port}", check=False)
            assert r.returncode and "Forwarding from" not in r.stdout, (port, r)
        assert "of-the-victim" in plane.text(victim)


@pytest.mark.feature("F1.4")
def test_the_agents_sockets_are_roots(plane):  # noqa: F811
    run = pathlib.Path(plane.run_dir)
    # Containers of the tests before may go meanwhile, and their directories with them: os.walk does not mind.
    sockets = [p for d, _, names in os.walk(run) for p in (pathlib.Path(d, n) for n in names) if p.is_socket()]
    assert sockets
    for p in sockets:
        r = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", "import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])", str(p)], capture_output=True, text=True)
        assert r.returncode != 0 and ("PermissionError" in r.stderr or not p.exists()), (p, r.stderr)


@pytest.mark.feature("F1.4")
def test_cp_of_a_hostile_container(plane, tmp_path, secret):  # noqa: F811
    """`kubectl cp` reads a tar that the container made: what leads out of the target is not written."""
    with plane.pod("sleep 1000", "cp") as name:
        plane.running(name)
        hostile = io.BytesIO()
        with tarfile.open(fileobj=hostile, mode="w") as t:
            for path, link in (("ok", None), ("../" * 20 + f"var/tmp/{EVIL}", None), ("out", "/var/tmp"), (f"out/{EVIL}", None)):
                entry = tarfile.TarInfo(f"whatever/{path}")
                entry.type, entry.linkname, entry.size = (tarfile.SYMTYPE, link, 0) if link else (tarfile.REGTYPE, "", 5)
                t.addfile(entry, None if link else io.BytesIO(b"evil\n"))
        plane.run("kubectl", "exec", "-i", name, "--", "sh", "-c", "base64 -d > /hostile.tar", input=base64.b64encode(hostile.getvalue()).decode())
        plane.ex(name, "sh", "-c", "t=$(readlink -f $(command -v tar)); rm $t; printf '#!/bin/sh\\ncat /hostile.tar\\n' > $t; chmod +x $t")
        plane.kubectl("cp", f"{name}:/whatever", str(tmp_path / "got"), check=False)
        assert (tmp_path / "got/ok").read_text() == "evil\n", "the hostile archive was not read"
        assert not os.path.exists(f"/var/tmp/{EVIL}") and secret.read_text() == SECRET
        assert not [p for p in tmp_path.rglob("*") if p.is_symlink()]
