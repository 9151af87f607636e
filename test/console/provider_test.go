//go:build slow

package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/gateway/oidc/oidctest"
)

// program is inspan up as a process, whose people sign in at a provider. The browser knows it as localhost: another site
// than that of the provider.
type program struct {
	t      *testing.T
	bin    string
	dir    string
	listen string
}

// do carries a command out at its station.
func (p *program) do(args ...string) []byte {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), p.bin, append(args, "--server", "nats://"+p.listen)...)
	cmd.Dir = p.dir
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		p.t.Errorf("inspan %s: %v\n%s%s", strings.Join(args, " "), err, out, problem.Bytes())
	}
	return out
}

// free is an address of this machine that no one listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestProvider has a person sign in at an identity provider, in a browser.
func TestProvider(t *testing.T) {
	provider := oidctest.New(t)
	p := &program{t: t, bin: filepath.Join(t.TempDir(), "inspan"), dir: t.TempDir(), listen: free(t)}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", p.bin, "../../cmd/inspan").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	writeFiles(t, p.dir)
	_, port, err := net.SplitHostPort(free(t))
	if err != nil {
		t.Fatal(err)
	}
	up := exec.CommandContext(t.Context(), p.bin, "up", "--listen", p.listen, "--http", "127.0.0.1:"+port, "--sandbox", "host",
		"--agents", "agents", "--scripts", "scripts", "--trust", "--accept-lazy-fsync")
	up.Dir = p.dir
	up.Env = append(os.Environ(), "INSPAN_SANDBOX_REACHES_STATION=true", "INSPAN_GATEWAY_OIDC_ISSUER="+provider.URL, "INSPAN_GATEWAY_OIDC_AUDIENCE=console",
		"INSPAN_GATEWAY_OIDC_CLAIM=groups", "INSPAN_GATEWAY_OIDC_GRANTS=engineers=runs:read+runs:write+gates:answer", "INSPAN_GATEWAY_OIDC_NAME=email",
		"INSPAN_GATEWAY_OIDC_NATS=true", "INSPAN_GATEWAY_OIDC_CLIENT=console", "INSPAN_GATEWAY_OIDC_SCOPES=openid,email",
		"INSPAN_GATEWAY_ORIGINS=http://localhost:"+port)
	log, err := os.Create(filepath.Join(t.TempDir(), "up"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	up.Stdout, up.Stderr = log, log
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- up.Wait() }()
	t.Cleanup(func() {
		_ = up.Process.Signal(syscall.SIGINT) // it may have ended
		<-ended
		if t.Failed() {
			said, _ := os.ReadFile(log.Name())
			t.Logf("inspan up: %s", said)
		}
	})
	for tick, limit := time.NewTicker(100*time.Millisecond), time.After(2*time.Minute); ; {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			c.Close()
			break
		}
		select {
		case <-tick.C:
		case err := <-ended:
			ended <- err
			t.Fatalf("inspan up ended: %v", err)
		case <-limit:
			t.Fatal("inspan up is not up after two minutes")
		}
	}
	provider.Register("console", "http://localhost:"+port+"/console/", func(client, nonce string) map[string]any {
		return map[string]any{"aud": client, "sub": "bob", "email": "bob@example.com", "groups": []string{"engineers"}, "nonce": nonce,
			"exp": time.Now().Add(time.Hour).Unix()}
	})
	w := &world{t: t}
	w.browse("provider", map[string]string{"URL": "http://localhost:" + port + "/console/"}, func(ask string) string {
		verb, id, _ := strings.Cut(ask, " ")
		switch verb {
		case "away", "back":
			provider.Away.Store(verb == "away")
			return verb
		case "start":
			var started struct {
				Run string `json:"run"`
			}
			if err := json.NewDecoder(bytes.NewReader(p.do("run", id, "make a file", "--detach", "--json"))).Decode(&started); err != nil {
				t.Error(err)
			}
			return started.Run
		case "gate":
			p.do("watch", id)
			for line := range bytes.Lines(p.do("export", id)) {
				_, payload, err := events.Read(bytes.TrimSpace(line))
				if d, ok := payload.(*events.GateApprovedData); ok && err == nil {
					return fmt.Sprintf("approved by %s, %s", d.By, d.Assurance)
				}
			}
			return "no answer"
		}
		t.Errorf("the script asks %q", ask)
		return ""
	})
}
