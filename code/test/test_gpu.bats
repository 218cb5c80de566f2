# Adding a GPU takes one row of code/image/gpus.c: programs, labs and the simulator then know it.

bats_require_minimum_version 1.5.0

load test_tree

setup() {
    TREE=$BATS_TEST_TMPDIR/tree ORIGINAL=$PWD
    copy_tree "$TREE" build/{obj,tangled,ptxsim,cuda,gpu,flags,debug-print,deps-*,*.stamp,*.tsv,*.a,lab}
    cd "$TREE"
}

@test "a GPU takes one row: resources, records, gates and the simulated device know it, with no other change" {
    sed -i '0,/^};/s//    {.key = "b200", .name = "NVIDIA B200", .arch = 100, .sms = 148, .clock_khz = 1965000, .threads_sm = 2048,\
     .blocks_sm = 32, .shared_default = 48 << 10, .shared_optin = 227 << 10, .shared_sm = 228 << 10},\n&/' code/image/gpus.c
    # Chapter 2's program with machine code for the new GPU alone.
    sed -i 's/\tch02_scalar\tsm_89 sm_90\t/\tch02_scalar\tsm_100\t/' chapters/stages.tsv
    rm build/obj/ch02_scalar.o
    make build/ch02_scalar build/lab build/ptxsim/libcudart.so.13
    export LD_LIBRARY_PATH=build/ptxsim
    build/ch02_scalar --resources | python3 -c 'import json, sys
said = json.load(sys.stdin)
assert [key for key in said if key.startswith("sm_")] == ["sm_100"], said
assert said["sm_100"]["registers"] > 16 and 0 < said["sm_100"]["occupancy"] <= 1, said
assert list(said["machine_code"]) == ["sm_100"] and said["machine_code"]["sm_100"]["instructions"] > 100, said'
    run -0 build/ch02_scalar --shapes 1x1x8 --seeds 0 --no-timing --record record.json
    [[ ${lines[1]} == "NVIDIA B200 (ptxsim), on the PTX simulator "* ]]
    [[ $output == *"  sm_100 (B200) "* ]]
    grep -q '"sms": 148' record.json
    run -0 build/lab --lab 2 --on simulator --shapes 1x1x8 --seeds 0 --gate 'registers <= 255' --gate 'spills <= 64' --record lab.json
    echo "$output"
    grep -q '"registers (sm_100)"' lab.json
    rm record.json lab.json
    diff -rq --exclude build --exclude .git "$ORIGINAL" "$TREE" | grep -v "^Only in $ORIGINAL" | sort >"$BATS_TEST_TMPDIR/changed"
    printf '%s\n' "Files $ORIGINAL/chapters/stages.tsv and $TREE/chapters/stages.tsv differ" \
        "Files $ORIGINAL/code/image/gpus.c and $TREE/code/image/gpus.c differ" | diff - "$BATS_TEST_TMPDIR/changed"
}
