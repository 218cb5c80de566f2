# Planted bugs in clusters of two blocks: each is reported at its line, and its right version has no
# report. The programs are in cluster_cases.cu; test_hopper.cu and world/cluster_shared.cu
# test results.

load test_cases

setup_file() {
    compile_cases code/ptxsim/test/cluster_cases.cu 90 16
}

setup() {
    cd "$BATS_TEST_DIRNAME/../../.."
}

@test "a block's memory is written before the block has begun" { expect not_begun "which may not have begun"; }
@test "__syncthreads where the cluster has to wait" {
    expect read_early "with no barrier of the cluster in between"
}
@test "barrier.cluster.arrive.relaxed orders no memory" { expect relaxed "with no barrier of the cluster in between"; }
@test "barrier.cluster.arrive.relaxed shows mbarriers after a fence for them, and only then" {
    expect initialised "with no barrier of the cluster in between"
}
@test "another block writes, and nothing waits for it" {
    expect written_late "with no barrier of the cluster in between"
}
@test "overwritten while another block may read it" {
    expect overwritten "with no barrier of the cluster in between"
}
@test "a block ends while another one may read its memory" {
    expect left "nothing makes it wait (a barrier of the cluster)"
}
@test "a counter of two blocks that is not atomic" { expect counted "with no barrier"; }
@test "barrier.cluster.arrive twice" { expect twice "again, with no barrier.cluster.wait in between"; }
@test "barrier.cluster.wait with no arrival" { expect unasked "with no barrier.cluster.arrive before"; }
@test "a deadlock of two blocks says where each waits" {
    expect stuck "deadlock: 2 of 2 warps wait for others that never come, in a cluster of 2 CTAs"
}
@test "past the end of another block's memory" { expect outside ",0,0), past the end of the CTA's 256 bytes"; }
@test "ld.shared with an address of another block" { expect not_its_own "of its cluster, .shared::cluster"; }
@test "mapa: a rank past the cluster's last" { expect no_such_rank "rank 2 in a cluster of 2"; }
@test "an mbarrier of another block hands values over" {
    expect handed_over "with no barrier of the cluster in between"
}
@test "multicast: the other block does not wait" { expect multicast "nothing has waited for it"; }
@test "multicast: a block reads a tile in another block, and only the other block has waited for it" {
    expect read_there "of block (1,0,0) that"
}
@test "multicast: a tile that the other block still reads" {
    expect reused "of block (1,0,0) that thread"
}
@test "multicast to a block that ends" { expect unwaited "which ends and has not waited for it"; }
@test "a copy to one block with the mbarrier of another" { expect sent "with the mbarrier of another"; }

@test "st.async: the other block does not wait" { expect told "in between"; }
@test "st.async: one thread waits; others, which have met both blocks after the stores but not after the wait, read" {
    expect told_one "has written: this thread has not waited for it, nor met one that had"
    [[ "$output" == *"a st.async of thread (31,0,0) of block (1,0,0) at $CASES:"* ]]
}
@test "red.async: nobody waits for the sum" { expect added "in between"; }
@test "st.async to one block with the mbarrier of another" { expect astray "with the mbarrier of another"; }

@test "strong accesses of two blocks that overlap in part" { expect partly "of the cluster in between"; }
@test "a third reader of another block's word" { expect third_reader "with no barrier of the cluster in between"; }

@test "a block of a cluster is not filmed: one line says so" {
    PTXSIM_FILM=$BATS_TEST_TMPDIR/film.json run "$BATS_FILE_TMPDIR/cases" sent right
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'PTXSIM_FILM: block (0,0,0) is one of a cluster of 2' <<<"$output")" -eq 1 ]
    [ "$(grep -c block <<<"$(cat "$BATS_TEST_TMPDIR/film.json")")" -eq 0 ]
}
