import importlib.util
import json
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2]


def test_the_front_page_has_the_figures_of_the_results(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    spec = importlib.util.spec_from_file_location("figures", BENCH / "readme_figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows = json.loads((BENCH / "results" / "latest.json").read_text())
    readme = module.README_PATH.read_text()
    assert module.with_figures(readme, rows) == readme
    rows[0] = {**rows[0], "ratio": 1000.0}
    assert module.with_figures(readme, rows) != readme
