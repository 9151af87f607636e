import OpenAI from "openai";
import { assert, shows, token, until, url } from "./common.mjs";

const ai = new OpenAI({ apiKey: token, baseURL: url + "/v1" });

let response = await ai.responses.create({ model: "looker", input: "look" });
assert.equal(response.output_text, "I have looked.");
const next = await ai.responses.create({ model: "helper", input: "go on", previous_response_id: response.id });
assert.equal(next.conversation.id, response.conversation.id);
shows("run");

const stream = ai.responses.stream({ model: "talker", input: "say so" });
let text = "";
for await (const event of stream) {
  if (event.type === "response.output_text.delta") text += event.delta;
}
assert.equal(text, "One and two and three and four.");
assert.equal((await stream.finalResponse()).output_text, text);
shows("stream");

response = await ai.responses.create({ model: "asks", input: "x" });
const [request] = response.output;
assert.equal(request.type, "mcp_approval_request");
const answered = await ai.responses.create({
  model: "asks", previous_response_id: response.id,
  input: [{ type: "mcp_approval_response", approval_request_id: request.id, approve: true }],
});
assert.equal(answered.output_text, "It is done.");
shows("gate");

response = await ai.responses.create({ model: "slow", input: "x", background: true });
response = await ai.responses.cancel(response.id);
assert.equal(response.status, "cancelled");
shows("cancel");

const cut = await ai.responses.create({ model: "slow", input: "x", stream: true });
let id;
for await (const event of cut) {
  if (event.type === "response.created") {
    id = event.response.id;
    break;
  }
}
text = "";
for await (const event of await ai.responses.retrieve(id, { stream: true })) {
  if (event.type === "response.output_text.delta") text += event.delta;
}
assert.equal(text, "One and two and three and four.");
shows("reconnect");

response = await ai.responses.create({ model: "broken", input: "x", background: true });
response = await until("its end", async () => {
  const r = await ai.responses.retrieve(response.id);
  return r.status === "failed" && r;
});
assert.match(response.error.message, /the model is gone/);
await assert.rejects(ai.responses.create({ model: "nobody", input: "x" }), OpenAI.NotFoundError);
shows("failure");
