// Package tools holds the built-in tools, each as x.go and x.md, the description that the model reads.
//
// Promises: a tool touches only the sandbox it is given; prometheus asks one server, which the station names, web_fetch
// those hosts that the agent's file allows, and the toolrunner does the work of the git_* tools that write
// (tool.Env.Git). What a tool shows is bounded; what it leaves out is noted, and stored in full in Result.Full up to a
// limit. Output is valid UTF-8 with control characters made visible. Arguments are already checked against the tool's
// schema when Run sees them; paths are refused outside of the workspace by the sandbox, whatever they look like.
package tools

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/tool"
)

//go:embed *.md
var texts embed.FS

// Builtin returns the built-in tools.
func Builtin() []tool.Tool {
	return append(append(delegation(), mail()...),
		define("read", tool.Read, 0, readSchema, read),
		write{define("write", tool.Idempotent, 0, writeSchema, writeFile)},
		edit{define("edit", tool.Reconcilable, 0, editSchema, editFile)},
		applyPatch{define("apply_patch", tool.Reconcilable, 0, applyPatchSchema, runPatch)},
		bash{define("bash", tool.Once, 0, bashSchema, runBash)},
		bashOutput{define("bash_output", tool.Read, 0, bashOutputSchema, runBashOutput)},
		killShell{define("kill_shell", tool.Idempotent, 0, killShellSchema, runKillShell)},
		define("skill", tool.Read, 0, skillSchema, readSkill),
		define("glob", tool.Read, 0, globSchema, globFiles),
		define("grep", tool.Read, 0, grepSchema, grepFiles),
		define("artifact_save", tool.Idempotent, 0, artifactSaveSchema, artifactSave),
		define("git_status", tool.Read, 0, gitStatusSchema, gitStatus),
		define("git_diff", tool.Read, 0, gitDiffSchema, gitDiff),
		define("git_log", tool.Read, 0, gitLogSchema, gitLog),
		gitWork("git_prepare", tool.Idempotent, gitPrepareSchema),
		gitWork("git_branch", tool.Idempotent, gitBranchSchema),
		gitShown{gitWork("git_commit", tool.Idempotent, gitCommitSchema)},
		gitWork("git_merge", tool.Idempotent, gitMergeSchema),
		gitPush{gitShown{gitWork("git_push", tool.Reconcilable, gitPushSchema)}},
		gitWork("git_remove", tool.Idempotent, gitRemoveSchema),
		gitReview{gitWork("git_review", tool.Reconcilable, gitReviewSchema)},
		gitWork("git_publish", tool.Idempotent, gitPublishSchema),
		define("secret_scan", tool.Read, 0, secretScanSchema, secretScan),
		define("web_fetch", tool.Read, 0, webFetchSchema, webFetch),
		screenshot{define("screenshot", tool.Idempotent, screenshotTimeout, screenshotSchema, takeScreenshot)},
	)
}

// builtin is a tool whose arguments decode into A.
type builtin[A any] struct {
	spec tool.Spec
	run  func(ctx context.Context, args A, env tool.Env) (tool.Result, error)
}

func define[A any](name string, effect tool.Effect, timeout time.Duration, schema string, run func(context.Context, A,
	tool.Env) (tool.Result, error)) builtin[A] {
	text, err := texts.ReadFile(name + ".md")
	if err != nil {
		panic(err) // the file is part of the program
	}
	return builtin[A]{tool.Spec{Name: name, Description: strings.TrimSpace(string(text)), Input: json.RawMessage(schema),
		Effect: effect, Timeout: timeout}, run}
}

// Spec implements tool.Tool.
func (b builtin[A]) Spec() tool.Spec { return b.spec }

// Run implements tool.Tool.
func (b builtin[A]) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	if err := ctx.Err(); err != nil {
		return tool.Result{}, err
	}
	args, err := decode[A](c.Input)
	if err != nil {
		return tool.Result{}, err
	}
	return b.run(ctx, args, c.Env)
}

func decode[A any](input json.RawMessage) (A, error) {
	var args A
	if err := json.Unmarshal(input, &args); err != nil {
		return args, tool.Fail(tool.Invalid, "fix the arguments and retry", err)
	}
	return args, nil
}

// oneLine is tool.Visible for a file name, which must not look like two lines.
func oneLine(name string) string {
	name = tool.Visible(name)
	if !strings.ContainsAny(name, "\n\r") {
		return name
	}
	return strings.NewReplacer("\n", "<U+000A>", "\r", "<U+000D>").Replace(name)
}

// fileError explains a failed file operation to the model: what the model can fix is a failed result, a refused path is
// an error.
func fileError(what, path string, err error) (tool.Result, error) {
	if own, ok := errors.AsType[*tool.Error](err); ok { // the sandbox could not be opened
		return tool.Result{}, fmt.Errorf("%s %q: %w", what, path, own)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return tool.Result{}, err
	case errors.Is(err, sandbox.ErrOutside):
		return tool.Result{}, tool.Fail(tool.Denied, "use a path inside the workspace", fmt.Errorf("%s %q: %w", what, path,
			sandbox.ErrOutside))
	case errors.Is(err, fs.ErrNotExist):
		return failed("%s: no such file %q; glob finds files by pattern", what, path), nil
	case errors.Is(err, sandbox.ErrTooLarge):
		return failed("%s: %q has more than %d MiB, too large to be read as a whole; use grep to find lines, or bash with sed -n or tail to show a part", what, path, sandbox.MaxReadFile>>20), nil
	case errors.Is(err, sandbox.ErrNotRegular):
		return failed("%s: %q is not a regular file but a pipe, a socket or a device", what, path), nil
	case errors.Is(err, syscall.EISDIR), errors.Is(err, fs.ErrExist):
		return failed("%s: %q is a folder; glob finds the files in it", what, path), nil
	case errors.Is(err, fs.ErrInvalid), errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrExist):
		return failed("%s %q: %v", what, path, err), nil
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return failed("%s %q: %v", what, path, pathErr.Err), nil
	}
	return tool.Result{}, tool.Fail(tool.Permanent, "", fmt.Errorf("%s %q: %w", what, path, err))
}

func failed(format string, args ...any) tool.Result {
	return tool.Result{Output: tool.Visible(fmt.Sprintf(format, args...)), Failed: true}
}
