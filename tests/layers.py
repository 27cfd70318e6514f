"""Reads the source of both packages with `ast`, for `test_layers.py`; standard library only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

__all__ = ["ROOT", "Import", "Source", "sources"]

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Import:
    """One imported module, absolute, and the line that imports it."""

    name: str
    line: int

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]


@dataclass(frozen=True)
class Source:
    """One file of a package.

    Attributes:
        path: As seen from the package, such as `net/pool.py`.
    """

    package: str
    path: str
    file: Path

    @property
    def label(self) -> str:
        return f"{self.package}/{self.path}"

    @property
    def module(self) -> str:
        parts = [self.package, *self.path.removesuffix(".py").split("/")]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def part(self) -> str:
        """The layer's name for it: the folder, or the module at the top."""
        return self.path.partition("/")[0].removesuffix(".py")

    @cached_property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def imports(self) -> list[Import]:
        """What it imports while it runs."""
        return self._imports(lazy=True)

    @cached_property
    def imports_at_once(self) -> list[Import]:
        """What its own import loads: without what functions import when they are called."""
        return self._imports(lazy=False)

    def _imports(self, *, lazy: bool) -> list[Import]:
        found = []
        for node in _running(self.tree, into_functions=lazy):
            if isinstance(node, ast.Import):
                found += [Import(alias.name, node.lineno) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                found += self._from(node)
        return found

    def _from(self, node: ast.ImportFrom) -> list[Import]:
        base = node.module or ""
        if node.level:
            here = self.module.split(".")
            up = node.level - (1 if self.path.endswith("__init__.py") else 0)
            base = ".".join([*here[: len(here) - up], *filter(None, [node.module])])
        # `from . import x` may name a module: both readings are kept, the longer one first.
        return [Import(f"{base}.{alias.name}", node.lineno) for alias in node.names]

    def functions(self) -> Iterator[tuple[str, int]]:
        """Each function's name and its length in lines, docstring left out."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                yield node.name, length - _docstring_lines(node)

    def exported(self) -> list[str] | None:
        """The value of `__all__`, or `None` without one."""
        for node in self.tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AnnAssign):
                targets = [node.target]
            if any(isinstance(name, ast.Name) and name.id == "__all__" for name in targets):
                names: list[str] = ast.literal_eval(node.value)  # type: ignore[attr-defined]
                return names
        return None

    def exposed(self) -> set[str]:
        """Public names that its top level defines, and in an `__init__` those it gathers."""
        names = set(_defined(self.tree))
        if self.path.endswith("__init__.py"):
            names |= self.imported(own=True)
        return {name for name in names if not name.startswith("_")}

    def imported(self, *, own: bool = False) -> set[str]:
        """Names that its top level imports, from its `own` package only or from anywhere."""
        return {
            alias.asname or alias.name
            for node in self.tree.body
            if isinstance(node, ast.ImportFrom)
            and (not own or node.level or (node.module or "").split(".")[0] == self.package)
            for alias in node.names
        }

    def has_lazy_names(self) -> bool:
        """Whether a module-level `__getattr__` answers for further names."""
        return "__getattr__" in set(_defined(self.tree))


@cache
def sources(package: str) -> tuple[Source, ...]:
    """Every Python file of `package`, in order."""
    base = ROOT / ("src/smartclient" if package == "smartclient" else package)
    files = sorted(base.rglob("*.py"))
    return tuple(Source(package, file.relative_to(base).as_posix(), file) for file in files)


def _running(node: ast.AST, *, into_functions: bool) -> Iterator[ast.AST]:
    """Nodes below `node`, without those that only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # no import stands in one
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if not into_functions and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield child
        yield from _running(child, into_functions=into_functions)


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign) and not _is_type_variable(node.value):
            yield from (name.id for name in node.targets if isinstance(name, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _is_type_variable(value: ast.expr) -> bool:
    kinds = ("TypeVar", "ParamSpec", "TypeVarTuple")
    return isinstance(value, ast.Call) and ast.unparse(value.func) in kinds


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    if ast.get_docstring(node) is None:
        return 0
    return (first.end_lineno or first.lineno) - first.lineno + 1
