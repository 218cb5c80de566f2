# The sheets of the labs: what tangle and weave make of points, tasks, hints and questions, every
# error, and that the points of the book's own sheets add up.

bats_require_minimum_version 1.5.0

load ../test/test_tree

setup() {
    literate=$BATS_TEST_DIRNAME
    repository=$(cd "$literate/../.." && pwd)
    cd "$BATS_TEST_TMPDIR"
    mkdir chapters labs
    printf '%s\n' '#!/bin/bash' '# --before nothing' 'lab=(--lab 2 --before ch01_x)' >labs/lab02
    printf 'number\tname\tprogram\n2\tsums\tch02_sum\n' >chapters/stages.tsv
    cat >chapters/02-sum.md <<'END'
# Sum {#sec-sum}

``` {.c file=code/ch02_sum.c}
int main(void)
{
    int total = 0;
    <<ch02-add>>
    <<ch02-return>>
}
```

``` {.c #ch02-add title="Add"}
total += 1;
<<ch02-more>>
```

``` {.c #ch02-more title="Add more"}
total += 2;
```

``` {.c #ch02-return title="Return it"}
return total;
```

``` {.c .mutant of=ch02-return name=negative breaks=correctness}
return -total;
```

``` {.c .mutant of=ch02-add name=once breaks=ties loses="races hidden"}
total += 1;
```

::: {.lab}
## Lab 2: sums {#sec-lab-2}

Do it:

``` {.points}
# counted for everybody
correct                        50  # "all" shapes
hidden                         20
races                          10  # of four schedules
registers <= 128                5
barriers == 0 @ 1x2x33          5
speed >= 0.5 @ mission          5
```

``` {.c .starter for=ch02-add title="Add it up" stars=2 earns="correct hidden"}
total += 0; // Your code: two numbers
```

::: {.hints for=ch02-add}
1. The first
   is `1`.
2. The second is *two*.
:::

::: {.question points=5}
What is `1 + 2`? Predict, then run.
:::
:::
END
}

tangle() {
    read_by tangle.lua chapters/*.md
}

# Changes the chapter by a sed script and expects these errors, line numbers as in the result.
expect_errors() { # SED-SCRIPT MESSAGE...
    sed -i -E "$1" chapters/02-sum.md
    shift
    status=0
    tangle >stdout 2>stderr || status=$?
    printf 'chapters/02-sum.md:%s\n' "$@" | diff - stderr
    [ "$status" -eq 1 ]
    [ ! -e build ]
}

at() { # the line of the first match
    grep -nF -m1 -- "$1" chapters/02-sum.md | cut -d: -f1
}

@test "the lab as JSON: program, tasks, hints, questions, points, what mutants lose" {
    tangle
    python3 - <<'END'
import json
lab = json.load(open("build/labs/lab02.json"))
assert lab == {
    "lab": 2, "title": "sums", "program": "ch02_sum", "before": "ch01_x", "chapter": "chapters/02-sum.md",
    "exercises": [{"chunk": "ch02-add", "title": "Add it up", "stars": 2, "earns": ["correct", "hidden"],
                   "marker": "total += 0; // Your code: two numbers",
                   "hints": ["The first is `1`.", "The second is two."]}],
    "questions": [{"points": 5, "text": "What is `1 + 2`? Predict, then run."}],
    "points": [
        {"name": "correct", "points": 50, "words": '"all" shapes'},
        {"name": "hidden", "points": 20, "words": ""},
        {"name": "races", "points": 10, "words": "of four schedules"},
        {"name": "registers", "relation": "<=", "limit": 128, "points": 5, "words": ""},
        {"name": "barriers", "relation": "==", "limit": 0, "shape": "1x2x33", "points": 5, "words": ""},
        {"name": "speed", "relation": ">=", "limit": 0.5, "full": 1, "shape": "mission", "points": 5, "words": ""},
        {"name": "written", "points": 5, "words": "the questions, read by a person"}],
    "mutants": [{"program": "ch02_sum", "name": "negative", "loses": ["correct", "hidden", "races"], "costs": 90},
                {"program": "ch02_sum", "name": "once", "loses": ["races", "hidden"], "costs": 30}]}, lab
END
}

@test "a starter is clean text with the chunks' titles and the places for code" {
    tangle
    diff - build/starters/ch02_sum.c <<'END'
// What you start from in the lab of chapters/02-sum.md.

int main(void)
{
    int total = 0;

    // Add
    total += 0; // Your code: two numbers

    // Return it
    return total;
}
END
}

@test "the JSON of a removed sheet is removed, too" {
    tangle
    sed -i '/^::: {.lab}/,$d' chapters/02-sum.md
    tangle
    [ ! -e build/labs/lab02.json ]
    [ ! -e build/starters/ch02_sum.c ]
}

@test "another program of the chapter may be the lab's" {
    sed -i 's/{.points}/{.points program=ch02_other}/' chapters/02-sum.md
    printf '\n``` {.c file=code/ch02_other.c}\nint main(void)\n{\n    int total = 1;\n    <<ch02-add>>\n    return total;\n}\n```\n' >>chapters/02-sum.md
    tangle
    grep -q '"program": "ch02_other"' build/labs/lab02.json
    run -1 grep -q negative build/labs/lab02.json
}

@test "a lab may say how its kernels round P" {
    sed -i 's/{.points}/{.points p="e4m3 8 unrounded"}/' chapters/02-sum.md
    tangle
    grep -qx '  "p": {"format": "e4m3", "offset": 8, "sum": "unrounded"},' build/labs/lab02.json
    python3 -m json.tool build/labs/lab02.json >lab02.json
    sed -i 's/e4m3 8 unrounded/e4m3 5 rounded lag 128 3.8625/' chapters/02-sum.md
    tangle
    grep -qx '  "p": {"format": "e4m3", "offset": 5, "sum": "rounded", "tile": 128, "lag": 3.8625},' build/labs/lab02.json
    sed -i 's/lag 128 3.8625/lag 128 0.8625 mean/' chapters/02-sum.md
    tangle
    grep -qx '  "p": {"format": "e4m3", "offset": 5, "sum": "rounded", "tile": 128, "lag": 0.8625, "mean": true},' build/labs/lab02.json
}

@test "a lab may say which mask its kernels compute with" {
    tangle
    run -1 grep -q '"mask"' build/labs/lab02.json
    sed -i 's/{.points}/{.points mask=causal}/' chapters/02-sum.md
    tangle
    grep -qx '  "mask": "causal",' build/labs/lab02.json
    python3 -m json.tool build/labs/lab02.json >lab02.json
}

@test "error: an unknown mask" {
    n=$(at '{.points}')
    expect_errors 's/\{.points\}/{.points mask=window}/' "$n: mask=\"window\" is not \"causal\""
}

@test "error: a rounding of P in the wrong form" {
    n=$(at '{.points}')
    expect_errors 's/\{.points\}/{.points p="e5m2 8 unrounded"}/' \
        "$n: p=\"e5m2 8 unrounded\" is not \"e4m3 OFFSET rounded\" or \"… unrounded\", and perhaps \"lag KEYS POWERS\" or \"lag KEYS POWERS mean\""
    sed -i 's/e5m2 8 unrounded/e4m3 8 half/' chapters/02-sum.md
    expect_errors '' "$n: p=\"e4m3 8 half\" is not \"e4m3 OFFSET rounded\" or \"… unrounded\", and perhaps \"lag KEYS POWERS\" or \"lag KEYS POWERS mean\""
}

@test "a lab whose kernels ask a cache has its shapes from its script, and resources of a form" {
    printf 'lab+=(--shapes 2x2x200q4p32r1,1x2x33q1p16 --seeds 0)\n' >>labs/lab02
    sed -i 's/^registers <= 128 /registers <= 128 @ 8x8x512q4p16 /' chapters/02-sum.md
    tangle
    grep -qx '  "shapes": \["2x2x200q4p32r1", "1x2x33q1p16"\],' build/labs/lab02.json
    grep -q '"name": "registers", "relation": "<=", "limit": 128, "shape": "8x8x512q4p16"' build/labs/lab02.json
    sed -i 's/2x2x200q4p32r1,1x2x33q1p16/small,mission/' labs/lab02
    tangle
    [ "$(grep -c '"shapes"' build/labs/lab02.json)" -eq 0 ]
}

@test "a resource row without a limit takes the one of the lab's script, else the usual one, if there is any" {
    limited() { # RELATION LIMIT
        tangle
        grep -qF "{\"name\": \"registers\", \"relation\": \"$1\", \"limit\": $2, \"points\": 5" build/labs/lab02.json
    }
    sed -i 's/^registers <= 128 /registers /' chapters/02-sum.md
    limited '<=' 128
    printf "# lab+=(--gate 'registers <= 9')\nlab+=(--gate 'shared <= 7')\nlab+=(--show 'registers >= 12') # few\n" >>labs/lab02
    limited '>=' 12
    sed -i 's/^registers /registers == 3 /' chapters/02-sum.md
    limited "==" 3
    sed -i 's/^registers == 3 /registers /' chapters/02-sum.md
    printf 'lab+=(--without shared,registers)\n' >>labs/lab02
    rm -r build
    n=$(at 'registers  ')
    expect_errors '' "$(at '{.points}'): the lab's points add up to 95, not 100" \
        "$n: registers needs a limit, such as <= 128"
}

@test "a lab may be kept from the grader, and says why" {
    sed -i 's/{.points}/{.points grade="no: its \x27keys\x27 are 8 bit"}/' chapters/02-sum.md
    tangle
    grep -qx "  \"not_graded\": \"its 'keys' are 8 bit\"," build/labs/lab02.json
    python3 -m json.tool build/labs/lab02.json >lab02.json
    rm -r build
    for odd in no 'no: ' yes; do
        expect_errors "s/\{.points grade=\"[^\"]*\"/{.points grade=\"$odd\"/" \
            "$(at '{.points'): grade=\"$odd\" is not \"no: REASON\""
    done
}

# Makes the lab one whose program, in C, is a search: there is no earlier program to compare it with.
searches() {
    printf '%s\n' '#!/bin/bash' 'lab=(--lab 2 --before ch01_x)' 'lab+=(--search ch02_sum --journal plots/j.jsonl)' \
        >labs/lab02
    sed -i -E '/^(races|barriers|speed)/d; s/^registers.*/candidates <= 60 from 300 50/; s/^correct .*/correct 25/
        s/ earns="[^"]*"/ earns="correct"/
        s/ breaks=ties loses="races hidden"/ breaks=ties loses="hidden"/; s/breaks=correctness/breaks=rules loses=correct/' \
        chapters/02-sum.md
}

@test "a lab whose program searches: the journal that answers, counts without a shape, no program before" {
    searches
    tangle
    grep -qx '  "journal": "plots/j.jsonl",' build/labs/lab02.json
    grep -q '"before": null' build/labs/lab02.json
    grep -q '{"name": "candidates", "relation": "<=", "limit": 60, "from": 300, "points": 50,' build/labs/lab02.json
    python3 -m json.tool build/labs/lab02.json >lab02.json
}

@test "error: a kernel's items in a lab that searches, and a search's in one that does not" {
    searches
    n=$(at 'candidates <= 60')
    expect_errors 's/^candidates.*/races 50/' "$n: races is no item of a lab whose program searches"
    sed -i 's/^races 50/candidates <= 60 from 300 50/' chapters/02-sum.md
    printf '%s\n' '#!/bin/bash' 'lab=(--lab 2 --before ch01_x)' >labs/lab02
    expect_errors '' "$n: candidates is no item of a lab whose program is a kernel"
}

@test "error: points that do not add up to 100" {
    n=$(at '{.points}')
    expect_errors '/^races/d' "$(at 'name=negative'): mutant negative: the lab has no item races" \
        "$(at 'name=once'): mutant once: the lab has no item races" \
        "$n: the lab's points add up to 90, not 100"
}

@test "error: items that are unknown, incomplete, in the wrong form or repeated" {
    n=$(at '{.points}')
    sed -i '/^correct/,/^speed/d' chapters/02-sum.md
    sed -i "$((n + 1))r /dev/stdin" chapters/02-sum.md <<'END'
corect 50
threads 5
registers <= many 5
races <= 3 5
barriers <= 3 5
shared <= 3 @ small 5
barriers <= 3 @ tiny 5
speed <= 0.5 @ mission 5
speed >= 1.5 @ mission 5
written 5
correct
correct ten
correct 0
correct 2 3
correct 60
correct @ small 20
hidden 10
races 5
END
    run tangle
    [ "$status" -eq 1 ]
    printf "chapters/02-sum.md:%s\n" \
        "$((n + 2)): corect is no item: correct, hidden, races, speed; a resource: registers, shared, spills, occupancy, threads, ctas; of a search: candidates, drawn; a counter of the simulator: $(counters shown | paste -sd, | sed 's/,/, /g')" \
        "$((n + 3)): threads needs a limit, such as <= 128" \
        "$((n + 4)): registers <= is not followed by a number" \
        "$((n + 5)): races is right or wrong; it has no limit" \
        "$((n + 6)): barriers needs a shape: @ small" \
        "$((n + 7)): shared is of no shape" \
        "$((n + 8)): \"tiny\" is no shape: small, mission, long, huge or BxHxS" \
        "$((n + 9)): speed is >= a share of the reference's below 1" \
        "$((n + 10)): speed is >= a share of the reference's below 1" \
        "$((n + 11)): written is worth what the questions are: leave it out" \
        "$((n + 12)): an item is NAME [RELATION LIMIT [from COUNT]] [@ SHAPE] POINTS, not 'correct'" \
        "$((n + 13)): an item is NAME [RELATION LIMIT [from COUNT]] [@ SHAPE] POINTS, not 'correct ten'" \
        "$((n + 14)): an item is NAME [RELATION LIMIT [from COUNT]] [@ SHAPE] POINTS, not 'correct 0'" \
        "$((n + 15)): an item is NAME [RELATION LIMIT [from COUNT]] [@ SHAPE] POINTS, not 'correct 2 3'" \
        "$((n + 17)): second item correct (first in line $((n + 16)))" >expected
    diff expected <(echo "$output")
}

@test "error: a starter without title, stars, earns, a place for code; in a program that is not judged" {
    n=$(at '.starter for')
    expect_errors 's/ title="Add it up" stars=2 earns="correct hidden"/ stars=4/; s/ Your code: two/ two/' \
        "$n: starter for ch02-add without earns=, the items that it takes" \
        "$n: starter for ch02-add without title=" \
        "$n: starter for ch02-add: no line says \"Your code\"" \
        "$n: starter for ch02-add: stars= is 1, 2 or 3"
}

@test "error: a starter that earns an unknown item, and one outside of the lab" {
    n=$(at '.starter for')
    sed -i 's/earns="correct hidden"/earns="correct secret"/' chapters/02-sum.md
    printf '\n``` {.c .starter for=ch02-return title="R" stars=1 earns=races}\nreturn 0; // Your code\n```\n' >>chapters/02-sum.md
    expect_errors '' "$n: starter for ch02-add: the lab has no item secret" \
        "$(at 'for=ch02-return'): starter for ch02-return outside of the lab"
}

@test "error: hints that are missing, single, empty, repeated, not a list, of no task, or outside of a lab" {
    cp chapters/02-sum.md whole
    n=$(at '.hints for')
    expect_errors '/^2\. The second/d' "$n: hints for ch02-add: at least two"
    cp whole chapters/02-sum.md
    expect_errors 's/^2\. The second.*/2./' "$n: hints for ch02-add: hint 2 is empty"
    cp whole chapters/02-sum.md
    expect_errors 's/^1\. The first/1. [The](x) first/' "$n: hints for ch02-add: an ordered list of plain words and code, not Link"
    cp whole chapters/02-sum.md
    expect_errors 's/hints for=ch02-add/hints for=ch02-more/' \
        "$(at '.starter for'): starter for ch02-add without hints" "$n: hints for ch02-more, which has no starter"
    cp whole chapters/02-sum.md
    expect_errors 's/hints for=ch02-add/hints/' "$(at '.starter for'): starter for ch02-add without hints" \
        "$n: hints without for="
    cp whole chapters/02-sum.md
    printf '\n::: {.hints for=ch02-add}\n1. a\n2. b\n:::\n' >>chapters/02-sum.md
    expect_errors '' "$(grep -n '.hints for' chapters/02-sum.md | tail -1 | cut -d: -f1): hints outside of a lab"
}

@test "error: questions without points or words, and points outside of a lab" {
    n=$(at '.question')
    expect_errors 's/question points=5/question points=none/; s/^What is.*//' "$(at '{.points}'): the lab's points add up to 95, not 100" \
        "$n: a question needs points=, a whole number from 1" "$n: a question without words"
    printf '\n``` {.points}\ncorrect 100\n```\n' >>chapters/02-sum.md
    run tangle
    [[ "$output" == *"points outside of a lab"* ]]
}

@test "error: no starter at all, a stage without a program or a row, a program that no chapter makes" {
    n=$(at '{.points}')
    sed -i '/^``` {.c .starter/,/^```$/d; /^::: {.hints/,/^:::$/d' chapters/02-sum.md
    expect_errors '' "$n: a lab with points and no starter"
    printf 'number\tname\tprogram\n2\tsums\t-\n' >chapters/stages.tsv
    expect_errors '' "$n: a lab with points and no starter" "$n: chapters/stages.tsv: stage 2 has no program to judge"
    printf 'number\tname\tprogram\n3\tsums\tch02_sum\n' >chapters/stages.tsv
    expect_errors '' "$n: a lab with points and no starter" \
        "$n: chapters/stages.tsv has no stage 2: add a row of its number, name, program"
    printf '# Stages\nnumber\tname\tprogram\n2\tsums\n' >chapters/stages.tsv
    expect_errors '' "$n: a lab with points and no starter" \
        "$n: chapters/stages.tsv:3: 2 columns; there are 3 in the heading"
    rm chapters/stages.tsv
    expect_errors '' "$n: a lab with points and no starter" "$n: chapters/stages.tsv is missing"
    printf 'number\tname\tprogram\n2\tsums\tch02_none\n' >chapters/stages.tsv
    expect_errors '' "$n: a lab with points and no starter" "$n: ch02_none is no program of the book"
}

@test "error: a mutant that does not say what it loses" {
    expect_errors 's/ loses="races hidden"//' "$(at 'name=once'): mutant once does not say what it loses="
}

@test "an aim: where it comes from in the JSON, the rule below its table" {
    sed -i -E 's/^correct .*/correct 20/; s/^barriers.*/barriers <= 10 from 40 @ 1x2x33 35/' chapters/02-sum.md
    tangle
    grep -q '{"name": "barriers", "relation": "<=", "limit": 10, "from": 40, "shape": "1x2x33", "points": 35,' build/labs/lab02.json
    [ "$(grep -c '"from"' build/labs/lab02.json)" -eq 1 ]
    book
    grep -q '<td><code>barriers</code></td><td>≤ 10 at 1x2x33, from 40</td><td style="text-align: right">35</td>' build/book.html
    grep -q '<p><code>correct</code>, <code>hidden</code> and <code>races</code> pay for each of their cases that passes. An aim, ' build/book.html
    grep -q 'costs up to 72.5 points: correct, hidden, races; limits, half of the aim<' build/book.html
    rule='code\{correct\}, .code\{hidden\} and .code\{races\} pay for each'
    HANDOUT=2 weave_latex | grep -qE "$rule"
    weave_latex >book.tex # the printed book says the rule once, in a chapter of its own
    grep -q 'tablehead{points}' book.tex
    run -1 grep -qE "$rule" book.tex
}

@test "error: an aim that begins at its limit, is no direction, or has too few points" {
    n=$(at 'barriers == 0')
    expect_errors 's/^barriers.*/barriers <= 10 from 10 @ small 5/' \
        "$(at '{.points}'): the lab's points add up to 95, not 100" \
        "$n: barriers: an aim is <= or >= a limit, and comes from beyond it"
    expect_errors 's/^barriers.*/barriers == 10 from 40 @ small 5/' \
        "$(at '{.points}'): the lab's points add up to 95, not 100" \
        "$n: barriers: an aim is <= or >= a limit, and comes from beyond it"
    expect_errors 's/^barriers.*/barriers >= 10 from forty @ small 5/' \
        "$(at '{.points}'): the lab's points add up to 95, not 100" \
        "$n: barriers: from is not followed by a number"
    expect_errors 's/^barriers.*/barriers >= 10 from 0 @ small 5/' \
        "$(at '{.points}'): the aims have 5 of 90 points that need no GPU: at least a third"
}

# ---- In type ----

book() { # [VARIABLE=VALUE...]
    printf '%s\n' '---' 'title: Sums' 'author: A' 'chapters:' '- chapters/02-sum.md' '---' '' '# Preface {.unnumbered}' >book.md
    mkdir -p build
    env "$@" "$literate/book" html build/book.html
}

weave_latex() {
    pandoc -f commonmark_x-emoji+sourcepos --lua-filter "$literate/weave.lua" --to latex book.md
}

@test "in print, words of an item without a limit have the room of the limits, unless they need more" {
    book
    weave_latex >book.tex
    grep -qF '\code{races} & 10 & \multicolumn{2}{l@{}}{of four schedules} ' book.tex
    grep -qF '\code{registers} & 5 & ≤ 128 &' book.tex
    long=$(printf 'of %.0s' {1..40})
    sed -i "s/# of four schedules/# $long/" chapters/02-sum.md
    weave_latex | grep -qF "\code{races} & 10 &  & ${long% } "
}

@test "the book has the sheet's points, task, hints and questions; the chapter has the solution" {
    tangle
    mkdir -p plots/runs/simulator # as check-labs leaves it for one of two planted bugs
    echo '{"lab02": {"total": 90, "planted": {"negative": 1.6}}}' >plots/runs/simulator/grades.json
    book
    grep -q '<td><code>registers</code></td><td>≤ 128</td><td style="text-align: right">5</td>' build/book.html
    grep -q 'Task 1: Add it up' build/book.html
    grep -q '★★ correct, hidden: 70 points' build/book.html
    grep -q 'Hints to task 1' build/book.html
    grep -q 'Question 1 (5 points).' build/book.html
    grep -q 'must be caught by: correctness' build/book.html
    grep -q '· costs 88.4 of 90 points: correct, hidden, races; limits<' build/book.html
    grep -q '· costs up to 30 points: races, hidden<' build/book.html
    run -1 grep -q 'An aim' build/book.html # there is no aim, so no rule about aims
    [ "$(grep -c 'total += .*1' build/book.html)" -ge 1 ]
}

@test "a student's book has the starter in the chapter, and neither solution nor hints nor answers" {
    tangle
    book AUDIENCE=student
    run -1 grep -q 'Hints to task' build/book.html
    run -1 grep -qE 'must be caught by|costs up to' build/book.html
    run -1 grep -q '>2</span>;' build/book.html # a use by the solution alone is not counted
    grep -q 'a part of what is left for you' build/book.html
    [ "$(grep -c 'Your code: two numbers' build/book.html)" -eq 2 ]
    grep -q 'Question 1 (5 points).' build/book.html
    run env AUDIENCE=reader "$literate/book" html build/book.html
    [ "$status" -eq 1 ]
    [ "$output" = "book: AUDIENCE is student, teacher or nothing, not reader" ]
}

@test "the points in type are the points of the JSON" {
    tangle
    book
    grep -oE '<tr><td><code>[a-z_]+</code></td><td>[^<]*</td><td style="text-align: right">[0-9]+' build/book.html |
        sed -E 's/<tr><td><code>([a-z_]+).*>([0-9]+)$/\1 \2/' >typed
    grep -oE '^    \{"name": "[a-z]+".*"points": [0-9]+' build/labs/lab02.json |
        sed -E 's/.*"name": "([a-z]+)".*"points": ([0-9]+)$/\1 \2/' | diff typed -
}

@test "a handout: one lab's sheet as a PDF; a lab without a sheet is one line" {
    tangle
    book
    HANDOUT=2 "$literate/book" pdf build/handout.pdf
    pdftotext -layout build/handout.pdf - >text
    grep -q 'Sums, chapter 2' text
    grep -q 'Task 1: Add it up' text
    grep -q 'Your code: two numbers' text
    grep -q 'Question 1 (5 points).' text
    run -1 grep -qE 'Hints to|total \+= 2|Index of chunks|[?][?]' text
    run env HANDOUT=3 "$literate/book" pdf build/none.pdf
    [ "$status" -ne 0 ]
    [ "$output" = "lab 3 has no sheet" ]
}

# ---- The book's own ----

# Names of the rows of counts.def that have a title, or that have none.
counters() { # shown|hidden
    local title='"[^"]+"'
    [ "$1" = shown ] || title='""'
    sed -nE "s/^(CLASS_)?COUNTER\(([a-z0-9_]+),( [A-Z_]+,)? $title,.*/\2/p" "$repository/code/ptxsim/counts.def"
}

@test "points may name every counter that a lab shows, and no other; the error says which there are" {
    shown=$(counters shown) hidden=$(counters hidden)
    [ "$(wc -w <<<"$shown $hidden")" -eq "$(grep -c '^[A-Z_]*COUNTER(' "$repository/code/ptxsim/counts.def")" ]
    grep -qx async_copies <<<"$shown"
    grep -qx tensor_flops_8bit <<<"$hidden"
    count=$(wc -w <<<"$shown") n=$(at '{.points}')
    sed -i "/^barriers/d; s/^correct .*/correct $((55 - count))/" chapters/02-sum.md
    awk '{ print $0, ">= 0 @ small 1" }' <<<"$shown" | sed -i "$((n + 1))r /dev/stdin" chapters/02-sum.md
    tangle
    for name in $shown; do
        grep -q "\"name\": \"$name\", \"relation\": \">=\"" build/labs/lab02.json
    done

    sed -i '/ >= 0 @ small 1$/d' chapters/02-sum.md
    awk '{ print $0, ">= 0 @ small 1" }' <<<"$hidden" | sed -i "$((n + 1))r /dev/stdin" chapters/02-sum.md
    run tangle
    [ "$status" -eq 1 ]
    known=$(paste -sd, <<<"$shown" | sed 's/,/, /g') line=$((n + 1))
    for name in $hidden; do
        line=$((line + 1))
        echo "chapters/02-sum.md:$line: $name is no item: correct, hidden, races, speed; a resource: registers," \
            "shared, spills, occupancy, threads, ctas; of a search: candidates, drawn; a counter of the simulator: $known"
    done >expected
    grep 'is no item' <<<"$output" | diff expected -
}

@test "labs 2 to 14 of the book have sheets with one to three tasks, of 100 points" {
    cd "$repository"
    for chapter in chapters/0[2-9]-*.md chapters/1[0-4]-*.md; do
        number=$(basename "$chapter" | cut -c1-2)
        [ -e "build/labs/lab$number.json" ] || { echo "$chapter has no sheet"; false; }
        python3 - "build/labs/lab$number.json" <<'END'
import json, sys
lab = json.load(open(sys.argv[1]))
assert sum(item["points"] for item in lab["points"]) == 100
assert 1 <= len(lab["exercises"]) <= 3 and len(lab["questions"]) >= 1
assert all(len(task["hints"]) >= 2 for task in lab["exercises"])
END
    done
}
