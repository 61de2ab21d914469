#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks Espalier's loss and gradients against PyTorch.

  oracle.py compare DUMP.h5 [--float64] [--break NAME]
      Builds the model of a gradient dump, compares the loss (1e-6 relative) and every gradient
      (1e-5 relative, Frobenius norm), prints a line a tensor. --break builds a fault into the
      reference (a name of --list-breaks, or a parameter, whose gradient is scaled by 1.001): the
      comparison must then fail.
  oracle.py controls DUMP.h5
      Compares with every fault of --list-breaks that applies to the model and with one scaled
      gradient, one after the other: each must be noticed.
  oracle.py make-golden OUT.h5 --family NAME
      Makes a small model by a fixed seed, computes it in float64 and writes a dump, with a JSON
      file beside it that says how it was made.

Exit codes: 0 all agree, 1 something differs (controls: a fault went unnoticed), 2 wrong use or a
file that cannot be read or does not hold the tensors of its model, 77 torch or h5py is missing.
"""
import argparse
import datetime
import hashlib
import json
import os
import sys

LOSS_TOLERANCE = 1e-6
GRADIENT_TOLERANCE = 1e-5

try:
    import h5py
    import numpy
    import torch
except ImportError as error:
    print(f"oracle: skipped, {error}; install python3-torch and python3-h5py")
    sys.exit(77)

import dump_file
import golden_cases
import reference_model


def check_names(dump):
    """What is missing, extra or of another shape, as lines."""
    shapes = reference_model.expected_shapes(dump.model, dump.tokens["inputs"].shape[1])
    faults = []
    for group, values in (("parameters", dump.parameters), ("gradients", dump.gradients)):
        for name, shape in shapes.items():
            if name not in values:
                faults.append(f"{group}/{name}: missing, expected {shape}")
            elif values[name].shape != shape:
                faults.append(f"{group}/{name}: expected {shape}, found {values[name].shape}")
        faults += [f"{group}/{name}: extra" for name in values if name not in shapes]
    return faults


def relative_error(found, reference):
    """||found - reference|| / ||reference|| in double; 0 if both are zero."""
    reference = reference.to(torch.float64)
    difference = float((torch.tensor(found, dtype=torch.float64) - reference).norm())
    size = float(reference.norm())
    return difference / size if size > 0 else (0.0 if difference == 0 else float("inf"))


def compute_reference(dump, wide, broken):
    """Loss and gradients by PyTorch, with a fault built in if one is named."""
    scaled = broken if broken in dump.parameters else None
    loss, gradients = reference_model.loss_and_gradients(
        dump.model, dump.parameters, dump.tokens, torch.float64 if wide else torch.float32,
        None if scaled else broken)
    if scaled:
        gradients[scaled] = gradients[scaled] * 1.001
    return loss, gradients


def compare_values(dump, loss, gradients):
    """Rows (name, size in the dump, size in the reference, relative error, tolerance)."""
    rows = [("loss", dump.loss, loss, abs(dump.loss - loss) / abs(loss), LOSS_TOLERANCE)]
    for name in sorted(gradients):
        found = torch.tensor(dump.gradients[name], dtype=torch.float64)
        rows.append((name, float(found.norm()), float(gradients[name].to(torch.float64).norm()),
                     relative_error(dump.gradients[name], gradients[name]), GRADIENT_TOLERANCE))
    return rows


def is_within(row):
    return row[3] <= row[4]  # a NaN is not


def load(path):
    dump = dump_file.read_dump(path)
    faults = check_names(dump)
    if faults:
        raise dump_file.BadDump("\n  ".join([f"{path}: the tensors are not those of its model:"]
                                            + faults))
    return dump


def is_double(dump):
    return dump.parameters["final_norm.weight"].dtype == numpy.float64


def compare(arguments):
    dump, broken = load(arguments.dump), arguments.broken
    if broken and broken not in dump.parameters and broken not in reference_model.BREAKS:
        print(f"oracle: --break {broken} is neither a fault of --list-breaks nor a parameter")
        return 2
    wide = arguments.float64 or is_double(dump)
    rows = compare_values(dump, *compute_reference(dump, wide, broken))
    print(f"{'tensor':42} {'dump':>14} {'reference':>14} {'error':>9}")
    for row in rows:
        name, found, reference, error, _ = row
        verdict = "" if is_within(row) else "  FAILS"
        print(f"{name:42} {found:14.7e} {reference:14.7e} {error:9.1e}{verdict}")
    failures = sum(not is_within(row) for row in rows)
    kind = "float64" if wide else "float32"
    print(f"{len(rows)} compared in {kind} with torch {torch.__version__}, {failures} differ; "
          f"largest error {max(row[3] for row in rows):.1e}")
    return 1 if failures else 0


def controls(arguments):
    dump = load(arguments.dump)
    unnoticed = 0
    for fault in reference_model.BREAKS + ("embedding.token.weight",):
        try:
            rows = compare_values(dump, *compute_reference(dump, is_double(dump), fault))
        except reference_model.DoesNotApply:
            print(f"{fault:24} changes nothing in this model")
            continue
        failures = sum(not is_within(row) for row in rows)
        unnoticed += failures == 0
        print(f"{fault:24} {failures} of {len(rows)} differ{'' if failures else '  UNNOTICED'}")
    return 1 if unnoticed else 0


def make_golden(arguments):
    model = golden_cases.make_model(arguments.family)
    case = golden_cases.CASES[arguments.family]
    rng = numpy.random.default_rng(case["seed"])
    shapes = reference_model.expected_shapes(model, case["seq_length"])
    parameters = golden_cases.make_parameters(shapes, rng)
    tokens = golden_cases.make_tokens(arguments.family, rng)
    loss, gradients = reference_model.loss_and_gradients(model, parameters, tokens, torch.float64)
    dump = dump_file.Dump(
        model=model, tokens=tokens, parameters=parameters, loss=loss,
        gradients={name: value.numpy().astype("float32") for name, value in gradients.items()},
        deck=golden_cases.make_deck(arguments.family, model), program="oracle.py")
    dump_file.write_dump(arguments.out, dump)
    with open(arguments.out, "rb") as f:
        content = f.read()
    provenance = {
        "what": f"loss and gradients of a small {arguments.family}-like model, computed in float64 "
                "by PyTorch, gradients rounded to float32",
        "command": "python3 validation/oracle/oracle.py make-golden "
                   f"validation/references/oracle/{arguments.family}.h5 --family "
                   f"{arguments.family}",
        "numpy_seed": case["seed"], "torch": torch.__version__, "numpy": numpy.__version__,
        "h5py": h5py.__version__, "python": sys.version.split()[0],
        "date": datetime.date.today().isoformat(),
        "loss_tolerance": LOSS_TOLERANCE, "gradient_tolerance": GRADIENT_TOLERANCE,
        "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    with open(os.path.splitext(arguments.out)[0] + ".json", "w", encoding="utf-8") as f:
        json.dump(provenance, f, indent=2)
        f.write("\n")
    print(f"{arguments.out}: {len(content)} bytes, {sum(p.size for p in parameters.values())} "
          f"parameters, loss {loss:.9f}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list-breaks", action="store_true", help="print the built-in faults")
    verbs = parser.add_subparsers(dest="verb")
    verb = verbs.add_parser("compare", help="check a dump against PyTorch")
    verb.add_argument("dump")
    verb.add_argument("--float64", action="store_true", help="compute the reference in double")
    verb.add_argument("--break", dest="broken", metavar="NAME", help="build a fault in")
    verb = verbs.add_parser("controls", help="see that every built-in fault is noticed")
    verb.add_argument("dump")
    verb = verbs.add_parser("make-golden", help="write a small golden dump")
    verb.add_argument("out")
    verb.add_argument("--family", required=True, choices=sorted(golden_cases.CASES))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.list_breaks:
        print("\n".join(reference_model.BREAKS))
        return 0
    if not arguments.verb:
        parser.print_usage()
        return 2
    try:
        verbs = {"compare": compare, "controls": controls, "make-golden": make_golden}
        return verbs[arguments.verb](arguments)
    except reference_model.DoesNotApply as fault:
        print(f"oracle: the fault {fault} changes nothing in this model")
        return 2
    except (dump_file.BadDump, OSError, KeyError) as error:
        print(f"oracle: {error}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
