import { randomUUID } from "node:crypto";
import { ClientFactory, ClientFactoryOptions, DefaultAgentCardResolver, JsonRpcTransportFactory } from "@a2a-js/sdk/client";
import { Role, TaskState } from "@a2a-js/sdk";
import { assert, shows, token, url, withToken } from "./common.mjs";

const fetchImpl = withToken(token);
const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
  transports: [new JsonRpcTransportFactory({ fetchImpl })],
  cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
}));
const reach = (agent) => factory.createFromUrl(`${url}/a2a/${agent}/`);
const message = (text, more = {}) => ({
  tenant: "", metadata: undefined, configuration: undefined,
  message: {
    messageId: randomUUID(), role: Role.ROLE_USER, contextId: "", taskId: "", metadata: undefined, extensions: [], referenceTaskIds: [],
    parts: [{ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "" }], ...more,
  },
});
const words = (part) => part.content.value;
const gateOf = (status) => status.message.parts.find((p) => p.content.$case === "data").content.value.gate_id;

const helper = await reach("helper");
assert.equal((await helper.getAgentCard()).name, "helper");
let task = await helper.sendMessage(message("do it"));
assert.equal(task.status.state, TaskState.TASK_STATE_COMPLETED);
assert.equal(words(task.artifacts[0].parts[0]), "It is done.");
assert.equal((await helper.getTask({ tenant: "", id: task.id })).status.state, TaskState.TASK_STATE_COMPLETED);
shows("run");

let text = "", last;
for await (const event of (await reach("talker")).sendMessageStream(message("say so"))) {
  if (event.payload.$case === "artifactUpdate") {
    const part = words(event.payload.value.artifact.parts[0]);
    text = event.payload.value.append ? text + part : part;
  }
  last = event.payload;
}
assert.equal(text, "One and two and three and four.");
assert.equal(last.value.status.state, TaskState.TASK_STATE_COMPLETED);
shows("stream");

const asks = await reach("asks");
task = await asks.sendMessage(message("x"));
assert.equal(task.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
task = await asks.sendMessage(message(`approve ${gateOf(task.status)}`, { taskId: task.id }));
assert.equal(task.status.state, TaskState.TASK_STATE_COMPLETED);
shows("gate");

task = await asks.sendMessage(message("x"));
task = await asks.cancelTask({ tenant: "", id: task.id, metadata: undefined });
assert.equal(task.status.state, TaskState.TASK_STATE_CANCELED);
await assert.rejects(async () => asks.cancelTask({ tenant: "", id: "run-none", metadata: undefined }), /not found/i);
shows("cancel");

// The connection is lost while the run works, and the client comes back to it.
const cut = new AbortController();
let id;
for await (const event of (await reach("slow")).sendMessageStream(message("say so"), { signal: cut.signal })) {
  assert.equal(event.payload.$case, "task");
  id = event.payload.value.id;
  break;
}
cut.abort();
assert.ok(id);
let state;
text = "";
for await (const event of (await reach("slow")).resubscribeTask({ tenant: "", id })) {
  if (event.payload.$case === "task" || event.payload.$case === "statusUpdate") state = event.payload.value.status.state;
  if (event.payload.$case === "artifactUpdate") {
    const part = words(event.payload.value.artifact.parts[0]);
    text = event.payload.value.append ? text + part : part;
  }
}
assert.equal(state, TaskState.TASK_STATE_COMPLETED);
assert.equal(text, "One and two and three and four.");
shows("reconnect");

task = await (await reach("broken")).sendMessage(message("x"));
assert.equal(task.status.state, TaskState.TASK_STATE_FAILED);
assert.match(words(task.status.message.parts[0]), /the model is gone/);
shows("failure");
