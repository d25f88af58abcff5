"""Organisms: transformers whose beliefs we made, and know (DESIGN 4.7).

    python -m doxascope.experiments.synthetic.organisms

trains them anew, in minutes. The shipped ones are loaded as any model is: `doxascope.load(organism_folder("honest"))`.
"""

from .species import ORGANISMS, Species, organism_folder
from .world import Contexts, UrnQuestion, draw_contexts

__all__ = ["ORGANISMS", "Contexts", "Species", "UrnQuestion", "draw_contexts", "organism_folder"]
