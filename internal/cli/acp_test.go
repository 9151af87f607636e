package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/cli"
)

// ide is an editor: it speaks the Agent Client Protocol with inspan acp, as raw messages.
type ide struct {
	t    *testing.T
	in   io.WriteCloser
	out  *bufio.Reader
	last int
	// updates are those that came, by kind; permit chooses an option for a question, "" for none.
	updates []map[string]any
	permit  func(question map[string]any) string
	errs    *buffer
	ended   chan int
}

// edit starts inspan acp for an agent.
func (d *desk) edit(t *testing.T, agent string) *ide {
	t.Helper()
	inRead, in := io.Pipe()
	out, outWrite := io.Pipe()
	e := &ide{t: t, in: in, out: bufio.NewReader(out), errs: &buffer{}, ended: make(chan int, 1)}
	go func() {
		code := cli.MainAlone(context.WithoutCancel(t.Context()), []string{"acp", agent, "--empty", "--server", d.station.URL()}, inRead, outWrite, e.errs)
		_ = outWrite.Close()
		e.ended <- code
	}()
	t.Cleanup(e.leave)
	return e
}

// leave ends the editor, and with it the command.
func (e *ide) leave() {
	_ = e.in.Close()
	go func() { _, _ = io.Copy(io.Discard, e.out) }()
	if code := <-e.ended; code != 0 {
		e.t.Errorf("inspan acp: exit %d\n%s", code, e.errs)
	}
	e.ended <- 0
}

// send sends a line.
func (e *ide) send(line string) {
	e.t.Helper()
	if _, err := io.WriteString(e.in, line+"\n"); err != nil {
		e.t.Fatal(err)
	}
}

// next is the next message.
func (e *ide) next() map[string]any {
	e.t.Helper()
	line, err := e.out.ReadString('\n')
	if err != nil {
		e.t.Fatalf("%v\n%s", err, e.errs)
	}
	return decode[map[string]any](e.t, line)
}

// ask makes a request and returns its answer. Questions that come meanwhile are answered.
func (e *ide) ask(method, params string) map[string]any {
	e.t.Helper()
	e.last++
	id := fmt.Sprintf("e%d", e.last)
	e.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":%s}`, id, method, params))
	for {
		m := e.next()
		if m["id"] == id {
			return m
		}
		e.take(m)
	}
}

// take keeps an update and answers a question.
func (e *ide) take(m map[string]any) {
	e.t.Helper()
	params, _ := m["params"].(map[string]any)
	switch m["method"] {
	case "session/update":
		e.updates = append(e.updates, params["update"].(map[string]any))
	case "session/request_permission":
		outcome := `{"outcome":"cancelled"}`
		if choice := e.permit(params); choice != "" {
			outcome = fmt.Sprintf(`{"outcome":"selected","optionId":%q}`, choice)
		}
		id, _ := json.Marshal(m["id"])
		e.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":%s}}`, id, outcome))
	}
}

// text is what the agent said; status the last one of each call.
func (e *ide) text(kind string) (text string) {
	for _, u := range e.updates {
		if u["sessionUpdate"] == kind {
			text += u["content"].(map[string]any)["text"].(string)
		}
	}
	return text
}

func (e *ide) status() map[string]any {
	all := map[string]any{}
	for _, u := range e.updates {
		if id, ok := u["toolCallId"].(string); ok {
			all[id] = u["status"]
		}
	}
	return all
}

// session begins one.
func (e *ide) session() string {
	e.t.Helper()
	if m := e.ask("initialize", `{"protocolVersion":1,"clientCapabilities":{}}`); m["result"].(map[string]any)["protocolVersion"] != 1. {
		e.t.Fatalf("%v", m)
	}
	m := e.ask("session/new", `{"cwd":"/","mcpServers":[]}`)
	id, _ := m["result"].(map[string]any)["sessionId"].(string)
	if id == "" {
		e.t.Fatalf("%v", m)
	}
	return id
}

// prompt sends one and wants it to end for a reason.
func (e *ide) prompt(session, text, reason string) {
	e.t.Helper()
	m := e.ask("session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}`, session, text))
	if result, _ := m["result"].(map[string]any); result["stopReason"] != reason {
		e.t.Fatalf("%s: %v, want %s\n%s", text, m, reason, e.errs)
	}
}

func TestACP(t *testing.T) {
	t.Parallel()
	d := talkDesk(t)
	t.Run("ECO-6c a session of an editor has what was said before, and is loaded again by another", func(t *testing.T) {
		e := d.edit(t, "talker")
		s := e.session()
		e.prompt(s, "I am Ada", "end_turn")
		e.prompt(s, "who am I", "end_turn")
		if got := e.text("agent_message_chunk"); got != "Hello Ada.You are Ada." || !strings.HasPrefix("The name was told before.", e.text("agent_thought_chunk")) {
			t.Errorf("%q %q", got, e.text("agent_thought_chunk"))
		}
		e.leave()
		e = d.edit(t, "talker")
		e.session()
		if m := e.ask("session/load", `{"cwd":"/","mcpServers":[],"sessionId":"`+s+`"}`); m["error"] != nil {
			t.Fatalf("%v", m)
		}
		if e.text("user_message_chunk") != "I am Adawho am I" || e.text("agent_message_chunk") != "Hello Ada.You are Ada." {
			t.Errorf("%v", e.updates)
		}
		e.prompt(s, "who am I", "end_turn")
	})
	t.Run("ECO-6c a gate asks the person of the editor: approved, rejected, and not answered", func(t *testing.T) {
		e := d.edit(t, "talker")
		s := e.session()
		questions := 0
		e.permit = func(q map[string]any) string {
			questions++
			if call := q["toolCall"].(map[string]any); !strings.Contains(fmt.Sprint(call["content"]), "echo ran") || len(q["options"].([]any)) < 2 {
				t.Errorf("%v", q)
			}
			return "approve"
		}
		e.prompt(s, "run it", "end_turn")
		if got := e.text("agent_message_chunk"); questions != 1 || got != "I run it.\n\nIt ran." {
			t.Errorf("%d questions, %q", questions, got)
		}
		for id, status := range e.status() {
			if status != "completed" {
				t.Errorf("%s is %v", id, status)
			}
		}
		e.updates, e.permit = nil, func(map[string]any) string { questions++; return "reject" }
		e.prompt(s, "run it", "end_turn")
		if got := e.text("agent_message_chunk"); questions != 2 || got != "I run it.\n\nIt was not permitted." {
			t.Errorf("%d questions, %q", questions, got)
		}
		e.updates, e.permit = nil, func(map[string]any) string { questions++; return "" }
		e.last++
		e.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"late","method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"run it"}]}}`, s))
		for !strings.Contains(e.text("agent_message_chunk"), "inspan approve") {
			e.take(e.next())
		}
		gate, _, _ := strings.Cut(strings.SplitAfter(e.text("agent_message_chunk"), "inspan approve ")[1], ",")
		d.want(0, nil, "approve", gate)
		for m := e.next(); m["id"] != "late"; m = e.next() {
			e.take(m)
		}
		if questions != 3 || !strings.HasSuffix(e.text("agent_message_chunk"), "It ran.") {
			t.Errorf("%d questions, %q", questions, e.text("agent_message_chunk"))
		}
	})
	t.Run("ECO-6c a prompt that is cancelled stops its run, and the session takes the next one", func(t *testing.T) {
		e := d.edit(t, "talker")
		s := e.session()
		e.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"take long"}]}}`, s))
		if m := e.ask("session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":"two"}]}`, s)); m["error"] == nil {
			t.Errorf("two prompts at once: %v", m)
		}
		e.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%q}}`, s))
		m := e.next()
		for ; m["id"] != "p"; m = e.next() {
			e.take(m)
		}
		if m["result"].(map[string]any)["stopReason"] != "cancelled" {
			t.Errorf("%v", m)
		}
		e.prompt(s, "hello", "end_turn")
	})
	t.Run("ECO-6c a prompt that is cancelled at once stops its run, too", func(t *testing.T) {
		e := d.edit(t, "talker")
		s := e.session()
		for range 5 {
			e.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"take long"}]}}`, s))
			e.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%q}}`, s))
			m := e.next()
			for ; m["id"] != "p"; m = e.next() {
				e.take(m)
			}
			if result, _ := m["result"].(map[string]any); result["stopReason"] != "cancelled" {
				t.Errorf("%v", m)
			}
		}
	})
	t.Run("ECO-6c an editor that is gone leaves its run, which the next one follows on", func(t *testing.T) {
		e := d.edit(t, "talker")
		s := e.session()
		e.permit = func(map[string]any) string { return "" }
		e.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"run it"}]}}`, s))
		for !strings.Contains(e.text("agent_message_chunk"), "inspan approve") {
			e.take(e.next())
		}
		e.leave()
		e = d.edit(t, "talker")
		e.session()
		e.permit = func(map[string]any) string { return "approve" }
		if m := e.ask("session/load", `{"cwd":"/","mcpServers":[],"sessionId":"`+s+`"}`); m["error"] != nil {
			t.Fatalf("%v", m)
		}
		for !strings.HasSuffix(e.text("agent_message_chunk"), "It ran.") {
			e.take(e.next())
		}
	})
	t.Run("ECO-6c a run that fails is an error of its prompt", func(t *testing.T) {
		e := d.edit(t, "broken")
		s := e.session()
		m := e.ask("session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":"x"}]}`, s))
		if failure, _ := m["error"].(map[string]any); !strings.Contains(fmt.Sprint(failure["message"]), "the model is gone") {
			t.Errorf("%v", m)
		}
	})
	t.Run("ECO-6c an agent that the station does not have is reported before anything is typed", func(t *testing.T) {
		e := d.edit(t, "nobody")
		if m := e.ask("session/new", `{"cwd":"/","mcpServers":[]}`); !strings.Contains(fmt.Sprint(m["error"]), "inspan agents lists them") {
			t.Errorf("%v", m)
		}
	})
	t.Run("ECO-6c what is malformed or unknown is refused, and the editor goes on", func(t *testing.T) {
		e := d.edit(t, "talker")
		s := e.session()
		for line, code := range map[string]float64{`{`: -32700, `[]`: -32600, `{"jsonrpc":"1.0","id":1,"method":"initialize"}`: -32600, strings.Repeat("[", 20000): -32700} {
			e.send(line)
			if m := e.next(); m["error"].(map[string]any)["code"] != code || m["id"] != nil {
				t.Errorf("%.40s: %v", line, m)
			}
		}
		for _, c := range []struct {
			method, params string
			code           float64
		}{{"session/fork", "{}", -32601}, {"session/new", `{"cwd":"here"}`, -32602}, {"session/new", `[]`, -32602}, {"session/load", `{"cwd":"/","sessionId":"../x"}`, -32602},
			{"session/load", `{"cwd":"/","sessionId":"none"}`, -32002}, {"session/prompt", `{"sessionId":"none","prompt":[]}`, -32002},
			{"session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"image"}]}`, s), -32602}, {"session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[]}`, s), -32602},
			{"session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}`, s, strings.Repeat("x", 300<<10)), -32602}} {
			if m := e.ask(c.method, c.params); m["error"].(map[string]any)["code"] != c.code {
				t.Errorf("%s %.80s: %v", c.method, c.params, m)
			}
		}
		e.prompt(s, "hello", "end_turn")
	})
}

// edit starts inspan acp as a process in the checkout, with a station of its own.
func (c checkout) edit(agent string) *ide {
	c.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.CommandContext(c.t.Context(), self, "acp", agent)
	e := &ide{t: c.t, errs: &buffer{}, ended: make(chan int, 1)}
	cmd.Dir, cmd.Stderr = c.dir, e.errs
	cmd.Env = append(append(os.Environ(), cliVar+"=1", exitVar+"=", "XDG_CONFIG_HOME="+c.t.TempDir()), c.env...)
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		c.t.Fatal(err)
	}
	e.in, e.out = in, bufio.NewReader(out)
	go func() {
		_ = cmd.Wait() // the code says how it ended
		e.ended <- cmd.ProcessState.ExitCode()
	}()
	c.t.Cleanup(e.leave)
	return e
}

func TestACPOnCopy(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	c.chatter()
	before := git(t, c.dir, "status", "--porcelain")
	t.Run("ECO-6c an editor's session works on a copy of its project, which is brought as others are", func(t *testing.T) {
		e := c.edit("chatter")
		e.ask("initialize", `{"protocolVersion":1}`)
		m := e.ask("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, c.dir))
		s, _ := m["result"].(map[string]any)["sessionId"].(string)
		e.prompt(s, "make one", "end_turn")
		e.prompt(s, "make two", "end_turn")
		for id, status := range e.status() {
			if status != "completed" {
				t.Errorf("%s is %v: %v", id, status, e.updates)
			}
		}
		e.leave()
		if now := git(t, c.dir, "status", "--porcelain"); now != before {
			t.Errorf("the session changed the project: %s", now)
		}
		c.do(0, []string{"2 files changed, nothing committed"}, "merge", s, "--squash")
		c.file("two.txt", "2\n")
		c.file("draft.txt", "draft\n")
	})
}
