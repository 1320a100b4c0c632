// gRPC's interoperability cases by @grpc/grpc-js: `PROTO serve PORT`, or `PROTO call HOST:PORT CASE`.
"use strict";
const assert = require("node:assert");
const grpc = require("@grpc/grpc-js");
const { loadSync } = require("@grpc/proto-loader");

const [, , proto, verb, address, name] = process.argv;
const { testing } = grpc.loadPackageDefinition(loadSync(proto, { keepCase: true })).grpc;
const REQUESTS = [27182, 8, 1828, 45904];
const RESPONSES = [31415, 9, 2653, 58979];
const INITIAL = "x-grpc-test-echo-initial";
const TRAILING = "x-grpc-test-echo-trailing-bin";
const payload = (size) => ({ body: Buffer.alloc(size) });
const output = (size, ...sizes) => ({
  response_parameters: sizes.map((each) => ({ size: each })), payload: payload(size),
});

function echo(call) {
  const trailing = new grpc.Metadata();
  const initial = new grpc.Metadata();
  for (const value of call.metadata.get(INITIAL)) initial.set(INITIAL, value);
  for (const value of call.metadata.get(TRAILING)) trailing.set(TRAILING, value);
  call.sendMetadata(initial);
  return trailing;
}

const failed = (status, metadata) => ({ code: status.code, details: status.message, metadata });

function duplex(call, request) {
  if (request.response_status && request.response_status.code) {
    call.emit("error", failed(request.response_status, call.trailing));
    return;
  }
  for (const { size } of request.response_parameters) call.write({ payload: payload(size) });
}

const handlers = {
  EmptyCall: (call, done) => { const trailing = echo(call); done(null, {}, trailing); },
  UnaryCall: (call, done) => {
    const trailing = echo(call);
    const { response_status: status, response_size: size } = call.request;
    if (status && status.code) done(failed(status, trailing));
    else done(null, { payload: payload(size) }, trailing);
  },
  StreamingOutputCall: (call) => { call.trailing = echo(call); duplex(call, call.request); call.end(call.trailing); },
  StreamingInputCall: (call, done) => {
    let size = 0;
    call.on("data", (request) => { size += request.payload.body.length; });
    call.on("end", () => done(null, { aggregated_payload_size: size }));
  },
  FullDuplexCall: (call) => {
    call.trailing = echo(call);
    call.on("data", (request) => duplex(call, request));
    call.on("end", () => call.end(call.trailing));
  },
};

function serve() {
  const server = new grpc.Server();
  server.addService(testing.TestService.service, handlers);
  server.bindAsync(`127.0.0.1:${address}`, grpc.ServerCredentials.createInsecure(), (error) => {
    if (error) throw error;
  });
}

const client = () => new testing.TestService(address, grpc.credentials.createInsecure());
const unary = (method, request, ...more) => new Promise((resolve, reject) => {
  const call = client()[method](request, ...more, (error, response) => {
    if (error) reject(error);
    else call.on("status", (status) => resolve({ response, head: call.head, status }));
  });
  call.on("metadata", (head) => { call.head = head; });
});
const refused = async (promise) => {
  try { await promise; } catch (error) { return error; }
  throw new Error("not refused");
};
const ended = (call) => new Promise((resolve) => {
  const sizes = [];
  call.on("data", (response) => sizes.push(response.payload.body.length));
  call.on("error", () => {});
  call.on("status", (status) => resolve({ status, sizes }));
});

const cases = {
  empty_unary: async () => { await unary("EmptyCall", {}); },
  large_unary: async () => {
    const { response } = await unary("UnaryCall", { response_size: 314159, payload: payload(271828) });
    assert.equal(response.payload.body.length, 314159);
  },
  client_streaming: async () => {
    const response = await new Promise((resolve, reject) => {
      const call = client().StreamingInputCall((error, it) => (error ? reject(error) : resolve(it)));
      for (const size of REQUESTS) call.write({ payload: payload(size) });
      call.end();
    });
    assert.equal(response.aggregated_payload_size, 74922);
  },
  server_streaming: async () => {
    const { status, sizes } = await ended(client().StreamingOutputCall(output(0, ...RESPONSES)));
    assert.deepEqual([status.code, sizes], [0, RESPONSES]);
  },
  ping_pong: async () => {
    const call = client().FullDuplexCall();
    let at = 0;
    const next = () => (at < REQUESTS.length ? call.write(output(REQUESTS[at], RESPONSES[at])) : call.end());
    call.on("data", () => { at += 1; next(); });
    next();
    const { status, sizes } = await ended(call);
    assert.deepEqual([status.code, sizes], [0, RESPONSES]);
  },
  empty_stream: async () => {
    const call = client().FullDuplexCall();
    call.end();
    const { status, sizes } = await ended(call);
    assert.deepEqual([status.code, sizes], [0, []]);
  },
  cancel_after_begin: async () => {
    const call = client().FullDuplexCall();
    call.cancel();
    assert.equal((await ended(call)).status.code, grpc.status.CANCELLED);
  },
  cancel_after_first_response: async () => {
    const call = client().FullDuplexCall();
    call.on("data", () => call.cancel());
    call.write(output(27182, 31415));
    const { status, sizes } = await ended(call);
    assert.deepEqual([status.code, sizes], [grpc.status.CANCELLED, [31415]]);
  },
  timeout_on_sleeping_server: async () => {
    const call = client().FullDuplexCall({ deadline: Date.now() + 20 });
    assert.equal((await ended(call)).status.code, grpc.status.DEADLINE_EXCEEDED);
  },
  custom_metadata: async () => {
    const sent = new grpc.Metadata();
    sent.set(INITIAL, "test_initial_metadata_value");
    sent.set(TRAILING, Buffer.from([0xab, 0xab, 0xab]));
    const { head, status } = await unary("UnaryCall", { response_size: 1 }, sent);
    assert.deepEqual(head.get(INITIAL), sent.get(INITIAL));
    assert.deepEqual(status.metadata.get(TRAILING), sent.get(TRAILING));
  },
  status_code_and_message: async () => {
    const status = { code: 2, message: "test status message" };
    const error = await refused(unary("UnaryCall", { response_status: status }));
    assert.deepEqual([error.code, error.details], [2, status.message]);
    const call = client().FullDuplexCall();
    call.write({ response_status: status });
    call.end();
    const told = (await ended(call)).status;
    assert.deepEqual([told.code, told.details], [2, status.message]);
  },
  special_status_message: async () => {
    const message = "\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \u{1f608}\t\n";
    const error = await refused(unary("UnaryCall", { response_status: { code: 2, message } }));
    assert.deepEqual([error.code, error.details], [2, message]);
  },
  unimplemented_method: async () => {
    assert.equal((await refused(unary("UnimplementedCall", {}))).code, grpc.status.UNIMPLEMENTED);
  },
};

if (verb === "serve") serve();
else if (!(name in cases)) console.log("no such case");
else cases[name]().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
