from pathlib import Path

import pytest
import yaml

from tools import address

ROOT = Path(__file__).resolve().parents[2]

CONFIG = """\
title: A book   # url: not this one
html:
  url: https://example.org
repository:        # where it lives
  # Every link is made from these two.
  url: https://github.com/YOUR_ACCOUNT/gma-book  # set by a program

  branch: gh-pages
launch_buttons:
  url: https://colab.research.google.com
  branch: other
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "_config.yml").write_text(CONFIG)
    return tmp_path


def test_the_address_is_set_and_all_else_stays(root):
    assert address.main(["https://github.com/ann/the.book-2"], root) == 0
    wanted = CONFIG.replace("https://github.com/YOUR_ACCOUNT/gma-book", "https://github.com/ann/the.book-2")
    assert (root / "_config.yml").read_text() == wanted


def test_the_branch_is_set_where_it_is_given(root):
    assert address.main(["https://github.com/ann/book", "--branch", "pages/v1"], root) == 0
    config = yaml.safe_load((root / "_config.yml").read_text())
    assert config["repository"] == {"url": "https://github.com/ann/book", "branch": "pages/v1"}
    assert config["launch_buttons"] == {"url": "https://colab.research.google.com", "branch": "other"}
    assert config["html"] == {"url": "https://example.org"}


def test_setting_it_again_replaces_it(root):
    for url in ("https://github.com/ann/book", "https://github.com/bob/other"):
        assert address.main([url], root) == 0
    assert yaml.safe_load((root / "_config.yml").read_text())["repository"]["url"] == url


@pytest.mark.parametrize("owner", ["ann", "acme_emu", "a--b", "a-", "A1", "YOUR_ACCOUNT_2", "x" * 39])
def test_every_owner_that_github_may_report_is_taken(root, owner):
    url = f"https://github.com/{owner}/book"
    assert address.main([url], root) == 0
    assert yaml.safe_load((root / "_config.yml").read_text())["repository"]["url"] == url


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/YOUR_ACCOUNT/gma-book",
        "https://github.com/ann/book.git",
        "https://github.com/ann/book/",
        "https://github.com/ann",
        "https://github.com/ann/book/tree/main",
        "http://github.com/ann/book",
        "https://gitlab.com/ann/book",
        "https://github.com.example.org/ann/book",
        "git@github.com:ann/book",
        "https://github.com//book",
        "https://github.com/a.b/book",
        "https://github.com/ann/..",
        "https://github.com/ann/bo ok",
        "https://github.com/ann/book\n  branch: x",
        "https://github.com/änn/book",
        "",
    ],
)
def test_anything_else_is_refused_and_nothing_is_written(root, url, capsys):
    assert address.main([url], root) == 1
    assert "https://github.com/OWNER/REPOSITORY" in capsys.readouterr().err
    assert (root / "_config.yml").read_text() == CONFIG


@pytest.mark.parametrize("branch", ["a b", "a..b", "/a", "a/", "a.lock", "a\nb", "#a"])
def test_no_branch_of_that_name(root, branch):
    assert address.main(["https://github.com/ann/book", "--branch", branch], root) == 1
    assert (root / "_config.yml").read_text() == CONFIG


def test_a_config_without_a_repository_is_an_error(tmp_path, capsys):
    (tmp_path / "_config.yml").write_text("title: A\nhtml:\n  url: https://example.org\n")
    assert address.main(["https://github.com/ann/book"], tmp_path) == 1
    assert "no repository.url" in capsys.readouterr().err


def test_the_book_s_own_config_can_be_set():
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    new = address.set_value(address.set_value(config, "url", "https://github.com/ann/book"), "branch", "b")
    assert yaml.safe_load(new)["repository"] == {"url": "https://github.com/ann/book", "branch": "b"}
