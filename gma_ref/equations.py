"""The ledger: for each equation where it is explained, the function that computes it and the test that checks it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Equation:
    """One row of the ledger.

    Attributes
    ----------
    label : str
        The number printed beside the equation.
    status : str
        Where the label comes from: ``"given"`` by the paper, ``"inferred"`` from its place there, or ``"ours"``.
    name : str
        What the equation says, in a few words.
    function : str
        The function that computes it, as a dotted name: of the reference, or of another room where it stands alone.
    test : str
        The test that fails when the function is wrong, as pytest names it.
    chapter : str or None
        The page and anchor where it is explained, or None while that chapter is to be written.
    proof : str or None
        The function that states the machine-checked proof, as a dotted name; None where there is none.
    by_hand : str or None
        What of the row is proved in words on its page and not by machine; None where nothing is.
    pytorch : str or None
        The PyTorch function, where it exists.
    """

    label: str
    status: str
    name: str
    function: str
    test: str
    chapter: str | None = None
    proof: str | None = None
    by_hand: str | None = None
    pytorch: str | None = None


def _row(label, status, name, function, test, chapter=None, proof=None, pytorch=None, room="reference", **more):
    anchor = f"book/{chapter}#eq-{label.lower()}" if chapter else None
    proof = proof and f"gma_ref.proofs.{proof}"
    pytorch = pytorch and f"gma_ref.pytorch.{pytorch}"
    function, test = f"gma_ref.{room}.{function}", f"tests/{room}/{test}"
    return Equation(label, status, name, function, test, anchor, proof, pytorch=pytorch, **more)


DOT_PRODUCT = "routing/dot_product_attention"
MIXTURE = "routing/gaussian_mixture"
INPUTS = "routing/queries_keys_values"
MEMORY = "routing/latent_memory"
IMPLIED = "routing/implied_attention"
COST = "routing/cost"
CAUSAL = "routing/causal"
LEARNING = "theory/learning_the_mixture"
GRADIENTS = "theory/gradients"
STRUCTURE = "theory/low_rank"
READING = "models/reading_responsibilities"
STABILITY = "theory/stability"
BLOCKED = "speed/blocked"

EQUATIONS = (
    _row("1", "given", "dot-product attention", "attention.scaled_dot_product_attention",
         "test_attention.py::test_dot_product_attention_is_the_slow_loop", DOT_PRODUCT,
         pytorch="attention.scaled_dot_product_attention"),
    _row("2", "inferred", "component density", "mixture.log_density",
         "test_mixture.py::test_log_density_is_the_exact_one", MIXTURE,
         proof="routing.density_has_mass_one",
         pytorch="mixture.log_density"),
    _row("3", "given", "responsibilities", "mixture.responsibilities",
         "test_mixture.py::test_responsibilities_are_the_exact_ones", MIXTURE,
         proof="routing.responsibilities_are_a_softmax",
         pytorch="mixture.responsibilities"),
    _row("4", "given", "projections", "attention.project",
         "test_attention.py::test_project_is_three_products", INPUTS,
         pytorch="attention.project"),
    _row("R1", "ours", "the two routings share one mixture", "mixture.responsibilities",
         "test_mixture.py::test_queries_and_keys_share_the_mixture", INPUTS,
         pytorch="mixture.responsibilities"),
    _row("5", "given", "write", "memory.write_memory",
         "test_memory.py::test_write_is_the_slow_loop", MEMORY,
         pytorch="memory.write_memory"),
    _row("6", "given", "write, one slot", "memory.write_memory",
         "test_memory.py::test_each_slot_sums_its_values", MEMORY,
         proof="memory.write_by_slots",
         pytorch="memory.write_memory"),
    _row("7", "given", "read", "attention.gaussian_mixture_attention",
         "test_attention.py::test_output_is_the_exact_one", MEMORY,
         proof="memory.order_of_products",
         pytorch="attention.gaussian_mixture_attention"),
    _row("8", "given", "read, one token", "memory.read_memory",
         "test_memory.py::test_read_is_the_slow_loop", MEMORY,
         proof="memory.read_by_tokens",
         pytorch="memory.read_memory"),
    _row("9", "given", "implied weights", "attention.attention_weights",
         "test_attention.py::test_weights_are_the_exact_ones", IMPLIED,
         proof="memory.weights_sum",
         pytorch="attention.attention_weights"),
    _row("10", "given", "output as attention", "attention.gaussian_mixture_attention",
         "test_attention.py::test_output_is_weights_times_values", IMPLIED,
         proof="memory.output_is_attention",
         pytorch="attention.gaussian_mixture_attention"),
    _row("11", "given", "affinity", "attention.affinity",
         "test_attention.py::test_affinity_is_the_overlap_of_responsibilities", IMPLIED,
         proof="memory.affinity_is_an_overlap",
         pytorch="attention.affinity"),
    _row("12", "inferred", "routing cost", "cost.routing_cost",
         "test_cost.py::test_cost_counts_the_operations_of_a_slow_loop", COST),
    _row("R2", "ours", "routing storage", "cost.routing_storage",
         "test_cost.py::test_storage_counts_the_arrays", COST),
    _row("5b", "inferred", "prefix memory", "memory.prefix_memory",
         "test_memory.py::test_prefix_memory_is_a_write_of_each_prefix", CAUSAL,
         proof="causal.prefix_memory_is_a_running_sum",
         pytorch="memory.prefix_memory"),
    _row("8b", "given", "causal read", "attention.causal_read",
         "test_attention.py::test_causal_output_is_the_exact_one", CAUSAL,
         proof="causal.causal_order_of_products",
         pytorch="attention.gaussian_mixture_attention"),
    _row("9b", "inferred", "causal weights", "attention.attention_weights",
         "test_attention.py::test_weights_are_the_exact_ones", CAUSAL,
         proof="causal.causal_weights_sum",
         pytorch="attention.attention_weights"),
    _row("10b", "inferred", "causal output as attention", "attention.gaussian_mixture_attention",
         "test_attention.py::test_causal_output_is_weights_times_values", CAUSAL,
         proof="causal.causal_output_is_attention",
         pytorch="attention.gaussian_mixture_attention"),
    _row("R3", "ours", "causal weights as a lower triangle", "attention.attention_weights",
         "test_attention.py::test_causal_weights_are_a_normalised_lower_triangle", CAUSAL,
         proof="causal.causal_weights_are_a_triangle",
         pytorch="attention.attention_weights"),
    _row("14", "given", "variances", "mixture.GaussianMixture.from_unconstrained",
         "test_mixture.py::test_unconstrained_parameters_give_the_exact_mixture", INPUTS,
         proof="softmax.variance_of_omega",
         pytorch="mixture.GaussianMixture.from_unconstrained"),
    _row("15", "given", "priors", "mixture.GaussianMixture.from_unconstrained",
         "test_mixture.py::test_unconstrained_parameters_give_the_exact_mixture", INPUTS,
         proof="softmax.priors_on_the_simplex",
         pytorch="mixture.GaussianMixture.from_unconstrained"),
    _row("16", "inferred", "scores", "mixture.scores",
         "test_mixture.py::test_scores_are_the_exact_ones", MIXTURE,
         proof="routing.score_is_a_logarithm",
         pytorch="mixture.scores"),
    _row("13", "inferred", "what is trained, by the loss alone", "gradients.gaussian_mixture_attention_vjp",
         "test_gradients.py::test_gradients_are_the_exact_ones", LEARNING,
         pytorch="layer.GaussianMixtureAttention"),
    _row("17", "given", "softmax Jacobian", "score_gradients.softmax_jacobian",
         "test_gradients.py::test_softmax_jacobian_is_the_change_of_the_softmax", GRADIENTS,
         proof="softmax.softmax_jacobian"),
    _row("17b", "given", "self-sensitivity", "score_gradients.softmax_jacobian",
         "test_gradients.py::test_self_sensitivity_is_largest_at_one_half_and_vanishes_at_certainty", GRADIENTS,
         proof="softmax.self_sensitivity"),
    _row("18", "given", "score gradient", "score_gradients.score_gradient",
         "test_gradients.py::test_score_gradient_is_the_jacobian_times_the_upstream_gradient", GRADIENTS,
         proof="softmax.score_gradient"),
    _row("19", "inferred", "chain rule through the scores", "score_gradients.score_vjp",
         "test_gradients.py::test_score_vjp_sums_the_jacobians", GRADIENTS,
         proof="score_gradients.chain_rule"),
    _row("G1", "ours", "score through the mean", "score_gradients.score_jacobians",
         "test_gradients.py::test_score_jacobians_are_the_changes_of_the_scores", GRADIENTS,
         proof="score_gradients.through_the_mean"),
    _row("G2", "ours", "responsibilities through the mean", "score_gradients.softmax_jacobian",
         "test_gradients.py::test_responsibilities_answer_to_a_mean_as_the_two_jacobians_say", GRADIENTS,
         proof="score_gradients.responsibility_through_the_mean"),
    _row("G3", "ours", "score through ω", "score_gradients.score_jacobians",
         "test_gradients.py::test_score_jacobians_are_the_changes_of_the_scores", GRADIENTS,
         proof="score_gradients.through_the_variance"),
    _row("G4", "ours", "score through α", "score_gradients.score_jacobians",
         "test_gradients.py::test_score_jacobians_are_the_changes_of_the_scores", GRADIENTS,
         proof="score_gradients.through_the_prior"),
    _row("G5", "ours", "projections, backwards", "gradients.project_vjp",
         "test_gradients.py::test_project_backwards_is_the_change_of_the_projections", GRADIENTS,
         proof="score_gradients.through_the_token"),
    _row("G6", "ours", "read and write, backwards", "memory_gradients.read_memory_vjp",
         "test_gradients.py::test_read_backwards_is_the_change_of_the_read", GRADIENTS,
         proof="memory_gradients.backward_pass"),
    _row("G7", "ours", "Mahalanobis trace trap", "trace_trap.batch_mahalanobis",
         "test_trace_trap.py::test_distances_are_those_of_the_estimated_covariance", LEARNING,
         proof="trace_trap.trap_with_fixed_weights"),
    _row("B2", "ours", "bounded score gradients", "memory_gradients.routing_vjp",
         "test_gradients.py::test_gradients_that_reach_the_scores_are_g6_followed_by_eq_18", GRADIENTS,
         proof="memory_gradients.bounded_score_gradients"),
    _row("S1", "ours", "row sums of the weights", "attention.attention_weights",
         "test_structure.py::test_rows_of_the_weights_sum_to_less_than_one_by_eps", STRUCTURE,
         proof="structure.bounds_of_the_affinity",
         pytorch="attention.attention_weights"),
    _row("S2", "ours", "rank of the weights", "attention.attention_weights",
         "test_structure.py::test_weights_are_of_low_rank_and_causally_in_blocks", STRUCTURE,
         proof="structure.rank_at_most_k", by_hand="from the sums to the rank",
         pytorch="attention.attention_weights"),
    _row("S3", "ours", "slots share out the keys", "memory.write_memory",
         "test_structure.py::test_slots_share_out_the_keys", STRUCTURE,
         proof="structure.mass_counts_keys",
         pytorch="memory.write_memory"),
    _row("S4", "ours", "effective rank", "structure.effective_rank",
         "test_structure.py::test_effective_rank_is_the_exponential_of_the_entropy", STRUCTURE),
    _row("S5", "ours", "slot means", "structure.slot_means",
         "test_structure.py::test_slot_means_are_means_with_eps_keys_of_value_zero", STRUCTURE,
         proof="structure.output_mixes_slot_means",
         pytorch="memory.slot_means"),
    _row("B11", "ours", "effective number of slots", "slots.effective_slots",
         "test_slots.py::test_effective_slots_are_the_inverse_of_the_mean_affinity", READING,
         proof="structure.effective_number_of_slots", room="diagnostics"),
    _row("L1", "ours", "bound of the score's gradient", "stability.score_gradient_bound",
         "test_stability.py::test_bounds_are_those_of_the_definitions", STABILITY,
         proof="stability.score_gradient_in_a_ball", by_hand="triangle inequality"),
    _row("L2", "ours", "bound of one responsibility", "stability.lipschitz_bounds",
         "test_stability.py::test_bounds_are_those_of_the_definitions", STABILITY,
         proof="stability.component_bound", by_hand="triangle inequality"),
    _row("L3", "ours", "bound in the 1-norm", "stability.lipschitz_bounds",
         "test_stability.py::test_bounds_are_those_of_the_definitions", STABILITY,
         proof="stability.variance_bound", by_hand="integral along a line"),
    _row("L4", "ours", "bound in the 2-norm", "stability.lipschitz_bounds",
         "test_stability.py::test_bounds_are_those_of_the_definitions", STABILITY,
         proof="stability.length_bound", by_hand="integral along a line"),
    _row("L5", "ours", "bound of a difference of gradients", "stability.score_difference_bound",
         "test_stability.py::test_bounds_are_those_of_the_definitions", STABILITY,
         proof="stability.difference_of_gradients", by_hand="triangle inequality"),
    _row("L6", "ours", "stability is local", "stability.responsibility_jacobian",
         "test_stability.py::test_responsibility_jacobian_is_the_change_of_the_responsibilities", STABILITY,
         proof="stability.only_local"),
    _row("B5", "ours", "when stability is global", "global_stability.is_globally_lipschitz",
         "test_stability.py::test_global_answers_come_for_each_mixture", STABILITY,
         proof="beyond.along_a_ray", by_hand="both directions"),
    _row("B6", "ours", "global constants", "global_stability.global_l2_bound",
         "test_stability.py::test_global_constants_are_those_of_the_formula", STABILITY,
         proof="beyond.pair_of_comparable_components", by_hand="the exact constant for K = 2"),
    _row("B6b", "ours", "global constant with a background", "global_stability.background_bound",
         "test_stability.py::test_bound_with_a_background_is_that_of_the_formula", STABILITY,
         by_hand="for one broadest component"),
    _row("T1", "ours", "block recurrence", "blocked.blocked_attention",
         "test_parity.py::test_state_and_its_gradients_are_those_of_the_equations", BLOCKED, room="pytorch",
         by_hand="the causal outputs, for any cuts"),
    _row("T2", "ours", "recomputing backward pass", "blocked.blocked_attention",
         "test_parity.py::test_pieces_of_a_sequence_give_the_outputs_and_gradients_of_the_whole", BLOCKED,
         room="pytorch", by_hand="all gradients, for any cuts"),
)  # fmt: skip
