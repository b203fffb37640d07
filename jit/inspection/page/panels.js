// The panels beside the picture: the chosen card, the source with times, the kernels with their code, the IR text.
const panel = document.getElementById("panel");

function made(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter(child => child !== null));
  return element;
}

function quantity(number, unit) {
  for (const [prefix, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3], ["", 1], ["m", 1e-3], ["µ", 1e-6]]) {
    if (number >= size) return `${Number((number / size).toPrecision(3))} ${prefix}${unit}`.trim();
  }
  return number ? `${Number((number * 1e9).toPrecision(3))} n${unit}` : `0 ${unit}`.trim();
}

const hasTimes = typeof data.profile !== "string";
const whereTimesLack = () => made("p", { class: "note" }, `No times: ${data.profile}. Call view with arguments to time a call of yours.`);

function nodePanel(view, unit) {
  if (!unit) {
    return [made("h2", {}, data.name), made("p", {}, `${view.cards.length.toLocaleString("en")} cards in this stage. Choose one, or a line of the source.`),
      ...data.facts.map(fact => made("p", { class: "note" }, fact)),
      made("h3", {}, "Keys"), list([["/", "search; Enter goes to the next"], ["← →", "the pass before, the next pass"], ["f", "fit"], ["+ −", "zoom"], ["Esc", "choose nothing"]])];
  }
  if (unit.children) {
    const kinds = [...unit.kinds].sort((a, b) => b[1] - a[1]).map(([kind, many]) => [kind, String(many)]);
    return [made("h2", {}, unit.path || unit.name), made("p", { class: "note" }, `${unit.count.toLocaleString("en")} nodes`), list(kinds.slice(0, 30))];
  }
  const source = unit.source >= 0 ? data.sources[unit.source] : null;
  const users = view.cards.filter(card => card.inputs.some(name => unit.outputs.some(output => output[0] === name)));
  const kernels = source ? data.kernels.filter(kernel => kernel.lines.some(line => line.startsWith(`${source[0]}:${source[1]} `))) : [];
  return [
    made("h2", {}, unit.title),
    made("pre", {}, unit.text.split("  # ")[0]),
    source && made("p", {}, made("a", { class: "line", onclick: () => showSource(source) }, `${source[0]}:${source[1]} in ${source[2]}`)),
    unit.scope ? made("p", { class: "note" }, `scope ${unit.scope}`) : null,
    ...group("Takes", unit.inputs.map(name => valueLink(view, name))),
    ...group("Makes", unit.outputs.map(([name, type]) => made("div", {}, made("code", {}, `${name} : ${type}`)))),
    ...group("Used by", users.slice(0, 40).map(user => cardLink(user))),
    ...group("Kernels of this line", kernels.map(kernel => made("div", {}, made("a", { class: "value", onclick: () => showKernel(kernel) }, kernel.name)))),
    ...(unit.inner ?? []).flatMap(text => group("Inside", [made("pre", { class: "wide" }, text)])),
  ].filter(Boolean);
}

const list = pairs => made("div", { class: "list" }, ...pairs.flatMap(([a, b]) => [made("code", {}, a), made("span", {}, b)]));
const group = (title, elements) => elements.length ? [made("h3", {}, title), ...elements] : [];
const cardLink = card => made("div", {}, made("a", { class: "value", onclick: () => goTo(card) }, card.title), " ", made("code", {}, card.outputs.map(output => output[0]).join(", ")));

function valueLink(view, name) {
  const from = view.producers.get(name);
  if (!from) return made("div", {}, made("code", {}, name), made("span", { class: "note" }, "  from outside this stage"));
  return made("div", {}, made("a", { class: "value", onclick: () => goTo(from) }, name), made("span", { class: "note" }, `  ${from.title}`));
}

// -- source ------------------------------------------------------------------------------------------------------

/** Seconds by "file:line" of the stage that is shown. */
function timesByLine(stage) {
  const times = new Map();
  for (const [name, rowStage, , seconds] of hasTimes ? data.profile.lines : []) {
    const key = name.split(" in ")[0];
    if (rowStage === stage) times.set(key, (times.get(key) ?? 0) + seconds);
  }
  return times;
}

function sourcePanel(view, chosen) {
  const times = timesByLine(view.stage), most = Math.max(1e-12, ...times.values()), ran = new Set();
  for (const card of view.cards) if (card.source >= 0) ran.add(`${data.sources[card.source][0]}:${data.sources[card.source][1]}`);
  const total = [...times.values()].reduce((sum, each) => sum + each, 0);
  const found = hasTimes ? [made("p", { class: "note" }, `${quantity(total, "s")} in ${data.stages[view.stage]}, one call; times stand beside their lines.`)] : [whereTimesLack()];
  for (const [file, lines] of Object.entries(data.files)) {
    const wanted = data.sources.filter(source => source[0] === file).map(source => source[1]);
    found.push(made("h3", {}, file), codeOf(file, lines, excerpts(wanted, lines.length), times, most, ran, chosen));
  }
  if (found.length === 1) found.push(made("p", { class: "note" }, "The source files were not found."));
  return found;
}

/** Ranges of lines around those that are wanted, joined where they touch. */
function excerpts(wanted, length) {
  const ranges = [];
  for (const line of [...new Set(wanted)].sort((a, b) => a - b)) {
    const [start, end] = [Math.max(1, line - 5), Math.min(length, line + 5)];
    if (ranges.length && start <= ranges.at(-1)[1] + 3) ranges.at(-1)[1] = end;
    else ranges.push([start, end]);
  }
  return ranges;
}

function codeOf(file, lines, ranges, times, most, ran, chosen) {
  const code = made("div", { class: "code" });
  ranges.forEach(([start, end], place) => {
    if (place || start > 1) code.append(made("div", { class: "gap" }, "⋯"));
    for (let number = start; number <= end; number++) {
      const key = `${file}:${number}`, seconds = times.get(key) ?? 0;
      const classes = [ran.has(key) && "ran", chosen === key && "here"].filter(Boolean).join(" ");
      code.append(made("div", { class: classes, "data-line": key },
        made("span", { class: "time", style: `--part: ${(100 * seconds / most).toFixed(1)}%` }, seconds ? quantity(seconds, "s") : ""),
        made("span", { class: "number" }, String(number)),
        made("span", { class: ran.has(key) ? "" : "quiet" }, lines[number - 1])));
    }
  });
  code.addEventListener("click", event => {
    const line = event.target.closest("[data-line]")?.dataset.line;
    if (line && ran.has(line)) chooseLine(line);
  });
  return code;
}

// -- kernels -----------------------------------------------------------------------------------------------------

const openKernels = new Set();
let language = "llvm";

function kernelsPanel() {
  const rows = hasTimes ? data.profile.kernels.map(([name, stage, calls, seconds, bytes, flops]) => ({ name, stage, calls, seconds, bytes, flops })) : [];
  const unlisted = data.kernels.filter(kernel => !rows.some(row => kernelOf(row) === kernel));
  for (const kernel of unlisted) rows.push({ ...kernel, seconds: 0, bytes: kernel.bytes * kernel.calls, flops: kernel.flops * kernel.calls });
  const most = Math.max(1e-12, ...rows.map(row => row.seconds));
  const head = made("tr", {}, ...["kernel", "stage", "calls", "time", "bytes", "flops"].map(title => made("th", {}, title)));
  const table = made("table", {}, made("thead", {}, head), made("tbody", {}, ...rows.flatMap(row => kernelRows(row, most))));
  const about = hasTimes ? made("p", { class: "note" }, `${quantity(data.profile.seconds, "s")} in all; a kernel opens to its LLVM and its assembly.`) : whereTimesLack();
  return [about, table];
}

const kernelOf = row => data.kernels.find(kernel => kernel.name === row.name && kernel.stage === row.stage);

function kernelRows(row, most) {
  const kernel = kernelOf(row), key = `${row.stage} ${row.name}`, isOpen = kernel && openKernels.has(key);
  const toggle = () => { openKernels.has(key) ? openKernels.delete(key) : openKernels.add(key); refresh(); };
  const classes = [kernel && "opens", isOpen && "open"].filter(Boolean).join(" ");
  const line = made("tr", { class: classes, "data-kernel": key, ...(kernel ? { onclick: toggle } : {}) },
    made("td", {}, `${kernel ? isOpen ? "▾ " : "▸ " : ""}${row.name}`), made("td", {}, data.stages[row.stage] ?? ""), made("td", {}, String(row.calls)),
    made("td", { class: "share", style: `--part: ${(100 * row.seconds / most).toFixed(1)}%` }, row.seconds ? quantity(row.seconds, "s") : "–"),
    made("td", {}, quantity(row.bytes, "B")), made("td", {}, quantity(row.flops, "")));
  if (!isOpen) return [line];
  const choose = which => event => { event.stopPropagation(); language = which; refresh(); };
  const tabs = made("nav", {}, ...[["llvm", "LLVM"], ["asm", "Assembly"]].map(([which, title]) =>
    made("button", { "aria-selected": String(language === which), onclick: choose(which) }, title)));
  const cell = made("td", { class: "code-cell", colspan: "6" }, tabs, made("pre", { class: "wide" }, kernel[language]));
  return [line, made("tr", {}, cell)];
}

// -- text --------------------------------------------------------------------------------------------------------

function textPanel(view) {
  const ends = data.graphs[view.pass].stages[view.stage];
  const inputs = ends.inputs.map(([, , text]) => text).join(",\n  ");
  const nodes = ends.nodes.map(number => `  ${data.nodes[number][0]}`);
  return [made("pre", { class: "wide", style: "max-height: none" }, [`(${inputs}) {`, ...nodes, `  ${ends.text.replaceAll("\n", "\n  ")}`, "}"].join("\n"))];
}
