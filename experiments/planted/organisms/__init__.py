"""Organisms: transformers whose beliefs we made, and know (DESIGN 4.7).

    python -m doxascope.experiments.planted.organisms

trains them anew, in minutes. The shipped ones are loaded as any model is: `doxascope.load(organism_folder("honest"))`.
"""

from .folders import organism_folder
from .species import ORGANISMS, Species
from .world import Contexts, UrnQuestion, draw_contexts

__all__ = ["ORGANISMS", "Contexts", "Species", "UrnQuestion", "draw_contexts", "organism_folder"]
