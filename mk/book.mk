# The book in its three editions, as PDF and as HTML; the sheets of the labs.

book_inputs := book.md code/workbench/workbench.h code/ptxsim/test/banks.cu $(filter-out code/literate/site,$(wildcard chapters/*.md chapters/solutions/*.md chapters/*.bib chapters/*.tsv code/literate/* code/literate/weave/* plots/*.svg plots/*.md plots/runs/*/*.json plots/runs/simulator/*.txt))
draft := $(if $(DRAFT),-draft)
pdf := build/attention-in-stages$(draft).pdf
.PHONY: book book-html site book-student book-student-html book-teacher book-teacher-html
book: $(pdf) ##2 the PDF: build/attention-in-stages.pdf, and -programs.pdf
book-html: build/site$(draft)/index.html ##2 a page a chapter, build/site/, and one page of all
site: build/attention-in-stages$(draft).html $(pdf) $(films) ##2 the pages, the PDFs and all films: what is published
	$(Q)texlua code/literate/site/cut.lua $< README.md build/site$(draft) build/films $(pdf) $(pdf:.pdf=-programs.pdf)
book-student: build/attention-in-stages-student$(draft).pdf ##2 the PDF without solutions and hints
book-student-html: build/site-student$(draft)/index.html ##2 pages without solutions and hints: build/site-student/
book-teacher: build/attention-in-stages-teacher$(draft).pdf ##2 the PDF with all solutions and model answers
book-teacher-html: build/site-teacher$(draft)/index.html ##2 pages with all solutions: build/site-teacher/

# One source makes three editions; a site is cut from the HTML page, with the films that exist.
define edition
build/attention-in-stages$(1)$(draft).pdf build/attention-in-stages$(1)$(draft).html: \
build/attention-in-stages$(1)$(draft).%: $(book_inputs) build/tangle.stamp build/hashes.tsv | $(setup)
	$(say) BOOK $$@
	$(Q)AUDIENCE=$(1:-%=%) code/literate/book $$* $$@
build/site$(1)$(draft)/index.html: build/attention-in-stages$(1)$(draft).html README.md $(wildcard code/literate/site/* $(films))
	$(Q)texlua code/literate/site/cut.lua $$< README.md $$(@D) build/films
endef
$(foreach e,all -student -teacher,$(eval $(call edition,$(filter -%,$e))))

#handoutN: ##2 lab N's sheet for print: build/handouts/labNN.pdf
handout%: $(book_inputs) build/tangle.stamp build/hashes.tsv | $(setup)
	$(say) SHEET build/handouts/lab$(call two,$*).pdf
	$(Q)HANDOUT=$* code/literate/book pdf build/handouts/lab$(call two,$*).pdf
