# The tools: compilers' flags, what is installed for each goal, the toolkit, and how C is compiled.

# ---- Flags ---------------------------------------------------------------------------------------

# Compilation should be short: -O1 and line numbers for what runs once, more optimisation for what
# runs often (OPT below).
CFLAGS = -std=c11 -D_GNU_SOURCE -O1 -g1 -Wall -Wextra $(strict)
# The chapters' C programs are optimised: the first one computes for two seconds.
PROGRAM_CFLAGS = $(CFLAGS) -O2
# Warnings are errors with CI's compiler, GCC 12. Other versions warn about other things, and a
# reader's build must not fail. The compiler's version is asked for when it is first needed: by then
# it is installed.
strict = $(eval strict := $(if $(filter 12,$(shell $(CC) -dumpversion 2>/dev/null)),-Werror))$(strict)
LIBS := -l:libjansson.a -lm -lpthread -ldl
MODEL_LIBS := -l:libpcre2-8.a

# These flags belong to a measurement: they are part of a program's source_hash.
KERNEL_FLAGS := -std=c++20 -O3 -lineinfo -Icode
# The special functions of C++17, which <cmath> includes, take a sixth of the compilation. None of
# our programs uses them, and defining their header's guard leaves them out. A student's program may
# need them.
lean := -D_GLIBCXX_BITS_SPECFUN_H
NVCC_COMMON := $(KERNEL_FLAGS) -Xcompiler -Wall,-Wextra,-Wno-missing-field-initializers --compress-mode=none
# A program's executable serves an L4, an H200, the simulator (by its PTX), and this machine's GPU.
# Its run path leads to the real runtime; LD_LIBRARY_PATH=build/ptxsim overrides that.
# chapters/stages.tsv lists the images of a chapter's programs (mk/programs.mk); the PTX of the first
# image is included.
comma := ,
arch = $(patsubst sm_%,%,$(1))
# Images that are also in $(2) are made from the first image's PTX; the others from PTX of their
# own.
gencode = -gencode arch=compute_$(call arch,$(firstword $(1)))$(comma)code=[$(firstword $(1))$(comma)$(2:%=%$(comma))$(call ptx,$(1))] \
    $(foreach i,$(filter-out $(2),$(wordlist 2,9,$(1))),-gencode arch=compute_$(call arch,$i)$(comma)code=$i)
ptx = compute_$(call arch,$(firstword $(1)))
nvcc_flags = $(strip $(NVCC_COMMON) $(call gencode,$(call images,$(1))))
# None of the book's programs depends on the GPU that it is compiled for: machine code for sm_90
# made from sm_89's PTX is the same (code/test/test_stages.bats), and saves a quarter of the
# compilation. A student's program may depend on it.
book_flags = $(strip $(NVCC_COMMON) $(lean) $(call gencode,$(call images,$(1)),$(filter sm_90,$(wordlist 2,9,$(call images,$(1))))))
NVCC_FLAGS := $(strip $(NVCC_COMMON) $(lean) $(call gencode,sm_89 sm_90))
CUDA_LIBS := -Lbuild/cuda/lib64 -lcudart -Wl,--enable-new-dtags,-rpath,'$$ORIGIN/cuda/lib64' \
             -Wl,-rpath,'$$ORIGIN/../cuda/lib64'

# An image for this machine's GPU, if its compute capability is neither 89 nor 90, and at least
# $(1); if $(1) is -, none.
native = native=; mkdir -p $(@D); gpu=$(if $(filter -,$(1)),,$$(cat build/gpu)); \
    if [ -n "$$gpu" ] && [ $$gpu != 89 ] && [ $$gpu != 90 ] && [ $$gpu -ge $(1) ]; then \
        native="-gencode arch=compute_$$gpu,code=sm_$$gpu"; fi;

# ---- Setting up ----------------------------------------------------------------------------------

# code/tools/deps installs missing tools before anything is compiled. The goals decide which: those
# for a chapter; also the grader's; also bats; only the book's (no compiler); or all.
wants_all := $(filter test tests site,$(MAKECMDGOALS))
wants_grader := $(filter all runs mutants checklist grade check-labs check-grader build/judge,$(MAKECMDGOALS))
wants_book := $(filter book book-% handout%,$(MAKECMDGOALS))
others := $(filter-out $(wants_book),$(MAKECMDGOALS))
setup := build/deps-$(strip $(if $(wants_all),all,$(if $(wants_book),$(if $(others),all,book),\
    $(if $(filter test-quick,$(MAKECMDGOALS)),quick,$(if $(wants_grader),grade,chapter)))))

build/deps-chapter build/deps-grade build/deps-quick build/deps-book build/deps-all: build/deps-%: code/tools/deps
	$(call one_line,code/tools/deps $*)
	$(Q)mkdir -p build && touch $@
# Runs a script, unless make only prints commands (-n). If the script fails, make ends with only the
# line that it printed.
only_says = $(findstring n,$(filter-out -%,$(firstword $(MAKEFLAGS))))
one_line = $(if $(only_says),,$(eval said := $(shell { $(1); } 3>&2 2>&1 >&3))$(if $(filter 0,$(.SHELLSTATUS)),,$(error $(said))))

.PHONY: deps
deps: ##5 install what is missing, NVIDIA's compiler too
	$(call one_line,code/tools/deps all)
	@echo "everything is there"

# The toolkit, as a link, so that compiler, headers and runtime are found in one place. It is made
# again if CUDA_HOME names another toolkit; all that was compiled with the old one is then older
# than build/flags.
other_toolkit = $(if $(CUDA_HOME),$(filter-out $(realpath build/cuda/bin/nvcc),$(or $(realpath $(CUDA_HOME)/bin/nvcc),none)))
build/cuda: $(if $(other_toolkit),force) | $(setup)
	$(call one_line,mkdir -p build && root=$$(code/tools/find-nvcc) && { [ "$$root" = "$$(readlink $@)" ] || \
	    { ln -sfn "$$root" $@ && { [ ! -e build/flags ] || touch build/flags; }; }; })

# The compute capability of this machine's GPU, 89 for 8.9; empty: there is none.
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
