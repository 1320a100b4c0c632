import json

from bench.measure import RESULTS_PATH
from bench.pages.readme_figures import README_PATH, with_figures


def test_the_front_page_has_the_figures_of_the_results():
    rows = json.loads((RESULTS_PATH / "latest.json").read_text())
    readme = README_PATH.read_text()
    assert with_figures(readme, rows) == readme
    rows[0] = {**rows[0], "ratio": 1000.0}
    assert with_figures(readme, rows) != readme
