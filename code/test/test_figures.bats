# Figures that draw a layout, compared with the expressions in the program that has this layout.

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    chapter=chapters/10-swizzle.md
    program=code/ch10_swizzle.cu
    CHUNK=8
}

# The source of a figure.
figure() { # ID
    awk -v id="#$1[ }]" '/^```/ { inside = $0 ~ id; next } inside' "$chapter"
}

# The one expression of the program that stands on a line between two texts.
expression() { # BEFORE AFTER
    awk -v before="$1" -v after="$2" '
        { at = index($0, before); if (!at) next }
        { rest = substr($0, at + length(before)); end = index(rest, after); if (!end) next }
        { print substr(rest, 1, end - 1); n++ } END { exit n != 1 }' "$program"
}

# For each of the four matrices that an ldmatrix loads: its number, its first key, its chunk, and
# the lanes that point at its rows.
matrices() { # KEY_EXPRESSION CHUNK_EXPRESSION
    local lane first last
    for first in 0 8 16 24; do
        lane=$first
        last=$(($1))
        printf '%d/%d/%d/%d--%d' $((first / 8)) "$last" $(($2)) "$first" $((first + 7))
        for ((lane = first; lane < first + 8; lane++)); do
            (($1 == last + lane % 8)) || printf ' not in lane %d' "$lane"
        done
        echo
    done | paste -sd,
}

@test "operand B: which lanes point at which matrix of K and of V" {
    k=$(matrices "$(expression 'int k_row = warp % WARPS_N * KEYS + ' ';')" \
        "$(expression 'swizzle(row, d + ' ' * CHUNK)')")
    v=$(matrices "$(expression 'int v_row = key + ' ';')" \
        "$(expression 'int first = warp % WARPS_N * COLS + ' ' * CHUNK;')")
    [ "$k" = "0/0/0/0--7,1/0/1/8--15,2/8/0/16--23,3/8/1/24--31" ] # an operand is a row of matrices
    [ "$v" = "0/0/0/0--7,1/8/0/8--15,2/0/1/16--23,3/8/1/24--31" ] # an operand is a column of matrices
    figure fig:ch10-operand-b | grep -oE '\\foreach \\i/\\key/\\chunk/\\lanes in \{[^}]*\}' |
        sed 's/.* in {//; s/}//' | diff <(printf '%s\n' "$k" "$v") -
}

@test "the swizzles: the chunk at each place of each row" {
    rows=$(expression 'return d ^ ' ';')
    for ((row = 0; row < 8; row++)); do
        printf '%d/{' "$row"
        for ((place = 0; place < 8; place++)); do
            printf '%s%d' "${place:+,}" "$(((place * CHUNK ^ rows) / CHUNK))"
        done | sed 's/^,//'
        printf '}\n'
    done >"$BATS_TEST_TMPDIR/expected"
    figure fig:ch10-xor | grep -oE '[0-7]/\{([0-7],){7}[0-7]\}' | diff "$BATS_TEST_TMPDIR/expected" -
    rows=$(expression 'return key ^ ' ';')
    for ((row = 0; row < 8; row += 2)); do
        printf '%d/{' $((row / 2))
        for ((place = 0; place < 4; place++)); do
            printf '%s%d' "${place:+,}" "$(((place * CHUNK ^ rows) / CHUNK))"
        done | sed 's/^,//'
        printf '}\n'
    done >"$BATS_TEST_TMPDIR/expected"
    figure fig:ch10-p | grep -oE '[0-3]/\{([0-3],){3}[0-3]\}' | diff "$BATS_TEST_TMPDIR/expected" -
}

@test "parity: what each side of chapter 13 waits for, by the program's expressions" {
    chapter=chapters/13-warp-specialisation.md program=code/ch13_warp_specialised.cu
    STAGES=$(expression 'constexpr int STAGES = ' ';')
    producers=$(expression 'barrier_wait(&t.empty[stage], ' ');')
    consumers=$(expression 'barrier_wait(&t.filled[stage], ' ');')
    for ((tile = 0; tile < 5; tile++)); do
        round=$((tile / STAGES))
        echo "$tile $((tile % STAGES)) $round $((producers)) $((consumers))"
    done >"$BATS_TEST_TMPDIR/expected"
    awk -F'|' '/^\| *tile \|/ { inside = 1; getline; next } !/^\|/ { inside = 0 }
        inside { split($5, p, " "); split($6, c, " "); print $2 + 0, $3 + 0, $4 + 0, p[1], c[1] }' "$chapter" |
        diff "$BATS_TEST_TMPDIR/expected" -
}

@test "the ring of chapter 9: each copy lies in the staging buffer of its tile" {
    chapter=chapters/09-three-stages.md program=code/ch09_three_stages.cu
    place=$(expression 'staging &s = t.codes[' '];')
    for STAGES in 2 3; do
        for tile in 1 2 3 4; do echo "$STAGES: $tile/$((place))"; done
    done | sed '/2: 4/d' >"$BATS_TEST_TMPDIR/expected" # tile 4's copy would begin where the figure ends
    figure fig:ch09-ring | awk '/% two buffers/ { n = 2 } /% three buffers/ { n = 3 } /% one buffer/ { exit }
        n && /foreach .t/ { gsub(/.*in [{]|[}].*/, ""); k = split($0, copies, ",")
            for (i = 1; i <= k; i++) { split(copies[i], c, "/"); print n ": " c[1] "/" c[2] } }' |
        diff "$BATS_TEST_TMPDIR/expected" -
}

# Cells of the figure of chapter 15's ring: step, 0 for K or 1 for V, place, tile.
ring_cells() { # KIND
    figure fig:ch15-ring | sed -nE "s/.*in \{([^}]*)\} % $1\$/\1/p" | tr -d ' ' | tr ',' '\n'
}

@test "the ring of chapter 15: what a step multiplies with, converts, and leaves alone" {
    chapter=chapters/15-registers.md program=code/ch15_registers.cu
    RING=$(expression 'constexpr int RING = ' ';')
    k_read=$(expression 'score<F>(s, q, &t.tiles[' '].k[first]);')
    v_read=$(sed -nE 's/^        v_before = &t\.tiles\[(.*)\]\.v\[first\];/\1/p' "$program") # this V is multiplied one step later
    k_write=$(sed -nE 's/.*convert<F>\(t\.tiles\[\((tile.*)\) % RING\]\.k, k_codes\);/\1/p' "$program")
    v_write=$(sed -nE 's/.*convert<F>\(t\.tiles\[\((tile.*)\) % RING\]\.v, v_codes\);/\1/p' "$program")
    for ((step = 3; step < 6; step++)); do
        tile=$((step - 1))
        echo "$step/1/$((v_read))/$tile multiplied"
        tile=$step
        echo "$step/0/$((k_read))/$tile multiplied"
        echo "$step/0/$(((k_write) % RING))/$((k_write)) converted"
        echo "$step/1/$(((v_write) % RING))/$((v_write)) converted"
        echo "$step/0/$(((step + 1) % RING))/$((step + 1)) complete"
        echo "$step/1/$((step % RING))/$step complete"
    done | sort >"$BATS_TEST_TMPDIR/expected"
    for kind in complete multiplied converted; do
        ring_cells $kind | sed "s/\$/ $kind/"
    done | sort | diff "$BATS_TEST_TMPDIR/expected" -
    # no two cells lie on each other
    [ "$(cut -d/ -f1-3 "$BATS_TEST_TMPDIR/expected" | sort -u | wc -l)" -eq 18 ]
}

@test "the forms of chapter 15: which rows and keys each warp computes" {
    chapter=chapters/15-registers.md program=code/ch15_registers.cu
    MMA_M=$(expression 'constexpr int MMA_M = ' ',')
    bare() { sed 's/F\.//g'; } # members of F are shell variables here
    parts=$(expression 'int part = ' ';' | sort -u | bare) # the same expression in the loop and in merge()
    keys=$(expression 'int first = part' ';' | bare)
    rows=$(sed -n '/int first_row = blockIdx.x/,/;/p' "$program" | sed '1d; s/;//' | bare)
    for form in WIDE SPLIT; do
        IFS=', ' read -r fragments warps_m warps_n step < <(expression "constexpr form $form = {" '}')
        for ((warp = 0; warp < warps_m * warps_n; warp++)); do
            part=$((parts))
            echo "$warp/$((rows))/$(("$part $keys"))"
        done | paste -sd,
        echo "$step,$((fragments * MMA_M))"
    done >"$BATS_TEST_TMPDIR/expected"
    figure fig:ch15-forms | sed -nE 's/.*foreach .warp.* in \{([^}]*)\}/\1/p; s/.*rectangle \+\+\(([0-9]+),-([0-9]+)\)/\1,\2/p' |
        diff "$BATS_TEST_TMPDIR/expected" -
}

@test "the codes of an octave: rounded by the workbench, and by the line with the program's bias" {
    chapter=chapters/18-hopper.md program=code/ch18_hopper.cu
    bias=$(expression 'constexpr float BIAS = ' 'f;')
    cat >"$BATS_TEST_TMPDIR/octave.c" <<END
#include "workbench/workbench.h"
#include <math.h>
#include <stdio.h>
    static int rounded(double y) { return e4m3_from_float((float)exp2(y)); }
    static int line(double y) { return (int)lrint(fmax(8 * y + $bias, 0)); }
    // Prints the codes of 2^y for y in [from, to), each with its range of y; bisection finds where the code changes.
    static void print(int (*code)(double), double from, double to)
    {
        for (double at = from; at < to;) {
            double low = at, high = at + 0.25;
            while (high - low > 1e-9)
                *(code((low + high) / 2) == code(at) ? &low : &high) = (low + high) / 2;
            printf("%d/%.4f/%.4f\n", code(at), at, fmin(high, to));
            at = high;
        }
    }
    int main(void)
    {
        print(rounded, 2, 3);
        print(line, 2, 3);
        printf("%d %d %d %d\n", rounded(8), line(2.3), line(-6.888), line(-6.887));
        return 0;
    }
END
    cc -std=c11 -D_GNU_SOURCE -Wall -Werror -Icode "$BATS_TEST_TMPDIR/octave.c" code/workbench/formats.c -lm \
        -o "$BATS_TEST_TMPDIR/octave"
    "$BATS_TEST_TMPDIR/octave" >"$BATS_TEST_TMPDIR/octave.txt"
    [ "$(tail -1 "$BATS_TEST_TMPDIR/octave.txt")" = "120 74 0 1" ]
    figure fig:ch18-line >"$BATS_TEST_TMPDIR/figure"
    grep -oE '[0-9]+/[0-9.]+/[0-9.]+' "$BATS_TEST_TMPDIR/figure" |
        awk -F/ '{ printf "%d/%.4f/%.4f\n", $1, $2, $3 }' |
        diff <(sed '$d' "$BATS_TEST_TMPDIR/octave.txt") -
    # The labels of both rulers: a code, and where on the axis of exponents it stands.
    awk -v bias="${bias##*- }" '/foreach .code\/.y in/ {
            gsub(/.*in [{]|[}].*/, "")
            n = split($0, pairs, ",")
            for (i = 1; i <= n; i++) {
                split(pairs[i], p, "/")
                right = p[1] < 8 && !ruler ? log(p[1]) / log(2) - 9 : int(p[1] / 8) - 7 + log(1 + p[1] % 8 / 8) / log(2)
                if (ruler)
                    right = (p[1] + bias) / 8 - 7
                if ((right - p[2]) ^ 2 > 2.6e-7) { print "code " p[1] ": " p[2] ", not " right; bad = 1 }
            }
            ruler++
        } END { exit bad || ruler != 2 }' "$BATS_TEST_TMPDIR/figure"
}

@test "four tiles of wgmma: which P and which `part` each product uses, by the program's loop; the descriptors" {
    chapter=chapters/18-hopper.md program=code/ch18_hopper.cu
    # The loop's calls: finish(now, add) and step<SECOND>(now, then), by turns.
    sed -n '/p and p2 take turns/,/^    }/p' "$program" |
        sed -nE 's/.*operator\(\)<(true|false)>\((p2?), p2?\);/step \2 \1/p; s/.*finish\((p2?), (true|false)\);/finish \1 \2/p' \
            >"$BATS_TEST_TMPDIR/calls"
    [ "$(cut -d' ' -f1 "$BATS_TEST_TMPDIR/calls" | xargs)" = "finish step finish step" ]
    for call in 2 4 2 3; do # for tiles 0 to 3, the line of the call in that file; the last tile's is a finish()
        sed -n "${call}p" "$BATS_TEST_TMPDIR/calls"
    done | sed 's/^[a-z]* //; s/ false$/\/{=}/; s/ true$/\/{+=}/' | nl -v0 -w1 -s/ >"$BATS_TEST_TMPDIR/expected"
    figure fig:ch18-four >"$BATS_TEST_TMPDIR/figure"
    grep -oE '[0-9]+/[0-9]+/[0-9]+/p2?/\{\+?=\}/[0-9]+' "$BATS_TEST_TMPDIR/figure" >"$BATS_TEST_TMPDIR/tiles"
    cut -d/ -f1,4,5 "$BATS_TEST_TMPDIR/tiles" | diff "$BATS_TEST_TMPDIR/expected" -
    # No bar of a register begins before the register's previous bar has ended.
    awk -F/ '{ bad = bad || $2 + 10 < until[$4] || $3 < part; until[$4] = $3 + 11; part = $6 }
        END { exit bad || NR != 4 }' "$BATS_TEST_TMPDIR/tiles"
    BLOCK_N=$(expression 'constexpr int BLOCK_N = ' ';')
    MMA_K=$(expression 'constexpr int MMA_K = ' ';')
    HEAD_DIM=$(sed -nE 's/^enum \{ HEAD_DIM = ([0-9]+)[, ].*/\1/p' code/workbench/workbench.h)
    OUT_COLS=$(($(expression 'constexpr int OUT_COLS = ' ';')))
    advance=$(expression '(uint64_t)(n * ' ');') # an expression in BYTES: by how much a step of BYTES bytes moves a descriptor
    units() { echo $((${advance/BYTES/$1})); } # descriptors count units of 16 bytes
    descriptors() { # NAME BYTES-OF-A-STAGE PRODUCTS
        local list=0 n
        for ((n = 1; n < $3; n++)); do list+=", $((n * $(units "$MMA_K")))"; done
        printf '%s + %d n + \\{%s\\}\n' "$1" "$(units "$2")" "$list"
    }
    grep -qF "$(descriptors 'k\_tiles' $((BLOCK_N * HEAD_DIM)) $((HEAD_DIM / MMA_K)))" "$BATS_TEST_TMPDIR/figure"
    grep -qF "$(descriptors 'vt\_tiles' $((OUT_COLS * BLOCK_N)) $((BLOCK_N / MMA_K)))" "$BATS_TEST_TMPDIR/figure"
}

@test "the pages of chapter 21: where each granule of two sequences lies" {
    chapter=chapters/21-cache.md program=code/ch21_decode.cu
    GRANULE=$(expression 'constexpr int GRANULE = ' ';')
    figure fig:ch21-pages >"$BATS_TEST_TMPDIR/figure"
    # The logarithm to base 2 of a page's size in tokens; 5 here.
    [ "$(expression 'int page = token >> ' ';')" = '(31 - __clz(args.page))' ]
    in_page=$(expression 'int in_page = ' ';')
    in_page=${in_page//args.page/32}
    for sequence in 0 1; do
        tokens=$(sed -nE "s/.*sequence $sequence, ([0-9]+) tokens.*/\1/p" "$BATS_TEST_TMPDIR/figure")
        IFS=, read -r -a table < <(sed -nE "s/.*in \{([^}]*)\} % table of sequence $sequence\$/\1/p" \
            "$BATS_TEST_TMPDIR/figure")
        for ((granule = 0; granule * GRANULE < tokens; granule++)); do
            entry=${table[granule * GRANULE >> 5]}
            [ "${entry%/*}" = $((granule * GRANULE >> 5)) ] # the figure lists a table's entries in order
            echo "${entry#*/}/$((in_page))/$sequence/$granule"
        done | paste -sd,
    done >"$BATS_TEST_TMPDIR/expected"
    sed -nE 's/.*foreach .page.*granule in \{([^}]*)\}/\1/p' "$BATS_TEST_TMPDIR/figure" |
        diff "$BATS_TEST_TMPDIR/expected" -
}

@test "a granule of chapter 21: which lane copies which row of K, and what lane 9 reads of V" {
    chapter=chapters/21-cache.md program=code/ch21_decode.cu
    figure fig:ch21-granule >"$BATS_TEST_TMPDIR/figure"
    first=$(expression 'const uint8_t *mine = k + ' ' * HEAD_DIM;')
    further=$(expression 'copy_codes(to + 512, mine + ' ' * HEAD_DIM')
    for second in 0 $((further)); do
        for ((row = 0; row < 8; row++)); do echo "$((first + second))/$((4 * row))"; done | paste -sd,
    done >"$BATS_TEST_TMPDIR/expected"
    sed -nE 's/.*foreach .key\/.lane in \{([^}]*)\}.*/\1/p' "$BATS_TEST_TMPDIR/figure" |
        diff "$BATS_TEST_TMPDIR/expected" -
    # V's places by the program's own code_place(): a lane reads 16 bytes at each of two places.
    at=$(expression 'copy_codes(to + 1024, v + ' ');')
    then=$(expression 'copy_codes(to + 1536, v + ' ');')
    {
        printf '#include <stdio.h>\nenum cache_tensor { CACHE_K, CACHE_V };\nenum { HEAD_DIM = 64 };\n'
        sed -nE 's/^constexpr int (MMA_N|GRANULE|GRANULE_CODES) = ([^;]*);.*/enum { \1 = \2 };/p' "$program"
        sed -n '/^static int code_place(/,/^}/p' "$program"
        cat <<END
    int main(void)
    {
        int lane = 9, from[] = {$at, $then};
        for (int word = 0; word < 8; ++word)
            for (int d = 0; d < HEAD_DIM; ++d) {
                int byte = from[word / 4] + word % 4 * 4, keys = 0;
                for (int key = 0; key < GRANULE; ++key)
                    if ((code_place(CACHE_V, key, d) - GRANULE * HEAD_DIM) / 4 == byte / 4)
                        keys |= 1 << key;
                if (keys)
                    printf("%d/%d/%d %x\n", word, byte, d, keys);
            }
        return 0;
    }
END
    } >"$BATS_TEST_TMPDIR/lane.c"
    cc -std=c11 -Wall -Werror -o "$BATS_TEST_TMPDIR/lane" "$BATS_TEST_TMPDIR/lane.c"
    "$BATS_TEST_TMPDIR/lane" >"$BATS_TEST_TMPDIR/words"
    # Each of the 8 words has keys 4 to 7.
    [ "$(cut -d' ' -f2 "$BATS_TEST_TMPDIR/words" | sort | uniq -c | xargs)" = "8 f0" ]
    cut -d' ' -f1 "$BATS_TEST_TMPDIR/words" | paste -sd, >"$BATS_TEST_TMPDIR/expected"
    sed -nE 's/.*foreach .word.*d in \{([0-9]+\/[0-9]+\/[^}]*)\}.*/\1/p' "$BATS_TEST_TMPDIR/figure" |
        diff "$BATS_TEST_TMPDIR/expected" -
    cut -d' ' -f1 "$BATS_TEST_TMPDIR/words" | cut -d/ -f1,3 | paste -sd, >"$BATS_TEST_TMPDIR/expected"
    sed -nE 's/.*foreach .word\/.d in \{([^}]*)\}.*/\1/p' "$BATS_TEST_TMPDIR/figure" |
        diff "$BATS_TEST_TMPDIR/expected" -
}

@test "the split of chapter 21: which CTA and which of its warps reads a granule" {
    chapter=chapters/21-cache.md program=code/ch21_decode.cu
    first=$(expression 'w.first = ' ';')
    stride=$(expression 'w.stride = ' ';')
    of_warp=$(expression 'size_t at = find(w, args, ' ', page_id);')
    first=${first/F.warps/4} first=${first/blockIdx.x/cta}
    stride=${stride/F.warps/4} stride=${stride/gridDim.x/2}
    of_warp=${of_warp/w.first/$first} of_warp=${of_warp/w.stride/$stride}
    # shellcheck disable=SC2034 # of_warp's value names it
    for cta in 0 1; do
        for warp in 0 1 2 3; do
            for ((i = 0; of_warp < 22; i++)); do echo "$((of_warp))/$warp"; done
        done | sort -n | paste -sd,
    done >"$BATS_TEST_TMPDIR/expected"
    figure fig:ch21-split | sed -nE 's/.*foreach .granule\/.warp in \{([^}]*)\}.*/\1/p' |
        diff "$BATS_TEST_TMPDIR/expected" -
}
