# Runs chapter 22's program in the simulator: prompts of all kinds, with several orders of the warps; and
# prompts of one token, compared with chapter 21's program.

bats_require_minimum_version 1.5.0

root=$BATS_TEST_DIRNAME/../..

setup() {
    [ -e "$root/build/ptxsim/libcudart.so.13" ] || skip "no simulator in build/"
    [ -x "$root/build/ch22_prompt" ] || skip "no build/ch22_prompt"
    export LD_LIBRARY_PATH=$root/build/ptxsim NO_COLOR=1
    unset PTXSIM_REPORT PTXSIM_SCHEDULE
    cd "$BATS_TEST_TMPDIR"
}

# right SHAPES ARGUMENT...: checks that every output and cache is right, and that the simulator reports
# nothing.
right() {
    run --separate-stderr "$root/build/ch22_prompt" --no-timing --quiet --shapes "$@"
    echo "status $status; stdout: $output; stderr: $stderr"
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ $output =~ ^"ch22_prompt: PASS: "([0-9]+)" of "([0-9]+)" outputs right"$ ]]
    [ "${BASH_REMATCH[1]}" -eq "${BASH_REMATCH[2]}" ]
}

@test "prompts of 1 to 130 tokens, groups of 1 to 16, lengths that end in a page, heads of 64 and 128" {
    right 1x1x1q1p16s1,2x2x200q4p32s40r1,1x2x130q3p16s130,3x1x97q16p16s5,1x1x150q1p256s64,1x2x512q4p16s8 \
        --seeds 0 --inputs normal,mean,peaky
    right 2x2x77q4p16s20d128r2,1x1x200q3p32s64d128,1x1x300q1p64s1d128,4x2x150q3p16s33r7,1x1x300q16p64s130 \
        --seeds 0 --inputs normal,peaky,sink,rising,falling
}

@test "four orders of the warps, strictly checked: nothing is reported" {
    for schedule in {1..4}; do
        export PTXSIM_CHECK=strict PTXSIM_SCHEDULE=$schedule
        right 1x2x130q3p16s130,2x2x77q4p16s20r2,3x1x97q16p16s5,1x2x512q4p16s8,1x1x200q3p32s64d128 \
            --seeds 0 --inputs normal
    done
}

@test "a prompt of one token has chapter 21's answer, to the bit where keys are divided alike" {
    [ -x "$root/build/ch21_decode" ] || skip "no build/ch21_decode"
    shapes=2x2x200q16p32s1r3,1x1x33q1p16s1
    "$root/build/ch21_decode" --no-timing --quiet --seeds 0,1 --inputs normal,peaky --shapes $shapes --outputs old
    run "$root/build/ch22_prompt" --no-timing --seeds 0,1 --inputs normal,peaky --shapes $shapes --against old
    [ "$status" -eq 0 ]
    [ "$(grep -c "against the stored output: 100.000 % identical, at most 0 ulp" <<<"$output")" -eq 8 ]
}

@test "a prompt is asked by name; --launch-only says how much scratch memory its parts take" {
    run --separate-stderr "$root/build/ch22_prompt" --shapes 1x2x512q4p16
    [ "$status" -eq 2 ]
    [ "$stderr" = "ch22_prompt: --shapes: 1x2x512q4p16: ch22_prompt asks a cache with a prompt: write BxHxSqQpPsN, as 2x8x512q4p16s32" ]
    PTXSIM_LAUNCHES=3 run "$root/build/ch22_prompt" --shapes 1x2x512q4p16s8,1x1x33q1p16s33d128 --launch-only 3>lines
    [ "$status" -eq 0 ]
    [ "$(wc -l <lines)" -eq 2 ]
    # Counters for 512 units of 64 rows; then eight parts, each of 64 rows of 33 pairs of floats
    [[ ${lines[0]} == "cache $((512 * 64 * 4 + 8 * 64 * 33 * 8)) 0000"* ]]
    read -r head scratch codes scales <<<"${lines[1]}"
    [ "$head $scratch ${#codes} ${#scales}" = "cache 0 16384 128" ]
    # K's first token: 64 columns in a row; the next columns follow after all 16 tokens. Then V's first token
    [ "${codes:0:8} ${codes:$((4 * 64)):4} ${codes:$((4 * 2048)):4}" = "00000001 0400 0800" ]
}
