// site.js: what the pages of the site do with JavaScript: colours of the reader's choice, the search, copying, and a
// film inside the figure that names it. Nothing is fetched; search.js, with the book's words, is loaded when the reader
// first searches.
"use strict";

// ---- Colours (set before anything is drawn) ---------------------------------------------------------

const KEY = "attention-in-stages-colours", DARK = "screen and (prefers-color-scheme: dark)";

function kept() {
  try { // a browser may forbid storage to pages opened as files
    return localStorage.getItem(KEY) || "system";
  } catch {
    return "system";
  }
}
function colour(choice) {
  document.getElementById("dark").media = choice === "dark" ? "screen" : choice === "light" ? "not all" : DARK;
  document.documentElement.style.colorScheme = choice === "system" ? "" : choice;
}
colour(kept());

// The address of a film, with the choice of colours in which the film is to be shown.
function inColours(address, choice) {
  const url = new URL(address);
  if (choice === "system") url.searchParams.delete("colours");
  else url.searchParams.set("colours", choice);
  return url.href;
}

// ---- Making things ----------------------------------------------------------------------------------

function element(name, properties, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

function addColours(tools) {
  const choice = element("select", { title: "Colours" },
    ...["system", "light", "dark"].map((c) => element("option", { value: c, textContent: c === "system" ? "colours" : c })));
  choice.setAttribute("aria-label", "Colours: the system's, light or dark");
  choice.value = kept();
  choice.addEventListener("change", () => {
    colour(choice.value);
    for (const frame of document.querySelectorAll(".screen iframe")) frame.src = inColours(frame.src, choice.value);
    try {
      localStorage.setItem(KEY, choice.value);
    } catch { /* the choice then holds for this page only */ }
  });
  tools.append(choice);
}

// Opens the contents if they are beside the text, and closes them if they are above it.
function foldContents() {
  const wide = matchMedia("(min-width: 68rem)"), contents = document.getElementById("contents");
  const set = () => contents.open = wide.matches;
  wide.addEventListener("change", set);
  set();
  const here = contents.querySelector("[aria-current]");
  if (wide.matches && here) here.closest("nav").scrollTop = here.offsetTop - innerHeight / 3;
}

// ---- Copying ----------------------------------------------------------------------------------------

// The code of a listing as it reads now: without line numbers and struck-out lines.
function codeOf(pre) {
  const copy = pre.querySelector("code").cloneNode(true);
  for (const gone of copy.querySelectorAll(".removed")) {
    if (gone.nextSibling && gone.nextSibling.nodeType === 3) gone.nextSibling.data = gone.nextSibling.data.replace(/^\n/, "");
    gone.remove();
  }
  for (const number of copy.querySelectorAll(".no")) number.remove();
  return copy.textContent;
}

async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // the browser is old, or forbids the clipboard to pages opened as files
    const box = element("textarea", { value: text });
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
  }
}

function addCopying() {
  for (const pre of document.querySelectorAll("main pre")) {
    const button = element("button", { type: "button", className: "copy", textContent: "copy" });
    button.addEventListener("click", async () => {
      await toClipboard(codeOf(pre));
      button.textContent = "copied";
      setTimeout(() => button.textContent = "copy", 1500);
    });
    const box = element("div", { className: "copies" });
    pre.replaceWith(box);
    box.append(pre, button);
    if (pre.scrollWidth > pre.clientWidth) pre.tabIndex = 0; // so that keys can scroll it
  }
}

// ---- Tables and figures -----------------------------------------------------------------------------

// Makes a table or a formula that is wider than the page focusable, so that keys can scroll it.
function reachWide() {
  for (const formula of document.querySelectorAll("main math[display=block]"))
    if (formula.scrollWidth > formula.clientWidth) formula.tabIndex = 0;
  for (const [i, box] of document.querySelectorAll("main .table").entries())
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      const number = box.querySelector("caption .number")?.textContent || "A table, the " + (i + 1) + ". of this page";
      box.setAttribute("aria-label", number + ": wider than the page");
    }
}

// A click on a picture makes it fill the window, and another click ends that. On a timeline that has a film, a click
// opens the film.
function addEnlarging() {
  for (const picture of document.querySelectorAll("main figure:not(.timeline) img")) {
    picture.title = "click to enlarge";
    picture.addEventListener("click", () => {
      picture.classList.toggle("large");
      picture.title = picture.classList.contains("large") ? "click to close" : "click to enlarge";
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") for (const picture of document.querySelectorAll("img.large")) picture.click();
  });
}

// ---- Films ------------------------------------------------------------------------------------------

function toggleFilm(link, plays) {
  const figure = link.closest("figure"), open = figure.querySelector(".screen");
  if (open) {
    open.remove();
    figure.classList.remove("playing");
    link.focus();
    return;
  }
  const close = element("button", { type: "button", textContent: "close the film" });
  close.addEventListener("click", () => toggleFilm(link));
  const alone = element("a", { href: link.href, target: "_blank", rel: "noopener", textContent: "on a page of its own" });
  const address = new URL(link.href);
  if (plays) address.searchParams.set("play", "");
  const frame = element("iframe", { src: inColours(address.href, document.querySelector("#tools select").value), title: link.textContent });
  figure.querySelector("figcaption").before(element("div", { className: "screen" }, element("p", {}, alone, " ", close), frame));
  figure.classList.add("playing");
  if (!plays) frame.focus(); // a film that starts by itself does not take the focus
}

function addFilms() {
  for (const link of document.querySelectorAll("a.film")) {
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || !link.closest("figure")) return;
      event.preventDefault();
      toggleFilm(link);
    });
    const picture = link.closest(".timeline")?.querySelector("img");
    if (picture) picture.addEventListener("click", () => toggleFilm(link));
  }
  // The film of the landing page plays as soon as it is visible, if the window is wide enough.
  const first = document.querySelector(".plays a.film");
  if (first && matchMedia("(min-width: 60rem) and (prefers-reduced-motion: no-preference)").matches) {
    const watcher = new IntersectionObserver((seen) => {
      if (!seen.some((s) => s.isIntersecting)) return;
      watcher.disconnect();
      if (!first.closest("figure").querySelector(".screen")) toggleFilm(first, true);
    });
    watcher.observe(first);
  }
}

// ---- The search -------------------------------------------------------------------------------------

const MOST = 40, AROUND = 70;
let words; // [{address, kind, title, where, text, low, name}], from search.js

function loadWords() {
  words = words || new Promise((resolve, reject) => {
    const script = element("script", { src: "search.js" });
    script.addEventListener("load", () => resolve(window.BOOK.map(([address, kind, title, where, text]) =>
      ({ address, kind, title, where, text, low: spelled(text), name: spelled(title).replace(/[:,]/g, "") }))));
    script.addEventListener("error", () => reject(new Error("search.js is missing beside this page")));
    document.head.append(script);
  });
  return words;
}

// Text in lower case with -ise for -ize; its length stays the same.
function spelled(text) {
  return text.toLowerCase().replace(/iz(?=[aei])/g, "is");
}

// A word without its ending, so that "specialization" also finds "specialised".
function stem(word) {
  const whole = spelled(word);
  return whole.length < 6 ? whole : whole.replace(/(ations?|ings?|ed|es|e|s)$/, "");
}

// How often a word is in a text. Inside another word it counts little, and if it is short not at all: "tma" is in
// "softmax".
function count(text, word) {
  const whole = /^[^\p{L}\p{N}]/u.test(word);
  let n = 0;
  for (let i = text.indexOf(word); i >= 0 && n < 10; i = text.indexOf(word, i + word.length))
    n += whole || i === 0 || /[^\p{L}\p{N}]/u.test(text[i - 1]) ? 1 : word.length > 3 ? .1 : 0;
  return n;
}

// How well a place answers the search; 0: not at all. It must contain all words; a match in a name counts more than one
// in the text. The programs of the appendix contain nearly every word, so they come after places that explain the word.
function score(place, phrase, wanted) {
  const counts = wanted.map((word) => [count(place.name, word), count(place.low, word)]);
  if (counts.some(([inName, inText]) => inName + inText === 0)) return 0;
  let points = counts.reduce((sum, [inName, inText]) => sum + inText + 30 * Math.min(1, inName), 0) + 10 * count(place.low, phrase);
  if (count(place.name, phrase) >= 1) points += 100;
  if (place.name === phrase) points += place.kind === "index" ? 400 : 200;
  return place.address.startsWith("programs-") ? points / 10 : points;
}

function find(places, query) {
  const phrase = spelled(query.trim()).replace(/\s+/g, " "), wanted = phrase.split(" ").filter(Boolean).map(stem);
  if (!wanted.length) return [];
  return places.map((place, i) => ({ place, i, points: score(place, phrase, wanted) })).filter((r) => r.points > 0)
    .sort((a, b) => b.points - a.points || a.i - b.i).map(({ place }) => ({ place, phrase, wanted }));
}

// The text around a match, with the searched words marked.
function excerpt({ place, phrase, wanted }) {
  let at = place.low.indexOf(phrase);
  if (at < 0) at = Math.max(0, ...wanted.map((word) => place.low.indexOf(word)));
  // The excerpt is cut between words.
  const all = place.text, least = at - AROUND, most = at + phrase.length + AROUND;
  const from = least > 0 ? Math.min(at, all.indexOf(" ", least) + 1) : 0;
  const to = most < all.length ? Math.max(at + phrase.length, all.lastIndexOf(" ", most)) : all.length;
  const out = element("p", {}, from > 0 ? "… " : ""), text = all.slice(from, to), low = spelled(text);
  const next = (i) => wanted.map((word) => [low.indexOf(word, i), word]).filter(([k]) => k >= 0)
    .sort((a, b) => a[0] - b[0] || b[1].length - a[1].length)[0];
  let done = 0;
  for (let hit = next(0); hit; hit = next(done)) {
    out.append(text.slice(done, hit[0]), element("mark", { textContent: text.slice(hit[0], hit[0] + hit[1].length) }));
    done = hit[0] + hit[1].length;
  }
  out.append(text.slice(done), to < all.length ? " …" : "");
  return out;
}

function result(found) {
  const { place } = found, kind = element("span", { className: "kind" }, place.kind);
  if (Array.isArray(place.where))
    place.where.forEach(([href, textContent], i) => kind.append(i ? ", " : " · ", element("a", { href, textContent })));
  else if (place.where) kind.append(" · " + place.where);
  const line = element("li", {}, element("a", { href: place.address, textContent: place.title }), " ", kind);
  if (place.text) line.append(excerpt(found));
  return line;
}

let scrolled = 0, latest = 0;
async function search(query) {
  const mine = ++latest, old = document.getElementById("results");
  if (!query.trim()) {
    if (old) old.remove();
    if (document.body.classList.contains("searching")) {
      document.body.classList.remove("searching");
      scrollTo({ top: scrolled, behavior: "instant" });
    }
    return;
  }
  const box = element("section", { id: "results" });
  box.setAttribute("aria-label", "Search results");
  try {
    const found = find(await loadWords(), query), n = found.length;
    if (mine !== latest) return; // the reader has typed more
    box.append(element("h1", { textContent: n === 0 ? "Nothing found" : n === 1 ? "1 place" : n + " places" +
      (n > MOST ? ", the first " + MOST : "") }), element("ol", {}, ...found.slice(0, MOST).map(result)));
  } catch (error) {
    box.append(element("p", { textContent: error.message }));
  }
  box.firstChild.setAttribute("role", "status");
  if (!document.body.classList.contains("searching")) scrolled = scrollY;
  const now = document.getElementById("results");
  if (now) now.remove();
  document.body.classList.add("searching");
  document.querySelector("main").prepend(box);
  scrollTo({ top: 0, behavior: "instant" });
}

function keepQuery(query) {
  const url = new URL(location.href);
  url.searchParams.set("q", query);
  try {
    history.replaceState(null, "", url.href);
  } catch { /* if the browser forbids it to files, Back leads to the page */ }
}

function addSearch(tools) {
  const input = element("input", { type: "search", name: "q", placeholder: "Search ( / )", autocomplete: "off" });
  input.setAttribute("aria-label", "Search the book");
  const form = element("form", { role: "search", action: location.pathname.split("/").pop() }, input);
  tools.append(form);
  input.addEventListener("focus", () => loadWords().catch(() => {}), { once: true });
  input.addEventListener("input", () => search(input.value));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const first = document.querySelector("#results a");
    if (first) first.click();
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      input.focus();
    } else if (event.key === "Escape" && document.body.classList.contains("searching")) {
      input.value = "";
      search("");
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && event.target.closest("#tools form, #results")) {
      const links = [input, ...document.querySelectorAll("#results li > a")], i = links.indexOf(event.target);
      links[Math.max(0, Math.min(links.length - 1, i + (event.key === "ArrowDown" ? 1 : -1)))].focus();
      event.preventDefault();
    }
  });
  document.querySelector("main").addEventListener("click", (event) => {
    const link = event.target.closest("#results a");
    if (!link) return;
    if (link.pathname !== location.pathname) { // Back will lead to the results
      keepQuery(input.value);
      return;
    }
    input.value = ""; // the place is on this page: shows the page again instead of the results
    document.getElementById("results").remove();
    document.body.classList.remove("searching");
  });
  const asked = new URLSearchParams(location.search).get("q"); // as in index.html?q=swizzle
  if (asked) {
    input.value = asked;
    search(asked);
  }
}

document.addEventListener("DOMContentLoaded", () => {
  const tools = document.getElementById("tools");
  addSearch(tools);
  addColours(tools);
  foldContents();
  addCopying();
  reachWide();
  addEnlarging();
  addFilms();
});
