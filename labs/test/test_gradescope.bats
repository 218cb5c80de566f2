# make gradescopeN: the package, unpacked as Gradescope does and run as Gradescope runs it.

setup_file() {
    export autograder=$BATS_FILE_TMPDIR/autograder zip=build/gradescope/lab04.zip
    echo secret-of-the-tests >"$BATS_FILE_TMPDIR/secret"
    rm -f $zip
    make -s gradescope4 SECRET="$BATS_FILE_TMPDIR/secret" VISIBILITY=hidden=after_published >"$BATS_FILE_TMPDIR/said" 2>&1 3>&- || cat "$BATS_FILE_TMPDIR/said" >&2
    mkdir -p "$autograder"/{source,submission,results}
    python3 - "$zip" "$autograder/source" <<'END'
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z:
    z.extractall(sys.argv[2])
    for i in z.infolist(): # sets the mode, which extractall leaves out
        if i.external_attr >> 16 & 0o111: os.chmod(os.path.join(sys.argv[2], i.filename), 0o755)
END
    ln -s "$PWD/build" "$autograder/source/build" # what setup.sh would build
}

setup() {
    if [[ $BATS_TEST_DESCRIPTION == *graded* ]] && ! bwrap --unshare-all --ro-bind / / true 2>/dev/null; then
        skip "bubblewrap may not make a sandbox here"
    fi
    results=$autograder/results/results.json
    rm -rf "$results" "$autograder"/submission/*
}

@test "the zip has at its root what Gradescope looks for, and what that needs" {
    [ -x "$autograder/source/setup.sh" ]
    [ -x "$autograder/source/run_autograder" ]
    [ "$(<"$autograder/source/lab")" = 4 ]
    [ "$(<"$autograder/source/secret")" = secret-of-the-tests ]
    [ "$(<"$autograder/source/visibility")" = hidden=after_published ]
    for file in Makefile mk/labs.mk labs/grade labs/judge/main.c code/ch04_cp_async.cu chapters/04-cp-async.md; do
        cmp <(git show HEAD:$file) "$autograder/source/$file"
    done
    [ "$(stat -c %a build/gradescope/04/secret)" = 600 ]
    bash -n "$autograder/source/setup.sh"
    grep -qx "  the assignment's points at Gradescope: 85" "$BATS_FILE_TMPDIR/said"
}

@test "a submission is graded into a results.json" {
    echo 'int main(void) { return 0; }' >"$autograder/submission/my attention.cu"
    AUTOGRADER=$autograder run "$autograder/source/run_autograder"
    echo "$output"
    [ "$status" -eq 0 ]
    python3 labs/fixtures/gradescope.py "$results"
    grep -q 'launches no kernel' "$results"
    # The most points of the report are those that the packing printed.
    [ "$(python3 -c 'import json, sys; print(sum(t["max_score"] for t in json.load(open(sys.argv[1]))["tests"]))' "$results")" = 85.0 ]
    [ "$(grep -c '"visibility": "after_published"' "$results")" -eq 1 ]
}

@test "a search is graded, too, and is a .c file" {
    echo 14 >"$autograder/source/lab"
    echo >"$autograder/source/visibility"
    cp code/ch14_search.c "$autograder/submission/"
    AUTOGRADER=$autograder run "$autograder/source/run_autograder"
    echo "$output"
    [ "$status" -eq 0 ]
    python3 labs/fixtures/gradescope.py "$results"
    mv "$autograder/submission/ch14_search."{c,cu}
    AUTOGRADER=$autograder "$autograder/source/run_autograder"
    grep -q 'Not graded: has no .c file' "$results"
    echo 4 >"$autograder/source/lab"
    echo hidden=after_published >"$autograder/source/visibility"
}

@test "no file, or two files, are not graded, and the student is told so" {
    AUTOGRADER=$autograder run "$autograder/source/run_autograder"
    [ "$status" -eq 0 ]
    python3 labs/fixtures/gradescope.py "$results"
    grep -q 'Not graded: has no .cu file' "$results"
    touch "$autograder"/submission/{a,b}.cu
    AUTOGRADER=$autograder "$autograder/source/run_autograder"
    grep -q 'Not graded: has 2 .cu files, not one' "$results"
}

@test "names that labs/grade accepts are graded: .CU, a file in a folder, a folder named like a file" {
    for place in a.cu/A.CU "lab 4/a.cu"; do
        rm -rf "$results" "$autograder"/submission/*
        mkdir -p "$(dirname "$autograder/submission/$place")"
        echo 'int main(void) { return 0; }' >"$autograder/submission/$place"
        AUTOGRADER=$autograder "$autograder/source/run_autograder"
        python3 labs/fixtures/gradescope.py "$results"
        grep -q 'launches no kernel' "$results"
    done
}

@test "without a sandbox nothing is scored" {
    mkdir "$BATS_TEST_TMPDIR/bin"
    printf '#!/bin/sh\nexit 1\n' >"$BATS_TEST_TMPDIR/bin/bwrap"
    chmod +x "$BATS_TEST_TMPDIR/bin/bwrap"
    touch "$autograder/submission/a.cu"
    AUTOGRADER=$autograder PATH=$BATS_TEST_TMPDIR/bin:$PATH run "$autograder/source/run_autograder"
    [ "$status" -eq 3 ]
    [ ! -e "$results" ]
}

@test "a lab that cannot be packed: one line" {
    run make -s gradescope99
    [ "$status" -ne 0 ]
    [[ ${lines[0]} == *"there is no lab 99"* ]]
    echo tests >"$BATS_TEST_TMPDIR/short"
    SECRET=$BATS_TEST_TMPDIR/short run labs/gradescope/pack 4
    [ "$status" -eq 1 ]
    [ "$output" = "gradescope: the secret of $BATS_TEST_TMPDIR/short has fewer than 16 bytes: head -c 24 /dev/urandom | base64 makes one" ]
    SECRET=/no/such run labs/gradescope/pack 4
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"there is no secret /no/such"* ]]
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree/labs" "$tree/build/labs"
    cp -r labs/gradescope "$tree/labs"
    printf '{\n  "lab": 4,\n  "not_graded": "it is too easy",\n}\n' >"$tree/build/labs/lab04.json"
    run "$tree/labs/gradescope/pack" 4
    [ "$status" -eq 1 ]
    [ "$output" = "gradescope: lab 4 is not graded: it is too easy" ]
}
