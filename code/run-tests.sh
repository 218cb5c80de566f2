#!/bin/bash
# Runs tests that speak TAP: cmocka executables and bats files, one more at a time than there are
# cores, for some only wait (JOBS=n: n), those that took longest the last time first. Shows each file's result as it
# comes and every failure in full; the last line is "N passed, N failed" (", N skipped" where there
# are any), and the exit status is 0 only if nothing failed. TAGS=quick: of bats files, only the tests
# with this tag. CI=true: a test skipped for a reason that .ci/skips does not name has failed.
#   code/run-tests.sh TEST...
set -um # each test is a process group: an interrupt ends all that it has started
cd "$(dirname "$0")/.." || exit 2
[ $# -gt 0 ] || { echo "usage: code/run-tests.sh TEST..." >&2; exit 2; }
at_once=${JOBS:-$(($(nproc) + 1))}
[[ $at_once =~ ^[1-9][0-9]*$ ]] || { echo "run-tests.sh: JOBS=$at_once is no number of tests" >&2; exit 2; }
logs=build/tests/log
mkdir -p "$logs"
export CMOCKA_MESSAGE_OUTPUT=TAP LC_ALL=C.UTF-8
unset MAKEFLAGS MAKELEVEL MFLAGS JOBS # a make inside a test starts afresh
# They work in memory where there is plenty of it, as where /tmp is in memory: many copy trees of files.
if [ -z "${TMPDIR-}" ] && [ "$(df --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 4000000 ] 2>/dev/null &&
    awk '/^MemAvailable:/ { exit !($2 > 8000000) }' /proc/meminfo && memory=$(mktemp -d /dev/shm/tests.XXXXXX); then
    trap 'rm -rf "$memory"' EXIT
    printf '#!/bin/sh\n' >"$memory/run" && chmod +x "$memory/run" && "$memory/run" 2>/dev/null && export TMPDIR=$memory
fi
stop() { # ends every test under way
    local group
    for group in $(jobs -p); do
        kill -- "-$group"
    done
    exit 130
}
trap stop INT TERM

# A TAP log with a failure for each skip whose reason is no line's first field in .ci/skips.
refuse_skips() {
    awk -v skips=.ci/skips '
        BEGIN {
            while ((getline line <skips) > 0)
                if (line !~ /^#/) named[substr(line, 1, index(line, "\t") - 1)]
        }
        /^ok .*# [Ss][Kk][Ii][Pp]/ {
            reason = $0
            sub(/.*# [Ss][Kk][Ii][Pp] ?/, "", reason)
            if (!(reason in named)) {
                print "not " $0
                print "# skipped, and .ci/skips does not name its reason: \"" reason "\""
                next
            }
        }
        { print }' "$1" >"$1.ci" && mv "$1.ci" "$1"
}

# "passed failed skipped" of a TAP log. Tests that a plan announced and nobody ran are one failure,
# and so is an exit status that no failing test explains.
count() {
    awk -v status="$2" '
        /^ok / { if (tolower($0) ~ /# skip/) skipped++; else passed++ }
        /^not ok / { failed++ }
        /^1\.\.[0-9]+/ { planned += substr($1, 4) }
        END {
            if (planned + 0 != passed + failed + skipped || (status && !failed)) failed++
            print passed + 0, failed + 0, skipped + 0
        }' "$1"
}

name() { # TEST: of its files
    tr / - <<<"$1"
}

run_one() { # TEST
    local log began=$SECONDS status
    log=$logs/$(name "$1")
    # Started in the background, we may have SIGINT ignored; a test of an interrupt wants it back.
    case $1 in
    *.bats) env --default-signal=INT bats --tap ${TAGS:+--filter-tags "$TAGS"} "$1" ;;
    *) "$1" ;;
    esac >"$log.tap" 2>&1 </dev/null
    status=$?
    [ "${CI-}" != true ] || refuse_skips "$log.tap"
    echo "$status $((SECONDS - began))" >"$log.new"
    mv "$log.new" "$log.done" # all of it or nothing
}

# Waits until one ends, and tells what has ended.
tell() {
    local test log status seconds p f s left=()
    wait -n
    [ $? -ne 127 ] || for test in "${running[@]}"; do # none is left: somebody killed them
        [ -e "$logs/$(name "$test").done" ] || echo 137 0 >"$logs/$(name "$test").done"
    done
    for test in "${running[@]}"; do
        log=$logs/$(name "$test")
        [ -e "$log.done" ] || { left+=("$test"); continue; }
        read -r status seconds <"$log.done"
        read -r p f s < <(count "$log.tap" "$status")
        printf '  %-40s %3d passed' "$test" "$p"
        [ "$f" = 0 ] || printf ', %d FAILED' "$f"
        [ "$s" = 0 ] || printf ', %d skipped' "$s"
        printf '  (%d s)\n' "$seconds"
        if [ "$f" != 0 ]; then
            # A failing test with the lines that belong to it; all of it when no test says what failed.
            grep -q '^not ok ' "$log.tap" &&
                awk '/^ok /{show=0} /^not ok /{show=1} show {print "    " $0}' "$log.tap" ||
                { tail -40 "$log.tap" | sed 's/^/    /'; echo "    exit status $status"; }
        fi
        echo "$seconds" >"$log.seconds"
        passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    done
    running=("${left[@]}")
}

mapfile -t tests < <(for test; do
    rm -f "$logs/$(name "$test").done"
    printf '%s\t%s\n' "$(cat "$logs/$(name "$test").seconds" 2>/dev/null || echo 9999)" "$test"
done | sort -s -k1,1nr | cut -f2)

passed=0 failed=0 skipped=0 running=()
for test in "${tests[@]}"; do
    while [ ${#running[@]} -ge "$at_once" ]; do
        tell
    done
    run_one "$test" &
    running+=("$test")
done
while [ ${#running[@]} -gt 0 ]; do
    tell
done
[ "$skipped" = 0 ] && echo "$passed passed, $failed failed" ||
    echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
