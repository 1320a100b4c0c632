"""Writes the golden records: plainly, from the drawing of the format, with nothing of the codec.

``python write_golden.py`` makes one ``<case>.bin`` for each case of ``cases.json``. The files are
the contract of the format: they change only when the format does, that is, never. The case
``v1_ipv4`` is the golden vector of the store format, whose hashes and checksum the JDK confirmed.
"""

import json
import zlib
from ipaddress import ip_address
from pathlib import Path

FOLDER = Path(__file__).parent


def number(value, size):
    return value.to_bytes(size, "big", signed=value < 0)


def host(address):
    ip, port = address
    return ip_address(ip).packed + number(port, 4)


def masked_crc(content):
    return zlib.crc32(content) & 0x7FFFFFFF


def record_bytes(case):
    """One record from the fields of a case, byte field by byte field."""
    body = bytes.fromhex(case["body"])
    topic = case["topic"].encode()
    version_2 = len(topic) > 127
    system_flag = case["system_flag"]
    system_flag |= 0x10 * (":" in case["born_host"][0])
    system_flag |= 0x20 * (":" in case["store_host"][0])
    properties = b""
    for name, value in case["properties"].items():
        properties += name.encode() + b"\x01" + value.encode() + b"\x02"
    reserved = 20 if case["checksum"] else 0
    behind_size = b"".join(
        [
            bytes.fromhex("daa320ab" if version_2 else "daa320a7"),
            number(masked_crc(body), 4),
            number(case["queue_id"], 4),
            number(case["flag"], 4),
            number(case["queue_offset"], 8),
            number(case["commit_log_offset"], 8),
            number(system_flag, 4),
            number(case["born_timestamp_ms"], 8),
            host(case["born_host"]),
            number(case["store_timestamp_ms"], 8),
            host(case["store_host"]),
            number(case["attempts"], 4),
            number(case["half_offset"], 8),
            number(len(body), 4),
            body,
            number(len(topic), 2 if version_2 else 1),
            topic,
            number(len(properties) + reserved, 2),
            properties,
        ]
    )
    record = number(4 + len(behind_size) + reserved, 4) + behind_size
    if not case["checksum"]:
        return record
    digits = f"{masked_crc(record):010d}"[::-1]
    return record + b"__CRC32#\x01" + digits.encode() + b"\x02"


if __name__ == "__main__":
    for name, case in json.loads((FOLDER / "cases.json").read_text()).items():
        (FOLDER / f"{name}.bin").write_bytes(record_bytes(case))
