"""The structure graph as people see it."""

from __future__ import annotations

from pathlib import Path

from scalana.report.structure.psg_text import render, render_psg
from tests.frontend.outline import expect, program

SOURCE = """\
    import torch.distributed as dist
    from other import work
    def down(n):
        return down(n - 1)
    def main():
        for i in range(3):
            x = 1
            if x:
                x = 2
            work()
        down(2)
    main()
"""
OTHER = "import torch.distributed as dist\ndef work():\n    dist.all_reduce(x)\n"


def test_the_tree_has_a_line_for_each_vertex_with_its_place(tmp_path: Path) -> None:
    psg = program(tmp_path, SOURCE, other=OTHER)
    assert render(psg, root=tmp_path).startswith(
        expect("""
        function  <module>  main.py:1-12
        |- comp  :1-12
        `- function  main  :5-11  (called in line 12)
           |- loop  for i in range(3)  :6-10
           |  |- comp  :7-10
           |  `- function  work  other.py:2-3  (called in line 10)
           |     `- comm allreduce  dist.all_reduce  :3
           |- comp  :11
           `- function  down  :3-4  (called in line 11)
              |- comp  :4
              `- call  down  :4  (back to down)

        """)
    )
    assert "branch  if x  :8-9" in render_psg(psg, root=tmp_path)


def test_files_outside_the_folder_keep_their_path(tmp_path: Path) -> None:
    psg = program(tmp_path, SOURCE, other=OTHER)
    assert str(tmp_path / "main.py") in render_psg(psg, root=tmp_path / "elsewhere")


def test_lines_are_cut_to_the_width_and_colour_is_only_there_when_asked_for(tmp_path: Path) -> None:
    psg = program(tmp_path, SOURCE, other=OTHER)
    plain = render_psg(psg, width=30, root=tmp_path)
    assert max(map(len, plain.splitlines()[:-1])) == 30
    assert "\x1b" not in plain
    coloured = render_psg(psg, color=True, root=tmp_path)
    assert "\x1b[1;31mcomm\x1b[0m allreduce" in coloured
