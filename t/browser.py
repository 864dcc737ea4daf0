"""A real browser that nobody sees. Who imports this is skipped where there is none."""
import shutil

import pytest

selenium = pytest.importorskip("selenium.webdriver", reason="python3-selenium is not installed (tools/setup --for test)")
if not (shutil.which("chromium") and shutil.which("chromedriver")):
    pytest.skip("chromium is not installed (tools/setup --for test)", allow_module_level=True)

from selenium.common.exceptions import StaleElementReferenceException  # noqa: E402, F401 (for who imports this)
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402, F401 (for who imports this)
from selenium.webdriver.common.keys import Keys  # noqa: E402, F401


def chromium(directory):
    """One that keeps what it knows in that directory; quit() ends it. What its pages complain of is in get_log("browser")."""
    o = selenium.ChromeOptions()
    for a in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", f"--user-data-dir={directory}", "--disable-background-networking"):
        o.add_argument(a)
    o.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    o.binary_location = shutil.which("chromium")
    return selenium.Chrome(service=Service(shutil.which("chromedriver")), options=o)
