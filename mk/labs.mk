# The labs: labN, students' copies, and the grader.

build/lab: $(call objects,$(wildcard labs/driver/*.c labs/sheet/*.c) labs/replay.c) build/libhost.a build/libworkbench.a
	$(say) LD $@
	$(Q)$(CC) $^ $(LIBS) -o $@

#labN: ##1 build chapter N's program and its lab, and run the lab
lab_numbers := $(patsubst labs/lab%,%,$(labs:labs/lab0%=labs/lab%))
.PHONY: $(lab_numbers:%=lab%)
$(lab_numbers:%=lab%): lab%: chapter%
	$(Q)./$@

$(foreach word,lab starter gradescope handout,$(call refuse,$(word),$(lab_numbers),lab,labs))

#starterN: ##1 your working copy of lab N, in labs/work/ (FORCE=1: afresh)
$(lab_numbers:%=starter%): starter%: build/tangle.stamp
	$(Q)$(call link_lab,$*)
	$(call one_line,labs/starter $* $(if $(FORCE),--force))@:

# The autograder is made from committed files.
#gradescopeN: ##3 lab N's autograder: build/gradescope/labNN.zip (SECRET=FILE)
$(lab_numbers:%=gradescope%): gradescope%: build/tangle.stamp
	$(Q)SECRET='$(SECRET)' labs/gradescope/pack $*

# ---- The grader ----------------------------------------------------------------------------------

# The grader, and the runner of a submission's kernels; labs/judge/judge.h lists the parts.
judge := $(filter-out labs/judge/runner.c labs/judge/spoil.c labs/judge/gpu.c labs/judge/clock.c,$(wildcard labs/judge/*.c))
build/obj/labs/judge/build.o: private CFLAGS += -DKERNEL_FLAGS='"$(filter-out -Icode,$(KERNEL_FLAGS))"'
build/judge: $(call objects,$(judge) $(wildcard labs/sheet/*.c) labs/replay.c code/ptxsim/machine/counts.c) build/libhost.a build/libworkbench.a
	$(say) LD $@
	$(Q)$(CC) $^ -l:libmd.a -l:libcrypt.a $(LIBS) -o $@
build/runner: $(call objects,labs/judge/runner.c labs/judge/spoil.c labs/judge/gpu.c $(ptxsim)) build/libhost.a build/libworkbench.a
	$(say) LD $@
	$(Q)$(CC) $^ $(LIBS) -o $@

build/clock.so: $(call objects,labs/judge/clock.c)
	$(say) LD $@
	$(Q)$(CC) -shared $^ -o $@

.PHONY: grade
grade: $(model_judged:%=build/%) build/judge build/runner build/clock.so build/ptxsim/ptxsim build/ptxsim/libcudart.so.13 build/libworkbench.a build/tangle.stamp ##3 build the grader: labs/grade --lab N FILE|FOLDER
	@echo "the grader is built: labs/grade --lab N FILE|FOLDER"

# Takes ten minutes if no results are kept from an earlier run. make test grades one program of every
# fourth lab, and takes kept results for these labs' other programs.
.PHONY: check-labs
check-labs: grade ##3 grade all that the book has of each lab (LABS='4 10')
	$(Q)labs/tools/check-labs $(LABS)

# Takes long: grades every cheat and its honest twin; then a class of 60 submissions, and kills the
# grader on the way.
.PHONY: check-grader
check-grader: grade ##3 grade the cheats of labs/fixtures, and a class of 60 of them
	$(Q)labs/tools/check-grader --class 60
