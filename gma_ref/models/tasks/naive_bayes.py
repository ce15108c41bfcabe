"""What counts of letters say about a passage, without any order beyond a few letters: a mark for the classifiers."""

from functools import partial

import torch
from torch import Tensor, nn

__all__ = ["NaiveBayes"]


def runs_of(text: str, longest: int) -> list[str]:
    """Return all runs of 1 to `longest` characters, blanks as they stand: scikit-learn's own would join them to one.

    >>> runs_of("a  b", 2)
    ['a', ' ', ' ', 'b', 'a ', '  ', ' b']
    """
    return [text[start : start + size] for size in range(1, longest + 1) for start in range(len(text) - size + 1)]


class NaiveBayes(nn.Module):
    """Multinomial naive Bayes on runs of characters, with scikit-learn, to be evaluated as a trained model is.

    Parameters
    ----------
    task : GenreTask
        Its training plays are counted, every genre as likely as the others beforehand.
    longest : int
        Runs of 1 to so many characters are counted; those that no training play has are ignored.
    smoothing : float
        Added to every count.

    Raises
    ------
    ModuleNotFoundError
        Without scikit-learn.

    Notes
    -----
    Runs that overlap are treated as if they were independent, so its probabilities are far too sure of themselves;
    accuracy asks for the largest of them alone.
    """

    def __init__(self, task, longest: int = 3, smoothing: float = 1.0):
        super().__init__()
        try:
            from sklearn.feature_extraction.text import CountVectorizer
            from sklearn.naive_bayes import MultinomialNB
            from sklearn.pipeline import make_pipeline
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError("NaiveBayes is that of scikit-learn: pip install scikit-learn") from missing
        labels, plays = zip(*task.whole_plays("train"), strict=True)
        count = CountVectorizer(analyzer=partial(runs_of, longest=longest))
        self.decode = task.vocabulary.decode
        self.fitted = make_pipeline(count, MultinomialNB(alpha=smoothing, fit_prior=False))
        self.fitted.fit([self.decode(play) for play in plays], labels)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logarithms of the genres' probabilities, (B, classes)."""
        return torch.from_numpy(self.fitted.predict_log_proba([self.decode(passage) for passage in tokens]))
