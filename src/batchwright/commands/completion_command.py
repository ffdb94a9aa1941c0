"""The command completion: a script that lets a shell complete commands, flags and files."""

from __future__ import annotations

from batchwright.commands.parser import Parser
from batchwright.core.errors import unknown

BASH = """_batchwright() {
  local word="${COMP_WORDS[COMP_CWORD]}" program="${COMP_WORDS[0]}"
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "$("$program" --help | awk '/^  [a-z]/ {print $1}')" -- "$word"))
  elif [[ "$word" == -* ]]; then
    local flags="$("$program" "${COMP_WORDS[1]}" --help 2>/dev/null | grep -oE -- '--[a-z][a-z0-9-]*' | sort -u)"
    COMPREPLY=($(compgen -W "$flags" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}
complete -o filenames -F _batchwright batchwright
"""
SHELLS = {"bash": BASH, "zsh": "autoload -Uz bashcompinit && bashcompinit\n" + BASH}


def completion(words: list[str]) -> int:
    """`batchwright completion bash|zsh`."""
    parser = Parser(
        prog="batchwright completion",
        description='Prints a script for the shell: eval "$(batchwright completion bash)" in ~/.bashrc.',
        allow_abbrev=False,
    )
    parser.add_argument("shell", help="bash or zsh")
    shell = parser.read(words)["shell"]
    if shell not in SHELLS:
        raise unknown("shell", shell, SHELLS, "batchwright completion")
    print(SHELLS[shell], end="")
    return 0
