# The chapters' programs: which ones there are, how they are tangled and compiled, and chapterN.

# ---- Which there are -----------------------------------------------------------------------------

# The chapters in the book's order; then those that are not in the book yet.
found := $(wildcard chapters/[0-9][0-9]-*.md chapters/[A-Z]-*.md)
spine := $(shell sed -n 's/^- chapters/chapters/p' book.md 2>/dev/null)
chapters := $(filter $(found),$(spine)) $(sort $(filter-out $(spine),$(found)))
solutions := $(sort $(wildcard chapters/solutions/*.md))
# Programs, found by their roots (code blocks with file=) in the chapters, and by the committed files, since a copy of
# the tree may have only stages.tsv in chapters/.
roots := $(sort $(shell grep -shoE 'file=code/ch[0-9]{2}_[a-z0-9_]+\.(cu|c)' chapters/*.md | \
                        sed 's/^file=//') $(wildcard code/ch[0-9][0-9]_*.cu code/ch[0-9][0-9]_*.c))
cuda_programs := $(patsubst code/%.cu,%,$(filter %.cu,$(roots)))
c_programs := $(patsubst code/%.c,%,$(filter %.c,$(roots)))
programs := $(c_programs) $(cuda_programs)
labs := $(sort $(wildcard labs/lab[0-9][0-9]))

# The rows of chapters/stages.tsv, as variables: stage_03 is "ch03_wmma_qk 75 mission 1x1x96 sm_89 sm_90": program,
# least, profile, film, images. A folder without chapters has no rows.
two = $(if $(filter 1 2 3 4 5 6 7 8 9,$(1)),0$(1),$(1))
row = $(eval stage_$(call two,$(firstword $(1))) := $(wordlist 2,99,$(1)))
$(if $(wildcard chapters/stages.tsv),$(foreach r,\
    $(shell code/tools/stages number program least profile film images | tr ' \t' ::),$(call row,$(subst :, ,$r))))
chapter_of = $(patsubst ch%,%,$(firstword $(subst _, ,$(1))))
# The row of chapter $(1), two digits. If the table has no such row, make ends with a line about it.
stage = $(or $(stage_$(1)),\
    $(error chapters/stages.tsv has no stage $(1:0%=%): add a row of its $(shell code/tools/stages)))
# The program that a chapter's lab judges, if it exists; shapes for a chapter's profile and film; images of a program,
# and the least compute capability of a GPU for it (75; -: an image for this machine's GPU is never added).
judged = $(filter $(firstword $(stage_$(call two,$(1)))),$(programs))
profile_shape = $(word 3,$(call stage,$(call two,$(1))))
film_shape = $(word 4,$(call stage,$(call two,$(1))))
images = $(or $(call own_image,$(1)),$(filter sm_%,$(call stage,$(call chapter_of,$(1)))),\
    $(error chapters/stages.tsv: the row of stage $(patsubst 0%,%,$(call chapter_of,$(1))) names no images, and $(1) needs some))
least = $(if $(call own_image,$(1)),-,$(word 2,$(call stage,$(call chapter_of,$(1)))))
# The image of a program (or of a variant of it) that differs from its chapter's images: the row has program=image.
own_image = $(patsubst $(basename $(1))=%,%,$(filter $(basename $(1))=%,$(stage_$(call chapter_of,$(1)))))

# The numbers of the chapters that have programs; the numbers of the chapters whose lab judges a kernel.
numbers := $(patsubst 0%,%,$(sort $(foreach p,$(programs),$(call chapter_of,$p))))
kernel_numbers := $(strip $(foreach n,$(numbers),$(if $(filter $(cuda_programs),$(call judged,$n)),$n)))
# Refuses a goal with a number, such as chapter99 or lab19, before anything is made, if that chapter or lab does not
# exist: $(call refuse,WORD,NUMBERS,what there is not,what the numbers are).
refuse = $(foreach goal,$(filter-out $(2:%=$(1)%),$(filter $(addprefix $(1),$(digits)),$(MAKECMDGOALS))),\
    $(error there is no $(3) $(goal:$(1)%=%): the $(4) are $(2)))

# ---- Tangle --------------------------------------------------------------------------------------

tangled := $(patsubst code/%,build/tangled/%,$(roots))

# One run of Pandoc tangles all chapters. Outputs that do not change keep their times, so that only programs whose text
# changed are compiled again. Without Pandoc, the committed code is compiled.
tangler := $(wildcard $(patsubst %,code/literate/%.lua,tangle titles chunks sheets stages))
build/tangle.stamp: $(chapters) $(solutions) $(tangler) code/ptxsim/counts.def code/workbench/shapes.def labs/sheet/resources.def chapters/stages.tsv $(labs) | $(setup)
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

# The current hash of each program, by which the book and the labs recognise stale measurements. A program with knobs
# (chapter 14) has a second hash, .any, which omits the line that sets them, and so does not depend on their values.
build/hashes.tsv: $(roots) build/kernel-flags
	$(Q)for f in $(roots); do \
	    name=$${f##*/}; printf '%s\t%s\n' "$${name%.*}" "$$($(call source_hash,$$f))"; \
	    if grep -qs '^#define KNOBS' $$f; then \
	        printf '%s\t%s\n' "$${name%.*}.any" "$$($(call source_hash,<(grep -v '^#define KNOBS' $$f)))"; fi; done >$@.new
	$(Q)mv $@.new $@

# ---- Compile -------------------------------------------------------------------------------------

# SHA-256 of a program's flags and of its text without comments, blank lines, debug prints, its own name and its
# chapter's number. A measurement with this hash was made with the current program.
unhashed := s://.*$$::; s/[[:space:]]+$$//; /^$$/d; /^ *DEBUG_PRINT\(.*\);$$/d; /^ *\.(name|chapter) = ("[a-z0-9_]+"|[0-9]+),$$/d
source_hash = { sed -E '$(unhashed)' $(1); echo "$(KERNEL_FLAGS)"; } | \
              sha256sum | cut -d' ' -f1
commit = $$(git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || echo unknown)
identity = -DSOURCE_HASH="\"$$($(call source_hash,$(1)))\"" -DGIT_COMMIT="\"$(commit)\"" \
           -DBUILD_FLAGS="\"$(KERNEL_FLAGS)\""

# make DEBUG_PRINT=1 chapterN: kernels print (code/workbench/debug.h). Their source_hash is "debug", so that no
# measurement of them is taken for the program's.
with_prints = $(if $(DEBUG_PRINT),-DDEBUG_PRINTS)
cuda_identity = $(if $(DEBUG_PRINT),-DSOURCE_HASH='"debug"',$(call identity,$(1)))

image := $(call sources,code/image)
workbench := $(call sources,code/workbench) $(image)
$(call objects,$(workbench)): OPT := -O2

build/libworkbench.a: $(call objects,$(workbench))
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# Parts shared by the programs that judge, measure and draw.
build/libhost.a: $(call objects,$(call sources,code/host))
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# A library that runs a language model's file; a program that asks the model; one that writes a small model
# (code/model/model.h).
model_programs := ask tiny-model
model := $(filter-out $(model_programs:%=code/model/%.c),$(call sources,code/model))
build/obj/code/model/reference.o: OPT := -O3
build/libmodel.a: $(call objects,$(model))
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(model_programs:%=build/%): build/%: build/obj/code/model/%.o build/libmodel.a build/libhost.a build/libworkbench.a
	$(say) LD $@
	$(Q)$(CC) $^ $(MODEL_LIBS) $(LIBS) -o $@

$(cuda_programs:%=build/obj/%.o): build/obj/%.o: build/tangled/%.cu build/flags build/debug-print build/cuda build/gpu
	$(say) NVCC $*
	$(Q)$(call native,$(call least,$*)) build/cuda/bin/nvcc $(call book_flags,$*) $(with_prints) $$native $(call cuda_identity,code/$*.cu) \
	    -MMD -MP -MF $(@:.o=.d) -c $< -o $@

$(c_programs:%=build/obj/%.o): build/obj/%.o: build/tangled/%.c build/flags build/cuda
	$(say) CC $*
	$(Q)mkdir -p $(@D) && $(CC) $(PROGRAM_CFLAGS) -Icode $(call identity,code/$*.c) -MMD -MP -c $< -o $@

$(cuda_programs:%=build/%): build/%: build/obj/%.o build/libworkbench.a
	$(Q)$(CXX) $^ $(LIBS) $(CUDA_LIBS) -o $@
$(c_programs:%=build/%): build/%: build/obj/%.o build/libworkbench.a
	$(Q)$(CC) $^ $(LIBS) -o $@

# Programs that run a language model: which libraries they need, and the model's file, which make chapterN provides;
# ./talk is a link, like ./labN.
talkers := $(patsubst code/%.cu,%,$(shell grep -ls '^#include "model/model.h"' $(filter %.cu,$(roots)) /dev/null))
# Programs with a language model that a lab judges; the grader puts a submission's kernels into them.
model_judged := $(shell sed -nE 's/.*--program ([a-z0-9_]+) --model.*/\1/p' $(labs) /dev/null)
$(talkers:%=build/%): build/libmodel.a build/libhost.a
with_model := build/libmodel.a build/libhost.a build/libworkbench.a $(MODEL_LIBS)
$(talkers:%=build/%): LIBS := $(with_model) $(LIBS)
$(talkers:%=build/planted/%.%): LIBS := $(with_model) $(LIBS)
$(patsubst chapter0%,chapter%,$(foreach p,$(talkers),chapter$(call chapter_of,$p))): build/smollm2.gguf build/ptxsim/libcudart.so.13 talk
build/smollm2.gguf:
	$(Q)mkdir -p build && code/model/fetch $@
talk:
	$(Q)ln -sfn code/model/talk $@

# ---- Chapters ------------------------------------------------------------------------------------

# Makes a chapter's program, other programs that its lab names, and what a lab needs to run them.
named := $(if $(labs),$(shell grep -oE 'ch[0-9]{2}_[a-z0-9_]+' $(labs) /dev/null))
named_in = $(patsubst $(1):%,%,$(filter $(1):%,$(named)))
of_chapter = $(filter ch$(call two,$(1))_% $(call named_in,labs/lab$(call two,$(1))),$(programs))
driver = build/lab build/series build/hashes.tsv \
         $(if $(filter $(cuda_programs),$(2)),build/ptxsim/ptxsim build/ptxsim/libcudart.so.13)

# ./labN is a link to the lab's script, made with its chapter.
link_lab = ln -sfn labs/lab$(call two,$(1)) lab$(1)

#chapterN: ##1 build chapter N's program and its lab: then type ./labN
define chapter
.PHONY: chapter$(1)
chapter$(1): $(addprefix build/,$(2)) $(if $(3),$(call driver,$(1),$(2)))
	$$(if $$(call stage,$(call two,$(1))),)
	@echo "chapter $(1) is built$(if $(3),: ./lab$(1))"
	$(if $(3),@$(call link_lab,$(1)))
endef
$(call refuse,chapter,$(numbers),chapter,chapters)
$(foreach n,$(numbers),$(eval $(call chapter,$n,$(call of_chapter,$n),$(wildcard labs/lab$(call two,$n)))))
