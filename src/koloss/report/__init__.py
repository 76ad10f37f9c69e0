"""Results as pages, figures and tables for the terminal.

Pages and figures need Jinja2 and matplotlib (`pip install 'koloss[report]'`), tables rich, which comes with these; all are
imported only where they are used.
"""

from koloss.report.inspection import Inspection, inspect, show, write
from koloss.report.page import show_bounds, show_catalogue, show_results, write_page

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
