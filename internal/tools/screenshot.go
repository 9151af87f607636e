package tools

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

const screenshotSchema = `{"type":"object","additionalProperties":false,"properties":{
"url":{"type":"string","minLength":8,"maxLength":4096,"description":"full URL that begins with http:// or https://"},
"path":{"type":"string","minLength":1,"maxLength":1024,"description":"file of the workspace, instead of url"},
"width":{"type":"integer","minimum":16,"maximum":4000,"description":"pixels of the window, 1280 if absent"},
"height":{"type":"integer","minimum":16,"maximum":4000,"description":"pixels of the window, 800 if absent"},
"wait_ms":{"type":"integer","minimum":0,"maximum":20000,"description":"how long the timers of the page may run, 2000 if absent"},
"save_as":{"type":"string","minLength":1,"maxLength":1024,"description":"png file in the workspace, screenshot.png if absent"}}}`

// Limits of screenshot.
const (
	screenshotTimeout = time.Minute
	// maxShot is the most bytes of a picture that are taken from the browser.
	maxShot = 20 << 20
)

type screenshotArgs struct {
	URL, Path     string
	Width, Height int
	WaitMS        *int   `json:"wait_ms"`
	SaveAs        string `json:"save_as"`
}

// screenshot runs a browser in the sandbox of the call: it reaches what commands there reach, and nothing else.
type screenshot struct{ builtin[screenshotArgs] }

var _ tool.Continuing = screenshot{}

// Continues implements tool.Continuing: the browser is where the servers are that the step started in the background.
func (screenshot) Continues(json.RawMessage) (handle string, ok bool) { return "", true }

// browse takes a picture of "$1" and writes it to standard output. Its own sandbox is off because it would want
// privileges that the sandbox around it has taken away; what it would send to its maker is off, too.
//
// A sandbox may lack the settings of the machine, which the wrapper of a distribution reads: the program comes first.
const browse = `for b in chrome-headless-shell /usr/lib/chromium/chromium chromium chromium-browser google-chrome \
	google-chrome-stable; do
	command -v "$b" >/dev/null 2>&1 && break
	b=
done
[ -n "$b" ] || exit 127
d=$(mktemp -d) || exit 126
trap 'rm -rf "$d"' EXIT
"$b" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-first-run \
	--no-default-browser-check --disable-background-networking --disable-component-update --disable-sync \
	--disable-extensions --disable-domain-reliability --disable-breakpad --disable-crash-reporter \
	--disable-features=OptimizationHints,MediaRouter,Translate,AutofillServerCommunication \
	${HTTP_PROXY:+--proxy-server="$HTTP_PROXY"} --user-data-dir="$d/profile" --window-size="$2" \
	--virtual-time-budget="$3" --screenshot="$d/shot.png" "$1" >/dev/null
[ -s "$d/shot.png" ] || exit 1
cat "$d/shot.png"`

// noBrowser is the exit code of a shell that found no program.
const noBrowser = 127

func takeScreenshot(ctx context.Context, a screenshotArgs, env tool.Env) (tool.Result, error) {
	target, err := pageOf(a, env)
	if err != nil {
		return tool.Result{}, err
	}
	if m := env.Sandbox.Mode(); m == sandbox.Landlock || m == sandbox.WASM { // no Unix sockets, no programs
		return tool.Result{}, tool.Fail(tool.Permanent,
			"the owner of the agent can set sandbox.mode to bwrap, or to a container whose image has chromium",
			fmt.Errorf("no browser runs in the sandbox %s", m))
	}
	if a.Path != "" {
		if _, err := env.Sandbox.Stat(a.Path); err != nil {
			return fileError("screenshot", a.Path, err)
		}
	}
	data, refused, err := browser(ctx, a, target, env)
	if err != nil || refused != "" {
		return failed("screenshot: %s", refused), err
	}
	to := cmp.Or(a.SaveAs, "screenshot.png")
	if err := env.Sandbox.WriteFile(to, data); err != nil {
		return fileError("screenshot", to, err)
	}
	return shown(ctx, to, data, env)
}

// pageOf returns what the browser is told to open.
func pageOf(a screenshotArgs, env tool.Env) (string, error) {
	if (a.URL == "") == (a.Path == "") {
		return "", tool.Fail(tool.Invalid, "give one of url and path", errors.New("there must be one page"))
	}
	if a.Path != "" {
		return "./" + path.Clean(a.Path), nil
	}
	at, err := webAddress(a.URL, "write it as https://host/path, or give the path of a file")
	if err != nil {
		return "", err
	}
	ip := net.ParseIP(at.Hostname())
	if env.Fetch == nil && at.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", noNetwork()
	}
	return at.String(), nil
}

// browser returns the picture, or why there is none.
func browser(ctx context.Context, a screenshotArgs, target string,
	env tool.Env) (png []byte, refused string, err error) {
	wait := 2000
	if a.WaitMS != nil {
		wait = *a.WaitMS
	}
	size := fmt.Sprintf("%d,%d", cmp.Or(a.Width, 1280), cmp.Or(a.Height, 800))
	stdout := &bounded{most: maxShot}
	stderr := &capture{env: tool.Env{Progress: func(string, []byte) {}}}
	exit, err := env.Sandbox.Exec(ctx, sandbox.Cmd{AnyProgram: true, Stdout: stdout, Stderr: stderr,
		Args: []string{"sh", "-c", browse, "sh", target, size, strconv.Itoa(wait)}})
	switch {
	case ctx.Err() != nil && (err != nil || exit.Signal != "" || exit.Code == killed):
		return nil, "", ctx.Err()
	case errors.Is(err, sandbox.ErrLost):
		return nil, "", tool.Fail(tool.Transient, "try again", fmt.Errorf("run the browser: %w", err))
	case err != nil:
		return nil, "", tool.Fail(tool.Permanent, "inspan doctor lists what this machine can run",
			fmt.Errorf("run the browser: %w", err))
	case exit.Code == noBrowser:
		return nil, "", tool.Fail(tool.Permanent, "the owner of the station can install chromium where the tools run",
			errors.New("there is no browser in the sandbox"))
	case exit.Code != 0 || exit.Signal != "":
		return nil, loadError(stderr.text()), nil
	case stdout.over:
		return nil, fmt.Sprintf("the picture has more than %d MiB; choose a smaller window", maxShot>>20), nil
	}
	return stdout.kept.Bytes(), "", nil
}

// loadError finds in what a browser says why it could not load a page.
func loadError(text string) string {
	if _, code, ok := strings.Cut(text, "Page load failed: "); ok {
		code, _, _ = strings.Cut(code, "\n")
		return "the page could not be loaded: " + code
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return "the browser took no picture: " + lines[len(lines)-1]
}

// shown saves a picture as an artifact and shows it.
func shown(ctx context.Context, to string, data []byte, env tool.Env) (tool.Result, error) {
	r := readImage(to, data)
	if r.Failed {
		r = tool.Result{Output: fmt.Sprintf("%s: %d bytes, which is too large to be shown to you", oneLine(to), len(data))}
	}
	if env.Save == nil {
		r.Output += "\nThis station stores no artifacts: the file is in the workspace."
		return r, nil
	}
	kept, err := env.Save(ctx, tool.Saving{Path: to, Type: events.ArtifactScreenshot})
	if tool.ClassOf(err) == tool.Invalid && err != nil {
		r.Output += "\nIt is not saved as an artifact: " + tool.Visible(errors.Unwrap(err).Error())
		return r, nil
	}
	if err != nil {
		return tool.Result{}, err
	}
	r.Output += fmt.Sprintf("\nsaved as artifact %s (%s)", tool.Visible(kept.Name), kept.Type)
	return r, nil
}

// bounded keeps the first bytes of a stream.
type bounded struct {
	kept bytes.Buffer
	most int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.most-b.kept.Len())
	b.over = b.over || n < len(p)
	b.kept.Write(p[:n])
	return len(p), nil
}
