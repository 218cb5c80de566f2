# Figures that draw a layout, against the expressions in the program that has it.

setup() {
    cd "$BATS_TEST_DIRNAME/.."
    chapter=chapters/10-swizzle.md
    program=code/ch10_swizzle.cu
    CHUNK=8
}

# The source of a figure.
figure() { # ID
    awk -v id="#$1}" '/^```/ { inside = index($0, id) > 0; next } inside' "$chapter"
}

# The one expression of the program that stands between two texts of a line.
expression() { # BEFORE AFTER
    awk -v before="$1" -v after="$2" '
        { at = index($0, before); if (!at) next }
        { rest = substr($0, at + length(before)); end = index(rest, after); if (!end) next }
        { print substr(rest, 1, end - 1); n++ } END { exit n != 1 }' "$program"
}

# Of four matrices: their first key, their chunk, the lanes that point at their rows, one below the other.
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
    [ "$k" = "0/0/0/0--7,1/0/1/8--15,2/8/0/16--23,3/8/1/24--31" ] # a row of matrices is an operand
    [ "$v" = "0/0/0/0--7,1/8/0/8--15,2/0/1/16--23,3/8/1/24--31" ] # a column of them is
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
