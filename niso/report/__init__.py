"""Reports of runs: pictures in the run folder, and web pages that are one file each and need no network.

Importing this loads matplotlib, so import it where a report is written.
"""

from niso.report.comparison import comparison_text, sections, write_comparison
from niso.report.page import write_report
from niso.report.pictures import Picture, save_pictures

__all__ = ["Picture", "comparison_text", "save_pictures", "sections", "write_comparison", "write_report"]
