"""Which plays are for training, for validation and for the test: decided once, before anything is cut from them.

No character of one part ever stands in another. Plays that continue each other stay together: those of the Henrys, of
the Roses, and *The Merry Wives*, whose Falstaff is theirs, and *Antony and Cleopatra* with *Julius Caesar*, are all
for training.
"""

from functools import cache

from gma_ref.shakespeare import plays, read_play

from .task import PARTS, check_part

__all__ = ["HELD_OUT", "play_text", "print_split", "titles"]

HELD_OUT = {
    "validation": (
        "As You Like It",
        "The Comedy of Errors",
        "King John",
        "Richard II",
        "Measure for Measure",
        "Titus Andronicus",
        "The Tempest",
        "Macbeth",
    ),
    "test": (
        "Much Ado About Nothing",
        "Twelfth Night",
        "Edward III",
        "Henry VIII",
        "The Merchant of Venice",
        "Coriolanus",
        "Cymbeline",
        "Othello",
    ),
}


def titles(part: str) -> tuple[str, ...]:
    """Return the titles of a part: ``"train"``, ``"validation"`` or ``"test"``; every play is in one of them."""
    check_part(part, PARTS)
    if part == "train":
        held_out = {title for group in HELD_OUT.values() for title in group}
        return tuple(play.title for play in plays() if play.title not in held_out)
    return HELD_OUT[part]


@cache
def play_text(title: str, speakers: bool = True) -> str:
    r"""Return a play as one text: ``"ROMEO:\nHe jests at scars ...\n\n"``, speech after speech.

    Dashes are ``--`` throughout: one edition has a sign of its own for them.

    Parameters
    ----------
    title : str
        As in `gma_ref.shakespeare.plays`.
    speakers : bool
        Whether the speakers' names stand before what they say.
    """
    speeches = (speech for part in read_play(title) for speech in part.speeches)
    text = "".join((f"{who}:\n" if speakers and who else "") + f"{said}\n\n" for who, said in speeches)
    return text.replace("\u2014", "--")


def print_split() -> None:
    """Print each play with its genre, its part and its length."""
    part_of = {title: part for part in PARTS for title in titles(part)}
    total = dict.fromkeys(PARTS, 0)
    for play in plays():
        size = len(play_text(play.title))
        total[part_of[play.title]] += size
        print(f"{part_of[play.title]:<11} {play.genre:<10} {size:>9,}  {play.title}")
    for part, size in total.items():
        print(f"{part:<11} {'all':<10} {size:>9,}  {len(titles(part))} plays, {size / sum(total.values()):.1%}")


if __name__ == "__main__":
    print_split()
