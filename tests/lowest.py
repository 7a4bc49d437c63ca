"""`make test-lowest`: the tests with the lowest versions that pyproject.toml allows, in a fresh environment."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("hf", "demo", "bios", "report", "api", "ray")


def main() -> None:
    """Installs NAME==LOWEST for every dependency with a lower bound, then runs pytest."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(d for extra in EXTRAS for d in project["optional-dependencies"][extra])]
    lowest = [line.replace(">=", "==") for line in wanted if ">=" in line]
    tools = [line for line in project["optional-dependencies"]["dev"] if not line.startswith("evenhand")]
    folder = ROOT / ".venv-lowest"
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *(line for line in lowest if line.startswith("torch=="))], check=True)
    subprocess.run([*pip, *lowest, *tools], check=True)
    subprocess.run([*pip, "--no-deps", "-e", ROOT], check=True)
    sys.exit(subprocess.run([python, "-m", "pytest", *sys.argv[1:]], cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main()
