# What compiles: the flags, what is installed for which goal, the toolkit in use, and how C becomes an object.

# ---- Flags ---------------------------------------------------------------------------------------

# Compiled in a minute counts here: -O1 and line numbers for what runs once, more for what runs often (OPT below).
CFLAGS = -std=c11 -D_GNU_SOURCE -O1 -g1 -Wall -Wextra $(strict)
# The chapters' C programs: the first computes for two seconds.
PROGRAM_CFLAGS = $(CFLAGS) -O2
# A warning is an error with CI's compiler, GCC 12. Others warn of other things, and a reader's build goes on. Asked
# for when it is first needed: only then is it sure to be installed.
strict = $(eval strict := $(if $(filter 12,$(shell $(CC) -dumpversion 2>/dev/null)),-Werror))$(strict)
LIBS := -l:libjansson.a -lm -lpthread -ldl
MODEL_LIBS := -l:libpcre2-8.a

# These belong to a measurement: they go into a program's source_hash.
KERNEL_FLAGS := -std=c++20 -O3 -lineinfo -Icode
# The special functions of C++17 are a sixth of the compiling. <cmath> brings them; no program of ours has a use for
# them, and with their header's guard defined they stay out. A student's program may want what they bring, too.
lean := -D_GLIBCXX_BITS_SPECFUN_H
NVCC_COMMON := $(KERNEL_FLAGS) -Xcompiler -Wall,-Wextra,-Wno-missing-field-initializers --compress-mode=none
# One executable for an L4, an H200 and (as PTX) the simulator, and for the GPU at hand. The
# run path lets it find the real runtime; LD_LIBRARY_PATH=build/ptxsim comes first.
# Which images a chapter's programs have stands in chapters/stages.tsv (mk/programs.mk); of the first, the PTX too.
comma := ,
arch = $(patsubst sm_%,%,$(1))
# Images named in $(2), too, are made from the first's PTX; the others from PTX of their own.
gencode = -gencode arch=compute_$(call arch,$(firstword $(1)))$(comma)code=[$(firstword $(1))$(comma)$(2:%=%$(comma))$(call ptx,$(1))] \
    $(foreach i,$(filter-out $(2),$(wordlist 2,9,$(1))),-gencode arch=compute_$(call arch,$i)$(comma)code=$i)
ptx = compute_$(call arch,$(firstword $(1)))
nvcc_flags = $(strip $(NVCC_COMMON) $(call gencode,$(call images,$(1))))
# The book's programs ask nowhere which GPU they are compiled for: sm_90's code made from sm_89's PTX is the same
# (code/test/test_stages.bats), and takes a quarter less of the compiling. A student's program may ask.
book_flags = $(strip $(NVCC_COMMON) $(lean) $(call gencode,$(call images,$(1)),$(filter sm_90,$(wordlist 2,9,$(call images,$(1))))))
NVCC_FLAGS := $(strip $(NVCC_COMMON) $(lean) $(call gencode,sm_89 sm_90))
CUDA_LIBS := -Lbuild/cuda/lib64 -lcudart -Wl,--enable-new-dtags,-rpath,'$$ORIGIN/cuda/lib64' \
             -Wl,-rpath,'$$ORIGIN/../cuda/lib64'

# An image for the GPU at hand, where that is neither an L4 nor a Hopper and at least $(1).
native = native=; mkdir -p $(@D); gpu=$(if $(filter -,$(1)),,$$(cat build/gpu)); \
    if [ -n "$$gpu" ] && [ $$gpu != 89 ] && [ $$gpu != 90 ] && [ $$gpu -ge $(1) ]; then \
        native="-gencode arch=compute_$$gpu,code=sm_$$gpu"; fi;

# ---- Setting up ----------------------------------------------------------------------------------

# What is missing is installed before anything is compiled, as code/tools/deps has it: for a chapter, for
# the grader as well, for that and bats, for the book (no compiler), or for the tests and all else.
wants_all := $(filter test tests site,$(MAKECMDGOALS))
wants_grader := $(filter all runs mutants checklist grade check-labs check-grader build/judge,$(MAKECMDGOALS))
wants_book := $(filter book book-% handout%,$(MAKECMDGOALS))
others := $(filter-out $(wants_book),$(MAKECMDGOALS))
setup := build/deps-$(strip $(if $(wants_all),all,$(if $(wants_book),$(if $(others),all,book),\
    $(if $(filter test-quick,$(MAKECMDGOALS)),quick,$(if $(wants_grader),grade,chapter)))))

build/deps-chapter build/deps-grade build/deps-quick build/deps-book build/deps-all: build/deps-%: code/tools/deps
	$(call one_line,code/tools/deps $*)
	$(Q)mkdir -p build && touch $@
# Runs a script, unless make only says what it would do (-n). If it fails, make stops with the line
# that it printed, and no other.
only_says = $(findstring n,$(filter-out -%,$(firstword $(MAKEFLAGS))))
one_line = $(if $(only_says),,$(eval said := $(shell { $(1); } 3>&2 2>&1 >&3))$(if $(filter 0,$(.SHELLSTATUS)),,$(error $(said))))

.PHONY: deps
deps: ##5 install what is missing, NVIDIA's compiler too
	$(call one_line,code/tools/deps all)
	@echo "everything is there"

# The toolkit in use: a link, so that compiler, headers and runtime are found in one place. It is
# made again when CUDA_HOME names another one; what was compiled with the last one then is older
# than build/flags.
other_toolkit = $(if $(CUDA_HOME),$(filter-out $(realpath build/cuda/bin/nvcc),$(or $(realpath $(CUDA_HOME)/bin/nvcc),none)))
build/cuda: $(if $(other_toolkit),force) | $(setup)
	$(call one_line,mkdir -p build && root=$$(code/tools/find-nvcc) && { [ "$$root" = "$$(readlink $@)" ] || \
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

# ---- Objects -------------------------------------------------------------------------------------

sources = $(filter-out $(wildcard $(1)/test_*.c),$(wildcard $(1)/*.c))
objects = $(patsubst %.c,build/obj/%.o,$(1))

build/obj/%.o: %.c build/flags build/cuda
	$(say) CC $<
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(OPT) -fPIC -Icode -isystem build/cuda/include -MMD -MP -c $< -o $@

-include $(wildcard build/obj/*.d build/obj/*/*.d build/obj/*/*/*.d build/obj/*/*/*/*.d build/obj/*/*/*/*/*.d)
