"""The page, in a real browser: what is on it is what Slurm says, without reloading (row E3)."""
import contextlib
import json
import os
import shutil
import tempfile

import pytest

from browser import By, Keys, StaleElementReferenceException, chromium, selenium
from harness import ROOT, wait_for
from laptop import Laptop, address, tenant

pytestmark = [pytest.mark.embedded, pytest.mark.feature("E3.2")]
SIZES = {"wide": (1280, 800), "narrow": (390, 844)}


class Browser:
    def __init__(self, pool, directory):
        self.d = chromium(directory)
        self.url = f"http://{address(pool)}"

    def size(self, name, dark=False):
        w, h = SIZES[name]
        self.d.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": w, "height": h, "deviceScaleFactor": 1, "mobile": name == "narrow"})
        self.d.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def log_in(self, password):
        self.d.get(self.url)
        wait_for("the form is there", lambda: self.d.find_element(By.ID, "login").is_displayed())
        self.d.find_element(By.NAME, "user").send_keys("researcher")
        self.d.find_element(By.NAME, "password").send_keys(password + Keys.ENTER)
        wait_for("it is logged in", lambda: self.d.find_element(By.ID, "nav").is_displayed())

    def log_in_again(self, pool):
        """The test before may have logged out."""
        if not self.d.find_element(By.ID, "nav").is_displayed():
            self.log_in(pool.cmd("user", "password", "researcher").stdout.strip())

    def go(self, view):
        self.d.execute_script(f"location.hash = '{view}'")

    def text(self):
        return self.d.execute_script("return document.querySelector('#view').innerText")

    def shows(self, what, seconds=30):
        wait_for(f"the page shows {what!r}", lambda: what in self.text(), seconds)

    def press(self, label):
        """A button, by the keyboard. A view that is drawn anew meanwhile keeps the keyboard's place."""
        find = "return [...document.querySelectorAll('#view button')].some(b => b.getAttribute('aria-label') === arguments[0] && (b.focus(), true))"
        wait_for(f"a button {label!r}", lambda: self.d.execute_script(find, label))
        selenium.ActionChains(self.d).send_keys(Keys.ENTER).perform()

    def picture(self, name):
        """Kept in docs/ when somebody asks for it."""
        if os.environ.get("TD_WRITE_PICTURES"):
            os.makedirs(ROOT / "docs/pictures", exist_ok=True)
            self.d.save_screenshot(str(ROOT / f"docs/pictures/{name}.png"))

    def fits(self):
        """Nothing is wider than the window."""
        return self.d.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


@pytest.fixture(scope="module")
def browser(shared_pool):
    directory = tempfile.mkdtemp(prefix="tandem-t-browser-", dir="/var/tmp")
    b = Browser(shared_pool, directory)
    b.size("wide")
    b.log_in(shared_pool.cmd("user", "password", "researcher").stdout.strip())
    yield b
    said = [m for m in b.d.get_log("browser") if m["level"] == "SEVERE" and "401" not in m["message"]]
    other = b.d.execute_script("return performance.getEntriesByType('resource').map(e => new URL(e.name).origin).filter(o => o !== location.origin)")
    with contextlib.suppress(Exception):
        b.d.quit()
    shutil.rmtree(directory, ignore_errors=True)
    assert said == [] and other == [], "no errors, and nothing from elsewhere"


@pytest.fixture
def me(pool, tmp_path):
    return Laptop(pool, tmp_path / "laptop", "researcher")


@pytest.mark.feature("E3.3", "E3.7")
def test_the_pool_gpu_by_gpu_as_it_changes(pool, me, browser):
    browser.go("pool")
    nodes, gpus = pool.instance["nodes"], pool.instance["gpus"]
    browser.shows(f"{nodes * gpus} GPUs free")
    run = me.submit("--no-code", "--gpus", "3", "--name", "train-resnet", "--", "exec sleep 1000")
    wait_for("its GPUs are marked as mine, without a reload", lambda: len(browser.d.find_elements(By.CSS_SELECTOR, ".gpus li.mine")) == 3)
    first = browser.d.execute_script("return document.querySelector('.gpus li.mine').getAttribute('aria-label')")
    assert "researcher, train-resnet" in first and "job" in first
    browser.shows("3 in use")
    job, said = first.split("(job ")[1].split(")")[0], "no output and no GPU use for 1800 s"
    now = pool.shell("date", "-u", "+%Y-%m-%dT%H:%M:%SZ").strip()
    pool.shell("scontrol", "update", f"jobid={job}", f"admincomment=tandem: hangs on n0: {said}; stacks: tandem-hang-{job}-n0.txt; seen {now}")
    for view in ("queue", "runs"):
        browser.go(view)
        browser.shows(f"hangs on n0: {said} (seen ")
        assert "hangs" in browser.d.execute_script("return [...document.querySelectorAll('#view .state.bad')].map(e => e.innerText)"), view
    assert "hangs on n0" in me.run("ps").stdout and f"~/tandem/runs/{run}/tandem-hang-{job}-n0.txt" in "".join(me.run("ps").stdout.split())
    browser.go("pool")
    browser.shows("3 in use")
    pool.shell("scontrol", "update", "nodename=n3", "state=drain", "reason=a fan is loud")
    pool.cmd("fault", "n2", "gpu5", "temp=95")
    try:
        browser.shows("1 GPU not healthy")
        assert "95" in browser.d.execute_script("return document.querySelector('[aria-label=\"node n2\"] .gpus li.sick').getAttribute('aria-label')")
        assert browser.d.execute_script("return document.querySelectorAll('.gpus li.sick').length") == 1
        browser.shows("a fan is loud")
        for dark in (False, True):
            for size in SIZES:
                browser.size(size, dark)
                assert browser.fits(), size
                browser.picture(f"pool-{size}{'-dark' if dark else ''}")
    finally:
        browser.size("wide")
        pool.shell("scontrol", "update", "nodename=n3", "state=undrain")
        pool.cmd("fault", "n2", "--clear")
    wait_for("it is healthy", lambda: not browser.d.find_elements(By.CSS_SELECTOR, ".gpus li.sick") and "not healthy" not in browser.text())
    me.run("cancel", run)
    wait_for("they are free again", lambda: not browser.d.find_elements(By.CSS_SELECTOR, ".gpus li.mine"))
    # The health policy had taken the node out.
    wait_for("its node works again", lambda: pool.idle_nodes() == nodes and not pool.annotation("n2", "faults") and pool.in_service("n2"))


@pytest.mark.feature("E3.4")
def test_the_queue_says_why_in_words(pool, me, browser):
    browser.go("queue")
    browser.shows("Nothing runs and nothing waits.")
    nodes, gpus = pool.instance["nodes"], pool.instance["gpus"]
    job = pool.sbatch(f"-N{nodes}", f"--gres=gpu:{gpus}", "-J", "<img src=x onerror=alert(1)>", "--uid=researcher", "--gid=researcher")
    waits = me.submit("--no-code", "--nodes", nodes, "--gpus", gpus, "--time", "1h", "--name", "next", "--", "true")
    browser.shows("<img src=x onerror=alert(1)>")
    # They change when Slurm knows when it may start.
    words = lambda: next((j["words"] for j in me.api("GET", "/jobs")[1]["jobs"] if j["state"] == "waiting" and j.get("reason") == "Resources"), None)  # noqa: E731
    wait_for("the page has the words", lambda: (w := words()) and w in browser.text())
    for size in SIZES:
        browser.size(size)
        assert browser.fits(), size
        browser.picture(f"queue-{size}")
    browser.size("wide")
    browser.press(f"Cancel job {job}")
    wait_for("it asks", lambda: browser.d.switch_to.alert).accept()
    wait_for("the job is gone and the next one ran", lambda: me.state(waits) == "done")
    browser.shows("Nothing runs and nothing waits.")


@pytest.mark.feature("E3.5")
def test_runs_with_live_logs_cancel_and_again(pool, me, browser, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code/go.sh").write_text("echo first line; while [ ! -e ~/go-on ]; do sleep 0.1; done; echo last line")
    flag = f"{pool.shared_dir}/researcher/go-on"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(flag)
    run = me.submit("--name", "live", "--", "sh go.sh", cwd=tmp_path / "code")
    browser.go("runs")
    browser.shows(run)
    browser.press(f"Log of {run}")
    browser.shows("first line")
    browser.shows("running")
    browser.picture("log-wide")
    open(flag, "w").close()
    browser.shows("last line")
    browser.shows("done")
    browser.go("runs")
    browser.press(f"Run {run} again")
    again = wait_for("a second run", lambda: next((r["id"] for r in me.json("ps")["runs"] if r["name"] == "live" and r["id"] != run), None))
    browser.shows(again)
    wait_for("it ran the same code", lambda: "last line" in me.run("logs", again).stdout)
    slow = me.submit("--no-code", "--name", "slow", "--", "exec sleep 1000")
    browser.press(f"Cancel {slow}")
    wait_for("it asks", lambda: browser.d.switch_to.alert).accept()
    wait_for("it is cancelled", lambda: me.state(slow) == "cancelled")
    browser.shows("cancelled")
    for size in SIZES:
        browser.size(size)
        assert browser.fits(), size
        browser.picture(f"runs-{size}")
    browser.size("wide")
    os.unlink(flag)


@pytest.mark.feature("C10.2")
def test_keys_by_keyboard_and_log_out(pool, me, browser):
    browser.go("keys")
    browser.shows("My API keys")
    name = wait_for("the form", lambda: browser.d.find_element(By.CSS_SELECTOR, "#view input[name=name]"))
    name.send_keys("from the page" + Keys.ENTER)
    key = wait_for("the key is shown", lambda: browser.d.execute_script("return document.querySelector('#view [role=status] code')?.textContent"))
    mine = Laptop.__new__(Laptop)
    mine.__dict__.update(me.__dict__, key=key)
    assert mine.api("GET", "/whoami")[1]["user"] == "researcher"
    # From the top, the Tab key goes to the content's link, the views, and out.
    browser.d.execute_script("document.querySelector('.skip').focus()")
    seen = []
    for _ in range(8):
        selenium.ActionChains(browser.d).send_keys(Keys.TAB).perform()
        seen.append(browser.d.execute_script("return document.activeElement.textContent.trim()"))
    assert {"Pool", "Queue", "Runs", "Log out"} <= set(seen), seen
    browser.d.find_element(By.ID, "logout").click()
    wait_for("the form is back", lambda: browser.d.find_element(By.ID, "login").is_displayed())
    assert browser.d.find_element(By.TAG_NAME, "body").text.split("\n") == ["Tandem", "Log in", "User", "Password", "Log in"], "nothing is left of what was shown"
    assert browser.text() == "" and me.api("GET", "/whoami", key=False)[0] == 401
    browser.picture("login-wide")
    browser.log_in(pool.cmd("user", "password", "researcher").stdout.strip())


@pytest.mark.feature("E3.5", "D3.4")
def test_a_shell_in_the_browser(pool, me, browser):
    browser.log_in_again(pool)
    browser.go("sessions")
    wait_for("the form", lambda: browser.d.find_elements(By.CSS_SELECTOR, "#view form [type=submit]"))
    assert browser.d.find_element(By.CSS_SELECTOR, "#view form [name=otherCluster]").get_attribute("value") == ""
    gpus = browser.d.find_element(By.CSS_SELECTOR, "#view form [name=gpus]")
    gpus.clear()
    gpus.send_keys("1" + Keys.ENTER)  # a shell is the first of the kinds
    s = wait_for("it is there", lambda: me.api("GET", "/sessions")[1]["sessions"])[0]
    assert s["kind"] == "shell"
    browser.shows("ready")
    first = browser.d.current_window_handle
    def opens():
        with contextlib.suppress(StaleElementReferenceException):  # the view was drawn anew in this moment
            browser.d.find_element(By.PARTIAL_LINK_TEXT, s["id"]).click()
            return True
    wait_for("it is opened", opens)
    wait_for("its page opens", lambda: len(browser.d.window_handles) == 2)
    browser.d.switch_to.window(next(h for h in browser.d.window_handles if h != first))
    try:
        screen = lambda: browser.d.execute_script("return document.querySelector('.xterm-accessibility-tree')?.innerText || ''")  # noqa: E731
        wait_for("a prompt with the user's name", lambda: "researcher@" in screen())
        browser.d.switch_to.active_element.send_keys("echo the answer is $((6 * 7)); ls /dev/tandem-gpu*" + Keys.ENTER)
        wait_for("the answer", lambda: "the answer is 42" in screen() and "/dev/tandem-gpu0" in screen())
        browser.picture("shell-wide")
        browser.d.switch_to.active_element.send_keys("exit" + Keys.ENTER)
        wait_for("it says that it has ended", lambda: "The shell has ended" in browser.d.find_element(By.ID, "said").text)
    finally:
        browser.d.close()
        browser.d.switch_to.window(first)
    browser.shows("done")
    browser.press(f"Resume {s['id']}")
    browser.shows("ready")
    assert me.api("GET", f"/sessions/{s['id']}")[1]["path"] == s["path"]
    browser.press(f"Stop {s['id']}")
    wait_for("it asks", lambda: browser.d.switch_to.alert).accept()
    browser.shows("None.")


@pytest.mark.feature("E3.6")
def test_usage_and_tenants(pool, me, browser):
    """Figures, bars, a table and CSV of what was used, with what it costs; quotas, and who is in a tenant."""
    billing = lambda b: pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"billing": b}}))  # noqa: E731
    browser.log_in_again(pool)
    pool.apply(tenant("physics", [{"user": "researcher", "role": "admin"}, {"user": "pods"}], quota={"nvidia.com/gpu": 2, "memory": "64Gi"}, borrowing={"limit": {"nvidia.com/gpu": 4}}),
               tenant("optics", [{"user": "researcher"}], parent="physics", quota={"nvidia.com/gpu": 1}))
    try:
        wait_for("its account is there", lambda: all(t.get("status", {}).get("account") for t in pool.items("tenants")))
        job = pool.sbatch("--uid=researcher", "--gid=researcher", "-A", "physics", "--gres=gpu:4", script="#!/bin/sh\nwhile [ ! -e /home/usage-go ]; do sleep 0.1; done\nexit 1\n")
        browser.go("tenants")
        browser.shows("4 of 2, limit 6, 2 borrowed")
        wait_for("it has held its GPUs for seconds", lambda: pool.job(job).get("RunTime", "") >= "00:00:03")
        assert "in physics" in browser.text() and "64 GiB" in browser.text()
        opened = lambda: "researcher, admin" in browser.text() or (browser.d.execute_script("document.querySelector('#view [aria-label$=\"of physics\"]').focus()"),  # noqa: E731
                                                                   selenium.ActionChains(browser.d).send_keys(Keys.ENTER).perform()) and False
        wait_for("its members, by the keyboard", opened)
        for dark in (False, True):
            for size in SIZES:
                browser.size(size, dark)
                assert browser.fits(), size
                browser.picture(f"tenants-{size}{'-dark' if dark else ''}")
        browser.size("wide")
        pool.shell("touch", "/home/usage-go")
        wait_for("the job is over", lambda: pool.job(job).get("JobState") == "FAILED")
        browser.shows("0 of 2, limit 6")
        browser.shows("researcher, admin")  # what was opened stays open
        hours = wait_for("history has it", lambda: next((r["wastedGpuHours"] for r in me.api("GET", "/usage?tenant=physics")[1]["rows"] if r["wastedGpuHours"] > 0), None))
        billing({"currency": "EUR", "prices": [{"from": me.api("GET", "/usage?by=day")[1]["rows"][-1]["day"], "gpuHour": 1000}]})
        wait_for("it has a price", lambda: me.api("GET", "/usage")[1].get("currency") == "EUR")
        browser.go("usage")
        browser.shows(f"{hours:.3f}")
        cost = me.api("GET", "/usage?tenant=physics")[1]["total"]["cost"]
        assert cost >= 1000 * hours * 0.8 > 0 and f"{cost:.2f} EUR" in browser.text() and "goes on" in browser.text()
        assert "Yours, and what you lead" in browser.text() and browser.d.execute_script("return document.querySelectorAll('.chart rect.held').length") == 1
        assert "GPU hours by day" in browser.d.execute_script("return document.querySelector('.chart svg').getAttribute('aria-label')")
        for dark in (False, True):
            for size in SIZES:
                browser.size(size, dark)
                assert browser.fits(), size
                browser.picture(f"usage-{size}{'-dark' if dark else ''}")
        browser.size("wide")
        # By the keyboard: other rows, and other days.
        browser.d.execute_script("document.querySelector('#view [name=by]').focus()")
        selenium.ActionChains(browser.d).send_keys("Day" + Keys.TAB + Keys.ENTER).perform()  # the view is not drawn anew meanwhile
        today = me.api("GET", "/usage?by=day")[1]["rows"][-1]["day"]
        wait_for("a row a day", lambda: today in browser.d.execute_script("return [...document.querySelectorAll('#view tbody td:first-child')].map((c) => c.textContent)"))
        csv = browser.d.execute_async_script("const done = arguments[0]; fetch(document.querySelector('#view a[download]').href).then((r) => r.text()).then(done)")
        assert csv.splitlines()[0].startswith("day,jobs,gpu_hours,") and csv.splitlines()[-1].startswith(today)
        browser.d.execute_script("const f = document.querySelector('#view form').elements; f.from.value = f.to.value = '2020-01-01'; f.to.form.requestSubmit()")
        browser.shows("Nothing ran in these days.")
    finally:
        browser.size("wide")
        pool.shell("rm", "-f", "/home/usage-go")
        billing(None)
        pool.clean()
        pool.kubectl("delete", "tenants", "optics", "physics", "--wait=false")
        wait_for("they are gone", lambda: not pool.items("tenants"))
