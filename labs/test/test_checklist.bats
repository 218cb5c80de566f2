# The checklist: an item without a fault is reported as ok, a fault under its own item.

load ../../code/test/test_tree

# Each run takes seconds: so each of two trees has several faults, in different items.
setup_file() {
    make -s build/planted/ch03_wmma_qk.{warp-barrier,not-transposed,last-step-dropped}
    export FIRST=$BATS_FILE_TMPDIR/first.txt SECOND=$BATS_FILE_TMPDIR/second.txt
    local root=$PWD
    make_tree "$BATS_FILE_TMPDIR/tree"
    sed -i '$a// edited here' code/ch03_wmma_qk.cu
    sed -i "s/^lab=(--lab 3/& --gate 'registers <= 9'/" labs/lab03
    cp build/ch03_wmma_qk build/planted/ch03_wmma_qk.last-step-dropped
    sed -i 's/"source_hash": "../"source_hash": "00/' plots/runs/h200/ch03_wmma_qk.json
    sed -i '/ch03/s/racecheck": "clean/racecheck": "failed/' plots/runs/h200/sanitizer.json
    labs/tools/checklist 3 >"$FIRST" || echo "status $?" >>"$FIRST"
    cd "$root"
    make_tree "$BATS_FILE_TMPDIR/tree"
    sed -i 's/"ch02_scalar": "../"ch02_scalar": "00/' plots/runs/h200/lab03.json
    sed -i 's/"ch03_wmma_qk": "../"ch03_wmma_qk": "00/' plots/runs/h200/sanitizer.json
    labs/tools/checklist 3 >"$SECOND" || echo "status $?" >>"$SECOND"
    cd "$root"
}

make_tree() { # FOLDER: makes a tree to work in
    rm -rf "$1"
    copy_tree "$1" build/{lab,series,hashes.tsv,mutants,ptxsim,ch02_scalar,ch03_wmma_qk} build/planted/ch03_wmma_qk.*
    cd "$1"
}

# fails FILE NAME TEXT: in the output in FILE, the only line of item NAME is FAIL and has TEXT.
fails() {
    cat "$1"
    [[ $(grep "^  [^ ]* *$2 " "$1") =~ ^"  FAIL"\ +"$2"\ +.*"$3" ]]
}

@test "a stage that is done: every item ok" {
    make_tree "$BATS_TEST_TMPDIR/tree"
    run labs/tools/checklist 3
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "stage 3: ch03_wmma_qk" ]
    [ "$(grep -c '^  ok ' <<<"$output")" -eq 7 ]
    [ "${#lines[@]}" -eq 8 ]
    [[ $output == *"(<= 128)"*"none under 16 schedules"*"3 of 3 caught"* ]]
}

@test "each fault fails its own item, and no other item fails" {
    cat "$FIRST" "$SECOND"
    [ "$(sed -nE 's/^  FAIL +([a-z]+) .*/\1/p' "$FIRST" | xargs)" = "tangled resources mutants records sanitizer" ]
    [ "$(sed -nE 's/^  FAIL +([a-z]+) .*/\1/p' "$SECOND" | xargs)" = "records sanitizer" ]
    [ "$(grep -c '^  ok ' "$FIRST")" -eq 2 ]
    [ "$(grep -c '^  ok ' "$SECOND")" -eq 5 ]
    [ "$(tail -qn 1 "$FIRST" "$SECOND" | xargs)" = "status 1 status 1" ]
}

@test "code that is not the chapter's" {
    fails "$FIRST" tangled 'is not what the chapter says: make tangle'
}

@test "a wrong kernel, and one with a race" {
    make_tree "$BATS_TEST_TMPDIR/tree"
    cp build/planted/ch03_wmma_qk.not-transposed build/ch03_wmma_qk
    run labs/tools/checklist 3
    [ "$status" -eq 1 ]
    [[ "$output" =~ "  FAIL     correct     ch03_wmma_qk, small: 0 of 1" ]]
    cp build/planted/ch03_wmma_qk.warp-barrier build/ch03_wmma_qk
    run labs/tools/checklist 3
    [ "$status" -eq 1 ]
    [[ "$output" =~ "  FAIL     races       schedule 0: ptxsim: " ]]
}

@test "a limit that is broken" {
    fails "$FIRST" resources '(<= 9)'
}

@test "a mutant that goes through" {
    fails "$FIRST" mutants 'ch03_wmma_qk last-step-dropped correctness NOTHING'
}

@test "records that are stale, of this program or of the one before" {
    fails "$FIRST" records 'plots/runs/h200/ch03_wmma_qk.json: ch03_wmma_qk has changed since'
    fails "$SECOND" records 'plots/runs/h200/lab03.json: ch02_scalar has changed since'
}

@test "a sanitizer's record: stale, or with a finding" {
    fails "$FIRST" sanitizer '"racecheck": "failed"'
    fails "$SECOND" sanitizer 'ch03_wmma_qk has changed since'
}

@test "files and records that are missing yet" {
    make_tree "$BATS_TEST_TMPDIR/tree"
    rm plots/runs/*/{lab03,ch03_wmma_qk}.json plots/runs/*/sanitizer.json
    sed -i '/^ch03/d' build/mutants/list.tsv
    run labs/tools/checklist 3
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^  not yet' <<<"$output")" -eq 3 ]
}

@test "an unknown stage and a program that is not built: one line" {
    make_tree "$BATS_TEST_TMPDIR/tree"
    run labs/tools/checklist
    [ "$status" -eq 2 ]
    [ "${#lines[@]}" -eq 1 ]
    run labs/tools/checklist 77
    [ "$status" -eq 2 ]
    [ "$output" = "checklist: no kernel in code/ for stage 77" ]
    run labs/tools/checklist three
    [ "$status" -eq 2 ]
    rm build/ch03_wmma_qk
    run labs/tools/checklist 3
    [ "$status" -eq 3 ]
    [ "$output" = "checklist: build/ch03_wmma_qk is not there: type make checklist3" ]
}
