package actions

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// sh, put and swap are calls of bash, write and edit.
func sh(text string) [2]string { return [2]string{"bash", raw(map[string]any{"command": text})} }

func put(path, text string) [2]string {
	return [2]string{"write", raw(map[string]any{"path": path, "content": text})}
}

func swap(path, old, text string) [2]string {
	return [2]string{"edit", raw(map[string]any{"path": path, "old_string": old, "new_string": text})}
}

func raw(v map[string]any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestEarlierCalls(t *testing.T) {
	t.Parallel()
	set, err := guard.Build([]events.Rule{{ID: "no-deniedprog", Match: events.Match{Argv: []string{"deniedprog", "**"}}, Action: guard.Deny}})
	if err != nil {
		t.Fatal(err)
	}
	patch := [2]string{"apply_patch", raw(map[string]any{"patch": "*** Begin Patch\n*** Add File: x.sh\n+deniedprog\n*** End Patch"})}
	cases := []struct {
		name    string
		earlier [][2]string
		call    [2]string
		want    string
	}{
		{"a script that write made", [][2]string{put("x.sh", "deniedprog")}, sh("sh x.sh"), guard.Deny},
		{"by another folder", [][2]string{put("d/x.sh", "cd /\ndeniedprog y")}, sh("cd d && ./x.sh"), guard.Deny},
		{"as input", [][2]string{put("x.sh", "deniedprog")}, sh("bash < x.sh"), guard.Deny},
		{"sourced", [][2]string{put("x.sh", "f() { deniedprog; }")}, sh(". ./x.sh; f"), guard.Deny},
		{"by a pattern", [][2]string{put("x.sh", "deniedprog")}, sh("sh ./*.sh"), guard.Deny},
		{"by find", [][2]string{put("x.sh", "deniedprog")}, sh("find . -name x.sh -exec sh x.sh ';'"), guard.Deny},
		{"that cannot be read completely", [][2]string{put("x.sh", "eval $X")}, sh("sh x.sh"), guard.Ask},
		{"rewritten to something harmless", [][2]string{put("x.sh", "deniedprog"), put("x.sh", "ls")}, sh("sh x.sh"), guard.Allow},
		{"an edit of it", [][2]string{put("x.sh", "ls"), swap("x.sh", "ls", "deniedprog")}, sh("sh x.sh"), guard.Deny},
		{"a part of the name by an edit", [][2]string{put("x.sh", "deniedX"), swap("x.sh", "X", "prog")}, sh("sh x.sh"), guard.Deny},
		{"an edit of a file that was there", [][2]string{swap("x.sh", "ls", "deniedprog")}, sh("sh x.sh"), guard.Ask},
		{"a patch", [][2]string{patch}, sh("sh x.sh"), guard.Ask},
		{"a redirection", [][2]string{sh("echo deniedprog > x.sh")}, sh("sh x.sh"), guard.Deny},
		{"a here-document", [][2]string{sh("cat > x.sh <<'EOF'\ndeniedprog y\nEOF")}, sh("chmod +x x.sh; ./x.sh"), guard.Deny},
		{"tee", [][2]string{sh("tee x.sh <<< deniedprog")}, sh("sh x.sh"), guard.Deny},
		{"a text that is made", [][2]string{sh("base64 -d <<< ZGVuaWVkcHJvZwo= > x.sh")}, sh("sh x.sh"), guard.Ask},
		{"a download", [][2]string{sh("curl -o x.sh https://example.org/x.sh")}, sh("sh x.sh"), guard.Ask},
		{"another name", [][2]string{put("x.txt", "deniedprog"), sh("mv x.txt y")}, sh("sh y"), guard.Deny},
		{"another name of another name", [][2]string{put("x.txt", "deniedprog"), sh("cp x.txt z"), sh("ln -s z y")}, sh("sh y"), guard.Deny},
		{"a copy of a program", [][2]string{sh(`cp "$(command -v deniedprog)" x`)}, sh("./x"), guard.Ask},
		{"a link to a program", [][2]string{sh("ln -s /usr/bin/env x")}, sh("./x deniedprog"), guard.Ask},
		{"a script in another language", [][2]string{put("x.py", "import subprocess\nsubprocess.run(['deniedprog', 'y'])\n")}, sh("python3 x.py"), guard.Ask},
		{"such a script by its first line", [][2]string{put("x", "#!/usr/bin/env python3\nimport os\nos.system('deniedprog')\n")}, sh("./x"), guard.Ask},
		{"a Makefile", [][2]string{put("Makefile", "all:\n\tdeniedprog\n")}, sh("make"), guard.Ask},
		{"a Makefile by name", [][2]string{put("m.mk", "all:\n\tdeniedprog\n")}, sh("make -f m.mk"), guard.Ask},
		{"scripts of npm", [][2]string{put("package.json", `{"scripts": {"test": "deniedprog"}}`)}, sh("npm test"), guard.Ask},
		{"force push from a script", [][2]string{put("x.py", `subprocess.run(["git", "push", "--force"])`)}, sh("python3 x.py"), guard.Ask},

		{"a folder of PATH", [][2]string{put("bin/ls", "deniedprog")}, sh("PATH=$PWD/bin:$PATH; ls"), guard.Deny},
		{"a folder of PATH that is exported", [][2]string{put("bin/ls", "deniedprog"), sh("export PATH=$PWD/bin:$PATH")}, sh("ls"), guard.Deny},
		{"a folder of PATH for one command", [][2]string{sh("base64 -d <<< ZGVuaWVkcHJvZwo= > bin/x")}, sh("PATH=bin x"), guard.Ask},

		{"ordinary: another PATH", [][2]string{put("src/ls.go", "deniedprog"), put("README.md", "ls")}, sh("export PATH=$PATH:$HOME/go/bin; ls; go test ./..."), guard.Allow},
		{"ordinary: a script of the workspace", nil, sh("./scripts/test.sh && sh build.sh"), guard.Allow},
		{"ordinary: a harmless script", [][2]string{put("x.sh", "#!/bin/bash\nset -e\ngo test ./...\n")}, sh("chmod +x x.sh && ./x.sh"), guard.Allow},
		{"ordinary: a Python script", [][2]string{put("x.py", "import re\nimport subprocess\nre.compile('x')\nsubprocess.run(['go', 'test'])\n")}, sh("python3 x.py"), guard.Allow},
		{"ordinary: a Python script by its first line", [][2]string{put("x.py", "#!/usr/bin/env python3\nprint('(')\n")}, sh("./x.py"), guard.Allow},
		{"ordinary: a Makefile", [][2]string{put("Makefile", "test:\n\tgo test ./...\n")}, sh("make test"), guard.Allow},
		{"ordinary: package.json through jq", [][2]string{sh("jq .a package.json > t && mv t package.json")}, sh("npm test"), guard.Allow},
		{"ordinary: a program that was built", [][2]string{sh("go build -o app ./cmd/app")}, sh("./app"), guard.Allow},
		{"ordinary: output that is read again", [][2]string{sh("go test ./... > out.txt")}, sh("cat out.txt | tail; sort < out.txt"), guard.Allow},
		{"ordinary: a text about the program", [][2]string{put("README.md", "do not run deniedprog")}, sh("cat README.md; ./build.sh"), guard.Allow},
		{"ordinary: a refused call wrote nothing", [][2]string{{"refused", put("x.sh", "deniedprog")[1]}}, sh("sh x.sh"), guard.Allow},
	}
	for _, c := range cases {
		t.Run("GUARD-5 GUARD-9 earlier calls: "+c.name, func(t *testing.T) {
			t.Parallel()
			b := runtest.New("main", "r1")
			b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
			for i, call := range c.earlier {
				asked := runtest.Asked(i+1, 1, strings.Replace(call[0], "refused", "write", 1), call[1])
				b.Append(runtest.Turn(i+1, "a", "a call", asked))
				ref := runtest.Ref("a", asked.ID, asked.Tool)
				if call[0] == "refused" {
					b.Append(runtest.CallNo(ref))
					continue
				}
				b.Append(runtest.CallYes(ref, "once"), runtest.CallBegun(ref, 1))
				b.Append(runtest.CallDone(ref, b.State().Open[asked.ID].Fence, "done"))
			}
			a := In(b.State(), c.call[0], json.RawMessage(c.call[1]))
			if got := set.Judge(a); got.Action != c.want {
				t.Errorf("got %+v, want %s\n%+v", got, c.want, a)
			}
		})
	}
	t.Run("GUARD-5 GUARD-9 earlier calls: one whose arguments are too large for the log", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r1")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
		asked := runtest.Asked(1, 1, "write", "")
		asked.Input, asked.InputRef = nil, &events.Ref{SHA256: strings.Repeat("0", 64), Size: 1 << 20, Type: "application/json"}
		ref := runtest.Ref("a", asked.ID, asked.Tool)
		b.Append(runtest.Turn(1, "a", "a call", asked), runtest.CallYes(ref, "once"), runtest.CallBegun(ref, 1))
		b.Append(runtest.CallDone(ref, b.State().Open[asked.ID].Fence, "wrote 60000 bytes to d/x.sh"))
		for text, want := range map[string]string{"sh d/x.sh": guard.Ask, "sh d/y.sh": guard.Allow} {
			call := sh(text)
			if got := set.Judge(In(b.State(), call[0], json.RawMessage(call[1]))); got.Action != want {
				t.Errorf("%s: got %+v, want %s", text, got, want)
			}
		}
	})
	t.Run("GUARD-5 GUARD-9 earlier calls: one of the same turn", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r1")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
		first, second := put("x.sh", "deniedprog"), sh("sh x.sh")
		b.Append(runtest.Turn(1, "a", "two calls", runtest.Asked(1, 1, first[0], first[1]), runtest.Asked(1, 2, second[0], second[1])))
		if got := set.Judge(In(b.State(), second[0], json.RawMessage(second[1]))); got.Action != guard.Deny {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("GUARD-5 limit: a file is followed through a bounded number of names", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r1")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
		for i := range 2 * maxRenames {
			call := sh(fmt.Sprintf("mv name%d name%d", i, i+1))
			asked := runtest.Asked(i+1, 1, call[0], call[1])
			ref := runtest.Ref("a", asked.ID, asked.Tool)
			b.Append(runtest.Turn(i+1, "a", "a call", asked), runtest.CallYes(ref, "once"), runtest.CallBegun(ref, 1))
			b.Append(runtest.CallDone(ref, b.State().Open[asked.ID].Fence, "done"))
		}
		call := sh(fmt.Sprintf("sh name%d", 2*maxRenames))
		if got := set.Judge(In(b.State(), call[0], json.RawMessage(call[1]))); got.Action != guard.Ask {
			t.Errorf("got %+v", got)
		}
	})
}
