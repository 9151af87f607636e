package runtime

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/events"
)

const sound = `name = "mine"
kind = "acp"
command = "mine"
args = ["serve"]
capabilities = {gate_tools = "native"}
`

const screenFile = `name = "mine"
kind = "cli"
driver = "pty"
command = "mine"
ready = {method = "prompt_prefix", prefix = "❯ ", timeout = "60s"}
turn = {busy = "esc to interrupt"}
session = {resume = true, id_flag = "--session-id", resume_flag = "--resume"}
capabilities = {gate_tools = "none"}

[[questions]]
match = "Trust"
action = "answer"
yes = "1\r"
`

func faults(err error) (all []*Error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // it is taken apart
		for _, one := range joined.Unwrap() {
			all = append(all, faults(one)...)
		}
		return all
	}
	if e, ok := errors.AsType[*Error](err); ok {
		all = append(all, e)
	}
	return all
}

func TestParse(t *testing.T) {
	t.Parallel()
	t.Run("ID-6a what a file declares is what is started", func(t *testing.T) {
		t.Parallel()
		e, err := Parse("mine.toml", []byte(sound+"autonomous_args = [\"--yes\"]\nenv = {A_TOKEN = \"secret:one\"}\nready = {method = \"acp\"}\nx-note = 1\n"))
		if err != nil {
			t.Fatal(err)
		}
		r := e.Runtime()
		if got := Command(r, sandbox.Bwrap, "more"); !slices.Equal(got, []string{"mine", "serve", "--yes", "more"}) {
			t.Errorf("in a sandbox: %q", got)
		}
		if got := Command(r, sandbox.Host); !slices.Equal(got, []string{"mine", "serve"}) {
			t.Errorf("without one: %q", got)
		}
		if r.Driver != events.DriverACP || r.Gate != events.RuntimeAsks || len(r.Digest) != 64 || e.Verified != "" {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("ID-6a ID-8 what a file declares of a screen is what it is driven by", func(t *testing.T) {
		t.Parallel()
		e, err := Parse("mine.toml", []byte(screenFile))
		if err != nil {
			t.Fatal(err)
		}
		r := e.Runtime()
		if r.Driver != events.DriverPTY || r.Terminal == nil || r.Terminal.ReadyMS != 60000 || r.Terminal.Ready != `^[\s│┃|]*❯ ` ||
			!slices.Equal(r.Terminal.New, []string{"--session-id", "{session}"}) || !slices.Equal(r.Terminal.Resume, []string{"--resume", "{session}"}) ||
			len(r.Terminal.Questions) != 1 || r.Terminal.Questions[0].Yes != "1\r" {
			t.Errorf("got %+v, %+v", r, r.Terminal)
		}
		for name, c := range map[string]struct{ from, to, path string }{
			"no end":       {`busy = "esc to interrupt"`, `busy = ""`, "turn.end"},
			"no prompt":    {`prefix = "❯ "`, `prefix = ""`, "ready.prefix"},
			"both":         {`prefix = "❯ "`, `prefix = "❯ ", match = "^❯"`, "ready.match"},
			"no match":     {`prefix = "❯ "`, `match = "("`, "ready.match"},
			"no pattern":   {`match = "Trust"`, `match = "("`, "questions.match"},
			"no action":    {`action = "answer"`, `action = "guess"`, "questions.action"},
			"no keys":      {`yes = "1\r"`, `yes = ""`, "questions.yes"},
			"no resume":    {`, resume_flag = "--resume"`, "", "session.resume_flag"},
			"it asks":      {`"none"`, `"native"`, "capabilities.gate_tools"},
			"of a parser":  {`driver = "pty"`, "driver = \"pty\"\nheadless = {parser = \"codex\"}", "driver"},
			"of no driver": {`driver = "pty"`, `driver = "screen"`, "driver"},
			"too short":    {`"60s"`, `"1ms"`, "ready.timeout"},
		} {
			_, err := Parse("mine.toml", []byte(strings.Replace(screenFile, c.from, c.to, 1)))
			if !slices.ContainsFunc(faults(err), func(e *Error) bool { return e.Path == c.path }) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
	t.Run("ID-6a ID-8 a pattern distinguishes the row of the prompt from those of a menu that begin as it does", func(t *testing.T) {
		t.Parallel()
		e, err := Parse("mine.toml", []byte(strings.Replace(screenFile, `prefix = "❯ "`, `match = '^\s*❯\s*$'`, 1)))
		if err != nil {
			t.Fatal(err)
		}
		ready := regexp.MustCompile(e.Runtime().Terminal.Ready)
		if !ready.MatchString("❯ ") || ready.MatchString("❯ 1. Yes, I trust this folder") {
			t.Errorf("got %s", ready)
		}
	})
	t.Run("ID-6a a program may be in the folder of a scope of npm", func(t *testing.T) {
		t.Parallel()
		const at = "/opt/node_modules/@anthropic-ai/claude-code-linux-x64/claude"
		e, err := Parse("mine.toml", []byte(strings.Replace(sound, `command = "mine"`, `command = "`+at+`"`, 1)))
		if err != nil || e.Runtime().Command[0] != at {
			t.Errorf("got %q, %v", e.Runtime().Command, err)
		}
	})
	t.Run("ID-6a SAFE-1 each fault has its line and says what to do", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			text, path, hint string
			line             int
		}{
			"unknown key":     {sound + "comand = \"x\"\n", "comand", "command", 6},
			"unknown subkey":  {sound + "[session]\nresumes = true\n", "session.resumes", "session.resume", 7},
			"type":            {sound + "description = 5\n", "description", "docs/runtimes.md", 6},
			"literal secret":  {sound + "[env]\nMY_API_KEY = \"sk-1234\"\n", "env.MY_API_KEY", "secret:NAME", 7},
			"no secret":       {sound + "env = {A = \"secret:\"}\n", "env.A", "secret:NAME", 6},
			"out of home":     {sound + "session = {resume = true, transcripts = [\"../{session}\"]}\n", "session.transcripts", ".program", 6},
			"absolute":        {sound + "session = {resume = true, transcripts = [\"/tmp/{session}\"]}\n", "session.transcripts", ".program", 6},
			"of a shell":      {sound + "session = {resume = true, transcripts = [\"$(id)/{session}\"]}\n", "session.transcripts", ".program", 6},
			"all sessions":    {sound + "session = {resume = true, transcripts = [\"a/*\"]}\n", "session.transcripts", "{session}", 6},
			"silence":         {sound + "stuck_after = \"5s\"\n", "stuck_after", "20m", 6},
			"no resume":       {sound + "session = {transcripts = [\"a/{session}\"]}\n", "session.transcripts", "session.resume", 6},
			"kind":            {strings.Replace(sound, `"acp"`, `"tui"`, 1), "kind", `"acp" or "cli"`, 2},
			"name":            {strings.Replace(sound, `"mine"`, `"other"`, 1), "name", "rename", 1},
			"gate":            {strings.Replace(sound, "native", "hook", 1), "capabilities.gate_tools", `"native"`, 5},
			"gate of no word": {strings.Replace(sound, `gate_tools = "native"`, "", 1), "capabilities.gate_tools", "write", 5},
			"command":         {strings.Replace(sound, `command = "mine"`, `command = "mine --all"`, 1), "command", "args", 3},
			"parser":          {strings.Replace(sound, `"acp"`, `"cli"`, 1), "headless.parser", "codex", 0},
		} {
			_, err := Parse("mine.toml", []byte(c.text))
			all := faults(err)
			i := slices.IndexFunc(all, func(e *Error) bool { return e.Path == c.path })
			if i < 0 {
				t.Errorf("%s: got %v", name, err)
				continue
			}
			if e := all[i]; c.line > 0 && e.Line != c.line || !strings.Contains(e.Hint, c.hint) || strings.Contains(err.Error(), "sk-1234") {
				t.Errorf("%s: got %v, want line %d", name, e, c.line)
			}
		}
		if _, err := Parse("mine.toml", []byte("name = \"mine")); err == nil {
			t.Error("what is no TOML was read")
		}
		if _, err := Parse("mine.toml", make([]byte, MaxFile+1)); err == nil {
			t.Error("a file above the limit was read")
		}
	})
}

func TestPresets(t *testing.T) {
	t.Parallel()
	t.Run("ID-3a ID-6a the presets are sound, and none is called verified that was never tried", func(t *testing.T) {
		t.Parallel()
		all := Presets()
		if len(all) != 12 {
			t.Errorf("got %d", len(all))
		}
		for name, e := range all {
			if e.Name != name || !e.Preset || e.Description == "" {
				t.Errorf("%s: %+v", name, e)
			}
			// make runtimes tries the version that a preset says was tried, and there is none for the others.
			if tried := slices.Contains([]string{"claude", "codex", "opencode"}, name); tried != (e.Verified != "") {
				t.Errorf("%s says that it was tried with %q", name, e.Verified)
			}
		}
	})
	t.Run("ID-6a a project's file takes the place of a preset; a bad one is an error beside the sound ones", func(t *testing.T) {
		t.Parallel()
		all, err := Load(fstest.MapFS{"runtimes/codex.toml": {Data: []byte(strings.ReplaceAll(sound, "mine", "codex"))},
			"runtimes/bad.toml": {Data: []byte("name = 1")}, "runtimes/note.md": {Data: []byte("x")}})
		if all["codex"].Preset || all["codex"].Kind != KindACP || !all["claude"].Preset || len(faults(err)) == 0 || len(all) != 12 {
			t.Errorf("got %+v, %v", all["codex"], err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sound))
	f.Add([]byte("[env]\nA=1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := Parse("mine.toml", data)
		if err == nil && (e.Name != "mine" || len(e.Runtime().Command) == 0) {
			t.Errorf("got %+v", e)
		}
	})
}

func TestJudged(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-12a GUARD-9 what a program reports is read as the guards read the calls of other agents", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			tool        Tool
			name, input string
		}{
			{Tool{Name: "bash", Input: []byte(`{"command":"git push"}`)}, "bash", `{"command":"git push","reported":{"command":"git push"}}`},
			{Tool{Name: "bash", Input: []byte(`{"command":["sh","-c","rm -rf /"]}`)}, "bash", `"command":"sh -c 'rm -rf /'"`},
			{Tool{Name: "bash", Title: "do it", Input: []byte(`{"x":1}`)}, "other", `"title":"do it"`},
			{Tool{Name: "bash", Input: []byte(`no JSON`)}, "other", `{}`},
			{Tool{Name: "read", Title: "read"}, "other", `{"title":"read"}`},
			{Tool{Name: "grep", Input: []byte(`{"pattern":"x"}`)}, "grep", `"reported"`},
			{Tool{Name: "edit", Input: []byte(`{"filePath":"/ws/a/b"}`), Paths: []string{"/ws/c", "/etc/passwd", "/wsx"}}, "edit",
				`"paths":["a/b","c","/etc/passwd","/wsx"]`},
		} {
			name, input := Judged(c.tool, "/ws")
			if name != c.name || !strings.Contains(string(input), c.input) {
				t.Errorf("got %s %s, want %s %s", name, input, c.name, c.input)
			}
		}
		if InnerName("Bash") != "bash" || InnerName("runtime") != events.ToolOther || InnerName("delegate") != events.ToolOther {
			t.Error("a name of a program is not one of those that it may have")
		}
		for _, ours := range names {
			if !events.IsInner(ours) {
				t.Errorf("%s is no name of an inner call", ours)
			}
		}
	})
}
