import { deflateSync, inflateSync } from "node:zlib";
import zstd from "@foxglove/wasm-zstd";
import lz4 from "lz4-napi";
import { Compression } from "./generated/ariane/common/v1/message.js";

/** Bounds what a body becomes: a small one may claim to be huge. */
const BODY_BYTES_MAX = 32 << 20;
/** The size of a body from which it is compressed. */
const COMPRESS_BYTES_MIN = 4096;
const ZSTD_LEVEL = 3;

/**
 * Is over when all formats can be read and written, which takes a few milliseconds once. Awaited before the first
 * message rather than here: a module that waits cannot be required.
 */
export const formatsLoaded: Promise<unknown> = zstd.isLoaded;

interface Body {
  body: Uint8Array;
  compression: Compression;
}

/** A body as it is sent: compressed if it is large and becomes smaller by it. */
export function packed(body: Uint8Array, compression: Compression): Body {
  if (compression !== Compression.COMPRESSION_UNSPECIFIED && body.length >= COMPRESS_BYTES_MIN) {
    const smaller = compressed(body, compression);
    if (smaller.length < body.length) return { body: smaller, compression };
  }
  return { body, compression: Compression.COMPRESSION_UNSPECIFIED };
}

/** A body as it was before its producer compressed it; as stored where it is damaged, and says so. */
export function unpacked(stored: Uint8Array, compression: Compression): Body {
  try {
    return { body: original(stored, compression), compression: Compression.COMPRESSION_UNSPECIFIED };
  } catch {
    return { body: stored, compression };
  }
}

function compressed(body: Uint8Array, kind: Compression): Uint8Array {
  switch (kind) {
    case Compression.COMPRESSION_LZ4:
      return lz4.compressFrameSync(bufferOf(body));
    case Compression.COMPRESSION_ZSTD:
      return zstd.compress(body, ZSTD_LEVEL);
    case Compression.COMPRESSION_ZLIB:
      return deflateSync(body);
    default:
      throw new TypeError(`compression ${kind} is not known`);
  }
}

function original(stored: Uint8Array, kind: Compression): Uint8Array {
  switch (kind) {
    case Compression.COMPRESSION_UNSPECIFIED:
      return stored;
    case Compression.COMPRESSION_LZ4:
      if (lz4BytesMax(bufferOf(stored)) > BODY_BYTES_MAX) throw new RangeError("a body becomes too large");
      return lz4.decompressFrameSync(bufferOf(stored));
    case Compression.COMPRESSION_ZSTD:
      return zstd.decompress(stored, zstdBytesMax(bufferOf(stored)));
    case Compression.COMPRESSION_ZLIB:
      return inflateSync(stored, { maxOutputLength: BODY_BYTES_MAX });
    default:
      throw new TypeError(`compression ${kind} is not known`);
  }
}

/**
 * What an LZ4 frame can become at most: its library has no bound of its own. A header of 7 bytes, or 8
 * more with a size and 4 with a dictionary, is followed by blocks: their size, their bytes, a checksum.
 */
function lz4BytesMax(frame: Buffer): number {
  const flags = frame.readUInt8(4);
  const blockBytesMax = 1 << (8 + 2 * ((frame.readUInt8(5) >> 4) & 7));
  let place = 7 + (flags & 8 ? 8 : 0) + (flags & 1 ? 4 : 0);
  let bytesMax = 0;
  for (let size = frame.readUInt32LE(place); size !== 0; size = frame.readUInt32LE(place)) {
    const bytes = size & 0x7fffffff;
    // A byte of a block becomes 255 at most; one of a block that is stored as it was, itself.
    bytesMax += size >>> 31 ? bytes : Math.min(blockBytesMax, bytes * 255);
    place += 4 + bytes + (flags & 16 ? 4 : 0);
  }
  if (place + 4 + (flags & 4 ? 4 : 0) !== frame.length) throw new RangeError("a frame does not end where the body does");
  return bytesMax;
}

/**
 * What a Zstandard frame becomes by its header, and the most that is allowed where it does not say:
 * magic number, descriptor, window, dictionary, size.
 */
function zstdBytesMax(frame: Buffer): number {
  const descriptor = frame.readUInt8(4);
  const single = descriptor & 32;
  const place = 5 + (single ? 0 : 1) + [0, 1, 2, 4][descriptor & 3]!;
  let size: number;
  switch (descriptor >> 6) {
    case 0:
      size = single ? frame.readUInt8(place) : BODY_BYTES_MAX;
      break;
    case 1:
      size = frame.readUInt16LE(place) + 256;
      break;
    case 2:
      size = frame.readUInt32LE(place);
      break;
    default:
      size = Number(frame.readBigUInt64LE(place));
  }
  if (size > BODY_BYTES_MAX) throw new RangeError("a body becomes too large");
  return size;
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
