# Needs make and any Python 3 that has pip. All else goes into .tools/ and .venv/ of this folder.

VENV     := .venv
BIN      := $(VENV)/bin
PYTHON   := $(BIN)/python
PACKAGES := $(VENV)/.fullpass-packages
PROJECT  := $(VENV)/.fullpass-project

# The uv on PATH where it answers (a version manager's shim may not), else one of our own.
UV_PINNED := uv==0.13.8
UV := $(shell uv --version >/dev/null 2>&1 && command -v uv || echo .tools/uv/bin/uv)

# Settings of the shell that point the installation at another Python, loosen the lock, or compile all at every start.
unexport VIRTUAL_ENV CONDA_PREFIX PYTHONHOME PYTHONPATH PYTHONPYCACHEPREFIX PYTHONOPTIMIZE PYENV_VERSION
unexport UV_PYTHON UV_SYSTEM_PYTHON UV_BREAK_SYSTEM_PACKAGES UV_PROJECT_ENVIRONMENT UV_MANAGED_PYTHON
unexport PYTHONDONTWRITEBYTECODE UV_CONSTRAINT UV_OVERRIDE UV_BUILD_CONSTRAINT UV_EXCLUDE_NEWER UV_RESOLUTION UV_PRERELEASE
unexport UV_NO_VERIFY_HASHES UV_NO_BINARY UV_NO_BUILD UV_VENV_SEED UV_WORKING_DIRECTORY UV_PROJECT

.PHONY: help env demo test test-fast test-long coverage fuzz lint types docs bench bench-run bench-taxi bench-input bench-ingest bench-records bench-init bench-vocabulary bench-window bench-diagnose bench-models bench-images bench-kubeflow gate-events check-flink check-s3 check-serving check-image check-kfp check-workers check-airflow check-mlflow check-report pictures lock lock-checks clean FORCE
.NOTPARALLEL:
.DEFAULT_GOAL := help

help:  ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'

demo: env  ## trains on the Chicago taxi sample, then predicts three raw trips
	$(BIN)/fullpass run examples/taxi/pipeline.yaml
	$(BIN)/fullpass predict examples/taxi/serving examples/taxi/three_trips.jsonl

# One process more than cores, as tests wait for others, four at most: a test of TensorFlow takes a gigabyte. Tests of
# one file share its fixtures; those of the runner come first, in a process in which TensorFlow has not computed yet,
# then the longest.
SPREAD := --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
PYTEST := $(BIN)/pytest $(SPREAD)

test: lint types  ## lint, types and every test; ARGS="-k name" goes to pytest
	$(PYTEST) $(ARGS)

test-fast: env  ## the tests that take seconds at most, without Beam, trainings and pipelines; ARGS as above
	$(PYTEST) -m "not integration and not e2e and not long" $(ARGS)

test-long: env  ## what takes long: kill -9 of every node in turn, 1,000 spoilt files; ARGS as above
	$(PYTEST) -m long --timeout 1200 $(ARGS)

coverage: env  ## the lines that `make test` runs, by file; ARGS as above
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(SPREAD) $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --sort=cover

fuzz: env  ## damaged files of every format, every row accounted for; ARGS="--minutes 10 --only image_rows"
	$(PYTHON) -m tests.fuzz $(ARGS)

lint: env  ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: env  ## mypy
	$(BIN)/mypy

pictures: env  ## the pictures of the README, from a run of the taxi example; needs Chromium
	$(PYTHON) -m tests.live.make_pictures

docs: env  ## writes docs/config.md, transforms.md and expressions.md from the code
	$(PYTHON) -m fullpass.pipeline.reference.reference docs

bench: bench-run bench-taxi bench-ingest bench-records bench-window bench-input bench-images bench-diagnose bench-kubeflow  ## every benchmark, one after the other

bench-run: env  ## stock TFX pipeline against ours on flights, node by node; ARGS="--repeat 3 --scale 10"; --rows 20000 to try
	$(PYTHON) -m benchmarks.bench_run $(ARGS)

bench-taxi: env  ## stock TFX taxi template against ours, end to end; ARGS="--repeat 1"
	$(PYTHON) -m benchmarks.bench_taxi $(ARGS)

bench-ingest: env  ## stock TFX ExampleGens against Ingest: CSV, Parquet, memory; ARGS="--repeat 1"
	$(PYTHON) -m benchmarks.bench_ingest $(ARGS)

bench-records: env  ## records with and without gzip: writing, reading, size; ARGS="--repeat 1"
	$(PYTHON) -m benchmarks.bench_records $(ARGS)

bench-init: env  ## init, then run, on thirteen sets of data: is a constant guess beaten? ARGS="DATA[::LABEL] ... --only"
	$(PYTHON) -m benchmarks.bench_init $(ARGS)

bench-models: env  ## init and run, untouched, against scikit-learn on ten sets; ARGS="SET ... --seeds 3"
	$(PYTHON) -m benchmarks.bench_models $(ARGS)

bench-vocabulary: env  ## a vocabulary over 20 million distinct tokens: memory, and equal to a plain count? ARGS="--tokens 1000000"
	$(PYTHON) -m benchmarks.bench_vocabulary $(ARGS)

bench-window: env  ## windows of small and of large spans moved one by one against the same from scratch; ARGS="--moves 1 --scratch 1"
	$(PYTHON) -m benchmarks.bench_window $(ARGS)

gate-events: env  ## what the data gate tells of 36 months of taxi trips; DATA=folder of the files, ARGS="--days"
	$(PYTHON) -m benchmarks.gate_events $(DATA) $(ARGS)

bench-kubeflow: env  ## a task on Kubeflow against a node of the local runner; imports against TFX's entry point; ARGS="--imports"
	$(PYTHON) -m benchmarks.bench_kubeflow $(ARGS)

bench-input: env  ## stock TFX's input function against ours, on the same transformed examples
	$(PYTHON) -m benchmarks.bench_input $(ARGS)

bench-images: env  ## images: plain tf.data against our input; digits untouched; augmentation; ARGS="--only rates"
	$(PYTHON) -m benchmarks.bench_images $(ARGS)

bench-diagnose: env  ## does what diagnose recommends give what it promised? ARGS="--cases 'slow disk'"
	$(PYTHON) -m benchmarks.bench_diagnose $(ARGS)

# --- checks against real servers and a real browser: they need more than make and Python; `make test` runs none ----

FLINK_HOME     ?= .tools/flink
JOB_SERVER_JAR ?=
VERSITYGW      ?= .tools/bin/versitygw
KFP_BIN        ?=
CRD            ?=
EXPORT         ?= examples/taxi/serving/current

check-flink: env $(filter .tools/flink,$(FLINK_HOME))  ## nodes on a real Flink; needs Java, JOB_SERVER_JAR=FILE of Beam, and Maven or FLINK_HOME=FOLDER
	@command -v java >/dev/null || { echo "check-flink needs Java (11 or 17) on PATH, which Flink runs on." >&2; exit 1; }
	FLINK_HOME="$(abspath $(FLINK_HOME))" JOB_SERVER_JAR="$(abspath $(JOB_SERVER_JAR))" $(BIN)/pytest tests/live/flink.py $(ARGS)

.tools/flink: tests/live/flink.xml
	@command -v mvn >/dev/null || { echo "check-flink needs FLINK_HOME=FOLDER of Flink 1.19, or Maven to fetch it with." >&2; exit 1; }
	@rm -rf $@ $@.part
	mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/$@.part/lib"
	@mv $@.part $@

check-serving: env .tools/tensorflow $(filter examples/taxi/serving/current,$(EXPORT))  ## an export answers in Java as fullpass predict does; needs Java and Maven; EXPORT=FOLDER for another than taxi's
	EXPORT="$(abspath $(EXPORT))" TENSORFLOW_JAVA="$(CURDIR)/.tools/tensorflow" $(BIN)/pytest tests/live/serving.py $(ARGS)

examples/taxi/serving/current: | $(PROJECT)
	$(BIN)/fullpass run examples/taxi/pipeline.yaml

.tools/tensorflow: tests/live/tensorflow.xml
	@command -v java >/dev/null && command -v mvn >/dev/null || { echo "check-serving needs Java (11 or later), and Maven to fetch TensorFlow for Java with." >&2; exit 1; }
	@rm -rf $@ $@.part
	mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/$@.part"
	@mv $@.part $@

check-report: env  ## the report in headless Chromium: loads nothing, fits a phone, dark mode, tables sort; REPORT=FILE for another than taxi's
	$(if $(REPORT),,$(BIN)/fullpass run examples/taxi/pipeline.yaml)
	REPORT="$${REPORT:-$$(ls -t examples/taxi/runs/taxi/Report/report/*/report.html | head -1)}" $(BIN)/pytest tests/live/report.py $(ARGS)

check-s3: env .tools/s3fs $(filter .tools/bin/versitygw,$(VERSITYGW))  ## registry and source on a real S3 server; needs Go, or VERSITYGW=PROGRAM
	PYTHONPATH="$(CURDIR)/.tools/s3fs" VERSITYGW="$(abspath $(VERSITYGW))" $(BIN)/pytest tests/live/s3.py $(ARGS)

check-image: env  ## builds the image, runs a node and the demo in it as user 65532 on a read-only root; needs docker, podman or buildah; BASE=, IMAGE=, SMALL_IMAGE=, ENGINE=, BUILD_ARGS=
	BASE="$(BASE)" IMAGE="$(IMAGE)" SMALL_IMAGE="$(SMALL_IMAGE)" ENGINE="$(ENGINE)" BUILD_ARGS="$(BUILD_ARGS)" $(BIN)/pytest -s tests/live/image.py $(ARGS)

check-kfp: env .tools/small/installed $(filter .tools/bin/versitygw,$(VERSITYGW))  ## packages by the driver and launcher of a release: KFP_BIN=FOLDER, KFP_RELEASE=2.17; needs root, and Go or VERSITYGW=PROGRAM
	KFP_BIN="$(abspath $(KFP_BIN))" KFP_RELEASE="$(KFP_RELEASE)" SMALL="$(CURDIR)/.tools/small" VERSITYGW="$(abspath $(VERSITYGW))" PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pytest -s tests/live/kfp.py $(ARGS)

check-workers: env  ## the Job of a Trainer's workers by an operator's own schema of Jobs: CRD=FILE of JobSet or of Kubeflow Trainer
	CRD="$(abspath $(CRD))" $(BIN)/pytest -s tests/live/crds.py $(ARGS)

# What the small image holds, in an environment of its own.
.tools/small/installed: requirements.txt kubeflow/image_requirements.py | $(UV)
	@rm -rf $(@D)
	$(UV) venv --quiet --python 3.11 $(@D)
	$(PYTHON) kubeflow/image_requirements.py small < requirements.txt > $(@D)/requirements.txt
	$(UV) pip install --quiet --python $(@D)/bin/python --no-deps --require-hashes -r $(@D)/requirements.txt
	@touch $@

# The driver of s3:// beside the environment, not in it; the lock's versions hold.
.tools/s3fs: requirements.txt | $(UV)
	@rm -rf $@ $@.part
	$(UV) pip install --quiet --python $(PYTHON) --target $@.part --constraint requirements.txt s3fs
	@mv $@.part $@

.tools/bin/versitygw:
	@command -v go >/dev/null || { echo "check-s3 needs VERSITYGW=PROGRAM, an S3 server, or Go to build it with." >&2; exit 1; }
	GOBIN="$(CURDIR)/.tools/bin" go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

check-airflow: env .tools/airflow/installed  ## a DAG file is read and run by a real Airflow, installed for it; needs a package index
	AIRFLOW="$(CURDIR)/.tools/airflow" PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pytest tests/live/airflow_dags.py $(ARGS)

# Airflow and MLflow have environments of their own: their requirements and TFX's exclude each other.
.tools/airflow/installed .tools/mlflow/installed: .tools/%/installed: tests/live/%.txt | $(UV)
	@rm -rf $(@D)
	$(UV) venv --quiet --python 3.11 $(@D)
	$(UV) pip install --quiet --python $(@D)/bin/python --no-deps --require-hashes -r $<
	@touch $@

check-mlflow: env .tools/mlflow/installed  ## a run is recorded by a real MLflow server, installed for it; needs a package index
	MLFLOW="$(CURDIR)/.tools/mlflow" $(BIN)/pytest tests/live/mlflow_server.py $(ARGS)

clean:  ## removes caches and the outputs of the examples; the environment stays
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist examples/*/runs examples/*/serving
	find . -path ./$(VENV) -prune -o -path ./.tools -prune -o -name __pycache__ -type d -exec rm -rf {} +

# --- the environment -------------------------------------------------------------------------------------

env: $(PROJECT)  ## installs what requirements.txt pins into .venv (about 4 GB)

# Each stamp is written last, so that an interrupted installation is never taken for a whole one.
$(PROJECT): $(PACKAGES) pyproject.toml
	@rm -f $@
	$(UV) pip install --quiet --python $(PYTHON) --no-deps --no-build-isolation --editable .
	@$(PYTHON) -m compileall -q fullpass/__init__.py preprocessing trainer components pipeline kubeflow
	@touch $@

# A stamped environment is brought up to date; any other is built anew.
$(PACKAGES): requirements.txt $(shell $(PYTHON) -c pass >/dev/null 2>&1 || echo FORCE) | $(UV)
	@if [ -e $@ ] && $(PYTHON) -c pass >/dev/null 2>&1; then rm -f $@; else rm -rf $(VENV) && $(MAKE_VENV); fi
	$(UV) pip sync --python $(PYTHON) --require-hashes --compile-bytecode requirements.txt
	@touch $@

define MAKE_VENV
{ $(UV) venv --quiet --python 3.11 $(VENV) || { \
  echo "Fullpass needs Python 3.11 (TensorFlow Extended 1.16 has no wheels for later ones)." >&2; \
  echo "uv found none on this machine (PATH was searched) and could not download one; see its message above." >&2; \
  echo "Get one with 'apt install python3.11' or 'pyenv install 3.11', put it on PATH, and run 'make env' again." >&2; \
  exit 1; }; }
endef

# pip's --target works for Pythons that are managed by the system, and needs no venv module.
.tools/uv/bin/uv:
	@rm -rf .tools/uv .tools/uv.part
	@for python in python3 /usr/bin/python3 python3.13 python3.12 python3.11 python3.10 python; do \
	  if $$python -m pip --version >/dev/null 2>&1; then \
	    echo "Installing $(UV_PINNED) into .tools with $$python"; \
	    PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_ROOT_USER_ACTION=ignore $$python -m pip install --quiet --target .tools/uv.part $(UV_PINNED) \
	      && mv .tools/uv.part .tools/uv && exit 0; exit 1; \
	  fi; \
	done; \
	echo "No uv on PATH, and no Python 3 with pip to install it with. Install either ('apt install python3-pip')." >&2; exit 1

lock: | $(UV)  ## pins pyproject's dependencies anew in requirements.txt; ARGS=--upgrade for newer versions
	$(call LOCK,pyproject.toml --all-extras,requirements.txt)

lock-checks: | $(UV)  ## pins anew what check-airflow and check-mlflow install; ARGS as above
	$(call LOCK,tests/live/airflow.in,tests/live/airflow.txt)
	$(call LOCK,tests/live/mlflow.in,tests/live/mlflow.txt)

# $(call LOCK,WHAT,FILE) pins WHAT in FILE, which stays as it is where the new one would name an address.
define LOCK
@if [ -e $(2) ]; then cp $(2) $(2).part; fi
$(UV) pip compile $(1) --quiet --universal --python-version 3.11 --generate-hashes --no-header $(ARGS) --output-file $(2).part
@if grep -n '://' $(2).part; then \
  echo "The lock would name an address (above). $(2) is unchanged; the rest is in $(2).part." >&2; exit 1; fi
@mv $(2).part $(2)
endef
