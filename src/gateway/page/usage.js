// Two views of the page: what people and tenants have used, and tenants with their quotas. page.js draws them.
"use strict";

const DAY_MS = 86400e3;
const day_text = (ms) => new Date(ms).toISOString().slice(0, 10);
const hours = (n) => n === 0 ? "0" : n < 0.095 ? n.toFixed(3) : n < 100 ? n.toFixed(1) : Math.round(n).toLocaleString("en");

// What is shown: kept while the page is open.
const usage_of = {from: "", to: "", by: "tenant,user"};
const BY = [["tenant,user", "Tenant and user"], ["tenant", "Tenant"], ["user", "User"], ["day", "Day"], ["type", "Type of GPU"]];

// Days of a range as the API takes it: its end does not count.
const after = (day) => day_text(Date.parse(day) + DAY_MS);

function svg(tag, attrs, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
  e.append(...children.filter((c) => c != null));
  return e;
}

// Bars of GPU hours by day, with what was wasted at their foot. The same figures are in the table by day.
function chart(rows, from, to) {
  const of = new Map(rows.map((r) => [r.day, r]));
  const days = [];
  for (let t = Date.parse(from); t < Date.parse(to) && days.length < 400; t += DAY_MS) days.push(day_text(t));
  const most = Math.max(...rows.map((r) => r.gpuHours), 0);
  if (!most) return el("p", {class: "empty"}, "No GPU was held in these days.");
  const W = 1000, H = 190, LOW = 22, TOP = 16, step = W / days.length, wide = Math.max(1, step * 0.78);
  const tall = (n) => n / most * (H - LOW - TOP);
  const bars = days.flatMap((d, i) => {
    const r = of.get(d);
    if (!r || !r.gpuHours) return [];
    const x = i * step + (step - wide) / 2, title = svg("title", {}, `${d}: ${hours(r.gpuHours)} GPU hours, ${hours(r.wastedGpuHours)} of them wasted, ${hours(r.idleGpuHours)} idle`);
    return [svg("rect", {class: "held", x, y: H - LOW - tall(r.gpuHours), width: wide, height: tall(r.gpuHours), rx: 2}, title),
      ...(r.wastedGpuHours ? [svg("rect", {class: "lost", x: x + wide * 0.2, y: H - LOW - tall(r.wastedGpuHours), width: wide * 0.6, height: tall(r.wastedGpuHours)})] : [])];
  });
  const sum = rows.reduce((n, r) => n + r.gpuHours, 0);
  return el("figure", {class: "card chart"},
    svg("svg", {viewBox: `0 0 ${W} ${H}`, role: "img", preserveAspectRatio: "none", "aria-label": `GPU hours by day from ${from}: ${hours(sum)} together, at most ${hours(most)} on one day`},
      svg("line", {class: "axis", x1: 0, x2: W, y1: H - LOW, y2: H - LOW}), ...bars),
    el("p", {class: "axis-words"}, el("span", {}, days[0]), el("span", {}, days[days.length - 1])),
    el("figcaption", {}, el("span", {class: "key held"}), `GPU hours by day, at most ${hours(most)}`, el("span", {class: "key lost"}), "wasted"));
}

const query = (more) => new URLSearchParams({from: usage_of.from, to: after(usage_of.to), ...more}).toString();

async function usage() {
  if (!usage_of.from) {
    usage_of.to = day_text(Date.now());
    usage_of.from = day_text(Date.now() - 29 * DAY_MS);
  }
  const [days, table_of, {bills}] = await Promise.all([api("GET", `/usage?${query({by: "day"})}`), api("GET", `/usage?${query({by: usage_of.by})}`), api("GET", "/bills")]);
  const priced = "currency" in table_of, paid = (n) => money(n, table_of.currency);
  const form = el("form", {class: "bar", onsubmit: (e) => {
    e.preventDefault();
    for (const n of ["from", "to", "by"]) usage_of[n] = form.elements[n].value;
    draw();
  }},
  el("label", {}, "From ", el("input", {name: "from", type: "date", required: true, value: usage_of.from})),
  el("label", {}, "To, with that day ", el("input", {name: "to", type: "date", required: true, value: usage_of.to})),
  el("label", {}, "Rows ", el("select", {name: "by"}, BY.map(([k, words]) => el("option", {value: k, selected: k === usage_of.by}, words)))),
  el("button", {type: "submit"}, "Show"),
  el("a", {href: `/api/v1/usage?${query({by: usage_of.by, format: "csv"})}`, download: true}, "Download CSV"));
  const by = usage_of.by.split(",");
  const heads = {day: "Day", tenant: "Tenant", user: "User", type: "Type"};
  const name = (r, k) => k === "tenant" ? r.tenant || `(${r.account || "none"})` : k === "type" ? r.gpuType || "(no type)" : r[k];
  const row = (r) => el("tr", {}, by.map((k) => cell(heads[k], name(r, k))), cell("Jobs", String(r.jobs), "num"), cell("GPU hours", hours(r.gpuHours), "num"), cell("CPU hours", hours(r.cpuHours), "num"),
    cell("Wasted GPU hours", hours(r.wastedGpuHours), "num"), cell("Idle GPU hours", hours(r.idleGpuHours), "num"), cell("Waited", hours(r.waitingHours), "num"), priced ? cell("Cost", paid(r.cost), "num") : null);
  const rows = [...table_of.rows].sort((a, b) => by[0] === "day" ? (a.day < b.day ? 1 : -1) : b.gpuHours - a.gpuHours || b.cpuHours - a.cpuHours);
  const t = table_of.total, figure = (n, words) => el("li", {}, el("b", {}, n), " ", el("span", {}, words));
  const whose = {own: "Yours", tenants: "Yours, and what you lead", everybody: "Everybody's"}[table_of.shows];
  return [
    el("h2", {}, "Usage"), form,
    el("ul", {class: "sum"}, figure(hours(t.gpuHours), "GPU hours"), figure(hours(t.wastedGpuHours), "of them wasted"), figure(hours(t.idleGpuHours), "of them idle"), figure(hours(t.cpuHours), "CPU hours"), figure(String(t.jobs), "jobs"), figure(hours(t.waitingHours), "hours waited"), priced ? figure(paid(t.cost), "cost") : null),
    el("p", {class: "soft"}, `${whose}. Days are those of UTC. Wasted is what ended by an error of its own, a failed node or test, preemption or a requeue. Idle is how long the GPUs of pods that have ended computed nothing.`),
    chart(days.rows, days.from, days.to),
    table([...by.map((k) => heads[k]), "Jobs", "GPU hours", "CPU hours", "Wasted", "Idle", "Hours waited", ...(priced ? ["Cost"] : [])], rows.slice(0, 2000).map(row), "Nothing ran in these days."),
    ...(bills.length ? bills_part(bills) : []),
  ];
}

const money = (n, currency) => `${n.toLocaleString("en", {minimumFractionDigits: 2, maximumFractionDigits: 2})}${currency ? ` ${currency}` : ""}`;

function bills_part(bills) {
  const row = (b) => el("tr", {}, cell("", el("b", {}, b.period)), cell("", el("span", {class: `state ${b.open ? "warn" : "good"}`}, b.open ? "goes on" : "fixed")), cell("From", b.from, "num"), cell("Before", b.to, "num"),
    cell("Made", b.made ? when(b.made) : "", "num"), cell("Amount", money(b.total, b.currency), "num"),
    cell("", el("a", {href: `/api/v1/bills/${b.period}?format=csv`, download: true, "aria-label": `Bill of ${b.period} as CSV`}, "CSV")));
  return [el("h3", {}, "Bills"), el("p", {class: "soft"}, "The bill of a period that is over never changes. The one of a period that goes on is a preview."),
    table(["Period", "", "From", "Before", "Made", "Amount", ""], bills.map(row), "")];
}

// ---- tenants ----
function amount(resource, n) {
  if (n == null) return "parent's";
  const storage = resource === "storage" || resource.endsWith("/requests.storage");
  if (storage) n = Math.round(n / 1048576);
  return storage || resource === "memory" ? (n >= 1048576 ? `${(n / 1048576).toFixed(1)} TiB` : n >= 1024 ? `${Math.round(n / 1024)} GiB` : `${n} MiB`) : n.toLocaleString("en");
}

function gauge(r) {
  const most = Math.max(r.limit ?? r.quota, r.used, 1), words = `${r.resource}: ${amount(r.resource, r.used)} of ${amount(r.resource, r.quota)} used${r.borrowed ? `, ${amount(r.resource, r.borrowed)} borrowed` : ""}`;
  return svg("svg", {class: "gauge", viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": words},
    svg("rect", {class: "room", x: 0, y: 0, width: 100, height: 8}),
    svg("rect", {class: "held", x: 0, y: 0, width: Math.min(r.used, r.quota) / most * 100, height: 8}),
    svg("rect", {class: "more", x: r.quota / most * 100, y: 0, width: Math.max(0, r.used - r.quota) / most * 100, height: 8}));
}

async function tenants() {
  const {tenants: all} = await api("GET", "/tenants");
  const one = (t) => el("article", {class: "card tenant", "aria-label": `tenant ${t.name}`},
    el("h3", {}, t.name, el("span", {class: "soft"}, [t.parent && `in ${t.parent}`, t.role && `you: ${t.role}`].filter(Boolean).join(", "))),
    el("p", {}, `${t.running} jobs and pods run, ${t.waiting} wait. Share ${t.weight}.`),
    t.resources.length ? el("ul", {class: "held-of"}, t.resources.map((r) => el("li", {},
      el("p", {}, el("b", {}, r.resource), el("span", {class: "num"}, `${amount(r.resource, r.used)} of ${amount(r.resource, r.quota)}${r.limit !== r.quota ? `, limit ${amount(r.resource, r.limit)}` : ""}${r.borrowed ? `, ${amount(r.resource, r.borrowed)} borrowed` : ""}${r.waiting ? `; ${amount(r.resource, r.waiting)} wanted` : ""}`)),
      gauge(r)))) : el("p", {class: "soft"}, "No quota."),
    t.members ? el("details", {}, el("summary", {"aria-label": `${t.members.length} members of ${t.name}`}, t.members.length === 1 ? "1 member" : `${t.members.length} members`), el("ul", {}, t.members.map((m) => el("li", {}, m.user, m.role === "member" ? "" : `, ${m.role}`)))) : null);
  // What somebody has opened stays open.
  const opened = new Set([...document.querySelectorAll("#view article details[open]")].map((d) => d.parentElement.getAttribute("aria-label")));
  const cards = all.map(one);
  for (const c of cards) if (opened.has(c.getAttribute("aria-label"))) c.querySelector("details")?.setAttribute("open", "");
  return [el("h2", {}, "Tenants"), el("p", {class: "soft"}, "Each with what the tenants below it have."), all.length ? el("div", {class: "nodes"}, cards) : el("p", {class: "empty"}, "You are in no tenant, and lead none.")];
}
