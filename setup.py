"""Where the parts go when the suite is installed: all of it into ``pbnn_bench/suite``.

Names such as ``metrics`` and ``reports`` are too common for a folder that all packages share. ``pbnn_bench.packages``
makes them importable, after everything else that has such a name.
"""

from setuptools import find_packages, setup

#: What the suite consists of, as folders of the checkout.
FOLDERS = ("benchmarks", "implementations", "metrics", "records", "reports", "workflows")

found = find_packages(include=[pattern for name in FOLDERS for pattern in (name, f"{name}.*")])
inside = {f"pbnn_bench.suite.{name}": name.replace(".", "/") for name in found}

setup(
    packages=["pbnn_bench", "pbnn_bench.suite", *inside],
    package_dir={"pbnn_bench.suite": ".", **inside},
    package_data={
        "pbnn_bench": ["templates/*"],
        "pbnn_bench.suite": ["Snakefile", "profiles/**/*", "references/**/*", "results/baselines/*", "templates/*"],
        # What lies beside the code, and folders that are no packages.
        **{name: ["*"] for name in inside},
        "pbnn_bench.suite.reports": ["*", "findings/*", "templates/*", "published/**/*"],
        "pbnn_bench.suite.workflows": ["*", "rules/*", "schemas/*", "studies/*"],
    },
)
