package tools

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/inspan/inspan/pkg/tool"
)

const gitPrepareSchema = `{"type":"object","additionalProperties":false,"properties":{
"url":{"type":"string","minLength":1,"maxLength":2048,"description":"repository, https:// or ssh:// or user@host:path; without it the repository of the workspace is used"},
"branch":{"type":"string","minLength":1,"maxLength":200,"description":"branch to check out; the remote's default branch if branch and ref are absent"},
"ref":{"type":"string","minLength":1,"maxLength":200,"description":"branch, tag, commit, or a ref such as pull/123/head; takes precedence over branch"},
"depth":{"type":"integer","minimum":1,"maximum":1000000,"description":"number of commits of history to fetch; all if absent"},
"working_branch":{"type":"string","minLength":1,"maxLength":200,"description":"shared line of work; created from what is checked out if it does not exist"},
"new_branch":{"type":"string","minLength":1,"maxLength":200,"description":"branch of your own to create from it and check out; an existing one is checked out unchanged"},
"begin":{"type":"string","pattern":"^([0-9a-f]{40}|[0-9a-f]{64})$","description":"full id of the commit at which new_branch is created"},
"sync":{"type":"boolean","description":"move new_branch on to what is checked out where that has all of it already"},
"sides":{"type":"array","minItems":1,"maxItems":64,"items":{"type":"string","minLength":1,"maxLength":200},"description":"branches that you want to merge: the result has their commits, which git_merge needs"}}}`

const gitCommitSchema = `{"type":"object","additionalProperties":false,"required":["message"],"properties":{
"message":{"type":"string","minLength":1,"maxLength":65536,"description":"what changed and why"}}}`

const gitPushSchema = `{"type":"object","additionalProperties":false,"required":["branch","commit"],"properties":{
"branch":{"type":"string","minLength":1,"maxLength":200,"description":"local branch"},
"commit":{"type":"string","pattern":"^([0-9a-f]{40}|[0-9a-f]{64})$","description":"full id of the current commit of the branch, as returned by git_commit"},
"url":{"type":"string","minLength":1,"maxLength":2048,"description":"remote repository; the repository of the task if absent"},
"to":{"type":"string","minLength":1,"maxLength":200,"description":"name of the branch at the remote; the same name if absent"}}}`

const gitMergeSchema = `{"type":"object","additionalProperties":false,"required":["from"],"properties":{
"from":{"type":"array","minItems":1,"maxItems":64,"items":{"type":"string","minLength":1,"maxLength":200},"description":"branches to merge: local, published, or of the remote"},
"into":{"type":"string","minLength":1,"maxLength":200,"description":"branch to merge into and check out; the current one if absent"},
"onto":{"type":"string","pattern":"^(none|[0-9a-f]{40}|[0-9a-f]{64})$","description":"full id of the current commit of the branch merged into; none before its first commit"},
"commits":{"type":"array","minItems":1,"maxItems":64,"items":{"type":"string","pattern":"^([0-9a-f]{40}|[0-9a-f]{64})$"},"description":"full id of the current commit of each branch of from, in the same order; if one has moved since, nothing is merged"},
"message":{"type":"string","minLength":1,"maxLength":65536,"description":"message of the merges"}}}`

const gitPublishSchema = `{"type":"object","additionalProperties":false,"required":["branch"],"properties":{
"branch":{"type":"string","minLength":1,"maxLength":200,"description":"local branch"}}}`

const gitBranchSchema = `{"type":"object","additionalProperties":false,"required":["task"],"properties":{
"task":{"type":"string","minLength":1,"maxLength":200,"description":"what the work is about, in a few words"}}}`

const gitReviewSchema = `{"type":"object","additionalProperties":false,"required":["how","branch","commit","target"],"properties":{
"how":{"type":"string","enum":["github","gitlab"],"description":"what the repository is at"},
"branch":{"type":"string","minLength":1,"maxLength":200,"description":"branch at the remote that is to be reviewed"},
"commit":{"type":"string","pattern":"^([0-9a-f]{40}|[0-9a-f]{64})$","description":"full id of the commit that the branch has there"},
"target":{"type":"string","minLength":1,"maxLength":200,"description":"branch that it is to go to"},
"url":{"type":"string","minLength":1,"maxLength":2048,"description":"repository; that of the task if absent"},
"title":{"type":"string","minLength":1,"maxLength":256,"description":"one line"},
"body":{"type":"string","maxLength":8192,"description":"what the change does"}}}`

const gitRemoveSchema = `{"type":"object","additionalProperties":false,"required":["branch","commit","into"],"properties":{
"branch":{"type":"string","minLength":1,"maxLength":200,"description":"branch of the remote that is to go"},
"commit":{"type":"string","pattern":"^([0-9a-f]{40}|[0-9a-f]{64})$","description":"full id of the commit that it is at there"},
"into":{"type":"string","minLength":1,"maxLength":200,"description":"branch of the remote that has its changes"},
"url":{"type":"string","minLength":1,"maxLength":2048,"description":"repository; that of the task if absent"}}}`

// gitTime is how long git work may take: a remote may be far and large.
const gitTime = 15 * time.Minute

// gitWork is a tool whose work is done by the toolrunner itself, outside of the sandbox.
func gitWork(name string, effect tool.Effect, schema string) builtin[json.RawMessage] {
	return define(name, effect, gitTime, schema,
		func(ctx context.Context, input json.RawMessage, env tool.Env) (tool.Result, error) {
			if env.Git == nil {
				return tool.Result{}, noGit()
			}
			out, err := env.Git.Do(ctx, name, input)
			if err != nil {
				return tool.Result{}, err
			}
			return tool.Show(env, string(out)), nil
		})
}

func noGit() error {
	return tool.Fail(tool.Permanent,
		"an operator must install git 2.38 or newer on the machine of the toolrunner; inspan doctor shows details",
		errors.New("this toolrunner does not support git work"))
}

// gitShown is git work that a person can see before it is done.
type gitShown struct{ builtin[json.RawMessage] }

var _ tool.Previewer = gitShown{}

// Preview implements tool.Previewer.
func (g gitShown) Preview(ctx context.Context, input json.RawMessage, see tool.View) (string, error) {
	if see.Git == nil {
		return "", noGit()
	}
	return see.Git(ctx, g.spec.Name, input)
}

// gitPush asks the remote what it has if an earlier attempt was lost.
type gitPush struct{ gitShown }

var _ tool.Verifier = gitPush{}

// Verify implements tool.Verifier.
func (gitPush) Verify(ctx context.Context, c tool.Call) (bool, tool.Result, error) {
	return gitDone(ctx, "git_push", c)
}

// gitReview asks the forge what it has if an earlier attempt was lost.
type gitReview struct{ builtin[json.RawMessage] }

var _ tool.Verifier = gitReview{}

// Verify implements tool.Verifier.
func (gitReview) Verify(ctx context.Context, c tool.Call) (bool, tool.Result, error) {
	return gitDone(ctx, "git_review", c)
}

// gitDone is the result of git work that was done before, if it was.
func gitDone(ctx context.Context, name string, c tool.Call) (bool, tool.Result, error) {
	if c.Env.Git == nil {
		return false, tool.Result{}, noGit()
	}
	done, out, err := c.Env.Git.Done(ctx, name, c.Input)
	if err != nil || !done {
		return false, tool.Result{}, err
	}
	return true, tool.Show(c.Env, string(out)), nil
}
