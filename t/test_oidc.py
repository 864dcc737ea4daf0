"""People log in by an issuer (OpenID Connect): a real one, a real browser, and who is nobody here stays out (row A15)."""
import json
import shutil
import urllib.parse

import pytest

from harness import wait_for
from issuer import PASSWORD, Issuer, Web
from laptop import address

pytestmark = [pytest.mark.embedded, pytest.mark.feature("A15.5")]


@pytest.fixture(scope="module")
def gateway(shared_pool):
    return f"http://{address(shared_pool)}"


@pytest.fixture(scope="module")
def issuer(shared_pool, gateway, tmp_path_factory):
    """The pool's people may log in by an issuer that knows them, and one whom the pool does not know."""
    i = Issuer(tmp_path_factory.mktemp("issuer"), ["researcher", "eve"], f"{gateway}/api/v1/login/oidc/callback")

    def say(oidc):
        shared_pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"identity": oidc}}))
        wait_for("the gateway knows", lambda: ("oidc" in json.loads(Web().get(f"{gateway}/api/v1/login")[2])) == bool(oidc))
    try:
        say({"oidc": {"issuer": i.url, "clientID": i.client, "gatewayURL": gateway, "name": "the lab", "scopes": ["groups"]}})
        yield i
    finally:
        say(None)
        i.stop()


def me(web, gateway):
    return json.loads(web.get(f"{gateway}/api/v1/whoami")[2]).get("user")


@pytest.mark.feature("A15.2", "E3.1")
def test_one_person_in_the_browser_in_ssh_and_in_jobs(pool, issuer, gateway, tmp_path):
    selenium = pytest.importorskip("selenium.webdriver", reason="python3-selenium is not installed (tools/setup --for test)")
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    o = selenium.ChromeOptions()
    for a in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={tmp_path}/browser", "--disable-background-networking"):
        o.add_argument(a)
    o.binary_location = shutil.which("chromium")
    d = selenium.Chrome(service=Service(shutil.which("chromedriver")), options=o)
    try:
        d.get(gateway.replace("127.0.0.1", "localhost"))  # by a name at which no cookie of the way back would be seen
        button = wait_for("the page offers it", lambda: next((b for b in d.find_elements(By.LINK_TEXT, "Log in with the lab") if b.is_displayed()), None))
        button.click()
        wait_for("the issuer asks", lambda: d.find_elements(By.ID, "username"))
        assert d.current_url.startswith(issuer.url)
        d.find_element(By.ID, "username").send_keys("researcher")
        d.find_element(By.ID, "password").send_keys(PASSWORD + Keys.ENTER)
        wait_for("it is logged in", lambda: d.find_element(By.ID, "nav").is_displayed())
        assert d.current_url == f"{gateway}/" and d.find_element(By.ID, "name").text == "researcher"
        cookies = {c["name"]: c for c in d.get_cookies()}
        assert set(cookies) == {"tandem"} and cookies["tandem"]["httpOnly"] and cookies["tandem"]["sameSite"] == "Strict"
        page = d.execute_async_script("fetch('/api/v1/whoami').then(r => r.json()).then(arguments[0])")
    finally:
        d.quit()
    login = pool.cmd("shell", "--user", "researcher", "--", "id", "-u").stdout.strip()
    job = pool.cmd("shell", "--user", "researcher", "--", "srun", "-Q", "id", "-u").stdout.strip()
    assert str(page["uid"]) == login == job == "1000"


def test_who_is_nobody_here_stays_out(pool, issuer, gateway):
    users = pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["users"]
    web = Web()
    status, headers, text = web.log_in(gateway, "eve")
    assert status == 403 and "&#34;eve&#34; is nobody on this cluster" in text and me(web, gateway) is None
    assert not [c for c in web.jar if c.name.startswith("tandem") and c.value]
    assert pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["users"] == users, "logging in makes no account"


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


def test_who_cannot_be_let_in_is_told_whose_fault_it_is(pool, issuer, gateway):
    say = lambda identity: pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"identity": identity}}))  # noqa: E731
    begin = lambda: Web().get(f"{gateway}/api/v1/login/oidc?here=1")[0]  # noqa: E731
    before = pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["identity"]
    try:
        say({"oidc": {"issuer": "http://127.0.0.1:1"}})  # where nobody listens
        wait_for("the issuer cannot be asked", lambda: begin() == 503)
        say(None)
        wait_for("there is no issuer", lambda: begin() == 501)
    finally:
        say(before)
        wait_for("the issuer is there again", lambda: begin() == 302)
