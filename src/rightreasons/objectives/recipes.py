"""The list of recipes: methods by name, each one formula with defaults that work.

A recipe takes keyword settings and gives an `Objective`. It stands in the file of its term, from
which it takes its settings (see `recipe.recipe`). A weight multiplies a mean over samples;
``weight="auto"`` chooses it by itself (see `AutoWeight`).
"""

from __future__ import annotations

from rightreasons.core.checks import Registry
from rightreasons.objectives.abn import abn
from rightreasons.objectives.adversarial_training import at_fgsm, at_pgd
from rightreasons.objectives.alignment import alignment, l2_alignment
from rightreasons.objectives.atex import atex
from rightreasons.objectives.counterexamples import counterexamples
from rightreasons.objectives.curvature import cure, hessian
from rightreasons.objectives.density import density, group_dro_density
from rightreasons.objectives.dro import cvar_dro, group_dro
from rightreasons.objectives.ibp_ex import ibp_ex, ibp_ex_r3, pgd_ex
from rightreasons.objectives.ig import ig_norm, ig_sum, iga
from rightreasons.objectives.input_gradient import input_gradient
from rightreasons.objectives.objective import Objective
from rightreasons.objectives.r3 import r3, smooth_r3
from rightreasons.objectives.r4 import adv_r4, cert_r4, rand_r4
from rightreasons.objectives.recipe import erm
from rightreasons.objectives.reff import reff, reff_l1, reff_l2
from rightreasons.objectives.score_matching import score_matching
from rightreasons.objectives.selective import deep_gamblers, one_sided, selective_net
from rightreasons.objectives.spectral_decoupling import spectral_decoupling
from rightreasons.objectives.token_r4 import token_adv_r4, token_rand_r4, token_smooth_r3

__all__ = [
    "RECIPES",
    "abn",
    "adv_r4",
    "alignment",
    "at_fgsm",
    "at_pgd",
    "atex",
    "cert_r4",
    "counterexamples",
    "cure",
    "cvar_dro",
    "deep_gamblers",
    "density",
    "erm",
    "group_dro",
    "group_dro_density",
    "hessian",
    "ibp_ex",
    "ibp_ex_r3",
    "ig_norm",
    "ig_sum",
    "iga",
    "input_gradient",
    "l2_alignment",
    "one_sided",
    "pgd_ex",
    "r3",
    "rand_r4",
    "reff",
    "reff_l1",
    "reff_l2",
    "score_matching",
    "selective_net",
    "smooth_r3",
    "spectral_decoupling",
    "token_adv_r4",
    "token_rand_r4",
    "token_smooth_r3",
]

RECIPES: Registry[Objective] = Registry(
    "recipe",
    {
        recipe.__name__: recipe
        for recipe in (
            abn,
            adv_r4,
            alignment,
            at_fgsm,
            at_pgd,
            atex,
            cert_r4,
            counterexamples,
            cure,
            cvar_dro,
            deep_gamblers,
            density,
            erm,
            group_dro,
            group_dro_density,
            hessian,
            ibp_ex,
            ibp_ex_r3,
            ig_norm,
            ig_sum,
            iga,
            input_gradient,
            l2_alignment,
            one_sided,
            pgd_ex,
            r3,
            rand_r4,
            reff,
            reff_l1,
            reff_l2,
            score_matching,
            selective_net,
            smooth_r3,
            spectral_decoupling,
            token_adv_r4,
            token_rand_r4,
            token_smooth_r3,
        )
    },
)
