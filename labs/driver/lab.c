// lab.c: judges a chapter's program, gate by gate, and ends with a verdict of one word.
//
// The scripts labs/labNN call it with the chapter's programs, gates and promise. Their users may
// add the options that --help lists, or a program of their own. Gates, counts, times and verdict
// are also written to a record (JSON). Exit status: 0; 1 if RED; 2 for bad usage; 3 if something on
// this machine is missing or has failed.
#include "lab.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- Programs -----------------------------------------------------------------------------------

static void find_program(struct side *side, const char *name)
{
    side->name = name;
    side->path = text("%s/build/%s", root, name);
    if (access(side->path, X_OK))
        fail(EXIT_MACHINE, "build/%s is not there: type make chapter%d", name, lab.number);
}

// What a lab expects, in words, for a reader who gave it something else.
static const char *expected(void)
{
    if (lab.search)
        return text("lab %d takes a search in C, as code/%s.c is or make starter%d writes one, or "
                    "a kernel's whole program, as code/%s.cu is",
                    lab.number, lab.search, lab.number, lab.after);
    return lab.plain ? text("lab %d takes a program in C, as code/%s.c is", lab.number, lab.after)
                     : text("lab %d takes a whole program, with its main(), as code/%s.cu is%s",
                            lab.number, lab.after,
                            access(text("%s/build/labs/lab%02d.json", root, lab.number), R_OK)
                                ? ""
                                : text(" or make starter%d writes one", lab.number));
}

// Makes a folder for output, if it does not exist. Fails if it cannot be written, as in somebody
// else's checkout: no program is to blame for that.
static void check_folder(const char *path)
{
    if ((mkdir(path, 0777) && errno != EEXIST) || access(text("%s/.", path), W_OK))
        fail(EXIT_MACHINE,
             "%s cannot be written (%s): make BUILD=~/attention chapter%d, and go there", path,
             strerror(errno), lab.number);
}

static void check_source(const char *source, const char *path)
{
    struct stat status;
    const char *dot = strrchr(strrchr(path, '/'), '.');
    if (stat(path, &status))
        fail(EXIT_USAGE, "%s: %s", source, strerror(errno));
    if (S_ISDIR(status.st_mode))
        fail(EXIT_USAGE, "%s is a folder: %s", source, expected());
    if (!dot || strcmp(dot, lab.plain ? ".c" : ".cu") != 0)
        fail(EXIT_USAGE, "%s is no %s file: %s", source, lab.plain ? ".c" : ".cu", expected());
    if (!S_ISREG(status.st_mode) || status.st_size == 0)
        fail(EXIT_USAGE, "%s is empty: %s", source, expected());
}

// The chapter that a student's program names as its own; 0: it names none.
static int chapter_of(const char *source)
{
    FILE *file = fopen(source, "r");
    char line[512];
    int chapter = 0;
    while (file && !chapter && fgets(line, sizeof line, file))
        sscanf(line, " .chapter = %d", &chapter);
    if (file)
        fclose(file);
    return chapter;
}

// Exits if make itself failed, with make's message, or if the disk is full: no program is to blame.
static void blame_machine(const char *said)
{
    for (const char *line = said; line; line = strchr(line, '\n')) {
        int why = 0;
        line += *line == '\n';
        sscanf(line, "Makefile:%*d: *** %n", &why);
        if (!why)
            sscanf(line, "mk/%*[a-z].mk:%*d: *** %n", &why);
        if (why)
            fail(EXIT_MACHINE, "%.*s", (int)strcspn(line + why, "\n"), line + why);
    }
    if (strstr(said, "No space left on device"))
        fail(EXIT_MACHINE, "the disk is full");
}

// FNV-1a, with 32 bits.
static unsigned hash_of(const char *words)
{
    unsigned hash = 2166136261u;
    for (; *words; ++words)
        hash = (hash ^ (unsigned char)*words) * 16777619u;
    return hash;
}

// The name under which a student's program is built: the file's name. If another file that still
// exists has the same name, a number made from the path is appended: so two labs may judge two
// files attention.cu at the same time.
static char *name_apart(const char *name, const char *path)
{
    char *place = text("%s/build/student/%s.from", root, name), why[512];
    char *owner = read_file(place, NULL);
    if (owner && strcmp(owner, path) != 0 && access(owner, R_OK) == 0)
        return text("%s-%08x", name, hash_of(path));
    if ((!owner || strcmp(owner, path) != 0) &&
        !file_write(place, path, strlen(path), why, sizeof why))
        fail(EXIT_MACHINE, "%s", why);
    return text("%s", name);
}

// Compiles a student's program with make, as the chapters' programs are.
static void compile_student(struct side *side, const char *source)
{
    char path[PATH_MAX];
    if (!realpath(source, path))
        fail(EXIT_USAGE, "%s: %s", source, strerror(errno));
    check_source(source, path);
    const char *base = strrchr(path, '/') + 1;
    const char *dot = strrchr(base, '.');
    // nvcc passes these characters to a shell.
    if (!lab.plain && (strpbrk(path, "$`\"\n") || strchr(base, ',')))
        fail(EXIT_USAGE,
             "%s: rename it: nvcc takes no $, ` or \" in a path, no comma in a file's name", path);
    char *name = text("%.*s", (int)(dot - base), base), *made = text("%s/build/student", root);
    check_folder(made);
    side->name = lab.before && strcmp(name, lab.before) == 0 ? text("my_%s", name) : name;
    char *apart = name_apart(name, path);
    side->path = text("%s/build/student/%s", root, apart);
    folder = text("%s/%s", folder, apart); // for this program's record and chart, too
    check_folder(folder);
    doing("compiling %s", source);
    char *src = text("SRC=%s", path), *out = text("OUT=build/student/%s", apart);
    char *like = text("NAME=%s", lab.after); // compiled for the same GPUs as the lab's own program
    char *command[] = {"make", "-s", "-C", root, "student", like, NULL};
    // Environment variables, since make would expand $ and # on the command line.
    char *names[] = {src, out, NULL};
    struct output output = run(command, names, RUN_SECONDS, false);
    done();
    if (output.status && strstr(output.err, "undefined reference to `main'"))
        fail(EXIT_RED, "%s has no main(): %s", source, expected());
    if (output.status) {
        blame_machine(output.err);
        printf("%s", output.out);
        fflush(stdout);
        char *rest = output.err, *line;
        while ((line = strsep(&rest, "\n"))) // the last line, make's own, tells nothing
            if (*line && strncmp(line, "make", 4) != 0)
                fprintf(stderr, "%s\n", line);
        fail(EXIT_RED, "%s does not compile", source);
    }
    output_free(&output);
}

// ---- The record and the chart -------------------------------------------------------------------

static void begin_record(void)
{
    gates_said = json_array();
    record = json_pack("{s:i, s:i, s:s, s:s, s:s*, s:s}", "record", 1, "lab", lab.number, "date",
                       date_now(), "runtime",
                       lab.plain ? "cpu"
                       : on_gpu  ? "gpu"
                                 : "simulator",
                       "before", before.name, "after", after.name);
}

static char *record_path;

static void finish_record(const char *verdict)
{
    json_t *hashes = json_object();
    if (before.hash)
        json_object_set_new(hashes, before.name, json_string(before.hash));
    if (after.hash)
        json_object_set_new(hashes, after.name, json_string(after.hash));
    json_object_set_new(record, "source_hashes", hashes);
    json_object_set_new(record, "git_commit", json_string(after.commit ? after.commit : "unknown"));
    json_object_set(record, "device", after.device);
    json_object_set(record, "gates", gates_said);
    json_object_set_new(record, "verdict", json_string(verdict));
    record_path = lab.record ? text("%s", lab.record) : text("%s/record.json", folder);
    write_json(record, record_path, RECORD_FORMAT, "");
}

static void show_record(void)
{
    char *render = text("%s/plots/render", root), *chart = text("%s/chart.svg", folder);
    bool drawable = at(record, "speedup") || at(record, "evidence");
    if (before.name && drawable && access(render, X_OK) == 0) {
        char *command[] = {render, "lab", text("%d", lab.number), record_path, chart, NULL};
        struct output output = run(command, NULL, 60, false);
        if (output.status == 0)
            printf("  chart    %s\n", nearby(chart));
        else
            printf("  no chart: %s\n", last_line(output.err));
        output_free(&output);
    }
    printf("  record   %s\n", nearby(record_path));
}

// ---- Main ---------------------------------------------------------------------------------------

// Runs a lab whose program is plain C and checks itself, as chapter 1's does.
static void run_plain(void)
{
    char *own = text("%s/program.json", folder);
    char *command[] = {after.path, "--record", own, NULL};
    struct output output = run(command, NULL, RUN_SECONDS, true);
    fputs(output.err, stderr);
    note_gate("correctness", text("%s checks itself", after.name), json_integer(output.status),
              "exit status 0", output.status == 0);
    json_t *said = json_load_file(own, 0, NULL);
    if (at(said, "numbers"))
        json_object_set(record, "numbers", at(said, "numbers"));
    note_identity(&after, said);
    unlink(own);
}

// Shows the program's lines with the simulator's counts, like make profileN.
static void show_profile(void)
{
    char *ptxsim = text("%s/build/ptxsim/ptxsim", root), *shape = text("%s", main_shape());
    if (access(ptxsim, X_OK))
        fail(EXIT_MACHINE, "build/ptxsim/ptxsim is not there: type make chapter%d", lab.number);
    char *command[] = {ptxsim,    "profile", after.path,    "--shapes", shape,
                       "--seeds", "0",       "--no-timing", "--quiet",  NULL};
    double budget = budget_of(shape);
    doing("counting in the simulator, shape %s", shape);
    struct output output = run(command, environment(false, "", budget), RUN_SECONDS, false);
    done();
    if (output.status < 0)
        fail(EXIT_RED, "%s ran longer than %d s: stopped", after.name, RUN_SECONDS);
    if (output.status) {
        fputs(output.err, stderr); // the program's own messages, and faults with their lines
        fail(EXIT_RED, "no profile: %s fails, as said above; mend that first", after.name);
    }
    printf("%s", output.out);
    output_free(&output);
}

// Makes a page to watch one CTA of the program, with the faults that the checks have found.
static void make_film(void)
{
    char *ptxsim = text("%s/build/ptxsim/ptxsim", root);
    if (access(ptxsim, X_OK))
        fail(EXIT_MACHINE, "build/ptxsim/ptxsim is not there: type make chapter%d", lab.number);
    // A chapter's lessons are about its own program, and need not be true of another.
    char *command[20] = {ptxsim,           "profile",   "--film",
                         (char *)lab.film, "--chapter", text("%d", lab.student ? 0 : lab.number)};
    int count = 6;
    if (lab.film_cta) {
        command[count++] = "--cta";
        command[count++] = (char *)lab.film_cta;
    }
    if (lab.film_values) {
        command[count++] = "--values";
        command[count++] = (char *)lab.film_values;
    }
    char *of_program[] = {after.path, "--shapes", (char *)lab.film_shape,
                          "--seeds",  "0",        "--no-timing",
                          "--quiet",  NULL};
    memcpy(command + count, of_program, sizeof of_program);
    doing("filming in the simulator, shape %s", lab.film_shape);
    struct output output = run(command, environment(false, "", FILM_BUDGET), RUN_SECONDS, false);
    // A language model's program without a fault is filmed again, in its attention kernel.
    if (lab.model && output.status == 0 && !*output.out) {
        command[count++] = "--kernel";
        command[count++] = "_Z9attention";
        memcpy(command + count, of_program, sizeof of_program);
        output = run(command, environment(false, "", FILM_BUDGET), RUN_SECONDS, false);
    }
    done();
    if (output.status) {
        const char *said = last_line(output.err);
        fail(EXIT_MACHINE, "no film: %s",
             strncmp(said, "ptxsim profile: ", 16) == 0 ? said + 16 : said);
    }
    for (char *rest = output.out, *line; (line = strsep(&rest, "\n"));)
        if (*line)
            wrap(nearby(line), printf("  "), 4);
    printf("  film     %s\n", lab.film);
    output_free(&output);
}

// Shows what the program has printed, as far as it was kept; control characters other than tabs
// appear as "?".
static void show_printed(void)
{
    if (!after.printed)
        return;
    heading(text("Printed at %s", after.printed_at));
    for (char *rest = text("%s", after.printed), *line; (line = strsep(&rest, "\n"));) {
        for (char *c = line; *c; ++c)
            *c = (unsigned char)*c < ' ' && *c != '\t' ? '?' : *c;
        if (*line || rest)
            printf("  %s\n", line);
    }
    if (after.printed_bytes > strlen(after.printed))
        printf("  and %zu bytes more\n", after.printed_bytes - strlen(after.printed));
    if (resource(&after, &resources[resource_find("spills", LABS)], true) > 0)
        wrap("a kernel that prints hands over the numbers on its stack, and these bytes count as "
             "spilled: "
             "take the print out before you look at spills",
             printf("  "), 4);
}

// Shows the first SHOWN gates that failed, one a line.
static void show_failed(void)
{
    enum { SHOWN = 5 };
    int left = gates_failed;
    size_t i;
    json_t *gate;
    if (gates_failed)
        heading("Failed");
    json_array_foreach (gates_said, i, gate) {
        if (json_is_true(at(gate, "pass")) || gates_failed - left == SHOWN)
            continue;
        json_t *value = at(gate, "value");
        const char *is = json_is_string(value)   ? json_string_value(value)
                         : json_is_number(value) ? grouped(json_number_value(value))
                                                 : "not known";
        wrap(text("%s, %s: %s, where %s is asked for", string_at(gate, "group"),
                  string_at(gate, "name"), is, string_at(gate, "limit")),
             printf("  "), 4);
        --left;
    }
    if (left)
        printf("  and %d more\n", left);
}

static const char *explain(const char *verdict)
{
    if (strcmp(verdict, "RED") == 0)
        return gates_failed == 1 ? "a gate failed" : text("%d gates failed", gates_failed);
    if (strcmp(verdict, "FAST") == 0)
        return "every gate passed, and the whole interval keeps the promise";
    if (strcmp(verdict, "VALID NEGATIVE") == 0)
        return "right, and surely slower than promised: a result to write up";
    bool judged = false;
    for (int i = 0; i < lab.promise_count; ++i)
        judged |= lab.promises[i].ratio > 0;
    return !before.name || !on_gpu || !judged
               ? "every gate passed"
               : "every gate passed; too noisy to tell whether the promise is kept";
}

// Whether the judged file is one of the book's own, such as a control: then its tables are shown.
static bool is_the_books(void)
{
    char path[PATH_MAX];
    const char *code = text("%s/code/", root);
    return realpath(lab.student, path) && strncmp(path, code, strlen(code)) == 0;
}

// Shows the verdict. A kernel that lacks some of the points that can be seen here is only RIGHT.
static void show_verdict(const char *verdict, const struct score *score)
{
    const char *words = explain(verdict);
    if (score && strcmp(verdict, "GREEN") == 0 && score->got + score->open < score->total) {
        verdict = "RIGHT";
        words = text("every gate passed; %g of the %g points that can be seen here", score->got,
                     score->total - score->open);
    }
    wrap(text("%s%s%s%s: %s", BOLD, gates_failed ? RED_INK : GREEN_INK, verdict, PLAIN, words),
         printf("\n") - 1, 2);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    // UTF-8 for all processes started here, even on a machine without locales.
    setenv("LC_ALL", "C.UTF-8", 1);
    colours();
    speaker = "lab";
    find_root();
    parse_options(argc, argv);
    if (lab.hint >= 0) {
        show_hint();
        return EXIT_GREEN;
    }
    if (lab.watch)
        watch(lab.student);
    folder = text("%s/build/lab%02d", root, lab.number);
    check_folder(folder);
    if (lab.record) { // fails before a minute's work, not after it
        char *copy = text("%s", lab.record), *slash = strrchr(copy, '/');
        if (slash)
            slash[slash == copy] = '\0';
        if (access(slash ? copy : ".", W_OK))
            fail(EXIT_MACHINE, "--record %s: %s", lab.record, strerror(errno));
    }
    on_gpu = lab.on ? strcmp(lab.on, "gpu") == 0 : !lab.plain && gpu_here();

    if (lab.student)
        compile_student(&after, lab.student);
    else
        find_program(&after, lab.after);
    if (lab.before && !lab.profile && !lab.film)
        find_program(&before, lab.before);
    char *simulator = text("%s/build/ptxsim/libcudart.so.13", root);
    if (!lab.plain && (!on_gpu || lab.profile || lab.film) && access(simulator, R_OK))
        fail(EXIT_MACHINE, "build/ptxsim/libcudart.so.13 is not there: type make chapter%d",
             lab.number);
    if (lab.profile) {
        show_profile();
        return EXIT_GREEN;
    }
    if (lab.film) {
        make_film();
        return EXIT_GREEN;
    }
    begin_record();
    printf("%sLab %d: %s%s\n", BOLD, lab.number, lab.title, PLAIN);
    printf("%s%s%s%s\n", after.name, before.name ? " against " : "", before.name ? before.name : "",
           lab.plain ? ""
           : on_gpu  ? ", on the GPU"
           : lab.on  ? ", in the simulator"
                     : ", in the simulator: no GPU here");

    int chapter = lab.student ? chapter_of(lab.student) : 0;
    if (chapter && chapter != lab.number)
        printf("note: its main() says .chapter = %d: ./lab%d judges such programs\n", chapter,
               chapter);

    // For a student's kernel, prints what has to be read, on one screen; the tables only with
    // --all.
    bool sheeted = lab.student && (lab.search ? lab.only_search : !lab.plain);
    bool quiet = sheeted && !lab.all && !lab.only_search && !is_the_books();
    const char *verdict = "GREEN";
    if (quiet)
        hush();
    if (lab.search && (lab.only_search || !lab.student))
        judge_search();
    if (lab.plain && !lab.only_search) {
        run_plain();
    } else if (!lab.plain) {
        judge_resources();
        judge_correctness();
        if (on_gpu ||
            !(after.wrong || after.fault || after.stopped)) { // wrong programs are not compared
            if (on_gpu && !gates_failed)
                speak();
            verdict = lab.model ? verdict : judge_speed();
            if (quiet)
                hush();
            show_evidence();
        }
    }
    if (gates_failed)
        verdict = "RED";
    if (after.fault || (after.stopped && after.faulty))
        explain_fault(0);
    finish_record(verdict);
    struct score score = {0};
    sheeted = sheeted && judge_sheet(&score);
    speak();
    show_verdict(verdict, sheeted ? &score : NULL);
    if (!quiet)
        show_record();
    if (sheeted)
        show_next();
    else if (after.sentence)
        show_fault();
    if (sheeted)
        remark_on_doubles();
    show_printed();
    if (quiet)
        show_failed();
    if (sheeted)
        show_points();
    if (quiet)
        wrap(text("every table: ./lab%d %s --all", lab.number, lab.student), printf("  "), 4);
    return gates_failed ? EXIT_RED : EXIT_GREEN;
}
