// film.js: plays a recording of PTXSIM_FILM (code/ptxsim/machine/film.c describes its rows). At the
// start, the events become steps: one for each instruction executed by a warp, in the order in
// which the simulator ran them. Whatever is shown at a step is found by a search in lists of steps,
// so going back is as easy as going on.
"use strict";

const BLOCK = 0, LANES = 1, COUNTS = 2, SHARED = 3, GLOBAL = 4, ARRIVE = 5, RELEASE = 6, MBARRIER = 7, ASK = 8,
  GROUP = 9, BULK = 10, PRODUCT = 11, FAULT = 12, VALUE = 13;
const LOAD = 0, STORE = 1, ATOMIC = 2, COPY = 3;
const ACCESSES = ["reads", "writes", "reads and writes", "copies to"];
// The verb of each mbarrier_kind (code/ptxsim/machine/program.h), which is the index.
const MBARRIER_KINDS = ["initialises", "invalidates", "arrives at", "arrives at, and expects bytes at", "leaves",
  "leaves, and expects bytes at", "expects bytes at", "completes bytes of", "binds its copies to", "waits at"];
const MBARRIER_COPIES = 8;
const LETTERS = {
  shared_load: "L", shared_store: "S", atomic: "A", global_load: "g", global_store: "G", copy_async: "c", tensor: "T",
  mufu: "x", barrier: "B", shuffle: "s", branch: "j",
};

// ---- The film -------------------------------------------------------------------------------------

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function lanesOf(mask) {
  const lanes = [];
  for (let i = 0; i < 32; ++i) if (mask >>> i & 1) lanes.push(i);
  return lanes;
}

// An access to shared or global memory: its lanes with their addresses, [{lane, at}], and the bytes
// of each lane.
function decode(film, event) {
  const global = event[0] === GLOBAL;
  const pattern = film.recording.patterns[event[global ? 5 : 4]], base = event[global ? 4 : 3];
  return {
    bytes: pattern[0], mask: pattern[1], access: event[2], allocation: global ? event[3] : -1,
    lanes: lanesOf(pattern[1]).map((lane, i) => ({ lane, at: base + pattern[2 + i] })),
  };
}

function makeFilm(data) {
  const r = data.recording, film = {
    ...data, walls: null, columnsOf: null, warp: [], insn: [], mask: [], details: [], column: [], barriers: [], stops: [], shared: [],
    ofWarp: Array.from({ length: r.warps }, () => []), faults: r.faults.map((f) => ({ ...f })),
  };
  let base = 0, first = 0, count = 0, arrived = -1;
  const attach = (step, event) => (film.details[step] = film.details[step] || []).push(event);
  for (const e of r.events) {
    if (e[0] === BLOCK) {
      [first, count] = r.blocks[e[2]];
      base = film.warp.length;
      arrived = -1;
      for (let i = 0; i < count; ++i) {
        film.ofWarp[e[1]].push(film.warp.length);
        film.warp.push(e[1]);
        film.insn.push(first + i);
        film.mask.push(e[3]);
      }
      continue;
    }
    const last = film.warp.length - 1;
    let step = e[1] >= first && e[1] < first + count ? base + e[1] - first : last;
    if (e[0] === LANES) {
      film.mask[step] = e[2];
      continue;
    }
    if (e[0] === ARRIVE) arrived = step;
    if (e[0] === RELEASE) step = arrived >= 0 ? arrived : last;
    if (e[0] === FAULT) {
      const f = film.faults[e[1]];
      step = f.insn >= first && f.insn < first + count && film.warp[last] === f.warp ? base + f.insn - first : last;
      if (film.warp[step] !== f.warp && film.ofWarp[f.warp].length) step = film.ofWarp[f.warp].at(-1);
      f.step = step;
    }
    attach(step, e);
  }
  film.steps = film.warp.length;
  for (const f of film.faults) {
    f.late = f.step === undefined; // whether the film was cut before this event
    if (f.late) f.step = film.steps - 1;
    f.elsewhere = f.cta !== undefined && f.cta.join() !== r.cta.join();
    f.first = f.elsewhere ? -1 : firstAccess(film, f);
  }
  film.hasValues = r.events.some((e) => e[0] === VALUE);
  placeSteps(film);
  followCopies(film);
  findBuffers(film);
  film.walls = new Set(film.barriers.map((b) => b.column));
  film.columnsOf = film.ofWarp.map((list) => list.map((s) => film.column[s]));
  return film;
}

// The column of each step. Steps of a warp are in successive columns; after a barrier, all waiting
// warps continue in the same column.
function placeSteps(film) {
  // met: for each mbarrier, by its address, {phases: how many phases it has completed; reached: the
  // last column that used it in this phase; ended: the column in which the last phase ended}.
  const place = new Array(film.recording.warps).fill(0), met = new Map();
  for (let s = 0; s < film.steps; ++s) {
    film.column[s] = place[film.warp[s]]++;
    for (const e of film.details[s] || []) {
      if (e[0] === SHARED || e[0] === BULK || e[0] === PRODUCT) film.shared.push(s);
      if (e[0] === ASK && e[4]) {
        film.stops.push(s);
        place[film.warp[s]] = Math.max(place[film.warp[s]], met.has(e[2]) ? met.get(e[2]).ended : 0);
      }
      if (e[0] === MBARRIER) {
        const m = met.get(e[2]) || { phases: e[8], reached: 0, ended: 0 };
        m.reached = Math.max(m.reached, place[film.warp[s]]);
        if (m.phases !== e[8]) Object.assign(m, { phases: e[8], ended: m.reached, reached: 0 });
        met.set(e[2], m);
      }
      if (e[0] !== RELEASE) continue;
      const warps = lanesOf(e[2]), column = Math.max(...warps.map((w) => place[w]));
      for (const w of warps) place[w] = column;
      film.barriers.push({ step: s, id: e[1], warps, column });
      film.stops.push(s);
    }
  }
  film.barrierSteps = film.barriers.map((b) => b.step);
  const quiet = [LANES, COUNTS, GLOBAL, FAULT, VALUE]; // these events change neither which warps wait
                                                       // nor which copies are under way
  film.changes = film.details.flatMap((events, s) => events && events.some((e) => !quiet.includes(e[0]) && !(e[0] === SHARED && e[2] !== COPY && !tileName(film, e).includes("["))) ? [s] : []);
  film.shared = [...new Set(film.shared)];
  film.stops = [...new Set(film.stops)];
}

const tileName = (film, e) => (bufferTile(film, decode(film, e).lanes[0].at) || { name: "" }).name;

// Finds all copies, and what each wgmma reads: the step in which it begins, the step in which it is
// known to have landed, and its group, or its mbarrier and the phase of the mbarrier.
function followCopies(film) {
  const open = {}, way = [];
  film.copies = [];
  film.mbarriers = new Map();
  const kindOf = (opcode) => opcode.startsWith("wgmma") ? "wgmma" : opcode.startsWith("cp.async.bulk") ? "bulk" : "copy";
  const add = (copy) => {
    film.copies.push(copy);
    way.push(copy);
  };
  const land = (step, which) => {
    for (let i = way.length; i-- > 0;)
      if (which(way[i])) {
        way[i].landed = step;
        way.splice(i, 1);
      }
  };
  for (let s = 0; s < film.steps; ++s)
    for (const e of film.details[s] || []) {
      const w = film.warp[s], kind = kindOf(film.recording.instructions[film.insn[s]][4]), key = w + kind;
      const group = open[key] || 0;
      if (e[0] === SHARED && e[2] === COPY) {
        const d = decode(film, e);
        add({ kind, step: s, warp: w, group, at: d.lanes[0].at, bytes: d.bytes * d.lanes.length, landed: Infinity });
      } else if (e[0] === BULK) {
        add({ kind: "bulk", step: s, warp: w, group: e[7] ? e[6] : -1, at: e[3], bytes: e[4], landed: Infinity,
          mbarrier: e[7] ? -1 : e[5], phase: e[6], store: e[7] });
      } else if (e[0] === PRODUCT) {
        add({ kind, step: s, warp: w, group, at: e[4], bytes: e[5] - e[4], landed: Infinity });
      } else if (e[0] === GROUP) {
        if (e[2] < 0 || e[3]) open[key] = group + 1;
        if (e[2] >= 0)
          land(s, (c) => c.kind === kind && c.warp === w && !(c.mbarrier >= 0) && c.group + e[2] < (open[key] || 0));
      } else if (e[0] === MBARRIER) {
        if (!film.mbarriers.has(e[2])) film.mbarriers.set(e[2], []);
        film.mbarriers.get(e[2]).push({ step: s, event: e });
        if (e[3] === MBARRIER_COPIES)
          for (const c of way)
            if (c.kind === "copy" && c.warp === w && !(c.mbarrier >= 0)) {
              c.mbarrier = e[2];
              c.phase = e[8] - (e[5] === e[6] && !e[7] ? 1 : 0);
            }
      } else if (e[0] === ASK && e[4]) {
        land(s, (c) => c.mbarrier === e[2] && c.phase < e[5]);
      }
    }
}

// Finds the buffers of rings, and for each the steps that touch it. For example, t.codes[0].k and
// t.codes[0].v are parts of one buffer, t.codes[0]; k[0] is another buffer.
function findBuffers(film) {
  const touched = new Map();
  for (const s of film.shared)
    for (const e of film.details[s]) {
      const at = e[0] === SHARED ? decode(film, e).lanes[0].at : e[0] === BULK ? e[3] : e[0] === PRODUCT ? e[4] : -1;
      const tile = at >= 0 && bufferTile(film, at), name = tile && tile.name.match(/^[^[]*\[\d+\]/);
      if (!name || tile.dims.length === 0) continue;
      if (!touched.has(name[0])) touched.set(name[0], { name: name[0], base: name[0].split("[")[0], steps: [], access: [] });
      const b = touched.get(name[0]);
      b.steps.push(s);
      b.access.push(e[0] === SHARED ? e[2] : e[0] === BULK && !e[7] ? COPY : LOAD);
    }
  const all = [...touched.values()], codes = (b) => all.filter((other) => other.base === b.base).length > 1;
  film.buffers = all.filter(codes).sort((a, b) => a.name < b.name ? -1 : 1);
}

// ---- Searching ------------------------------------------------------------------------------------

// The last index in a sorted list whose value is at most x; -1: there is none.
function lastAtMost(list, x) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = low + high >> 1;
    if (list[middle] <= x) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// The lane whose access in an event touches an address of shared memory (for a wgmma, lane 0):
// {lane, access}; null: none does.
function touches(film, e, address) {
  if (e[0] === BULK)
    return address >= e[3] && address < e[3] + e[4] ? { lane: e[2], access: e[7] ? LOAD : COPY } : null;
  if (e[0] === PRODUCT)
    return (address >= e[2] && address < e[3]) || (address >= e[4] && address < e[5]) ? { lane: 0, access: LOAD } : null;
  if (e[0] !== SHARED) return null;
  const d = decode(film, e), found = d.lanes.find((l) => address >= l.at && address < l.at + d.bytes);
  return found ? { lane: found.lane, access: d.access } : null;
}

function whoTouches(film, from, direction, address, wanted) {
  let i = lastAtMost(film.shared, from);
  if (direction > 0) ++i;
  for (; i >= 0 && i < film.shared.length; i += direction) {
    const step = film.shared[i];
    for (const e of film.details[step]) {
      const t = touches(film, e, address);
      if (t && wanted(t.access)) return { step, ...t };
    }
  }
  return null;
}
const writes = (access) => access !== LOAD, reads = (access) => access === LOAD || access === ATOMIC;

function touchesGlobal(film, e, byte) {
  return e[0] === GLOBAL && decode(film, e).lanes.some((l) => byte >= l.at && byte < l.at + decode(film, e).bytes);
}

// The step of a race's earlier access: the last one, up to step `last`, in which the other party is
// at its instruction (and address); -1: none. If the other party is in another CTA, `last` is the
// end of that CTA's film, since steps of two CTAs are not ordered.
function firstAccess(film, f, last = f.step) {
  if (f.thread === undefined || f.other < 0) return -1;
  const mine = film.ofWarp[f.thread >> 5] || [];
  for (let i = lastAtMost(mine, last); i >= 0; --i) {
    const s = mine[i];
    if ((s === f.step && last === s) || film.insn[s] !== f.other) continue;
    const here = (e) => f.byte === undefined ? touches(film, e, f.at) : touchesGlobal(film, e, f.byte);
    if ((f.at === undefined && f.byte === undefined) || (film.details[s] || []).some(here)) return s;
  }
  return -1;
}

function tileAt(film, address) {
  return film.tiles.find((t) => address >= t.at && address < t.at + tileBytes(t));
}
function tileBytes(t) {
  return t.dims.reduce((a, b) => a * b, t.element);
}
// The tile at an address; if the tile is an array of at most 8 buffers, of 512 bytes or more each,
// the buffer at the address.
function bufferTile(film, address) {
  const tile = tileAt(film, address);
  if (!tile || tile.dims.length < 2 || tile.dims[0] > 8 || tileBytes(tile) < 512 * tile.dims[0]) return tile;
  if (!tile.buffers) {
    const bytes = tileBytes(tile) / tile.dims[0];
    tile.buffers = Array.from({ length: tile.dims[0] }, (_, i) =>
      ({ ...tile, name: tile.name + "[" + i + "]", at: tile.at + i * bytes, dims: tile.dims.slice(1) }));
  }
  return tile.buffers[Math.floor((address - tile.at) / tileBytes(tile.buffers[0]))];
}
function bufferAt(address) {
  const tile = bufferTile(film, address);
  return tile ? tile.name : "address " + address;
}
const plural = (count, word) => count + " " + word + (count === 1 ? "" : "s");
// The rows and columns in which a tile is drawn; a single row, and rows of more than 512 bytes, are
// broken after every 128 bytes.
function tileShape(t) {
  const columns = t.dims.length ? t.dims.at(-1) : 1, all = tileBytes(t) / t.element;
  const most = t.dims.length < 2 || columns * t.element > 512 ? Math.max(1, 128 / t.element) : columns;
  return { columns: Math.min(columns, most), rows: Math.ceil(all / Math.min(columns, most)) };
}
function nameOf(film, address) {
  const t = tileAt(film, address);
  if (!t) return "shared address " + address;
  let index = Math.floor((address - t.at) / t.element), count = tileBytes(t) / t.element, text = t.name;
  for (const d of t.dims) {
    count /= d;
    text += "[" + Math.floor(index / count) + "]";
    index %= count;
  }
  return text;
}

// ---- Banks ----------------------------------------------------------------------------------------

const popcount = (mask) => lanesOf(mask).length;

// The elements of one part of an access (wavefronts() makes the parts), each with its wavefront, by
// the same rule as in code/ptxsim/machine/counts.c.
function elementsOf(lanes, bytes) {
  const shift = bytes <= 4 ? 2 : Math.log2(bytes), places = 128 >> shift, seen = new Map(), depth = [];
  for (const l of lanes) {
    const element = l.at >>> shift, place = element % places;
    if (!seen.has(element)) {
      depth[place] = (depth[place] || 0) + 1;
      seen.set(element, { bank: place << shift >> 2, words: Math.max(1, bytes / 4), wave: depth[place] - 1, lanes: [] });
    }
    seen.get(element).lanes.push(l.lane);
  }
  return [...seen.values()];
}
const wavesOf = (elements) => elements.reduce((most, e) => Math.max(most, e.wave + 1), 0);

function pairsAgree(lanes, bit) {
  const at = new Map(lanes.map((l) => [l.lane, l.at]));
  return lanes.every((l) => at.get(l.lane ^ bit) === l.at);
}

// The wavefronts of an access, as lists of elements: [[element, ...], ...].
function wavefronts(d) {
  const parts = d.bytes <= 4 ? 1 : d.bytes / 4, wide = 32 / parts, groups = [];
  for (let p = 0; p < parts; ++p) groups.push(d.lanes.filter((l) => Math.floor(l.lane / wide) === p));
  const rows = [], put = (elements) => {
    const from = rows.length;
    for (const e of elements) (rows[from + e.wave] = rows[from + e.wave] || []).push(e);
  };
  for (let p = 0; p < parts; p += 2) {
    const low = groups[p], high = groups[p + 1] || [], both = [...low, ...high];
    const together = d.access === LOAD && low.length && high.length &&
      (both.length <= wide || pairsAgree(both, 1) || pairsAgree(both, 2)) && wavesOf(elementsOf(both, d.bytes)) === 1;
    put(elementsOf(together ? both : low, d.bytes));
    if (!together) put(elementsOf(high, d.bytes));
  }
  return rows;
}

// ---- The page -------------------------------------------------------------------------------------

const $ = (id) => document.getElementById(id);
function element(name, properties, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

// `film` is the one of `films` that is shown; there are two films if a race is between CTAs.
const view = { at: 0, follow: -1, lane: 0, fault: -1, rows: [], badges: [], rowOf: [], lessons: [], openFragments: new Set(["matrix", "A", "D"]) };
let film, films = [];

// Shortens a place: "chapters/04-cp-async.md:373" becomes "04:373".
function shortPlace(place) {
  const base = place.split("/").pop(), chapter = base.match(/^(\d+)-.*(:\d+)$/);
  return chapter ? chapter[1] + chapter[2] : base;
}
function placeName(insn) {
  const [file, line] = film.recording.instructions[insn];
  return line ? shortPlace(file + ":" + line) : "no line";
}
const opcodeOf = (step) => film.recording.instructions[film.insn[step]][4];

function letterOf(step) {
  const insn = film.recording.instructions[film.insn[step]];
  return insn[4].startsWith("mbarrier") ? "m" : LETTERS[insn[3]] || ".";
}

// The state of a warp at step `at`: its last step so far (-1: none), the barrier or mbarrier at
// which it waits (null: none), and whether it has ended.
function stateOf(warp, at) {
  const list = film.ofWarp[warp], i = lastAtMost(list, at), step = i < 0 ? -1 : list[i];
  let waits = null;
  for (const e of (step >= 0 && film.details[step]) || []) {
    if (e[0] === ARRIVE) waits = { barrier: e[2], step };
    if (e[0] === ASK && !e[4]) waits = { mbarrier: e[2], step };
  }
  if (waits && waits.barrier !== undefined) {
    const k = lastAtMost(film.barrierSteps, at);
    for (let b = k; b >= 0 && film.barriers[b].step >= step; --b)
      if (film.barriers[b].warps.includes(warp)) return { step, waits: null };
  }
  return { step, waits, ended: i === list.length - 1 && !waits };
}

// ---- Source ---------------------------------------------------------------------------------------

// A place in the source. On the book's site it is a link: CHUNKS says where the book has the lines
// of a chapter, and the link opens this part of the book in the page that contains the film's
// frame. Only the link of the current step can be reached by keyboard.
function placeLink(file, line, words, tabIndex) {
  const chunk = typeof CHUNKS !== "undefined" && (CHUNKS[file] || []).find(([first, last]) => first <= line && line <= last);
  return chunk ? element("a", { href: chunk[2], target: "_top", textContent: words, title: "to its chunk in the book", tabIndex }) : words;
}

function showSource() {
  const index = new Map(), body = element("tbody");
  film.source.forEach(([file, line], i) => {
    if (!index.has(file + ":" + line)) index.set(file + ":" + line, i);
  });
  view.rowAt = index;
  view.rowOf = film.recording.instructions.map(([file, line]) => index.has(file + ":" + line) ? index.get(file + ":" + line) : -1);
  const sums = film.source.map(() => ({ runs: 0, waves: 0, conflicts: 0 }));
  for (let s = 0; s < film.steps; ++s) {
    const row = view.rowOf[film.insn[s]];
    if (row < 0) continue;
    sums[row].runs++;
    for (const e of film.details[s] || [])
      if (e[0] === COUNTS) {
        const own = sums[view.rowOf[e[1]]];
        if (!own) continue;
        own.waves += e[2];
        own.conflicts += e[3];
      }
  }
  view.sums = sums;
  const chapters = film.source.some(([file]) => file.startsWith("chapters/"));
  view.rows = film.source.map(([file, line, text], i) => {
    const sum = sums[i], base = file.split("/").pop(), number = base.match(/^(\d+)-/);
    const row = element("tr", {},
      element("td", { className: "w" }),
      element("td", { className: "n", textContent: sum.runs || "" }),
      element("td", { className: "n", textContent: sum.waves ? sum.waves + (sum.conflicts ? "!" : "") : "",
        title: sum.conflicts ? sum.conflicts + " of them by bank conflicts" : "" }),
      element("td", { className: "n" }, placeLink(file, line, (chapters && number ? number[1] + ":" : "") + line, -1)),
      element("td", { className: "code", textContent: text }));
    body.append(row);
    return row;
  });
  $("source").replaceChildren(element("table", {},
    element("colgroup", {}, ...["w", "n", "n", "n", "code"].map((c) => element("col", { className: c }))),
    element("thead", {}, element("tr", {}, ...["warps", "runs", "waves", "line", "text"].map((t) =>
      element("th", { textContent: t, className: t, scope: "col",
        title: t === "runs" ? "instructions executed" : t === "waves" ? "wavefronts of shared memory; !: with bank conflicts" : "" })))), body));
  view.badges = Array.from({ length: film.recording.warps }, (_, w) => element("span", { className: "badge", textContent: w }));
}

function placeWarps() {
  const now = film.warp[view.at];
  view.badges.forEach((badge, w) => {
    const state = stateOf(w, view.at), row = state.step < 0 ? -1 : view.rowOf[film.insn[state.step]];
    const look = "badge" + (w === now ? " now" : "") + (state.waits ? " wait" : "");
    if (badge.className !== look) badge.className = look;
    const words = w + (state.waits ? "…" : state.ended ? "✓" : "");
    if (badge.textContent !== words) {
      badge.textContent = words;
      badge.title = "warp " + w + (state.waits ? " waits" : state.ended ? " has ended" : "");
    }
    if (row < 0) badge.remove();
    else if (badge.parentNode !== view.rows[row].firstChild) view.rows[row].firstChild.append(badge);
  });
  const row = view.rows[view.rowOf[film.insn[view.at]]];
  if (view.here === row) return;
  if (view.here) {
    view.here.classList.remove("here");
    view.here.removeAttribute("aria-current");
  }
  view.here = row;
  if (!row) return;
  row.classList.add("here");
  row.setAttribute("aria-current", "step");
  // Reading a row's position makes the browser lay out the page. To avoid this in each step, the
  // position is computed from the height of a row.
  const top = (view.rowOf[film.insn[view.at]] + 1) * view.pitch;
  if (top < view.scrolled + 40 || top > view.scrolled + view.height - 60)
    scrollSource(Math.max(0, top - view.height / 3));
}

// Scrolling makes the browser lay out the page as well, so it is done once before each frame.
function scrollSource(to) {
  view.scrolled = to;
  if (!view.scrolling)
    view.scrolling = requestAnimationFrame(() => {
      view.scrolling = 0;
      $("source").scrollTop = view.scrolled;
    });
}

// The height of a row in pixels: equal for all rows (the first has half a border more), and not a
// whole number. It is measured at the start, and again when the window changes.
function measureSource() {
  const box = $("source");
  // Scrolls first: otherwise the position before scrolling would be measured.
  if (view.scrolling) box.scrollTop = view.scrolled;
  const pitch = view.rows.at(-1).getBoundingClientRect().height;
  Object.assign(view, { pitch, height: box.clientHeight, scrolled: box.scrollTop });
}

// ---- What the step touches ------------------------------------------------------------------------

function bankTable(d) {
  const rows = wavefronts(d), table = element("table", { className: "grid" });
  table.append(element("tr", {}, element("th", { textContent: "bank" }),
    ...Array.from({ length: 32 }, (_, b) => element("th", { textContent: b }))));
  rows.forEach((elements, i) => {
    const cells = Array.from({ length: 32 }, () => element("td"));
    for (const e of elements)
      for (let k = 0; k < e.words; ++k) {
        cells[e.bank + k].className = "on";
        cells[e.bank + k].textContent = e.lanes[0] + (e.lanes.length > 1 ? "+" : "");
        cells[e.bank + k].title = e.lanes.join(", ");
      }
    table.append(element("tr", {}, element("th", { textContent: i + 1 }), ...cells));
  });
  const box = element("div", { className: "scroll", tabIndex: 0 }, table); // keys scroll it if it is wider than the page
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "The lanes that want each bank, a line a wavefront");
  return box;
}

// The style sheet's colours, for drawings. They are read at the start, and again when the reader
// changes between dark and light.
function readColours() {
  const style = getComputedStyle(document.documentElement);
  view.colours = Object.fromEntries(["line", "bad", "mark", "paper"].map((name) => [name, style.getPropertyValue("--" + name).trim()]));
}

// Draws a tile with the elements that lanes touch; a click on an element shows who wrote it.
function tileMap(tile, spots) {
  const { columns, rows } = tileShape(tile), cell = Math.max(3, Math.min(16, Math.floor(520 / columns)));
  const canvas = element("canvas", { width: columns * cell + 1, height: rows * cell + 1 });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", tile.name + ", " + spots.length + " places touched; the list of lanes names them");
  const c = canvas.getContext("2d"), colour = view.colours;
  c.strokeStyle = colour.line;
  c.lineWidth = 0.5;
  c.beginPath();
  for (let i = 0; i <= columns; i += cell < 6 ? 8 : 1) c.moveTo(i * cell + 0.5, 0), c.lineTo(i * cell + 0.5, rows * cell);
  for (let i = 0; i <= rows; i += cell < 6 ? 8 : 1) c.moveTo(0, i * cell + 0.5), c.lineTo(columns * cell, i * cell + 0.5);
  c.stroke();
  for (const s of spots) {
    const from = Math.floor((s.at - tile.at) / tile.element), wide = Math.max(1, s.bytes / tile.element);
    c.fillStyle = s.bad ? colour.bad : colour.mark;
    for (let k = 0; k < wide; ++k)
      c.fillRect((from + k) % columns * cell + 1, Math.floor((from + k) / columns) * cell + 1, cell - 1, cell - 1);
    if (cell * Math.min(wide, columns) < 14 || s.lane === undefined) continue;
    c.fillStyle = colour.paper;
    c.font = Math.min(11, cell - 2) + "px sans-serif";
    c.fillText(s.lane, from % columns * cell + 2, Math.floor(from / columns) * cell + cell - 3);
  }
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect(), scale = canvas.width / box.width;
    const x = Math.floor((event.clientX - box.left) * scale / cell), y = Math.floor((event.clientY - box.top) * scale / cell);
    ask(tile.at + (y * columns + x) * tile.element);
  });
  return element("div", {}, element("h2", { textContent: tile.name + ": " + rows + " × " + columns + " " + tile.type }),
    element("div", { className: "scroll" }, canvas));
}

const stepButton = (step, words) => {
  const button = element("button", { type: "button", textContent: words });
  button.addEventListener("click", () => go(step));
  return button;
};

// Shows who wrote an address last, and who reads and writes it next.
function ask(address) {
  const parts = [element("h2", { textContent: nameOf(film, address) + " (shared address " + address + ")" })];
  const tell = (what, found) => {
    const line = element("p", {}, what + ": ");
    if (found)
      line.append(stepButton(found.step, "warp " + film.warp[found.step] + ", lane " + found.lane + ", " +
        placeName(film.insn[found.step]) + ", step " + found.step));
    else line.append("nobody in this film");
    parts.push(line);
  };
  tell("last written by", whoTouches(film, view.at, -1, address, writes));
  tell("next read by", whoTouches(film, view.at, 1, address, reads));
  tell("next written by", whoTouches(film, view.at, 1, address, writes));
  $("answer").replaceChildren(...parts);
}

function addressButton(lane, at) {
  const button = element("button", { type: "button", textContent: nameOf(film, at), title: "shared address " + at });
  button.addEventListener("click", () => ask(at));
  return element("li", {}, lane + ": ", button);
}

function showShared(parts, memory, events, step) {
  const spots = new Map();
  let counted = 0, more = 0;
  for (const e of film.details[step] || []) if (e[0] === COUNTS && e[1] === film.insn[step]) counted += e[2], more += e[3];
  const list = element("ul", { className: "lanelist" });
  for (const [i, e] of events.entries()) {
    const d = decode(film, e);
    for (const l of d.lanes) {
      const tile = bufferTile(film, l.at);
      list.append(addressButton((events.length > 1 ? "part " + i + ", " : "") + l.lane, l.at));
      if (!tile) continue;
      if (!spots.has(tile)) spots.set(tile, []);
      spots.get(tile).push({ at: l.at, bytes: d.bytes, lane: l.lane });
    }
  }
  // Where an instruction loads or stores matrices, an event is a tile of the matrix, and a lane's
  // access is a row of that tile: the words say "tile" and "row" instead of "part" and "lane".
  const lane = film.recording.fragments[film.insn[step]] ? "row" : "lane";
  const d = decode(film, events[0]), names = [...spots.keys()].map((t) => t.name).join(", ");
  parts.push(element("p", { textContent: "Shared memory: " + ACCESSES[d.access] + " " + (names || "memory without a name") + ", " +
    d.bytes + " bytes a " + lane + (events.length > 1 ? ", in " + events.length + (lane === "row" ? " tiles" : " parts") : "") +
    (d.access === COPY ? "; the bytes come when the copy is waited for" : "") + "." }));
  if (d.access !== COPY) {
    parts.push(element("p", { textContent: plural(counted, "wavefront") +
      (more ? ", " + more + " of them by bank conflicts" : ", no bank conflict") + ". Each line is a wavefront; a number is the " + lane + " (+: and others) that wants the bank's word." }));
    if (d.access !== ATOMIC) for (const e of events.slice(0, 8)) parts.push(bankTable(decode(film, e)));
  }
  parts.push(element("details", {}, element("summary", { textContent: lane + "s and what they touch (who wrote it?)" }), list));
  for (const [tile, list] of spots) memory.push(tileMap(tile, list.concat(faultSpots(tile))));
}

function faultSpots(tile) {
  const f = films[0].faults[view.fault];
  return f && film === films[0] && f.at !== undefined && (view.at === f.step || view.at === f.first) && f.at >= tile.at &&
    f.at < tile.at + tileBytes(tile) ? [{ at: f.at, bytes: f.bytes || tile.element, bad: true }] : [];
}

function showRange(parts, memory, from, to, words) {
  const tiles = [];
  for (let at = from, tile; at < to && (tile = bufferTile(film, at)); at = tile.at + tileBytes(tile)) tiles.push(tile);
  parts.push(element("p", { textContent: words + " " + (tiles.map((t) => t.name).join(", ") || "shared memory") +
    " (shared addresses " + from + " to " + (to - 1) + ")." }));
  for (const t of tiles.slice(0, 2)) {
    const low = Math.max(from, t.at), high = Math.min(to, t.at + tileBytes(t));
    memory.push(tileMap(t, [{ at: low, bytes: high - low }]));
  }
}

function eventWords(e, step) {
  const warp = "Warp " + film.warp[step];
  if (e[0] === GLOBAL) {
    const d = decode(film, e);
    let sectors = 0;
    for (const c of film.details[step]) if (c[0] === COUNTS && c[1] === film.insn[step]) sectors = c[4];
    return "Global memory: " + (d.access === STORE ? "writes" : "reads") + " " + d.bytes + " bytes a lane, " +
      plural(d.lanes.length, "lane") + ", allocation " + d.allocation + " from byte " + d.lanes[0].at + " on: " + plural(sectors, "sector") + " of 32 bytes.";
  }
  if (e[0] === ARRIVE) return warp + " comes to barrier " + e[2] + (e[4] ? " of " + e[4] + " threads" : "") + ".";
  if (e[0] === RELEASE) return "Barrier " + e[1] + ": all have come; warps " + lanesOf(e[2]).join(", ") + " go on.";
  if (e[0] === MBARRIER)
    return warp + " " + MBARRIER_KINDS[e[3]] + " the mbarrier " + nameOf(film, e[2]) + " (" + plural(popcount(e[4]), "lane") + "): " +
      (e[6] - e[5]) + " of " + e[6] + " arrivals in phase " + e[8] + (e[7] ? ", " + e[7] + " bytes missing" : "") + ".";
  if (e[0] === ASK)
    return warp + " asks whether the phase of the mbarrier " + nameOf(film, e[2]) + " has ended: " + (e[4] ? "yes." : "not yet.");
  if (e[0] === GROUP)
    return e[2] < 0 ? warp + " closes a group of what it has begun." : warp + " waits until at most " + e[2] + " groups are on their way.";
  if (e[0] === FAULT && film === films[0] && e[1] !== view.fault && !film.faults[e[1]].again) return "Here the checks report: " + film.faults[e[1]].sentence;
  return "";
}

function laneStrip(mask) {
  return Array.from({ length: 32 }, (_, i) => mask >>> i & 1 ? "●" : "○").join("");
}

function showStep() {
  const s = view.at, insn = film.recording.instructions[film.insn[s]], parts = [], memory = [];
  const events = film.details[s] || [], shared = events.filter((e) => e[0] === SHARED);
  parts.push(element("h2", { textContent: "Warp " + film.warp[s] + ": " + insn[4] }));
  parts.push(element("p", { className: "code", textContent: laneStrip(film.mask[s]), title: "lanes 0 to 31: ● active" }));
  for (const { place, row } of linesOf(film.insn[s]).slice(1))
    parts.push(element("p", { className: "code", textContent: "called at " + shortPlace(place) + ": " + textAt(row).trim() }));
  const f = films[0].faults[view.fault], accesses = f ? accessesOf(f) : [];
  const access = accesses.findIndex(([which, step]) => films[which] === film && step === s);
  if (access >= 0 && !f.late)
    parts.push(element("p", {}, element("strong", { textContent: accesses.length < 2 ? "Here it went wrong." : access === 0 ? "This is the first access." : "This is the second access." })));
  if (shared.length) showShared(parts, memory, shared, s);
  for (const e of events) {
    if (e[0] === BULK)
      showRange(parts, memory, e[3], e[3] + e[4], "Bulk copy (TMA) of " + e[4] + " bytes " + (e[7] ? "from" : "to"));
    if (e[0] === PRODUCT) {
      if (e[3] > e[2]) showRange(parts, memory, e[2], e[3], "wgmma reads A from");
      showRange(parts, memory, e[4], e[5], "wgmma reads B from");
    }
    const words = eventWords(e, s);
    if (words) parts.push(element("p", { textContent: words }));
  }
  const fragment = film.recording.fragments[film.insn[s]];
  if (fragment) parts.push(...fragmentParts(fragment, events));
  else parts.push(...valueParts(events, s));
  if (!events.length && !fragment) parts.push(element("p", { textContent: "Registers only: no memory, no barrier." }));
  if (!film.hasValues && insn[1] && !/^(bra|bar|ret|exit)/.test(insn[4]))
    parts.push(element("p", { className: "legend", textContent: "What the registers hold is recorded where it is asked for, by --values " + insn[0].split("/").pop() + ":" + insn[1] + " (of a lab: --film-values)." }));
  $("step").replaceChildren(...parts);
  $("memory").replaceChildren(...memory);
  $("answer").replaceChildren();
  const change = lastAtMost(film.changes, s);
  if (change !== view.change) $("pipeline").replaceChildren(...pipelineParts());
  view.change = change;
}

// ---- Fragments ------------------------------------------------------------------------------------

// A table of a fragment's elements with the lane and register of each: register i of lane 4 g + t
// has in its part e the element (g + row[i], step * t + column[i] + e).
function fragmentTable(name, m, values) {
  const details = element("details", { open: view.openFragments.has(name) },
    element("summary", { textContent: name + ", " + m.type + ": which lane holds an element (a row's number is its lane)" }));
  const fill = () => details.childElementCount > 1 || details.append(...fragmentCells(m, values));
  details.addEventListener("toggle", () => {
    if (details.open) fill();
    view.openFragments[details.open ? "add" : "delete"](name);
  });
  if (details.open) fill();
  return details;
}

function fragmentCells(m, values) {
  const valueOf = (h) => values && values[h.register] && values[h.register].has(h.lane) ?
    " = " + numberIn(values[h.register].get(h.lane), m.type, h.element) : "";
  const cells = [];
  for (let lane = 0; lane < 32; ++lane)
    for (let i = 0; i < m.row.length; ++i)
      for (let e = 0; e < m.per; ++e) {
        const row = (lane >> 2) + m.row[i], column = m.step * (lane & 3) + m.column[i] + e;
        ((cells[row] = cells[row] || [])[column] = cells[row][column] || []).push({ lane, register: i, element: e });
      }
  const table = element("table", { className: "grid" });
  for (const row of cells)
    table.append(element("tr", {}, ...Array.from(row || [], (holders) => {
      if (!holders) return element("td");
      const words = holders.map((h) => "lane " + h.lane + ", register " + h.register + (m.per > 1 ? ", part " + h.element : "") + valueOf(h)).join("; ");
      const button = element("button", { type: "button", textContent: holders[0].lane, title: words });
      button.addEventListener("click", () => {
        view.lane = holders[0].lane;
        showStep();
      });
      return element("td", { className: holders.some((h) => h.lane === view.lane) ? "on" : "" }, button);
    })));
  const mine = [];
  cells.forEach((row, r) => (row || []).forEach((holders, c) => {
    for (const h of holders || []) if (h.lane === view.lane) mine.push("r" + h.register + ": (" + r + "," + c + ")" + valueOf(h));
  }));
  return [element("div", { className: "scroll" }, table),
    element("p", { textContent: "Lane " + view.lane + " holds, register by register: " + mine.join(", ") })];
}

// Adds to `f` a warp's fragments of a wgmma, sixteen rows each: D, and A unless A is in shared
// memory.
function addWgmma(f, events) {
  const list = (count, of) => Array.from({ length: count }, (_, i) => of(i)), half = (i) => 8 * (i >> 1 & 1);
  f.D = { type: "f32", per: 1, step: 2, row: list(f.n / 2, half), column: list(f.n / 2, (i) => 8 * (i >> 2) + (i & 1)) };
  const inRegisters = events.some((e) => e[0] === PRODUCT && e[2] === e[3]), per = f.k / 8;
  if (inRegisters)
    f.A = { type: per === 4 ? "e4m3" : per === 2 ? "f16" : "tf32", per, step: per, row: list(4, (i) => 8 * (i & 1)), column: list(4, (i) => f.k / 2 * (i >> 1)) };
}

function fragmentParts(f, events) {
  const parts = [], values = valuesOf(events);
  if (f.what === "wgmma") addWgmma(f, events);
  if (f.what === "tiles")
    for (let k = 0; k < f.count; ++k)
      if (values[k])
        parts.push(fragmentTable("tile " + k, { type: "f16", per: 2, step: 2, row: [0], column: [0] }, [values[k]]));
  if (f.what === "tiles")
    parts.push(element("p", { textContent: f.count + " tiles of 8 × 8 halves" + (f.transposed ? ", transposed" : "") +
      ": lane 4 g + t holds elements (g, 2 t) and (g, 2 t + 1) of each; lane 8 k + i names row i of tile k." }));
  if (f.what === "mma" || f.what === "wgmma")
    parts.push(element("p", { textContent: "A product of " + f.m + " × " + f.n + " × " + f.k + "." }));
  for (const name of ["matrix", "A", "B", "D"]) if (f[name]) parts.push(fragmentTable(name, f[name], name === "D" || name === "matrix" ? values : null));
  return parts;
}

// ---- Values ---------------------------------------------------------------------------------------

// The registers recorded at a step; for each, the bits of each lane.
function valuesOf(events) {
  const registers = [];
  for (const e of events)
    if (e[0] === VALUE) registers[e[2]] = new Map(lanesOf(e[4]).map((lane, i) => [lane, e[5 + i]]));
  return registers;
}

const scratch = new DataView(new ArrayBuffer(8));
function halfOf(bits) {
  const exponent = bits >> 10 & 31, fraction = bits & 1023, sign = bits >> 15 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction / 1024 * 2 ** -14);
}
function e4m3Of(bits) {
  const exponent = bits >> 3 & 15, fraction = bits & 7, sign = bits >> 7 ? -1 : 1;
  if ((bits & 127) === 127) return NaN;
  return sign * (exponent ? (1 + fraction / 8) * 2 ** (exponent - 7) : fraction / 8 * 2 ** -6);
}
function e5m2Of(bits) {
  return halfOf(bits << 8);
}

// The number at position `part` of a register's bits, as text.
function numberIn(bits, type, part) {
  const short = (x) => String(Number(x.toPrecision(6))), at = (width) => bits / 2 ** (width * part) & 2 ** width - 1;
  scratch.setUint32(0, bits >>> 0);
  if (type === "f32" || type === "tf32") return short(scratch.getFloat32(0));
  if (type === "f16") return short(halfOf(at(16)));
  if (type === "bf16") return scratch.setUint32(0, at(16) << 16 >>> 0), short(scratch.getFloat32(0));
  if (type === "e4m3") return short(e4m3Of(at(8)));
  if (type === "e5m2") return short(e5m2Of(at(8)));
  if (type === "s8" || type === "u8") return String(type === "s8" ? at(8) << 24 >> 24 : at(8));
  if (/^s(16|32)$/.test(type)) return String(type === "s16" ? bits << 16 >> 16 : bits | 0);
  return String(bits);
}

// The type in which an instruction's result is shown: the first type in its opcode. f16x2 is two
// halves in one register.
function resultType(opcode) {
  const type = opcode.match(/\.((?:bf16|f16|e4m3|e5m2)(?:x2)?|f32|f64|tf32|[usb]\d+)/);
  return type ? type[1] : "b32";
}

function valueParts(events, step) {
  const rows = events.filter((e) => e[0] === VALUE), opcode = opcodeOf(step), type = resultType(opcode), stores = opcode.startsWith("st.");
  if (!rows.length) return [];
  const list = element("ul", { className: "lanelist" });
  for (const [i, lane] of lanesOf(rows[0][4]).entries()) {
    const texts = rows.map((e) => {
      const bits = e[5 + i];
      if (e[3] === 0) return bits ? "true" : "false";
      if (type.endsWith("x2")) return "(" + numberIn(bits, type.slice(0, -2), 0) + ", " + numberIn(bits, type.slice(0, -2), 1) + ")";
      if (type === "b32") return "0x" + (bits >>> 0).toString(16) + " (as f32 " + numberIn(bits, "f32", 0) + ")";
      return e[3] > 4 ? String(bits) : numberIn(bits, type, 0);
    });
    list.append(element("li", { textContent: lane + ": " + texts.join(" ") }));
  }
  return [element("h2", { textContent: "What " + (stores ? "is stored" : "was written") + ", lane by lane" }), list];
}

// ---- Barriers, and copies under way ---------------------------------------------------------------

// The copies under way at a step; copies of one group to one tile are shown together.
function copiesAt(at) {
  const flying = new Map();
  for (const c of film.copies) {
    if (c.step > at || c.landed <= at) continue;
    const name = bufferAt(c.at);
    const key = [c.kind, c.warp, c.mbarrier >= 0 ? "m" + c.mbarrier + "." + c.phase : c.group, name].join();
    const sum = flying.get(key) || { ...c, name, count: 0, bytes: 0 };
    sum.count++;
    sum.bytes += c.bytes;
    flying.set(key, sum);
  }
  return [...flying.values()];
}

function pipelineParts() {
  const at = view.at, parts = [], waiting = new Map(), flying = copiesAt(at);
  for (let w = 0; w < film.recording.warps; ++w) {
    const state = stateOf(w, at);
    if (!state.waits) continue;
    const key = state.waits.barrier !== undefined ? "barrier " + state.waits.barrier : "mbarrier " + nameOf(film, state.waits.mbarrier);
    if (!waiting.has(key)) waiting.set(key, []);
    const lines = linesOf(film.insn[state.step]);
    waiting.get(key).push(w + " (" + shortPlace((lines[1] || lines[0]).place) + ")");
  }
  if (waiting.size) parts.push(element("h2", { textContent: "Who waits" }));
  for (const [key, warps] of waiting) parts.push(element("p", { textContent: "at " + key + ": warps " + warps.join(", ") }));
  if (film.mbarriers.size) {
    const table = element("table", { className: "plain" }, element("tr", {}, ...["mbarrier", "phase", "arrived", "bytes missing"].map((t) => element("th", { textContent: t, scope: "col" }))));
    for (const [address, list] of film.mbarriers) {
      let last = null;
      for (const m of list) if (m.step <= at) last = m.event;
      if (last)
        table.append(element("tr", {}, ...[nameOf(film, address), last[8], (last[6] - last[5]) + " of " + last[6], last[7]].map((t) => element("td", { textContent: t }))));
    }
    parts.push(element("h2", { textContent: "mbarriers" }), table);
  }
  if (film.buffers.length) {
    const table = element("table", { className: "plain" }, element("tr", {}, ...["buffer", "whose it is"].map((t) => element("th", { textContent: t, scope: "col" }))));
    for (const b of film.buffers) {
      const i = lastAtMost(b.steps, at), coming = flying.filter((c) => c.name.startsWith(b.name) && c.kind !== "wgmma" && !c.store);
      const words = i < 0 ? "not used yet" : ["read", "written", "updated", "asked for"][b.access[i]] + " by warp " + film.warp[b.steps[i]] + " (" + placeName(film.insn[b.steps[i]]) + ")";
      table.append(element("tr", {}, element("td", { textContent: b.name }), element("td", { textContent: words + (coming.length ? "; copies on their way" : "") })));
    }
    parts.push(element("h2", { textContent: "Buffers, and who touched them last" }), table);
  }
  if (film.copies.length) {
    const table = element("table", { className: "plain" }, element("tr", {}, ...["what", "warp", "to or from", "bytes", "waits for", "begun at"].map((t) => element("th", { textContent: t, scope: "col" }))));
    const kinds = { copy: "cp.async", bulk: "bulk copy", wgmma: "wgmma" };
    for (const c of flying)
      table.append(element("tr", {}, ...[kinds[c.kind], c.warp, c.name, c.bytes,
        c.mbarrier >= 0 ? "phase " + c.phase + " of " + nameOf(film, c.mbarrier) : "group " + c.group, placeName(film.insn[c.step])].map((t) => element("td", { textContent: t }))));
    parts.push(element("h2", { textContent: "On their way" }), flying.length ? table : element("p", { textContent: "nothing" }));
  }
  return parts;
}

// ---- Warps in instruction order -------------------------------------------------------------------

const STRIP = 100;

function showStrips() {
  const middle = film.column[view.at], from = Math.max(0, middle - STRIP / 2), lines = [];
  const walls = film.walls;
  for (let w = 0; w < film.recording.warps; ++w) {
    const list = film.ofWarp[w], columns = film.columnsOf[w];
    let i = lastAtMost(columns, from - 1) + 1, text = "", head = ("warp " + w).padEnd(8);
    for (let c = from; c < from + STRIP; ++c) {
      if (walls.has(c)) text += "│";
      if (columns[i] !== c) {
        text += i < columns.length ? "–" : " ";
        continue;
      }
      const letter = letterOf(list[i]);
      text += list[i] === view.at ? "<b>" + letter + "</b>" : letter;
      ++i;
    }
    lines.push(head + text);
  }
  $("strips").innerHTML = lines.join("\n");
}

// ---- Going on and back ----------------------------------------------------------------------------

function go(step) {
  view.at = Math.max(0, Math.min(film.steps - 1, step));
  placeWarps();
  showStep();
  showStrips();
  const w = film.warp[view.at];
  $("scrub").value = view.at;
  $("scrub-label").textContent = "step " + view.at + " of " + (film.steps - 1);
  const call = linesOf(film.insn[view.at])[1], mine = film.ofWarp[w], text = film.source[view.rowOf[film.insn[view.at]]];
  const [file, line] = film.recording.instructions[film.insn[view.at]];
  $("now").replaceChildren("Warp " + w + ", its instruction " + lastAtMost(mine, view.at) + " of " + (mine.length - 1) + ", line ",
    placeLink(file, line, placeName(film.insn[view.at]), 0), (text ? ": " + text[2].trim() : "") + (call ? " – called at " + shortPlace(call.place) + ": " + textAt(call.row).trim() : ""));
  const lesson = view.lessons.find((l) => l.step === view.at);
  $("lesson").textContent = lesson ? lesson.sentence : "";
  $("lesson-next").disabled = !nextLesson();
}

function neighbour(direction) {
  if (view.follow < 0) return view.at + direction;
  const list = film.ofWarp[view.follow], i = lastAtMost(list, view.at), on = list[i] === view.at;
  const k = direction > 0 ? i + 1 : on ? i - 1 : i;
  return k < 0 || k >= list.length ? view.at : list[k];
}

// The warp's next step that is on another line; backwards, the first step of the line before.
function otherLine(direction) {
  const list = film.ofWarp[film.warp[view.at]], row = (k) => view.rowOf[film.insn[list[k]]];
  let i = lastAtMost(list, view.at), here = row(i);
  while (list[i] !== undefined && row(i) === here) i += direction;
  if (list[i] === undefined) return direction > 0 ? list.at(-1) : list[0];
  if (direction < 0) for (here = row(i); i > 0 && row(i - 1) === here;) --i;
  return list[i];
}

function otherStop(direction) {
  const i = lastAtMost(film.stops, view.at);
  const k = direction > 0 ? i + 1 : film.stops[i] === view.at ? i - 1 : i;
  return k < 0 ? 0 : k >= film.stops.length ? film.steps - 1 : film.stops[k];
}

function follow(warp) {
  if (warp >= film.recording.warps) return;
  view.follow = warp;
  $("follow").value = warp;
  if (warp >= 0 && film.warp[view.at] !== warp) {
    const list = film.ofWarp[warp], i = lastAtMost(list, view.at);
    go(list[Math.max(0, i)]);
  }
}

// The one or two accesses of a fault, [[index of the film, step], ...]: a race's earlier access, if
// it is found, then the access at which the fault was reported.
function accessesOf(f) {
  const accesses = [[0, f.step]];
  if (f.elsewhere && films[1]) accesses.unshift([1, firstAccess(films[1], f, films[1].steps - 1)]);
  else if (f.first >= 0) accesses.unshift([0, f.first]);
  return accesses.filter(([, step]) => step >= 0);
}

function toFault() {
  if (!films[0].faults.length) return;
  const number = Math.max(0, view.fault), accesses = accessesOf(films[0].faults[number]), last = accesses.at(-1);
  const [which, step] = film === films[last[0]] && view.at === last[1] ? accesses[0] : last;
  showFault(number, step, which);
}

function showFault(number, step, which = 0) {
  showFilm(which);
  for (const row of view.rows) row.classList.remove("party");
  view.fault = number;
  const f = films[0].faults[number];
  for (const insn of [f.insn, f.other]) {
    const row = insn >= 0 && view.rows[view.rowOf[insn]];
    if (row) row.classList.add("party");
  }
  go(step);
  if (f.at !== undefined && f.thread !== undefined) ask(f.at);
}

const nextLesson = () => view.lessons.find((l) => l.step > view.at);

const PACE = 500; // milliseconds for each step
let playing = 0; // the timer; 0: not playing

function play(on) {
  clearInterval(playing);
  playing = on && setInterval(() => {
    const before = view.at;
    go(neighbour(1));
    if (view.at === before) play(false);
  }, PACE);
  $("play").textContent = on ? "pause" : "play";
  $("now").setAttribute("aria-live", on ? "off" : "polite"); // two sentences a second would be too
                                                             // fast for a screen reader
}

const actions = {
  play: () => play(!playing), "lesson-next": () => nextLesson() && goTo("#bookmark=" + nextLesson().name),
  first: () => go(0), last: () => go(film.steps - 1), back: () => go(neighbour(-1)), next: () => go(neighbour(1)),
  line: () => go(otherLine(1)), "line-back": () => go(otherLine(-1)), barrier: () => go(otherStop(1)), "barrier-back": () => go(otherStop(-1)),
  keys: () => {
    $("help").hidden = !$("help").hidden;
    $("keys").setAttribute("aria-expanded", String(!$("help").hidden));
  },
};
const keyActions = {
  ArrowRight: "next", ArrowLeft: "back", ArrowDown: "line", ArrowUp: "line-back", Home: "first", End: "last", b: "barrier", B: "barrier-back", "?": "keys",
  n: "lesson-next", p: "play",
};

function listen() {
  window.addEventListener("resize", measureSource);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readColours();
    showStep();
  });
  $("source").addEventListener("scroll", () => view.scrolling || (view.scrolled = $("source").scrollTop));
  const stop = (event) => event.target.id === "play" || play(false); // stops playing when the
                                                                     // reader does anything else
  $("viewer").addEventListener("click", stop);
  $("viewer").addEventListener("input", stop);
  for (const [id, act] of Object.entries(actions)) $(id).addEventListener("click", act);
  $("scrub").addEventListener("input", () => go(Number($("scrub").value)));
  $("follow").addEventListener("change", () => follow(Number($("follow").value)));
  $("cta").addEventListener("change", () => {
    showFilm(Number($("cta").value));
    go(0);
  });
  $("marks").addEventListener("change", () => {
    const step = Number($("marks").value);
    if (step >= 0) go(step);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "SELECT") return;
    if (event.target.classList.contains("scroll") && event.target.scrollWidth > event.target.clientWidth &&
      /^Arrow(Left|Right)$/.test(event.key)) return;
    const act = keyActions[event.key];
    if (act !== "play") play(false);
    if (act) actions[act]();
    else if (/^[0-9]$/.test(event.key)) follow(Number(event.key));
    else if (event.key === "a" || event.key === "A") follow(-1);
    else if (event.key === "f" || event.key === "F") toFault();
    else return;
    event.preventDefault();
  });
}

// ---- Lessons --------------------------------------------------------------------------------------

// The source lines of an instruction: its own, then the line that calls its function, and so on
// outwards.
function linesOf(insn) {
  const [file, line, callers] = film.recording.instructions[insn];
  return [file + ":" + line, ...callers].map((place) => ({ place, row: view.rowAt.has(place) ? view.rowAt.get(place) : -1 }));
}
const textAt = (row) => row < 0 ? "" : film.source[row][2];

// What happens in a step, in the terms of lessons.js.
function doneAt(step) {
  const done = { does: [], on: "", tiles: { reads: [], writes: [], copies: [] }, at: [] };
  for (const e of film.details[step] || []) {
    if (e[0] === RELEASE) Object.assign(done, { warps: lanesOf(e[2]) }), done.does.push("released");
    if (e[0] === ASK) done.does.push(e[4] ? "passes" : "waits"), done.on = nameOf(film, e[2]);
    if (e[0] === MBARRIER && e[5] === e[6] && e[8] > 0 && !e[7] && e[3] >= 2) done.does.push("completes"), done.on = nameOf(film, e[2]);
    if (e[0] === GROUP && e[2] >= 0) done.does.push("left"), done.left = e[2];
    if (e[0] === PRODUCT) done.does.push("product");
    if (e[0] === BULK) done.does.push("bulk"), done.moved = e[4], done.tiles[e[7] ? "reads" : "copies"].push(bufferAt(e[3])), done.at.push(e[3]);
    if (e[0] === GLOBAL && e[2] === ATOMIC) done.counter = true;
    if (e[0] !== SHARED) continue;
    const d = decode(film, e), name = bufferAt(d.lanes[0].at);
    if (reads(d.access)) done.tiles.reads.push(name);
    if (d.access !== LOAD) done.tiles[d.access === COPY ? "copies" : "writes"].push(name);
    done.at.push(d.lanes[0].at);
    done.bytes = d.bytes, done.all = (done.all || 0) + d.bytes * d.lanes.length;
  }
  return done;
}

function wavesAt(step) {
  const sum = { waves: 0, more: 0 };
  for (const e of film.details[step] || [])
    if (e[0] === COUNTS && e[1] === film.insn[step]) sum.waves += e[2], sum.more += e[3];
  return sum;
}

// {step}: the step that last read the bytes that this step writes or copies to; for an atomic
// operation on global memory, the first step of the same instruction. null: there is none before.
function readBefore(step, done) {
  if (done.counter) return film.insn.indexOf(film.insn[step]) < step ? { step: film.insn.indexOf(film.insn[step]) } : null;
  return done.at.length ? whoTouches(film, step - 1, -1, done.at[0], reads) : null;
}

// The first step that fits a lesson's pattern or, if the pattern has `most`, the fitting step with
// the most wavefronts; -1: none fits.
function findLesson(find) {
  const fits = film.recording.instructions.map((insn, i) => (!find.op || insn[4].includes(find.op)) &&
    (!find.at || linesOf(i).some((l) => textAt(l.row).includes(find.at))));
  let best = -1, most = 0;
  for (let s = 0; s < film.steps; ++s) {
    if (!fits[film.insn[s]]) continue;
    const done = find.does || find.on || find.reads || find.writes || find.copies || find.again ? doneAt(s) : null;
    const names = (what) => !find[what] || done.tiles[what].some((name) => name.startsWith(find[what]));
    if (done && !((!find.does || done.does.includes(find.does)) && (!find.on || done.on.startsWith(find.on)) &&
      names("reads") && names("writes") && names("copies") && (!find.again || readBefore(s, done)))) continue;
    if (!find.most) return s;
    const { waves } = wavesAt(s);
    if (waves > most) most = waves, best = s;
  }
  return best;
}

// The values that the sentence of a lesson may name.
function factsOf(step) {
  const done = doneAt(step), count = wavesAt(step), reader = readBefore(step, done);
  const tiles = [...done.tiles.copies, ...done.tiles.writes, ...done.tiles.reads];
  const flying = copiesAt(step).filter((c) => c.warp === film.warp[step] && !tiles.includes(c.name)).map((c) => c.name);
  return {
    warp: film.warp[step], lanes: popcount(film.mask[step]), bytes: done.bytes, all: done.all, ...count, least: count.waves - count.more,
    tile: [...new Set(tiles)].join(" and "), left: done.left, moved: done.moved, barrier: done.on,
    warps: done.warps && done.warps.join(", "), count: done.warps && done.warps.length,
    flying: [...new Set(flying)].join(", "), reader: reader ? film.warp[reader.step] : undefined,
  };
}

// The lessons that fit this recording, each with its step and its sentence, in the order of the
// film.
function findLessons() {
  const found = [];
  for (const lesson of LESSONS[film.chapter] || []) {
    const step = findLesson(lesson.find);
    if (step < 0) continue;
    const facts = factsOf(step);
    found.push({ name: lesson.name, step, facts, sentence: lesson.say.replace(/\{(\w+)\}/g, (_, key) => facts[key]) });
  }
  return found.sort((a, b) => a.step - b.step);
}

function showLessons() {
  const list = view.lessons.map((lesson) => {
    const button = element("button", { type: "button", textContent: lesson.name.replace(/-/g, " "), title: lesson.sentence });
    button.addEventListener("click", () => goTo("#bookmark=" + lesson.name));
    return element("li", {}, button);
  });
  $("lessons").hidden = !list.length;
  $("lesson-list").replaceChildren(...list);
}

// A page that shows this page in a frame passes its reader's choice of colours on in the address:
// ?colours=light or ?colours=dark.
function chooseColours() {
  const choice = new URLSearchParams(location.search).get("colours");
  if (choice !== "light" && choice !== "dark") return;
  document.documentElement.style.colorScheme = choice;
  for (const rule of document.styleSheets[0].cssRules) {
    if (rule.conditionText === "(prefers-color-scheme: dark)") rule.media.mediaText = choice === "dark" ? "all" : "not all";
  }
}

// Goes to #step=N or #bookmark=NAME. Returns false if `hash` is neither, or no such bookmark exists.
function goTo(hash) {
  const step = hash.match(/^#step=(\d+)$/), name = hash.match(/^#bookmark=([\w-]+)$/);
  const lesson = name && view.lessons.find((l) => l.name === name[1]);
  if (!step && !lesson) return false;
  follow(-1);
  go(step ? Number(step[1]) : lesson.step);
  if (location.hash !== hash) history.replaceState(null, "", hash);
  return true;
}

// ---- Bookmarks and faults -------------------------------------------------------------------------

function marks() {
  const list = [], once = new Set();
  const mark = (key, words, step) => {
    if (once.has(key)) return;
    once.add(key);
    list.push([step, words]);
  };
  let worst = { more: 0 };
  const read = new Set();
  for (let s = 0; s < film.steps; ++s)
    for (const e of film.details[s] || []) {
      if (e[0] === COUNTS && e[3] > worst.more) worst = { more: e[3], step: s };
      if (e[0] === RELEASE) mark("barrier", "the first barrier lets its warps go on", s);
      if (e[0] === ASK && !e[4]) mark("ask", "a warp first waits at an mbarrier", s);
      if (e[0] === BULK) mark("bulk", "the first bulk copy (TMA) begins", s);
      if (e[0] === GROUP && e[2] >= 0) mark("wait" + opcodeOf(s), "the first wait: " + opcodeOf(s), s);
      if (e[0] === PRODUCT) mark("product", "the first wgmma begins", s);
      if (e[0] !== SHARED) continue;
      const d = decode(film, e), tile = tileAt(film, d.lanes[0].at);
      if (d.access === COPY) mark("copy", "the first cp.async begins", s);
      if (!tile) continue;
      if (reads(d.access)) read.add(tile);
      else if (read.has(tile)) mark("over" + tile.name, tile.name + " is overwritten after it was read", s);
      else mark("fill" + tile.name, tile.name + " is written first", s);
    }
  film.insn.forEach((insn, s) => {
    if (film.recording.instructions[insn][3] === "tensor" && /mma/.test(opcodeOf(s)) && !/load|store/.test(opcodeOf(s))) mark("tensor", "the first product on tensor cores", s);
  });
  if (worst.more) list.push([worst.step, "the worst bank conflict: " + worst.more + " more wavefronts"]);
  film.faults.forEach((f, i) => {
    if (f.again) return;
    if (f.first >= 0) list.push([f.first, "fault " + (i + 1) + ", first access"]);
    list.push([f.step, "fault " + (i + 1) + ": " + f.kind]);
  });
  return list.sort((a, b) => a[0] - b[0]);
}

function showFaults() {
  const parts = [];
  films[0].faults.forEach((f, i) => {
    if (f.again) return;
    const line = element("p", {}, element("strong", { textContent: f.sentence + " " })), accesses = accessesOf(f);
    if (f.late) line.append("It comes after the end of this film, which is cut: a smaller shape may show it.");
    else accesses.forEach(([which, step], k) => {
      const words = accesses.length < 2 ? "go there" : k === 0 ? "first access" : "second access";
      const b = element("button", { type: "button", textContent: words + (films[1] ? ", CTA " + films[which].recording.cta.join(",") : "") });
      b.addEventListener("click", () => showFault(i, step, which));
      line.append(b, " ");
    });
    parts.push(line, element("details", {}, element("summary", { textContent: "in the simulator's words" }),
      element("p", { className: "told", textContent: f.text })));
  });
  const shown = parts.splice(0, 2);
  if (parts.length)
    shown.push(element("details", {}, element("summary", { textContent: parts.length / 2 + " more" }), ...parts));
  $("faults").replaceChildren(...shown);
  $("faults").hidden = !shown.length;
}

// ---- The start ------------------------------------------------------------------------------------

// For the test (code/ptxsim/test/watch_films.py): steps to the end and back, tries the buttons, and
// returns what was shown.
function selfTest() {
  const said = { steps: film.steps, waves: 0, drawn: 0, wrong: [], lines: {} };
  for (const [i, sum] of view.sums.entries())
    if (sum.runs) said.lines[film.source[i][0] + ":" + film.source[i][1]] = [sum.runs, sum.waves, sum.conflicts];
  go(0);
  let at = 0, stride = Math.max(1, Math.floor(film.steps / 100));
  for (let s = 0; s < film.steps; ++s) {
    const access = (film.details[s] || []).filter((e) => e[0] === SHARED && e[2] < ATOMIC);
    let counted = 0;
    for (const e of film.details[s] || []) if (e[0] === COUNTS && e[1] === film.insn[s]) counted += e[2];
    said.waves += counted;
    const drawn = access.reduce((sum, e) => sum + wavefronts(decode(film, e)).length, 0);
    said.drawn += drawn;
    if (access.length && drawn !== counted && said.wrong.length < 9) said.wrong.push([s, opcodeOf(s), drawn, counted]);
  }
  for (at = 0; at < film.steps - 1 && view.at === at; ++at)
    if (at % stride === 0) actions.next();
    else view.at++;
  said.end = view.at;
  for (; at > 0 && view.at === at; --at)
    if (at % stride === 0) actions.back();
    else view.at--;
  said.start = view.at;
  for (const [step] of marks()) go(step);
  actions.barrier(), actions.line(), actions["line-back"](), actions["barrier-back"](), actions.first();
  said.back = view.at;
  said.toured = [];
  for (let lesson = nextLesson(); lesson; lesson = nextLesson()) actions["lesson-next"](), said.toured.push(view.at);
  said.last = $("lesson-next").disabled;
  actions.play(), said.played = [$("play").textContent], $("back").click(), said.played.push($("play").textContent), actions.first();
  said.chunks = [...document.querySelectorAll("#source a, #now a")].map((a) => [a.textContent, a.getAttribute("href"), a.tabIndex]);
  const began = performance.now();
  for (let i = 0; i < 120; ++i) {
    actions.next();
    void document.body.offsetHeight; // forces the layout, so that it is timed, too
  }
  said.ms = (performance.now() - began) / 120;
  said.lessons = view.lessons.map((l) => ({ ...l, warp: film.warp[l.step], opcode: opcodeOf(l.step), lines: linesOf(film.insn[l.step]).map((x) => textAt(x.row).trim()) }));
  const valued = film.details.findIndex((events, s) => events && film.recording.fragments[film.insn[s]] && events.some((e) => e[0] === VALUE));
  // Notes what the page shows at the first step for which a fragment's values were recorded.
  if (valued >= 0) go(valued), said.held = $("step").textContent.match(/Lane 0 holds, register by register: ([^]*)/)?.[1];
  said.buffers = film.buffers.map((b) => b.name);
  said.opened = view.opened;
  said.fault = films[0].faults.filter((f) => !f.again).map((f) => [...accessesOf(f).map(([which, step]) => [which, step, placeName(films[which].insn[step])]), f.sentence]);
  return said;
}

// Shows one of the films: its source with counts, its warps, its bookmarks.
function showFilm(which) {
  if (film === films[which]) return;
  film = films[which];
  const r = film.recording;
  Object.assign(view, { at: 0, follow: -1, here: null, change: null });
  $("shown").textContent = " Shown: CTA (" + r.cta.join(", ") + ") of " + r.grid.join(" × ") + ", " + r.warps + " warps, " + film.steps + " steps." +
    (r.cut ? " The film is cut here: the kernel goes on after its last step. A smaller shape shows it whole." : "");
  showSource();
  $("follow").replaceChildren(element("option", { value: -1, textContent: "all warps" }),
    ...film.ofWarp.map((_, w) => element("option", { value: w, textContent: "warp " + w })));
  $("marks").replaceChildren(element("option", { value: -1, textContent: "a place of interest" }),
    ...marks().map(([step, words]) => element("option", { value: step, textContent: words + " (step " + step + ")" })));
  $("scrub").max = film.steps - 1;
  $("cta").value = which;
  view.lessons = findLessons();
  showLessons();
  measureSource();
}

async function start() {
  const data = await unpack($("film").textContent.trim());
  films = [data.recording, data.other].filter((r) => r).map((recording) => makeFilm({ ...data, recording }));
  document.body.classList.add("playing");
  $("viewer").hidden = false;
  $("cta").append(...films.map((f, i) => element("option", { value: i, textContent: "(" + f.recording.cta.join(", ") + ")" })));
  $("cta-label").hidden = films.length < 2;
  chooseColours();
  readColours();
  showFilm(0);
  showFaults();
  listen();
  window.addEventListener("hashchange", () => goTo(location.hash));
  const wrong = film.faults.findIndex((f) => !f.again);
  if (wrong >= 0) showFault(wrong, film.faults[wrong].step);
  else go(view.lessons.length ? view.lessons[0].step : 0);
  goTo(location.hash);
  view.opened = view.at;
  // ?play in the address starts playing, except for readers who prefer no motion.
  if (new URLSearchParams(location.search).has("play") && !matchMedia("(prefers-reduced-motion: reduce)").matches) play(true);
}

const opened = start().catch((error) => {
  document.body.prepend(element("p", { textContent: "This film cannot be shown: " + error.message }));
  throw error;
});
