# A student's way through a lab: the working copy, points so far, what to look at next, hints, and
# judging again whenever the file is saved.
# bats file_tags=quick
load test_lab

setup() {
    new_lab
    mkdir -p "$LAB/build/labs" "$LAB/build/student" "$LAB/labs"
    cat >"$LAB/build/labs/lab03.json" <<'END'
{"lab": 3, "title": "t", "program": "ch03_wmma_qk", "before": "ch02_scalar", "chapter": "chapters/03-x.md",
 "exercises": [
   {"chunk": "ch03-step", "title": "Multiply", "stars": 2, "earns": ["correct"], "marker": "// Your code: multiply",
    "hints": ["Two loads.", "One product.", "The sum goes on."]},
   {"chunk": "ch03-wait", "title": "Wait", "stars": 1, "earns": ["races"], "marker": "// Your code: wait",
    "hints": ["Who writes?", "Who reads?"]}],
 "questions": [{"points": 10, "text": "q"}],
 "points": [
   {"name": "correct", "points": 40, "words": ""}, {"name": "hidden", "points": 15, "words": ""},
   {"name": "races", "points": 15, "words": ""},
   {"name": "registers", "relation": "<=", "limit": 64, "points": 5, "words": ""},
   {"name": "warp_instructions", "relation": "<=", "limit": 999, "shape": "small", "points": 10, "words": ""},
   {"name": "speed", "relation": ">=", "limit": 0.5, "full": 1, "shape": "mission", "points": 5, "words": ""},
   {"name": "written", "points": 10, "words": ""}],
 "mutants": []}
END
    # "Compiled" by a copy: the student's source is the program.
    printf 'student:\n\t@mkdir -p build/student; cp %s %s; chmod +x %s\n' '$(SRC)' '$(OUT)' '$(OUT)' >"$LAB/Makefile"
    my=$LAB/my.cu
    cp "$LAB/build/ch03_wmma_qk" "$my"
}

judge() {
    run lab3 --on simulator "$@"
}

gap() { # TEXT: adds this line to the program, where the shell skips it
    sed -i "2i : '\\
$1\\
'" "$my"
}

@test "a right program: points of the visible items, the missed count, and no task" {
    judge "$my"
    [ "$status" -eq 0 ]
    [[ "$output" =~ "correct "\ +"40 of 40  ok" ]]
    [[ "$output" =~ "hidden "\ +"- of 15  by the grader" ]]
    [[ "$output" =~ "races "\ +"15 of 15  ok" ]]
    [[ "$output" =~ "registers <= 64 "\ +"5 of  5  ok" ]]
    [[ "$output" =~ "warp_instructions <= 999 at small "\ +"0 of 10  FAIL: 1,000" ]]
    [[ "$output" =~ "together "\ +"60 of 100, and 30 open" ]]
    [[ "$output" == *"RIGHT: every gate passed; 60 of the 70 points that can be seen here"* && "$output" != *GREEN* ]]
    [ "${#lines[@]}" -le 40 ]
    [[ "$output" != *"Resources"* && "$output" != *"Evidence"* ]]
    judge --all "$my"
    [[ "$output" == *"Resources"*"Evidence"* ]]
    judge "$my"
    [[ $(tr -s "\n " "  " <<<"$output") =~ "warp_instructions, 10 points: warp_instructions <= 999 at small, and it is 1,000" ]]
    [[ "$output" != *"task 1"* ]]
}

@test "on a GPU the times of a right kernel are on the screen, too" {
    echo 150 >"$LAB/build/ch02_scalar.times"
    echo 100 >"$LAB/build/student/my.times"
    run lab3 --on gpu --rounds 6 "$my"
    [ "$status" -eq 0 ]
    [[ "$output" == *"Speedup"*"150.0 -> 100.0 us"*"FAST: "* ]]
    [[ "$output" != *"Resources"* && "$output" != *"Evidence"* ]]
}

@test "a wrong program: only the open items, the open task's line, and its first hint" {
    gap '// Your code: multiply'
    touch "$LAB/build/student/my.wrong"
    judge "$my"
    [ "$status" -eq 1 ]
    [[ "$output" =~ "correct "\ +"0 of 40  FAIL" ]]
    [[ "$output" =~ "registers <= 64 "\ +"0 of  5  ok, but wrong outputs" ]]
    [[ "$output" =~ "together "\ +"0 of 100, and 45 open" ]]
    [[ $(tr -s "\n " "  " <<<"$output") == *"task 1, \"Multiply\", is still open: $my:3"* ]]
    [[ "$output" == *"hint 1 of 3: Two loads."* ]]
}

@test "a fault: the report points at its line, and correctness stays open" {
    touch "$LAB/build/student/my.fault"
    judge "$my"
    [ "$status" -eq 1 ]
    [[ "$output" =~ "correct "\ +"- of 40  a fault was in the way" ]]
    [[ "$output" =~ "races "\ +"0 of 15  FAIL" ]]
    [[ "$output" =~ "registers <= 64 "\ +"- of  5  ok, with \`correct\`" ]]
    [[ "$output" =~ "together "\ +"0 of 100, and 75 open" ]]
    [[ "$output" == *"Next"$'\n'"  attention, chapters/03-x.md:7: reads past the end"* ]]
    [[ "$output" != *"task 2"* && "$output" != *"hint 1"* ]] # no gap is open: any task may have the fault
}

@test "an endless loop: the report points at its line, and gives no hint about anything else" {
    touch "$LAB/build/student/my.endless"
    judge "$my" --all
    [ "$status" -eq 1 ]
    [[ $(tr -s "\n " "  " <<<"$output") == *"chapters/03-x.md:8: the loop here has not ended after 600000000 warp instructions of the launch (PTXSIM_BUDGET) 600,000,000 are the limit here: some 20 s of one core"* ]]
    [[ "$output" =~ "my "\ +"mission     not run" ]]
    [[ "$output" =~ "correct "\ +"0 of 40  FAIL" ]]
    [[ "$output" =~ "races "\ +"- of 15  when it ends" ]]
    [[ "$output" =~ "registers <= 64 "\ +"0 of  5  ok, but no outputs" ]]
    [[ "$output" =~ "warp_instructions <= 999 at small "\ +"- of 10" ]]
    [[ $(tr -s "\n " "  " <<<"$output") == *"correct, 40 points: attention, chapters/03-x.md:8: the loop here has not ended"* ]]
    [[ "$output" != *"outputs differ"* ]]
    [[ "$output" != *"hint "* ]]
    [ "$(cat "$LAB/build/student/my.budget")" = "small 600000000" ]
    gap '// Your code: multiply' # the gap may well be the missing end of the loop
    judge "$my"
    [[ $(tr -s "\n " "  " <<<"$output") == *"task 1, \"Multiply\", is still open: $my:3"* ]]
}

@test "the budget is 50 times what the previous program takes or, without one, the lab's own program" {
    echo '"warp_instructions":60000000' >"$LAB/build/ch02_scalar.counts" # for three launches
    judge "$my"
    [ "$status" -eq 0 ]
    # A run of each shape, then three schedules of the first.
    printf '%s 1000000000\n' small mission small small small | diff - "$LAB/build/student/my.budget"
    printf '%s none\n' small mission | diff - "$LAB/build/ch02_scalar.budget"
    touch "$LAB/build/student/my.endless"
    judge "$my" --all
    [[ $(tr -s "\n " "  " <<<"$output") == *"ch02_scalar takes 20,000,000 of them on small, and 50 times as many are the limit here"* ]]
    rm "$LAB/build/student/my".{budget,endless}
    echo '"warp_instructions":90000000' >"$LAB/build/ch03_wmma_qk.counts"
    run "$LAB/build/lab" --lab 3 --on simulator --shapes small "$my"
    [ "$status" -eq 0 ]
    [ "$(sort -u "$LAB/build/student/my.budget")" = "small 1500000000" ]
}

@test "a crash is reported, and no outputs are said to differ" {
    sed -i '2i case $* in *--resources*) ;; *) kill -SEGV $$ ;; esac' "$my"
    judge "$my"
    [ "$status" -eq 1 ]
    [[ "$output" == *"it crashed: Segmentation fault"* ]]
    [[ "$output" == *"correct, 40 points: it crashed: Segmentation fault"* ]]
    [[ "$output" != *"outputs differ"* ]]
}

@test "wrong outputs are reported in the program's words; a failed launch is not called a wrong output" {
    touch "$LAB/build/student/my.wrong"
    echo 'Nothing was stored: 9 of 9 elements are off' >"$LAB/build/student/my.how"
    judge "$my"
    [ "$status" -eq 1 ]
    [[ "$output" == *"correct, 40 points: Nothing was stored: 9 of 9 elements are off"* ]]
    [[ "$output" != *"task 1"* ]] # a wrong output does not tell which task's lines are wrong
    rm "$LAB/build/student/my".*
    echo 'ptxsim: attention is not launched: 98304 bytes of dynamic shared memory, at most 26112' >"$LAB/build/student/my.refused"
    judge "$my"
    [ "$status" -eq 1 ]
    [[ $(tr -s "\n " "  " <<<"$output") == *"correct, 40 points: the launch failed: attention is not launched: 98304 bytes of dynamic shared memory, at most 26112"* ]]
    [[ "$output" != *"my, mission"* && "$output" != *"off"* && "$output" != *"differ"* ]]
    echo >"$LAB/build/student/my.refused"
    judge "$my"
    [[ $(tr -s "\n " "  " <<<"$output") == *"correct, 40 points: the launch failed: cudaErrorInvalidValue: invalid argument"* ]]
}

@test "the first 2 KB that a kernel prints are shown, without escape sequences" {
    judge "$my"
    [[ "$output" != *"Printed"* && "$output" != *"outputs right"* ]]
    printf 'tile 1\n\033[2Jtile 2\n' >"$LAB/build/student/my.prints"
    judge "$my"
    [ "$status" -eq 0 ]
    [[ "$output" == *$'Printed at small\n  tile 1\n  ?[2Jtile 2\n\n'* ]]
    printf '%3000s\n' '' | tr ' ' x >"$LAB/build/student/my.prints"
    judge "$my"
    [[ "$output" == *$'x\n  and 953 bytes more\n'* ]]
    [ "$(tr -cd x <<<"$output" | wc -c)" -lt 2100 ]
}

@test "two files of one name have a program and a record each" {
    mkdir "$LAB/two"
    cp "$my" "$LAB/two/my.cu"
    judge "$my"
    judge "$LAB/two/my.cu"
    [ "$status" -eq 0 ]
    [ "$(cat "$LAB/build/student/my.from")" = "$(realpath "$my")" ]
    [ "$(find "$LAB/build/student" -name 'my-????????' | wc -l)" -eq 1 ]
    [ "$(find "$LAB/build/lab03" -path '*/my*/record.json' | wc -l)" -eq 2 ]
    rm "$my" # now its name is free again
    judge "$LAB/two/my.cu"
    [ "$(cat "$LAB/build/student/my.from")" = "$(realpath "$LAB/two/my.cu")" ]
}

@test "tables fit a terminal of 60 columns, and one of 80" {
    command -v script >/dev/null || skip "no script(1) to make a terminal"
    local columns
    echo '"warp_instructions":12000000000,"shared_load_conflicts":3000,"classes":{"int":300}' >"$LAB/build/ch03_wmma_qk.counts"
    cp "$LAB"/build/ch03_wmma_qk.counts "$LAB/build/ch02_scalar.counts"
    cat >"$LAB/plots/runs/h200/lab03.json" <<JSON
{"record":1,"lab":3,"date":"2026-11-21T09:00:00Z","runtime":"gpu","device":{"name":"NVIDIA H200"},"source_hashes":{"ch03":"-"},
 "speedup":{"mission":{"median":1.52,"low":1.5,"high":1.54,"rounds":30,"before_p50_us":61.2,
   "after_p50_us":40.3,"promise":1.3,"verdict":"met"}}}
JSON
    for columns in 60 80; do
        for what in right wrong fault endless; do
            rm -f "$LAB/build/student/my".*
            touch "$LAB/build/student/my.$what"
            cp "$LAB/build/ch03_wmma_qk.counts" "$LAB/build/student/my.counts"
            script -qec "stty cols $columns; cd $LAB && build/lab --lab 3 --before ch02_scalar --shapes small,mission \
                --gate 'registers <= 128' --gate 'shared <= 65536' --gate 'spills == 0' --gate 'occupancy >= 50' \
                --promise mission:1.3 --on simulator --why 'so many words that they do not fit' my.cu" /dev/null </dev/null |
                sed -E 's/\r$//; s/.*\r//; s/\x1b\[[0-9]*[mK]//g' >"$BATS_TEST_TMPDIR/said"
            cat "$BATS_TEST_TMPDIR/said"
            grep -q 'Points, as far' "$BATS_TEST_TMPDIR/said"
            [ -z "$(awk -v most=$columns 'length > most' "$BATS_TEST_TMPDIR/said")" ]
        done
    done
}

@test "a race that only another schedule shows" {
    sed -i '2i [ "${PTXSIM_SCHEDULE:-0}" -ne 2 ] || touch "$0.fault"' "$my"
    judge "$my"
    [[ "$output" == *"(schedule 2)"* ]]
    [[ "$output" =~ "correct "\ +"40 of 40  ok" ]] # as the grader gives
    [[ "$output" =~ "races "\ +"7.5 of 15  FAIL: 2 of 4 schedules" ]] # schedules 2 and 3 keep the fault
}

@test "a program that passes every visible item" {
    sed -i 's/"limit": 999/"limit": 1000/' "$LAB/build/labs/lab03.json"
    judge "$my"
    [ "$status" -eq 0 ]
    [[ "$output" == *"what can be seen here is met; the questions are on the sheet: make handout3"* ]]
}

# aim COUNT: the sheet's count becomes an aim of 40 points, starting from COUNT.
aim() {
    sed -i -e "s/\"limit\": 999, \"shape\": \"small\", \"points\": 10/\"limit\": 900, \"from\": $1, \"shape\": \"small\", \"points\": 40/" \
        -e 's/"correct", "points": 40/"correct", "points": 10/' "$LAB/build/labs/lab03.json"
    grep -q '"from"' "$LAB/build/labs/lab03.json"
}

@test "an aim that is half reached gives half of its points, and other items what the rule says" {
    aim 1100 # the count is 1,000, half of the way from 1100 to 900
    judge "$my"
    [[ "$output" =~ "warp_instructions <= 900 at small "\ +"20 of 40  FAIL: 1,000" ]]
    [[ "$output" =~ "correct "\ +"5 of 10  ok" ]]
    [[ "$output" =~ "together "\ +"35 of 100, and 30 open" ]]
    [[ "$output" == *"The aim is reached to 50 %, and so much is paid of all else."* ]]
}

@test "the previous program has no points, a wrong one with the aim half of the aim's, a starter none" {
    aim 1000
    judge "$my"
    [[ "$output" =~ "warp_instructions <= 900 at small "\ +"0 of 40  FAIL: 1,000" ]]
    [[ "$output" =~ "races "\ +"0 of 15  ok" ]]
    sed -i 's/"limit": 900/"limit": 1000/; s/"from": 1000/"from": 2000/' "$LAB/build/labs/lab03.json"
    touch "$LAB/build/student/my.wrong"
    judge "$my"
    [[ "$output" =~ "warp_instructions <= 1,000 at small "\ +"20 of 40  ok, but wrong outputs" ]]
    [[ "$output" =~ "registers <= 64 "\ +"0 of  5  ok, but wrong outputs" ]]
    [[ "$output" == *"Outputs are wrong: limits pay nothing yet, an aim half."* ]]
    gap '// Your code: multiply'
    gap '// Your code: wait'
    judge "$my"
    [[ "$output" =~ "warp_instructions <= 1,000 at small "\ +"0 of 40  ok, but wrong outputs" ]]
    [[ "$output" =~ "hidden "\ +"0 of 15  as it was handed out" ]]
    [[ "$output" =~ "together "\ +"0 of 100, and 10 open" ]] # open: the questions, which a person reads
}

@test "an aim whose shape is not run is open, and so are the items that depend on it" {
    aim 1100
    lab3 --shapes mission "$my" >"$BATS_TEST_TMPDIR/said"
    cat "$BATS_TEST_TMPDIR/said"
    grep -qE '^  correct +- of 10  ok, with the aim$' "$BATS_TEST_TMPDIR/said"
    grep -qE '^  together +0 of 100, and 100 open$' "$BATS_TEST_TMPDIR/said"
    run -1 grep -q 'The aim is reached' "$BATS_TEST_TMPDIR/said"
}

@test "the CTAs of a launch on mission are an item, too" {
    sed -i -e 's/"warp_instructions", "relation": "<=", "limit": 999, "shape": "small"/"ctas", "relation": "<=", "limit": 31/' \
        "$LAB/build/labs/lab03.json"
    judge "$my"
    [[ "$output" =~ "ctas <= 31 "\ +"0 of 10  FAIL: 32" ]] # a grid of 8 by 4 CTAs
    sed -i 's/"limit": 31/"limit": 32/' "$LAB/build/labs/lab03.json"
    judge "$my"
    [[ "$output" =~ "ctas <= 32 "\ +"10 of 10  ok" ]]
}

@test "the book's own program has no points, nor has a lab without a sheet" {
    judge
    [[ "$output" != *Points* ]]
    rm "$LAB/build/labs/lab03.json"
    judge "$my"
    [ "$status" -eq 0 ]
    [[ "$output" != *Points* ]]
}

@test "hints come one by one, are kept, and end" {
    run lab3 --hint
    [ "$status" -eq 0 ]
    [ "$output" = 'Task 1 of 2, "Multiply"
  hint 1 of 3: Two loads.' ]
    run lab3 --hint
    [ "$output" = 'Task 1 of 2, "Multiply"
  hint 2 of 3: One product.' ]
    run lab3 --hint 2
    [ "${lines[0]}" = 'Task 2 of 2, "Wait"' ]
    [ "${#lines[@]}" -eq 2 ]
    run lab3 --hint
    [[ "$output" == *"hint 3 of 3: The sum goes on." ]]
    run lab3 --hint # the first task has no more hints
    [ "${lines[0]}" = 'Task 2 of 2, "Wait"' ]
    run lab3 --hint 1
    [ "${#lines[@]}" -eq 5 ]
    [[ "$output" == *"hint 1 of 3: Two loads."*"these are all hints of this task" ]]
    printf 'ch03-step 3\nch03-wait 2\n' | diff - "$LAB/labs/work/lab03/.hints"
}

@test "a hint that a verdict has shown is not shown again, unless the folder cannot be written" {
    gap '// Your code: multiply'
    touch "$LAB/build/student/my.wrong"
    judge "$my"
    [[ "$output" == *"hint 1 of 3: Two loads."* ]]
    run lab3 --hint
    [[ "$output" == *"hint 2 of 3: One product." ]]
    [ "${#lines[@]}" -eq 2 ]
    judge "$my" # shows the last hint again
    [[ "$output" == *"hint 2 of 3: One product."* ]]
    run lab3 --hint
    [[ "$output" == *"hint 3 of 3: The sum goes on." ]]
    rm -r "$LAB/labs/work"
    touch "$LAB/labs/work"
    judge "$my"
    [ "$status" -eq 1 ]
    [[ "$output" == *"hint 1 of 3: Two loads."* ]]
    run lab3 --hint
    refused 3 "cannot make labs/work"
}

@test "a bare --hint is about the task that is open in the working copy" {
    mkdir -p "$LAB/labs/work/lab03"
    printf 'x\n    // Your code: wait\n' >"$LAB/labs/work/lab03/attention.cu"
    run lab3 --hint
    [ "${lines[0]}" = 'Task 2 of 2, "Wait"' ]
}

@test "missing hints, and a program that --watch cannot see" {
    run lab3 --hint 3
    refused 2 "--hint 3: the lab has 2 tasks"
    run lab3 --hint two
    refused 2 "is no whole number"
    rm "$LAB/build/labs/lab03.json"
    run lab3 --hint
    refused 2 "lab 3 has no hints"
    rmdir "$LAB/build/labs"
    run lab3 --hint
    refused 3 "type make tangle"
    run lab3 --watch
    refused 2 "--watch: which program?"
    run lab3 --watch "$LAB/none.cu"
    refused 2 "No such file"
}

wait_for() { # COUNT TEXT: waits until TEXT is in COUNT lines of the log, or its writer has ended
    while [ "$(grep -c "$2" log || :)" -lt "$1" ]; do
        kill -0 $pid
        sleep 0.1
    done
}

@test "--watch judges again when the file is saved, in whatever way, and ends by a signal" {
    cd "$BATS_TEST_TMPDIR"
    : >log # the background job may be late to open it
    "$LAB/build/lab" --lab 3 --shapes small --on simulator --watch "$my" >log 2>&1 3>&- &
    pid=$!
    wait_for 1 'watching .*my.cu; Ctrl-C ends'
    [ "$(grep -c '^RIGHT' log)" -eq 1 ]
    touch "$LAB/build/student/my.wrong"
    echo '#' >>"$my"
    wait_for 2 'watching .*my.cu; Ctrl-C ends'
    [ "$(grep -c '^RED' log)" -eq 1 ]
    rm "$LAB/build/student/my.wrong"
    cp "$my" "$my.new"
    mv "$my.new" "$my" # as editors do
    wait_for 3 'watching .*my.cu; Ctrl-C ends'
    [ "$(grep -c '^RIGHT' log)" -eq 2 ]
    echo >>"$LAB/other.cu" # another file
    echo '#' >>"$my"
    wait_for 4 'watching .*my.cu; Ctrl-C ends'
    [ "$(grep -c saved log)" -eq 3 ]
    kill -TERM $pid
    wait $pid
}

@test "make starterN writes a working copy, once; FORCE=1 again" {
    T=$BATS_TEST_TMPDIR/tree
    mkdir -p "$T/labs" "$T/chapters" "$T/code/tools" "$T/build/labs" "$T/build/starters"
    cp code/tools/stages "$T/code/tools"
    cp labs/starter labs/lab03 labs/lab01 "$T/labs"
    cp chapters/stages.tsv "$T/chapters"
    cp "$LAB/build/labs/lab03.json" "$T/build/labs"
    printf 'a\n// Your code: x\n' >"$T/build/starters/ch03_wmma_qk.cu"
    run "$T/labs/starter" 3
    [ "$status" -eq 0 ]
    [ "$output" = "labs/work/lab03/attention.cu: 1 place for your code; then ./lab3 labs/work/lab03/attention.cu" ]
    cmp "$T/build/starters/ch03_wmma_qk.cu" "$T/labs/work/lab03/attention.cu"
    echo mine >"$T/labs/work/lab03/attention.cu"
    run "$T/labs/starter" 3
    refused 1 "is there already: make starter3 FORCE=1 overwrites it"
    [ "$(cat "$T/labs/work/lab03/attention.cu")" = mine ]
    "$T/labs/starter" 3 --force
    cmp "$T/build/starters/ch03_wmma_qk.cu" "$T/labs/work/lab03/attention.cu"
    run "$T/labs/starter" 1
    refused 1 "lab 1 has nothing to start from"
    run "$T/labs/starter" 77
    refused 1 "there is no lab 77"
    run "$T/labs/starter" x
    refused 2 "usage"
}

@test "lab 1's starter has two gaps, and the checks that chapter 1 names are red" {
    cd "$BATS_TEST_DIRNAME/../.."
    make -s tangle build/lab build/libworkbench.a build/ch01_attention build/hashes.tsv
    [ "$(grep -c 'your code' build/starters/ch01_attention.c)" -eq 2 ]
    run build/lab --lab 1 build/starters/ch01_attention.c
    [ "$status" -eq 1 ]
    for check in ties floats deep workbench; do
        grep -qE "^ +FAIL +$check " <<<"$output"
    done
    for check in codes nan gates; do
        grep -qE "^ +pass +$check " <<<"$output"
    done
    [ "$(grep -cE '^ +(pass|FAIL) +tiles ' <<<"$output")" -eq 6 ]
    [ "$(grep -E '^ +FAIL +tiles ' <<<"$output" | grep -oE 'S = [0-9]+' | xargs)" = "S = 239 S = 517" ]
    [[ $output == *"RED: a gate failed"* ]]
    run build/lab --lab 1 build/tangled/ch01_attention.c
    [ "$status" -eq 0 ]
    [ "$(grep -cE '^ +FAIL' <<<"$output")" -eq 0 ]
    [[ $output == *GREEN* ]]
}
