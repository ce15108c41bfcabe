PYTHON ?= python3
BIN := .venv/bin
EXPERIMENTS ?= language-rates language language-plain-rates language-plain language-bare-rates language-bare language-ablation language-ingredients language-512 language-2048

test: .venv/made                 ## every test of the package and the ledger
	$(BIN)/python -m pytest

book: .venv/made                 ## execute the chapters, write the site, check it in a browser
	$(BIN)/python -m tools.book

notebooks: .venv/made            ## write each chapter's notebook beside it
	$(BIN)/python -m tools.notebooks

check-notebooks: .venv/made      ## run each notebook alone, as on Colab
	$(BIN)/python -m tools.check_notebooks

lab: .venv/made                  ## open the notebooks in JupyterLab
	$(BIN)/pip install --quiet -r requirements.txt jupyterlab && $(BIN)/jupyter lab book

bench: .venv/made                ## compile GMA in C if that can be, time it against its targets and other methods; OPTIONS="--quick" for the short run
	-$(BIN)/pip install --quiet --no-deps -r requirements-bench.txt
	$(BIN)/python -m gma_ref.timing $(OPTIONS)

train: export GMA_REF_CACHE = runs/native
train: .venv/made                ## compile GMA in C if that can be, run the experiments of Part IV that have no log yet; EXPERIMENTS="language" for some
	-$(BIN)/python -c "from gma_ref.pytorch import native; native.build()"
	$(BIN)/python -m gma_ref.models.experiments $(EXPERIMENTS) $(OPTIONS)

lint: .venv/made                 ## style, spelling, who may import whom
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports && $(BIN)/codespell

.venv/made: requirements.txt requirements-texts.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -r requirements.txt
	$(BIN)/pip install --quiet --no-deps -r requirements-texts.txt
	touch $@

.PHONY: test book notebooks check-notebooks lab bench train lint
