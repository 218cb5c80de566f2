# What a lab says about common mistakes. labs/tools/mistakes judges all of labs/fixtures/mistakes; here are three:
# computing in double, which gives right results, a deadlock, and a stream of one's own. test_film and test_workbench
# test races and wrong numbers.
bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
}

@test "each mistake can be made in today's program, and changes it" {
    local lab name
    for lab in 2 4 10 13 18 21; do
        [ "$(labs/fixtures/mistake $lab | wc -l)" -ge 8 ]
        for name in $(labs/fixtures/mistake $lab); do
            labs/fixtures/mistake $lab "$name" >"$BATS_TEST_TMPDIR/my.cu"
            run -1 cmp -s "code/$(code/tools/stages $lab program).cu" "$BATS_TEST_TMPDIR/my.cu"
        done
    done
    run -1 labs/fixtures/mistake 4 no-such-mistake
    [ "$output" = "mistake: labs/fixtures/mistakes/04.txt has no no-such-mistake" ]
}

@test "the lab's first lines name the mistake, on one screen" {
    make -s chapter2 chapter13
    run labs/tools/mistakes 2 in-double
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 1 ]
    run labs/tools/mistakes 13 counts-exchanged
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "a fault between streams is RED, though all outputs are right" {
    make -s chapter2
    labs/fixtures/mistake 2 own-stream >"$BATS_TEST_TMPDIR/my.cu"
    run -1 ./lab2 "$BATS_TEST_TMPDIR/my.cu" --shapes small --seeds 0
    echo "$output"
    [[ $output == *"RED: a gate failed"* ]]
    [[ $output == *"correctness, my, small: 1 of 1, with a fault, where all is asked for"* ]]
}
