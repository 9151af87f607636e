package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/host"
)

// escaped is what a script says that got out.
const escaped = "ESCAPED"

// ways out, as scripts that say escaped where they got through. Variables name what is outside. Each is run on the open
// host too, where it has to get through: a way that leads nowhere proves no wall.
var waysOut = map[string]string{
	"symbolic link":                      `ln -s "$SECRET" s && grep -q secret s && echo ESCAPED`,
	"hard link":                          `ln "$SECRET" h && grep -q secret h && echo ESCAPED`,
	"absolute path":                      `grep -q secret "$SECRET" && echo ESCAPED`,
	"parent directories":                 `grep -q secret ../outside/secret && echo ESCAPED`,
	"write outside":                      `echo x >> "$OUTSIDE/new" && echo ESCAPED`,
	"remove outside":                     `rm "$OUTSIDE/doomed" && echo ESCAPED`,
	"rename to the outside":              `echo x > mine && mv mine "$OUTSIDE/moved" && echo ESCAPED`,
	"list the outside":                   `ls "$OUTSIDE" | grep -q secret && echo ESCAPED`,
	"workspace of another run":           `grep -q other "$OTHER/file" && echo ESCAPED`,
	"private files of another run":       `ls "$OTHERHOME/.." | grep -q home && echo ESCAPED`,
	"passwords of the machine":           `head -c 1 /etc/shadow | grep -q . && echo ESCAPED`,
	"switches of the kernel":             `: >> /proc/sys/kernel/core_pattern && echo ESCAPED`,
	"environment of the service":         `tr '\0' '\n' < /proc/$SERVICE/environ | grep -q . && echo ESCAPED`,
	"root of the service":                `ls /proc/$SERVICE/root/ | grep -q . && echo ESCAPED`,
	"files of the service":               `ls -l /proc/$SERVICE/fd/ | grep -q -e '->' && echo ESCAPED`,
	"memory of the service":              `: >> /proc/$SERVICE/mem && echo ESCAPED`,
	"signal to a process outside":        `kill -CONT $VICTIM && echo ESCAPED`,
	"a port of this machine":             `timeout 5 bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT" && echo ESCAPED`,
	"a datagram to this machine":         `perl -MSocket -e 'socket(S,AF_INET,SOCK_DGRAM,0) || exit; send(S,"x",0,sockaddr_in($ENV{UDP},inet_aton("127.0.0.1"))) || exit; alarm 3; recv(S,$b,9,0); print "ESCAPED" if length $b'`,
	"a socket that is a file":            `perl -MSocket -e 'socket(S,AF_UNIX,SOCK_STREAM,0) && connect(S,sockaddr_un($ENV{SOCKET})) && print "ESCAPED"'`,
	"a socket with a name of its own":    `perl -MSocket -e 'socket(S,AF_UNIX,SOCK_STREAM,0) && connect(S,sockaddr_un("\0$ENV{ABSTRACT}")) && print "ESCAPED"'`,
	"a socket for packets":               `perl -MSocket -e 'socket(S,17,SOCK_RAW,0) && print "ESCAPED"'`,
	"a namespace of its own":             `unshare --user --map-root-user true && echo ESCAPED`,
	"a mount":                            `mkdir m && unshare --mount sh -c 'mount -t tmpfs none m' && echo ESCAPED`,
	"requests that no filter sees":       `perl -e '$p="\0"x120; print "ESCAPED" if syscall(425,8,$p)>=0'`,
	"a key ring":                         `perl -e 'print "ESCAPED" if syscall($ENV{SYS_KEYCTL},0,-3,1)>=0'`,
	"a new device":                       `mknod d c 1 3 && echo ESCAPED`,
	"programs that are given privileges": `cp "$(command -v id)" i && chown root i && chmod u+s i && test "$(grep -c 'CapEff:.*[1-9a-f]' /proc/self/status)" = 1 && echo ESCAPED`,
}

// surroundings are what is outside of a sandbox under test.
type surroundings struct {
	base, workspace, outside string
	env                      []string
	// shown are directories that commands may read.
	shown []string
	// before is what was known of the files outside.
	before string
}

// Escape tries to get out of sandboxes of a backend, and to leave something behind, and prints a table. The backend
// must isolate: host would let everything through.
func Escape(t *testing.T, b sandbox.Backend, without ...Without) {
	Need(t, b)
	b = declared{Backend: b, without: without}
	var table outcome
	tries := maps.Clone(waysOut)
	maps.Copy(tries, changed)
	for name, program := range named {
		tries["call "+name] = "perl -e '" + perl + program + "'"
	}
	t.Run("ways out", func(t *testing.T) {
		for name, script := range tries {
			t.Run("SBX-18 "+name, func(t *testing.T) {
				t.Parallel()
				breakOut(t, b, &table, name, script, false)
			})
		}
	})
	t.Run("ways to the station", func(t *testing.T) {
		if !promises(b, sandbox.IsolationStation) {
			untested(t, "the station's listeners: sandbox mode %s does not keep commands with an open network from them, and says so", b.Mode())
		}
		for name, script := range listeners {
			t.Run("SBX-18 "+name, func(t *testing.T) {
				t.Parallel()
				breakOut(t, b, &table, "station, "+name, script, true)
			})
		}
	})
	t.Run("SBX-15 objects that outlive their maker", func(t *testing.T) {
		wants(t, b, Processes)
		left(t, b, &table)
	})
	defer func() { table.print(t, b.Mode()) }()
	t.Run("bombs", func(t *testing.T) {
		wants(t, b, Processes)
		bombs(t, b, &table)
	})
}

// breakOut runs a script that wants to get out, on the host and in a sandbox.
func breakOut(t *testing.T, b sandbox.Backend, table *outcome, name, script string, network bool) {
	in := surround(t, b, script)
	if got := in.attempt(t, host.New(""), true, script); !strings.Contains(got, escaped) {
		table.add(name, "not tried: it is closed on this machine anyway")
		t.Logf("NOT TESTED: the way is closed without a sandbox too: %q", got)
		return
	}
	in = surround(t, b, script)
	got := in.attempt(t, b, network, script)
	in.check(t)
	if strings.Contains(got, escaped) {
		table.add(name, escaped)
		t.Errorf("got out: %q", got)
		return
	}
	table.add(name, "held")
}

// left makes objects that outlive their maker, on the host and in a sandbox.
func left(t *testing.T, b sandbox.Backend, table *outcome) {
	const name = "objects of System V, and queues"
	in := surround(t, b, leaving)
	key := os.Getpid()<<8 | 0xff
	in.env = append(in.env, fmt.Sprintf("OBJECTS=%d", key))
	in.attempt(t, host.New(""), true, leaving)
	if objects(t, key) == 0 {
		table.add(name, "not tried: it is closed on this machine anyway")
		untested(t, "objects that outlive their maker: there are none here")
	}
	in.attempt(t, b, false, leaving)
	if n := objects(t, key); n > 0 {
		table.add(name, "LEFT SOMETHING")
		t.Errorf("%d objects outlive their call", n)
		return
	}
	table.add(name, "nothing left")
}

// surround makes what is outside of a sandbox. The sandbox of another run is there for a script that names it.
func surround(t *testing.T, b sandbox.Backend, script string) surroundings {
	t.Helper()
	base := t.TempDir()
	s := surroundings{base: base, workspace: base + "/ws", outside: base + "/outside"}
	for _, dir := range []string{s.workspace, s.outside, base + "/other", base + "/shown"} {
		must(t, os.Mkdir(dir, 0o755))
	}
	must(t, os.WriteFile(s.outside+"/secret", []byte(secretText), 0o644))
	must(t, os.WriteFile(s.outside+"/doomed", []byte("x"), 0o644))
	must(t, os.WriteFile(base+"/shown/file", []byte("shown"), 0o644))
	if strings.Contains(script, "SHOWN") && !away(b) {
		s.shown = []string{base + "/shown"}
	}
	s.before = s.known(t)
	private := base + "/none"
	if strings.Contains(script, "$OTHER") {
		other, err := b.Open(t.Context(), sandbox.Config{ID: "other", Workspace: base + "/other"})
		must(t, err)
		t.Cleanup(func() { must(t, other.Destroy(context.Background())) })
		must(t, other.WriteFile("file", []byte("other")))
		private = otherHome(t, b, other)
	}
	// A short path: the name of a socket has at most 107 bytes.
	short, err := os.MkdirTemp("", "esc")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(short)) })
	abstract := "inspan-" + filepath.Base(short)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_, port, err := net.SplitHostPort(tcp.Addr().String())
	must(t, err)
	file, err := net.Listen("unix", short+"/s")
	must(t, err)
	named, err := net.Listen("unix", "@"+abstract)
	must(t, err)
	for _, l := range []net.Listener{tcp, file, named} {
		t.Cleanup(func() { _ = l.Close() })
	}
	datagrams, err := net.ListenPacket("unixgram", short+"/d")
	must(t, err)
	t.Cleanup(func() { _ = datagrams.Close() })
	victim := 0
	if strings.Contains(script, "VICTIM") {
		sleep := exec.CommandContext(t.Context(), "sleep", "6000")
		apart(sleep)
		must(t, sleep.Start())
		t.Cleanup(func() { _, _ = sleep.Process.Kill(), sleep.Wait() })
		victim = sleep.Process.Pid
	}
	s.env = []string{"SECRET=" + s.outside + "/secret", "OUTSIDE=" + s.outside, "OTHER=" + base + "/other",
		"OTHERHOME=" + private,
		fmt.Sprintf("SERVICE=%d", os.Getpid()), fmt.Sprintf("VICTIM=%d", victim), "PORT=" + port,
		"UDP=" + echo(t), "SOCKET=" + short + "/s", "ABSTRACT=" + abstract,
		"DATAGRAMS=" + short + "/d", "SHOWN=" + base + "/shown/file", "ADDRESS4=" + also(t, port)}
	s.env = append(s.env, numbers()...)
	if strings.Contains(script, "ADDRESS}") {
		s.env = append(s.env, "ADDRESS="+memory(t, victim))
	}
	if strings.Contains(script, "OBJECT}") {
		s.env = append(s.env, "OBJECT="+object(t))
	}
	return s
}

// echo answers datagrams until the test ends, and returns its port.
func echo(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		buf := make([]byte, 16)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(buf[:n], from) // who does not hear it has not got out
		}
	})
	t.Cleanup(func() {
		_ = conn.Close()
		running.Wait()
	})
	_, port, err := net.SplitHostPort(conn.LocalAddr().String())
	must(t, err)
	return port
}

// otherHome finds the private home of a sandbox on the machine: by a file that a command of it leaves there.
func otherHome(t *testing.T, b sandbox.Backend, sb sandbox.Sandbox) string {
	t.Helper()
	exit, err := sb.Exec(within(t), sandbox.Cmd{Args: []string{"sh", "-c",
		`touch "$HOME/here-$$" && echo here-$$ > name`}})
	if err != nil || exit.Code != 0 {
		t.Fatalf("got %+v, %v", exit, err)
	}
	name, err := sb.ReadFile("name")
	must(t, err)
	if away(b) { // it is on the other machine, where this one has nothing of that name
		return filepath.Join(filepath.Dir(sandbox.Seen(sb)), "home")
	}
	found, err := filepath.Glob(os.TempDir() + "/inspan-box-*/home/" + strings.TrimSpace(string(name)))
	must(t, err)
	if len(found) == 0 {
		t.Fatal("the private home is not found")
	}
	return filepath.Dir(found[0])
}

// attempt runs a script in a sandbox and returns what it says.
func (s surroundings) attempt(t *testing.T, b sandbox.Backend, network bool, script string) string {
	t.Helper()
	sb, err := b.Open(t.Context(), sandbox.Config{ID: "escape", Workspace: s.workspace, Env: s.env, Network: network,
		ReadOnly: s.shown, Closed: s.closed(b, network)})
	must(t, err)
	defer func() { must(t, sb.Destroy(context.Background())) }()
	var out safe
	if _, err := sb.Exec(within(t), sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: &out,
		Stderr: &out}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// closed asks for the station's listeners to be closed where the network is open and the backend does so.
func (s surroundings) closed(b sandbox.Backend, network bool) func(netip.AddrPort) bool {
	if !network || !promises(b, sandbox.IsolationStation) {
		return nil
	}
	return func(netip.AddrPort) bool { return false }
}

// check sees that the outside is as it was.
func (s surroundings) check(t *testing.T) {
	t.Helper()
	list, err := os.ReadDir(s.outside)
	if data, rerr := os.ReadFile(s.outside + "/secret"); err != nil || rerr != nil || len(list) != 2 ||
		string(data) != secretText {
		t.Errorf("outside: %v, %v, %v, %q", list, err, rerr, data)
	}
	if now := s.known(t); now != s.before {
		t.Errorf("what is known of the outside was changed: %s, before %s", now, s.before)
	}
}

// known is what is known of the files outside besides what is in them.
func (s surroundings) known(t *testing.T) string {
	t.Helper()
	var all []string
	for _, path := range []string{s.outside, s.outside + "/secret", s.base + "/shown/file"} {
		info, err := os.Stat(path)
		must(t, err)
		changed := info.ModTime()
		if info.IsDir() {
			changed = time.Time{} // a file that was removed changes it
		}
		all = append(all, info.Name()+" "+info.Mode().String()+" "+changed.String())
	}
	return strings.Join(all, ", ")
}

// also listens at a port of other addresses of this machine, as far as it has them, and returns one that is not a
// loopback.
func also(t *testing.T, port string) string {
	t.Helper()
	own := "127.0.0.1"
	addresses, err := net.InterfaceAddrs()
	must(t, err)
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			own = n.IP.String()
		}
	}
	for _, at := range []string{"127.0.0.9", "::1", own} {
		if l, err := net.Listen("tcp", net.JoinHostPort(at, port)); err == nil {
			t.Cleanup(func() { _ = l.Close() })
		}
	}
	return own
}

// bombs use up what they can; they have to end, and all they started with them.
func bombs(t *testing.T, b sandbox.Backend, table *outcome) {
	for name, c := range map[string]struct {
		limits sandbox.Limits
		script string
		// want is the error, nil where the kernel ends it or the context does.
		want error
	}{
		"fork bomb":   {sandbox.Limits{PIDs: 64}, `exec 9>leash; bomb() { bomb | bomb & }; bomb; sleep 600`, nil},
		"memory bomb": {sandbox.Limits{Memory: 64 << 20}, `exec 9>leash; tail /dev/zero; sleep 600`, nil},
		"disk filler": {sandbox.Limits{Disk: 32 << 20},
			`exec 9>leash; while :; do i=$((i+1)); head -c 1m /dev/zero > f$i; done`, sandbox.ErrDisk},
		"one large file":   {sandbox.Limits{Disk: 32 << 20}, `exec 9>leash; head -c 1G /dev/zero > f; sleep 600`, nil},
		"life without end": {sandbox.Limits{Wall: time.Second}, `exec 9>leash; sleep 600`, sandbox.ErrLifetime},
		"daemon":           {sandbox.Limits{}, families["daemon"], nil},
		"nameless daemon": {sandbox.Limits{},
			`exec 9>leash; (env -i setsid sh -c '(env -i setsid sleep 600 &)' &); sleep 600`, nil},
		"daemons for ever": {sandbox.Limits{PIDs: 64},
			`exec 9>leash; while :; do (env -i setsid sh -c 'sleep 600 & sleep 600' &); done`, nil},
		"deaf process tree": {sandbox.Limits{}, families["deaf to polite signals"], nil},
	} {
		t.Run("SBX-15 "+name, func(t *testing.T) {
			ws := t.TempDir()
			sb, err := b.Open(t.Context(), sandbox.Config{ID: "bomb", Workspace: ws, Limits: c.limits})
			if errors.Is(err, sandbox.ErrNotEnforced) {
				table.add(name, "refused: its limit cannot be kept")
				return
			}
			must(t, err)
			_, _ = sb.Exec(within(t), sandbox.Cmd{Args: []string{"true"}}) // some start something with their first command
			l := newLeash(t, b, workdir{sandbox: sb, workspace: ws})
			// What ends by itself may take as long as its backend needs to start.
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			if c.want != nil {
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), patience)
			}
			defer cancel()
			_, err = sb.Exec(ctx, sandbox.Cmd{Args: []string{"sh", "-c", c.script}})
			if c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			left := l.alive()
			must(t, sb.Destroy(within(t)))
			if left && !l.alive() && !promises(b, sandbox.IsolationTree) {
				table.add(name, "ended with the sandbox, as is declared")
				return
			}
			if left || l.alive() {
				table.add(name, "LEFT SOMETHING")
				t.Error("a process outlives its command")
				return
			}
			if info, err := os.Stat(ws + "/f"); err == nil && info.Size() > 33<<20 {
				t.Errorf("a file of %d bytes", info.Size())
			}
			table.add(name, "ended, nothing left")
		})
	}
}

// promises reports whether a backend says that it enforces a wall.
func promises(b sandbox.Backend, isolation sandbox.Isolation) bool {
	return slices.ContainsFunc(b.Capabilities(), func(c sandbox.Capability) bool {
		return c.Isolation == isolation &&
			c.Enforced
	})
}

// outcome collects the rows of the table.
type outcome struct {
	mu   sync.Mutex
	rows map[string]string
}

func (o *outcome) add(name, what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rows == nil {
		o.rows = map[string]string{}
	}
	o.rows[name] = what
}
