"""What a mixture does with its components: who is used, which are one, what they stand for.

Responsibilities are ``(..., N, K)``, of keys or of queries, from NumPy or from a model; everything is computed in
float64. `effective_rank` is the reference's.
"""

from gma_ref.reference import effective_rank

from .categories import Alignment, Contingency, alignment, contingency
from .coincidence import collapsed_components, component_groups, gaussian_overlap, responsibility_overlap
from .information import Information, component_information, responsibility_entropy
from .permutations import PermutationTest, permutation_test
from .slots import dead_components, effective_slots, usage
from .top import TopTokens, top_tokens
from .vital import VitalSigns, head_signs, key_mass, vital_signs

__all__ = [
    "Alignment",
    "Contingency",
    "Information",
    "PermutationTest",
    "TopTokens",
    "VitalSigns",
    "alignment",
    "collapsed_components",
    "component_groups",
    "component_information",
    "contingency",
    "dead_components",
    "effective_rank",
    "effective_slots",
    "gaussian_overlap",
    "head_signs",
    "key_mass",
    "permutation_test",
    "responsibility_entropy",
    "responsibility_overlap",
    "top_tokens",
    "usage",
    "vital_signs",
]
