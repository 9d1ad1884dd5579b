"""Executing a notebook to one HTML page that needs no network: same results, same bytes."""

from __future__ import annotations

import html
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from servestudy.errors import UserError
from servestudy.files import atomic_path
from servestudy.notebook import RUN_VARIABLE

if TYPE_CHECKING:
    from nbformat import NotebookNode

LIMIT_S = 300  # of a cell, and until the kernel answers: far more than either takes on an idle machine
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { line-height: 1.2; } h2 { margin-top: 2.4rem; border-bottom: 1px solid #bbb; }
img { display: block; margin: .4rem 0; }
.anchor-link, .prompt { display: none; } code { background: #f2f2f2; padding: 0 .2em; }
.highlight { background: #f6f6f6; border-left: 3px solid #0b3c6f; padding: .1rem .8rem; overflow-x: auto; }
.highlight pre { margin: .4rem 0; font-size: 12.5px; line-height: 1.4; } .output { margin: .4rem 0 1.2rem; }
.output pre { font-size: 12.5px; overflow-x: auto; margin: .4rem 0; } table { border-collapse: collapse; }
.text_cell_render th, .text_cell_render td { border: 1px solid #ccc; padding: .2rem .6rem; }
"""
# What a person's own IPython and Jupyter settings say is no part of a page, nor is a page of their history.
OWN_FOLDERS = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR")


def write_page(notebook: Path, run: str, out: Path) -> None:
    """Execute a notebook on a run, in the working folder, and write the page.

    Raises UserError that names the notebook, the cell and what went wrong in it.
    """
    page = _page(_executed(_read(notebook), notebook, run), notebook.stem)
    with atomic_path(out) as part:
        part.write_text(page, encoding="utf-8")


def _read(notebook: Path) -> NotebookNode:
    """The notebook, without what somebody's execution may have left in it."""
    import nbformat

    try:
        found = nbformat.read(notebook, as_version=4)
        for cell in found.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        return found
    except FileNotFoundError:
        raise UserError(f"{notebook}: not found; the notebooks are in notebooks/") from None
    except Exception as error:
        raise UserError(f"{notebook}: not a notebook ({error})") from None


def _executed(found: NotebookNode, notebook: Path, run: str) -> NotebookNode:
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    with TemporaryDirectory(prefix="servestudy-") as own:
        environment = {**os.environ, RUN_VARIABLE: run, **dict.fromkeys(OWN_FOLDERS, own)}
        limits = {"timeout": LIMIT_S, "startup_timeout": LIMIT_S}
        client = NotebookClient(found, kernel_name="python3", record_timing=False, **limits)
        # Sockets in a folder of its own: on the network, two kernels that start at once may choose the same port.
        kernel = client.create_kernel_manager()
        kernel.transport, kernel.ip, kernel.connection_file = "ipc", f"{own}/kernel", f"{own}/connection.json"
        try:
            return client.execute(env=environment)
        except CellExecutionError as error:
            number = 1 + max(place for place, cell in enumerate(found.cells) if cell.get("execution_count"))
            raise UserError(f"{notebook}: cell {number}: {error.ename}: {error.evalue}") from None


def _page(executed: NotebookNode, name: str) -> str:
    from nbconvert import HTMLExporter
    from pygments.formatters import HtmlFormatter

    body, _ = HTMLExporter(template_name="basic").from_notebook_node(executed)
    colours = HtmlFormatter(style="default").get_style_defs(".highlight")
    title = next((line[2:] for line in executed.cells[0].source.splitlines() if line.startswith("# ")), name)
    about = "<meta charset=utf-8><meta name=viewport content='width=device-width'>"
    head = f"{about}<title>{html.escape(title)}</title><style>{colours}\n{STYLE}</style>"
    return f"<!DOCTYPE html>\n<html lang=en><head>{head}</head>\n<body>\n{body}\n</body></html>\n"
