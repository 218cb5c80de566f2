# Attention in Stages. `make help` lists what a reader types, `make help-all` all targets; V=1 shows
# the commands. This file refuses goals that cannot work, sets where everything is built, and
# defines `all`; the rules are in mk/, one file for each kind of product.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
# Chapters, and what the tests need, are compiled on all cores, unless -j says otherwise.
ifneq ($(filter test test-quick tests chapter% lab% profile%,$(MAKECMDGOALS)),)
ifeq ($(findstring -j,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif
endif
.DEFAULT_GOAL := help
makefiles := Makefile $(wildcard mk/*.mk)
export LC_ALL := C.UTF-8

# For make, "make chapter 3" is two goals.
digits := 0% 1% 2% 3% 4% 5% 6% 7% 8% 9%
ifneq ($(filter $(digits),$(MAKECMDGOALS)),)
$(error a number belongs to its word: make chapter3, not make chapter 3)
endif
# Goals without a rule are refused before anything is made, since other goals may take minutes.
# Allowed are files that can be made, words with a number, and phony targets.
helps := help help-all
made := build/% code/ch% $(foreach w,chapter lab starter profile handout gradescope checklist,$(addprefix $w,$(digits)))
ifneq ($(filter-out $(made),$(MAKECMDGOALS)),)
unknown := $(filter-out $(made) $(helps) $(shell sed -nE 's/^\.PHONY: //p' $(makefiles)),$(MAKECMDGOALS))
$(if $(filter %.cu %.c,$(unknown)),$(error make takes no program of yours, $(firstword $(unknown)): ./labN $(firstword $(unknown)) judges it))
$(if $(unknown),$(error there is no target $(firstword $(unknown)): make help-all lists them))
endif

# Characters that a checkout's path must not have: the shell that nvcc calls reads $ and `, ptxas
# ends a name at ", and the loader at : and ;.
unfit := $(foreach c,$$ ` " : ;,$(findstring $c,$(CURDIR)))
ifneq ($(and $(strip $(unfit)),$(filter-out $(helps),$(MAKECMDGOALS))),)
$(error the path $(CURDIR) has a $(firstword $(unfit)), which compiler and loader cannot handle: move it to a folder without)
endif

# make BUILD=dir copies the sources to dir and works there: for a shared checkout that cannot be
# written. Files in dir that are newer than the checkout's remain.
ifneq ($(if $(filter command,$(firstword $(origin BUILD))),$(BUILD)),)
goals := $(or $(MAKECMDGOALS),help)
$(goals): elsewhere
	@:
elsewhere:
	@mkdir -p '$(BUILD)' && cp -R --update --preserve=timestamps Makefile mk book.md chapters code labs plots '$(BUILD)' && \
	    chmod -R u+w '$(BUILD)' && { [ ! -d .toolkit ] || ln -sfn "$$PWD/.toolkit" '$(BUILD)'/.toolkit; }
	@echo "in $(BUILD):"
	@$(MAKE) --no-print-directory -C '$(BUILD)' BUILD= $(goals)
else
# Everything is made in build/, except the links ./labN and ./talk, a student's copies in
# labs/work/, and committed files, such as the tangled code and the charts.
ifneq ($(filter-out $(helps),$(MAKECMDGOALS)),)
ifneq ($(shell mkdir -p build 2>/dev/null && [ -w build ] && echo yes),yes)
$(error $(CURDIR)/build cannot be written: make BUILD=~/attention $(MAKECMDGOALS) works in a copy there)
endif
endif

Q := $(if $(V),,@)
say = @printf '  %-8s %s\n'

# Each file uses variables of the files before it.
include mk/toolchain.mk # flags, what is installed, objects of C
include mk/programs.mk  # chapters, tangled and compiled: chapterN, tangle
include mk/simulator.mk # the simulator's library, and what it shows: profileN, films, banks
include mk/labs.mk      # labN, starterN, gradescopeN, and the grader: grade, check-labs, check-grader
include mk/measuring.mk # records and charts: runs, tune, plots
include mk/book.mk      # book, handoutN
include mk/tests.mk     # test, test-quick, lint
include mk/variants.mk  # student, mutants, answers, checklistN

.PHONY: all
#all: ##5 build every program, tool and lab
all: $(programs:%=build/%) build/lab build/hashes.tsv build/ptxsim/libcudart.so.13 build/ptxsim/libcudart.so.12 build/ptxsim/libptxsim.so \
    $(model_programs:%=build/%) build/series build/ptxsim/ptxsim \
    build/bench-sim build/compare build/profile-ncu build/scoreboard build/probes build/judge build/runner build/clock.so
	@$(foreach n,$(lab_numbers),$(call link_lab,$n) &&) :

.PHONY: clean help help-all
clean: ##5 remove build/ and ./labN
	$(Q)rm -rf build $(wildcard lab[0-9] lab[0-9][0-9])

help: ##1 what a reader types, in ten lines
	@echo "make deps                  installs what is missing"
	@echo "make chapter4 && ./lab4    builds chapter 4's kernel and judges it"
	@echo "make starter4              your copy of it with gaps: labs/work/lab04/"
	@echo "./lab4 FILE                judges your file (--watch: whenever it is saved)"
	@echo "./lab4 --hint              one hint more for a gap that is open"
	@echo "./lab4 FILE --profile      its lines with what was counted there"
	@echo "./lab4 FILE --film F.html  a page to watch its warps in"
	@echo "make book                  the PDF (book-html: pages for a browser)"
	@echo "make test                  runs every test (test-quick: two minutes of it)"
	@echo "make help-all              the other targets, and what can be set"

# A target's help text follows ## and the number of its group; that of a pattern such as labN is in
# a comment above the pattern's rule.
help-all: ##5 this list
	@group() { echo "$$2"; sed -nE "s/^#?([a-zA-Z-]+):[^#]*##$$1 (.*)/\1\t\2/p" $(makefiles) | \
	    sort -f | awk -F'\t' '{ printf "  make %-12s %s\n", $$1, $$2 }'; }; \
	group 1 "A chapter and its lab"; group 2 "The book"; group 3 "Grading"; \
	group 4 "Measuring, and what is made of it"; group 5 "Working on it"
	@echo "V=1 shows the commands; CUDA_HOME chooses a toolkit (CUDA 13);"
	@echo "BUILD=dir works in a copy of the sources in dir;"
	@echo "DEBUG_PRINT=1 lets kernels print; DRAFT=1 sets a book with stale numbers in red."
endif # of make BUILD=dir
