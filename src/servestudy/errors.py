"""The one exception that means "the user can mend this"."""


class UserError(Exception):
    """A mistake in a file, an option or an input.

    The message is one or a few plain sentences that name the file, the key or row, the value found,
    and the way out. The command line prints it without a traceback and exits with status 1.
    """
