"""refused.yaml: the differences that are meant. Each entry says why and which; a difference that no entry has fails the test, and so does an entry
that no difference needs any more.

An entry: why, and in `at` a list of "topic / step / path" (a step may be a list; `*` stands for anything). Narrower by `real` and `embedded` (patterns of the values
as JSON), or by `status: "500 400"` (the two status codes; then only what goes with them is covered)."""
import dataclasses
import fnmatch
import json
import pathlib
import re

import yaml

FILE = pathlib.Path(__file__).resolve().parent / "refused.yaml"


def pattern(text):
    return re.compile("".join(".*" if c == "*" else re.escape(c) for c in text), re.S)


@dataclasses.dataclass
class Rule:
    why: str
    topic: re.Pattern
    step: re.Pattern
    path: re.Pattern
    real: re.Pattern
    embedded: re.Pattern
    status: tuple
    text: str
    used: int = 0

    def covers(self, topic, step, diff, statuses):
        path, real, ours = diff
        return bool(self.topic.fullmatch(topic) and self.step.fullmatch(step) and self.path.fullmatch(path) and (not self.status or self.status == statuses)
                    and self.real.fullmatch(json.dumps(real)) and self.embedded.fullmatch(json.dumps(ours)))


def load():
    rules = []
    for e in yaml.safe_load(FILE.read_text()):
        for at in e["at"]:
            topic, step, path = (x.strip() for x in at.split(" / "))
            rules.append(Rule(e["why"], pattern(topic), pattern(step), pattern(path), pattern(e.get("real", "*")), pattern(e.get("embedded", "*")),
                              tuple(e["status"].split()) if "status" in e else (), at))
    return rules


def judge(rules, topic, results):
    """What no rule covers: [(step, [differences])]. Marks the rules that were needed."""
    left = []
    for step, diffs in results:
        codes = next(((str(r), str(e)) for p, r, e in diffs if p == "status"), ())
        open_ = []
        for d in diffs:
            hit = [r for r in rules if r.covers(topic, step, d, codes)]
            for r in hit:
                r.used += 1
            if not hit:
                open_.append(d)
        if open_:
            left.append((step, open_))
    return left
