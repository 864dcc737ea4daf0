"""People log in by an issuer (OpenID Connect): a real one, a real browser, and who is nobody here stays out (row A15)."""
import base64
import json
import pathlib
import re
import shutil
import ssl
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest
import yaml

from harness import KEEP, SLOW, wait_for
from issuer import PASSWORD, Issuer, Web, confirm
from laptop import Laptop, address

pytestmark = [pytest.mark.embedded, pytest.mark.feature("A15.5")]


@pytest.fixture(scope="module")
def gateway(shared_pool):
    return f"http://{address(shared_pool)}"


@pytest.fixture(scope="module")
def issuer(shared_pool, gateway, tmp_path_factory):
    """The pool's people may log in by an issuer that knows them, and one whom the pool does not know."""
    i = Issuer(tmp_path_factory.mktemp("issuer"), ["researcher", "eve", "root", "system:admin"], f"{gateway}/api/v1/login/oidc/callback")

    def say(oidc):
        shared_pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"identity": {"oidc": oidc}}}))
        wait_for("the gateway knows", lambda: ("oidc" in json.loads(Web().get(f"{gateway}/api/v1/login")[2])) == bool(oidc))
    try:
        say({"issuer": i.url, "clientID": i.client, "gatewayURL": gateway, "name": "the lab", "groupsClaim": "groups", "scopes": ["groups"]})
        yield i
    finally:
        say(None)
        i.stop()


def me(web, gateway):
    return json.loads(web.get(f"{gateway}/api/v1/whoami")[2]).get("user")


@pytest.mark.feature("A15.2", "E3.1")
def test_one_person_in_the_browser_in_ssh_and_in_jobs(pool, issuer, gateway, tmp_path):
    from browser import By, Keys, chromium  # the other tests need none
    d = chromium(tmp_path / "browser")
    try:
        d.get(gateway.replace("127.0.0.1", "localhost"))  # by a name at which no cookie of the way back would be seen
        button = wait_for("the page offers it", lambda: next((b for b in d.find_elements(By.LINK_TEXT, "Log in with the lab") if b.is_displayed()), None))
        button.click()
        wait_for("the issuer asks", lambda: d.find_elements(By.ID, "username"))
        assert d.current_url.startswith(issuer.url)
        d.find_element(By.ID, "username").send_keys("researcher")
        d.find_element(By.ID, "password").send_keys(PASSWORD + Keys.ENTER)
        shown = "const nav = document.getElementById('nav'); return !!nav && nav.getClientRects().length > 0"  # one question: the page changes meanwhile
        try:
            wait_for("it is logged in", lambda: d.execute_script(shown))
        except AssertionError as e:
            e.add_note(f"{d.current_url} says: {d.find_element(By.TAG_NAME, 'body').text!r}")
            raise
        assert d.current_url == f"{gateway}/" and d.find_element(By.ID, "name").text == "researcher"
        cookies = {c["name"]: c for c in d.get_cookies()}
        assert set(cookies) == {"tandem"} and cookies["tandem"]["httpOnly"] and cookies["tandem"]["sameSite"] == "Strict"
        page = d.execute_async_script("fetch('/api/v1/whoami').then(r => r.json()).then(arguments[0])")
    finally:
        d.quit()
    login = pool.cmd("shell", "--user", "researcher", "--", "id", "-u").stdout.strip()
    job = pool.cmd("shell", "--user", "researcher", "--", "srun", "-Q", "id", "-u").stdout.strip()
    assert str(page["uid"]) == login == job == "1000"


def kubectl(laptop, config, *argv):
    env = {**KEEP, "HOME": laptop.home, "TANDEM_URL": f"http://{address(laptop.pool)}", "TANDEM_KEY": laptop.key}
    return subprocess.run([shutil.which("kubectl"), "--kubeconfig", str(config), *argv], env=env, capture_output=True, text=True, timeout=120 * SLOW)


def as_token(config, token):
    """The status of a question to the API with this token."""
    cluster = yaml.safe_load(config.read_text())["clusters"][0]["cluster"]
    trust = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    try:
        ask = urllib.request.Request(f"{cluster['server']}/api/v1/namespaces/slurm/pods", headers={"Authorization": f"Bearer {token}"})
        return urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)).open(ask, timeout=60).status
    except urllib.error.HTTPError as e:
        return e.code


@pytest.mark.feature("A15.2")
def test_a_laptop_logs_in_by_a_code_and_kubectl_is_the_same_person(pool, issuer, gateway, tmp_path):
    me = Laptop(pool, tmp_path / "laptop", "researcher")
    login = subprocess.Popen([pool.tandem, "login", "--oidc", gateway], env={**KEEP, "HOME": me.home}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    late = threading.Timer(120 * SLOW, login.kill)  # it says something, or ends
    late.start()
    there, code = re.search(r"Open (\S+) in any browser, and confirm there that the code is (\S+)\.", login.stderr.readline()).groups()
    assert code in there and there.startswith(issuer.url)
    confirm(issuer, "researcher", code)
    out, err = login.communicate(timeout=120 * SLOW)
    late.cancel()
    assert login.returncode == 0 and "You are researcher at" in out, (out, err)
    kept = pathlib.Path(me.home, ".config/tandem")
    assert {p.name: p.stat().st_mode & 0o777 for p in kept.iterdir() if p.suffix == ".json"} == {"login.json": 0o600, "oidc.json": 0o600}
    me.key = json.loads((kept / "login.json").read_text())["key"]
    assert me.api("GET", "/whoami")[1]["user"] == "researcher"
    assert [k["expires"] - k["created"] for k in me.api("GET", "/keys")[1]["keys"] if k["id"] == me.key.split("_")[1]] == [30 * 86400]

    config = tmp_path / "kubeconfig"
    config.write_text(me.run("kubeconfig").stdout)
    tokens = json.loads((kept / "oidc.json").read_text())
    assert tokens["idToken"] not in config.read_text()
    who = json.loads(kubectl(me, config, "auth", "whoami", "-o", "json").stdout)["status"]["userInfo"]
    assert who["username"] == "researcher" and sorted(who["groups"]) == ["oidc:lab", "system:authenticated"]
    job = pool.cmd("shell", "--user", who["username"], "--", "srun", "-Q", "id", "-u").stdout.strip()
    assert job == str(me.api("GET", "/whoami")[1]["uid"]), "and it is the same uid in a job"
    # He may what somebody bound to his group, or to his name as Tenants do, and nothing else.
    may = lambda verb: kubectl(me, config, "auth", "can-i", verb, "pods", "-n", "default").stdout.strip()  # noqa: E731
    assert may("list") == may("create") == "no"
    try:
        pool.kubectl("create", "rolebinding", "of-the-lab", "-n", "default", "--clusterrole=view", "--group=oidc:lab")
        wait_for("his group may", lambda: (may("list"), may("create")) == ("yes", "no"))
        pool.kubectl("create", "rolebinding", "of-a-member", "-n", "default", "--clusterrole=edit", "--user=researcher")
        wait_for("he may", lambda: may("create") == "yes")
    finally:
        pool.kubectl("delete", "rolebinding", "of-the-lab", "of-a-member", "-n", "default", "--ignore-not-found")

    # A token that has ended is renewed; one that was changed, or is for somebody else, counts nothing.
    (kept / "oidc.json").write_text(json.dumps({**tokens, "expires": 1}))
    assert kubectl(me, config, "auth", "whoami").returncode == 0
    fresh = json.loads((kept / "oidc.json").read_text())
    assert fresh["idToken"] != tokens["idToken"] and fresh["expires"] > 1
    head, body, sign = fresh["idToken"].split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    for bad in (f"{head}.{body}.{sign[:-8]}AAAAAAAA", f"{head}.{body}.", f"{none}.{body}.", me.key, *(issuer.token(u) for u in ("eve", "root", "system:admin"))):
        assert as_token(config, bad) == 401, bad
    assert as_token(config, fresh["idToken"]) == 403, "it is known, and may not"
    status, said = Laptop(pool, tmp_path / "another", "pods").api("POST", "/oidc/token", {"refresh": fresh["refresh"]})
    assert status == 403 and "of somebody else" in said["error"]["message"]
    me.run("logout")
    assert not list(kept.glob("*.json"))


def test_who_is_nobody_here_stays_out(pool, issuer, gateway):
    users = pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["users"]
    web = Web()
    status, headers, text = web.log_in(gateway, "eve")
    assert status == 403 and "&#34;eve&#34; is nobody on this cluster" in text and me(web, gateway) is None
    assert not [c for c in web.jar if c.name.startswith("tandem") and c.value]
    assert pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["users"] == users, "logging in makes no account"


def test_the_first_one_needs_no_key_and_no_password(pool, issuer, gateway):
    """As on a new installation: nobody has any, and the gateway has nothing to sign with until the operator makes it."""
    secret = lambda: next((s for s in pool.items("secrets", "-n", "slurm") if s["metadata"]["name"] == "main-gateway"), None)
    before = secret()
    pool.kubectl("delete", "secret", "main-gateway", "-n", "slurm")
    try:
        made = wait_for("the operator makes it", lambda: (s := secret()) and s["metadata"]["uid"] != before["metadata"]["uid"] and s)
        assert set(made["data"]) == {"cookie"} and len(base64.b64decode(made["data"]["cookie"])) >= 32 and "ownerReferences" not in made["metadata"]
        wait_for("the first one is in", lambda: (web := Web()).log_in(gateway, "researcher")[0] == 302 and me(web, gateway) == "researcher")
        assert Web().log_in(gateway, "eve")[0] == 403, "who is nobody here is out all the same"
        # One with the client's secret only, as somebody may bring it, gets the rest, and keeps that.
        pool.kubectl("patch", "secret", "main-gateway", "-n", "slurm", "--type=merge", "-p", json.dumps({"data": {"cookie": None, "other": "YQ=="}}))
        wait_for("it can sign again", lambda: {"cookie", "other"} <= set(secret()["data"]))
    finally:
        pool.kubectl("patch", "secret", "main-gateway", "-n", "slurm", "--type=merge", "-p", json.dumps({"data": {"other": None, **before["data"]}}))


def test_an_answer_counts_once_in_the_browser_that_asked(pool, issuer, gateway):
    web, other = Web(), Web()
    form, ask = web.begin(gateway)
    q = urllib.parse.parse_qs(urllib.parse.urlsplit(ask).query)
    assert q["code_challenge_method"] == ["S256"] and len(q["code_challenge"][0]) == 43 and q["redirect_uri"] == [f"{gateway}/api/v1/login/oidc/callback"]
    assert len(q["state"][0]) == len(q["nonce"][0]) == 43 and q["scope"] == ["openid profile groups"]
    back = web.prove(form, "researcher")
    # In another browser: one that began nothing, and one that began a login of its own.
    assert other.get(back)[0] == 401
    other.begin(gateway)
    status, headers, text = other.get(back)
    assert status == 401 and "another login" in text and me(other, gateway) is None
    # An issuer that is not the one (RFC 9207), an answer without a code, and what is no answer of the issuer's at all.
    spoilt = Web()
    form = spoilt.begin(gateway)[0]
    mine = spoilt.prove(form, "researcher")
    assert spoilt.get(f"{mine}&iss=https%3A%2F%2Fevil.example")[0] == 401
    spoilt.begin(gateway)
    state = urllib.parse.parse_qs(urllib.parse.urlsplit(spoilt.begin(gateway)[1]).query)["state"][0]
    status, headers, text = spoilt.get(f"{gateway}/api/v1/login/oidc/callback?state={state}&error=access_denied&error_description=%3Cb%3E")
    assert status == 403 and "access_denied &#60;b&#62;" in text
    assert spoilt.get(f"{gateway}/api/v1/login/oidc/callback?state={state}&code=made-up")[0] == 401, "and the cookie is gone"
    # A code with another verifier than the one that was promised.
    spoilt.begin(gateway)
    state = urllib.parse.parse_qs(urllib.parse.urlsplit(spoilt.begin(gateway)[1]).query)["state"][0]
    code = urllib.parse.parse_qs(urllib.parse.urlsplit(back).query)["code"][0]
    status, headers, text = spoilt.get(f"{gateway}/api/v1/login/oidc/callback?state={state}&code={code}")
    assert status == 401 and "does not take this login" in text and me(spoilt, gateway) is None
    # The way back sends nobody anywhere else.
    again = Web()
    form = again.begin(gateway)[0]
    back = again.prove(form, "researcher")
    status, headers, text = again.get(back + "&next=https://evil.example")
    assert (status, headers["Location"]) == (302, "/") and me(again, gateway) == "researcher"
    assert again.get(back)[0] == 401, "a second time it is nobody's"


def test_the_issuer_changes_its_keys(pool, issuer, gateway):
    for alg in ("ES256", "RS256"):
        assert Web().log_in(gateway, "researcher")[0] == 302
        issuer.rotate(alg)
        web = Web()
        assert web.log_in(gateway, "researcher")[0] == 302 and me(web, gateway) == "researcher", alg


def test_who_cannot_be_let_in_is_told_whose_fault_it_is(pool, issuer, gateway, tmp_path):
    say = lambda identity: pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"identity": identity}}))  # noqa: E731
    begin = lambda: Web().get(f"{gateway}/api/v1/login/oidc?here=1")[0]  # noqa: E731
    before = pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["identity"]
    try:
        say({"oidc": {"issuer": "http://127.0.0.1:1"}})  # where nobody listens
        wait_for("the issuer cannot be asked", lambda: begin() == 503)
        say(None)
        wait_for("there is no issuer", lambda: begin() == 501)
        r = subprocess.run([pool.tandem, "login", "--oidc", gateway], env={**KEEP, "HOME": str(tmp_path)}, capture_output=True, text=True, timeout=120 * SLOW)
        assert r.returncode == 1 and "names no issuer (spec.identity.oidc): log in with a password" in r.stderr and not list(tmp_path.iterdir())
    finally:
        say(before)
        wait_for("the issuer is there again", lambda: begin() == 302)
