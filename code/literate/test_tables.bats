# Tables of numbers: tables in the notation of tables.lua against the same tables written out, and
# every mistake that must stop the build, with its line.

setup() {
    literate=$BATS_TEST_DIRNAME
    cd "$BATS_TEST_TMPDIR"
    mkdir -p chapters plots/runs/h200 build
    printf 'a\t01\nb\t02\n' > build/hashes.tsv
    cat > plots/runs/h200/a.json <<'EOF'
{"program": "a", "source_hash": "01", "name": "first", "counts": {"loads": 3000, "stores": 500, "all": 4000},
 "shapes": {"small": {"timing": {"p50_us": 3.126}}, "mission": {"timing": {"p50_us": 30.5}},
  "1x8x512": {"timing": {"p50_us": 20.25}}, "long": {"timing": {"p50_us": 301.4}}}}
EOF
    cat > plots/runs/h200/b.json <<'EOF'
{"program": "b", "source_hash": "02", "name": "second", "counts": {"loads": 2000, "stores": 250, "all": 1000},
 "shapes": {"small": {"timing": {"p50_us": 1.563}}, "mission": {"timing": {"p50_us": 10}},
  "1x8x512": {"timing": {"p50_us": 8.1}}, "long": {"timing": {"p50_us": 100}}}}
EOF
    echo '{"program": "b", "source_hash": "02",
        "speedup": {"mission": {"before_p50_us": 31.04, "after_p50_us": 10.2, "median": 3.05}}}' \
        > plots/runs/h200/lab04.json
    for n in 3 4; do
        echo '{"program": "a", "source_hash": "01", "evidence": {"kernel_'$n'": {"loads": '$n'00}}}' \
            > plots/runs/h200/stage0$n.json
    done
    printf '# stages\nnumber\tname\tprogram\n3\tWMMA Q·Kᵀ\tkernel_3\n4\tcp.async\tkernel_4\n5\tnone\t-\n' \
        > chapters/stages.tsv
    printf -- '---\ntitle: T\nauthor: A\nchapters:\n- chapters/03-tables.md\n---\n\nPreface.\n' > book.md
}

# Weaves a chapter from standard input to LaTeX, without the lines that name its source.
weave() {
    cat > chapters/03-tables.md
    pandoc --from commonmark_x-emoji+sourcepos --lua-filter "$literate/weave.lua" --to latex \
        --wrap=preserve book.md > woven.full 2> stderr || return 1
    grep -v '^ *%@' woven.full > woven
}

# The first file, in the notation, gives the same book as the second, written out.
expect_same() {
    printf '# Tables {#sec-tables}\n\nSee [](#tbl:t).\n\n' | cat - "$1" | weave
    mv woven woven.notation
    printf '# Tables {#sec-tables}\n\nSee [](#tbl:t).\n\n' | cat - "$2" | weave
    diff woven.notation woven
}

# A block with these lines is refused with this message. "N: …" is the block's line N; the fence is
# 0.
expect_error() { # EXPECTED FENCE LINE...
    local expected=$1 status=0
    printf '# Tables\n\n``` {.table%s}\n' "${2:+ $2}" > chapter
    printf '%s\n' "${@:3}" '```' >> chapter
    weave < chapter || status=$?
    echo "chapters/03-tables.md:$((${expected%%:*} + 3)):${expected#*:}" | diff - stderr
    [ "$status" -ne 0 ]
}

head='| a | b |'
rule='|---|--:|'

@test "a row for each shape: formats, labels, before, after and ratio, and the lab's row" {
    cat > notation <<'EOF'
``` {.table #tbl:t rows="small %.2f mission %.1f 1x8x512 %.1f long %.0f"}
before: h200/a
after: h200/b
lab: h200/lab04
| shape   | before, µs | after, µs |        ratio |
|---------|-----------:|:---------:|-------------:|
| {label} |   {before} |   {after} | {ratio} %.3f |
Table: Before *and* after.
```
EOF
    cat > written <<'EOF'
| shape | before, µs | after, µs | ratio |
|---|--:|:-:|--:|
| `small` | 3.13 | 1.56 | 2.000 |
| `mission` | 31.0 | 10.2 | 3.050 |
| `mission`, B = 1 | 20.2 | 8.1 | 2.500 |
| `long` | 301 | 100 | 3.014 |

Table: Before *and* after. {#tbl:t}
EOF
    expect_same notation written
}

@test "a cell for each column: in the header too, with aliases, expressions, formats and a scale" {
    cat > notation <<'EOF'
``` {.table #tbl:t columns="a b" fmt="%.1f" scale=1e-3}
counts = h200/{column}:counts
share = {counts}.loads / {counts}.all
| what | program `{column}` | note |
|------|-------------------:|------|
| all loads | {counts}.loads | none |
| their share, a thousandth
    | {share} %.2e
    | `h200/a:counts.loads`{.run fmt="%.0f"} of `h200/a:counts.all`{.run}, \| and {column} |
| the names | h200/{column}:shapes.small.timing.p50_us * 1000 %.3f µs | |
Table: Loads, and
their share of `h200/a:counts.all`{.run}.
```
EOF
    # The {column} in the note repeats the note's cell for each column, too: that row has 5 cells.
    status=0
    { printf '# T\n\n'; cat notation; } | weave || status=$?
    [ "$status" -ne 0 ]
    echo "chapters/03-tables.md:9: a row of 5 cells below a header of 4" | diff - stderr
    sed -i 's/ and {column} |/ and more |/' notation
    cat > written <<'EOF'
| what | program `a` | program `b` | note |
|---|--:|--:|---|
| all loads | 3.0 | 2.0 | none |
| their share, a thousandth | 7.50 × 10^−4^ | 2.00 × 10^−3^ | 3 of 4.0, \| and more |
| the names | 3.126 µs | 1.563 µs | |

Table: Loads, and
their share of 4000. {#tbl:t}
EOF
    expect_same notation written
}

@test "a format is the cell's, else the column's, else the row's, else the block's" {
    cat > notation <<'EOF'
``` {.table #tbl:t rows="small %.1f long" columns="a %.2f b" fmt="%.0f"}
p50 = shapes.{row}.timing.p50_us
| shape | in {column} | with words | without |
|-------|------------:|------------|---------|
| {row} | h200/{column}:{p50} | `h200/a:{p50}`{.run} µs | h200/a:{p50} %.3f |
| all | h200/{column}:counts.all | - | h200/a:counts.all |
Table: Formats.
```
EOF
    cat > written <<'EOF'
| shape | in a | in b | with words | without |
|---|--:|--:|---|---|
| small | 3.13 | 1.6 | 3.1 µs | 3.126 |
| long | 301.40 | 100 | 301 µs | 301.400 |
| all | 4000.00 | 1000 | - | 4000 |

Table: Formats. {#tbl:t}
EOF
    expect_same notation written
}

@test "a row for each stage of chapters/stages.tsv, a span in the header" {
    for stages in 'stages 3-4' 'stages 3 4'; do
        cat > notation <<EOF
\`\`\` {.table #tbl:t rows="$stages" fmt="%.0f"}
| stage || loads | twice |
|-------|---|--:|--:|
| {n} | {name} | h200/stage{nn}:evidence.{program}.loads | h200/stage{nn}:evidence.{program}.loads * 2 |
| all | | 700 | 1400 |
Table: Stages.
\`\`\`
EOF
        cat > written <<'EOF'
| stage | | loads | twice |
|---|---|--:|--:|
| 3 | WMMA Q·Kᵀ | 300 | 600 |
| 4 | cp.async | 400 | 800 |
| all | | 700 | 1400 |

Table: Stages. {#tbl:t}
EOF
        expect_same notation written
    done
}

@test "a row for each line of a list, whose values may have names and formats of their own" {
    cat > notation <<'EOF'
``` {.table #tbl:t}
rows: what       | row     | from    | digits | fmt
      the first  | small   | {first} | %.0f   | %.1f
                 | mission | {first} | %.1f   | %.2f
      the second | long    | –       | –      | %d
first = h200/a:counts.loads
| what   | p50, µs                                        | loads |
|--------|-----------------------------------------------:|------:|
| {what} | h200/a:shapes.{row}.timing.p50_us | {from} {digits} |
Table: List.
```
EOF
    cat > written <<'EOF'
| what | p50, µs | loads |
|---|--:|--:|
| the first | 3.1 | 3000 |
| | 30.50 | 3000.0 |
| the second | 301 | – – |

Table: List. {#tbl:t}
EOF
    expect_same notation written
}

@test "a table without caption, number or id, in a list" {
    printf -- '- item\n\n  ``` {.table}\n  %s\n  %s\n  | x | h200/b:name |\n  ```\n' "$head" "$rule" > notation
    printf -- '- item\n\n  %s\n  %s\n  | x | second |\n' "$head" "$rule" > written
    for file in notation written; do
        { printf '# T\n\n'; cat $file; } | weave
        mv woven $file.woven
    done
    diff notation.woven written.woven
    grep -q second written.woven
}

@test "references: unknown, stale, or with a format that does not fit, each at its cell's line" {
    expect_error "3: plots/runs/h200/a.json has no 'counts.nothing'" '' "$head" "$rule" '| x | h200/a:counts.nothing |'
    expect_error "5: no recorded run plots/runs/h200/none.json" '' "$head" "$rule" '| x | 1 |' \
        '| words' '    | h200/none:counts |'
    expect_error "4: no recorded run plots/runs/h200/none.json" '' "$head" "$rule" '| x |' '    h200/none:counts |'
    expect_error "2: no recorded run plots/runs/h200/none.json" '' 'x = h200/none:counts.loads' '| a | {x} |' "$rule"
    expect_error "4: no recorded run plots/runs/h200/none.json" '' "$head" "$rule" 'Table: Words' \
        'and `h200/none:a`{.run}.'
    expect_error "3: fmt=\"%.1y\" does not fit the value 3000" '' "$head" "$rule" '| x | h200/a:counts.loads %.1y |'
    expect_error "4: fmt=\"%.1f\" does not fit the value first" 'rows="a %.1f"' "$head" "$rule" '| x' \
        '    | h200/{row}:name |'
    expect_error "3: fmt=\"%d\" does not fit the value first" 'fmt="%d"' "$head" "$rule" '| x | h200/a:name |'
    echo 'a	00' > build/hashes.tsv
    expect_error "4: plots/runs/h200/a.json is stale: a has changed since it was recorded (run it again: make runs)" \
        'rows="a"' "$head" "$rule" '| x' '    | h200/{row}:counts.loads |'
}

@test "names: unknown, used for nothing, given twice, made of themselves" {
    unknown='no alias, and nothing of rows: or columns:'
    expect_error "3: unknown {ncu}: $unknown" '' "$head" "$rule" '| x | {ncu}.loads |'
    expect_error "3: unknown {ncu}: $unknown" 'rows="a b"' "$head" "$rule" '| {row} | {ncu}.loads |'
    expect_error "3: unknown {ncu.loads}: $unknown" '' "$head" "$rule" '| x | {ncu.loads} |'
    expect_error "1: unknown {row}: $unknown" 'rows="a b"' '| {row} | b |' "$rule" '| x | {row} |'
    expect_error "3: unknown {before}: $unknown" 'after=h200/b rows=small' "$head" "$rule" '| {after} | {before} |'
    expect_error "3: unknown {program}: $unknown" 'rows="stages 5"' "$head" "$rule" '| {n} | {program} |'
    expect_error "1: nothing uses {x}" '' 'x = h200/a:counts' "$head" "$rule" '| x | 1 |'
    expect_error "0: nothing uses {before}" 'before=h200/a' "$head" "$rule" '| x | 1 |'
    expect_error "2: second x = … (first in line 4)" '' 'x = 1' 'x = 2' "$head" "$rule" '| {x} | 1 |'
    expect_error "1: rows: gives a value to {row} already" 'rows="a b"' 'row = 1' "$head" "$rule" '| {row} | 1 |'
    expect_error "5: {x} is made of itself" '' 'x = {y}' 'y = {x}' "$head" "$rule" '| {x} | 1 |'
}

@test "rows and columns: unknown stages, odd lists and formats, ranges that no cell uses" {
    expect_error "0: chapters/stages.tsv has no stage 6" 'rows="stages 3-6"' "$head" "$rule" '| {n} | 1 |'
    expect_error "0: chapters/stages.tsv has no stage 20" 'rows="stages 3 20"' "$head" "$rule" '| {n} | 1 |'
    expect_error "0: 'x' is neither a stage's number nor two, as in 3-14" 'rows="stages 3 x"' "$head" "$rule" \
        '| {n} | 1 |'
    expect_error "0: '4-3' is neither a stage's number nor two, as in 3-14" 'rows="stages 4-3"' "$head" "$rule" \
        '| {n} | 1 |'
    expect_error "1: rows: names nothing" '' 'rows: stages' "$head" "$rule" '| {n} | 1 |'
    expect_error "0: no cell has a name of rows:" 'rows="a b"' "$head" "$rule" '| x | 1 |'
    expect_error "0: no cell has a name of columns:" 'columns="a b"' "$head" "$rule" '| x | 1 |'
    expect_error "0: the format %.1f follows no word" 'rows="%.1f a"' "$head" "$rule" '| {row} | 1 |'
    expect_error "3: 2 values for 3 names" '' 'rows: a | b | c' '      1 | 2 | 3' '      1 | 2' \
        "$head" "$rule" '| {a} | {b} |'
    rm chapters/stages.tsv
    expect_error "0: chapters/stages.tsv is missing" 'rows="stages 3"' "$head" "$rule" '| {n} | 1 |'
}

@test "the block: no header, cells too few or too many, unknown settings, lines that are nothing" {
    expect_error "0: a table begins with a header and a row like |---|--:|" '' "$head"
    expect_error "2: a table begins with a header and a row like |---|--:|" '' "$head" '| x | 1 |'
    expect_error "2: a row of 3 cells below a header of 2" '' "$head" '|---|--:|---|'
    expect_error "3: a row of 1 cells below a header of 2" '' "$head" "$rule" '| x |'
    expect_error "3: a row of 4 cells below a header of 2" '' "$head" "$rule" '| x | y |' '    | | z |'
    expect_error "0: a table has no setting 'row'" 'row=a' "$head" "$rule" '| x | 1 |'
    expect_error "1: a table has no setting 'Row'" '' 'Row: a b' "$head" "$rule" '| x | 1 |'
    expect_error "1: second fmt: (first in line 3)" 'fmt="%d"' 'fmt: %d' "$head" "$rule" '| x | 1 |'
    expect_error "4: a caption is one paragraph" '' "$head" "$rule" '| x | 1 |' 'Table: one' '' 'two'
    expect_error "4: a caption is one paragraph" '' "$head" "$rule" '| x | 1 |' 'Table:'
    expect_error "0: before: a is not <gpu>/<record>" 'before=a rows=small' "$head" "$rule" '| {before} | 1 |'
    expect_error "3: 'x | y' is neither a row (| …), nor name = …, nor name: …, nor Table: …" '' "$head" "$rule" 'x | y'
    reads='value [operator value …] [%format]; beside words a reference is `…`{.run}'
    expect_error "3: cannot read 'h200/a:name x 2': $reads" '' "$head" "$rule" '| x | h200/a:name x 2 |'
    expect_error "3: cannot read 'about h200/a:name': $reads" '' "$head" "$rule" '| x | about h200/a:name |'
}

# The columns of the table, and its head.
set_table() {
    printf '# Tables\n\n' | cat - "$1" | weave
    grep '^.begin{tabular' woven
    grep 'midrule' woven
}

@test "print: heads above numbers are broken where that makes them narrowest, all with as few lines as fit" {
    cat > table <<'EOF'
| shape | flash over it | µs: two buffers, six CTAs | one buffer, six | PyTorch, flash | cuDNN over it | the ratio of both | p50, µs |
|---|--:|--:|--:|--:|--:|--:|--:|
| small | 1.40 | 516 | 444 | 5.12 | 2.1 | 12 | 7 |
EOF
    run set_table table
    [ "${lines[0]}" = '\begin{tabular}{@{}lrrrrrrr@{}}\toprule' ]
    [[ ${lines[1]} == *'{\headlines{r}{flash\\over it}}'*'{\headlines{r}{µs: two buffers,\\six CTAs}}'* ]]
    [[ ${lines[1]} == *'{\headlines{r}{one buffer,\\six}}'*'{\headlines{r}{PyTorch,\\flash}}'* ]]
}

@test "print: what fits into a line is not broken; numbers with powers of ten count as they read" {
    cat > table <<'EOF'
| gate | limit | chapter 10 | together | one producer | two producers |
|---|---|--:|--:|--:|--:|
| shared memory a CTA, bytes | ≤ 65536 | 23 040 | 23 168 | 23 168 | 23 168 |
| error of a head, `mission` | ≤ 2 · 10⁻³ | 2.8 × 10⁻⁴ | 2.8 × 10⁻⁴ | 2.8 × 10⁻⁴ | 2.8 × 10⁻⁴ |
EOF
    run set_table table
    [ "${lines[0]}" = '\begin{tabular}{@{}llrrrr@{}}\toprule' ]
    [[ ${lines[1]} != *headlines* ]]
}

@test "print: a table with long cells fills the line, and they are broken" {
    cat > table <<'EOF'
| tried | why, perhaps | p50, µs |
|---|--:|--:|
| the threads of a warp take turns with the loads of the next tile of keys | they fall into that rhythm by themselves, and nobody waits for anybody | 5.71 |
EOF
    run set_table table
    [[ ${lines[0]} == '\begin{tabularx}{\linewidth}{@{}>{\hsize='*'\raggedright'*'X>{\hsize='*'\raggedleft'*'Xr@{}}\toprule' ]]
}

@test "a line ends neither after a sign nor within a short sum or product" {
    printf '# Signs\n\n%s\n' 'Of S = 512 there are 2 · 64 bytes, *t* + 1 tiles, 16 heads · 16 tiles, 3 × 4 parts.' | weave
    grep -qF 'Of S =~512 there are 2~·~64 bytes, \emph{t}~+~1 tiles, 16 heads ·~16 tiles, 3~×~4 parts.' woven
}

@test "a name in code that is longer than half a line may break before its capitals" {
    printf '# Names\n\n%s\n' '`cudaLaunchKernelEx`, `cudaLaunchAttributeClusterDimension`' | weave
    grep -qF '\code{cudaLaunchKernelEx}, \code{cuda\cbk{}Launch\cbk{}Attribute\cbk{}Cluster\cbk{}Dimension}' woven
}
