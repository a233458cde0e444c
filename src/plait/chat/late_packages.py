"""Import a few classes of a large package without the thousands of modules that it also offers.

A provider's package imports every type of its API when it is imported, and the chat needs none of
them. Python runs a package's ``__init__`` before any module of it; here it runs late, at the first
use of one of its names, and until then only the modules are loaded that are needed:

    with late_packages("anthropic"):
        from anthropic._client import Anthropic

Nothing is replaced: all modules and classes are the package's own, and whoever imports it
afterwards, or a module of it, gets what a plain import gives. If the block fails, the package is
as if it had never been imported, so that a plain import can follow.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from threading import active_count, get_ident
from types import ModuleType
from typing import Any

# What Python's own import asks of a package.
_OF_IMPORT = frozenset(
    {
        *("__cached__", "__class__", "__file__", "__loader__", "__name__", "__package__"),
        *("__path__", "__spec__"),
    }
)


@contextmanager
def late_packages(root: str) -> Iterator[None]:
    """Let a package run late, and those in ``root.types`` that only pass on names of their modules.

    All others run at once, as always: a package that cannot be imported must say so at its
    ``import``, where somebody may be prepared for it. Nothing is late if the package is imported
    already, or if another thread might import it at the same time.

    Args:
        root: The name of the package.

    Raises:
        ImportError: The package is missing, or cannot be imported in this way.
    """
    if root in sys.modules or active_count() > 1:
        yield
        return
    finder = _Finder(root)
    sys.meta_path.insert(0, finder)
    is_imported = False
    try:
        yield
        is_imported = True
    except (
        *(AssertionError, AttributeError, LookupError, NameError, OSError, RuntimeError),
        *(SyntaxError, TypeError, ValueError),
    ) as error:
        raise ImportError(f"{root} cannot be imported in parts.", name=root) from error
    finally:
        finder.is_open = False
        if is_imported:
            for name in finder.late:
                sys.modules.pop(name, None)
        else:
            sys.meta_path.remove(finder)
            for name in [*sys.modules]:
                if f"{name}.".startswith(f"{root}."):
                    del sys.modules[name]


class _Finder:
    """Tells Python's import how to load a package that runs late, and how to run it."""

    def __init__(self, root: str) -> None:
        self._root = root
        # Those that have not run. When the block has ended they are not in `sys.modules`, so that
        # the next import of one runs it, under the locks of Python's import.
        self.late: dict[str, ModuleType] = {}
        self.is_open = True

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a package, or None for Python's usual way."""
        package = self.late.get(name)
        if package is not None:
            return _late(package).spec_to_run(package)
        if not (self.is_open and self._may_be_late(name)):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None or not spec.submodule_search_locations:
            return spec
        names = {} if name == self._root else names_passed_on(spec.origin)
        if names is not None:
            spec.loader_state = _Late(self, names, spec.loader)
            postponer: Any = _Postponer()
            spec.loader = postponer
        return spec

    def _may_be_late(self, name: str) -> bool:
        return name == self._root or f"{name}.".startswith(f"{self._root}.types.")


def names_passed_on(path: str | None) -> dict[str, tuple[str, str]] | None:
    """Return the module and the name behind each name of a package.

    None if the package does more than import names from its own modules.
    """
    if path is None:
        return None
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 (pathlib costs the start 5 ms)
        statements = ast.parse(file.read()).body
    names: dict[str, tuple[str, str]] = {}
    for statement in statements:
        match statement:
            case ast.Expr(value=ast.Constant()) | ast.ImportFrom(module="__future__"):
                pass
            case ast.ImportFrom(module=str(module), names=aliases, level=1):
                for alias in aliases:
                    names[alias.asname or alias.name] = (f".{module}", alias.name)
            case _:
                return None
    return None if "*" in names else names


class _Late:
    """What is known of a package that has not run."""

    def __init__(self, finder: _Finder, names: dict[str, tuple[str, str]], loader: Any) -> None:
        self.finder = finder
        self.names = names
        self.loader = loader
        # The thread that runs it.
        self.runner: int | None = None

    def spec_to_run(self, package: ModuleType) -> ModuleSpec:
        """Return how to run it: by what was found first, whatever else has that name by now."""
        first: Any = package.__spec__
        runner: Any = _Runner(package, self.loader)
        spec = ModuleSpec(first.name, runner, origin=first.origin, is_package=True)
        spec.submodule_search_locations = first.submodule_search_locations
        spec.loader_state, spec.cached = self, first.cached
        spec.has_location = first.has_location
        return spec

    def value(self, package: ModuleType, name: str) -> Any:
        """Return the value of a name; run the package for it, if that is needed."""
        if self.finder.is_open and self.runner is None:
            if name in self.names:
                module, inner = self.names[name]
                return getattr(import_module(module, package.__name__), inner)
            loaded = ModuleType.__getattribute__(package, "__dict__")
            if name in loaded:
                return loaded[name]
            if PathFinder.find_spec(f"{package.__name__}.{name}", package.__path__):
                # Python's import imports the module of this name next.
                raise AttributeError(f"module {package.__name__!r} has not imported {name!r}")
            del sys.modules[package.__name__]
        if self.runner != get_ident():
            # Another thread may run it: then this waits, as any import does.
            import_module(package.__name__)
        return ModuleType.__getattribute__(package, name)


class _LatePackage(ModuleType):
    """A package that has not run. Once it has, it is a module like any other."""

    def __getattribute__(self, name: str) -> Any:
        if name in _OF_IMPORT:
            return ModuleType.__getattribute__(self, name)
        return _late(self).value(self, name)


def _late(package: ModuleType) -> _Late:
    state: _Late = package.__spec__.loader_state  # type: ignore[union-attr]
    return state


class _Postponer:
    """Loads a package and does not run it."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _LatePackage(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        _late(module).finder.late[module.__name__] = module


class _Runner:
    """Runs a package that was loaded late."""

    def __init__(self, package: ModuleType, loader: Any) -> None:
        self._package = package
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._package

    def exec_module(self, module: ModuleType) -> None:
        late = _late(module)
        late.runner = get_ident()
        try:
            self._loader.exec_module(module)
        finally:
            late.runner = None
        module.__spec__.loader = module.__loader__ = self._loader  # type: ignore[union-attr]
        module.__class__ = ModuleType
        late.finder.late.pop(module.__name__, None)  # or another thread was first
