"""What a computation found, as numbers, tables, figures and a page.

Tables need rich and figures need matplotlib (`pip install 'koloss[experiments]'`); both are imported only
where they are used.
"""

from koloss.report.inspection import Inspection, inspect, show, write
from koloss.report.page import write_page
from koloss.report.text import show_bounds, show_catalogue, show_results

__all__ = [
    "Inspection",
    "inspect",
    "show",
    "show_bounds",
    "show_catalogue",
    "show_results",
    "write",
    "write_page",
]
