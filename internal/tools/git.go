package tools

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/sandbox"
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

// maxFilters is the most filter drivers of a repository.
const maxFilters = 100

// still keeps git quiet: no pager, no lock, no hook, no monitor, no signature program, no colour, whoever owns the
// files.
var still = []string{"git", "--no-pager", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c",
	"core.hooksPath=/dev/null",
	"-c", "core.pager=cat", "-c", "diff.external=", "-c", "log.showSignature=false", "-c", "color.status=false", "-c",
	"safe.directory=*"}

// closed keeps git from the network and from programs named outside of the repository. No protocol is called "none".
var closed = []string{"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "GIT_EXTERNAL_DIFF=",
	"GIT_PAGER=cat",
	"GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1"}

// confined is closed, with the repository and its work tree kept to the workspace: neither a repository above it nor a
// work tree that its configuration names elsewhere is looked at.
func confined(env tool.Env) []string {
	ws := sandbox.Seen(env.Sandbox)
	return append(slices.Clone(closed), "GIT_CEILING_DIRECTORIES="+filepath.Dir(ws), "GIT_WORK_TREE="+ws)
}

// git runs git so that the configuration of a hostile repository cannot start programs and nothing is written.
func git(ctx context.Context, env tool.Env, args ...string) (tool.Result, error) {
	filters, err := withoutFilters(ctx, env)
	if err != nil {
		return tool.Result{}, err
	}
	return command(ctx, env, slices.Concat(still, args), slices.Concat(confined(env), filters))
}

// withoutFilters is an environment in which each filter driver that the configuration names does nothing. Git has no
// option for that, and would start them to compare a file. A file behind a filter may so look changed.
func withoutFilters(ctx context.Context, env tool.Env) ([]string, error) {
	var out bytes.Buffer
	exit, err := env.Sandbox.Exec(ctx, sandbox.Cmd{AnyProgram: true, Args: slices.Concat(still,
		[]string{"config", "--null", "--name-only", "--get-regexp", `^filter\.`}),
		Env: confined(env), Stdout: &out})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, tool.Fail(tool.Permanent, "inspan doctor lists what this machine can run", fmt.Errorf("run git: %w", err))
	case exit.Code != 0:
		return nil, nil // there is none; what else may be wrong the command itself will say
	}
	var drivers []string
	for key := range strings.SplitSeq(strings.TrimSuffix(out.String(), "\x00"), "\x00") {
		if end := strings.LastIndexByte(key, '.'); end > len("filter.") {
			drivers = append(drivers, key[:end])
		}
	}
	slices.Sort(drivers)
	drivers = slices.Compact(drivers)
	if len(drivers) > maxFilters {
		return nil, tool.Fail(tool.Denied, "use bash",
			fmt.Errorf("the repository's configuration names %d filters, the limit is %d", len(drivers), maxFilters))
	}
	var set []string
	n := 0
	for _, d := range drivers {
		for _, kv := range [][2]string{{"clean", ""}, {"smudge", ""}, {"process", ""}, {"required", "false"}} {
			set = append(set, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s.%s", n, d, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n,
				kv[1]))
			n++
		}
	}
	return append(set, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n)), nil
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
	args := []string{"log", "--no-color", "--no-ext-diff", "--no-textconv", "--date=iso-strict",
		"--pretty=format:%h %ad %an: %s", "-n", strconv.Itoa(limit)}
	return withTarget(ctx, env, args, a)
}

// withTarget adds a revision and a path that cannot be taken for options.
func withTarget(ctx context.Context, env tool.Env, args []string, a gitArgs) (tool.Result, error) {
	if strings.HasPrefix(a.Rev, "-") {
		return failed("a revision cannot begin with -"), nil
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
