"""The embedded API server alone: who is let in, and what strange, large and slow requests come to. Nothing here needs a pool."""
import json
import resource
import ssl
import subprocess
import time

import pytest

from apidev import CMS, Server, cm
from harness import wait_for

pytestmark = pytest.mark.feature("F1.2")

NS = "/api/v1/namespaces/default"


@pytest.fixture(scope="module")
def server(tandem):
    s = Server(tandem)
    yield s
    s.close()


def is_status(answer, code, reason):
    return isinstance(answer, dict) and (answer["kind"], answer["status"], answer["code"], answer["reason"]) == ("Status", "Failure", code, reason)


# ---- who ----
def test_nobody_sees_anything(server):
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        assert server.call("GET", path, user=None)[0] == 200
    for method, path in [("GET", "/api"), ("GET", "/apis"), ("GET", "/metrics"), ("GET", "/openapi/v3"), ("GET", f"{NS}/pods"), ("GET", "/api/v1/secrets"), ("GET", "/nothing"),
                         ("POST", CMS), ("PUT", f"{CMS}/x"), ("PATCH", f"{CMS}/x"), ("DELETE", f"{CMS}/x"), ("DELETE", CMS), ("GET", f"{CMS}?watch=1"),
                         ("GET", f"{NS}/pods/x/log"), ("GET", f"{NS}/pods/x/exec?command=sh"), ("POST", f"{NS}/pods/x/binding"), ("POST", f"{NS}/serviceaccounts/default/token"),
                         ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"), ("GET", "/healthzzz"), ("GET", "/version/../api")]:
        status, answer = server.call(method, path, cm("x") if method in ("POST", "PUT", "PATCH") else None, user=None)
        assert (status, answer["reason"]) in ((401, "Unauthorized"), (400, "BadRequest")), (method, path, status, answer)
        assert status == 401 or ".." in path


def test_certificates_of_others(server, tandem, tmp_path):
    stranger = Server(tandem)
    try:
        for user in ("admin", "bridge"):
            status, answer = server.call("GET", f"{NS}/secrets", user=user, pki=f"{stranger.dir}/pki")
            assert status == 401 and is_status(answer, 401, "Unauthorized")
    finally:
        stranger.close()
    # Of the right CA, but a server's: it says who one talks to, not who asks.
    assert server.call("GET", f"{NS}/secrets", user="apiserver")[0] in (401, 403)
    # Of the right CA, but no longer valid.
    pki, run = f"{server.dir}/pki", lambda *a: subprocess.run(["openssl", *a], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path)
    run("req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", "old.key", "-subj", "/O=system:masters/CN=admin", "-out", "old.csr")
    (tmp_path / "ext").write_text("extendedKeyUsage=clientAuth\n")
    sign = ["x509", "-req", "-in", "old.csr", "-CA", f"{pki}/ca.crt", "-CAkey", f"{pki}/ca.key", "-CAcreateserial", "-CAserial", "serial", "-extfile", "ext", "-out", "old.crt"]
    run(*sign, "-days", "1")
    assert server.call("GET", f"{NS}/secrets", user="old", pki=str(tmp_path))[0] == 200  # such a certificate is taken …
    run(*sign, "-days", "-1")
    assert server.call("GET", f"{NS}/secrets", user="old", pki=str(tmp_path))[0] == 401  # … while it is valid


def test_tokens(server):
    def ask(token, path=f"{NS}/secrets"):
        return server.call("GET", path, user=None, headers={"Authorization": f"Bearer {token}"})[0]
    good = server.token()
    assert ask(good) == 200
    assert ask(server.token(exp=int(time.time()) - 1)) == 401
    assert ask(server.token(nbf=int(time.time()) + 3600)) == 401
    assert ask(server.token(sub="")) == 401
    assert ask(server.token(sub="eve", groups=["people"])) == 403
    head, body, mac = good.split(".")
    import base64
    none = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').rstrip(b"=").decode()
    for bad in (f"{head}.{body}.", f"{none}.{body}.", f"{none}.{body}.{mac}", f"{head}.{body}.{mac[:-4]}AAAA", f"{head}.{body}", "", ".", "..", "a.b.c", good + "x", good + "." + mac,
                "x" * 7000, f"{head}.{body[:-2]}.{mac}"):
        assert ask(bad) == 401, bad
    for header in ("Basic YWRtaW46YWRtaW4=", "Bearer", "bearer", f"Token {good}"):
        assert server.call("GET", f"{NS}/secrets", user=None, headers={"Authorization": header})[0] == 401, header
    # A token of a ServiceAccount ends with the account.
    server.call("POST", f"{NS}/serviceaccounts", {"metadata": {"name": "robot"}})
    _, answer = server.call("POST", f"{NS}/serviceaccounts/robot/token", {"spec": {"expirationSeconds": 600}})
    robot = answer["status"]["token"]
    assert ask(robot) == 403
    assert ask(robot, "/api") == 200
    server.call("DELETE", f"{NS}/serviceaccounts/robot")
    assert ask(robot, "/api") == 401
    server.call("POST", f"{NS}/serviceaccounts", {"metadata": {"name": "robot"}})
    assert ask(robot, "/api") == 401  # another account of the same name


# ---- what ----
def raw(server, data, timeout=60):
    """Sends these bytes; the status line's number (0: none) and what follows."""
    s = server.socket(timeout=timeout)
    try:
        got = b""
        try:
            s.sendall(data)
        except (ssl.SSLError, ConnectionError):
            pass  # cut while we were still sending: it may have said why
        while True:
            try:
                part = s.recv(65536)
            except (ssl.SSLError, ConnectionError):
                break
            if not part:
                break
            got += part
            head, _, body = got.partition(b"\r\n\r\n")
            length = [l for l in head.lower().split(b"\r\n") if l.startswith(b"content-length:")]
            if length and len(body) >= int(length[0].split(b":")[1]):
                break
        return int(got.split(b" ")[1]) if got.startswith(b"HTTP/1.1 ") else 0, got.partition(b"\r\n\r\n")[2]
    finally:
        s.close()


def get(server, target, method="GET", headers=""):
    return raw(server, f"{method} {target} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())


def test_paths(server):
    server.call("POST", CMS, cm("plain", a="b"))
    server.call("POST", "/api/v1/namespaces/kube-system/secrets", {"metadata": {"name": "hidden"}})
    for target, want in [
            (f"{CMS}/plain", 200), (f"{CMS}/pl%61in", 200), (f"{CMS}/plain/", 200), (f"/api/v1/namespaces/default/configmaps/plain?x=%zz", 400),
            (f"{NS}/../kube-system/secrets/hidden", 400), (f"{NS}/%2e%2e/kube-system/secrets/hidden", 400), (f"{NS}/..%2fkube-system/secrets", 400), ("/./api/v1", 400),
            (f"{CMS}/pl%00ain", 400), (f"{CMS}/plain%", 400), (f"{CMS}/plain%2", 400), (f"{CMS}/plain%zz", 400), (f"{CMS}/%c0%ae%c0%ae/x", 404), (f"{CMS}//plain", 404),
            (f"//api/v1/namespaces", 404), ("/api/v1/namespaces/default%2Fconfigmaps/plain", 200),  # one reading of the path for all: as Go's URL.Path
            (f"{CMS}/plain%2Fstatus", 404), (f"{CMS}/plain/exec", 404), ("/api/v1/watch/namespaces", 404), ("/api/v2/namespaces", 404), ("/apis/nope/v1/x", 404), ("/apis//v1/x", 404),
            (f"{CMS}?labelSelector=a%3D%3D%3D", 400), (f"{CMS}?fieldSelector=%ff", 400), (f"{CMS}?limit=-1", 200), (f"{CMS}?limit=99999999999999999999", 400),
            (f"{CMS}?resourceVersion=abc", 400), (f"{CMS}?watch=1&timeoutSeconds=-5", 200), (f"{CMS}?continue=%00", 400), (f"{CMS}?" + "a=b&" * 2000, 200),
            ("/api/v1/" + "x" * 30000, 404), ("/api/v1/" + "x" * 100000, 431), ("http://x" + f"{CMS}/plain", 200), ("*", 400), ("relative", 400), ("/api/v1/namespaces/" + "a/" * 500, 404)]:
        status, body = get(server, target)
        assert status == want, (target[:100], status, body[:200])
        assert b"hidden" not in body or status == 400
        if status == 400:
            assert json.loads(body)["kind"] == "Status"
    status, body = get(server, f"{CMS}?watch=1", headers="Connection: Upgrade\r\nUpgrade: websocket\r\n")
    assert status == 200 and b"no WebSockets here" in body, "it ends at once"
    assert server.call("GET", "/readyz")[0] == 200


def test_heads(server):
    for data, want in [
            (b"GET / HTTP/1.1\r\n\r\n", (400,)), (b"GET / HTTP/0.9\r\nHost: x\r\n\r\n", (400, 505)), (b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", (400,)), (b"get / HTTP/1.1\r\nHost: x\r\n\r\n", (405, 400, 404)),
            (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", (400,)), (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", (400,)), (b"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", (400,)),
            (b"GET / HTTP/1.1\nHost: x\n\n", (400, 408, 0)), (b"\x16\x03\x01" * 100 + b"\r\n\r\n", (400,)), (b"GET /a\x01b HTTP/1.1\r\nHost: x\r\n\r\n", (400,)),
            (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 70000 + b"\r\n\r\n", (431,)), (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 20000 + b"\r\n", (431,)), (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"A%d: b\r\n" % i for i in range(3000)) + b"\r\n", (431,)),
            # Two ideas of where the body ends: none is believed.
            (b"POST " + CMS.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", (400,)),
            (b"POST " + CMS.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", (400,)),
            (b"POST " + CMS.encode() + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", (400, 501)),
            (b"POST " + CMS.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", (400,)), (b"POST " + CMS.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 0x10\r\n\r\n", (400,)),
            (b"POST " + CMS.encode() + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", (400,)),
            (b"TRACE " + CMS.encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n", (405,)), (b"OPTIONS " + CMS.encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n", (405,)), (b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n", (400, 405))]:
        status, body = raw(server, data, timeout=300)
        assert status in want, (data[:80], status, body[:200])
        if status not in (0, 200, 404):
            assert json.loads(body)["kind"] == "Status", (data[:80], body[:200])


def test_text_that_is_not_utf8(server):
    """One such byte in an object would be the end: nobody could read it any more, and the server would not start again."""
    for method, path, headers in [("POST", f"{CMS}?fieldManager=%ff%fe", {}), ("POST", f"{CMS}?fieldManager=a%0ab", {}), ("POST", f"{CMS}?fieldManager=%ed%a0%80", {})]:
        status, answer = server.call(method, path, cm("m"), headers=headers)
        assert status == 422 and "printable" in answer["message"], answer
    status, answer = server.call("POST", CMS, cm("ua", a="b"), headers={"User-Agent": "\xff\xfe/1"})
    assert status == 201 and answer["metadata"]["managedFields"][0]["manager"] == "unknown"
    for target in (f"{CMS}/%ff", f"{CMS}?labelSelector=%ff%3d%fe", f"{CMS}?fieldSelector=%ff", f"/api/v1/%c0%80", f"{NS}/%fe/x"):
        status, body = get(server, target)
        assert status in (400, 404)
        json.loads(body.decode())  # what is quoted is replaced
    deep = "x"
    for _ in range(126):
        deep = {"f": deep}
    status, answer = server.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "deeps.t.example"}, "spec": {
        "group": "t.example", "scope": "Namespaced", "names": {"plural": "deeps", "kind": "Deep"}, "versions": [{"name": "v1", "served": True, "storage": True, "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}})
    assert status == 201
    # Let in as it is, but with what managedFields says of it, it would be too deep to be read.
    status, answer = server.call("POST", "/apis/t.example/v1/namespaces/default/deeps", {"apiVersion": "t.example/v1", "kind": "Deep", "metadata": {"name": "d"}, "spec": deep})
    assert status in (400, 422), answer
    # Patches that grow an object beyond every bound.
    server.call("POST", CMS, cm("grow", k="x" * 100000))
    copies = [{"op": "copy", "from": "", "path": f"/data/k{i}"} for i in range(64)]
    assert server.call("PATCH", f"{CMS}/grow", copies, headers={"Content-Type": "application/json-patch+json"})[0] in (400, 422)
    for i in range(20):
        status, answer = server.call("PATCH", f"{CMS}/grow", {"metadata": {"annotations": {f"a{i}": "x" * 200000}}}, headers={"Content-Type": "application/merge-patch+json"})
        if status != 200:
            break
    assert status in (413, 422), (status, answer)
    server.kill9()
    server.start()
    assert "ua" in server.names()


def test_large_bodies(server):
    status, answer = server.call("POST", CMS, cm("big", a="x" * (4 << 20)))
    assert status == 413 and is_status(answer, 413, "RequestEntityTooLarge") and answer["message"] == "Request entity too large: limit is 3145728"
    # In chunks, without a length said before.
    piece = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    status, body = raw(server, f"POST {CMS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + piece * 4)
    assert status in (413, 0)  # 0: cut while we were still sending
    status, body = raw(server, f"POST {CMS} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff0\r\n".encode())
    assert status in (400, 413) and json.loads(body)["kind"] == "Status"
    assert server.call("POST", CMS, cm("fits", a="x" * (1 << 20)))[0] in (201, 422)
    # Deep, wide and repetitive documents.
    before = server.memory()
    deep = b'{"a":' * 200000 + b"1" + b"}" * 200000
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(8))
    for kind, body in [("application/json", deep), ("application/json", b"[" * 1000000), ("application/json", b'{"metadata":{"name":"k"},"data":{' + b",".join(b'"k%d":"v"' % i for i in range(100000)) + b"}}"),
                       ("application/yaml", bomb.encode()), ("application/yaml", b"a: " * 100000), ("application/json", b'{"metadata":{"name":"\xff\xfe"}}'),
                       ("application/vnd.kubernetes.protobuf", b"k8s\x00" + b"\x0a\xff\xff\xff\xff\x0f" * 1000)]:
        status, answer = server.call("POST", CMS, body, headers={"Content-Type": kind}, timeout=300)
        assert status in (201, 400, 413, 415, 422), (kind, body[:40], status, answer)
        if status == 201:
            server.call("DELETE", f"{CMS}/k")
    assert server.memory() - before < 200 << 20
    assert server.call("GET", "/readyz")[0] == 200


def test_slow_requests_are_cut(server):
    """A head has 32 s and a body 30 s in all, however often a byte comes: not less, and they end while bytes still come."""
    begin, ended = time.monotonic(), {}
    heads = [server.socket(timeout=60) for _ in range(5)]
    bodies = [server.socket(timeout=60) for _ in range(5)]
    for s in heads:
        s.sendall(b"GET / HTTP/1.1\r\nHost: ")
    for s in bodies:
        s.sendall(f"POST {CMS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{".encode())
    while len(ended) < 10 and time.monotonic() < begin + 300:
        for s in heads + bodies:
            if s in ended:
                continue
            try:
                s.sendall(b" ")
                s.settimeout(0.02)
                part = s.recv(4096)
            except (TimeoutError, ssl.SSLWantReadError):
                continue
            except (OSError, ssl.SSLError):
                part = b""
            ended[s] = (time.monotonic() - begin, part)
        assert server.call("GET", "/readyz")[0] == 200
        time.sleep(0.5)  # a drop at a time is what is tested
    assert len(ended) == 10
    for s in heads:
        assert 20 < ended[s][0], ended[s]
    for s in bodies:
        assert 20 < ended[s][0], ended[s]
        if ended[s][1]:
            assert b" 408 " in ended[s][1].split(b"\r\n")[0] and b'"kind":"Status"' in ended[s][1]
    for s in heads + bodies:
        s.close()


def test_many_watchers(tandem):
    """1,500 of them where the soft limit of descriptors is the usual 1,024: the server raises it to the hard one."""
    want = 1500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * want:
        pytest.skip(f"the hard limit of descriptors here is {hard}; ends where it is at least {2 * want}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))  # what the server starts with
    try:
        server = Server(tandem)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    socks = []
    try:
        before = server.memory()
        for _ in range(want):
            s = server.socket(timeout=60)
            s.sendall(f"GET {CMS}?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            socks.append(s)
        wait_for("all of them watch", lambda: server.metric("tandem_apiserver_watches") == want)
        each = (server.memory() - before) / want
        begin = time.monotonic()
        assert server.call("POST", CMS, cm("news"))[0] == 201
        for s in socks:
            got = b""
            while b'"news"' not in got:
                part = s.recv(65536)
                assert part, "a watcher was cut"
                got += part
        print(f"{want} watchers: {each / 1024:.1f} KiB each, an event to all in {time.monotonic() - begin:.2f} s")
        assert each < 128 << 10
        for s in socks:
            s.close()
        wait_for("they are gone", lambda: server.metric("tandem_apiserver_watches") == 0)
    finally:
        for s in socks:
            s.close()
        server.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
