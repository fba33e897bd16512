# Needs make, any Python 3 with pip, and a C++ compiler with Python's headers (pyfarmhash, which TFX asks for, has no
# wheels). Everything else is installed into .tools/ and .venv/ of this folder.
#
# LINE=1.16 or LINE=1.21 chooses the line of TFX (docs/lines.md), and PYTHON=3.12 a Python of that line. Without them,
# the environment that is there stays, and a new one takes the newest line that runs here.

VENV     := .venv
BIN      := $(VENV)/bin
VENV_PYTHON := $(BIN)/python
PACKAGES := $(VENV)/.fullpass-packages
PROJECT  := $(VENV)/.fullpass-project

# Uses the uv on PATH if it runs (a version manager's shim may not), and otherwise installs a copy into .tools/.
UV_PINNED := uv==0.13.8
UV := $(shell uv --version >/dev/null 2>&1 && command -v uv || echo .tools/uv/bin/uv)

# These shell settings would select another Python, loosen the lock, or make Python compile all modules at every start.
unexport VIRTUAL_ENV CONDA_PREFIX PYTHONHOME PYTHONPATH PYTHONPYCACHEPREFIX PYTHONOPTIMIZE PYENV_VERSION
unexport UV_PYTHON UV_SYSTEM_PYTHON UV_BREAK_SYSTEM_PACKAGES UV_PROJECT_ENVIRONMENT UV_MANAGED_PYTHON
unexport PYTHONDONTWRITEBYTECODE UV_CONSTRAINT UV_OVERRIDE UV_BUILD_CONSTRAINT UV_EXCLUDE_NEWER UV_RESOLUTION UV_PRERELEASE
unexport UV_NO_VERIFY_HASHES UV_NO_BINARY UV_NO_BUILD UV_VENV_SEED UV_WORKING_DIRECTORY UV_PROJECT

# The Pythons of each line, best first. PYTHON counts on the command line only: shells and CI systems set it to a path.
PYTHONS_1.16 := 3.11
PYTHONS_1.21 := 3.13 3.12
ifneq ($(filter-out 1.16 1.21,$(LINE)),)
$(error LINE is "$(LINE)"; it may be 1.16 or 1.21, the lines of TFX)
endif
PYTHONS := $(if $(LINE),$(PYTHONS_$(LINE)),$(PYTHONS_1.21) $(PYTHONS_1.16))
ifeq ($(origin PYTHON),command line)
ifeq ($(filter $(PYTHON),$(PYTHONS)),)
$(error PYTHON is "$(PYTHON)"; $(if $(LINE),line $(LINE) runs on,it may be) $(PYTHONS))
endif
PYTHONS := $(PYTHON)
endif

.PHONY: help env demo test test-fast test-long coverage fuzz sizes licenses lint types docs bench bench-quiet bench-run bench-taxi bench-edit bench-input bench-ingest bench-records bench-init bench-vocabulary bench-window bench-diagnose bench-models bench-images bench-kubeflow bench-templates bench-predict bench-serve bench-joins bench-target bench-rules bench-representations gate-events check-flink check-spark check-s3 check-serving check-image check-kfp check-kube check-kube-workers check-workers check-mlflow check-report check-wheel check-newest pictures lock lock-checks clean FORCE
.NOTPARALLEL:
.DEFAULT_GOAL := help

help:  ## lists the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'

demo: env  ## trains on the Chicago taxi sample, then predicts three raw trips
	$(BIN)/fullpass run examples/taxi/pipeline.yaml
	$(BIN)/fullpass predict examples/taxi/serving examples/taxi/three_trips.jsonl

# There is one worker more than cores, because tests wait for subprocesses, and at most four workers, because a
# TensorFlow test takes a gigabyte. The tests of a file share its fixtures, so they run in one worker. The tests of the
# runner come first, in a process in which TensorFlow has not computed yet; then the longest tests.
SPREAD := --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
PYTEST := $(BIN)/pytest $(SPREAD)

test: lint types  ## runs lint, types and all tests except the long ones; ARGS="-k name" goes to pytest
	$(PYTEST) $(ARGS)

test-fast: env  ## runs the tests that take a fraction of a second; ARGS as above
	$(PYTEST) -m "not integration and not e2e and not long" $(ARGS)

test-long: env  ## runs the long tests: kill -9 of every node in turn, 1,000 damaged files; ARGS as above
	$(PYTEST) -m long --timeout 1200 $(ARGS)

coverage: env  ## reports the lines that the tests execute, by file; ARGS as above
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(SPREAD) $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --sort=cover

sizes: env  ## prints statements per room and capability with their ceilings, files per commit, and folders that import each other
	@$(VENV_PYTHON) -m tests.sizes

fuzz: env  ## reads damaged files of every format, and numbers in every spelling; ARGS="--minutes 10 --only image_rows"
	$(VENV_PYTHON) -m tests.fuzz $(ARGS)

licenses: env  ## prints and checks the licence of every locked package
	$(VENV_PYTHON) -m tests.licenses

lint: env  ## checks rules and formatting with ruff
	$(BIN)/ruff check .
	$(BIN)/ruff check --preview --select PLW1514 --exclude tests .  # text files are UTF-8, whatever the locale
	$(BIN)/ruff format --check .

types: env  ## checks types with mypy
	$(BIN)/mypy

pictures: env  ## makes the pictures of the README from a run of the taxi example; needs Chromium
	$(VENV_PYTHON) -m tests.live.make_pictures

docs: env  ## writes docs/config.md, transforms.md and expressions.md from the code
	$(VENV_PYTHON) -m fullpass.pipeline.reference.reference docs

bench: bench-run bench-taxi bench-edit bench-ingest bench-records bench-window bench-input bench-images bench-diagnose bench-kubeflow  ## runs the benchmarks one after the other, except init, models, predict, serve, rules, representations, target, joins and vocabulary

bench-quiet: env  ## repeats the ratios of README in about an hour, medians of three, and prints them only if the machine was quiet; ARGS="--only run taxi"
	$(VENV_PYTHON) -m benchmarks.bench_quiet $(ARGS)

bench-run: env  ## compares a stock TFX pipeline with Fullpass on flights, node by node; ARGS="--repeat 3 --scale 10"; --rows 20000 for a quick try
	$(VENV_PYTHON) -m benchmarks.bench_run $(ARGS)

bench-taxi: env  ## compares the stock TFX taxi template with Fullpass, end to end; ARGS="--repeat 1"
	$(VENV_PYTHON) -m benchmarks.bench_taxi $(ARGS)

bench-edit: env  ## compares the same two pipelines after an edit of the training alone; ARGS="--repeat 1"
	$(VENV_PYTHON) -m benchmarks.bench_taxi --edit $(ARGS)

bench-ingest: env  ## compares stock TFX ExampleGens with Ingest: rates of CSV and Parquet, memory; ARGS="--repeat 1"
	$(VENV_PYTHON) -m benchmarks.bench_ingest $(ARGS)

bench-records: env  ## compares records with and without gzip: writing, reading, size; ARGS="--repeat 1"
	$(VENV_PYTHON) -m benchmarks.bench_records $(ARGS)

bench-init: env  ## runs init, then run, on thirteen data sets and compares with a constant guess; ARGS="SET ... --data DATA[::LABEL]"
	$(VENV_PYTHON) -m benchmarks.bench_init $(ARGS)

bench-models: env .tools/boosters/installed  ## compares the unchanged results of init and run with scikit-learn, LightGBM, XGBoost and CatBoost; ARGS="SET ... --seeds 3"
	PYTHONPATH="$(CURDIR)/.tools/boosters" $(VENV_PYTHON) -m benchmarks.bench_models $(ARGS)

# References and data of a benchmark alone stay outside the environment: XGBoost would bring 300 MB of CUDA libraries.
.tools/boosters/installed: benchmarks/boosters.txt | $(UV)
	@rm -rf $(@D)
	$(UV) pip install --quiet --python $(VENV_PYTHON) --target $(@D) --no-deps --require-hashes -r $<
	@touch $@

bench-rules: env  ## switches each rule of init and check --data off, and prints on which files something changes; ARGS="FOLDER ... --only RULE --score"
	$(VENV_PYTHON) -m benchmarks.bench_rules $(ARGS)

bench-representations: env .tools/boosters/installed  ## compares init and run with and without the search of representations, and boosted trees; ARGS="SET ... --seeds 0 1 2"
	PYTHONPATH="$(CURDIR)/.tools/boosters" $(VENV_PYTHON) -m benchmarks.bench_representations $(ARGS)

bench-vocabulary: env  ## analyzes a vocabulary of 20 million distinct tokens: memory, and equality with a plain count; ARGS="--tokens 1000000"
	$(VENV_PYTHON) -m benchmarks.bench_vocabulary $(ARGS)

bench-window: env  ## compares windows moved by one span with runs from scratch, for small and large spans; ARGS="--moves 1 --scratch 1"
	$(VENV_PYTHON) -m benchmarks.bench_window $(ARGS)

gate-events: env  ## shows the findings of the data gate on 36 months of taxi trips; DATA=folder of the files, ARGS="--days"
	$(VENV_PYTHON) -m benchmarks.gate_events $(DATA) $(ARGS)

bench-templates: env  ## runs the taxi and penguin templates of TFX with none and some components replaced: seconds and AUC; ARGS="--repeat 3"
	$(VENV_PYTHON) -m benchmarks.bench_templates $(ARGS)

bench-kubeflow: env  ## compares Kubeflow tasks with nodes of the local runner, and imports with TFX's entry point; ARGS="--imports"
	$(VENV_PYTHON) -m benchmarks.bench_kubeflow $(ARGS)

bench-predict: env  ## compares fullpass predict with TFX's BulkInferrer on the same rows; ARGS="--rows 300000 --model serving/"
	$(VENV_PYTHON) -m benchmarks.bench_predict $(ARGS)

bench-serve: env  ## compares fullpass serve with a bare FastAPI that calls the same model: rate and latency; ARGS="--clients 8 --model serving/"
	$(VENV_PYTHON) -m benchmarks.bench_serve $(ARGS)

bench-joins: env  ## compares ingest and AUC of flights with and without joined weather and planes; ARGS="--repeat 3"
	$(VENV_PYTHON) -m benchmarks.bench_joins $(ARGS)

bench-target: env  ## compares target encodings: none, leaking and out of fold
	$(VENV_PYTHON) -m benchmarks.bench_target $(ARGS)

bench-input: env  ## compares stock TFX's input function with Fullpass's on the same transformed examples
	$(VENV_PYTHON) -m benchmarks.bench_input $(ARGS)

bench-images: env  ## compares image input with plain tf.data; measures default models and augmentation on digits; ARGS="--only rates"
	$(VENV_PYTHON) -m benchmarks.bench_images $(ARGS)

bench-diagnose: env  ## compares the gains that diagnose promises with the gains reached; ARGS="--cases 'slow disk'"
	$(VENV_PYTHON) -m benchmarks.bench_diagnose $(ARGS)

# --- checks against real servers and a real browser; they need more than make and Python; `make test` runs none ----

FLINK_HOME     ?= .tools/flink
JOB_SERVER_JAR ?=
SPARK_JOB_SERVER_JAR ?=
VERSITYGW      ?= .tools/bin/versitygw
KFP_BIN        ?=
KFP            ?=
CRD            ?=
EXPORT         ?= examples/taxi/serving/current

check-flink: env $(filter .tools/flink,$(FLINK_HOME))  ## runs nodes on a real Flink; needs Java, JOB_SERVER_JAR=FILE of Beam, and Maven or FLINK_HOME=FOLDER; WORKERS=2, COPIES=WORKERS of the rows
	@command -v java >/dev/null || { echo "check-flink needs Java (11 or 17) on PATH, which Flink runs on." >&2; exit 1; }
	FLINK_HOME="$(abspath $(FLINK_HOME))" JOB_SERVER_JAR="$(abspath $(JOB_SERVER_JAR))" $(BIN)/pytest tests/live/flink.py -rP $(ARGS)

check-spark: env  ## runs the taxi pipeline on Spark; needs Java, and SPARK_JOB_SERVER_JAR=FILE of Beam; WORKERS=2, COPIES=WORKERS of the rows
	@command -v java >/dev/null || { echo "check-spark needs Java (11 or 17) on PATH, which Spark runs on." >&2; exit 1; }
	SPARK_JOB_SERVER_JAR="$(abspath $(SPARK_JOB_SERVER_JAR))" $(BIN)/pytest tests/live/spark.py -rP $(ARGS)

.tools/flink: tests/live/flink.xml
	@command -v mvn >/dev/null || { echo "check-flink needs FLINK_HOME=FOLDER of Flink 1.19, or Maven to fetch it with." >&2; exit 1; }
	@rm -rf $@ $@.part
	mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/$@.part/lib"
	@mv $@.part $@

check-serving: env .tools/tensorflow $(filter examples/taxi/serving/current,$(EXPORT))  ## checks that an export predicts in Java as fullpass predict does; needs Java and Maven; EXPORT=FOLDER for an export other than taxi's
	EXPORT="$(abspath $(EXPORT))" TENSORFLOW_JAVA="$(CURDIR)/.tools/tensorflow" $(BIN)/pytest tests/live/serving.py $(ARGS)

examples/taxi/serving/current: | $(PROJECT)
	$(BIN)/fullpass run examples/taxi/pipeline.yaml

.tools/tensorflow: tests/live/tensorflow.xml
	@command -v java >/dev/null && command -v mvn >/dev/null || { echo "check-serving needs Java (11 or later), and Maven to fetch TensorFlow for Java with." >&2; exit 1; }
	@rm -rf $@ $@.part
	mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/$@.part"
	@mv $@.part $@

check-report: env  ## checks the report in headless Chromium: no loading, no cut or overlapping labels, phone width, dark mode, sortable tables; REPORT=FILE for a report other than taxi's
	$(if $(REPORT),,$(BIN)/fullpass run examples/taxi/pipeline.yaml)
	REPORT="$${REPORT:-$$(ls -t examples/taxi/runs/taxi/Report/report/*/report.html | head -1)}" $(BIN)/pytest tests/live/report.py $(ARGS)

check-wheel: env | $(UV)  ## installs the wheel with its extras into a clean environment, and runs the demo from there; needs a package index
	UV="$(UV)" $(BIN)/pytest tests/live/wheel.py $(ARGS)

check-s3: env .tools/s3fs $(filter .tools/bin/versitygw,$(VERSITYGW))  ## checks a registry and a source on a real S3 server; needs Go, or VERSITYGW=PROGRAM
	PYTHONPATH="$(CURDIR)/.tools/s3fs" VERSITYGW="$(abspath $(VERSITYGW))" $(BIN)/pytest tests/live/s3.py $(ARGS)

check-image: env  ## builds the image and runs a node and the demo in it as user 65532 on a read-only root; needs docker, podman or buildah; IMAGE_LINE=1.21, BASE=, IMAGE=, SMALL_IMAGE=, ENGINE=, BUILD_ARGS=
	LINE="$(IMAGE_LINE)" BASE="$(BASE)" IMAGE="$(IMAGE)" SMALL_IMAGE="$(SMALL_IMAGE)" ENGINE="$(ENGINE)" BUILD_ARGS="$(BUILD_ARGS)" $(BIN)/pytest -s tests/live/image.py $(ARGS)

check-kfp: env .tools/small/installed $(filter .tools/bin/versitygw,$(VERSITYGW))  ## runs packages with the driver and launcher of a KFP release: KFP_BIN=FOLDER, KFP_RELEASE=2.17; needs root, and Go or VERSITYGW=PROGRAM
	KFP_BIN="$(abspath $(KFP_BIN))" KFP_RELEASE="$(KFP_RELEASE)" SMALL="$(CURDIR)/.tools/small" VERSITYGW="$(abspath $(VERSITYGW))" PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pytest -s tests/live/kfp.py $(ARGS)

check-kube: env .tools/kube/built $(filter .tools/bin/versitygw,$(VERSITYGW))  ## runs packages by the programs of KFP=FOLDER, a checkout of Kubeflow Pipelines, and by Argo, on a Kubernetes cluster of one node; needs root, Go, containerd, dnsmasq, iptables, mariadbd
	@test -f "$(KFP)/backend/src/apiserver/main.go" || { echo "check-kube needs KFP=FOLDER, a checkout of github.com/kubeflow/pipelines at the tag of a release, such as 2.17.0." >&2; exit 1; }
	@mkdir -p .tools/kube/kfp && cp "$(KFP)/go.mod" "$(KFP)/go.sum" .tools/kube/kfp/
	cd "$(KFP)" && $(subst =0,=1,$(GO_BUILD)) -mod=mod -modfile="$(CURDIR)/.tools/kube/kfp/go.mod" -o "$(CURDIR)/.tools/kube/bin/" $(addprefix ./backend/src/,apiserver agent/persistence crd/controller/scheduledworkflow v2/cmd/driver v2/cmd/launcher-v2)
	@rm -rf .tools/kube/argo && cp -r "$$(go mod download -json $(ARGO) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')" .tools/kube/argo && chmod -R u+w .tools/kube/argo
	cd .tools/kube/argo/workflow/executor/os*specific && cp signal_darwin.go signal_linux.go
	cd .tools/kube/argo && $(GO_BUILD) -o ../bin/ ./cmd/argoexec ./cmd/workflow-controller
	KFP="$(abspath $(KFP))" VERSITYGW="$(abspath $(VERSITYGW))" RECORD="$(abspath $(RECORD))" $(ON_KUBE) tests/live/kube/kubeflow.py $(ARGS)

check-kube-workers: env .tools/kube/built  ## trains on several pods, and with a tf.data service of pods, on a Kubernetes cluster of one node; needs root, Go, containerd, dnsmasq, iptables
	$(ON_KUBE) tests/live/kube/workers.py $(ARGS)

ON_KUBE = KUBE_BIN="$(CURDIR)/.tools/kube/bin" PATH="$(abspath $(BIN)):$$PATH" $(VENV_PYTHON) -m tests.live.kube

# Argo is of the release that Kubeflow's go.mod names. Modules have no links, and signal_linux.go is one.
ARGO = $(shell sed -n 's|.*\(github.com/argoproj/argo-workflows/v[0-9]*\) \(v[0-9.]*\).*|\1@\2|p' "$(KFP)/go.mod" | head -1)

# Kubernetes' own go.mod finds its parts in its repository; here they are the published modules of the same release.
# Built once, in half an hour of two cores.
KUBERNETES := 35.4
GO_BUILD   := CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w'
.tools/kube/built:
	@command -v go >/dev/null || { echo "check-kube builds Kubernetes with Go (1.25 or later)." >&2; exit 1; }
	@mkdir -p .tools/kube/bin .tools/kube/kubernetes
	cd .tools/kube/kubernetes && \
	  kube=$$(go mod download -json k8s.io/kubernetes@v1.$(KUBERNETES) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p') && \
	  sed -E 's#^module .*#module example/kube#; s#=> \./staging/src/(k8s.io/[a-z-]+)#=> \1 v0.$(KUBERNETES)#' "$$kube/go.mod" > go.mod && \
	  echo "require k8s.io/kubernetes v1.$(KUBERNETES)" >> go.mod && cat "$$kube/go.sum" > go.sum && \
	  $(GO_BUILD) -mod=mod -o ../bin/ $(addprefix k8s.io/kubernetes/cmd/,kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubelet) && \
	  $(GO_BUILD) -mod=mod -o ../bin/etcd go.etcd.io/etcd/server/v3 && $(GO_BUILD) -mod=mod -o ../bin/kustomize sigs.k8s.io/kustomize/kustomize/v5
	@touch $@

check-workers: env  ## validates the Job of a Trainer's workers against the Job schema of an operator: CRD=FILE of JobSet or of Kubeflow Trainer
	CRD="$(abspath $(CRD))" $(BIN)/pytest -s tests/live/crds.py $(ARGS)

# A separate environment with the packages of the small image.
.tools/small/installed: requirements.txt kubeflow/image_requirements.py | $(UV)
	@rm -rf $(@D)
	$(UV) venv --quiet --python $(VENV_PYTHON) $(@D)
	$(VENV_PYTHON) kubeflow/image_requirements.py small < requirements.txt > $(@D)/requirements.txt
	$(UV) pip install --quiet --python $(@D)/bin/python --no-deps --require-hashes -r $(@D)/requirements.txt
	@touch $@

# Installs the fsspec driver of s3:// outside the environment, with the versions of the lock.
.tools/s3fs: requirements.txt | $(UV)
	@rm -rf $@ $@.part
	$(UV) pip install --quiet --python $(VENV_PYTHON) --target $@.part --constraint requirements.txt s3fs
	@mv $@.part $@

.tools/bin/versitygw:
	@command -v go >/dev/null || { echo "check-s3 needs VERSITYGW=PROGRAM, an S3 server, or Go to build it with." >&2; exit 1; }
	GOBIN="$(CURDIR)/.tools/bin" go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

# MLflow gets a separate environment, because its requirements conflict with TFX's.
.tools/mlflow/installed: tests/live/mlflow.txt | $(UV)
	@rm -rf $(@D)
	$(UV) venv --quiet --python 3.11 $(@D)
	$(UV) pip install --quiet --python $(@D)/bin/python --no-deps --require-hashes -r $<
	@touch $@

check-mlflow: env .tools/mlflow/installed  ## installs a real MLflow server that records a run; needs a package index
	MLFLOW="$(CURDIR)/.tools/mlflow" $(BIN)/pytest tests/live/mlflow_server.py $(ARGS)

check-newest: env  ## runs both lines of TFX in a Debian 13 root: installation, demo, tests, benchmarks; needs root and mmdebstrap; ARGS="--python 3.13 --only demo test"
	$(VENV_PYTHON) -m tests.live.newest $(ARGS)

clean:  ## removes caches and the outputs of the examples; the environment stays
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist examples/*/runs examples/*/serving
	find . -path ./$(VENV) -prune -o -path ./.tools -prune -o -name __pycache__ -type d -exec rm -rf {} +

# --- the environment -------------------------------------------------------------------------------------

env: $(PROJECT)  ## installs the packages pinned in requirements.txt into .venv (about 4 GB)

# Each stamp is written last, so an interrupted installation never counts as complete.
$(PROJECT): $(PACKAGES) pyproject.toml
	@rm -f $@
	$(UV) pip install --quiet --python $(VENV_PYTHON) --no-deps --no-build-isolation --editable .
	@$(VENV_PYTHON) -m compileall -q fullpass/__init__.py fullpass/base preprocessing trainer components pipeline kubeflow
	@$(VENV_PYTHON) -c "from fullpass.components.pages.vega import keep_bundle; keep_bundle()"
	@touch $@

# An environment with a stamp and a Python that is asked for is updated; any other is rebuilt.
VENV_VERSION := $(shell $(VENV_PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
$(PACKAGES): requirements.txt $(if $(filter $(VENV_VERSION),$(PYTHONS)),,FORCE) | $(UV)
	@if [ -e $@ ] && [ -n "$(filter $(VENV_VERSION),$(PYTHONS))" ]; then rm -f $@; else rm -rf $(VENV) && $(MAKE_VENV); fi
	@$(UV) pip sync --python $(VENV_PYTHON) --require-hashes --compile-bytecode requirements.txt || { $(EXPLAIN_BUILD); exit 1; }
	@touch $@

# The wheels of line 1.21 load with glibc 2.39 or later. A Python that is found is preferred to one that uv downloads.
define MAKE_VENV
{ glibc=$$(getconf GNU_LIBC_VERSION 2>/dev/null | tr -dc 0-9.); pythons="$(PYTHONS)"; \
  if ! printf '2.39\n%s\n' "$${glibc:-0}" | sort -CV; then \
    pythons="$(filter $(PYTHONS_1.16),$(PYTHONS))"; \
    [ -n "$$pythons" ] || { echo "TFX 1.21 needs glibc 2.39 (Debian 13, Ubuntu 24.04, RHEL 10); this system has $${glibc:-another C library}. Take LINE=1.16." >&2; exit 1; }; \
  fi; \
  chosen=; for version in $$pythons; do \
    [ -n "$$chosen" ] || ! $(UV) python find --quiet --no-python-downloads $$version >/dev/null 2>&1 || chosen=$$version; done; \
  found=$${chosen:+found}; chosen=$${chosen:-$${pythons%% *}}; \
  case $$chosen in 3.11) line=1.16 ;; *) line=1.21 ;; esac; \
  echo "TFX $$line on Python $$chosen ($${found:-to be downloaded, none of $$pythons is on PATH}), glibc $${glibc:-none}$(if $(LINE)$(filter command line,$(origin PYTHON)),, (LINE=1.16 or LINE=1.21 chooses the other line))"; \
  $(UV) venv --quiet --python $$chosen $(VENV) || { \
    echo "Fullpass needs one of these Pythons: $$pythons. uv found none on PATH and could not download one; see its message above." >&2; \
    echo "Get one with 'apt install python$$chosen' or 'pyenv install $$chosen', put it on PATH, and run 'make env' again." >&2; \
    exit 1; }; }
endef

define EXPLAIN_BUILD
command -v c++ >/dev/null && $(VENV_PYTHON) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || \
  echo "pyfarmhash is built from its source, which needs a C++ compiler and Python's headers: 'apt install g++ python3-dev' or 'dnf install gcc-c++ python3-devel'." >&2
endef

# pip's --target works for Pythons managed by the system, and needs no venv module.
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

lock: | $(UV)  ## locks the dependencies of pyproject.toml in requirements.txt again; ARGS=--upgrade for newer versions
	$(call LOCK,pyproject.toml --all-extras,requirements.txt)

lock-checks: | $(UV)  ## locks the packages of check-mlflow and bench-models again; ARGS as above
	$(call LOCK,tests/live/mlflow.in,tests/live/mlflow.txt)
	$(call LOCK,--no-deps benchmarks/boosters.in,benchmarks/boosters.txt)

# $(call LOCK,WHAT,FILE) locks WHAT in FILE. FILE stays unchanged if the new lock would contain an address.
define LOCK
@if [ -e $(2) ]; then cp $(2) $(2).part; fi
$(UV) pip compile $(1) --quiet --universal --python-version 3.11 --generate-hashes --no-header $(ARGS) --output-file $(2).part
@if grep -n '://' $(2).part; then \
  echo "The lock would name an address (above). $(2) is unchanged; the rest is in $(2).part." >&2; exit 1; fi
@mv $(2).part $(2)
endef
