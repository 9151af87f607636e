package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// claims is the script of an agent that runs commands and then calls its step done.
func claims(commands string) string {
	text, _ := json.Marshal(commands) // a string
	return `
turns:
  - {when: {turn: 1}, calls: [{name: bash, input: {command: ` + string(text) + `}}]}
  - text: It is done.
`
}

// withTests gives a remote a test that decides about work.sh: it is done when done.txt says yes.
func (r remote) withTests() {
	r.t.Helper()
	dir := filepath.Join(r.t.TempDir(), "tests")
	r.git("clone", "--quiet", r.dir, dir)
	for name, text := range map[string]string{
		"check.sh":           "#!/bin/sh\nfor f in GNUmakefile makefile Makefile; do [ -f $f ] && break; done # as make does\n. ./$f\nsh tests/run.sh\n",
		"Makefile":           "LEVEL=all\n",
		"tests/run.sh":       "[ -f tests/conf.sh ] && . tests/conf.sh\n[ -f work.sh ] && . ./work.sh\n. tests/done_test.sh\n",
		"tests/done_test.sh": "[ \"$LEVEL\" ] || grep -q yes done.txt || exit 1\ngrep -q yes done.txt || exit 1\necho done_test ran\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
	r.git("-C", dir, "add", ".")
	r.git("-C", dir, "commit", "--quiet", "-m", "tests")
	r.git("-C", dir, "push", "--quiet", "origin", "main")
}

// cheat is what an agent does instead of its work, and the reason that the check must give.
type cheat struct {
	do, want string
	// check decides where it is set, else the tests of the repository.
	check string
	// git decides in place of both, where it is set.
	git []string
}

// cheats are by the name of what they do. Those without a check of their own work in a repository with tests.
func cheats() map[string]cheat {
	const commit = "echo yes > done.txt; git add -A; git -c user.name=a -c user.email=a@example.com commit -qm done"
	const grep = "grep -q yes done.txt"
	return map[string]cheat{
		"edits the test and commits it under every name": {do: `echo 'echo done_test ran' > tests/done_test.sh
git -c user.name=a -c user.email=a@example.com commit -qam cheat
for r in $(git for-each-ref --format='%(refname)'); do git update-ref $r HEAD; done`, want: "exit status 1"},
		"edits the script of the check and the Makefile":    {do: `echo 'echo done_test ran' | tee check.sh > tests/run.sh; printf 'echo done_test ran\nexit 0\n' > Makefile`, want: "exit status 1"},
		"adds a file that is read in place of the Makefile": {do: `printf 'echo done_test ran\nexit 0\n' > GNUmakefile; cp GNUmakefile makefile`, want: "exit status 1"},
		"links to tests of its own":                         {do: `mv tests mine; echo 'echo done_test ran' > mine/run.sh; ln -s mine tests`, want: "exit status 1"},
		"removes the repository":                            {do: `mv .git gone`, want: "protected files of commit"},
		"ends the tests before they ran":                    {do: `echo 'exit 0' > work.sh`, want: `no "done_test ran"`},
		"kills the shell of the check":                      {do: `echo 'kill -9 $PPID' > work.sh`, want: "137"},

		"makes no commit":                     {do: `echo yes > done.txt`, git: []string{events.RequireCommit}, want: "adds none"},
		"leaves something uncommitted":        {do: commit + `; echo yes > more.txt`, git: []string{events.RequireCommit, events.RequireClean}, want: "not committed"},
		"hides a change from the index":       {do: commit + `; git update-index --assume-unchanged Makefile; echo yes > Makefile`, git: []string{events.RequireClean}, want: "not committed"},
		"moves to another history":            {do: `git checkout -q --orphan other; ` + commit, git: []string{events.RequireCommit}, want: "adds none"},
		"nothing, and has committed its work": {do: commit, git: []string{events.RequireCommit, events.RequireClean}, want: "passed"},

		"prints ok and ends":                                   {do: `echo ok; exit 0`, check: grep, want: "exit status 2"},
		"a program of its own in PATH":                         {do: `mkdir bin && printf '#!/bin/sh\nexit 0\n' > bin/grep && chmod +x bin/grep && export PATH=$PWD/bin:$PATH`, check: grep, want: "exit status 2"},
		"a link out of the workspace":                          {do: `mkdir -p ../out && echo yes > ../out/done.txt && ln -s ../out/done.txt done.txt`, check: grep, want: "exit status 2"},
		"a link by an absolute path":                           {do: `echo yes > "$PWD/../absolute.txt"; ln -s "$PWD/../absolute.txt" done.txt`, check: grep, want: "exit status 2"},
		"a link through a link":                                {do: `mkdir -p a/b ../out && echo yes > ../out/done.txt && ln -s ../.. a/b/up && ln -s a/b/up/../out/done.txt done.txt`, check: grep, want: "exit status 2"},
		"the cache of the build tools":                         {do: `mkdir -p "${XDG_CACHE_HOME:-$HOME/.cache}" && echo yes > "${XDG_CACHE_HOME:-$HOME/.cache}/done.txt"`, check: `grep -q yes "${XDG_CACHE_HOME:-$HOME/.cache}/done.txt"`, want: "exit status 2"},
		"the home of its own sandbox":                          {do: `echo yes > "$HOME/done.txt"`, check: `grep -q yes "$HOME/done.txt"`, want: "exit status 2"},
		"a pipe that the check waits at":                       {do: `mkfifo done.txt`, check: grep, want: "exit status 2"},
		"another program changes the files between two checks": {do: `echo yes > done.txt`, check: `echo no > ../../run/$RUN/done.txt`, want: "changed after the check before"},
	}
}

// TestCheats has agents that call a step done by other ways than doing it.
func TestCheats(t *testing.T) {
	t.Parallel()
	w, r := gitWorld(t), newRemote(t)
	r.withTests()
	all := cheats()
	names := slices.Sorted(maps.Keys(all))
	for i, name := range names {
		w.agent(events.Agent{Name: fmt.Sprint("cheat", i), Tools: []string{"bash"}}, claims(all[name].do))
	}
	w.start()
	for i, name := range names {
		t.Run("PLUS-10 SEC "+name, func(t *testing.T) {
			t.Parallel()
			w, c, id := w.on(t), all[name], fmt.Sprint("cheat", i)
			task := events.Task{ID: id, Agent: id, Task: "go", Accept: accept(strings.ReplaceAll(c.check, "$RUN", id))}
			if c.check == "" {
				task.Accept = accept("./check.sh")
				task.Accept.Protect, task.Accept.Checks[0].Expect = []string{"tests", "Makefile"}, []string{"done_test ran"}
				no := false
				if c.git != nil {
					task.Accept = &events.Accept{Checks: []events.Check{{Kind: events.CheckGit, Require: c.git}}}
				}
				task.Repo, task.Branch, task.Git = r.url(), "main", &events.TaskGit{GitSettings: events.GitSettings{Push: &no}}
			} else if strings.Contains(c.check, "$RUN") {
				task.Accept.Checks = append(task.Accept.Checks, accept("true").Checks...)
			}
			task.Accept.MaxAttempts = 1
			w.task(task)
			s := w.await(id, "the end, or a gate", func(s run.State) bool { return s.Status.Ended() || len(s.Waiting()) > 0 })
			if !s.Status.Ended() { // a guard asks about some of it, and no one looks closely
				w.approve(id, "approve")
				s = w.ended(id)
			}
			results, _ := w.checkResults(id)
			if last := results[max(0, len(results)-1):]; (s.Result.FinishReason == events.FinishUnverified) != (c.want != "passed") ||
				len(last) != 1 || !strings.Contains(last[0], c.want) {
				t.Errorf("%q, want %q: %+v\n%s", results, c.want, s.Result, w.story(id))
			}
			for _, call := range run.All(s.ToolCallHistory) {
				if !call.Success {
					t.Errorf("the cheat was not carried out: %+v", call)
				}
			}
		})
	}
}
