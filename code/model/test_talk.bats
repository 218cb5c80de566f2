# Chapter 23's programs on the small model, in the simulator: that their logits agree with the reference's, whose cache
# is rounded as the programs' is; that they answer; and that they refuse in one line what they cannot do.
# labs/tools/mutants tests that planted bugs are found.

bats_require_minimum_version 1.5.0

setup_file() {
    cd "$BATS_TEST_DIRNAME/../.."
    export TINY=$BATS_FILE_TMPDIR/tiny.gguf LONGER=$BATS_FILE_TMPDIR/longer.gguf SHORTER=$BATS_FILE_TMPDIR/shorter.gguf \
        WORDY=$BATS_FILE_TMPDIR/wordy.gguf LD_LIBRARY_PATH=$PWD/build/ptxsim
    build/tiny-model "$TINY"
    build/tiny-model "$SHORTER" --context 132 # a few tokens into a third page
    build/tiny-model "$LONGER" --context 200
    build/tiny-model "$WORDY" --words 49152
}

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
}

# numbers N: prints N tokens' numbers, the same ones in every run.
numbers() {
    awk -v n="$1" 'BEGIN { for (x = 1; n; --n) { printf "%d ", x; x = (x * 75 + 74) % 281 } }'
}

tokens() { # TEXT
    build/ask "$TINY" --tokens <<<"$1"
}

# message ROLE TEXT: the tokens of a message; 1 begins it, 13 is a line feed, 2 ends it.
message() {
    echo "1 $(tokens "$1") 13 $(tokens "$2") 2 13"
}

# next TOKENS: the token that the reference takes for the likeliest after these.
next() {
    build/ask "$TINY" --cache e4m3 --logits "$1" | awk 'NR == 1 || $1 > most { most = $1; token = NR - 1 } END { print token }'
}

# bytes TOKEN: the byte that a token of one byte stands for.
bytes() {
    [ "$1" -ge 3 ]
    [ "$1" -lt 258 ]
    printf %b "\\x$(printf %02x $(($1 - 3 + ($1 >= 130))))"
}

# held PROGRAM COUNT MOST [OPTION]: checks that the logits that follow COUNT tokens differ from the reference's by less
# than MOST. Measured: with one token, whose attention is its own value, only products and norms differ, by 0.00001.
# With more, queries, P and attention's output are rounded to half: 0.08. Errors make the difference larger: a cache
# that is not rounded 1.7, a product's vector in one half instead of two 0.2, the wrong pairs of columns in RoPE 20.
held() {
    run code/model/check "build/$1" "$TINY" "$(numbers "$2")" "$3" "${@:4}"
    echo "$1, $2 tokens: $output"
    [ "$status" -eq 0 ]
    [[ $output =~ ^"apart by 0.0"[0-9]+", 0.0"[0-9]+" on average"$ ]]
}

# spoke READ SAID: checks that the line after an answer reports READ tokens read and SAID tokens said, with any times.
spoke() {
    [[ $stderr =~ ^"talk: $1 tokens read, "[0-9.e+-]+" s each; $2 said, "[0-9.e+-]+" s each"$ ]]
}

# Checks that the logits of a prompt run by tiles and of the same prompt run in steps of four tokens differ by at most
# MOST. Both ways sum up the same numbers, in different orders. With a rounded cache, they differ by at most 0.04 here.
alike() { # PROGRAM COUNT MOST
    "build/$1" "$LONGER" --few 64 --logits "$(numbers "$2")" >"$BATS_TEST_TMPDIR/tiles" 2>"$BATS_TEST_TMPDIR/err"
    "build/$1" "$LONGER" --logits "$(numbers "$2")" --steps >"$BATS_TEST_TMPDIR/steps" 2>>"$BATS_TEST_TMPDIR/err"
    [ ! -s "$BATS_TEST_TMPDIR/err" ]
    run awk -v most="$3" '
        NR == FNR { steps[FNR] = $1; next }
        { apart = $1 > steps[FNR] ? $1 - steps[FNR] : steps[FNR] - $1; if (apart <= most) ++good }
        END { print good + 0 }' "$BATS_TEST_TMPDIR/steps" "$BATS_TEST_TMPDIR/tiles"
    echo "$1, $2 tokens: $output of $(wc -l <"$BATS_TEST_TMPDIR/tiles") logits"
    [ "$output" = 282 ]
}

@test "logits are the reference's: of one token, of a step, of steps with a rest, of tiles in three pages" {
    local program
    for program in ch23_talk ch23_hopper; do
        held $program 1 0.00005
        held $program 3 0.12
        held $program 7 0.12 --steps
        held $program 7 0.12
    done
    held ch23_talk 132 0.12 --few 128
    held ch23_hopper 68 0.12 --few 64
    held ch23_talk 68 0.12 --steps
}

@test "a prompt by tiles has the logits of steps: 1, 7, 64, 65 and 200 tokens" {
    local count
    for count in 1 7 64 65 200; do
        alike ch23_talk $count 0.08
    done
    alike ch23_hopper 65 0.08
}

# The pieces of this text have 160 and 77 tokens. Measured: the perplexities' logarithms differ by 0.0006; by 0.07 if
# the reference's cache is exact.
@test "a text has the reference's perplexity, in pieces of the context; one of a token has none" {
    local program text
    text=$(head -c 241 LICENSE-text | tr -c 'a-z\n' 'z')
    reference=$(build/ask "$TINY" --perplexity --cache e4m3 <<<"$text")
    for program in ch23_talk ch23_hopper; do
        run -0 build/$program "$TINY" --perplexity --few 4 <<<"$text" # all products by tiles, also the logits' (8 bits)
        echo "$output; $reference"
        [ "${#lines[@]}" -eq 1 ]
        awk '{ apart = log($1); sub(/^[^,]*/, ""); rest[NR] = $0; l[NR] = apart }
             END { exit !(rest[1] == rest[2] && (l[1] - l[2]) ^ 2 < 0.01 ^ 2) }' <<<"$output"$'\n'"$reference"
    done
    run -2 build/ch23_talk "$TINY" --perplexity <<<""
    [ "$output" = "talk: the text has 1 tokens; a second one is the first to be foretold" ]
}

@test "what holds logits to the reference sees other logits, and a program that complains" {
    printf '#!/bin/sh\nbuild/ask "$1" --logits "$3"\n' >"$BATS_TEST_TMPDIR/exact"
    printf '#!/bin/sh\nbuild/ask "$1" --cache e4m3 --logits "$3"; echo no >&2\n' >"$BATS_TEST_TMPDIR/complains"
    printf '#!/bin/sh\nbuild/ask "$1" --cache e4m3 --logits "$3" | sed 2s/.*/nan/\n' >"$BATS_TEST_TMPDIR/nan"
    chmod +x "$BATS_TEST_TMPDIR"/{exact,complains,nan}
    run -1 code/model/check "$BATS_TEST_TMPDIR/exact" "$TINY" "3 4 5 6 7 8 9" 0.12
    [[ $output == "apart by "* ]]
    run -1 code/model/check "$BATS_TEST_TMPDIR/complains" "$TINY" "3 4" 0.12
    [ "$output" = no ]
    run -1 code/model/check "$BATS_TEST_TMPDIR/nan" "$TINY" "3 4" 0.12
    run -2 code/model/check "$TINY"
}

@test "the answer has the likeliest token after each, up to the context's end" {
    run --separate-stderr build/ch23_talk "$TINY" "the" --most 3
    [ "$status" -eq 0 ]
    spoke 89 3
    [ "$output" = "$(build/ask "$TINY" "the" --cache e4m3 --most 3)" ]
    [ "${#output}" -gt 0 ]
    run --separate-stderr build/ch23_hopper "$SHORTER" "the" --numbers --chain
    [ "$status" -eq 0 ]
    [ "$output" = "$(build/ask "$SHORTER" "the" --cache e4m3 --numbers)" ]
    spoke 89 "${#lines[@]}"
    [ "${#lines[@]}" -le 44 ] # 132 tokens of the context less 89 of the question; the last token said is not read
}

# drawn FILE COUNT SET OPTION...: checks that COUNT drawn tokens are those that their random numbers draw from a set of
# SET tokens.
drawn() {
    run code/model/check-drawn build/ch23_talk "$1" "5 9 200 77" "$2" "${@:4}"
    echo "${*:4}: $output"
    [ "$status" -eq 0 ]
    [ "$output" = "$2 drawn from $3 tokens, 0 wrong" ]
}

# The small models' logits have a standard deviation of about 20: a temperature of 8 makes them like a language model's.
@test "tokens are drawn as double precision draws them: of 49,152 tokens, of one, of all" {
    drawn "$WORDY" 100 3966 --temperature 8 --top-p 0.9 --seed 7
    # The next three look for no races: the first call has done that for the same kernels.
    PTXSIM_CHECK=memory drawn "$WORDY" 30 49152 --temperature 20 --seed 2147483647
    PTXSIM_CHECK=memory drawn "$WORDY" 30 20455 --temperature 100 --top-p 0.5
    PTXSIM_CHECK=memory drawn "$WORDY" 20 1 --temperature 0.01 --top-p 0.9
    drawn "$TINY" 400 23 --temperature 8 --top-p 0.8 --seed 3
    drawn "$TINY" 100 5 --temperature 4 --top-p 0.8 --seed 4
    drawn "$TINY" 100 282 --temperature 8 --seed 5
}

@test "what holds drawn tokens to their probabilities sees another seed, another top-p, and a program that complains" {
    local to=(--temperature 8 --top-p 0.8) output
    build/ch23_talk "$TINY" --logits "5 9" >"$BATS_TEST_TMPDIR/logits"
    build/ch23_talk "$TINY" --logits "5 9" --draws 50 "${to[@]}" --seed 3 >"$BATS_TEST_TMPDIR/tokens"
    cat "$BATS_TEST_TMPDIR"/{logits,tokens} >"$BATS_TEST_TMPDIR/both"
    build/ask "$TINY" --drawn 2 "${to[@]}" --seed 3 <"$BATS_TEST_TMPDIR/both"
    run -1 build/ask "$TINY" --drawn 2 "${to[@]}" --seed 4 <"$BATS_TEST_TMPDIR/both"
    run -1 build/ask "$TINY" --drawn 3 "${to[@]}" --seed 3 <"$BATS_TEST_TMPDIR/both"
    run -1 build/ask "$TINY" --drawn 2 --temperature 8 --top-p 0.79 --seed 3 <"$BATS_TEST_TMPDIR/both"
    run -1 build/ask "$TINY" --drawn 2 --temperature 7.9 --top-p 0.8 --seed 3 <"$BATS_TEST_TMPDIR/both"
    run -1 build/ask "$TINY" --drawn 2 "${to[@]}" --seed 3 <"$BATS_TEST_TMPDIR/logits"
    [ "$output" = "0 drawn from $(build/ask "$TINY" --drawn 2 "${to[@]}" --seed 3 <"$BATS_TEST_TMPDIR/both" |
        sed -E 's/.* from ([0-9]+) .*/\1/') tokens, 0 wrong" ]
    run -2 build/ask "$TINY" --drawn 2 "${to[@]}" --seed 3 <"$BATS_TEST_TMPDIR/tokens"
    [ "$output" = "ask: 50 logits on standard input; the model has 282" ]
    printf '#!/bin/sh\necho no >&2\nexec build/ch23_talk "$@"\n' >"$BATS_TEST_TMPDIR/complains"
    chmod +x "$BATS_TEST_TMPDIR/complains"
    run -1 code/model/check-drawn "$BATS_TEST_TMPDIR/complains" "$TINY" "5 9" 3 "${to[@]}"
    [ "$output" = $'no\nno' ]
    run -2 code/model/check-drawn build/ch23_talk
}

@test "a drawn answer is the reference's, by tiles as by steps; a temperature of 0 takes the likeliest" {
    local by=(--temperature 8 --top-p 0.9 --seed 5 --most 12 --numbers) said
    said=$(build/ask "$TINY" "the" --cache e4m3 "${by[@]}")
    [ "$said" = "$(build/ch23_talk "$TINY" "the" "${by[@]}")" ]
    [ "$said" = "$(build/ch23_talk "$TINY" "the" "${by[@]}" --steps)" ]
    [ "$said" = "$(build/ch23_hopper "$TINY" "the" "${by[@]}" --chain)" ]
    [ "$said" != "$(build/ch23_talk "$TINY" "the" "${by[@]/#5/6}")" ]
    said=$(build/ch23_talk "$TINY" "the" --most 5 --numbers)
    [ "$said" = "$(build/ch23_talk "$TINY" "the" --most 5 --numbers --temperature 0 --top-p 0.5 --seed 1)" ]
}

@test "Ctrl-C ends an answer" {
    build/ch23_talk "$TINY" "the" --numbers >"$BATS_TEST_TMPDIR/said" 2>"$BATS_TEST_TMPDIR/err" &
    local pid=$! status=0
    until [ -s "$BATS_TEST_TMPDIR/said" ]; do sleep 0.02; done
    kill -INT $pid
    wait $pid || status=$?
    [ "$status" -eq 130 ]
    stderr=$(cat "$BATS_TEST_TMPDIR/err")
    spoke 89 "$(wc -l <"$BATS_TEST_TMPDIR/said")"
}

@test "a talk goes on where it was: the second answer is that of all that was said" {
    run --separate-stderr build/ch23_talk "$TINY" --chat --most 2 <<<$'the\nis'
    [ "$status" -eq 0 ]
    [ "$(wc -l <<<"$stderr")" -eq 2 ]
    [ "${#lines[@]}" -eq 2 ]
    [ "${lines[0]}" = "$(build/ask "$TINY" "the" --cache e4m3 --most 2)" ]
    # The second answer has to follow from all tokens of the talk: the first question, the two tokens that were said,
    # the end of the message (which --most kept the model from saying), the second question.
    local who="You are a helpful AI assistant named SmolLM, trained by Hugging Face" before said
    before="$(message system "$who") $(message user the) 1 $(tokens assistant) 13"
    said=$(next "$before")
    before+=" $said $(next "$before $said") 2 13 $(message user is) 1 $(tokens assistant) 13"
    said=$(next "$before")
    [ "${lines[1]}" = "$(bytes "$said")$(bytes "$(next "$before $said")")" ]
}

# together PROGRAM SEQUENCES OPTION...: answers five questions, which $before begins, SEQUENCES at a time, by $model.
together() {
    printf "$before%s\n" the "is it blue" "Why is the sky of you" a "ass of the sky" |
        "build/$1" "$model" --sequences "$2" --numbers "${@:3}" 2>"$BATS_TEST_TMPDIR/err"
}

@test "questions answered together have the answers that each has alone: the likeliest and drawn, five, three, one at a time" {
    local by=(--temperature 8 --top-p 0.9 --seed 5 --most 12) alone said model=$LONGER before=
    alone=$(together ch23_talk 1 "${by[@]}")
    [ "$(wc -l <<<"$alone")" -ge 20 ]
    [ "$(head -n 12 <<<"$alone")" = "$(build/ch23_talk "$LONGER" the "${by[@]}" --numbers)" ]
    [ "$(together ch23_talk 3 "${by[@]}")" = "$alone" ]
    [ "$(together ch23_hopper 5 "${by[@]}")" = "$alone" ]
    said=$(wc -l <<<"$alone")
    [[ $(cat "$BATS_TEST_TMPDIR/err") =~ ^"talk: 5 sequences: "[0-9]+" tokens read, "[0-9.e+-]+" s; $said said in "[0-9]+" steps, "[0-9.e+-]+" s"$ ]]
    # The longest question is at its context's end while the others go on, and a pair of texts is longer than a tile.
    # The five have 600 tokens; each answer goes on into a third page, and to the context's end.
    model=$SHORTER before=$(printf 'b%.0s' {1..30})
    alone=$(together ch23_talk 1)
    [ "$(wc -l <<<"$alone")" -eq $((5 * 132 - 600)) ]
    [ "$(together ch23_talk 5)" = "$alone" ]
}

@test "a talk that is longer than the model reads ends in one line" {
    run build/ch23_talk "$SHORTER" --chat --most 30 <<<$'the\nis'
    [ "$status" -eq 2 ]
    [ "${lines[-1]}" = "talk: with the template 139 tokens have been said; the model reads 132" ]
}

# The cluster adds in another order than the chain of kernels; a rounded cache enlarges the difference, as in alike().
@test "a token in a cluster has the reference's logits, and the chain's but for their last digits" {
    held ch23_hopper 1 0.00005
    held ch23_hopper 1 0.00005 --chain
    build/ch23_hopper "$TINY" --logits 5 >"$BATS_TEST_TMPDIR/cluster"
    build/ch23_hopper "$TINY" --logits 5 --chain >"$BATS_TEST_TMPDIR/chain"
    run -1 cmp -s "$BATS_TEST_TMPDIR"/{cluster,chain}
    paste "$BATS_TEST_TMPDIR"/{cluster,chain} | awk '($1 - $2) ^ 2 < 0.00005 ^ 2 { ++good } END { exit good != 282 }'
    [ "$(build/ch23_hopper "$LONGER" the --most 6 --numbers 2>"$BATS_TEST_TMPDIR/err")" = \
        "$(build/ask "$LONGER" the --cache e4m3 --most 6 --numbers)" ]
    [ "$(build/ch23_hopper "$LONGER" the --most 6 --numbers --chain 2>"$BATS_TEST_TMPDIR/err")" = \
        "$(build/ask "$LONGER" the --cache e4m3 --most 6 --numbers)" ]
}

@test "a cluster is silent, and says the same, whatever the order in which its CTAs run" {
    local schedule said
    said=$(build/ch23_hopper "$LONGER" the --most 3 --numbers 2>"$BATS_TEST_TMPDIR/err")
    for schedule in 2 late; do
        run -0 --separate-stderr env PTXSIM_SCHEDULE=$schedule build/ch23_hopper "$LONGER" the --most 3 --numbers
        [ "$output" = "$said" ]
        spoke 89 3
    done
}

@test "help lists the options" {
    for program in ch23_talk ch23_hopper ask tiny-model; do
        run -0 --separate-stderr build/$program --help
        [[ $output = "usage: "*" FILE "*"--seed "* ]]
        [ -z "$stderr" ]
    done
}

@test "what cannot be done is said in one line" {
    run -2 --separate-stderr build/ch23_talk "$TINY"
    [ "$stderr" = "talk: usage: talk FILE QUESTION | FILE --chat | FILE --sequences N | FILE --perplexity | FILE --logits TOKENS | FILE --record FILE; --most N, --numbers, --steps, --few N, --draws N, --temperature T, --top-p P, --seed S" ]
    if ! nvidia-smi -L >/dev/null 2>&1; then
        run -3 --separate-stderr build/ch23_talk "$TINY" --record "$BATS_TEST_TMPDIR/record"
        [ "$stderr" = "talk: no GPU here, and the simulator has no time" ]
        [ ! -e "$BATS_TEST_TMPDIR/record" ]
    fi
    run -2 --separate-stderr build/ch23_hopper "$TINY"
    [[ $stderr == "talk: usage: talk FILE QUESTION "*", --seed S, --chain" ]]
    run -2 --separate-stderr build/ch23_talk "$TINY" the --chain
    run -2 --separate-stderr build/ch23_talk "$TINY" $'a\xff'
    [ "$stderr" = "talk: the question is no UTF-8 at byte 1" ]
    run -2 --separate-stderr build/ch23_talk "$TINY" "$(printf 'x%.0s' {1..200})"
    [ "$stderr" = "talk: with the template 286 tokens have been said; the model reads 160" ]
    run -2 --separate-stderr build/ch23_talk "$TINY" --logits "1 282"
    [ "$stderr" = 'talk: a token: "282" is no whole number from 0 to 281' ]
    run -2 --separate-stderr build/ch23_talk "$TINY" the --temperature warm
    [ "$stderr" = 'talk: --temperature, if it is not 0: "warm" is no number from 0.01 to 100' ]
    run -2 --separate-stderr build/ch23_talk "$TINY" the --temperature 1 --top-p 0
    [ "$stderr" = 'talk: --top-p: "0" is no number from 0.001 to 1' ]
    run -2 --separate-stderr build/ch23_talk "$TINY" the --seed 1
    [ "$stderr" = "talk: --top-p and --seed want a --temperature: without one the likeliest token is chosen" ]
    run -2 --separate-stderr build/ch23_talk "$TINY" the --temperature 1 --seed -1
    [ "$stderr" = 'talk: --seed: "-1" is no whole number from 0 to 2147483647' ]
    run -2 --separate-stderr build/ch23_talk "$TINY" --sequences 65 </dev/null
    [ "$stderr" = 'talk: --sequences: "65" is no whole number from 1 to 64' ]
    run -2 --separate-stderr build/ch23_talk /no/such/model "the"
    [ "$stderr" = "talk: /no/such/model: No such file or directory" ]
    [ -z "$output" ]
}

@test "./talk without its program, or without the model, says what to type" {
    mkdir -p "$BATS_TEST_TMPDIR/tree/code/model" "$BATS_TEST_TMPDIR/tree/build"
    cp code/model/talk "$BATS_TEST_TMPDIR/tree/code/model"
    ln -s code/model/talk "$BATS_TEST_TMPDIR/tree/talk"
    run -3 "$BATS_TEST_TMPDIR/tree/talk" "the"
    [[ $output =~ ^"talk: build/ch23_"(talk|hopper)" is not there: type make chapter23"$ ]]
    cp build/ch23_talk build/ch23_hopper "$BATS_TEST_TMPDIR/tree/build"
    run -3 "$BATS_TEST_TMPDIR/tree/talk" "the"
    [ "$output" = "talk: build/smollm2.gguf is not there: type make chapter23" ]
    cp "$TINY" "$BATS_TEST_TMPDIR/tree/build/smollm2.gguf"
    ln -s "$PWD/build/ptxsim" "$BATS_TEST_TMPDIR/tree/build/ptxsim"
    run -2 "$BATS_TEST_TMPDIR/tree/talk" $'a\xff'
    [ "$output" = "talk: the question is no UTF-8 at byte 1" ]
}
