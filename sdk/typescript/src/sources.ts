import { lookup } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { status as Code } from "@grpc/grpc-js";
import { ArianeError } from "./errors.js";

const LIFE_MS = 30_000;
const WAIT_MS = 3_000;
const DNS = "dns:";
const SOURCE = /^(?:file:.+|https?:\/\/[^\s/]+(?:\/\S*)?)$/;
const ADDRESS = /^(?:\[[^\]\s,;/]+\]|[^\s:,;/]+):(\d{1,5})$/;

export function isSource(text: string): boolean {
  return SOURCE.test(text) || (text.startsWith(DNS) && isAddress(text.slice(DNS.length)));
}

export function isAddress(text: string): boolean {
  const port = Number(ADDRESS.exec(text)?.[1]);
  return port >= 1 && port <= 65535;
}

/**
 * Addresses of name servers, and where more of them are read, again and again: dns:host:port, file:path or a URL.
 */
export class Sources {
  /** Of each source, the last that it had. */
  private readonly found = new Map<string, readonly string[]>();
  private all: readonly string[] = [];
  private until = 0;
  private reading: Promise<readonly string[]> | undefined;

  constructor(private readonly texts: readonly string[]) {}

  /** Those that are known now. Old ones hold while they are read again, which may take its time; without any, it waits. */
  async addresses(): Promise<readonly string[]> {
    if (this.all.length > 0 && Date.now() < this.until) return this.all;
    this.reading ??= this.readAll().finally(() => (this.reading = undefined));
    if (this.all.length === 0) return this.reading;
    this.reading.catch(() => {}); // It is told when there are none.
    return this.all;
  }

  /** Have sources read again: others may be known by now. */
  doubt(): void {
    this.until = 0;
  }

  private async readAll(): Promise<readonly string[]> {
    const failures: string[] = [];
    const found = await Promise.all(this.texts.map(async (text) => {
      if (!isSource(text)) return [text];
      try {
        this.found.set(text, await read(text));
      } catch (error) {
        failures.push(`${text}: ${error instanceof Error ? error.message : String(error)}`);
      }
      return this.found.get(text) ?? [];
    }));
    const known = found.flat();
    if (known.length === 0) {
      const why = `no name server is known: ${failures.join("; ")}`;
      throw Object.assign(new ArianeError(why, Code.UNAVAILABLE, "NAME_SERVERS_UNREACHABLE"), { retriable: true });
    }
    this.until = Date.now() + LIFE_MS;
    return (this.all = known);
  }
}

async function read(text: string): Promise<readonly string[]> {
  const colon = text.lastIndexOf(":");
  if (text.startsWith(DNS)) {
    const found = await lookup(text.slice(DNS.length, colon).replace(/^\[|\]$/g, ""), { all: true });
    return found.map(({ address, family }) => (family === 6 ? `[${address}]` : address) + text.slice(colon)).sort();
  }
  const content = text.startsWith("file:") ? await readFile(text.slice("file:".length), "utf8") : await fetched(text);
  const words = content.replace(/^\s*#.*$/gm, "").split(/[\s,;]+/).filter((word) => word !== "");
  const wrong = words.find((word) => !isAddress(word));
  if (wrong !== undefined) throw new Error(`${wrong} is no host:port`);
  if (words.length === 0) throw new Error("it has no addresses");
  return words;
}

async function fetched(url: string): Promise<string> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(WAIT_MS) });
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return answer.text();
}
