"""WikiText-103 and ListOps, from small files of their formats; addresses of files stand for those of a network."""

import io
import tarfile
import zipfile

import pytest
import torch

from gma_ref.models.tasks import make_task
from gma_ref.models.tasks.listops import fetch_listops, tokens_of
from gma_ref.models.tasks.wikitext import fetch_wikitext

WIKITEXT = {
    "train": " \n = Valkyria = \n \n Senjō no <unk> : the cat saw the cat .\n",
    "valid": " \n = Robert = \n the dog saw\n",
    "test": " the cat\n \n",
}
LISTOPS = {
    "train": [("( ( [MAX 4 ) 3 ) ]", 4), ("( ( ( [SM 7 ) 5 ) ] )", 2)],
    "val": [("( ( [MIN 9 ) ( ( [MED 1 ) 5 ) 8 ) ] ) ]", 5)],
    "test": [("( [MAX 0 ) ]", 0), ("7", 7), ("( ( [MIN 2 ) 3 ) ]", 2)],
}


def write_wikitext(folder):
    for part, text in WIKITEXT.items():
        (folder / f"wiki.{part}.tokens").write_text(text, encoding="utf-8")
    return folder


def write_listops(folder):
    for part, rows in LISTOPS.items():
        lines = ["Source\tTarget", *(f"{source}\t{target}" for source, target in rows)]
        (folder / f"basic_{part}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_wikitext_is_words_and_ends_of_lines(tmp_path):
    task = make_task("wikitext", folder=write_wikitext(tmp_path))
    assert task.vocabulary.names[0] == "<unk>"
    said = "<eos> = Valkyria = <eos> <eos> Senjō no <unk> : the cat saw the cat . <eos>"
    assert task.vocabulary.decode(task.parts["train"]) == said
    assert task.vocabulary.decode(task.parts["validation"]) == "<eos> = <unk> = <eos> the <unk> saw <eos>"
    assert task.vocabulary.decode(task.parts["test"]) == "the cat <eos> <eos>"
    assert task.unit == "bits per word"
    batch = next(task.evaluation("test", 3))
    assert torch.equal(batch.targets[:, :-1], batch.inputs[:, 1:])


def test_wikitext_keeps_the_most_common_words(tmp_path):
    task = make_task("wikitext", folder=write_wikitext(tmp_path), vocabulary_size=4)
    assert task.vocabulary.size == 4
    assert {"<unk>", "<eos>"} < set(task.vocabulary.names)
    assert "Senjō" not in task.vocabulary.names


def test_wikitext_is_unpacked_from_its_archive_once(tmp_path):
    archive = tmp_path / "wikitext-103-v1.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("wikitext-103/", "")
        for part, text in WIKITEXT.items():
            packed.writestr(f"wikitext-103/wiki.{part}.tokens", text)
    folder = fetch_wikitext(tmp_path / "there", archive.as_uri())
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"wiki.{part}.tokens" for part in WIKITEXT)
    assert (folder / "wiki.test.tokens").read_text(encoding="utf-8") == WIKITEXT["test"]
    archive.unlink()
    assert fetch_wikitext(folder, archive.as_uri()) == folder
    assert len(make_task("wikitext", folder=folder).parts["train"]) == 17


def test_listops_reads_expressions_and_answers(tmp_path):
    task = make_task("listops", folder=write_listops(tmp_path))
    (batch,) = task.evaluation("test", 2048)
    assert batch.targets.tolist() == [0, 7, 2]
    assert batch.key_mask.sum(dim=1).tolist() == [3, 1, 4]
    assert torch.equal(batch.inputs > 0, batch.key_mask)
    assert torch.equal(batch.inputs[2], tokens_of("[MIN 2 3 ]"))
    (cut,) = task.evaluation("test", 2)
    assert cut.inputs.shape == (3, 2)
    drawn = next(task.train_batches(torch.Generator().manual_seed(0), 16, 2048))
    assert set(drawn.targets.tolist()) == {2, 4}


def value_of(tokens):
    """Work out an expression of token numbers: 1 to 4 begin a list, 5 ends one, 6 to 15 are digits."""
    rules = {1: min, 2: max, 3: lambda xs: sorted(xs)[len(xs) // 2], 4: lambda xs: sum(xs) % 10}
    lists = [[]]
    for token in tokens:
        if token in rules:
            lists.append([token])
        elif token == 5:
            rule, *items = lists.pop()
            lists[-1].append(rules[rule](items))
        else:
            lists[-1].append(token - 6)
    ((value,),) = lists
    return value


def test_tokens_still_say_what_the_expressions_come_to():
    for rows in LISTOPS.values():
        for source, target in rows:
            assert value_of(tokens_of(source).tolist()) == target


def test_listops_is_taken_out_of_the_archive_of_the_arena(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    write_listops(source)
    archive = tmp_path / "lra_release.gz"
    with tarfile.open(archive, "w:gz") as packed:
        decoy = tarfile.TarInfo("lra_release/lra_release/tsv_data/basic_train.tsv")
        decoy.size = 4
        packed.addfile(decoy, io.BytesIO(b"none"))
        for path in sorted(source.iterdir()):
            packed.add(path, f"lra_release/lra_release/listops-1000/{path.name}")
    folder = fetch_listops(tmp_path / "there", archive.as_uri())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.name: path.read_bytes() for path in source.iterdir()
    }
    archive.unlink()
    assert fetch_listops(folder, archive.as_uri()) == folder


def test_archive_without_listops_is_refused(tmp_path):
    with tarfile.open(tmp_path / "empty.gz", "w:gz"):
        pass
    with pytest.raises(FileNotFoundError, match=r"^url must be an archive with listops-1000/basic_test\.tsv, "):
        fetch_listops(tmp_path / "there", (tmp_path / "empty.gz").as_uri())


@pytest.mark.parametrize("name", ["wikitext", "listops"])
def test_missing_files_are_named_with_the_way_to_get_them(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=rf"^folder must hold .+ got .+; fetch_{name}\(folder\) .+ https://"):
        make_task(name, folder=tmp_path / "nothing")


@pytest.mark.parametrize("fetch", [fetch_wikitext, fetch_listops])
def test_without_a_network_the_address_is_named_and_nothing_is_left(tmp_path, fetch):
    with pytest.raises(ConnectionError, match=r"^url must be within reach, got http://localhost:9/archive "):
        fetch(tmp_path / "there", "http://localhost:9/archive")  # port 9 answers nobody
    assert not (tmp_path / "there").exists()


def test_files_of_another_format_are_refused(tmp_path):
    write_listops(tmp_path)
    (tmp_path / "basic_val.tsv").write_text("a\tb\n1\t2\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"^basic_val\.tsv must have the columns Source and Target and a row, got "):
        make_task("listops", folder=tmp_path)
    with pytest.raises(ValueError, match=r"^source must hold operators and digits, got '\[AVG'$"):
        tokens_of("( [AVG 1 ) ]")
