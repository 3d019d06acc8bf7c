"""Values: frozen classes, slotted, keyword-only and equal by content, cheap to define.

The standard library's ``@dataclass(frozen=True, slots=True, kw_only=True)`` has the same meaning and costs 0.4 ms a class at
import, because it compiles six methods for each; forty of them took 17 ms of every command. This one compiles none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat

__all__ = ["TYPE_CHECKING", "all_of", "cast", "late", "replace", "value", "waiting", "waiting_all", "waits"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar, cast, dataclass_transform

    T = TypeVar("T")
else:

    def cast(_kind: object, thing: object) -> object:
        """Return a value unchanged, as typing's cast; importing typing costs each start 3 ms."""
        return thing

    def dataclass_transform(**_: object) -> Callable[[object], object]:
        """Only type checkers look at it."""
        return lambda function: function


_put = object.__setattr__  # many values are made so at once


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[T]) -> type[T]:
    """Make a class with annotated fields, some with defaults, a value class. One with a ``__getattr__`` may come into being
    without its fields, and get each when it is asked for, from what its slot ``_rest`` holds."""
    names = tuple(cls.__annotations__)
    late = ("_rest",) if "__getattr__" in vars(cls) else ()
    body = {k: v for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__", *names)}
    defaults = {name: vars(cls)[name] for name in names if name in vars(cls)}
    setters = list[tuple[str, Callable[[object, object], None]]]()
    body |= {
        "__slots__": (*names, *late),
        "__match_args__": names,
        "__init__": _init(defaults, setters),
        "__setattr__": _frozen,
        "__delattr__": _frozen,
    }
    for name, method in (("__eq__", _eq), ("__hash__", _hash), ("__repr__", _repr), ("__reduce__", _reduce)):
        body.setdefault(name, method)
    body["__hash__"] = _hash  # defining __eq__ alone would set it to None
    made: Any = type(cls)
    done = made(cls.__name__, cls.__bases__, body)
    setters += ((name, vars(done)[name].__set__) for name in names)
    return done  # type: ignore[no-any-return]


def late(self: object, name: str) -> object:
    """Get a field that was not read yet: the ``__getattr__`` of a class of which the values may wait for their fields."""
    if name not in type(self).__match_args__:  # type: ignore[attr-defined]
        raise AttributeError(f"'{type(self).__name__}' has no field '{name}'")
    found = object.__getattribute__(self, "_rest")(name)
    _put(self, name, found)
    return found


def waiting(kind: type[T], rest: Callable[[str], object], /, **fields: object) -> T:
    """Make a value of such a class of some fields; ``rest`` reads each of the others when it is asked for."""
    made = object.__new__(kind)
    _put(made, "_rest", rest)
    for name, item in fields.items():
        _put(made, name, item)
    return made


def waiting_all(kind: type[T], rests: Sequence[Callable[[str], object]], /, **columns: Iterable[object]) -> list[T]:
    """Make many of them at once, of a column of each of some fields."""
    return all_of(kind, len(rests), _rest=rests, **columns)


def all_of(kind: type[T], many: int, /, **columns: Iterable[object]) -> list[T]:
    """Make many values of a class at once, of a column of each field."""
    made = [*map(object.__new__, repeat(kind, many))]
    for name, column in columns.items():
        any(map(vars(kind)[name].__set__, made, column))  # of them all, for each returns None
    return made


def waits(item: object) -> bool:
    """Whether a value came into being by ``waiting``."""
    return getattr(item, "_rest", None) is not None


def replace(item: T, /, **changes: Any) -> T:
    """A new value of the same class with some fields changed; fields that were not read yet still wait."""
    rest = getattr(item, "_rest", None)
    if rest is None:
        return type(item)(**{**_fields(item), **changes})
    made = object.__new__(type(item))
    _put(made, "_rest", rest)
    for name in type(item).__match_args__:  # type: ignore[attr-defined]
        try:
            _put(made, name, changes.pop(name) if name in changes else object.__getattribute__(item, name))
        except AttributeError:
            continue
    if changes:
        raise TypeError(f"{type(item).__name__}: unexpected {', '.join(sorted(changes))}")
    return made


def _fields(item: object) -> dict[str, Any]:
    return {name: getattr(item, name) for name in type(item).__match_args__}  # type: ignore[attr-defined]


def _init(defaults: dict[str, Any], setters: list[tuple[str, Callable[[object, object], None]]]) -> Callable[..., None]:
    def __init__(self: object, **fields: Any) -> None:
        if len(fields) != len(setters):
            fields = {**defaults, **fields}
        try:
            for name, put in setters:
                put(self, fields[name])
            right = len(fields) == len(setters)
        except KeyError:
            right = False
        if not right:
            wrong = ", ".join(sorted(f"'{name}'" for name in fields.keys() ^ {name for name, _ in setters}))
            raise TypeError(f"{type(self).__name__}: missing or unexpected {wrong}")

    return __init__


def _frozen(self: object, name: str, *_: object) -> None:
    raise AttributeError(f"{type(self).__name__} is frozen: cannot change '{name}'")


def _eq(self: object, other: object) -> object:
    if self is other:
        return True
    return _fields(self) == _fields(other) if type(self) is type(other) else NotImplemented


def _hash(self: object) -> int:
    return hash(tuple(_fields(self).values()))


def _repr(self: object) -> str:
    return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in _fields(self).items())})"


def _reduce(self: object) -> tuple[object, ...]:
    return _rebuild, (type(self), _fields(self))


def _rebuild(cls: type[T], fields: dict[str, Any]) -> T:
    return cls(**fields)
