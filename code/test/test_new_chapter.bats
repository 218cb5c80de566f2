# Adding a chapter, as CONTRIBUTING says: a file in chapters/, a row of chapters/stages.tsv, a line of book.md
# and a script labs/labNN, and nothing else. In a copy of the tree, chapter 3 under another name is added
# after the last chapter.

bats_require_minimum_version 1.5.0

load test_tree

# Makes a copy of the tree with its time stamps and with what is built already; $number: the new
# chapter's two digits.
setup() {
    last=$(ls chapters/[0-9][0-9]-*.md | tail -1)
    number=$(($(sed -E 's,chapters/0*([0-9]+)-.*,\1,' <<<"$last") + 1))
    TREE=$BATS_TEST_TMPDIR/tree ORIGINAL=$PWD
    copy_tree "$TREE" build/{obj,tangled,mutants,starters,labs,ptxsim,cuda,gpu,flags,debug-print,deps-*,*.stamp,*.tsv,*.a} \
        build/{lab,series,ch02_scalar}
    cd "$TREE"
    program=ch${number}_made_up
    sed -E "s/ch03_wmma_qk/$program/; s/ch03-/ch$number-/g; s/sec-(03|lab-3|wmma-scores)/sec-$number-\1/g
        s/^## Lab 3:/## Lab $number:/; s/\.chapter = 3,/.chapter = $number,/" chapters/03-wmma-scores.md \
        >"chapters/$number-made-up.md"
    sed -i "s,^- $last\$,&\n- chapters/$number-made-up.md," book.md
    grep -A1 -x -- "- $last" book.md | grep -qx -- "- chapters/$number-made-up.md"
    sed "s/--lab 3 /--lab $number /" labs/lab03 >"labs/lab$number"
    chmod +x "labs/lab$number"
}

add_row() {
    printf '%s\tmade up\t%s\tsm_89\t75\tmission\t1x1x96\n' "$number" "$program" >>chapters/stages.tsv
}

@test "a new chapter is tangled, built, judged, and in the charts; nothing else was touched" {
    add_row
    make tangle
    make "chapter$number"
    run "./lab$number" --on simulator --shapes 1x1x33 --seeds 0
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "Lab $number: made up" ]
    [ "${lines[1]}" = "$program against ch02_scalar, in the simulator" ]
    [[ $output =~ $program\ +1x1x33\ +"1 of 1 right" ]]
    [[ $output == *"GREEN: every gate passed"* ]]
    run labs/starter "$number"
    [[ $output == "labs/work/lab$number/attention.cu: 2 places for your code; "* ]]
    rm -r labs/work

    # Measured on a GPU, the chapter gets a row of its own in the charts.
    sed "s/\"chapter\": 3,/\"chapter\": $number,/" plots/runs/h200/ch03_wmma_qk.json >"plots/runs/h200/$program.json"
    build/series ladder >points
    grep -qP "\tmade up  $number\$" points
    rm points "plots/runs/h200/$program.json"

    diff -rq --exclude build --exclude .git "$ORIGINAL" "$TREE" | grep -v "^Only in $ORIGINAL" | sort >"$BATS_TEST_TMPDIR/changed"
    printf '%s\n' "Files $ORIGINAL/book.md and $TREE/book.md differ" \
        "Files $ORIGINAL/chapters/stages.tsv and $TREE/chapters/stages.tsv differ" \
        "Only in $TREE/chapters: $number-made-up.md" "Only in $TREE/code: $program.cu" \
        "Only in $TREE/labs: lab$number" "Only in $TREE: lab$number" | sort |
        diff - "$BATS_TEST_TMPDIR/changed"
}

@test "without a row in chapters/stages.tsv one line says what to add" {
    missing="chapters/stages.tsv has no stage $number: add a row of its number, name, program, images, least, profile, film"
    run make --no-print-directory "chapter$number"
    [ "$status" -ne 0 ]
    [[ $output == *"chapters/$number-made-up.md:"*": $missing"* ]]

    # A chapter without points for its lab still gets as far as the compiler's flags.
    sed -i '/^::: {.lab}/,/^::: {.exercises}/{/^``` {.points}/,/^```$/d; /^``` {.cuda .starter/,/^```$/d; /^::: {.hints/,/^:::$/d; /^::: {.question/,/^:::$/d}' \
        "chapters/$number-made-up.md"
    run make --no-print-directory "build/$program"
    [ "$status" -ne 0 ]
    [[ ${lines[-1]} == *": *** $missing.  Stop." ]]
    [ ! -e "build/$program" ]
    add_row
    sed -i '$s/\tsm_89\t75\t/\t-\t-\t/' chapters/stages.tsv
    run make --no-print-directory "build/$program"
    [ "$status" -ne 0 ]
    [[ ${lines[-1]} == *"chapters/stages.tsv: the row of stage $number names no images, and $program needs some.  Stop." ]]
}
