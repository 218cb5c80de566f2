# The chapters as texts to edit: their lines, and how tables of numbers are written.

setup() {
    chapters=("$BATS_TEST_DIRNAME"/../../chapters/*.md "$BATS_TEST_DIRNAME"/../../book.md)
    cd "$BATS_TEST_TMPDIR"
}

# Lines longer than 120 characters that a space could break. The opening of a fence must be one
# line, and an address has no spaces.
long_lines() { # FILE...
    LC_ALL=C.UTF-8 grep -HnE '^.{121}' "$@" | grep -vE '^[^:]*:[0-9]+: *(```|[^ ]*://[^ ]*$)' |
        sed -E 's/^([^:]*:[0-9]+):.*/\1: longer than 120 characters/'
}

# Table rows that are typed cell by cell, outside of tables.lua's notation.
typed_rows() { # FILE...
    awk 'FNR == 1 { inside = 0 }
        /^ *```/ { inside = !inside }
        !inside && /^ *\|.*\{\.run/ { print FILENAME ":" FNR ": a number in a table of its own; see tables.lua" }' "$@"
}

@test "no line of a chapter is longer than 120 characters" {
    [ "${#chapters[@]}" -gt 20 ]
    run long_lines "${chapters[@]}" "$BATS_TEST_DIRNAME"/../../chapters/solutions/*.md
    [ "$output" = "" ]
}

# Lines of a paragraph that begin with a sign and a space: Pandoc ends the paragraph there, and begins a list. A list
# that is meant follows a blank line or a box's opening.
torn_paragraphs() { # FILE...
    awk 'FNR == 1 { fence = 0; inside = 1 }
        /^ *```/ { fence = !fence; inside = 1; next }
        fence { next }
        /^$/ || /^(:::|#|\||[0-9]+\. )/ { inside = 1 }
        /^[-+*] / { if (!inside) print FILENAME ":" FNR ": a paragraph breaks off, and a list begins"; inside = 1; next }
        /^[^ :#|0-9]/ || /^[0-9]+[^.0-9]/ { inside = 0 }' "$@"
}

@test "no paragraph breaks off because one of its lines begins like a list" {
    run torn_paragraphs "${chapters[@]:0:${#chapters[@]}-1}" "$BATS_TEST_DIRNAME"/../../chapters/solutions/*.md
    [ "$output" = "" ]
    printf '%s\n' 'The columns 2*g* and 2*g*' '+ 1 of keys.' '' '- one' '- two,' '  and more' '+ three' '```' 'x' '- y' '```' > x.md
    run torn_paragraphs x.md
    [ "$output" = "x.md:2: a paragraph breaks off, and a list begins" ]
}

@test "tables of numbers are in the notation" {
    run typed_rows "${chapters[@]}"
    [ "$output" = "" ]
}

@test "a long line and a typed table row are reported with file and line" {
    words=$(printf 'ü%.0s' {1..60})
    printf '%s\n' "$words $words" "$words $words." "https://x.org/$words$words" "\`\`\` {.table fmt=\"$words$words\"}" \
        "| \`h200/a:b\`{.run} |" "$words $words." "${words}$words" '```' "| \`h200/a:b\`{.run} |" > x.md
    run long_lines x.md
    [ "$output" = "x.md:1: longer than 120 characters
x.md:2: longer than 120 characters
x.md:6: longer than 120 characters" ]
    run typed_rows x.md
    [ "$output" = "x.md:9: a number in a table of its own; see tables.lua" ]
}

# Terms of the glossary that are not in the index, have no place where they are taught, or are out
# of order.
glossary_faults() { # FILE
    awk '/^## /{ words = /^## Words/ }
        words && /^\[/ { if (term != "" && !link) print term ": no link"
            match($0, /^\[[^]]*\]/); term = substr($0, 2, RLENGTH - 2); link = 0; n++
            if (substr($0, RLENGTH + 1, 7) != "{.index") print term ": no index mark"
            key = tolower(term); gsub(/[^a-z0-9]+/, " ", key); sub(/^ /, "", key)
            if (key <= last) print term ": out of order"
            last = key }
        words && /\]\(#[a-zA-Z0-9:-]+\)/ { link = 1 }
        END { if (term != "" && !link) print term ": no link"; if (n < 2) print "no terms" }' "$1"
}

@test "each term of the glossary is in order, in the index, and says where it is taught" {
    run glossary_faults "$BATS_TEST_DIRNAME/../../chapters/glossary.md"
    [ "$output" = "" ]
    [ "$(grep -c '^\[.*{\.index' "$BATS_TEST_DIRNAME/../../chapters/glossary.md")" -ge 100 ]
    printf '%s\n' '## Words' '[b]{.index}' ':   See [](#x).' '[a]{.index}' ':   No place.' '[c]' ':   [](#y)' >words.md
    run glossary_faults words.md
    [ "$output" = "a: out of order
a: no link
c: no index mark" ]
}

# The entries that the chapters' index marks make, without repetitions.
index_entries() { # FILE...
    cat "$@" | tr '\n' ' ' | grep -oE '\[[^][]*\]\{\.index[^}]*\}' |
        sed -E 's/.* key="([^"]*)".*/\1/; s/^\[(.*)\]\{\.index\}$/\1/' | sort -u
}

@test "the index has 300 entries or more; each is written in one way" {
    index_entries "${chapters[@]}" >entries
    [ "$(wc -l <entries)" -ge 300 ]
    run uniq -di <(sort -f entries)
    [ "$output" = "" ]
    printf '%s\n' 'a[]{.index key="bank!conflict"} [warp]{.index} *b*[]{.index' 'key="warp"} [x](#y)' >marks.md
    run index_entries marks.md
    [ "$output" = "bank!conflict
warp" ]
}

# The films that figures name, as "CHAPTER NAME", but lessons.tsv does not have.
unknown_films() { # LESSONS FILE...
    comm -13 <(grep -v '^#' "$1" | awk -F'\t' '{ print $1, $2 }' | sort -u) \
        <(cat "${@:2}" | grep -oE ' film="[0-9]+:[^"]*"' | sed -E 's/.*"([0-9]+):(.*)"/\1 \2/' | sort -u)
}

@test "each figure with a film names an existing film; each chapter with a kernel has such a figure" {
    lessons=$BATS_TEST_DIRNAME/../ptxsim/test/lessons.tsv
    run unknown_films "$lessons" "${chapters[@]}"
    [ "$output" = "" ]
    while read -r number program; do
        [ -e "$BATS_TEST_DIRNAME/../$program.cu" ] || continue
        grep -qE " film=\"?${number}[:\"}]" "$BATS_TEST_DIRNAME/../../chapters/$(printf %02d "$number")"-*.md ||
            { echo "chapter $number names no film"; return 1; }
    done < <("$BATS_TEST_DIRNAME/../tools/stages" number program)
    printf '%s\n' '{#fig:x film="4:copy-begins"}' '{#fig:y film="4:gone" width=1}' >figures.md
    run unknown_films "$lessons" figures.md
    [ "$output" = "4 gone" ]
}

# Paragraphs, list items and tables that speak of the sources without citing one of them. Front
# matter, headings and fenced code are left out.
unkeyed() { # FILE...
    awk 'function judge() {
            if ((text ~ /[Tt]he sources([^A-Za-z]|$)/ || text ~ /[Ss]ource documents/ ||
                    text ~ /(^|[^A-Za-z0-9_])(S1|S2|S4|S5|PLAN)([^A-Za-z0-9_]|$)/) && text !~ /@sources-/)
                print where ": speaks of the sources and cites none"
            text = ""
        }
        FNR == 1 { judge(); matter = $0 == "---"; fence = 0; next_ = matter }
        matter { if (!next_ && $0 == "---") matter = 0; next_ = 0; next }
        /^ *```/ { judge(); fence = !fence; next }
        fence { next }
        /^ *$/ || /^:::/ || /^#/ { judge(); next }
        /^ *([-*]|[0-9]+\.) / || /^\|/ && text !~ /^ *\|/ { judge() }
        text == "" { where = FILENAME ":" FNR }
        { sub(/^ +/, ""); text = text == "" ? $0 : text " " $0 }
        END { judge() }' "$@"
}

@test "a paragraph that speaks of the sources cites one of them" {
    run unkeyed "${chapters[@]}" "$BATS_TEST_DIRNAME"/../../chapters/solutions/*.md
    [ "$output" = "" ]
    printf '%s\n' --- 'title: The sources' --- '## The sources' 'As the' "sources' plan says." '' '- The sources did. [@sources-s4]' \
        '- The source documents did' '  not.' '```' 'the sources' '```' 'S5 wants it.' '' 'S50 and Streams of the sourcesX.' >keys.md
    run unkeyed keys.md
    [ "$output" = "keys.md:5: speaks of the sources and cites none
keys.md:9: speaks of the sources and cites none
keys.md:14: speaks of the sources and cites none" ]
}

@test "each stated cause of a time has a row in causes.tsv that names the evidence" {
    run awk -f "$BATS_TEST_DIRNAME/causes.awk" "$BATS_TEST_DIRNAME/../../chapters/causes.tsv" "${chapters[@]}"
    [ "$output" = "" ]
    mkdir -p chapters/solutions plots/runs/h200
    echo '{}' >plots/runs/h200/lab04.json
    echo '::: {.solution of=1}' >chapters/solutions/04.md
    printf '%s\n' '# Copies {#sec-copies}' 'It takes `h200/lab04:a`{.run} µs because it waits. Perhaps the bank' 'is slow.' \
        '' 'It is 3 % faster because it is blue.' '' '::: {.predict}' 'It is 3 % faster because it is red.' ':::' '' \
        '``` {.table #tbl:typed}' '| a |' 'Table: Typed.' '```' '' '::: {.learned}' '- Perhaps it pays.' ':::' >chapters/04-copies.md
    tab=$'\t'
    rows() { # ROW...
        printf '%s\n' '# a comment' "${@//|/$tab}" >chapters/causes.tsv
        run awk -f "$BATS_TEST_DIRNAME/causes.awk" chapters/causes.tsv chapters/04-copies.md
    }
    rows '04|counter|h200/lab04|because it waits' '04|perhaps|-|Perhaps the bank is slow' '04|control|#sec-copies|it is blue'
    [ "$output" = "chapters/04-copies.md:17: a summary that is not sure" ]
    rows '04|counter|h200/lab05|because it waits' '04|perhaps|-|it is blue' '04|arithmetic|exercise 4.2|the bank' '04|so' \
        '04|control|#tbl:typed|µs' '04|control|#tbl:gone|It is' '04|counter|h200/lab04|was'
    printf '%s\n' "$output" >said
    diff - <(sed 's/^[^:]*:\([0-9]*\): /\1: /' said) <<'END'
5: not: chapter, kind, where, fragment, with tabs between
3: is a perhaps, and its sentence says none (chapters/04-copies.md:5)
17: a summary that is not sure
2: h200/lab05 is not quoted in chapter 04
4: exercise 4.2 has no solution
6: #tbl:typed has no number from a record
7: #tbl:gone is no table, figure or section of these chapters
8: found 0 times in chapter 04: was
END
    rows
    printf '%s\n' "$output" >said
    diff - <(sed 's/ without a row.*//' said) <<'END'
chapters/04-copies.md:2: a cause of a time
chapters/04-copies.md:5: a cause of a time
chapters/04-copies.md:17: a summary that is not sure
END
}
