# Variants of chapters' programs: a student's; those with a planted bug; those of the solutions.

# A student's program, for ./labN my.cu: SRC=my.cu OUT=build/student/my make student, compiled for
# the images of NAME=chNN_name, a chapter's program, or for the usual images. The shell takes SRC
# and OUT from the environment, since they may contain any characters.
.PHONY: student
student: NAME ?= ch04_cp_async
student: build/libworkbench.a build/gpu
	$(Q)mkdir -p "$${OUT%/*}"
ifneq ($(filter %.cu,$(SRC)),)
	$(Q)$(call native,$(call least,$(NAME))) build/cuda/bin/nvcc $(call nvcc_flags,$(NAME)) $(with_prints) $$native $(call cuda_identity,"$$SRC") -c "$$SRC" -o "$$OUT.o"
	$(Q)$(CXX) "$$OUT.o" $(if $(filter $(NAME),$(talkers)),$(with_model)) build/libworkbench.a $(LIBS) $(CUDA_LIBS) -o "$$OUT"
else
	$(Q)$(CC) $(PROGRAM_CFLAGS) -Icode $(call identity,"$$SRC") "$$SRC" build/libworkbench.a $(LIBS) -o "$$OUT"
endif

# ---- Planted bugs and solutions ------------------------------------------------------------------

# The list of planted bugs is known only after tangling.
.PHONY: planted mutants
planted: all
	$(Q)$(MAKE) -s --no-print-directory $$(sed -nE 's,^(\S+)\t(\S+)\t.*,build/planted/\1.\2,p' build/mutants/list.tsv)
mutants: planted ##5 run every planted bug of the book and say what catches it
	$(Q)labs/tools/mutants

#checklistN: ##5 what stage N must show before it is merged
define checklist
.PHONY: checklist$(1)
checklist$(1): chapter$(1) build/series build/hashes.tsv
	$(Q)$(MAKE) -s --no-print-directory build/hashes.tsv \
	    $$$$(sed -nE 's,^(ch$(call two,$(1))_\S+)\t(\S+)\t.*,build/planted/\1.\2,p' build/mutants/list.tsv)
	$(Q)labs/tools/checklist $(1)
endef
$(call refuse,checklist,$(kernel_numbers),kernel of chapter,stages)
$(foreach n,$(kernel_numbers),$(eval $(call checklist,$n)))

.PHONY: checklist
checklist: planted ##5 what each stage must show before it is merged
	$(Q)labs/tools/checklist $(kernel_numbers)

# Planted bugs are compiled like the programs, but without the compiler's warnings. Those of chapter
# 23's portable program, a large one, go without costly optimisations, which take half of the time
# there. (In other chapters these decide whether a bug is seen, and at which line it is reported;
# and without them a program copies the registers of a wgmma that is still on its way.)
build/planted/ch%: private KERNEL_FLAGS += $(lean) -w
build/planted/ch23_talk%: private KERNEL_FLAGS += -Ofc=min

# Planted bugs are compiled to PTX only, which takes half the time; the simulator and a GPU's driver
# accept it. A separate rule puts the PTX into the program, so that a change of the workbench does
# not compile kernels again. The prerequisites include the program's object instead of headers,
# since nvcc would have to read the headers a second time to list them.
.SECONDEXPANSION: # of all that follows, so this file is the last
of_program = $(basename ch$(1))
put_together = $(Q)code/tools/compile-variant $< $@ $(CXX) build/libworkbench.a $(LIBS) $(CUDA_LIBS)
build/planted/ch%.part: build/mutants/ch%.cu build/obj/$$(call of_program,$$*).o code/tools/compile-variant build/flags build/cuda
	$(say) NVCC ch$*
	$(Q)mkdir -p $(@D) && code/tools/compile-variant $< $@ build/cuda/bin/nvcc $(KERNEL_FLAGS) --compress-mode=none \
	    -gencode arch=$(call ptx,$(call images,ch$*))$(comma)code=$(call ptx,$(call images,ch$*))
build/planted/ch%: build/planted/ch%.part build/$$(call of_program,$$*)
	$(put_together)
.PRECIOUS: build/planted/ch%.part build/answers/ch%.part

build/planted/ch%: build/mutants/ch%.c build/libworkbench.a build/flags build/cuda
	$(say) CC ch$*
	$(Q)mkdir -p $(@D) && $(CC) $(filter-out -Werror,$(PROGRAM_CFLAGS)) -w -Icode $< build/libworkbench.a $(LIBS) -o $@

# Programs of the solutions (chapters/solutions/). Besides PTX they have machine code, which tells
# how many registers they take.
.PHONY: answers
answers: all
	$(Q)$(MAKE) -s --no-print-directory $$(sed -E 's/\.cu?$$//' build/answers/list)
build/answers/ch%: private KERNEL_FLAGS += $(lean) -w
build/answers/ch%.part: build/answers/ch%.cu build/obj/$$(call of_program,$$*).o code/tools/compile-variant build/flags build/cuda
	$(say) NVCC ch$*
	$(Q)code/tools/compile-variant $< $@ build/cuda/bin/nvcc $(KERNEL_FLAGS) --compress-mode=none \
	    $(call gencode,$(firstword $(call images,ch$*)))
build/answers/ch%: build/answers/ch%.part build/$$(call of_program,$$*)
	$(put_together)
build/answers/ch%: build/answers/ch%.c build/libworkbench.a build/flags build/cuda
	$(say) CC ch$*
	$(Q)$(CC) $(filter-out -Werror,$(PROGRAM_CFLAGS)) -w -Icode $< build/libworkbench.a $(LIBS) -o $@
