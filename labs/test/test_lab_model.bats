# Lab 23, whose program runs a language model: the lab on the book's program and on a wrong one,
# what the program refuses, and that the grader takes only a submission's kernels. make check-labs
# grades the book's own programs for it.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    export GRADE_SECRET=secret-of-test-lab-model
}

# Grades a program without a GPU; the result is in $result.
graded() { # FILE
    result=$BATS_TEST_TMPDIR/result.json
    labs/grade --lab 23 --no-gpu --json "$result" "$1" >"$BATS_TEST_TMPDIR/said"
}

of_result() { # EXPRESSION of r, the result
    python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$result" "$1"
}

@test "the book's program is right on models of three seeds, and what was asked is in the record" {
    run labs/lab23 --record "$BATS_TEST_TMPDIR/record.json"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '9 of 9 right.*ok$' <<<"$output")" -eq 3 ]
    [[ $output == *"GREEN: every gate passed"* ]]
    run labs/lab23 --shapes 1x2x33q3p64 --seeds 77 --record "$BATS_TEST_TMPDIR/record.json"
    [ "$status" -eq 0 ]
    [[ $output == *"1x2x33q3p64 3 of 3 right"* ]]
}

@test "a group's wrong head is seen in a text of more than four tokens, and in an answer to it" {
    # A student's program that only starts the built program, and so compiles ten seconds faster.
    printf '%s\n' '#include "model/model.h"' '#include <unistd.h>' 'int main(int argc, char **argv)' '{' \
        "    if (argc > 999) return lab_answer(argc, argv, NULL);" \
        "    return execv(\"$PWD/build/planted/ch23_talk.wrong-head\", argv);" '}' >"$BATS_TEST_TMPDIR/ch23_talk.wrong-head.cu"
    make -s build/planted/ch23_talk.wrong-head
    run labs/lab23 "$BATS_TEST_TMPDIR/ch23_talk.wrong-head.cu" --seeds 5 --shapes 1x2x20q3p64
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $(tr -s ' \n' ' ' <<<"$output") =~ "correct, 25 points: logits behind 20 tokens differ from the reference's by 0."[0-9]+" of their size; 0.006 is allowed Failed correctness, ch23_talk.wrong-head, 1x2x20q3p64: 1 of 3, where all is asked for" ]]
}

@test "what is no text of the small model is refused in one line" {
    local shape
    export LD_LIBRARY_PATH=build/ptxsim
    for shape in small 1x2x130q4p64 2x2x130q3p64 1x2x130q3p16 1x2x200q3p64 1x2x130q3p64r1 1x2x130q3p64s4; do
        run -2 build/ch23_talk --shapes "$shape"
        [ "$output" = "talk: --shapes: \"$shape\" is not the small model's cache: 1x2xNq3p64, with N from 1 to 199" ]
    done
    run -2 build/ch23_talk --shapes nonsense
    [ "${#lines[@]}" -eq 1 ]
    run -2 build/ch23_talk build/model.gguf --shapes 1x2x9q3p64
    [ "$output" = "talk: with --shapes there is no file: models are random" ]
}

# Two submissions: kernels that are not the program's, with host code that says that everything is right; and the
# book's program, with host code that launches nothing and ends.
@test "the grader does not run host code of a submission: neither its verdict nor what it does to kernels counts" {
    echo '__global__ void nothing() {} int main() { return __builtin_puts("ch23_talk: PASS: 9 of 9 outputs right"), 0; }' \
        >"$BATS_TEST_TMPDIR/liar.cu"
    graded "$BATS_TEST_TMPDIR/liar.cu"
    [ "$(of_result 'r["score"], r["total"], r["refused"]')" = "(0.0, 90.0, None)" ]
    [ "$(of_result '[i["name"] for i in r["items"] if i["passed"]]')" = "[]" ]
    [[ "$(of_result '[c["why"] for c in r["cases"] if c["item"] == "correct"][0]')" == "the book's program cannot run its kernels, whose names and parameters have to be the starter's: workbench: chapters/23-talk.md:"*": cudaErrorInvalid"* ]]

    sed 's/^    chosen(t);/    exit(3);/' code/ch23_talk.cu >"$BATS_TEST_TMPDIR/quits.cu"
    [ "$(diff code/ch23_talk.cu "$BATS_TEST_TMPDIR/quits.cu" | grep -c '^>')" -ge 1 ]
    graded "$BATS_TEST_TMPDIR/quits.cu"
    [ "$(of_result 'r["score"], r["total"]')" = "(90.0, 90.0)" ]
}
