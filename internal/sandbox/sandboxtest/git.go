package sandboxtest

import (
	"os"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
)

// examGit makes a commit in a workspace, as agents do: with the configuration of git that the machine and the user may
// have.
func examGit(t *testing.T, b sandbox.Backend) {
	wants(t, b, Processes)
	p := open(t, b)
	if _, _, exit := p.sh(t, "command -v git"); exit.Code != 0 {
		untested(t, "git in a sandbox: the sandbox has no git")
	}
	const script = `set -e; git init -q .; echo text > f; chmod +x f; git add -A
git -c user.name=agent -c user.email=agent@localhost commit -q -m first; git log --format=%s; git status --short`
	for name, env := range map[string]string{"": "",
		" also with an environment of its own": `exec env -i PATH="$PATH" HOME="$HOME" `} {
		t.Run("SBX-1 git commits"+name, func(t *testing.T) {
			if info, err := os.Stat("/etc/gitconfig"); env != "" && err == nil && info.Mode().Perm()&0o004 == 0 {
				untested(t, "git without the sandbox's environment: the machine's configuration of git is for its own user alone")
			}
			p := open(t, b)
			must(t, p.sandbox.WriteFile("commit.sh", []byte(script)))
			out, errs, exit := p.sh(t, env+"sh ./commit.sh")
			if exit.Code != 0 || out != "first\n" {
				t.Errorf("got %q, %q, %+v", out, errs, exit)
			}
			if strings.Contains(errs, "denied") {
				t.Errorf("git complains: %q", errs)
			}
			if _, err := os.Stat(p.workspace + "/.git/HEAD"); err != nil {
				t.Errorf("the repository is not in the workspace: %v", err)
			}
		})
	}
}
