# Weave: the specimen of fixtures/weave as PDF and as HTML, and every mistake that must stop the
# build.

bats_require_minimum_version 1.5.0

setup_file() {
    export literate=$BATS_TEST_DIRNAME
    export made=$BATS_FILE_TMPDIR/made
    cp -r "$literate/fixtures/weave" "$made"
    cd "$made"
    mkdir build
    cp hashes.tsv build/
    cite_as_newer
    list_seventy_lines
    EDITION=e1 "$literate/book" pdf build/book.pdf
    EDITION=e1 "$literate/book" html build/book.html
    pdftotext -layout build/book.pdf build/book.txt
    pdftotext -layout build/book-programs.pdf build/programs.txt
}

list_seventy_lines() { # more lines than a page has
    { printf '\n```\n' && seq -f 'line %g of a listing' 70 && printf '```\n'; } >> chapters/02-scale-faster.md
}

cite_as_newer() { # adds LaTeX for a citation as newer versions of Pandoc write it
    cat >> chapters/02-scale-faster.md <<'EOF'

See `\citeproc{ref-new}{a new citation}`{=latex}.

```{=latex}
\begin{CSLReferences}{1}{0}
\bibitem[\citeproctext]{ref-new}
A new entry.

\end{CSLReferences}
```
EOF
}

# The specimen's figures are drawn once, in setup_file.
setup() {
    cd "$BATS_TEST_TMPDIR"
    cp -r "$literate"/fixtures/weave/* .
    mkdir build
    cp hashes.tsv build/
    cp -r "$made/build/figures" build
}

# For a PDF that differs little from the specimen: LaTeX starts from the specimen's page numbers.
settled() { # [FOLDER]: where the PDF's working files will be
    cp -r "$made/build/book" "${1-build/book}"
}

# Weaves the chapters in this folder; expects exactly these lines on standard error, and no book.
expect_errors() {
    status=0
    "$literate/book" "${kind:-html}" build/out > stdout 2> stderr || status=$?
    printf '%s\n' "$@" | diff - stderr
    [ "$status" -ne 0 ]
    [ ! -e build/out ]
    [ ! -e build/out.tmp ]
}

line_of() { # FILE PATTERN
    grep -nF -m1 -- "$2" "$1" | cut -d: -f1
}

@test "pdf: chunks carry name, number, and links to where they are used, go on, and what they replace" {
    grep -q 'Scale one tile of keys⟩ *≡ *1\.3' "$made/build/book.txt"
    grep -q 'Used in code/ch02_fast.cu of chapter 2 (p. A[0-9]*)' "$made/build/book.txt"
    run -1 grep -n 'Used in code/ch01_scale.cu\|ontinued on\|Continues from' "$made/build/book.txt" # no reference to its own chapter
    grep -q 'Used in .*code/ch01_scale.cu' "$made/build/book.html"
    grep -q 'continued in ' "$made/build/book.html"
    grep -q 'Replaces ⟨Scale one tile of keys⟩ of chapter 1 (p. [0-9]*): 4 lines added, 3 removed' \
        "$made/build/book.txt"
    grep -q '[Rr]eplaced by ⟨Scale four elements a thread⟩ of chapter 2' "$made/build/book.txt"
    run -1 grep -nE '[?][?]' "$made/build/book.txt"
}

@test "pdf: columns keep their side: numbers, and the lines of the heads above them, stand to the right" {
    line=$(grep '^\\begin{tabular' "$made/build/book/book.tex" | head -1)
    [[ $line == *'{@{}lrrl@{}}'* ]] || { echo "$line"; false; }
    grep -qF '\tablehead{\headlines{r}{times as\\fast as\\the first}}' "$made/build/book/book.tex" ||
        { grep -F 'times as' "$made/build/book/book.tex"; false; }
}

@test "pdf: what is printed later stands in the appendix, and pages lead there and back" {
    tr -s ' \n' ' ' < "$made/build/book.txt" > flat
    grep -qE 'Printed in appendix A: code/ch02_fast.cu \(p\. A[0-9]+\) ' flat
    grep -qE 'Printed in appendix A: ⟨Wait until the GPU has done all of it⟩ \(p\. (A[0-9]+)\), ⟨Wait until the GPU has done all of it⟩ \(p\. \1\)' flat
    pdftotext -raw "$made/build/book-programs.pdf" - > rest.txt
    grep -qE '^code/ch02_fast.cu 2\.1, from p\. [0-9]+$' rest.txt
    grep -qE '^⟨Wait until the GPU has done all of it⟩ ≡ 2\.3, from p\. [0-9]+$' rest.txt
    grep -qE '^⟨Launch a quarter of the threads⟩ ≡ 2\.2, from p\. [0-9]+$' rest.txt
    # Each line of the program is printed once; in the appendix a line wider than a column is
    # broken.
    [ "$(cat "$made"/build/{book,programs}.txt | grep -c 'cudaGetErrorString')" -eq 1 ]
    grep -q '^if (cudaError_t error = cudaDeviceSynchronize(); error != *$' rest.txt
    grep -q '^cudaSuccess) // no run$' rest.txt
    grep -q 'four elements a thread\.$' rest.txt
}

@test "pdf: of more than three chunks in the appendix a place names two, and how many more" {
    sed -i '/^return 1;$/,/^```$/s/^```$/&\n\n``` {.cuda .later #ch02-wait}\nreturn 2;\n```\n\n``` {.cuda .later #ch02-wait}\nreturn 3;\n```/' \
        chapters/02-scale-faster.md
    pandoc --from commonmark_x-emoji+sourcepos --lua-filter "$literate/weave.lua" --citeproc --to latex-smart book.md |
        grep -F laterline >line
    [[ $(<line) == *'appendix A: \laterpart{later:'*'Wait until'*', \laterpart{later:'*'Wait until'*' and 2 more}'* ]]
    [ "$(grep -o 'laterpart{[^}]*}{}' line | wc -l)" -eq 2 ]
}

@test "pdf: code printed later is a volume of its own; links lead from volume to volume, and page numbers go on" {
    /usr/bin/python3 - "$made/build" <<'EOF'
import sys

import pikepdf


def volume(name):
    pdf = pikepdf.open(f"{sys.argv[1]}/{name}.pdf")
    names = set(pikepdf.NameTree(pdf.Root.Names.Dests).keys())
    actions = [link.A for page in pdf.pages for link in page.get("/Annots", [])]
    mark, marks = pdf.Root.Outlines.First, []
    while mark is not None:
        marks.append(mark.A)
        mark = mark.get("/Next")
    return [page.label for page in pdf.pages], names, actions + marks, str(pdf.docinfo["/Title"])


book, rest = volume("book"), volume("book-programs")
assert rest[0] == [f"A{n}" for n in range(1, len(rest[0]) + 1)], rest[0]
numbers = [label for label in book[0] if label.isdigit()]
assert numbers == [str(n) for n in range(1, len(numbers) + 1)], book[0]
assert not book[1] & rest[1]
assert (book[3], rest[3]) == ("A Specimen", "A Specimen: the rest of the programs")
for (_, own, actions, _), (_, others, _, _), file in (book, rest, "book-programs.pdf"), (rest, book, "book.pdf"):
    within = [str(action.D) for action in actions if action.S == "/GoTo"]
    across = [(str(action.F), str(action.D)) for action in actions if action.S == "/GoToR"]
    assert within and set(within) <= own, set(within) - own
    assert across and {name for name, _ in across} == {file} and {to for _, to in across} <= others, across
EOF
    run -2 "$literate/volumes"
    printf 'no PDF\n' > broken.pdf
    run -1 --separate-stderr "$literate/volumes" broken.pdf out.pdf out-programs.pdf
    [ "$stderr" = "volumes: broken.pdf is no PDF file" ]
    [ ! -e out.pdf ]
}

@test "pdf: the chapter prints a chunk's difference, the appendix the whole chunk" {
    sed -n '/⟨Launch a quarter of the threads⟩ *≡ *2.2$/,/Replaces/p' "$made/build/book.txt" > chunk
    [ -s chunk ]
    run -1 grep -n cudaGetDevice chunk
    grep -q '⟨Launch a quarter of the threads⟩ *≡ *2\.2$' "$made/build/book.txt"
    tr -s ' \n' ' ' < "$made/build/book.txt" | grep -qE 'Replaces ⟨Launch⟩ of chapter 1 \(p\. [0-9]+\): 1 line added, 1 removed · whole on p\. A[0-9]+'
    [ "$(cat "$made"/build/{book,programs}.txt | grep -c 'scale<<<1, TILE>>>')" -eq 2 ]
    [ "$(grep -c 'scale<<<4, TILE>>>' "$made/build/book.txt")" -eq 2 ] # once in chapter 1, once as a removed line
}

@test "a guess is asked for in one box, and told in another" {
    tr '\n' ' ' < "$made/build/book.html" > flat
    grep -q '<div class="predict"> *<p class="label">Pause and guess</p> *<p>How long will it take?' flat
    grep -q '<div class="answer"> *<p class="label">What we had guessed</p> *<p>Forty-nine.</p>' flat
    tr -s ' \n' ' ' < "$made/build/book.txt" | grep -q 'What we had guessed Forty-nine\.'
}

@test "html: what is printed later is linked both ways, and stands once" {
    html=$made/build/book.html
    grep -qF '<p class="later">Printed in appendix A: <span id="later:code/ch02_fast.cu:1"><a href="#chunk:code/ch02_fast.cu:1"><code>code/ch02_fast.cu</code></a> <span class="no">2.1</span></span></p>' "$html"
    grep -qF 'from <a href="#later:code/ch02_fast.cu:1">chapter 2</a></span>' "$html"
    grep -qF 'whole in <a href="#whole:ch02-launch">2.2</a></p>' "$html"
    grep -qF 'from <a href="#chunk:ch02-launch:1">chapter 2</a></span>' "$html"
    [ "$(grep -c cudaGetErrorString "$html")" -eq 1 ]
    grep -qF '(cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess)' \
        <(sed 's/<[^>]*>//g' "$html") # HTML breaks no line
    awk '/id="sec-rest"/ { rest = 1 } /cudaGetErrorString/ { exit !rest }' "$html"
}

@test "html: a student's book has no pointers to what is left to write" {
    AUDIENCE=student "$literate/book" html build/out
    [ "$(grep -c 'class="later"' build/out)" -eq "$(grep -c 'class="later"' "$made/build/book.html")" ]
    grep -q 'STARTER TEXT' build/out
}

@test "a book with chunks printed later needs exactly one place for them" {
    at=chapters/02-scale-faster.md
    n=$(line_of $at '.later file=')
    needs="and no chapter has a place for the rest of the programs: ::: {.rest}"
    sed -i '/^- part: What/d; /A-rest/d' book.md
    expect_errors "$at:$n: chunk code/ch02_fast.cu is printed later, $needs" \
        "$at:$(line_of $at '#ch02-launch'): chunk ch02-launch is printed later, $needs" \
        "$at:$(line_of $at '.later #ch02-wait title'): chunk ch02-wait is printed later, $needs" \
        "$at:$(line_of $at '.later #ch02-wait}'): chunk ch02-wait is printed later, $needs"
    printf '\n::: {.rest}\n:::\n' >> $at
    printf '\n::: {.rest}\n:::\n' >> chapters/01-scale.md
    expect_errors "$at:$(line_of $at '::: {.rest}'): a second place for the rest of the programs"
}

@test "pdf: planted bugs are a difference, starters are left out, the index lists every chunk" {
    grep -q 'Planted bug: off-by-one *must be caught by: memcheck' "$made/build/book.txt"
    grep -q 'A change to ⟨Scale four elements a thread⟩' "$made/build/book.txt"
    run -1 grep -nE 'STARTER TEXT' "$made/build/book.txt"
    sed -n '/Index of chunks/,$p' "$made/build/programs.txt" | tail -n +2 > index
    grep -q '⟨Includes⟩ *[0-9]*; used [0-9]*, A[0-9]' index
    grep -q 'code/ch02_fast.cu' index
}

@test "pdf: numbers come from the records, sums and formats included" {
    grep -q 'takes 49.0 µs on an H200' "$made/build/book.txt"
    grep -q '12.25 *4.00×' "$made/build/book.txt"
    grep -q 'seed 1 error is 3.5 × 10−4' "$made/build/book.txt"
}

@test "pdf: captions, references, running heads, films, citations, imprint" {
    grep -q 'Figure 1.1: A query tile meets one key tile' "$made/build/book.txt"
    grep -q 'Table 1.1 and figure 1.2 agree' "$made/build/book.txt"
    grep -q 'equation 1.1 in a sentence' "$made/build/book.txt"
    grep -q '(see Milakov and Gimelshein 2018; Knuth 1984)' "$made/build/book.txt"
    grep -qE '1\.2 The code +3$' "$made/build/book.txt"
    grep -qE '^ *2.2 +Lab 2: run it$' "$made/build/book.txt"
    tr -s ' \n' ' ' < "$made/build/book.txt" | grep -qF 'Film: build/films/chapter1.html#bookmark=one-tile.'
    run -1 grep -nE '^ *Lab$' "$made/build/book.txt"
    grep -q 'Edition e1' "$made/build/book.txt"
    [ "$(pdffonts "$made/build/book.pdf" | tail -n +3 | awk '{ print $(NF-4) }' | sort -u)" = yes ]
}

@test "html: one file, nothing fetched, MathML, links that lead somewhere" {
    html=$made/build/book.html
    run -1 grep -nE '(src|href)="?(https?:)?//[^"]*\.(css|js|svg|png|woff2?)' "$html"
    run -1 grep -nE '<(script|iframe)|<link [^>]*href="[^d]|@import|url\(' "$html"
    run -1 grep -nE ' src="[^d][^"]*"' "$html"
    grep -q '<math display="block"' "$html"
    grep -q 'src="data:image/svg+xml,' "$html"
    # A picture's own description, not its caption, which follows.
    grep -q 'alt="A grid of cells, and an arrow to a &lt;key&gt; tile"' "$html"
    grep -q 'alt="a figure without a description: its caption follows"' "$html"
    grep -q 'prefers-color-scheme: dark' "$html"
    grep -qF $'95\xc2\xa0%' "$html"
    grep -qF $'7\xc2\xa0%' "$html"
    run -1 grep -nE 'data-pos| line="' "$html"
    grep -oE 'href="#[^"]*"' "$html" | sed 's/href="#//; s/"//' | sort -u > targets
    grep -oE '(^| )id="[^"]*"' "$html" | sed 's/ *id="//; s/"//' | sort > ids
    [ -z "$(uniq -d ids)" ]
    [ -z "$(comm -23 targets <(sort -u ids))" ]
}

@test "html: highlighted code with the chunk's text unharmed" {
    grep -q '<span class="kw">if</span> (i &lt; n) {' "$made/build/book.html"
    grep -qF '100%% sure &amp; ready {#1} ~ ^ \\ \n' "$made/build/book.html"
    grep -qF '<span class="added">' "$made/build/book.html"
    grep -qF '<span class="removed">' "$made/build/book.html"
}

@test "an interlude between two chapters is numbered by its word, and the next chapter as before" {
    grep -qE '^ *SP +A look at specimens' "$made/build/book.txt"
    grep -qE '^SP\.1 Of one kind$' "$made/build/book.txt"
    grep -q 'Figure SP.1: A line of an interlude' "$made/build/book.txt"
    grep -qE 'See figure SP.1, section SP.1 and “A look at specimens” \(p. [0-9]+\)' "$made/build/book.txt"
    grep -q 'CHAPTER 2$' "$made/build/book.txt"
    grep -qE '^ *2\.1 +Where we stand$' "$made/build/book.txt"
    grep -qF '<span class="number">Interlude</span>' "$made/build/book.html"
    grep -qF '<a class="level2" href="#sec-SP-kind"><span class="number">SP.1</span>' "$made/build/book.html"
}

@test "the index: marks, sub-entries, code, see, a key over two lines; a page counts once; terms in the back" {
    page() { # PATTERN: prints the number of the first page with a match, which is the page's last word
        pdftotext -layout "$made/build/book.pdf" - | awk -v RS='\f' -v at="$1" '$0 ~ at { print $NF; exit }'
    }
    kind=$(page '\nSP.1 Of one kind')
    words=$(page '(^|\n)Words\n')
    pdftotext -raw "$made/build/book.pdf" - | sed -n '/Index$/,$p' | grep -E '^[a-z_]' | tr -s ' ' >index
    printf '%s\n' "band $kind, $words" "example, see specimen" "specimen $kind, $words" "kind $kind" \
        "specimen page $words" "__weave $kind" | diff - index
    grep -qF '<li class="level1">band <a href="#ix-4">SP.1</a>, <a href="#ix-6">Words</a></li>' "$made/build/book.html"
    grep -qF '<li class="level2">kind <a href="#ix-3">SP.1</a></li>' "$made/build/book.html"
    grep -qF '<li class="level1">example, <em>see</em> specimen</li>' "$made/build/book.html"
    grep -qF '<dt><span id="ix-6">band</span></dt>' "$made/build/book.html"
    grep -A1 -F '<li class="level2">kind' "$made/build/book.html" | grep -qF '<li class="level1">specimen page <a href="#ix-8">'
}

@test "without a mark there is no index" {
    sed -i '/^back:/d; /words.md/d; /SP-specimens/d' book.md
    "$literate/book" html build/out
    run -1 grep -nE 'id="index"' build/out
}

@test "index marks that lead nowhere are errors at their lines" {
    cat >> chapters/02-scale-faster.md <<'EOF'

A mark []{.index} and []{.index key="!x"} and []{.index key="old" see="none such"}.

## A heading[]{.index key="heading"} {#marked}
EOF
    n=$(line_of chapters/02-scale-faster.md 'A mark')
    without='an index mark without an entry: []{.index key="…"}'
    expect_errors "chapters/02-scale-faster.md:$n: $without" "chapters/02-scale-faster.md:$n: $without" \
        "chapters/02-scale-faster.md:$((n + 2)): an index mark cannot stand here: put it into a paragraph" \
        "chapters/02-scale-faster.md:$n: the index has no entry none such"
}

@test "lines of a file are read from it; a file, a place or a width that is wrong is an error" {
    grep -q 'chapters/bands.h *from the file' "$made/build/book.txt"
    grep -q 'int width; // of one' "$made/build/book.txt"
    grep -q 'Its folder has 7 lines of C' "$made/build/book.txt" # without blank lines and comments
    run -1 grep -nE 'struct other|BANDS' "$made/build/book.txt"
    run -1 grep -nE 'struct other|BANDS' "$made/build/book.html"
    at=chapters/SP-specimens.md:$(line_of chapters/SP-specimens.md 'from=chapters')
    sed -i 's/^struct band/struct bond/' chapters/bands.h
    expect_errors "$at: chapters/bands.h has no lines from 'struct band {' to '};'"
    sed -i "s/^struct bond {.*/struct band { \/\/ $(printf 'x%.0s' {1..80})/" chapters/bands.h
    expect_errors "$at: a line of chapters/bands.h has 97 columns; the page takes 80"
    rm chapters/bands.h
    expect_errors "$at: cannot read chapters/bands.h"
    cp "$literate/fixtures/weave/chapters/bands.h" chapters/
    sed -i '/from=chapters/a int typed;' chapters/SP-specimens.md
    expect_errors "$at: lines of chapters/bands.h are not typed here too"
}

@test "an unknown record, key or element is an error at its line" {
    cat >> chapters/02-scale-faster.md <<'EOF'

`h200/nothing:a`{.run}, `h200/ch02_fast:shapes.tiny.p50_us`{.run},
`h200/ch02_fast:shapes.mission.correctness[seed=7].pass`{.run} and `h200/ch02_fast:shapes`{.run}.

`h200/ch02_fast:program`{.run fmt="%.1f"} `h200/ch02_fast:record % 2`{.run} `1 / 0`{.run} `nonsense`{.run} `lines:none`{.run}
EOF
    n=$(line_of chapters/02-scale-faster.md h200/nothing)
    at=chapters/02-scale-faster.md
    expect_errors \
        "$at:$n: no recorded run plots/runs/h200/nothing.json" \
        "$at:$n: plots/runs/h200/ch02_fast.json has no 'shapes.tiny.p50_us'" \
        "$at:$((n + 1)): plots/runs/h200/ch02_fast.json has no 'shapes.mission.correctness[seed=7].pass' (no element has seed=7)" \
        "$at:$((n + 1)): 'shapes' of plots/runs/h200/ch02_fast.json is not one value" \
        "$at:$((n + 3)): fmt=\"%.1f\" does not fit the value ch02_fast" \
        "$at:$((n + 3)): unknown operator '%' in 'h200/ch02_fast:record % 2' (+ - * / with spaces around)" \
        "$at:$((n + 3)): '1 / 0' divides by zero" \
        "$at:$((n + 3)): 'nonsense' is neither a number nor <gpu>/<record>:<key>" \
        "$at:$((n + 3)): there is no folder none"
}

@test "a stale record is an error that names record and program; a draft shows it in red" {
    sed -i 's/aaaa02/bbbb02/' build/hashes.tsv
    sed -i '/ch02_fast:.*ch02_fast/d' chapters/01-scale.md
    n=$(line_of chapters/02-scale-faster.md correctness)
    why="plots/runs/h200/ch02_fast.json is stale: ch02_fast has changed since it was recorded (run it again: make runs)"
    expect_errors "chapters/02-scale-faster.md:$n: $why" "chapters/02-scale-faster.md:$((n + 1)): $why"
    DRAFT=1 "$literate/book" html build/out 2> notes
    grep -qF "draft: chapters/02-scale-faster.md:$n: $why" notes
    grep -q '<span class="draft">3.5e-04</span>' build/out
}

@test "a ladder tells the times of the stages up to its program, which is one of stages.tsv" {
    printf 'number\tname\tprogram\tfilm\n1\tpaper\tch01_scale\t-\n2\tfast\tch02_fast\t1x1x96\n3\tfaster\tch03_none\t1x1x96\n4\tlater\tch04_later\t1x1x96\n' \
        > chapters/stages.tsv
    flops='"shapes": {"mission": {"tflops": 98.95, "timing": {"p50_us": 4}}}'
    echo "{\"record\": 1, \"program\": \"ch04_later\", \"source_hash\": \"aaaa04\", $flops}" > plots/runs/h200/ch04_later.json
    echo "{\"record\": 1, ${flops/4/10}}" > plots/runs/h200/pytorch-flash.json
    printf 'ch04_later\taaaa04\n' >> build/hashes.tsv
    printf '\n``` {.ladder to=ch04_later}\n```\n' >> chapters/02-scale-faster.md
    "$literate/book" html build/out
    sed 's/<[^>]*>//g; s/\xc2\xa0/ /g' build/out | tr '\n' ' ' > told
    grep -qF "The ladder so far, µs at mission on an H200: 2: 12.2, 3: not timed there, 4: 4.00. This rung computes 99 TFLOP/s, 10.0 % of what the tensor cores do at most in half, and is 2.5 times as fast as PyTorch’s flash backend." told
    sed -i 's/"shapes"/"p": {"format": "e4m3"}, &/' plots/runs/h200/ch04_later.json
    "$literate/book" html build/out
    sed 's/<[^>]*>//g; s/\xc2\xa0/ /g' build/out | tr '\n' ' ' | grep -qF "99 TFLOP/s, 5.0 % of what the tensor cores do at most in E4M3, and is"
    sed -i 's/to=ch04_later/to=ch05_never/' chapters/02-scale-faster.md
    rm build/out
    expect_errors "chapters/02-scale-faster.md:$(line_of chapters/02-scale-faster.md ch05_never): a ladder to \"ch05_never\", which is no timed program of chapters/stages.tsv"
}

@test "a record whose program has no hash today, and a record that is not JSON" {
    sed -i '/ch02_fast/d' build/hashes.tsv
    sed -i '/ch02_fast:.*ch02_fast/d' chapters/01-scale.md
    sed -i '/timing.samples/d' chapters/02-scale-faster.md
    n=$(line_of chapters/02-scale-faster.md correctness)
    expect_errors "chapters/02-scale-faster.md:$n: plots/runs/h200/ch02_fast.json: cannot tell whether it is stale: build/hashes.tsv has no hash of ch02_fast"
    cp hashes.tsv build/
    for text in '{"a": 1,}' '{"a": 01}' '{"a": 1} x' '{"a": "b' '{"a": 1, "a": 2}' ''; do
        echo "$text" > plots/runs/h200/ch02_fast.json
        status=0
        "$literate/book" html build/out 2> stderr || status=$?
        [ "$status" -ne 0 ]
        grep -q "^chapters/02-scale-faster.md:$n: plots/runs/h200/ch02_fast.json: not JSON: .* at byte [0-9]*$" stderr
    done
}

@test "unresolved, ambiguous and outside references, unknown citations" {
    cat >> chapters/02-scale-faster.md <<'EOF'

See [](#fig:nothing), [](01-scale.md#code), and [@nobody1900].

## Same {#same}
EOF
    printf '\n## Same {#same}\n' >> chapters/01-scale.md
    printf '\nSee [](#same).\n' >> book.md
    n=$(line_of chapters/02-scale-faster.md fig:nothing)
    expect_errors \
        "chapters/02-scale-faster.md:$n: unknown citation @nobody1900" \
        "book.md:$(line_of book.md 'See [](#same)'): #same means several places in the book; give one an id" \
        "chapters/02-scale-faster.md:$n: unresolved reference #fig:nothing" \
        "chapters/02-scale-faster.md:$n: a link to 01-scale.md#code: inside the book link to an #id"
}

@test "errors of the chunks stop the weave too" {
    printf '\n``` {.cuda #ch02-idle}\n<<ch02-gone>>\n```\n' >> chapters/02-scale-faster.md
    n=$(line_of chapters/02-scale-faster.md ch02-idle)
    expect_errors "chapters/02-scale-faster.md:$n: unused chunk ch02-idle" \
        "chapters/02-scale-faster.md:$((n + 1)): unknown chunk <<ch02-gone>>"
}

@test "a table from a file: with caption and number; missing, odd or stale is an error" {
    printf '\n%s\n' 'See [](#tbl:told).' '![What was *told*.](plots/told.md){#tbl:told}' >> chapters/02-scale-faster.md
    n=$(line_of chapters/02-scale-faster.md plots/told.md)
    unresolved="chapters/02-scale-faster.md:$((n - 2)): unresolved reference #tbl:told"
    expect_errors "chapters/02-scale-faster.md:$n: no table plots/told.md (make plots writes it)" "$unresolved"
    table='| stage | told |\n|---|--:|\n| one | 1.21 |\n'
    printf '<!-- from h200/ch02_fast -->\n%b' "$table" > plots/told.md
    "$literate/book" html build/out
    grep -q 'See <a href="#tbl:told">table 2.1</a>' build/out
    grep -q '<em>told</em>.</caption>' build/out
    grep -q '1.21' build/out
    rm build/out
    printf '<!-- from h200/gone -->\n%b' "$table" > plots/told.md
    expect_errors "chapters/02-scale-faster.md:$n: plots/told.md: no recorded run plots/runs/h200/gone.json"
    printf '%b' "$table" > plots/told.md
    expect_errors "chapters/02-scale-faster.md:$n: plots/told.md is not one table that says what it is from" \
        "$unresolved"
    printf '<!-- from h200/ch02_fast -->\n%b' "$table" > plots/told.md
    sed -i 's/aaaa02/bbbb02/' build/hashes.tsv
    sed -i '/ch02_fast:.*ch02_fast/d' chapters/01-scale.md
    sed -i '/h200\/ch02_fast:/d' chapters/02-scale-faster.md
    n=$(line_of chapters/02-scale-faster.md plots/told.md)
    expect_errors "chapters/02-scale-faster.md:$n: plots/told.md: plots/runs/h200/ch02_fast.json is stale: ch02_fast has changed since it was recorded (run it again: make runs)"
}

rejected() { # WHAT: a mistake in chapter 1's drawing is refused before anything is set
    status=0
    "$literate/book" pdf build/out 2> stderr || status=$?
    [ "$status" -ne 0 ]
    [ "$(wc -l < stderr)" -eq 1 ]
    grep -q "^chapters/01-scale.md:$n: in the figure: $1" stderr
    [ -z "$(ls build/figures)" ]
}

@test "a missing chart, and a drawing that TeX rejects, are named by their line" {
    rm plots/line.svg
    n=$(line_of chapters/01-scale.md plots/line.svg)
    expect_errors "chapters/01-scale.md:$n: no chart plots/line.svg (make plots draws it)"
    cp "$literate/fixtures/weave/plots/line.svg" plots/
    rm -r build/figures
    sed -i 's/\\draw\[flow\]/\\drow[flow]/' chapters/01-scale.md
    n=$(line_of chapters/01-scale.md '{.tikz')
    expect_errors "chapters/01-scale.md:$n: in the figure: Undefined control sequence. \\drow"
    sed -i 's/\\drow\[flow\]/\\node[text width=9mm] {\\mbox{aaaaaaaaaaaaaaaaaaaa}}; \\draw[flow]/' chapters/01-scale.md
    rejected 'Overfull .hbox'
    sed -i 's/\\mbox{a*}/𓀀/' chapters/01-scale.md
    rejected 'Missing character: There is no 𓀀'
}

@test "a drawing is typeset once, for paper and screen; of many only the one that changed" {
    cat >> chapters/02-scale-faster.md <<'EOF'

``` {.tikz #fig:late}
\node[tile=key] {late};
```

Figure: A late tile.
EOF
    mkdir bin
    printf '#!/bin/sh\necho >>"%s"/runs\nexec %s "$@"\n' "$PWD" "$(command -v lualatex)" > bin/lualatex
    chmod +x bin/lualatex
    PATH=$PWD/bin:$PATH "$literate/book" html build/out
    [ "$(wc -l < runs)" -eq 1 ]
    late=$(comm -13 <(cd "$made" && ls build/figures/*.pdf) <(ls build/figures/*.pdf))
    [ "$(pdfinfo "$late" | awk '/^Pages:/ { print $2 }')" -eq 1 ]
    [ "$(pdftotext "$late" - | head -1)" = late ]
    PATH=$PWD/bin:$PATH "$literate/book" html build/out
    [ "$(wc -l < runs)" -eq 1 ]
    [ -z "$(ls -d build/figures/run.* 2> /dev/null)" ]
    # The printed book includes pages of the one PDF that has all drawings.
    read -r all _ < "$(cd "$made" && ls "$PWD"/build/figures/*.page | head -1)"
    grep -qF "\\includegraphics[page=1,trim=1pt 1pt 1pt 1pt]{$all}" "$made/build/book/book.tex"
    grep -q 'key tile' "$made/build/book.txt"
}

@test "pdf: a macro that LaTeX does not know is named with its line" {
    printf '\nA sum $\\nosuchmacro + 1$ here.\n' >> chapters/02-scale-faster.md
    n=$(line_of chapters/02-scale-faster.md nosuchmacro)
    kind=pdf expect_errors "chapters/02-scale-faster.md:$n: ! Undefined control sequence. \\nosuchmacro (build/book/book.log)"
}

@test "pdf: a page that begins within a listing says so, and no other" {
    # For each page: whether its head says that a listing goes on, and whether its first line
    # belongs to it.
    awk 'BEGIN { RS = "\f" } { n = split($0, lines, "\n"); said = first = ""
            for (i = 1; i <= n; i++) {
                said = said || lines[i] ~ /code, continued/
                if (i > 1 && first == "" && lines[i] ~ /[^ ]/) first = lines[i]
            }
            print said + 0, first ~ /^ *line [0-9]+ of a listing$/ }' "$made/build/book.txt" | sort | uniq -c |
        tr -s ' ' | diff <(printf '%s\n' " 15 0 0" " 1 1 1") -
}

@test "pdf: what newer versions of Pandoc write for a citation and the bibliography is defined" {
    grep -q 'See a new citation\.$' "$made/build/book.txt"
    grep -qE '^ *A new entry\.$' "$made/build/book.txt"
    pdfinfo -dests "$made/build/book.pdf" | grep -q '"ref-new"$'
}

@test "pages of the book without a part: set without it, counted, and too many are an error" {
    sed -i 's/^- chapters\/SP/- part: Into use\n&/; s/^- chapters\/02/- part: Past that\n&/' book.md
    settled build/book-pages
    run -1 --separate-stderr "$literate/pages" --most 1 'Into use' chapters/words.md
    pdftotext build/book-pages/less.pdf less.txt
    pages=$(pdfinfo build/book-pages/less.pdf | awk '/^Pages:/ { print $2 }')
    [ "$output" = "$pages pages, without \"Into use\", without \"chapters/words.md\"" ]
    [ "$stderr" = "pages: at most 1 are wanted" ]
    run -1 grep -nE "$(sed -n '1s/^# \([^{]*[^ {]\).*/\1/p' chapters/SP-specimens.md)" less.txt
    for chapter in 01-scale 02-scale-faster A-rest; do
        grep -qF "$(sed -n '1s/^# \([^{]*[^ {]\).*/\1/p' chapters/$chapter.md)" less.txt
    done
    [ ! -e build/book ] # the work files of make book are untouched
    run -2 "$literate/pages" 'Out of use'
    [ "$output" = 'pages: book.md has no part or chapter "Out of use"' ]
    run -2 "$literate/pages" --most many
    [ "$output" = "pages: --most many: a number of pages" ]
}

@test "LaTeX's first run: page numbers and room for contents are guessed from where labels or chapters stand" {
    {
        printf '\\label{before}\n\\begin{document}\n\\chunkhead{near}\n'
        yes '\section{One}' | head -300
        yes '\section{Exercises}' | head -100
        yes text | head -1000
        printf '\\laterpart{middle}\n'
        yes text | head -6000
        printf 'So \\pageref{near}.\\label{far}\\label{near}\n'
    } > book.tex
    printf '%s\n' 'local likely = loadfile(arg[1])(arg[2])' \
        'print(likely.contents, likely.page("near"), likely.page("middle"), likely.page("far"), likely.page("none"))' \
        'print(likely.number("sec-07-why"), likely.number("tbl:ch17-errors"), likely.number("sec-A-races"), likely.number("eq"))' > ask.lua
    run -0 texlua ask.lua "$literate/likely.lua" book.tex
    [ "${lines[0]}" = $'3\t0\t00\t000\t000' ]
    [ "${lines[1]}" = $'7.1\t17.1\tA.1\t1' ]
}

@test "a drawing has its caption below it" {
    tr '\n' ' ' < "$made/build/book.html" > one-line
    grep -q '>Figure 1.1.</span> A query tile meets <em>one</em> key tile' one-line
    sed -i '/^Figure: /d' chapters/01-scale.md
    n=$(line_of chapters/01-scale.md '{.tikz')
    expect_errors "chapters/01-scale.md:$n: a picture without a paragraph 'Figure: …' below it, its caption"
}

@test "a character without a glyph and a line in the margin are errors at their lines, seen in one run" {
    list_seventy_lines
    cat >> chapters/02-scale-faster.md <<'EOF'

An Egyptian 𓀀 stands here.

An-unbreakable-word \mbox{aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}
EOF
    n=$(line_of chapters/02-scale-faster.md Egyptian)
    settled
    mkdir bin
    printf '#!/bin/sh\necho >>runs\nexec %s "$@"\n' "$(command -v lualatex)" > bin/lualatex
    chmod +x bin/lualatex
    status=0
    PATH=$PWD/bin:$PATH "$literate/book" pdf build/out 2> stderr || status=$?
    [ "$status" -eq 1 ]
    [ ! -e build/out ]
    grep -q "^chapters/02-scale-faster.md:$n: Missing character: There is no 𓀀" stderr
    grep -q "^chapters/02-scale-faster.md:$((n + 2)): Overfull .hbox" stderr
    [ "$(wc -l < stderr)" -eq 2 ]
    [ "$(wc -l < runs)" -eq 1 ] # lines of book.tex move, but no page number changes: one run of LaTeX suffices
}

@test "bad usage, a missing book, a missing chapter, a missing tool" {
    run "$literate/book" docx build/out
    [ "$status" -eq 2 ]
    [ "$output" = "usage: book pdf|html OUT [BOOK.md]" ]
    run "$literate/book" html build/out none.md
    [ "$status" -eq 1 ]
    [ "$output" = "book: cannot read none.md" ]
    rm chapters/02-scale-faster.md
    run "$literate/book" html build/out
    [ "$status" -ne 0 ]
    [[ "$output" == "chapters/02-scale-faster.md: cannot be read"* ]]
    mkdir bin
    for tool in bash dirname mkdir git awk sed; do
        ln -s "$(command -v $tool)" bin/
    done
    PATH=$PWD/bin run "$literate/book" pdf build/out
    [ "$status" -eq 1 ]
    [ "$output" = "book: pandoc is not installed (make deps installs it)" ]
}
