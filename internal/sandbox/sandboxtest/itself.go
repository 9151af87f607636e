package sandboxtest

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
)

// examItself does what is closed where it concerns others: to a command's own files, and to itself.
func examItself(t *testing.T, b sandbox.Backend) {
	wants(t, b, Processes)
	for name, script := range map[string]string{
		"modes":                     `echo x > f; chmod 640 f; chmod u+x,g-r f; test "$(stat -c %a f)" = 700`,
		"modes, by paths":           `mkdir d; echo x > d/f; ln -s d/f s; chmod 600 ./d/../d/f; chmod 640 "$PWD/d/f"; cd d; chmod a+x ../s; test "$(stat -c %a f)" = 751`,
		"modes, by descriptors":     `echo x > f; exec 3< f; chmod 611 /proc/self/fd/3; test "$(stat -c %a f)" = 611; perl -e 'open(F, "<", "f"); chmod(0622, *F) == 1 || exit 1'; test "$(stat -c %a f)" = 622`,
		"a mode that stays sticky":  `mkdir d; chmod 1777 d; test -k d`,
		"HOME and TMPDIR":           `touch "$HOME/f" "$TMPDIR/f"; chmod 600 "$HOME/f" "$TMPDIR/f"; test "$(stat -c %a "$TMPDIR/f")" = 600`,
		"times":                     `touch -d @1000 f; test "$(stat -c %Y f)" = 1000; touch f; test "$(stat -c %Y f)" -gt 1000; ln -s none s; touch -h -d @2000 s; test "$(stat -c %Y s)" = 2000`,
		"copies":                    `echo x > f; chmod 705 f; touch -d @1000 f; cp -p f g; test "$(stat -c %a.%Y g)" = 705.1000; cp -a f h; test "$(stat -c %a.%Y h)" = 705.1000; install -m 511 f i; test "$(stat -c %a i)" = 511`,
		"archives":                  `mkdir d; echo x > d/f; chmod 500 d/f; touch -d @1000 d/f d; tar cf a.tar d; rm -rf d; tar xpf a.tar; test "$(stat -c %a.%Y d/f)" = 500.1000; test "$(stat -c %Y d)" = 1000`,
		"owners":                    `echo x > f; chown "$(id -u):$(id -g)" f; chgrp "$(id -g)" f`,
		"errors are those of files": `chmod 600 none 2>&1 | grep -q 'No such file'; echo x > f; chmod 600 f/g 2>&1 | grep -q 'Not a directory'; ln -s l l; chmod 600 l 2>&1 | grep -q 'levels of symbolic links'`,
		"limits":                    `ulimit -n 64; test "$(ulimit -n)" = 64; test "$(sh -c 'ulimit -n')" = 64`,
		"niceness":                  `test "$(nice -n 19 nice)" = 19`,
		"calls on itself by its id": `perl -e '` + perl +
			`$v = $$; print call("PRLIMIT", 0, 7, 0, $o = "\0" x 16), call("PRLIMIT", $v, 7, 0, $o), call("PRIORITY", 0, $v, 19), call("PRIORITY", 0, 0, 19), call("PARAM", 0, pack("i", 0)), call("PARAM", $v, pack("i", 0)) < 1 ? 0 : 1' | grep -x 000000`,
		"a server of its own": `perl -MSocket -e 'socket(L, AF_INET, SOCK_STREAM, 0); bind(L, sockaddr_in(0, INADDR_LOOPBACK)) && listen(L, 1) or exit 1; $at = getsockname(L); if (!fork) { socket(S, AF_INET, SOCK_STREAM, 0); connect(S, $at) && syswrite(S, "x"); exit } accept(C, L) && sysread(C, $x, 1) == 1 or exit 1'`,
		"pairs of sockets":    `perl -MSocket -e 'socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) && syswrite(A, "x") && sysread(B, $x, 1) == 1 or exit 1'`,
	} {
		t.Run("SBX-14 "+name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			sb, err := b.Open(t.Context(), sandbox.Config{ID: "itself", Workspace: base, Network: true, Env: numbers()})
			must(t, err)
			t.Cleanup(func() { must(t, sb.Destroy(context.Background())) })
			p := workdir{sandbox: sb, workspace: base}
			if strings.Contains(script, "perl") {
				if _, _, exit := p.sh(t, "command -v perl"); exit.Code != 0 {
					untested(t, "%s: the sandbox has no Perl", name)
				}
			}
			if out, errs, exit := p.sh(t, "set -e; "+script); exit.Code != 0 {
				t.Errorf("got %q, %q, %+v", out, errs, exit)
			}
		})
	}
	t.Run("SBX-14 a folder that only its owner may enter can be changed back", func(t *testing.T) {
		t.Parallel()
		p := open(t, b)
		if out, errs, exit := p.sh(t, `mkdir d; echo x > d/f; chmod 000 d; chmod 755 d; cat d/f`); exit.Code != 0 ||
			out != "x\n" {
			t.Errorf("got %q, %q, %+v", out, errs, exit)
		}
		if info, err := os.Stat(p.workspace + "/d"); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("got %v, %v", info, err)
		}
	})
}
