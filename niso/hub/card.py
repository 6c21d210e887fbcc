"""Model cards: README.md of a saved model, for people and for the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from niso.config import flat
from niso.experiments import EXPERIMENTS
from niso.experiments.known import known
from niso.experiments.settings import Settings

CARD = "README.md"

TEMPLATE = """---
library_name: niso
{license}tags:
- neural-isometries
- equivariance
---

# {name}

{about}

```python
import niso

fitted = niso.load("{address}")  # encode, map, transport, invariants, decode, spectrum{predict}
```

- Observations: {observations}.
- Trained by `niso run {experiment} --preset {preset} --method {method}`, seed {seed}{changed};
  config.json holds all settings.
{metric}
{summary}

Files: config.json and model.safetensors, without pickle{record}. The method is that of Mitchel, Taylor and
Sitzmann, [Neural Isometries](https://arxiv.org/abs/2405.19296) (NeurIPS 2024).
"""


def card(
    name: str,
    address: str,
    about: str,
    settings: Settings,
    facts: Mapping[str, Any],
    metrics: Mapping[str, float],
    license: str = "",
    record: bool = False,
) -> str:
    """The card of a saved model.

    Args:
        address: what `niso.load` takes.
        about: what it can do, and what to expect; one paragraph.
        facts, metrics: of the run that trained it.
        license: its identifier, where it is known.
        record: whether the record of the run is beside the card.
    """
    kind = EXPERIMENTS.find(settings.experiment)
    described = next(metric for metric in known(settings.experiment).metrics if metric.key == kind.model_metric)
    value = metrics.get(kind.model_metric)
    started = kind.settings_of(settings.preset, settings.method)
    preset, own = (dict(flat(asdict(config))) for config in (started, settings.config))
    changed = [name for name in own if own[name] != preset.get(name)]
    data = facts["data"]
    of = f", {data['kind']}, values {' … '.join(f'{part:g}' for part in data['range'])}" if "range" in data else ""
    return TEMPLATE.format(
        license=f"license: {license}\n" if license else "",
        name=name,
        about=about or "Its encoder's latents are related by isometries of a learned operator.",
        address=address,
        predict=", predict" if data.get("classes") else "",
        observations=f"{' × '.join(map(str, data['shape']))}{of}",
        experiment=settings.experiment,
        preset=settings.preset,
        method=settings.method,
        seed=settings.seed,
        changed=f", with other {', '.join(changed)}" if changed else "",
        metric="" if value is None else f"- `{kind.model_metric}` {value:.4g}{described.unit}: {described.text}.\n",
        summary=kind.summary,
        record=", and record.json, the record of the run" if record else "",
    )


def about_of(text: str) -> str:
    """What a card says that its model can do: the paragraph below its title."""
    return " ".join(text.partition("\n# ")[2].split("\n\n")[1].split())
