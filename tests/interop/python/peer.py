"""Python's libraries for ids: see ../run for what is asked of a peer."""

import sys
import uuid

import base58
import bson
import ksuid
import stdnum.damm
import stdnum.iso7064.mod_11_10
import stdnum.iso7064.mod_97_10
import stdnum.luhn
import stdnum.verhoeff
import tsidpy
import typeid
import ulid
import uuid6

EPOCH_1582 = 0x01B21DD213814000  # 100 ns from there to 1970


def gregorian_ms(value):
    return (value.time - EPOCH_1582) // 10_000


def uuid_of(text):
    return uuid.UUID(text)


# Reads a text: its bytes and its milliseconds since 1970, or None.
READ = {
    "uuid1": lambda t: (uuid_of(t).bytes, gregorian_ms(uuid_of(t))),
    "uuid4": lambda t: (uuid_of(t).bytes, None),
    "uuid6": lambda t: (uuid6.UUID(t).bytes, (uuid6.UUID(t).time - EPOCH_1582) // 10_000),
    "uuid7": lambda t: (uuid6.UUID(t).bytes, uuid6.UUID(t).time),
    "ulid": lambda t: (ulid.ULID.from_str(t).bytes, ulid.ULID.from_str(t).milliseconds),
    "ksuid": lambda t: (
        bytes(ksuid.Ksuid.from_base62(t)),
        int(ksuid.Ksuid.from_base62(t).timestamp) * 1000,
    ),
    "object-id": lambda t: (
        bson.ObjectId(t).binary,
        int(bson.ObjectId(t).generation_time.timestamp()) * 1000,
    ),
    "tsid": lambda t: (
        tsidpy.TSID.from_string(t).to_bytes(),
        int(tsidpy.TSID.from_string(t).timestamp),
    ),
    "typeid": lambda t: (typeid.TypeID.from_string(t).uuid.bytes, None),
    "base58": lambda t: (base58.b58decode(t)[-16:].rjust(16, b"\0"), None),
}

MAKE = {
    "uuid1": lambda: str(uuid.uuid1()),
    "uuid4": lambda: str(uuid.uuid4()),
    "uuid6": lambda: str(uuid6.uuid6()),
    "uuid7": lambda: str(uuid6.uuid7()),
    "ulid": lambda: str(ulid.ULID()),
    "ksuid": lambda: str(ksuid.Ksuid()),
    "object-id": lambda: str(bson.ObjectId()),
    "tsid": lambda: tsidpy.TSID.create().to_string(),
    "typeid": lambda: str(typeid.TypeID(prefix="user")),
}

# The check symbols of decimal digits.
CHECK = {
    "luhn": (stdnum.luhn.calc_check_digit, stdnum.luhn.is_valid),
    "damm": (stdnum.damm.calc_check_digit, stdnum.damm.is_valid),
    "verhoeff": (stdnum.verhoeff.calc_check_digit, stdnum.verhoeff.is_valid),
    "mod11-10": (stdnum.iso7064.mod_11_10.calc_check_digit, stdnum.iso7064.mod_11_10.is_valid),
    "mod97-10": (stdnum.iso7064.mod_97_10.calc_check_digits, stdnum.iso7064.mod_97_10.is_valid),
}


def main():
    verb, what = (sys.argv[1:] + [""])[:2]
    if verb == "formats":
        for format in READ:
            print("read", format, sep="\t")
        for format in MAKE:
            print("make", format, sep="\t")
        for check in CHECK:
            print("check", check, sep="\t")
    elif verb == "read":
        for line in sys.stdin:
            data, ms = READ[what](line.rstrip("\n"))
            print(bytes(data).hex(), "-" if ms is None else ms, sep="\t")
    elif verb == "make":
        for _ in range(int(sys.argv[3])):
            text = MAKE[what]()
            data, ms = READ[what](text)
            print(text, bytes(data).hex(), "-" if ms is None else ms, sep="\t")
    elif verb == "valid":
        for line in sys.stdin:
            print("yes" if CHECK[what][1](line.rstrip("\n")) else "no")
    elif verb == "append":
        for line in sys.stdin:
            text = line.rstrip("\n")
            print(text + str(CHECK[what][0](text)))


main()
