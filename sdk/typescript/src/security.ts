import { createHash, createPrivateKey, type KeyObject, randomBytes, sign } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { checkServerIdentity, createSecureContext, type PeerCertificate } from "node:tls";
import {
  ChannelCredentials, type ClientOptions, type ClientUnaryCall, type Interceptor, InterceptingCall, Metadata, type ServiceError,
  status as Code,
} from "@grpc/grpc-js";
import { ArianeError } from "./errors.js";
import { FinishLoginRequest, LoginServiceClient } from "./generated/ariane/common/v1/login_service.js";

/** Files for TLS, PEM. They are read again when they change: nothing is restarted. */
export interface Tls {
  /** The authority of the processes of the cluster, `members.pem` of `ariane tls`. */
  ca: string;
  /** The own certificate, which says who this is; not needed where credentials do. */
  certificate?: string;
  /** Its private key. */
  key?: string;
  /** The oldest version that is spoken. Default: TLSv1.3. */
  oldest?: "TLSv1.3" | "TLSv1.2";
}

/**
 * The file of a key that `ariane credential create` has made, or a function that gives a token of an OpenID
 * provider; both are asked for each login.
 */
export type Credentials = string | (() => string | Promise<string>);

/** A process that must be at an address: routes may lie, certificates do not. */
export interface Peer {
  address: string;
  /** Any without. */
  kind?: "broker" | "namesrv" | "admin";
  /** Any without. */
  name?: string;
}

/** What a stub is made with. */
export interface Access {
  credentials: ChannelCredentials;
  options: Partial<ClientOptions>;
  /** End what is kept for logins. */
  close(): void;
}

const CREDENTIAL = /^credential: ([A-Za-z0-9_-]{1,64})\r?$/m;
const MEMBER = /(?:^|, )URI:(ariane:\/\/[^/\s,"]+\/([^/\s,"]+)\/([^/\s,"]+))(?=, |$)/g;
const LOOPBACK = /^(?:localhost|127(?:\.\d+){3}|\[::1\]):\d+$/;
const SESSION_KEY = "x-ariane-session";
/**
 * Where a call says which process it is for: an address is used again, and who is there now refuses what is meant for
 * another.
 */
const MEANT_KEY = "x-ariane-meant-for";
const LOGIN_MS = 10_000;
/** How long after a renewal that failed it is tried again. */
const AGAIN_MS = 5_000;
/** How long files are not looked at again. */
const LOOK_MS = 1_000;

/** How the connections of a client are made, by what the program says or else the environment. */
export class Security {
  private readonly tls: Tls | undefined;
  private readonly source: Credentials | undefined;
  private seen = "";
  private lookedAt = 0;

  constructor(tls: Tls | false | undefined, source: Credentials | undefined) {
    this.tls = tls === undefined ? tlsOfEnvironment() : tls || undefined;
    this.source = source ?? (process.env["ARIANE_CREDENTIALS"] || undefined);
    if (typeof this.source === "string") readKey(this.source);
    if (this.tls) {
      this.seen = this.look();
      this.context(this.tls);
    }
  }

  /** Whether files have changed since the last time, so that connections are to be made anew. */
  get hasChanged(): boolean {
    if (!this.tls || Date.now() - this.lookedAt < LOOK_MS) return false;
    const before = this.seen;
    try {
      this.seen = this.look();
      if (this.seen !== before) this.context(this.tls); // While two do not fit, connections stay as they are.
      return this.seen !== before;
    } catch {
      this.seen = before;
      return false;
    }
  }

  private look(): string {
    this.lookedAt = Date.now();
    const { ca, certificate, key } = this.tls!;
    return [ca, certificate, key].map((file) => {
      if (!file) return "";
      const { mtimeMs, size, ino } = statSync(file);
      return `${mtimeMs} ${size} ${ino}`;
    }).join();
  }

  private context(tls: Tls): ReturnType<typeof createSecureContext> {
    if (!tls.certificate !== !tls.key) throw new TypeError("tls: a certificate and its key belong together");
    const ca = readFileSync(tls.ca, "latin1");
    if (!ca.includes("BEGIN CERTIFICATE")) throw new TypeError(`tls: ${tls.ca}: no certificate`); // Node would take it.
    return createSecureContext({
      ca,
      cert: tls.certificate && readFileSync(tls.certificate),
      key: tls.key && readFileSync(tls.key),
      minVersion: tls.oldest ?? "TLSv1.3",
    });
  }

  /** How stubs to a process are made. */
  access(peer: Peer, options: Partial<ClientOptions>, clusterOf: (broker: string) => string | undefined): Access {
    const host = peer.address.slice(0, peer.address.lastIndexOf(":")).replace(/^\[|\]$/g, "");
    let credentials = ChannelCredentials.createInsecure();
    if (this.tls) {
      credentials = ChannelCredentials.createFromSecureContext(this.context(this.tls), {
        checkServerIdentity: (_, certificate) => checkServerIdentity(host, certificate) ?? check(peer, certificate),
      });
      // What it is called otherwise is checked above, and an address is no name for TLS.
      options = { ...options, "grpc.ssl_target_name_override": "ariane" };
    }
    options = { ...options, interceptors: [...options.interceptors ?? [], meaning(peer, clusterOf)] };
    if (!this.source) return { credentials, options, close: () => {} };
    if (!this.tls && !LOOPBACK.test(peer.address)) {
      const text = `credentials are not sent in plain text, and ${peer.address} is another machine: set tls, or ARIANE_TLS_CA`;
      throw new ArianeError(text, Code.FAILED_PRECONDITION);
    }
    const stub = new LoginServiceClient(peer.address, credentials, options);
    const session = new Session(stub, this.source, this.tls !== undefined);
    return { credentials, options: { ...options, interceptors: [...options.interceptors!, session.interceptor] }, close: () => stub.close() };
  }
}

/** Says with each call which broker it is for, where its cluster is known. */
function meaning({ kind, name }: Peer, clusterOf: (broker: string) => string | undefined): Interceptor {
  return (options, next) => new InterceptingCall(next(options), {
    start: (metadata, listener, go) => {
      const cluster = kind === "broker" && name ? clusterOf(name) : undefined;
      if (cluster) metadata.set(MEANT_KEY, `${cluster}/${name}`);
      go(metadata, listener);
    },
  });
}

/** The login at one process: its token goes along with each call. */
class Session {
  private token = "";
  private renewAt = 0;
  private endsAt = 0;
  private asking: Promise<void> | undefined;

  constructor(
    private readonly stub: LoginServiceClient, private readonly source: Credentials, private readonly isSecure: boolean,
  ) {}

  readonly interceptor: Interceptor = (options, next) => new InterceptingCall(next(options), {
    start: (metadata, listener, go) => {
      const known = this.token;
      const begin = (): void => {
        const sent = this.token;
        metadata.set(SESSION_KEY, sent);
        go(metadata, {
          onReceiveStatus: (status, pass) => {
            if (status.code === Code.UNAUTHENTICATED && this.token === sent) this.token = "";
            // A process that has begun anew knows of no session: nothing is done, and the next call logs in.
            pass(status.code === Code.UNAUTHENTICATED && sent === known
              ? { code: Code.UNAVAILABLE, details: "the session has ended", metadata: new Metadata() } : status);
          },
        });
      };
      if (known && Date.now() < this.renewAt) {
        begin();
      } else {
        this.login().then(begin, (error: ServiceError) => listener.onReceiveStatus({
          code: error.code ?? Code.UNAUTHENTICATED, details: error.details ?? error.message,
          metadata: error.metadata ?? new Metadata(),
        }));
      }
    },
  });

  /** Log in, once for all who wait; one that holds yet may fail to be renewed. */
  private login(): Promise<void> {
    this.asking ??= this.prove().catch((error: unknown) => {
      if (!this.token || Date.now() >= this.endsAt) throw error;
      this.renewAt = Date.now() + AGAIN_MS;
    }).finally(() => (this.asking = undefined));
    return this.asking;
  }

  private async prove(): Promise<void> {
    const { source } = this;
    const request = typeof source === "string" ? { key: await this.proof(source) } : { bearerToken: await source() };
    const [answer] = await this.call((s) => s.finishLogin, FinishLoginRequest.fromPartial(request));
    const { seconds, nanos } = answer.lifetime!;
    const lifeMs = Number(seconds) * 1000 + nanos / 1e6;
    this.token = answer.sessionToken;
    this.renewAt = Date.now() + lifeMs / 2;
    this.endsAt = Date.now() + lifeMs;
  }

  /** Sign both nonces, and the certificate and name of the server at the other end of this very connection. */
  private async proof(path: string): Promise<{ credentialId: string; clientNonce: Buffer; signature: Buffer }> {
    const [{ serverNonce }, shown] = await this.call((s) => s.beginLogin, {});
    const [credentialId, key] = readKey(path);
    const clientNonce = randomBytes(32);
    const server = serverPart(shown, this.isSecure);
    const text = Buffer.concat([
      Buffer.from("ariane-login-v1\0"), serverNonce, clientNonce, server, Buffer.from(credentialId),
    ]);
    return { credentialId, clientNonce, signature: sign(null, text, key) };
  }

  /** The answer, and the certificate of the connection that it came over; none in plain text. */
  private call<Q, A>(
    method: (stub: LoginServiceClient) => (
      request: Q, metadata: Metadata, options: { deadline: number }, callback: (error: ServiceError | null, answer: A) => void,
    ) => ClientUnaryCall,
    request: Q,
  ): Promise<[A, PeerCertificate | undefined]> {
    return new Promise((resolve, reject) => {
      const options = { deadline: Date.now() + LOGIN_MS };
      const call = method(this.stub).call(this.stub, request, new Metadata(), options, (error, answer) => {
        if (error) reject(error);
        else resolve([answer, call.getAuthContext()?.sslPeerCertificate]);
      });
    });
  }
}

/**
 * What is signed of the server: its certificate and its name. Zeros stand for a connection in plain text, and never for
 * one with TLS whose certificate is not known, such as one that has just ended: such a proof would be good elsewhere.
 */
export function serverPart(shown: Partial<PeerCertificate> | null | undefined, isSecure: boolean): Buffer {
  if (!isSecure) return Buffer.alloc(33);
  const name = shown?.raw && memberOf(shown)?.[0];
  if (!name) throw new ArianeError("the certificate of the server is not known any more", Code.UNAVAILABLE);
  return Buffer.concat([createHash("sha256").update(shown!.raw!).digest(), Buffer.of(name.length), Buffer.from(name)]);
}

function tlsOfEnvironment(): Tls | undefined {
  const { ARIANE_TLS_CA: ca, ARIANE_TLS_CERTIFICATE: certificate, ARIANE_TLS_KEY: key } = process.env;
  if (!ca && (certificate || key)) {
    throw new TypeError("tls: a certificate needs the authority of the cluster, too: ca, or ARIANE_TLS_CA");
  }
  return ca ? { ca, ...(certificate && { certificate }), ...(key && { key }) } : undefined;
}

/** The credential's id and the key of a file of `ariane credential create`. Errors say nothing of what is in it. */
function readKey(path: string): [string, KeyObject] {
  const text = readFileSync(path, "latin1");
  const id = CREDENTIAL.exec(text)?.[1];
  let key: KeyObject | undefined;
  try {
    key = createPrivateKey(text.slice(text.indexOf("-----BEGIN")));
  } catch {
    // It is told below.
  }
  if (id && key?.asymmetricKeyType === "ed25519") return [id, key];
  throw new TypeError(`credentials: ${path}: not a file that ariane credential create has made`);
}

/** The URI, kind and name of the one process that a certificate names. */
function memberOf(certificate: Partial<PeerCertificate>): [string, string, string] | undefined {
  const names = certificate.subjectaltname ?? "";
  const found = [...names.matchAll(MEMBER)];
  const count = names.match(/(?:^|, )URI:/g)?.length;
  return found.length === 1 && count === 1 ? [found[0]![1]!, found[0]![2]!, found[0]![3]!] : undefined;
}

function check(peer: Peer, certificate: PeerCertificate): Error | undefined {
  const found = memberOf(certificate);
  if (!found) return new Error("the certificate of the server names no process of a cluster");
  const [, kind, name] = found;
  const isKind = !peer.kind || peer.kind === kind || (peer.kind === "broker" && kind === "replica");
  if (isKind && (!peer.name || peer.name === name)) return undefined;
  return new Error(`the certificate of the server is of ${kind} ${name}, not of ${peer.kind ?? ""} ${peer.name ?? ""}`.trim());
}
