# labs/grade --slurm, with its own slurmctld and slurmd on this machine.

bats_require_minimum_version 1.5.0

setup_file() {
    export GRADE_SECRET=nobody-is-told-$RANDOM$RANDOM LAB_FILE=$BATS_FILE_TMPDIR/lab04.json
    if ! bwrap --unshare-all --ro-bind / / true 2>/dev/null; then
        export MISSING="bubblewrap may not make a sandbox here"
    elif ! MISSING=$(labs/fixtures/slurm-cluster start "$BATS_FILE_TMPDIR/cluster" 3>&-); then
        export MISSING
    else
        unset MISSING
    fi
    export SLURM_CONF=$BATS_FILE_TMPDIR/cluster/slurm.conf
    # Two items, so that a submission takes seconds.
    python3 - "$LAB_FILE" <<'END'
import json, sys
lab = json.load(open("labs/fixtures/lab04.json"))
lab["points"] = [dict(p, points=70 if p["name"] == "correct" else 30) for p in lab["points"]
                 if p["name"] in ("correct", "registers")]
json.dump(lab, open(sys.argv[1], "w"))
END
}

teardown_file() {
    [ -n "${MISSING:-}" ] || labs/fixtures/slurm-cluster stop "$BATS_FILE_TMPDIR/cluster"
}

setup() {
    [ -z "${MISSING:-}" ] || skip "$MISSING"
    class=$BATS_TEST_TMPDIR/class out=$BATS_TEST_TMPDIR/out said=$BATS_TEST_TMPDIR/said
    mkdir "$class"
    for i in 1 2; do # new in each test: nothing is kept for them
        echo "int main(void) { return 0; } // $BATS_TEST_NUMBER $i $RANDOM$RANDOM" >"$class/quick $i.cu"
    done
    line=(--lab 4 --lab-file "$LAB_FILE" --out "$out" --no-gpu "$class")
}

teardown() {
    [ -n "${MISSING:-}" ] || scontrol update PartitionName=book State=UP
}

# submit ARGUMENT...: grades in the background, and waits until Slurm has the job; $job is its
# number, $spool its folder.
submit() {
    rm -f "$said"
    labs/grade "${line[@]}" --slurm "$@" >"$said" 2>&1 3>&- &
    judge=$!
    while kill -0 $judge; do
        read -r job spool < <(sed -nE 's/^Slurm has .* as job ([0-9]+), (lab04-[^:]+):.*/\1 build\/grade\/slurm\/\2/p' "$said" 2>/dev/null) &&
            return 0
        sleep 0.1
    done
    cat "$said"
    false
}

one_line() { # STATUS WORDS ARGUMENT...
    local expected=$1 words=$2
    shift 2
    run labs/grade --lab 4 --lab-file "$LAB_FILE" --out "$out" "$@"
    echo "$output"
    [ "$status" -eq "$expected" ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == "grade: "*"$words"* ]]
}

@test "a job array gives the gradebook of a local run, and Slurm is not told the secret" {
    rm "$class/quick 2.cu"
    cp code/ch04_cp_async.cu "$class/right.cu"
    cp "$class/right.cu" "$class/copied.cu"
    mkdir "$class/empty"
    scontrol update PartitionName=book State=DOWN # keeps the job waiting while the test looks at it
    submit
    [[ $(<"$said") == *"Slurm has 2 submissions as job"* ]]
    [ "$(stat -c %a build/grade/slurm "$spool" | uniq)" = 700 ]
    [ -z "$(find "$spool" -perm /077)" ]
    hash=$(sed -nE 's/^ "secret": "([0-9a-f]{64})".*/\1/p' "$spool/task.json")
    [ "${#hash}" -eq 64 ]
    [ "$hash" != "$(printf %s "$GRADE_SECRET" | sha256sum | cut -d' ' -f1)" ]
    scontrol write batch_script "$job" "$BATS_TEST_TMPDIR/script"
    scontrol show job "$job" >"$BATS_TEST_TMPDIR/shown"
    scontrol update PartitionName=book State=UP
    until pgrep -fa -- '--element' >"$BATS_TEST_TMPDIR/commands"; do
        kill -0 $judge
        sleep 0.1
    done
    [ -s "$BATS_TEST_TMPDIR/commands" ]
    run -1 grep -arE "$GRADE_SECRET|$hash|quick 1|right\.cu" "$BATS_FILE_TMPDIR/cluster" \
        "$BATS_TEST_TMPDIR"/{script,shown,commands}
    wait $judge
    cat "$said"
    [ ! -e "$spool" ]
    cp "$out/grades.csv" "$BATS_TEST_TMPDIR/slurm.csv"
    run labs/grade "${line[@]}" --fresh
    [ "$status" -eq 0 ]
    cmp "$out/grades.csv" "$BATS_TEST_TMPDIR/slurm.csv"
    grep -q '^"right.cu",100,100,70,30,graded,"","",reports/[0-9]*-right-[0-9a-f]*\.txt$' "$out/grades.csv"
    grep -q '^"copied.cu",100,100,70,30,graded,"","",reports/[0-9]*-copied-[0-9a-f]*\.txt$' "$out/grades.csv"
    grep -q '^"quick 1.cu",0,100,0,0,refused,"its host code launches no kernel","",reports/[0-9]*-quick_1-[0-9a-f]*\.txt$' "$out/grades.csv"
    [ "$(wc -l <"$out/grades.csv")" -eq 5 ]
}

@test "a cancelled job is one line; a killed judge leaves its job to the next one" {
    scontrol update PartitionName=book State=DOWN
    submit
    scancel "$job"
    status=0
    wait $judge || status=$?
    cat "$said"
    [ "$status" -eq 3 ]
    [ "$(grep -c '^grade: ' "$said")" -eq 2 ]
    grep -q '^grade: quick 1.cu and 1 more: was cancelled$' "$said"
    grep -q '^grade: 2 of 2 were not graded: the same line again' "$said"
    [ ! -e "$out/grades.csv" ]

    submit --jobs 1
    kill -9 $judge
    wait $judge || true
    [ -e "$spool" ]
    rm "$said"
    touch "$said"
    labs/grade "${line[@]}" --slurm >"$said" 2>&1 3>&- &
    judge=$!
    until grep -q '^Slurm has 2 of them from before$' "$said"; do
        kill -0 $judge
        sleep 0.1
    done
    scontrol update PartitionName=book State=UP
    wait $judge
    cat "$said"
    grep -q '^Slurm has 2 of them from before$' "$said"
    run -1 grep -q 'as job' "$said" # not submitted again
    [ "$(grep -c 'launches no kernel' "$out/grades.csv")" -eq 2 ]
    [ ! -e "$spool" ]
}

@test "a node without a sandbox is one line that names the node" {
    mkdir "$BATS_TEST_TMPDIR/bin"
    printf '#!/bin/sh\necho "bwrap: No permissions" >&2\nexit 1\n' >"$BATS_TEST_TMPDIR/bin/bwrap"
    chmod +x "$BATS_TEST_TMPDIR/bin/bwrap"
    PATH=$BATS_TEST_TMPDIR/bin:$PATH run labs/grade "${line[@]}" --slurm
    echo "$output"
    [ "$status" -eq 3 ]
    [ "$(grep -c '^grade: ' <<<"$output")" -eq 2 ]
    [[ $output == *"grade: quick 1.cu and 1 more: failed on node ${HOSTNAME%%.*}: bubblewrap may not make"* ]]
}

@test "a node that has no GPU after all is one line" {
    [ -z "$(nvidia-smi -L 2>/dev/null)" ] || skip "there is a GPU here"
    line=("${line[@]/--no-gpu/--gres=gpu:1}")
    run labs/grade "${line[@]}" --slurm
    echo "$output"
    [ "$status" -eq 3 ]
    [[ $output == *"grade: quick 1.cu and 1 more: failed on node ${HOSTNAME%%.*}: Slurm gave no GPU"* ]]
}

@test "what Slurm refuses, and bad usage, are one line each" {
    one_line 3 "sbatch: Batch job submission failed: Invalid partition" --slurm --partition nowhere "$class"
    one_line 3 "sbatch: Invalid --time" --slurm --time soon "$class"
    one_line 2 "--slurm is for a folder" --slurm code/ch04_cp_async.cu
    one_line 2 "go with --slurm" --partition book "$class"
    one_line 2 "--no-gpu, or --gres" --slurm --no-gpu --gres gpu:1 "$class"
    mkdir "$BATS_TEST_TMPDIR/bin"
    for program in bash dirname readlink rm; do ln -s "$(command -v $program)" "$BATS_TEST_TMPDIR/bin/"; done
    PATH=$BATS_TEST_TMPDIR/bin one_line 3 "there is no sbatch here" --slurm "$class"
}
