package agentfile_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/pkg/events"
)

func TestEditServers(t *testing.T) {
	t.Parallel()
	files := events.MCPServer{Name: "files", Command: []string{"npx", "-y", "@modelcontextprotocol/server-filesystem", "."},
		Env: map[string]string{"B": "two: three", "A_TOKEN": "secret:a"}, TimeoutMS: 20000,
		Effects: []events.MCPEffect{{Tool: "read_*", Effect: "read"}}}
	const block = `mcp:
  files:
    command: [npx, -y, "@modelcontextprotocol/server-filesystem", .]
    env: {A_TOKEN: secret:a, B: "two: three"}
    timeout: 20s
    effects: {read_*: read}
`
	for name, c := range map[string]struct{ before, after string }{
		"a list in one line, and no servers": {
			"---\nmodel: a/b # why\ntools: [read, bash] # few\n---\nWork.\n",
			"---\nmodel: a/b # why\ntools: [read, bash, mcp:files/*] # few\n" + block + "---\nWork.\n"},
		"a list by lines, and other servers": {
			"---\n# the agent\nmodel: a/b\ntools:\n  # of files\n  - read\n  - bash # dangerous\nmcp:\n  # the tracker\n  tracker:\n    url: https://a.example/mcp\nsandbox: {mode: host}\n---\nWork.\n---\nMore.\n",
			"---\n# the agent\nmodel: a/b\ntools:\n  # of files\n  - read\n  - bash # dangerous\n  - mcp:files/*\nmcp:\n  # the tracker\n  tracker:\n    url: https://a.example/mcp\n" + strings.TrimPrefix(block, "mcp:\n") + "sandbox: {mode: host}\n---\nWork.\n---\nMore.\n"},
		"no list": {
			"---\nmodel: a/b\n---\nWork.\n",
			"---\nmodel: a/b\n" + block + "tools: [mcp:files/*]\n---\nWork.\n"},
		"lines that end in two characters": {
			"---\r\nmodel: a/b\r\ntools:\r\n- read\r\n---\r\nWork.\r\n",
			"---\r\nmodel: a/b\r\ntools:\r\n- read\r\n- mcp:files/*\r\n" + strings.ReplaceAll(block, "\n", "\r\n") + "---\r\nWork.\r\n"},
	} {
		t.Run("CLI-7 a server is added to an agent file and removed again, and nothing else changes: "+name, func(t *testing.T) {
			t.Parallel()
			got, err := agentfile.AddServer("a.prompt", []byte(c.before), files, []string{"*"})
			if err != nil || string(got) != c.after {
				t.Fatalf("got\n%s\n%v, want\n%s", got, err, c.after)
			}
			a, _, err := agentfile.Parse("a.prompt", got)
			if s := a.MCP[len(a.MCP)-1]; err != nil || s.Env["B"] != "two: three" || len(s.Command) != 4 || s.TimeoutMS != 20000 {
				t.Errorf("it reads %+v, %v", a.MCP, err)
			}
			back, err := agentfile.RemoveServer("a.prompt", got, "files")
			if err != nil || string(back) != c.before && name != "no list" {
				t.Errorf("back:\n%s\n%v", back, err)
			}
		})
	}
	t.Run("CLI-7 a server in braces is added inside of them, and what cannot be kept is refused", func(t *testing.T) {
		t.Parallel()
		got, err := agentfile.AddServer("a.prompt", []byte("---\nmodel: a/b\nmcp: {one: {url: https://a.example}}\n---\nx\n"), events.MCPServer{Name: "two", URL: "https://b.example"}, []string{"*"})
		if err != nil || !strings.Contains(string(got), "mcp: {one: {url: https://a.example}, two: {url: https://b.example}}\n") {
			t.Errorf("%s %v", got, err)
		}
		_, err = agentfile.AddServer("a.prompt", []byte("---\nmodel: a/b\ntools: [read,\n  bash, # one\n  edit]\n---\nx\n"), events.MCPServer{Name: "two", URL: "https://b.example"}, []string{"*"})
		if !errors.Is(err, agentfile.ErrByHand) {
			t.Errorf("got %v", err)
		}
	})
}
