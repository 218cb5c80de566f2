# What a lab says of ordinary mistakes. All of labs/fixtures/mistakes are judged by labs/tools/mistakes; here are some,
# one of each kind: a race, wrong numbers on a ragged shape alone, numbers in double, which are right, a deadlock.
bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
}

@test "each mistake can be made in today's program, and changes it" {
    local lab name
    for lab in 2 4 10 13 17 20; do
        [ "$(labs/fixtures/mistake $lab | wc -l)" -ge 8 ]
        for name in $(labs/fixtures/mistake $lab); do
            labs/fixtures/mistake $lab "$name" >"$BATS_TEST_TMPDIR/my.cu"
            run -1 cmp -s "code/$(code/tools/stages $lab program).cu" "$BATS_TEST_TMPDIR/my.cu"
        done
    done
    run -1 labs/fixtures/mistake 4 no-such-mistake
    [ "$output" = "mistake: labs/fixtures/mistakes/04.txt has no no-such-mistake" ]
}

@test "what the lab says first names what is wrong, on one screen" {
    make -s chapter2 chapter4 chapter13
    run labs/tools/mistakes 2 no-mask in-double
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 2 ]
    run labs/tools/mistakes 4 no-barrier
    echo "$output"
    [ "$status" -eq 0 ]
    run labs/tools/mistakes 13 counts-exchanged
    echo "$output"
    [ "$status" -eq 0 ]
}
