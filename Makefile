# Needs make and Python 3.11 or newer; everything else goes into .venv. `make help` lists the verbs.

PYTHON ?= python3
LAB ?= lab03_scoring
# What the environment takes with the CPU build of torch; the CUDA build takes about 10000.
DISK_MB ?= 4000
# Cells of the ladder that are measured at once.
JOBS ?= 1
# Where the course stands on the web, once it does. Nothing guesses them: without an address there is no link.
SITE ?=
REPOSITORY ?=
export SITE REPOSITORY

$(foreach name,SITE REPOSITORY,$(if $(filter-out https://%,$($(name))),$(error $(name) is no plain https address: $($(name)))))

BIN := $(CURDIR)/.venv/bin
# What finds barriers on a page: `make site-check` uses it, and the tests where it is.
AXE := _build/site-check/node_modules/axe-core/axe.min.js
# What shows the slides of `make slides`.
REVEAL := _build/reveal/node_modules/reveal.js
# One thread is fastest for models of this size, and keeps runs comparable.
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help course book pdf epub site slides labs lab hub student-edition nbjudge-wheel readme bench gpu-check fidelity mutants attacks scale-check ladder norms seeds spread today induction closings multi30k site-check test class clean environment

help:  ## list the verbs
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "With SITE=https://...       each page of the book names its own address there"
	@echo "With REPOSITORY=https://... the book links to the course's files: to look at, edit, report on and open in Colab"

course: environment  ## install, build the book, make the labs, grade two sample submissions
	@echo "environment: .venv, installed $$(date -r .venv/installed '+%Y-%m-%d %H:%M'), reused until pyproject.toml or constraints.txt changes"
	@$(MAKE) --no-print-directory labs
	@$(BIN)/python -m scripts.sample $(LAB) _build/sample
	@$(MAKE) --no-print-directory book
	@cat _build/sample/summary.txt
	@echo "The book is at _build/html/index.html; the labs are in labs/ (open them with: make lab)"

book: environment  ## build the online book into _build/html, every page executed
	@$(BIN)/jupyter-book build . -W -n --keep-going

pdf: environment  ## print the whole book into one file in _build/downloads (needs Chromium), which make book then offers
	@$(BIN)/jupyter-book build . --builder singlehtml -W -n --keep-going
	@$(BIN)/python -m scripts.pdf _build/singlehtml/index.html _build/downloads/attention-measured.pdf

epub: environment  ## make the whole book one file for e-readers in _build/downloads, which make book then offers
	@$(BIN)/jupyter-book build . --builder custom --custom-builder epub -W -n --keep-going
	@$(BIN)/python -m scripts.epub _build/epub/attention-measured.epub _build/downloads/attention-measured.epub

site: environment  ## build all that a web server serves into _build/html: the book, its notebooks, its PDF and its EPUB
	@$(MAKE) --no-print-directory pdf
	@$(MAKE) --no-print-directory epub
	@$(MAKE) --no-print-directory book

slides: environment $(REVEAL)/dist/reveal.js  ## make a deck and its PDF for each meeting into _build/slides (fetches reveal.js; needs Chromium)
	@$(MAKE) --no-print-directory book
	@$(BIN)/python -m scripts.slides _build/html $(REVEAL) _build/slides

$(REVEAL)/dist/reveal.js:
	@command -v npm >/dev/null || { echo "error: npm is not installed; on Debian and Ubuntu: apt-get install npm"; exit 1; }
	@npm install --silent --no-save --prefix _build/reveal reveal.js@5.2.1

labs: environment  ## make the students' notebooks in labs/ from solutions/
	@$(BIN)/python -m scripts.release

lab: environment  ## open JupyterLab on the labs
	@$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/labs

hub: environment  ## look at the course on a JupyterHub of your own (http://127.0.0.1:8000); it separates nobody
	@command -v configurable-http-proxy >/dev/null || { echo "error: the hub's proxy is not installed; with npm: npm install --global configurable-http-proxy"; exit 1; }
	@test -d _build/html || echo "the book is not built, so links into it lead nowhere; make book"
	@mkdir -p _build/hub && ln -sfn ../html _build/hub/book
	@HUB_LOOK=1 HUB_STATE=_build/hub HUB_INSTRUCTORS=$${HUB_INSTRUCTORS:-instructor} PATH="$(BIN):$$PATH" $(BIN)/python -m jupyterhub -f scripts/jupyterhub_config.py

student-edition: environment  ## export what students need into _build/student, without a solution
	@$(MAKE) --no-print-directory labs
	@$(MAKE) --no-print-directory book
	@$(BIN)/python -m scripts.edition _build/student

nbjudge-wheel: environment  ## build the judge alone, for other courses, into _build/
	@$(BIN)/python -m scripts.nbjudge_wheel _build

readme: environment  ## draw the README's picture anew
	@PYTHONPATH=tests $(BIN)/python -m measure.readme

bench: environment  ## measure how fast the models are, against other libraries (20 minutes; fetches them)
	@PYTHONPATH=tests $(BIN)/python -m measure.bench

gpu-check: environment  ## measure the models on this machine's GPU, for chapter 15 (goes on where it was)
	@PYTHONPATH=tests $(BIN)/python -m measure.gpu_check --fetch
	@PYTHONPATH=tests $(BIN)/python -m measure.gpu_check

fidelity: environment  ## try right, wrong and mutated answers on the labs' graders
	@PYTHONPATH=tests $(BIN)/python -m measure.fidelity

mutants: environment  ## change 300 single lines of the packages, one at a time, and see whether a test notices (three hours of CPU time)
	@PYTHONPATH=tests $(BIN)/python -m measure.mutants

attacks: environment  ## hand in everything that may be handed in, and measure what the grader makes of it
	@command -v bwrap >/dev/null || { echo "error: bubblewrap is not installed; on Debian and Ubuntu: apt-get install bubblewrap"; exit 1; }
	@PYTHONPATH=tests:. $(BIN)/python -m measure.attacks

scale-check: environment  ## share a gradebook on PostgreSQL, grade on a cluster, and break parts of both (1,000 submissions)
	@PYTHONPATH=tests:. $(BIN)/python -m measure.scale

ladder: environment  ## train every kind of model on the same tasks and compare them (half an hour)
	@TQDM_DISABLE=1 PYTHONPATH=tests $(BIN)/python -m measure.ladder --jobs $(JOBS)

norms: environment  ## train Transformers with either place of the norm, with and without warm-up (8 minutes)
	@TQDM_DISABLE=1 PYTHONPATH=tests $(BIN)/python -m measure.norms

seeds: environment  ## read reviews from ten seeds and see what their attention explains (5 minutes)
	@TQDM_DISABLE=1 PYTHONPATH=tests $(BIN)/python -m measure.seeds

spread: environment  ## repeat from several seeds what a page trains once (PAGES="bottleneck bahdanau" for some)
	@TQDM_DISABLE=1 PYTHONPATH=tests $(BIN)/python -m measure.spread $(PAGES)

today: environment  ## try positions on rows longer than those of training, and heads that share keys (13 minutes)
	@TQDM_DISABLE=1 PYTHONPATH=tests $(BIN)/python -m measure.today

induction: environment  ## train one layer of attention and two on strings that repeat, and take their heads apart (7 minutes)
	@TQDM_DISABLE=1 PYTHONPATH=tests $(BIN)/python -m measure.induction

closings: environment  ## run the labs' closing experiments from three seeds and hold what they say to bounds (10 minutes)
	@TQDM_DISABLE=1 PYTHONPATH=tests $(BIN)/python -m measure.closings

multi30k: environment  ## train and test on the real corpus, named by DATA=folder (hours; goes on where it was)
	@test -n "$(DATA)" || { echo "error: name the folder of the corpus: make multi30k DATA=folder"; exit 1; }
	@PYTHONPATH=tests $(BIN)/python -m measure.multi30k "$(DATA)"

site-check: environment $(AXE)  ## look at every page in a browser, light and dark, wide and narrow (10 minutes; fetches axe-core; ACCEPT=yes keeps the screenshots)
	@$(MAKE) --no-print-directory book
	@PYTHONPATH=tests $(BIN)/python -m measure.site_check $(if $(ACCEPT),--accept)

$(AXE):
	@command -v npm >/dev/null || { echo "error: npm is not installed; on Debian and Ubuntu: apt-get install npm"; exit 1; }
	@npm install --silent --no-save --prefix _build/site-check axe-core@4.14.1

test: environment  ## run the whole test suite, book and labs included
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m "not plain" --jaxtyping-packages=attention_course,attention_labs,nbjudge,beartype.beartype
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m plain

class: environment  ## grade a class of 40 in two labs, to see the instructor's pages (some minutes)
	@TQDM_DISABLE=1 PYTHONPATH=tests:. $(BIN)/python -m measure.classroom

clean:  ## remove what was built; the environment, labs/ and gradebook/ stay
	@rm -rf _build .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The environment is remade only when what it is made from has changed.
environment: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) --version >/dev/null 2>&1 || { echo "error: $(PYTHON) does not run; install Python 3.11 or newer, or name one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $$($(PYTHON) --version 2>&1) is too old; install Python 3.11 or newer, or name one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "error: $(PYTHON) cannot make virtual environments; install its venv package (python3-venv on Debian and Ubuntu)"; exit 1; }
	@free=$$(df -Pm . | awk 'NR == 2 {print $$4}'); [ "$$free" -ge $(DISK_MB) ] || { echo "error: $$free MB are free here, $(DISK_MB) MB are needed; make room, or clone to another disk"; exit 1; }
	@$(PYTHON) -m venv .venv
	@echo "installing into .venv (some minutes the first time) ..."
	@$(BIN)/python -m pip install --constraint constraints.txt --editable '.[book,hub,labs,scale,test]'
	@touch $@
