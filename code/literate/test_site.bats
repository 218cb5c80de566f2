# The site: the one page of fixtures/weave, cut into pages; these pages in a browser.

bats_require_minimum_version 1.5.0

setup_file() {
    export literate=$BATS_TEST_DIRNAME
    export made=$BATS_FILE_TMPDIR/made
    cp -r "$literate/fixtures/weave" "$made"
    cd "$made"
    mkdir -p build films
    cp hashes.tsv build/
    printf '%s\n' '<title>A film</title><p>It is shown.' '<script type="application/octet-stream" id="film">a</script>' \
        > films/chapter2.html
    EDITION=e1 "$literate/book" html build/book.html
    cut_site build/site films
}

setup() {
    cd "$made"
}

cut_site() { # DIR [FILMS [PDF...]]
    texlua "$literate/site/cut.lua" build/book.html README.md "$@"
}

page() { # NAME: its title and the links that lead on
    python3 "$literate/read_site.py" page "build/site/$1.html"
}

@test "a page a chapter, in the book's order, and every link has its target" {
    run python3 "$literate/read_site.py" build/site
    [ "$status" -eq 0 ]
    [[ "$output" =~ ^'11 pages, '[0-9]+' links'$ ]]
    [ "$(page index)" = "$(printf '%s\n' "A Specimen" "film films/chapter2.html" "film films/chapter2.html" \
        "next preface.html")" ]
    [ "$(page preface)" = "$(printf '%s\n' "Preface · A Specimen" "prev index.html" "next chapter1.html")" ]
    [ "$(page interlude-SP)" = "$(printf '%s\n' "Interlude: A look at specimens · A Specimen" "prev chapter1.html" \
        "next chapter2.html")" ]
    [ "$(page subjects | head -1)" = "Index · A Specimen" ]
    at=index order=index
    while at=$(page "$at" | sed -n 's/^next \(.*\)\.html$/\1/p') && [ -n "$at" ]; do
        order+=" $at"
    done
    [ "$order" = "index preface chapter1 interlude-SP chapter2 appendix-A programs-2 words bibliography \
index-of-chunks subjects" ]
    [ "$(page programs-2 | head -1)" = "A.2: Programs of chapter 2: Scaling it faster · A Specimen" ]
    grep -q '<li><a href="programs-2.html#programs-2">2 Scaling it faster</a></li>' build/site/appendix-A.html
    grep -q '<p class="part">What is left</p>' build/site/appendix-A.html
    grep -q 'Edition <code>e1</code>' build/site/chapter1.html
}

@test "the landing page: what README.md says, figures and an exercise of the book, the contents" {
    sed 's|<!-- page words -->|<div class="solutions"><p><strong>2.1</strong> ★ For <b>four</b> a turn.</p></div>&|' \
        build/book.html > build/answered.html
    echo 'a PDF' > build/book.pdf
    texlua "$literate/site/cut.lua" build/answered.html README.md build/landing films build/book.pdf
    has() { grep -qF -- "$1" build/landing/index.html; }
    has 'A specimen of a README. Its <em>first part</em> is shown, and a file (<code>chapters/words.md</code>),'
    has '<code>words.md</code> and <a href="https://example.org/page">a page</a> are named in it.'
    has 'make chapter1 &amp;&amp; ./lab1    # a comment'
    has '<td style="text-align: right;"><strong>2.5</strong></td>'
    has '<h2 id="exercises">2 exercises, 1 of them answered here</h2>'
    has '<p><strong>2.1</strong></p>'
    has '★ (2 points) Why <code>i + 3 &lt; n</code>?'
    has 'For <b>four</b> a turn.'
    has '<a href="preface.html">Read it here</a> <a href="book.pdf">book.pdf</a>'
    has 'Code is under a licence (<code>LICENSE</code>).'
    has '<a class="level2" href="chapter1.html#code">'
    has '<a class="film" href="films/chapter2.html">'
    if grep 'not shown' build/landing/index.html; then
        return 1
    fi
    [ "$(grep -c '<img' build/landing/index.html)" -eq 3 ]
    cmp build/book.pdf build/landing/book.pdf
    python3 "$literate/read_site.py" build/landing
    REPOSITORY=https://example.org/book cut_site build/landing
    has '<a href="https://example.org/book/blob/HEAD/chapters/words.md">a file</a>'
    has '<a href="https://example.org/book/blob/HEAD/LICENSE">LICENSE</a>'
}

@test "a link leads to the page of its target, and stays within a page that has the target" {
    grep -qF '<a href="#fig:line">figure 1.2</a>' build/site/chapter1.html
    grep -qF '<a href="chapter2.html#sec-faster">' build/site/chapter1.html
    grep -qF '<a href="chapter1.html#chunk:ch01-kernel:1">' build/site/chapter2.html
    grep -qF 'href="bibliography.html#ref-knuth1984"' build/site/chapter1.html
}

@test "the contents: all sections on the landing page, on a page its own and the other chapters" {
    [ "$(sed -n '/<nav/,/<.nav>/p' build/site/chapter2.html | grep -c 'class="level2"')" -eq \
        "$(sed -n '/<main/,$p' build/site/index.html | grep -c 'class="level2" href="chapter2.html')" ]
    grep -qF '<a aria-current="page" class="level1" href="#sec-faster">' build/site/chapter2.html
    grep -qF '<a class="level1" href="chapter1.html#sec-scale">' build/site/chapter2.html
}

@test "a chunk and a section have an address to copy" {
    grep -qF '<a class="here" href="#chunk:ch01-kernel:1" aria-label="link to this chunk"></a>' build/site/chapter1.html
    grep -qF '<a class="here" href="#code" aria-label="link to this section"></a>' build/site/chapter1.html
    [ "$(grep -o 'class="here" href="#[^"]*"' build/site/*.html | sed 's/.*#//' | sort | uniq -d)" = "" ]
}

@test "read out: a table's head has words, the bibliography is a list" {
    grep -q '<td></td>' build/site/index.html
    [ "$(grep -c 'role="list"' build/site/bibliography.html)" -eq 1 ]
    [ "$(grep -c 'role="listitem"' build/site/bibliography.html)" -eq "$(grep -c 'id="ref-' build/site/bibliography.html)" ]
    run -1 grep -E '<th[^>]*></th>|doc-biblio(entry|graphy)' build/site/*.html
}

@test "an existing film is linked, a missing one is named; a picture stays where it is" {
    page chapter1 | grep -qx 'film films/chapter2.html'
    grep -qF '<code>build/films/chapter1.html#bookmark=one-tile</code>' build/site/chapter1.html
    grep -q '^const CHUNKS = {"chapters/01-scale.md":' build/site/films/chapter2.html
    at=$(($(grep -n '^/. Multiplies x' chapters/01-scale.md | cut -d: -f1)))
    grep -qF "[$at,$((at + 8)),\"../chapter1.html#chunk:ch01-kernel:1\"]" build/site/films/chapter2.html
    sed '/^const CHUNKS/,/^<.script>/d; /^<script>$/d' build/site/films/chapter2.html | cmp films/chapter2.html
    [ "$(ls build/site/films)" = chapter2.html ]
    [ "$(grep -c '<img' build/site/chapter1.html)" -eq "$(sed -n '/page chapter1 /,/page interlude/p' build/book.html | grep -c '<img')" ]
    cut_site build/without | grep -q '; 0 films$'
    [ -z "$(ls build/without/films)" ]
    python3 "$literate/read_site.py" build/without
}

@test "a film of a chapter that is not in the book is an error at its line" {
    cp -r "$literate/fixtures/weave" "$BATS_TEST_TMPDIR/book"
    cd "$BATS_TEST_TMPDIR/book"
    mkdir build
    cp hashes.tsv build/
    sed -i 's/film=2/film=7/' chapters/01-scale.md
    run "$literate/book" html build/out
    [ "$status" -ne 0 ]
    [ "$output" = "chapters/01-scale.md:$(grep -n film=7 chapters/01-scale.md | cut -d: -f1): film=\"7\": no chapter of the book has that number" ]
    [ ! -e build/out ]
}

@test "the student's edition names a film of the reader's own where the book's would be the solution" {
    AUDIENCE=student "$literate/book" html build/student.html
    texlua "$literate/site/cut.lua" build/student.html README.md build/site-student films
    [ -z "$(ls build/site-student/films)" ]
    grep -qF 'Film of yours: <code>./lab2 my.cu --film my.html</code>' build/site-student/chapter1.html
    if grep -F 'chapter2.html</code>' build/site-student/*.html; then
        return 1
    fi
    python3 "$literate/read_site.py" build/site-student
}

@test "the page of the whole book names the film's file" {
    grep -qF '<span class="film"> Film: <code>build/films/chapter2.html</code>.</span>' build/book.html
}

@test "what cannot be cut says so in a line, and leaves the site as it was" {
    run texlua "$literate/site/cut.lua" build/book.html README.md
    [ "$status" -eq 2 ]
    [ "$output" = "usage: cut.lua BOOK.html README.md DIR [FILMS [PDF...]]" ]
    run texlua "$literate/site/cut.lua" build/none.html README.md build/site
    [ "$status" -eq 1 ]
    [ "$output" = "site: cannot read build/none.html" ]
    run texlua "$literate/site/cut.lua" films/chapter2.html README.md build/site
    [ "$status" -eq 1 ]
    [ "$output" = "site: films/chapter2.html is no book of code/literate/book" ]
    before=$(cat build/site/*.html | cksum)
    wrong() { # SED-SCRIPT WORDS
        sed "$1" build/book.html > build/wrong.html
        run texlua "$literate/site/cut.lua" build/wrong.html README.md build/site films
        [ "$status" -eq 1 ]
        [ "$output" = "site: $2" ]
        [ "$before" = "$(cat build/site/*.html | cksum)" ]
    }
    wrong 's/id="fig:line"/id="gone"/' "page chapter1 has a link to #fig:line, which is nowhere in the book"
    wrong 's/ladder=fig:tiles/ladder=fig:none/' "the landing page shows fig:none, which is no figure of the book"
    wrong 's/exercise=2.1/exercise=2.3/' "the landing page shows exercise 2.3, which is none of the book"
    wrong 's/exercise=2.1//' "book.md does not say which exercise the landing page shows"
    readme_without() { # SED-SCRIPT WORDS
        sed "$1" README.md > build/README.md
        run texlua "$literate/site/cut.lua" build/book.html build/README.md build/site films
        [ "$status" -eq 1 ]
        [ "$output" = "site: build/README.md has no $2 for the landing page" ]
        [ "$before" = "$(cat build/site/*.html | cksum)" ]
    }
    readme_without '/^!/d' opening
    readme_without '/end of scoreboard/d' scoreboard
    readme_without '/^Code is/d' licences
    run texlua "$literate/site/cut.lua" build/book.html none.md build/site films
    [ "$status" -eq 1 ]
    [ "$output" = "site: cannot read none.md" ]
    run cut_site build/site films build/none.pdf
    [ "$status" -eq 1 ]
    [ "$output" = "site: cannot read build/none.pdf" ]
    [ "$before" = "$(cat build/site/*.html | cksum)" ]
    mkdir build/none
    echo 'no film' > build/none/chapter2.html
    run cut_site build/site build/none
    [ "$status" -eq 1 ]
    [ "$output" = "site: build/none/chapter2.html is no film" ]
    wrong 's/id="fig:line"/id="sec-faster"/' "two places are named sec-faster, on the pages chapter1 and chapter2"
    head -c 1000000 /dev/zero | tr '\0' x > long
    sed '/It has µs/r long' build/book.html > build/wrong.html
    run texlua "$literate/site/cut.lua" build/wrong.html README.md build/site films
    [ "$status" -eq 1 ]
    [[ "$output" =~ ^'site: chapter1.html has 10'[0-9]{5}' bytes; at most 1000000'$ ]]
    [ "$before" = "$(cat build/site/*.html | cksum)" ]
}

@test "the search's words: sections with their text, names of code, figures, the index" {
    {
        echo 'window = {};'
        cat build/site/search.js
        echo 'for (const p of window.BOOK) console.log(JSON.stringify(p));'
    } > build/words.js
    command -v node >/dev/null && node build/words.js > words || sed 's/^\["/["/; s/,$//' build/site/search.js > words
    grep -qF '["chapter1.html#chunk:ch01-kernel:1","code","⟨Scale one tile of keys⟩","Chapter 1 Scaling an array",""]' words
    grep -qF '"index","band",[["interlude-SP.html#ix-4","SP.1"],["words.html#ix-6","Words"]],""]' words
    grep -qF '"index","example",[["interlude-SP.html#ix-1","SP"],["words.html#ix-7","Words"]],"see specimen"]' words
    grep -qF '["chapter1.html#fig:tiles","figure","Figure 1.1. A query tile meets one key tile, ' words
    grep -F '["chapter1.html#code","section","1.2 The code","Chapter 1 Scaling an array",' words |
        grep -qF 'printf(\"launching %d threads, 100%% sure & ready {#1} ~ ^ \\\\ \\n\"'
}

# Opens a page that has the site in a frame, where the script clicks and types; prints what the
# script saw.
browse() { # SCRIPT
    cat > build/reader.html <<EOF
<iframe id="frame" width="1280" height="900"></iframe><pre id="said"></pre><script>
const frame = document.getElementById("frame"), said = [];
const open = (address) => new Promise((done) => { frame.onload = () => done(frame.contentDocument); frame.src = address; });
const until = async (what) => { for (let i = 0; i < 400 && !what(); ++i) await new Promise((r) => setTimeout(r, 20)); return what(); };
const say = (...words) => said.push(words.join(" "));
window.onerror = (what) => say("error:", what);
(async () => { $1 })().catch((error) => say("error:", error)).then(() => {
  document.getElementById("said").textContent = said.join("\n") + "\nend\n"; });
</script>
EOF
    timeout 120 chromium --headless --no-sandbox --disable-gpu --enable-logging=stderr --allow-file-access-from-files \
        --user-data-dir="$BATS_TEST_TMPDIR/browser" --virtual-time-budget=60000 --dump-dom "file://$PWD/build/reader.html" \
        2> log > dom
    if grep CONSOLE log; then
        return 1
    fi
    sed -n 's/.*<pre id="said">//; T; :a; p; n; s,</pre>.*,,; /^end$/q; ba' dom | sed 's/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g'
}

@test "in a browser: search, colours, copying, the film in its figure" {
    command -v chromium >/dev/null || skip "no chromium"
    # shellcheck disable=SC2016
    browse '
let page = await open("site/chapter1.html");
const press = (key, target) => target.dispatchEvent(new frame.contentWindow.KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const type = (text) => { const box = page.querySelector("[name=q]"); box.value = text; box.dispatchEvent(new Event("input")); return box; };
press("/", page.body);
say("focus", page.activeElement.name);
const box = type("scale Keys");
await until(() => page.querySelector("#results li"));
say("first", page.querySelector("#results a").getAttribute("href"), "of", page.querySelector("#results h1").textContent);
say("marked", [...page.querySelectorAll("#results mark")].map((m) => m.textContent).includes("keys"));
say("hidden", getComputedStyle(page.querySelector("main > p")).display);
press("ArrowDown", box);
say("focus", page.activeElement.getAttribute("href"));
type("no such word");
await until(() => page.querySelector("#results h1")?.textContent === "Nothing found");
say("none", page.querySelectorAll("#results li").length);
say("stems", ...["specialization", "specialised", "vectorize", "Barriers", "keys"].map(frame.contentWindow.stem));
say("inside", ...[["softmax", "tma"], ["wgmma", "gmma"], ["cp_async", "async"]].map((a) => frame.contentWindow.count(...a)));
const listing = { name: "scale", low: "", address: "programs-1.html" }, told = { ...listing, address: "chapter1.html" };
say("listings", frame.contentWindow.find([listing, told], "scale").map((found) => found.place.address).join(" "));
press("Escape", page.body);
say("back", page.querySelector("#results"), getComputedStyle(page.querySelector("main > p")).display, "[" + box.value + "]");
page = await open("site/index.html?q=band");
await until(() => page.querySelector("#results li"));
page.querySelector("#results a[href^=interlude]").click();
await until(() => frame.contentDocument.querySelector("h1") && frame.contentWindow.location.pathname.endsWith("SP.html"));
frame.contentWindow.history.back();
await until(() => frame.contentWindow.location.pathname.endsWith("index.html") && frame.contentDocument.querySelector("#results li"));
page = frame.contentDocument;
say("returned", page.querySelector("[name=q]").value);
say("asked", [...page.querySelectorAll("#results li:first-child a")].map((a) => a.getAttribute("href")).join(" "));

page = await open("site/chapter1.html");
const choice = page.querySelector("#tools select"), ground = () => frame.contentWindow.getComputedStyle(page.body).backgroundColor;
for (const c of ["light", "dark"]) { choice.value = c; choice.dispatchEvent(new Event("change")); say(c, ground()); }
page = await open("site/chapter2.html");
say("kept", ground(), page.querySelector("#tools select").value);

page = await open("site/chapter2.html");
let copied; frame.contentWindow.navigator.clipboard.writeText = async (text) => { copied = text; };
page.getElementById("chunk:ch02-launch:1").querySelector(".copy").click();
await until(() => copied);
say("copied", JSON.stringify(copied));

page = await open("site/chapter1.html");
const picture = page.querySelector("#fig\\:tiles img");
picture.click();
say("large", getComputedStyle(picture).position);
press("Escape", page.body);
say("small", getComputedStyle(picture).position);
say("link", getComputedStyle(page.querySelector("main p a:not(.film)")).textDecorationLine);
const link = page.querySelector("a.film");
say("frames", page.querySelectorAll("iframe").length);
link.click();
say("film", page.querySelector("#fig\\:line iframe").getAttribute("src").replace(/.*\/site/, "site"), page.activeElement.tagName);
const colours = page.querySelector("#tools select");
colours.value = "system"; colours.dispatchEvent(new Event("change"));
say("film", page.querySelector("#fig\\:line iframe").getAttribute("src").replace(/.*\/site/, "site"));
page.querySelector(".screen button").click();
say("closed", page.querySelectorAll("iframe").length, page.activeElement === page.querySelector("a.film"));

page = await open("site/index.html");
page.querySelector("a.film").scrollIntoView();
await until(() => page.querySelector("iframe"));
say("plays", page.querySelector(".plays iframe").getAttribute("src").replace(/.*\/site/, "site"), page.activeElement.tagName);
for (const [name, place] of [["bibliography", "#refs > div"], ["subjects", ".index li"], ["index-of-chunks", ".index li"]]) {
  page = await open(`site/${name}.html`);
  const here = page.createElement("a");
  here.href = "#top";
  page.querySelector(place).append(here);
  say(name, getComputedStyle(here).textDecorationLine);
}

frame.width = 320; // a screen of 1280 points at 400 %
const wide = [];
for (const name of ["index", "chapter1", "chapter2", "appendix-A", "programs-2", "index-of-chunks", "subjects"]) {
  const root = (await open(`site/${name}.html`)).documentElement;
  for (const remark of root.querySelectorAll(".chunk .remark")) remark.textContent += ", and more of its words than a line has";
  root.querySelector("main > p")?.append(" A_LONG_NAME_OF_A_FILE_THAT_SOMEBODY_GAVE_TO_A_REPORT.md");
  if (root.scrollWidth > root.clientWidth) wide.push(name);
}
say("wider than a small screen:", wide.join(" ") || "none");
frame.width = 100;
page = await open("site/chapter1.html");
const formulas = [...page.querySelectorAll("math[display=block]")].filter((m) => m.scrollWidth > m.clientWidth);
say("reached by keys:", formulas.length > 0 && formulas.every((m) => m.tabIndex === 0));
' | tee said
    cat > expected <<'EOF'
focus q
first chapter1.html#chunk:ch01-kernel:1 of 4 places
marked true
hidden none
focus chapter1.html#chunk:ch01-kernel:1
none 0
stems specialis specialis vectoris barrier keys
inside 0 0.1 1
listings chapter1.html programs-1.html
back  block []
returned band
asked interlude-SP.html#ix-4 interlude-SP.html#ix-4 words.html#ix-6
light rgb(253, 253, 251)
dark rgb(20, 24, 28)
kept rgb(20, 24, 28) dark
copied "printf(\"tiles of %d\\n\", TILE);\nprintf(\"launching %d threads, 100%% sure & ready {#1} ~ ^ \\\\ \\n\", 4 * TILE);\nscale<<<1, TILE>>>(nullptr, 1.5e-3f, 0x80);\n"
large fixed
small static
link underline
frames 0
film site/films/chapter2.html?colours=dark IFRAME
film site/films/chapter2.html
closed 0 true
plays site/films/chapter2.html?play= BODY
bibliography underline
subjects underline
index-of-chunks underline
wider than a small screen: none
reached by keys: true
EOF
    diff expected said
}
