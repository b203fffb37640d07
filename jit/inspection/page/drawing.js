// The picture: cards and arrows of the stage that is shown, drawn as SVG in one go.
const canvas = document.createElement("canvas").getContext("2d"), widths = new Map();
const drawing = document.getElementById("drawing"), world = document.getElementById("world");
const TITLE = "600 13px system-ui, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif";
const DETAIL = "10.5px system-ui, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif";

function widthOf(text, font) {
  const key = font[0] + text;
  if (!widths.has(key)) { canvas.font = font; widths.set(key, canvas.measureText(text).width); }
  return widths.get(key);
}

const escaped = text => text.replace(/[&<>"]/g, sign => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);
const shortened = (text, most = 42) => text.length > most ? `${text.slice(0, most - 1)}…` : text;

/** The lines of a card: its title, its constants, what it takes from around the picture, the type of its result. */
function linesOf(unit) {
  if (unit.children) {
    const most = [...unit.kinds].sort((a, b) => b[1] - a[1]).slice(0, 3).map(([kind, many]) => `${kind} ×${many}`);
    return [unit.name, `${unit.count.toLocaleString("en")} nodes`, shortened(most.join(", "))];
  }
  const around = unit.around.map(([name, type]) => name.includes(".") && type ? `${name.split(".").at(-1)} ${type}` : name);
  const taken = around.length > 3 ? [...around.slice(0, 3), `+${around.length - 3}`] : around;
  const results = unit.family === "input" ? [] : unit.outputs.map(([, type]) => type).filter(Boolean);
  const made = results.length ? `→ ${results.slice(0, 3).join(", ")}${results.length > 3 ? ", …" : ""}` : "";
  return [shortened(unit.title), ...unit.details, shortened(taken.join(", ")), shortened(made)].filter(Boolean);
}

function measure(unit) {
  unit.lines = linesOf(unit);
  const [title, ...details] = unit.lines;
  unit.w = Math.max(54, widthOf(title, TITLE), ...details.map(line => widthOf(line, DETAIL))) + 24;
  unit.h = 27 + 14 * details.length;
}

/** Lays out the open scopes from the innermost outwards. */
function arrange(scope, view) {
  for (const child of scope.children) {
    if (child.children && view.open.has(child)) {
      arrange(child, view);
      child.w = Math.max(child.inside.w, widthOf(child.name, TITLE)) + 2 * PAD;
      child.h = child.inside.h + HEAD + PAD;
    } else measure(child);
  }
  const units = [...scope.children].sort((a, b) => a.order - b.order);
  const places = new Map(units.map((unit, place) => [unit, place]));
  scope.links = (view.links.get(scope) ?? []).map(link => ({ ...link, tail: places.get(link.outerTail), head: places.get(link.outerHead) }));
  scope.inside = layered(units, scope.links);
}

/** The arrows of a view by the scope that holds both their ends: an end inside a folded scope is that scope. */
function linksOf(view) {
  const links = new Map(), seen = new Set();
  for (const card of view.cards) for (const name of card.inputs) {
    const from = view.producers.get(name);
    if (!from) continue;
    const [scope, outerTail, outerHead] = meeting(from, card);
    let folded = false;
    for (let each = scope; each; each = each.parent) folded ||= !view.open.has(each);
    if (folded) continue;
    const tail = visible(from, scope, view), head = visible(card, scope, view);
    tail.id ??= `u${view.ids++}`;
    head.id ??= `u${view.ids++}`;
    const key = `${tail.id}>${head.id}`;
    if (seen.has(key)) continue;
    seen.add(key);
    if (!links.has(scope)) links.set(scope, []);
    links.get(scope).push({ from: tail, to: head, outerTail, outerHead, name });
  }
  return links;
}

/** The innermost scope around two cards, and its children that they are in. */
function meeting(a, b) {
  while (depthOf(a) > depthOf(b)) a = a.parent;
  while (depthOf(b) > depthOf(a)) b = b.parent;
  while (a.parent !== b.parent) { a = a.parent; b = b.parent; }
  return [a.parent, a, b];
}
const depthOf = unit => unit.children ? unit.depth : unit.parent.depth + 1;

function visible(unit, within, view) {
  let shown = unit;
  for (let each = unit; each !== within; each = each.parent) if (each.children && !view.open.has(each)) shown = each;
  return shown;
}

// -- SVG ---------------------------------------------------------------------------------------------------------

function cardSvg(unit, x, y, view) {
  const family = unit.children ? "scope" : unit.family, [fill, border] = data.colours[family];
  const dark = family === "input" || family === "return" ? " dark" : "";
  const [title, ...details] = unit.lines, middle = x + unit.w / 2;
  const fresh = unit.children ? freshIn(unit, view) : view.fresh.has(unit.number);
  const dot = fresh ? `<circle class="dot" cx="${x + unit.w - 3}" cy="${y + 3}" r="4.5"/>` : "";
  return `<g class="card${dark}${unit.children ? " scope" : ""}${fresh ? " fresh" : ""}" id="${unit.id}">` +
    `<rect x="${x}" y="${y}" width="${unit.w}" height="${unit.h}" rx="8" fill="${fill}" stroke="${border}"/>` +
    `<text class="title" x="${middle}" y="${y + 18}" text-anchor="middle">${escaped(title)}</text>` +
    details.map((line, place) => `<text class="detail" x="${middle}" y="${y + 33 + 14 * place}" text-anchor="middle">${escaped(line)}</text>`).join("") +
    `${dot}</g>`;
}

const freshIn = (scope, view) => view.fresh.size > 0 &&
  scope.children.some(child => child.children ? freshIn(child, view) : view.fresh.has(child.number));

/** Boxes, arrows and cards of a scope, in this order so that cards cover arrows. */
function scopeSvg(scope, x, y, view, layers) {
  for (const unit of scope.children) {
    unit.id ??= `u${view.ids++}`;
    view.byId.set(unit.id, unit);
    unit.left = x + unit.x;
    unit.top = y + unit.y;
    if (!unit.children || !view.open.has(unit)) layers.cards.push(cardSvg(unit, unit.left, unit.top, view));
    else {
      layers.boxes.push(`<g class="box" id="${unit.id}"><rect x="${unit.left}" y="${unit.top}" width="${unit.w}" height="${unit.h}" rx="10"/>` +
        `<text class="name" x="${unit.left + PAD}" y="${unit.top + 17}">▾ ${escaped(unit.name)}</text></g>`);
      scopeSvg(unit, unit.left + PAD + (unit.w - 2 * PAD - unit.inside.w) / 2, unit.top + HEAD, view, layers);
    }
  }
  for (const link of scope.links) layers.edges.push(edgeSvg(link, x, y));
}

function edgeSvg({ from, to, bends, cut, name }, x, y) {
  const x0 = from.left + from.w / 2, y0 = from.top + from.h, x1 = to.left + to.w / 2, y1 = to.top - 1;
  const ends = `data-tail="${from.id}" data-head="${to.id}"`;
  if (cut) {
    return `<path class="edge" ${ends} d="M${x1 - 14} ${y1 - 17}Q${x1} ${y1 - 15} ${x1} ${y1}"/>` +
      `<text class="edge-label" x="${x1 - 16}" y="${y1 - 14}" text-anchor="end">${escaped(shortened(name, 24))}</text>`;
  }
  let path = `M${x0} ${y0}`, at = [x0, y0];
  const curve = (toX, toY) => {
    const bend = Math.max(10, Math.abs(toY - at[1]) / 2);
    path += `C${at[0]} ${at[1] + bend} ${toX} ${toY - bend} ${toX} ${toY}`;
    at = [toX, toY];
  };
  for (const each of bends) {
    curve(x + each.x, y + each.top);
    path += `V${y + each.end}`;
    at = [x + each.x, y + each.end];
  }
  curve(x1, y1);
  return `<path class="edge" ${ends} d="${path}"/>`;
}

/** Draws a view anew: after a change of stage or pass, or when a scope was opened or folded. */
function draw(view) {
  view.links = linksOf(view);
  arrange(view.root, view);
  const layers = { boxes: [], edges: [], cards: [] };
  view.byId = new Map();
  scopeSvg(view.root, 0, 0, view, layers);
  world.innerHTML = layers.boxes.join("") + layers.edges.join("") + layers.cards.join("");
  view.size = view.root.inside;
}

// -- moving around -----------------------------------------------------------------------------------------------

const camera = { x: 0, y: 0, scale: 1 };
const place = () => world.setAttribute("transform", `translate(${camera.x} ${camera.y}) scale(${camera.scale})`);

function fit(size, whole = true) {
  const wide = drawing.clientWidth - 40, high = drawing.clientHeight - 110;
  const all = Math.min(wide / size.w, high / size.h, 1.4);
  camera.scale = whole ? all : Math.max(all, Math.min(wide / size.w, 1), 0.45);
  camera.x = (drawing.clientWidth - size.w * camera.scale) / 2;
  camera.y = size.h * camera.scale > high ? 56 : 56 + (high - size.h * camera.scale) / 2;
  place();
}

function zoom(factor, x, y) {
  const next = Math.min(Math.max(camera.scale * factor, 0.02), 6);
  camera.x = x - (x - camera.x) * next / camera.scale;
  camera.y = y - (y - camera.y) * next / camera.scale;
  camera.scale = next;
  place();
}

function centre(unit) {
  camera.scale = Math.max(camera.scale, 0.8);
  camera.x = drawing.clientWidth / 2 - (unit.left + unit.w / 2) * camera.scale;
  camera.y = drawing.clientHeight / 2 - (unit.top + unit.h / 2) * camera.scale;
  place();
}

drawing.addEventListener("wheel", event => {
  event.preventDefault();
  const box = drawing.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX - box.left, event.clientY - box.top);
}, { passive: false });

const pointers = new Map();
let moved = 0;
drawing.addEventListener("pointerdown", event => { pointers.set(event.pointerId, event); moved = 0; });
drawing.addEventListener("pointermove", event => {
  const before = pointers.get(event.pointerId);
  if (!before) return;
  const [other] = [...pointers.values()].filter(each => each.pointerId !== event.pointerId);
  if (other) {
    const box = drawing.getBoundingClientRect(), far = at => Math.hypot(at.clientX - other.clientX, at.clientY - other.clientY);
    zoom(far(event) / Math.max(far(before), 1), other.clientX - box.left, other.clientY - box.top);
  } else {
    camera.x += event.clientX - before.clientX;
    camera.y += event.clientY - before.clientY;
    place();
  }
  moved += Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY);
  if (moved > 4) { drawing.classList.add("dragging"); drawing.setPointerCapture(event.pointerId); }
  pointers.set(event.pointerId, event);
});
for (const kind of ["pointerup", "pointercancel"]) drawing.addEventListener(kind, event => {
  pointers.delete(event.pointerId);
  drawing.classList.remove("dragging");
});
