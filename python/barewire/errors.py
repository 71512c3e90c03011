"""The exceptions of Barewire.

Every exception that the network raises is an :class:`Error`. It says what was wrong and, where it can, what to do.
``error.code`` is the name of its class; ``error.fault`` says whose fault it is:

========== ============================================================
``caller`` mend the call
``peer``   the other process left, died, refused or broke the protocol
``system`` a limit, memory, the kernel
========== ============================================================
"""

from __future__ import annotations


class Error(Exception):
    """Something that the network can not do."""

    code: str = "Error"
    fault: str = "system"


class BadName(Error, ValueError):
    """A name is empty, too long, or has a zero byte."""


class NameTaken(Error):
    """Somebody listens under the name already."""


class NoSuchName(Error, ConnectionRefusedError):
    """Nobody listens under the name."""


class OwnName(Error, TimeoutError):
    """A node connected to a name of its own, and did not accept in time."""


class WrongOwner(Error, PermissionError):
    """The process that holds the name belongs to another user than was expected."""


class HostUnreachable(Error, ConnectionError):
    """Another host could not be reached, or is not one to talk to."""


class HostLost(Error, ConnectionResetError):
    """A link to another host is down."""


class Refused(Error, ConnectionRefusedError):
    """The other side refused the connection, and says why."""


class Timeout(Error, TimeoutError):
    """The time allowed has passed."""


class OutOfLimits(Error, ValueError):
    """A value is outside what is allowed."""


class LimitReached(Error):
    """A limit on how many there may be has been reached."""


class GrantedAlready(Error):
    """The peer's node has this aperture already."""


class TooLong(Error, ValueError):
    """A message is longer than the receiver takes."""


class BufferTooSmall(Error, ValueError):
    """The buffer is too small for the message, which stays in the queue."""


class Finished(Error, EOFError):
    """The peer has finished sending, and everything that it sent has been received."""


class PeerDeaf(Error, BrokenPipeError):
    """The peer has stopped receiving."""


class PeerGone(Error, ConnectionResetError):
    """The peer closed the connection or its node in an orderly way."""


class PeerDied(Error, ConnectionResetError):
    """The peer's process died, or turned into another program."""


class PeerMisbehaved(Error, ConnectionResetError):
    """The peer broke the protocol; the connection is closed."""


class Closed(Error, ValueError):
    """This side is closed, or was given away by ``into_stream`` or ``split``."""


class Forked(Error):
    """It belongs to the parent process: after ``fork`` a child has to make a node of its own."""


class OtherNode(Error, ValueError):
    """An aperture or a connection was used with another node than its own."""


class Access(Error, ValueError):
    """An access to an aperture was refused: outside of it, not aligned, or against its rights."""


class Revoked(Error):
    """The owner has revoked the aperture."""


class Arm(Error, ValueError):
    """A tripwire could not be set."""


class BadSetting(Error, ValueError):
    """A setting of a live node was not changed."""


class Capture(Error):
    """The capture file can not be written."""


class System(Error, OSError):
    """The system refused something."""


class Busy(Error, RuntimeError):
    """Another thread is in the middle of a call on the same object, or a message in place is not finished."""


_CLASSES = {
    cls.__name__: cls for cls in list(globals().values()) if isinstance(cls, type) and issubclass(cls, Error)
}


def _of(message: str, *, code: str, fault: str) -> Error:
    """The exception of this code; the native module makes its exceptions with it."""
    error = _CLASSES.get(code, Error)(message)
    error.code, error.fault = code, fault
    return error


__all__ = list(_CLASSES)
