import assert from "node:assert/strict";
import { test } from "node:test";
import { Metadata, Server, ServerCredentials, status, type UntypedServiceImplementation } from "@grpc/grpc-js";
import { Admin, ArianeError, Client } from "../src/index.js";
import { CreateTopicResponse, type TopicServiceServer, TopicServiceService } from "../src/generated/ariane/admin/v1/topic_service.js";

async function refusal(call: Promise<unknown>): Promise<ArianeError> {
  const error = await call.then(() => assert.fail("nothing was refused"), (refused: unknown) => refused);
  assert.ok(error instanceof ArianeError, String(error));
  return error;
}

test("a change that failed on one broker has an unknown outcome, and a question a known one", async () => {
  const server = new Server();
  let claimed: Metadata | undefined;
  const service: Partial<TopicServiceServer> = {
    createTopic: ({ metadata }, answer) => {
      claimed = metadata;
      const error = { code: status.FAILED_PRECONDITION, message: "no room" };
      answer(null, CreateTopicResponse.fromPartial({ outcomes: [{ brokerName: "broker-a" }, { brokerName: "broker-b", error }] }));
    },
    getTopic: (_, answer) => answer({ code: status.UNKNOWN, details: "broken" }),
  };
  server.addService(TopicServiceService, service as UntypedServiceImplementation);
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) => error ? reject(error) : resolve(bound));
  });
  const client = new Client(["127.0.0.1:1"]);
  const admin = new Admin(client, `127.0.0.1:${port}`);
  const made = await refusal(admin.createTopic("orders"));
  assert.deepEqual([made.code, made.outcomeUnknown], [status.FAILED_PRECONDITION, true]);
  assert.match(String(claimed!.get("x-ariane-claimed-user")[0]), /.@./);
  const shown = await refusal(admin.topic("orders"));
  assert.deepEqual([shown.code, shown.outcomeUnknown], [status.UNKNOWN, false]);
  assert.throws(() => new Admin(client, "http://127.0.0.1"), /host:port is expected/);
  client.close();
  server.forceShutdown();
});
