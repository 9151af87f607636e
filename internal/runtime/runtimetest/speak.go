package runtimetest

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// acp speaks the Agent Client Protocol.
type acp struct{ *agent }

type rpc struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Session string `json:"sessionId"`
		Prompt  []struct {
			Text string `json:"text"`
		} `json:"prompt"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
}

// open is the id of the prompt that is worked on.
var open json.RawMessage

func (c acp) hear(line []byte) {
	var m rpc
	if err := json.Unmarshal(line, &m); err != nil {
		leave()
	}
	answer := func(doc any) { c.print(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": doc}) }
	switch m.Method {
	case "":
		var id string
		_ = json.Unmarshal(m.ID, &id)
		c.answered(id, m.Result)
	case "initialize":
		version := 1
		if os.Getenv(strange) != "" {
			version = 7
		}
		answer(map[string]any{"protocolVersion": version, "agentCapabilities": map[string]any{"loadSession": true}})
	case "session/new":
		c.session = "s-" + strconv.Itoa(os.Getpid())
		answer(map[string]any{"sessionId": c.session})
	case "session/load":
		if !c.load(m.Params.Session) {
			c.print(map[string]any{"jsonrpc": "2.0", "id": m.ID,
				"error": map[string]any{"code": -32602, "message": "no such session"}})
			return
		}
		c.say("this was said before")
		answer(nil)
	case "session/prompt":
		open = m.ID
		go c.prompt(m.Params.Prompt[0].Text)
	case "session/cancel":
		c.cancelled <- struct{}{}
	}
}

func (c acp) update(doc map[string]any) {
	c.print(map[string]any{"jsonrpc": "2.0", "method": "session/update",
		"params": map[string]any{"sessionId": c.session, "update": doc}})
}

func text(s string) map[string]any { return map[string]any{"type": "text", "text": s} }

func (c acp) say(s string) {
	c.update(map[string]any{"sessionUpdate": "agent_message_chunk", "content": text(s)})
}

func (c acp) think(s string) {
	c.update(map[string]any{"sessionUpdate": "agent_thought_chunk", "content": text(s)})
}

func (c acp) ask(id, kind string, input map[string]string) bool {
	call := map[string]any{"toolCallId": id, "title": "I want to " + kind, "kind": kind, "status": "pending",
		"rawInput": input}
	c.update(map[string]any{"sessionUpdate": "tool_call", "toolCallId": id, "title": "I want to " + kind, "kind": kind,
		"status":   "pending",
		"rawInput": input})
	return c.permitted(call, func() {})
}

// askLate asks to read a file as OpenCode does: the question has no arguments, and an update with them may follow it.
func (c acp) askLate(id, file string) bool {
	call := map[string]any{"toolCallId": id, "title": "read", "kind": "read", "status": "pending",
		"rawInput": map[string]string{}, "locations": []any{}}
	return c.permitted(call, func() {
		c.update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "in_progress",
			"rawInput": map[string]string{"filePath": file}, "locations": []any{map[string]string{"path": file}}})
	})
}

// permitted asks about a call, and tells more of it after that.
func (c acp) permitted(call map[string]any, more func()) bool {
	number, answer := c.request()
	c.print(map[string]any{"jsonrpc": "2.0", "id": number, "method": "session/request_permission",
		"params": map[string]any{
			"sessionId": c.session, "toolCall": call, "options": []any{
				map[string]string{"optionId": "always", "name": "Always", "kind": "allow_always"},
				map[string]string{"optionId": "once", "name": "Once", "kind": "allow_once"},
				map[string]string{"optionId": "no", "name": "No", "kind": "reject_once"}}}})
	more()
	var r struct {
		Outcome struct {
			Outcome string `json:"outcome"`
			Option  string `json:"optionId"`
		} `json:"outcome"`
	}
	_ = json.Unmarshal(<-answer, &r)
	return r.Outcome.Outcome == "selected" && r.Outcome.Option == "once"
}

func (c acp) done(id, output string, failed bool) {
	status := "completed"
	if failed {
		status = "failed"
	}
	c.update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status,
		"content": []any{map[string]any{"type": "content", "content": text(output)}}})
}

func (c acp) end(cancelled, failed bool) {
	reason := "end_turn"
	if cancelled {
		reason = "cancelled"
	}
	if failed {
		reason = "refusal"
	}
	c.print(map[string]any{"jsonrpc": "2.0", "id": open, "result": map[string]string{"stopReason": reason}})
}

// claude speaks as Claude Code does with stream-json in both directions.
type claude struct{ *agent }

func (c claude) begin(args []string) {
	if i := slices.Index(args, "--session-id"); i >= 0 {
		c.session = args[i+1]
	}
	if i := slices.Index(args, "--resume"); i >= 0 && !c.load(args[i+1]) {
		_, _ = os.Stdout.WriteString(`{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":0,"usage":{"input_tokens":0},` +
			`"errors":["No conversation found with session ID: ` + args[i+1] + `"]}` + "\n")
		_, _ = os.Stderr.WriteString("No conversation found with session ID: " + args[i+1])
		leave()
	}
	if os.Getenv(strange) != "" {
		c.raw(`{"type":7}` + "\n")
	}
	c.print(map[string]string{"type": "system", "subtype": "init", "session_id": c.session})
}

func (c claude) hear(line []byte) {
	var m struct {
		Type    string `json:"type"`
		Message struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"message"`
		ID      string `json:"request_id"`
		Request struct {
			Subtype string `json:"subtype"`
			Hooks   struct {
				Before []struct {
					IDs []string `json:"hookCallbackIds"`
				} `json:"PreToolUse"`
			} `json:"hooks"`
		} `json:"request"`
		Response struct {
			ID       string          `json:"request_id"`
			Response json.RawMessage `json:"response"`
		} `json:"response"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		leave()
	}
	switch {
	case m.Type == "user":
		go c.prompt(m.Message.Content[0].Text)
	case m.Type == "control_response":
		c.answered(m.Response.ID, m.Response.Response)
	case m.Request.Subtype == "initialize" && os.Getenv(hookless) != "":
		c.print(map[string]any{"type": "control_response", "response": map[string]string{"subtype": "error",
			"request_id": m.ID, "error": "there are no hooks"}})
	case m.Request.Subtype == "initialize":
		c.hooked.Store(len(m.Request.Hooks.Before) > 0)
		c.print(map[string]any{"type": "control_response", "response": map[string]any{"subtype": "success",
			"request_id": m.ID, "response": map[string]any{}}})
	case m.Type == "control_request":
		c.cancelled <- struct{}{}
	}
}

// harmless are the first words of commands that Claude Code runs without a question.
var harmless = []string{"cat", "echo", "ls", "pwd"}

// hook reports what the hook before a call decides; empty where there is none.
func (c claude) hook(id, name string, input map[string]string) string {
	if !c.hooked.Load() {
		return ""
	}
	number, answer := c.request()
	c.print(map[string]any{"type": "control_request", "request_id": number,
		"request": map[string]any{"subtype": "hook_callback", "callback_id": "call", "tool_use_id": id,
			"input": map[string]any{"hook_event_name": "PreToolUse", "tool_name": name, "tool_input": input}}})
	var r struct {
		Output struct {
			Decision string `json:"permissionDecision"`
		} `json:"hookSpecificOutput"`
	}
	_ = json.Unmarshal(<-answer, &r)
	return r.Output.Decision
}

func (c claude) message(of string, block map[string]any) {
	c.print(map[string]any{"type": of, "message": map[string]any{"role": of, "content": []any{block}}})
}

func (c claude) say(s string) { c.message("assistant", text(s)) }

func (c claude) think(s string) {
	c.message("assistant", map[string]any{"type": "thinking", "thinking": s})
}

func (c claude) ask(id, kind string, input map[string]string) bool {
	name := map[string]string{"execute": "Bash", "edit": "Edit", "other": "Other"}[kind]
	c.message("assistant", map[string]any{"type": "tool_use", "id": id, "name": name, "input": input})
	first, _, _ := strings.Cut(input["command"], " ")
	if c.hook(id, name, input) != "ask" && slices.Contains(harmless, first) {
		return true
	}
	number, answer := c.request()
	c.print(map[string]any{"type": "control_request", "request_id": number,
		"request": map[string]any{"subtype": "can_use_tool",
			"tool_name": name, "tool_use_id": id, "input": input}})
	var r struct {
		Behavior string            `json:"behavior"`
		Input    map[string]string `json:"updatedInput"`
	}
	_ = json.Unmarshal(<-answer, &r)
	return r.Behavior == "allow" && len(r.Input) == len(input)
}

func (c claude) done(id, output string, failed bool) {
	c.message("user", map[string]any{"type": "tool_result", "tool_use_id": id, "content": output, "is_error": failed})
}

func (c claude) end(cancelled, failed bool) {
	subtype := "success"
	if cancelled || failed {
		subtype = "error_during_execution"
	}
	c.print(map[string]any{"type": "result", "subtype": subtype, "is_error": cancelled || failed, "session_id": c.session,
		"usage": map[string]int{"input_tokens": 7, "output_tokens": 3}})
}

// codex speaks as codex exec --json does: one prompt, which is its input, and no question.
type codex struct{ *agent }

func (c codex) once(args []string) {
	c.talk = c
	if i := slices.Index(args, "resume"); i < 0 {
		c.session = "t-" + strconv.Itoa(os.Getpid())
	} else if !c.load(args[i+1]) {
		_, _ = os.Stderr.WriteString("no rollout found for " + args[i+1])
		leave()
	}
	if os.Getenv(strange) != "" {
		c.raw(`{"type":7}` + "\n")
	}
	prompt, err := io.ReadAll(os.Stdin)
	if err != nil {
		leave()
	}
	c.print(map[string]string{"type": "thread.started", "thread_id": c.session})
	c.prompt(string(prompt))
}

func (codex) hear([]byte) {}

func (c codex) item(of string, doc map[string]any) {
	doc["id"], doc["type"] = "item", of
	c.print(map[string]any{"type": "item.completed", "item": doc})
}

func (c codex) say(s string) { c.item("agent_message", map[string]any{"text": s}) }

func (c codex) think(s string) { c.item("reasoning", map[string]any{"text": s}) }

func (codex) ask(string, string, map[string]string) bool { return true }

func (c codex) done(_, output string, failed bool) {
	status := "completed"
	if failed {
		status = "failed"
	}
	c.item("command_execution", map[string]any{"command": "sh", "aggregated_output": output, "status": status})
}

func (c codex) end(cancelled, failed bool) {
	if cancelled || failed {
		c.print(map[string]any{"type": "turn.failed", "error": map[string]string{"message": "no"}})
		return
	}
	c.print(map[string]any{"type": "turn.completed", "usage": map[string]int{"input_tokens": 7, "output_tokens": 3}})
}
