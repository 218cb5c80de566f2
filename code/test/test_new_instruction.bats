# Adding an asynchronous instruction takes its row in decode/opcodes.def, its decoder, its
# operation, and how its addresses are tested. From the row's family the race checks, the film and
# the reports know what they need. The instruction here is made up: the asynchronous proxy fills
# shared memory and signals the number of bytes to an mbarrier.

bats_require_minimum_version 1.5.0

load test_tree

# Compiles the files that the new instruction changed, and links them with the old objects: the
# headers only grew at their ends.
build_simulator() {
    local file objects=()
    for file in "$@"; do
        cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -fPIC -Icode -isystem "$ORIGINAL/build/cuda/include" -c "$file" -o "${file%.c}.o"
    done
    while read -r file; do
        file=${file%.c}.o
        [ -e "$file" ] || file=$ORIGINAL/build/obj/$file
        objects+=("$file")
    done < <(find code/ptxsim code/image -name '*.c' | grep -vE '/(test|tool|capi|cudart12|python)/|/test_' | sort)
    cc -shared -Wl,-soname,libcudart.so.13 -Wl,--version-script=code/ptxsim/cudart/libcudart.map -Wl,-z,defs \
        "${objects[@]}" -lm -lpthread -ldl -o "$BATS_TEST_TMPDIR/libcudart.so.13"
    ln -s libcudart.so.13 "$BATS_TEST_TMPDIR/libcuda.so.1"
    rm "${@/%.c/.o}"
}

@test "an asynchronous instruction in five files: it runs, is filmed, and its race and deadlock are reported" {
    ORIGINAL=$PWD TREE=$BATS_TEST_TMPDIR/tree
    copy_tree "$TREE"
    cd "$TREE/code/ptxsim"
    sed -i '/^OPCODE("cp.async.bulk.prefetch"/a OPCODE("fill.async.bulk", fill_async, COPY_ASYNC, NEXT, READS, BULK)' \
        decode/opcodes.def
    sed -i 's,^    uint32_t size; // a register; not for a tensor$,&\n    bool fills; // with the word of the register `value`\n    uint32_t value;,' \
        ops/ops.h
    cat >>decode/async.c <<'END'

// fill.async.bulk.shared::cta.mbarrier::complete_tx::bytes  [to], word, bytes, [mbarrier]
void decode_fill_async(struct decoder *d)
{
    struct bulk_operands *o = arena_alloc(&d->program->arena, sizeof *o);
    o->fills = true;
    o->shared = bulk_address(d, 0);
    o->value = source(d, operand(d, 1), 4);
    o->size = source(d, operand(d, 2), 4);
    o->barrier = bulk_address(d, 3);
    emit(d, bulk_op, 0)->operands = o;
    note_size(d, 16);
}
END
    cat >fill <<'END'
static bool load_fill(char *r, const struct bulk_operands *o, int lane, uint32_t to, struct bulk *bulk, uint32_t *bytes)
{
    *bytes = ((u32 *)(r + o->size))[lane] / PIECE * PIECE;
    bulk->count = *bytes / PIECE;
    struct piece *piece = need_pieces(bulk, bulk->count);
    for (uint32_t i = 0; i < *bytes; i += 4) {
        piece[i / PIECE].at = to + i / PIECE * PIECE;
        memcpy(&piece[i / PIECE].data[i % PIECE], (u32 *)(r + o->value) + lane, 4);
    }
    return true;
}

END
    sed -i -e '/^static void load(struct warp/{
        e cat fill
        }' -e 's/bool good = o->tensor  /bool good = o->fills ? load_fill(r, o, lane, to, \&bulk, \&bytes)\n                : o->tensor  /' \
        ops/bulk.c
    rm fill
    sed -i '0,/^    {"bulk", EXPECT(16)/s//    {"fill_async", EXPECT(16) "?^.shared::cta.mbarrier::complete_tx::bytes [~], 7, 16, [%b];" WAIT, "sSrR", 16, BOUNDS,\n     .alone = true},\n&/' \
        test/test_addresses.c
    cd "$TREE"
    build_simulator code/ptxsim/{decode/{opcodes,async},ops/bulk}.c

    # A CTA of 32 threads: the first thread fills a tile, and each thread outputs its word. wait: whether
    # the threads wait for the fill. expected: the bytes that the mbarrier expects.
    cat >"$BATS_TEST_TMPDIR/fill.c" <<'END'
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
static const char text[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry fill(.param .u64 out, .param .u32 wait, .param .u32 expected)\n{\n"
    ".reg .pred %p, %q;\n.reg .b32 %r<8>;\n.reg .b64 %a<4>;\n.shared .align 128 .b8 tile[128];\n.shared .align 8 .b64 bar;\n"
    "mov.u32 %r1, %tid.x;\nld.param.u32 %r2, [wait];\nld.param.u32 %r3, [expected];\nld.param.u64 %a1, [out];\n"
    "setp.ne.u32 %p, %r1, 0;\n@%p bra MADE;\nmbarrier.init.shared.b64 [bar], 1;\nMADE:\nbar.sync 0;\n@%p bra FILLED;\n"
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], %r3;\n"
    "fill.async.bulk.shared::cta.mbarrier::complete_tx::bytes [tile], 7, 128, [bar];\nFILLED:\n"
    "setp.eq.u32 %p, %r2, 0;\n@%p bra COME;\n"
    "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;\n@!%q bra WAIT;\nCOME:\n"
    "shl.b32 %r4, %r1, 2;\nmov.u32 %r5, tile;\nadd.u32 %r5, %r5, %r4;\nld.shared.u32 %r6, [%r5];\n"
    "mul.wide.u32 %a2, %r1, 4;\nadd.u64 %a1, %a1, %a2;\nst.global.u32 [%a1], %r6;\nret;\n}\n";
int main(int argc, char **argv)
{
    int wait = argc > 1 && atoi(argv[1]), expected = argc > 2 ? atoi(argv[2]) : 0, sum = 0, words[32];
    CUdeviceptr out;
    CUcontext context;
    CUmodule module;
    CUfunction fill;
    void *arguments[] = {&out, &wait, &expected};
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuMemAlloc(&out, sizeof words) ||
        cuModuleLoadData(&module, text) || cuModuleGetFunction(&fill, module, "fill"))
        return 2;
    if (cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL) || cuMemcpyDtoH(words, out, sizeof words))
        return 1;
    for (int i = 0; i < 32; ++i)
        sum += words[i];
    return printf("%d\n", sum) < 0;
}
END
    cc -isystem "$ORIGINAL/build/cuda/include" "$BATS_TEST_TMPDIR/fill.c" "$BATS_TEST_TMPDIR/libcuda.so.1" -o "$BATS_TEST_TMPDIR/fill"
    export LD_LIBRARY_PATH=$BATS_TEST_TMPDIR

    # With the wait the kernel is right, and its film has the fill.
    run -0 env PTXSIM_FILM="$BATS_TEST_TMPDIR/film.json" "$BATS_TEST_TMPDIR/fill" 1 128
    echo "$output"
    [ "${lines[-1]}" = 224 ]
    python3 - "$BATS_TEST_TMPDIR/film.json" <<'END'
import json, sys
kernel = json.load(open(sys.argv[1]))["kernels"][0]
bulk = [e for e in kernel["events"] if e[0] == 10]
assert len(bulk) == 1 and bulk[0][4] == 128, bulk
END
    # Without the wait the kernel has a race, which is reported with the instruction.
    run -1 "$BATS_TEST_TMPDIR/fill" 0 128
    echo "$output"
    [[ $output == *"reads 4 bytes of shared memory at 0 (tile + 0) that a fill.async.bulk of thread (0,0,0) at "* ]]
    # The mbarrier waits for more bytes than are brought.
    run -1 "$BATS_TEST_TMPDIR/fill" 1 144
    echo "$output"
    [[ $output == *"16 bytes"* ]]

    diff -rq --exclude build --exclude .git "$ORIGINAL" "$TREE" | grep -v "^Only in $ORIGINAL" | sort >"$BATS_TEST_TMPDIR/changed"
    for file in decode/async.c decode/opcodes.def ops/bulk.c ops/ops.h test/test_addresses.c; do
        echo "Files $ORIGINAL/code/ptxsim/$file and $TREE/code/ptxsim/$file differ"
    done | diff - "$BATS_TEST_TMPDIR/changed"
}
