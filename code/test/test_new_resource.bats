# Adding a resource takes a row of labs/sheet/resources.def, and a chapter whose sheet gives points
# for it; nothing else. The test adds, in a copy of the tree, the warps of a CTA, which no sheet and
# no lab uses yet.

bats_require_minimum_version 1.5.0

load test_tree

@test "a new resource is in sheets, in the driver and in the grader by one row" {
    TREE=$BATS_TEST_TMPDIR/tree ORIGINAL=$PWD
    copy_tree "$TREE" build/{obj/{code/host,labs},tangled,labs,ptxsim,cuda,gpu,flags,debug-print,deps-*,*.stamp,*.a} \
        build/{lab,judge,runner,ch02_scalar,ch03_wmma_qk} build/obj/code/ptxsim/machine/counts.*
    cd "$TREE"
    sed -i '/^RESOURCE(BOTH, *threads/a RESOURCE(BOTH, warps, "warps a CTA", "<= 4", 1 / 32.0, "threads", "threads", f->threads / 32)' \
        labs/sheet/resources.def
    sed -i -E 's/^spills( +)3$/spills\12\nwarps\1 1/' chapters/03-wmma-scores.md
    make build/lab build/judge build/tangle.stamp
    grep -qF '{"name": "warps", "relation": "<=", "limit": 4, "points": 1, ' build/labs/lab03.json

    # The driver judges the new resource, here by another limit, and counts its point.
    run build/lab --lab 3 --gate 'warps <= 3' --on simulator --shapes 1x1x33 --seeds 0
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output =~ "warps a CTA"\ +4\ +"<= 3"\ +FAIL ]]

    # The grader has the new resource from what its runner has measured.
    printf '#error none\n' >none.cu
    run build/judge --lab 3 --no-gpu --unsafe-no-sandbox none.cu
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output =~ "warps <= 4" ]]
    cat >graded.c <<'END'
#include "judge/judge.h"
int main(void)
{
    const struct footprint f = {.threads = 192};
    return printf("%g\n", resource_graded(&f, "warps")) < 0;
}
END
    cc -std=c11 -D_GNU_SOURCE -Icode -Ilabs -isystem build/cuda/include graded.c \
        build/obj/labs/{judge/footprint,sheet/limits}.o build/libhost.a build/libworkbench.a -l:libjansson.a -o graded
    [ "$(./graded)" = 6 ]

    diff -rq --exclude build --exclude .git --exclude 'none.cu' --exclude 'graded*' "$ORIGINAL" "$TREE" |
        grep -v "^Only in $ORIGINAL" | sort >"$BATS_TEST_TMPDIR/changed"
    printf '%s\n' "Files $ORIGINAL/chapters/03-wmma-scores.md and $TREE/chapters/03-wmma-scores.md differ" \
        "Files $ORIGINAL/labs/sheet/resources.def and $TREE/labs/sheet/resources.def differ" |
        diff - "$BATS_TEST_TMPDIR/changed"
}
