# records.awk: writes plots/runs/README.md: what each record is evidence of, and what reads it.
#
#   awk -f plots/records.awk FILES plots/records.tsv READS [STAGES] CHAPTER.md...
#
# FILES lists plots/runs, one name a line ("h200/lab03.json"; a folder ends with "/"). READS has a
# line for each record from which a chart or table is made: the chart's name, a tab, the record's
# path. STAGES has a line for each stage: its number, a tab, its program (code/tools/stages number
# program). Errors are one line each on stderr, with status 1: a record that no row of records.tsv
# describes; a record that nothing reads and no row keeps; a row without a record.
BEGIN { FS = "\t" }
FNR == 1 { ++file }

# ---- Which records there are ---------------------------------------------------------------------

file == 1 {
    names[++count] = $0
    known[$0] = $0
    stem = $0
    sub(/\.[a-z0-9]+$|\/$/, "", stem)
    # Chapters quote a record without its ending (h200/lab03); of several files, a .json is meant.
    known[stem] = known[stem] == "" || $0 ~ /\.json$/ ? $0 : known[stem]
    next
}

file == 2 && (/^#/ || $1 == "record") { next }
file == 2 {
    pattern = $1
    gsub(/\./, "\\.", pattern)
    gsub(/\*/, "[^/]*", pattern)
    row_pattern[++rows] = "^" pattern "$"
    if (NF != 5)
        complain(FILENAME ":" FNR ": five columns, not " NF)
    row_place[rows] = FILENAME ":" FNR ": " $1
    what[rows] = $2
    made_by[rows] = $3
    read_by[rows] = $4
    kept[rows] = $5
    next
}

file == 3 {
    sub(/^.*plots\/runs\//, "", $2)
    if ($2 in known)
        note(drawn, $2, $1)
    next
}

FILENAME ~ /stages$/ {
    program[$1] = $2
    next
}

# ---- What the chapters quote ---------------------------------------------------------------------

FNR == 1 {
    chapter = FILENAME
    sub(/^.*\//, "", chapter)
    sub(/-.*$/, "", chapter)
    sub(/^0/, "", chapter)
}

# The rows and columns of a table (code/literate/tables.lua): its placeholders stand for each of
# these words in turn.
/^```/ {
    row_count = list = 0
    rest = $0
    while (match(rest, /(rows|columns)="[^"]*"/)) {
        words = substr(rest, RSTART, RLENGTH - 1)
        rest = substr(rest, RSTART + RLENGTH)
        sub(/^[a-z]*="/, "", words)
        read_rows(words)
    }
}
/^(rows|columns):/ || list && /^ / {
    list = 1
    words = $0
    sub(/^(rows|columns): */, "", words)
    gsub(/[|]/, " ", words)
    read_rows(words)
}
/^[^ ]/ && !/^(rows|columns):/ { list = 0 }

{
    rest = $0
    while (match(rest, /[a-z0-9-]+\/[A-Za-z0-9_.{}-]+/)) {
        token = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        sub(/\.+$/, "", token)
        if (token !~ /[{]/)
            sub(/[}]+$/, "", token) # cuts off the end of a fence's attributes
        if (token !~ /[{]/)
            quote(token)
        for (i = 1; token ~ /[{]/ && i <= row_count; ++i)
            quote(filled(token, row[i]))
    }
}

# Reads "stages 3-14", "stages 3 4 8", or words.
function read_rows(text,   words, n, i, ends, k) {
    n = split(text, words, /[ ,;]+/)
    for (i = 1; i <= n; ++i)
        if (words[1] != "stages")
            row[++row_count] = words[i]
        else if (split(words[i], ends, "-") == 2)
            for (k = ends[1]; k <= ends[2]; ++k)
                row[++row_count] = k + 0
        else if (words[i] ~ /^[0-9]+$/)
            row[++row_count] = words[i]
}

function filled(token, value) {
    gsub(/[{]nn[}]/, sprintf("%02d", value), token)
    gsub(/[{]n[}]/, value, token)
    if (value in program)
        gsub(/[{]program[}]/, program[value], token)
    gsub(/[{][a-z_]*[}]/, value, token)
    return token
}

function quote(token) {
    sub(/:.*$/, "", token) # cuts off the key in the record, if there is one
    if (token in known)
        note(quoted, known[token], chapter)
}

# Adds a word to a list, unless the list has it.
function note(lists, key, word) {
    if (index(", " lists[key] ", ", ", " word ", ") == 0)
        lists[key] = lists[key] (lists[key] == "" ? "" : ", ") word
}

# ---- The table -----------------------------------------------------------------------------------

function complain(line) {
    print line >"/dev/stderr"
    bad = 1
}

# The first string in a record that has this key.
function text_in(path, key,   line, found) {
    found = ""
    while (found == "" && (getline line <path) > 0)
        if (match(line, "\"" key "\": *\"[^\"]*\"")) {
            found = substr(line, RSTART, RLENGTH)
            sub(/^"[^"]*": *"/, "", found)
            sub(/"$/, "", found)
        }
    close(path)
    return found
}

function described(name, text,   key, before, after) {
    while (match(text, /[{][a-z_]+[}]/)) {
        key = substr(text, RSTART + 1, RLENGTH - 2)
        before = substr(text, 1, RSTART - 1)
        after = substr(text, RSTART + RLENGTH)
        text = before text_in("plots/runs/" name, key) after
    }
    return text
}

function cell(text) {
    return text == "" || text == "-" ? "–" : text
}

function charts_of(name) {
    if (index(drawn[name], "ladder, roofline, time-vs-s, resources") == 1)
        return "all stages" substr(drawn[name], length("ladder, roofline, time-vs-s, resources") + 1)
    return drawn[name]
}

function print_row(name, r,   others) {
    others = read_by[r]
    gsub(/,/, ", ", others)
    if (kept[r] != "-")
        others = "kept: " kept[r]
    printf "| %s | %s | %s | %s | %s | %s |\n", substr(name, index(name, "/") + 1), described(name, what[r]), described(name, made_by[r]),
        cell(quoted[name]), cell(charts_of(name)), cell(others)
}

END {
    print "# The records"
    print ""
    print "What each record is evidence of, and what reads it. Made by `make plots` from plots/records.tsv, the"
    print "chapters and the charts: do not edit. `h200` and other GPUs' folders hold what was measured there,"
    print "`simulator` what the simulator counted, `cpu` what needs neither; `*-reported` what others reported,"
    print "which nothing here has measured. A record that nothing reads goes, or records.tsv says why it stays."
    print ""
    print "Quoted in: chapters and appendices. Drawn in: charts and tables of plots/; \"all stages\" are ladder,"
    print "roofline, time-vs-s and resources. Also read by: the tests and tools of that name."
    for (i = 1; i <= count; ++i) {
        name = names[i]
        for (r = 1; r <= rows && name !~ row_pattern[r]; ++r)
            ;
        if (r > rows) {
            complain("plots/runs/" name ": plots/records.tsv does not say what it is evidence of")
            continue
        }
        used[r] = 1
        if (quoted[name] drawn[name] == "" && read_by[r] == "-" && kept[r] == "-")
            complain("plots/runs/" name ": nothing reads it: delete it, or say in plots/records.tsv why it stays")
        folder = name
        sub(/\/.*$/, "", folder)
        if (folder != last)
            printf "\n## %s\n\n| record | evidence of | made by | quoted in | drawn in | also read by |\n|---|---|---|---|---|---|\n", folder
        last = folder
        print_row(name, r)
    }
    for (r = 1; r <= rows; ++r)
        if (!used[r])
            complain(row_place[r] ": no record is of this kind")
    exit bad
}
