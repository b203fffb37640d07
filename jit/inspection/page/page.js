// What is shown, and what keys, tabs and the slider do to it. The address ends in it, so that a view can be passed on.
const TABS = [["node", "Node"], ["source", "Source"], ["kernels", "Kernels"], ["text", "IR"]];
const state = { pass: 0, stage: 0, tab: "source", chosen: null, line: null };
const toggled = new Map();   // scopes that the reader has opened or folded, by path
let view = null;

function show(keepsCamera = false) {
  const graph = data.graphs[state.pass], tree = treeOf(graph, state.stage);
  view = { ...tree, pass: state.pass, stage: state.stage, ids: 0, open: openAtFirst(tree.root), byId: new Map(),
    fresh: new Set(graph.stages[state.stage].fresh) };
  walk(view.root, scope => {
    if (toggled.has(scope.path)) view.open[toggled.get(scope.path) ? "add" : "delete"](scope);
  });
  draw(view);
  if (!keepsCamera) fit(view.size, false);
  refreshHead();
  look();
  choose(state.chosen && view.cards.find(card => card.text === state.chosen));
}

function walk(scope, visit) {
  for (const child of scope.children) if (child.children) { visit(child); walk(child, visit); }
}

function redraw() {
  draw(view);
  mark();
}

function refreshHead() {
  const graph = data.graphs[state.pass], size = graph.stages[state.stage].nodes.length;
  const was = data.graphs[state.pass - 1]?.stages[state.stage].nodes.length;
  const change = was === undefined ? "" : was === size ? ", as before" : `, was ${was.toLocaleString("en")}`;
  const title = state.pass === 0 ? "as recorded" : `after ${graph.title}`;
  document.getElementById("after").replaceChildren(made("b", {}, title), ` · ${size.toLocaleString("en")} nodes${change}`,
    ...(view.fresh.size ? [made("i", { class: "dot", title: "These cards have a dot" }), `${view.fresh.size.toLocaleString("en")} new`] : []));
  document.getElementById("pass").value = state.pass;
  for (const button of document.querySelectorAll("#stages button")) button.setAttribute("aria-selected", String(Number(button.value) === state.stage));
  history.replaceState(null, "", `#pass=${state.pass}&stage=${state.stage}&tab=${state.tab}`);
}

function refresh() {
  const at = panel.scrollTop;
  const content = { node: () => nodePanel(view, state.unit), source: () => sourcePanel(view, state.line), kernels: kernelsPanel, text: () => textPanel(view) };
  panel.replaceChildren(...content[state.tab]());
  panel.scrollTop = at;
  for (const button of document.querySelectorAll("#tabs button")) button.setAttribute("aria-selected", String(button.value === state.tab));
}

function tab(name) {
  state.tab = name;
  panel.scrollTop = 0;
  refresh();
  refreshHead();
}

// -- choosing ----------------------------------------------------------------------------------------------------

function choose(unit) {
  state.unit = unit ?? null;
  state.chosen = unit?.text ?? null;
  const source = unit?.source >= 0 ? data.sources[unit.source] : null;
  state.line = source && `${source[0]}:${source[1]}`;
  mark();
  refresh();
}

/** Marks the chosen card and its arrows, and what the search has found. */
function mark() {
  for (const element of world.querySelectorAll(".picked, .near, .hit, .current")) element.classList.remove("picked", "near", "hit", "current");
  for (const unit of hits) shownAs(unit)?.classList.add("hit");
  if (hits[current]) shownAs(hits[current])?.classList.add("current");
  if (!state.unit) return;
  const element = shownAs(state.unit);
  element?.classList.add("picked");
  for (const edge of world.querySelectorAll(".edge")) {
    if (edge.dataset.tail === element?.id || edge.dataset.head === element?.id) edge.classList.add("near");
  }
}

const shownAs = unit => document.getElementById(visible(unit, view.root, view).id);

/** Shows a card wherever it is: opens the scopes around it. */
function goTo(card) {
  for (let scope = card.parent; scope; scope = scope.parent) {
    if (!view.open.has(scope)) { view.open.add(scope); toggled.set(scope.path, true); }
  }
  draw(view);
  if (card.text) choose(card);
  centre(card);
}

function chooseLine(line) {
  const cards = view.cards.filter(card => card.source >= 0 && `${data.sources[card.source][0]}:${data.sources[card.source][1]}` === line);
  hits = cards;
  current = 0;
  document.getElementById("found").textContent = `${cards.length} on this line`;
  document.getElementById("picture").classList.add("searching");
  state.line = line;
  if (cards.length) centre(visible(cards[0], view.root, view));
  mark();
  refresh();
}

function showSource(source) {
  state.line = `${source[0]}:${source[1]}`;
  tab("source");
  panel.querySelector(".here")?.scrollIntoView({ block: "center" });
}

function showKernel(kernel) {
  openKernels.add(`${kernel.stage} ${kernel.name}`);
  tab("kernels");
  panel.querySelector(`[data-kernel="${CSS.escape(`${kernel.stage} ${kernel.name}`)}"]`)?.scrollIntoView();
}

function toggle(scope) {
  const opens = !view.open.has(scope);
  view.open[opens ? "add" : "delete"](scope);
  toggled.set(scope.path, opens);
  const before = [camera.x + scope.left * camera.scale, camera.y + scope.top * camera.scale];
  redraw();
  camera.x = before[0] - scope.left * camera.scale;   // the scope stays where it was
  camera.y = before[1] - scope.top * camera.scale;
  place();
}

function toggleAll(opens) {
  toggled.clear();
  walk(view.root, scope => { toggled.set(scope.path, opens); view.open[opens ? "add" : "delete"](scope); });
  redraw();
  fit(view.size, false);
}

drawing.addEventListener("click", event => {
  if (moved > 4 || event.target.closest("#tools")) return;
  const unit = view.byId.get(event.target.closest(".card, .box")?.id);
  const isName = event.target.classList.contains("name");
  if (unit?.children && (isName || !view.open.has(unit))) return toggle(unit);
  state.tab = unit && !unit.children && state.tab !== "source" ? "node" : state.tab;
  choose(unit?.children ? null : unit);
});
drawing.addEventListener("dblclick", event => {
  const unit = view.byId.get(event.target.closest(".card")?.id);
  if (unit && !unit.children) tab("node");
});

// -- searching ---------------------------------------------------------------------------------------------------

let hits = [], current = -1;
const search = document.getElementById("search"), found = document.getElementById("found");

function look() {
  const wanted = search.value.trim().toLowerCase();
  current = -1;
  hits = wanted === "" ? [] : view.cards.filter(card => `${card.text} ${card.title}`.toLowerCase().includes(wanted));
  document.getElementById("picture").classList.toggle("searching", wanted !== "");
  found.textContent = wanted === "" ? "" : `${hits.length} found`;
  mark();
}

function nextHit(step) {
  if (!hits.length) return;
  current = (current + step + hits.length) % hits.length;
  const [place, many] = [current + 1, hits.length];
  goTo(hits[current]);
  found.textContent = `${place} of ${many}`;
}

search.addEventListener("input", look);
search.addEventListener("keydown", event => {
  if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
  if (event.key === "Escape") { search.value = ""; look(); search.blur(); }
  event.stopPropagation();
});

// -- the header --------------------------------------------------------------------------------------------------

function goToPass(pass) {
  const next = Math.min(Math.max(pass, 0), data.graphs.length - 1);
  if (next === state.pass) return;
  state.pass = next;
  show();
}

const slider = document.getElementById("pass");
slider.max = data.graphs.length - 1;
slider.addEventListener("input", () => goToPass(Number(slider.value)));
document.getElementById("earlier").addEventListener("click", () => goToPass(state.pass - 1));
document.getElementById("later").addEventListener("click", () => goToPass(state.pass + 1));
document.getElementById("fit").addEventListener("click", () => fit(view.size));
document.getElementById("fold").addEventListener("click", () => toggleAll(false));
document.getElementById("unfold").addEventListener("click", () => toggleAll(true));
document.getElementById("stages").append(...data.stages.map((name, stage) =>
  made("button", { value: String(stage), role: "tab", onclick: () => { state.stage = stage; show(); } }, name)));
document.getElementById("tabs").append(...TABS.map(([name, title]) => made("button", { value: name, role: "tab", onclick: () => tab(name) }, title)));
const named = { contraction: "products", pointwise: "pointwise", reduction: "reductions", movement: "moves data", creation: "creates", fused: "fused", guard: "guards", python: "Python" };
const families = new Set(data.nodes.map(node => node[2]));
document.getElementById("legend").append(...Object.entries(named).filter(([family]) => families.has(family)).map(([family, title]) =>
  made("span", {}, made("i", { style: `background: ${data.colours[family][0]}; border-color: ${data.colours[family][1]}` }), title)));

addEventListener("keydown", event => {
  if (event.metaKey || event.ctrlKey || event.altKey || event.target === slider) return;
  const keys = {
    "/": () => { event.preventDefault(); search.focus(); }, f: () => fit(view.size), Escape: () => { hits = []; found.textContent = "";
      document.getElementById("picture").classList.remove("searching"); choose(null); },
    ArrowLeft: () => goToPass(state.pass - 1), ArrowRight: () => goToPass(state.pass + 1),
    "+": () => zoom(1.25, drawing.clientWidth / 2, drawing.clientHeight / 2), "-": () => zoom(0.8, drawing.clientWidth / 2, drawing.clientHeight / 2),
  };
  keys[event.key]?.();
});
addEventListener("resize", () => fit(view.size, false));

const asked = new URLSearchParams(location.hash.slice(1));
state.pass = Math.min(Number(asked.get("pass") ?? 0), data.graphs.length - 1);
state.stage = Math.min(Number(asked.get("stage") ?? 0), data.stages.length - 1);
state.tab = TABS.some(([name]) => name === asked.get("tab")) ? asked.get("tab") : "source";
if (asked.get("open") === "all") walk(treeOf(data.graphs[state.pass], state.stage).root, scope => toggled.set(scope.path, true));
show();
if (asked.get("kernel")) showKernel(data.kernels.find(kernel => kernel.name === asked.get("kernel")) ?? data.kernels[0]);
if (asked.get("find")) { search.value = asked.get("find"); look(); nextHit(1); }
document.documentElement.dataset.ready = Math.round(performance.now());
