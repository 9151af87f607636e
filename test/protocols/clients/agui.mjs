import { randomUUID } from "node:crypto";
import { HttpAgent } from "@ag-ui/client";
import { api, assert, shows, token, until, url } from "./common.mjs";

const talk = (agent, content = "x", threadId = randomUUID()) => new HttpAgent({
  url: `${url}/agui/${agent}`, headers: { Authorization: "Bearer " + token }, threadId,
  initialMessages: [{ id: randomUUID(), role: "user", content }],
});
// watched runs an agent and keeps its events.
async function watched(agent, parameters = {}) {
  const events = [];
  const result = await agent.runAgent(parameters, { onEvent: ({ event }) => { events.push(event); } });
  return { events, result, last: events.at(-1), run: events.find((e) => e.type === "CUSTOM")?.value.run_id };
}
const said = (agent) => agent.messages.filter((m) => m.role === "assistant" && m.content).map((m) => m.content);

let agent = talk("looker", "look");
let { last } = await watched(agent);
assert.equal(last.outcome.type, "success");
assert.equal(last.result, "I have looked.");
assert.deepEqual(said(agent), ["I look.", "I have looked."]);
const call = agent.messages.find((m) => m.toolCalls?.length)?.toolCalls[0];
assert.equal(call.function.name, "read");
assert.deepEqual(JSON.parse(call.function.arguments), { path: "none.txt" });
assert.ok(agent.messages.some((m) => m.role === "tool" && m.toolCallId === call.id));
shows("run");

agent = talk("talker", "say so");
await watched(agent);
assert.deepEqual(said(agent), ["One and two and three and four."]);
shows("stream");

agent = talk("asks");
const asked = await watched(agent);
assert.equal(asked.last.outcome.type, "interrupt");
const [gate] = asked.last.outcome.interrupts;
const answered = await watched(agent, { resume: [{ interruptId: gate.id, status: "resolved", payload: { decision: "approve" } }] });
assert.equal(answered.last.outcome.type, "success");
assert.equal(answered.run, asked.run);
assert.deepEqual(said(agent), ["It is done."]);
shows("gate");

// Another client stops the run while this one follows it.
agent = talk("slow");
const stopped = watched(agent);
const run = await until("a run", async () => (await api("GET", `/api/v1/runs?session_id=${agent.threadId}`)).items[0]?.harnessId);
await api("POST", `/api/v1/runs/${run}/stop`);
assert.equal((await stopped).last.outcome.type, "cancelled");
shows("cancel");

// The same request again is the same run, from its beginning.
agent = talk("slow", "say so");
const runId = randomUUID();
const lost = agent.runAgent({ runId }).catch(() => undefined);
await until("a run", async () => (await api("GET", `/api/v1/runs?session_id=${agent.threadId}`)).items[0]);
agent.abortRun();
await lost;
const back = talk("slow", "say so", agent.threadId);
const { last: end } = await watched(back, { runId });
assert.equal(end.outcome.type, "success");
assert.deepEqual(said(back), ["One and two and three and four."]);
assert.equal((await api("GET", `/api/v1/runs?session_id=${agent.threadId}`)).items.length, 1);
shows("reconnect");

agent = talk("broken");
let failure;
await agent.runAgent({}, { onRunErrorEvent: ({ event }) => { failure = event; } }).catch(() => undefined);
assert.match(failure.message, /the model is gone/);
shows("failure");
