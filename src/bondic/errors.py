"""The exceptions a user can meet. Each message says what is wrong, why it matters and the way out."""


class BondicError(Exception):
    """Base class of every error raised on purpose by this library."""


class InvalidInput(BondicError, ValueError):
    """The log, the policy or an argument cannot be used as it is."""


class PolicyError(InvalidInput):
    """The policy raised, or returned something that is not an action distribution."""


class TunedOnCertifiedRows(InvalidInput):
    """Instruments W were tuned on rows that they are asked to certify."""


class NumericalError(BondicError, ArithmeticError):
    """A quantity left its proved error bound; no number is reported rather than a doubtful one."""


class VerificationError(BondicError):
    """A certificate does not match the log, the policy or its own numbers."""


class MissingExtra(BondicError, ImportError):
    """An optional library is needed for this method."""

    def __init__(self, library: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the optional library `{library}`; install it with `pip install 'bondic[{extra}]'`."
        )


class ValidityWarning(UserWarning):
    """Something in the input makes an assumption of the interval doubtful."""
