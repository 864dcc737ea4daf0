"""A real OpenID Connect issuer beside the pool, on the loopback or at an address that a cluster reaches: t/kube/assets/oidc-issuer, built by tools/kube-assets."""
import contextlib
import http.cookiejar
import json
import pathlib
import os
import re
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PASSWORD = "a long password"


def program():
    r = subprocess.run([HERE.parent / "tools/kube-assets", "--check", "oidc-issuer"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    if r.returncode:
        pytest.skip("the issuer is " + r.stderr.strip())
    return r.stdout.strip().splitlines()[-1] + "/oidc-issuer"


class Issuer:
    client = "tandem"

    def __init__(self, directory, people, redirect, secret=None, at=None, pki=None):
        """at, pki: it listens at that address of the machine, with TLS by a certificate of that CA (t/kube/cluster.py), as API servers want."""
        env, self.trust = dict(os.environ), None
        if pki:
            pki.cert("issuer", "issuer", san=[f"IP:{at}"])
            env |= {"OIDC_LISTEN": f"{at}:0", "OIDC_CERT": str(pki.dir / "issuer.crt"), "OIDC_KEY": str(pki.dir / "issuer.key")}
            self.trust = ssl.create_default_context(cafile=str(pki.dir / "ca.crt"))
        users = {name: {"ID": name, "Username": name, "Password": PASSWORD, "Email": f"{name}@lab.example"} for name in people}
        (directory / "users.json").write_text(json.dumps(users))
        self.log = open(directory / "issuer.log", "w")
        self.process = subprocess.Popen([program(), str(directory / "users.json"), self.client, redirect, *([secret] if secret else [])], stdout=subprocess.PIPE, stderr=self.log, text=True, env=env)
        self.url = self.process.stdout.readline().strip()  # it listens when it says where

    def token(self, name):
        """An ID token of that person, by a code that he confirms."""
        def ask(path, **form):
            data = urllib.parse.urlencode({"client_id": self.client, **form}).encode()
            with urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.trust)).open(self.url + path, data, timeout=60) as r:
                return json.load(r)
        begun = ask("/device_authorization", scope="openid profile groups")
        confirm(self, name, begun["user_code"])
        return ask("/oauth/token", grant_type="urn:ietf:params:oauth:grant-type:device_code", device_code=begun["device_code"])["id_token"]

    def rotate(self, alg):
        """A new key in the place of the old one."""
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/rotate?alg={alg}", data=b""), timeout=60).close()

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


def confirm(issuer, name, code, answer="allowed"):
    """Somebody enters the code that a terminal shows him, and says so."""
    web = Web(issuer.trust)
    assert f"Welcome back {name}" in web.get(f"{issuer.url}/device/login", {"username": name, "password": PASSWORD, "user_code": code})[2]
    assert web.get(f"{issuer.url}/device/confirm?action={answer}")[0] == 200


class Web:
    """A browser without a window: it keeps cookies, and goes where it is sent one step at a time."""

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *args):
            return None

    def __init__(self, trust=None):
        self.jar = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), self.Stay, urllib.request.HTTPCookieProcessor(self.jar), urllib.request.HTTPSHandler(context=trust))

    def get(self, url, form=None, headers=None):
        """(status, headers, text)."""
        data = urllib.parse.urlencode(form).encode() if form else None
        try:
            r = self.opener.open(urllib.request.Request(url, data, headers or {}), timeout=60)
        except urllib.error.HTTPError as e:
            r = e
        with contextlib.closing(r):
            return r.status, r.headers, r.read().decode()

    def step(self, url, form=None):
        """Where it is sent next."""
        status, headers, text = self.get(url, form)
        assert status in (302, 303), (url, status, text)
        return urllib.parse.urljoin(url, headers["Location"])

    def begin(self, gateway):
        """From the page to the issuer: the address of its form, and the gateway's own question."""
        ask = self.step(f"{gateway}/api/v1/login/oidc")
        return self.step(ask), ask

    def prove(self, form, name, password=PASSWORD):
        """Name and password at the issuer: where that sends the browser back to."""
        there = re.search(r'name="id" value="([^"]+)"', self.get(form)[2]).group(1)
        back = self.step(urllib.parse.urljoin(form, "/login/username"), {"username": name, "password": password, "id": there})
        return self.step(back)

    def log_in(self, gateway, name):
        """The last answer of the gateway."""
        return self.get(self.prove(self.begin(gateway)[0], name))
