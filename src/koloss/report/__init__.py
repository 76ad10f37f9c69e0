"""What a computation found, as numbers, a table and a figure.

Tables need rich and figures need matplotlib (`pip install 'koloss[experiments]'`); both are imported only
where they are used.
"""

from koloss.report.inspection import Inspection, inspect, show, write

__all__ = ["Inspection", "inspect", "show", "write"]
