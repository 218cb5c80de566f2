# Chapter 23's program on the small model, in the simulator: its logits are the reference's, whose cache is rounded as the
# program's is; it answers; and it says what it cannot do.

bats_require_minimum_version 1.5.0

setup_file() {
    cd "$BATS_TEST_DIRNAME/../.."
    export TINY=$BATS_FILE_TMPDIR/tiny.gguf LD_LIBRARY_PATH=$PWD/build/ptxsim
    build/tiny-model "$TINY"
}

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
}

# numbers N: N tokens, always the same ones.
numbers() {
    awk -v n="$1" 'BEGIN { for (x = 1; n; --n) { printf "%d ", x; x = (x * 75 + 74) % 281 } }'
}

tokens() { # TEXT
    build/ask "$TINY" --tokens <<<"$1"
}

message() { # ROLE TEXT; 13 is the line's end
    echo "1 $(tokens "$1") 13 $(tokens "$2") 2 13"
}

# The likeliest token behind others, by the reference.
next() { # TOKENS
    build/ask "$TINY" --cache e4m3 --logits "$1" | awk 'NR == 1 || $1 > most { most = $1; token = NR - 1 } END { print token }'
}

bytes() { # TOKEN, of one byte
    [ "$1" -ge 3 ]
    [ "$1" -lt 258 ]
    printf %b "\\x$(printf %02x $(($1 - 3 + ($1 >= 130))))"
}

# Logits behind tokens, which are up to 65, are MOST apart at most. Where one token asks itself, only products and norms
# are in question: 0.00001. Otherwise queries, P and attention's output are rounded to half: 0.08. A cache that is not
# rounded makes 1.7, a vector of a product in one half 0.2, the places of RoPE one too late 6.7.
compare() { # TOKENS MOST
    run --separate-stderr build/ch23_talk "$TINY" --logits "$1"
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    echo "$output" >"$BATS_TEST_TMPDIR/program"
    build/ask "$TINY" --cache e4m3 --logits "$1" >"$BATS_TEST_TMPDIR/reference"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/program")" -eq 282 ]
    paste "$BATS_TEST_TMPDIR/program" "$BATS_TEST_TMPDIR/reference" | awk -v limit="$2" '
        { apart = $1 > $2 ? $1 - $2 : $2 - $1; sum += apart }
        !(apart <= most) { most = apart }
        END { printf "apart by %.6f, %.6f on average\n", most, sum / NR; exit !(most < limit && sum / NR < limit / 3) }'
}

@test "logits are the reference's: of one token, of a step, of steps with a rest, in two pages" {
    compare "$(numbers 1)" 0.00005
    local count
    for count in 4 7 70; do
        echo "$count tokens"
        compare "$(numbers $count)" 0.12
    done
}

@test "the answer has the likeliest token after each, up to the context's end" {
    run --separate-stderr build/ch23_talk "$TINY" "the" --most 3
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [ "$output" = "$(build/ask "$TINY" "the" --cache e4m3 --most 3)" ]
    [ "${#output}" -gt 0 ]
}

@test "a talk goes on where it was: the second answer is that of all that was said" {
    run --separate-stderr build/ch23_talk "$TINY" --chat --most 2 <<<$'the\nis'
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [ "${#lines[@]}" -eq 2 ]
    [ "${lines[0]}" = "$(build/ch23_talk "$TINY" "the" --most 2)" ]
    # The same tokens at once: the first question, two tokens that were said, the end put in for the model, the second.
    local who="You are a helpful AI assistant named SmolLM, trained by Hugging Face" before said
    before="$(message system "$who") $(message user the) 1 $(tokens assistant) 13"
    said=$(next "$before")
    before+=" $said $(next "$before $said") 2 13 $(message user is) 1 $(tokens assistant) 13"
    said=$(next "$before")
    [ "${lines[1]}" = "$(bytes "$said")$(bytes "$(next "$before $said")")" ]
}

@test "a talk that is longer than the model reads ends in one line" {
    run build/ch23_talk "$TINY" --chat --most 60 <<<$'the\nis'
    [ "$status" -eq 2 ]
    [ "${lines[-1]}" = "talk: with the template 169 tokens have been said; the model reads 160" ]
}

@test "what cannot be done is said in one line" {
    run -2 --separate-stderr build/ch23_talk "$TINY"
    [ "$stderr" = "talk: usage: talk FILE QUESTION [--most N] | FILE --chat [--most N] | FILE --logits TOKENS" ]
    run -2 --separate-stderr build/ch23_talk "$TINY" $'a\xff'
    [ "$stderr" = "talk: the question is no UTF-8 at byte 1" ]
    run -2 --separate-stderr build/ch23_talk "$TINY" "$(printf 'x%.0s' {1..200})"
    [ "$stderr" = "talk: with the template 286 tokens have been said; the model reads 160" ]
    run -2 --separate-stderr build/ch23_talk "$TINY" --logits "1 282"
    [ "$stderr" = 'talk: a token: "282" is no whole number from 0 to 281' ]
    run -2 --separate-stderr build/ch23_talk /no/such/model "the"
    [ "$stderr" = "talk: /no/such/model: No such file or directory" ]
    [ -z "$output" ]
}
