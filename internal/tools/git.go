package tools

import (
	"context"
	"strconv"
	"strings"

	"github.com/inspan/inspan/pkg/tool"
)

const gitStatusSchema = `{"type":"object","additionalProperties":false,"properties":{}}`

const gitDiffSchema = `{"type":"object","additionalProperties":false,"properties":{
"staged":{"type":"boolean","description":"compare what is staged"},
"rev":{"type":"string","maxLength":256,"description":"commit, or range a..b, to compare with"},
"path":{"type":"string","maxLength":4096,"description":"only this file or folder"}}}`

const gitLogSchema = `{"type":"object","additionalProperties":false,"properties":{
"limit":{"type":"integer","minimum":1,"maximum":500,"description":"most commits, 20 if absent"},
"rev":{"type":"string","maxLength":256,"description":"where to begin, HEAD if absent"},
"path":{"type":"string","maxLength":4096,"description":"only commits that touch this file or folder"}}}`

type gitArgs struct {
	Staged bool
	Rev    string
	Path   string
	Limit  int
}

// git runs git so that the configuration of a hostile repository can not start programs and nothing is written.
func git(ctx context.Context, env tool.Env, args ...string) (tool.Result, error) {
	safe := []string{"git", "--no-pager", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
		"-c", "core.pager=cat", "-c", "diff.external=", "-c", "log.showSignature=false", "-c", "safe.directory=*"}
	return command(ctx, env, append(safe, args...), []string{"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "GIT_EXTERNAL_DIFF=", "GIT_PAGER=cat"})
}

func gitStatus(ctx context.Context, _ struct{}, env tool.Env) (tool.Result, error) {
	return git(ctx, env, "status", "--short", "--branch", "--ignore-submodules=all")
}

func gitDiff(ctx context.Context, a gitArgs, env tool.Env) (tool.Result, error) {
	args := []string{"diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all"}
	if a.Staged {
		args = append(args, "--cached")
	}
	return withTarget(ctx, env, args, a)
}

func gitLog(ctx context.Context, a gitArgs, env tool.Env) (tool.Result, error) {
	limit := a.Limit
	if limit == 0 {
		limit = 20
	}
	args := []string{"log", "--no-color", "--no-ext-diff", "--no-textconv", "--date=iso-strict", "--pretty=format:%h %ad %an: %s", "-n", strconv.Itoa(limit)}
	return withTarget(ctx, env, args, a)
}

// withTarget adds a revision and a path that can not be taken for options.
func withTarget(ctx context.Context, env tool.Env, args []string, a gitArgs) (tool.Result, error) {
	if strings.HasPrefix(a.Rev, "-") {
		return failed("a revision can not begin with -"), nil
	}
	if a.Rev != "" {
		args = append(args, a.Rev)
	}
	args = append(args, "--")
	if a.Path != "" {
		args = append(args, ":(literal)"+a.Path)
	}
	r, err := git(ctx, env, args...)
	if err == nil && !r.Failed && strings.HasPrefix(r.Output, "[exit status 0]") {
		r.Output = "(nothing)"
	}
	return r, err
}
