"""Remember which pages were found without fault, so that a browser opens only those that have changed since."""

import json
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

TOOLS = ("axe-playwright-python", "playwright")


def digest(paths: list[Path]) -> str:
    """Return one digest of the files' names and contents."""
    return sha256(b"".join(path.name.encode() + sha256(path.read_bytes()).digest() for path in paths)).hexdigest()


def fingerprints(site: Path, names: list[str]) -> dict[str, str]:
    """Return for each page a digest of all that decides how it looks: itself, what pages share, and the check."""
    checks = sorted(Path(__file__).parent.glob("*site*.py"))
    shared = digest(checks + sorted(path for path in (site / "_static").rglob("*") if path.is_file()))
    shared += "".join(map(version, TOOLS))
    return {name: sha256((shared + digest(pictured(site, name))).encode()).hexdigest() for name in names}


def pictured(site: Path, name: str) -> list[Path]:
    """Return the page, and the pictures that its text names."""
    text = (site / name).read_text(encoding="utf-8")
    return [site / name, *(path for path in sorted((site / "_images").glob("*")) if path.name in text)]


def recall(site: Path) -> dict[str, str]:
    """Return the fingerprints of the pages that the last checks found without fault."""
    memory = memory_of(site)
    return json.loads(memory.read_text(encoding="utf-8")) if memory.exists() else {}


def note(site: Path, faultless: dict[str, str]) -> None:
    """Keep the fingerprints of the pages without fault."""
    memory_of(site).write_text(json.dumps(faultless, indent=1), encoding="utf-8")


def memory_of(site: Path) -> Path:
    """Return the file beside the site that holds what is remembered."""
    return site.parent / "checked.json"
