# The labs' own test: points in a lab's sheet equal the points that the grader gives.

bats_require_minimum_version 1.5.0

setup() {
    bwrap --unshare-all --ro-bind / / true 2>/dev/null || skip "bubblewrap may not make a sandbox here"
}

# Checks every fourth lab, and of these a starter, a program before, and planted bugs of the lab's
# program, of another and of a cache. test_grade.bats, test_grade_cache.bats and test_lab_model.bats
# grade solutions, test_make.bats tests each lab's verdict, and make check-labs checks all labs.
@test "one program of a lab, and all kept results, get what the lab's sheet says" {
    run labs/tools/check-labs --quick
    echo "$output"
    [ "$status" -eq 0 ]
    labs=$(python3 -c 'import json, sys
sheets = [json.load(open(path)) for path in sys.argv[1:]]
print(sum(sheet["lab"] % 4 == 1 and "not_graded" not in sheet for sheet in sheets))' build/labs/lab??.json)
    [ "$labs" -ge 4 ]
    [ "$(grep -c '^Lab ' <<<"$output")" -eq "$labs" ]
    [ "$(grep -c '^  0 graded' <<<"$output")" -eq 0 ]
    [[ ${lines[-1]} == "$labs labs are as their sheets say" ]]
}

# A book with one lab, whose sheet is wrong about its starter and planted bugs.
@test "a wrong sheet, empty hints, a starter that is right, a missing task and a wrong loses= are found" {
    tree=$BATS_TEST_TMPDIR/book
    mkdir -p "$tree"/{chapters,labs/tools,code/workbench} "$tree"/build/{labs,starters,mutants,ptxsim}
    cp labs/tools/check-labs "$tree/labs/tools"
    cp build/{judge,runner,clock.so,libworkbench.a} "$tree/build"
    cp build/ptxsim/{ptxsim,libcudart.so.13} "$tree/build/ptxsim"
    cp -P build/cuda "$tree/build"
    cp code/workbench/{workbench,debug}.h "$tree/code/workbench"
    cp -r code/film "$tree/code"
    cp code/ch04_cp_async.cu "$tree/code"
    cp code/ch04_cp_async.cu "$tree/build/starters"
    cp build/mutants/ch04_cp_async.no-zero-fill.cu "$tree/build/mutants"
    printf 'int main(void) { return 0; }\n' >"$tree/build/mutants/ch04_cp_async.empty.cu"
    sed -E 's/^(races *)15/\116/' chapters/04-*.md >"$tree/chapters/04-cp-async.md"
    run -1 cmp -s chapters/04-*.md "$tree/chapters/04-cp-async.md"
    python3 - "$tree/build/labs/lab04.json" <<'END'
import json, sys
lab = json.load(open("build/labs/lab04.json"))
lab["chapter"] = "chapters/04-cp-async.md"
lab["exercises"][0]["hints"][1] = " "
lab["exercises"][1]["hints"] = []
lab["before"] = lab["program"]
lab["longest"] = 512
for item in lab["points"]:
    if item["name"] == "correct": # leaves out the shape mission, as "longest" leaves out long cases
        item["shape"] = "small"
    if item["name"] == "barriers": # an aim that the previous program reaches already
        item["from"] = 9999
lab["mutants"] = [{"program": "ch04_cp_async", "name": "no-zero-fill", "loses": ["races"]},
                  {"program": "ch04_cp_async", "name": "empty", "loses": ["correct", "hidden", "races"]}]
json.dump(lab, open(sys.argv[1], "w"))
END
    mkdir -p "$tree/plots/runs/simulator"
    record=$tree/plots/runs/simulator/grades.json
    echo '{"lab04": {"starter": 0, "solution": 85, "before": 14, "planted": {"no-zero-fill": 97}}}' >"$record"
    cp "$record" "$tree/record"
    run "$tree/labs/tools/check-labs"
    echo "$output"
    [ "$status" -eq 1 ]
    cmp "$record" "$tree/record" # no record is written of a lab that is not as its sheet says
    [[ $output == *"FAIL  item 3 is races, 16 points in the chapter, and races, 15 points to the grader"* ]]
    [[ $output == *"FAIL  task 1: hint 2 is empty"* ]]
    [[ $output == *"FAIL  task 2 has no hints"* ]]
    [[ $output == *"FAIL  the starter earns 85 points and loses nothing; it should be wrong, and earn 0"* ]]
    [[ $output == *"FAIL  no-zero-fill loses hidden; the sheet says races"* ]]
    [[ $output == *"FAIL  empty: its host code launches no kernel"* ]]
    [[ $output == *"FAIL  before: ch04_cp_async has async_bytes 524288; the sheet says from 0"* ]]
    [[ $output == *"FAIL  before: ch04_cp_async has barriers 1536; the sheet says from 9999"* ]]
    [[ $output == *"FAIL  before: ch04_cp_async earns 85: nothing is paid for not trying"* ]]
    [[ $output == *"5 graded, 0 left out, 9 wrong"* ]]
    [[ ${lines[-1]} == "not as their sheets say: labs 4" ]]
    # Results of what was graded are kept: the quick test compares them with the record that
    # appendix D uses.
    run "$tree/labs/tools/check-labs" --quick 4
    echo "$output"
    [ "$status" -eq 1 ]
    says="and not what $(readlink -f "$tree")/plots/runs/simulator/grades.json says: make check-labs LABS=4 writes it anew"
    said=${output//\/labs\/tools\/..\/..}
    [[ $said == *"FAIL  starter earns 85, $says"* ]]
    [[ $said == *"FAIL  before: ch04_cp_async earns 85, $says"* ]]
    [[ $said == *"FAIL  no-zero-fill earns "*", $says"* ]]
    [[ $said != *"FAIL  solution earns"* ]]
}
