package tools_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/backends"
	"github.com/inspan/inspan/pkg/tool"
)

// browserDouble stands for a browser: it takes the same picture of every page, and cannot load those that are named so.
const browserDouble = `#!/bin/sh
for a; do case "$a" in --screenshot=*) to=${a#--screenshot=};; esac; done
case "$a" in
*refused*) echo "noise" >&2; echo "[1:2:ERROR:x.cc] Page load failed: net::ERR_CONNECTION_REFUSED" >&2; exit 0;;
*crash*) echo "Segmentation fault" >&2; exit 139;;
*large*) head -c 21000000 /dev/zero > "$to"; exit 0;;
esac
echo "$@" > asked.txt
printf '\211PNG\r\n\032\n' > "$to"
printf '\000\000\000\rIHDR\000\000\000\001\000\000\000\001\b\002\000\000\000\220wS\336' >> "$to"
printf '\000\000\000\fIDATx\234c\370\317\300\000\000\003\001\001\000\311\376\222\357' >> "$to"
printf '\000\000\000\000IEND\256B\140\202' >> "$to"
`

// looking is a bench whose sandbox finds only this browser, or none where it is empty.
func looking(t *testing.T, browser string) *bench {
	t.Helper()
	b := newBench(t)
	bin := t.TempDir()
	if browser != "" {
		if err := os.WriteFile(filepath.Join(bin, "chrome-headless-shell"), []byte(browser), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sh", "mktemp", "rm", "cat", "head"} {
		for _, dir := range []string{"/usr/bin", "/bin"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				_ = os.Symlink(filepath.Join(dir, name), filepath.Join(bin, name)) // the first one stays
			}
		}
	}
	backend, err := backends.Local("").Pick(t.Context(), sandbox.Host)
	if err != nil {
		t.Fatal(err)
	}
	sb, err := backend.Open(t.Context(), sandbox.Config{ID: "looking", Workspace: b.dir, Network: true,
		Env: []string{"PATH=" + bin}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	b.env.Sandbox = sb
	return b
}

// inMode is a sandbox that says that it is another.
type inMode struct {
	sandbox.Sandbox
	mode sandbox.Mode
}

func (m inMode) Mode() sandbox.Mode { return m.mode }

func TestScreenshot(t *testing.T) {
	t.Parallel()
	b := looking(t, browserDouble)
	b.put("page.html", "<h1>it</h1>")
	var saved []tool.Saving
	b.env.Save = func(_ context.Context, s tool.Saving) (tool.Saved, error) {
		saved = append(saved, s)
		return tool.Saved{Name: s.Path, Type: s.Type}, nil
	}
	t.Run("ART-15 a picture is shown, saved as a screenshot, and in the workspace", func(t *testing.T) {
		r := b.run("screenshot", args{"path": "page.html", "width": 300, "height": 200, "wait_ms": 0, "save_as": "a/b.png"})
		if r.Failed || len(r.Images) != 1 || r.Images[0].Width != 1 || len(saved) != 1 ||
			saved[0] != (tool.Saving{Path: "a/b.png", Type: "screenshot"}) {
			t.Fatalf("%+v %+v", r, saved)
		}
		got, err := os.ReadFile(filepath.Join(b.dir, "a/b.png"))
		if err != nil || string(got) != string(r.Images[0].Data) {
			t.Errorf("%v", err)
		}
		asked, err := os.ReadFile(filepath.Join(b.dir, "asked.txt"))
		if err != nil || !strings.HasSuffix(string(asked), " ./page.html\n") {
			t.Errorf("asked %q, %v", asked, err)
		}
		contains(t, string(asked), "--window-size=300,200 --virtual-time-budget=0 ")
	})
	t.Run("ART-15 what cannot be loaded says why", func(t *testing.T) {
		b.env.Fetch = func(*http.Request) (*http.Response, error) { return nil, errors.New("not asked") }
		defer func() { b.env.Fetch = nil }()
		b.bad("screenshot", args{"url": "http://refused.example/"}, "the page could not be loaded: net::ERR_CONNECTION_REFUSED")
		b.bad("screenshot", args{"url": "http://crash.example/"}, "the browser took no picture: Segmentation fault")
		b.bad("screenshot", args{"url": "http://large.example/"}, "more than 20 MiB")
		b.bad("screenshot", args{"path": "missing.html"}, "no such file")
	})
	t.Run("ART-15 SBX-13 what is no page, or is out of reach, is refused", func(t *testing.T) {
		for want, a := range map[string]args{
			"there must be one page":                    {},
			"must be one page":                          {"url": "http://localhost/", "path": "page.html"},
			"not an http or https address":              {"url": "file:///etc/passwd"},
			"is not an http or https address (write it": {"url": "--remote-debugging-port=1"},
			"a user name or password":                   {"url": "http://a:b@localhost/"},
			"no network access":                         {"url": "http://localhost.example/"},
			"this agent has no network access":          {"url": "http://93.184.215.14/"},
			"outside the workspace":                     {"path": "../page.html"},
		} {
			if r, err := b.try(t.Context(), "screenshot", a); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v %+v, want %q", a, err, r, want)
			}
		}
		for _, to := range []string{"../out.png", "/tmp/../../out.png"} {
			if r, err := b.try(t.Context(), "screenshot", args{"path": "page.html", "save_as": to}); tool.ClassOf(err) != tool.Denied {
				t.Errorf("%s: %v %+v", to, err, r)
			}
		}
	})
	t.Run("ART-15 SBX-20 in a sandbox that runs no browser it says which do", func(t *testing.T) {
		for _, m := range []sandbox.Mode{sandbox.Landlock, sandbox.WASM} {
			b := looking(t, browserDouble)
			b.put("page.html", "x")
			b.env.Sandbox = inMode{b.env.Sandbox, m}
			if _, err := b.try(t.Context(), "screenshot", args{"path": "page.html"}); tool.ClassOf(err) != tool.Permanent ||
				!strings.Contains(err.Error(), "set sandbox.mode to bwrap") {
				t.Errorf("%s: %v", m, err)
			}
		}
	})
	t.Run("ART-15 without a browser it says what is missing", func(t *testing.T) {
		if _, err := os.Stat("/usr/lib/chromium/chromium"); err == nil {
			t.Skip("NOT TESTED: this machine has a browser that PATH does not hide")
		}
		b := looking(t, "")
		b.put("page.html", "x")
		if _, err := b.try(t.Context(), "screenshot", args{"path": "page.html"}); tool.ClassOf(err) != tool.Permanent ||
			!strings.Contains(err.Error(), "install chromium") {
			t.Errorf("%v", err)
		}
	})
	t.Run("ART-15 a station without a store of artifacts keeps the picture in the workspace", func(t *testing.T) {
		b.env.Save = nil
		contains(t, b.good("screenshot", args{"path": "page.html"}), "1x1 pixels", "in the workspace")
	})
}
