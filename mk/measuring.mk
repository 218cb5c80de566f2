# Rules for measuring on a GPU, and for what is made of the records: runs, tune, plots.

# Kernels with one mistake each, for labs/tools/probe.
build/probes: labs/tools/probes.cu build/flags build/cuda build/gpu
	$(say) NVCC $<
	$(Q)mkdir -p build/obj/labs/tools; $(call native,80) build/cuda/bin/nvcc $(NVCC_FLAGS) $$native -c $< -o build/obj/labs/tools/probes.o
	$(Q)$(CXX) build/obj/labs/tools/probes.o $(CUDA_LIBS) -o $@

# Programs of the labs' tools, which share parts of the driver.
build/compare build/profile-ncu build/scoreboard: build/%: build/obj/labs/tools/%.o $(call objects,labs/driver/say.c labs/driver/clocks.c labs/driver/ncu.c) build/libhost.a build/libworkbench.a
	$(say) LD $@
	$(Q)$(CC) $^ $(LIBS) -o $@

# Records everything on a GPU. On a machine without Pandoc nothing is built: the built programs have
# been copied there.
.PHONY: runs plots
runs: $(if $(shell command -v pandoc),all build/ptxsim/ptxsim) ##4 on a GPU: measure all, or ONLY=stale, into plots/runs/<gpu>/
	$(Q)labs/tools/measure-pictures
	$(Q)labs/tools/measure $(programs)

# The search of chapter 14.
.PHONY: tune
tune: build/ch14_search build/libworkbench.a build/hashes.tsv build/ptxsim/libcudart.so.13 ##4 search chapter 14's knobs (TUNE='--budget 100')
	$(Q)build/ch14_search --jobs $$(nproc) $(TUNE)

# ---- Charts --------------------------------------------------------------------------------------

build/series: $(call objects,$(wildcard plots/*.c)) build/libhost.a build/libworkbench.a
	$(say) LD $@
	$(Q)$(CC) $^ $(LIBS) -o $@

plots: build/series | $(setup) ##4 the charts, tables and board in plots/ from the records
	$(call one_line,plots/render)
