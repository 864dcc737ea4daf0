"""What a PromQL expression names: enough of its grammar to check dashboards and alert rules against the metrics that exist."""
import re

TOKEN = re.compile(r"""\s*(?:
    (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<range>\[[^\]]*\])
  | (?P<number>[0-9]+(?:\.[0-9]+)?(?![a-zA-Z_]))
  | (?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
  | (?P<op>=~|!~|!=|==|<=|>=|[-+*/%^<>=(){},])
)""", re.X)
AGGREGATIONS = {"sum", "min", "max", "avg", "count", "topk", "bottomk", "quantile", "group"}
FUNCTIONS = {"rate", "increase", "changes", "absent", "histogram_quantile", "min_over_time", "max_over_time", "avg_over_time", "time", "clamp_min"}
LISTS = {"by", "without", "on", "ignoring", "group_left", "group_right"}
WORDS = {"and", "or", "unless", "bool", "offset"}


def tokens(expr):
    at, out = 0, []
    while expr[at:].strip():
        m = TOKEN.match(expr, at)
        assert m, f"what is this: {expr[at:at + 30]!r} in {expr!r}"
        out.append((m.lastgroup, m.group(m.lastgroup)))
        at = m.end()
    return out


def uses(expr):
    """([(metric, {label: (op, value)})], {labels of by, on, …}); AssertionError: not what we understand."""
    toks, metrics, lists, depth, i = tokens(expr), [], set(), [], 0
    while i < len(toks):
        kind, t = toks[i]
        following = toks[i + 1][1] if i + 1 < len(toks) else ""
        if kind == "name" and t in LISTS:
            assert following == "(", f"{t} without a list in {expr!r}"
            end = next(k for k in range(i, len(toks)) if toks[k][1] == ")")
            lists |= {x for k, x in toks[i + 2:end] if k == "name"}
            i = end
        elif kind == "name" and (t in AGGREGATIONS or t in FUNCTIONS):
            assert following == "(" or (t in AGGREGATIONS and following in LISTS), f"{t} is called how? {expr!r}"
        elif kind == "name" and t not in WORDS:
            selectors = {}
            if following == "{":
                end = next(k for k in range(i, len(toks)) if toks[k][1] == "}")
                inside = [x for _, x in toks[i + 2:end]]
                for part in [inside[k:k + 3] for k in range(0, len(inside), 4)]:
                    assert len(part) == 3 and part[1] in ("=", "!=", "=~", "!~") and part[2].startswith('"'), f"selector {part} in {expr!r}"
                    selectors[part[0]] = (part[1], part[2][1:-1])
                i = end
            metrics.append((t, selectors))
        elif t in "({":
            depth.append(t)
        elif t in ")}":
            assert depth and depth.pop() == {")": "(", "}": "{"}[t], f"brackets of {expr!r}"
        i += 1
    assert not depth, f"brackets of {expr!r}"
    assert metrics, f"{expr!r} names no metric"
    return metrics, lists
