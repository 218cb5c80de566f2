# The tests, compiled by kind; make test; checks of style.

# C tests run under the address and undefined-behaviour sanitizers; CUDA tests run in the simulator.
# Tests run for seconds only, and -O1 would double their compilation.
sanitize := -Og -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
san_objects = $(patsubst %.c,build/san/%.o,$(1))
c_tests := $(patsubst %.c,build/tests/%,$(wildcard code/*/test_*.c code/*/test/test_*.c labs/test/test_*.c))
cuda_tests := $(patsubst %.cu,build/tests/%,$(wildcard code/*/test_*.cu code/*/test/test_*.cu))
bats_tests := $(wildcard code/*/test_*.bats code/*/test/test_*.bats plots/test_*.bats labs/test/test_*.bats)
# These tests take long: they begin first, even if run-tests does not know yet how long each takes.
long_tests := $(wildcard code/test/test_make.bats labs/test/test_grade.bats labs/test/test_check.bats labs/test/test_grade_cache.bats \
                         labs/test/test_replay.bats code/ptxsim/test/test_film.bats code/literate/test_weave.bats \
                         code/literate/test_solutions.bats code/ptxsim/test/test_races.bats \
                         code/test/test_search.bats code/test/test_stages.bats)

# GCC 13 and 14 misalign 64-byte vectors by 32 bytes in some frames (of 736 bytes, for example) that
# are checked for use after return: ASan keeps such frames outside of the stack; on the real stack
# they are aligned.
build/san/%avx512.o: private sanitize += --param asan-use-after-return=0

# Sanitized tests that would run for many seconds are optimised, which takes a second more to
# compile.
$(patsubst %,build/san/code/workbench/%.o,test_workbench reference reference_avx512 inputs gates): private sanitize += -O2

build/san/flags: force
	@mkdir -p $(@D); echo '$(sanitize) -fPIC' | cmp -s - $@ || echo '$(sanitize) -fPIC' >$@
build/san/%.o: %.c build/flags build/san/flags build/cuda
	$(say) CC "$< (sanitized)"
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(sanitize) -fPIC -Icode -isystem build/cuda/include -MMD -MP -c $< -o $@

# Sanitized tests get only the instruction sets of this processor: they can choose no other, and each
# set takes a quarter of a minute to compile.
sets_here := base $(if $(filter avx2 avx512,$(isa)),avx2) $(filter avx512,$(isa))
sets_elsewhere := $(filter-out $(sets_here),avx2 avx512)
san_ptxsim := $(filter-out $(sets_elsewhere:%=code/ptxsim/ops/isa/%.c),$(ptxsim))

# These are archives, so that the linker takes only the objects that a test uses. `q` keeps files of
# the same name from different folders.
build/san/libworkbench.a: $(call san_objects,$(workbench))
	$(Q)rm -f $@ && $(AR) rcs $@ $^
build/san/libptxsim.a: $(call san_objects,$(san_ptxsim))
	$(Q)rm -f $@ && $(AR) qcs $@ $^

# The simulator under the sanitizers, for whole programs (test_sanitized.bats).
build/san/libcudart.so.13: $(call san_objects,$(san_ptxsim)) code/ptxsim/cudart/libcudart.map
	$(say) LD $@
	$(Q)$(CC) $(sanitize) -shared -Wl,-soname,libcudart.so.13 -Wl,--version-script=code/ptxsim/cudart/libcudart.map \
	    $(filter %.o,$^) -lm -lpthread -ldl -o $@

$(c_tests): build/tests/%: build/san/%.o
	$(Q)mkdir -p $(@D) && $(CC) $(sanitize) $(take) $(filter-out %.ptx,$^) -lcmocka $(LIBS) -o $@
# Kernels that these two tests read at run time.
$(addprefix build/tests/code/ptxsim/test/,test_interp test_sync): $(wildcard code/ptxsim/test/ptx/*.ptx)
$(filter build/tests/code/workbench/% build/tests/code/image/%,$(c_tests)): build/san/libworkbench.a
# A stand-in for NVML, which the test opens at run time.
build/tests/code/workbench/test_workbench: | build/tests/nvml.so
build/tests/nvml.so: code/workbench/fixtures/nvml.c build/flags
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) -shared -fPIC $< -o $@
$(filter build/tests/code/ptxsim/%,$(c_tests)): build/san/libptxsim.a
build/san/libmodel.a: $(call san_objects,$(model) $(call sources,code/host))
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(filter build/tests/code/model/%,$(c_tests)): build/san/libmodel.a build/san/libworkbench.a | $(model_programs:%=build/%)
$(filter build/tests/code/model/%,$(c_tests)): LIBS := $(MODEL_LIBS) $(LIBS)
$(filter build/tests/code/model/%,$(c_tests)): private take := -Wl,--wrap=fail
build/tests/labs/test/test_spoil: build/san/labs/judge/spoil.o build/san/libworkbench.a
# The instruction sets (choose.c) and the extra instructions (decode/opcodes.c) are weak symbols;
# for these the linker takes no object from an archive unless -u names them.
$(filter build/tests/code/ptxsim/%,$(c_tests)): private take := $(patsubst %,-Wl$(comma)-u$(comma)%,$(sets_here:%=ops_%) extra_instructions)

# Tests of libraries have many kernels. These are compiled to PTX only, which the driver and the
# simulator accept; nvcc's -O is for the host, and does not change kernels.
test_flags = $(NVCC_FLAGS)
quick_host := $(patsubst -O3,-O0,$(KERNEL_FLAGS)) $(lean)
ptx_only = $(quick_host) --compress-mode=none -gencode arch=compute_89,code=compute_89
%/test_math %/test_sparse %/test_libraries %/test_programs %/test_kernels %/test_cache %/test_prompt %/test_streams: test_flags = $(ptx_only)
%/test_hopper: test_flags = $(quick_host) --compress-mode=none -gencode arch=compute_90a,code=compute_90a
%/test_debug: test_flags = $(filter-out -lineinfo,$(ptx_only)) -G
$(cuda_tests): build/tests/%: %.cu build/libworkbench.a build/flags build/cuda
	$(say) NVCC $<
	$(Q)mkdir -p $(@D) && build/cuda/bin/nvcc $(test_flags) -MMD -MP -MF $@.d -MT $@ -c $< -o $@.o
	$(Q)$(CXX) $@.o $(filter %.o,$^) build/libworkbench.a -lcmocka $(LIBS) -Wl,-rpath,'$$ORIGIN/../../../../ptxsim:$$ORIGIN/../../../ptxsim' $(CUDA_LIBS) -o $@

# The PyTorch operators. Their C side is tested in the simulator, like other CUDA tests; test-torch
# tests all of it in a fresh environment of Python.
$(filter build/tests/code/torch/%,$(cuda_tests)): build/obj/code/torch/cpu.o
.PHONY: test-torch
test-torch: ##5 code/torch in a fresh environment with PyTorch (3 GB)
	$(Q)rm -rf build/torch && mkdir -p build/torch && python3 -m venv build/torch/venv
	$(Q)build/torch/venv/bin/pip install -q code/torch[test]
	$(Q)cd build/torch && venv/bin/python -m pytest -q -p no:cacheprovider ../../code/torch/test ../../labs/test/test_exchange.py

# Triton's kernels, from Python. The wheels are installed once for each version of Triton; compiled
# kernels are kept.
triton := build/triton/3.9.0
$(triton)/bin/pytest:
	$(say) PIP "Triton $(notdir $(triton)): 290 MB to load, 1.1 GB on disk"
	$(Q)rm -rf $(triton) && python3 -m venv $(triton) && \
	    $(triton)/bin/pip install -q --disable-pip-version-check triton==$(notdir $(triton)) numpy ml_dtypes pytest
.PHONY: test-triton
test-triton: build/ptxsim/libptxsim.so build/ptxsim/libcudart.so.13 $(triton)/bin/pytest ##5 ptxsim's door for Python, with Triton (1.1 GB)
	$(Q)PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$$PWD/code/ptxsim/python TRITON_CACHE_DIR=$$PWD/build/triton/cache \
	    $(triton)/bin/python -m pytest -q -p no:cacheprovider -p ptxsim.pytest_plugin code/ptxsim/python/test

# code/tools/fuzz runs libFuzzer on the loader, the parser and the decoder; test_fuzz runs damaged
# copies of its corpus.
fuzzed := code/ptxsim/test/fuzz/fuzz.c $(image) $(call sources,code/ptxsim/parse) $(foreach f,decode decode/extra,$(call sources,code/ptxsim/$f))
build/fuzz/fuzz: $(fuzzed) $(call objects,$(ptxsim)) build/flags
	$(say) CLANG $@
	$(Q)mkdir -p $(@D)/corpus && clang -std=c11 -D_GNU_SOURCE -g -O1 -w -fsanitize=fuzzer,address,undefined \
	    -fno-sanitize-recover=undefined -Icode $(fuzzed) \
	    $(filter-out $(call objects,$(fuzzed)),$(call objects,$(ptxsim))) -l:libjansson.a -lm -lpthread -ldl -o $@

# The kernels of test_counts and test_banks: PTX only, for the simulator.
counted := $(addprefix build/tests/code/ptxsim/test/,micro_kernels banks)
$(counted): build/tests/%: %.cu build/flags build/cuda
	$(say) NVCC $<
	$(Q)mkdir -p $(@D) && build/cuda/bin/nvcc $(quick_host) --compress-mode=none -cudart shared \
	    -gencode arch=compute_89,code=compute_89 $< -o $@
build/tests/code/ptxsim/test/test_counts: | build/tests/code/ptxsim/test/micro_kernels build/ptxsim/libcudart.so.13

# Every opcode, and random programs, compared with a record from a GPU (code/ptxsim/test/coverage/).
coverage := build/tests/coverage
$(coverage)/generate $(coverage)/compare: $(coverage)/%: code/ptxsim/test/coverage/%.c code/ptxsim/ops/operations.def code/ptxsim/decode/opcodes.def code/ptxsim/decode/extra/opcodes.def build/flags
	$(say) CC $<
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $< -lm -o $@
$(coverage)/include/opcodes.inc: $(coverage)/generate
	$(Q)mkdir -p $(@D) && $< kernels >$@
# PTX only, for the simulator; to record a GPU, its driver compiles the PTX.
$(coverage)/coverage: code/ptxsim/test/coverage/coverage.cu $(coverage)/include/opcodes.inc build/flags build/cuda
	$(say) NVCC $<
	$(Q)build/cuda/bin/nvcc -std=c++20 -O0 $(lean) -I$(coverage)/include --compress-mode=none -cudart shared \
	    -gencode arch=compute_89,code=compute_89 $< -o $@

-include $(wildcard build/san/code/*/*.d build/san/code/*/*/*.d build/san/code/*/*/*/*.d build/tests/code/*/*.d build/tests/code/*/*/*.d)

.PHONY: test tests
tests: $(setup) all planted answers $(c_tests) $(cuda_tests) $(coverage)/coverage $(coverage)/compare build/san/libcudart.so.13
test: tests ##5 run every test; the last line is "N passed, N failed"
	$(Q)code/tools/run-tests $(long_tests) $(filter-out $(long_tests),$(bats_tests) $(cuda_tests) $(c_tests))

# For use after an edit: tests that the programs are tangled and right in the simulator, and tests the
# tools that drive them.
.PHONY: test-quick
quick_tests = $(shell grep -lE '^\# bats (test|file)_tags=quick' $(bats_tests))
test-quick: all ##5 two minutes of it: programs, labs, tangle, charts
	$(Q)TAGS=quick code/tools/run-tests $(quick_tests)

.PHONY: lint
lint: ##5 clang-format, shellcheck and luacheck (a part of make test)
	$(Q)code/tools/lint
