# SPDX-License-Identifier: Apache-2.0
"""Reads and writes gradient dumps; the format stands in docs/gradient-dump-format.md."""
import h5py
import numpy

FORMAT = "espalier gradient dump"
TOKENS = ("inputs", "targets", "positions", "document_start")


class BadDump(Exception):
    pass


class Dump:
    """model: keys of the deck's section model; tokens, parameters, gradients: name -> array."""

    def __init__(self, model, tokens, parameters, gradients, loss, deck, program):
        self.model, self.tokens, self.loss, self.deck = model, tokens, loss, deck
        self.parameters, self.gradients, self.program = parameters, gradients, program


def plain(value):
    return value.decode() if isinstance(value, bytes) else value.item()


def read_dump(path):
    with h5py.File(path, "r") as f:
        if plain(f.attrs.get("format", numpy.bytes_(b"none"))) != FORMAT:
            raise BadDump(f"{path}: is not a gradient dump")
        if f.attrs["format_version"] not in (1, 2):  # 2 has checksums, which are not read here
            raise BadDump(f"{path}: format version {f.attrs['format_version']}, expected 1 or 2")
        return Dump(
            model={key: plain(value) for key, value in f["model"].attrs.items()},
            tokens={name: f["tokens"][name][()] for name in TOKENS},
            parameters={name: f["parameters"][name][()] for name in f["parameters"]},
            gradients={name: f["gradients"][name][()] for name in f["gradients"]},
            loss=float(f["loss"][()]),
            deck=f["deck"][()].decode(),
            program=plain(f.attrs["program_version"]))


def write_dump(path, dump):
    """Without time stamps, so that equal content gives equal bytes."""
    creation = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_V18, h5py.h5f.LIBVER_V18)
    group_creation = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
    for properties in (creation, group_creation):
        properties.set_obj_track_times(False)
    file_id = h5py.h5f.create(path.encode(), h5py.h5f.ACC_TRUNC, creation, access)
    with h5py.File(file_id) as f:
        f.attrs["format"] = numpy.bytes_(FORMAT)
        f.attrs["format_version"] = numpy.int64(1)
        f.attrs["program_version"] = numpy.bytes_(dump.program)
        for group in ("model", "tokens", "parameters", "gradients"):
            h5py.h5g.create(f.id, group.encode(), gcpl=group_creation)
        for key, value in dump.model.items():
            kind = {bool: numpy.int64, int: numpy.int64, float: numpy.float64, str: numpy.bytes_}
            f["model"].attrs[key] = kind[type(value)](value)
        f.create_dataset("deck", data=numpy.bytes_(dump.deck), track_times=False)
        f.create_dataset("loss", data=numpy.float64(dump.loss), track_times=False)
        for name in TOKENS:
            f["tokens"].create_dataset(name, data=dump.tokens[name].astype(numpy.int32),
                                       track_times=False)
        for group, values in (("parameters", dump.parameters), ("gradients", dump.gradients)):
            for name, value in values.items():
                f[group].create_dataset(name, data=value, track_times=False)
