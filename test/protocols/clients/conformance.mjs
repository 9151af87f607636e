// The client that the conformance suite of MCP starts with the address of its server: inspan mcp add, login and test.
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

const url = process.argv.at(-1), scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? "";
const dir = fs.mkdtempSync(path.join(os.tmpdir(), "conformance-"));
fs.mkdirSync(path.join(dir, "secrets"));
const agent = path.join(dir, "a.prompt");
fs.writeFileSync(agent, "---\nname: a\ndescription: A test agent\nversion: 1\nmodel: scripted/a\ntools: [read]\nsandbox:\n  mode: host\n---\nDo it.\n");

// inspan runs the program; where it shows an address to open in a browser, the address is opened.
function inspan(...args) {
  return new Promise((done) => {
    const child = spawn(process.env.INSPAN_PROGRAM, args, { cwd: dir, env: { ...process.env, INSPAN_MCP_SECRETS: path.join(dir, "secrets") } });
    let text = "", opened = false;
    const take = (data) => {
      text += data;
      const address = /^\s+(http\S+)\n/m.exec(text);
      if (address && !opened) {
        opened = true;
        fetch(address[1]).catch((e) => console.error(String(e)));
      }
    };
    child.stdout.on("data", take);
    child.stderr.on("data", take);
    child.on("close", (code) => { console.log(text); done({ code, text }); });
  });
}

const signs = scenario.startsWith("auth/"), how = ["--agent", agent], login = [];
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
if (context.client_id) login.push("--client-id", context.client_id);
if (context.client_secret) {
  fs.writeFileSync(path.join(dir, "client"), context.client_secret);
  login.push("--client-secret-file", path.join(dir, "client"));
}
let did = await inspan("mcp", "add", "s", ...how, "--url", url, ...(signs ? ["--login", ...login] : []));
const tool = /mcp__s__(\S+)/.exec(did.text);
if (did.code === 0 && tool) {
  const call = ["mcp", "test", "s", ...how, "--call", tool[1], "--input", JSON.stringify(tool[1] === "add_numbers" ? { a: 5, b: 3 } : {})];
  did = await inspan(...call);
  for (let n = 0; n < 2 && did.code !== 0; n++) { // a person does what the error says
    const scope = /--scope '([^']+)'/.exec(did.text);
    if (!scope) break;
    await inspan("mcp", "login", "s", ...how, "--scope", scope[1], ...login);
    did = await inspan(...call);
  }
}
fs.rmSync(dir, { recursive: true });
process.exit(did.code);
