# Attention in Stages. `make help` lists the targets; V=1 shows the commands.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
# A chapter, and all that the tests need, are compiled on every core unless -j says otherwise.
ifneq ($(filter test test-quick tests chapter% lab% profile%,$(MAKECMDGOALS)),)
ifeq ($(findstring -j,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif
endif
.DEFAULT_GOAL := help
export LC_ALL := C.UTF-8

# "make chapter 3" is two goals to make.
digits := 0% 1% 2% 3% 4% 5% 6% 7% 8% 9%
ifneq ($(filter $(digits),$(MAKECMDGOALS)),)
$(error a number belongs to its word: make chapter3, not make chapter 3)
endif
# What no rule makes is refused before anything is made: of several goals, the others are minutes' work.
# Goals are files that are made, words with a number, and what is phony.
made := build/% code/ch% $(foreach w,chapter lab starter profile handout gradescope checklist,$(addprefix $w,$(digits)))
ifneq ($(filter-out $(made),$(MAKECMDGOALS)),)
unknown := $(filter-out $(made) help $(shell sed -nE 's/^\.PHONY: //p' $(firstword $(MAKEFILE_LIST))),$(MAKECMDGOALS))
$(if $(filter %.cu %.c,$(unknown)),$(error make takes no program of yours, $(firstword $(unknown)): ./labN $(firstword $(unknown)) judges it))
$(if $(unknown),$(error there is no target $(firstword $(unknown)): make help lists them))
endif

# In the path of the checkout the shell that nvcc calls reads $ and `, ptxas ends a name at ", and the loader at : and ;.
unfit := $(foreach c,$$ ` " : ;,$(findstring $c,$(CURDIR)))
ifneq ($(and $(strip $(unfit)),$(filter-out help,$(MAKECMDGOALS))),)
$(error the path $(CURDIR) has a $(firstword $(unfit)), which compiler and loader cannot handle: move it to a folder without)
endif

# make BUILD=dir: all that follows in a copy of the sources in dir, for a checkout that others share and
# that cannot be written. What is newer there than here stays as it is there.
ifneq ($(if $(filter command,$(firstword $(origin BUILD))),$(BUILD)),)
goals := $(or $(MAKECMDGOALS),help)
$(goals): elsewhere
	@:
elsewhere:
	@mkdir -p '$(BUILD)' && cp -R --update --preserve=timestamps Makefile book.md chapters code labs plots '$(BUILD)' && \
	    chmod -R u+w '$(BUILD)' && { [ ! -d .toolkit ] || ln -sfn "$$PWD/.toolkit" '$(BUILD)'/.toolkit; }
	@echo "in $(BUILD):"
	@$(MAKE) --no-print-directory -C '$(BUILD)' BUILD= $(goals)
else
# Everything made is in build/, but for links ./labN and what make tangle and make plots write.
ifneq ($(filter-out help,$(MAKECMDGOALS)),)
ifneq ($(shell mkdir -p build 2>/dev/null && [ -w build ] && echo yes),yes)
$(error $(CURDIR)/build cannot be written: make BUILD=~/attention $(MAKECMDGOALS) works in a copy there)
endif
endif

Q := $(if $(V),,@)
say = @printf '  %-8s %s\n'

# ---- What there is -------------------------------------------------------------------------------

chapters := $(sort $(wildcard chapters/[0-9][0-9]-*.md chapters/[A-Z]-*.md))
solutions := $(sort $(wildcard chapters/solutions/*.md))
# Programs by their roots in the chapters, and by the committed files: a machine may have no other
# file of chapters/ than stages.tsv.
roots := $(sort $(shell grep -shoE 'file=code/ch[0-9]{2}_[a-z0-9_]+\.(cu|c)' chapters/*.md | \
                        sed 's/^file=//') $(wildcard code/ch[0-9][0-9]_*.cu code/ch[0-9][0-9]_*.c))
cuda_programs := $(patsubst code/%.cu,%,$(filter %.cu,$(roots)))
c_programs := $(patsubst code/%.c,%,$(filter %.c,$(roots)))
programs := $(c_programs) $(cuda_programs)
labs := $(sort $(wildcard labs/lab[0-9][0-9]))

sources = $(filter-out $(wildcard $(1)/test_*.c),$(wildcard $(1)/*.c))
objects = $(patsubst %.c,build/obj/%.o,$(1))

# The rows of chapters/stages.tsv: stage_03 is "ch03_wmma_qk 75 sm_89 sm_90", program, least, images.
$(foreach row,$(shell awk -F'\t' '/^[0-9]/ { gsub(/ /, ":", $$4); printf "%02d:%s:%s:%s ", $$1, $$3, $$5, $$4 }' chapters/stages.tsv),\
    $(eval stage_$(firstword $(subst :, ,$(row))) := $(wordlist 2,9,$(subst :, ,$(row)))))
two = $(if $(filter 1 2 3 4 5 6 7 8 9,$(1)),0$(1),$(1))
chapter_of = $(patsubst ch%,%,$(firstword $(subst _, ,$(1))))
# The row of a chapter by its number's two digits; what is missing in the table ends make with a line.
stage = $(or $(stage_$(1)),\
    $(error chapters/stages.tsv has no stage $(1:0%=%): add a row of its number, name, program, images, least))
# The program that a chapter's lab judges, if it is there; images and the least GPU of a program.
judged = $(filter $(firstword $(stage_$(call two,$(1)))),$(programs))
images = $(or $(call own_image,$(1)),$(filter sm_%,$(call stage,$(call chapter_of,$(1)))),\
    $(error chapters/stages.tsv: the row of stage $(patsubst 0%,%,$(call chapter_of,$(1))) names no images, and $(1) needs some))
least = $(if $(call own_image,$(1)),-,$(word 2,$(call stage,$(call chapter_of,$(1)))))
# A program, or a variant of it, with an image of its own: the row has program=image.
own_image = $(patsubst $(basename $(1))=%,%,$(filter $(basename $(1))=%,$(stage_$(call chapter_of,$(1)))))

# ---- How it is compiled --------------------------------------------------------------------------

# Compiled in a minute counts here: -O1 and line numbers for what runs once, more for what runs often (OPT below).
CFLAGS = -std=c11 -D_GNU_SOURCE -O1 -g1 -Wall -Wextra $(strict)
# The chapters' C programs: the first computes for two seconds.
PROGRAM_CFLAGS = $(CFLAGS) -O2
# A warning is an error with CI's compiler, GCC 12. Others warn of other things, and a reader's build goes on. Asked
# for when it is first needed: only then is it sure to be installed.
strict = $(eval strict := $(if $(filter 12,$(shell $(CC) -dumpversion 2>/dev/null)),-Werror))$(strict)
LIBS := -l:libjansson.a -lm -lpthread -ldl

# These belong to a measurement: they go into a program's source_hash.
KERNEL_FLAGS := -std=c++20 -O3 -lineinfo -Icode
# The special functions of C++17 are a sixth of the compiling. <cmath> brings them; no program of ours has a use for
# them, and with their header's guard defined they stay out. A student's program may want what they bring, too.
lean := -D_GLIBCXX_BITS_SPECFUN_H
NVCC_COMMON := $(KERNEL_FLAGS) -Xcompiler -Wall,-Wextra,-Wno-missing-field-initializers --compress-mode=none
# One executable for an L4, an H200 and (as PTX) the simulator, and for the GPU at hand. The
# run path lets it find the real runtime; LD_LIBRARY_PATH=build/ptxsim comes first.
# Which images a chapter's programs have stands in chapters/stages.tsv; of the first, the PTX too.
comma := ,
arch = $(patsubst sm_%,%,$(1))
# Images named in $(2), too, are made from the first's PTX; the others from PTX of their own.
gencode = -gencode arch=compute_$(call arch,$(firstword $(1)))$(comma)code=[$(firstword $(1))$(comma)$(2:%=%$(comma))$(call ptx,$(1))] \
    $(foreach i,$(filter-out $(2),$(wordlist 2,9,$(1))),-gencode arch=compute_$(call arch,$i)$(comma)code=$i)
ptx = compute_$(call arch,$(firstword $(1)))
nvcc_flags = $(strip $(NVCC_COMMON) $(call gencode,$(call images,$(1))))
# The book's programs ask nowhere which GPU they are compiled for: sm_90's code made from sm_89's PTX is the same
# (code/test_stages.bats), and takes a quarter less of the compiling. A student's program may ask.
book_flags = $(strip $(NVCC_COMMON) $(lean) $(call gencode,$(call images,$(1)),$(filter sm_90,$(wordlist 2,9,$(call images,$(1))))))
NVCC_FLAGS := $(strip $(NVCC_COMMON) $(lean) $(call gencode,sm_89 sm_90))
CUDA_LIBS := -Lbuild/cuda/lib64 -lcudart -Wl,--enable-new-dtags,-rpath,'$$ORIGIN/cuda/lib64' \
             -Wl,-rpath,'$$ORIGIN/../cuda/lib64'

# SHA-256 of a program without comments, blank lines, debug prints, its own name and its chapter's number, and of
# its flags: a measurement of the same hash is a measurement of today's program.
unhashed := s://.*$$::; s/[[:space:]]+$$//; /^$$/d; /^ *DEBUG_PRINT\(.*\);$$/d; /^ *\.(name|chapter) = ("[a-z0-9_]+"|[0-9]+),$$/d
source_hash = { sed -E '$(unhashed)' $(1); echo "$(KERNEL_FLAGS)"; } | \
              sha256sum | cut -d' ' -f1
commit = $$(git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || echo unknown)
identity = -DSOURCE_HASH="\"$$($(call source_hash,$(1)))\"" -DGIT_COMMIT="\"$(commit)\"" \
           -DBUILD_FLAGS="\"$(KERNEL_FLAGS)\""

# make DEBUG_PRINT=1 chapterN: kernels print (code/workbench/debug.h). Their source_hash is "debug",
# so that no measurement of them passes for the program's.
with_prints = $(if $(DEBUG_PRINT),-DDEBUG_PRINTS)
cuda_identity = $(if $(DEBUG_PRINT),-DSOURCE_HASH='"debug"',$(call identity,$(1)))

# ---- Setting up ----------------------------------------------------------------------------------

# What is missing is installed before anything is compiled, as code/deps.sh has it: for a chapter, for
# the grader as well, for that and bats, for the book (no compiler), or for the tests and all else.
wants_all := $(filter test tests,$(MAKECMDGOALS))
wants_grader := $(filter all runs mutants checklist grade check-labs check-grader build/judge,$(MAKECMDGOALS))
wants_book := $(filter book book-% handout%,$(MAKECMDGOALS))
others := $(filter-out $(wants_book),$(MAKECMDGOALS))
setup := build/deps-$(strip $(if $(wants_all),all,$(if $(wants_book),$(if $(others),all,book),\
    $(if $(filter test-quick,$(MAKECMDGOALS)),quick,$(if $(wants_grader),grade,chapter)))))

build/deps-chapter build/deps-grade build/deps-quick build/deps-book build/deps-all: build/deps-%: code/deps.sh
	$(call one_line,code/deps.sh $*)
	$(Q)mkdir -p build && touch $@
# Runs a script, unless make only says what it would do (-n). If it fails, make stops with the line
# that it printed, and no other.
only_says = $(findstring n,$(filter-out -%,$(firstword $(MAKEFLAGS))))
one_line = $(if $(only_says),,$(eval said := $(shell { $(1); } 3>&2 2>&1 >&3))$(if $(filter 0,$(.SHELLSTATUS)),,$(error $(said))))

.PHONY: deps
deps: ##5 install what is missing, NVIDIA's compiler too
	$(call one_line,code/deps.sh all)
	@echo "everything is there"

# The toolkit in use: a link, so that compiler, headers and runtime are found in one place. It is
# made again when CUDA_HOME names another one; what was compiled with the last one then is older
# than build/flags.
other_toolkit = $(if $(CUDA_HOME),$(filter-out $(realpath build/cuda/bin/nvcc),$(or $(realpath $(CUDA_HOME)/bin/nvcc),none)))
build/cuda: $(if $(other_toolkit),force) | $(setup)
	$(call one_line,mkdir -p build && root=$$(code/find-nvcc) && { [ "$$root" = "$$(readlink $@)" ] || \
	    { ln -sfn "$$root" $@ && { [ ! -e build/flags ] || touch build/flags; }; }; })

# Compute capability of the GPU at hand, 89 for 8.9; empty if there is none.
build/gpu:
	$(Q)mkdir -p build; { nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null || :; } | \
	    sed -nE '1s/^([0-9]+)\.([0-9])$$/\1\2/p' >$@

.PHONY: force
build/flags: force | build/cuda
	@mkdir -p build; printf '%s\n' '$(CFLAGS)' '$(NVCC_FLAGS)' | cmp -s - $@ || printf '%s\n' '$(CFLAGS)' '$(NVCC_FLAGS)' >$@
build/kernel-flags: force
	@echo '$(KERNEL_FLAGS)' | cmp -s - $@ || echo '$(KERNEL_FLAGS)' >$@

build/debug-print: force
	@mkdir -p build; echo '$(with_prints)' | cmp -s - $@ || echo '$(with_prints)' >$@

# ---- Tangle --------------------------------------------------------------------------------------

tangled := $(patsubst code/%,build/tangled/%,$(roots))

# One run for all chapters; outputs that do not change keep their times, so that only what was
# edited is compiled again. Without Pandoc the committed code is compiled as it is.
tangler := $(wildcard $(patsubst %,code/literate/%.lua,tangle titles chunks sheets stages))
build/tangle.stamp: $(chapters) $(solutions) $(tangler) code/ptxsim/counts.def chapters/stages.tsv $(labs) | $(setup)
	$(Q)mkdir -p build/tangled
	$(Q)if command -v pandoc >/dev/null && [ -f code/literate/tangle.lua ]; then \
	    printf '  %-8s %s\n' TANGLE chapters/; $(tangle) $(chapters) $(solutions) | sed -n 's|^code/|           code/|p'; \
	else \
	    echo "  note: no pandoc, so code/ is compiled as it is, not chapters/"; \
	    for f in code/ch[0-9][0-9]_*; do cmp -s $$f build/tangled/$${f#code/} || cp $$f build/tangled/; done; \
	fi
	$(Q)touch $@
tangle = pandoc -f code/literate/tangle.lua

$(roots) $(tangled): build/tangle.stamp
	@:

.PHONY: tangle
tangle: build/tangle.stamp ##5 write code/ and build/tangled/ from chapters/

# Today's hash of each program, by which the book and the labs see stale measurements. A program with
# knobs (chapter 14) has a second, .any, without the line that sets them: all its candidates have it.
build/hashes.tsv: $(roots) build/kernel-flags
	$(Q)for f in $(roots); do \
	    name=$${f##*/}; printf '%s\t%s\n' "$${name%.*}" "$$($(call source_hash,$$f))"; \
	    if grep -qs '^#define KNOBS' $$f; then \
	        printf '%s\t%s\n' "$${name%.*}.any" "$$($(call source_hash,<(grep -v '^#define KNOBS' $$f)))"; fi; done >$@.new
	$(Q)mv $@.new $@

# ---- Compile -------------------------------------------------------------------------------------

image := $(call sources,code/image)
workbench := $(call sources,code/workbench) $(image)
# The simulator's operations are compiled for three instruction sets, which takes longer than all else. Who
# makes nothing but chapters gets the set of the machine at hand, beside those that are there already.
cpu := $(shell sed -n '/^flags/{p;q}' /proc/cpuinfo 2>/dev/null)
has = $(if $(filter-out $(cpu),$(1)),,yes)
isa := $(if $(call has,avx2 fma),$(if $(call has,avx512f avx512dq avx512bw avx512vl),avx512,avx2),base)
only_chapters := $(if $(filter-out chapter% lab% starter% profile%,$(or $(MAKECMDGOALS),help)),,yes)
there = $(wildcard build/obj/code/ptxsim/ops/isa/$(1).o)
not_here := $(if $(only_chapters),$(foreach i,$(filter-out $(isa),base avx2 avx512),$(if $(call there,$i),,$i)))
# The simulator's floors, lowest first: each uses only those below it (code/ptxsim/ptxsim.h).
ptxsim := $(image) $(filter-out $(not_here:%=code/ptxsim/ops/isa/%.c),$(foreach f,base parse machine races ops ops/isa decode exec cudart,$(call sources,code/ptxsim/$f)))

build/obj/%.o: %.c build/flags build/cuda
	$(say) CC $<
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(OPT) -fPIC -Icode -isystem build/cuda/include -MMD -MP -c $< -o $@
$(call objects,$(workbench)): OPT := -O2
$(call objects,$(ptxsim)): OPT := -fno-semantic-interposition -fno-math-errno -fno-trapping-math
# A function that begins where a cache line does runs as fast whatever stands before it.
$(call objects,$(filter $(foreach f,machine races ops exec,code/ptxsim/$f/%),$(ptxsim))): OPT := -O3 -falign-functions=64 $(OPT)
# What older processors take is compiled in half the time, and a tenth slower there.
build/obj/code/ptxsim/ops/isa/base.o: OPT := $(patsubst -O3,-O2,$(OPT))

build/libworkbench.a: $(call objects,$(workbench))
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^

build/ptxsim/libcudart.so.13: $(call objects,$(ptxsim)) code/ptxsim/cudart/libcudart.map
	$(say) LD $@
	$(Q)mkdir -p $(@D) && $(CC) -shared -Wl,-soname,libcudart.so.13 -Wl,--version-script=code/ptxsim/cudart/libcudart.map \
	    -Wl,-z,defs $(filter %.o,$^) -lm -lpthread -ldl -o $@
	$(Q)ln -sf $(@F) $(@D)/libcuda.so.1 # the driver's library, too (code/ptxsim/cudart/driver.c)

$(cuda_programs:%=build/obj/%.o): build/obj/%.o: build/tangled/%.cu build/flags build/debug-print build/cuda build/gpu
	$(say) NVCC $*
	$(Q)$(call native,$(call least,$*)) build/cuda/bin/nvcc $(call book_flags,$*) $(with_prints) $$native $(call cuda_identity,code/$*.cu) \
	    -MMD -MP -MF $(@:.o=.d) -c $< -o $@
# An image for the GPU at hand, where that is neither an L4 nor a Hopper and at least $(1).
native = native=; mkdir -p $(@D); gpu=$(if $(filter -,$(1)),,$$(cat build/gpu)); \
    if [ -n "$$gpu" ] && [ $$gpu != 89 ] && [ $$gpu != 90 ] && [ $$gpu -ge $(1) ]; then \
        native="-gencode arch=compute_$$gpu,code=sm_$$gpu"; fi;

$(c_programs:%=build/obj/%.o): build/obj/%.o: build/tangled/%.c build/flags build/cuda
	$(say) CC $*
	$(Q)mkdir -p $(@D) && $(CC) $(PROGRAM_CFLAGS) -Icode $(call identity,code/$*.c) -MMD -MP -c $< -o $@

$(cuda_programs:%=build/%): build/%: build/obj/%.o build/libworkbench.a
	$(Q)$(CXX) $^ $(LIBS) $(CUDA_LIBS) -o $@
$(c_programs:%=build/%): build/%: build/obj/%.o build/libworkbench.a
	$(Q)$(CC) $^ $(LIBS) -o $@

build/lab: $(call objects,$(wildcard labs/driver/*.c) labs/replay.c) build/libworkbench.a
	$(say) LD $@
	$(Q)$(CC) $^ $(LIBS) -o $@

# One planted mistake a kernel, for labs/tools/probe.
build/probes: labs/tools/probes.cu build/flags build/cuda build/gpu
	$(say) NVCC $<
	$(Q)mkdir -p build/obj/labs/tools; $(call native,80) build/cuda/bin/nvcc $(NVCC_FLAGS) $$native -c $< -o build/obj/labs/tools/probes.o
	$(Q)$(CXX) build/obj/labs/tools/probes.o $(CUDA_LIBS) -o $@

# The parts of the driver that its tools share.
build/compare build/profile-ncu build/scoreboard: build/%: build/obj/labs/tools/%.o $(call objects,labs/driver/say.c labs/driver/process.c labs/driver/ncu.c) build/libworkbench.a
	$(say) LD $@
	$(Q)$(CC) $^ $(LIBS) -o $@

# The grader, and what runs a submission's kernels for it: labs/judge/judge.h says which part is what.
judge := $(filter-out labs/judge/runner.c labs/judge/gpu.c labs/judge/clock.c,$(wildcard labs/judge/*.c))
build/obj/labs/judge/build.o: private CFLAGS += -DKERNEL_FLAGS='"$(filter-out -Icode,$(KERNEL_FLAGS))"'
build/judge: $(call objects,$(judge) labs/replay.c code/ptxsim/machine/counts.c) build/libworkbench.a
	$(say) LD $@
	$(Q)$(CC) $^ -l:libmd.a -l:libcrypt.a $(LIBS) -o $@
build/runner: $(call objects,labs/judge/runner.c labs/judge/gpu.c $(ptxsim)) build/libworkbench.a
	$(say) LD $@
	$(Q)$(CC) $^ $(LIBS) -o $@

build/clock.so: $(call objects,labs/judge/clock.c)
	$(say) LD $@
	$(Q)$(CC) -shared $^ -o $@

.PHONY: grade
grade: build/judge build/runner build/clock.so build/profile build/ptxsim/libcudart.so.13 build/libworkbench.a build/tangle.stamp ##3 build the grader: labs/grade --lab N FILE|FOLDER
	@echo "the grader is built: labs/grade --lab N FILE|FOLDER"

# Ten minutes when no result of an earlier run is kept. make test grades one text of each lab, and
# compares the kept results of the others.
.PHONY: check-labs
check-labs: grade ##3 grade all that the book has of each lab (LABS='4 10')
	$(Q)labs/tools/check-labs $(LABS)

# Long: every cheat and its honest twin, and a class of them that is killed on the way.
.PHONY: check-grader
check-grader: grade ##3 grade the cheats of labs/fixtures, and a class of 60 of them
	$(Q)labs/tools/check-grader --class 60

build/series: $(call objects,$(wildcard plots/*.c) code/image/gpus.c code/workbench/stages.c)
	$(say) LD $@
	$(Q)$(CC) $^ $(LIBS) -o $@

build/profile: build/obj/code/ptxsim/tool/film.o build/obj/code/ptxsim/tool/tiles.o
build/profile build/bench-sim: build/%: build/obj/code/ptxsim/tool/%.o
	$(say) LD $@
	$(Q)$(CC) $^ $(LIBS) -o $@

-include $(wildcard build/obj/*.d build/obj/*/*.d build/obj/*/*/*.d build/obj/*/*/*/*.d build/obj/*/*/*/*/*.d)

# ---- Chapters and labs ---------------------------------------------------------------------------

# A lab needs the programs that its script names; its number is the chapter's.
number = $(patsubst 0%,%,$(patsubst lab%,%,$(notdir $(1))))
numbers := $(sort $(foreach p,$(programs),$(patsubst 0%,%,$(patsubst ch%,%,$(firstword $(subst _, ,$p))))))

# A chapter's program, the others that its lab names, and what a lab runs them with.
of_chapter = $(filter ch$(call two,$(1))_% $(shell grep -shoE 'ch[0-9]{2}_[a-z0-9_]+' labs/lab$(call two,$(1))),$(programs))
driver = build/lab build/series build/hashes.tsv \
         $(if $(filter $(cuda_programs),$(2)),build/profile build/ptxsim/libcudart.so.13)

# ./labN is a link to its script, made with its chapter.
link_lab = ln -sfn labs/lab$(call two,$(1)) lab$(1)

define chapter
.PHONY: chapter$(1)
chapter$(1): $(addprefix build/,$(2)) $(if $(3),$(call driver,$(1),$(2)))
	$$(if $$(call stage,$(call two,$(1))),)
	@echo "chapter $(1) is built$(if $(3),: ./lab$(1))"
	$(if $(3),@$(call link_lab,$(1)))
endef
$(foreach n,$(numbers),$(eval $(call chapter,$n,$(call of_chapter,$n),$(wildcard labs/lab$(call two,$n)))))

chapter18: build/scoreboard

# make labN builds lab N and runs it.
lab_numbers := $(foreach l,$(labs),$(call number,$l))
.PHONY: $(lab_numbers:%=lab%)
$(lab_numbers:%=lab%): lab%: chapter%
	$(Q)./$@

# Numbers that no lab or chapter has are refused before anything is made.
wrong = $(filter-out $(2:%=$(1)%),$(filter $(addprefix $(1),$(digits)),$(MAKECMDGOALS)))
in_order = $(shell printf '%s\n' $(1) | sort -n | xargs)
$(foreach w,lab handout,$(if $(call wrong,$w,$(lab_numbers)),\
    $(error there is no lab $(patsubst $w%,%,$(call wrong,$w,$(lab_numbers))): the labs are $(call in_order,$(lab_numbers)))))

chapter%:
	$(error there is no chapter $*: the chapters are $(shell printf '%s\n' $(numbers) | sort -n | xargs))

# A student's working copy of a lab; FORCE=1 overwrites one.
$(addprefix starter,$(foreach l,$(labs),$(call number,$l))): starter%: build/tangle.stamp
	$(Q)$(call link_lab,$*)
	$(call one_line,labs/starter $* $(if $(FORCE),--force))@:
starter%:
	$(error there is no lab $*: the labs are $(foreach l,$(labs),$(call number,$l)))

# An autograder for Gradescope, from what is committed; SECRET=FILE names the secret.
$(addprefix gradescope,$(foreach l,$(labs),$(call number,$l))): gradescope%: build/tangle.stamp
	$(Q)SECRET='$(SECRET)' labs/gradescope/pack $*
gradescope%:
	$(error there is no lab $*: the labs are $(foreach l,$(labs),$(call number,$l)))

.PHONY: all
#all: ##5 build every program, tool and lab
all: $(programs:%=build/%) build/lab build/hashes.tsv build/ptxsim/libcudart.so.13 build/series build/profile build/bench-sim build/compare build/profile-ncu build/scoreboard build/probes build/judge build/runner build/clock.so
	@$(foreach n,$(lab_numbers),$(call link_lab,$n) &&) :

# A student's program, for ./labN my.cu: SRC=my.cu OUT=build/student/my make student, with images like those of the
# chapter's program NAME=chNN_name, or like most. The shell takes both names from the environment, whatever is in them.
.PHONY: student
student: NAME ?= ch04_cp_async
student: build/libworkbench.a build/gpu
	$(Q)mkdir -p "$${OUT%/*}"
ifneq ($(filter %.cu,$(SRC)),)
	$(Q)$(call native,$(call least,$(NAME))) build/cuda/bin/nvcc $(call nvcc_flags,$(NAME)) $(with_prints) $$native $(call cuda_identity,"$$SRC") -c "$$SRC" -o "$$OUT.o"
	$(Q)$(CXX) "$$OUT.o" build/libworkbench.a $(LIBS) $(CUDA_LIBS) -o "$$OUT"
else
	$(Q)$(CC) $(PROGRAM_CFLAGS) -Icode $(call identity,"$$SRC") "$$SRC" build/libworkbench.a $(LIBS) -o "$$OUT"
endif

# Planted bugs, compiled as the programs are. Which there are is known only when tangled.
.PHONY: planted mutants
planted: all
	$(Q)$(MAKE) -s --no-print-directory $$(sed -nE 's,^(\S+)\t(\S+)\t.*,build/planted/\1.\2,p' build/mutants/list.tsv)
mutants: planted ##5 run every planted bug of the book and say what catches it
	$(Q)labs/tools/mutants

# What is checked before a stage is merged. Which bugs are planted is known only when tangled.
define checklist
.PHONY: checklist$(1)
checklist$(1): chapter$(1) build/series build/hashes.tsv
	$(Q)$(MAKE) -s --no-print-directory build/hashes.tsv \
	    $$$$(sed -nE 's,^(ch$(call two,$(1))_\S+)\t(\S+)\t.*,build/planted/\1.\2,p' build/mutants/list.tsv)
	$(Q)labs/tools/checklist $(1)
endef
stages := $(foreach n,$(numbers),$(if $(filter $(cuda_programs),$(call judged,$n)),$n))
$(foreach n,$(stages),$(eval $(call checklist,$n)))

checklist%:
	$(error there is no kernel of chapter $*: the stages are $(shell printf '%s\n' $(stages) | sort -n | xargs))

.PHONY: checklist
checklist: planted ##5 what each stage must show before it is merged
	$(Q)labs/tools/checklist $(shell printf '%s\n' $(stages) | sort -n)

# What a planted bug is warned of, a reader need not see.
build/planted/ch%: private KERNEL_FLAGS += $(lean) -w

# As PTX only, which is half the compiling: the simulator takes it, and a GPU's driver does. Put into the program
# by a rule of its own, so that a change of the workbench compiles no kernel again. The headers are the
# program's, whose object is waited for: for a list of them nvcc would read them a second time.
.SECONDEXPANSION:
of_program = $(basename ch$(1))
put_together = $(Q)code/compile-variant $< $@ $(CXX) build/libworkbench.a $(LIBS) $(CUDA_LIBS)
build/planted/ch%.part: build/mutants/ch%.cu build/obj/$$(call of_program,$$*).o code/compile-variant build/flags build/cuda
	$(say) NVCC ch$*
	$(Q)mkdir -p $(@D) && code/compile-variant $< $@ build/cuda/bin/nvcc $(KERNEL_FLAGS) --compress-mode=none \
	    -gencode arch=$(call ptx,$(call images,ch$*))$(comma)code=$(call ptx,$(call images,ch$*))
build/planted/ch%: build/planted/ch%.part build/$$(call of_program,$$*)
	$(put_together)
.PRECIOUS: build/planted/ch%.part build/answers/ch%.part
build/planted/ch%: build/mutants/ch%.c build/libworkbench.a build/flags build/cuda
	$(say) CC ch$*
	$(Q)mkdir -p $(@D) && $(CC) $(filter-out -Werror,$(PROGRAM_CFLAGS)) -w -Icode $< build/libworkbench.a $(LIBS) -o $@

# The programs of the solutions (chapters/solutions/), with an image too, for its registers.
.PHONY: answers
answers: all
	$(Q)$(MAKE) -s --no-print-directory $$(sed -E 's/\.cu?$$//' build/answers/list)
build/answers/ch%: private KERNEL_FLAGS += $(lean) -w
build/answers/ch%.part: build/answers/ch%.cu build/obj/$$(call of_program,$$*).o code/compile-variant build/flags build/cuda
	$(say) NVCC ch$*
	$(Q)code/compile-variant $< $@ build/cuda/bin/nvcc $(KERNEL_FLAGS) --compress-mode=none \
	    $(call gencode,$(firstword $(call images,ch$*)))
build/answers/ch%: build/answers/ch%.part build/$$(call of_program,$$*)
	$(put_together)
build/answers/ch%: build/answers/ch%.c build/libworkbench.a build/flags build/cuda
	$(say) CC ch$*
	$(Q)$(CC) $(filter-out -Werror,$(PROGRAM_CFLAGS)) -w -Icode $< build/libworkbench.a $(LIBS) -o $@

# ---- Charts and records --------------------------------------------------------------------------

.PHONY: plots runs
plots: build/series | $(setup) ##4 the charts, tables and board in plots/ from the records
	$(call one_line,plots/render)

# Needs a GPU and the built programs; without Pandoc, as on a machine that they were copied to, nothing is built.
runs: $(if $(shell command -v pandoc),all build/profile) ##4 on a GPU: measure all into plots/runs/<gpu>/
	$(Q)labs/tools/measure-pictures
	$(Q)labs/tools/measure $(programs)

.PHONY: compare
compare: build/compare ##4 two records as a table: A=x.json B=y.json [OUT=COMPARE.md]
	$(Q)build/compare $(A) $(B) $(if $(OUT),--out $(OUT))

# ---- The search of chapter 14 ---------------------------------------------------------------------

.PHONY: tune
tune: build/ch14_search build/libworkbench.a build/hashes.tsv build/ptxsim/libcudart.so.13 ##4 search chapter 14's knobs (TUNE='--budget 100')
	$(Q)build/ch14_search --jobs $$(nproc) $(TUNE)

# ---- The simulator's profile and speed ------------------------------------------------------------

# The lines of chapter N's kernel with what the simulator counted there; chapter 20's asks a cache.
profile_shape = $(or $(profile_shape_$(1)),mission)
profile_shape_20 := 1x2x512q4p16
define profile
.PHONY: profile$(1)
profile$(1): build/profile build/ptxsim/libcudart.so.13 build/$(2)
	$(Q)build/profile build/$(2) --shapes $(call profile_shape,$(1)) --seeds 0 --no-timing --quiet 2>build/profile.log || \
	    { cat build/profile.log >&2; exit 1; }
endef
$(foreach n,$(numbers),$(foreach p,$(filter $(cuda_programs),$(call judged,$n)),$(eval $(call profile,$n,$p))))

profiled := $(foreach n,$(numbers),$(if $(filter $(cuda_programs),$(call judged,$n)),$n))
$(if $(call wrong,profile,$(profiled)),$(error there is no kernel to profile in chapter \
    $(patsubst profile%,%,$(call wrong,profile,$(profiled))): the chapters are $(call in_order,$(profiled))))

# A page of one CTA of each chapter's kernel, step by step: build/films/chapter4.html. Three key tiles; where the ring has
# more buffers, or the tiles are larger, so many that the ring goes round.
films := $(foreach n,$(profiled),build/films/chapter$n.html)
film_shape = $(or $(film_shape_$(1)),1x1x96)
film_shape_9 := 1x1x128
film_shape_14 := 1x1x384
film_shape_15 := 1x1x384
film_shape_16 := 1x1x384
film_shape_17 := 1x1x1024
film_shape_19 := 1x1x128
film_shape_20 := 1x1x300q4p32
define film
build/films/chapter$(1).html: build/profile build/ptxsim/libcudart.so.13 build/$(2) $(wildcard code/film/*)
	$(say) FILM $$@
	$(Q)mkdir -p $$(@D) && { build/profile --film $$@ build/$(2) --shapes $(call film_shape,$(1)) --seeds 0 --no-timing --quiet 2>build/film.log || \
	    { cat build/film.log >&2; exit 1; }; }
endef
$(foreach n,$(profiled),$(eval $(call film,$n,$(filter $(cuda_programs),$(call judged,$n)))))
.PHONY: films
films: $(films) ##1 pages to watch the kernels in: build/films/chapter4.html

# The ten loads that "An SM in six pages" counts.
.PHONY: banks
banks: build/profile build/ptxsim/libcudart.so.13 build/tests/code/ptxsim/test/banks ##1 the wavefronts of ten loads: An SM in six pages
	$(Q)build/profile --lines 12 build/tests/code/ptxsim/test/banks

.PHONY: bench-sim
bench-sim: build/bench-sim build/ptxsim/libcudart.so.13 build/ch02_scalar build/ch03_wmma_qk ##4 the simulator's time and memory for chapters 2 and 3
	$(Q)build/bench-sim

# ---- The book ------------------------------------------------------------------------------------

book_inputs := book.md code/workbench/workbench.h code/ptxsim/test/banks.cu $(filter-out code/literate/site,$(wildcard chapters/*.md chapters/solutions/*.md chapters/*.bib chapters/*.tsv code/literate/* code/literate/weave/* plots/*.svg plots/*.md plots/runs/*/*.json plots/runs/simulator/*.txt))
draft := $(if $(DRAFT),-draft)
pdf := build/attention-in-stages$(draft).pdf
.PHONY: book book-html book-student book-student-html book-teacher book-teacher-html
book: $(pdf) ##2 the PDF: build/attention-in-stages.pdf
book-html: build/site$(draft)/index.html ##2 a page a chapter, build/site/, and one page of all
book-student: build/attention-in-stages-student$(draft).pdf ##2 the PDF without solutions and hints
book-student-html: build/site-student$(draft)/index.html ##2 the same as build/site-student/
book-teacher: build/attention-in-stages-teacher$(draft).pdf ##2 the PDF with all solutions and model answers
book-teacher-html: build/site-teacher$(draft)/index.html ##2 the same as build/site-teacher/

# One text in three editions; a site is cut from the one page, with the films that there are or will be.
there := $(if $(filter films,$(MAKECMDGOALS)),$(films),$(wildcard $(films)))
define edition
build/attention-in-stages$(1)$(draft).pdf build/attention-in-stages$(1)$(draft).html: \
build/attention-in-stages$(1)$(draft).%: $(book_inputs) build/tangle.stamp build/hashes.tsv | $(setup)
	$(say) BOOK $$@
	$(Q)AUDIENCE=$(1:-%=%) code/literate/book $$* $$@
build/site$(1)$(draft)/index.html: build/attention-in-stages$(1)$(draft).html $(wildcard code/literate/site/*) $(there)
	$(Q)texlua code/literate/site/cut.lua $$< $$(@D) build/films
endef
$(foreach e,all -student -teacher,$(eval $(call edition,$(filter -%,$e))))

# One lab's sheet: points, tasks, questions.
handout%: $(book_inputs) build/tangle.stamp build/hashes.tsv | $(setup)
	$(say) SHEET build/handouts/lab$(call two,$*).pdf
	$(Q)HANDOUT=$* code/literate/book pdf build/handouts/lab$(call two,$*).pdf

# ---- Tests ---------------------------------------------------------------------------------------

# The C tests run under the address and undefined-behaviour sanitizers; a CUDA test in the simulator.
# With -O1 the compiler takes twice as long, for tests that are over in seconds.
sanitize := -Og -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
san_objects = $(patsubst %.c,build/san/%.o,$(1))
c_tests := $(patsubst %.c,build/tests/%,$(wildcard code/*/test_*.c code/*/test/test_*.c))
cuda_tests := $(patsubst %.cu,build/tests/%,$(wildcard code/*/test_*.cu code/*/test/test_*.cu))
bats_tests := $(wildcard code/*/test_*.bats code/*/test/test_*.bats plots/test_*.bats labs/test/test_*.bats code/test_*.bats)
# The long ones begin first, where run-tests.sh has not yet seen how long each takes.
long_tests := $(wildcard code/test_make.bats labs/test/test_grade.bats labs/test/test_check.bats labs/test/test_grade_cache.bats \
                         labs/test/test_replay.bats code/ptxsim/test/test_film.bats code/literate/test_weave.bats \
                         code/literate/test_solutions.bats code/ptxsim/test/test_races.bats \
                         code/test_search.bats code/test_stages.bats)

# GCC 13 and 14 put a frame whose use after return they watch for 32 bytes beside where its 64-byte
# vectors have to be: a frame of 736 bytes, say, which only on the real stack is moved to fit.
build/san/%avx512.o: private sanitize += --param asan-use-after-return=0

# What runs for many seconds is optimised all the same: it is compiled in one more.
$(patsubst %,build/san/code/workbench/%.o,test_workbench reference inputs gates): private sanitize += -O2

build/san/flags: force
	@mkdir -p $(@D); echo '$(sanitize) -fPIC' | cmp -s - $@ || echo '$(sanitize) -fPIC' >$@
build/san/%.o: %.c build/flags build/san/flags build/cuda
	$(say) CC "$< (sanitized)"
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(sanitize) -fPIC -Icode -isystem build/cuda/include -MMD -MP -c $< -o $@

# Archives, so that the linker takes only the objects that a test uses; q, for folders have files of one name.
build/san/libworkbench.a: $(call san_objects,$(workbench))
	$(Q)rm -f $@ && $(AR) rcs $@ $^
build/san/libptxsim.a: $(call san_objects,$(ptxsim))
	$(Q)rm -f $@ && $(AR) qcs $@ $^

# The simulator under the sanitizers, for whole programs (test_sanitized.bats).
build/san/libcudart.so.13: $(call san_objects,$(ptxsim)) code/ptxsim/cudart/libcudart.map
	$(say) LD $@
	$(Q)$(CC) $(sanitize) -shared -Wl,-soname,libcudart.so.13 -Wl,--version-script=code/ptxsim/cudart/libcudart.map \
	    $(filter %.o,$^) -lm -lpthread -ldl -o $@

$(c_tests): build/tests/%: build/san/%.o
	$(Q)mkdir -p $(@D) && $(CC) $(sanitize) $(take) $(filter-out %.ptx,$^) -lcmocka $(LIBS) -o $@
# Kernels that these two read when they run.
$(addprefix build/tests/code/ptxsim/test/,test_interp test_sync): $(wildcard code/ptxsim/test/ptx/*.ptx)
$(filter build/tests/code/workbench/% build/tests/code/image/%,$(c_tests)): build/san/libworkbench.a
# A library that answers for NVML, opened by the test and not linked.
build/tests/code/workbench/test_workbench: | build/tests/nvml.so
build/tests/nvml.so: code/workbench/fixtures/nvml.c build/flags
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) -shared -fPIC $< -o $@
$(filter build/tests/code/ptxsim/%,$(c_tests)): build/san/libptxsim.a
# The instruction sets are weak symbols (choose.c), for which the linker takes no object from an archive.
$(filter build/tests/code/ptxsim/%,$(c_tests)): private take := $(patsubst %,-Wl$(comma)-u$(comma)ops_%,base avx2 avx512)

# Tests of libraries have many kernels: they are compiled as PTX only, which driver and simulator take.
# nvcc's -O is the host's: of kernels it makes the same.
test_flags = $(NVCC_FLAGS)
quick_host := $(patsubst -O3,-O0,$(KERNEL_FLAGS)) $(lean)
ptx_only = $(quick_host) --compress-mode=none -gencode arch=compute_89,code=compute_89
%/test_math %/test_sparse %/test_libraries %/test_programs %/test_kernels %/test_cache %/test_streams: test_flags = $(ptx_only)
%/test_hopper: test_flags = $(quick_host) --compress-mode=none -gencode arch=compute_90a,code=compute_90a
%/test_debug: test_flags = $(filter-out -lineinfo,$(ptx_only)) -G
$(cuda_tests): build/tests/%: %.cu build/libworkbench.a build/flags build/cuda
	$(say) NVCC $<
	$(Q)mkdir -p $(@D) && build/cuda/bin/nvcc $(test_flags) -MMD -MP -MF $@.d -MT $@ -c $< -o $@.o
	$(Q)$(CXX) $@.o $(filter %.o,$^) build/libworkbench.a -lcmocka $(LIBS) -Wl,-rpath,'$$ORIGIN/../../../../ptxsim:$$ORIGIN/../../../ptxsim' $(CUDA_LIBS) -o $@

# The operators of PyTorch: their C side in the simulator, and all of them in a fresh environment.
$(filter build/tests/code/torch/%,$(cuda_tests)): build/obj/code/torch/cpu.o
.PHONY: test-torch
test-torch: ##5 code/torch in a fresh environment with PyTorch (3 GB)
	$(Q)rm -rf build/torch && mkdir -p build/torch && python3 -m venv build/torch/venv
	$(Q)build/torch/venv/bin/pip install -q code/torch[test]
	$(Q)cd build/torch && venv/bin/python -m pytest -q -p no:cacheprovider ../../code/torch/test ../../labs/test/test_exchange.py

# libFuzzer on the loader, the parser and the decoder; its corpus's damaged copies are in test_fuzz.
fuzzed := code/ptxsim/test/fuzz/fuzz.c $(image) $(call sources,code/ptxsim/parse) $(call sources,code/ptxsim/decode)
build/fuzz/fuzz: $(fuzzed) $(call objects,$(ptxsim)) build/flags
	$(say) CLANG $@
	$(Q)mkdir -p $(@D)/corpus && clang -std=c11 -D_GNU_SOURCE -g -O1 -w -fsanitize=fuzzer,address,undefined \
	    -fno-sanitize-recover=undefined -Icode $(fuzzed) \
	    $(filter-out $(call objects,$(fuzzed)),$(call objects,$(ptxsim))) -l:libjansson.a -lm -lpthread -ldl -o $@
SECONDS ?= 600
.PHONY: fuzz
fuzz: build/fuzz/fuzz ##5 fuzz the simulator's loader and parser (SECONDS=600)
	$(Q)cd build/fuzz && ./fuzz -max_total_time=$(SECONDS) -timeout=10 -rss_limit_mb=1500 -max_len=32768 \
	    -dict=../../code/ptxsim/test/fuzz/dictionary -print_final_stats=1 corpus ../../code/ptxsim/test/fuzz/corpus

# What test_counts and test_banks count: PTX only, for the simulator.
counted := $(addprefix build/tests/code/ptxsim/test/,micro_kernels banks)
$(counted): build/tests/%: %.cu build/flags build/cuda
	$(say) NVCC $<
	$(Q)mkdir -p $(@D) && build/cuda/bin/nvcc $(quick_host) --compress-mode=none -cudart shared \
	    -gencode arch=compute_89,code=compute_89 $< -o $@
build/tests/code/ptxsim/test/test_counts: | build/tests/code/ptxsim/test/micro_kernels build/ptxsim/libcudart.so.13

# Every opcode and random programs, compared with a GPU's record (code/ptxsim/test/coverage/).
coverage := build/tests/coverage
$(coverage)/generate $(coverage)/compare: $(coverage)/%: code/ptxsim/test/coverage/%.c code/ptxsim/ops/operations.def code/ptxsim/decode/opcodes.def build/flags
	$(say) CC $<
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $< -lm -o $@
$(coverage)/include/opcodes.inc: $(coverage)/generate
	$(Q)mkdir -p $(@D) && $< kernels >$@
# PTX only, for the simulator; the driver of a GPU that is to be recorded compiles it, too.
$(coverage)/coverage: code/ptxsim/test/coverage/coverage.cu $(coverage)/include/opcodes.inc build/flags build/cuda
	$(say) NVCC $<
	$(Q)build/cuda/bin/nvcc -std=c++20 -O0 $(lean) -I$(coverage)/include --compress-mode=none -cudart shared \
	    -gencode arch=compute_89,code=compute_89 $< -o $@
# Today's table of opcodes, committed so that it can be read; a test compares the two.
.PHONY: opcodes
opcodes: $(coverage)/generate ##5 write the table of PTX opcodes that the simulator runs
	$(Q)$< table >code/ptxsim/test/coverage/opcodes.tsv

-include $(wildcard build/san/code/*/*.d build/san/code/*/*/*.d build/san/code/*/*/*/*.d build/tests/code/*/*.d build/tests/code/*/*/*.d)

.PHONY: test tests
tests: $(setup) all planted answers $(c_tests) $(cuda_tests) $(coverage)/coverage $(coverage)/compare build/san/libcudart.so.13
test: tests ##5 run every test; the last line is "N passed, N failed"
	$(Q)code/run-tests.sh $(long_tests) $(filter-out $(long_tests),$(bats_tests) $(cuda_tests) $(c_tests))

# After an edit: the programs, tangled and right in the simulator, and what drives them.
.PHONY: test-quick
quick_tests = $(shell grep -lE '^\# bats (test|file)_tags=quick' $(bats_tests))
test-quick: all ##5 two minutes of it: programs, labs, tangle, charts
	$(Q)TAGS=quick code/run-tests.sh $(quick_tests)

.PHONY: lint
lint: ##5 clang-format, shellcheck and luacheck (a part of make test)
	$(Q)code/lint

# ---- The rest ------------------------------------------------------------------------------------

.PHONY: clean help
clean: ##5 remove build/ and ./labN
	$(Q)rm -rf build $(wildcard lab[0-9] lab[0-9][0-9])

# A target's line stands behind its ##, with the number of its group; those of patterns stand here.
#chapterN: ##1 build chapter N's program and its lab: then type ./labN
#labN: ##1 the same, and run the lab
#starterN: ##1 your working copy of lab N, in labs/work/ (FORCE=1: afresh)
#profileN: ##1 chapter N's lines with what the simulator counts there
#handoutN: ##2 lab N's sheet for print: build/handouts/labNN.pdf
#gradescopeN: ##3 lab N's autograder: build/gradescope/labNN.zip (SECRET=FILE)
#checklistN: ##5 the same of stage N alone
help: ##5 this list
	@group() { echo "$$2"; sed -nE "s/^#?([a-zA-Z-]+):[^#]*##$$1 (.*)/\1\t\2/p" $(firstword $(MAKEFILE_LIST)) | \
	    sort -f | awk -F'\t' '{ printf "  make %-12s %s\n", $$1, $$2 }'; }; \
	group 1 "A chapter and its lab"; group 2 "The book"; group 3 "Grading"; \
	group 4 "Measuring, and what is made of it"; group 5 "Working on it"
	@echo "V=1 shows the commands; CUDA_HOME chooses a toolkit (CUDA 13);"
	@echo "BUILD=dir works in a copy of the sources in dir;"
	@echo "DEBUG_PRINT=1 lets kernels print; DRAFT=1 sets a book with stale numbers in red."
endif # of make BUILD=dir
