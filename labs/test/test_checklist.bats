# The checklist: what is right is ok, and each thing that is wrong is seen as itself.

setup_file() {
    make -s build/planted/ch03_wmma_qk.{warp-barrier,not-transposed,last-step-dropped}
}

setup() {
    TREE=$BATS_TEST_TMPDIR/tree
    mkdir -p "$TREE/build/planted"
    cp -a chapters code labs plots README.md "$TREE"
    cp -a build/{lab,series,hashes.tsv,mutants,ptxsim,ch02_scalar,ch03_wmma_qk} "$TREE/build"
    cp build/planted/ch03_wmma_qk.* "$TREE/build/planted"
    cd "$TREE"
}

# item STATUS NAME TEXT: the item's line, and the only one that FAILs if STATUS is FAIL.
item() {
    run labs/tools/checklist 3
    echo "$output"
    [[ "$output" =~ $'\n'"  $1"\ +"$2"\ +[^$'\n']*"$3" ]]
    if [ "$1" = FAIL ]; then
        [ "$status" -eq 1 ]
        [ "$(grep -c '^  FAIL' <<<"$output")" -eq 1 ]
    fi
}

@test "a stage that is done: every item ok" {
    run labs/tools/checklist 3
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "stage 3: ch03_wmma_qk" ]
    [ "$(grep -c '^  ok ' <<<"$output")" -eq 8 ]
    [ "${#lines[@]}" -eq 9 ]
    [[ $output == *"(<= 128)"*"none under 16 schedules"*"3 of 3 caught"* ]]
}

@test "code that is not the chapter's" {
    sed -i '$a// edited here' code/ch03_wmma_qk.cu
    item FAIL tangled 'is not what the chapter says: make tangle'
}

@test "a wrong kernel, and one with a race" {
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
    sed -i 's/registers <= 128/registers <= 9/' labs/lab03
    item FAIL resources '(<= 9)'
}

@test "a mutant that goes through" {
    cp build/ch03_wmma_qk build/planted/ch03_wmma_qk.last-step-dropped
    item FAIL mutants 'ch03_wmma_qk last-step-dropped correctness NOTHING'
}

@test "records that are stale, of this program or of the one before" {
    sed -i 's/"source_hash": "../"source_hash": "00/' plots/runs/h200/ch03_wmma_qk.json
    item FAIL records 'plots/runs/h200/ch03_wmma_qk.json: ch03_wmma_qk has changed since'
    cp -a "$BATS_TEST_DIRNAME/../../plots/runs/h200/ch03_wmma_qk.json" plots/runs/h200
    sed -i 's/"ch02_scalar": "../"ch02_scalar": "00/' plots/runs/h200/lab03.json
    item FAIL records 'plots/runs/h200/lab03.json: ch02_scalar has changed since'
}

@test "a sanitizer's record: stale, or with a finding" {
    sed -i '/ch03/s/racecheck": "clean/racecheck": "failed/' plots/runs/h200/sanitizer.json
    item FAIL sanitizer '"racecheck": "failed"'
    sed -i 's/"ch03_wmma_qk": "../"ch03_wmma_qk": "00/' plots/runs/h200/sanitizer.json
    item FAIL sanitizer 'ch03_wmma_qk has changed since'
}

@test "a chart that is stale, and what is not there yet" {
    sed -i 's/inputs: ./inputs: x/' plots/lab03.svg
    item FAIL chart 'plots/lab03.svg is stale'
    rm plots/lab03.svg plots/runs/*/{lab03,ch03_wmma_qk}.json plots/runs/*/sanitizer.json
    sed -i '/^ch03/d' build/mutants/list.tsv
    run labs/tools/checklist 3
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^  not yet' <<<"$output")" -eq 4 ]
}

@test "an unknown stage and a program that is not built: one line" {
    run labs/tools/checklist
    [ "$status" -eq 2 ] && [ "${#lines[@]}" -eq 1 ]
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
