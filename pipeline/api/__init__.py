"""The Python API: what `import fullpass` gives to notebooks and tests (docs/api.md).

A pipeline runs, a run has a model, a model predicts. Each object imports heavy modules when it is first asked, like the
commands of the command line, which call the same code.
"""
