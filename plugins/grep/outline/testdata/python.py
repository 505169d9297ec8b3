"""A module. def not_a_function(): pass
class NotAClass: pass
"""
import os as renamed
from typing import overload

VERSION = "1.0"
plain = other = 3
a, (b, c) = 1, (2, 3)
annotated: int
typed: dict[str, int] = {}
# def commented(): pass
text = '''
def in_a_string():
    pass
'''
obj.attribute = 1
table["key"] = 2
type Alias = list[int]
type Generic[T] = dict[str, T]


@decorator(argument=lambda x: x)
def decorated(a, b=1, *args, **kwargs) -> "str":
    local = 1

    def nested():
        inner_local = 2

        class InFunction:
            field = 1

            def method(self): ...

    return f"{local} def in_f_string(): {nested()}"


async def coroutine(): pass


def generic[T: (int, str)](x: T) -> T: return x


class Outer(Base, metaclass=Meta):
    """Has class Inner: in it."""

    field = 1
    typed_field: int = 2
    declared: str

    class Inner:
        X = 1

        def deep(self): pass

    @property
    def prop(self): return self._prop

    @prop.setter
    def prop(self, value): self._prop = value

    @overload
    def over(self, x: int) -> int: ...
    @overload
    def over(self, x: str) -> str: ...
    def over(self, x): return x

    async def amethod(self): pass


if renamed.name == "nt":
    def conditional(): pass
else:
    def conditional(): pass

try:
    FALLBACK = 1
except Exception:
    FALLBACK = 2

def oneline(): pass; after = 1
größe = 1
def ünïcode(): pass
match plain:
    case 1:
        matched = 1
