import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";
import { assert, shows } from "./common.mjs";

// edit starts inspan acp as an editor does, and speaks with it until work is done.
async function edit(agent, work) {
  const child = spawn(process.env.INSPAN_PROGRAM, ["acp", agent, "--empty", "--server", process.env.INSPAN_NATS], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = new Promise((done) => child.on("exit", done));
  const editor = { updates: [], choose: () => undefined, questions: 0 };
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  await acp.client({ name: "test" })
    .onNotification(acp.methods.client.session.update, ({ params }) => { editor.updates.push(params.update); })
    .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
      editor.questions++;
      const optionId = editor.choose(params);
      return { outcome: optionId ? { outcome: "selected", optionId } : { outcome: "cancelled" } };
    })
    .connectWith(stream, async (ctx) => {
      const hello = await ctx.request("initialize", { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
      assert.equal(hello.protocolVersion, acp.PROTOCOL_VERSION);
      assert.equal(hello.agentCapabilities.loadSession, true);
      await work(ctx, editor);
    });
  child.stdin.end();
  assert.equal(await ended, 0);
}

const begin = async (ctx) => (await ctx.request("session/new", { cwd: "/", mcpServers: [] })).sessionId;
const prompt = (ctx, sessionId, text) => ctx.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
const said = (editor, kind = "agent_message_chunk") =>
  editor.updates.filter((u) => u.sessionUpdate === kind).map((u) => u.content.text).join("");

let session;
await edit("looker", async (ctx, editor) => {
  session = await begin(ctx);
  assert.equal((await prompt(ctx, session, "look")).stopReason, "end_turn");
  assert.equal(said(editor), "I look.\n\nI have looked.");
  shows("run");
  const call = editor.updates.find((u) => u.sessionUpdate === "tool_call");
  assert.equal(call.kind, "read");
  const last = editor.updates.filter((u) => u.sessionUpdate === "tool_call_update").at(-1);
  assert.equal(last.toolCallId, call.toolCallId);
  assert.ok(["completed", "failed"].includes(last.status));
});
await edit("talker", async (ctx, editor) => {
  assert.equal((await prompt(ctx, await begin(ctx), "say so")).stopReason, "end_turn");
  assert.equal(said(editor), "One and two and three and four.");
  shows("stream");
});
await edit("asks", async (ctx, editor) => {
  const id = await begin(ctx);
  editor.choose = (q) => q.options.find((o) => o.kind === "allow_once").optionId;
  assert.equal((await prompt(ctx, id, "x")).stopReason, "end_turn");
  assert.equal(editor.questions, 1);
  assert.equal(said(editor), "It is done.");
  shows("gate");
});
await edit("slow", async (ctx) => {
  const id = await begin(ctx);
  const answer = prompt(ctx, id, "x");
  await ctx.notify("session/cancel", { sessionId: id });
  assert.equal((await answer).stopReason, "cancelled");
  shows("cancel");
});
await edit("looker", async (ctx, editor) => {
  await ctx.request("session/load", { cwd: "/", mcpServers: [], sessionId: session });
  assert.equal(said(editor, "user_message_chunk"), "look");
  assert.equal(said(editor), "I look.I have looked.");
  assert.equal((await prompt(ctx, session, "look again")).stopReason, "end_turn");
  shows("reconnect");
});
await edit("broken", async (ctx) => {
  const id = await begin(ctx);
  await assert.rejects(prompt(ctx, id, "x"), /the model is gone/);
  shows("failure");
});
