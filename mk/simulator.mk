# The simulator, and what it shows of a chapter's kernel: profileN, films.

# The simulator's operations are compiled for three instruction sets, which takes longer than everything else.
# For a chapter, only the set of this machine is compiled; sets that exist already are used, too.
cpu := $(shell sed -n '/^flags/{p;q}' /proc/cpuinfo 2>/dev/null)
has = $(if $(filter-out $(cpu),$(1)),,yes)
isa := $(if $(call has,avx2 fma),$(if $(call has,avx512f avx512dq avx512bw avx512vl),avx512,avx2),base)
only_chapters := $(if $(filter-out chapter% lab% starter% profile%,$(or $(MAKECMDGOALS),help)),,yes)
there = $(wildcard build/obj/code/ptxsim/ops/isa/$(1).o)
not_here := $(if $(only_chapters),$(foreach i,$(filter-out $(isa),base avx2 avx512),$(if $(call there,$i),,$i)))
# The simulator's folders, the lowest first: each uses only those before it (code/tools/check-floors). The last
# three are for other people's programs only: a library without them runs the book's programs.
extra := ops/extra decode/extra cudart/extra
ptxsim := $(image) $(filter-out $(not_here:%=code/ptxsim/ops/isa/%.c),$(foreach f,base parse machine races ops ops/isa decode exec cudart $(extra),$(call sources,code/ptxsim/$f)))

$(call objects,$(ptxsim)): OPT := -fno-semantic-interposition -fno-math-errno -fno-trapping-math
# Functions are aligned to cache lines, so that their speed does not depend on the code before them.
$(call objects,$(filter $(foreach f,machine races ops exec,code/ptxsim/$f/%),$(ptxsim))): OPT := -O3 -falign-functions=64 $(OPT)
# The set for older processors is compiled in half the time with -O2, and then runs a tenth slower.
build/obj/code/ptxsim/ops/isa/base.o: OPT := $(patsubst -O3,-O2,$(OPT))

build/ptxsim/libcudart.so.13: $(call objects,$(ptxsim)) code/ptxsim/cudart/libcudart.map
	$(say) LD $@
	$(Q)mkdir -p $(@D) && $(CC) -shared -Wl,-soname,libcudart.so.13 -Wl,--version-script=code/ptxsim/cudart/libcudart.map \
	    -Wl,-z,defs $(filter %.o,$^) -lm -lpthread -ldl -o $@
	$(Q)ln -sf $(@F) $(@D)/libcuda.so.1 # the driver's library, too (code/ptxsim/cudart/extra/driver.c)

# The runtime for CUDA 12 programs, which passes calls on.
cudart12 := code/ptxsim/cudart12
build/ptxsim/libcudart.so.12: $(call objects,$(call sources,$(cudart12))) build/ptxsim/libcudart.so.13 $(addprefix $(cudart12)/,forward libcudart12.map)
	$(say) LD $@
	$(Q)$(cudart12)/forward build/ptxsim/libcudart.so.13 >build/ptxsim/forward.s && \
	    $(CC) -shared -Wl,-soname,$(@F) -Wl,--version-script=$(cudart12)/libcudart12.map -Wl,-z,defs $(filter %.o,$^) build/ptxsim/forward.s \
	        -L$(@D) -l:libcudart.so.13 -Wl,-rpath,'$$ORIGIN' -o $@

# A wheel of the simulator. Its build needs nothing that make has built, and compiles everything
# itself (code/ptxsim/python/build_ptxsim.py).
.PHONY: wheel
wheel: ##5 code/ptxsim as a package for pip: build/wheel/
	$(Q)rm -rf build/wheel && python3 -m pip wheel -q --no-deps --disable-pip-version-check -w build/wheel ./code/ptxsim
	@ls build/wheel/*.whl

# The simulator without a CUDA runtime, for programs in other languages (code/ptxsim/python).
capi := $(filter-out code/ptxsim/cudart/%,$(ptxsim)) $(call sources,code/ptxsim/capi)
build/ptxsim/libptxsim.so: $(call objects,$(capi)) code/ptxsim/capi/libptxsim.map
	$(say) LD $@
	$(Q)mkdir -p $(@D) && $(CC) -shared -Wl,-soname,$(@F) -Wl,--version-script=code/ptxsim/capi/libptxsim.map \
	    -Wl,-z,defs $(filter %.o,$^) -lm -lpthread -ldl -o $@

# The command ptxsim.
command := $(filter-out code/ptxsim/tool/bench-sim.c,$(wildcard code/ptxsim/tool/*.c))
build/ptxsim/ptxsim: $(call objects,$(command)) build/libhost.a build/libworkbench.a
	$(say) LD $@
	$(Q)mkdir -p $(@D) && $(CC) $^ $(LIBS) -o $@

build/bench-sim: build/obj/code/ptxsim/tool/bench-sim.o build/libhost.a build/libworkbench.a
	$(say) LD $@
	$(Q)$(CC) $^ $(LIBS) -o $@

# ---- Profile and films ---------------------------------------------------------------------------

#profileN: ##1 chapter N's lines with what the simulator counts there
define profile
.PHONY: profile$(1)
profile$(1): build/ptxsim/ptxsim build/ptxsim/libcudart.so.13 build/$(2)
	$(Q)build/ptxsim/ptxsim profile build/$(2) --shapes $(call profile_shape,$(1)) --seeds 0 --no-timing --quiet 2>build/profile.log || \
	    { cat build/profile.log >&2; exit 1; }
endef
$(call refuse,profile,$(kernel_numbers),kernel to profile in chapter,chapters)
$(foreach n,$(kernel_numbers),$(eval $(call profile,$n,$(call judged,$n))))

# A page of one CTA of each chapter's kernel, step by step: build/films/chapter4.html.
# A language model's program is filmed in the attention of an answer's first token, in its first layer.
films := $(foreach n,$(kernel_numbers) $(model_judged:ch%_talk=%),build/films/chapter$n.html)
define film
build/films/chapter$(1).html: build/ptxsim/ptxsim build/ptxsim/libcudart.so.13 build/$(2) $(wildcard code/film/*)
	$(say) FILM $$@
	$(Q)mkdir -p $$(@D) && { build/ptxsim/ptxsim profile --film $$@ $(3) build/$(2) --shapes $(call film_shape,$(1)) --seeds 0 --no-timing --quiet 2>build/film.log || \
	    { cat build/film.log >&2; exit 1; }; }
endef
$(foreach n,$(kernel_numbers),$(eval $(call film,$n,$(call judged,$n))))
$(foreach p,$(model_judged),$(eval $(call film,$(p:ch%_talk=%),$p,--kernel _Z9attention)))
.PHONY: films
films: $(films) ##1 pages to watch the kernels in: build/films/chapter4.html

# The picture in code/ptxsim/README.md: a film of its example, in Chromium.
.PHONY: film-picture
film-picture: build/ptxsim/ptxsim build/ptxsim/libcudart.so.13 ##5 the film's picture in code/ptxsim/README.md
	$(Q)mkdir -p build/picture && cd build/picture && cp ../../code/ptxsim/example.cu . && \
	    CUDA_HOME=$$(readlink -f ../cuda) ../ptxsim/ptxsim cc example.cu -o example && \
	    { ../ptxsim/ptxsim run --film film.html ./example 2>run.log || :; } && \
	    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1280,760 --virtual-time-budget=4000 \
	        --screenshot=film.png "file://$$PWD/film.html" 2>chromium.log && cp film.png ../../code/ptxsim/film.png

# The ten loads that are counted in "An SM in six pages".
.PHONY: banks
banks: build/ptxsim/ptxsim build/ptxsim/libcudart.so.13 build/tests/code/ptxsim/test/banks ##1 the wavefronts of ten loads: An SM in six pages
	$(Q)build/ptxsim/ptxsim profile --lines 12 build/tests/code/ptxsim/test/banks
