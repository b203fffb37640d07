// Where cards go: rows from top to bottom, each card below what it uses; an open scope is laid out by itself first and
// then stands as one large card in the scope around it.
const GAP_X = 22, GAP_Y = 34, PAD = 16, HEAD = 24, LONGEST = 12;

/** Places units in rows: sets x and y of each, and returns the size of it all and the bends of each edge.
 *
 * units: {w, h} in the order of the program; edges: {tail, head}, numbers of units. An edge that crosses more rows than
 * LONGEST is cut: it gets no bends, and is drawn as a stub at its head.
 */
function layered(units, edges) {
  const row = rowsOf(units, edges);
  const rows = Array.from({ length: Math.max(-1, ...row) + 1 }, () => []);
  units.forEach((unit, number) => {
    Object.assign(unit, { before: [], after: [], row: row[number], weight: 1 });
    rows[row[number]].push(unit);
  });
  const chains = units.map(() => []);
  for (const edge of edges) thread(edge, units, rows, chains);
  untangle(rows);
  return spread(rows, edges);
}

/** The row of each unit: one below the lowest that it uses; what uses nothing stands right above its first user. */
function rowsOf(units, edges) {
  const row = new Array(units.length).fill(0), hasTail = new Array(units.length).fill(false);
  const byHead = units.map(() => []), byTail = units.map(() => []);
  for (const { tail, head } of edges) if (tail < head) { byHead[head].push(tail); byTail[tail].push(head); }
  units.forEach((_, head) => {
    for (const tail of byHead[head]) { row[head] = Math.max(row[head], row[tail] + 1); hasTail[head] = true; }
  });
  units.forEach((_, tail) => {
    if (!hasTail[tail] && byTail[tail].length) row[tail] = Math.min(...byTail[tail].map(head => row[head])) - 1;
  });
  const least = Math.min(0, ...row);
  return row.map(number => number - least);
}

/** Leads an edge through an invisible point in each row that it crosses; edges from one card share these points. */
function thread(edge, units, rows, chains) {
  const tail = units[edge.tail], head = units[edge.head], span = head.row - tail.row;
  edge.cut = span > LONGEST;
  edge.points = [];
  if (span <= 0 || edge.cut) return;
  let from = tail;
  for (let step = 1; step < span; step++) {
    let point = chains[edge.tail][step];
    if (!point) {
      point = chains[edge.tail][step] = { w: 10, h: 0, before: [from], after: [], row: tail.row + step, weight: 4 };
      from.after.push(point);
      rows[point.row].push(point);
    }
    edge.points.push(point);
    from = point;
  }
  from.after.push(head);
  head.before.push(from);
}

/** Orders each row by the means of the places of its neighbours, down and up again, so that few edges cross. */
function untangle(rows) {
  const number = row => row.forEach((unit, place) => { unit.place = place; });
  rows.forEach(number);
  for (let round = 0; round < 4; round++) {
    const down = round % 2 === 0;
    for (const row of down ? rows : [...rows].reverse()) {
      for (const unit of row) unit.wanted = mean(down ? unit.before : unit.after, each => each.place, unit.place);
      row.sort((a, b) => a.wanted - b.wanted || a.place - b.place);
      number(row);
    }
  }
}

function mean(units, of, otherwise) {
  if (!units.length) return otherwise;
  let sum = 0, weight = 0;
  for (const unit of units) { sum += of(unit) * unit.weight; weight += unit.weight; }
  return sum / weight;
}

/** Gives each unit its place: as near to the mean of its neighbours as its row has room for. */
function spread(rows, edges) {
  for (const row of rows) {
    let x = 0;
    for (const unit of row) { unit.x = x + unit.w / 2; x += unit.w + GAP_X; }
    for (const unit of row) unit.x -= x / 2;
  }
  const both = unit => [...unit.before, ...unit.after];
  for (let round = 0; round < 7; round++) {
    const near = round === 6 ? both : round % 2 ? unit => unit.after : unit => unit.before;
    for (const row of round % 2 ? [...rows].reverse() : rows) settle(row, near);
  }
  let left = Infinity, right = -Infinity, y = 0;
  for (const row of rows) for (const unit of row) {
    left = Math.min(left, unit.x - unit.w / 2);
    right = Math.max(right, unit.x + unit.w / 2);
  }
  for (const row of rows) {
    const high = Math.max(0, ...row.map(unit => unit.h));
    for (const unit of row) { unit.x -= left + unit.w / 2; unit.y = y + (high - unit.h) / 2; unit.rowTop = y; unit.rowEnd = y + high; }
    y += high + GAP_Y;
  }
  for (const edge of edges) edge.bends = edge.points.map(each => ({ x: each.x + each.w / 2, top: each.rowTop, end: each.rowEnd }));
  return { w: Math.max(0, right - left), h: Math.max(0, y - GAP_Y) };
}

/** Moves the units of a row to where they want to be; where they would overlap, blocks of them share the distance. */
function settle(row, near) {
  const blocks = [];
  let offset = 0;
  row.forEach((unit, place) => {
    if (place) offset += (row[place - 1].w + unit.w) / 2 + GAP_X;
    unit.offset = offset;
    const wanted = mean(near(unit), each => each.x, unit.x) - offset;
    let block = { at: wanted, weight: unit.weight, units: [unit] };
    while (blocks.length && blocks.at(-1).at > block.at) {
      const last = blocks.pop(), weight = last.weight + block.weight;
      for (const each of block.units) last.units.push(each);
      block = { at: (last.at * last.weight + block.at * block.weight) / weight, weight, units: last.units };
    }
    blocks.push(block);
  });
  for (const block of blocks) for (const unit of block.units) unit.x = block.at + unit.offset;
}

// -- the tree of scopes ------------------------------------------------------------------------------------------

const CROWD = 120, ROOM = 70;   // as many cards in one scope are cut into parts; as many are open at first

function scopeOf(name, path, parent) {
  return { name, path, parent, depth: parent ? parent.depth + 1 : 0, children: [], inner: new Map(), count: 0 };
}

/** The tree of a stage: scopes, and cards of nodes, inputs and returns in the order of the program. */
function treeOf(graph, stage) {
  const ends = graph.stages[stage], root = scopeOf("", "", null), cards = [], producers = new Map();
  const add = (card, scope) => {
    cards.push(card);
    card.order = cards.length;
    card.parent = scope;
    scope.children.push(card);
    for (const value of card.outputs) producers.set(value[0], card);
  };
  const plain = ends.inputs.filter(([name]) => !name.includes("."));
  for (const [name, type, text] of plain.length <= CROWD / 10 ? plain : []) {
    add({ title: name, details: [type], family: "input", text, inputs: [], outputs: [[name, type]], source: -1 }, root);
  }
  for (const number of ends.nodes) {
    const [text, title, family, details, scope, source, inputs, outputs, inner] = data.nodes[number];
    add({ number, text, title, details, family, source, inputs, outputs, inner, scope: data.scopes[scope] },
      descend(root, data.scopes[scope]));
  }
  for (const [target, value] of ends.updates) {
    add({ title: target, details: ["is updated"], family: "return", text: `${target} = ${value}`, inputs: [value],
      outputs: [], source: -1 }, root);
  }
  add({ title: "return", details: [], family: "return", text: ends.text, inputs: ends.returns, outputs: [], source: -1 },
    root);
  const declared = new Map(ends.inputs.map(([name, type]) => [name, type]));
  for (const card of cards) card.around = card.inputs.filter(name => !producers.has(name)).map(name => [name, declared.get(name)]);
  divide(root);
  count(root);
  return { root, cards, producers };
}

function descend(root, path) {
  let scope = root;
  for (const name of path ? path.split("/") : []) {
    if (!scope.inner.has(name)) {
      const inner = scopeOf(name, scope.path ? `${scope.path}/${name}` : name, scope);
      scope.inner.set(name, inner);
      scope.children.push(inner);
    }
    scope = scope.inner.get(name);
  }
  return scope;
}

/** Cuts a scope with too many children into parts, named after the function and its lines. */
function divide(scope) {
  const size = Math.max(40, Math.ceil(scope.children.length / 60));
  if (scope.children.length > CROWD) {
    const children = scope.children;
    scope.children = [];
    for (let start = 0; start < children.length; start += size) {
      const part = scopeOf("", `${scope.path}/#${start / size + 1}`, scope);
      part.children = children.slice(start, start + size);
      for (const child of part.children) child.parent = part;
      part.name = partName(part.children, start / size + 1);
      scope.children.push(part);
    }
  }
  for (const child of scope.children) if (child.children) { child.depth = scope.depth + 1; divide(child); }
}

function partName(children, number) {
  const lines = children.filter(child => child.source >= 0).map(child => data.sources[child.source]);
  if (!lines.length) return `part ${number}`;
  const numbers = lines.filter(line => line[0] === lines[0][0]).map(line => line[1]);
  const [first, last] = [Math.min(...numbers), Math.max(...numbers)];
  return `${number} · ${lines[0][0]}:${first}${last > first ? `–${last}` : ""}`;
}

function count(scope) {
  scope.kinds = new Map();
  scope.count = 0;
  for (const child of scope.children) {
    if (child.children) count(child);
    scope.count += child.children ? child.count : 1;
    for (const [kind, many] of child.children ? child.kinds : [[child.title, 1]]) {
      scope.kinds.set(kind, (scope.kinds.get(kind) ?? 0) + many);
    }
  }
  scope.order = Math.min(...scope.children.map(child => child.order));
}

/** The scopes that are open at first: the outermost ones, as many as there is room for. */
function openAtFirst(root) {
  const open = new Set([root]);
  let queue = [root], shown = root.children.length;
  while (queue.length) {
    const next = [];
    for (const scope of queue) for (const child of scope.children) {
      if (!child.children || shown + child.children.length > ROOM) continue;
      shown += child.children.length;
      open.add(child);
      next.push(child);
    }
    queue = next;
  }
  return open;
}
