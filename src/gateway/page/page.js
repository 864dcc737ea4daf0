// The page of people. It uses the API /api/v1 and nothing else, and redraws a view when the server
// says that something has changed (/api/v1/events). Text from outside goes into the page as text only.
"use strict";

const $ = (id) => document.getElementById(id);
let me = null;       // whoami
let sent = null;     // the stream of events
let drawing = 0;     // counts draws: one that was overtaken is dropped
let open = null;     // the run whose log is shown: {id, step, stop}

// ---- building ----
function el(tag, attrs, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs || {})) {
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v === true) e.setAttribute(k, "");
    else if (v !== false && v != null) e.setAttribute(k, v);
  }
  for (const c of children.flat()) if (c != null && c !== false) e.append(c);
  return e;
}

const pad = (n) => String(n).padStart(2, "0");

function when(epoch) {
  const d = new Date(epoch * 1000), now = new Date();
  const time = `${pad(d.getHours())}:${pad(d.getMinutes())}`;
  if (d.toDateString() === now.toDateString()) return time;
  if (Math.abs(d - now) < 180 * 86400e3) return `${d.toLocaleDateString("en", {month: "short", day: "numeric"})} ${time}`;
  return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())}`;
}

function age(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  if (s < 48 * 3600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} days`;
}

const since = (epoch) => age(Date.now() / 1000 - epoch);
const colour = (state) => ({running: "good", done: "good", ready: "good", waiting: "warn", starting: "warn", reclaimed: "warn", unknown: "soft", stopped: "soft"}[state] || "bad");
const chip = (state) => el("span", {class: `state ${colour(state)}`}, state);

// ---- the API ----
async function api(method, path, body) {
  const r = await fetch(`/api/v1${path}`, {
    method, credentials: "same-origin",
    headers: {"X-Tandem": "page", ...(body ? {"Content-Type": "application/json"} : {})},
    body: body ? JSON.stringify(body) : undefined,
  });
  const reply = await r.json().catch(() => ({}));
  if (r.status === 401 && path !== "/login") {
    logged_out();
    throw Object.assign(new Error("log in again"), {status: 401});
  }
  if (!r.ok) throw new Error(reply.error ? reply.error.message : `HTTP ${r.status}`);
  return reply;
}

function problem(e) {
  $("problem").textContent = e ? e.message || String(e) : "";
  $("problem").hidden = !e;
}

// Does what a button asks for, and draws anew.
async function act(what) {
  try {
    problem(null);
    await what();
  } catch (e) {
    problem(e);
  }
  draw();
}

// ---- views ----
async function pool() {
  const {nodes} = await api("GET", "/pool");
  const gpus = nodes.flatMap((n) => n.gpus);
  const used = gpus.filter((g) => g.used).length;
  const mine = gpus.filter((g) => g.user === me.user).length;
  const out = nodes.filter((n) => !n.usable).length, sick = gpus.filter((g) => g.fault).length;
  const figure = (n, words) => el("li", {}, el("b", {}, String(n)), " ", el("span", {}, words));
  return [
    el("h2", {}, "Pool"),
    el("ul", {class: "sum"}, figure(gpus.length - used, "GPUs free"), figure(used, "in use"), figure(mine, "of them yours"), figure(nodes.length, "nodes"), out ? figure(out, "out of use") : null, sick ? figure(sick, sick === 1 ? "GPU not healthy" : "GPUs not healthy") : null),
    el("div", {class: "nodes"}, nodes.map(node)),
  ];
}

function node(n) {
  const held = new Map();
  for (const g of n.gpus) {
    if (!g.used) continue;
    const key = g.job || "hidden";
    if (!held.has(key)) held.set(key, {...g, gpus: []});
    held.get(key).gpus.push(g.index);
  }
  const bad = n.gpus.filter((g) => g.fault);
  const wrong = [...bad.map((g) => `GPU ${g.index}: ${g.fault}`), ...(n.faults || []), n.needsPerson && `Needs a person: ${n.needsPerson}`].filter(Boolean);
  const title = (g) => has(g) + (g.fault ? `; not healthy: ${g.fault}` : "");
  const has = (g) => !g.used ? `GPU ${g.index}${g.type ? ` (${g.type})` : ""}: free` : g.shares ? `GPU ${g.index}: ${g.share} hundredths in use${g.shares.map((x) => `, ${x.share} by ${x.user}, ${x.name} (job ${x.job})`).join("")}` : g.job ? `GPU ${g.index}: ${g.user}, ${g.name} (job ${g.job}), since ${when(g.since)}` : `GPU ${g.index}: in use`;
  return el("article", {class: "card node", "aria-label": `node ${n.name}`},
    el("h3", {}, n.name, chip_of_node(n)),
    n.gpus.length ? el("ul", {class: `gpus${n.usable || n.gpus.some((g) => g.used) ? "" : " out"}`, "aria-label": "GPUs"}, n.gpus.map((g) =>
      el("li", {class: [g.used && (g.user === me.user ? "mine" : "used"), g.fault && "sick"].filter(Boolean).join(" "), title: title(g), "aria-label": title(g)}, String(g.index)))) : null,
    held.size ? el("ul", {class: "who-has"}, [...held.values()].map((h) =>
      el("li", {}, el("span", {title: h.name || ""}, h.job ? `${h.user}: ${h.name}` : "somebody"), el("span", {class: "num"}, `GPU ${ranges(h.gpus)}${h.since ? `, ${since(h.since)}` : ""}`)))) : null,
    el("p", {}, `${n.cpusUsed} of ${n.cpus} CPUs, ${Math.round(n.memoryUsedMiB / 1024)} of ${Math.round(n.memoryMiB / 1024)} GiB`),
    n.reason && !n.usable ? el("p", {class: "warn"}, n.reason) : null,
    wrong.length ? el("ul", {class: "wrong", "aria-label": `what is wrong with ${n.name}`}, wrong.map((w) => el("li", {}, w))) : null);
}

const chip_of_node = (n) => el("span", {class: `state ${!n.healthy ? "bad" : n.usable ? "good" : "warn"}`}, n.state);

function ranges(v) {
  const out = [];
  for (let i = 0; i < v.length;) {
    let k = i;
    while (k + 1 < v.length && v[k + 1] === v[k] + 1) k++;
    out.push(k > i ? `${v[i]}–${v[k]}` : `${v[i]}`);
    i = k + 1;
  }
  return out.join(", ");
}

function table(heads, rows, nothing) {
  if (!rows.length) return el("p", {class: "empty"}, nothing);
  return el("div", {class: "scroll"}, el("table", {},
    el("thead", {}, el("tr", {}, heads.map((h) => el("th", {scope: "col"}, h)))),
    el("tbody", {}, rows)));
}

const cell = (head, content, cls) => el("td", {"data-h": head || false, class: cls || false}, content);

async function queue() {
  const {jobs} = await api("GET", "/jobs");
  const rank = {running: 0, starting: 0, suspended: 0, waiting: 1};
  const live = jobs.filter((j) => j.state in rank).sort((a, b) => rank[a.state] - rank[b.state] || a.id - b.id);
  const waits = live.filter((j) => j.state === "waiting").length;
  const row = (j) => el("tr", {},
    cell("Job", j.array && j.tasks ? `${j.array}_[${j.tasks}]` : j.array ? `${j.array}_${j.task}` : String(j.id), "num"),
    cell("", j.name), cell("User", j.user), cell("", chip(state_of(j))),
    cell("", j.state === "waiting" ? j.words + (j.expected ? `; expected ${when(j.expected)}` : "") : `${(j.on || []).map((o) => o.node).join(", ")}${j.started ? `, since ${since(j.started)}` : ""}${goes(j) ? `; ${goes(j)}` : ""}`),
    cell("", j.user === me.user ? el("button", {type: "button", "aria-label": `Cancel job ${j.id}`, onclick: () => confirm(`Cancel job ${j.id}, ${j.name}?`) && act(() => api("DELETE", `/jobs/${j.array || j.id}`))}, "Cancel") : ""));
  return [
    el("h2", {}, "Queue"),
    el("p", {class: "soft"}, `${live.length - waits} run, ${waits} wait.`),
    table(["Job", "Name", "User", "State", "Where, or why it waits", ""], live.slice(0, 1000).map(row), "Nothing runs and nothing waits."),
  ];
}

// How a job goes: that it hangs, that a rank is slow, that it was queued again, and from where it goes on.
function goes(j) {
  const parts = [];
  const seen = (o) => o.seen ? ` (seen ${when(o.seen)})` : "";
  if (j.hangs) parts.push(`hangs on ${j.hangs.node || "?"}: ${j.hangs.words}${seen(j.hangs)}${j.hangs.stacks ? `, stacks: ${j.hangs.stacks.join(", ")}` : ""}`);
  if (j.straggler) parts.push(`waits for a slow rank: ${j.straggler.words}${seen(j.straggler)}`);
  if (j.restarts) {
    const a = j.again || {};
    parts.push(`queued again${j.restarts > 1 ? ` ${j.restarts} times` : ""}${a.at ? `${j.restarts > 1 ? ", the last time" : ""} at ${when(a.at)}` : ""}${a.why ? `, because ${a.node ? `${a.node}: ` : ""}${a.why}` : ""}`);
    if (a.checkpoint) parts.push(`goes on from checkpoint ${a.checkpoint}`);
  }
  return (parts.length && j.task !== undefined && !j.user ? `task ${j.task}: ` : "") + parts.join("; ");
}

// The state of a job as people see it.
const state_of = (j) => j.state !== "running" ? j.state : j.hangs ? "hangs" : j.straggler ? "slow" : j.state;

const live = (state) => state === "waiting" || state === "running" || state === "starting";

function about(s) {
  const parts = [];
  if (s.tasks) parts.push(`${s.tasks} tasks: ${s.tasksDone || 0} done, ${s.tasksFailed || 0} failed, ${s.tasksRunning || 0} running`);
  if (s.state === "waiting") parts.push((s.words || "") + (s.expected ? `; expected ${when(s.expected)}` : ""));
  else if (s.state === "running" && s.started) parts.push(`on ${(s.on || []).map((o) => o.node).join(", ") || "?"} since ${since(s.started)}`);
  else if (s.ended) parts.push(`ended ${when(s.ended)}${s.started ? `, after ${age(s.ended - s.started)}` : ""}`);
  if (s.cause) parts.push(s.cause);
  if (goes(s)) parts.push(goes(s));
  return parts.join("; ");
}

// The last that a step wrote before it failed.
const last = (s) => s.lines && s.lines.length ? el("pre", {class: "last"}, s.lines.join("\n")) : null;

async function runs() {
  const {runs: all, problem: said} = await api("GET", "/runs");
  if (said) problem(said);
  const rows = all.flatMap((r) => {
    const one = r.steps.length === 1 ? r.steps[0] : null;
    const buttons = el("div", {class: "acts"},
      r.steps.length ? el("button", {type: "button", "aria-label": `Log of ${r.id}`, onclick: () => { location.hash = `runs/${r.id}`; }}, "Log") : null,
      r.steps.length ? el("button", {type: "button", "aria-label": `TensorBoard of ${r.id}`, onclick: () => act(async () => { await api("POST", "/sessions", {kind: "tensorboard", run: r.id}); location.hash = "sessions"; })}, "TensorBoard") : null,
      live(r.state) ? el("button", {type: "button", "aria-label": `Cancel ${r.id}`, onclick: () => confirm(`Cancel ${r.id}?`) && act(() => api("POST", `/runs/${r.id}/cancel`))}, "Cancel")
                    : el("button", {type: "button", "aria-label": `Run ${r.id} again`, onclick: () => act(() => api("POST", `/runs/${r.id}/again`, {request: crypto_id()}))}, "Again"));
    return [el("tr", {}, cell("", el("b", {}, r.id)), cell("", chip(one ? state_of(one) : r.state)), cell("Job", one ? String(one.job) : "", "num"), cell("", one ? [about(one), last(one)] : r.refused ? `refused: ${r.refused}` : ""), cell("Submitted", when(r.created), "num"), cell("", buttons)),
      ...(one ? [] : r.steps.map((s) => el("tr", {class: "step"}, cell("", `↳ ${s.name}`), cell("", chip(state_of(s))), cell("Job", String(s.job), "num"), cell("", [about(s), last(s)]), cell("", ""),
        cell("", el("button", {type: "button", "aria-label": `Log of ${r.id}, step ${s.name}`, onclick: () => { location.hash = `runs/${r.id}/${s.name}`; }}, "Log")))))];
  });
  return [el("h2", {}, "My runs"), table(["Run", "State", "Job", "", "Submitted", ""], rows, el("span", {}, "No runs yet. From a project's directory: ", el("code", {}, "tandem submit --gpus 1 -- python3 train.py")))];
}

function crypto_id() {
  const v = new Uint8Array(16);
  crypto.getRandomValues(v);
  return [...v].map((b) => b.toString(16).padStart(2, "0")).join("");
}

// A log that grows: it is read on until the run has ended, or the view is left.
async function run_log(id, step) {
  const text = el("pre", {tabindex: "0", "aria-label": `Log of ${id}`, id: "log"});
  const state = el("span", {id: "log-state"});
  const stop = new AbortController();
  open = {id, step, stop, state};
  follow(id, step, text, stop.signal).catch((e) => { if (!stop.signal.aborted) problem(e); });
  await refresh_state();
  return [el("h2", {}, id, step ? ` / ${step} ` : " ", state), el("p", {}, el("a", {href: "#runs"}, "All runs")), text];
}

async function refresh_state() {
  if (!open) return;
  const {id, step, state} = open;
  const r = await api("GET", `/runs/${id}`);
  const s = (step ? r.steps.find((x) => x.name === step) : r.steps[0]) || {};
  state.replaceChildren(chip(s.state || r.state), " ", el("small", {class: "soft"}, about(s)));
}

async function follow(id, step, text, signal) {
  const r = await fetch(`/api/v1/runs/${id}/log?follow=1${step ? `&step=${encodeURIComponent(step)}` : ""}`, {credentials: "same-origin", signal});
  if (!r.ok) throw new Error((await r.json().catch(() => ({}))).error?.message || `HTTP ${r.status}`);
  const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const down = text.scrollTop + text.clientHeight >= text.scrollHeight - 20;
    text.append(value);
    if (text.textContent.length > 2_000_000) text.textContent = `… (the whole log: tandem logs ${id})\n` + text.textContent.slice(-1_500_000);
    if (down) text.scrollTop = text.scrollHeight;
  }
}

async function keys() {
  const all = (await api("GET", "/keys")).keys;
  const shown = el("p", {role: "status"});
  const form = el("form", {class: "bar", onsubmit: async (e) => {
    e.preventDefault();
    try {
      const {key} = await api("POST", "/keys", {name: form.elements.name.value});
      shown.replaceChildren("The new key, shown this once: ", el("code", {}, key));
      form.reset();
    } catch (x) { problem(x); }
  }}, el("label", {}, "What the new key is for ", el("input", {name: "name", required: true, maxlength: "64"})), el("button", {type: "submit"}, "Make a key"));
  const row = (k) => el("tr", {}, cell("Key", el("code", {}, k.id)), cell("For", k.name), cell("Made", when(k.created), "num"), cell("Ends", k.expires ? when(k.expires) : "never", "num"),
    cell("", el("button", {type: "button", "aria-label": `Revoke key ${k.id}`, onclick: () => confirm(`Revoke key ${k.id}, ${k.name}?`) && act(() => api("DELETE", `/keys/${k.id}`))}, "Revoke")));
  return [el("h2", {}, "My API keys"), form, shown, table(["Key", "For", "Made", "Ends", ""], all.map(row), "You have none.")];
}

const KINDS = [["shell", "Shell"], ["jupyter", "JupyterLab"], ["vscode", "VS Code"], ["tensorboard", "TensorBoard of all runs"], ["endpoint", "HTTP server"], ["batch", "Program that ends"]];
const over = (state) => ["done", "failed", "reclaimed", "stopped"].includes(state);
const own = (kind) => !["endpoint", "batch"].includes(kind);

// The second field is what the kind needs.
function name_what(form) {
  const kind = form.elements.kind.value;
  form.querySelector(".what").textContent = own(kind) ? "Environment (a directory, may be empty)" : kind === "batch" ? "Command" : "Command that serves HTTP at $PORT";
  form.elements.what.required = !own(kind);
  form.querySelector(".replicas").hidden = kind !== "endpoint";
  form.querySelector(".nodes").hidden = kind === "tensorboard";
}

const load_of = (r) => r && [`${r.inFlight} waiting`, r.perMinute && `${r.perMinute} a minute, half of them within ${r.p50Ms} ms, 95 % within ${r.p95Ms} ms`].filter(Boolean).join(", ");

const replicas_of = (r) => [r.asked && `${r.ready}/${r.asked} ready`, ...r.each.map((p) => [`${p.number}`, p.unreached ? "not reached" : p.state, p.node && `on ${p.node}`].filter(Boolean).join(" "))].filter(Boolean).join(", ");

const nodes_of = (r) => [`${r.ready}/${r.asked} nodes ready`, ...r.each.map((p) => [`${p.number}`, p.state, p.node && `on ${p.node}`].filter(Boolean).join(" "))].join(", ");

async function sessions() {
  const {sessions: all, problem: said} = await api("GET", "/sessions");
  const form = el("form", {class: "bar", onsubmit: (e) => {
    e.preventDefault();
    const f = form.elements;
    const given = {kind: f.kind.value, gpus: Number(f.gpus.value), [own(f.kind.value) ? "env" : "command"]: f.what.value, replicas: f.kind.value === "endpoint" && f.replicas.value ? Number(f.replicas.value) : "", nodes: f.kind.value !== "tensorboard" && Number(f.nodes.value) > 1 ? Number(f.nodes.value) : "", otherCluster: f.otherCluster.value.trim()};
    act(() => api("POST", "/sessions", Object.fromEntries(Object.entries(given).filter(([, v]) => v !== ""))));
  }},
  el("label", {}, "What ", el("select", {name: "kind", onchange: () => name_what(form)}, KINDS.map(([k, words]) => el("option", {value: k}, words)))),
  el("label", {}, el("span", {class: "what"}), " ", el("input", {name: "what", size: "34"})),
  el("label", {}, "GPUs ", el("input", {name: "gpus", type: "number", min: "0", max: "64", value: "0"})),
  el("label", {class: "nodes"}, "Nodes ", el("input", {name: "nodes", type: "number", min: "1", max: "16", value: "1", title: "GPUs are those of each node"})),
  el("label", {class: "replicas"}, "Replicas ", el("input", {name: "replicas", type: "number", min: "1", max: "16"})),
  el("label", {}, "Other cluster ", el("input", {name: "otherCluster", size: "10", pattern: "[a-z0-9]([\\-a-z0-9.]*[a-z0-9])?", title: "The name of another cluster of this pool (a NodeSet), whose nodes it is to have; empty: it is in this one"})),
  el("button", {type: "submit"}, "Start"));
  const row = (s) => el("tr", {},
    cell("", s.state === "ready" && s.path ? el("a", {href: s.path, target: "_blank", rel: "noopener"}, s.id) : s.id), cell("", chip(s.state)),
    cell("", [s.words, s.nodes ? nodes_of(s.nodes) : s.replicas ? replicas_of(s.replicas) : s.node && `on ${s.node}`, s.otherCluster && `in the other cluster ${s.otherCluster}${s.home === "empty" ? ", its home is empty and ends with it" : ""}`, s.cluster && `at cluster ${s.cluster}`, load_of(s.requests), s.begins && `begins ${when(s.begins)}`, s.ended && `ended ${when(s.ended)}`, s.ends && `ends ${when(s.ends)} unless that changes: ${s.endsBecause}`, s.useUnknown && `not ended for low use, for that is not known: ${s.useUnknown}`].filter(Boolean).join("; ")), cell("", el("code", {}, s.command)),
    cell("", el("div", {class: "acts"},
      over(s.state) ? el("button", {type: "button", "aria-label": `Resume ${s.id}`, onclick: () => act(() => api("POST", `/sessions/${s.id}/resume`))}, "Resume") : null,
      over(s.state) ? el("button", {type: "button", "aria-label": `Remove ${s.id}`, onclick: () => act(() => api("DELETE", `/sessions/${s.id}`))}, "Remove")
        : el("button", {type: "button", "aria-label": `Stop ${s.id}`, onclick: () => confirm(`Stop ${s.id}?`) && act(() => api("DELETE", `/sessions/${s.id}`))}, "Stop"))));
  // Somebody may be typing: the form stays, and only the list is new.
  const old = $("view").querySelector("form.bar [name=what]");
  if (old) for (const n of ["kind", "what", "gpus", "nodes", "replicas", "otherCluster"]) form.elements[n].value = old.form.elements[n].value;
  name_what(form);
  return [el("h2", {}, "Sessions"), said ? el("p", {class: "soft"}, said) : form, table(["Session", "State", "", "Command", ""], all.map(row), "None.")];
}

// ---- drawing ----
const views = {pool, queue, runs, sessions, usage, tenants, keys}; // usage, tenants: usage.js

function where() {
  const [view, id, step] = location.hash.slice(1).split("/").map(decodeURIComponent);
  return {view: view in views ? view : "pool", id, step};
}

async function draw(changed) {
  const {view, id, step} = where();
  for (const a of $("nav").children) {
    if (a.getAttribute("href") === `#${view}`) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  if (view === "runs" && id) {
    if (open && open.id === id && open.step === step) return refresh_state().catch(problem);
  } else if (changed && (view === "keys" || view === "usage" || (view === "sessions" && document.activeElement?.form))) {
    return; // nothing there changes by itself, and somebody may be typing
  }
  const mine = ++drawing; // what only refreshes a view must not overtake the one that draws it
  if (open) open.stop.abort();
  open = null;
  try {
    const parts = view === "runs" && id ? await run_log(id, step) : await views[view]();
    if (mine !== drawing) return;
    const had = document.activeElement && $("view").contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    $("view").replaceChildren(...parts);
    // The keyboard stays where it was.
    if (had) [...$("view").querySelectorAll("[aria-label]")].find((e) => e.getAttribute("aria-label") === had)?.focus();
  } catch (e) {
    if (mine === drawing && me) problem(e);
  }
}

function listen() {
  if (sent) sent.close();
  sent = new EventSource("/api/v1/events");
  sent.addEventListener("change", () => { problem(null); draw(true); });
  sent.onerror = () => { if (me) problem("The gateway does not answer; this page tries on."); };
}

// The site may have a login of its own.
async function ways() {
  const {oidc} = await api("GET", "/login").catch(() => ({}));
  $("login-oidc").hidden = !oidc;
  $("login-oidc").firstElementChild.textContent = oidc ? `Log in with ${oidc}` : "";
}

function logged_out() {
  me = null;
  ways();
  if (sent) sent.close();
  if (open) open.stop.abort();
  open = null;
  $("login").hidden = false;
  for (const id of ["view", "nav", "who"]) $(id).hidden = true;
  $("view").replaceChildren();
}

async function start() {
  try {
    me = await api("GET", "/whoami");
  } catch (e) {
    if (e.status === 401) return;
    problem("The gateway does not answer; this page tries on."); // who is logged in stays so
    return setTimeout(start, 2000);
  }
  problem(null);
  $("name").textContent = me.user;
  $("login").hidden = true;
  for (const id of ["view", "nav", "who"]) $(id).hidden = false;
  listen();
  draw();
}

$("login-form").addEventListener("submit", async (e) => {
  e.preventDefault();
  const f = e.target.elements;
  try {
    await api("POST", "/login", {user: f.user.value, password: f.password.value});
    e.target.reset();
    await start();
  } catch (x) {
    problem(x);
  }
});
$("logout").addEventListener("click", async () => {
  await api("POST", "/logout").catch(() => {});
  logged_out();
});
window.addEventListener("hashchange", () => { problem(null); draw(); $("main").focus(); });
setInterval(() => { if (me && !document.hidden) draw(true); }, 30000); // ages grow
start();
